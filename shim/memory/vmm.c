/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/memory/vmm.h"

#include "shim/interpose/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Programs that use select(2) or count on low numbers keep them to themselves. */
#define VMM_FD_FLOOR 256

CUresult gp_vmm_create(CUdevice device, uint64_t bytes, CUmemGenericAllocationHandle *ret_handle)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
	};

	return GP_DRIVER(cuMemCreate)(ret_handle, bytes, &prop, 0);
}

CUresult gp_vmm_map(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle handle,
		    CUdevice device)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUresult r = GP_DRIVER(cuMemMap)(address, bytes, 0, handle, 0);

	if (r != CUDA_SUCCESS)
		return r;
	r = GP_DRIVER(cuMemSetAccess)(address, bytes, &access, 1);
	if (r != CUDA_SUCCESS)
		GP_DRIVER(cuMemUnmap)(address, bytes);
	return r;
}

CUresult gp_vmm_back(CUdevice device, uint64_t address, uint64_t bytes,
		     CUmemGenericAllocationHandle *ret_handle)
{
	CUmemGenericAllocationHandle handle;
	CUresult r = gp_vmm_create(device, bytes, &handle);

	if (r != CUDA_SUCCESS)
		return r;
	r = gp_vmm_map(address, bytes, handle, device);
	if (r == CUDA_SUCCESS)
		*ret_handle = handle;
	else
		GP_DRIVER(cuMemRelease)(handle);
	return r;
}

int gp_vmm_export(CUmemGenericAllocationHandle handle)
{
	int fd = -1, high;

	if (GP_DRIVER(cuMemExportToShareableHandle)(
		    &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS ||
	    fd < 0)
		return -EIO;
	high = fcntl(fd, F_DUPFD_CLOEXEC, VMM_FD_FLOOR);
	if (high < 0) /* over the limit of open files: the low number must do */
		return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -errno : fd;
	close(fd);
	return high;
}
