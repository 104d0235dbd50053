/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points: finding entry points. What is not in entries.inc does not exist. */
#include "shim/soft/context.h"

#include <string.h>

static const struct {
	const char *name;
	int since;
	void *symbol, *per_thread;
} resolve_entries[] = {
#define X(entry, since, symbol, per_thread) { entry, since, (void *)symbol, (void *)per_thread },
#include "shim/soft/entries.inc"
#undef X
};

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
				     CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;

	if (!symbol || !pfn ||
	    (flags & ~(cuuint64_t)(CU_GET_PROC_ADDRESS_LEGACY_STREAM |
				   CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
		return CUDA_ERROR_INVALID_VALUE;
	*pfn = NULL;
	for (size_t i = 0; i < GP_ARRAY_SIZE(resolve_entries); i++) {
		if (strcmp(resolve_entries[i].name, symbol))
			continue;
		if (resolve_entries[i].since > version) {
			if (!*pfn)
				found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
			continue;
		}
		*pfn = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
			       ? resolve_entries[i].per_thread
			       : resolve_entries[i].symbol;
		found = CU_GET_PROC_ADDRESS_SUCCESS;
	}
	if (status)
		*status = found;
	return found == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	return cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);
}
