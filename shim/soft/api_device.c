/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points: initialisation, the device and its properties, errors. */
#include "shim/soft/context.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char device_name[] = "gpupres software device";
static const char device_pci[] = "0000:00:1f.0";

CUresult CUDAAPI cuInit(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : gp_driver_init();
}

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = GP_SOFT_VERSION;
	return CUDA_SUCCESS;
}

/* Common start of device queries: device 0 is the only one. */
static CUresult device_enter(CUdevice dev, const void *out)
{
	CUresult r = gp_driver_enter();

	if (r)
		return r;
	if (dev != 0)
		return CUDA_ERROR_INVALID_DEVICE;
	return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult r = device_enter(ordinal, device);

	if (!r)
		*device = 0;
	return r;
}

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
	CUresult r = device_enter(0, count);

	if (!r)
		*count = 1;
	return r;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CUresult r = device_enter(dev, name);

	if (!r && len <= 0)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		snprintf(name, (size_t)len, "%s", device_name);
	return r;
}

/* A device is its folder, whatever path leads there. */
CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	CUresult r = device_enter(dev, uuid);
	uint64_t inode;
	uint32_t device;
	struct stat st;

	if (r)
		return r;
	if (fstat(gp_driver_state()->dir_fd, &st) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	inode = st.st_ino;
	device = (uint32_t)st.st_dev;
	memcpy(uuid->bytes, "soft", 4);
	memcpy(uuid->bytes + 4, &device, sizeof(device));
	memcpy(uuid->bytes + 8, &inode, sizeof(inode));
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CUresult r = device_enter(dev, bytes);

	if (!r)
		*bytes = gp_driver_state()->shared->capacity_bytes;
	return r;
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	CUresult r = device_enter(dev, major);

	if (!r && !minor)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		*major = 9;
		*minor = 0;
	}
	return r;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *id, int len, CUdevice dev)
{
	CUresult r = device_enter(dev, id);

	if (!r && len < (int)sizeof(device_pci))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		memcpy(id, device_pci, sizeof(device_pci));
	return r;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *dev, const char *id)
{
	unsigned int domain = 0, bus, slot, function = 0;
	CUresult r = device_enter(0, dev);

	if (r || !id)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
		domain = 0;
		if (sscanf(id, "%x:%x.%x", &bus, &slot, &function) < 2)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (domain || bus || slot != 0x1f || function)
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = 0;
	return CUDA_SUCCESS;
}

/* Limits and properties of an sm_90 device (CUDA C++ Programming Guide, compute capability 9.0). */
static const struct {
	CUdevice_attribute attribute;
	int value;
} device_attributes[] = {
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472 },
	{ CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024 },
	{ CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
	{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
	{ CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536 },
	{ CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000 },
	{ CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000 },
	{ CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64 },
	{ CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20 },
	{ CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 },
	{ CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32 },
	{ CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512 },
	{ CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
	{ CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2 },
	{ CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 0 },
	{ CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0 },
	{ CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0x1f },
	{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0 },
	{ CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0 },
	{ CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1 },
	{ CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID, 0 },
	{ CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2 },
	{ CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1 },
	{ CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1 },
};

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev)
{
	CUresult r = device_enter(dev, value);

	if (r)
		return r;
	if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*value = 0; /* what is not listed is not there */
	if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
		*value = (int)gp_engine_cores();
	for (size_t i = 0; i < GP_ARRAY_SIZE(device_attributes); i++)
		if (device_attributes[i].attribute == attribute)
			*value = device_attributes[i].value;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
	CUresult r = device_enter(dev, can);

	if (!r && peer != 0)
		r = CUDA_ERROR_INVALID_DEVICE;
	if (!r)
		*can = 0;
	return r;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice src,
					 CUdevice dst)
{
	CUresult r = device_enter(src, value);

	/* One device is no pair. */
	return r ? r : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CUresult r = gp_driver_enter();

	return r ? r : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer)
{
	CUresult r = gp_driver_enter();

	return r ? r : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

static const struct {
	CUresult code;
	const char *name, *text;
} device_errors[] = {
#define X(code, text) { code, #code, text },
#include "shim/soft/errors.inc"
#undef X
};

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **name)
{
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = NULL;
	for (size_t i = 0; i < GP_ARRAY_SIZE(device_errors); i++)
		if (device_errors[i].code == error)
			*name = device_errors[i].name;
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = NULL;
	for (size_t i = 0; i < GP_ARRAY_SIZE(device_errors); i++)
		if (device_errors[i].code == error)
			*text = device_errors[i].text;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuProfilerStart(void)
{
	return gp_driver_enter();
}

CUresult CUDAAPI cuProfilerStop(void)
{
	return gp_driver_enter();
}
