/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points: streams, events, host functions. */
#include "shim/soft/context.h"

#define GP_STREAM_LEAST_PRIORITY    0
#define GP_STREAM_GREATEST_PRIORITY (-5)

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *handle, unsigned int flags, int priority)
{
	struct gp_stream *stream;
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && (!handle || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	if (priority > GP_STREAM_LEAST_PRIORITY)
		priority = GP_STREAM_LEAST_PRIORITY;
	if (priority < GP_STREAM_GREATEST_PRIORITY)
		priority = GP_STREAM_GREATEST_PRIORITY;
	stream = gp_stream_new(ctx, flags, priority);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*handle = (CUstream)stream;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream *handle, unsigned int flags)
{
	return cuStreamCreateWithPriority(handle, flags, 0);
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream handle)
{
	struct gp_stream *stream;
	CUresult r = gp_driver_enter_stream(handle, &stream);

	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
		return r ? r : CUDA_ERROR_INVALID_HANDLE;
	/* Freed even where a sticky error is reported. */
	if (r != CUDA_ERROR_NOT_INITIALIZED && r != CUDA_ERROR_INVALID_HANDLE)
		gp_stream_free(stream);
	return r;
}

CUresult CUDAAPI cuStreamQuery(CUstream handle)
{
	struct gp_stream *stream;
	CUresult r = gp_driver_enter_stream(handle, &stream);

	return r ? r : gp_stream_query(stream);
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle)
{
	struct gp_stream *stream;
	CUresult r = gp_driver_enter_stream(handle, &stream);

	return r ? r : gp_stream_wait(stream);
}

/* A call that answers one thing about a stream. */
#define STREAM_GETTER(name, type, value)                                                           \
	CUresult CUDAAPI name(CUstream handle, type *ret)                                          \
	{                                                                                          \
		struct gp_stream *stream;                                                          \
		CUresult r = gp_driver_enter_stream(handle, &stream);                              \
                                                                                                   \
		if (!r && !ret)                                                                    \
			r = CUDA_ERROR_INVALID_VALUE;                                              \
		if (!r)                                                                            \
			*ret = (value);                                                            \
		return r;                                                                          \
	}

STREAM_GETTER(cuStreamGetPriority, int, stream->priority)
STREAM_GETTER(cuStreamGetFlags, unsigned int, stream->flags)
STREAM_GETTER(cuStreamGetId, unsigned long long, stream->id)
STREAM_GETTER(cuStreamGetCtx, CUcontext, (CUcontext)stream->ctx)
STREAM_GETTER(cuStreamGetDevice, CUdevice, 0)
/* There is no capture: graphs are not offered. */
STREAM_GETTER(cuStreamIsCapturing, CUstreamCaptureStatus, CU_STREAM_CAPTURE_STATUS_NONE)

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUresult r = gp_driver_enter();

	if (!r && !mode)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	return r;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *arg)
{
	struct gp_stream *stream;
	CUresult r = gp_driver_enter_stream(handle, &stream);
	struct gp_op *op;

	if (!r && !fn)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	op = calloc(1, sizeof(*op));
	if (!op)
		return CUDA_ERROR_OUT_OF_MEMORY;
	op->kind = GP_OP_HOST;
	op->host.fn = fn;
	op->host.arg = arg;
	return gp_queue_submit(stream, op, false);
}

struct gp_stream_callback {
	CUstreamCallback fn;
	CUstream stream;
	void *arg;
};

static void CUDA_CB stream_call_back(void *arg)
{
	struct gp_stream_callback *callback = arg;

	callback->fn(callback->stream, CUDA_SUCCESS, callback->arg);
	free(callback);
}

CUresult CUDAAPI cuStreamAddCallback(CUstream handle, CUstreamCallback fn, void *arg,
				     unsigned int flags)
{
	struct gp_stream_callback *callback;
	CUresult r;

	if (!fn || flags)
		return CUDA_ERROR_INVALID_VALUE;
	callback = malloc(sizeof(*callback));
	if (!callback)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*callback = (struct gp_stream_callback){ .fn = fn, .stream = handle, .arg = arg };
	r = cuLaunchHostFunc(handle, stream_call_back, callback);
	if (r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_CONTEXT ||
	    r == CUDA_ERROR_INVALID_HANDLE || r == CUDA_ERROR_OUT_OF_MEMORY)
		free(callback); /* not queued */
	return r;
}

static CUresult event_enter(CUevent handle, struct gp_event **ret_event)
{
	CUresult r = gp_driver_enter();

	*ret_event = (struct gp_event *)handle;
	if (!r && ((uintptr_t)handle < 4096 || (*ret_event)->magic != GP_EVENT_MAGIC))
		r = CUDA_ERROR_INVALID_HANDLE;
	return r;
}

/* A sticky error of the current context outranks what an event would answer. */
static CUresult event_ctx_error(void)
{
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	return r == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : r;
}

CUresult CUDAAPI cuEventCreate(CUevent *handle, unsigned int flags)
{
	struct gp_event *event;
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (r)
		return r;
	if (!handle || (flags & ~(unsigned int)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE; /* including events of other processes */
	event = calloc(1, sizeof(*event));
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->magic = GP_EVENT_MAGIC;
	event->flags = flags;
	*handle = (CUevent)event;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent handle)
{
	struct gp_event *event;
	CUresult r = event_enter(handle, &event);

	if (!r)
		gp_event_free(event);
	return r;
}

CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream stream_handle)
{
	struct gp_stream *stream;
	struct gp_event *event;
	CUresult r = event_enter(handle, &event);

	if (!r)
		r = gp_driver_enter_stream(stream_handle, &stream);
	return r ? r : gp_event_record(event, stream);
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : cuEventRecord(handle, stream);
}

CUresult CUDAAPI cuEventQuery(CUevent handle)
{
	struct gp_event *event;
	CUresult r = event_enter(handle, &event);

	if (!r)
		r = event_ctx_error();
	if (r)
		return r;
	pthread_mutex_lock(&gp_queue.lock);
	if (event->last && !event->last->done)
		r = CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&gp_queue.lock);
	return r;
}

CUresult CUDAAPI cuEventSynchronize(CUevent handle)
{
	struct gp_event *event;
	CUresult r = event_enter(handle, &event);

	return r ? r : gp_event_wait(event, gp_ctx_current());
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *ms, CUevent start_handle, CUevent end_handle)
{
	struct gp_event *start, *end;
	CUresult r = event_enter(start_handle, &start);

	if (!r)
		r = event_enter(end_handle, &end);
	if (!r)
		r = event_ctx_error();
	if (r)
		return r;
	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&gp_queue.lock);
	if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) || !start->last || !end->last)
		r = CUDA_ERROR_INVALID_HANDLE;
	else if (!start->last->done || !end->last->done)
		r = CUDA_ERROR_NOT_READY;
	else
		*ms = (float)((double)(int64_t)(end->last->time_ns - start->last->time_ns) / 1e6);
	pthread_mutex_unlock(&gp_queue.lock);
	return r;
}

CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(ms, start, end);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags)
{
	struct gp_stream *stream;
	struct gp_event *event;
	CUresult r = event_enter(handle, &event);

	if (!r && flags)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = gp_driver_enter_stream(stream_handle, &stream);
	return r ? r : gp_stream_wait_event(stream, event);
}
