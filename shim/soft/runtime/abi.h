/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_RUNTIME_ABI_H
#define GP_SHIM_SOFT_RUNTIME_ABI_H
/*
 * The runtime API as its library sees it: both the plain names and the _ptsz/_ptds ones are
 * declared, and exported. Below them what the host code made by nvcc 13 calls, which only C++ sees
 * declared (crt/host_runtime.h, crt/device_functions.h).
 */
#include "shim/soft/cuda_abi.h"

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>

/* cuda_profiler_api.h, which not every toolkit's packages bring along. */
cudaError_t CUDARTAPI cudaProfilerStart(void);
cudaError_t CUDARTAPI cudaProfilerStop(void);

void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
			    int thread_limit, struct uint3 *tid, struct uint3 *bid,
			    struct dim3 *block, struct dim3 *grid, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
		       size_t bytes, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
			      size_t bytes, int constant, int global);
char __cudaInitModule(void **handle);
unsigned int __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared_bytes,
					 struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared_bytes,
				       void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
			       void **args, size_t shared_bytes, cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
				    void **args, size_t shared_bytes, cudaStream_t stream);
#pragma GCC visibility pop

#endif
