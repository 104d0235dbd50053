/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row for each state that can be reached and each thing that leads there. A state may be
 * "changed" to itself where the cause is worth a line in the job's history: the mover of a frozen
 * job ended, a new daemon took it over.
 */
#include "daemon/transition.h"

#include "base/cleanup.h"

#define NEW	  (1u << 0)
#define QUEUED	  (1u << GP_JOB_QUEUED)
#define STARTING  (1u << GP_JOB_STARTING)
#define RUNNING	  (1u << GP_JOB_RUNNING)
#define FREEZING  (1u << GP_JOB_FREEZING)
#define FROZEN	  (1u << GP_JOB_FROZEN)
#define EVICTING  (1u << GP_JOB_EVICTING)
#define SWAPPED	  (1u << GP_JOB_SWAPPED)
#define RESTORING (1u << GP_JOB_RESTORING)
#define THAWING	  (1u << GP_JOB_THAWING)

/* Off the hardware, or on the way there or back. */
#define STOPPED (FREEZING | FROZEN | EVICTING | SWAPPED | RESTORING | THAWING)
#define STARTED (STARTING | RUNNING | STOPPED)

static const struct gp_transition transitions[] = {
	{ NEW, GP_JOB_QUEUED, GP_BY_SUBMIT },
	{ NEW, GP_JOB_RUNNING, GP_BY_SUBMIT }, /* adopted */
	{ QUEUED, GP_JOB_STARTING, GP_BY_SCHEDULE },
	{ STARTING, GP_JOB_RUNNING, GP_BY_SUPERVISOR },

	/* out */
	{ RUNNING, GP_JOB_FREEZING, GP_BY_PREEMPT },
	{ FREEZING, GP_JOB_FROZEN, GP_BY_PREEMPT },
	{ FREEZING, GP_JOB_RUNNING, GP_BY_PREEMPT }, /* not frozen, unlocked again */
	{ FREEZING, GP_JOB_THAWING, GP_BY_PREEMPT }, /* maybe frozen in part */
	{ FROZEN, GP_JOB_EVICTING, GP_BY_PREEMPT },
	{ FROZEN, GP_JOB_THAWING, GP_BY_PREEMPT }, /* the probe failed */
	{ EVICTING, GP_JOB_SWAPPED, GP_BY_PREEMPT },
	{ EVICTING, GP_JOB_RESTORING, GP_BY_PREEMPT }, /* not all could be saved */

	/* back; a preemption that failed goes the same way */
	{ SWAPPED, GP_JOB_RESTORING, GP_BY_RESUME },
	{ RESTORING, GP_JOB_SWAPPED, GP_BY_PREEMPT | GP_BY_RESUME }, /* no room */
	{ RESTORING, GP_JOB_THAWING, GP_BY_PREEMPT | GP_BY_RESUME },
	{ FROZEN, GP_JOB_THAWING, GP_BY_RESUME },
	{ THAWING, GP_JOB_RUNNING, GP_BY_PREEMPT | GP_BY_RESUME },
	{ THAWING, GP_JOB_FROZEN, GP_BY_PREEMPT | GP_BY_RESUME }, /* the driver refuses */

	/* to be killed: never frozen, so back on the card first, on scratch if need be */
	{ FROZEN | SWAPPED | RESTORING, GP_JOB_THAWING, GP_BY_CANCEL },
	{ SWAPPED, GP_JOB_RESTORING, GP_BY_CANCEL },
	{ RESTORING, GP_JOB_SWAPPED, GP_BY_CANCEL },
	{ THAWING, GP_JOB_FROZEN, GP_BY_CANCEL },

	/* what the end of a mover or of processes leaves */
	{ STOPPED, GP_JOB_FROZEN, GP_BY_MOVER },  /* all memory there */
	{ STOPPED, GP_JOB_SWAPPED, GP_BY_MOVER }, /* some away */
	{ STOPPED, GP_JOB_RUNNING, GP_BY_PROCS }, /* the rest of the job just runs */

	/* what a new daemon finds; the last one may not have stored what it had begun */
	{ QUEUED | STARTING, GP_JOB_STARTING, GP_BY_RESYNC },
	{ QUEUED | STARTED, GP_JOB_RUNNING, GP_BY_RESYNC },
	{ QUEUED | STARTED, GP_JOB_FREEZING,
	  GP_BY_RESYNC }, /* held: that it is frozen is made sure */
	{ QUEUED | STARTED, GP_JOB_FROZEN, GP_BY_RESYNC },
	{ QUEUED | STARTED, GP_JOB_SWAPPED, GP_BY_RESYNC },

	/* held by hand, or no more, where it is */
	{ FROZEN, GP_JOB_FROZEN, GP_BY_REQUEST },
	{ SWAPPED, GP_JOB_SWAPPED, GP_BY_REQUEST },

	/* the end */
	{ QUEUED | STARTED, GP_JOB_DONE, GP_BY_SUPERVISOR },
	{ QUEUED | STARTED, GP_JOB_CANCELLED, GP_BY_SUPERVISOR },
	{ QUEUED | STARTED, GP_JOB_FAILED, GP_BY_SUPERVISOR },
	{ QUEUED, GP_JOB_CANCELLED, GP_BY_CANCEL },
	{ QUEUED | STARTED, GP_JOB_DONE, GP_BY_PROCS | GP_BY_RESYNC }, /* adopted: that was all */
	{ QUEUED | STARTED, GP_JOB_CANCELLED, GP_BY_PROCS | GP_BY_RESYNC },
	{ QUEUED | STARTED, GP_JOB_FAILED, GP_BY_SCHEDULE | GP_BY_RESYNC },
};

const struct gp_transition *gp_transition_table(size_t *ret_n)
{
	*ret_n = GP_ARRAY_SIZE(transitions);
	return transitions;
}

bool gp_transition_is_legal(uint32_t from, uint32_t to, uint32_t by)
{
	if (from >= GP_JOB_STATE_MAX_)
		return false;
	for (size_t i = 0; i < GP_ARRAY_SIZE(transitions); i++) {
		const struct gp_transition *t = &transitions[i];

		if ((t->from & 1u << from) && t->to == to && (t->by & by))
			return true;
	}
	return false;
}
