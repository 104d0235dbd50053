/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_UNIT_SOFT_DEVICE_H
#define GP_TESTS_UNIT_SOFT_DEVICE_H
/*
 * What the tests of the software device share: the driver opened by path, a private device
 * directory, child processes that each are a program of their own, shared words to talk through.
 * The parent never initialises the driver, so that children may.
 */
#include "base/time.h"
#include "shim/soft/cuda_abi.h"
#include "tests/unit/check.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB		 (1ull << 20)
#define SOFT_CAPACITY	 (256 * MIB)
#define SOFT_CTX_BYTES	 (8 * MIB) /* what a context takes */
#define SOFT_DEADLINE_NS (20 * GP_NS_PER_SEC)

/* clang-format off */
#define SOFT_FUNCTIONS(X) \
	X(cuInit) X(cuDeviceGet) X(cuCtxCreate_v2) X(cuCtxDestroy_v2) X(cuCtxSetCurrent) \
	X(cuCtxSynchronize) X(cuMemGetInfo_v2) X(cuMemAlloc_v2) X(cuMemFree_v2) \
	X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemHostAlloc) X(cuMemFreeHost) \
	X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyHtoDAsync_v2) \
	X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoDAsync_v2) X(cuMemsetD8_v2) \
	X(cuMemsetD32_v2) X(cuMemsetD8Async) X(cuMemsetD32Async) X(cuMemsetD2D32_v2) \
	X(cuMemcpy2D_v2) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) \
	X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemGetAccess) \
	X(cuMemRetainAllocationHandle) X(cuMemExportToShareableHandle) \
	X(cuMemImportFromShareableHandle) X(cuMemGetAddressRange_v2) \
	X(cuPointerGetAttribute) X(cuStreamCreate) X(cuStreamDestroy_v2) \
	X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuLaunchHostFunc) \
	X(cuEventCreate) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) \
	X(cuEventElapsedTime_v2) X(cuEventDestroy_v2) X(cuModuleLoadData) \
	X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel) X(cuLaunchKernelEx) \
	X(cuGetProcAddress_v2) X(cuFuncSetAttribute)
/* clang-format on */

#define X(name) static __typeof__(name) *p_##name __attribute__((unused));
SOFT_FUNCTIONS(X)
#undef X

static void *soft_handle;

static const char soft_ptx[] =
	".version 9.0\n.target sm_90\n.address_size 64\n"
	".visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
	".reg .pred %p<2>;\n.reg .f32 %f<4>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<11>;\n"
	"ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nld.param.u64 %rd3, [c];\n"
	"ld.param.u32 %r2, [n];\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\n"
	"mov.u32 %r5, %tid.x;\nmad.lo.s32 %r1, %r3, %r4, %r5;\nsetp.ge.s32 %p1, %r1, %r2;\n"
	"@%p1 bra DONE;\ncvta.to.global.u64 %rd4, %rd1;\nmul.wide.s32 %rd5, %r1, 4;\n"
	"add.s64 %rd6, %rd4, %rd5;\ncvta.to.global.u64 %rd7, %rd2;\nadd.s64 %rd8, %rd7, %rd5;\n"
	"ld.global.f32 %f1, [%rd8];\nld.global.f32 %f2, [%rd6];\nadd.f32 %f3, %f2, %f1;\n"
	"cvta.to.global.u64 %rd9, %rd3;\nadd.s64 %rd10, %rd9, %rd5;\nst.global.f32 [%rd10], %f3;\n"
	"DONE:\nret;\n}\n"
	/* Counts at p[0] until p[1] becomes non-zero. */
	".visible .entry spin(.param .u64 p)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\n"
	".reg .b64 %rd<3>;\nld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\nLOOP:\n"
	"ld.volatile.global.u32 %r1, [%rd2];\nadd.s32 %r2, %r1, 1;\n"
	"st.volatile.global.u32 [%rd2], %r2;\nld.volatile.global.u32 %r3, [%rd2+4];\n"
	"setp.eq.s32 %p1, %r3, 0;\n@%p1 bra LOOP;\nret;\n}\n"
	".visible .entry incr(.param .u64 p)\n{\n.reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n"
	"ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\n"
	"ld.volatile.global.u32 %r1, [%rd2];\nadd.s32 %r2, %r1, 1;\n"
	"st.volatile.global.u32 [%rd2], %r2;\nret;\n}\n"
	".visible .entry fault()\n{\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\nmov.u64 %rd1, 64;\n"
	"mov.u32 %r1, 1;\nst.global.u32 [%rd1], %r1;\nret;\n}\n";

/* One program on the device: driver, context, module. */
static CUcontext soft_ctx __attribute__((unused));
static CUmodule soft_module __attribute__((unused));

#define OK(call) CHECK_EQ(p_##call, CUDA_SUCCESS)

static inline void soft_open(void)
{
	const char *path = getenv("GP_SOFT_CUDA");

	soft_handle = dlopen(path ? path : GP_SOFT_CUDA, RTLD_NOW | RTLD_LOCAL);
	if (!soft_handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(soft_handle);
#define X(name) CHECK((p_##name = (__typeof__(p_##name))dlsym(soft_handle, #name)));
	SOFT_FUNCTIONS(X)
#undef X
}

static inline void soft_start(void)
{
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&soft_ctx, 0, 0));
	OK(cuModuleLoadData(&soft_module, soft_ptx));
}

static inline CUfunction soft_function(const char *name)
{
	CUfunction function;

	OK(cuModuleGetFunction(&function, soft_module, name));
	return function;
}

static inline void soft_launch(const char *name, CUdeviceptr p, CUstream stream)
{
	void *params[] = { &p };

	OK(cuLaunchKernel(soft_function(name), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static inline uint64_t soft_free_bytes(void)
{
	size_t free_bytes, total;

	OK(cuMemGetInfo_v2(&free_bytes, &total));
	return free_bytes;
}

static const CUmemAllocationProp soft_prop __attribute__((unused)) = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
};

static const CUmemAccessDesc soft_access __attribute__((unused)) = {
	.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

/* Polls @cond; the deadline only bounds a failing run. */
#define SOFT_UNTIL(cond)                                                                           \
	do {                                                                                       \
		uint64_t end_ns = gp_now_ns() + SOFT_DEADLINE_NS;                                  \
		while (!(cond)) {                                                                  \
			CHECK(gp_now_ns() < end_ns && #cond);                                      \
			sched_yield();                                                             \
		}                                                                                  \
	} while (0)

/* Words shared by the test's processes. */
static volatile uint32_t *soft_words __attribute__((unused));

static inline pid_t soft_child(void (*fn)(int sock), int *ret_sock)
{
	int pair[2];
	pid_t pid;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		close(pair[0]);
		fn(pair[1]);
		exit(0);
	}
	close(pair[1]);
	*ret_sock = pair[0];
	return pid;
}

static inline void soft_join(pid_t pid, int want_signal)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (want_signal) {
		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), want_signal);
	} else {
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 0);
	}
}

/* A byte each way is enough to take turns. */
static inline void soft_say(int sock)
{
	CHECK(send(sock, "x", 1, MSG_NOSIGNAL) == 1);
}

static inline void soft_hear(int sock)
{
	char byte;

	CHECK(recv(sock, &byte, 1, 0) == 1);
}

static inline void soft_send_fd(int sock, int fd)
{
	char byte = 'f', control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(int));
	CHECK(sendmsg(sock, &msg, MSG_NOSIGNAL) == 1);
}

static inline int soft_receive_fd(int sock)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int fd;

	CHECK(recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) == 1);
	CHECK(CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	return fd;
}

static inline void soft_wipe(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(path);
}

/* Runs each test in a fresh device directory and a process that has not touched the driver. */
static inline int soft_run(void (*const *tests)(void), size_t n)
{
	char dir[64];
	int failed = 0;

	snprintf(dir, sizeof(dir), "/dev/shm/gpupres-test-%d", getpid());
	setenv("GPUPRES_SOFT_DIR", dir, 1);
	setenv("GPUPRES_SOFT_MEMORY", "256M", 1);
	setenv("GPUPRES_SOFT_CORES", "2", 1);
	for (size_t i = 0; i < n; i++) {
		pid_t pid;
		int status;

		soft_wipe(dir);
		pid = fork();
		if (pid == 0) {
			soft_words = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
			alarm(60); /* a hang is a failure */
			soft_open();
			tests[i]();
			exit(0);
		}
		waitpid(pid, &status, 0);
		if (status) {
			fprintf(stderr, "test %zu of %zu failed (status %#x)\n", i + 1, n, status);
			failed = 1;
		}
	}
	soft_wipe(dir);
	return failed;
}

#endif
