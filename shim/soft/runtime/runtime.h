/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_RUNTIME_RUNTIME_H
#define GP_SHIM_SOFT_RUNTIME_RUNTIME_H
/*
 * A CUDA runtime library over the documented driver API. The driver is whatever libcuda.so.1 the
 * process has or finds: a library of that name in front of it is used like any program would.
 *
 * Initialisation is lazy: the first call that needs the driver opens it, the first that needs a
 * context retains the primary one and makes it current in the calling thread. CUresult and
 * cudaError_t have the same numbers for everything the driver answers (driver_types.h).
 */
#include "shim/soft/runtime/abi.h"

/* clang-format off */
#define GP_RT_FUNCTIONS(X) \
	X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGetName) \
	X(cuDeviceGetUuid_v2) X(cuDeviceTotalMem_v2) X(cuDeviceGetAttribute) \
	X(cuDeviceGetPCIBusId) X(cuDeviceGetByPCIBusId) X(cuDeviceCanAccessPeer) \
	X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxReset_v2) \
	X(cuDevicePrimaryCtxSetFlags_v2) X(cuDevicePrimaryCtxGetState) \
	X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuCtxGetLimit) \
	X(cuCtxSetLimit) X(cuCtxGetStreamPriorityRange) X(cuMemGetInfo_v2) \
	X(cuMemAlloc_v2) X(cuMemAllocPitch_v2) X(cuMemFree_v2) X(cuMemAllocAsync) \
	X(cuMemFreeAsync) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostRegister_v2) \
	X(cuMemHostUnregister) X(cuMemHostGetDevicePointer_v2) X(cuMemHostGetFlags) \
	X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) \
	X(cuMemcpyDtoD_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) \
	X(cuMemcpyDtoDAsync_v2) X(cuMemcpy2DUnaligned_v2) X(cuMemcpy2DAsync_v2) \
	X(cuMemsetD8_v2) X(cuMemsetD8Async) X(cuMemsetD2D8_v2) X(cuMemsetD2D8Async) \
	X(cuPointerGetAttributes) X(cuStreamCreateWithPriority) X(cuStreamDestroy_v2) \
	X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamGetPriority) \
	X(cuStreamGetFlags) X(cuStreamGetId) X(cuStreamWaitEvent) X(cuStreamIsCapturing) \
	X(cuStreamAddCallback) X(cuLaunchHostFunc) X(cuEventCreate) X(cuEventDestroy_v2) \
	X(cuEventRecordWithFlags) X(cuEventQuery) X(cuEventSynchronize) \
	X(cuEventElapsedTime_v2) X(cuLibraryLoadData) X(cuLibraryUnload) \
	X(cuLibraryGetKernel) X(cuLibraryGetGlobal) X(cuKernelGetFunction) \
	X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuFuncSetCacheConfig) \
	X(cuLaunchKernel) X(cuLaunchKernelEx) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) X(cuGetErrorString) \
	X(cuGetProcAddress_v2) X(cuProfilerStart) X(cuProfilerStop)
/* clang-format on */

/* The driver's functions under their own names. Filled once; read without a lock afterwards. */
struct gp_rt_driver {
#define X(name) __typeof__(name) *name;
	GP_RT_FUNCTIONS(X)
#undef X
};

extern struct gp_rt_driver gp_rt;

/* The driver is open and initialised. */
cudaError_t gp_rt_enter_driver(void);
/* As above, and the calling thread has a current context. */
cudaError_t gp_rt_enter(void);
/* After a reset: the next call that needs a context retains a new one. */
void gp_rt_forget_context(void);

/* Remembers an error for cudaGetLastError and returns it. */
cudaError_t gp_rt_note(int error);

#endif
