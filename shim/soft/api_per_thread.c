/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points of programs compiled for per-thread default streams (_ptsz, _ptds): the NULL stream
 * means the calling thread's own.
 */
#include "shim/soft/context.h"

static CUstream per_thread(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	CUresult r = cuMemcpyAsync(dst, src, bytes, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return cuMemcpyAsync(dst, src, bytes, per_thread(stream));
}

CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t bytes)
{
	CUresult r = cuMemcpyHtoDAsync_v2(dst, src, bytes, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void *dst, CUdeviceptr src, size_t bytes)
{
	CUresult r = cuMemcpyDtoHAsync_v2(dst, src, bytes, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	CUresult r = cuMemcpyDtoDAsync_v2(dst, src, bytes, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dst, const void *src, size_t bytes,
					   CUstream stream)
{
	return cuMemcpyHtoDAsync_v2(dst, src, bytes, per_thread(stream));
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2_ptsz(void *dst, CUdeviceptr src, size_t bytes,
					   CUstream stream)
{
	return cuMemcpyDtoHAsync_v2(dst, src, bytes, per_thread(stream));
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
					   CUstream stream)
{
	return cuMemcpyDtoDAsync_v2(dst, src, bytes, per_thread(stream));
}

CUresult CUDAAPI cuMemcpyPeer_ptds(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
				   CUcontext src_ctx, size_t bytes)
{
	CUresult r = cuMemcpyPeerAsync(dst, dst_ctx, src, src_ctx, bytes, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemcpyPeerAsync_ptsz(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
					CUcontext src_ctx, size_t bytes, CUstream stream)
{
	return cuMemcpyPeerAsync(dst, dst_ctx, src, src_ctx, bytes, per_thread(stream));
}

CUresult CUDAAPI cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *args)
{
	CUresult r = cuMemcpy2DAsync_v2(args, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *args)
{
	CUresult r = cuMemcpy2DAsync_v2(args, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *args, CUstream stream)
{
	return cuMemcpy2DAsync_v2(args, per_thread(stream));
}

CUresult CUDAAPI cuMemsetD8_v2_ptds(CUdeviceptr dst, unsigned char value, size_t n)
{
	CUresult r = cuMemsetD8Async(dst, value, n, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD16_v2_ptds(CUdeviceptr dst, unsigned short value, size_t n)
{
	CUresult r = cuMemsetD16Async(dst, value, n, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD32_v2_ptds(CUdeviceptr dst, unsigned int value, size_t n)
{
	CUresult r = cuMemsetD32Async(dst, value, n, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD2D8_v2_ptds(CUdeviceptr dst, size_t pitch, unsigned char value,
				      size_t width, size_t height)
{
	CUresult r = cuMemsetD2D8Async(dst, pitch, value, width, height, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD2D16_v2_ptds(CUdeviceptr dst, size_t pitch, unsigned short value,
				       size_t width, size_t height)
{
	CUresult r = cuMemsetD2D16Async(dst, pitch, value, width, height, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD2D32_v2_ptds(CUdeviceptr dst, size_t pitch, unsigned int value,
				       size_t width, size_t height)
{
	CUresult r = cuMemsetD2D32Async(dst, pitch, value, width, height, CU_STREAM_PER_THREAD);

	return r ? r : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

CUresult CUDAAPI cuMemsetD8Async_ptsz(CUdeviceptr dst, unsigned char value, size_t n,
				      CUstream stream)
{
	return cuMemsetD8Async(dst, value, n, per_thread(stream));
}

CUresult CUDAAPI cuMemsetD16Async_ptsz(CUdeviceptr dst, unsigned short value, size_t n,
				       CUstream stream)
{
	return cuMemsetD16Async(dst, value, n, per_thread(stream));
}

CUresult CUDAAPI cuMemsetD32Async_ptsz(CUdeviceptr dst, unsigned int value, size_t n,
				       CUstream stream)
{
	return cuMemsetD32Async(dst, value, n, per_thread(stream));
}

CUresult CUDAAPI cuMemsetD2D8Async_ptsz(CUdeviceptr dst, size_t pitch, unsigned char value,
					size_t width, size_t height, CUstream stream)
{
	return cuMemsetD2D8Async(dst, pitch, value, width, height, per_thread(stream));
}

CUresult CUDAAPI cuMemsetD2D16Async_ptsz(CUdeviceptr dst, size_t pitch, unsigned short value,
					 size_t width, size_t height, CUstream stream)
{
	return cuMemsetD2D16Async(dst, pitch, value, width, height, per_thread(stream));
}

CUresult CUDAAPI cuMemsetD2D32Async_ptsz(CUdeviceptr dst, size_t pitch, unsigned int value,
					 size_t width, size_t height, CUstream stream)
{
	return cuMemsetD2D32Async(dst, pitch, value, width, height, per_thread(stream));
}

CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction handle, unsigned int grid_x, unsigned int grid_y,
				     unsigned int grid_z, unsigned int block_x,
				     unsigned int block_y, unsigned int block_z,
				     unsigned int shared_bytes, CUstream stream_handle,
				     void **params, void **extra)
{
	return cuLaunchKernel(handle, grid_x, grid_y, grid_z, block_x, block_y, block_z,
			      shared_bytes, per_thread(stream_handle), params, extra);
}

CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction handle,
				       void **params, void **extra)
{
	CUlaunchConfig own;

	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	own = *config;
	own.hStream = per_thread(config->hStream);
	return cuLaunchKernelEx(&own, handle, params, extra);
}

CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream handle)
{
	return cuMemAllocAsync(dptr, bytes, per_thread(handle));
}

CUresult CUDAAPI cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream handle)
{
	return cuMemFreeAsync(dptr, per_thread(handle));
}

CUresult CUDAAPI cuStreamQuery_ptsz(CUstream handle)
{
	return cuStreamQuery(per_thread(handle));
}

CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream handle)
{
	return cuStreamSynchronize(per_thread(handle));
}

CUresult CUDAAPI cuStreamGetPriority_ptsz(CUstream handle, int *priority)
{
	return cuStreamGetPriority(per_thread(handle), priority);
}

CUresult CUDAAPI cuStreamGetFlags_ptsz(CUstream handle, unsigned int *flags)
{
	return cuStreamGetFlags(per_thread(handle), flags);
}

CUresult CUDAAPI cuStreamGetId_ptsz(CUstream handle, unsigned long long *id)
{
	return cuStreamGetId(per_thread(handle), id);
}

CUresult CUDAAPI cuStreamGetCtx_ptsz(CUstream handle, CUcontext *pctx)
{
	return cuStreamGetCtx(per_thread(handle), pctx);
}

CUresult CUDAAPI cuStreamGetDevice_ptsz(CUstream handle, CUdevice *device)
{
	return cuStreamGetDevice(per_thread(handle), device);
}

CUresult CUDAAPI cuStreamIsCapturing_ptsz(CUstream handle, CUstreamCaptureStatus *status)
{
	return cuStreamIsCapturing(per_thread(handle), status);
}

CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream handle, CUhostFn fn, void *arg)
{
	return cuLaunchHostFunc(per_thread(handle), fn, arg);
}

CUresult CUDAAPI cuStreamAddCallback_ptsz(CUstream handle, CUstreamCallback fn, void *arg,
					  unsigned int flags)
{
	return cuStreamAddCallback(per_thread(handle), fn, arg, flags);
}

CUresult CUDAAPI cuEventRecord_ptsz(CUevent handle, CUstream stream_handle)
{
	return cuEventRecord(handle, per_thread(stream_handle));
}

CUresult CUDAAPI cuEventRecordWithFlags_ptsz(CUevent handle, CUstream stream, unsigned int flags)
{
	return cuEventRecordWithFlags(handle, per_thread(stream), flags);
}

CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream stream_handle, CUevent handle, unsigned int flags)
{
	return cuStreamWaitEvent(per_thread(stream_handle), handle, flags);
}
