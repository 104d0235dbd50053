/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that say or ask too much, played against the whole daemon in this process. Its mover is a
 * program that does nothing; this process takes its place.
 */
#include "base/driver.h"
#include "daemon/daemon.h"
#include "daemon/device.h"
#include "daemon/peer.h"
#include "daemon/proc.h"
#include "daemon/settings.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static struct gp_settings settings;
static struct gp_daemon d;
static struct gp_device *device;
static struct gp_timer stopper;
static int mover = -1, shim = -1, client = -1;
static pid_t mover_pid;
static char folder[256];

/* --- the daemon finds its programs here --- */

int gp_driver_find(char *buf, size_t buf_bytes, struct gp_err *err)
{
	return gp_err_set(err, -ENOENT, "no driver here");
}

int gp_tree_root(char *buf, size_t buf_bytes, struct gp_err *err)
{
	snprintf(buf, buf_bytes, "%s", folder);
	return 0;
}

static void make_file(const char *name, const char *text)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* --- its loop and its peers --- */

static void stop(struct gp_timer *timer)
{
	d.loop.stop = true;
}

/* Turns until there is nothing left to be read. */
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

static int say(int sock, const struct gp_wire_msg *m)
{
	struct gp_err err;
	int r = gp_wire_send(sock, m, NULL, 0, &err);

	settle();
	return r;
}

/* The type of the next message; 0: there is none. */
static uint32_t hear(int sock, struct gp_wire_msg *m)
{
	struct gp_err err;

	return gp_wire_recv(sock, m, NULL, 0, NULL, 0, &err) < 0 ? 0 : m->header.type;
}

static int dial(uint32_t role)
{
	struct gp_wire_msg m;
	int sv[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv), 0);
	gp_peer_new(&d, sv[0], role == GP_ROLE_SHIM);
	gp_wire_init(&m, GP_WIRE_HELLO);
	m.hello.version_min = m.hello.version_max = GP_WIRE_VERSION;
	m.hello.role = role;
	CHECK_EQ(say(sv[1], &m), 0);
	CHECK_EQ(hear(sv[1], &m), GP_WIRE_WELCOME);
	return sv[1];
}

static void report(const char *line, void *user)
{
	fprintf(stderr, "%s\n", line);
}

static void configure(void)
{
	const char *const values[][2] = { { "device", "soft" },
					  { "arena", "1M" },
					  { "runtime_dir", folder },
					  { "state_dir", folder },
					  { "swap_dir", folder } };
	struct gp_err err;

	CHECK_EQ(gp_settings_init(&settings, report, NULL, &err), 0);
	settings.user = true;
	strcpy(settings.file, "/dev/null");
	for (size_t i = 0; i < GP_ARRAY_SIZE(values); i++) {
		for (size_t k = 0; k < gp_settings_n_keys; k++) {
			const struct gp_config_key *key = &gp_settings_keys[k];

			if (!strcmp(key->key, values[i][0]))
				CHECK_EQ(gp_config_set(&settings.config, key, values[i][1],
						       GP_CONFIG_COMMAND_LINE, "test", &err),
					 0);
		}
	}
	CHECK_EQ(gp_settings_load(&settings, &err), 0);
}

static void begin(void)
{
	struct gp_wire_msg m;
	struct gp_err err;

	configure();
	CHECK_EQ(gp_daemon_init(&d, &settings, &err), 0);
	gp_timer_init(&stopper, stop);
	device = gp_container_of(d.devices.next, struct gp_device, node);
	mover_pid = device->mover_pid;
	device->mover_pid = getpid();
	mover = dial(GP_ROLE_MOVER);
	device->mover_pid = mover_pid;
	gp_wire_init(&m, GP_WIRE_MOVER_READY);
	m.mover_ready = (struct gp_wire_mover_ready){ .total_bytes = GIB, .free_bytes = GIB };
	CHECK_EQ(say(mover, &m), 0);
	shim = dial(GP_ROLE_SHIM);
	client = dial(GP_ROLE_CLI);
}

static void end(void)
{
	gp_daemon_fini(&d);
	gp_settings_fini(&settings);
	/* A mover outlives its daemon. */
	kill(mover_pid, SIGKILL);
	waitpid(mover_pid, NULL, 0);
	gp_close_fd(&mover);
	gp_close_fd(&shim);
	gp_close_fd(&client);
}

/* --- tests --- */

static void test_shim_when_its_mover_is_busy_then_it_waits_and_nothing_is_lost(void)
{
	uint64_t n_sent = 0, n_read = 0;
	struct gp_wire_msg m;
	int r;

	begin();
	for (;;) {
		gp_wire_init(&m, GP_WIRE_CHANNELS);
		m.channels.generation = 1000 + n_sent;
		m.channels.total = m.channels.n = m.channels.complete = 1;
		r = say(shim, &m);
		if (r < 0)
			break;
		CHECK(++n_sent < GP_PEER_MAX_QUEUED);
	}
	CHECK_EQ(r, -EAGAIN);
	CHECK(device->mover && !device->mover->failed);
	while (n_read < n_sent) {
		settle();
		CHECK(hear(mover, &m));
		if (m.header.type == GP_WIRE_CHANNELS)
			CHECK_EQ(m.channels.generation, 1000 + n_read++);
	}
	end();
}

static void say_need(uint64_t bytes)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_NEED);
	m.need.bytes = bytes;
	CHECK_EQ(say(shim, &m), 0);
}

static void test_need_when_too_many_wait_then_one_more_is_refused(void)
{
	struct gp_wire_msg m;

	begin();
	for (int i = 0; i < GP_PROC_MAX_NEEDS; i++)
		say_need(MIB);
	CHECK_EQ(hear(shim, &m), 0);
	say_need(MIB);
	CHECK_EQ(hear(shim, &m), GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -EBUSY);
	/* As they are answered, others may come. */
	for (int n = 0; n < GP_PROC_MAX_NEEDS;) {
		gp_wire_init(&m, GP_WIRE_MEMINFO);
		m.meminfo = (struct gp_wire_meminfo){ .free_bytes = GIB, .total_bytes = GIB };
		CHECK_EQ(say(mover, &m), 0);
		while (hear(shim, &m)) {
			CHECK_EQ(m.header.type, GP_WIRE_OK);
			n++;
		}
	}
	say_need(2 * MIB);
	CHECK_EQ(hear(shim, &m), 0);
	end();
}

static void test_client_when_it_does_not_read_then_it_is_not_read_from(void)
{
	const struct gp_peer *peer;
	struct gp_wire_msg m;
	size_t n = 0;

	begin();
	peer = gp_container_of(d.peers.prev, struct gp_peer, node);
	gp_wire_init(&m, GP_WIRE_DEVICES);
	while (say(client, &m) == 0) {
		CHECK(++n < 10000);
		CHECK(peer->n_queued <= 4);
	}
	CHECK(!peer->failed);
	/* One DEVICE and one END each, none lost. */
	for (size_t i = 0; i < 2 * n; i++) {
		settle();
		CHECK(hear(client, &m));
	}
	CHECK_EQ(hear(client, &m), 0);
	end();
}

static void test_requests_that_wait_when_too_many_then_one_more_is_refused(void)
{
	struct gp_wire_msg m;

	begin();
	for (int i = 0; i < GP_PEER_MAX_REQUESTS; i++) {
		gp_wire_init(&m, GP_WIRE_WAIT);
		m.header.job = d.next_job - 1; /* the shim's own */
		CHECK_EQ(say(client, &m), 0);
	}
	CHECK_EQ(hear(client, &m), 0);
	gp_wire_init(&m, GP_WIRE_WAIT);
	m.header.job = d.next_job - 1;
	CHECK_EQ(say(client, &m), 0);
	CHECK_EQ(hear(client, &m), GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -EBUSY);
	end();
}

int main(void)
{
	char command[300];

	snprintf(folder, sizeof(folder), "%.200s/gp-test-flood-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	CHECK(mkdtemp(folder));
	make_file("lib/gpupres/soft/libcuda.so.1", "");
	make_file("libexec/gpupres/gpupres-mover", "#!/bin/sh\nexec sleep 1000\n");
	test_shim_when_its_mover_is_busy_then_it_waits_and_nothing_is_lost();
	test_need_when_too_many_wait_then_one_more_is_refused();
	test_client_when_it_does_not_read_then_it_is_not_read_from();
	test_requests_that_wait_when_too_many_then_one_more_is_refused();
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	CHECK_EQ(system(command), 0);
	return 0;
}
