/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_PREEMPT_H
#define GP_DAEMON_PREEMPT_H
/* Preempts, resumes and ends jobs on the card: orders shims and mover through the steps. */
#include "daemon/proc.h"

/*
 * Begins to freeze (@target GP_JOB_FROZEN) or evict (GP_JOB_SWAPPED) a job that runs or is frozen.
 * -EBUSY while another operation is under way, -ENOTSUP with the reason if nothing can be
 * preempted. The end is told to the job's requests, and to the scheduler.
 */
gp_must_check int gp_preempt_begin(struct gp_job *job, enum gp_job_state target, const char *cause,
				   struct gp_err *err);
/* Begins to bring a frozen or swapped job back. -EBUSY, or -EINVAL if it is neither. */
gp_must_check int gp_preempt_resume(struct gp_job *job, const char *cause, struct gp_err *err);
/*
 * Ends a job in whatever state it is: a job on the card is thawed first, on scratch memory if its
 * own is away, since a frozen GPU process must not be killed.
 */
void gp_preempt_cancel(struct gp_job *job);
/*
 * Ends a job that is not frozen and must not run on: killed at once, or as soon as its supervisor
 * is there, and failed with @cause.
 */
void gp_preempt_fail(struct gp_job *job, const char *cause);

/* An answer of a shim or mover that belongs to an operation. */
void gp_preempt_handle(struct gp_proc *proc, const struct gp_wire_msg *msg);
void gp_preempt_handle_mover(struct gp_job *job, const struct gp_wire_msg *msg);
/* A process joined the job: it stands still if the others do. */
void gp_preempt_proc_joined(struct gp_proc *proc);
/* The mover has the whole channel table of a process of the job. */
void gp_preempt_proc_known(struct gp_job *job);
/* A process left the job: what the operation waited for from it is settled. */
void gp_preempt_proc_gone(struct gp_job *job);
/* The mover is gone: what was under way is given up, and looked at again by daemon/recover.c. */
void gp_preempt_mover_gone(struct gp_job *job);

/* After recovery: freezes a held job whose memory is all there, whether or not it is frozen. */
void gp_preempt_freeze_again(struct gp_job *job);

#endif
