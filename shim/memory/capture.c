/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/memory/capture.h"

#include "shim/interpose/driver.h"
#include "shim/shim.h"

void gp_captures_init(struct gp_captures *c)
{
	*c = (struct gp_captures){ 0 };
	pthread_mutex_init(&c->lock, NULL);
}

bool gp_captures_any(struct gp_captures *c)
{
	bool any;

	pthread_mutex_lock(&c->lock);
	any = c->n > 0;
	pthread_mutex_unlock(&c->lock);
	return any;
}

static void captures_begin(struct gp_captures *c, CUstream stream)
{
	pthread_mutex_lock(&c->lock);
	/* A table that is full forgets the capture; the driver's answer to a synchronise is left.
	 */
	if (c->n < GP_CAPTURES_MAX)
		c->streams[c->n++] = stream;
	pthread_mutex_unlock(&c->lock);
}

/* One capture of a stream: the handle of the per-thread stream means another one in each thread. */
static void captures_end_one(struct gp_captures *c, CUstream stream)
{
	pthread_mutex_lock(&c->lock);
	for (unsigned int i = 0; i < c->n; i++) {
		if (c->streams[i] == stream) {
			c->streams[i] = c->streams[--c->n];
			break;
		}
	}
	pthread_mutex_unlock(&c->lock);
}

void gp_captures_end(struct gp_captures *c, CUstream stream)
{
	pthread_mutex_lock(&c->lock);
	for (unsigned int i = 0; i < c->n; i++) {
		if (c->streams[i] == stream)
			c->streams[i--] = c->streams[--c->n];
	}
	pthread_mutex_unlock(&c->lock);
}

/*
 * Begin and end in all variants of the entry points. It is noted before it begins, so that no other
 * thread's free synchronises in between.
 */
#define CAPTURE_BEGIN(name, params, args)                                                          \
	CUresult gp_wrap_##name params;                                                            \
	CUresult gp_wrap_##name params                                                             \
	{                                                                                          \
		CUresult r;                                                                        \
                                                                                                   \
		if (!gp_shim_managed())                                                            \
			return GP_REAL(name) args;                                                 \
		captures_begin(&gp_shim.captures, stream);                                         \
		r = GP_REAL(name) args;                                                            \
		if (r != CUDA_SUCCESS)                                                             \
			captures_end_one(&gp_shim.captures, stream);                               \
		return r;                                                                          \
	}

CAPTURE_BEGIN(cuStreamBeginCapture, (CUstream stream), (stream))
CAPTURE_BEGIN(cuStreamBeginCapture_ptsz, (CUstream stream), (stream))
CAPTURE_BEGIN(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CAPTURE_BEGIN(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode),
	      (stream, mode))

#define CAPTURE_GRAPH_PARAMS                                                                       \
	(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,                          \
	 const CUgraphEdgeData *data, size_t n, CUstreamCaptureMode mode)
#define CAPTURE_GRAPH_ARGS (stream, graph, dependencies, data, n, mode)

CAPTURE_BEGIN(cuStreamBeginCaptureToGraph, CAPTURE_GRAPH_PARAMS, CAPTURE_GRAPH_ARGS)
CAPTURE_BEGIN(cuStreamBeginCaptureToGraph_ptsz, CAPTURE_GRAPH_PARAMS, CAPTURE_GRAPH_ARGS)

/* Whatever the driver answers, the capture is over. */
#define CAPTURE_END(name)                                                                          \
	GP_WRAP(name, CUstream stream, CUgraph *ret_graph)                                         \
	{                                                                                          \
		CUresult r = GP_REAL(name)(stream, ret_graph);                                     \
                                                                                                   \
		if (r != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)                                   \
			captures_end_one(&gp_shim.captures, stream);                               \
		return r;                                                                          \
	}

CAPTURE_END(cuStreamEndCapture)
CAPTURE_END(cuStreamEndCapture_ptsz)
