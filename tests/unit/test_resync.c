/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision on a job that outlived its daemon: a test for each row of the table, and a loop over
 * all combinations that compares the row with one found in another way, and checks what must hold
 * whatever the row.
 */
#include "base/cleanup.h"
#include "daemon/resync.h"
#include "daemon/transition.h"
#include "tests/unit/check.h"

#define MAX_PROCS 3

static struct gp_resync_verdict v;
static uint32_t flags[MAX_PROCS];

/* --- processes --- */

static const struct gp_resync_proc new_one = { .presence = GP_RESYNC_NEW };
static const struct gp_resync_proc late = { .presence = GP_RESYNC_LATE };
static const struct gp_resync_proc late_saved = { .presence = GP_RESYNC_LATE, .n_saved = 2 };
static const struct gp_resync_proc gone = { .presence = GP_RESYNC_GONE };
static const struct gp_resync_proc gone_saved = { .presence = GP_RESYNC_GONE, .n_saved = 2 };
static const struct gp_resync_proc open_one = { .state = GP_RESYNC_OPEN };
static const struct gp_resync_proc open_saved = { .state = GP_RESYNC_OPEN, .n_saved = 2 };
static const struct gp_resync_proc locked = { .state = GP_RESYNC_LOCKED };
static const struct gp_resync_proc locked_saved = { .state = GP_RESYNC_LOCKED, .n_saved = 1 };
static const struct gp_resync_proc unfilled = { .state = GP_RESYNC_UNFILLED,
						.n_unfilled = 2,
						.n_saved = 2 };
static const struct gp_resync_proc unfilled_short = { .state = GP_RESYNC_UNFILLED,
						      .n_unfilled = 2,
						      .n_saved = 1 };
static const struct gp_resync_proc away = { .state = GP_RESYNC_AWAY,
					    .n_released = 2,
					    .n_saved = 3 };
static const struct gp_resync_proc away_short = { .state = GP_RESYNC_AWAY,
						  .n_released = 2,
						  .n_saved = 1 };
static const struct gp_resync_proc away_none = { .state = GP_RESYNC_AWAY, .n_released = 2 };
static const struct gp_resync_proc mixed = {
	.state = GP_RESYNC_AWAY, .n_released = 1, .n_unfilled = 2, .n_saved = 3
};
static const struct gp_resync_proc mixed_short = {
	.state = GP_RESYNC_AWAY, .n_released = 1, .n_unfilled = 2, .n_saved = 2
};
static const struct gp_resync_proc scratch = { .state = GP_RESYNC_SCRATCH };
static const struct gp_resync_proc scratch_saved = { .state = GP_RESYNC_SCRATCH, .n_saved = 2 };

static const struct gp_resync_proc *const kinds[] = {
	&new_one,    &late,	 &late_saved,	&gone,	      &gone_saved,     &open_one,
	&open_saved, &locked,	 &locked_saved, &unfilled,    &unfilled_short, &away,
	&away_short, &away_none, &mixed,	&mixed_short, &scratch,	       &scratch_saved,
};

static bool is_back(const struct gp_resync_proc *p)
{
	return p->presence == GP_RESYNC_BACK;
}

static bool lacks(const struct gp_resync_proc *p)
{
	return is_back(p) && p->n_released + p->n_unfilled > 0;
}

static bool is_short(const struct gp_resync_proc *p)
{
	return lacks(p) && p->n_saved < p->n_released + p->n_unfilled;
}

static bool is_scratch(const struct gp_resync_proc *p)
{
	return is_back(p) && p->state == GP_RESYNC_SCRATCH;
}

static bool is_open(const struct gp_resync_proc *p)
{
	return is_back(p) && p->state == GP_RESYNC_OPEN;
}

static bool is_locked(const struct gp_resync_proc *p)
{
	return is_back(p) && p->state == GP_RESYNC_LOCKED;
}

static bool is_late(const struct gp_resync_proc *p)
{
	return p->presence == GP_RESYNC_LATE;
}

static bool is_alive(const struct gp_resync_proc *p)
{
	return is_back(p) || p->presence == GP_RESYNC_NEW;
}

static bool any(const struct gp_resync_proc *procs, size_t n,
		bool (*is)(const struct gp_resync_proc *p))
{
	for (size_t i = 0; i < n; i++) {
		if (is(&procs[i]))
			return true;
	}
	return false;
}

/* --- a test for each row --- */

#define DECIDE(job, ...)                                                                           \
	do {                                                                                       \
		const struct gp_resync_proc procs_[] = { __VA_ARGS__ };                            \
		gp_resync_decide(&(job), procs_, GP_ARRAY_SIZE(procs_), &v, flags);                \
	} while (0)

#define EXPECT(row_, outcome_, state_)                                                             \
	do {                                                                                       \
		CHECK_STR(v.row, row_);                                                            \
		CHECK_STR(gp_resync_outcome_name(v.outcome), gp_resync_outcome_name(outcome_));    \
		CHECK_EQ(v.state, state_);                                                         \
	} while (0)

/* A submitted job whose supervisor is back, in the same boot. */
static struct gp_resync_job job_in(enum gp_job_state state)
{
	return (struct gp_resync_job){ .state = state, .same_boot = true, .supervised = true };
}

static struct gp_resync_job adopted_in(enum gp_job_state state)
{
	return (struct gp_resync_job){ .state = state, .same_boot = true, .adopted = true };
}

static void test_final_job_when_a_process_stands_still_then_it_is_expelled(void)
{
	struct gp_resync_job job = job_in(GP_JOB_FAILED);

	DECIDE(job, away);
	EXPECT("final-still", GP_RESYNC_EXPEL, GP_JOB_FAILED);
	CHECK_EQ(flags[0], GP_RESYNC_IS_LOCKED | GP_RESYNC_MAY_BE_FROZEN | GP_RESYNC_IS_AWAY);
}

static void test_final_job_when_its_process_is_open_then_kept(void)
{
	struct gp_resync_job job = job_in(GP_JOB_DONE);

	DECIDE(job, open_one);
	EXPECT("final", GP_RESYNC_KEEP, GP_JOB_DONE);
}

static void test_queued_job_when_cancelling_then_cancelled_in_the_queue(void)
{
	struct gp_resync_job job = { .state = GP_JOB_QUEUED, .cancelling = true };

	DECIDE(job, gone);
	EXPECT("queued-cancel", GP_RESYNC_CANCEL, GP_JOB_QUEUED);
}

static void test_queued_job_when_the_machine_restarted_then_stays_queued(void)
{
	struct gp_resync_job job = { .state = GP_JOB_QUEUED };

	gp_resync_decide(&job, NULL, 0, &v, flags);
	EXPECT("queued", GP_RESYNC_KEEP, GP_JOB_QUEUED);
}

/* The last daemon ended before it had stored what it had begun. */
static void test_queued_job_when_it_runs_all_the_same_then_running(void)
{
	struct gp_resync_job job = job_in(GP_JOB_QUEUED);

	DECIDE(job, open_one);
	EXPECT("open", GP_RESYNC_RUN, GP_JOB_RUNNING);
	DECIDE(job, gone);
	EXPECT("supervised-starting", GP_RESYNC_RUN, GP_JOB_STARTING);
}

static void test_cancelled_job_when_the_machine_restarted_then_cancelled(void)
{
	struct gp_resync_job job = { .state = GP_JOB_FROZEN, .cancelling = true };

	DECIDE(job, gone);
	EXPECT("reboot-cancel", GP_RESYNC_REBOOTED, GP_JOB_CANCELLED);
}

static void test_started_job_when_the_machine_restarted_then_failed(void)
{
	static const enum gp_job_state states[] = { GP_JOB_STARTING, GP_JOB_RUNNING, GP_JOB_SWAPPED,
						    GP_JOB_EVICTING };

	for (size_t i = 0; i < GP_ARRAY_SIZE(states); i++) {
		struct gp_resync_job job = { .state = states[i], .mover = GP_RESYNC_MOVER_LOST };

		gp_resync_decide(&job, NULL, 0, &v, flags);
		EXPECT("reboot", GP_RESYNC_REBOOTED, GP_JOB_FAILED);
		CHECK_STR(v.cause, "the machine restarted");
	}
}

static void test_late_process_when_it_has_copies_then_nothing_is_done_before_it_comes(void)
{
	struct gp_resync_job job = job_in(GP_JOB_EVICTING);

	DECIDE(job, locked, late_saved);
	EXPECT("late", GP_RESYNC_WAIT, GP_JOB_EVICTING);
	CHECK_EQ(flags[1], 0);
	job.cancelling = true;
	DECIDE(job, locked, late_saved);
	EXPECT("late", GP_RESYNC_WAIT, GP_JOB_EVICTING);
	/* It comes. */
	DECIDE(job, locked, away);
	EXPECT("cancel", GP_RESYNC_CANCEL, GP_JOB_SWAPPED);
}

static void test_late_process_when_it_has_no_copies_then_waited_for_too(void)
{
	struct gp_resync_job job = adopted_in(GP_JOB_FROZEN);

	DECIDE(job, late, gone);
	EXPECT("late", GP_RESYNC_WAIT, GP_JOB_FROZEN);
	DECIDE(job, locked, late);
	EXPECT("late", GP_RESYNC_WAIT, GP_JOB_FROZEN);
	/* It is known to have ended. */
	DECIDE(job, locked, gone);
	EXPECT("locked", GP_RESYNC_THAW, GP_JOB_FROZEN);
}

static void test_adopted_job_when_its_process_is_gone_then_over(void)
{
	struct gp_resync_job job = adopted_in(GP_JOB_SWAPPED);

	DECIDE(job, gone_saved);
	EXPECT("adopted-gone", GP_RESYNC_ENDED, GP_JOB_DONE);
	CHECK_EQ(flags[0], GP_RESYNC_DO_DROP);
	job.cancelling = true;
	DECIDE(job, gone_saved);
	EXPECT("adopted-gone-cancel", GP_RESYNC_ENDED, GP_JOB_CANCELLED);
}

static void test_supervised_job_when_no_process_is_back_then_the_supervisor_tells(void)
{
	struct gp_resync_job job = job_in(GP_JOB_SWAPPED);

	job.held = true;
	DECIDE(job, gone_saved);
	EXPECT("supervised", GP_RESYNC_RUN, GP_JOB_RUNNING);
	CHECK_EQ(v.held, false);
	job.cancelling = true;
	DECIDE(job, gone);
	EXPECT("supervised-cancel", GP_RESYNC_CANCEL, GP_JOB_RUNNING);
}

static void test_starting_job_when_its_supervisor_is_back_then_starting(void)
{
	struct gp_resync_job job = job_in(GP_JOB_STARTING);

	gp_resync_decide(&job, NULL, 0, &v, flags);
	EXPECT("supervised-starting", GP_RESYNC_RUN, GP_JOB_STARTING);
}

static void test_starting_job_when_its_supervisor_is_gone_then_failed(void)
{
	struct gp_resync_job job = job_in(GP_JOB_STARTING);

	job.supervised = false;
	gp_resync_decide(&job, NULL, 0, &v, flags);
	EXPECT("gone", GP_RESYNC_ENDED, GP_JOB_FAILED);
	job.cancelling = true;
	gp_resync_decide(&job, NULL, 0, &v, flags);
	EXPECT("gone-cancel", GP_RESYNC_ENDED, GP_JOB_CANCELLED);
}

static void test_cancelling_job_when_alive_then_the_cancel_goes_on_from_where_it_is(void)
{
	struct gp_resync_job job = job_in(GP_JOB_RESTORING);

	job.cancelling = true;
	DECIDE(job, away, locked);
	EXPECT("cancel", GP_RESYNC_CANCEL, GP_JOB_SWAPPED);
	CHECK_EQ(v.on_scratch, false);
	DECIDE(job, scratch_saved, locked);
	EXPECT("cancel", GP_RESYNC_CANCEL, GP_JOB_SWAPPED);
	CHECK_EQ(v.on_scratch, true);
	CHECK_EQ(flags[0], GP_RESYNC_IS_LOCKED | GP_RESYNC_MAY_BE_FROZEN | GP_RESYNC_DO_DROP);
	DECIDE(job, locked, open_one);
	EXPECT("cancel", GP_RESYNC_CANCEL, GP_JOB_FROZEN);
	DECIDE(job, open_one);
	EXPECT("cancel", GP_RESYNC_CANCEL, GP_JOB_RUNNING);
	job.supervised = false;
	DECIDE(job, open_one);
	EXPECT("cancel", GP_RESYNC_CANCEL, GP_JOB_RUNNING);
}

static void test_process_when_on_scratch_then_the_job_can_only_end(void)
{
	struct gp_resync_job job = job_in(GP_JOB_THAWING);

	DECIDE(job, scratch, away);
	EXPECT("scratch", GP_RESYNC_LOST, GP_JOB_SWAPPED);
	CHECK_EQ(v.on_scratch, true);
}

static void test_memory_when_the_arena_went_with_both_then_lost(void)
{
	struct gp_resync_job job = job_in(GP_JOB_SWAPPED);

	job.mover = GP_RESYNC_MOVER_LOST;
	DECIDE(job, away_none, locked);
	EXPECT("lost-arena", GP_RESYNC_LOST, GP_JOB_SWAPPED);
}

static void test_memory_when_the_ledger_is_short_then_lost(void)
{
	struct gp_resync_job job = job_in(GP_JOB_RESTORING);

	DECIDE(job, unfilled_short);
	EXPECT("lost", GP_RESYNC_LOST, GP_JOB_SWAPPED);
	DECIDE(job, away, mixed_short);
	EXPECT("lost", GP_RESYNC_LOST, GP_JOB_SWAPPED);
}

static void test_process_when_its_supervisor_is_gone_then_ended(void)
{
	struct gp_resync_job job = job_in(GP_JOB_RUNNING);

	job.supervised = false;
	DECIDE(job, away);
	EXPECT("orphan", GP_RESYNC_ORPHANED, GP_JOB_SWAPPED);
	DECIDE(job, locked);
	EXPECT("orphan", GP_RESYNC_ORPHANED, GP_JOB_FROZEN);
}

static void test_process_when_it_thawed_itself_while_others_are_away_then_these_are_brought_back(
	void)
{
	struct gp_resync_job job = adopted_in(GP_JOB_EVICTING);

	job.held = true;
	DECIDE(job, open_saved, away);
	EXPECT("away-open", GP_RESYNC_BRING_BACK, GP_JOB_SWAPPED);
	CHECK_EQ(v.held, false);
	CHECK_EQ(flags[0], GP_RESYNC_DO_DROP);
}

static void test_memory_when_away_and_covered_then_stays_swapped(void)
{
	struct gp_resync_job job = job_in(GP_JOB_EVICTING);

	job.mover = GP_RESYNC_MOVER_NEW;
	DECIDE(job, away, unfilled, mixed);
	EXPECT("away", GP_RESYNC_STAY_SWAPPED, GP_JOB_SWAPPED);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(flags[i],
			 GP_RESYNC_IS_LOCKED | GP_RESYNC_MAY_BE_FROZEN | GP_RESYNC_IS_AWAY);
	job.held = true;
	DECIDE(job, locked_saved, away, new_one);
	EXPECT("away", GP_RESYNC_STAY_SWAPPED, GP_JOB_SWAPPED);
	CHECK_EQ(v.held, true);
	CHECK_EQ(flags[0], GP_RESYNC_IS_LOCKED | GP_RESYNC_MAY_BE_FROZEN | GP_RESYNC_DO_DROP);
	CHECK_EQ(flags[2], 0);
}

static void test_held_job_when_all_memory_is_there_then_stays_frozen(void)
{
	struct gp_resync_job job = job_in(GP_JOB_FROZEN);

	job.held = true;
	DECIDE(job, locked, gone_saved);
	EXPECT("held", GP_RESYNC_STAY_FROZEN, GP_JOB_FREEZING);
	CHECK_EQ(v.held, true);
	CHECK_EQ(flags[1], GP_RESYNC_DO_DROP);
	/* One that thawed itself: it is wanted frozen all the same. */
	DECIDE(job, locked, open_one);
	EXPECT("held", GP_RESYNC_STAY_FROZEN, GP_JOB_FREEZING);
}

static void test_locked_job_when_nobody_holds_it_then_thawed(void)
{
	static const enum gp_job_state states[] = { GP_JOB_RUNNING,   GP_JOB_FREEZING,
						    GP_JOB_FROZEN,    GP_JOB_EVICTING,
						    GP_JOB_RESTORING, GP_JOB_THAWING };

	for (size_t i = 0; i < GP_ARRAY_SIZE(states); i++) {
		struct gp_resync_job job = job_in(states[i]);

		DECIDE(job, locked, open_one);
		EXPECT("locked", GP_RESYNC_THAW, GP_JOB_FROZEN);
	}
}

static void test_open_job_then_runs(void)
{
	struct gp_resync_job job = job_in(GP_JOB_FREEZING);

	DECIDE(job, open_one, new_one);
	EXPECT("open", GP_RESYNC_RUN, GP_JOB_RUNNING);
	CHECK_EQ(flags[0], 0);
	CHECK_EQ(flags[1], 0);
}

/* What a process says is not trusted to make sense. */
static void test_process_when_state_and_counts_do_not_fit_then_counts_decide(void)
{
	struct gp_resync_job job = job_in(GP_JOB_SWAPPED);

	DECIDE(job, { .state = GP_RESYNC_OPEN,
		      .n_released = UINT32_MAX,
		      .n_unfilled = UINT32_MAX,
		      .n_saved = UINT32_MAX });
	EXPECT("lost", GP_RESYNC_LOST, GP_JOB_SWAPPED);
	DECIDE(job, { .state = GP_RESYNC_AWAY });
	EXPECT("locked", GP_RESYNC_THAW, GP_JOB_FROZEN);
	DECIDE(job, { .state = 77 });
	EXPECT("scratch", GP_RESYNC_LOST, GP_JOB_SWAPPED);
}

/* --- all combinations --- */

static bool is_final(enum gp_job_state state)
{
	return state >= GP_JOB_DONE;
}

/* Where nothing of it is there. */
static const char *expected_empty(const struct gp_resync_job *job, bool supervised)
{
	if (job->adopted)
		return job->cancelling ? "adopted-gone-cancel" : "adopted-gone";
	if (!supervised)
		return job->cancelling ? "gone-cancel" : "gone";
	if (job->cancelling)
		return "supervised-cancel";
	return job->state <= GP_JOB_STARTING ? "supervised-starting" : "supervised";
}

static const char *expected_alive(const struct gp_resync_job *job,
				  const struct gp_resync_proc *procs, size_t n, bool supervised)
{
	if (job->cancelling)
		return "cancel";
	if (any(procs, n, is_scratch))
		return "scratch";
	if (any(procs, n, is_short))
		return job->mover == GP_RESYNC_MOVER_LOST ? "lost-arena" : "lost";
	if (!job->adopted && !supervised)
		return "orphan";
	if (any(procs, n, lacks))
		return any(procs, n, is_open) ? "away-open" : "away";
	if (job->held)
		return "held";
	return any(procs, n, is_locked) ? "locked" : "open";
}

/* The intended row, by cases instead of by masks. */
static const char *expected_row(const struct gp_resync_job *job, const struct gp_resync_proc *procs,
				size_t n)
{
	bool supervised = job->supervised && !job->adopted;
	bool alive = any(procs, n, is_alive);

	if (is_final(job->state)) {
		for (size_t i = 0; i < n; i++) {
			if (is_back(&procs[i]) && !is_open(&procs[i]))
				return "final-still";
		}
		return "final";
	}
	if (!alive && !supervised) {
		if (job->state == GP_JOB_QUEUED && !any(procs, n, is_late))
			return job->cancelling ? "queued-cancel" : "queued";
		if (!job->same_boot)
			return job->cancelling ? "reboot-cancel" : "reboot";
	}
	if (any(procs, n, is_late))
		return "late";
	return alive ? expected_alive(job, procs, n, supervised) : expected_empty(job, supervised);
}

static uint32_t n_seen;
static const char *seen[64];

static void note_row(const char *row)
{
	for (uint32_t i = 0; i < n_seen; i++) {
		if (seen[i] == row)
			return;
	}
	seen[n_seen++] = row;
}

static void check_flags(const struct gp_resync_proc *procs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct gp_resync_proc *p = &procs[i];

		if (flags[i] & GP_RESYNC_DO_DROP) {
			CHECK(p->n_saved);
			CHECK(!lacks(p) && p->presence != GP_RESYNC_LATE);
		}
		CHECK_EQ(!!(flags[i] & GP_RESYNC_IS_AWAY), lacks(p));
		CHECK_EQ(!!(flags[i] & GP_RESYNC_IS_LOCKED), is_back(p) && !is_open(p));
		if (flags[i] & GP_RESYNC_IS_LOCKED)
			CHECK(flags[i] & GP_RESYNC_MAY_BE_FROZEN);
	}
}

static void check_outcome(const struct gp_resync_job *job, const struct gp_resync_proc *procs,
			  size_t n)
{
	bool away_any = any(procs, n, lacks) || any(procs, n, is_scratch);
	bool still = away_any || any(procs, n, is_locked);

	switch (v.outcome) {
	case GP_RESYNC_RUN:
		CHECK(!still && !is_final(v.state));
		break;
	case GP_RESYNC_THAW:
		CHECK(!away_any && !job->held && v.state == GP_JOB_FROZEN);
		break;
	case GP_RESYNC_STAY_FROZEN:
		CHECK(!away_any && job->held && v.held);
		break;
	case GP_RESYNC_STAY_SWAPPED:
		CHECK_EQ(v.held, job->held);
		CHECK(!any(procs, n, is_open));
		break;
	case GP_RESYNC_BRING_BACK:
		CHECK(any(procs, n, is_open));
		break;
	case GP_RESYNC_LOST:
		CHECK(any(procs, n, is_short) || any(procs, n, is_scratch));
		break;
	case GP_RESYNC_KEEP:
		CHECK(is_final(job->state) || job->state == GP_JOB_QUEUED);
		break;
	case GP_RESYNC_WAIT:
		CHECK(any(procs, n, is_late) && v.held == job->held);
		break;
	case GP_RESYNC_ENDED:
	case GP_RESYNC_REBOOTED:
		CHECK(is_final(v.state) && !any(procs, n, is_alive));
		break;
	case GP_RESYNC_EXPEL:
		CHECK(is_final(job->state) && still);
		break;
	default:
		break;
	}
	/* It might be killed while it is frozen. */
	if (!is_final(job->state) && any(procs, n, is_late))
		CHECK(v.outcome == GP_RESYNC_WAIT || v.outcome == GP_RESYNC_REBOOTED ||
		      v.state == GP_JOB_QUEUED);
	if (v.outcome == GP_RESYNC_STAY_SWAPPED || v.outcome == GP_RESYNC_BRING_BACK)
		CHECK(any(procs, n, lacks) && !any(procs, n, is_short) &&
		      !any(procs, n, is_scratch) && v.state == GP_JOB_SWAPPED);
}

static void check_one(const struct gp_resync_job *job, const struct gp_resync_proc *procs, size_t n)
{
	const char *row = expected_row(job, procs, n);

	gp_resync_decide(job, procs, n, &v, flags);
	if (strcmp(v.row, row) != 0) {
		fprintf(stderr, "state=%u held=%d cancelling=%d boot=%d adopted=%d supervised=%d\n",
			job->state, job->held, job->cancelling, job->same_boot, job->adopted,
			job->supervised);
		CHECK_STR(v.row, row);
	}
	note_row(v.row);
	check_flags(procs, n);
	check_outcome(job, procs, n);
	CHECK_EQ(v.on_scratch, any(procs, n, is_scratch));
	CHECK(v.state == job->state || gp_transition_is_legal(job->state, v.state, GP_BY_RESYNC));
	if (job->cancelling && !is_final(job->state))
		CHECK(v.outcome == GP_RESYNC_CANCEL || v.outcome == GP_RESYNC_ENDED ||
		      v.outcome == GP_RESYNC_REBOOTED || v.outcome == GP_RESYNC_WAIT);
}

static void check_jobs(const struct gp_resync_proc *procs, size_t n)
{
	for (int state = GP_JOB_QUEUED; state < GP_JOB_STATE_MAX_; state++) {
		for (unsigned int bits = 0; bits < 32; bits++) {
			for (int mover = 0; mover <= GP_RESYNC_MOVER_LOST; mover++) {
				const struct gp_resync_job job = {
					.state = (enum gp_job_state)state,
					.held = bits & 1,
					.cancelling = bits & 2,
					.same_boot = bits & 4,
					.adopted = bits & 8,
					.supervised = bits & 16,
					.mover = (enum gp_resync_mover)mover,
				};

				check_one(&job, procs, n);
			}
		}
	}
}

static void test_every_combination_then_its_row_and_what_must_hold(void)
{
	struct gp_resync_proc procs[MAX_PROCS];
	const size_t n_kinds = GP_ARRAY_SIZE(kinds);

	check_jobs(procs, 0);
	for (size_t i = 0; i < n_kinds; i++) {
		procs[0] = *kinds[i];
		check_jobs(procs, 1);
		for (size_t j = 0; j < n_kinds; j++) {
			procs[1] = *kinds[j];
			check_jobs(procs, 2);
			for (size_t k = 0; k < n_kinds; k++) {
				procs[2] = *kinds[k];
				check_jobs(procs, 3);
			}
		}
	}
	CHECK_EQ(n_seen, 24); /* every row but the last */
}

/* --- the table of transitions --- */

static void test_transitions_then_none_stands_there_twice(void)
{
	size_t n;
	const struct gp_transition *t = gp_transition_table(&n);

	for (size_t i = 0; i < n; i++) {
		CHECK(t[i].from && t[i].by);
		for (size_t j = 0; j < i; j++)
			CHECK(t[i].to != t[j].to || !(t[i].from & t[j].from) ||
			      !(t[i].by & t[j].by));
	}
}

static void test_transitions_when_final_then_none_leads_on(void)
{
	for (uint32_t from = GP_JOB_DONE; from <= GP_JOB_STATE_MAX_ + 1; from++) {
		for (uint32_t to = 0; to <= GP_JOB_STATE_MAX_; to++)
			CHECK(!gp_transition_is_legal(from, to, GP_BY_ANY));
	}
	CHECK(!gp_transition_is_legal(GP_JOB_SWAPPED, GP_JOB_THAWING, GP_BY_RESUME));
	CHECK(gp_transition_is_legal(GP_JOB_SWAPPED, GP_JOB_RESTORING, GP_BY_RESUME));
}

int main(void)
{
	test_final_job_when_a_process_stands_still_then_it_is_expelled();
	test_final_job_when_its_process_is_open_then_kept();
	test_queued_job_when_cancelling_then_cancelled_in_the_queue();
	test_queued_job_when_the_machine_restarted_then_stays_queued();
	test_queued_job_when_it_runs_all_the_same_then_running();
	test_cancelled_job_when_the_machine_restarted_then_cancelled();
	test_started_job_when_the_machine_restarted_then_failed();
	test_late_process_when_it_has_copies_then_nothing_is_done_before_it_comes();
	test_late_process_when_it_has_no_copies_then_waited_for_too();
	test_adopted_job_when_its_process_is_gone_then_over();
	test_supervised_job_when_no_process_is_back_then_the_supervisor_tells();
	test_starting_job_when_its_supervisor_is_back_then_starting();
	test_starting_job_when_its_supervisor_is_gone_then_failed();
	test_cancelling_job_when_alive_then_the_cancel_goes_on_from_where_it_is();
	test_process_when_on_scratch_then_the_job_can_only_end();
	test_memory_when_the_arena_went_with_both_then_lost();
	test_memory_when_the_ledger_is_short_then_lost();
	test_process_when_its_supervisor_is_gone_then_ended();
	test_process_when_it_thawed_itself_while_others_are_away_then_these_are_brought_back();
	test_memory_when_away_and_covered_then_stays_swapped();
	test_held_job_when_all_memory_is_there_then_stays_frozen();
	test_locked_job_when_nobody_holds_it_then_thawed();
	test_open_job_then_runs();
	test_process_when_state_and_counts_do_not_fit_then_counts_decide();
	test_every_combination_then_its_row_and_what_must_hold();
	test_transitions_then_none_stands_there_twice();
	test_transitions_when_final_then_none_leads_on();
	return 0;
}
