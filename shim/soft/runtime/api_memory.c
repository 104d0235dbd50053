/* SPDX-License-Identifier: Apache-2.0 */
/* Runtime API: memory, copies, fills, symbols. */
#include "shim/soft/runtime/registry.h"
#include "shim/soft/runtime/runtime.h"

#include <stdint.h>
#include <string.h>

static CUdeviceptr rt_device(const void *p)
{
	return (CUdeviceptr)(uintptr_t)p;
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuMemGetInfo_v2(free_bytes, total));
}

cudaError_t CUDARTAPI cudaMalloc(void **p, size_t bytes)
{
	CUdeviceptr addr = 0;
	cudaError_t e = gp_rt_enter();

	if (!e && !p)
		e = cudaErrorInvalidValue;
	if (!e && bytes)
		e = (cudaError_t)gp_rt.cuMemAlloc_v2(&addr, bytes);
	if (!e)
		*p = (void *)(uintptr_t)addr;
	return gp_rt_note(e);
}

cudaError_t CUDARTAPI cudaFree(void *p)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e || !p ? (CUresult)e : gp_rt.cuMemFree_v2(rt_device(p)));
}

cudaError_t CUDARTAPI cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height)
{
	CUdeviceptr addr = 0;
	cudaError_t e = gp_rt_enter();

	if (!e && (!p || !pitch))
		e = cudaErrorInvalidValue;
	if (!e)
		e = (cudaError_t)gp_rt.cuMemAllocPitch_v2(&addr, pitch, width, height, 4);
	if (!e)
		*p = (void *)(uintptr_t)addr;
	return gp_rt_note(e);
}

cudaError_t CUDARTAPI cudaMallocAsync(void **p, size_t bytes, cudaStream_t stream)
{
	CUdeviceptr addr = 0;
	cudaError_t e = gp_rt_enter();

	if (!e && !p)
		e = cudaErrorInvalidValue;
	if (!e && bytes)
		e = (cudaError_t)gp_rt.cuMemAllocAsync(&addr, bytes, stream);
	if (!e)
		*p = (void *)(uintptr_t)addr;
	return gp_rt_note(e);
}

cudaError_t CUDARTAPI cudaFreeAsync(void *p, cudaStream_t stream)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e || !p ? (CUresult)e : gp_rt.cuMemFreeAsync(rt_device(p), stream));
}

cudaError_t CUDARTAPI cudaHostAlloc(void **p, size_t bytes, unsigned int flags)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuMemHostAlloc(p, bytes, flags));
}

cudaError_t CUDARTAPI cudaMallocHost(void **p, size_t bytes)
{
	return cudaHostAlloc(p, bytes, 0);
}

cudaError_t CUDARTAPI cudaFreeHost(void *p)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e || !p ? (CUresult)e : gp_rt.cuMemFreeHost(p));
}

cudaError_t CUDARTAPI cudaHostRegister(void *p, size_t bytes, unsigned int flags)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuMemHostRegister_v2(p, bytes, flags));
}

cudaError_t CUDARTAPI cudaHostUnregister(void *p)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuMemHostUnregister(p));
}

cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(
		e ? (CUresult)e
		  : gp_rt.cuMemHostGetDevicePointer_v2((CUdeviceptr *)device, host, flags));
}

cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int *flags, void *p)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuMemHostGetFlags(flags, p));
}

cudaError_t CUDARTAPI cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
	cudaError_t e = gp_rt_enter();

	if (e || !bytes)
		return gp_rt_note(e);
	switch (kind) {
	case cudaMemcpyHostToHost:
		e = (cudaError_t)gp_rt.cuMemcpy(rt_device(dst), rt_device(src), bytes);
		break;
	case cudaMemcpyHostToDevice:
		e = (cudaError_t)gp_rt.cuMemcpyHtoD_v2(rt_device(dst), src, bytes);
		break;
	case cudaMemcpyDeviceToHost:
		e = (cudaError_t)gp_rt.cuMemcpyDtoH_v2(dst, rt_device(src), bytes);
		break;
	case cudaMemcpyDeviceToDevice:
		e = (cudaError_t)gp_rt.cuMemcpyDtoD_v2(rt_device(dst), rt_device(src), bytes);
		break;
	case cudaMemcpyDefault:
		e = (cudaError_t)gp_rt.cuMemcpy(rt_device(dst), rt_device(src), bytes);
		break;
	default:
		e = cudaErrorInvalidMemcpyDirection;
	}
	return gp_rt_note(e);
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
				      enum cudaMemcpyKind kind, cudaStream_t stream)
{
	cudaError_t e = gp_rt_enter();

	if (e || !bytes)
		return gp_rt_note(e);
	switch (kind) {
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		e = (cudaError_t)gp_rt.cuMemcpyAsync(rt_device(dst), rt_device(src), bytes, stream);
		break;
	case cudaMemcpyHostToDevice:
		e = (cudaError_t)gp_rt.cuMemcpyHtoDAsync_v2(rt_device(dst), src, bytes, stream);
		break;
	case cudaMemcpyDeviceToHost:
		e = (cudaError_t)gp_rt.cuMemcpyDtoHAsync_v2(dst, rt_device(src), bytes, stream);
		break;
	case cudaMemcpyDeviceToDevice:
		e = (cudaError_t)gp_rt.cuMemcpyDtoDAsync_v2(rt_device(dst), rt_device(src), bytes,
							    stream);
		break;
	default:
		e = cudaErrorInvalidMemcpyDirection;
	}
	return gp_rt_note(e);
}

/* Both sides unified: addresses say where they are. */
static CUDA_MEMCPY2D rt_copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
				size_t width, size_t height)
{
	return (CUDA_MEMCPY2D){
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = rt_device(dst),
		.dstPitch = dst_pitch,
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = rt_device(src),
		.srcPitch = src_pitch,
		.WidthInBytes = width,
		.Height = height,
	};
}

static cudaError_t rt_check_2d(size_t dst_pitch, size_t src_pitch, size_t width,
			       enum cudaMemcpyKind kind)
{
	if ((unsigned int)kind > cudaMemcpyDefault)
		return cudaErrorInvalidMemcpyDirection;
	return width > dst_pitch || width > src_pitch ? cudaErrorInvalidPitchValue : cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
				   size_t width, size_t height, enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY2D args = rt_copy_2d(dst, dst_pitch, src, src_pitch, width, height);
	cudaError_t e = gp_rt_enter();

	if (!e)
		e = rt_check_2d(dst_pitch, src_pitch, width, kind);
	return gp_rt_note(e ? (CUresult)e : gp_rt.cuMemcpy2DUnaligned_v2(&args));
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
					size_t src_pitch, size_t width, size_t height,
					enum cudaMemcpyKind kind, cudaStream_t stream)
{
	CUDA_MEMCPY2D args = rt_copy_2d(dst, dst_pitch, src, src_pitch, width, height);
	cudaError_t e = gp_rt_enter();

	if (!e)
		e = rt_check_2d(dst_pitch, src_pitch, width, kind);
	return gp_rt_note(e ? (CUresult)e : gp_rt.cuMemcpy2DAsync_v2(&args, stream));
}

cudaError_t CUDARTAPI cudaMemset(void *p, int value, size_t bytes)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e
			    : gp_rt.cuMemsetD8_v2(rt_device(p), (unsigned char)value, bytes));
}

cudaError_t CUDARTAPI cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(
		e ? (CUresult)e
		  : gp_rt.cuMemsetD8Async(rt_device(p), (unsigned char)value, bytes, stream));
}

cudaError_t CUDARTAPI cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e
			    : gp_rt.cuMemsetD2D8_v2(rt_device(p), pitch, (unsigned char)value,
						    width, height));
}

cudaError_t CUDARTAPI cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width,
					size_t height, cudaStream_t stream)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e
			    : gp_rt.cuMemsetD2D8Async(rt_device(p), pitch, (unsigned char)value,
						      width, height, stream));
}

cudaError_t CUDARTAPI cudaGetSymbolAddress(void **p, const void *symbol)
{
	CUdeviceptr addr = 0;
	size_t bytes;
	cudaError_t e = p ? gp_registry_symbol(symbol, &addr, &bytes) : cudaErrorInvalidValue;

	if (!e)
		*p = (void *)(uintptr_t)addr;
	return gp_rt_note(e);
}

cudaError_t CUDARTAPI cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
	CUdeviceptr addr;

	return gp_rt_note(bytes ? gp_registry_symbol(symbol, &addr, bytes) : cudaErrorInvalidValue);
}

/* The address of [offset, offset + bytes) of a variable. */
static cudaError_t rt_symbol_part(const void *symbol, size_t offset, size_t bytes, void **ret)
{
	CUdeviceptr addr = 0;
	size_t size = 0;
	cudaError_t e = gp_registry_symbol(symbol, &addr, &size);

	if (!e && (offset > size || bytes > size - offset))
		e = cudaErrorInvalidValue;
	*ret = (void *)(uintptr_t)(addr + offset);
	return gp_rt_note(e);
}

cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *src, size_t bytes,
					 size_t offset, enum cudaMemcpyKind kind)
{
	void *dst;
	cudaError_t e = rt_symbol_part(symbol, offset, bytes, &dst);

	return e ? e : cudaMemcpy(dst, src, bytes, kind);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t bytes,
					   size_t offset, enum cudaMemcpyKind kind)
{
	void *src;
	cudaError_t e = rt_symbol_part(symbol, offset, bytes, &src);

	return e ? e : cudaMemcpy(dst, src, bytes, kind);
}

cudaError_t CUDARTAPI cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t bytes,
					      size_t offset, enum cudaMemcpyKind kind,
					      cudaStream_t stream)
{
	void *dst;
	cudaError_t e = rt_symbol_part(symbol, offset, bytes, &dst);

	return e ? e : cudaMemcpyAsync(dst, src, bytes, kind, stream);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t bytes,
						size_t offset, enum cudaMemcpyKind kind,
						cudaStream_t stream)
{
	void *src;
	cudaError_t e = rt_symbol_part(symbol, offset, bytes, &src);

	return e ? e : cudaMemcpyAsync(dst, src, bytes, kind, stream);
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
					       const void *p)
{
	CUpointer_attribute names[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	unsigned int type = 0;
	int ordinal = 0;
	void *values[] = { &type, &ordinal };
	cudaError_t e = gp_rt_enter();

	if (!e && !attributes)
		e = cudaErrorInvalidValue;
	if (!e)
		e = (cudaError_t)gp_rt.cuPointerGetAttributes(2, names, values, rt_device(p));
	if (e)
		return gp_rt_note(e);
	memset(attributes, 0, sizeof(*attributes));
	attributes->device = ordinal;
	attributes->type = type == CU_MEMORYTYPE_HOST	  ? cudaMemoryTypeHost
			   : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
							  : cudaMemoryTypeUnregistered;
	if (attributes->type != cudaMemoryTypeUnregistered)
		attributes->devicePointer = (void *)(uintptr_t)p;
	if (attributes->type != cudaMemoryTypeDevice)
		attributes->hostPointer = (void *)(uintptr_t)p;
	return cudaSuccess;
}
