/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_RECOVER_H
#define GP_DAEMON_RECOVER_H
/*
 * A job that outlived its daemon or its mover. While it is being recovered (job->recovering) no
 * operation begins; what is left of it is collected:
 *
 *	the mover	ready, with its ledger
 *	processes	each says RESYNC, by itself when it meets a new daemon, else asked by STATE
 *	supervisor	comes back by itself
 *
 * and then gp_resync_decide() says what becomes of it. Who does not come within a grace is late;
 * late processes with saved memory are waited for without limit.
 */
#include "daemon/proc.h"

/* A process that has no connection to us: an earlier daemon knew it, or it lost ours. */
struct gp_lost {
	struct gp_list node; /* job->lost */
	struct gp_job *job;
	uint32_t proc;
	pid_t pid;		 /* 0 = not known */
	struct gp_source source; /* pidfd; -1 = none */
	bool runs;		 /* was not stopped when its connection ended: may be signalled */
	bool ended;
};

/*
 * @job is in a started state: as a new daemon finds it in the store, or its mover or the connection
 * of a process of it ended. @same_boot: it was started in this boot of the machine.
 */
void gp_recover_begin(struct gp_job *job, bool same_boot);
/* Process @proc, of pid @pid (0: nobody knows), may come back. Its end is noticed. */
void gp_recover_expect(struct gp_job *job, uint32_t proc, pid_t pid);
/* The job has ended: nobody is expected any more. */
void gp_recover_end(struct gp_job *job);
/* The process that comes back as @proc, or NULL; the caller frees it with gp_lost_free. */
struct gp_lost *gp_recover_find(const struct gp_job *job, uint32_t proc);
void gp_lost_free(struct gp_lost *lost);

/* A mover is ready, with its ledger: asks the processes. */
void gp_recover_mover_back(struct gp_job *job);
/* A process said what became of it. -EBUSY: it is to come again, when its job stands still; -ESRCH.
 */
gp_must_check int gp_recover_resync(struct gp_proc *proc, const struct gp_wire_resync *resync,
				    struct gp_err *err);
/* Something that is waited for came, or ended. Does nothing for other jobs. */
void gp_recover_advance(struct gp_job *job);

#endif
