/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays mover, shims, supervisor and client against the daemon's own loop, in this process: every
 * order of answers, ends and deadlines can be had, and none of it waits.
 */
#include "base/time.h"
#include "daemon/preempt.h"
#include "daemon/schedule.h"
#include "daemon/store.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static struct gp_daemon d;
static struct gp_device *device;
static struct gp_job *job;
static struct gp_timer stopper;
static int mover = -1, shim = -1, other = -1, supervisor = -1, client = -1;
static char folder[] = "/tmp/gp-test-preempt-XXXXXX";

/* --- the daemon's loop --- */

static void stop(struct gp_timer *timer)
{
	d.loop.stop = true;
}

static void schedule_again(struct gp_timer *timer)
{
	gp_schedule_want(&d);
}

static void turn_end(struct gp_loop *loop)
{
	gp_schedule_turn(&d);
	gp_store_commit(d.store);
	gp_peer_reap(&d);
}

/* Turns until there is nothing left to be read. */
static void settle(void)
{
	struct pollfd p = { .fd = d.loop.epoll_fd, .events = POLLIN };
	struct gp_err err;

	do {
		d.loop.stop = false;
		gp_timer_arm(&d.loop, &stopper, 0);
		CHECK_EQ(gp_loop_run(&d.loop, &err), 0);
	} while (poll(&p, 1, 0) > 0);
}

static void expire(void)
{
	gp_timer_arm(&d.loop, &job->op_timer, 0);
	settle();
}

/* --- its peers --- */

static bool is_noise(uint32_t type)
{
	return type == GP_WIRE_MEMINFO || type == GP_WIRE_LINK || type == GP_WIRE_UNLINK ||
	       type == GP_WIRE_CHANNELS;
}

/* The next message but for those that are @is_noise; 0 if there is none. */
static uint32_t next(int sock, struct gp_wire_msg *m)
{
	struct gp_err err;
	int r;

	do {
		r = gp_wire_recv(sock, m, NULL, 0, NULL, 0, &err);
		if (r == -ETIMEDOUT)
			return 0;
		CHECK_EQ(r, 0);
	} while (is_noise(m->header.type));
	return m->header.type;
}

static void expect(int sock, uint32_t type, struct gp_wire_msg *m)
{
	CHECK_STR(gp_wire_name(next(sock, m)), gp_wire_name(type));
}

static void expect_none(int sock)
{
	struct gp_wire_msg m;
	uint32_t type = next(sock, &m);

	CHECK_STR(type ? gp_wire_name(type) : "nothing", "nothing");
}

static void send_to(int sock, const struct gp_wire_msg *m)
{
	struct gp_err err;

	CHECK_EQ(gp_wire_send(sock, m, NULL, 0, &err), 0);
	settle();
}

/* Answers what is expected next on @sock. */
static void answer(int sock, uint32_t request, uint32_t type)
{
	struct gp_wire_msg m, reply;

	expect(sock, request, &m);
	gp_wire_init_reply(&reply, type, &m);
	if (type == GP_WIRE_ERROR)
		reply.error =
			(struct gp_wire_error){ .code = -ENOMEM, .text = "as the test wants" };
	if (type == GP_WIRE_LOCKED)
		reply.locked = (struct gp_wire_locked){ .movable_bytes = 4 * MIB, .n_extents = 2 };
	if (type == GP_WIRE_RELEASED)
		reply.released = (struct gp_wire_count){ .bytes = 4 * MIB, .n = 2 };
	if (type == GP_WIRE_RECREATED)
		reply.recreated = (struct gp_wire_count){ .bytes = 4 * MIB, .n = 2 };
	send_to(sock, &reply);
}

static int dial_as(uint32_t role, uint64_t id, uint32_t proc)
{
	struct gp_wire_msg m;
	int sv[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv), 0);
	gp_peer_new(&d, sv[0], role == GP_ROLE_SHIM);
	gp_wire_init(&m, GP_WIRE_HELLO);
	m.header.job = id;
	m.header.proc = proc;
	m.hello.version_min = m.hello.version_max = GP_WIRE_VERSION;
	m.hello.role = role;
	send_to(sv[1], &m);
	return sv[1];
}

static int dial(uint32_t role, uint64_t id)
{
	return dial_as(role, id, 0);
}

static void hang_up(int *sock)
{
	close(*sock);
	*sock = -1;
	settle();
}

static void say_channels(int sock)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_CHANNELS);
	m.channels.total = m.channels.n = m.channels.complete = 1;
	send_to(sock, &m);
}

static int start_shim(void)
{
	int sock = dial(GP_ROLE_SHIM, job->id);
	struct gp_wire_msg m;

	expect(sock, GP_WIRE_WELCOME, &m);
	gp_wire_init(&m, GP_WIRE_ATTACH);
	send_to(sock, &m);
	say_channels(sock);
	gp_wire_init(&m, GP_WIRE_MEMORY);
	m.memory = (struct gp_wire_memory){ .movable_bytes = 4 * MIB, .n_extents = 2 };
	send_to(sock, &m);
	return sock;
}

/* A mover that says it has saved @n_saved extents of @shim's process, if that is not 0. */
static void start_mover_with(uint32_t n_saved)
{
	struct gp_wire_msg m;

	device->mover_pid = getpid();
	mover = dial(GP_ROLE_MOVER, 0);
	device->mover_pid = 0;
	expect(mover, GP_WIRE_WELCOME, &m);
	if (n_saved) {
		gp_wire_init(&m, GP_WIRE_LEDGER);
		m.header.job = job->id;
		m.header.proc = gp_container_of(job->procs.next, struct gp_proc, node)->id;
		m.ledger = (struct gp_wire_ledger){ .n_extents = n_saved, .bytes = 4 * MIB };
		send_to(mover, &m);
	}
	gp_wire_init(&m, GP_WIRE_MOVER_READY);
	m.mover_ready = (struct gp_wire_mover_ready){ .total_bytes = GIB, .free_bytes = GIB };
	send_to(mover, &m);
}

static void start_mover(void)
{
	start_mover_with(0);
}

/* What @shim's process says when it is asked what became of it. */
static void say_state(enum gp_resync_state state, uint32_t n_released, uint32_t n_unfilled)
{
	struct gp_wire_msg m, reply;

	expect(shim, GP_WIRE_STATE, &m);
	gp_wire_init_reply(&reply, GP_WIRE_RESYNC, &m);
	reply.resync = (struct gp_wire_resync){ .state = state,
						.attached = 1,
						.linked = 1,
						.n_extents = 2,
						.n_released = n_released,
						.n_unfilled = n_unfilled,
						.movable_bytes = 4 * MIB,
						.released_bytes = n_released * 2 * MIB };
	send_to(shim, &reply);
}

static void say_free(uint64_t bytes)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_MEMINFO);
	m.meminfo = (struct gp_wire_meminfo){ .free_bytes = bytes, .total_bytes = GIB };
	send_to(mover, &m);
}

static void say_need(int sock, uint64_t bytes)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_NEED);
	m.header.cookie = 77;
	m.need.bytes = bytes;
	send_to(sock, &m);
}

/* --- a daemon with a running job of one process --- */

static void begin(void)
{
	char path[64];
	struct gp_err err;

	memset(&d, 0, sizeof(d));
	d = (struct gp_daemon){ .uid = geteuid(), .next_job = 1, .lock_fd = -1 };
	d.options.device = GP_DEVICE_SOFT;
	d.options.state_dir = folder;
	d.options.term_ns = 5 * GP_NS_PER_SEC;
	d.options.orphan_grace_ns = 10 * GP_NS_PER_SEC;
	d.control.source.fd = d.shim.source.fd = d.signals.fd = -1;
	gp_list_init(&d.peers);
	gp_peer_init_strangers(&d);
	gp_list_init(&d.dead_peers);
	gp_list_init(&d.jobs);
	gp_registry_init(&d.registry);
	gp_list_init(&d.recalls);
	gp_list_init(&d.devices);
	CHECK_EQ(gp_loop_init(&d.loop, &err), 0);
	d.loop.turn_end = turn_end;
	gp_timer_init(&stopper, stop);
	gp_timer_init(&d.schedule_timer, schedule_again);
	snprintf(path, sizeof(path), "%s/gpupres.db", folder);
	CHECK_EQ(gp_store_open(path, &d.store, &err), 0);
	CHECK_EQ(gp_job_recover(&d, &err), 0);

	device = calloc(1, sizeof(*device));
	CHECK(device);
	device->daemon = &d;
	device->mover_pidfd = -1;
	device->mover_fate = GP_RESYNC_MOVER_NEW;
	for (int i = 0; i < GP_MOVER_STATE_FDS; i++)
		device->mover_state[i] = -1;
	gp_list_init(&device->needs);
	gp_list_init(&device->ledgers);
	gp_list_init(&device->node);
	gp_timer_init(&device->restart_timer, stop);
	gp_list_add_tail(&d.devices, &device->node);
	start_mover();

	job = gp_job_new(&d, "test", d.uid, 0, 0);
	CHECK(job);
	job->device = device;
	gp_job_set_state(job, GP_JOB_RUNNING, "test");
	shim = start_shim();
}

static void end(void)
{
	int *socks[] = { &mover, &shim, &other, &supervisor, &client };
	char command[128];

	gp_daemon_fini(&d);
	for (size_t i = 0; i < GP_ARRAY_SIZE(socks); i++) {
		if (*socks[i] >= 0)
			close(*socks[i]);
		*socks[i] = -1;
	}
	snprintf(command, sizeof(command), "rm -f %s/gpupres.db*", folder);
	CHECK_EQ(system(command), 0);
}

static void start_supervisor(void)
{
	supervisor = dial(GP_ROLE_SUPERVISOR, job->id);
}

static void preempt(enum gp_job_state to)
{
	struct gp_err err;

	CHECK_EQ(gp_preempt_begin(job, to, "test", &err), 0);
	settle();
}

static void to_frozen(void)
{
	answer(shim, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	if (other >= 0)
		answer(other, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	answer(mover, GP_WIRE_FREEZE, GP_WIRE_FROZEN);
	answer(shim, GP_WIRE_PROBE, GP_WIRE_PROBED);
	if (other >= 0)
		answer(other, GP_WIRE_PROBE, GP_WIRE_PROBED);
}

/* The mover has @shim's two extents, and says so. @ret_save gets its request. */
static void say_saved(struct gp_wire_msg *ret_save)
{
	struct gp_wire_msg m;

	expect(mover, GP_WIRE_SAVE, ret_save);
	gp_wire_init_reply(&m, GP_WIRE_SAVED, ret_save);
	m.saved.n = 2;
	send_to(mover, &m);
}

static void say_save_done(const struct gp_wire_msg *save)
{
	struct gp_wire_msg m;

	gp_wire_init_reply(&m, GP_WIRE_SAVE_DONE, save);
	m.save_done.total_bytes = 4 * MIB;
	send_to(mover, &m);
}

static void to_swapped(void)
{
	struct gp_wire_msg m, save;

	to_frozen();
	say_saved(&save);
	say_save_done(&save);
	expect(shim, GP_WIRE_EXPORT, &m);
	CHECK_EQ(job->state, GP_JOB_EVICTING);
	answer(shim, GP_WIRE_RELEASE, GP_WIRE_RELEASED);
	CHECK_EQ(job->state, GP_JOB_SWAPPED);
}

static void resume(void)
{
	struct gp_err err;

	CHECK_EQ(gp_preempt_resume(job, "test", &err), 0);
	settle();
}

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

/* --- floods --- */

static void test_shim_when_its_mover_is_busy_then_it_waits_and_nothing_is_lost(void)
{
	uint64_t n_sent = 0, n_read = 0;
	struct gp_wire_msg m;
	struct gp_err err;
	int r;

	begin();
	for (;;) {
		gp_wire_init(&m, GP_WIRE_CHANNELS);
		m.channels.generation = 1000 + n_sent;
		m.channels.total = m.channels.n = m.channels.complete = 1;
		r = gp_wire_send(shim, &m, NULL, 0, &err);
		settle();
		if (r < 0)
			break;
		CHECK(++n_sent < GP_PEER_MAX_QUEUED);
	}
	CHECK_EQ(r, -EAGAIN);
	CHECK(device->mover && !device->mover->failed);
	while (n_read < n_sent) {
		settle();
		CHECK_EQ(gp_wire_recv(mover, &m, NULL, 0, NULL, 0, &err), 0);
		if (m.header.type == GP_WIRE_CHANNELS && m.channels.generation >= 1000)
			CHECK_EQ(m.channels.generation, 1000 + n_read++);
	}
	preempt(GP_JOB_SWAPPED);
	to_swapped();
	end();
}

static void test_need_when_too_many_wait_then_one_more_is_refused(void)
{
	struct gp_wire_msg m;

	begin();
	for (int i = 0; i < GP_PROC_MAX_NEEDS; i++)
		say_need(shim, MIB);
	expect_none(shim);
	say_need(shim, MIB);
	expect(shim, GP_WIRE_ERROR, &m);
	CHECK_EQ(m.error.code, -EBUSY);
	/* As they are answered, others may come. */
	for (int n = 0; n < GP_PROC_MAX_NEEDS;) {
		say_free(GIB);
		while (next(shim, &m)) {
			CHECK_EQ(m.header.type, GP_WIRE_OK);
			n++;
		}
	}
	say_need(shim, 2 * MIB);
	expect_none(shim);
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
	CHECK(mkdtemp(folder));
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
	test_mover_when_gone_with_a_release_under_way_then_successor_brings_it_back();
	test_mover_when_gone_and_its_ledger_is_short_then_job_is_ended_on_scratch();
	test_process_when_it_comes_back_locked_then_job_goes_on_as_a_whole();
	test_mover_when_new_then_thaws_only_once_it_knows_the_channels();
	test_cancel_when_scratch_is_refused_then_tried_again();
	test_cancel_when_a_process_does_not_answer_unlock_then_killed();
	test_supervisor_when_it_comes_back_then_told_to_kill_but_never_a_frozen_job();
	test_need_when_reading_is_older_than_it_then_read_again_before_it_is_refused();
	test_need_when_its_job_stands_still_then_waits();
	test_need_when_granted_then_its_bytes_are_nobody_elses_until_taken();
	test_need_when_granted_twice_for_nothing_then_refused();
	test_memory_when_a_process_lies_then_no_more_than_the_device();
	test_list_when_longer_than_a_queue_then_complete();
	test_shim_when_its_mover_is_busy_then_it_waits_and_nothing_is_lost();
	test_need_when_too_many_wait_then_one_more_is_refused();
	CHECK_EQ(rmdir(folder), 0);
	return 0;
}
