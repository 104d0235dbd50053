/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points: virtual memory management. */
#include "shim/soft/context.h"

#include <sys/mman.h>

static bool vmm_is_host(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static bool vmm_is_device(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == 0;
}

static CUresult vmm_enter_handle(CUmemGenericAllocationHandle handle, struct gp_vm_file **ret_file)
{
	CUresult r = gp_driver_enter();

	if (r)
		return r;
	*ret_file = gp_vm_handle(handle);
	return *ret_file ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ptr, size_t bytes, size_t align, CUdeviceptr addr,
				     unsigned long long flags)
{
	uint64_t got;
	CUresult r = gp_driver_enter();

	if (!r && (!ptr || flags))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = gp_driver_error(gp_vm_reserve(bytes, align, addr, &got));
	if (!r)
		*ptr = got;
	return r;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t bytes)
{
	CUresult r = gp_driver_enter();

	return r ? r : gp_driver_error(gp_vm_unreserve(ptr, bytes));
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
			     const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct gp_vm_file *file = NULL;
	CUresult r = gp_driver_enter();

	if (r)
		return r;
	if (!handle || !prop || flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    (prop->requestedHandleTypes & ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_INVALID_VALUE;
	if (!vmm_is_host(&prop->location) && !vmm_is_device(&prop->location))
		return CUDA_ERROR_INVALID_DEVICE;
	r = gp_driver_error(gp_vm_create(bytes, vmm_is_host(&prop->location), &file));
	if (!r)
		*handle = file->key;
	return r;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct gp_vm_file *file;
	CUresult r = vmm_enter_handle(handle, &file);

	if (!r)
		gp_vm_release(file);
	return r;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset,
			  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct gp_vm_file *file;
	CUresult r = vmm_enter_handle(handle, &file);

	if (!r && flags)
		r = CUDA_ERROR_INVALID_VALUE;
	return r ? r : gp_driver_error(gp_vm_map(ptr, bytes, offset, file));
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	CUresult r = gp_driver_enter();

	return r ? r : gp_driver_error(gp_vm_unmap(ptr, bytes));
}

static int vmm_prot(CUmemAccess_flags flags)
{
	switch (flags) {
	case CU_MEM_ACCESS_FLAGS_PROT_NONE:
		return PROT_NONE;
	case CU_MEM_ACCESS_FLAGS_PROT_READ:
		return PROT_READ;
	case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
		return PROT_READ | PROT_WRITE;
	default:
		return -1;
	}
}

/*
 * Host and device see memory through one address space here: access of the host's location is
 * accepted and goes with the device's.
 */
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc,
				size_t n)
{
	CUresult r = gp_driver_enter();

	if (r)
		return r;
	if (!desc || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !r && i < n; i++) {
		int prot = vmm_prot(desc[i].flags);

		if (prot < 0)
			return CUDA_ERROR_INVALID_VALUE;
		if (vmm_is_device(&desc[i].location))
			r = gp_driver_error(gp_vm_protect(ptr, bytes, prot));
		else if (!vmm_is_host(&desc[i].location))
			r = CUDA_ERROR_INVALID_DEVICE;
	}
	return r;
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
				CUdeviceptr ptr)
{
	struct gp_vm_range range;
	CUresult r = gp_driver_enter();

	if (r)
		return r;
	if (!flags || !location || !gp_vm_find_mapping(ptr, &range))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = range.prot & PROT_WRITE  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		 : range.prot & PROT_READ ? CU_MEM_ACCESS_FLAGS_PROT_READ
					  : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
					       CUmemAllocationGranularity_flags option)
{
	CUresult r = gp_driver_enter();

	if (!r && (!granularity || !prop))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*granularity = GP_VM_GRANULE;
	return r;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct gp_vm_file *file = NULL;
	CUresult r = gp_driver_enter();

	if (!r && !handle)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = gp_driver_error(gp_vm_retain((uintptr_t)addr, &file));
	if (!r)
		*handle = file->key;
	return r;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
							CUmemGenericAllocationHandle handle)
{
	struct gp_vm_file *file;
	CUresult r = vmm_enter_handle(handle, &file);

	if (!r && !prop)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*prop = (CUmemAllocationProp){
			.type = CU_MEM_ALLOCATION_TYPE_PINNED,
			.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
			.location = { .type = file->host ? CU_MEM_LOCATION_TYPE_HOST_NUMA
							 : CU_MEM_LOCATION_TYPE_DEVICE },
		};
	return r;
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
					      CUmemAllocationHandleType type,
					      unsigned long long flags)
{
	struct gp_vm_file *file;
	CUresult r = vmm_enter_handle(handle, &file);
	int fd;

	if (!r && (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	fd = gp_vm_export(file);
	if (fd < 0)
		return gp_driver_error(fd);
	*(int *)out = fd;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
						void *os_handle, CUmemAllocationHandleType type)
{
	struct gp_vm_file *file = NULL;
	CUresult r = gp_driver_enter();

	if (!r && (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = gp_driver_error(gp_vm_import((int)(intptr_t)os_handle, &file));
	if (!r)
		*handle = file->key;
	return r;
}
