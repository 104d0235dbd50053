/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime library of the software device, called from C: what needs no kernel of nvcc's. */
#include "tests/unit/check.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* clang-format off */
#define RT_FUNCTIONS(X) \
	X(cudaMalloc) X(cudaFree) X(cudaMemcpy) X(cudaMemcpyAsync) X(cudaMemset) \
	X(cudaHostAlloc) X(cudaFreeHost) X(cudaMemGetInfo) X(cudaGetLastError) \
	X(cudaPeekAtLastError) X(cudaGetErrorName) X(cudaGetErrorString) \
	X(cudaGetDeviceCount) X(cudaSetDevice) X(cudaGetDeviceProperties) \
	X(cudaStreamCreate) X(cudaStreamSynchronize) X(cudaStreamDestroy) \
	X(cudaEventCreate) X(cudaEventRecord) X(cudaEventSynchronize) \
	X(cudaEventElapsedTime) X(cudaPointerGetAttributes) X(cudaLaunchKernel) \
	X(cudaMemcpyToSymbol) X(cudaDeviceReset) X(cudaDeviceSynchronize) \
	X(cudaGetDriverEntryPointByVersion) X(cudaMallocPitch) X(cudaMemcpy2D) \
	X(cudaRuntimeGetVersion) X(cudaDriverGetVersion)
/* clang-format on */

#define X(name) static __typeof__(name) *p_##name __attribute__((unused));
RT_FUNCTIONS(X)
#undef X

#define OK(call) CHECK_EQ(p_##call, cudaSuccess)

static void open_runtime(void)
{
	const char *build = getenv("GP_BUILD");
	char path[4096];
	void *handle;

	/* A libcuda.so.1 that is in the process already is the one to use, from wherever it is. */
	snprintf(path, sizeof(path), "%s/lib/gpupres/soft/libcuda.so.1", build);
	CHECK(dlopen(path, RTLD_NOW | RTLD_LOCAL));
	snprintf(path, sizeof(path), "%s/lib/gpupres/soft-runtime/libcudart.so.13", build);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(handle);
	/* By version, as programs linked by nvcc bind. */
#define X(name) CHECK((p_##name = (__typeof__(p_##name))dlvsym(handle, #name, "libcudart.so.13")));
	RT_FUNCTIONS(X)
#undef X
}

static void test_device_when_asked_then_described(void)
{
	struct cudaDeviceProp prop;
	int n = 0, runtime = 0, driver = 0;

	OK(cudaGetDeviceCount(&n));
	CHECK_EQ(n, 1);
	OK(cudaGetDeviceProperties(&prop, 0));
	CHECK(!strcmp(prop.name, "gpupres software device"));
	CHECK(prop.major == 9 && prop.warpSize == 32 && prop.maxThreadsPerBlock == 1024);
	CHECK_EQ(prop.totalGlobalMem, 256u << 20);
	CHECK_EQ(p_cudaSetDevice(1), cudaErrorInvalidDevice);
	OK(cudaSetDevice(0));
	OK(cudaRuntimeGetVersion(&runtime));
	OK(cudaDriverGetVersion(&driver));
	CHECK_EQ(runtime, 13000);
	CHECK_EQ(driver, 13000);
}

static void test_errors_when_made_then_remembered_until_read(void)
{
	void *p;

	p_cudaGetLastError();
	CHECK_EQ(p_cudaMalloc(&p, 1ull << 40), cudaErrorMemoryAllocation);
	CHECK_EQ(p_cudaPeekAtLastError(), cudaErrorMemoryAllocation);
	CHECK_EQ(p_cudaGetLastError(), cudaErrorMemoryAllocation);
	CHECK_EQ(p_cudaGetLastError(), cudaSuccess);
	CHECK(!strcmp(p_cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation"));
	CHECK(p_cudaGetErrorString(cudaErrorInvalidValue)[0]);
	CHECK_EQ(p_cudaLaunchKernel("none", (dim3){ 1, 1, 1 }, (dim3){ 1, 1, 1 }, NULL, 0, NULL),
		 cudaErrorInvalidDeviceFunction);
	CHECK_EQ(p_cudaMemcpyToSymbol("none", "x", 1, 0, cudaMemcpyHostToDevice),
		 cudaErrorInvalidSymbol);
}

static void test_copies_when_every_kind_then_data_arrives(void)
{
	uint32_t in[64], out[64] = { 0 };
	struct cudaPointerAttributes attr;
	void *a, *b, *host;
	size_t pitch;

	for (uint32_t i = 0; i < 64; i++)
		in[i] = i * i;
	OK(cudaMalloc(&a, sizeof(in)));
	OK(cudaMallocPitch(&b, &pitch, 32, 8));
	CHECK(pitch >= 32 && pitch % 512 == 0);
	OK(cudaHostAlloc(&host, sizeof(in), 0));
	OK(cudaMemcpy(a, in, sizeof(in), cudaMemcpyHostToDevice));
	OK(cudaMemcpy2D(b, pitch, a, 32, 32, 8, cudaMemcpyDeviceToDevice));
	OK(cudaMemcpy2D(host, 32, b, pitch, 32, 8, cudaMemcpyDefault));
	OK(cudaMemcpy(out, host, sizeof(out), cudaMemcpyHostToHost));
	CHECK(!memcmp(in, out, sizeof(in)));
	OK(cudaMemset(a, 0xff, 4));
	OK(cudaMemcpy(out, a, 8, cudaMemcpyDeviceToHost));
	CHECK(out[0] == UINT32_MAX && out[1] == 1);
	OK(cudaPointerGetAttributes(&attr, a));
	CHECK(attr.type == cudaMemoryTypeDevice && attr.devicePointer == a);
	OK(cudaPointerGetAttributes(&attr, host));
	CHECK_EQ(attr.type, cudaMemoryTypeHost);
	OK(cudaPointerGetAttributes(&attr, in));
	CHECK_EQ(attr.type, cudaMemoryTypeUnregistered);
	OK(cudaFree(a));
	OK(cudaFree(b));
	OK(cudaFree(NULL));
	OK(cudaFreeHost(host));
}

static void *use_from_thread(void *arg)
{
	cudaStream_t stream;
	cudaEvent_t event;
	void *p;

	OK(cudaMalloc(&p, 4096));
	OK(cudaStreamCreate(&stream));
	OK(cudaEventCreate(&event));
	OK(cudaMemcpyAsync(p, "0123456789", 10, cudaMemcpyHostToDevice, stream));
	OK(cudaEventRecord(event, stream));
	OK(cudaEventSynchronize(event));
	OK(cudaStreamDestroy(stream));
	OK(cudaFree(p));
	return NULL;
}

static void test_init_when_threads_race_then_one_context(void)
{
	size_t free_bytes, total;
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, use_from_thread, NULL) == 0);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	OK(cudaMemGetInfo(&free_bytes, &total));
	CHECK_EQ(total - free_bytes, 8u << 20);
}

static void test_reset_when_in_use_then_memory_back_and_usable(void)
{
	size_t free_bytes, total;
	void *p;

	OK(cudaDeviceReset());
	OK(cudaMemGetInfo(&free_bytes, &total));
	CHECK_EQ(total - free_bytes, 8u << 20);
	OK(cudaMalloc(&p, 64));
	OK(cudaFree(p));
}

static pthread_barrier_t turn;

static void *use_around_reset(void *arg)
{
	void *p;

	OK(cudaMalloc(&p, 64));
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	OK(cudaMalloc(&p, 64));
	OK(cudaFree(p));
	return NULL;
}

static void test_reset_when_other_thread_used_the_device_then_it_goes_on(void)
{
	pthread_t thread;

	CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
	CHECK(pthread_create(&thread, NULL, use_around_reset, NULL) == 0);
	pthread_barrier_wait(&turn);
	OK(cudaDeviceReset());
	pthread_barrier_wait(&turn);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void test_fork_when_initialised_then_child_gets_errors(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		void *p;

		CHECK_EQ(p_cudaMalloc(&p, 64), cudaErrorInitializationError);
		CHECK_EQ(p_cudaDeviceSynchronize(), cudaErrorInitializationError);
		exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static void test_entry_point_when_asked_then_of_the_driver_in_use(void)
{
	enum cudaDriverEntryPointQueryResult status;
	void *pfn = NULL, *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	CHECK(driver);
	OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &pfn, 13000, cudaEnableDefault, &status));
	CHECK(pfn == dlsym(driver, "cuMemAlloc_v2"));
	OK(cudaGetDriverEntryPointByVersion("cuNothing", &pfn, 13000, cudaEnableDefault, &status));
	CHECK_EQ(status, cudaDriverEntryPointSymbolNotFound);
}

int main(void)
{
	char dir[64], *argv[] = { "rm", "-rf", dir, NULL };

	snprintf(dir, sizeof(dir), "/dev/shm/gpupres-test-%d", getpid());
	setenv("GPUPRES_SOFT_DIR", dir, 1);
	setenv("GPUPRES_SOFT_MEMORY", "256M", 1);
	setenv("GPUPRES_SOFT_CORES", "2", 1);
	alarm(60); /* a hang is a failure */
	open_runtime();
	test_init_when_threads_race_then_one_context();
	test_device_when_asked_then_described();
	test_errors_when_made_then_remembered_until_read();
	test_copies_when_every_kind_then_data_arrives();
	test_entry_point_when_asked_then_of_the_driver_in_use();
	test_fork_when_initialised_then_child_gets_errors();
	test_reset_when_in_use_then_memory_back_and_usable();
	test_reset_when_other_thread_used_the_device_then_it_goes_on();
	execvp(argv[0], argv);
	return 1;
}
