/* SPDX-License-Identifier: Apache-2.0 */
/* Runtime API: launches, functions, occupancy. */
#include "shim/soft/runtime/registry.h"
#include "shim/soft/runtime/runtime.h"

#include <stdint.h>
#include <string.h>

#define GP_RT_NESTED_CALLS 16 /* launches inside the arguments of launches */

struct gp_rt_call {
	struct dim3 grid, block;
	size_t shared_bytes;
	cudaStream_t stream;
};

static __thread struct gp_rt_call rt_calls[GP_RT_NESTED_CALLS];
static __thread unsigned int rt_n_calls;

/* f<<<grid, block, shared, stream>>>: the configuration waits here for nvcc's stub of f. */
unsigned int __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared_bytes,
					 struct CUstream_st *stream)
{
	if (rt_n_calls == GP_RT_NESTED_CALLS)
		return 1;
	rt_calls[rt_n_calls++] = (struct gp_rt_call){ grid, block, shared_bytes, stream };
	return 0;
}

cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared_bytes,
				       void *stream)
{
	const struct gp_rt_call *call;

	if (!rt_n_calls)
		return gp_rt_note(cudaErrorMissingConfiguration);
	call = &rt_calls[--rt_n_calls];
	*grid = call->grid;
	*block = call->block;
	*shared_bytes = call->shared_bytes;
	*(cudaStream_t *)stream = call->stream;
	return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	CUkernel found = NULL;
	cudaError_t e = gp_registry_kernel(host, &found);

	if (!e)
		*kernel = (cudaKernel_t)found;
	return gp_rt_note(e);
}

static cudaError_t rt_launch(CUkernel kernel, struct dim3 grid, struct dim3 block, void **args,
			     size_t shared_bytes, cudaStream_t stream)
{
	CUresult r;

	if (!kernel)
		return cudaErrorInvalidDeviceFunction;
	if (shared_bytes > UINT32_MAX)
		return cudaErrorInvalidValue;
	r = gp_rt.cuLaunchKernel((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y,
				 block.z, (unsigned int)shared_bytes, stream, args, NULL);
	/* The runtime's name for a launch beyond the limits. */
	return r == CUDA_ERROR_INVALID_VALUE ? cudaErrorInvalidConfiguration : (cudaError_t)r;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
			       void **args, size_t shared_bytes, cudaStream_t stream)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? e
			    : rt_launch((CUkernel)kernel, grid, block, args, shared_bytes, stream));
}

cudaError_t CUDARTAPI cudaLaunchKernel(const void *func, struct dim3 grid, struct dim3 block,
				       void **args, size_t shared_bytes, cudaStream_t stream)
{
	CUkernel kernel = NULL;
	cudaError_t e = gp_registry_kernel(func, &kernel);

	return gp_rt_note(e ? e : rt_launch(kernel, grid, block, args, shared_bytes, stream));
}

/* cudaLaunchAttribute and CUlaunchAttribute are the same type under two names (driver_types.h). */
cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func,
					  void **args)
{
	CUlaunchConfig driver_config;
	CUkernel kernel = NULL;
	cudaError_t e = config ? gp_registry_kernel(func, &kernel) : cudaErrorInvalidConfiguration;

	if (e)
		return gp_rt_note(e);
	if (config->dynamicSmemBytes > UINT32_MAX)
		return gp_rt_note(cudaErrorInvalidValue);
	driver_config = (CUlaunchConfig){
		.gridDimX = config->gridDim.x,
		.gridDimY = config->gridDim.y,
		.gridDimZ = config->gridDim.z,
		.blockDimX = config->blockDim.x,
		.blockDimY = config->blockDim.y,
		.blockDimZ = config->blockDim.z,
		.sharedMemBytes = (unsigned int)config->dynamicSmemBytes,
		.hStream = config->stream,
		.attrs = (CUlaunchAttribute *)config->attrs,
		.numAttrs = config->numAttrs,
	};
	return gp_rt_note(gp_rt.cuLaunchKernelEx(&driver_config, (CUfunction)kernel, args, NULL));
}

cudaError_t CUDARTAPI cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
	return __cudaGetKernel(kernel, func);
}

cudaError_t CUDARTAPI cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
	CUkernel kernel = NULL;
	CUfunction found = NULL;
	cudaError_t e = gp_registry_kernel(symbol, &kernel);

	if (!e)
		e = (cudaError_t)gp_rt.cuKernelGetFunction(&found, kernel);
	if (!e)
		*function = (cudaFunction_t)found;
	return gp_rt_note(e);
}

cudaError_t CUDARTAPI cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
	int value[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT + 1] = { 0 };
	CUkernel kernel = NULL;
	cudaError_t e = attr ? gp_registry_kernel(func, &kernel) : cudaErrorInvalidValue;

	for (int i = 0; !e && i <= CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT; i++)
		e = (cudaError_t)gp_rt.cuFuncGetAttribute(&value[i], (CUfunction_attribute)i,
							  (CUfunction)kernel);
	if (e)
		return gp_rt_note(e);
	memset(attr, 0, sizeof(*attr));
	attr->maxThreadsPerBlock = value[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
	attr->sharedSizeBytes = (size_t)value[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
	attr->constSizeBytes = (size_t)value[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES];
	attr->localSizeBytes = (size_t)value[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES];
	attr->numRegs = value[CU_FUNC_ATTRIBUTE_NUM_REGS];
	attr->ptxVersion = value[CU_FUNC_ATTRIBUTE_PTX_VERSION];
	attr->binaryVersion = value[CU_FUNC_ATTRIBUTE_BINARY_VERSION];
	attr->cacheModeCA = value[CU_FUNC_ATTRIBUTE_CACHE_MODE_CA];
	attr->maxDynamicSharedSizeBytes = value[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
	attr->preferredShmemCarveout = value[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT];
	return cudaSuccess;
}

/* enum cudaFuncAttribute has the numbers of CUfunction_attribute. */
cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
	CUkernel kernel = NULL;
	cudaError_t e = gp_registry_kernel(func, &kernel);

	return gp_rt_note(e ? (CUresult)e
			    : gp_rt.cuFuncSetAttribute((CUfunction)kernel,
						       (CUfunction_attribute)attr, value));
}

cudaError_t CUDARTAPI cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
	CUkernel kernel = NULL;
	cudaError_t e = gp_registry_kernel(func, &kernel);

	return gp_rt_note(e ? (CUresult)e
			    : gp_rt.cuFuncSetCacheConfig((CUfunction)kernel, (CUfunc_cache)config));
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, const void *func, int block_size, size_t dyn_shared, unsigned int flags)
{
	CUkernel kernel = NULL;
	cudaError_t e = gp_registry_kernel(func, &kernel);

	return gp_rt_note(e ? (CUresult)e
			    : gp_rt.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
				      blocks, (CUfunction)kernel, block_size, dyn_shared, flags));
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func,
								    int block_size,
								    size_t dyn_shared)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, func, block_size,
								      dyn_shared, 0);
}
