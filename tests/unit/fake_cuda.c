/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver of a dozen functions, for what the software device cannot show: stream capture,
 * functions that share an address, and all arguments of a call arriving. Memory is counted, not
 * used.
 */
#include "tests/unit/fake_cuda.h"

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAKE_BASE 0x500000000000ull

static struct {
	int capturing, n_synchronised, n_mapped;
	void (*hooks[FAKE_EVENTS_])(void);
	CUdeviceptr next;
} fake = { .next = FAKE_BASE };

int fake_n_synchronised(void)
{
	return fake.n_synchronised;
}

int fake_n_mapped(void)
{
	return fake.n_mapped;
}

void fake_on(enum fake_event event, void (*hook)(void))
{
	fake.hooks[event] = hook;
}

static void fake_happens(enum fake_event event)
{
	if (fake.hooks[event])
		fake.hooks[event]();
}

CUresult cuInit(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device)
{
	*ret = (CUcontext)&fake;
	return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	fake_happens(FAKE_DESTROY);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ret)
{
	*ret = (CUcontext)&fake;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *ret)
{
	*ret = 0;
	return CUDA_SUCCESS;
}

/* As the real one: it fails while a stream is captured, and the capture would be lost. */
CUresult cuCtxSynchronize(void)
{
	fake.n_synchronised++;
	return fake.capturing ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	fake.capturing = 1;
	fake_happens(FAKE_CAPTURE);
	return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *ret)
{
	fake.capturing = 0;
	*ret = NULL;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret, size_t bytes,
		     const CUmemAllocationProp *prop, unsigned long long flags)
{
	*ret = 1;
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ret, size_t bytes, size_t alignment, CUdeviceptr at,
			     unsigned long long flags)
{
	*ret = fake.next;
	fake.next += bytes;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes)
{
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags)
{
	fake.n_mapped++;
	return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
	fake.n_mapped--;
	return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
	return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *ret, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	*(int *)ret = (int)syscall(SYS_memfd_create, "fake", 0);
	fake_happens(FAKE_EXPORT);
	return CUDA_SUCCESS;
}

/* Eleven arguments: six in registers, five on the stack. */
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra)
{
	const uintptr_t want[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
	const uintptr_t got[] = { (uintptr_t)f,
				  gx,
				  gy,
				  gz,
				  bx,
				  by,
				  bz,
				  shared,
				  (uintptr_t)stream,
				  (uintptr_t)params,
				  (uintptr_t)extra };

	return memcmp(want, got, sizeof(want)) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Two functions with one body, as a linker that folds them would make. */
CUresult cuProfilerStart(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuStreamCreate(CUstream *ret, unsigned int flags)
	__attribute__((alias("cuProfilerStart")));

/* Found late in the binding of all functions: what the hook does then falls into its middle. */
static CUresult fake_exchange_mode(CUstreamCaptureMode *mode)
{
	return CUDA_SUCCESS;
}

static __typeof__(&fake_exchange_mode) fake_resolve_exchange_mode(void)
{
	fake_happens(FAKE_BIND);
	return fake_exchange_mode;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
	__attribute__((ifunc("fake_resolve_exchange_mode")));

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **ret, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	if (!strcmp(symbol, "cuProfilerStart"))
		*ret = (void *)cuProfilerStart;
	else if (!strcmp(symbol, "cuStreamCreate"))
		*ret = (void *)cuStreamCreate;
	else if (!strcmp(symbol, "cuUserObjectRelease"))
		*ret = (void *)cuUserObjectRelease;
	else if (!strcmp(symbol, "cuMemAlloc"))
		*ret = NULL;
	else if (!strcmp(symbol, "cuGetProcAddress"))
		*ret = (void *)fake_n_mapped; /* not exported under a driver's name */
	else
		return CUDA_ERROR_NOT_FOUND;
	if (status)
		*status = *ret ? CU_GET_PROC_ADDRESS_SUCCESS
			       : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	return CUDA_SUCCESS;
}
