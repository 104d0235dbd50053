/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupres-spawn has the one right that gpupresd has not: to start processes as other users. It
 * accepts connections from gpupresd's user and from root, forks, and lets the child serve the one
 * request that may come (daemon/spawn/protocol.h). What that takes - reading the request, asking
 * the user database - can hang or fail in the child alone, and the child of a START becomes
 * the supervisor itself. So the parent keeps no state but its children, and needs none: a
 * supervisor does not notice when it ends.
 *
 * Single-threaded, both.
 */
#include "daemon/spawn/spawn.h"

#include "base/driver.h"
#include "base/fds.h"
#include "base/log.h"
#include "daemon/spawn/cgroup.h"
#include "daemon/spawn/user.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first fd that systemd hands over: sd_listen_fds(3). */
#define SPAWN_LISTEN_FD 3
#define SPAWN_BACKLOG	128
#define SPAWN_RECV_S	5

/* Of a supervisor; see gpupres-run(8). */
#define SPAWN_LOG_FD	3
#define SPAWN_STATUS_FD 4
#define SPAWN_FIRST_FD	16 /* all others are above until it is executed */

struct spawn {
	const struct gp_spawn_options *options;
	int listener, signals;
	int cgroup; /* folder of our own cgroup; -1: jobs get none */
	char program[PATH_MAX + 64];
};

/* In the child. */
struct spawn_call {
	const struct spawn *spawn;
	int sock;
	uid_t caller;
	struct gp_spawn_request request;
	int fds[GP_SPAWN_MAX_FDS]; /* -1: none */
};

static void call_reply(const struct spawn_call *call, int code, const char *text, int pidfd)
{
	struct gp_spawn_reply reply = {
		.version = GP_SPAWN_VERSION,
		.code = code,
		.job = call->request.job,
		.pid = pidfd >= 0 ? (uint32_t)getpid() : 0,
	};
	int r;

	snprintf(reply.text, sizeof(reply.text), "%s", text);
	r = gp_fds_send(call->sock, &reply, sizeof(reply), &pidfd, pidfd >= 0);
	/* Who has gone does not want the answer. */
	if (r < 0)
		gp_log(GP_LOG_WARN, "reply", "job=%" PRIu64 " error=\"%s\"", call->request.job,
		       strerror(-r));
}

static int call_receive(struct spawn_call *call, struct gp_err *err)
{
	const struct timeval patience = { .tv_sec = SPAWN_RECV_S };
	union {
		char bytes[CMSG_SPACE((GP_SPAWN_MAX_FDS + 1) * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { &call->request, sizeof(call->request) };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes) };
	size_t n_fds;
	ssize_t n;

	if (setsockopt(call->sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return gp_err_sys(err, -errno, "cannot receive");
	do {
		n = recvmsg(call->sock, &mh, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return gp_err_sys(err, -errno, "cannot receive");
	n_fds = gp_fds_take(&mh, call->fds, GP_SPAWN_MAX_FDS);
	if (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return gp_err_set(err, -EBADMSG, "the request is too long");
	return gp_spawn_check(&call->spawn->options->policy, &call->request, (size_t)n, call->fds,
			      n_fds, call->caller, err);
}

/* Where cgroups can be made at all, one that cannot is worth a line, but the job as well. */
static void call_enter_cgroup(const struct spawn_call *call)
{
	struct gp_err err;

	if (call->spawn->cgroup < 0)
		return;
	if (gp_cgroup_enter(call->spawn->cgroup, call->request.job, &err) < 0)
		gp_log(GP_LOG_ERR, "cgroup", "job=%" PRIu64 " error=\"%s\"", call->request.job,
		       err.msg);
}

static int call_move_fd(int from, int to, int flags)
{
	int r = dup3(from, to, flags);

	return r < 0 ? -errno : 0;
}

/*
 * What the supervisor gets is nothing to begin with, its log and its status file. All other fds,
 * also those that we inherited, close when it is executed.
 */
static int call_arrange_fds(struct spawn_call *call, struct gp_err *err)
{
	int high[] = { call->sock, call->fds[1], call->fds[2], -1 };
	int r = 0;

	high[3] = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (size_t i = 0; i < GP_ARRAY_SIZE(high); i++) {
		high[i] = fcntl(high[i], F_DUPFD_CLOEXEC, SPAWN_FIRST_FD);
		if (high[i] < 0)
			return gp_err_sys(err, -errno, "cannot arrange files");
	}
	call->sock = high[0];
	for (int fd = STDIN_FILENO; r == 0 && fd <= STDERR_FILENO; fd++)
		r = call_move_fd(high[3], fd, 0);
	if (r == 0)
		r = call_move_fd(high[1], SPAWN_LOG_FD, 0);
	if (r == 0)
		r = call_move_fd(high[2], SPAWN_STATUS_FD, 0);
	if (r == 0 && close_range(SPAWN_STATUS_FD + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC) < 0)
		r = -errno;
	return r < 0 ? gp_err_sys(err, r, "cannot arrange files") : 0;
}

static int call_become(const struct spawn_call *call, struct gp_err *err)
{
	const struct gp_spawn_request *q = &call->request;
	struct gp_user user;
	int r = gp_user_find(q->uid, q->gid, &user, err);

	if (r == 0)
		r = gp_spawn_check_group(&call->spawn->options->policy, q, err);
	if (r < 0)
		return r;
	/* Its own bytes are on its own account, and it may open them by /dev/stdout. */
	if (fchown(SPAWN_LOG_FD, q->uid, (gid_t)-1) < 0)
		r = gp_err_sys(err, -errno, "cannot give the log to uid %u", q->uid);
	else
		r = gp_user_limit(q->limits, err);
	if (r == 0)
		r = gp_user_become(&user, err);
	gp_user_free(&user);
	umask(q->umask);
	return r;
}

static int call_exec(const struct spawn_call *call, const struct gp_spawn_command *command,
		     struct gp_err *err)
{
	char *program = (char *)(uintptr_t)call->spawn->program, job[32], log[16], status[16];
	gp_auto_free char **argv = NULL;
	sigset_t none;
	int pidfd;

	snprintf(job, sizeof(job), "%" PRIu64, call->request.job);
	snprintf(log, sizeof(log), "%d", SPAWN_LOG_FD);
	snprintf(status, sizeof(status), "%d", SPAWN_STATUS_FD);
	char *const fixed[] = { program,	 "--job",    job,	   "--socket",
				command->socket, "--log-fd", log,	   "--status-fd",
				status,		 "--chdir",  command->cwd, "--" };
	argv = calloc(GP_ARRAY_SIZE(fixed) + call->request.n_args + 1, sizeof(*argv));
	if (!argv)
		return gp_err_set(err, -ENOMEM, "out of memory");
	memcpy(argv, fixed, sizeof(fixed));
	memcpy(argv + GP_ARRAY_SIZE(fixed), command->args,
	       call->request.n_args * sizeof(*command->args));
	pidfd = pidfd_open(getpid(), 0);
	if (pidfd < 0 || chdir("/") < 0)
		return gp_err_sys(err, -errno, "cannot start %s", program);
	call_reply(call, 0, "", pidfd);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(program, argv, command->env);
	return gp_err_sys(err, -errno, "cannot start %s", program);
}

/* Returns only on failure. */
static int call_start(struct spawn_call *call, struct gp_err *err)
{
	struct gp_spawn_command command;
	int r = gp_spawn_read_command(&call->request, call->fds[0], &command, err);

	if (r < 0)
		return r;
	call_enter_cgroup(call);
	r = call_arrange_fds(call, err);
	if (r == 0)
		r = call_become(call, err);
	if (r == 0)
		r = call_exec(call, &command, err);
	gp_spawn_free_command(&command);
	return r;
}

/* As the user, so that the kernel says whether he may. */
static int call_signal(const struct spawn_call *call, struct gp_err *err)
{
	const struct gp_user user = { .uid = call->request.uid, .gid = call->request.uid };
	int r = gp_user_become(&user, err);

	if (r < 0)
		return r;
	if (pidfd_send_signal(call->fds[0], call->request.signo, NULL, 0) < 0 && errno != ESRCH)
		return gp_err_sys(err, -errno, "cannot send signal %d as uid %u",
				  call->request.signo, call->request.uid);
	return 0;
}

static int call_serve(struct spawn_call *call, struct gp_err *err)
{
	const struct gp_spawn_request *q = &call->request;
	int own = call->spawn->cgroup, r;

	switch ((enum gp_spawn_type)q->type) {
	case GP_SPAWN_START:
		return call_start(call, err);
	case GP_SPAWN_KILL:
		if (own < 0)
			return gp_err_set(err, -EOPNOTSUPP, "jobs have no cgroups here");
		r = gp_cgroup_kill(own, q->job, err);
		return r < 0 ? r : gp_cgroup_remove(own, q->job, GP_SPAWN_EMPTY_MS, err);
	case GP_SPAWN_REMOVE:
		return own < 0 ? 0 : gp_cgroup_remove(own, q->job, GP_SPAWN_EMPTY_MS, err);
	case GP_SPAWN_SIGNAL:
		return call_signal(call, err);
	case GP_SPAWN_TYPE_MAX_:
		break;
	}
	return gp_err_set(err, -EBADMSG, "a request of unknown type %u", q->type);
}

static _Noreturn void spawn_child(const struct spawn *s, int sock, uid_t caller)
{
	struct spawn_call call = { .spawn = s, .sock = sock, .caller = caller };
	struct gp_err err = { 0 };
	int r;

	for (size_t i = 0; i < GP_ARRAY_SIZE(call.fds); i++)
		call.fds[i] = -1;
	r = call_receive(&call, &err);
	if (r == 0)
		r = call_serve(&call, &err);
	if (r < 0)
		gp_log(GP_LOG_WARN, "refused", "type=%u job=%" PRIu64 " uid=%u error=\"%s\"",
		       call.request.type, call.request.job, call.request.uid, err.msg);
	call_reply(&call, r, r < 0 ? err.msg : "", -1);
	_exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void spawn_accept(const struct spawn *s)
{
	gp_auto_fd int sock = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
	const uid_t for_uid = s->options->policy.for_uid;
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);
	pid_t pid;

	if (sock < 0)
		return;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
	    (cred.uid != 0 && cred.uid != for_uid)) {
		gp_log(GP_LOG_WARN, "refused", "pid=%d uid=%u error=\"this serves uid %u\"",
		       cred.pid, (unsigned int)cred.uid, (unsigned int)for_uid);
		return;
	}
	pid = fork();
	if (pid == 0)
		spawn_child(s, sock, cred.uid);
	/* The other side sees the end of the connection. */
	if (pid < 0)
		gp_log(GP_LOG_ERR, "fork", "error=\"%s\"", strerror(errno));
}

/* True: told to end. */
static bool spawn_on_signals(const struct spawn *s)
{
	struct signalfd_siginfo info;
	bool stop = false;

	while (read(s->signals, &info, sizeof(info)) == sizeof(info))
		stop |= info.ssi_signo != SIGCHLD;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
	return stop;
}

static int spawn_loop(const struct spawn *s, struct gp_err *err)
{
	struct pollfd p[] = { { .fd = s->signals, .events = POLLIN },
			      { .fd = s->listener, .events = POLLIN } };

	for (;;) {
		if (poll(p, GP_ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			return gp_err_sys(err, -errno, "cannot wait for requests");
		if ((p[0].revents & POLLIN) && spawn_on_signals(s))
			return 0;
		if (p[1].revents & POLLIN)
			spawn_accept(s);
	}
}

/* A socket that systemd made, as sd_listen_fds(3) has it; -1: none. */
static int spawn_inherited(void)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");

	if (!pid || !n || strtol(pid, NULL, 10) != getpid() || strcmp(n, "1") != 0)
		return -1;
	return SPAWN_LISTEN_FD;
}

/* Its file is the caller's alone. */
static int spawn_listen(struct spawn *s, struct gp_err *err)
{
	const char *path = s->options->socket;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	mode_t mask;

	s->listener = spawn_inherited();
	if (s->listener >= 0) {
		if (fcntl(s->listener, F_SETFD, FD_CLOEXEC) < 0 ||
		    fcntl(s->listener, F_SETFL, O_NONBLOCK) < 0)
			return gp_err_sys(err, -errno, "cannot use the socket of systemd");
		return 0;
	}
	if (strlen(path) >= sizeof(addr.sun_path))
		return gp_err_set(err, -ENAMETOOLONG, "socket path %s is longer than %zu bytes",
				  path, sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, path);
	s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->listener < 0)
		return gp_err_sys(err, -errno, "cannot create a socket");
	unlink(path);
	mask = umask(0177);
	if (bind(s->listener, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return gp_err_sys(err, -errno, "cannot make the socket %s", path);
	umask(mask);
	if (chown(path, s->options->policy.for_uid, (gid_t)-1) < 0 ||
	    listen(s->listener, SPAWN_BACKLOG) < 0)
		return gp_err_sys(err, -errno, "cannot listen on %s", path);
	return 0;
}

static int spawn_signals(struct spawn *s, struct gp_err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? gp_err_sys(err, -errno, "cannot receive signals") : 0;
}

static int spawn_find_program(struct spawn *s, struct gp_err *err)
{
	char tree[PATH_MAX];
	int r = gp_tree_root(tree, sizeof(tree), err);

	if (r < 0)
		return r;
	snprintf(s->program, sizeof(s->program), "%s/libexec/gpupres/gpupres-run", tree);
	if (access(s->program, X_OK) < 0)
		return gp_err_sys(err, -errno, "cannot start %s", s->program);
	return 0;
}

int gp_spawn(const struct gp_spawn_options *options, struct gp_err *err)
{
	struct spawn s = { .options = options, .listener = -1, .signals = -1 };
	struct gp_err why;
	int r;

	if (geteuid() != 0)
		return gp_err_set(err, -EPERM,
				  "gpupres-spawn starts processes as other users: "
				  "start it as root");
	r = spawn_find_program(&s, err);
	if (r == 0)
		r = spawn_signals(&s, err);
	if (r == 0)
		r = spawn_listen(&s, err);
	if (r == 0) {
		s.cgroup = gp_cgroup_open(&why);
		if (s.cgroup < 0)
			gp_log(GP_LOG_WARN, "no_cgroups",
			       "error=\"%s\" effect=\"what a job leaves "
			       "when its supervisor is killed stays\"",
			       why.msg);
		gp_log(GP_LOG_INFO, "serving", "socket=%s for_uid=%u min_uid=%u version=%s",
		       options->socket, (unsigned int)options->policy.for_uid,
		       (unsigned int)options->policy.min_uid, GP_VERSION);
		r = spawn_loop(&s, err);
		gp_close_fd(&s.cgroup);
	}
	gp_close_fd(&s.listener);
	gp_close_fd(&s.signals);
	return r;
}
