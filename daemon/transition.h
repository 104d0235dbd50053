/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_TRANSITION_H
#define GP_DAEMON_TRANSITION_H
/*
 * Every legal change of a job's state, as data: from which states, to which, and what does it.
 * gp_job_set_state() holds the daemon to it, and the explorer of the model holds the model to it.
 * Pure: no I/O, no allocation, no state; any thread.
 *
 *	queued -> starting -> running -> freezing -> frozen -> evicting -> swapped
 *				 ^                     |                       |
 *				 '----- thawing <------+------ restoring <-----'
 *	any -> done, failed, cancelled
 */
#include "base/wire/messages.h"

#include <stdbool.h>
#include <stddef.h>

/* What changes a job's state; a mask, since several may do the same. */
enum gp_transition_by {
	GP_BY_SUBMIT = 1 << 0, /* a client [request.c], or a program that came by itself [proc.c] */
	GP_BY_SCHEDULE = 1 << 1,   /* its supervisor is started [gp_job_start] */
	GP_BY_SUPERVISOR = 1 << 2, /* it said that the command runs, or has ended [job.c] */
	GP_BY_PREEMPT = 1 << 3,	   /* steps of gp_preempt_begin, and the way back if one fails */
	GP_BY_RESUME = 1 << 4,	   /* steps of gp_preempt_resume, and the way back */
	GP_BY_CANCEL = 1 << 5,	   /* steps of gp_preempt_cancel */
	GP_BY_MOVER = 1 << 6,	   /* the mover ended [gp_preempt_mover_gone] */
	GP_BY_PROCS = 1 << 7,	   /* the last of its CUDA processes ended [gp_preempt_proc_gone] */
	GP_BY_RESYNC = 1 << 8,	   /* a new daemon met what was left of it [resync.c] */
	GP_BY_REQUEST = 1 << 9,	   /* a client holds it where it is, or no more [request.c] */
};

struct gp_transition {
	uint32_t from; /* mask of 1 << enum gp_job_state; bit 0 is a job that has no state yet */
	enum gp_job_state to;
	uint32_t by; /* mask of enum gp_transition_by */
};

/* The table; no triple of old state, new state and cause stands in it twice. */
const struct gp_transition *gp_transition_table(size_t *ret_n);

/*
 * Whether a job may go from @from (0: it has no state yet) to @to by one of @by. States outside of
 * the enum are never legal.
 */
bool gp_transition_is_legal(uint32_t from, uint32_t to, uint32_t by);

/* Any cause: what gp_job_set_state() checks, which is not told the cause. */
#define GP_BY_ANY UINT32_MAX

#endif
