/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim against a played daemon and mover. This program starts itself again as an application
 * that opens the built shim in front of the software driver, and speaks to it over a real socket.
 * It freezes the application through a context of its own, as the mover does, and takes memory by
 * mapping the fds it is sent, which on the software device are files.
 */
#include "base/rm/channels.h"
#include "base/rm/got.h"
#include "base/time.h"
#include "base/wire/wire.h"
#include "tests/unit/check.h"

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB		 (1ull << 20)
#define WAIT_MS		 20000 /* bounds a failing run */
#define QUIET_MS	 50    /* for checks that nothing comes */
#define JOB		 7
#define PROC		 3
#define BIG_BYTES	 (150 * MIB)
#define DEVICE_MEMORY	 "256M"
#define MAX_TEST_EXTENTS 128
#define MANY		 70
#define CHURN_THREADS	 4
#define CHURN_CYCLES	 15
#define PATTERN		 0x5eed5eedu

/* Counts at p[0] until p[1] becomes non-zero. */
static const char spin_ptx[] =
	".version 9.0\n.target sm_90\n.address_size 64\n"
	".visible .entry spin(.param .u64 p)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\n"
	".reg .b64 %rd<3>;\nld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\nLOOP:\n"
	"ld.volatile.global.u32 %r1, [%rd2];\nadd.s32 %r2, %r1, 1;\n"
	"st.volatile.global.u32 [%rd2], %r2;\nld.volatile.global.u32 %r3, [%rd2+4];\n"
	"setp.eq.s32 %p1, %r3, 0;\n@%p1 bra LOOP;\nret;\n}\n";

/* clang-format off */
#define FUNCTIONS(X) \
	X(cuInit) \
	X(cuDevicePrimaryCtxRetain) \
	X(cuDevicePrimaryCtxRelease_v2) \
	X(cuCtxSetCurrent) \
	X(cuCtxSynchronize) \
	X(cuMemAlloc_v2) \
	X(cuMemFree_v2) \
	X(cuMemAllocPitch_v2) \
	X(cuMemGetInfo_v2) \
	X(cuMemGetAddressRange_v2) \
	X(cuPointerGetAttribute) \
	X(cuMemRetainAllocationHandle) \
	X(cuMemcpyHtoDAsync_v2) \
	X(cuMemcpyDtoH_v2) \
	X(cuMemcpyDtoHAsync_v2) \
	X(cuMemsetD32_v2) \
	X(cuStreamCreate) \
	X(cuStreamDestroy_v2) \
	X(cuStreamSynchronize) \
	X(cuModuleLoadData) \
	X(cuModuleGetFunction) \
	X(cuLaunchKernel) \
	X(cuGetProcAddress_v2)
/* clang-format on */

static struct {
#define X(name) __typeof__(&name) name;
	FUNCTIONS(X)
#undef X
} cu;

#define OK(call) CHECK_EQ(cu.call, CUDA_SUCCESS)

static void *open_driver(const char *env)
{
	void *handle = dlopen(getenv(env), RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(handle);
#define X(name)                                                                                    \
	cu.name = (__typeof__(cu.name))dlsym(handle, #name);                                       \
	CHECK(cu.name);
	FUNCTIONS(X)
#undef X
	return handle;
}

/* ---- the two sides of a conversation about what happens next ---- */

static void say(int fd, uint64_t value)
{
	CHECK_EQ(send(fd, &value, sizeof(value), MSG_NOSIGNAL), sizeof(value));
}

static uint64_t hear(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t value;

	CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
	CHECK_EQ(recv(fd, &value, sizeof(value), 0), sizeof(value));
	return value;
}

static bool quiet(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, QUIET_MS) == 0;
}

/* ---- the application ---- */

static CUcontext app_context;
static CUfunction app_spin;
static atomic_bool app_stop;

static void app_start(void)
{
	CUmodule module;

	open_driver("TEST_SHIM");
	/* Too early: refused, and without effect on what follows. */
	CHECK(cu.cuStreamCreate(&(CUstream){ 0 }, 0) != CUDA_SUCCESS);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&app_context, 0));
	OK(cuCtxSetCurrent(app_context));
	OK(cuModuleLoadData(&module, spin_ptx));
	OK(cuModuleGetFunction(&app_spin, module, "spin"));
}

/* Starts a kernel that counts in @at and never ends by itself; it counts when this returns. */
static void app_launch_spin(CUdeviceptr at, CUstream other)
{
	void *params[] = { &at };
	uint32_t count = 0;

	OK(cuMemsetD32_v2(at, 0, 2));
	OK(cuCtxSynchronize());
	OK(cuLaunchKernel(app_spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	while (!count) {
		OK(cuMemcpyDtoHAsync_v2(&count, at, 4, other));
		OK(cuStreamSynchronize(other));
	}
}

static void app_check_pattern(CUdeviceptr at, size_t bytes, uint32_t pattern)
{
	uint32_t *host = malloc(bytes);

	OK(cuMemcpyDtoH_v2(host, at, bytes));
	for (size_t i = 0; i < bytes / 4; i++)
		CHECK_EQ(host[i], pattern);
	free(host);
}

/* Allocations of both kinds with known contents, a kernel in the middle, and calls while locked. */
static void app_swap(int sock)
{
	const uint32_t one = 1;
	CUdeviceptr big, small[3], more;
	CUstream stream;
	uint32_t count;

	app_start();
	OK(cuMemAlloc_v2(&big, BIG_BYTES));
	for (int i = 0; i < 3; i++) {
		OK(cuMemAlloc_v2(&small[i], 4096));
		OK(cuMemsetD32_v2(small[i], PATTERN + (uint32_t)i, 1024));
	}
	OK(cuMemsetD32_v2(big, PATTERN, BIG_BYTES / 4));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_launch_spin(small[0], stream);
	say(sock, 1);
	CHECK_EQ(hear(sock), 2);
	OK(cuMemAlloc_v2(&more, 2 * MIB)); /* waits at the gate until the job runs again */
	say(sock, 3);
	CHECK_EQ(hear(sock), 4);
	OK(cuMemcpyHtoDAsync_v2(small[0] + 4, &one, 4, stream));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(&count, small[0], 4));
	CHECK(count > 0);
	app_check_pattern(big, BIG_BYTES, PATTERN);
	app_check_pattern(small[0] + 8, 4096 - 8, PATTERN);
	app_check_pattern(small[1], 4096, PATTERN + 1);
	app_check_pattern(small[2], 4096, PATTERN + 2);
	OK(cuMemFree_v2(big));
	OK(cuMemFree_v2(more));
	for (int i = 0; i < 3; i++)
		OK(cuMemFree_v2(small[i]));
	OK(cuStreamDestroy_v2(stream));
	say(sock, count);
}

static void app_need(int sock)
{
	CUdeviceptr at;

	app_start();
	say(sock, 1);
	CHECK_EQ(hear(sock), 2);
	OK(cuMemAlloc_v2(&at, BIG_BYTES));
	say(sock, 3);
	CHECK_EQ(cu.cuMemAlloc_v2(&at, BIG_BYTES), CUDA_ERROR_OUT_OF_MEMORY);
	say(sock, 4);
}

/* What a program may ask about pointers, and what it may do wrong. */
static void app_query(int sock)
{
	CUmemGenericAllocationHandle handle;
	unsigned long long ids[2];
	CUdeviceptr at[2], base;
	size_t bytes, pitch;
	void *function;

	app_start();
	OK(cuMemAlloc_v2(&at[0], 1000));
	OK(cuMemAlloc_v2(&at[1], 3 * MIB));
	OK(cuMemGetAddressRange_v2(&base, &bytes, at[0] + 999));
	CHECK_EQ(base, at[0]);
	CHECK_EQ(bytes, 1000);
	OK(cuMemGetAddressRange_v2(&base, &bytes, at[1] + 5));
	CHECK_EQ(base, at[1]);
	CHECK_EQ(bytes, 3 * MIB);
	for (int i = 0; i < 2; i++)
		OK(cuPointerGetAttribute(&ids[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, at[i]));
	CHECK(ids[0] != ids[1]);
	OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at[0] + 7));
	CHECK_EQ(bytes, 1000);
	CHECK_EQ(cu.cuMemRetainAllocationHandle(&handle, (void *)at[1]), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cu.cuMemFree_v2(at[0] + 512), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cu.cuMemFree_v2(at[1] + 512), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(at[0]));
	CHECK_EQ(cu.cuMemFree_v2(at[0]), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(at[1]));
	OK(cuMemAllocPitch_v2(&at[0], &pitch, 100, 10, 4));
	CHECK_EQ(pitch, 512);
	OK(cuMemFree_v2(at[0]));
	OK(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, NULL));
	CHECK_EQ(function, cu.cuMemAlloc_v2);
	say(sock, 1);
	CHECK_EQ(hear(sock), 2);
	/* The memory of a context ends with it. */
	OK(cuMemAlloc_v2(&at[0], 3 * MIB));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	say(sock, 3);
	CHECK_EQ(hear(sock), 4);
}

/* A child of fork goes on with the driver's own answers, and leaves the parent's connection alone.
 */
static void app_fork(int sock)
{
	CUdeviceptr at;
	int status;
	pid_t child;

	app_start();
	OK(cuMemAlloc_v2(&at, 3 * MIB));
	child = fork();
	if (child == 0) {
		(void)cu.cuMemAlloc_v2(&at, 3 * MIB);
		_exit(5);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
	OK(cuMemFree_v2(at));
	say(sock, 1);
	CHECK_EQ(hear(sock), 2);
}

/* Allocates and frees when told to; ends when told to. */
static void app_simple(int sock)
{
	CUdeviceptr at;

	app_start();
	OK(cuMemAlloc_v2(&at, 3 * MIB));
	OK(cuMemsetD32_v2(at, PATTERN, 3 * MIB / 4));
	say(sock, 1);
	while (hear(sock) != 0) {
		CUdeviceptr other;

		OK(cuMemAlloc_v2(&other, 3 * MIB));
		OK(cuMemFree_v2(other));
		app_check_pattern(at, 3 * MIB, PATTERN);
		say(sock, 2);
	}
}

/* Leaves room for four more fds. */
static void app_limit_fds(void)
{
	struct rlimit files;
	int lowest = dup(0);

	CHECK(lowest >= 0);
	close(lowest);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = (rlim_t)lowest + 4;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* More extents than one message takes, or than there are fds for. */
static void app_many(int sock, bool few_fds)
{
	CUdeviceptr at[MANY];

	app_start();
	for (uint32_t i = 0; i < MANY; i++) {
		OK(cuMemAlloc_v2(&at[i], MIB));
		OK(cuMemsetD32_v2(at[i], PATTERN + i, MIB / 4));
	}
	OK(cuCtxSynchronize());
	if (few_fds)
		app_limit_fds();
	say(sock, 1);
	CHECK_EQ(hear(sock), 2);
	for (uint32_t i = 0; i < MANY; i++) {
		app_check_pattern(at[i], MIB, PATTERN + i);
		OK(cuMemFree_v2(at[i]));
	}
	say(sock, 3);
	CHECK_EQ(hear(sock), 4);
}

static void *app_churn_thread(void *arg)
{
	const int number = *(const int *)arg;
	CUdeviceptr at[8] = { 0 };

	OK(cuCtxSetCurrent(app_context));
	for (uint32_t i = 0; !atomic_load(&app_stop); i++) {
		size_t bytes = i % 3 ? 700 + i % 5000 : MIB + i % MIB;
		uint32_t pattern = PATTERN + (uint32_t)number * 1000 + i % 8;

		if (at[i % 8]) {
			app_check_pattern(at[i % 8], 512, pattern);
			OK(cuMemFree_v2(at[i % 8]));
		}
		OK(cuMemAlloc_v2(&at[i % 8], bytes));
		OK(cuMemsetD32_v2(at[i % 8], pattern, bytes / 4));
	}
	for (int i = 0; i < 8; i++) {
		if (at[i])
			OK(cuMemFree_v2(at[i]));
	}
	return NULL;
}

/* Threads that allocate, use and free all the time, until told to stop. */
static void app_churn(int sock)
{
	static const int numbers[CHURN_THREADS] = { 0, 1, 2, 3 };
	pthread_t threads[CHURN_THREADS];

	app_start();
	for (int i = 0; i < CHURN_THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, app_churn_thread, (void *)&numbers[i]),
			 0);
	say(sock, 1);
	CHECK_EQ(hear(sock), 2);
	atomic_store(&app_stop, true);
	for (int i = 0; i < CHURN_THREADS; i++)
		pthread_join(threads[i], NULL);
	say(sock, 3);
	CHECK_EQ(hear(sock), 4);
}

static int app_main(const char *what, int sock)
{
	if (!strcmp(what, "many"))
		app_many(sock, false);
	else if (!strcmp(what, "few-fds"))
		app_many(sock, true);
	else if (!strcmp(what, "churn"))
		app_churn(sock);
	else if (!strcmp(what, "swap"))
		app_swap(sock);
	else if (!strcmp(what, "need"))
		app_need(sock);
	else if (!strcmp(what, "query"))
		app_query(sock);
	else if (!strcmp(what, "fork"))
		app_fork(sock);
	else
		app_simple(sock);
	return 0;
}

/* ---- daemon and mover ---- */

struct saved {
	uint64_t id, bytes;
	void *copy;
};

struct world {
	char dir[128], socket[160];
	int listener;
	struct gp_rm_watch *watch;
	struct gp_rm_subdevice sub;
	/* of the current application */
	pid_t pid;
	int talk, shim, link;
	uint64_t epoch;
	struct gp_rm_channel channels[GP_WIRE_MAX_CHANNELS];
	size_t n_channels;
	bool complete;
	struct gp_wire_memory memory;
	struct saved saved[MAX_TEST_EXTENTS];
	size_t n_saved;
	bool announced_last;
};

static struct world w;

static int world_ioctl(int fd, unsigned long request, void *arg)
{
	return gp_rm_watch_ioctl(w.watch, fd, request, arg);
}

/* The patch left nothing writable of what was read-only after relocation. */
static int check_relro(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	const struct link_map *map = arg;

	for (size_t i = 0; info->dlpi_addr == map->l_addr && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t end = (info->dlpi_addr + p->p_vaddr + p->p_memsz) & ~4095ull;
		unsigned long start, stop;
		char line[512], perms[8];
		FILE *maps;

		if (p->p_type != PT_GNU_RELRO)
			continue;
		CHECK((maps = fopen("/proc/self/maps", "r")));
		while (fgets(line, sizeof(line), maps)) {
			CHECK_EQ(sscanf(line, "%lx-%lx %7s", &start, &stop, perms), 3);
			if (start < end && stop > info->dlpi_addr + p->p_vaddr)
				CHECK_STR(perms, "r--p");
		}
		fclose(maps);
	}
	return 0;
}

/* A context of our own on the device, whose subdevice we freeze others through. */
static void world_open_device(void)
{
	void *handle = open_driver("GPUPRES_DRIVER");
	gp_rm_ioctl_fn rm = (gp_rm_ioctl_fn)dlsym(handle, "rm_ioctl");
	struct link_map *map;
	CUcontext context;
	struct gp_err err;

	CHECK(rm && (w.watch = gp_rm_watch_new(rm)));
	CHECK_EQ(gp_got_patch(handle, "ioctl", (void *)world_ioctl, &err), 0);
	CHECK_EQ(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
	dl_iterate_phdr(check_relro, map);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	CHECK_EQ(gp_rm_watch_subdevice(w.watch, &w.sub, &err), 0);
}

static void world_listen(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	snprintf(w.socket, sizeof(w.socket), "%s/shim.sock", w.dir);
	CHECK(strlen(w.socket) < sizeof(addr.sun_path));
	strcpy(addr.sun_path, w.socket);
	w.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(w.listener >= 0);
	CHECK_EQ(bind(w.listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_EQ(listen(w.listener, 8), 0);
	setenv("GPUPRES_SOCKET", w.socket, 1);
}

/* Whatever is no answer is news about the process. */
static void world_note(const struct gp_wire_msg *m)
{
	switch (m->header.type) {
	case GP_WIRE_CHANNELS:
		CHECK_EQ(m->channels.first, 0);
		w.n_channels = m->channels.n;
		w.complete = m->channels.complete;
		for (size_t i = 0; i < w.n_channels; i++) {
			const struct gp_wire_channel *c = &m->channels.entries[i];

			w.channels[i] = (struct gp_rm_channel){ c->client, c->channel, c->group,
								c->engine };
		}
		break;
	case GP_WIRE_MEMORY:
		w.memory = m->memory;
		break;
	default:
		fprintf(stderr, "unexpected %s %s\n", gp_wire_name(m->header.type),
			m->header.type == GP_WIRE_ERROR ? m->error.text : "");
		exit(1);
	}
}

static struct gp_wire_msg world_recv(void)
{
	struct gp_wire_msg m;
	struct gp_err err;

	if (gp_wire_recv(w.shim, &m, NULL, 0, NULL, WAIT_MS, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	return m;
}

static struct gp_wire_msg world_await(uint32_t type)
{
	struct gp_wire_msg m = world_recv();

	while (m.header.type != type) {
		world_note(&m);
		m = world_recv();
	}
	return m;
}

static void world_send(struct gp_wire_msg *m)
{
	struct gp_err err;

	m->header.job = JOB;
	m->header.proc = PROC;
	m->header.epoch = m->header.epoch ? m->header.epoch : w.epoch;
	CHECK_EQ(gp_wire_send(w.shim, m, NULL, 0, &err), 0);
}

static struct gp_wire_msg world_ask(uint32_t type, uint32_t answer)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, type);
	m.header.cookie = 100 + type;
	world_send(&m);
	m = world_await(answer);
	CHECK_EQ(m.header.cookie, 100 + type);
	CHECK_EQ(m.header.epoch, w.epoch);
	CHECK_EQ(m.header.job, JOB);
	CHECK_EQ(m.header.proc, PROC);
	return m;
}

static void world_start_app(const char *what)
{
	char fd_text[16];
	int pair[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	snprintf(fd_text, sizeof(fd_text), "%d", pair[1]);
	w.pid = fork();
	if (w.pid == 0) {
		close(pair[0]);
		execl("/proc/self/exe", "test_shim", "app", what, fd_text, (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	w.talk = pair[0];
	w.epoch = 1;
	w.shim = w.link = -1;
	w.n_channels = w.n_saved = 0;
	memset(&w.memory, 0, sizeof(w.memory));
}

static void world_end_app(void)
{
	int status;

	CHECK_EQ(waitpid(w.pid, &status, 0), w.pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	close(w.talk);
	gp_close_fd(&w.shim);
	gp_close_fd(&w.link);
}

/* Gives the application a link; with @full none that anything can be sent over. */
static void world_link(bool full)
{
	struct gp_wire_msg m = { 0 };
	struct gp_err err;
	int pair[2];

	gp_close_fd(&w.link);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	while (full && send(pair[1], &m, sizeof(m), MSG_DONTWAIT) > 0)
		;
	gp_wire_init(&m, GP_WIRE_LINK);
	m.header.job = JOB;
	m.header.proc = PROC;
	CHECK_EQ(gp_wire_send(w.shim, &m, &pair[1], 1, &err), 0);
	close(pair[1]);
	w.link = pair[0];
}

/* HELLO to LINK. */
static void world_welcome(void)
{
	struct pollfd p = { .fd = w.listener, .events = POLLIN };
	struct gp_wire_msg m;

	CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
	w.shim = accept(w.listener, NULL, NULL);
	CHECK(w.shim >= 0);
	m = world_recv();
	CHECK_EQ(m.header.type, GP_WIRE_HELLO);
	CHECK_EQ(m.hello.role, GP_ROLE_SHIM);
	CHECK_EQ(m.header.job, JOB);
	gp_wire_init(&m, GP_WIRE_WELCOME);
	m.welcome.version = GP_WIRE_VERSION;
	world_send(&m);
	m = world_await(GP_WIRE_ATTACH);
	CHECK_EQ(m.attach.device, 0);
	CHECK(m.attach.total_bytes > 0);
	world_link(false);
}

static void world_switch(bool disable)
{
	struct gp_err err;

	CHECK(w.complete);
	CHECK_EQ(w.n_channels, 20);
	if (gp_rm_set_disabled(&w.sub, w.channels, w.n_channels, disable, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
}

static struct saved *world_saved(uint64_t id)
{
	for (size_t i = 0; i < w.n_saved; i++) {
		if (w.saved[i].id == id)
			return &w.saved[i];
	}
	CHECK(w.n_saved < MAX_TEST_EXTENTS);
	w.saved[w.n_saved] = (struct saved){ .id = id };
	return &w.saved[w.n_saved++];
}

static void world_copy(const struct gp_wire_extent *e, int fd, bool save)
{
	void *map = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct saved *s = world_saved(e->id);

	CHECK(map != MAP_FAILED);
	if (save) {
		CHECK(!s->copy && (s->copy = malloc(e->bytes)));
		s->bytes = e->bytes;
		memcpy(s->copy, map, e->bytes);
	} else {
		CHECK(s->copy);
		memcpy(map, s->copy, e->bytes);
		free(s->copy);
		s->copy = NULL;
	}
	munmap(map, e->bytes);
}

/* Takes one message of extents; false after the last. */
static bool world_take_extents(bool save)
{
	struct gp_wire_msg m, ack;
	int fds[GP_WIRE_MAX_FDS];
	struct gp_err err;
	size_t n_fds;

	CHECK_EQ(gp_wire_recv(w.link, &m, fds, GP_WIRE_MAX_FDS, &n_fds, WAIT_MS, &err), 0);
	CHECK_EQ(m.header.type, GP_WIRE_EXTENTS);
	CHECK_EQ(m.extents.error, 0);
	CHECK_EQ(m.extents.n, n_fds);
	for (size_t i = 0; i < n_fds; i++) {
		world_copy(&m.extents.entries[i], fds[i], save);
		close(fds[i]);
	}
	gp_wire_init_reply(&ack, GP_WIRE_EXTENTS_ACK, &m);
	ack.extents_ack.n = m.extents.n;
	CHECK_EQ(gp_wire_send(w.link, &ack, NULL, 0, &err), 0);
	return !m.extents.last;
}

static uint64_t world_free_bytes(void)
{
	size_t free_bytes, total;

	OK(cuMemGetInfo_v2(&free_bytes, &total));
	return free_bytes;
}

/* LOCK, freeze and take all memory. Returns the bytes released. */
static uint64_t world_evict(uint64_t *ret_n)
{
	struct gp_wire_msg m = world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	uint64_t bytes = m.locked.movable_bytes, n = m.locked.n_extents;

	world_switch(true);
	m = world_ask(GP_WIRE_EXPORT, GP_WIRE_EXPORTED);
	CHECK_EQ(m.exported.bytes, bytes);
	CHECK_EQ(m.exported.n, n);
	while (world_take_extents(true))
		;
	CHECK_EQ(w.n_saved, n);
	gp_wire_init(&m, GP_WIRE_RELEASE);
	for (size_t i = 0; i < w.n_saved; i++)
		m.release.ids[m.release.n++] = (uint32_t)w.saved[i].id;
	world_send(&m);
	m = world_await(GP_WIRE_RELEASED);
	CHECK_EQ(m.released.bytes, bytes);
	CHECK_EQ(m.released.n, n);
	if (ret_n)
		*ret_n = n;
	return bytes;
}

static void test_shim_when_swapped_mid_kernel_then_goes_on_bit_exact(void)
{
	uint64_t before = world_free_bytes(), resident, bytes, n;
	CUdeviceptr filler;
	struct gp_wire_msg m;

	world_start_app("swap");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	resident = world_free_bytes();
	bytes = world_evict(&n);
	CHECK_EQ(bytes, BIG_BYTES + 2 * MIB);
	CHECK_EQ(n, 2);
	CHECK_EQ(world_ask(GP_WIRE_PROBE, GP_WIRE_PROBED).probed.mid_kernel, GP_MID_KERNEL_YES);
	CHECK_EQ(world_free_bytes(), resident + bytes);
	say(w.talk, 2);
	CHECK(quiet(w.talk));
	m = world_ask(GP_WIRE_UNLOCK, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -EBUSY);

	/* Somebody else takes the memory: the job stays away, whole. */
	OK(cuMemAlloc_v2(&filler, BIG_BYTES));
	m = world_ask(GP_WIRE_RECREATE, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -ENOMEM);
	OK(cuMemFree_v2(filler));
	CHECK_EQ(world_free_bytes(), resident + bytes);

	w.epoch++;
	m = world_ask(GP_WIRE_RECREATE, GP_WIRE_RECREATED);
	CHECK_EQ(m.recreated.bytes, bytes);
	while (world_take_extents(false))
		;
	world_switch(false);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(hear(w.talk), 3);
	say(w.talk, 4);
	CHECK(hear(w.talk) > 0);
	world_end_app();
	CHECK_EQ(world_free_bytes(), before);
}

static void test_shim_when_memory_is_short_then_asks_and_waits(void)
{
	struct gp_wire_msg m, answer;
	CUdeviceptr filler;

	world_start_app("need");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	OK(cuMemAlloc_v2(&filler, BIG_BYTES));
	say(w.talk, 2);
	m = world_await(GP_WIRE_NEED);
	CHECK_EQ(m.need.bytes, BIG_BYTES);
	CHECK(quiet(w.talk));
	/* While it waits it can be locked: it holds nothing. */
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	OK(cuMemFree_v2(filler));
	gp_wire_init_reply(&answer, GP_WIRE_OK, &m);
	world_send(&answer);
	CHECK_EQ(hear(w.talk), 3);
	m = world_await(GP_WIRE_NEED);
	gp_wire_init_reply(&answer, GP_WIRE_ERROR, &m);
	answer.error.code = -ENOMEM;
	world_send(&answer);
	CHECK_EQ(hear(w.talk), 4);
	world_end_app();
}

static void test_shim_when_asked_about_pointers_then_answers_for_allocations(void)
{
	uint64_t before = world_free_bytes();

	world_start_app("query");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	say(w.talk, 2);
	CHECK_EQ(hear(w.talk), 3);
	CHECK_EQ(world_free_bytes(), before);
	say(w.talk, 4);
	world_end_app();
}

static void test_shim_when_forked_then_child_is_inert(void)
{
	world_start_app("fork");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	say(w.talk, 2);
	world_end_app();
}

static void test_shim_when_no_daemon_then_runs_unmanaged(void)
{
	setenv("GPUPRES_SOCKET", "/nonexistent/shim.sock", 1);
	world_start_app("simple");
	CHECK_EQ(hear(w.talk), 1);
	say(w.talk, 1);
	CHECK_EQ(hear(w.talk), 2);
	say(w.talk, 0);
	world_end_app();
	setenv("GPUPRES_SOCKET", w.socket, 1);
}

static void test_shim_when_daemon_dies_running_then_goes_on(void)
{
	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	gp_close_fd(&w.shim);
	gp_close_fd(&w.link);
	say(w.talk, 1);
	CHECK_EQ(hear(w.talk), 2);
	say(w.talk, 0);
	world_end_app();
}

static void test_shim_when_daemon_dies_frozen_then_thaws_itself(void)
{
	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	world_switch(true);
	say(w.talk, 1);
	CHECK(quiet(w.talk));
	gp_close_fd(&w.shim);
	gp_close_fd(&w.link);
	CHECK_EQ(hear(w.talk), 2);
	say(w.talk, 0);
	world_end_app();
}

/*
 * The application is stopped until its next try to send is overdue, so that it finds the new link
 * in the same turn.
 */
static void test_shim_when_link_is_replaced_while_sending_then_lives(void)
{
	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_link(true);
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	world_ask(GP_WIRE_EXPORT, GP_WIRE_EXPORTED);
	kill(w.pid, SIGSTOP);
	CHECK(quiet(w.talk));
	world_link(false);
	kill(w.pid, SIGCONT);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	say(w.talk, 0);
	world_end_app();
}

/* Its memory is mapped again but nobody says that its bytes are back: it must not run on. */
static void test_shim_when_daemon_dies_restoring_then_stands_still(void)
{
	struct pollfd p;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_evict(NULL);
	world_ask(GP_WIRE_RECREATE, GP_WIRE_RECREATED);
	gp_close_fd(&w.shim);
	gp_close_fd(&w.link);
	/* Where it was to thaw itself, its end would wait for that, which takes 10 s. */
	say(w.talk, 0);
	p = (struct pollfd){ .fd = w.talk, .events = POLLIN };
	CHECK_EQ(poll(&p, 1, WAIT_MS / 4), 1);
	world_end_app();
	for (size_t i = 0; i < w.n_saved; i++)
		free(w.saved[i].copy);
}

static void test_shim_when_scratched_then_can_end(void)
{
	CUdeviceptr filler;
	uint64_t free_bytes;
	int status;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_evict(NULL);
	for (size_t i = 0; i < w.n_saved; i++)
		free(w.saved[i].copy);
	free_bytes = world_free_bytes();
	OK(cuMemAlloc_v2(&filler, free_bytes - 2 * MIB));
	w.epoch++;
	world_ask(GP_WIRE_SCRATCH, GP_WIRE_SCRATCHED);
	world_switch(false);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	kill(w.pid, SIGKILL);
	CHECK_EQ(waitpid(w.pid, &status, 0), w.pid);
	close(w.talk);
	gp_close_fd(&w.shim);
	gp_close_fd(&w.link);
	OK(cuMemFree_v2(filler));
}

/* Brings everything back and lets the application run. */
static void world_restore(void)
{
	w.epoch++;
	world_ask(GP_WIRE_RECREATE, GP_WIRE_RECREATED);
	while (world_take_extents(false))
		;
	world_switch(false);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	w.n_saved = 0;
	w.epoch++;
}

static void move_many(const char *app)
{
	uint64_t n;

	world_start_app(app);
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	CHECK_EQ(world_evict(&n), 2 * MANY * MIB);
	CHECK_EQ(n, MANY);
	world_restore();
	say(w.talk, 2);
	CHECK_EQ(hear(w.talk), 3);
	while (w.memory.n_extents) {
		struct gp_wire_msg m = world_recv();

		world_note(&m);
	}
	say(w.talk, 4);
	world_end_app();
}

static void test_shim_when_extents_are_many_then_all_move(void)
{
	move_many("many");
}

static void test_shim_when_fds_run_out_then_moves_in_smaller_parts(void)
{
	move_many("few-fds");
}

static void test_shim_when_threads_allocate_then_every_cycle_is_exact(void)
{
	world_start_app("churn");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	for (int i = 0; i < CHURN_CYCLES; i++) {
		world_evict(NULL);
		world_restore();
	}
	say(w.talk, 2);
	CHECK_EQ(hear(w.talk), 3);
	say(w.talk, 4);
	world_end_app();
}

/* What a program does at its end waits like any other call, and is not left hanging. */
static void test_shim_when_locked_then_exit_waits_for_unlock(void)
{
	int status;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_evict(NULL);
	say(w.talk, 0);
	CHECK(quiet(w.talk));
	CHECK_EQ(waitpid(w.pid, &status, WNOHANG), 0);
	world_restore();
	world_end_app();
}

static void test_shim_when_preloaded_then_the_same(void)
{
	const char *shim = getenv("TEST_SHIM");

	CHECK(shim);
	setenv("LD_PRELOAD", shim, 1);
	test_shim_when_asked_about_pointers_then_answers_for_allocations();
	test_shim_when_swapped_mid_kernel_then_goes_on_bit_exact();
	unsetenv("LD_PRELOAD");
}

static void test_shim_when_not_locked_then_refuses_to_move(void)
{
	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	CHECK_EQ(world_ask(GP_WIRE_EXPORT, GP_WIRE_ERROR).error.code, -EPROTO);
	CHECK_EQ(world_ask(GP_WIRE_RECREATE, GP_WIRE_ERROR).error.code, -EPROTO);
	CHECK_EQ(world_ask(GP_WIRE_LIST, GP_WIRE_ERROR).error.code, -EOPNOTSUPP);
	say(w.talk, 0);
	world_end_app();
}

static void world_remove(void)
{
	char command[512];

	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", w.dir, getenv("GPUPRES_SOFT_DIR"));
	if (system(command))
		fprintf(stderr, "left behind: %s\n", w.dir);
}

static void set_path(const char *name, const char *build, const char *what)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/lib/gpupres/%s/libcuda.so.1", build, what);
	setenv(name, path, 1);
}

static void world_make(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[512];

	snprintf(w.dir, sizeof(w.dir), "%s/shim-XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(w.dir));
	CHECK(getenv("GP_BUILD"));
	snprintf(path, sizeof(path), "%s", getenv("GP_BUILD"));
	set_path("TEST_SHIM", path, "shim");
	set_path("GPUPRES_DRIVER", path, "soft");
	snprintf(path, sizeof(path), "/dev/shm/gpupres-test-shim-%d", getpid());
	CHECK_EQ(mkdir(path, 0700), 0);
	setenv("GPUPRES_SOFT_DIR", path, 1);
	setenv("GPUPRES_SOFT_MEMORY", DEVICE_MEMORY, 1);
	setenv("GPUPRES_JOB", "7", 1);
	atexit(world_remove);
	world_open_device();
	world_listen();
}

int main(int argc, char **argv)
{
	if (argc == 4)
		return app_main(argv[2], atoi(argv[3]));
	world_make();
	test_shim_when_no_daemon_then_runs_unmanaged();
	test_shim_when_asked_about_pointers_then_answers_for_allocations();
	test_shim_when_swapped_mid_kernel_then_goes_on_bit_exact();
	test_shim_when_memory_is_short_then_asks_and_waits();
	test_shim_when_not_locked_then_refuses_to_move();
	test_shim_when_forked_then_child_is_inert();
	test_shim_when_scratched_then_can_end();
	test_shim_when_extents_are_many_then_all_move();
	test_shim_when_fds_run_out_then_moves_in_smaller_parts();
	test_shim_when_threads_allocate_then_every_cycle_is_exact();
	test_shim_when_locked_then_exit_waits_for_unlock();
	test_shim_when_link_is_replaced_while_sending_then_lives();
	test_shim_when_preloaded_then_the_same();
	test_shim_when_daemon_dies_running_then_goes_on();
	test_shim_when_daemon_dies_frozen_then_thaws_itself();
	test_shim_when_daemon_dies_restoring_then_stands_still();
	return 0;
}
