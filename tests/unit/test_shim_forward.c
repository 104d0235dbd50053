/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwarding and stream capture, in front of a fake driver ($GP_FAKE_CUDA). Each case is a process
 * of its own, since a process binds its driver once. A thread plays a daemon that says welcome.
 */
#include "base/wire/wire.h"
#include "tests/unit/check.h"
#include "tests/unit/fake_cuda.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

static void *shim;

#define SHIM(name) ((__typeof__(&name))dlsym(shim, #name))

static void open_shim(void)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/lib/gpupres/shim/libcuda.so.1", getenv("GP_BUILD"));
	shim = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!shim)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(shim);
}

static void *fake_function(const char *name)
{
	void *fake = dlopen(getenv("GPUPRES_DRIVER"), RTLD_NOW | RTLD_LOCAL);
	void *function = dlsym(fake, name);

	CHECK(function);
	return function;
}

#define FAKE(name) ((__typeof__(&name))fake_function(#name))

static void test_forward_when_first_call_then_all_arguments_arrive(void)
{
	open_shim();
	for (int i = 0; i < 2; i++)
		CHECK_EQ(SHIM(cuLaunchKernel)((CUfunction)1, 2, 3, 4, 5, 6, 7, 8, (CUstream)9,
					      (void **)10, (void **)11),
			 CUDA_SUCCESS);
}

static void *first_call(void *arg)
{
	pthread_barrier_wait(arg);
	CHECK_EQ(SHIM(cuLaunchKernel)((CUfunction)1, 2, 3, 4, 5, 6, 7, 8, (CUstream)9, (void **)10,
				      (void **)11),
		 CUDA_SUCCESS);
	return NULL;
}

static void test_forward_when_threads_call_first_then_bound_once(void)
{
	pthread_barrier_t barrier;
	pthread_t threads[8];

	open_shim();
	pthread_barrier_init(&barrier, NULL, 8);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, first_call, &barrier), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

static __typeof__(&cuGetProcAddress_v2) resolve;
static void *resolved_while_binding;
static pthread_t resolver;
static sem_t resolved;

static void *resolve_one(void *arg)
{
	CHECK_EQ(resolve("cuUserObjectRelease", arg, 12000, 0, NULL), CUDA_SUCCESS);
	sem_post(&resolved);
	return NULL;
}

/* Gives another thread the time to post what it must not post yet. */
static void wait_in_vain(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 50 * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	(void)sem_timedwait(sem, &until);
}

static void resolve_while_binding(void)
{
	CHECK_EQ(pthread_create(&resolver, NULL, resolve_one, &resolved_while_binding), 0);
	wait_in_vain(&resolved);
}

static void test_resolve_when_other_thread_binds_then_ours(void)
{
	open_shim();
	resolve = SHIM(cuGetProcAddress_v2);
	sem_init(&resolved, 0, 0);
	FAKE(fake_on)(FAKE_BIND, resolve_while_binding);
	CHECK_EQ(SHIM(cuInit)(0), CUDA_SUCCESS);
	pthread_join(resolver, NULL);
	CHECK_EQ(resolved_while_binding, dlsym(shim, "cuUserObjectRelease"));
}

static void test_forward_when_driver_lacks_it_then_not_found(void)
{
	open_shim();
	CHECK_EQ(SHIM(cuDeviceGetCount)(&(int){ 0 }), CUDA_ERROR_NOT_FOUND);
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&(CUdeviceptr){ 0 }, 1), CUDA_ERROR_NOT_FOUND);
}

static void test_forward_when_no_driver_then_no_device(void)
{
	const char *text = NULL;

	setenv("GPUPRES_DRIVER", "/nonexistent/libcuda.so.1", 1);
	open_shim();
	CHECK_EQ(SHIM(cuInit)(0), CUDA_ERROR_NO_DEVICE);
	CHECK_EQ(SHIM(cuGetErrorString)(CUDA_ERROR_NO_DEVICE, &text), CUDA_SUCCESS);
	CHECK_STR(text, "no CUDA-capable device is detected");
}

static void test_forward_when_driver_is_the_shim_then_no_device(void)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/lib/gpupres/shim/libcuda.so.1", getenv("GP_BUILD"));
	setenv("GPUPRES_DRIVER", path, 1);
	open_shim();
	CHECK_EQ(SHIM(cuInit)(0), CUDA_ERROR_NO_DEVICE);
}

static void test_resolve_when_found_then_ours_of_that_name(void)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *function = (void *)1;

	open_shim();
	resolve = SHIM(cuGetProcAddress_v2);
	CHECK_EQ(resolve("cuProfilerStart", &function, 12000, 0, NULL), CUDA_SUCCESS);
	CHECK_EQ(function, dlsym(shim, "cuProfilerStart"));
	CHECK_EQ(resolve("cuStreamCreate", &function, 12000, 0, NULL), CUDA_SUCCESS);
	CHECK_EQ(function, dlsym(shim, "cuStreamCreate"));
	CHECK_EQ(resolve("cuGetProcAddress", &function, 12000, 0, NULL), CUDA_SUCCESS);
	CHECK_EQ(function, dlsym(shim, "cuGetProcAddress_v2"));
	CHECK_EQ(resolve("cuGetProcAddress", &function, 11030, 0, NULL), CUDA_SUCCESS);
	CHECK_EQ(function, dlsym(shim, "cuGetProcAddress"));
	CHECK_EQ(resolve("cuMemAlloc", &function, 1, 0, &status), CUDA_SUCCESS);
	CHECK_EQ(function, NULL);
	CHECK_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	CHECK_EQ(resolve("cuNothing", &function, 12000, 0, NULL), CUDA_ERROR_NOT_FOUND);
}

/* Welcomes one process and reads what it says until it goes. */
static void *play_daemon(void *arg)
{
	int sock = accept(*(const int *)arg, NULL, NULL);
	struct gp_wire_msg m;
	struct gp_err err;

	CHECK_EQ(gp_wire_recv(sock, &m, NULL, 0, NULL, 20000, &err), 0);
	CHECK_EQ(m.header.type, GP_WIRE_HELLO);
	gp_wire_init(&m, GP_WIRE_WELCOME);
	m.welcome.version = GP_WIRE_VERSION;
	CHECK_EQ(gp_wire_send(sock, &m, NULL, 0, &err), 0);
	while (gp_wire_recv(sock, &m, NULL, 0, NULL, 20000, &err) == 0)
		;
	return NULL;
}

static struct sockaddr_un addr = { .sun_family = AF_UNIX };
static int listener;

static void start_daemon(void)
{
	pthread_t thread;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "/dev/shm/gp-test-forward-%d", getpid());
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(listener >= 0);
	CHECK_EQ(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_EQ(listen(listener, 1), 0);
	setenv("GPUPRES_SOCKET", addr.sun_path, 1);
	CHECK_EQ(pthread_create(&thread, NULL, play_daemon, &listener), 0);
}

/* The shim in front of the fake driver, under the played daemon, with a context. */
static void open_managed(void)
{
	CUcontext context;

	start_daemon();
	open_shim();
	CHECK_EQ(SHIM(cuInit)(0), CUDA_SUCCESS);
	CHECK_EQ(unlink(addr.sun_path), 0);
	CHECK_EQ(SHIM(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
}

static void test_free_when_stream_is_captured_then_deferred(void)
{
	__typeof__(&fake_n_synchronised) synchronised;
	__typeof__(&fake_n_mapped) mapped;
	CUdeviceptr captured, other;
	CUgraph graph;

	open_managed();
	synchronised = FAKE(fake_n_synchronised);
	mapped = FAKE(fake_n_mapped);
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&captured, 2 * MIB), CUDA_SUCCESS);
	CHECK_EQ(mapped(), 1);
	CHECK_EQ(SHIM(cuStreamBeginCapture_v2)((CUstream)5, CU_STREAM_CAPTURE_MODE_GLOBAL),
		 CUDA_SUCCESS);
	CHECK_EQ(SHIM(cuMemFree_v2)(captured), CUDA_SUCCESS);
	CHECK_EQ(SHIM(cuMemFree_v2)(captured), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(synchronised(), 0); /* it would have ended the capture */
	CHECK_EQ(mapped(), 1);
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&other, 2 * MIB), CUDA_SUCCESS);
	CHECK_EQ(mapped(), 2);
	CHECK_EQ(SHIM(cuStreamEndCapture)((CUstream)5, &graph), CUDA_SUCCESS);
	CHECK_EQ(SHIM(cuMemFree_v2)(other), CUDA_SUCCESS);
	CHECK_EQ(synchronised(), 2);
	CHECK_EQ(mapped(), 0);
}

static bool is_allocated(CUdeviceptr at)
{
	CUdeviceptr start;

	return SHIM(cuMemGetAddressRange_v2)(&start, NULL, at) == CUDA_SUCCESS && start == at;
}

static CUdeviceptr freed;

static void free_now(void)
{
	CHECK_EQ(SHIM(cuMemFree_v2)(freed), CUDA_SUCCESS);
}

static void test_free_when_capture_begins_then_deferred(void)
{
	CUgraph graph;

	open_managed();
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&freed, 2 * MIB), CUDA_SUCCESS);
	FAKE(fake_on)(FAKE_CAPTURE, free_now);
	CHECK_EQ(SHIM(cuStreamBeginCapture_v2)((CUstream)5, CU_STREAM_CAPTURE_MODE_RELAXED),
		 CUDA_SUCCESS);
	CHECK_EQ(FAKE(fake_n_synchronised)(), 0);
	CHECK_EQ(SHIM(cuStreamEndCapture)((CUstream)5, &graph), CUDA_SUCCESS);
}

/* Every thread has a stream of its own that is known to all by one handle. */
static void test_free_when_one_of_two_captures_ends_then_deferred(void)
{
	CUgraph graph;

	open_managed();
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&freed, 2 * MIB), CUDA_SUCCESS);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(SHIM(cuStreamBeginCapture_v2)(CU_STREAM_PER_THREAD,
						       CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
			 CUDA_SUCCESS);
	CHECK_EQ(SHIM(cuStreamEndCapture)(CU_STREAM_PER_THREAD, &graph), CUDA_SUCCESS);
	free_now();
	CHECK_EQ(FAKE(fake_n_synchronised)(), 0);
	CHECK_EQ(SHIM(cuStreamEndCapture)(CU_STREAM_PER_THREAD, &graph), CUDA_SUCCESS);
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&freed, 2 * MIB), CUDA_SUCCESS);
	CHECK_EQ(FAKE(fake_n_synchronised)(), 1);
	CHECK_EQ(FAKE(fake_n_mapped)(), 1);
}

static CUdeviceptr next_owned;

static void alloc_now(void)
{
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&next_owned, 2 * MIB), CUDA_SUCCESS);
}

/* Another thread makes a context, which is given the handle of the one that just ended. */
static void test_destroy_when_handle_is_reused_then_new_memory_stays(void)
{
	CUcontext context;

	open_managed();
	CHECK_EQ(SHIM(cuCtxGetCurrent)(&context), CUDA_SUCCESS);
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&freed, 2 * MIB), CUDA_SUCCESS);
	FAKE(fake_on)(FAKE_DESTROY, alloc_now);
	CHECK_EQ(SHIM(cuCtxDestroy_v2)(context), CUDA_SUCCESS);
	CHECK(!is_allocated(freed));
	CHECK(is_allocated(next_owned));
}

/* Sizes that cannot be rounded up are nothing to ask the daemon about. */
static void test_alloc_when_size_is_absurd_then_driver_answers(void)
{
	CUdeviceptr at;

	setenv("GPUPRES_ALLOC_WAIT", "1", 1);
	open_managed();
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&at, SIZE_MAX), CUDA_ERROR_NOT_FOUND);
}

static sem_t export_began, export_may_end;

static void hold_first_export(void)
{
	static atomic_bool held;

	if (atomic_exchange(&held, true))
		return;
	sem_post(&export_began);
	sem_wait(&export_may_end);
}

static void *free_one(void *arg)
{
	CHECK_EQ(SHIM(cuMemFree_v2)(*(const CUdeviceptr *)arg), CUDA_SUCCESS);
	return NULL;
}

/*
 * The last block of a slab is freed while its extent is being exported, and a block of the slab is
 * taken before that is over: the slab must stay.
 */
static void test_free_when_slab_is_exported_then_new_block_stays(void)
{
	CUdeviceptr first[4], second[4], last;
	pthread_t thread;

	open_managed();
	sem_init(&export_began, 0, 0);
	sem_init(&export_may_end, 0, 0);
	FAKE(fake_on)(FAKE_EXPORT, hold_first_export);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(SHIM(cuMemAlloc_v2)(&first[i], MIB / 2), CUDA_SUCCESS);
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&second[0], MIB / 2), CUDA_SUCCESS);
	sem_wait(&export_began);
	CHECK_EQ(SHIM(cuMemFree_v2)(second[0]), CUDA_SUCCESS);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(SHIM(cuMemFree_v2)(first[i]), CUDA_SUCCESS);
	CHECK_EQ(pthread_create(&thread, NULL, free_one, &first[3]), 0);
	while (is_allocated(first[3]))
		sched_yield();
	for (int i = 0; i < 4; i++)
		CHECK_EQ(SHIM(cuMemAlloc_v2)(&second[i], MIB / 2), CUDA_SUCCESS);
	CHECK_EQ(SHIM(cuMemAlloc_v2)(&last, MIB / 2), CUDA_SUCCESS);
	CHECK_EQ(last, first[0]);
	sem_post(&export_may_end);
	pthread_join(thread, NULL);
	CHECK(is_allocated(last));
	CHECK_EQ(FAKE(fake_n_mapped)(), 2);
}

static int n_exported_fds(void)
{
	DIR *fds = opendir("/proc/self/fd");
	const struct dirent *e;
	int n = 0;

	CHECK(fds);
	while ((e = readdir(fds))) {
		char target[64] = "";

		n += readlinkat(dirfd(fds), e->d_name, target, sizeof(target) - 1) > 0 &&
		     strstr(target, "memfd:fake");
	}
	closedir(fds);
	return n;
}

static sem_t forked;

static void *fork_one(void *arg)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(n_exported_fds());
	sem_post(&forked);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	*(int *)arg = WEXITSTATUS(status);
	return NULL;
}

static void test_fork_when_exporting_then_child_keeps_no_memory(void)
{
	CUdeviceptr at[2];
	pthread_t thread;
	int n = -1;

	open_managed();
	sem_init(&forked, 0, 0);
	sem_init(&export_began, 0, 0);
	sem_init(&export_may_end, 0, 0);
	FAKE(fake_on)(FAKE_EXPORT, hold_first_export);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(SHIM(cuMemAlloc_v2)(&at[i], 2 * MIB), CUDA_SUCCESS);
	sem_wait(&export_began);
	CHECK_EQ(pthread_create(&thread, NULL, fork_one, &n), 0);
	wait_in_vain(&forked);
	sem_post(&export_may_end);
	pthread_join(thread, NULL);
	CHECK_EQ(n, 0);
}

static void in_a_process(void (*test)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		test();
		exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

int main(void)
{
	const char *fake = getenv("GP_FAKE_CUDA");

	CHECK(fake);
	setenv("GPUPRES_DRIVER", fake, 1);
	setenv("GPUPRES_SOCKET", "/nonexistent/shim.sock", 1);
	in_a_process(test_forward_when_first_call_then_all_arguments_arrive);
	in_a_process(test_forward_when_threads_call_first_then_bound_once);
	in_a_process(test_resolve_when_other_thread_binds_then_ours);
	in_a_process(test_forward_when_driver_lacks_it_then_not_found);
	in_a_process(test_forward_when_no_driver_then_no_device);
	in_a_process(test_forward_when_driver_is_the_shim_then_no_device);
	in_a_process(test_resolve_when_found_then_ours_of_that_name);
	in_a_process(test_free_when_stream_is_captured_then_deferred);
	in_a_process(test_free_when_capture_begins_then_deferred);
	in_a_process(test_free_when_one_of_two_captures_ends_then_deferred);
	in_a_process(test_destroy_when_handle_is_reused_then_new_memory_stays);
	in_a_process(test_alloc_when_size_is_absurd_then_driver_answers);
	in_a_process(test_free_when_slab_is_exported_then_new_block_stays);
	in_a_process(test_fork_when_exporting_then_child_keeps_no_memory);
	return 0;
}
