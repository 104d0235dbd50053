/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a job and its processes becomes a mask of facts; the first row whose state, and
 * whose facts that must and must not be there, fit decides. The last row fits nothing: tests prove
 * that the others are complete.
 */
#include "daemon/resync.h"

#include "base/cleanup.h"

enum resync_fact {
	HELD = 1 << 0,
	CANCELLING = 1 << 1,
	SAME_BOOT = 1 << 2,
	ADOPTED = 1 << 3,
	SUPERVISED = 1 << 4,
	UNOWNED = 1 << 5, /* neither adopted nor supervised */
	MOVER_LOST = 1 << 6,
	ALIVE = 1 << 7,	   /* a process is there */
	OPEN = 1 << 8,	   /* one runs that was part of the job before */
	LOCKED = 1 << 9,   /* one is locked, and has all its memory */
	AWAY = 1 << 10,	   /* one lacks memory or bytes, and the ledger covers them */
	LOST = 1 << 11,	   /* one lacks memory or bytes that the ledger does not cover */
	SCRATCH = 1 << 12, /* one is on scratch memory */
	LATE = 1 << 13,	   /* one may come yet */
	STILL = 1 << 14,   /* one does not run: any of LOCKED, AWAY, LOST, SCRATCH */
};

/* Masks of 1 << enum gp_job_state. */
#define IN_QUEUE    (1u << GP_JOB_QUEUED)
#define NOT_STARTED (1u << GP_JOB_QUEUED | 1u << GP_JOB_STARTING)
#define FINAL	    (1u << GP_JOB_DONE | 1u << GP_JOB_FAILED | 1u << GP_JOB_CANCELLED)
#define ANY	    UINT32_MAX

/* States of a row that are not a job's state. */
#define SAME  0			/* as stored */
#define FOUND GP_JOB_STATE_MAX_ /* resync_found_state() */

struct resync_row {
	const char *name;
	uint32_t states;
	uint32_t must, must_not; /* facts */
	enum gp_resync_outcome outcome;
	uint32_t state;
	const char *cause;
};

static const struct resync_row resync_rows[] = {
	/* It has ended. */
	{ "final-still", FINAL, STILL, 0, GP_RESYNC_EXPEL, SAME,
	  "it has ended, but a process of it stands still" },
	{ "final", FINAL, 0, 0, GP_RESYNC_KEEP, SAME, "it has ended" },

	/* Nothing of it can be there. One that is there all the same was not stored in time. */
	{ "queued-cancel", IN_QUEUE, CANCELLING, ALIVE | SUPERVISED | LATE, GP_RESYNC_CANCEL, SAME,
	  "cancelled while queued" },
	{ "queued", IN_QUEUE, 0, ALIVE | SUPERVISED | LATE, GP_RESYNC_KEEP, SAME, "queued" },
	{ "reboot-cancel", ANY, CANCELLING, ALIVE | SUPERVISED | SAME_BOOT, GP_RESYNC_REBOOTED,
	  GP_JOB_CANCELLED, "cancelled; the machine restarted" },
	{ "reboot", ANY, 0, ALIVE | SUPERVISED | SAME_BOOT, GP_RESYNC_REBOOTED, GP_JOB_FAILED,
	  "the machine restarted" },

	/* One that is late may be frozen, and need its copies: the job can be neither run, nor
	 * frozen as one, nor killed without it. */
	{ "late", ANY, LATE, 0, GP_RESYNC_WAIT, SAME, "waits for its processes" },

	/* No process came back. */
	{ "adopted-gone-cancel", ANY, ADOPTED | CANCELLING, ALIVE, GP_RESYNC_ENDED,
	  GP_JOB_CANCELLED, "the process is gone" },
	{ "adopted-gone", ANY, ADOPTED, ALIVE, GP_RESYNC_ENDED, GP_JOB_DONE,
	  "the process is gone" },
	{ "supervised-cancel", ANY, SUPERVISED | CANCELLING, ALIVE, GP_RESYNC_CANCEL,
	  GP_JOB_RUNNING, "to be cancelled: nothing of it is on the device" },
	{ "supervised-starting", NOT_STARTED, SUPERVISED, ALIVE, GP_RESYNC_RUN, GP_JOB_STARTING,
	  "its supervisor is back" },
	{ "supervised", ANY, SUPERVISED, ALIVE, GP_RESYNC_RUN, GP_JOB_RUNNING,
	  "its supervisor is back" },
	{ "gone-cancel", ANY, CANCELLING, ALIVE, GP_RESYNC_ENDED, GP_JOB_CANCELLED,
	  "its supervisor is gone" },
	{ "gone", ANY, 0, ALIVE, GP_RESYNC_ENDED, GP_JOB_FAILED, "its supervisor is gone" },

	/* It can only end. */
	{ "cancel", ANY, CANCELLING, 0, GP_RESYNC_CANCEL, FOUND, "to be cancelled" },
	{ "scratch", ANY, SCRATCH, 0, GP_RESYNC_LOST, FOUND,
	  "its saved memory was lost: it was given up before the daemon restarted" },
	{ "lost-arena", ANY, LOST | MOVER_LOST, 0, GP_RESYNC_LOST, FOUND,
	  "its saved memory was lost when gpupresd and gpupres-mover ended" },
	{ "lost", ANY, LOST, 0, GP_RESYNC_LOST, FOUND,
	  "its saved memory was lost: not all of it is in the arena" },
	{ "orphan", ANY, UNOWNED, 0, GP_RESYNC_ORPHANED, FOUND, "its supervisor is gone" },

	/* It goes on. */
	{ "away-open", ANY, AWAY | OPEN, 0, GP_RESYNC_BRING_BACK, GP_JOB_SWAPPED,
	  "a part of it runs already: the rest is brought back" },
	{ "away", ANY, AWAY, 0, GP_RESYNC_STAY_SWAPPED, GP_JOB_SWAPPED,
	  "its saved memory outlived the daemon" },
	{ "held", ANY, HELD, 0, GP_RESYNC_STAY_FROZEN, GP_JOB_FREEZING, "held" },
	{ "locked", ANY, LOCKED, 0, GP_RESYNC_THAW, GP_JOB_FROZEN, "its memory is in place" },
	{ "open", ANY, ALIVE, 0, GP_RESYNC_RUN, GP_JOB_RUNNING, "it ran on without a daemon" },

	{ "none", 0, 0, 0, GP_RESYNC_WAIT, SAME, "no row" },
};

/* Its counts say whether it lacks memory or bytes; one that is open lacks none. */
static enum gp_resync_state resync_state_of(const struct gp_resync_proc *p)
{
	if (p->state >= GP_RESYNC_SCRATCH)
		return GP_RESYNC_SCRATCH;
	if (p->n_released)
		return GP_RESYNC_AWAY;
	if (p->n_unfilled)
		return GP_RESYNC_UNFILLED;
	return p->state == GP_RESYNC_OPEN ? GP_RESYNC_OPEN : GP_RESYNC_LOCKED;
}

static bool resync_is_covered(const struct gp_resync_proc *p)
{
	return p->n_saved >= (uint64_t)p->n_released + p->n_unfilled;
}

static uint32_t resync_facts_of(const struct gp_resync_proc *p)
{
	switch (p->presence) {
	case GP_RESYNC_NEW:
		return ALIVE;
	case GP_RESYNC_LATE:
		return LATE;
	case GP_RESYNC_GONE:
		return 0;
	case GP_RESYNC_BACK:
		break;
	}
	switch (resync_state_of(p)) {
	case GP_RESYNC_OPEN:
		return ALIVE | OPEN;
	case GP_RESYNC_LOCKED:
		return ALIVE | STILL | LOCKED;
	case GP_RESYNC_UNFILLED:
	case GP_RESYNC_AWAY:
		return ALIVE | STILL | (resync_is_covered(p) ? AWAY : LOST);
	case GP_RESYNC_SCRATCH:
		break;
	}
	return ALIVE | STILL | SCRATCH;
}

static uint32_t resync_flags_of(const struct gp_resync_proc *p)
{
	uint32_t flags = 0;

	switch (p->presence) {
	case GP_RESYNC_NEW:
	case GP_RESYNC_LATE:
		return 0;
	case GP_RESYNC_GONE:
		return p->n_saved ? GP_RESYNC_DO_DROP : 0;
	case GP_RESYNC_BACK:
		break;
	}
	switch (resync_state_of(p)) {
	case GP_RESYNC_OPEN:
		break;
	case GP_RESYNC_UNFILLED:
	case GP_RESYNC_AWAY:
		return GP_RESYNC_IS_LOCKED | GP_RESYNC_MAY_BE_FROZEN | GP_RESYNC_IS_AWAY;
	case GP_RESYNC_LOCKED:
	case GP_RESYNC_SCRATCH:
		flags = GP_RESYNC_IS_LOCKED | GP_RESYNC_MAY_BE_FROZEN;
		break;
	}
	/* All its memory is its own again, or given up. */
	return flags | (p->n_saved ? GP_RESYNC_DO_DROP : 0);
}

static uint32_t resync_job_facts(const struct gp_resync_job *job)
{
	return (job->held ? HELD : 0) | (job->cancelling ? CANCELLING : 0) |
	       (job->same_boot ? SAME_BOOT : 0) | (job->adopted ? ADOPTED : 0) |
	       (job->supervised && !job->adopted ? SUPERVISED : 0) |
	       (!job->supervised && !job->adopted ? UNOWNED : 0) |
	       (job->mover == GP_RESYNC_MOVER_LOST ? MOVER_LOST : 0);
}

static enum gp_job_state resync_found_state(uint32_t facts)
{
	if (facts & (AWAY | LOST | SCRATCH))
		return GP_JOB_SWAPPED;
	return facts & LOCKED ? GP_JOB_FROZEN : GP_JOB_RUNNING;
}

static const struct resync_row *resync_find(enum gp_job_state state, uint32_t facts)
{
	const struct resync_row *row = resync_rows;

	for (size_t i = 0; i < GP_ARRAY_SIZE(resync_rows) - 1; i++, row++) {
		if ((row->states & 1u << state) && (facts & row->must) == row->must &&
		    !(facts & row->must_not))
			break;
	}
	return row;
}

void gp_resync_decide(const struct gp_resync_job *job, const struct gp_resync_proc *procs, size_t n,
		      struct gp_resync_verdict *ret_verdict, uint32_t *ret_flags)
{
	uint32_t facts = resync_job_facts(job);
	const struct resync_row *row;

	for (size_t i = 0; i < n; i++) {
		facts |= resync_facts_of(&procs[i]);
		ret_flags[i] = resync_flags_of(&procs[i]);
	}
	row = resync_find(job->state, facts);
	*ret_verdict = (struct gp_resync_verdict){
		.outcome = row->outcome,
		.state = row->state == SAME    ? job->state
			 : row->state == FOUND ? resync_found_state(facts)
					       : (enum gp_job_state)row->state,
		/* Held is what stands still; where nobody is left, or a part runs, it is not. */
		.held = job->held &&
			(row->outcome == GP_RESYNC_STAY_FROZEN ||
			 row->outcome == GP_RESYNC_STAY_SWAPPED || row->outcome == GP_RESYNC_WAIT),
		.on_scratch = facts & SCRATCH,
		.cause = row->cause,
		.row = row->name,
	};
}

const char *gp_resync_outcome_name(enum gp_resync_outcome outcome)
{
	static const char *const names[GP_RESYNC_OUTCOME_MAX_] = {
		[GP_RESYNC_KEEP] = "keep",
		[GP_RESYNC_WAIT] = "wait",
		[GP_RESYNC_RUN] = "run",
		[GP_RESYNC_THAW] = "thaw",
		[GP_RESYNC_STAY_FROZEN] = "stay-frozen",
		[GP_RESYNC_STAY_SWAPPED] = "stay-swapped",
		[GP_RESYNC_BRING_BACK] = "bring-back",
		[GP_RESYNC_CANCEL] = "cancel",
		[GP_RESYNC_LOST] = "lost",
		[GP_RESYNC_ORPHANED] = "orphaned",
		[GP_RESYNC_ENDED] = "ended",
		[GP_RESYNC_REBOOTED] = "rebooted",
		[GP_RESYNC_EXPEL] = "expel",
	};

	return outcome < GP_RESYNC_OUTCOME_MAX_ && names[outcome] ? names[outcome] : "?";
}
