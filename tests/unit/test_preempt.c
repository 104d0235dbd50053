/* SPDX-License-Identifier: Apache-2.0 */
/* Preempting, resuming, and who gets memory when. */
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

/* --- preempt and resume --- */

static void test_preempt_when_all_answer_then_swapped_and_back(void)
{
	struct gp_wire_msg m;

	begin();
	preempt(GP_JOB_SWAPPED);
	to_swapped();
	CHECK_EQ(gp_job_device_bytes(job), 0);
	resume();
	answer(shim, GP_WIRE_RECREATE, GP_WIRE_RECREATED);
	answer(mover, GP_WIRE_LOAD, GP_WIRE_LOAD_DONE);
	answer(shim, GP_WIRE_CONFIRM, GP_WIRE_CONFIRMED);
	expect(mover, GP_WIRE_DROP, &m);
	answer(mover, GP_WIRE_THAW, GP_WIRE_THAWED);
	answer(shim, GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(job->state, GP_JOB_RUNNING);
	end();
}

static void test_lock_when_a_process_is_gone_then_others_are_locked_before_the_freeze(void)
{
	struct gp_err err;
	struct gp_wire_msg m;

	begin();
	other = start_shim();
	close(shim); /* the daemon notices when it sends to it */
	shim = -1;
	CHECK_EQ(gp_preempt_begin(job, GP_JOB_SWAPPED, "test", &err), 0);
	settle();
	expect_none(mover);
	answer(other, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	expect(mover, GP_WIRE_FREEZE, &m);
	CHECK_EQ(m.freeze.n, 1);
	end();
}

static void test_lock_when_answered_after_its_deadline_then_unlock_is_still_awaited(void)
{
	struct gp_wire_msg lock, m;

	begin();
	preempt(GP_JOB_SWAPPED);
	expect(shim, GP_WIRE_LOCK, &lock);
	expire();
	gp_wire_init_reply(&m, GP_WIRE_LOCKED, &lock);
	send_to(shim, &m);
	CHECK_EQ(job->op, GP_OP_PREEMPT);
	answer(shim, GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(job->op, GP_OP_NONE);
	CHECK_EQ(job->state, GP_JOB_RUNNING);
	end();
}

static void test_lock_when_refused_after_its_deadline_then_job_is_not_killed(void)
{
	struct gp_wire_msg lock, m;

	begin();
	start_supervisor();
	expect(supervisor, GP_WIRE_WELCOME, &m);
	preempt(GP_JOB_SWAPPED);
	expect(shim, GP_WIRE_LOCK, &lock);
	expire();
	gp_wire_init_reply(&m, GP_WIRE_ERROR, &lock);
	m.error.code = -EBUSY;
	send_to(shim, &m);
	expect_none(supervisor);
	answer(shim, GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(job->state, GP_JOB_RUNNING);
	CHECK_EQ(job->cancelling, false);
	end();
}

static void test_process_when_it_joins_during_a_save_then_locked_and_not_waited_for(void)
{
	struct gp_wire_msg m, save;

	begin();
	preempt(GP_JOB_SWAPPED);
	to_frozen();
	other = start_shim();
	expect(other, GP_WIRE_LOCK, &m);
	say_saved(&save);
	say_save_done(&save);
	expect(shim, GP_WIRE_EXPORT, &m);
	answer(shim, GP_WIRE_RELEASE, GP_WIRE_RELEASED);
	CHECK_EQ(job->state, GP_JOB_SWAPPED);
	expect_none(other);
	end();
}

static void test_swap_when_a_process_joined_the_frozen_job_then_it_is_frozen_before_memory_moves(
	void)
{
	struct gp_wire_msg m;

	begin();
	preempt(GP_JOB_FROZEN);
	to_frozen();
	CHECK_EQ(job->state, GP_JOB_FROZEN);
	other = start_shim();
	answer(other, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	preempt(GP_JOB_SWAPPED);
	CHECK_EQ(job->state, GP_JOB_FROZEN);
	answer(shim, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	expect_none(mover);
	answer(other, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	expect(mover, GP_WIRE_FREEZE, &m);
	CHECK_EQ(m.freeze.n, 2);
	end();
}

/* It is in the phase LOCK, and yet it is frozen. */
static void test_cancel_when_a_frozen_job_is_locked_again_then_thawed_before_it_is_killed(void)
{
	struct gp_wire_msg m;

	begin();
	start_supervisor();
	expect(supervisor, GP_WIRE_WELCOME, &m);
	preempt(GP_JOB_FROZEN);
	to_frozen();
	preempt(GP_JOB_SWAPPED);
	gp_preempt_cancel(job);
	expect_none(supervisor);
	expire();
	answer(mover, GP_WIRE_THAW, GP_WIRE_THAWED);
	expect(shim, GP_WIRE_LOCK, &m);
	answer(shim, GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	expect(supervisor, GP_WIRE_SIGNAL, &m);
	end();
}

static void test_freeze_when_refused_for_a_frozen_job_then_thawed_before_it_is_unlocked(void)
{
	begin();
	preempt(GP_JOB_FROZEN);
	to_frozen();
	preempt(GP_JOB_SWAPPED);
	answer(shim, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	answer(mover, GP_WIRE_FREEZE, GP_WIRE_ERROR);
	expect_none(shim);
	answer(mover, GP_WIRE_THAW, GP_WIRE_THAWED);
	answer(shim, GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(job->state, GP_JOB_RUNNING);
	end();
}

static void test_release_when_it_fails_in_part_then_job_comes_back(void)
{
	struct gp_wire_msg m, save, release;

	begin();
	preempt(GP_JOB_SWAPPED);
	to_frozen();
	say_saved(&save);
	expect(shim, GP_WIRE_EXPORT, &m);
	expect(shim, GP_WIRE_RELEASE, &release);
	gp_wire_init_reply(&m, GP_WIRE_RELEASED, &release);
	m.released = (struct gp_wire_count){ .bytes = 2 * MIB, .n = 1 };
	send_to(shim, &m);
	gp_wire_init_reply(&m, GP_WIRE_ERROR, &release);
	m.error.code = -EIO;
	send_to(shim, &m);
	say_save_done(&save);
	answer(shim, GP_WIRE_RECREATE, GP_WIRE_RECREATED);
	answer(mover, GP_WIRE_LOAD, GP_WIRE_LOAD_DONE);
	answer(shim, GP_WIRE_CONFIRM, GP_WIRE_CONFIRMED);
	expect(mover, GP_WIRE_DROP, &m);
	answer(mover, GP_WIRE_THAW, GP_WIRE_THAWED);
	answer(shim, GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(job->state, GP_JOB_RUNNING);
	end();
}

static void test_save_when_it_fails_and_memory_is_refused_then_job_stays_swapped(void)
{
	struct gp_wire_msg m, save;

	begin();
	preempt(GP_JOB_SWAPPED);
	to_frozen();
	say_saved(&save);
	expect(shim, GP_WIRE_EXPORT, &m);
	answer(shim, GP_WIRE_RELEASE, GP_WIRE_RELEASED);
	gp_wire_init_reply(&m, GP_WIRE_ERROR, &save);
	m.error.code = -ENOSPC;
	send_to(mover, &m);
	answer(shim, GP_WIRE_RECREATE, GP_WIRE_ERROR);
	CHECK_EQ(job->state, GP_JOB_SWAPPED);
	CHECK_EQ(job->saved_bytes, 4 * MIB);
	CHECK_EQ(job->cancelling, false);
	end();
}

static void test_save_when_only_the_process_owes_an_answer_then_mover_is_not_replaced(void)
{
	pid_t pid = fork();
	struct gp_wire_msg save;
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	begin();
	preempt(GP_JOB_SWAPPED);
	to_frozen();
	say_saved(&save);
	say_save_done(&save);
	device->mover_pid = pid;
	expire();
	device->mover_pid = 0;
	kill(pid, SIGTERM);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(WTERMSIG(status), SIGTERM);
	CHECK_EQ(job->state, GP_JOB_EVICTING);
	end();
}

static void test_resume_when_memory_is_refused_then_job_rests_and_is_tried_again(void)
{
	struct gp_wire_msg m;

	begin();
	preempt(GP_JOB_SWAPPED);
	to_swapped();
	resume();
	answer(shim, GP_WIRE_RECREATE, GP_WIRE_ERROR);
	CHECK_EQ(job->state, GP_JOB_SWAPPED);
	CHECK_EQ(job->saved_bytes, 4 * MIB);
	say_free(GIB);
	say_free(GIB);
	expect_none(shim);
	job->rests_until_ns = 0;
	say_free(GIB);
	say_free(GIB);
	expect(shim, GP_WIRE_RECREATE, &m);
	end();
}

/* What a job that is starting declared is not there for who is resumed by hand. */
static void test_resume_by_hand_when_memory_is_promised_then_left_to_the_scheduler(void)
{
	struct gp_job *starting;
	struct gp_wire_msg m;

	begin();
	preempt(GP_JOB_SWAPPED);
	to_swapped();
	job->held = true;
	starting = gp_job_new(&d, "starting", d.uid, 0, 6 * MIB);
	starting->device = device;
	gp_job_set_state(starting, GP_JOB_RUNNING, "test");
	say_free(8 * MIB);
	say_free(8 * MIB);
	client = dial(GP_ROLE_CLI, 0);
	expect(client, GP_WIRE_WELCOME, &m);
	gp_wire_init(&m, GP_WIRE_RESUME);
	m.header.job = job->id;
	send_to(client, &m);
	expect(client, GP_WIRE_ERROR, &m);
	CHECK_EQ(m.error.code, -ENOMEM);
	CHECK_EQ(job->state, GP_JOB_SWAPPED);
	CHECK(!job->held);
	expect_none(shim);
	say_free(10 * MIB);
	say_free(10 * MIB);
	expect(shim, GP_WIRE_RECREATE, &m);
	end();
}

static void test_freeze_when_refused_after_the_job_is_being_killed_then_killing_goes_on(void)
{
	struct gp_wire_msg freeze, m;

	begin();
	start_supervisor();
	preempt(GP_JOB_SWAPPED);
	answer(shim, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	expect(mover, GP_WIRE_FREEZE, &freeze);
	gp_preempt_cancel(job);
	hang_up(&shim);
	CHECK_EQ(job->phase, GP_PHASE_KILL);
	gp_wire_init_reply(&m, GP_WIRE_ERROR, &freeze);
	m.error.code = -ESRCH;
	send_to(mover, &m);
	CHECK_EQ(job->phase, GP_PHASE_KILL);
	end();
}

static void test_request_when_there_is_nothing_to_save_then_answered(void)
{
	struct gp_wire_msg m;

	begin();
	client = dial(GP_ROLE_CLI, 0);
	expect(client, GP_WIRE_WELCOME, &m);
	gp_wire_init(&m, GP_WIRE_PREEMPT);
	m.header.job = job->id;
	m.preempt.to = GP_JOB_SWAPPED;
	send_to(client, &m);
	answer(shim, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	gp_container_of(job->procs.next, struct gp_proc, node)->n_extents = 0;
	answer(mover, GP_WIRE_FREEZE, GP_WIRE_FROZEN);
	answer(shim, GP_WIRE_PROBE, GP_WIRE_PROBED);
	expect(client, GP_WIRE_JOB, &m);
	CHECK_EQ(m.job.state, GP_JOB_SWAPPED);
	end();
}

/* --- memory --- */

static void test_need_when_reading_is_older_than_it_then_read_again_before_it_is_refused(void)
{
	struct gp_wire_msg m;

	begin();
	say_need(shim, 100 * MIB);
	say_free(0); /* asked for before the need came */
	expect_none(shim);
	say_free(GIB);
	expect(shim, GP_WIRE_OK, &m);
	end();
}

static void test_need_when_its_job_stands_still_then_waits(void)
{
	begin();
	say_need(shim, 100 * MIB);
	preempt(GP_JOB_FROZEN);
	to_frozen();
	job->held = true;
	/* Or there would be nothing to decide. */
	gp_job_set_state(gp_job_new(&d, "waits", d.uid, 0, GIB), GP_JOB_QUEUED, "test");
	for (int i = 0; i < 4; i++) {
		gp_schedule_want(&d);
		say_free(0);
	}
	expect_none(shim);
	end();
}

static void test_need_when_granted_then_its_bytes_are_nobody_elses_until_taken(void)
{
	struct gp_wire_msg m;
	struct gp_job *next_job;

	begin();
	say_need(shim, 900 * MIB);
	say_free(GIB); /* asked for before the need came */
	say_free(GIB);
	expect(shim, GP_WIRE_OK, &m);
	next_job = gp_job_new(&d, "next", d.uid, 0, 512 * MIB);
	gp_job_set_state(next_job, GP_JOB_QUEUED, "test");
	for (int i = 0; i < 4; i++) {
		gp_schedule_want(&d);
		say_free(GIB);
	}
	CHECK_EQ(next_job->state, GP_JOB_QUEUED);
	gp_wire_init(&m, GP_WIRE_MEMORY);
	m.memory = (struct gp_wire_memory){ .movable_bytes = 904 * MIB, .n_extents = 3 };
	send_to(shim, &m);
	for (int i = 0; i < 4; i++) {
		gp_schedule_want(&d);
		say_free(GIB);
	}
	CHECK(next_job->state != GP_JOB_QUEUED); /* taken: what is free now is free */
	end();
}

static void test_need_when_granted_twice_for_nothing_then_refused(void)
{
	struct gp_wire_msg m;

	begin();
	for (int i = 0; i < 2; i++) {
		say_need(shim, 900 * MIB);
		say_free(GIB); /* asked for before the need came */
		say_free(GIB);
		expect(shim, GP_WIRE_OK, &m);
	}
	say_need(shim, 900 * MIB);
	expect(shim, GP_WIRE_ERROR, &m);
	CHECK_EQ(m.error.code, -ENOMEM);
	say_need(shim, 800 * MIB); /* another allocation */
	say_free(GIB);
	say_free(GIB);
	expect(shim, GP_WIRE_OK, &m);
	end();
}

static void test_memory_when_a_process_lies_then_no_more_than_the_device(void)
{
	struct gp_wire_msg m;

	begin();
	gp_wire_init(&m, GP_WIRE_MEMORY);
	m.memory.movable_bytes = UINT64_MAX;
	send_to(shim, &m);
	CHECK_EQ(gp_job_device_bytes(job), GIB);
	end();
}

static void test_list_when_longer_than_a_queue_then_complete(void)
{
	struct gp_wire_msg m;
	uint32_t n = 0, type;

	begin();
	for (int i = 0; i < 2 * GP_PEER_MAX_QUEUED; i++)
		CHECK(gp_job_new(&d, "past", d.uid, 0, 0));
	client = dial(GP_ROLE_CLI, 0);
	expect(client, GP_WIRE_WELCOME, &m);
	gp_wire_init(&m, GP_WIRE_LIST);
	send_to(client, &m);
	while ((type = next(client, &m)) == GP_WIRE_JOB || !type) {
		n += type == GP_WIRE_JOB;
		if (!type)
			settle();
	}
	CHECK_EQ(type, GP_WIRE_END);
	CHECK_EQ(n, 2 * GP_PEER_MAX_QUEUED + 1);
	end();
}

int main(void)
{
	test_preempt_when_all_answer_then_swapped_and_back();
	test_lock_when_a_process_is_gone_then_others_are_locked_before_the_freeze();
	test_lock_when_answered_after_its_deadline_then_unlock_is_still_awaited();
	test_lock_when_refused_after_its_deadline_then_job_is_not_killed();
	test_process_when_it_joins_during_a_save_then_locked_and_not_waited_for();
	test_swap_when_a_process_joined_the_frozen_job_then_it_is_frozen_before_memory_moves();
	test_cancel_when_a_frozen_job_is_locked_again_then_thawed_before_it_is_killed();
	test_freeze_when_refused_for_a_frozen_job_then_thawed_before_it_is_unlocked();
	test_release_when_it_fails_in_part_then_job_comes_back();
	test_save_when_it_fails_and_memory_is_refused_then_job_stays_swapped();
	test_save_when_only_the_process_owes_an_answer_then_mover_is_not_replaced();
	test_resume_when_memory_is_refused_then_job_rests_and_is_tried_again();
	test_resume_by_hand_when_memory_is_promised_then_left_to_the_scheduler();
	test_freeze_when_refused_after_the_job_is_being_killed_then_killing_goes_on();
	test_request_when_there_is_nothing_to_save_then_answered();
	test_need_when_reading_is_older_than_it_then_read_again_before_it_is_refused();
	test_need_when_its_job_stands_still_then_waits();
	test_need_when_granted_then_its_bytes_are_nobody_elses_until_taken();
	test_need_when_granted_twice_for_nothing_then_refused();
	test_memory_when_a_process_lies_then_no_more_than_the_device();
	test_list_when_longer_than_a_queue_then_complete();
	return 0;
}
