/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and streams: calls that make or end channels. Those that may wait for the GPU only do
 * not start while the gate is closed; all others are counted as inside.
 */
#include "shim/interpose/driver.h"
#include "shim/shim.h"

#define OBJECT_GATED(name, params, args)                                                           \
	CUresult gp_wrap_##name params;                                                            \
	CUresult gp_wrap_##name params                                                             \
	{                                                                                          \
		int place = gp_gate_enter(&gp_shim.gate, #name);                                   \
		CUresult r = GP_REAL(name) args;                                                   \
                                                                                                   \
		gp_gate_leave(&gp_shim.gate, place);                                               \
		return r;                                                                          \
	}

OBJECT_GATED(cuStreamCreate, (CUstream * ret, unsigned int flags), (ret, flags))
OBJECT_GATED(cuStreamCreateWithPriority, (CUstream * ret, unsigned int flags, int priority),
	     (ret, flags, priority))
OBJECT_GATED(cuGreenCtxStreamCreate,
	     (CUstream * ret, CUgreenCtx context, unsigned int flags, int priority),
	     (ret, context, flags, priority))
OBJECT_GATED(cuGreenCtxCreate,
	     (CUgreenCtx * ret, CUdevResourceDesc desc, CUdevice device, unsigned int flags),
	     (ret, desc, device, flags))

GP_WRAP(cuGreenCtxDestroy, CUgreenCtx context)
{
	gp_gate_pass(&gp_shim.gate);
	return GP_REAL(cuGreenCtxDestroy)(context);
}

#define OBJECT_STREAM_DESTROY(name)                                                                \
	GP_WRAP(name, CUstream stream)                                                             \
	{                                                                                          \
		int place = gp_gate_enter(&gp_shim.gate, #name);                                   \
		CUresult r = GP_REAL(name)(stream);                                                \
                                                                                                   \
		gp_gate_leave(&gp_shim.gate, place);                                               \
		gp_captures_end(&gp_shim.captures, stream);                                        \
		return r;                                                                          \
	}

OBJECT_STREAM_DESTROY(cuStreamDestroy)
OBJECT_STREAM_DESTROY(cuStreamDestroy_v2)

/* After a call that made, or found, a context on @device. */
static void object_attach(CUresult r, CUcontext context, CUdevice device)
{
	if (r == CUDA_SUCCESS && gp_shim_managed())
		gp_control_attach(&gp_shim.control, context, device);
}

#define OBJECT_CONTEXT_CREATE(name, params, args)                                                  \
	CUresult gp_wrap_##name params;                                                            \
	CUresult gp_wrap_##name params                                                             \
	{                                                                                          \
		int place = gp_gate_enter(&gp_shim.gate, #name);                                   \
		CUresult r = GP_REAL(name) args;                                                   \
                                                                                                   \
		gp_gate_leave(&gp_shim.gate, place);                                               \
		object_attach(r, r == CUDA_SUCCESS ? *ret : NULL, device);                         \
		return r;                                                                          \
	}

OBJECT_CONTEXT_CREATE(cuCtxCreate_v2, (CUcontext * ret, unsigned int flags, CUdevice device),
		      (ret, flags, device))
OBJECT_CONTEXT_CREATE(cuCtxCreate_v3,
		      (CUcontext * ret, CUexecAffinityParam *affinity, int n, unsigned int flags,
		       CUdevice device),
		      (ret, affinity, n, flags, device))
OBJECT_CONTEXT_CREATE(cuCtxCreate_v4,
		      (CUcontext * ret, CUctxCreateParams *params, unsigned int flags,
		       CUdevice device),
		      (ret, params, flags, device))
OBJECT_CONTEXT_CREATE(cuDevicePrimaryCtxRetain, (CUcontext * ret, CUdevice device), (ret, device))

/* The context is gone, and with it the memory that was allocated in it, below @next_id. */
static void object_context_ended(CUcontext context, uint64_t next_id)
{
	int place = gp_gate_enter(&gp_shim.gate, "cuCtxDestroy");

	gp_extents_drop_context(&gp_shim.extents, context, next_id);
	gp_gate_leave(&gp_shim.gate, place);
	gp_control_context_ended(&gp_shim.control, context);
	gp_control_note_memory(&gp_shim.control);
}

#define OBJECT_CONTEXT_DESTROY(name)                                                               \
	GP_WRAP(name, CUcontext context)                                                           \
	{                                                                                          \
		uint64_t next_id;                                                                  \
		CUresult r;                                                                        \
                                                                                                   \
		if (!gp_shim_managed())                                                            \
			return GP_REAL(name)(context);                                             \
		gp_gate_pass(&gp_shim.gate);                                                       \
		next_id = gp_extents_next_id(&gp_shim.extents);                                    \
		r = GP_REAL(name)(context);                                                        \
		if (r == CUDA_SUCCESS)                                                             \
			object_context_ended(context, next_id);                                    \
		return r;                                                                          \
	}

OBJECT_CONTEXT_DESTROY(cuCtxDestroy)
OBJECT_CONTEXT_DESTROY(cuCtxDestroy_v2)

/*
 * The handle of a device's primary context, if that is active: retaining it once more and
 * releasing it again changes nothing.
 */
static CUcontext object_primary(CUdevice device)
{
	CUcontext context = NULL;
	unsigned int flags;
	int active = 0;

	if (GP_DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS ||
	    !active || GP_DRIVER(cuDevicePrimaryCtxRetain)(&context, device) != CUDA_SUCCESS)
		return NULL;
	GP_DRIVER(cuDevicePrimaryCtxRelease_v2)(device);
	return context;
}

/* After a reset, or a release that may have been the last one. */
static void object_primary_ended(CUdevice device, CUcontext context, uint64_t next_id)
{
	unsigned int flags;
	int active = 1;

	if (context &&
	    GP_DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS &&
	    !active)
		object_context_ended(context, next_id);
}

#define OBJECT_PRIMARY_END(name)                                                                   \
	GP_WRAP(name, CUdevice device)                                                             \
	{                                                                                          \
		CUcontext context;                                                                 \
		uint64_t next_id;                                                                  \
		CUresult r;                                                                        \
                                                                                                   \
		if (!gp_shim_managed())                                                            \
			return GP_REAL(name)(device);                                              \
		gp_gate_pass(&gp_shim.gate);                                                       \
		context = object_primary(device);                                                  \
		next_id = gp_extents_next_id(&gp_shim.extents);                                    \
		r = GP_REAL(name)(device);                                                         \
		object_primary_ended(device, context, next_id);                                    \
		return r;                                                                          \
	}

OBJECT_PRIMARY_END(cuDevicePrimaryCtxRelease)
OBJECT_PRIMARY_END(cuDevicePrimaryCtxRelease_v2)
OBJECT_PRIMARY_END(cuDevicePrimaryCtxReset)
OBJECT_PRIMARY_END(cuDevicePrimaryCtxReset_v2)
