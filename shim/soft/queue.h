/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_QUEUE_H
#define GP_SHIM_SOFT_QUEUE_H
/*
 * Streams, events and the order of work.
 *
 * A stream is a queue of operations; only its head may run. Operations carry numbers in order of
 * submission; the legacy default stream's head waits until no blocking stream of its context has an
 * older operation, and their heads wait while the legacy stream has an older one.
 * Kernels go to the worker threads, copies and fills to the two copy engines, host functions to a
 * thread of their own (engine.c); waits, records and frees complete on the spot.
 *
 * One lock (gp_queue.lock) guards all of it. It is not held while an operation runs. A submission
 * blocks while its stream holds GP_QUEUE_DEPTH operations, as the card's launch queue does.
 */
#include "base/list.h"
#include "shim/soft/cuda_abi.h"
#include "shim/soft/module.h"
#include "shim/soft/rm.h"

#include <pthread.h>

#define GP_QUEUE_DEPTH 1024

struct gp_ctx;

enum gp_op_kind {
	GP_OP_KERNEL,
	GP_OP_COPY,
	GP_OP_FILL,
	GP_OP_RECORD,
	GP_OP_WAIT,
	GP_OP_HOST,
	GP_OP_FREE,
};

/* One recording of an event. Shared by the event and the operations that wait for it. */
struct gp_record {
	unsigned int refs;
	bool done;
	uint64_t time_ns;
};

/* Also a 2D copy: @height rows of @width bytes. Done row by row from @pos (bytes done in all). */
struct gp_op_copy {
	uint64_t dst, src;
	uint64_t dst_pitch, src_pitch;
	uint64_t width, height;
	uint64_t pos;
	enum gp_rm_copy engine;
	void *staged; /* copy of a pageable source, freed with the operation */
};

struct gp_op_fill {
	uint64_t dst, pitch;
	uint64_t width, height; /* width in bytes */
	uint64_t pos;
	uint32_t value;
	uint32_t elem_bytes; /* 1, 2 or 4 */
};

struct gp_op_kernel {
	struct gp_function *function; /* its module is pinned by a reference */
	struct gp_exec_launch launch;
	void *params;
	uint64_t n_blocks, next_block;
	unsigned int n_inside; /* worker threads in a block */
	int error;	       /* negative errno of the first failed block */
};

struct gp_op {
	struct gp_list entry; /* in its stream */
	struct gp_list run;   /* in an engine's list once issued */
	struct gp_stream *stream;
	uint64_t number;
	enum gp_op_kind kind;
	bool issued;
	struct gp_state_channel *channel; /* kernels, copies, fills */
	union {
		struct gp_op_kernel kernel;
		struct gp_op_copy copy;
		struct gp_op_fill fill;
		struct gp_record *record; /* RECORD and WAIT: one reference */
		struct {
			CUhostFn fn;
			void *arg;
		} host;
		uint64_t free_addr;
	};
};

#define GP_STREAM_MAGIC 0x5354524du
struct gp_stream {
	uint32_t magic;
	uint32_t index; /* which of the context's channels */
	struct gp_ctx *ctx;
	struct gp_list entry;  /* in the context */
	struct gp_list active; /* in gp_queue.active while it holds operations */
	struct gp_list ops;
	unsigned int n_ops;
	unsigned int flags;
	int priority;
	bool is_legacy, destroyed;
	uint64_t id;
};

#define GP_EVENT_MAGIC 0x4556454eu
struct gp_event {
	uint32_t magic;
	unsigned int flags;
	struct gp_record *last; /* NULL: never recorded */
};

struct gp_queue {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* an operation completed */
	pthread_cond_t work;	/* a kernel can be worked on */
	pthread_cond_t host_work;
	struct gp_list active;		    /* streams with operations */
	struct gp_list kernels, host_calls; /* issued, in order */
	struct gp_list copies[2];	    /* by copy engine: 0 = host to device, 1 = the rest */
	uint64_t last_number, last_stream_id;
	uint32_t *doorbell; /* wakes the copy engines */
	bool started;
};

extern struct gp_queue gp_queue;

/* Starts the engine threads on first use. Negative errno. */
gp_must_check int gp_engine_start(struct gp_err *err);

/* Compute worker threads: GPUPRES_SOFT_CORES, default all cores. */
unsigned int gp_engine_cores(void);

/* Points a kernel operation at the gate of its context. */
void gp_engine_prepare(struct gp_op *op, struct gp_ctx *ctx);

/* A new stream of @ctx. NULL when out of memory. */
struct gp_stream *gp_stream_new(struct gp_ctx *ctx, unsigned int flags, int priority);
/* Gone at once for the program; freed when its operations are done. */
void gp_stream_free(struct gp_stream *stream);

/*
 * Puts @op (malloc'ed, kind and union filled) at the end of @stream and owns it from then on. May
 * block on a full queue. With @wait, returns when it is done. The context's error, if any.
 */
CUresult gp_queue_submit(struct gp_stream *stream, struct gp_op *op, bool wait);

/* Waits for everything submitted so far. The context's error, if any. */
CUresult gp_stream_wait(struct gp_stream *stream);
CUresult gp_ctx_wait(struct gp_ctx *ctx);
/* CUDA_ERROR_NOT_READY while it holds operations. */
CUresult gp_stream_query(struct gp_stream *stream);
/* For teardown: waits for all of @ctx without looking at errors. */
void gp_ctx_drain(struct gp_ctx *ctx);

CUresult gp_event_record(struct gp_event *event, struct gp_stream *stream);
CUresult gp_event_wait(struct gp_event *event, struct gp_ctx *ctx);
CUresult gp_stream_wait_event(struct gp_stream *stream, struct gp_event *event);
void gp_event_free(struct gp_event *event);

/* Lock held: takes @op out, frees it, lets what waited for it go on. */
void gp_queue_complete(struct gp_op *op);
/* Lock held: the sticky error of a failed kernel or copy. */
void gp_queue_fail(struct gp_ctx *ctx, CUresult error);

#endif
