/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/played.h"

#include "base/time.h"
#include "daemon/preempt.h"
#include "daemon/schedule.h"
#include "daemon/store.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

struct gp_daemon d;
struct gp_device *device;
struct gp_job *job;
static struct gp_timer stopper;
int mover = -1, shim = -1, other = -1, supervisor = -1, client = -1;
static char folder[] = "/tmp/gp-test-played-XXXXXX";

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

void settle(void)
{
	struct pollfd p = { .fd = d.loop.epoll_fd, .events = POLLIN };
	struct gp_err err;

	do {
		d.loop.stop = false;
		gp_timer_arm(&d.loop, &stopper, 0);
		CHECK_EQ(gp_loop_run(&d.loop, &err), 0);
	} while (poll(&p, 1, 0) > 0);
}

void expire(void)
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
uint32_t next(int sock, struct gp_wire_msg *m)
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

void expect(int sock, uint32_t type, struct gp_wire_msg *m)
{
	CHECK_STR(gp_wire_name(next(sock, m)), gp_wire_name(type));
}

void expect_none(int sock)
{
	struct gp_wire_msg m;
	uint32_t type = next(sock, &m);

	CHECK_STR(type ? gp_wire_name(type) : "nothing", "nothing");
}

void send_to(int sock, const struct gp_wire_msg *m)
{
	struct gp_err err;

	CHECK_EQ(gp_wire_send(sock, m, NULL, 0, &err), 0);
	settle();
}

void answer(int sock, uint32_t request, uint32_t type)
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

int dial_as(uint32_t role, uint64_t id, uint32_t proc)
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

int dial(uint32_t role, uint64_t id)
{
	return dial_as(role, id, 0);
}

void hang_up(int *sock)
{
	close(*sock);
	*sock = -1;
	settle();
}

void say_channels(int sock)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_CHANNELS);
	m.channels.total = m.channels.n = m.channels.complete = 1;
	send_to(sock, &m);
}

int start_shim(void)
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

void start_mover_with(uint32_t n_saved)
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

void start_mover(void)
{
	start_mover_with(0);
}

void say_state(enum gp_resync_state state, uint32_t n_released, uint32_t n_unfilled)
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

void say_free(uint64_t bytes)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_MEMINFO);
	m.meminfo = (struct gp_wire_meminfo){ .free_bytes = bytes, .total_bytes = GIB };
	send_to(mover, &m);
}

void say_need(int sock, uint64_t bytes)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_NEED);
	m.header.cookie = 77;
	m.need.bytes = bytes;
	send_to(sock, &m);
}

/* --- a daemon with a running job of one process --- */

void begin(void)
{
	char path[64];
	struct gp_err err;

	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	CHECK(mkdtemp(folder));
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

void end(void)
{
	int *socks[] = { &mover, &shim, &other, &supervisor, &client };
	char command[128];

	gp_daemon_fini(&d);
	for (size_t i = 0; i < GP_ARRAY_SIZE(socks); i++) {
		if (*socks[i] >= 0)
			close(*socks[i]);
		*socks[i] = -1;
	}
	snprintf(command, sizeof(command), "rm -r %s", folder);
	CHECK_EQ(system(command), 0);
}

void start_supervisor(void)
{
	supervisor = dial(GP_ROLE_SUPERVISOR, job->id);
}

void preempt(enum gp_job_state to)
{
	struct gp_err err;

	CHECK_EQ(gp_preempt_begin(job, to, "test", &err), 0);
	settle();
}

void to_frozen(void)
{
	answer(shim, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	if (other >= 0)
		answer(other, GP_WIRE_LOCK, GP_WIRE_LOCKED);
	answer(mover, GP_WIRE_FREEZE, GP_WIRE_FROZEN);
	answer(shim, GP_WIRE_PROBE, GP_WIRE_PROBED);
	if (other >= 0)
		answer(other, GP_WIRE_PROBE, GP_WIRE_PROBED);
}

void say_saved(struct gp_wire_msg *ret_save)
{
	struct gp_wire_msg m;

	expect(mover, GP_WIRE_SAVE, ret_save);
	gp_wire_init_reply(&m, GP_WIRE_SAVED, ret_save);
	m.saved.n = 2;
	send_to(mover, &m);
}

void say_save_done(const struct gp_wire_msg *save)
{
	struct gp_wire_msg m;

	gp_wire_init_reply(&m, GP_WIRE_SAVE_DONE, save);
	m.save_done.total_bytes = 4 * MIB;
	send_to(mover, &m);
}

void to_swapped(void)
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

void resume(void)
{
	struct gp_err err;

	CHECK_EQ(gp_preempt_resume(job, "test", &err), 0);
	settle();
}
