/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runtime API of programs compiled for per-thread default streams (_ptsz, _ptds): stream 0 means
 * the calling thread's own.
 */
#include "shim/soft/runtime/runtime.h"

static cudaStream_t per_thread(cudaStream_t stream)
{
	return stream ? stream : cudaStreamPerThread;
}

/* The synchronous forms: the asynchronous one on the thread's stream, waited for. */
static cudaError_t per_thread_wait(cudaError_t e)
{
	return e ? e : cudaStreamSynchronize(cudaStreamPerThread);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, struct dim3 grid, struct dim3 block,
				    void **args, size_t shared_bytes, cudaStream_t stream)
{
	return __cudaLaunchKernel(kernel, grid, block, args, shared_bytes, per_thread(stream));
}

cudaError_t CUDARTAPI cudaLaunchKernel_ptsz(const void *func, struct dim3 grid, struct dim3 block,
					    void **args, size_t shared_bytes, cudaStream_t stream)
{
	return cudaLaunchKernel(func, grid, block, args, shared_bytes, per_thread(stream));
}

cudaError_t CUDARTAPI cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func,
					       void **args)
{
	cudaLaunchConfig_t own;

	if (!config)
		return cudaLaunchKernelExC(config, func, args);
	own = *config;
	own.stream = per_thread(config->stream);
	return cudaLaunchKernelExC(&own, func, args);
}

cudaError_t CUDARTAPI cudaMallocAsync_ptsz(void **p, size_t bytes, cudaStream_t stream)
{
	return cudaMallocAsync(p, bytes, per_thread(stream));
}

cudaError_t CUDARTAPI cudaFreeAsync_ptsz(void *p, cudaStream_t stream)
{
	return cudaFreeAsync(p, per_thread(stream));
}

cudaError_t CUDARTAPI cudaMemcpy_ptds(void *dst, const void *src, size_t bytes,
				      enum cudaMemcpyKind kind)
{
	return per_thread_wait(cudaMemcpyAsync(dst, src, bytes, kind, cudaStreamPerThread));
}

cudaError_t CUDARTAPI cudaMemcpyAsync_ptsz(void *dst, const void *src, size_t bytes,
					   enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return cudaMemcpyAsync(dst, src, bytes, kind, per_thread(stream));
}

cudaError_t CUDARTAPI cudaMemcpy2D_ptds(void *dst, size_t dst_pitch, const void *src,
					size_t src_pitch, size_t width, size_t height,
					enum cudaMemcpyKind kind)
{
	return per_thread_wait(cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height,
						 kind, cudaStreamPerThread));
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync_ptsz(void *dst, size_t dst_pitch, const void *src,
					     size_t src_pitch, size_t width, size_t height,
					     enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, kind,
				 per_thread(stream));
}

cudaError_t CUDARTAPI cudaMemset_ptds(void *p, int value, size_t bytes)
{
	return per_thread_wait(cudaMemsetAsync(p, value, bytes, cudaStreamPerThread));
}

cudaError_t CUDARTAPI cudaMemsetAsync_ptsz(void *p, int value, size_t bytes, cudaStream_t stream)
{
	return cudaMemsetAsync(p, value, bytes, per_thread(stream));
}

cudaError_t CUDARTAPI cudaMemset2D_ptds(void *p, size_t pitch, int value, size_t width,
					size_t height)
{
	return per_thread_wait(
		cudaMemset2DAsync(p, pitch, value, width, height, cudaStreamPerThread));
}

cudaError_t CUDARTAPI cudaMemset2DAsync_ptsz(void *p, size_t pitch, int value, size_t width,
					     size_t height, cudaStream_t stream)
{
	return cudaMemset2DAsync(p, pitch, value, width, height, per_thread(stream));
}

cudaError_t CUDARTAPI cudaMemcpyToSymbol_ptds(const void *symbol, const void *src, size_t bytes,
					      size_t offset, enum cudaMemcpyKind kind)
{
	return per_thread_wait(
		cudaMemcpyToSymbolAsync(symbol, src, bytes, offset, kind, cudaStreamPerThread));
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbol_ptds(void *dst, const void *symbol, size_t bytes,
						size_t offset, enum cudaMemcpyKind kind)
{
	return per_thread_wait(
		cudaMemcpyFromSymbolAsync(dst, symbol, bytes, offset, kind, cudaStreamPerThread));
}

cudaError_t CUDARTAPI cudaMemcpyToSymbolAsync_ptsz(const void *symbol, const void *src,
						   size_t bytes, size_t offset,
						   enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return cudaMemcpyToSymbolAsync(symbol, src, bytes, offset, kind, per_thread(stream));
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbolAsync_ptsz(void *dst, const void *symbol, size_t bytes,
						     size_t offset, enum cudaMemcpyKind kind,
						     cudaStream_t stream)
{
	return cudaMemcpyFromSymbolAsync(dst, symbol, bytes, offset, kind, per_thread(stream));
}

cudaError_t CUDARTAPI cudaStreamQuery_ptsz(cudaStream_t stream)
{
	return cudaStreamQuery(per_thread(stream));
}

cudaError_t CUDARTAPI cudaStreamSynchronize_ptsz(cudaStream_t stream)
{
	return cudaStreamSynchronize(per_thread(stream));
}

cudaError_t CUDARTAPI cudaStreamGetPriority_ptsz(cudaStream_t stream, int *priority)
{
	return cudaStreamGetPriority(per_thread(stream), priority);
}

cudaError_t CUDARTAPI cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned int *flags)
{
	return cudaStreamGetFlags(per_thread(stream), flags);
}

cudaError_t CUDARTAPI cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long *id)
{
	return cudaStreamGetId(per_thread(stream), id);
}

cudaError_t CUDARTAPI cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event,
					       unsigned int flags)
{
	return cudaStreamWaitEvent(per_thread(stream), event, flags);
}

cudaError_t CUDARTAPI cudaStreamIsCapturing_ptsz(cudaStream_t stream,
						 enum cudaStreamCaptureStatus *status)
{
	return cudaStreamIsCapturing(per_thread(stream), status);
}

cudaError_t CUDARTAPI cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t fn, void *arg)
{
	return cudaLaunchHostFunc(per_thread(stream), fn, arg);
}

cudaError_t CUDARTAPI cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t fn,
						 void *arg, unsigned int flags)
{
	return cudaStreamAddCallback(per_thread(stream), fn, arg, flags);
}

cudaError_t CUDARTAPI cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream,
						    unsigned int flags)
{
	return cudaEventRecordWithFlags(event, per_thread(stream), flags);
}

cudaError_t CUDARTAPI cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
	return cudaEventRecord(event, per_thread(stream));
}
