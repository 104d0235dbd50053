/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How programs find us and how we find out that they use CUDA: cuInit and the resolver. A caller
 * that resolves by name gets our exported function wherever the real resolver gave the real one,
 * compared by address: which variant of a name fits the caller stays the driver's decision.
 */
#include "shim/interpose/driver.h"
#include "shim/shim.h"

GP_WRAP(cuInit, unsigned int flags)
{
	CUresult r = GP_REAL(cuInit)(flags);

	if (r == CUDA_SUCCESS)
		gp_shim_start();
	return r;
}

static void entry_swap(CUresult r, void **function)
{
	if (r == CUDA_SUCCESS && function && *function)
		*function = gp_interpose_exported_for(&gp_shim.interpose, *function);
}

GP_WRAP(cuGetProcAddress, const char *symbol, void **function, int version, cuuint64_t flags)
{
	CUresult r = GP_REAL(cuGetProcAddress)(symbol, function, version, flags);

	entry_swap(r, function);
	return r;
}

GP_WRAP(cuGetProcAddress_v2, const char *symbol, void **function, int version, cuuint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	CUresult r = GP_REAL(cuGetProcAddress_v2)(symbol, function, version, flags, status);

	entry_swap(r, function);
	return r;
}
