/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How programs find us and how we find out that they use CUDA: cuInit and the resolver. A caller
 * that resolves by name gets our exported function wherever the real resolver gave the real one,
 * compared by address: which variant of a name fits the caller stays the driver's decision.
 */
#include "shim/interpose/driver.h"
#include "shim/shim.h"

#include <string.h>

GP_WRAP(cuInit, unsigned int flags)
{
	CUresult r = GP_REAL(cuInit)(flags);

	if (r == CUDA_SUCCESS)
		gp_shim_start();
	return r;
}

/* From this version on the resolver itself has the five arguments of cuGetProcAddress_v2. */
#define ENTRY_V2_VERSION 12000

/* The resolver must stay ours even where the driver hands out one it does not export. */
static void *entry_resolver(const char *symbol, int version)
{
	if (strcmp(symbol, "cuGetProcAddress") != 0)
		return NULL;
	return gp_interpose_exported(version >= ENTRY_V2_VERSION ? GP_CU_cuGetProcAddress_v2
								 : GP_CU_cuGetProcAddress);
}

static void entry_swap(CUresult r, const char *symbol, void **function, int version)
{
	void *resolver;

	if (r != CUDA_SUCCESS || !function || !*function)
		return;
	resolver = entry_resolver(symbol, version);
	*function = resolver ? resolver
			     : gp_interpose_exported_for(&gp_shim.interpose, *function, symbol);
}

GP_WRAP(cuGetProcAddress, const char *symbol, void **function, int version, cuuint64_t flags)
{
	CUresult r = GP_REAL(cuGetProcAddress)(symbol, function, version, flags);

	entry_swap(r, symbol, function, version);
	return r;
}

GP_WRAP(cuGetProcAddress_v2, const char *symbol, void **function, int version, cuuint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	CUresult r = GP_REAL(cuGetProcAddress_v2)(symbol, function, version, flags, status);

	entry_swap(r, symbol, function, version);
	return r;
}
