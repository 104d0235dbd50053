/* SPDX-License-Identifier: Apache-2.0 */
/* Runtime API: streams, events, host functions. */
#include "shim/soft/runtime/runtime.h"

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags,
						   int priority)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e
			    : gp_rt.cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuStreamDestroy_v2(stream));
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuStreamQuery(stream));
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuStreamSynchronize(stream));
}

cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuStreamGetPriority(stream, priority));
}

cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuStreamGetFlags(stream, flags));
}

cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuStreamGetId(stream, id));
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
					  unsigned int flags)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuStreamWaitEvent(stream, event, flags));
}

/* enum cudaStreamCaptureStatus has the numbers of CUstreamCaptureStatus. */
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream,
					    enum cudaStreamCaptureStatus *status)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e
			    : gp_rt.cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status));
}

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *arg)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuLaunchHostFunc(stream, fn, arg));
}

/* Both callbacks are (stream, error number, argument): the same calling sequence. */
cudaError_t CUDARTAPI cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t fn, void *arg,
					    unsigned int flags)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(
		e ? (CUresult)e
		  : gp_rt.cuStreamAddCallback(stream, (CUstreamCallback)(void *)fn, arg, flags));
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuEventCreate(event, flags));
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuEventDestroy_v2(event));
}

cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
					       unsigned int flags)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuEventQuery(event));
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuEventSynchronize(event));
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
	cudaError_t e = gp_rt_enter();

	return gp_rt_note(e ? (CUresult)e : gp_rt.cuEventElapsedTime_v2(ms, start, end));
}
