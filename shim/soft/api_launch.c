/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points: kernel launches and occupancy. */
#include "shim/soft/context.h"

#include <string.h>

/* Of an sm_90 multiprocessor and block, as api_device.c reports them. */
#define GP_LAUNCH_MAX_THREADS	  1024u
#define GP_LAUNCH_MAX_BLOCK_Z	  64u
#define GP_LAUNCH_MAX_GRID_X	  2147483647u
#define GP_LAUNCH_MAX_GRID_YZ	  65535u
#define GP_LAUNCH_SM_THREADS	  2048u
#define GP_LAUNCH_SM_BLOCKS	  32u
#define GP_LAUNCH_SM_SHARED	  233472u
#define GP_LAUNCH_RESERVED_SHARED 1024u

static CUresult launch_check(const struct gp_function *function,
			     const struct gp_exec_launch *launch)
{
	const uint32_t *grid = launch->grid, *block = launch->block;
	uint64_t threads;

	if (!grid[0] || !grid[1] || !grid[2] || !block[0] || !block[1] || !block[2])
		return CUDA_ERROR_INVALID_VALUE;
	if (grid[0] > GP_LAUNCH_MAX_GRID_X || grid[1] > GP_LAUNCH_MAX_GRID_YZ ||
	    grid[2] > GP_LAUNCH_MAX_GRID_YZ)
		return CUDA_ERROR_INVALID_VALUE;
	if (block[0] > GP_LAUNCH_MAX_THREADS || block[1] > GP_LAUNCH_MAX_THREADS ||
	    block[2] > GP_LAUNCH_MAX_BLOCK_Z)
		return CUDA_ERROR_INVALID_VALUE;
	threads = (uint64_t)block[0] * block[1] * block[2];
	if (threads > GP_LAUNCH_MAX_THREADS)
		return CUDA_ERROR_INVALID_VALUE;
	if (threads > function->info.max_threads)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	if (launch->dyn_shared_bytes > function->max_dyn_shared_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Packs the parameters as the kernel reads them, from either form of argument. */
static CUresult launch_pack(const struct gp_function *function, void **params, void **extra,
			    char *packed)
{
	const void *buffer = NULL;
	size_t bytes = 0;

	if (params) {
		for (uint32_t i = 0; i < function->info.n_params; i++) {
			const struct gp_ptx_param *param = &function->info.params[i];

			if (!params[i])
				return CUDA_ERROR_INVALID_VALUE;
			memcpy(packed + param->offset_bytes, params[i], param->size_bytes);
		}
		return extra ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = *(const size_t *)extra[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (bytes > function->info.param_bytes)
		bytes = function->info.param_bytes;
	if (buffer)
		memcpy(packed, buffer, bytes);
	else if (function->info.n_params)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult launch_submit(struct gp_stream *stream, struct gp_function *function,
			      const struct gp_exec_launch *launch, void **params, void **extra)
{
	struct gp_op *op;
	CUresult r = launch_check(function, launch);

	if (r)
		return r;
	op = calloc(1, sizeof(*op));
	if (op)
		op->kernel.params = calloc(1, function->info.param_bytes + 16u);
	if (!op || !op->kernel.params) {
		free(op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = launch_pack(function, params, extra, op->kernel.params);
	if (r) {
		free(op->kernel.params);
		free(op);
		return r;
	}
	op->kind = GP_OP_KERNEL;
	op->kernel.function = function;
	op->kernel.launch = *launch;
	op->kernel.launch.kernel = function->kernel;
	op->kernel.launch.params = op->kernel.params;
	op->kernel.n_blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
	gp_engine_prepare(op, stream->ctx);
	gp_module_ref(function->module);
	return gp_queue_submit(stream, op, false);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction handle, unsigned int grid_x, unsigned int grid_y,
				unsigned int grid_z, unsigned int block_x, unsigned int block_y,
				unsigned int block_z, unsigned int shared_bytes,
				CUstream stream_handle, void **params, void **extra)
{
	struct gp_function *function = (struct gp_function *)handle;
	struct gp_exec_launch launch = {
		.grid = { grid_x, grid_y, grid_z },
		.block = { block_x, block_y, block_z },
		.dyn_shared_bytes = shared_bytes,
	};
	struct gp_stream *stream;
	CUresult r = gp_driver_enter_stream(stream_handle, &stream);

	if (r)
		return r;
	if ((uintptr_t)function < 4096 || function->magic != GP_FUNCTION_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	return launch_submit(stream, function, &launch, params, extra);
}

/* Attributes that only advise are accepted; those that change what a launch means are refused. */
static CUresult launch_attribute(const CUlaunchAttribute *attribute)
{
	const CUlaunchAttributeValue *value = &attribute->value;

	switch (attribute->id) {
	case CU_LAUNCH_ATTRIBUTE_IGNORE:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
	/* Kernels of a stream run one after the other, which is what this one allows to relax. */
	case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		return value->cooperative ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		return value->clusterDim.x * value->clusterDim.y * value->clusterDim.z > 1
			       ? CUDA_ERROR_NOT_SUPPORTED
			       : CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle, void **params,
				  void **extra)
{
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < config->numAttrs; i++) {
		CUresult r = launch_attribute(&config->attrs[i]);

		if (r)
			return r;
	}
	return cuLaunchKernel(handle, config->gridDimX, config->gridDimY, config->gridDimZ,
			      config->blockDimX, config->blockDimY, config->blockDimZ,
			      config->sharedMemBytes, config->hStream, params, extra);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, CUfunction handle, int block_size, size_t dyn_shared, unsigned int flags)
{
	const struct gp_function *function = (const struct gp_function *)handle;
	size_t shared, n = GP_LAUNCH_SM_BLOCKS;
	CUresult r = gp_driver_enter();

	if (r)
		return r;
	if ((uintptr_t)function < 4096 || function->magic != GP_FUNCTION_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!blocks || block_size <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	shared = function->info.shared_bytes + dyn_shared + GP_LAUNCH_RESERVED_SHARED;
	if ((unsigned int)block_size > function->info.max_threads)
		n = 0;
	if (n > GP_LAUNCH_SM_THREADS / (unsigned int)block_size)
		n = GP_LAUNCH_SM_THREADS / (unsigned int)block_size;
	if (n > GP_LAUNCH_SM_SHARED / shared)
		n = GP_LAUNCH_SM_SHARED / shared;
	*blocks = (int)n;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle,
							     int block_size, size_t dyn_shared)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, block_size,
								    dyn_shared, 0);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_grid, int *block_size,
							   CUfunction handle,
							   CUoccupancyB2DSize shared_for_block,
							   size_t dyn_shared, int limit,
							   unsigned int flags)
{
	const struct gp_function *function = (const struct gp_function *)handle;
	int best = 0, best_threads = 0, best_blocks = 0, size;
	CUresult r = gp_driver_enter();

	if (r)
		return r;
	if ((uintptr_t)function < 4096 || function->magic != GP_FUNCTION_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!min_grid || !block_size)
		return CUDA_ERROR_INVALID_VALUE;
	size = (int)function->info.max_threads;
	if (limit > 0 && limit < size)
		size = limit;
	for (; size > 0; size = (size - 1) / 32 * 32) {
		int blocks = 0;
		size_t shared = shared_for_block ? shared_for_block(size) : dyn_shared;

		r = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, handle, size, shared);
		if (r)
			return r;
		if (blocks * size > best_threads) {
			best = size;
			best_blocks = blocks;
			best_threads = blocks * size;
		}
	}
	*block_size = best;
	*min_grid = best_blocks * (int)gp_engine_cores();
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block_size, CUfunction handle,
						  CUoccupancyB2DSize shared_for_block,
						  size_t dyn_shared, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block_size, handle,
							 shared_for_block, dyn_shared, limit, 0);
}
