/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays clients, shims, supervisors and movers, well-behaved and not, against the whole daemon in
 * this process, and checks after every turn of its loop that what it believes is sound.
 *
 * The daemon is real down to its database; what leaves the process is played: launching (which
 * gives no process, but a descriptor that ends when we say so), kill() and CLOCK_MONOTONIC, which
 * stands still but for what is added, so that deadlines expire at once and a seed gives the same
 * again. A peer mostly answers as it should, since otherwise no operation gets far.
 *
 * A session is one state folder and a few daemons, one after the other; at its end everything must
 * be closed again.
 */
#include "daemon/daemon.h"
#include "daemon/device.h"
#include "daemon/job.h"
#include "daemon/launch.h"
#include "daemon/orphans.h"
#include "daemon/peer.h"
#include "daemon/proc.h"
#include "daemon/settings.h"
#include "tests/fuzz/options.h"

#include "base/driver.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FUZZ_PEERS	 24
#define FUZZ_SUPERVISORS 64
#define FUZZ_DEVICES	 8
#define FUZZ_JOBS	 8192
#define FUZZ_STEPS	 1500 /* of one daemon */
#define FUZZ_DAEMONS	 3    /* of one session */
#define FUZZ_UNREAD	 1000 /* more than fit into a socket */
#define FUZZ_READS	 64   /* messages a peer takes at a time */
#define FUZZ_MIB	 (1ull << 20)

struct player {
	int sock; /* -1: free */
	uint32_t role;
	uint64_t job;
	bool deaf; /* does not read */
};

/* What a supervisor or mover that was launched is: nothing but its end. */
struct launched {
	int end_fd; /* an eventfd that the daemon has a copy of; -1: none */
	uint64_t job;
};

static struct fuzz {
	struct gp_fuzz random;
	struct gp_daemon daemon;
	struct gp_timer stopper;
	struct player players[FUZZ_PEERS];
	struct launched supervisors[FUZZ_SUPERVISORS], movers[FUZZ_DEVICES];
	_Atomic uint64_t clock_ns; /* the store's threads read it, too */
	uint64_t free_bytes;
	char folder[256];
	uint64_t seed, step, n_messages;
	uint8_t states[FUZZ_JOBS];
	uint64_t n_states[GP_JOB_STATE_MAX_]; /* how often they were reached */
} f;

#define FUZZ_CHECK(cond)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fuzz_fail(__LINE__, #cond);                                                \
	} while (0)

static _Noreturn void fuzz_fail(int line, const char *what)
{
	fprintf(stderr, "%s:%d: failed: %s\nagain with: --seed %llu --sessions 1 (step %llu)\n",
		__FILE__, line, what, (unsigned long long)f.seed, (unsigned long long)f.step);
	abort();
}

static bool percent(unsigned int p)
{
	return gp_fuzz_percent(&f.random, p);
}

static size_t below(size_t n)
{
	return gp_fuzz_below(&f.random, n);
}

/* --- what the daemon finds instead of the system's --- */

int clock_gettime(clockid_t id, struct timespec *ret)
{
	if (id != CLOCK_MONOTONIC || !f.clock_ns)
		return (int)syscall(SYS_clock_gettime, id, ret);
	f.clock_ns += 1000;
	ret->tv_sec = (time_t)(f.clock_ns / GP_NS_PER_SEC);
	ret->tv_nsec = (long)(f.clock_ns % GP_NS_PER_SEC);
	return 0;
}

/* The daemon kills movers and adopted processes: all of them are us. */
int kill(pid_t pid, int signo)
{
	uint64_t one = 1;

	FUZZ_CHECK(pid == getpid());
	for (size_t i = 0; i < FUZZ_DEVICES; i++) {
		if (f.movers[i].end_fd >= 0 && (signo == SIGTERM || percent(50)))
			FUZZ_CHECK(write(f.movers[i].end_fd, &one, sizeof(one)) == sizeof(one));
	}
	return 0;
}

int pidfd_send_signal(int pidfd, int signo, siginfo_t *info, unsigned int flags)
{
	FUZZ_CHECK(pidfd >= 0);
	return 0;
}

/* Reading all of the machine's /proc is slow, and finds nothing of ours. */
size_t gp_orphans_kill(const struct gp_job *job)
{
	return percent(20);
}

void gp_log_init(const char *program, enum gp_log_level max)
{
}

void gp_log_set_level(enum gp_log_level max)
{
}

int gp_log_level_parse(const char *text, enum gp_log_level *ret_level)
{
	return -EINVAL;
}

/* Formats, so that a bad argument is found, and tells what must never be logged. */
void gp_log(enum gp_log_level level, const char *event, const char *fmt, ...)
{
	static int verbose = -1;
	char line[1024];
	va_list ap;

	if (verbose < 0)
		verbose = getenv("GP_FUZZ_VERBOSE") != NULL;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (verbose)
		fprintf(stderr, "%llu %s %s\n", (unsigned long long)f.step, event, line);
	FUZZ_CHECK(strcmp(event, "plan_rejected") != 0);
}

int gp_driver_find(char *buf, size_t buf_bytes, struct gp_err *err)
{
	return gp_err_set(err, -ENOENT, "no driver here");
}

int gp_tree_root(char *buf, size_t buf_bytes, struct gp_err *err)
{
	snprintf(buf, buf_bytes, "%s", f.folder);
	return 0;
}

/* Gives the daemon its copy of the descriptor that ends the process. */
static int launch(struct launched *l, pid_t *ret_pid, int *ret_pidfd, struct gp_err *err)
{
	l->end_fd = eventfd(0, EFD_CLOEXEC);
	*ret_pidfd = fcntl(l->end_fd, F_DUPFD_CLOEXEC, 3);
	FUZZ_CHECK(l->end_fd >= 0 && *ret_pidfd >= 0);
	*ret_pid = getpid();
	return 0;
}

static void launched_forget(struct launched *l)
{
	gp_close_fd(&l->end_fd);
}

int gp_launch_supervisor(struct gp_job *job, pid_t *ret_pid, int *ret_pidfd, struct gp_err *err)
{
	if (percent(3))
		return gp_err_set(err, -EAGAIN, "as the fuzzer wants");
	for (size_t i = 0; i < FUZZ_SUPERVISORS; i++) {
		if (f.supervisors[i].end_fd < 0) {
			f.supervisors[i].job = job->id;
			return launch(&f.supervisors[i], ret_pid, ret_pidfd, err);
		}
	}
	return gp_err_set(err, -EAGAIN, "too many supervisors for the fuzzer");
}

int gp_launch_mover(struct gp_device *device, pid_t *ret_pid, int *ret_pidfd, struct gp_err *err)
{
	FUZZ_CHECK(device->ordinal < FUZZ_DEVICES);
	launched_forget(&f.movers[device->ordinal]);
	return launch(&f.movers[device->ordinal], ret_pid, ret_pidfd, err);
}

/* Of a daemon of all users, which this one is not. */
int gp_launch_pack(struct gp_job *job, struct gp_spawn_request *request, int *ret_memfd,
		   struct gp_err *err)
{
	return gp_err_set(err, -ENOSYS, "not fuzzed");
}

int gp_launch_reap(pid_t pid)
{
	FUZZ_CHECK(pid == getpid());
	return (int)below(2);
}

/* --- what must always hold --- */

static size_t list_length(const struct gp_list *list)
{
	size_t n = 0;

	for (const struct gp_list *l = list->next; l != list; l = l->next)
		n++;
	return n;
}

static bool is_open(const struct gp_peer *peer)
{
	gp_list_for_each(p, &f.daemon.peers, struct gp_peer, node) {
		if (p == peer)
			return true;
	}
	return false;
}

static void check_peer(const struct gp_peer *peer)
{
	FUZZ_CHECK(!peer->closed && peer->source.fd >= 0);
	FUZZ_CHECK(list_length(&peer->queue) == peer->n_queued);
	FUZZ_CHECK(peer->n_queued <= GP_PEER_MAX_QUEUED);
	if (peer->role == GP_ROLE_SHIM)
		FUZZ_CHECK(peer->proc->peer == peer);
	if (peer->role == GP_ROLE_MOVER && peer->device)
		FUZZ_CHECK(peer->device->mover == peer);
}

static void check_proc(const struct gp_job *job, const struct gp_proc *proc)
{
	FUZZ_CHECK(proc->job == job);
	FUZZ_CHECK(!proc->peer || (is_open(proc->peer) && proc->peer->proc == proc));
}

/* A state that only an operation can lead out of. */
static bool is_under_way(uint32_t state)
{
	return state == GP_JOB_FREEZING || state == GP_JOB_EVICTING || state == GP_JOB_RESTORING ||
	       state == GP_JOB_THAWING;
}

static void check_job(const struct gp_job *job)
{
	FUZZ_CHECK(job->state > 0 && job->state < GP_JOB_STATE_MAX_);
	FUZZ_CHECK(memchr(job->cause, 0, sizeof(job->cause)));
	FUZZ_CHECK((job->op == GP_OP_NONE) <= (job->phase == GP_PHASE_NONE));
	if (is_under_way(job->state))
		FUZZ_CHECK(job->op != GP_OP_NONE || job->recovering);
	if (gp_job_state_is_final(job->state)) {
		FUZZ_CHECK(job->op == GP_OP_NONE);
		FUZZ_CHECK(gp_list_empty(&job->requests));
		FUZZ_CHECK(!job->op_timer.at);
	}
	if (job->state > GP_JOB_STARTING && job->state <= GP_JOB_THAWING)
		FUZZ_CHECK(job->device);
	if (job->supervisor)
		FUZZ_CHECK(is_open(job->supervisor) && job->supervisor->job == job);
	gp_list_for_each(request, &job->requests, struct gp_request, node)
		FUZZ_CHECK(is_open(request->peer));
	gp_list_for_each(proc, &job->procs, struct gp_proc, node)
		check_proc(job, proc);
	/* No job ends twice. */
	FUZZ_CHECK(job->id < FUZZ_JOBS);
	FUZZ_CHECK(!gp_job_state_is_final(f.states[job->id]) || f.states[job->id] == job->state);
	if (f.states[job->id] != job->state)
		f.n_states[job->state]++;
	f.states[job->id] = job->state;
}

static void check_all(void)
{
	FUZZ_CHECK(gp_list_empty(&f.daemon.dead_peers));
	gp_list_for_each(peer, &f.daemon.peers, struct gp_peer, node)
		check_peer(peer);
	gp_list_for_each(job, &f.daemon.jobs, struct gp_job, node)
		check_job(job);
	gp_list_for_each(device, &f.daemon.devices, struct gp_device, node) {
		FUZZ_CHECK(!device->mover || is_open(device->mover));
		FUZZ_CHECK(!device->ready || device->mover);
	}
}

/* --- turns of the loop --- */

static void stop(struct gp_timer *timer)
{
	f.daemon.loop.stop = true;
}

static void turn(void)
{
	struct gp_err err;

	f.daemon.loop.stop = false;
	gp_timer_arm(&f.daemon.loop, &f.stopper, 0);
	FUZZ_CHECK(gp_loop_run(&f.daemon.loop, &err) == 0);
	gp_timer_disarm(&f.stopper);
	check_all();
}

/* --- players --- */

static void player_close(struct player *p)
{
	gp_close_fd(&p->sock);
}

static void player_send(struct player *p, const struct gp_fuzz_datagram *d)
{
	int r = p->sock < 0 ? -EPIPE : gp_fuzz_send(p->sock, d);

	f.n_messages += r == 0;
	FUZZ_CHECK(r == 0 || r == -EAGAIN || r == -EPIPE || r == -ECONNRESET || r == -ETOOMANYREFS);
}

static void player_say(struct player *p, const struct gp_wire_msg *m, int fd)
{
	struct gp_fuzz_datagram d = { .len = m->header.size, .n_fds = fd >= 0, .fd = fd };

	memcpy(d.bytes, m, m->header.size);
	player_send(p, &d);
}

/* An answer as it should be, most of the time. */
static void player_answer(struct player *p, const struct gp_wire_msg *request,
			  const struct gp_wire_msg *answer)
{
	struct gp_fuzz_datagram d = { .len = answer->header.size };

	memcpy(d.bytes, answer, answer->header.size);
	if (percent(6)) {
		gp_wire_init_reply(&d.msg, GP_WIRE_ERROR, request);
		d.msg.error.code = percent(50) ? -EIO : -ENOMEM;
		d.len = d.msg.header.size;
	} else if (percent(2)) {
		gp_fuzz_mutate(&f.random, &d);
	} else if (percent(3)) {
		return;
	}
	player_send(p, &d);
	if (percent(3))
		player_send(p, &d);
}

static const uint8_t fuzz_answers[GP_WIRE_MAX_] = {
	[GP_WIRE_LOCK] = GP_WIRE_LOCKED,	[GP_WIRE_PROBE] = GP_WIRE_PROBED,
	[GP_WIRE_EXPORT] = GP_WIRE_EXPORTED,	[GP_WIRE_RELEASE] = GP_WIRE_RELEASED,
	[GP_WIRE_RECREATE] = GP_WIRE_RECREATED, [GP_WIRE_SCRATCH] = GP_WIRE_SCRATCHED,
	[GP_WIRE_CONFIRM] = GP_WIRE_CONFIRMED,	[GP_WIRE_UNLOCK] = GP_WIRE_UNLOCKED,
	[GP_WIRE_FREEZE] = GP_WIRE_FROZEN,	[GP_WIRE_THAW] = GP_WIRE_THAWED,
	[GP_WIRE_SAVE] = GP_WIRE_SAVE_DONE,	[GP_WIRE_LOAD] = GP_WIRE_LOAD_DONE,
	[GP_WIRE_MEMINFO] = GP_WIRE_MEMINFO,
};

static void fill_meminfo(struct gp_wire_meminfo *m)
{
	if (percent(20))
		f.free_bytes = below(1024) * FUZZ_MIB;
	*m = (struct gp_wire_meminfo){ .free_bytes = f.free_bytes, .total_bytes = 1024 * FUZZ_MIB };
}

static void player_saved(struct player *p, const struct gp_wire_msg *request)
{
	struct gp_wire_msg m;

	gp_wire_init_reply(&m, GP_WIRE_SAVED, request);
	m.saved.n = (uint32_t)below(4);
	player_answer(p, request, &m);
}

static void player_obey(struct player *p, const struct gp_wire_msg *request)
{
	uint32_t type = fuzz_answers[request->header.type];
	struct gp_wire_msg m;

	if (!type)
		return;
	if (request->header.type == GP_WIRE_SAVE)
		player_saved(p, request);
	gp_wire_init_reply(&m, type, request);
	if (type == GP_WIRE_LOCKED)
		m.locked = (struct gp_wire_locked){ .movable_bytes = below(8) * FUZZ_MIB,
						    .n_extents = (uint32_t)below(4) };
	else if (type == GP_WIRE_MEMINFO)
		fill_meminfo(&m.meminfo);
	else if (type == GP_WIRE_RELEASED || type == GP_WIRE_RECREATED)
		m.released = (struct gp_wire_count){ .bytes = below(8) * FUZZ_MIB, .n = 1 };
	else if (type == GP_WIRE_PROBED)
		m.probed.mid_kernel = (uint32_t)below(3);
	player_answer(p, request, &m);
}

static void end_supervisor(struct player *p)
{
	uint64_t one = 1;

	for (size_t i = 0; i < FUZZ_SUPERVISORS; i++) {
		if (f.supervisors[i].end_fd >= 0 && f.supervisors[i].job == p->job) {
			FUZZ_CHECK(write(f.supervisors[i].end_fd, &one, sizeof(one)) ==
				   sizeof(one));
			launched_forget(&f.supervisors[i]);
		}
	}
	player_close(p);
}

static void player_exit(struct player *p)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_EXITED);
	m.header.job = p->job;
	m.exited.exit_code = (int32_t)below(3);
	m.exited.exec_errno = percent(10) ? ENOENT : 0;
	if (percent(80))
		player_say(p, &m, -1);
	if (percent(80))
		end_supervisor(p);
}

static void player_channels(struct player *p)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_CHANNELS);
	m.channels.total = m.channels.n = m.channels.complete = 1;
	player_say(p, &m, -1);
}

static void player_memory(struct player *p)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_MEMORY);
	m.memory = (struct gp_wire_memory){ .movable_bytes = below(64) * FUZZ_MIB,
					    .n_extents = (uint32_t)below(4) };
	player_say(p, &m, -1);
}

static void player_is_welcome(struct player *p)
{
	struct gp_fuzz_datagram d = { .n_fds = 3, .fd = STDIN_FILENO };
	struct gp_wire_msg m;

	switch ((enum gp_role)p->role) {
	case GP_ROLE_SHIM:
		gp_wire_init(&m, GP_WIRE_ATTACH);
		if (percent(95))
			player_say(p, &m, -1);
		player_channels(p);
		player_memory(p);
		break;
	case GP_ROLE_SUPERVISOR:
		gp_wire_init(&m, GP_WIRE_STARTED);
		m.header.job = p->job;
		m.started.pid = (uint32_t)getpid();
		player_say(p, &m, -1);
		break;
	case GP_ROLE_MOVER:
		gp_wire_init(&d.msg, GP_WIRE_MOVER_READY);
		d.msg.mover_ready = (struct gp_wire_mover_ready){ .total_bytes = 1024 * FUZZ_MIB,
								  .free_bytes = 1024 * FUZZ_MIB,
								  .can_freeze = 1 };
		d.len = d.msg.header.size;
		player_send(p, &d);
		break;
	default:
		break;
	}
}

static void player_read(struct player *p)
{
	int fds[GP_WIRE_MAX_FDS];
	struct gp_wire_msg m;
	struct gp_err err;

	for (int i = 0; i < FUZZ_READS && p->sock >= 0 && !p->deaf; i++) {
		size_t n = 0;
		int r = gp_wire_recv(p->sock, &m, fds, GP_WIRE_MAX_FDS, &n, 0, &err);

		if (r == -ETIMEDOUT)
			return;
		if (r < 0) {
			/* What the daemon sends is always sound. */
			FUZZ_CHECK(r == -ECONNRESET || r == -EPIPE);
			player_close(p);
			return;
		}
		for (size_t k = 0; k < n; k++)
			close(fds[k]);
		gp_fuzz_remember(&f.random, &m);
		if (m.header.type == GP_WIRE_WELCOME)
			player_is_welcome(p);
		else if (m.header.type == GP_WIRE_SIGNAL && p->role == GP_ROLE_SUPERVISOR)
			player_exit(p);
		else
			player_obey(p, &m);
	}
}

/* --- what a player does by itself --- */

static uint64_t any_job(void)
{
	return percent(90) && f.daemon.next_job > 1
		       ? f.daemon.next_job - 1 -
				 below(f.daemon.next_job < 8 ? f.daemon.next_job : 8)
		       : below(1000);
}

static uint64_t any_supervised_job(void)
{
	const struct launched *l = &f.supervisors[below(FUZZ_SUPERVISORS)];

	for (size_t i = 0; i < FUZZ_SUPERVISORS && l->end_fd < 0; i++)
		l = &f.supervisors[i];
	return l->end_fd >= 0 ? l->job : any_job();
}

static void dial(struct player *p, uint32_t role)
{
	struct gp_fuzz_datagram d = { 0 };
	int sv[2];

	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) == 0);
	*p = (struct player){ .sock = sv[1], .role = role };
	p->job = role == GP_ROLE_SUPERVISOR	       ? any_supervised_job()
		 : role == GP_ROLE_SHIM && percent(80) ? any_supervised_job()
						       : 0;
	gp_peer_new(&f.daemon, sv[0], (role == GP_ROLE_SHIM) != percent(2));
	gp_wire_init(&d.msg, GP_WIRE_HELLO);
	d.msg.header.job = p->job;
	d.msg.hello.version_min = GP_WIRE_VERSION_MIN;
	d.msg.hello.version_max = GP_WIRE_VERSION;
	d.msg.hello.role = role;
	if (role == GP_ROLE_SHIM && percent(20))
		d.msg.header.proc = (uint32_t)below(64); /* it was known to an earlier daemon */
	gp_wire_text(d.msg.hello.program, sizeof(d.msg.hello.program), "fuzz");
	d.len = d.msg.header.size;
	if (percent(5))
		gp_fuzz_mutate(&f.random, &d);
	if (percent(97))
		player_send(p, &d);
}

static void player_request(struct player *p)
{
	static const uint8_t requests[] = { GP_WIRE_SUBMIT, GP_WIRE_SUBMIT,  GP_WIRE_PREEMPT,
					    GP_WIRE_RESUME, GP_WIRE_PREEMPT, GP_WIRE_RESUME,
					    GP_WIRE_CANCEL, GP_WIRE_SHOW,    GP_WIRE_WAIT,
					    GP_WIRE_LOGS,   GP_WIRE_LIST,    GP_WIRE_DEVICES };
	gp_auto_fd int fd = -1;
	struct gp_wire_msg m;

	gp_wire_init(&m, requests[below(GP_ARRAY_SIZE(requests))]);
	m.header.job = any_job();
	m.header.cookie = (uint32_t)below(1000);
	if (m.header.type == GP_WIRE_PREEMPT)
		m.preempt.to = percent(30) ? GP_JOB_FROZEN : GP_JOB_SWAPPED;
	if (m.header.type == GP_WIRE_SUBMIT) {
		fd = gp_fuzz_blob(&f.random, &m.submit);
		m.submit.priority = (int32_t)below(5);
		m.submit.mem_bytes = below(512) * FUZZ_MIB;
	}
	player_say(p, &m, fd);
}

static void player_as_a_shim(struct player *p)
{
	struct gp_wire_msg m;

	if (percent(40)) {
		player_memory(p);
	} else if (percent(40)) {
		player_channels(p);
	} else {
		gp_wire_init(&m, GP_WIRE_NEED);
		m.header.cookie = (uint32_t)below(100);
		m.need.bytes = below(1100) * FUZZ_MIB;
		player_say(p, &m, -1);
	}
}

/* Sound in itself, but not what anybody waits for; or broken. */
static void player_misbehave(struct player *p)
{
	struct gp_fuzz_datagram d = { .fd = STDIN_FILENO };

	gp_fuzz_anything(&f.random, 10, 20, &d);
	player_send(p, &d);
}

static void player_act(struct player *p)
{
	if (percent(2)) {
		player_misbehave(p);
	} else if (percent(1)) {
		player_close(p);
	} else if (percent(2)) {
		p->deaf = !p->deaf;
	} else if (p->role == GP_ROLE_CLI) {
		player_request(p);
	} else if (p->role == GP_ROLE_SHIM && percent(30)) {
		player_as_a_shim(p);
	} else if (p->role == GP_ROLE_SUPERVISOR && percent(4)) {
		player_exit(p);
	}
}

static bool has_mover(void)
{
	for (size_t i = 0; i < FUZZ_PEERS; i++) {
		if (f.players[i].sock >= 0 && f.players[i].role == GP_ROLE_MOVER)
			return true;
	}
	return false;
}

static uint32_t any_role(void)
{
	static const uint8_t roles[] = { GP_ROLE_CLI, GP_ROLE_SHIM, GP_ROLE_SHIM,
					 GP_ROLE_SUPERVISOR, GP_ROLE_SUPERVISOR };

	if (!has_mover() && percent(60))
		return GP_ROLE_MOVER;
	return percent(2) ? 1 + (uint32_t)below(5) : roles[below(GP_ARRAY_SIZE(roles))];
}

static void step(void)
{
	struct player *p = &f.players[below(FUZZ_PEERS)];

	if (p->sock < 0)
		dial(p, any_role());
	else
		player_act(p);
	for (size_t i = 0; i < FUZZ_PEERS; i++)
		player_read(&f.players[i]);
	if (percent(3))
		f.clock_ns += below(40) * GP_NS_PER_SEC;
	else
		f.clock_ns += below(1000) * GP_NS_PER_MS / 10;
	turn();
}

/* --- sessions --- */

static void make_folder(void)
{
	static const char *const parts[] = { "", "/lib", "/lib/gpupres", "/lib/gpupres/soft" };
	char path[PATH_MAX];
	int fd;

	snprintf(f.folder, sizeof(f.folder), "%.200s/gp-fuzz-%d",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", getpid());
	for (size_t i = 0; i < GP_ARRAY_SIZE(parts); i++) {
		snprintf(path, sizeof(path), "%s%s", f.folder, parts[i]);
		FUZZ_CHECK(mkdir(path, 0700) == 0);
	}
	strcat(path, "/libcuda.so.1");
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0);
	close(fd);
}

static void remove_folder(void)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf %s", f.folder);
	FUZZ_CHECK(system(command) == 0);
}

static size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	FUZZ_CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void report(const char *line, void *user)
{
	fprintf(stderr, "%s\n", line);
}

static void configure(struct gp_settings *settings)
{
	const char *const values[][2] = { { "device", "soft" },
					  { "arena", "1M" },
					  { "runtime_dir", f.folder },
					  { "state_dir", f.folder },
					  { "swap_dir", f.folder } };
	struct gp_err err;

	FUZZ_CHECK(gp_settings_init(settings, report, NULL, &err) == 0);
	settings->user = true;
	snprintf(settings->file, sizeof(settings->file), "/dev/null");
	for (size_t i = 0; i < GP_ARRAY_SIZE(values); i++) {
		for (size_t k = 0; k < gp_settings_n_keys; k++) {
			const struct gp_config_key *key = &gp_settings_keys[k];

			if (!strcmp(key->key, values[i][0]))
				FUZZ_CHECK(gp_config_set(&settings->config, key, values[i][1],
							 GP_CONFIG_COMMAND_LINE, "fuzz",
							 &err) == 0);
		}
	}
	FUZZ_CHECK(gp_settings_load(settings, &err) == 0);
}

static void serve(struct gp_settings *settings)
{
	struct gp_err err;

	if (gp_daemon_init(&f.daemon, settings, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		FUZZ_CHECK(!"gp_daemon_init");
	}
	gp_timer_init(&f.stopper, stop);
	for (int i = 0; i < FUZZ_STEPS; i++, f.step++)
		step();
	/* Half of the time everybody leaves first, and nothing may be left of them. */
	if (percent(50)) {
		for (size_t i = 0; i < FUZZ_PEERS; i++)
			player_close(&f.players[i]);
		/* What they had said is heard first, a message a turn. */
		for (int i = 0; i < FUZZ_UNREAD && !gp_list_empty(&f.daemon.peers); i++)
			turn();
		FUZZ_CHECK(gp_list_empty(&f.daemon.peers));
	}
	gp_daemon_fini(&f.daemon);
	for (size_t i = 0; i < FUZZ_PEERS; i++)
		player_close(&f.players[i]);
	for (size_t i = 0; i < FUZZ_DEVICES; i++)
		launched_forget(&f.movers[i]);
}

static void session(uint64_t seed)
{
	size_t n_fds = count_fds();
	struct gp_settings settings;

	f.seed = seed;
	f.step = 0;
	gp_fuzz_init(&f.random, seed);
	f.clock_ns = 1000 * GP_NS_PER_SEC;
	f.free_bytes = 1024 * FUZZ_MIB;
	memset(f.states, 0, sizeof(f.states));
	make_folder();
	configure(&settings);
	for (int i = 0; i < FUZZ_DAEMONS; i++)
		serve(&settings);
	gp_settings_fini(&settings);
	for (size_t i = 0; i < FUZZ_SUPERVISORS; i++)
		launched_forget(&f.supervisors[i]);
	FUZZ_CHECK(count_fds() == n_fds);
	f.clock_ns = 0;
	remove_folder();
}

int main(int argc, char **argv)
{
	struct gp_fuzz_options o = gp_fuzz_parse(argc, argv);
	uint64_t n = 0;

	for (size_t i = 0; i < FUZZ_PEERS; i++)
		f.players[i].sock = -1;
	for (size_t i = 0; i < FUZZ_SUPERVISORS; i++)
		f.supervisors[i].end_fd = -1;
	for (size_t i = 0; i < FUZZ_DEVICES; i++)
		f.movers[i].end_fd = -1;
	while (gp_now_ns() < o.end_ns && (!o.max_sessions || n < o.max_sessions)) {
		const uint64_t seed = o.seed + n;

		/* Said before it runs: whatever happens then, this gives it again. */
		printf("session %llu: --seed %llu --sessions 1\n", (unsigned long long)n,
		       (unsigned long long)seed);
		session(seed);
		n++;
	}
	printf("%llu messages; changes of state:", (unsigned long long)f.n_messages);
	for (uint32_t state = 1; state < GP_JOB_STATE_MAX_; state++)
		printf(" %s %llu", gp_job_state_name(state), (unsigned long long)f.n_states[state]);
	printf("\n");
	return 0;
}
