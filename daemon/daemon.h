/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_DAEMON_H
#define GP_DAEMON_DAEMON_H
/*
 * The owner of everything in gpupresd. All of it lives on the loop's thread, but for the store's
 * writer thread, which gets copies.
 */
#include "base/err.h"
#include "base/list.h"
#include "daemon/access.h"
#include "daemon/loop.h"

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

struct gp_store;

enum gp_device_kind { GP_DEVICE_AUTO, GP_DEVICE_SOFT, GP_DEVICE_NVIDIA };

struct gp_options {
	enum gp_device_kind device;
	uint64_t arena_bytes, swap_bytes;
	const char *runtime_dir, *state_dir, *swap_dir; /* absolute */
	bool system;					/* serves all users; else its own alone */
	gid_t control_group;	  /* system: who may open the control socket */
	struct gp_admins admins;  /* system, beside root */
	int32_t max_priority;	  /* system: of the jobs of others than admins */
	const char *spawn_socket; /* system: of gpupres-spawn */
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
	struct gp_options options;
	char tree[PATH_MAX];   /* root of our own tree */
	char driver[PATH_MAX]; /* the libcuda.so.1 that shims and movers open */
	char boot_id[40];
	int lock_fd; /* held as long as this daemon serves its runtime folder */
	uid_t uid;

	struct gp_listener control, shim;
	struct gp_source signals;
	struct gp_list peers;	  /* struct gp_peer */
	struct gp_list strangers; /* struct gp_peer without a hello, by age */
	struct gp_timer stranger_timer;
	struct gp_list spawn_calls; /* requests to gpupres-spawn; see daemon/spawner.h */
	struct gp_list dead_peers;  /* closed in this turn, freed at its end */
	struct gp_list jobs;	    /* struct gp_job, by id */
	struct gp_list devices;	    /* struct gp_device, by ordinal */
	struct gp_store *store;

	uint64_t next_job;
	uint32_t next_proc;
	bool schedule_wanted;
	struct gp_timer schedule_timer;
	int exit_code;
};

/* Opens sockets, store and devices. @options and its strings must outlive the daemon. */
gp_must_check int gp_daemon_init(struct gp_daemon *daemon, const struct gp_options *options,
				 struct gp_err *err);
/* Runs until told to stop by SIGTERM, SIGINT or SIGHUP, or until a device cannot be brought up. */
gp_must_check int gp_daemon_run(struct gp_daemon *daemon, struct gp_err *err);
/* Also after gp_daemon_init failed. What is stored of jobs stays as it is. */
void gp_daemon_fini(struct gp_daemon *daemon);

#endif
