/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points: contexts. */
#include "shim/soft/context.h"

#define GP_CTX_LEAST_PRIORITY	 0
#define GP_CTX_GREATEST_PRIORITY (-5) /* as on the card */

static CUcontext to_handle(struct gp_ctx *ctx)
{
	return (CUcontext)ctx;
}

static struct gp_ctx *from_handle(CUcontext handle)
{
	return (struct gp_ctx *)handle;
}

static CUresult context_enter_device(CUdevice dev)
{
	CUresult r = gp_driver_enter();

	return r ? r : dev == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct gp_ctx *ctx = NULL;
	CUresult r = context_enter_device(dev);

	if (!r && !pctx)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = gp_primary_retain(&ctx);
	if (!r)
		*pctx = to_handle(ctx);
	return r;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult r = context_enter_device(dev);

	return r ? r : gp_primary_release();
}

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	CUresult r = context_enter_device(dev);

	return r ? r : gp_primary_reset();
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	CUresult r = context_enter_device(dev);

	return r ? r : gp_primary_set_flags(flags);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	CUresult r = context_enter_device(dev);

	if (!r && (!flags || !active))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		gp_primary_state(flags, active);
	return r;
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	struct gp_ctx *ctx = NULL;
	CUresult r = context_enter_device(dev);

	if (!r && !pctx)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = gp_ctx_new(flags, &ctx);
	if (r)
		return r;
	r = gp_ctx_push(ctx);
	if (r)
		gp_ctx_free(ctx);
	else
		*pctx = to_handle(ctx);
	return r;
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *params, int n_params,
				unsigned int flags, CUdevice dev)
{
	return n_params ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : cuCtxCreate_v2(pctx, flags, dev);
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags,
				CUdevice dev)
{
	if (params && (params->numExecAffinityParams || params->cigParams))
		return CUDA_ERROR_NOT_SUPPORTED;
	return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext handle)
{
	struct gp_ctx *ctx = from_handle(handle);
	CUresult r = gp_driver_enter();

	if (r)
		return r;
	if (!gp_ctx_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (gp_ctx_current() == ctx)
		gp_ctx_pop(NULL);
	gp_ctx_free(ctx);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext handle)
{
	CUresult r = gp_driver_enter();

	if (!r && !gp_ctx_valid(from_handle(handle)))
		r = CUDA_ERROR_INVALID_CONTEXT;
	return r ? r : gp_ctx_push(from_handle(handle));
}

CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *pctx)
{
	struct gp_ctx *ctx = NULL;
	CUresult r = gp_driver_enter();

	if (!r)
		r = gp_ctx_pop(&ctx);
	if (!r && pctx)
		*pctx = to_handle(ctx);
	return r;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle)
{
	CUresult r = gp_driver_enter();

	if (!r && handle && !gp_ctx_valid(from_handle(handle)))
		r = CUDA_ERROR_INVALID_CONTEXT;
	return r ? r : gp_ctx_set(from_handle(handle));
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx)
{
	CUresult r = gp_driver_enter();

	if (!r && !pctx)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*pctx = to_handle(gp_ctx_current());
	return r;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && !device)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*device = 0;
	return r;
}

/* The v2 forms name the context; NULL is the current one. */
static CUresult context_enter_named(CUcontext handle, struct gp_ctx **ret_ctx)
{
	CUresult r = handle ? gp_driver_enter() : gp_driver_enter_ctx(ret_ctx);

	if (r || !handle)
		return r;
	if (!gp_ctx_valid(from_handle(handle)))
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret_ctx = from_handle(handle);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
	struct gp_ctx *ctx;
	CUresult r = context_enter_named(handle, &ctx);

	if (!r && !device)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*device = 0;
	return r;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	return r ? r : gp_ctx_wait(ctx);
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext handle)
{
	struct gp_ctx *ctx;
	CUresult r = context_enter_named(handle, &ctx);

	return r ? r : gp_ctx_wait(ctx);
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && !flags)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*flags = ctx->flags;
	return r;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r)
		ctx->flags = flags;
	return r;
}

CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long *id)
{
	struct gp_ctx *ctx;
	CUresult r = context_enter_named(handle, &ctx);

	if (!r && !id)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*id = ctx->id;
	return r;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	struct gp_ctx *ctx;
	CUresult r = context_enter_named(handle, &ctx);

	if (!r && !version)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*version = 3020; /* what the card's driver answers for _v2 contexts */
	return r;
}

CUresult CUDAAPI cuCtxGetLimit(size_t *value, CUlimit limit)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && !value)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && limit >= CU_LIMIT_MAX)
		r = CUDA_ERROR_UNSUPPORTED_LIMIT;
	if (!r)
		*value = ctx->limits[limit];
	return r;
}

/* Kept and reported; the interpreter's memories are not bounded by them. */
CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && limit >= CU_LIMIT_MAX)
		r = CUDA_ERROR_UNSUPPORTED_LIMIT;
	if (!r)
		ctx->limits[limit] = value;
	return r;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *config)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && !config)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*config = CU_FUNC_CACHE_PREFER_NONE;
	return r;
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct gp_ctx *ctx;

	return gp_driver_enter_ctx(&ctx); /* a preference; there is no cache to configure */
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && least)
		*least = GP_CTX_LEAST_PRIORITY;
	if (!r && greatest)
		*greatest = GP_CTX_GREATEST_PRIORITY;
	return r;
}
