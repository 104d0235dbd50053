/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_UNIT_MOVER_FIXTURE_H
#define GP_TESTS_UNIT_MOVER_FIXTURE_H
/*
 * Plays the daemon and a shim against the real gpupres-mover on the software device. This process
 * is the one whose channels are frozen and whose extents are moved; on the software device their
 * bytes are at their device addresses.
 */
#include "base/size.h"
#include "base/wire/wire.h"
#include "snapshot/driver.h"
#include "tests/unit/check.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define PROC	   7
#define JOB	   3
#define TIMEOUT_MS 30000
#define MIB	   (1ull << 20)
#define N_EXTENTS  5  /* of several sizes */
#define N_SMALL	   40 /* of one chunk, behind them: more than the mover has slots */
#define N_ALL	   (N_EXTENTS + N_SMALL)
#define N_REPEATS  100

extern char **environ;

static struct {
	struct gp_driver driver;
	__typeof__(&cuMemCreate) create;
	__typeof__(&cuMemExportToShareableHandle) export_handle;
} dev;

static struct {
	pid_t pid;
	int sock, link; /* our ends: daemon's and shim's */
	uint64_t epoch;
} mover;

static struct extent {
	uint64_t bytes;
	CUdeviceptr at;
	CUmemGenericAllocationHandle handle;
	uint32_t seed; /* of its contents; every third chunk is zero */
	bool saved;
} extents[N_ALL];

static char folder[256], state_dir[] = "/dev/shm/gpupres-mover-XXXXXX", driver_path[512];

static int hook(int fd, unsigned long request, void *arg)
{
	return gp_rm_watch_ioctl(dev.driver.watch, fd, request, arg);
}

/* --- the mover and the daemon's side of its connection --- */

static void receive(int sock, struct gp_wire_msg *m)
{
	struct gp_err err = { 0 };

	if (gp_wire_recv(sock, m, NULL, 0, NULL, TIMEOUT_MS, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		CHECK(!"a message came");
	}
}

static void expect(struct gp_wire_msg *m, uint32_t type)
{
	receive(mover.sock, m);
	if (m->header.type == GP_WIRE_ERROR && type != GP_WIRE_ERROR)
		fprintf(stderr, "%s\n", m->error.text);
	CHECK_STR(gp_wire_name(m->header.type), gp_wire_name(type));
}

static void init_request(struct gp_wire_msg *m, uint32_t type)
{
	static uint32_t cookie;

	gp_wire_init(m, type);
	m->header.job = JOB;
	m->header.proc = PROC;
	m->header.epoch = mover.epoch;
	m->header.cookie = ++cookie;
}

static void send_msg(int sock, const struct gp_wire_msg *m)
{
	CHECK_EQ(gp_wire_send(sock, m, NULL, 0, NULL), 0);
}

static void request(uint32_t type)
{
	struct gp_wire_msg m;

	init_request(&m, type);
	send_msg(mover.sock, &m);
}

static pid_t spawn_mover(const char *socket, const char *arena, const char *swap_dir,
			 const char *swap_max)
{
	char path[512];
	char *argv[] = { path,
			 "--socket",
			 (char *)(uintptr_t)socket,
			 "--device",
			 "0",
			 "--kind",
			 "soft",
			 "--driver",
			 driver_path,
			 "--arena",
			 (char *)(uintptr_t)arena,
			 "--swap-dir",
			 (char *)(uintptr_t)swap_dir,
			 "--swap-max",
			 (char *)(uintptr_t)swap_max,
			 "--log-level",
			 "warn",
			 NULL };
	pid_t pid;

	snprintf(path, sizeof(path), "%s/libexec/gpupres/gpupres-mover", getenv("GP_BUILD"));
	CHECK_EQ(posix_spawn(&pid, path, NULL, NULL, argv, environ), 0);
	return pid;
}

static int listen_at(char *path, size_t bytes)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(path, bytes, "%s/d.sock", folder);
	unlink(path);
	CHECK(strlen(path) < sizeof(addr.sun_path));
	strcpy(addr.sun_path, path);
	CHECK_EQ(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_EQ(listen(sock, 1), 0);
	return sock;
}

static void send_link(void)
{
	struct gp_wire_msg m;
	int pair[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	init_request(&m, GP_WIRE_LINK);
	CHECK_EQ(gp_wire_send(mover.sock, &m, &pair[1], 1, NULL), 0);
	close(pair[1]);
	mover.link = pair[0];
}

static void start_mover(const char *arena, const char *swap_max)
{
	struct gp_wire_msg m;
	char path[512];
	int sock = listen_at(path, sizeof(path));

	mover.pid = spawn_mover(path, arena, folder, swap_max);
	mover.epoch = 1;
	mover.sock = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
	CHECK(mover.sock >= 0);
	close(sock);
	unlink(path);
	expect(&m, GP_WIRE_HELLO);
	CHECK_EQ(m.hello.role, GP_ROLE_MOVER);
	gp_wire_init_reply(&m, GP_WIRE_WELCOME, &m);
	m.welcome.version = GP_WIRE_VERSION;
	send_msg(mover.sock, &m);
	expect(&m, GP_WIRE_MOVER_READY);
	CHECK_EQ(m.mover_ready.can_freeze, 1);
	send_link();
}

static int wait_exit(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void stop_mover(void)
{
	close(mover.sock);
	CHECK_EQ(wait_exit(mover.pid), 0);
	close(mover.link);
}

static struct gp_wire_meminfo meminfo(void)
{
	struct gp_wire_msg m;

	request(GP_WIRE_MEMINFO);
	expect(&m, GP_WIRE_MEMINFO);
	return m.meminfo;
}

/* --- the shim's side: channels and extents of this process --- */

/* The table in parts of at most @part entries. */
static size_t send_channels(uint32_t part, bool vouch)
{
	struct gp_rm_channel channels[256];
	struct gp_wire_msg m;
	uint64_t generation;
	bool complete;
	size_t n;

	gp_rm_watch_channels(dev.driver.watch, channels, 256, &n, &generation, &complete);
	CHECK(complete && n > 0 && n <= 256);
	for (uint32_t first = 0; first < n; first += part) {
		init_request(&m, GP_WIRE_CHANNELS);
		m.channels.generation = generation;
		m.channels.total = (uint32_t)n;
		m.channels.first = first;
		m.channels.n = n - first < part ? (uint32_t)n - first : part;
		m.channels.complete = vouch;
		for (uint32_t i = 0; i < m.channels.n; i++)
			m.channels.entries[i] = (struct gp_wire_channel){
				channels[first + i].client, channels[first + i].channel,
				channels[first + i].group, channels[first + i].engine
			};
		send_msg(mover.sock, &m);
	}
	return n;
}

static void send_switch(uint32_t type)
{
	struct gp_wire_msg m;

	init_request(&m, type);
	m.freeze.n = 1;
	m.freeze.procs[0] = PROC;
	send_msg(mover.sock, &m);
}

static uint64_t *chunk_of(const struct extent *e, uint64_t chunk)
{
	return (uint64_t *)(uintptr_t)(e->at + chunk * GP_CHUNK_BYTES);
}

static uint64_t word(const struct extent *e, uint64_t chunk, size_t i)
{
	return chunk % 3 == 1 ? 0 : e->seed * 0x9e3779b97f4a7c15ull + (chunk << 32) + i;
}

static void create(struct extent *e)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	const CUmemAccessDesc access = { .location = prop.location,
					 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	CHECK_EQ(dev.create(&e->handle, e->bytes, &prop, 0), CUDA_SUCCESS);
	CHECK_EQ(dev.driver.cuMemMap(e->at, e->bytes, 0, e->handle, 0), CUDA_SUCCESS);
	CHECK_EQ(dev.driver.cuMemSetAccess(e->at, e->bytes, &access, 1), CUDA_SUCCESS);
}

static void destroy(struct extent *e)
{
	CHECK_EQ(dev.driver.cuMemUnmap(e->at, e->bytes), CUDA_SUCCESS);
	CHECK_EQ(dev.driver.cuMemRelease(e->handle), CUDA_SUCCESS);
}

/* The driver's threads touch this memory, too, in an order that the thread sanitizer cannot see. */
#define DEVICE_MEMORY __attribute__((no_sanitize("thread")))

DEVICE_MEMORY static void fill(struct extent *e, uint32_t seed)
{
	e->seed = seed;
	for (uint64_t c = 0; c < e->bytes / GP_CHUNK_BYTES; c++) {
		for (size_t i = 0; i < GP_CHUNK_BYTES / 8; i++)
			chunk_of(e, c)[i] = word(e, c, i);
	}
}

DEVICE_MEMORY static bool intact(const struct extent *e)
{
	for (uint64_t c = 0; c < e->bytes / GP_CHUNK_BYTES; c++) {
		for (size_t i = 0; i < GP_CHUNK_BYTES / 8; i++) {
			if (chunk_of(e, c)[i] != word(e, c, i))
				return false;
		}
	}
	return true;
}

/* 1, 4, 7, 2 and 10 chunks: 48 MiB, of which 14 MiB zero. */
static void create_all(void)
{
	static const uint64_t chunks[N_EXTENTS] = { 1, 4, 7, 2, 10 };

	for (uint32_t i = 0; i < N_EXTENTS; i++) {
		extents[i].bytes = chunks[i] * GP_CHUNK_BYTES;
		extents[i].saved = false;
		create(&extents[i]);
		fill(&extents[i], 100 + i);
	}
}

static void destroy_all(void)
{
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		destroy(&extents[i]);
}

/* One EXTENTS message. */
static void post_extents(uint32_t first, uint32_t n, bool last)
{
	struct gp_wire_msg m;
	int fds[N_ALL];

	init_request(&m, GP_WIRE_EXTENTS);
	m.extents.n = n;
	m.extents.last = last;
	for (uint32_t i = 0; i < n; i++) {
		const struct extent *e = &extents[first + i];

		CHECK_EQ(dev.export_handle(&fds[i], e->handle,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
			 CUDA_SUCCESS);
		m.extents.entries[i] = (struct gp_wire_extent){ first + i, e->bytes, e->at };
	}
	CHECK_EQ(gp_wire_send(mover.link, &m, fds, n, NULL), 0);
	for (uint32_t i = 0; i < n; i++)
		close(fds[i]);
}

static void expect_ack(uint32_t n)
{
	struct gp_wire_msg m;

	receive(mover.link, &m);
	CHECK_EQ(m.header.type, GP_WIRE_EXTENTS_ACK);
	CHECK_EQ(m.header.epoch, mover.epoch);
	CHECK_EQ(m.extents_ack.n, n);
}

static void send_extents(uint32_t first, uint32_t n, bool last)
{
	post_extents(first, n, last);
	expect_ack(n);
}

/* Reads SAVED until another message comes, and returns that. */
static void collect_saved(struct gp_wire_msg *m)
{
	for (;;) {
		receive(mover.sock, m);
		if (m->header.type != GP_WIRE_SAVED)
			return;
		for (uint32_t i = 0; i < m->saved.n; i++) {
			CHECK(m->saved.ids[i] < N_ALL);
			extents[m->saved.ids[i]].saved = true;
		}
	}
}

static void save_all(struct gp_wire_msg *ret_done)
{
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		extents[i].saved = false;
	request(GP_WIRE_SAVE);
	send_extents(0, 2, false);
	send_extents(2, 3, true);
	collect_saved(ret_done);
	if (ret_done->header.type == GP_WIRE_ERROR)
		return;
	CHECK_EQ(ret_done->header.type, GP_WIRE_SAVE_DONE);
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		CHECK(extents[i].saved);
}

static void load_all(struct gp_wire_msg *ret_done)
{
	request(GP_WIRE_LOAD);
	send_extents(0, N_EXTENTS, true);
	receive(mover.sock, ret_done);
}

static void drop(void)
{
	struct gp_wire_msg m;

	request(GP_WIRE_DROP);
	expect(&m, GP_WIRE_OK);
}

#endif
