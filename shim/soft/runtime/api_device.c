/* SPDX-License-Identifier: Apache-2.0 */
/* Runtime API: devices, versions, errors, entry points of the driver. */
#include "shim/soft/runtime/runtime.h"

#include "base/cleanup.h"

#include <stddef.h>
#include <string.h>

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count)
{
	cudaError_t e = gp_rt_enter_driver();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuDeviceGetCount(count));
}

static cudaError_t rt_check_device(int device)
{
	int count = 0;
	cudaError_t e = gp_rt_enter_driver();

	if (!e)
		e = (cudaError_t)gp_rt.cuDeviceGetCount(&count);
	return e ? e : device < 0 || device >= count ? cudaErrorInvalidDevice : cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
	cudaError_t e = rt_check_device(device);

	return gp_rt_note(e ? e : gp_rt_enter());
}

cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
	return cudaSetDevice(device);
}

/* One device: the current one is known without asking. */
cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
	cudaError_t e = gp_rt_enter_driver();

	if (!e && !device)
		e = cudaErrorInvalidValue;
	if (!e)
		*device = 0;
	return gp_rt_note(e);
}

cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags)
{
	cudaError_t e = gp_rt_enter_driver();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuDevicePrimaryCtxSetFlags_v2(0, flags));
}

cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int *flags)
{
	int active;
	cudaError_t e = gp_rt_enter_driver();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuDevicePrimaryCtxGetState(0, flags, &active));
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuCtxSynchronize());
}

cudaError_t CUDARTAPI cudaDeviceReset(void)
{
	CUresult r;
	cudaError_t e = gp_rt_enter_driver();

	if (e)
		return gp_rt_note(e);
	r = gp_rt.cuDevicePrimaryCtxReset_v2(0);
	gp_rt_forget_context();
	return gp_rt_note(r);
}

/* enum cudaDeviceAttr has the numbers of CUdevice_attribute. */
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
	cudaError_t e = rt_check_device(device);

	return gp_rt_note(e ? (CUresult)e
			    : gp_rt.cuDeviceGetAttribute(value, (CUdevice_attribute)attr, device));
}

/* Which attribute fills which int, or size_t, of cudaDeviceProp. */
static const struct {
	size_t offset;
	CUdevice_attribute attribute;
	int is_size;
} rt_properties[] = {
#define P(member, attribute, is_size)                                                              \
	{ offsetof(struct cudaDeviceProp, member), CU_DEVICE_ATTRIBUTE_##attribute, is_size }
	P(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK, 1),
	P(regsPerBlock, MAX_REGISTERS_PER_BLOCK, 0),
	P(warpSize, WARP_SIZE, 0),
	P(memPitch, MAX_PITCH, 1),
	P(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK, 0),
	P(maxThreadsDim[0], MAX_BLOCK_DIM_X, 0),
	P(maxThreadsDim[1], MAX_BLOCK_DIM_Y, 0),
	P(maxThreadsDim[2], MAX_BLOCK_DIM_Z, 0),
	P(maxGridSize[0], MAX_GRID_DIM_X, 0),
	P(maxGridSize[1], MAX_GRID_DIM_Y, 0),
	P(maxGridSize[2], MAX_GRID_DIM_Z, 0),
	P(totalConstMem, TOTAL_CONSTANT_MEMORY, 1),
	P(major, COMPUTE_CAPABILITY_MAJOR, 0),
	P(minor, COMPUTE_CAPABILITY_MINOR, 0),
	P(textureAlignment, TEXTURE_ALIGNMENT, 1),
	P(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT, 1),
	P(multiProcessorCount, MULTIPROCESSOR_COUNT, 0),
	P(integrated, INTEGRATED, 0),
	P(canMapHostMemory, CAN_MAP_HOST_MEMORY, 0),
	P(surfaceAlignment, SURFACE_ALIGNMENT, 1),
	P(concurrentKernels, CONCURRENT_KERNELS, 0),
	P(pciBusID, PCI_BUS_ID, 0),
	P(pciDeviceID, PCI_DEVICE_ID, 0),
	P(pciDomainID, PCI_DOMAIN_ID, 0),
	P(asyncEngineCount, ASYNC_ENGINE_COUNT, 0),
	P(unifiedAddressing, UNIFIED_ADDRESSING, 0),
	P(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH, 0),
	P(l2CacheSize, L2_CACHE_SIZE, 0),
	P(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR, 0),
	P(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED, 0),
	P(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED, 0),
	P(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED, 0),
	P(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 1),
	P(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR, 0),
	P(managedMemory, MANAGED_MEMORY, 0),
	P(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED, 0),
	P(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0),
	P(cooperativeLaunch, COOPERATIVE_LAUNCH, 0),
	P(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 1),
	P(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR, 0),
	P(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK, 1),
	P(hostRegisterSupported, HOST_REGISTER_SUPPORTED, 0),
	P(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED, 0),
	P(clusterLaunch, CLUSTER_LAUNCH, 0),
	P(hostNumaId, HOST_NUMA_ID, 0),
#undef P
};

cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	cudaError_t e = rt_check_device(device);
	CUresult r = CUDA_SUCCESS;

	if (!e && !prop)
		e = cudaErrorInvalidValue;
	if (e)
		return gp_rt_note(e);
	memset(prop, 0, sizeof(*prop));
	for (size_t i = 0; !r && i < GP_ARRAY_SIZE(rt_properties); i++) {
		char *member = (char *)prop + rt_properties[i].offset;
		int value = 0;

		r = gp_rt.cuDeviceGetAttribute(&value, rt_properties[i].attribute, device);
		if (rt_properties[i].is_size)
			*(size_t *)(void *)member = (size_t)value;
		else
			*(int *)(void *)member = value;
	}
	if (!r)
		r = gp_rt.cuDeviceGetName(prop->name, sizeof(prop->name), device);
	if (!r)
		r = gp_rt.cuDeviceGetUuid_v2(&prop->uuid, device);
	if (!r)
		r = gp_rt.cuDeviceTotalMem_v2(&prop->totalGlobalMem, device);
	return gp_rt_note(r);
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *id, int len, int device)
{
	cudaError_t e = rt_check_device(device);

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuDeviceGetPCIBusId(id, len, device));
}

cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int *device, const char *id)
{
	cudaError_t e = gp_rt_enter_driver();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuDeviceGetByPCIBusId(device, id));
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	cudaError_t e = rt_check_device(device);

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuCtxGetLimit(value, (CUlimit)limit));
}

cudaError_t CUDARTAPI cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version)
{
	cudaError_t e = gp_rt_enter_driver();

	/* Without a driver the answer is 0, not an error. */
	if (e == cudaErrorInsufficientDriver && version) {
		*version = 0;
		return cudaSuccess;
	}
	return gp_rt_note(e ? (CUresult)e : gp_rt.cuDriverGetVersion(version));
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version)
{
	if (!version)
		return gp_rt_note(cudaErrorInvalidValue);
	*version = GP_SOFT_VERSION;
	return cudaSuccess;
}

static const struct {
	cudaError_t code;
	const char *name, *text;
} rt_errors[] = {
#define X(code, text) { code, #code, text },
#include "shim/soft/runtime/errors.inc"
#undef X
};

const char *CUDARTAPI cudaGetErrorName(cudaError_t error)
{
	for (size_t i = 0; i < GP_ARRAY_SIZE(rt_errors); i++)
		if (rt_errors[i].code == error)
			return rt_errors[i].name;
	return "unrecognized error code";
}

const char *CUDARTAPI cudaGetErrorString(cudaError_t error)
{
	for (size_t i = 0; i < GP_ARRAY_SIZE(rt_errors); i++)
		if (rt_errors[i].code == error)
			return rt_errors[i].text;
	return "unrecognized error code";
}

cudaError_t CUDARTAPI cudaProfilerStart(void)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuProfilerStart());
}

cudaError_t CUDARTAPI cudaProfilerStop(void)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuProfilerStop());
}

static cudaError_t rt_entry_point(const char *symbol, void **pfn, unsigned int version,
				  unsigned long long flags,
				  enum cudaDriverEntryPointQueryResult *status)
{
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	cudaError_t e = gp_rt_enter_driver();
	CUresult r;

	if (e)
		return gp_rt_note(e);
	r = gp_rt.cuGetProcAddress_v2(symbol, pfn, (int)version, flags, &found);
	if (status)
		*status = (enum cudaDriverEntryPointQueryResult)found;
	/* With a status to say so, a missing symbol is no error. */
	return gp_rt_note(r == CUDA_ERROR_NOT_FOUND && status ? CUDA_SUCCESS : r);
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char *symbol, void **pfn,
						       unsigned int version,
						       unsigned long long flags,
						       enum cudaDriverEntryPointQueryResult *status)
{
	return rt_entry_point(symbol, pfn, version, flags, status);
}

cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char *symbol, void **pfn,
					      unsigned long long flags,
					      enum cudaDriverEntryPointQueryResult *status)
{
	return rt_entry_point(symbol, pfn, GP_SOFT_VERSION, flags, status);
}

/* Compiled for per-thread streams: by default the symbols are of that kind as well. */
cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion_ptsz(
	const char *symbol, void **pfn, unsigned int version, unsigned long long flags,
	enum cudaDriverEntryPointQueryResult *status)
{
	if (flags == cudaEnableDefault)
		flags = cudaEnablePerThreadDefaultStream;
	return rt_entry_point(symbol, pfn, version, flags, status);
}

cudaError_t CUDARTAPI cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pfn,
						   unsigned long long flags,
						   enum cudaDriverEntryPointQueryResult *status)
{
	return cudaGetDriverEntryPointByVersion_ptsz(symbol, pfn, GP_SOFT_VERSION, flags, status);
}
