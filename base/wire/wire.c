/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/wire.h"

#include "base/fds.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* The daemon welcomes a client once its devices are up, which means a faulted, pinned arena; a
 * program with the shim is welcomed at once and must not wait long for a daemon that hangs. */
#define WIRE_CLI_HELLO_TIMEOUT_MS 60000
#define WIRE_HELLO_TIMEOUT_MS	  5000

static const struct {
	const char *name;
	size_t size;
} wire_types[GP_WIRE_MAX_] = {
#define WIRE_ENTRY(NAME, member, body)                                                             \
	[GP_WIRE_##NAME] = { #NAME, sizeof(struct gp_wire_header) + sizeof(body) },
	GP_WIRE_MESSAGES(WIRE_ENTRY)
#undef WIRE_ENTRY
};

static const char *const job_state_names[GP_JOB_STATE_MAX_] = {
	[GP_JOB_QUEUED] = "queued",   [GP_JOB_STARTING] = "starting",
	[GP_JOB_RUNNING] = "running", [GP_JOB_FREEZING] = "freezing",
	[GP_JOB_FROZEN] = "frozen",   [GP_JOB_EVICTING] = "evicting",
	[GP_JOB_SWAPPED] = "swapped", [GP_JOB_RESTORING] = "restoring",
	[GP_JOB_THAWING] = "thawing", [GP_JOB_DONE] = "done",
	[GP_JOB_FAILED] = "failed",   [GP_JOB_CANCELLED] = "cancelled",
};

_Static_assert(GP_WIRE_MAX_FDS <= GP_FDS_MAX, "all of one message go at once");

const char *gp_wire_name(uint32_t type)
{
	return type < GP_WIRE_MAX_ && wire_types[type].name ? wire_types[type].name : "?";
}

size_t gp_wire_size(uint32_t type)
{
	return type < GP_WIRE_MAX_ ? wire_types[type].size : 0;
}

const char *gp_job_state_name(uint32_t state)
{
	return state < GP_JOB_STATE_MAX_ && job_state_names[state] ? job_state_names[state] : "?";
}

bool gp_job_state_is_final(uint32_t state)
{
	return state == GP_JOB_DONE || state == GP_JOB_FAILED || state == GP_JOB_CANCELLED;
}

void gp_wire_init(struct gp_wire_msg *msg, uint32_t type)
{
	assert(gp_wire_size(type));
	memset(msg, 0, gp_wire_size(type));
	msg->header.type = type;
	msg->header.size = (uint32_t)gp_wire_size(type);
}

void gp_wire_init_reply(struct gp_wire_msg *msg, uint32_t type, const struct gp_wire_msg *request)
{
	struct gp_wire_header h = request->header;

	gp_wire_init(msg, type);
	msg->header.job = h.job;
	msg->header.epoch = h.epoch;
	msg->header.cookie = h.cookie;
	msg->header.proc = h.proc;
}

void gp_wire_text(char *field, size_t bytes, const char *text)
{
	size_t n = strnlen(text, bytes - 1);

	memcpy(field, text, n);
	memset(field + n, 0, bytes - n);
}

static bool wire_terminated(const char *field, size_t bytes)
{
	return memchr(field, 0, bytes) != NULL;
}

/* What a fixed-size body can still get wrong: counts and text. */
static bool wire_body_ok(const struct gp_wire_msg *m)
{
	switch ((enum gp_wire_type)m->header.type) {
	case GP_WIRE_HELLO:
		return wire_terminated(m->hello.program, sizeof(m->hello.program));
	case GP_WIRE_ERROR:
		return m->error.code < 0 && wire_terminated(m->error.text, sizeof(m->error.text));
	case GP_WIRE_SUBMIT:
		return wire_terminated(m->submit.name, sizeof(m->submit.name)) &&
		       m->submit.n_args > 0 && m->submit.blob_bytes <= GP_WIRE_MAX_SUBMIT_BLOB;
	case GP_WIRE_PREEMPT:
		return m->preempt.to == GP_JOB_FROZEN || m->preempt.to == GP_JOB_SWAPPED;
	case GP_WIRE_JOB:
		return wire_terminated(m->job.name, sizeof(m->job.name)) &&
		       wire_terminated(m->job.cause, sizeof(m->job.cause)) &&
		       wire_terminated(m->job.command, sizeof(m->job.command));
	case GP_WIRE_EVENT:
		return wire_terminated(m->event.cause, sizeof(m->event.cause)) &&
		       wire_terminated(m->event.boot_id, sizeof(m->event.boot_id));
	case GP_WIRE_DEVICE:
		return wire_terminated(m->device.kind, sizeof(m->device.kind)) &&
		       wire_terminated(m->device.name, sizeof(m->device.name));
	case GP_WIRE_CHANNELS:
		return m->channels.n <= GP_WIRE_MAX_CHANNELS &&
		       m->channels.first <= m->channels.total &&
		       m->channels.n <= m->channels.total - m->channels.first;
	case GP_WIRE_RELEASE:
	case GP_WIRE_SAVED:
		return m->release.n <= GP_WIRE_MAX_IDS;
	case GP_WIRE_EXTENTS:
		return m->extents.n <= GP_WIRE_MAX_EXTENTS && m->extents.error <= 0;
	case GP_WIRE_FREEZE:
	case GP_WIRE_THAW:
		return m->freeze.n <= GP_WIRE_MAX_PROCS;
	case GP_WIRE_RESYNC:
		return m->resync.state <= GP_RESYNC_SCRATCH &&
		       m->resync.n_released <= m->resync.n_extents &&
		       m->resync.n_unfilled <= m->resync.n_extents;
	case GP_WIRE_MOVER_READY:
		return wire_terminated(m->mover_ready.name, sizeof(m->mover_ready.name));
	default:
		return true;
	}
}

int gp_wire_check(const struct gp_wire_msg *msg, size_t len, struct gp_err *err)
{
	if (len < sizeof(msg->header))
		return gp_err_set(err, -EBADMSG, "message of %zu bytes is shorter than its header",
				  len);
	if (!gp_wire_size(msg->header.type))
		return gp_err_set(err, -EBADMSG, "message of unknown type %u", msg->header.type);
	if (msg->header.size != len || gp_wire_size(msg->header.type) != len)
		return gp_err_set(err, -EBADMSG, "%s message of %zu bytes instead of %zu",
				  gp_wire_name(msg->header.type), len,
				  gp_wire_size(msg->header.type));
	if (!wire_body_ok(msg))
		return gp_err_set(err, -EBADMSG, "%s message with a field out of range",
				  gp_wire_name(msg->header.type));
	return 0;
}

int gp_wire_send(int sock, const struct gp_wire_msg *msg, const int *fds, size_t n_fds,
		 struct gp_err *err)
{
	int r = gp_fds_send(sock, msg, msg->header.size, fds, n_fds);

	return r < 0 ? gp_err_sys(err, r, "cannot send %s", gp_wire_name(msg->header.type)) : 0;
}

static int wire_wait(int sock, int timeout_ms, struct gp_err *err)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	int r;

	do {
		r = poll(&p, 1, timeout_ms);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return gp_err_sys(err, -errno, "cannot wait for a message");
	if (r == 0)
		return gp_err_set(err, -ETIMEDOUT, "no answer within %d ms", timeout_ms);
	return 0;
}

static ssize_t wire_recvmsg(int sock, struct msghdr *mh)
{
	ssize_t n;

	do {
		n = recvmsg(sock, mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n;
}

int gp_wire_recv(int sock, struct gp_wire_msg *ret_msg, int *ret_fds, size_t max_fds,
		 size_t *ret_n_fds, int timeout_ms, struct gp_err *err)
{
	union {
		char bytes[CMSG_SPACE(GP_WIRE_MAX_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { ret_msg, sizeof(*ret_msg) };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control) };
	size_t n_fds;
	ssize_t n;
	int r;

	/* Receiving does not wait either: who does not want to needs not ask first. */
	r = timeout_ms ? wire_wait(sock, timeout_ms, err) : 0;
	if (r < 0)
		return r;
	n = wire_recvmsg(sock, &mh);
	/* A peer that went with something unread is reported, once, ahead of what it had sent. */
	if (n < 0 && errno == ECONNRESET)
		n = wire_recvmsg(sock, &mh);
	if (n < 0 && errno == EAGAIN)
		return gp_err_set(err, -ETIMEDOUT, "no message");
	if (n < 0)
		return gp_err_sys(err, -errno, "cannot receive");
	/* Nothing can also be a message, and have fds: they are here, whatever it looks like. */
	n_fds = gp_fds_take(&mh, ret_fds, max_fds);
	if (n_fds > max_fds)
		n_fds = max_fds;
	if (n == 0)
		r = gp_err_set(err, -ECONNRESET, "the other side closed the connection");
	else if (mh.msg_flags & MSG_TRUNC)
		r = gp_err_set(err, -EBADMSG, "message too long");
	else if (mh.msg_flags & MSG_CTRUNC)
		r = gp_err_set(err, -EBADMSG,
			       "message with more file descriptors than %d, or than may be open",
			       GP_WIRE_MAX_FDS);
	else
		r = gp_wire_check(ret_msg, (size_t)n, err);
	if (r < 0) {
		for (size_t i = 0; ret_fds && i < n_fds; i++)
			close(ret_fds[i]);
		return r;
	}
	if (ret_n_fds)
		*ret_n_fds = n_fds;
	return 0;
}

static bool wire_is_roots(const char *folder, mode_t forbidden)
{
	struct stat st;

	return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == 0 &&
	       !(st.st_mode & forbidden);
}

/* Root's own, or one that root has given away, like /run/gpupres: nobody else can make one there.
 */
static bool wire_was_made_by_root(const char *path)
{
	char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	char *slash;

	strcpy(folder, path); /* it fitted into a socket's address */
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return false;
	*slash = '\0';
	if (wire_is_roots(folder, 0))
		return true;
	slash = strrchr(folder, '/');
	if (!slash || slash == folder)
		return false;
	*slash = '\0';
	return wire_is_roots(folder, S_IWGRP | S_IWOTH);
}

/*
 * Whoever answers will be sent the memory of this process, so it must be this user or root, or sit
 * in a folder that only root can have made.
 */
static int wire_check_peer(int sock, const char *path, struct gp_err *err)
{
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return gp_err_sys(err, -errno, "cannot tell who serves %s", path);
	if (cred.uid == geteuid() || cred.uid == 0 || wire_was_made_by_root(path))
		return 0;
	return gp_err_set(err, -EPERM, "%s is served by uid %u, which is neither you nor root",
			  path, (unsigned int)cred.uid);
}

void gp_wire_init_hello(struct gp_wire_msg *m, uint32_t role, uint64_t job, const char *program)
{
	gp_wire_init(m, GP_WIRE_HELLO);
	m->header.job = job;
	m->hello.version_min = GP_WIRE_VERSION_MIN;
	m->hello.version_max = GP_WIRE_VERSION;
	m->hello.role = role;
	gp_wire_text(m->hello.program, sizeof(m->hello.program), program);
}

/* A daemon that takes no more connections of this user closed this one with the reason in it. */
static int wire_read_refusal(int sock, struct gp_err *err)
{
	struct gp_wire_msg m;
	int r = gp_wire_recv(sock, &m, NULL, 0, NULL, 0, err);

	if (r < 0 || m.header.type != GP_WIRE_ERROR)
		return gp_err_set(err, -EPIPE, "the daemon closed the connection");
	return gp_err_set(err, m.error.code, "%s", m.error.text);
}

/* @flags: SOCK_NONBLOCK or 0. */
static int wire_dial(const char *path, const struct gp_wire_msg *hello, int flags,
		     struct gp_err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	gp_auto_fd int sock = -1;
	int r;

	if (strlen(path) >= sizeof(addr.sun_path))
		return gp_err_set(err, -ENAMETOOLONG, "socket path %s is longer than %zu bytes",
				  path, sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, path);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (sock < 0)
		return gp_err_sys(err, -errno, "cannot create a socket");
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return gp_err_sys(err, -errno, "cannot connect to %s", path);
	r = wire_check_peer(sock, path, err);
	if (r < 0)
		return r;
	r = gp_wire_send(sock, hello, NULL, 0, err);
	if (r == -EPIPE)
		r = wire_read_refusal(sock, err);
	return r < 0 ? r : gp_take_fd(&sock);
}

int gp_wire_dial(const char *path, const struct gp_wire_msg *hello, struct gp_err *err)
{
	return wire_dial(path, hello, SOCK_NONBLOCK, err);
}

int gp_wire_connect(const char *path, uint32_t role, uint64_t job, uint32_t device,
		    const char *program, struct gp_err *err)
{
	gp_auto_fd int sock = -1;
	struct gp_wire_msg m;
	int r;

	gp_wire_init_hello(&m, role, job, program);
	m.hello.device = device;
	sock = wire_dial(path, &m, 0, err);
	if (sock < 0)
		return sock;
	r = gp_wire_recv(sock, &m, NULL, 0, NULL,
			 role == GP_ROLE_CLI ? WIRE_CLI_HELLO_TIMEOUT_MS : WIRE_HELLO_TIMEOUT_MS,
			 err);
	if (r < 0)
		return gp_err_prepend(err, "no welcome from the daemon");
	if (m.header.type == GP_WIRE_ERROR)
		return gp_err_set(err, m.error.code, "%s", m.error.text);
	if (m.header.type != GP_WIRE_WELCOME)
		return gp_err_set(err, -EPROTO, "expected WELCOME, got %s",
				  gp_wire_name(m.header.type));
	return gp_take_fd(&sock);
}
