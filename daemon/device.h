/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_DEVICE_H
#define GP_DAEMON_DEVICE_H
/* One GPU: its mover process, its memory, and the allocations that wait for some. */
#include "daemon/job.h"
#include "daemon/proc.h"
#include "daemon/resync.h"

/* What a mover has of one process: as it said when it came, and since. */
struct gp_ledger {
	struct gp_list node; /* device->ledgers */
	uint64_t job;
	uint32_t proc;
	uint32_t n_extents; /* saved */
	bool linked;	    /* as it said when it came, or has saved by it since */
};

#define GP_MOVER_STATE_FDS 3 /* arena, ledger, swap file */

struct gp_device {
	struct gp_list node;
	struct gp_daemon *daemon;
	uint32_t ordinal;
	char name[GP_WIRE_NAME_BYTES];
	uint8_t uuid[GP_WIRE_UUID_BYTES]; /* once it was ready; all 0 = unknown */
	bool ready, was_ready;
	bool told; /* a mover has said what it is */
	bool off; /* not served: its mover cannot be brought up, or it is not among ours any more */

	pid_t mover_pid;
	int mover_pidfd;
	struct gp_source mover_source;
	struct gp_peer *mover;
	enum gp_resync_mover mover_fate;     /* of the one that serves, or came last */
	int mover_state[GP_MOVER_STATE_FDS]; /* what a successor inherits; -1 = none */
	struct gp_list ledgers;		     /* struct gp_ledger */
	struct gp_timer restart_timer;
	uint32_t n_restarts; /* since one was ready for a while */
	uint64_t ready_ns;   /* since when the mover serves; 0 = it does not */

	bool meminfo_pending;
	bool meminfo_stale; /* asked for before something changed: read again before deciding */
	bool meminfo_again; /* that is the second reading: decide, whatever changed since */
	uint64_t meminfo_asked_ns;
	uint64_t room_bytes; /* as of the last decision; daemon/schedule.c owns these */
	uint32_t n_jobs;
	uint64_t cursor; /* the queued job it looked at last, out of order */
	struct gp_wire_meminfo meminfo;
	struct gp_list needs; /* struct gp_need: allocations that wait */
};

/* An allocation of a running process that found too little memory. */
struct gp_need {
	struct gp_list node;
	struct gp_proc *proc;
	struct gp_wire_msg msg;
	uint64_t since_ns;
};

/* Makes the device and starts its mover. */
gp_must_check int gp_device_new(struct gp_daemon *daemon, uint32_t ordinal, struct gp_err *err);
void gp_device_free(struct gp_device *device);
/* Each is served, or it is known that it is not. */
bool gp_device_all_ready(const struct gp_daemon *daemon);
/* The first one that is served or may be soon: there is always one, or the daemon ends. */
struct gp_device *gp_device_first(const struct gp_daemon *daemon);
/* NULL if there is none of that number; -1 = none. */
struct gp_device *gp_device_find(const struct gp_daemon *daemon, int64_t ordinal);
/*
 * The device number @ordinal, for a job that was on it; one that is not served is made if need be:
 * the job waits there until a daemon has it again. NULL when out of memory.
 */
struct gp_device *gp_device_get(struct gp_daemon *daemon, uint32_t ordinal);
/* True once gp_device_used knows all of them that are served. */
bool gp_device_all_told(const struct gp_daemon *daemon);
/* The one that a process says it uses; NULL if it is none that is served. */
struct gp_device *gp_device_used(const struct gp_daemon *daemon, const struct gp_wire_attach *used);

/* A mover said hello; -EPERM if it is not the one we started. */
gp_must_check int gp_device_attach(struct gp_peer *peer, const struct gp_wire_msg *hello,
				   struct gp_err *err);
/* Takes what it keeps of @fds, and sets that to -1. */
void gp_device_handle(struct gp_peer *peer, const struct gp_wire_msg *msg, int *fds, size_t n_fds);
/* The file that the device's mover has locked as long as it lives. */
void gp_device_lock_path(const struct gp_device *device, char *buf, size_t buf_bytes);
/* NULL: the mover has nothing of it. */
struct gp_ledger *gp_device_ledger(const struct gp_device *device, uint32_t proc);
/* DROP: the saved bytes of a process are needed no more; UNLINK: nor is the process. */
void gp_device_drop(struct gp_device *device, uint64_t job, uint32_t proc, uint32_t type);
void gp_device_mover_gone(struct gp_device *device);
/* Sends to the mover; a device without one drops it (its jobs are failed when it goes). */
void gp_device_send(struct gp_device *device, const struct gp_wire_msg *msg, const int *fds,
		    size_t n_fds);
/* The process waits for no memory any more. */
void gp_device_forget_needs(struct gp_device *device, const struct gp_proc *proc);

#endif
