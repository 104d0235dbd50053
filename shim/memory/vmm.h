/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_MEMORY_VMM_H
#define GP_SHIM_MEMORY_VMM_H
/* The driver's virtual memory management, as far as extents need it. */
#include <cuda.h>
#include <stdint.h>

/* Device memory that can be exported as an fd. @bytes: multiple of 2 MiB. */
CUresult gp_vmm_create(CUdevice device, uint64_t bytes, CUmemGenericAllocationHandle *ret_handle);

/* Maps @handle at a reserved address and lets @device use it. On failure nothing is mapped. */
CUresult gp_vmm_map(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle handle,
		    CUdevice device);

/* Backs a reserved address with new memory; all or nothing. */
CUresult gp_vmm_back(CUdevice device, uint64_t address, uint64_t bytes,
		     CUmemGenericAllocationHandle *ret_handle);

/* A CLOEXEC fd of its own for the memory of @handle, at a high number; negative errno. */
int gp_vmm_export(CUmemGenericAllocationHandle handle);

#endif
