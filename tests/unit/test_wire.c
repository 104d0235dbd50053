/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/wire.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

#define KERNEL_MAX_FDS 253 /* of one message: SCM_MAX_FD in Linux's include/net/scm.h */

static void pair(int sv[2])
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
}

static void test_every_type_when_sent_then_received_alike(void)
{
	int sv[2];

	pair(sv);
	for (uint32_t type = 1; type < GP_WIRE_MAX_; type++) {
		struct gp_wire_msg out, in;
		struct gp_err err;

		gp_wire_init(&out, type);
		out.header.job = 7;
		if (type == GP_WIRE_SUBMIT)
			out.submit.n_args = 1;
		if (type == GP_WIRE_PREEMPT)
			out.preempt.to = GP_JOB_FROZEN;
		if (type == GP_WIRE_ERROR)
			out.error.code = -EIO;
		CHECK_EQ(gp_wire_send(sv[0], &out, NULL, 0, &err), 0);
		CHECK_EQ(gp_wire_recv(sv[1], &in, NULL, 0, NULL, 1000, &err), 0);
		CHECK_EQ(memcmp(&in, &out, gp_wire_size(type)), 0);
		CHECK(strcmp(gp_wire_name(type), "?") != 0);
	}
	close(sv[0]);
	close(sv[1]);
}

static void test_check_when_any_bytes_then_never_reads_past(void)
{
	struct gp_wire_msg *m = malloc(sizeof(*m));
	struct gp_err err;

	srand(1);
	for (int i = 0; i < 200000; i++) {
		size_t len = (size_t)rand() % sizeof(*m);

		for (size_t k = 0; k < sizeof(*m) / sizeof(int); k++)
			((int *)(void *)m)[k] = rand();
		m->header.type = (uint32_t)rand() % (GP_WIRE_MAX_ + 2);
		if (i & 1)
			len = m->header.size = (uint32_t)gp_wire_size(m->header.type);
		if (gp_wire_check(m, len, &err) == 0)
			CHECK_EQ(len, gp_wire_size(m->header.type));
	}
	free(m);
}

static void test_check_when_field_is_out_of_range_then_refused(void)
{
	struct gp_wire_msg m;
	struct gp_err err;

	gp_wire_init(&m, GP_WIRE_CHANNELS);
	m.channels.total = 4;
	m.channels.first = 3;
	m.channels.n = 2;
	CHECK_EQ(gp_wire_check(&m, m.header.size, &err), -EBADMSG);
	gp_wire_init(&m, GP_WIRE_EXTENTS);
	m.extents.n = GP_WIRE_MAX_EXTENTS + 1;
	CHECK_EQ(gp_wire_check(&m, m.header.size, &err), -EBADMSG);
	gp_wire_init(&m, GP_WIRE_SUBMIT);
	m.submit.n_args = 1;
	memset(m.submit.name, 'x', sizeof(m.submit.name));
	CHECK_EQ(gp_wire_check(&m, m.header.size, &err), -EBADMSG);
	gp_wire_init(&m, GP_WIRE_OK);
	CHECK_EQ(gp_wire_check(&m, m.header.size - 1, &err), -EBADMSG);
}

static void test_fds_when_more_than_asked_then_closed(void)
{
	int sv[2], fds[3], got[1];
	struct gp_wire_msg m;
	struct gp_err err;
	size_t n = 0;
	int before, after;

	pair(sv);
	for (int i = 0; i < 3; i++)
		fds[i] = dup(0);
	before = dup(0);
	close(before);
	gp_wire_init(&m, GP_WIRE_LINK);
	CHECK_EQ(gp_wire_send(sv[0], &m, fds, 3, &err), 0);
	CHECK_EQ(gp_wire_recv(sv[1], &m, got, 1, &n, 1000, &err), 0);
	CHECK_EQ(n, 1);
	CHECK(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
	close(got[0]);
	after = dup(0);
	CHECK_EQ(after, before);
	close(after);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(sv[0]);
	close(sv[1]);
}

/* As gp_wire_send, but for whatever it would not send. */
static void send_raw(int sock, const void *bytes, size_t len, int fd, size_t n_fds)
{
	union {
		char bytes[CMSG_SPACE(KERNEL_MAX_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)bytes, len };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = CMSG_SPACE(n_fds * sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	for (size_t i = 0; i < n_fds; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
	CHECK_EQ(sendmsg(sock, &mh, 0), len);
}

static int first_free_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void test_recv_when_refused_then_keeps_no_fds(void)
{
	int sv[2], got[GP_WIRE_MAX_FDS], before;
	struct gp_wire_msg m;
	struct gp_err err;

	pair(sv);
	before = first_free_fd();
	/* No bytes at all, as at the end of a connection. */
	send_raw(sv[0], "", 0, 0, GP_WIRE_MAX_FDS);
	CHECK_EQ(gp_wire_recv(sv[1], &m, got, GP_WIRE_MAX_FDS, NULL, 0, &err), -ECONNRESET);
	CHECK_EQ(first_free_fd(), before);
	send_raw(sv[0], "half", 4, 0, GP_WIRE_MAX_FDS);
	CHECK_EQ(gp_wire_recv(sv[1], &m, got, GP_WIRE_MAX_FDS, NULL, 0, &err), -EBADMSG);
	CHECK_EQ(first_free_fd(), before);
	gp_wire_init(&m, GP_WIRE_LIST);
	send_raw(sv[0], &m, m.header.size, 0, KERNEL_MAX_FDS);
	CHECK_EQ(gp_wire_recv(sv[1], &m, got, GP_WIRE_MAX_FDS, NULL, 0, &err), -EBADMSG);
	CHECK_EQ(first_free_fd(), before);
	close(sv[0]);
	close(sv[1]);
}

static void test_recv_when_peer_is_gone_or_silent_then_says_which(void)
{
	struct gp_wire_msg m;
	struct gp_err err;
	int sv[2];

	pair(sv);
	CHECK_EQ(gp_wire_recv(sv[1], &m, NULL, 0, NULL, 0, &err), -ETIMEDOUT);
	close(sv[0]);
	CHECK_EQ(gp_wire_recv(sv[1], &m, NULL, 0, NULL, 1000, &err), -ECONNRESET);
	close(sv[1]);
}

static void test_connect_when_nobody_listens_then_fails_with_path(void)
{
	struct gp_err err;

	CHECK(gp_wire_connect("/nonexistent/control.sock", GP_ROLE_CLI, 0, 0, "test", &err) < 0);
	CHECK(strstr(err.msg, "/nonexistent/control.sock") != NULL);
}

static void test_recv_when_peer_went_with_something_unread_then_its_last_message_comes_first(void)
{
	struct gp_wire_msg m;
	struct gp_err err;
	int s[2];

	pair(s);
	gp_wire_init(&m, GP_WIRE_SIGNAL);
	CHECK_EQ(gp_wire_send(s[0], &m, NULL, 0, &err), 0);
	gp_wire_init(&m, GP_WIRE_EXITED);
	m.exited.exit_code = 7;
	CHECK_EQ(gp_wire_send(s[1], &m, NULL, 0, &err), 0);
	close(s[1]);
	CHECK_EQ(gp_wire_recv(s[0], &m, NULL, 0, NULL, 0, &err), 0);
	CHECK_EQ(m.header.type, GP_WIRE_EXITED);
	CHECK_EQ(m.exited.exit_code, 7);
	CHECK_EQ(gp_wire_recv(s[0], &m, NULL, 0, NULL, 0, &err), -ECONNRESET);
	close(s[0]);
}

int main(void)
{
	test_every_type_when_sent_then_received_alike();
	test_check_when_any_bytes_then_never_reads_past();
	test_check_when_field_is_out_of_range_then_refused();
	test_fds_when_more_than_asked_then_closed();
	test_recv_when_refused_then_keeps_no_fds();
	test_recv_when_peer_is_gone_or_silent_then_says_which();
	test_recv_when_peer_went_with_something_unread_then_its_last_message_comes_first();
	test_connect_when_nobody_listens_then_fails_with_path();
	return 0;
}
