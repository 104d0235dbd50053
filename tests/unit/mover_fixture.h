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

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
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
	int fds[3];	/* what came with MOVER_READY: arena, ledger, swap file */
	uint64_t epoch;
} mover;

/* How movers are started. */
static struct {
	const char *lock, *orphan_grace;
	bool inherits; /* mover.fds */
} how;

static pid_t linked_pid; /* what LINK says of the process; 0: nothing */

static struct extent {
	uint64_t bytes;
	CUdeviceptr at;
	CUmemGenericAllocationHandle handle;
	uint32_t seed; /* of its contents; every third chunk is zero */
	bool saved;
} extents[N_ALL];

static char folder[256], state_dir[] = "/dev/shm/gpupres-mover-XXXXXX", driver_path[512];

static inline int hook(int fd, unsigned long request, void *arg)
{
	return gp_rm_watch_ioctl(dev.driver.watch, fd, request, arg);
}

/* --- the mover and the daemon's side of its connection --- */

static inline void receive(int sock, struct gp_wire_msg *m)
{
	struct gp_err err = { 0 };

	if (gp_wire_recv(sock, m, NULL, 0, NULL, TIMEOUT_MS, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		CHECK(!"a message came");
	}
}

static inline void expect(struct gp_wire_msg *m, uint32_t type)
{
	receive(mover.sock, m);
	if (m->header.type == GP_WIRE_ERROR && type != GP_WIRE_ERROR)
		fprintf(stderr, "%s\n", m->error.text);
	CHECK_STR(gp_wire_name(m->header.type), gp_wire_name(type));
}

static inline void init_request(struct gp_wire_msg *m, uint32_t type)
{
	static uint32_t cookie;

	gp_wire_init(m, type);
	m->header.job = JOB;
	m->header.proc = PROC;
	m->header.epoch = mover.epoch;
	m->header.cookie = ++cookie;
}

static inline void send_msg(int sock, const struct gp_wire_msg *m)
{
	CHECK_EQ(gp_wire_send(sock, m, NULL, 0, NULL), 0);
}

static inline void request(uint32_t type)
{
	struct gp_wire_msg m;

	init_request(&m, type);
	send_msg(mover.sock, &m);
}

static inline const char *spawn_fd(posix_spawn_file_actions_t *actions, int i, char *text)
{
	/* High enough to be nobody else's. */
	CHECK_EQ(posix_spawn_file_actions_adddup2(actions, mover.fds[i], 100 + i), 0);
	sprintf(text, "%d", 100 + i);
	return text;
}

static inline pid_t spawn_mover(const char *socket, const char *arena, const char *swap_dir,
				const char *swap_max)
{
	char path[512], fds[3][8];
	const char *argv[32] = { path, "--device", "0", "--kind", "soft" };
	posix_spawn_file_actions_t actions;
	size_t n = 5;
	pid_t pid;
	const char *const options[][2] = {
		{ "--socket", socket },	    { "--driver", driver_path },
		{ "--arena", arena },	    { "--swap-dir", swap_dir },
		{ "--swap-max", swap_max }, { "--log-level", "warn" },
		{ "--lock", how.lock },	    { "--orphan-grace", how.orphan_grace },
	};
	static const char *const fd_options[] = { "--arena-fd", "--ledger-fd", "--swap-fd" };

	for (size_t i = 0; i < GP_ARRAY_SIZE(options); i++) {
		if (!options[i][1])
			continue;
		argv[n++] = options[i][0];
		argv[n++] = options[i][1];
	}
	CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
	for (int i = 0; how.inherits && i < 3; i++) {
		argv[n++] = fd_options[i];
		argv[n++] = spawn_fd(&actions, i, fds[i]);
	}
	snprintf(path, sizeof(path), "%s/libexec/gpupres/gpupres-mover", getenv("GP_BUILD"));
	CHECK_EQ(posix_spawn(&pid, path, &actions, NULL, (char *const *)(uintptr_t)argv, environ),
		 0);
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static inline int listen_at(char *path, size_t bytes)
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

static inline void send_link(void)
{
	struct gp_wire_msg m;
	int pair[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	init_request(&m, GP_WIRE_LINK);
	m.link.pid = (uint32_t)linked_pid;
	CHECK_EQ(gp_wire_send(mover.sock, &m, &pair[1], 1, NULL), 0);
	close(pair[1]);
	mover.link = pair[0];
}

/* Waits for the mover to connect, and hears its HELLO. */
static inline void accept_mover(int listener)
{
	struct gp_wire_msg m;

	mover.sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(mover.sock >= 0);
	expect(&m, GP_WIRE_HELLO);
	CHECK_EQ(m.hello.role, GP_ROLE_MOVER);
	CHECK_EQ(m.hello.device, 0);
}

static inline void close_fds(void)
{
	for (int i = 0; i < 3; i++)
		gp_close_fd(&mover.fds[i]);
}

/* Until MOVER_READY; what LEDGER said of PROC in *@ret_ledger (zeros: nothing). */
static inline void welcome_mover(struct gp_wire_ledger *ret_ledger)
{
	struct gp_wire_msg m;
	int fds[3];
	size_t n_fds;

	memset(ret_ledger, 0, sizeof(*ret_ledger));
	gp_wire_init(&m, GP_WIRE_WELCOME);
	m.welcome.version = GP_WIRE_VERSION;
	send_msg(mover.sock, &m);
	for (;;) {
		n_fds = 0;
		CHECK_EQ(gp_wire_recv(mover.sock, &m, fds, 3, &n_fds, TIMEOUT_MS, NULL), 0);
		if (m.header.type == GP_WIRE_MOVER_READY)
			break;
		CHECK_EQ(m.header.type, GP_WIRE_LEDGER);
		CHECK_EQ(m.header.proc, PROC);
		CHECK_EQ(m.header.job, JOB);
		CHECK_EQ(ret_ledger->n_extents, 0); /* once */
		*ret_ledger = m.ledger;
	}
	CHECK_EQ(m.mover_ready.can_freeze, 1);
	CHECK_EQ(n_fds, 3);
	close_fds();
	memcpy(mover.fds, fds, sizeof(fds));
}

/* A mover that nobody linked yet. */
static inline void launch_mover(const char *arena, const char *swap_max,
				struct gp_wire_ledger *ret_ledger)
{
	char path[512];
	int listener = listen_at(path, sizeof(path));

	mover.pid = spawn_mover(path, arena, folder, swap_max);
	mover.epoch = 1;
	accept_mover(listener);
	close(listener);
	unlink(path);
	welcome_mover(ret_ledger);
}

static inline void start_mover(const char *arena, const char *swap_max)
{
	struct gp_wire_ledger ledger;

	launch_mover(arena, swap_max, &ledger);
	CHECK_EQ(ledger.n_extents + ledger.linked, 0);
	send_link();
}

static inline int wait_exit(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static inline void close_ends(void)
{
	gp_close_fd(&mover.sock);
	gp_close_fd(&mover.link);
	close_fds();
}

static inline void stop_mover(void)
{
	CHECK_EQ(kill(mover.pid, SIGTERM), 0);
	CHECK_EQ(wait_exit(mover.pid), 0);
	close_ends();
}

static inline struct gp_wire_meminfo meminfo(void)
{
	struct gp_wire_msg m;

	request(GP_WIRE_MEMINFO);
	expect(&m, GP_WIRE_MEMINFO);
	return m.meminfo;
}

/* --- the shim's side: channels and extents of this process --- */

/* The table in parts of at most @part entries. */
static inline size_t send_channels(uint32_t part, bool vouch)
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

static inline void send_switch(uint32_t type)
{
	struct gp_wire_msg m;

	init_request(&m, type);
	m.freeze.n = 1;
	m.freeze.procs[0] = PROC;
	send_msg(mover.sock, &m);
}

static inline uint64_t *chunk_of(const struct extent *e, uint64_t chunk)
{
	return (uint64_t *)(uintptr_t)(e->at + chunk * GP_CHUNK_BYTES);
}

static inline uint64_t word(const struct extent *e, uint64_t chunk, size_t i)
{
	return chunk % 3 == 1 ? 0 : e->seed * 0x9e3779b97f4a7c15ull + (chunk << 32) + i;
}

static inline void create(struct extent *e)
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

static inline void destroy(struct extent *e)
{
	CHECK_EQ(dev.driver.cuMemUnmap(e->at, e->bytes), CUDA_SUCCESS);
	CHECK_EQ(dev.driver.cuMemRelease(e->handle), CUDA_SUCCESS);
}

/* The driver's threads touch this memory, too, in an order that the thread sanitizer cannot see. */
#define DEVICE_MEMORY __attribute__((no_sanitize("thread")))

DEVICE_MEMORY static inline void fill(struct extent *e, uint32_t seed)
{
	e->seed = seed;
	for (uint64_t c = 0; c < e->bytes / GP_CHUNK_BYTES; c++) {
		for (size_t i = 0; i < GP_CHUNK_BYTES / 8; i++)
			chunk_of(e, c)[i] = word(e, c, i);
	}
}

DEVICE_MEMORY static inline bool intact(const struct extent *e)
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
static inline void create_all(void)
{
	static const uint64_t chunks[N_EXTENTS] = { 1, 4, 7, 2, 10 };

	for (uint32_t i = 0; i < N_EXTENTS; i++) {
		extents[i].bytes = chunks[i] * GP_CHUNK_BYTES;
		extents[i].saved = false;
		create(&extents[i]);
		fill(&extents[i], 100 + i);
	}
}

static inline void destroy_all(void)
{
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		destroy(&extents[i]);
}

/* One EXTENTS message. */
static inline void post_extents(uint32_t first, uint32_t n, bool last)
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

static inline void expect_ack(uint32_t n)
{
	struct gp_wire_msg m;

	receive(mover.link, &m);
	CHECK_EQ(m.header.type, GP_WIRE_EXTENTS_ACK);
	CHECK_EQ(m.header.epoch, mover.epoch);
	CHECK_EQ(m.extents_ack.n, n);
}

static inline void send_extents(uint32_t first, uint32_t n, bool last)
{
	post_extents(first, n, last);
	expect_ack(n);
}

/* Reads SAVED until another message comes, and returns that. */
static inline void collect_saved(struct gp_wire_msg *m)
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

static inline void save_all(struct gp_wire_msg *ret_done)
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

static inline void load_all(struct gp_wire_msg *ret_done)
{
	request(GP_WIRE_LOAD);
	send_extents(0, N_EXTENTS, true);
	receive(mover.sock, ret_done);
}

static inline void drop(void)
{
	struct gp_wire_msg m;

	request(GP_WIRE_DROP);
	expect(&m, GP_WIRE_OK);
}

/* --- around the tests --- */

static inline void open_device(void)
{
	const struct gp_driver_options options = { .path = driver_path,
						   .soft = true,
						   .hook = hook };
	struct gp_err err = { 0 };

	if (gp_driver_open(&dev.driver, &options, &err) < 0)
		fprintf(stderr, "%s\n", err.msg);
	CHECK(dev.driver.context);
	dev.create = (__typeof__(dev.create))dlsym(dev.driver.library, "cuMemCreate");
	dev.export_handle = (__typeof__(dev.export_handle))dlsym(dev.driver.library,
								 "cuMemExportToShareableHandle");
	CHECK(dev.create && dev.export_handle);
	for (uint32_t i = 0; i < N_ALL; i++)
		CHECK_EQ(dev.driver.cuMemAddressReserve(&extents[i].at, 32 * MIB, 0, 0, 0),
			 CUDA_SUCCESS);
}

static inline void remove_dir(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	CHECK(dir);
	while ((entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
	CHECK_EQ(rmdir(path), 0);
}

static inline void begin(void)
{
	const char *build = getenv("GP_BUILD"), *tmp = getenv("TMPDIR");

	CHECK(build);
	snprintf(driver_path, sizeof(driver_path), "%s/lib/gpupres/soft/libcuda.so.1", build);
	snprintf(folder, sizeof(folder), "%s/gpupres-test-XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(folder) && mkdtemp(state_dir));
	setenv("GPUPRES_SOFT_DIR", state_dir, 1);
	setenv("GPUPRES_SOFT_MEMORY", "256M", 1);
	for (int i = 0; i < 3; i++)
		mover.fds[i] = -1;
	open_device();
}

static inline void end(void)
{
	gp_driver_close(&dev.driver);
	remove_dir(state_dir);
	remove_dir(folder);
}

#endif
