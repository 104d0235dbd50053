/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_PROC_H
#define GP_DAEMON_PROC_H
/*
 * A process with the shim. It joins its job at the hello, gets a link to its device's mover once it
 * has a context, and takes part in its job's preemptions (the step fields, owned by
 * daemon/preempt.c).
 */
#include "daemon/job.h"

enum gp_proc_step {
	GP_STEP_IDLE,
	GP_STEP_LOCKING,
	GP_STEP_LOCKED,
	GP_STEP_PROBING,
	GP_STEP_SAVING, /* until SAVE_DONE and every RELEASED */
	GP_STEP_RECREATING,
	GP_STEP_LOADING,
	GP_STEP_CONFIRMING,
	GP_STEP_SCRATCHING,
	GP_STEP_UNLOCKING,
};

struct gp_proc {
	struct gp_list node; /* job->procs */
	struct gp_job *job;
	struct gp_peer *peer;
	uint32_t id;
	pid_t pid;
	bool attached; /* has a context: wants a link whenever there is a mover */
	bool linked;
	bool known;  /* the mover at the other end of the link has its channel table */
	bool locked; /* between LOCKED and UNLOCKED */
	bool frozen; /* may have channels off the hardware: from FREEZE to THAWED */
	bool away;   /* was told to release extents that are not back yet */
	uint64_t movable_bytes, resident_bytes; /* each at most the device's total */
	uint32_t n_extents;
	/* An allocation was told to try again: its bytes are its own until it has them, or does
	 * not. */
	uint64_t granted_bytes, granted_from_bytes, granted_until_ns;
	uint32_t n_grants; /* of these bytes, one after the other, that were of no use */

	/* daemon/recover.c: what it said of itself, and whether it owes that. */
	struct gp_wire_resync resync;
	bool resynced; /* it was known to an earlier daemon, or was asked */
	bool asked;

	enum gp_proc_step step;
	bool save_done;			      /* the mover said so, or failed */
	uint64_t release_sent, release_acked; /* extents of this save */
	uint64_t released_bytes;	      /* of movable_bytes, not on the device now */
};

/* A shim said hello: finds or adopts its job. -EPERM or -ENOENT with the reason: not managed. */
gp_must_check int gp_proc_new(struct gp_peer *peer, const struct gp_wire_msg *hello,
			      struct gp_err *err);
/* What the process says of its memory, as far as it can be true. */
void gp_proc_set_movable(struct gp_proc *proc, uint64_t bytes);
struct gp_proc *gp_proc_find(const struct gp_job *job, uint32_t id);
void gp_proc_handle(struct gp_peer *peer, const struct gp_wire_msg *msg);
/* A device's mover is ready (again): gives every attached process a link to it. */
void gp_proc_link_all(struct gp_device *device);
/* The connection ended: so did the process, or it goes on without us. */
void gp_proc_gone(struct gp_proc *proc);

#endif
