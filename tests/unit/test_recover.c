/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs whose mover ended, and their ends. */
#include "base/time.h"
#include "daemon/preempt.h"
#include "daemon/schedule.h"
#include "tests/unit/check.h"
#include "tests/unit/played.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the mover ends --- */

static void test_mover_when_gone_with_a_release_under_way_then_successor_brings_it_back(void)
{
	struct gp_wire_msg m, save;

	begin();
	start_supervisor();
	preempt(GP_JOB_SWAPPED);
	to_frozen();
	say_saved(&save);
	hang_up(&mover);
	expect(shim, GP_WIRE_EXPORT, &m);
	answer(shim, GP_WIRE_RELEASE, GP_WIRE_RELEASED);
	CHECK_EQ(job->recovering, true);
	start_mover_with(2);
	say_channels(shim);
	say_state(GP_RESYNC_AWAY, 2, 0);
	CHECK_EQ(job->state, GP_JOB_SWAPPED);
	CHECK_EQ(job->recovering, false);
	job->rests_until_ns = 0;
	resume();
	answer(shim, GP_WIRE_RECREATE, GP_WIRE_RECREATED);
	/* Once more, before its bytes are back. */
	expect(mover, GP_WIRE_LOAD, &m);
	hang_up(&mover);
	start_mover_with(2);
	say_channels(shim);
	say_state(GP_RESYNC_UNFILLED, 0, 2);
	CHECK_EQ(job->state, GP_JOB_SWAPPED);
	resume();
	answer(shim, GP_WIRE_RECREATE, GP_WIRE_RECREATED);
	answer(mover, GP_WIRE_LOAD, GP_WIRE_LOAD_DONE);
	expect_none(mover);
	answer(shim, GP_WIRE_CONFIRM, GP_WIRE_CONFIRMED);
	expect(mover, GP_WIRE_DROP, &m);
	answer(mover, GP_WIRE_THAW, GP_WIRE_THAWED);
	answer(shim, GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(job->state, GP_JOB_RUNNING);
	end();
}

static void test_mover_when_gone_and_its_ledger_is_short_then_job_is_ended_on_scratch(void)
{
	struct gp_wire_msg m, save;

	begin();
	start_supervisor();
	expect(supervisor, GP_WIRE_WELCOME, &m);
	preempt(GP_JOB_SWAPPED);
	to_frozen();
	say_saved(&save);
	hang_up(&mover);
	expect(shim, GP_WIRE_EXPORT, &m);
	answer(shim, GP_WIRE_RELEASE, GP_WIRE_RELEASED);
	start_mover_with(1);
	say_channels(shim);
	say_state(GP_RESYNC_AWAY, 2, 0);
	answer(shim, GP_WIRE_SCRATCH, GP_WIRE_SCRATCHED);
	expect(mover, GP_WIRE_DROP, &m);
	answer(mover, GP_WIRE_THAW, GP_WIRE_THAWED);
	/* It must not go on with what is in its memory now. */
	expect_none(shim);
	expect(supervisor, GP_WIRE_SIGNAL, &m);
	CHECK_EQ(m.signal.signo, SIGKILL);
	end();
}

static void test_mover_when_new_then_thaws_only_once_it_knows_the_channels(void)
{
	begin();
	start_supervisor();
	preempt(GP_JOB_SWAPPED);
	answer(shim, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	hang_up(&mover);
	CHECK_EQ(job->state, GP_JOB_FROZEN);
	start_mover();
	say_state(GP_RESYNC_LOCKED, 0, 0);
	expect_none(mover);
	say_channels(shim);
	answer(mover, GP_WIRE_THAW, GP_WIRE_THAWED);
	answer(shim, GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(job->state, GP_JOB_RUNNING);
	end();
}

/* Its connection was lost, and not its daemon. */
static void test_process_when_it_comes_back_locked_then_job_goes_on_as_a_whole(void)
{
	struct gp_wire_msg m;
	uint32_t proc;

	begin();
	proc = gp_container_of(job->procs.next, struct gp_proc, node)->id;
	start_supervisor();
	other = start_shim();
	hang_up(&shim);
	shim = dial_as(GP_ROLE_SHIM, job->id, proc);
	expect(shim, GP_WIRE_WELCOME, &m);
	gp_wire_init(&m, GP_WIRE_RESYNC);
	m.resync = (struct gp_wire_resync){ .state = GP_RESYNC_LOCKED, .attached = 1 };
	send_to(shim, &m);
	CHECK_EQ(job->recovering, true);
	expect(other, GP_WIRE_STATE, &m);
	gp_wire_init(&m, GP_WIRE_RESYNC);
	m.resync = (struct gp_wire_resync){ .state = GP_RESYNC_OPEN, .attached = 1 };
	send_to(other, &m);
	say_channels(shim);
	expect(other, GP_WIRE_LOCK, &m);
	end();
}

static void test_process_when_its_job_has_ended_then_nothing_is_recovered(void)
{
	struct gp_wire_msg m;

	begin();
	gp_job_finish(job, GP_JOB_FAILED, "test");
	gp_wire_init(&m, GP_WIRE_RESYNC);
	m.resync = (struct gp_wire_resync){ .state = GP_RESYNC_LOCKED, .attached = 1 };
	send_to(shim, &m);
	CHECK_EQ(job->recovering, false);
	end();
}

/* What the mover saved since it came counts as well. */
static void test_process_when_it_comes_back_swapped_then_its_memory_is_not_taken_for_lost(void)
{
	struct gp_wire_msg m;
	uint32_t proc;

	begin();
	proc = gp_container_of(job->procs.next, struct gp_proc, node)->id;
	start_supervisor();
	preempt(GP_JOB_SWAPPED);
	to_swapped();
	job->held = true;
	hang_up(&shim);
	shim = dial_as(GP_ROLE_SHIM, job->id, proc);
	expect(shim, GP_WIRE_WELCOME, &m);
	gp_wire_init(&m, GP_WIRE_RESYNC);
	m.resync = (struct gp_wire_resync){ .state = GP_RESYNC_AWAY,
					    .attached = 1,
					    .n_extents = 2,
					    .n_released = 2,
					    .movable_bytes = 4 * MIB,
					    .released_bytes = 4 * MIB };
	send_to(shim, &m);
	CHECK_EQ(job->state, GP_JOB_SWAPPED);
	CHECK_EQ(job->cancelling, false);
	say_channels(shim);
	resume();
	answer(shim, GP_WIRE_RECREATE, GP_WIRE_RECREATED);
	answer(mover, GP_WIRE_LOAD, GP_WIRE_LOAD_DONE);
	answer(shim, GP_WIRE_CONFIRM, GP_WIRE_CONFIRMED);
	expect(mover, GP_WIRE_DROP, &m);
	end();
}

static void test_cancel_when_scratch_is_refused_then_tried_again(void)
{
	struct gp_wire_msg m;

	begin();
	start_supervisor();
	preempt(GP_JOB_SWAPPED);
	to_swapped();
	gp_preempt_cancel(job);
	answer(shim, GP_WIRE_SCRATCH, GP_WIRE_ERROR);
	expect_none(shim);
	expire();
	expect(shim, GP_WIRE_SCRATCH, &m);
	/* The same when the mover ends meanwhile. */
	hang_up(&mover);
	start_mover_with(2);
	say_state(GP_RESYNC_AWAY, 2, 0);
	expect(shim, GP_WIRE_SCRATCH, &m);
	CHECK_EQ(job->fail_cause[0], 0);
	end();
}

/* --- cancel and signals --- */

static void test_cancel_when_a_process_does_not_answer_unlock_then_killed(void)
{
	struct gp_wire_msg m;

	begin();
	start_supervisor();
	expect(supervisor, GP_WIRE_WELCOME, &m);
	preempt(GP_JOB_SWAPPED);
	expire();
	CHECK_EQ(job->phase, GP_PHASE_UNLOCK);
	gp_preempt_cancel(job);
	expect(supervisor, GP_WIRE_SIGNAL, &m);
	CHECK_EQ(m.signal.signo, SIGTERM);
	end();
}

static void test_supervisor_when_it_comes_back_then_told_to_kill_but_never_a_frozen_job(void)
{
	struct gp_wire_msg m;

	begin();
	preempt(GP_JOB_FROZEN);
	to_frozen();
	job->held = true;
	hang_up(&mover);
	gp_preempt_cancel(job);
	start_supervisor();
	expect(supervisor, GP_WIRE_WELCOME, &m);
	expect_none(supervisor);
	start_mover();
	say_state(GP_RESYNC_LOCKED, 0, 0);
	hang_up(&supervisor);
	say_channels(shim);
	answer(mover, GP_WIRE_THAW, GP_WIRE_THAWED);
	answer(shim, GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	start_supervisor();
	expect(supervisor, GP_WIRE_SIGNAL, &m);
	CHECK_EQ(m.signal.signo, SIGKILL);
	end();
}

int main(void)
{
	test_mover_when_gone_with_a_release_under_way_then_successor_brings_it_back();
	test_mover_when_gone_and_its_ledger_is_short_then_job_is_ended_on_scratch();
	test_process_when_it_comes_back_locked_then_job_goes_on_as_a_whole();
	test_process_when_its_job_has_ended_then_nothing_is_recovered();
	test_process_when_it_comes_back_swapped_then_its_memory_is_not_taken_for_lost();
	test_mover_when_new_then_thaws_only_once_it_knows_the_channels();
	test_cancel_when_scratch_is_refused_then_tried_again();
	test_cancel_when_a_process_does_not_answer_unlock_then_killed();
	test_supervisor_when_it_comes_back_then_told_to_kill_but_never_a_frozen_job();
	return 0;
}
