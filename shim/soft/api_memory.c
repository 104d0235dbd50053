/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points: linear memory, host memory, what a pointer is. */
#include "base/size.h"
#include "shim/soft/context.h"

#include <errno.h>
#include <string.h>

#define GP_MEMORY_PITCH 512ull /* CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT */

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct gp_ctx *ctx;
	uint64_t used, capacity;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && (!free_bytes || !total_bytes))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	r = gp_driver_error(gp_state_memory(gp_driver_state(), &used, &capacity));
	if (r)
		return r;
	*free_bytes = used < capacity ? capacity - used : 0;
	*total_bytes = capacity;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	struct gp_ctx *ctx;
	uint64_t addr = 0;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && !dptr)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = gp_driver_error(gp_vm_alloc(bytes, &addr));
	if (!r)
		*dptr = addr;
	return r;
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
				    unsigned int elem_bytes)
{
	uint64_t row = gp_round_up(width, GP_MEMORY_PITCH);
	CUresult r;

	if (!pitch || !width || !height ||
	    (elem_bytes != 4 && elem_bytes != 8 && elem_bytes != 16) || row < width ||
	    row > SIZE_MAX / height)
		return CUDA_ERROR_INVALID_VALUE;
	r = cuMemAlloc_v2(dptr, row * height);
	if (!r)
		*pitch = row;
	return r;
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr)
{
	struct gp_vm_range range;
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (r || !dptr)
		return r;
	if (!gp_vm_find(dptr, &range) || range.addr != dptr || range.kind != GP_VM_ALLOC)
		return CUDA_ERROR_INVALID_VALUE;
	/* Freeing synchronises, as on the card: queued work may still use it. */
	r = gp_ctx_wait(ctx);
	return r ? r : gp_driver_error(gp_vm_free(dptr));
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream handle)
{
	struct gp_stream *stream;
	uint64_t addr = 0;
	CUresult r = gp_driver_enter_stream(handle, &stream);
	int code;

	if (!r && !dptr)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	/* Valid at once, which is earlier than promised. */
	code = gp_vm_alloc(bytes, &addr);
	if (code == -ENOMEM) {
		/* Frees that wait in streams may make room. */
		r = gp_ctx_wait(stream->ctx);
		if (r)
			return r;
		code = gp_vm_alloc(bytes, &addr);
	}
	if (code == 0)
		*dptr = addr;
	return gp_driver_error(code);
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream handle)
{
	struct gp_vm_range range;
	struct gp_stream *stream;
	struct gp_op *op;
	CUresult r = gp_driver_enter_stream(handle, &stream);

	if (r)
		return r;
	if (!gp_vm_find(dptr, &range) || range.addr != dptr || range.kind != GP_VM_ALLOC)
		return CUDA_ERROR_INVALID_VALUE;
	op = calloc(1, sizeof(*op));
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->kind = GP_OP_FREE;
	op->free_addr = dptr;
	return gp_queue_submit(stream, op, false);
}

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytes, unsigned int flags)
{
	struct gp_ctx *ctx;
	uint64_t addr = 0;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && !pp)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = gp_driver_error(gp_vm_host_alloc(bytes, &addr));
	if (!r)
		*pp = (void *)(uintptr_t)addr;
	return r;
}

CUresult CUDAAPI cuMemAllocHost_v2(void **pp, size_t bytes)
{
	return cuMemHostAlloc(pp, bytes, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r)
		r = gp_ctx_wait(ctx);
	return r ? r : gp_driver_error(gp_vm_host_free((uintptr_t)p));
}

CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	return r ? r : gp_driver_error(gp_vm_host_register((uintptr_t)p, bytes));
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r)
		r = gp_ctx_wait(ctx);
	if (!r && gp_vm_host_unregister((uintptr_t)p) < 0)
		r = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	return r;
}

static bool memory_is_host(const struct gp_vm_range *range)
{
	return range->kind == GP_VM_HOST || range->kind == GP_VM_REGISTERED;
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *p, unsigned int flags)
{
	struct gp_vm_range range;
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (r)
		return r;
	if (!dptr || flags || !gp_vm_find((uintptr_t)p, &range) || !memory_is_host(&range))
		return CUDA_ERROR_INVALID_VALUE;
	*dptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *flags, void *p)
{
	struct gp_vm_range range;
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (r)
		return r;
	if (!flags || !gp_vm_find((uintptr_t)p, &range) || !memory_is_host(&range))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr dptr)
{
	struct gp_vm_range range;
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (r)
		return r;
	if (!gp_vm_find(dptr, &range))
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = range.addr;
	if (bytes)
		*bytes = range.bytes;
	return CUDA_SUCCESS;
}

static void memory_handle_types(const struct gp_vm_range *range, void *data)
{
	*(unsigned long long *)data =
		range->kind == GP_VM_MAPPED ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
}

/* One attribute of a known pointer. NOT_SUPPORTED for what the device has no notion of. */
static CUresult memory_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr,
				 const struct gp_vm_range *range)
{
	bool host = memory_is_host(range);

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data =
			range->kind == GP_VM_MAPPED ? NULL : (CUcontext)gp_ctx_current();
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!host)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)(uintptr_t)ptr;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(unsigned char *)data = 0;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned char *)data = 1;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = range->id;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = 0;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = range->addr;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = range->bytes;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		memory_handle_types(range, data);
		break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(unsigned int *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = NULL;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = range->bytes;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = range->addr;
		break;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct gp_vm_range range;
	CUresult r = gp_driver_enter();

	if (!r && (!data || !gp_vm_find(ptr, &range)))
		r = CUDA_ERROR_INVALID_VALUE;
	return r ? r : memory_attribute(data, attribute, ptr, &range);
}

/* Unlike the single form, an unknown pointer is no error here: everything reads as zero. */
static void memory_attribute_none(void *data, CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data = 0;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = -2; /* CU_DEVICE_INVALID */
		break;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		memset(data, 0, 8);
		break;
	default:
		*(unsigned char *)data = 0;
	}
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes,
					void **data, CUdeviceptr ptr)
{
	struct gp_vm_range range;
	CUresult r = gp_driver_enter();
	bool known;

	if (!r && (!attributes || !data))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	known = gp_vm_find(ptr, &range);
	for (unsigned int i = 0; i < n; i++)
		if (!known || memory_attribute(data[i], attributes[i], ptr, &range))
			memory_attribute_none(data[i], attributes[i]);
	return CUDA_SUCCESS;
}
