/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor of one job. It is a subreaper: whatever the command starts stays below it, however
 * often it forks, so the job is exactly the tree below this process. It outlives the daemon and
 * needs it for nothing: it goes on without, knocks once a second, and leaves the exit code in the
 * status file for a daemon that comes later.
 *
 *	CONNECTING -> RUNNING	welcomed, refused, or a second has gone by [run_start]
 *	RUNNING -> GRACE	the command has ended, others of the tree have not [run_advance]
 *	RUNNING, GRACE -> KILLING  grace over, SIGNAL{KILL}, or SIGTERM to us [run_kill]
 *	any -> DONE		no child is left [run_finish]
 *
 * "No child is left" (ECHILD) is the proof that the tree is gone: an orphan becomes our child
 * before its parent is reaped. Each death in the tree sends us SIGCHLD sooner or later, which
 * repeats the killing; a timer repeats it too, for a fork that ran away from one round.
 * Single-threaded; nothing blocks but fork and exec.
 */
#include "daemon/run/run.h"

#include "base/log.h"
#include "base/time.h"
#include "base/wire/wire.h"
#include "daemon/run/link.h"
#include "daemon/run/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUN_KNOCK_NS GP_NS_PER_SEC
/* A daemon that accepted us but says nothing for so long is knocked at anew. */
#define RUN_WELCOME_NS	  (5 * GP_NS_PER_SEC)
#define RUN_KILL_AGAIN_NS (100 * GP_NS_PER_MS)

/* Exit codes of a command that could not be started, as a shell gives them. */
#define RUN_NOT_EXECUTABLE 126
#define RUN_NOT_FOUND	   127

enum run_phase { RUN_CONNECTING, RUN_RUNNING, RUN_GRACE, RUN_KILLING, RUN_DONE };

struct run {
	const struct gp_run_options *options;
	enum run_phase phase;
	struct gp_link link;
	int epoll_fd, signal_fd;
	int knock_fd; /* timer: ticks while the link is not up */
	int tree_fd;  /* timer: end of the grace, then next round of killing */
	pid_t pid;    /* of the command; 0 = not started, or reaped */
	int exit_code;
	int exec_errno;
	bool ended;	   /* the command; exit_code is valid */
	bool said_no_link; /* do not log the same failure every second */
};

static int run_set_timer(int fd, uint64_t first_ns, uint64_t period_ns, struct gp_err *err)
{
	struct itimerspec spec = {
		.it_value = { (time_t)(first_ns / GP_NS_PER_SEC),
			      (long)(first_ns % GP_NS_PER_SEC) },
		.it_interval = { (time_t)(period_ns / GP_NS_PER_SEC),
				 (long)(period_ns % GP_NS_PER_SEC) },
	};

	if (timerfd_settime(fd, 0, &spec, NULL) < 0)
		return gp_err_sys(err, -errno, "cannot set a timer");
	return 0;
}

/* Timers of ours fail only for a bug in the numbers given; say so and go on. */
static void run_arm(int fd, uint64_t first_ns, uint64_t period_ns)
{
	struct gp_err err;

	if (run_set_timer(fd, first_ns, period_ns, &err) < 0)
		gp_log(GP_LOG_ERR, "timer", "error=\"%s\"", err.msg);
}

static void run_drain_timer(int fd)
{
	uint64_t expirations;

	while (read(fd, &expirations, sizeof(expirations)) > 0)
		continue;
}

static int run_watch(struct run *run, int fd, struct gp_err *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return gp_err_sys(err, -errno, "cannot watch fd %d", fd);
	return 0;
}

/* In the child between fork and exec; reports the errno of what failed through @report. */
static _Noreturn void run_exec(const struct gp_run_options *o, int log, int report)
{
	sigset_t none;
	int code;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGTTOU, SIG_DFL);
	/* A session of its own: signals of a terminal or to our group are not the job's. */
	setsid();
	if (dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0 && chdir(o->chdir) == 0)
		execvp(o->argv[0], o->argv);
	code = errno;
	if (write(report, &code, sizeof(code)) != sizeof(code))
		_exit(RUN_NOT_EXECUTABLE);
	_exit(RUN_NOT_FOUND);
}

/* Starts the command; -errno of what prevented that. Waits until it was executed. */
static int run_spawn(struct run *run)
{
	const struct gp_run_options *o = run->options;
	gp_auto_fd int log = -1, reader = -1, writer = -1;
	int fds[2], code;
	ssize_t n;

	log = o->log_fd >= 0 ? fcntl(o->log_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
			     : open(o->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log < 0 || pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	reader = fds[0];
	writer = fds[1];
	run->pid = fork();
	if (run->pid < 0) {
		run->pid = 0;
		return -errno;
	}
	if (run->pid == 0)
		run_exec(o, log, writer);
	gp_close_fd(&writer);
	do {
		n = read(reader, &code, sizeof(code));
	} while (n < 0 && errno == EINTR);
	if (n != sizeof(code))
		return 0;
	/* Reaped with its exit code, which must not count. */
	waitpid(run->pid, NULL, 0);
	run->pid = 0;
	return -code;
}

static void run_send_started(struct run *run)
{
	struct gp_wire_msg msg;
	struct gp_err err;

	gp_wire_init(&msg, GP_WIRE_STARTED);
	msg.started.pid = (uint32_t)run->pid;
	if (gp_link_send(&run->link, &msg, &err) < 0)
		gp_log(GP_LOG_WARN, "send", "job=%" PRIu64 " error=\"%s\"", run->options->job,
		       err.msg);
}

/* What reads it takes a line that is not complete for none. */
static int run_write_status_fd(int fd, int exit_code, struct gp_err *err)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d\n", exit_code);

	if (pwrite(fd, text, (size_t)n, 0) != n || fsync(fd) < 0)
		return gp_err_sys(err, -errno, "cannot write the status file");
	return 0;
}

/* Writes the exit code to a new file and puts that in place of the status file. */
static int run_write_status(const struct gp_run_options *o, int exit_code, struct gp_err *err)
{
	char tmp[PATH_MAX], dir[PATH_MAX], text[16];
	gp_auto_fd int fd = -1, dir_fd = -1;
	int n;

	if (o->status_fd >= 0)
		return run_write_status_fd(o->status_fd, exit_code, err);
	n = snprintf(tmp, sizeof(tmp), "%s.tmp", o->status);
	if (n < 0 || (size_t)n >= sizeof(tmp))
		return gp_err_set(err, -ENAMETOOLONG, "the path %s is too long", o->status);
	strcpy(dir, o->status);
	/* Left over from a run that was interrupted. */
	unlink(tmp);
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return gp_err_sys(err, -errno, "cannot create %s", tmp);
	n = snprintf(text, sizeof(text), "%d\n", exit_code);
	if (write(fd, text, (size_t)n) != n || fsync(fd) < 0)
		return gp_err_sys(err, -errno, "cannot write %s", tmp);
	if (rename(tmp, o->status) < 0)
		return gp_err_sys(err, -errno, "cannot rename %s", tmp);
	dir_fd = open(dirname(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0 || fsync(dir_fd) < 0)
		return gp_err_sys(err, -errno, "cannot sync the folder of %s", o->status);
	return 0;
}

static void run_finish(struct run *run)
{
	struct gp_wire_msg msg;
	struct gp_err err;

	run->phase = RUN_DONE;
	if (run_write_status(run->options, run->exit_code, &err) < 0)
		gp_log(GP_LOG_ERR, "status", "job=%" PRIu64 " error=\"%s\"", run->options->job,
		       err.msg);
	gp_wire_init(&msg, GP_WIRE_EXITED);
	msg.exited.exit_code = run->exit_code;
	msg.exited.exec_errno = run->exec_errno;
	/* The last chance to tell; HELLO and EXITED both wait in the socket for the daemon. */
	if (run->link.sock < 0 && gp_link_open(&run->link, &err) < 0)
		gp_log(GP_LOG_INFO, "unheard", "job=%" PRIu64 " exit_code=%d error=\"%s\"",
		       run->options->job, run->exit_code, err.msg);
	else if (gp_link_send(&run->link, &msg, &err) < 0)
		gp_log(GP_LOG_WARN, "send", "job=%" PRIu64 " error=\"%s\"", run->options->job,
		       err.msg);
}

static void run_start(struct run *run)
{
	int r = run_spawn(run);

	if (r < 0) {
		run->exec_errno = -r;
		run->exit_code = r == -ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE;
		gp_log(GP_LOG_WARN, "exec", "job=%" PRIu64 " command=\"%s\" error=\"%s\"",
		       run->options->job, run->options->argv[0], strerror(-r));
		run_finish(run);
		return;
	}
	run->phase = RUN_RUNNING;
	if (run->link.up)
		run_send_started(run);
}

/* One round; also the way into the phase. */
static void run_kill(struct run *run)
{
	struct gp_tree_result result;
	struct gp_err err;

	if (run->phase == RUN_CONNECTING) {
		run->exit_code = 128 + SIGTERM;
		run_finish(run);
		return;
	}
	run->phase = RUN_KILLING;
	run_arm(run->tree_fd, RUN_KILL_AGAIN_NS, 0);
	if (gp_tree_signal(SIGKILL, &result, &err) < 0) {
		gp_log(GP_LOG_ERR, "kill", "job=%" PRIu64 " error=\"%s\"", run->options->job,
		       err.msg);
	} else if (run->ended && !result.n_signalled && result.n_refused) {
		gp_log(GP_LOG_WARN, "kill", "job=%" PRIu64 " left=%zu error=\"not permitted\"",
		       run->options->job, result.n_refused);
		run_finish(run);
	}
}

/* After a change in the tree. */
static void run_advance(struct run *run, bool any_left)
{
	if (run->phase == RUN_DONE || !run->ended)
		return;
	if (!any_left) {
		run_finish(run);
	} else if (run->phase == RUN_KILLING || !run->options->grace_ns) {
		run_kill(run);
	} else if (run->phase == RUN_RUNNING) {
		run->phase = RUN_GRACE;
		run_arm(run->tree_fd, run->options->grace_ns, 0);
	}
}

static void run_reap(struct run *run)
{
	int status;
	pid_t pid;

	/* Nothing is started while connecting, and what run_spawn starts it reaps itself. */
	if (run->phase == RUN_CONNECTING)
		return;
	/* __WALL: also what was cloned with another exit signal than SIGCHLD. */
	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
		if (pid != run->pid)
			continue;
		run->ended = true;
		run->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		run->pid = 0;
	}
	run_advance(run, pid == 0);
}

static void run_on_signals(struct run *run)
{
	struct signalfd_siginfo info;
	bool stop = false;

	while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info))
		stop |= info.ssi_signo != SIGCHLD;
	if (stop) {
		gp_log(GP_LOG_INFO, "stop", "job=%" PRIu64, run->options->job);
		run_kill(run);
	}
	if (run->phase != RUN_DONE)
		run_reap(run);
}

static void run_on_tree_timer(struct run *run)
{
	run_drain_timer(run->tree_fd);
	if (run->phase == RUN_GRACE || run->phase == RUN_KILLING)
		run_kill(run);
}

static void run_knock(struct run *run)
{
	struct gp_err err;

	if (run->link.sock >= 0 && gp_now_ns() - run->link.greeted_ns > RUN_WELCOME_NS)
		gp_link_close(&run->link);
	if (run->link.sock >= 0)
		return;
	if (gp_link_open(&run->link, &err) == 0 && run_watch(run, run->link.sock, &err) == 0)
		return;
	gp_link_close(&run->link);
	if (!run->said_no_link)
		gp_log(GP_LOG_WARN, "link", "job=%" PRIu64 " error=\"%s\"", run->options->job,
		       err.msg);
	run->said_no_link = true;
}

static void run_on_knock_timer(struct run *run)
{
	run_drain_timer(run->knock_fd);
	if (run->phase == RUN_CONNECTING)
		run_start(run);
	if (run->phase != RUN_DONE && !run->link.up)
		run_knock(run);
}

static void run_on_welcome(struct run *run)
{
	run_arm(run->knock_fd, 0, 0);
	run->said_no_link = false;
	if (run->phase == RUN_CONNECTING)
		run_start(run);
	else if (!run->ended)
		run_send_started(run);
}

static void run_on_signal_request(struct run *run, int signo)
{
	struct gp_tree_result result;
	struct gp_err err;

	if (signo < 1 || signo >= _NSIG)
		gp_log(GP_LOG_WARN, "signal", "job=%" PRIu64 " signo=%d error=\"no such signal\"",
		       run->options->job, signo);
	else if (signo == SIGKILL)
		run_kill(run);
	else if (gp_tree_signal(signo, &result, &err) < 0)
		gp_log(GP_LOG_ERR, "signal", "job=%" PRIu64 " error=\"%s\"", run->options->job,
		       err.msg);
}

static void run_on_link(struct run *run)
{
	struct gp_wire_msg msg;
	struct gp_err err;

	while (run->phase != RUN_DONE) {
		int r = gp_link_receive(&run->link, &msg, &err);

		if (r == -ETIMEDOUT)
			return;
		if (r < 0) {
			if (!run->said_no_link)
				gp_log(GP_LOG_WARN, "link", "job=%" PRIu64 " error=\"%s\"",
				       run->options->job, err.msg);
			run->said_no_link = true;
			run_arm(run->knock_fd, RUN_KNOCK_NS, RUN_KNOCK_NS);
			if (run->phase == RUN_CONNECTING)
				run_start(run);
			return;
		}
		if (msg.header.type == GP_WIRE_WELCOME)
			run_on_welcome(run);
		else if (msg.header.type == GP_WIRE_SIGNAL)
			run_on_signal_request(run, msg.signal.signo);
	}
}

/* The job must not inherit what was handed to us. */
static int run_keep_fd(int fd, const char *option, struct gp_err *err)
{
	if (fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return gp_err_sys(err, -errno, "%s %d is not open", option, fd);
	return 0;
}

static int run_init_process(struct gp_err *err)
{
	gp_auto_fd int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0)
		return gp_err_sys(err, -errno, "cannot open /dev/null");
	/*
	 * Out of the way of a terminal that the daemon has. Not a session: the kernel's scheduler
	 * puts each new one at the end of its queue, and the job waits for us. The leader of a
	 * session cannot move, and need not.
	 */
	if (setpgid(0, 0) < 0 && errno != EPERM)
		return gp_err_sys(err, -errno, "cannot lead a process group");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return gp_err_sys(err, -errno, "cannot become a subreaper");
	/* Our stderr may be a pipe to a daemon that has ended. */
	signal(SIGPIPE, SIG_IGN);
	/* Or a terminal that stops those who write in the background. */
	signal(SIGTTOU, SIG_IGN);
	return 0;
}

static int run_init_fds(struct run *run, struct gp_err *err)
{
	sigset_t set;
	int r;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	run->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	run->knock_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	run->tree_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (run->epoll_fd < 0 || run->signal_fd < 0 || run->knock_fd < 0 || run->tree_fd < 0)
		return gp_err_sys(err, -errno, "cannot create an event fd");
	r = run_watch(run, run->signal_fd, err);
	if (r == 0)
		r = run_watch(run, run->knock_fd, err);
	if (r == 0)
		r = run_watch(run, run->tree_fd, err);
	return r == 0 ? run_set_timer(run->knock_fd, RUN_KNOCK_NS, RUN_KNOCK_NS, err) : r;
}

static void run_dispatch(struct run *run, int fd)
{
	if (fd == run->signal_fd)
		run_on_signals(run);
	else if (fd == run->knock_fd)
		run_on_knock_timer(run);
	else if (fd == run->tree_fd)
		run_on_tree_timer(run);
	else if (fd == run->link.sock)
		run_on_link(run);
}

static void run_loop(struct run *run)
{
	/* One event a turn: a callback may close the fd that the next event is about. */
	while (run->phase != RUN_DONE) {
		struct epoll_event event;
		int n = epoll_wait(run->epoll_fd, &event, 1, -1);

		if (n == 1)
			run_dispatch(run, event.data.fd);
	}
}

int gp_run(const struct gp_run_options *options, struct gp_err *err)
{
	struct run run = {
		.options = options,
		.epoll_fd = -1,
		.signal_fd = -1,
		.knock_fd = -1,
		.tree_fd = -1,
	};
	int r;

	gp_link_init(&run.link, options->socket, options->job);
	r = run_keep_fd(options->log_fd, "--log-fd", err);
	if (r == 0)
		r = run_keep_fd(options->status_fd, "--status-fd", err);
	if (r == 0)
		r = run_init_process(err);
	if (r == 0)
		r = run_init_fds(&run, err);
	if (r == 0) {
		run_knock(&run);
		if (run.link.sock < 0)
			run_start(&run);
		run_loop(&run);
	}
	gp_link_close(&run.link);
	gp_close_fd(&run.tree_fd);
	gp_close_fd(&run.knock_fd);
	gp_close_fd(&run.signal_fd);
	gp_close_fd(&run.epoll_fd);
	return r;
}
