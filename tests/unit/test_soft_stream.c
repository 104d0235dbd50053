/* SPDX-License-Identifier: Apache-2.0 */
/* Order of work on the software device: streams, events, the launch queue, errors. */
#include "tests/unit/soft_device.h"

#include <pthread.h>
#include <sys/resource.h>

/* A kernel that runs until gate_open. word[0] counts, word[1] ends it. */
static CUdeviceptr spin_start(CUstream stream)
{
	uint32_t zero[2] = { 0, 0 };
	volatile uint32_t *word;
	CUdeviceptr p;

	OK(cuMemAlloc_v2(&p, 8));
	OK(cuMemcpyHtoD_v2(p, zero, 8));
	word = (volatile uint32_t *)(uintptr_t)p; /* device addresses are host addresses here */
	soft_launch("spin", p, stream);
	SOFT_UNTIL(word[0]);
	return p;
}

static void spin_end(CUdeviceptr p)
{
	((volatile uint32_t *)(uintptr_t)p)[1] = 1;
}

static CUstream stream_new(unsigned int flags)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, flags));
	return stream;
}

static void test_launch_when_vector_add_then_sums(void)
{
	enum { N = 1000 };
	static float a[N], b[N], c[N];
	CUdeviceptr da, db, dc;
	int n = N;
	void *params[] = { &da, &db, &dc, &n };

	soft_start();
	for (int i = 0; i < N; i++) {
		a[i] = (float)i;
		b[i] = (float)(2 * i);
	}
	OK(cuMemAlloc_v2(&da, sizeof(a)));
	OK(cuMemAlloc_v2(&db, sizeof(b)));
	OK(cuMemAlloc_v2(&dc, sizeof(c)));
	OK(cuMemcpyHtoD_v2(da, a, sizeof(a)));
	OK(cuMemcpyHtoD_v2(db, b, sizeof(b)));
	OK(cuLaunchKernel(soft_function("vadd"), (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params,
			  NULL));
	OK(cuMemcpyDtoH_v2(c, dc, sizeof(c)));
	for (int i = 0; i < N; i++)
		CHECK(c[i] == (float)(3 * i));
}

static void test_launch_when_extra_buffer_then_same(void)
{
	CUdeviceptr p;
	size_t bytes = sizeof(p);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			  CU_LAUNCH_PARAM_END };
	uint32_t value;

	soft_start();
	OK(cuMemAlloc_v2(&p, 4));
	OK(cuMemsetD32_v2(p, 41, 1));
	OK(cuLaunchKernel(soft_function("incr"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	OK(cuMemcpyDtoH_v2(&value, p, 4));
	CHECK_EQ(value, 42);
}

static void test_launch_when_limits_exceeded_then_refused(void)
{
	CUdeviceptr p;
	void *params[] = { &p };
	CUfunction f;

	soft_start();
	f = soft_function("incr");
	OK(cuMemAlloc_v2(&p, 4));
	CHECK_EQ(p_cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, NULL, params, NULL),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(p_cuLaunchKernel(f, 1, 1, 1, 1, 1, 65, 0, NULL, params, NULL),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(p_cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(p_cuLaunchKernel(f, 1, 65536, 1, 1, 1, 1, 0, NULL, params, NULL),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(p_cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 49153, NULL, params, NULL),
		 CUDA_ERROR_INVALID_VALUE);
	OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 100000, NULL, params, NULL));
	CHECK_EQ(p_cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
		 CUDA_ERROR_INVALID_HANDLE);
	OK(cuCtxSynchronize());
}

static void test_copy_when_kernel_runs_then_copy_engines_go_on(void)
{
	CUstream compute, copy;
	CUdeviceptr p, q;
	uint32_t *pinned;

	soft_start();
	compute = stream_new(CU_STREAM_NON_BLOCKING);
	copy = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuMemHostAlloc((void **)&pinned, 4 * MIB, 0));
	OK(cuMemAlloc_v2(&q, 4 * MIB));
	p = spin_start(compute);
	OK(cuMemsetD32Async(q, 5, MIB, copy));
	OK(cuMemcpyDtoHAsync_v2(pinned, q, 4 * MIB, copy));
	OK(cuStreamSynchronize(copy));
	CHECK(pinned[0] == 5 && pinned[MIB - 1] == 5);
	CHECK_EQ(p_cuStreamQuery(compute), CUDA_ERROR_NOT_READY);
	/* Behind the kernel nothing moves. */
	pinned[0] = 77;
	OK(cuMemcpyHtoDAsync_v2(q, pinned, 4, compute));
	OK(cuMemcpyDtoHAsync_v2(pinned + 1, q, 4, copy));
	OK(cuStreamSynchronize(copy));
	CHECK_EQ(pinned[1], 5);
	spin_end(p);
	OK(cuStreamSynchronize(compute));
	OK(cuMemcpyDtoH_v2(pinned + 1, q, 4));
	CHECK_EQ(pinned[1], 77);
}

static void test_events_when_other_stream_waits_then_in_order(void)
{
	CUevent done, begin, never;
	CUstream first, second;
	CUdeviceptr p, q;
	uint32_t value;
	float ms = -1;

	soft_start();
	OK(cuEventCreate(&begin, 0));
	OK(cuEventCreate(&done, 0));
	OK(cuEventCreate(&never, 0));
	OK(cuEventQuery(never));
	first = stream_new(CU_STREAM_NON_BLOCKING);
	second = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuMemAlloc_v2(&q, 4));
	OK(cuMemsetD32_v2(q, 0, 1));
	OK(cuCtxSynchronize());
	OK(cuEventRecord(begin, first));
	p = spin_start(first);
	OK(cuEventRecord(done, first));
	OK(cuStreamWaitEvent(second, done, 0));
	soft_launch("incr", q, second);
	CHECK_EQ(p_cuEventQuery(done), CUDA_ERROR_NOT_READY);
	CHECK_EQ(p_cuEventElapsedTime_v2(&ms, begin, done), CUDA_ERROR_NOT_READY);
	CHECK_EQ(p_cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	CHECK_EQ(*(volatile uint32_t *)(uintptr_t)q, 0);
	spin_end(p);
	OK(cuEventSynchronize(done));
	OK(cuEventElapsedTime_v2(&ms, begin, done));
	CHECK(ms >= 0);
	OK(cuStreamSynchronize(second));
	OK(cuMemcpyDtoH_v2(&value, q, 4));
	CHECK_EQ(value, 1);
	OK(cuEventDestroy_v2(done));
	OK(cuStreamDestroy_v2(second));
}

static CUevent late_event;
static _Atomic pid_t late_tid;

static void *record_late(void *arg)
{
	OK(cuCtxSetCurrent(soft_ctx));
	late_tid = gettid();
	OK(cuEventRecord(late_event, NULL));
	return NULL;
}

static int thread_sleeps(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'S';
}

/* The record waits for room in the legacy stream; a wait that is submitted meanwhile is older. */
static void test_event_when_record_blocks_on_full_queue_then_waiter_does_not_block_it(void)
{
	pthread_t thread;
	CUstream stream;
	CUdeviceptr p, q;

	soft_start();
	OK(cuEventCreate(&late_event, 0));
	stream = stream_new(CU_STREAM_DEFAULT);
	OK(cuMemAlloc_v2(&q, 4));
	p = spin_start(NULL);
	for (int i = 0; i < 1023; i++)
		soft_launch("incr", q, NULL);
	CHECK(pthread_create(&thread, NULL, record_late, NULL) == 0);
	SOFT_UNTIL(late_tid && thread_sleeps(late_tid));
	OK(cuStreamWaitEvent(stream, late_event, 0));
	spin_end(p);
	CHECK(pthread_join(thread, NULL) == 0);
	OK(cuCtxSynchronize());
}

static void CUDA_CB note(void *arg)
{
	__atomic_store_n((uint32_t *)arg, 1, __ATOMIC_RELEASE);
}

static void test_legacy_stream_when_blocking_stream_busy_then_waits_for_it(void)
{
	static uint32_t legacy_ran, blocking_ran, free_ran;
	CUstream blocking, other, free_stream;
	CUdeviceptr p;

	soft_start();
	blocking = stream_new(CU_STREAM_DEFAULT);
	other = stream_new(CU_STREAM_DEFAULT);
	free_stream = stream_new(CU_STREAM_NON_BLOCKING);
	p = spin_start(blocking);
	OK(cuLaunchHostFunc(NULL, note, &legacy_ran));
	OK(cuLaunchHostFunc(other, note, &blocking_ran));
	OK(cuLaunchHostFunc(free_stream, note, &free_ran));
	OK(cuStreamSynchronize(free_stream));
	CHECK(free_ran && !legacy_ran && !blocking_ran);
	CHECK_EQ(p_cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	spin_end(p);
	OK(cuStreamSynchronize(other));
	CHECK(legacy_ran && blocking_ran);
}

static CUdeviceptr flood_addr;
static CUstream flood_stream;
static uint32_t flood_done;

static void *flood(void *arg)
{
	OK(cuCtxSetCurrent(soft_ctx));
	for (int i = 0; i < 1100; i++) {
		soft_launch("incr", flood_addr, flood_stream);
		__atomic_add_fetch(&flood_done, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void test_launch_queue_when_1024_pending_then_caller_blocks(void)
{
	struct timespec deadline;
	pthread_t thread;
	CUdeviceptr p;
	uint32_t value;

	soft_start();
	flood_stream = stream_new(CU_STREAM_NON_BLOCKING);
	OK(cuMemAlloc_v2(&flood_addr, 4));
	OK(cuMemsetD32_v2(flood_addr, 0, 1));
	OK(cuCtxSynchronize());
	p = spin_start(flood_stream);
	CHECK(pthread_create(&thread, NULL, flood, NULL) == 0);
	SOFT_UNTIL(__atomic_load_n(&flood_done, __ATOMIC_SEQ_CST) == 1023);
	/* That it stays there can only be watched for a while. */
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_nsec += 100 * 1000 * 1000;
	if (deadline.tv_nsec >= 1000000000) {
		deadline.tv_sec++;
		deadline.tv_nsec -= 1000000000;
	}
	CHECK(pthread_timedjoin_np(thread, NULL, &deadline) != 0);
	CHECK_EQ(__atomic_load_n(&flood_done, __ATOMIC_SEQ_CST), 1023);
	spin_end(p);
	CHECK(pthread_join(thread, NULL) == 0);
	OK(cuStreamSynchronize(flood_stream));
	OK(cuMemcpyDtoH_v2(&value, flood_addr, 4));
	CHECK_EQ(value, 1100);
}

static void test_kernel_when_faulting_then_every_call_answers_so(void)
{
	CUdeviceptr p;
	CUstream stream;

	soft_start();
	stream = stream_new(0);
	OK(cuLaunchKernel(soft_function("fault"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	CHECK_EQ(p_cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_EQ(p_cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_EQ(p_cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_EQ(p_cuStreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	OK(cuCtxDestroy_v2(soft_ctx));
	soft_start();
	OK(cuMemAlloc_v2(&p, 4));
}

static void test_free_async_when_stream_busy_then_in_its_turn(void)
{
	CUstream stream;
	CUdeviceptr p, q;
	uint64_t before;

	soft_start();
	stream = stream_new(CU_STREAM_NON_BLOCKING);
	p = spin_start(stream);
	before = soft_free_bytes();
	OK(cuMemAllocAsync(&q, 4 * MIB, stream));
	OK(cuMemsetD8Async(q, 1, 4 * MIB, stream));
	OK(cuMemFreeAsync(q, stream));
	CHECK_EQ(soft_free_bytes(), before - 4 * MIB);
	spin_end(p);
	OK(cuStreamSynchronize(stream));
	CHECK_EQ(soft_free_bytes(), before);
}

static void test_exit_when_kernel_runs_then_process_ends(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		soft_start();
		spin_start(NULL);
		exit(0); /* atexit handlers and all */
	}
	soft_join(pid, 0);
}

static void run_a_kernel(void)
{
	CUdeviceptr p;

	soft_start();
	OK(cuMemAlloc_v2(&p, 4));
	soft_launch("incr", p, NULL);
	OK(cuCtxSynchronize());
}

static void bad_host_access(int sock)
{
	volatile uintptr_t nowhere = 16;

	run_a_kernel();
	*(volatile int *)nowhere = 1;
}

static void sent_signal(int sock)
{
	run_a_kernel();
	kill(getpid(), SIGSEGV);
}

static void ignored_signal(int sock)
{
	signal(SIGSEGV, SIG_IGN);
	run_a_kernel();
	kill(getpid(), SIGSEGV);
	soft_launch("fault", 0, NULL);
	CHECK_EQ(p_cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_segv_when_not_of_a_kernel_then_as_without_the_driver(void)
{
	const struct rlimit no_core = { 0, 0 };
	int sock;

	CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
	soft_join(soft_child(bad_host_access, &sock), SIGSEGV);
	soft_join(soft_child(sent_signal, &sock), SIGSEGV);
	soft_join(soft_child(ignored_signal, &sock), 0);
}

static void test_resolve_when_version_or_stream_flag_differs_then_right_symbol(void)
{
	CUdriverProcAddressQueryResult status;
	void *pfn;

	OK(cuGetProcAddress_v2("cuCtxSynchronize", &pfn, 12000, 0, &status));
	CHECK(pfn == dlsym(soft_handle, "cuCtxSynchronize"));
	OK(cuGetProcAddress_v2("cuCtxSynchronize", &pfn, 13000, 0, &status));
	CHECK(pfn == dlsym(soft_handle, "cuCtxSynchronize_v2"));
	OK(cuGetProcAddress_v2("cuLaunchKernel", &pfn, 13000,
			       CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	CHECK(pfn == dlsym(soft_handle, "cuLaunchKernel_ptsz"));
	CHECK_EQ(p_cuGetProcAddress_v2("cuGraphLaunch", &pfn, 13000, 0, &status),
		 CUDA_ERROR_NOT_FOUND);
	CHECK_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	CHECK_EQ(p_cuGetProcAddress_v2("cuLaunchKernelEx", &pfn, 9000, 0, &status),
		 CUDA_ERROR_NOT_FOUND);
	CHECK_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

int main(void)
{
	void (*const tests[])(void) = {
		test_launch_when_vector_add_then_sums,
		test_launch_when_extra_buffer_then_same,
		test_launch_when_limits_exceeded_then_refused,
		test_copy_when_kernel_runs_then_copy_engines_go_on,
		test_events_when_other_stream_waits_then_in_order,
		test_legacy_stream_when_blocking_stream_busy_then_waits_for_it,
		test_launch_queue_when_1024_pending_then_caller_blocks,
		test_kernel_when_faulting_then_every_call_answers_so,
		test_free_async_when_stream_busy_then_in_its_turn,
		test_exit_when_kernel_runs_then_process_ends,
		test_segv_when_not_of_a_kernel_then_as_without_the_driver,
		test_event_when_record_blocks_on_full_queue_then_waiter_does_not_block_it,
		test_resolve_when_version_or_stream_flag_differs_then_right_symbol,
	};

	return soft_run(tests, sizeof(tests) / sizeof(tests[0]));
}
