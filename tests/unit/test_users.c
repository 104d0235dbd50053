/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers of several users against the daemon's own loop, in this process. Who a peer is comes from
 * the kernel, so all are this process at first; a test makes one another user's where it needs to.
 */
#include "daemon/device.h"
#include "daemon/history.h"
#include "daemon/job.h"
#include "daemon/peer.h"
#include "daemon/proc.h"
#include "daemon/spawner.h"
#include "daemon/store.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALICE 1001
#define BOB   1002

static struct gp_daemon d;
static struct gp_timer stopper;
static char folder[] = "/tmp/gp-test-users-XXXXXX";

static void stop(struct gp_timer *timer)
{
	d.loop.stop = true;
}

static void turn_end(struct gp_loop *loop)
{
	gp_store_commit(d.store);
	gp_peer_reap(&d);
}

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

static void begin(void)
{
	struct gp_device *device = calloc(1, sizeof(*device));
	struct gp_err err;
	char path[64];

	CHECK(device);
	d = (struct gp_daemon){ .uid = geteuid(), .next_job = 1, .lock_fd = -1 };
	d.options.system = true;
	d.options.device = GP_DEVICE_SOFT;
	d.options.state_dir = folder;
	d.control.source.fd = d.shim.source.fd = d.signals.fd = -1;
	gp_list_init(&d.peers);
	gp_peer_init_strangers(&d);
	gp_spawner_init(&d);
	gp_list_init(&d.dead_peers);
	gp_list_init(&d.jobs);
	gp_registry_init(&d.registry);
	gp_list_init(&d.recalls);
	gp_list_init(&d.devices);
	CHECK_EQ(gp_loop_init(&d.loop, &err), 0);
	d.loop.turn_end = turn_end;
	gp_timer_init(&stopper, stop);
	gp_timer_init(&d.schedule_timer, stop);
	snprintf(path, sizeof(path), "%s/gpupres.db", folder);
	CHECK_EQ(gp_store_open(path, &d.store, &err), 0);
	CHECK_EQ(gp_job_recover(&d, &err), 0);
	CHECK_EQ(gp_store_start(d.store, &err), 0);
	CHECK_EQ(gp_history_new(d.store, &d.loop, &d.history, &err), 0);
	device->daemon = &d;
	device->mover_pidfd = -1;
	device->was_ready = true;
	device->mover_fate = GP_RESYNC_MOVER_NEW;
	for (int i = 0; i < GP_MOVER_STATE_FDS; i++)
		device->mover_state[i] = -1;
	gp_list_init(&device->ledgers);
	gp_list_init(&device->needs);
	gp_list_init(&device->node);
	gp_timer_init(&device->restart_timer, stop);
	gp_list_add_tail(&d.devices, &device->node);
}

static void end(void)
{
	char command[128];

	gp_daemon_fini(&d);
	snprintf(command, sizeof(command), "rm -f %s/gpupres.db*", folder);
	CHECK_EQ(system(command), 0);
}

static struct gp_peer *newest(void)
{
	return gp_container_of(d.peers.prev, struct gp_peer, node);
}

/* A connection whose other end, returned, is @uid's, and no admin's. */
static int connect_as(uid_t uid, bool on_shim_socket)
{
	int sv[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv), 0);
	gp_peer_new(&d, sv[0], on_shim_socket);
	newest()->uid = uid;
	newest()->is_admin = false;
	return sv[1];
}

/* The answer to @m; its type is 0 if there is none, or the connection has ended. */
static struct gp_wire_msg call(int sock, const struct gp_wire_msg *m)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct gp_wire_msg answer = { 0 };
	struct gp_err err;

	CHECK_EQ(gp_wire_send(sock, m, NULL, 0, &err), 0);
	settle();
	/* From the database it comes by another thread. */
	for (int i = 0; i < 10 && m->header.job && poll(&p, 1, 100) == 0; i++)
		settle();
	if (gp_wire_recv(sock, &answer, NULL, 0, NULL, 0, &err) < 0)
		answer.header.type = 0;
	return answer;
}

static struct gp_wire_msg hello(int sock, uint32_t role, uint64_t job)
{
	struct gp_wire_msg m;

	gp_wire_init_hello(&m, role, job, "test");
	return call(sock, &m);
}

static int client(uid_t uid)
{
	int sock = connect_as(uid, false);

	CHECK_EQ(hello(sock, GP_ROLE_CLI, 0).header.type, GP_WIRE_WELCOME);
	return sock;
}

static struct gp_job *job_of(uid_t uid)
{
	struct gp_job *job = gp_job_new(&d, "job", uid, 0, 0);

	CHECK(job);
	job->device = gp_container_of(d.devices.next, struct gp_device, node);
	gp_job_set_state(job, GP_JOB_RUNNING, "test");
	return job;
}

static bool has_ended(int sock)
{
	char byte;

	return recv(sock, &byte, 1, MSG_DONTWAIT) == 0;
}

static void test_requests_when_the_job_is_foreign_then_answered_as_if_there_were_none(void)
{
	const uint32_t types[] = { GP_WIRE_SHOW,   GP_WIRE_WAIT,   GP_WIRE_LOGS,
				   GP_WIRE_CANCEL, GP_WIRE_RESUME, GP_WIRE_PREEMPT };
	struct gp_wire_msg m, foreign, none;
	struct gp_job *job;
	char text[64];
	int bob;

	begin();
	job = job_of(ALICE);
	d.next_job = 100; /* of another user, too, is what was forgotten */
	bob = client(BOB);
	for (size_t i = 0; i < GP_ARRAY_SIZE(types); i++) {
		gp_wire_init(&m, types[i]);
		if (types[i] == GP_WIRE_PREEMPT)
			m.preempt.to = GP_JOB_SWAPPED;
		m.header.job = job->id;
		foreign = call(bob, &m);
		m.header.job = 99;
		none = call(bob, &m);
		CHECK_EQ(foreign.header.type, GP_WIRE_ERROR);
		CHECK_EQ(none.header.type, GP_WIRE_ERROR);
		CHECK_EQ(foreign.error.code, none.error.code);
		CHECK_STR(none.error.text, "no job 99: see gpupresctl history");
		snprintf(text, sizeof(text), "no job %d: see gpupresctl history", (int)job->id);
		CHECK_STR(foreign.error.text, text);
	}
	CHECK_EQ(job->state, GP_JOB_RUNNING);
	close(bob);
	end();
}

static void test_list_when_asked_then_own_jobs_and_all_for_admins(void)
{
	struct gp_wire_msg m;
	struct gp_err err;
	uint64_t bobs;
	int bob;

	begin();
	job_of(ALICE);
	bobs = job_of(BOB)->id;
	bob = client(BOB);
	gp_wire_init(&m, GP_WIRE_LIST);
	m = call(bob, &m);
	CHECK_EQ(m.header.type, GP_WIRE_JOB);
	CHECK_EQ(m.job.id, bobs);
	CHECK_EQ(gp_wire_recv(bob, &m, NULL, 0, NULL, 0, &err), 0);
	CHECK_EQ(m.header.type, GP_WIRE_END);
	gp_wire_init(&m, GP_WIRE_LIST);
	m.list.all = 1;
	m = call(bob, &m);
	CHECK_EQ(m.header.type, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -EPERM);
	newest()->is_admin = true;
	gp_wire_init(&m, GP_WIRE_LIST);
	m.list.all = 1;
	m = call(bob, &m);
	CHECK_EQ(m.job.uid, ALICE);
	CHECK_EQ(gp_wire_recv(bob, &m, NULL, 0, NULL, 0, &err), 0);
	CHECK_EQ(m.job.uid, BOB);
	close(bob);
	end();
}

static void test_submit_when_the_priority_is_for_admins_then_refused(void)
{
	struct gp_wire_msg m, answer;
	int bob;

	begin();
	bob = client(BOB);
	gp_wire_init(&m, GP_WIRE_SUBMIT);
	m.submit.n_args = 1;
	m.submit.priority = 1;
	answer = call(bob, &m);
	CHECK_EQ(answer.error.code, -EPERM);
	newest()->is_admin = true;
	answer = call(bob, &m);
	CHECK_EQ(answer.error.code, -EBADMSG); /* it has no command, but might have the priority */
	close(bob);
	end();
}

static void test_shim_when_it_names_foreign_job_then_refused_as_if_there_were_none(void)
{
	struct gp_wire_msg foreign, none;
	int socks[3] = { -1, -1, -1 };
	struct gp_job *job;

	begin();
	job = job_of(ALICE);
	socks[0] = connect_as(BOB, true);
	foreign = hello(socks[0], GP_ROLE_SHIM, job->id);
	socks[1] = connect_as(BOB, true);
	none = hello(socks[1], GP_ROLE_SHIM, 99);
	CHECK_EQ(foreign.header.type, GP_WIRE_ERROR);
	CHECK_EQ(foreign.error.code, none.error.code);
	CHECK_STR(none.error.text, "no job 99 is running");
	CHECK(gp_list_empty(&job->procs));
	socks[2] = connect_as(ALICE, true);
	CHECK_EQ(hello(socks[2], GP_ROLE_SHIM, job->id).header.type, GP_WIRE_WELCOME);
	CHECK(!gp_list_empty(&job->procs));
	for (int i = 0; i < 3; i++)
		close(socks[i]);
	end();
}

static void test_supervisor_when_of_another_user_then_refused(void)
{
	struct gp_job *job;
	int bob, alice;

	begin();
	job = job_of(ALICE);
	bob = connect_as(BOB, true);
	CHECK_EQ(hello(bob, GP_ROLE_SUPERVISOR, job->id).header.type, GP_WIRE_ERROR);
	CHECK(!job->supervisor);
	alice = connect_as(ALICE, true);
	CHECK_EQ(hello(alice, GP_ROLE_SUPERVISOR, job->id).header.type, GP_WIRE_WELCOME);
	CHECK(job->supervisor);
	close(bob);
	close(alice);
	end();
}

static void test_shim_when_it_asks_for_what_clients_ask_then_dropped(void)
{
	struct gp_wire_msg m;
	struct gp_err err;
	int sock;

	begin();
	sock = connect_as(BOB, true);
	CHECK_EQ(hello(sock, GP_ROLE_SHIM, 0).header.type, GP_WIRE_WELCOME);
	gp_wire_init(&m, GP_WIRE_LIST);
	CHECK_EQ(gp_wire_send(sock, &m, NULL, 0, &err), 0);
	settle();
	CHECK(has_ended(sock));
	close(sock);
	end();
}

/* Connections, jobs that were adopted, requests that wait: each has its limit, and says so once. */
static void test_limits_when_met_then_said_in_one_line_and_given_back(void)
{
	struct gp_quota_limits limits = { 0 };
	struct gp_wire_msg m, answer;
	struct gp_job *job;
	int bob, more;

	begin();
	d.quota.limits = &limits;
	job = job_of(geteuid());
	bob = client(geteuid());
	limits.counts[GP_QUOTA_REQUESTS] = 1;
	gp_wire_init(&m, GP_WIRE_WAIT);
	m.header.job = job->id;
	CHECK_EQ(call(bob, &m).header.type, 0);
	answer = call(bob, &m);
	CHECK_EQ(answer.header.type, GP_WIRE_ERROR);
	CHECK_EQ(answer.error.code, -EDQUOT);
	limits.counts[GP_QUOTA_ADOPTED] = 1;
	more = connect_as(geteuid(), true);
	CHECK_EQ(hello(more, GP_ROLE_SHIM, 0).header.type, GP_WIRE_WELCOME);
	limits.counts[GP_QUOTA_CONNECTIONS] = 3;
	answer = hello(connect_as(geteuid(), true), GP_ROLE_SHIM, 0);
	CHECK_EQ(answer.error.code, -EDQUOT);
	CHECK(strstr(answer.error.text, "max_adopted"));
	close(bob);
	settle();
	CHECK_EQ(gp_quota_used(&d.quota, geteuid(), GP_QUOTA_REQUESTS), 0);
	CHECK_EQ(gp_quota_used(&d.quota, geteuid(), GP_QUOTA_CONNECTIONS), 1);
	CHECK_EQ(gp_quota_used(&d.quota, geteuid(), GP_QUOTA_ADOPTED), 1);
	close(more);
	end();
	CHECK_EQ(gp_quota_used(&d.quota, geteuid(), GP_QUOTA_ADOPTED), 0);
}

static void test_reader_when_slow_then_its_bytes_are_charged_and_it_is_dropped(void)
{
	struct gp_quota_limits limits = { .sizes[GP_QUOTA_MESSAGE_BYTES] = 64 << 10 };
	struct gp_wire_msg m;
	struct gp_peer *peer;
	uint64_t most = 0;
	int slow, i;

	begin();
	d.quota.limits = &limits;
	slow = connect_as(geteuid(), true);
	CHECK_EQ(hello(slow, GP_ROLE_SHIM, 0).header.type, GP_WIRE_WELCOME);
	peer = newest();
	gp_wire_init(&m, GP_WIRE_PROBE);
	/* The socket takes some hundred; the queue at most 64 KiB. */
	for (i = 0; i < 10000 && !peer->failed; i++) {
		gp_peer_send(peer, &m, NULL, 0);
		if (gp_quota_used(&d.quota, geteuid(), GP_QUOTA_MESSAGE_BYTES) > most)
			most = gp_quota_used(&d.quota, geteuid(), GP_QUOTA_MESSAGE_BYTES);
	}
	CHECK(i < 10000);
	CHECK(most > 0 && most <= 64 << 10);
	settle();
	CHECK_EQ(gp_quota_used(&d.quota, geteuid(), GP_QUOTA_MESSAGES), 0);
	CHECK_EQ(gp_quota_used(&d.quota, geteuid(), GP_QUOTA_MESSAGE_BYTES), 0);
	CHECK_EQ(gp_quota_used(&d.quota, geteuid(), GP_QUOTA_CONNECTIONS), 0);
	close(slow);
	end();
}

static void test_stranger_when_silent_then_dropped_and_nobody_else(void)
{
	int silent, bob;

	begin();
	bob = client(BOB);
	silent = connect_as(BOB, false);
	settle();
	CHECK(!has_ended(silent));
	newest()->came_ns -= GP_PEER_HELLO_NS;
	gp_timer_arm(&d.loop, &d.stranger_timer, 0);
	settle();
	CHECK(has_ended(silent));
	CHECK(!has_ended(bob));
	close(silent);
	close(bob);
	end();
}

/* In the child: says hello as a shim, and leaves the connection to a child of its own. */
static _Noreturn void shim_that_forks(const struct sockaddr_un *addr, socklen_t len, int orders)
{
	struct gp_wire_msg m;
	struct gp_err err;
	char byte;
	int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	CHECK_EQ(connect(sock, (const struct sockaddr *)addr, len), 0);
	gp_wire_init_hello(&m, GP_ROLE_SHIM, 0, "forks");
	CHECK_EQ(gp_wire_send(sock, &m, NULL, 0, &err), 0);
	CHECK_EQ(gp_wire_recv(sock, &m, NULL, 0, NULL, 10000, &err), 0);
	CHECK_EQ(m.header.type, GP_WIRE_WELCOME);
	CHECK_EQ(read(orders, &byte, 1), 1);
	if (fork() == 0)
		CHECK_EQ(read(orders, &byte, 1), 0);
	_exit(0);
}

static void test_shim_when_its_process_ends_and_a_child_keeps_the_connection_then_gone(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(addr.sun_family); /* the kernel chooses an abstract name */
	struct pollfd p = { .events = POLLIN };
	struct gp_job *job;
	int orders[2], status;
	pid_t child;

	begin();
	CHECK_EQ(pipe(orders), 0);
	p.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(p.fd, (struct sockaddr *)&addr, len), 0);
	len = sizeof(addr);
	CHECK_EQ(getsockname(p.fd, (struct sockaddr *)&addr, &len), 0);
	CHECK_EQ(listen(p.fd, 1), 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(orders[1]);
		shim_that_forks(&addr, len, orders[0]);
	}
	CHECK_EQ(poll(&p, 1, 10000), 1);
	gp_peer_new(&d, accept4(p.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), true);
	p.fd = newest()->source.fd;
	CHECK_EQ(poll(&p, 1, 10000), 1);
	settle();
	job = gp_container_of(d.jobs.prev, struct gp_job, node);
	CHECK_EQ(job->state, GP_JOB_RUNNING);
	CHECK(job->adopted);
	CHECK_EQ(job->pid, child);
	CHECK_EQ(write(orders[1], "", 1), 1);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	settle();
	CHECK_EQ(job->state, GP_JOB_DONE);
	close(orders[1]);
	close(orders[0]);
	end();
}

int main(void)
{
	CHECK(mkdtemp(folder));
	test_requests_when_the_job_is_foreign_then_answered_as_if_there_were_none();
	test_list_when_asked_then_own_jobs_and_all_for_admins();
	test_submit_when_the_priority_is_for_admins_then_refused();
	test_shim_when_it_names_foreign_job_then_refused_as_if_there_were_none();
	test_supervisor_when_of_another_user_then_refused();
	test_shim_when_it_asks_for_what_clients_ask_then_dropped();
	test_limits_when_met_then_said_in_one_line_and_given_back();
	test_reader_when_slow_then_its_bytes_are_charged_and_it_is_dropped();
	test_stranger_when_silent_then_dropped_and_nobody_else();
	test_shim_when_its_process_ends_and_a_child_keeps_the_connection_then_gone();
	CHECK_EQ(rmdir(folder), 0);
	return 0;
}
