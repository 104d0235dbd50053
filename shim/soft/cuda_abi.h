/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_CUDA_ABI_H
#define GP_SHIM_SOFT_CUDA_ABI_H
/*
 * cuda.h as a driver sees it: entry points under the names of the ELF symbols (cuMemAlloc_v2,
 * cuLaunchKernel_ptsz) instead of the macros for programs, and exported.
 */
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#pragma GCC visibility push(default)
#include <cuda.h>
/* cudaProfiler.h, which not every toolkit's packages bring along. */
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);
#pragma GCC visibility pop

#define GP_SOFT_VERSION 13000 /* CUDA 13.0 */

#endif
