/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service_client: the timed parts of tests/bench/service, as a client of control.sock.
 *
 *	round-trips SOCKET JOB CPU PARTNER_CPU
 *				SHOW against a bare ping-pong of messages of the same size
 *	submit SOCKET N MEM	N jobs that stay queued, up to SUBMIT_WINDOW unanswered at a time
 *	exec SOCKET N FIFO	N jobs one after the other: from SUBMIT to the job's first act
 *	stamp FIFO		that act: writes the time to FIFO
 *	relay FIFO		starts stamp: what any supervisor must do at least
 *
 * Prints "NAME VALUE" lines, times in ns.
 */
#include "base/time.h"
#include "base/wire/wire.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define ROUNDS	      400 /* both kinds take turns in rounds, so that the machine's load hits both */
#define TRIPS	      50  /* of each kind in a round */
#define SUBMIT_WINDOW 32
#define ENV_BYTES     4096 /* of a submitted job: what an interactive shell has */
#define ANSWER_MS     30000

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "service_client: %s\n", what);
	exit(1);
}

static int dial(const char *path)
{
	struct gp_err err;
	int sock = gp_wire_connect(path, GP_ROLE_CLI, 0, 0, "bench", &err);

	if (sock < 0)
		die(err.msg);
	return sock;
}

static void send_message(int sock, const struct gp_wire_msg *m, const int *fds, size_t n_fds)
{
	struct gp_err err;

	if (gp_wire_send(sock, m, fds, n_fds, &err) < 0)
		die(err.msg);
}

static void receive(int sock, uint32_t type, struct gp_wire_msg *m)
{
	struct gp_err err;

	if (gp_wire_recv(sock, m, NULL, 0, NULL, ANSWER_MS, &err) < 0)
		die(err.msg);
	if (m->header.type != type)
		die(m->header.type == GP_WIRE_ERROR ? m->error.text : "unexpected answer");
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void print_sorted(const char *name, uint64_t *ns, size_t n)
{
	qsort(ns, n, sizeof(*ns), compare);
	printf("%s_p50 %" PRIu64 "\n%s_p99 %" PRIu64 "\n%s_max %" PRIu64 "\n", name, ns[n / 2],
	       name, ns[n * 99 / 100], name, ns[n - 1]);
}

/* --- round trips --- */

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		die("cannot choose a CPU");
}

/* The bare partner: as little as can be between a request and its answer. */
static int start_echo(int cpu)
{
	struct gp_wire_msg m;
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		die("cannot make a socketpair");
	switch (fork()) {
	case -1:
		die("cannot fork");
	case 0:
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sv[0]);
		pin(cpu);
		memset(&m, 0, sizeof(m));
		while (recv(sv[1], &m, sizeof(m), 0) > 0) {
			if (send(sv[1], &m, gp_wire_size(GP_WIRE_JOB), MSG_NOSIGNAL) < 0)
				break;
		}
		_exit(0);
	default:
		close(sv[1]);
		return sv[0];
	}
}

/* The same calls for both kinds. */
static uint64_t trip(int sock, const struct gp_wire_msg *request)
{
	uint64_t begin = gp_now_ns();
	struct gp_wire_msg answer;

	if (send(sock, request, request->header.size, MSG_NOSIGNAL) < 0 ||
	    recv(sock, &answer, sizeof(answer), 0) != (ssize_t)gp_wire_size(GP_WIRE_JOB))
		die("no JOB in answer to SHOW");
	return gp_now_ns() - begin;
}

static void round_trips(const char *path, uint64_t job, int cpu, int partner_cpu)
{
	static uint64_t bare[ROUNDS * TRIPS], show[ROUNDS * TRIPS];
	int echo = start_echo(partner_cpu), sock = dial(path);
	struct gp_wire_msg request;

	pin(cpu);
	gp_wire_init(&request, GP_WIRE_SHOW);
	request.header.job = job;
	for (size_t round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < TRIPS; i++)
			bare[round * TRIPS + i] = trip(echo, &request);
		for (size_t i = 0; i < TRIPS; i++)
			show[round * TRIPS + i] = trip(sock, &request);
	}
	close(echo);
	wait(NULL);
	print_sorted("bare", bare, ROUNDS * TRIPS);
	print_sorted("show", show, ROUNDS * TRIPS);
}

/* --- submitting --- */

static size_t append(char *blob, size_t at, const char *text)
{
	strcpy(blob + at, text);
	return at + strlen(text) + 1;
}

/* A new sealed memfd each, as gpupresctl makes one. */
static int make_blob(char *const argv[], struct gp_wire_submit *s)
{
	char blob[ENV_BYTES + 1024], variable[129] = "X=";
	int fd = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t n = 0;

	memset(variable + 2, 'y', sizeof(variable) - 3);
	for (s->n_args = 0; argv[s->n_args]; s->n_args++)
		n = append(blob, n, argv[s->n_args]);
	for (s->n_env = 0; s->n_env < ENV_BYTES / sizeof(variable); s->n_env++)
		n = append(blob, n, variable);
	n = append(blob, n, "/");
	s->blob_bytes = (uint32_t)n;
	if (fd < 0 || write(fd, blob, n) != (ssize_t)n ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		die("cannot make a memfd");
	return fd;
}

static void send_submit(int sock, char *const argv[], uint64_t mem_bytes)
{
	struct gp_wire_msg m;
	int fd;

	gp_wire_init(&m, GP_WIRE_SUBMIT);
	fd = make_blob(argv, &m.submit);
	m.submit.mem_bytes = mem_bytes;
	send_message(sock, &m, &fd, 1);
	close(fd);
}

static void submit(const char *path, size_t n, uint64_t mem_bytes)
{
	char *const argv[] = { (char *)(uintptr_t)"/bin/true", NULL };
	uint64_t *ns = calloc(n, sizeof(*ns)), begin = gp_now_ns();
	size_t before = n * 9 / 10;
	int sock = dial(path);
	struct gp_wire_msg m;

	if (!ns || !before)
		die("too few, or out of memory");
	for (size_t sent = 0, answered = 0; answered < n;) {
		for (; sent < n && sent - answered < SUBMIT_WINDOW; sent++)
			send_submit(sock, argv, mem_bytes);
		receive(sock, GP_WIRE_OK, &m);
		ns[answered++] = gp_now_ns() - begin;
	}
	printf("submits_per_s %.0f\n", (double)n * GP_NS_PER_SEC / (double)ns[n - 1]);
	/* Sustained: no slower at the end than at the start. */
	printf("last_tenth_per_s %.0f\n",
	       (double)(n - before) * GP_NS_PER_SEC / (double)(ns[n - 1] - ns[before - 1]));
	free(ns);
}

/* --- submit to exec --- */

static void stamp(const char *fifo)
{
	uint64_t now_ns = gp_now_ns();
	int fd = open(fifo, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, &now_ns, sizeof(now_ns)) != sizeof(now_ns))
		die("cannot write the time");
}

/* In a session of its own, as a supervisor and as its job. */
static pid_t start(const char *self, const char *what, const char *fifo)
{
	pid_t pid = fork();

	if (pid < 0)
		die("cannot fork");
	if (pid == 0) {
		setsid();
		execl(self, self, what, fifo, NULL);
		_exit(1);
	}
	return pid;
}

static uint64_t read_stamp(int reader)
{
	uint64_t ns;

	if (read(reader, &ns, sizeof(ns)) != sizeof(ns))
		die("the job did not write the time");
	return ns;
}

/* The bare way: no service, only a supervisor that starts the job. */
static uint64_t relayed(const char *self, const char *fifo, int reader)
{
	uint64_t begin = gp_now_ns(), ran_ns;
	pid_t pid = start(self, "relay", fifo);

	ran_ns = read_stamp(reader);
	waitpid(pid, NULL, 0);
	return ran_ns - begin;
}

static void submit_to_exec(const char *self, const char *path, size_t n, const char *fifo)
{
	char *const argv[] = { (char *)(uintptr_t)self, (char *)(uintptr_t)"stamp",
			       (char *)(uintptr_t)fifo, NULL };
	uint64_t *ns = calloc(n, sizeof(*ns)), *bare = calloc(n, sizeof(*ns));
	int sock = dial(path), reader = open(fifo, O_RDWR | O_CLOEXEC);
	struct gp_wire_msg m;

	if (!ns || !bare || reader < 0)
		die("cannot open the fifo");
	for (size_t i = 0; i < n; i++) {
		uint64_t begin;

		bare[i] = relayed(self, fifo, reader);
		begin = gp_now_ns();
		send_submit(sock, argv, 0);
		receive(sock, GP_WIRE_OK, &m);
		ns[i] = read_stamp(reader) - begin;
		m.header.type = GP_WIRE_WAIT;
		send_message(sock, &m, NULL, 0);
		receive(sock, GP_WIRE_JOB, &m);
		if (m.job.exit_code != 0)
			die("the job failed");
	}
	print_sorted("bare", bare, n);
	print_sorted("exec", ns, n);
	free(bare);
	free(ns);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "stamp"))
		stamp(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "relay"))
		waitpid(start(argv[0], "stamp", argv[2]), NULL, 0);
	else if (argc == 6 && !strcmp(argv[1], "round-trips"))
		round_trips(argv[2], strtoull(argv[3], NULL, 10), atoi(argv[4]), atoi(argv[5]));
	else if (argc == 5 && !strcmp(argv[1], "submit"))
		submit(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
	else if (argc == 5 && !strcmp(argv[1], "exec"))
		submit_to_exec(argv[0], argv[2], strtoull(argv[3], NULL, 10), argv[4]);
	else
		die("bad usage: see the head of service_client.c");
	return 0;
}
