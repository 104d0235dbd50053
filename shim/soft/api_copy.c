/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry points: copies and fills.
 *
 * Pageable host memory: an asynchronous copy from it returns only when the source may change again
 * (small ones are staged, larger ones waited for), a copy to it only when it is complete, as on the
 * card. Pinned memory on the host side: returns at once.
 */
#include "shim/soft/context.h"

#include <string.h>

#define GP_COPY_STAGED (64u << 10) /* up to here a pageable source is copied aside */

struct gp_copy_side {
	uint64_t addr, pitch;
	bool device;
};

static struct gp_copy_side copy_side(uint64_t addr, uint64_t pitch)
{
	return (struct gp_copy_side){ .addr = addr,
				      .pitch = pitch,
				      .device = gp_vm_is_device(addr) };
}

static uint64_t copy_span(const struct gp_copy_side *side, uint64_t width, uint64_t height)
{
	return (height - 1) * side->pitch + width;
}

static bool copy_is_pinned(uint64_t addr)
{
	struct gp_vm_range range;

	return gp_vm_find(addr, &range) &&
	       (range.kind == GP_VM_HOST || range.kind == GP_VM_REGISTERED);
}

/* Copies a small pageable source aside; false if it is too large or memory is short. */
static bool copy_stage(struct gp_op_copy *copy)
{
	uint64_t bytes = copy->width * copy->height;

	if (bytes > GP_COPY_STAGED)
		return false;
	copy->staged = malloc(bytes);
	if (!copy->staged)
		return false;
	for (uint64_t row = 0; row < copy->height; row++)
		memcpy((char *)copy->staged + row * copy->width,
		       (const void *)(uintptr_t)(copy->src + row * copy->src_pitch), copy->width);
	copy->src = (uintptr_t)copy->staged;
	copy->src_pitch = copy->width;
	return true;
}

static CUresult copy_check(const struct gp_copy_side *side, uint64_t width, uint64_t height)
{
	if (!side->addr || side->pitch < width || height > UINT64_MAX / side->pitch)
		return CUDA_ERROR_INVALID_VALUE;
	if (side->device && !gp_vm_covers(side->addr, copy_span(side, width, height)))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult copy_submit(struct gp_stream *stream, struct gp_copy_side dst,
			    struct gp_copy_side src, uint64_t width, uint64_t height, bool sync)
{
	struct gp_op *op;
	CUresult r;

	if (!width || !height)
		return sync ? gp_stream_wait(stream) : CUDA_SUCCESS;
	r = copy_check(&dst, width, height);
	if (!r)
		r = copy_check(&src, width, height);
	if (r)
		return r;
	op = calloc(1, sizeof(*op));
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->kind = GP_OP_COPY;
	op->copy = (struct gp_op_copy){
		.dst = dst.addr,
		.src = src.addr,
		.dst_pitch = dst.pitch,
		.src_pitch = src.pitch,
		.width = width,
		.height = height,
		.engine = !src.device  ? GP_RM_COPY_H2D
			  : dst.device ? GP_RM_COPY_D2D
				       : GP_RM_COPY_D2H,
	};
	/* One piece where it can be: rows without gaps. */
	if (dst.pitch == width && src.pitch == width) {
		op->copy.width = width * height;
		op->copy.height = 1;
	}
	if (!src.device && !copy_is_pinned(src.addr) && !sync && !copy_stage(&op->copy))
		sync = true;
	if (!dst.device && !copy_is_pinned(dst.addr))
		sync = true;
	return gp_queue_submit(stream, op, sync);
}

enum gp_copy_mode { GP_COPY_SYNC, GP_COPY_ASYNC };

static CUresult copy_linear(uint64_t dst, uint64_t src, size_t bytes, CUstream handle,
			    enum gp_copy_mode mode)
{
	struct gp_stream *stream;
	CUresult r = gp_driver_enter_stream(handle, &stream);
	struct gp_copy_side to, from;

	if (r)
		return r;
	to = copy_side(dst, bytes);
	from = copy_side(src, bytes);
	/* Between device addresses the synchronous form does not wait either. */
	return copy_submit(stream, to, from, bytes, 1,
			   mode == GP_COPY_SYNC && !(to.device && from.device));
}

/* As copy_linear, with sides that must be device memory. */
static CUresult copy_device(uint64_t dst, bool dst_device, uint64_t src, bool src_device,
			    size_t bytes, CUstream handle, enum gp_copy_mode mode)
{
	struct gp_stream *stream;
	CUresult r = gp_driver_enter_stream(handle, &stream);

	if (r)
		return r;
	if (bytes && ((dst_device && !gp_vm_is_device(dst) && !copy_is_pinned(dst)) ||
		      (src_device && !gp_vm_is_device(src) && !copy_is_pinned(src))))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_linear(dst, src, bytes, handle, mode);
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return copy_linear(dst, src, bytes, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy_linear(dst, src, bytes, stream, GP_COPY_ASYNC);
}

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
	return copy_device(dst, true, (uintptr_t)src, false, bytes, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
	return copy_device((uintptr_t)dst, false, src, true, bytes, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	return copy_device(dst, true, src, true, bytes, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes,
				      CUstream stream)
{
	return copy_device(dst, true, (uintptr_t)src, false, bytes, stream, GP_COPY_ASYNC);
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	return copy_device((uintptr_t)dst, false, src, true, bytes, stream, GP_COPY_ASYNC);
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
				      CUstream stream)
{
	return copy_device(dst, true, src, true, bytes, stream, GP_COPY_ASYNC);
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
			      CUcontext src_ctx, size_t bytes)
{
	return copy_linear(dst, src, bytes, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
				   CUcontext src_ctx, size_t bytes, CUstream stream)
{
	return copy_linear(dst, src, bytes, stream, GP_COPY_ASYNC);
}

/* Where a side of a 2D copy starts; 0 for arrays, which the device does not have. */
static uint64_t copy_2d_start(CUmemorytype type, const void *host, CUdeviceptr device, size_t x,
			      size_t y, size_t pitch)
{
	uint64_t base;

	switch (type) {
	case CU_MEMORYTYPE_HOST:
		base = (uintptr_t)host;
		break;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		base = device;
		break;
	default:
		return 0;
	}
	return base ? base + y * pitch + x : 0;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *args, CUstream handle, enum gp_copy_mode mode)
{
	struct gp_copy_side dst, src;
	struct gp_stream *stream;
	CUresult r = gp_driver_enter_stream(handle, &stream);
	size_t dst_pitch, src_pitch;

	if (r || !args)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	dst_pitch = args->dstPitch ? args->dstPitch : args->WidthInBytes;
	src_pitch = args->srcPitch ? args->srcPitch : args->WidthInBytes;
	dst = copy_side(copy_2d_start(args->dstMemoryType, args->dstHost, args->dstDevice,
				      args->dstXInBytes, args->dstY, dst_pitch),
			dst_pitch);
	src = copy_side(copy_2d_start(args->srcMemoryType, args->srcHost, args->srcDevice,
				      args->srcXInBytes, args->srcY, src_pitch),
			src_pitch);
	return copy_submit(stream, dst, src, args->WidthInBytes, args->Height,
			   mode == GP_COPY_SYNC && !(dst.device && src.device));
}

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *args)
{
	return copy_2d(args, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *args)
{
	return copy_2d(args, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *args, CUstream stream)
{
	return copy_2d(args, stream, GP_COPY_ASYNC);
}

/* @width counts elements. Fills of device memory return at once, synchronous or not. */
static CUresult fill_submit(CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t elem_bytes,
			    size_t width, size_t height, CUstream handle, enum gp_copy_mode mode)
{
	struct gp_copy_side side;
	struct gp_stream *stream;
	struct gp_op *op;
	CUresult r = gp_driver_enter_stream(handle, &stream);

	if (r || !width || !height)
		return r;
	if (width > UINT64_MAX / elem_bytes || dst % elem_bytes ||
	    (height > 1 && pitch % elem_bytes))
		return CUDA_ERROR_INVALID_VALUE;
	width *= elem_bytes;
	side = copy_side(dst, height > 1 ? pitch : width);
	if (!side.device && !copy_is_pinned(dst))
		return CUDA_ERROR_INVALID_VALUE;
	r = copy_check(&side, width, height);
	if (r)
		return r;
	op = calloc(1, sizeof(*op));
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->kind = GP_OP_FILL;
	op->fill = (struct gp_op_fill){
		.dst = dst,
		.pitch = side.pitch,
		.width = width,
		.height = height,
		.value = value,
		.elem_bytes = elem_bytes,
	};
	if (side.pitch == width) {
		op->fill.width = width * height;
		op->fill.height = 1;
	}
	return gp_queue_submit(stream, op, mode == GP_COPY_SYNC && !side.device);
}

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n)
{
	return fill_submit(dst, 0, value, 1, n, 1, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t n)
{
	return fill_submit(dst, 0, value, 2, n, 1, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr dst, unsigned int value, size_t n)
{
	return fill_submit(dst, 0, value, 4, n, 1, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
				 size_t height)
{
	return fill_submit(dst, pitch, value, 1, width, height, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemsetD2D16_v2(CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,
				  size_t height)
{
	return fill_submit(dst, pitch, value, 2, width, height, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
				  size_t height)
{
	return fill_submit(dst, pitch, value, 4, width, height, NULL, GP_COPY_SYNC);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
	return fill_submit(dst, 0, value, 1, n, 1, stream, GP_COPY_ASYNC);
}

CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
	return fill_submit(dst, 0, value, 2, n, 1, stream, GP_COPY_ASYNC);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream)
{
	return fill_submit(dst, 0, value, 4, n, 1, stream, GP_COPY_ASYNC);
}

CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,
				   size_t height, CUstream stream)
{
	return fill_submit(dst, pitch, value, 1, width, height, stream, GP_COPY_ASYNC);
}

CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short value,
				    size_t width, size_t height, CUstream stream)
{
	return fill_submit(dst, pitch, value, 2, width, height, stream, GP_COPY_ASYNC);
}

CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int value, size_t width,
				    size_t height, CUstream stream)
{
	return fill_submit(dst, pitch, value, 4, width, height, stream, GP_COPY_ASYNC);
}
