/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_DAEMON_H
#define GP_DAEMON_DAEMON_H
/*
 * The owner of everything in gpupresd. All of it lives on the loop's thread, but for the
 * threads that write and read the database, which get and give copies.
 */
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "daemon/access.h"
#include "daemon/activation.h"
#include "daemon/loop.h"
#include "daemon/notify.h"
#include "daemon/quota.h"
#include "daemon/registry.h"

#include <limits.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct gp_backup;
struct gp_history;
struct gp_settings;
struct gp_store;

#define GP_MAX_DEVICES 64

enum gp_device_kind { GP_DEVICE_AUTO, GP_DEVICE_SOFT, GP_DEVICE_NVIDIA };

/* The values of the table in daemon/settings.c, which says what each is. */
struct gp_options {
	enum gp_device_kind device;
	uint32_t n_devices;
	const char *runtime_dir, *state_dir, *swap_dir; /* absolute */
	enum gp_log_level log_level;
	bool system;		  /* serves all users; else its own alone */
	const char *group;	  /* "" = none */
	const char *admins;	  /* for gp_config_next_name() */
	uint32_t max_priority;	  /* of the jobs of others than admins */
	const char *spawn_socket; /* of gpupres-spawn */
	struct gp_quota_limits quota;
	uint64_t arena_bytes, swap_bytes;
	uint32_t history_days, history_rows;
	uint64_t term_ns, orphan_grace_ns;
};

/* A listening socket. */
struct gp_listener {
	struct gp_source source;
	struct gp_timer pause; /* out of file descriptors: until some may be free */
	struct gp_daemon *daemon;
	bool is_shim; /* shim.sock: takes shims only */
};

struct gp_daemon {
	struct gp_loop loop;
	struct gp_options options;    /* reloaded by SIGHUP: look again at each use */
	struct gp_settings *settings; /* where they come from */
	char tree[PATH_MAX];	      /* root of our own tree */
	char driver[PATH_MAX];	      /* the libcuda.so.1 that shims and movers open */
	char soft_root[PATH_MAX]; /* folder of the software devices' folders; empty if just one */
	char boot_id[40];
	struct rlimit files; /* as we were started with: jobs get it back */
	int lock_fd;	     /* held as long as this daemon serves its runtime folder */
	uid_t uid;

	struct gp_activation activation; /* what the service manager passed, until it is taken */
	struct gp_notify notify;
	struct gp_listener control, shim;
	struct gp_source signals;
	struct gp_list peers;	  /* struct gp_peer */
	struct gp_list strangers; /* struct gp_peer without a hello, by age */
	struct gp_timer stranger_timer;
	struct gp_admins admins;    /* beside root */
	struct gp_quota quota;	    /* what is held for whom */
	struct gp_list spawn_calls; /* requests to gpupres-spawn; see daemon/spawner.h */
	struct gp_list dead_peers;  /* closed in this turn, freed at its end */
	struct gp_list jobs;	    /* struct gp_job, by id; see daemon/registry.h */
	struct gp_registry registry;
	struct gp_list devices; /* struct gp_device, by ordinal */
	struct gp_store *store;
	struct gp_history *history;
	struct gp_backup *backup;
	struct gp_list recalls; /* struct gp_recall */

	size_t held_bytes; /* of commands: see daemon/command.h */

	uint64_t next_job;
	uint32_t next_proc; /* see gp_store_take_proc_block */
	bool schedule_wanted;
	struct gp_timer schedule_timer;
	int exit_code;
};

/* Opens sockets, store and devices. @settings is loaded, and must outlive the daemon. */
gp_must_check int gp_daemon_init(struct gp_daemon *daemon, struct gp_settings *settings,
				 struct gp_err *err);
/*
 * Runs until told to stop by SIGTERM or SIGINT, or until no device can be served. SIGHUP reads the
 * configuration again.
 */
gp_must_check int gp_daemon_run(struct gp_daemon *daemon, struct gp_err *err);
/* A number that no process of this or an earlier daemon has. */
uint32_t gp_daemon_next_proc(struct gp_daemon *daemon);
/* Also after gp_daemon_init failed. What is stored of jobs stays as it is. */
void gp_daemon_fini(struct gp_daemon *daemon);

#endif
