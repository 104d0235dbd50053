/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays a daemon and hostile shims against the real gpupres-mover on the software device. Whatever
 * comes over the links, which belong to processes of others, the mover goes on serving; what a
 * daemon says that it never would may end it, but in an orderly way. All of it follows from the
 * seed but for what the mover's own threads make of it.
 */
#include "tests/fuzz/options.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUZZ_PROCS	 4
#define FUZZ_STEPS	 400
#define FUZZ_ASK_EVERY	 50
#define FUZZ_ANSWER_MS	 60000
#define FUZZ_CHUNK_BYTES (2ull << 20) /* granularity of extents: snapshot/chunk_hash.h */
#define FUZZ_ASAN_EXIT	 99

extern char **environ;

static struct fuzz {
	struct gp_fuzz random;
	char folder[256], soft[64], driver[512];
	uint64_t seed;
	pid_t pid;
	int sock;
	int links[FUZZ_PROCS]; /* of process i + 1; -1: none */
	uint64_t epoch;
	uint64_t n_messages, n_asked, n_answers[GP_WIRE_MAX_], n_ended;
} f;

static bool percent(unsigned int p)
{
	return gp_fuzz_percent(&f.random, p);
}

/* --- the mover as a process --- */

static int listen_at(char *path, size_t bytes)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(path, bytes, "%s/d.sock", f.folder);
	unlink(path);
	CHECK(strlen(path) < sizeof(addr.sun_path));
	strcpy(addr.sun_path, path);
	CHECK_EQ(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_EQ(listen(sock, 1), 0);
	return sock;
}

static void spawn(char *socket)
{
	char path[512];
	char *argv[] = { path,	   "--socket",	 socket,     "--device",    "0",       "--kind",
			 "soft",   "--driver",	 f.driver,   "--arena",	    "8388608", "--swap-dir",
			 f.folder, "--swap-max", "16777216", "--log-level", "err",     NULL };

	snprintf(path, sizeof(path), "%s/libexec/gpupres/gpupres-mover", getenv("GP_BUILD"));
	CHECK_EQ(posix_spawn(&f.pid, path, NULL, NULL, argv, environ), 0);
}

static void receive(struct gp_wire_msg *m)
{
	int fds[GP_WIRE_MAX_FDS];
	struct gp_err err = { 0 };
	size_t n = 0;

	if (gp_wire_recv(f.sock, m, fds, GP_WIRE_MAX_FDS, &n, FUZZ_ANSWER_MS, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		CHECK(!"a message of the mover");
	}
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static void start(void)
{
	struct gp_wire_msg m;
	char path[512];
	int sock = listen_at(path, sizeof(path));

	spawn(path);
	f.sock = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
	CHECK(f.sock >= 0);
	close(sock);
	receive(&m);
	CHECK_EQ(m.header.type, GP_WIRE_HELLO);
	gp_wire_init_reply(&m, GP_WIRE_WELCOME, &m);
	m.welcome.version = GP_WIRE_VERSION;
	CHECK_EQ(gp_wire_send(f.sock, &m, NULL, 0, NULL), 0);
	while (m.header.type != GP_WIRE_MOVER_READY)
		receive(&m);
}

static void drop_link(size_t i)
{
	gp_close_fd(&f.links[i]);
}

/* It is asked to end, since it would wait for another daemon, or has ended: not by a crash. */
static void stop(void)
{
	int status;

	for (size_t i = 0; i < FUZZ_PROCS; i++)
		drop_link(i);
	gp_close_fd(&f.sock);
	kill(f.pid, SIGTERM);
	CHECK_EQ(waitpid(f.pid, &status, 0), f.pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) == FUZZ_ASAN_EXIT) {
		fprintf(stderr, "the mover ended with status %#x, again with --seed %llu\n", status,
			(unsigned long long)f.seed);
		CHECK(!"an orderly end");
	}
}

/* --- what is said to it --- */

/* 0, or negative: the mover has closed the connection. */
static int say(struct gp_fuzz_datagram *d)
{
	int r = gp_fuzz_send(f.sock, d);

	f.n_messages += r == 0;
	return r == -EAGAIN ? 0 : r;
}

static void drain(int sock, bool is_link)
{
	int fds[GP_WIRE_MAX_FDS];
	struct gp_wire_msg m;
	size_t n = 0;

	while (gp_wire_recv(sock, &m, fds, GP_WIRE_MAX_FDS, &n, 0, NULL) == 0) {
		for (size_t i = 0; i < n; i++)
			close(fds[i]);
		n = 0;
		gp_fuzz_remember(&f.random, &m);
		f.n_answers[m.header.type]++;
		CHECK(!is_link || m.header.type == GP_WIRE_EXTENTS_ACK);
	}
}

static void fill_header(struct gp_wire_msg *m, uint32_t proc)
{
	m->header.job = 1;
	m->header.proc = proc;
	m->header.epoch = f.epoch;
	m->header.cookie = (uint32_t)gp_fuzz_below(&f.random, 100);
}

static int say_link(size_t i)
{
	struct gp_fuzz_datagram d = { .n_fds = 1 };
	int sv[2], r;

	drop_link(i);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	gp_wire_init(&d.msg, GP_WIRE_LINK);
	fill_header(&d.msg, (uint32_t)i + 1);
	d.len = d.msg.header.size;
	d.fd = sv[1];
	r = say(&d);
	close(sv[1]);
	f.links[i] = sv[0];
	return r;
}

/* What a daemon orders, of a process that it may or may not have a link to. */
static int say_order(size_t i)
{
	static const uint8_t orders[] = { GP_WIRE_CHANNELS, GP_WIRE_FREEZE, GP_WIRE_THAW,
					  GP_WIRE_SAVE,	    GP_WIRE_SAVE,   GP_WIRE_LOAD,
					  GP_WIRE_DROP,	    GP_WIRE_UNLINK, GP_WIRE_MEMINFO };
	struct gp_fuzz_datagram d = { 0 };

	f.epoch += percent(30);
	gp_fuzz_valid(&f.random, orders[gp_fuzz_below(&f.random, GP_ARRAY_SIZE(orders))], &d.msg);
	fill_header(&d.msg, (uint32_t)i + 1);
	if (d.msg.header.type == GP_WIRE_FREEZE || d.msg.header.type == GP_WIRE_THAW) {
		d.msg.header.proc = 0;
		d.msg.freeze.n %= FUZZ_PROCS + 1;
		for (uint32_t k = 0; k < d.msg.freeze.n; k++)
			d.msg.freeze.procs[k] =
				1 + (uint32_t)gp_fuzz_below(&f.random, FUZZ_PROCS + 1);
	}
	d.len = d.msg.header.size;
	return say(&d);
}

/* No daemon says this. */
static int say_nonsense(void)
{
	struct gp_fuzz_datagram d = { .fd = STDIN_FILENO };

	gp_fuzz_valid(&f.random, gp_fuzz_type(&f.random), &d.msg);
	d.len = d.msg.header.size;
	if (percent(20))
		gp_fuzz_mutate(&f.random, &d);
	return say(&d);
}

/* --- what a shim says --- */

static int any_file(uint64_t bytes)
{
	int fd = -1;

	if (percent(20))
		fd = open(percent(50) ? "/dev/null" : "/", O_RDONLY | O_CLOEXEC);
	else
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	CHECK(fd >= 0);
	if (percent(70))
		(void)!ftruncate(fd, (off_t)bytes);
	return fd;
}

static void link_extents(size_t i)
{
	struct gp_fuzz_datagram d = { 0 };

	gp_fuzz_valid(&f.random, GP_WIRE_EXTENTS, &d.msg);
	fill_header(&d.msg, (uint32_t)i + 1);
	d.msg.header.epoch = percent(80) ? f.epoch : 0;
	d.msg.extents.error = percent(90) ? 0 : -EIO;
	for (uint32_t k = 0; k < d.msg.extents.n && percent(80); k++)
		d.msg.extents.entries[k].bytes =
			(1 + gp_fuzz_below(&f.random, 3)) * FUZZ_CHUNK_BYTES;
	d.len = d.msg.header.size;
	d.n_fds = percent(80) ? d.msg.extents.n : gp_fuzz_below(&f.random, 70);
	d.fd = any_file(FUZZ_CHUNK_BYTES);
	f.n_messages += gp_fuzz_send(f.links[i], &d) == 0;
	close(d.fd);
}

static void link_anything(size_t i)
{
	struct gp_fuzz_datagram d = { .fd = STDIN_FILENO };

	gp_fuzz_anything(&f.random, 30, 50, &d);
	f.n_messages += gp_fuzz_send(f.links[i], &d) == 0;
}

/* --- sessions --- */

static int step(void)
{
	size_t i = gp_fuzz_below(&f.random, FUZZ_PROCS);

	for (size_t k = 0; k < FUZZ_PROCS; k++) {
		if (f.links[k] >= 0)
			drain(f.links[k], true);
	}
	drain(f.sock, false);
	if (f.links[i] < 0)
		return say_link(i);
	if (percent(4))
		drop_link(i);
	else if (percent(50))
		link_extents(i);
	else if (percent(15))
		link_anything(i);
	else
		return say_order(i);
	return 0;
}

/* Asks, and waits for the answer: those to what came before come first. */
static void ask(void)
{
	struct gp_wire_msg m;

	/* Nobody holds it up: a process that does not hand over its memory has until a deadline. */
	for (size_t i = 0; i < FUZZ_PROCS; i++)
		drop_link(i);
	gp_wire_init(&m, GP_WIRE_MEMINFO);
	m.header.cookie = 4711;
	CHECK_EQ(gp_wire_send(f.sock, &m, NULL, 0, NULL), 0);
	do {
		receive(&m);
		f.n_answers[m.header.type]++;
	} while (m.header.type != GP_WIRE_MEMINFO || m.header.cookie != 4711);
	f.n_asked++;
}

static void session(uint64_t seed)
{
	bool daemon_is_sane = seed % 4 != 0;

	f.seed = seed;
	gp_fuzz_init(&f.random, seed);
	f.epoch = 1;
	start();
	for (int i = 1; i <= FUZZ_STEPS; i++) {
		int r = daemon_is_sane || !percent(2) ? step() : say_nonsense();

		if (r < 0 && !daemon_is_sane) {
			f.n_ended++;
			break;
		}
		if (daemon_is_sane)
			CHECK_EQ(r, 0);
		if (daemon_is_sane && i % FUZZ_ASK_EVERY == 0)
			ask();
	}
	stop();
}

int main(int argc, char **argv)
{
	struct gp_fuzz_options o = gp_fuzz_parse(argc, argv);
	char command[700];
	uint64_t n = 0;

	CHECK(getenv("GP_BUILD"));
	signal(SIGPIPE, SIG_IGN);
	snprintf(f.folder, sizeof(f.folder), "%.60s/gp-fuzz-mover-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	snprintf(f.soft, sizeof(f.soft), "/dev/shm/gp-fuzz-mover-%d", getpid());
	snprintf(f.driver, sizeof(f.driver), "%.400s/lib/gpupres/soft/libcuda.so.1",
		 getenv("GP_BUILD"));
	CHECK(mkdtemp(f.folder));
	setenv("GPUPRES_SOFT_DIR", f.soft, 1);
	setenv("GPUPRES_SOFT_MEMORY", "64M", 1);
	/* Movers load the software driver, which keeps its state until the process ends. */
	setenv("ASAN_OPTIONS", "exitcode=99:detect_leaks=0", 1);
	for (size_t i = 0; i < FUZZ_PROCS; i++)
		f.links[i] = -1;
	while (gp_now_ns() < o.end_ns && (!o.max_sessions || n < o.max_sessions)) {
		const uint64_t seed = o.seed + n;

		printf("session %llu: --seed %llu --sessions 1\n", (unsigned long long)n,
		       (unsigned long long)seed);
		session(seed);
		n++;
	}
	printf("%llu messages, %llu times served, %llu ends; answers:",
	       (unsigned long long)f.n_messages, (unsigned long long)f.n_asked,
	       (unsigned long long)f.n_ended);
	for (uint32_t type = 1; type < GP_WIRE_MAX_; type++) {
		if (f.n_answers[type])
			printf(" %s %llu", gp_wire_name(type),
			       (unsigned long long)f.n_answers[type]);
	}
	printf("\n");
	snprintf(command, sizeof(command), "rm -rf %s %s", f.folder, f.soft);
	return system(command) == 0 ? 0 : 1;
}
