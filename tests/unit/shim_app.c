/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/shim_app.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET_MS      50 /* for checks that nothing comes */
#define CHURN_THREADS 4

struct app_functions cu;

/* Counts at p[0] until p[1] becomes non-zero. */
static const char spin_ptx[] =
	".version 9.0\n.target sm_90\n.address_size 64\n"
	".visible .entry spin(.param .u64 p)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\n"
	".reg .b64 %rd<3>;\nld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\nLOOP:\n"
	"ld.volatile.global.u32 %r1, [%rd2];\nadd.s32 %r2, %r1, 1;\n"
	"st.volatile.global.u32 [%rd2], %r2;\nld.volatile.global.u32 %r3, [%rd2+4];\n"
	"setp.eq.s32 %p1, %r3, 0;\n@%p1 bra LOOP;\nret;\n}\n";

void *open_driver(const char *env)
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

void say(int fd, uint64_t value)
{
	CHECK_EQ(send(fd, &value, sizeof(value), MSG_NOSIGNAL), sizeof(value));
}

uint64_t hear(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t value;

	CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
	CHECK_EQ(recv(fd, &value, sizeof(value), 0), sizeof(value));
	return value;
}

bool quiet(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, QUIET_MS) == 0;
}

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

int app_main(const char *what, int sock)
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
