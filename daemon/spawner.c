/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/spawner.h"

#include "base/fds.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/launch.h"
#include "daemon/spawn/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* A user database over the network may take its time. */
#define SPAWNER_ANSWER_NS (30 * GP_NS_PER_SEC)

struct spawner_call {
	struct gp_list node; /* daemon->spawn_calls */
	struct gp_daemon *daemon;
	struct gp_source source;
	struct gp_timer timer;
	uint64_t job; /* not a pointer: the job may end first */
	uint32_t type;
	bool answered;
};

static void spawner_ready(struct gp_source *source, uint32_t events);
static void spawner_timeout(struct gp_timer *timer);

void gp_spawner_init(struct gp_daemon *daemon)
{
	gp_list_init(&daemon->spawn_calls);
}

static void spawner_end(struct spawner_call *call)
{
	gp_loop_remove(&call->daemon->loop, &call->source);
	gp_close_fd(&call->source.fd);
	gp_timer_disarm(&call->timer);
	gp_list_del(&call->node);
	free(call);
}

void gp_spawner_fini(struct gp_daemon *daemon)
{
	if (!daemon->options.system)
		return;
	gp_list_for_each(call, &daemon->spawn_calls, struct spawner_call, node) {
		spawner_end(call);
	}
}

int gp_spawner_open(const struct gp_daemon *daemon, struct gp_err *err)
{
	const char *path = daemon->options.spawn_socket;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);
	gp_auto_fd int sock = -1;

	if (strlen(path) >= sizeof(addr.sun_path))
		return gp_err_set(err, -ENOTCONN, "socket path %s is longer than %zu bytes", path,
				  sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, path);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return gp_err_sys(err, -errno, "cannot create a socket");
	if (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno == EAGAIN)
			return gp_err_set(err, -EAGAIN, "gpupres-spawn is busy");
		return gp_err_sys(err, -ENOTCONN, "start gpupres-spawn: cannot reach it at %s",
				  path);
	}
	/* It will be sent what users run, and with which environment. */
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != 0)
		return gp_err_set(err, -ENOTCONN,
				  "%s is served by uid %u, not by root: see --spawn-socket", path,
				  (unsigned int)cred.uid);
	return gp_take_fd(&sock);
}

static int spawner_call(struct gp_daemon *daemon, int sock, const struct gp_spawn_request *request,
			const int *fds, size_t n_fds, struct gp_err *err)
{
	gp_auto_fd int owned = sock;
	struct spawner_call *call;
	int r = gp_fds_send(sock, request, sizeof(*request), fds, n_fds);

	if (r < 0)
		return gp_err_sys(err, r, "cannot ask gpupres-spawn");
	call = calloc(1, sizeof(*call));
	if (!call)
		return gp_err_set(err, -ENOMEM, "out of memory");
	call->daemon = daemon;
	call->job = request->job;
	call->type = request->type;
	call->source.fd = sock;
	call->source.dispatch = spawner_ready;
	r = gp_loop_add(&daemon->loop, &call->source, EPOLLIN, err);
	if (r < 0) {
		free(call);
		return r;
	}
	gp_take_fd(&owned);
	gp_timer_init(&call->timer, spawner_timeout);
	gp_timer_arm(&daemon->loop, &call->timer, gp_now_ns() + SPAWNER_ANSWER_NS);
	gp_list_init(&call->node);
	gp_list_add_tail(&daemon->spawn_calls, &call->node);
	return 0;
}

/* 1: an answer; 0: the end of the connection; -EAGAIN: nothing yet. */
static int spawner_receive(int sock, struct gp_spawn_reply *ret, int *ret_fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { ret, sizeof(*ret) };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	*ret_fd = -1;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0)
		return 0;
	gp_fds_take(&mh, ret_fd, 1);
	if (n != sizeof(*ret) || ret->version != GP_SPAWN_VERSION) {
		*ret = (struct gp_spawn_reply){ .code = -EPROTO };
		strcpy(ret->text, "gpupres-spawn is of another release: install the same");
	}
	ret->text[sizeof(ret->text) - 1] = '\0';
	return 1;
}

static void spawner_fail(struct spawner_call *call, const char *why)
{
	struct gp_job *job = gp_job_find(call->daemon, call->job);

	gp_log(GP_LOG_WARN, "spawn", "job=%" PRIu64 " type=%u error=\"%s\"", call->job, call->type,
	       why);
	if (call->type == GP_SPAWN_START && job)
		gp_job_not_spawned(job, why);
}

static void spawner_ready(struct gp_source *source, uint32_t events)
{
	struct spawner_call *call = gp_container_of(source, struct spawner_call, source);
	struct gp_job *job = gp_job_find(call->daemon, call->job);
	gp_auto_fd int fd = -1;
	struct gp_spawn_reply reply;
	int r = spawner_receive(source->fd, &reply, &fd);

	if (r == -EAGAIN)
		return;
	if (r == 0) {
		if (!call->answered)
			spawner_fail(call, "gpupres-spawn ended before it answered: see its log");
		spawner_end(call);
		return;
	}
	call->answered = true;
	if (reply.code < 0) {
		spawner_fail(call, reply.text);
		spawner_end(call);
	} else if (call->type == GP_SPAWN_START && job && fd >= 0) {
		gp_job_spawned(job, (pid_t)reply.pid, gp_take_fd(&fd));
	}
}

static void spawner_timeout(struct gp_timer *timer)
{
	struct spawner_call *call = gp_container_of(timer, struct spawner_call, timer);

	if (!call->answered)
		spawner_fail(call, "gpupres-spawn does not answer");
	spawner_end(call);
}

static int spawner_open_file(const struct gp_job *job, const char *suffix, int flags, mode_t mode)
{
	char path[PATH_MAX];
	int fd;

	gp_job_path(job, suffix, path, sizeof(path));
	fd = open(path, flags | O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

int gp_spawner_start(struct gp_job *job, int sock, struct gp_err *err)
{
	struct gp_spawn_request request = {
		.version = GP_SPAWN_VERSION,
		.type = GP_SPAWN_START,
		.job = job->id,
		.uid = job->uid,
		.gid = job->gid,
		.umask = job->limits.umask,
	};
	gp_auto_fd int owned = sock, memfd = -1, log = -1, status = -1;
	int r;

	memcpy(request.limits, job->limits.limits, sizeof(request.limits));
	r = gp_launch_pack(job, &request, &memfd, err);
	if (r < 0)
		return r;
	log = spawner_open_file(job, "log", O_APPEND, GP_JOB_SYSTEM_LOG_MODE);
	/* Whatever our umask: once it is the user's we read it as its group. */
	if (log >= 0 && fchmod(log, GP_JOB_SYSTEM_LOG_MODE) < 0)
		return gp_err_sys(err, -errno, "cannot open the log of job %" PRIu64 " to its user",
				  job->id);
	status = spawner_open_file(job, "status", O_TRUNC, 0600);
	if (log < 0 || status < 0)
		return gp_err_sys(err, log < 0 ? log : status,
				  "cannot make the files of job %" PRIu64, job->id);
	return spawner_call(job->daemon, gp_take_fd(&owned), &request,
			    (const int[]){ memfd, log, status }, 3, err);
}

static void spawner_ask(struct gp_daemon *daemon, const struct gp_spawn_request *request,
			const int *fds, size_t n_fds)
{
	struct gp_err err;
	int r = gp_spawner_open(daemon, &err);

	if (r >= 0)
		r = spawner_call(daemon, r, request, fds, n_fds, &err);
	if (r < 0)
		gp_log(GP_LOG_WARN, "spawn", "job=%" PRIu64 " type=%u error=\"%s\"", request->job,
		       request->type, err.msg);
}

void gp_spawner_kill(struct gp_daemon *daemon, uint64_t job)
{
	const struct gp_spawn_request request = {
		.version = GP_SPAWN_VERSION,
		.type = GP_SPAWN_KILL,
		.job = job,
	};

	spawner_ask(daemon, &request, NULL, 0);
}

void gp_spawner_remove(struct gp_daemon *daemon, uint64_t job)
{
	const struct gp_spawn_request request = {
		.version = GP_SPAWN_VERSION,
		.type = GP_SPAWN_REMOVE,
		.job = job,
	};

	spawner_ask(daemon, &request, NULL, 0);
}

void gp_spawner_signal(const struct gp_job *job, int pidfd, int signo)
{
	const struct gp_spawn_request request = {
		.version = GP_SPAWN_VERSION,
		.type = GP_SPAWN_SIGNAL,
		.job = job->id,
		.uid = job->uid,
		.signo = signo,
	};

	spawner_ask(job->daemon, &request, &pidfd, 1);
}
