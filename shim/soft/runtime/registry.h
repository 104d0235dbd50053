/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_RUNTIME_REGISTRY_H
#define GP_SHIM_SOFT_RUNTIME_REGISTRY_H
/*
 * What the program's start-up code announced: fat binaries, and for each the host addresses that
 * stand for kernels and variables. An image is loaded when something of it is first used.
 */
#include "shim/soft/runtime/abi.h"

/* The driver's kernel for a host function; a kernel handle (from cudaGetKernel) stands for itself.
 */
cudaError_t gp_registry_kernel(const void *host, CUkernel *ret_kernel);
/* Address and size of the variable a host symbol stands for. */
cudaError_t gp_registry_symbol(const void *host, CUdeviceptr *ret_addr, size_t *ret_bytes);

#endif
