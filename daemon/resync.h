/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_RESYNC_H
#define GP_DAEMON_RESYNC_H
/*
 * What becomes of a job when a new daemon meets what is left of it. The shim is right about process
 * and channels, the mover's ledger about bytes, the database about intent; it may lag behind by
 * what the last daemon had not committed, so it is never taken as proof that a process is, or is
 * not, frozen. One table of rows in resync.c, first match wins, every row tested. Pure: no I/O, no
 * allocation, no state; any thread.
 *
 * When to ask: once a mover is ready (its LEDGER messages have come), and every process that is
 * expected (those of the ledger, and those that the daemon remembers) is back or late. It may be
 * asked again at any time with the state that it gave before: after a process that was late has
 * come or ended, for instance. Both sides must have finished or given up what the last daemon
 * ordered before they say RESYNC and LEDGER, or the two would not fit together.
 *
 * The kind of device is no input: scratch memory works on all of them, and a frozen process is
 * never killed on any.
 */
#include "base/wire/messages.h"

#include <stdbool.h>
#include <stddef.h>

enum gp_resync_mover {
	GP_RESYNC_MOVER_SAME, /* survived its daemon */
	GP_RESYNC_MOVER_NEW,  /* a successor that inherited arena and ledger */
	GP_RESYNC_MOVER_LOST, /* a new one with nothing: no copy is left */
};

struct gp_resync_job {
	enum gp_job_state state; /* as stored */
	bool held, cancelling;	 /* as stored */
	bool same_boot;		 /* stored since this boot of the machine */
	bool adopted;		 /* has no supervisor */
	bool supervised; /* its supervisor is back; false once that is not expected any more */
	enum gp_resync_mover mover;
};

enum gp_resync_presence {
	GP_RESYNC_BACK, /* said RESYNC */
	GP_RESYNC_NEW,	/* joined since, without a past: open */
	/* Expected, not back within the grace, but not known to have ended: it may be stopped or
	 * slow, and its copies may be all it has. */
	GP_RESYNC_LATE,
	GP_RESYNC_GONE, /* known to have ended: its link or its pid says so */
};

/* One process of the job. Counts are of extents. */
struct gp_resync_proc {
	enum gp_resync_presence presence;
	uint32_t state; /* enum gp_resync_state; of one that is back, as the rest */
	uint32_t n_released, n_unfilled; /* as its RESYNC says */
	uint32_t n_saved;		 /* as the mover's LEDGER says; 0 if there is none */
};

/* What the daemon does next. The state of the verdict is set first, with the verdict's cause. */
enum gp_resync_outcome {
	/* Nothing: queued jobs are queued again, ended ones stay known. */
	GP_RESYNC_KEEP,
	/* Nothing yet, and nothing changes: ask again when who is late has come or ended. */
	GP_RESYNC_WAIT,
	/* It runs, or its supervisor tells what became of it. */
	GP_RESYNC_RUN,
	/* All memory there, nobody wants it held (FROZEN): thaw and unlock, as gp_preempt_resume.
	 */
	GP_RESYNC_THAW,
	/* Held, all memory there (FREEZING): take up a preemption to frozen. LOCK who is not
	 * flagged LOCKED, then FREEZE all: whether the channels are off is not known, and it harms
	 * none. */
	GP_RESYNC_STAY_FROZEN,
	/* Memory away, all of it covered (SWAPPED): resumed by the scheduler, or by hand if held.
	 * The resume creates again what is released, and loads what was released or is unfilled. */
	GP_RESYNC_STAY_SWAPPED,
	/* The same, but a part of the job thawed itself already (SWAPPED): resume at once, held or
	 * not. */
	GP_RESYNC_BRING_BACK,
	/* Continue the cancel: gp_preempt_cancel. */
	GP_RESYNC_CANCEL,
	/* Bytes are lost: end it as failed with the cause, as CANCEL does: on scratch where AWAY is
	 * flagged, thawed, killed. */
	GP_RESYNC_LOST,
	/* The same for a job without its supervisor. */
	GP_RESYNC_ORPHANED,
	/* Over (a final state): gp_job_finish. Where the supervisor left a status file, that says
	 * more. */
	GP_RESYNC_ENDED,
	/* Over (a final state): the machine restarted meanwhile. */
	GP_RESYNC_REBOOTED,
	/* The job ended before, but processes of it stand still: those are ended as by CANCEL; the
	 * job stays as it is. */
	GP_RESYNC_EXPEL,
	GP_RESYNC_OUTCOME_MAX_,
};

/* Of each process: what the daemon takes it for from now on, and owes it. */
enum gp_resync_flag {
	GP_RESYNC_IS_LOCKED = 1 << 0,	  /* no LOCK; UNLOCK in the end */
	GP_RESYNC_MAY_BE_FROZEN = 1 << 1, /* THAW before UNLOCK or a kill; harmless if it is not */
	GP_RESYNC_IS_AWAY = 1 << 2,	  /* lacks memory or bytes: RECREATE and LOAD, or SCRATCH */
	GP_RESYNC_DO_DROP = 1 << 3,	  /* DROP (UNLINK if gone): its copies are needed no more */
};

struct gp_resync_verdict {
	enum gp_resync_outcome outcome;
	enum gp_job_state state; /* to be stored; may be the one it has */
	bool held;		 /* to be stored */
	bool on_scratch;	 /* some of its memory is scratch: it must not be unlocked, ever */
	const char *cause;	 /* constant text */
	const char *row;	 /* name of the row, for the log and tests; constant text */
};

/*
 * Decides on @job with its @n processes. Fills @ret_verdict, and @ret_flags[i] with a mask of enum
 * gp_resync_flag for procs[i]. Never fails: what makes no sense together has a row, too.
 */
void gp_resync_decide(const struct gp_resync_job *job, const struct gp_resync_proc *procs, size_t n,
		      struct gp_resync_verdict *ret_verdict, uint32_t *ret_flags);

const char *gp_resync_outcome_name(enum gp_resync_outcome outcome);

#endif
