/* SPDX-License-Identifier: Apache-2.0 */
/* gpupres-ckpt refuses politely, and is gone when nobody asks. */
#include "base/time.h"
#include "base/wire/wire.h"
#include "daemon/ckpt/ckpt.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define IDLE_NS	   (200 * GP_NS_PER_MS)
#define TIMEOUT_MS 10000

struct server {
	pthread_t thread;
	int fd;
	uid_t uid;
	char path[100];
};

static void *serve(void *arg)
{
	struct server *s = arg;
	struct gp_err err;

	CHECK_EQ(gp_ckpt_serve(s->fd, s->uid, IDLE_NS, &err), 0);
	return NULL;
}

static void start(struct server *s, uid_t uid)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	s->uid = uid;
	/* Unique and without a trace in the file system. */
	snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "gp-test-ckpt-%d", getpid());
	s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(s->fd >= 0);
	CHECK_EQ(bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_EQ(listen(s->fd, 64), 0);
	CHECK_EQ(pthread_create(&s->thread, NULL, serve, s), 0);
}

/* Returns once the helper has gone by itself. */
static void finish(struct server *s)
{
	CHECK_EQ(pthread_join(s->thread, NULL), 0);
	close(s->fd);
}

static int join(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "gp-test-ckpt-%d", getpid());
	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static struct gp_wire_msg ask(int fd, struct gp_wire_msg *m)
{
	struct gp_wire_msg reply;
	struct gp_err err;

	CHECK_EQ(gp_wire_send(fd, m, NULL, 0, &err), 0);
	CHECK_EQ(gp_wire_recv(fd, &reply, NULL, 0, NULL, TIMEOUT_MS, &err), 0);
	return reply;
}

static struct gp_wire_msg hello(int fd, uint32_t version)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_HELLO);
	m.hello.version_min = version;
	m.hello.version_max = version;
	m.hello.role = GP_ROLE_CLI;
	return ask(fd, &m);
}

static void check_closed(int fd)
{
	struct gp_wire_msg m;
	struct gp_err err;

	CHECK_EQ(gp_wire_recv(fd, &m, NULL, 0, NULL, TIMEOUT_MS, &err), -ECONNRESET);
	close(fd);
}

static void test_request_when_greeted_then_refused_with_reason(void)
{
	struct gp_wire_msg m, reply;
	struct server s;
	int fd;

	start(&s, geteuid());
	fd = join();
	CHECK_EQ(hello(fd, GP_WIRE_VERSION).header.type, GP_WIRE_WELCOME);
	for (uint32_t type = GP_WIRE_SUBMIT; gp_wire_size(type); type++) {
		gp_wire_init(&m, type);
		m.header.job = 7;
		m.header.cookie = type;
		if (gp_wire_check(&m, m.header.size, NULL) < 0)
			continue; /* zeroes are no valid body of it */
		reply = ask(fd, &m);
		CHECK_EQ(reply.header.type, GP_WIRE_ERROR);
		CHECK_EQ(reply.header.cookie, type);
		CHECK_EQ(reply.header.job, 7);
		CHECK_EQ(reply.error.code, -EOPNOTSUPP);
		CHECK_STR(reply.error.text,
			  "checkpointing to disk is not available in this version");
	}
	close(fd);
	finish(&s);
}

static void test_hello_when_of_another_version_then_refused_and_closed(void)
{
	struct gp_wire_msg reply;
	struct server s;
	int fd;

	start(&s, geteuid());
	fd = join();
	reply = hello(fd, GP_WIRE_VERSION + 1);
	CHECK_EQ(reply.header.type, GP_WIRE_ERROR);
	CHECK_EQ(reply.error.code, -EPROTO);
	check_closed(fd);
	finish(&s);
}

static void test_peer_when_it_speaks_nonsense_then_closed(void)
{
	struct server s;
	int fd;

	start(&s, geteuid());
	fd = join();
	CHECK_EQ(send(fd, "?", 1, 0), 1);
	check_closed(fd);
	finish(&s);
}

static void test_peers_when_silent_or_too_many_then_all_end(void)
{
	int fds[2 * GP_CKPT_MAX_PEERS];
	struct server s;

	start(&s, geteuid());
	for (size_t i = 0; i < GP_ARRAY_SIZE(fds); i++)
		fds[i] = join();
	for (size_t i = 0; i < GP_ARRAY_SIZE(fds); i++)
		check_closed(fds[i]);
	finish(&s);
}

static void test_peer_when_neither_root_nor_the_user_then_turned_away(void)
{
	struct server s;

	if (geteuid() == 0)
		CHECK_EQ(seteuid(65534), 0);
	start(&s, geteuid() + 1);
	check_closed(join());
	finish(&s);
	/* Whoever looks for leaks at the end may look at us again. */
	CHECK_EQ(seteuid(getuid()), 0);
	CHECK_EQ(prctl(PR_SET_DUMPABLE, 1), 0);
}

int main(void)
{
	test_request_when_greeted_then_refused_with_reason();
	test_hello_when_of_another_version_then_refused_and_closed();
	test_peer_when_it_speaks_nonsense_then_closed();
	test_peers_when_silent_or_too_many_then_all_end();
	test_peer_when_neither_root_nor_the_user_then_turned_away();
	return 0;
}
