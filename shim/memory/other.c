/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory of kinds that cannot be moved: forwarded through the gate, and counted. */
#include "shim/interpose/driver.h"
#include "shim/shim.h"

static void other_count(CUresult r, enum gp_resident_kind kind, uint64_t key, uint64_t bytes)
{
	if (r != CUDA_SUCCESS)
		return;
	gp_resident_add(&gp_shim.resident, kind, key, bytes);
	gp_control_note_memory(&gp_shim.control);
}

static void other_uncount(CUresult r, enum gp_resident_kind kind, uint64_t key)
{
	if (r != CUDA_SUCCESS)
		return;
	gp_resident_remove(&gp_shim.resident, kind, key);
	gp_control_note_memory(&gp_shim.control);
}

/* An allocating call: @value is where it stores what @kind is known by. */
#define OTHER_ALLOC(name, kind, params, args, value, bytes)                                        \
	CUresult gp_wrap_##name params;                                                            \
	CUresult gp_wrap_##name params                                                             \
	{                                                                                          \
		CUresult r;                                                                        \
		int place;                                                                         \
                                                                                                   \
		if (!gp_shim_managed())                                                            \
			return GP_REAL(name) args;                                                 \
		place = gp_gate_enter(&gp_shim.gate, #name);                                       \
		r = GP_REAL(name) args;                                                            \
		gp_gate_leave(&gp_shim.gate, place);                                               \
		if (r == CUDA_SUCCESS)                                                             \
			other_count(r, kind, (uint64_t)*value, bytes);                             \
		return r;                                                                          \
	}

OTHER_ALLOC(cuMemAllocManaged, GP_RESIDENT_POINTER,
	    (CUdeviceptr * ret, size_t bytes, unsigned int flags), (ret, bytes, flags), ret, bytes)
OTHER_ALLOC(cuMemAllocAsync, GP_RESIDENT_POINTER,
	    (CUdeviceptr * ret, size_t bytes, CUstream stream), (ret, bytes, stream), ret, bytes)
OTHER_ALLOC(cuMemAllocAsync_ptsz, GP_RESIDENT_POINTER,
	    (CUdeviceptr * ret, size_t bytes, CUstream stream), (ret, bytes, stream), ret, bytes)
OTHER_ALLOC(cuMemAllocFromPoolAsync, GP_RESIDENT_POINTER,
	    (CUdeviceptr * ret, size_t bytes, CUmemoryPool pool, CUstream stream),
	    (ret, bytes, pool, stream), ret, bytes)
OTHER_ALLOC(cuMemAllocFromPoolAsync_ptsz, GP_RESIDENT_POINTER,
	    (CUdeviceptr * ret, size_t bytes, CUmemoryPool pool, CUstream stream),
	    (ret, bytes, pool, stream), ret, bytes)

static uint64_t other_format_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	default:
		return 4;
	}
}

static uint64_t other_array_bytes(size_t width, size_t height, size_t depth, CUarray_format format,
				  unsigned int channels)
{
	return (uint64_t)width * (height ? height : 1) * (depth ? depth : 1) *
	       other_format_bytes(format) * channels;
}

OTHER_ALLOC(cuArrayCreate_v2, GP_RESIDENT_ARRAY, (CUarray * ret, const CUDA_ARRAY_DESCRIPTOR *d),
	    (ret, d), ret, other_array_bytes(d->Width, d->Height, 1, d->Format, d->NumChannels))
OTHER_ALLOC(cuArray3DCreate_v2, GP_RESIDENT_ARRAY,
	    (CUarray * ret, const CUDA_ARRAY3D_DESCRIPTOR *d), (ret, d), ret,
	    other_array_bytes(d->Width, d->Height, d->Depth, d->Format, d->NumChannels))

GP_WRAP(cuArrayDestroy, CUarray array)
{
	CUresult r;

	if (!gp_shim_managed())
		return GP_REAL(cuArrayDestroy)(array);
	gp_gate_pass(&gp_shim.gate);
	r = GP_REAL(cuArrayDestroy)(array);
	other_uncount(r, GP_RESIDENT_ARRAY, (uint64_t)array);
	return r;
}

/* The program's own handles: not moved, but a full card is worth asking the daemon about. */
GP_WRAP(cuMemCreate, CUmemGenericAllocationHandle *ret, size_t bytes,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct gp_need need = { .bytes = bytes };
	CUresult r;

	if (!gp_shim_managed() || !prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return GP_REAL(cuMemCreate)(ret, bytes, prop, flags);
	do {
		int place = gp_gate_enter(&gp_shim.gate, "cuMemCreate");

		r = GP_REAL(cuMemCreate)(ret, bytes, prop, flags);
		gp_gate_leave(&gp_shim.gate, place);
	} while (r == CUDA_ERROR_OUT_OF_MEMORY && gp_control_need(&gp_shim.control, &need));
	if (r == CUDA_SUCCESS)
		other_count(r, GP_RESIDENT_HANDLE, *ret, bytes);
	return r;
}

GP_WRAP(cuMemRelease, CUmemGenericAllocationHandle handle)
{
	CUresult r;
	int place;

	if (!gp_shim_managed())
		return GP_REAL(cuMemRelease)(handle);
	place = gp_gate_enter(&gp_shim.gate, "cuMemRelease");
	r = GP_REAL(cuMemRelease)(handle);
	gp_gate_leave(&gp_shim.gate, place);
	other_uncount(r, GP_RESIDENT_HANDLE, handle);
	return r;
}
