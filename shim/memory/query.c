/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs ask about their pointers. To the driver an extent is a mapping; the program must
 * see the allocation it made, with an identity that outlives eviction.
 */
#include "shim/interpose/driver.h"
#include "shim/shim.h"

GP_WRAP(cuMemGetAddressRange_v2, CUdeviceptr *ret_base, size_t *ret_bytes, CUdeviceptr address)
{
	struct gp_allocation a;

	if (!gp_shim_managed() || !gp_extents_find(&gp_shim.extents, address, &a))
		return GP_REAL(cuMemGetAddressRange_v2)(ret_base, ret_bytes, address);
	if (ret_base)
		*ret_base = a.start;
	if (ret_bytes)
		*ret_bytes = a.bytes;
	return CUDA_SUCCESS;
}

/* True if the answer about @a is ours to give; *@data then holds it. */
static bool query_answer(const struct gp_allocation *a, CUdeviceptr address,
			 CUpointer_attribute attribute, void *data)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = a->context;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data = CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = address;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = a->buffer_id;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = a->start;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = a->bytes;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned int *)data = 1;
		return true;
	/* Handles that outlive an eviction would keep its memory from being freed. */
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned int *)data = 0;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = 0;
		return true;
	default:
		return false;
	}
}

GP_WRAP(cuPointerGetAttribute, void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct gp_allocation a;

	if (!gp_shim_managed() || !data || !gp_extents_find(&gp_shim.extents, address, &a))
		return GP_REAL(cuPointerGetAttribute)(data, attribute, address);
	if (query_answer(&a, address, attribute, data))
		return CUDA_SUCCESS;
	gp_gate_pass(&gp_shim.gate);
	return GP_REAL(cuPointerGetAttribute)(data, attribute, address);
}

GP_WRAP(cuPointerGetAttributes, unsigned int n, CUpointer_attribute *attributes, void **data,
	CUdeviceptr address)
{
	struct gp_allocation a;
	CUresult r;

	if (!gp_shim_managed() || !gp_extents_find(&gp_shim.extents, address, &a))
		return GP_REAL(cuPointerGetAttributes)(n, attributes, data, address);
	gp_gate_pass(&gp_shim.gate);
	r = GP_REAL(cuPointerGetAttributes)(n, attributes, data, address);
	for (unsigned int i = 0; r == CUDA_SUCCESS && i < n; i++)
		(void)query_answer(&a, address, attributes[i], data[i]);
	return r;
}

/* To the program this is memory of cuMemAlloc, which has no handle. */
GP_WRAP(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *ret_handle, void *address)
{
	if (gp_shim_managed() && gp_extents_covers(&gp_shim.extents, (CUdeviceptr)address))
		return CUDA_ERROR_INVALID_VALUE;
	return GP_REAL(cuMemRetainAllocationHandle)(ret_handle, address);
}
