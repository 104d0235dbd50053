/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuMemAlloc and cuMemFree over extents. What extents cannot serve (another device than the one
 * the daemon manages for us, a driver without exportable memory) goes to the driver and is counted
 * as resident. The 32-bit entry points of CUDA 3 (without _v2) are forwarded by a jump.
 */
#include "shim/interpose/driver.h"
#include "shim/shim.h"

#define ALLOC_PITCH_BYTES 512 /* what cuMemAllocPitch rounds rows up to */

static bool alloc_is_capture_error(CUresult r)
{
	return r >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
	       r <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/* Waits for everything in @context, whatever the thread's own context is. */
static CUresult alloc_synchronize(CUcontext context)
{
	CUcontext current = NULL, popped;
	CUresult r;

	GP_DRIVER(cuCtxGetCurrent)(&current);
	if (current == context)
		return GP_DRIVER(cuCtxSynchronize)();
	r = GP_DRIVER(cuCtxPushCurrent_v2)(context);
	if (r != CUDA_SUCCESS)
		return r;
	r = GP_DRIVER(cuCtxSynchronize)();
	GP_DRIVER(cuCtxPopCurrent_v2)(&popped);
	return r;
}

/* Frees what waited for a capture to end. Never while one goes on: the address stays remembered. */
static void alloc_flush_deferred(void)
{
	struct gp_extents *x = &gp_shim.extents;
	struct gp_allocation a;
	uint64_t address;

	while (!gp_captures_any(&gp_shim.captures) && gp_extents_deferred_take(x, &address)) {
		CUresult r = CUDA_SUCCESS;
		int place;

		if (gp_extents_find(x, address, &a))
			r = alloc_synchronize(a.context);
		if (alloc_is_capture_error(r)) {
			(void)gp_extents_defer(x, address);
			return;
		}
		place = gp_gate_enter(&gp_shim.gate, "cuMemFree_v2");
		gp_extents_free(x, address);
		gp_gate_leave(&gp_shim.gate, place);
		gp_control_note_memory(&gp_shim.control);
	}
}

/* Frees @address, the start of @a, with the meaning of cuMemFree: after all work in its context. */
static CUresult alloc_free(uint64_t address, const struct gp_allocation *a)
{
	CUresult r;
	int place;

	if (address != a->start)
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_captures_any(&gp_shim.captures))
		return gp_extents_defer(&gp_shim.extents, address);
	r = alloc_synchronize(a->context);
	if (alloc_is_capture_error(r))
		return gp_extents_defer(&gp_shim.extents, address);
	if (r != CUDA_SUCCESS)
		return r;
	place = gp_gate_enter(&gp_shim.gate, "cuMemFree_v2");
	r = gp_extents_free(&gp_shim.extents, address);
	gp_gate_leave(&gp_shim.gate, place);
	gp_control_note_memory(&gp_shim.control);
	return r;
}

/* The context and device of the calling thread, if the daemon manages that device for us. */
static bool alloc_place(CUcontext *ret_context, CUdevice *ret_device)
{
	*ret_context = NULL;
	if (GP_DRIVER(cuCtxGetCurrent)(ret_context) != CUDA_SUCCESS || !*ret_context ||
	    GP_DRIVER(cuCtxGetDevice)(ret_device) != CUDA_SUCCESS)
		return false;
	return gp_control_attach(&gp_shim.control, *ret_context, *ret_device);
}

static CUresult alloc_from_driver(CUdeviceptr *ret_address, size_t bytes)
{
	int place = gp_gate_enter(&gp_shim.gate, "cuMemAlloc_v2");
	CUresult r = GP_DRIVER(cuMemAlloc_v2)(ret_address, bytes);

	gp_gate_leave(&gp_shim.gate, place);
	if (r == CUDA_SUCCESS) {
		gp_resident_add(&gp_shim.resident, GP_RESIDENT_POINTER, *ret_address, bytes);
		gp_control_note_memory(&gp_shim.control);
	}
	return r;
}

static CUresult alloc_managed(CUdeviceptr *ret_address, size_t bytes)
{
	struct gp_need need = { .bytes = gp_round_up(bytes, GP_CHUNK_BYTES) };
	CUcontext context;
	CUdevice device;
	CUresult r;

	if (gp_extents_has_deferred(&gp_shim.extents))
		alloc_flush_deferred();
	/* Too large to be rounded up, and so to be anything but an error: the driver's. */
	if (need.bytes < bytes || !alloc_place(&context, &device))
		return alloc_from_driver(ret_address, bytes);
	do {
		int place = gp_gate_enter(&gp_shim.gate, "cuMemAlloc_v2");

		r = gp_extents_alloc(&gp_shim.extents, context, device, bytes, ret_address);
		gp_gate_leave(&gp_shim.gate, place);
	} while (r == CUDA_ERROR_OUT_OF_MEMORY && gp_control_need(&gp_shim.control, &need));
	if (r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY)
		return alloc_from_driver(ret_address, bytes);
	if (r == CUDA_SUCCESS)
		gp_control_note_memory(&gp_shim.control);
	return r;
}

GP_WRAP(cuMemAlloc_v2, CUdeviceptr *ret_address, size_t bytes)
{
	if (!gp_shim_managed() || !ret_address || !bytes)
		return GP_REAL(cuMemAlloc_v2)(ret_address, bytes);
	return alloc_managed(ret_address, bytes);
}

GP_WRAP(cuMemAllocPitch_v2, CUdeviceptr *ret_address, size_t *ret_pitch, size_t width,
	size_t height, unsigned int element_bytes)
{
	size_t pitch, bytes;
	CUresult r;

	if (!gp_shim_managed() || !ret_address || !ret_pitch || !width || !height ||
	    (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) ||
	    width > SIZE_MAX - ALLOC_PITCH_BYTES)
		return GP_REAL(cuMemAllocPitch_v2)(ret_address, ret_pitch, width, height,
						   element_bytes);
	pitch = gp_round_up(width, ALLOC_PITCH_BYTES);
	if (__builtin_mul_overflow(pitch, height, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = alloc_managed(ret_address, bytes);
	if (r == CUDA_SUCCESS)
		*ret_pitch = pitch;
	return r;
}

/* A pointer that is the driver's own. */
static CUresult alloc_free_forwarded(CUdeviceptr address)
{
	CUresult r;

	/* The driver waits for the GPU in here. */
	gp_gate_pass(&gp_shim.gate);
	r = GP_DRIVER(cuMemFree_v2)(address);
	if (r == CUDA_SUCCESS)
		gp_resident_remove(&gp_shim.resident, GP_RESIDENT_POINTER, address);
	return r;
}

GP_WRAP(cuMemFree_v2, CUdeviceptr address)
{
	struct gp_allocation a;

	if (!gp_shim_managed())
		return GP_REAL(cuMemFree_v2)(address);
	if (gp_extents_has_deferred(&gp_shim.extents))
		alloc_flush_deferred();
	if (gp_extents_find(&gp_shim.extents, address, &a))
		return alloc_free(address, &a);
	if (gp_extents_covers(&gp_shim.extents, address))
		return CUDA_ERROR_INVALID_VALUE;
	return alloc_free_forwarded(address);
}

/* Of memory that is not from a pool: waits for the whole context, which is more than was asked. */
#define ALLOC_FREE_ASYNC(name)                                                                     \
	GP_WRAP(name, CUdeviceptr address, CUstream stream)                                        \
	{                                                                                          \
		struct gp_allocation a;                                                            \
		CUresult r;                                                                        \
                                                                                                   \
		if (!gp_shim_managed())                                                            \
			return GP_REAL(name)(address, stream);                                     \
		if (gp_extents_find(&gp_shim.extents, address, &a))                                \
			return alloc_free(address, &a);                                            \
		r = GP_REAL(name)(address, stream);                                                \
		if (r == CUDA_SUCCESS)                                                             \
			gp_resident_remove(&gp_shim.resident, GP_RESIDENT_POINTER, address);       \
		return r;                                                                          \
	}

ALLOC_FREE_ASYNC(cuMemFreeAsync)
ALLOC_FREE_ASYNC(cuMemFreeAsync_ptsz)
