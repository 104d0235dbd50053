/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_UNIT_SHIM_APP_H
#define GP_TESTS_UNIT_SHIM_APP_H
/* The application of test_shim, and what it shares with the test that plays daemon and mover. */
#include "tests/unit/check.h"

#include <cuda.h>
#include <stdbool.h>

#define MIB	  (1ull << 20)
#define WAIT_MS	  20000 /* bounds a failing run */
#define BIG_BYTES (150 * MIB)
#define MANY	  70
#define PATTERN	  0x5eed5eedu

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

/* The functions of the driver or shim that this process opened. */
extern struct app_functions {
#define X(name) __typeof__(&name) name;
	FUNCTIONS(X)
#undef X
} cu;

#define OK(call) CHECK_EQ(cu.call, CUDA_SUCCESS)

/* Opens the library that the environment names, and fills in cu. */
void *open_driver(const char *env);

/* The two sides of a conversation about what happens next. quiet: nothing comes for a while. */
void say(int fd, uint64_t value);
uint64_t hear(int fd);
bool quiet(int fd);

/* Runs as the application @what, which talks over @sock. */
int app_main(const char *what, int sock);

#endif
