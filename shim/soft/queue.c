/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, events, ordering; see queue.h. "Pumping" moves every stream as far as it can go without
 * an engine; it runs after each submission and each completion.
 */
#include "shim/soft/queue.h"

#include "base/time.h"
#include "shim/soft/context.h"

struct gp_queue gp_queue = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.host_work = PTHREAD_COND_INITIALIZER,
	.active = { &gp_queue.active, &gp_queue.active },
	.kernels = { &gp_queue.kernels, &gp_queue.kernels },
	.host_calls = { &gp_queue.host_calls, &gp_queue.host_calls },
	.copies = { { &gp_queue.copies[0], &gp_queue.copies[0] },
		    { &gp_queue.copies[1], &gp_queue.copies[1] } },
};

static struct gp_op *stream_head(const struct gp_stream *stream)
{
	return gp_list_empty(&stream->ops) ? NULL
					   : gp_container_of(stream->ops.next, struct gp_op, entry);
}

static bool stream_is_blocking(const struct gp_stream *stream)
{
	return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

static void record_put(struct gp_record *record)
{
	if (record && --record->refs == 0)
		free(record);
}

static void op_free(struct gp_op *op)
{
	switch (op->kind) {
	case GP_OP_KERNEL:
		free(op->kernel.params);
		gp_module_unref(op->kernel.function->module);
		break;
	case GP_OP_COPY:
		free(op->copy.staged);
		break;
	case GP_OP_RECORD:
	case GP_OP_WAIT:
		record_put(op->record);
		break;
	case GP_OP_FILL:
	case GP_OP_HOST:
	case GP_OP_FREE:
		break;
	}
	free(op);
}

/* Whether the order between the legacy stream and blocking ones lets the head @op run now. */
static bool queue_in_turn(const struct gp_op *op)
{
	const struct gp_stream *stream = op->stream;
	const struct gp_op *head;

	if (!stream->is_legacy) {
		head = stream_head(stream->ctx->legacy);
		return !stream_is_blocking(stream) || !head || head->number > op->number;
	}
	gp_list_for_each(other, &gp_queue.active, struct gp_stream, active) {
		if (other == stream || other->ctx != stream->ctx || !stream_is_blocking(other))
			continue;
		head = stream_head(other);
		if (head && head->number < op->number)
			return false;
	}
	return true;
}

/* Takes @op out of its stream; frees a destroyed stream with its last operation. */
static void queue_retire(struct gp_op *op)
{
	struct gp_stream *stream = op->stream;

	gp_list_del(&op->entry);
	if (--stream->n_ops == 0)
		gp_list_del(&stream->active);
	op_free(op);
	if (!stream->n_ops && stream->destroyed) {
		gp_list_del(&stream->entry);
		stream->magic = 0;
		free(stream);
	}
}

static void queue_issue_to(struct gp_list *engine, struct gp_op *op)
{
	op->issued = true;
	gp_list_add_tail(engine, &op->run);
}

/* Runs or issues the head @op; true if it was retired. */
static bool queue_issue(struct gp_op *op)
{
	bool failed = op->stream->ctx->error != CUDA_SUCCESS;

	switch (op->kind) {
	case GP_OP_KERNEL:
		if (failed)
			break;
		queue_issue_to(&gp_queue.kernels, op);
		pthread_cond_broadcast(&gp_queue.work);
		return false;
	case GP_OP_COPY:
	case GP_OP_FILL:
		if (failed)
			break;
		queue_issue_to(
			&gp_queue.copies[op->kind == GP_OP_COPY && op->copy.engine == GP_RM_COPY_H2D
						 ? 0
						 : 1],
			op);
		gp_rm_ring(gp_queue.doorbell);
		return false;
	case GP_OP_HOST:
		if (failed)
			break;
		queue_issue_to(&gp_queue.host_calls, op);
		pthread_cond_signal(&gp_queue.host_work);
		return false;
	case GP_OP_WAIT:
		if (!failed && !op->record->done)
			return false;
		break;
	case GP_OP_RECORD:
		op->record->done = true;
		op->record->time_ns = gp_now_ns();
		break;
	case GP_OP_FREE:
		if (gp_vm_free(op->free_addr) < 0)
			op->stream->ctx->error = CUDA_ERROR_INVALID_VALUE;
		break;
	}
	queue_retire(op);
	return true;
}

static void queue_pump(void)
{
	bool again;

	do {
		again = false;
		gp_list_for_each(stream, &gp_queue.active, struct gp_stream, active) {
			struct gp_op *op = stream_head(stream);

			if (op && !op->issued && queue_in_turn(op) && queue_issue(op))
				again = true;
		}
	} while (again);
	pthread_cond_broadcast(&gp_queue.changed);
}

void gp_queue_complete(struct gp_op *op)
{
	gp_list_del(&op->run);
	queue_retire(op);
	queue_pump();
}

void gp_queue_fail(struct gp_ctx *ctx, CUresult error)
{
	if (ctx->error == CUDA_SUCCESS)
		__atomic_store_n(&ctx->error, error, __ATOMIC_RELAXED);
}

struct gp_stream *gp_stream_new(struct gp_ctx *ctx, unsigned int flags, int priority)
{
	struct gp_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->magic = GP_STREAM_MAGIC;
	stream->ctx = ctx;
	stream->flags = flags;
	stream->priority = priority;
	gp_list_init(&stream->ops);
	gp_list_init(&stream->active);
	pthread_mutex_lock(&gp_queue.lock);
	stream->index = ctx->next_index++;
	stream->id = ++gp_queue.last_stream_id;
	gp_list_add_tail(&ctx->streams, &stream->entry);
	pthread_mutex_unlock(&gp_queue.lock);
	return stream;
}

void gp_stream_free(struct gp_stream *stream)
{
	pthread_mutex_lock(&gp_queue.lock);
	stream->destroyed = true;
	if (!stream->n_ops) {
		gp_list_del(&stream->entry);
		stream->magic = 0;
		free(stream);
	}
	pthread_mutex_unlock(&gp_queue.lock);
}

/* Streams are spread over the channels of their context. */
static struct gp_state_channel *queue_channel(const struct gp_stream *stream,
					      const struct gp_op *op)
{
	unsigned int group = op->kind == GP_OP_COPY ? op->copy.engine : GP_RM_COPY_D2D;

	if (op->kind == GP_OP_KERNEL)
		return stream->ctx->rm.channel[stream->index % GP_RM_GR_CHANNELS];
	return stream->ctx->rm.channel[GP_RM_GR_CHANNELS + group * GP_RM_COPY_CHANNELS +
				       stream->index % GP_RM_COPY_CHANNELS];
}

/* Whether the stream holds an operation not younger than @number. */
static bool stream_owes(const struct gp_stream *stream, uint64_t number)
{
	const struct gp_op *head = stream_head(stream);

	return head && head->number <= number;
}

static void stream_wait_number(const struct gp_stream *stream, uint64_t number)
{
	while (stream_owes(stream, number))
		pthread_cond_wait(&gp_queue.changed, &gp_queue.lock);
}

/* Lock held, but let go while the stream is full. The number of @op, which may be gone already. */
static uint64_t queue_add(struct gp_stream *stream, struct gp_op *op)
{
	uint64_t number;

	op->stream = stream;
	op->channel = queue_channel(stream, op);
	gp_list_init(&op->run);
	while (stream->n_ops >= GP_QUEUE_DEPTH)
		pthread_cond_wait(&gp_queue.changed, &gp_queue.lock);
	number = ++gp_queue.last_number;
	op->number = number;
	gp_list_add_tail(&stream->ops, &op->entry);
	if (stream->n_ops++ == 0)
		gp_list_add_tail(&gp_queue.active, &stream->active);
	queue_pump();
	return number;
}

CUresult gp_queue_submit(struct gp_stream *stream, struct gp_op *op, bool wait)
{
	struct gp_ctx *ctx = stream->ctx;
	uint64_t number;
	CUresult r;

	pthread_mutex_lock(&gp_queue.lock);
	number = queue_add(stream, op);
	if (wait)
		stream_wait_number(stream, number);
	r = ctx->error;
	pthread_mutex_unlock(&gp_queue.lock);
	return r;
}

CUresult gp_stream_wait(struct gp_stream *stream)
{
	struct gp_ctx *ctx = stream->ctx;
	uint64_t number;
	CUresult r;

	pthread_mutex_lock(&gp_queue.lock);
	number = gp_queue.last_number;
	/* The legacy stream stands for all blocking ones: its next operation would wait for them.
	 */
	if (stream->is_legacy) {
		bool owes;

		do {
			owes = stream_owes(stream, number);
			gp_list_for_each(other, &gp_queue.active, struct gp_stream, active)
				if (other->ctx == ctx && stream_is_blocking(other))
					owes |= stream_owes(other, number);
			if (owes)
				pthread_cond_wait(&gp_queue.changed, &gp_queue.lock);
		} while (owes);
	} else {
		stream_wait_number(stream, number);
	}
	r = ctx->error;
	pthread_mutex_unlock(&gp_queue.lock);
	return r;
}

/* Lock held. */
static void ctx_wait_number(const struct gp_ctx *ctx, uint64_t number)
{
	bool owes;

	do {
		owes = false;
		gp_list_for_each(stream, &gp_queue.active, struct gp_stream, active)
			owes |= stream->ctx == ctx && stream_owes(stream, number);
		if (owes)
			pthread_cond_wait(&gp_queue.changed, &gp_queue.lock);
	} while (owes);
}

CUresult gp_ctx_wait(struct gp_ctx *ctx)
{
	CUresult r;

	pthread_mutex_lock(&gp_queue.lock);
	ctx_wait_number(ctx, gp_queue.last_number);
	r = ctx->error;
	pthread_mutex_unlock(&gp_queue.lock);
	return r;
}

void gp_ctx_drain(struct gp_ctx *ctx)
{
	pthread_mutex_lock(&gp_queue.lock);
	ctx_wait_number(ctx, UINT64_MAX);
	pthread_mutex_unlock(&gp_queue.lock);
}

CUresult gp_stream_query(struct gp_stream *stream)
{
	CUresult r;

	pthread_mutex_lock(&gp_queue.lock);
	r = stream->ctx->error;
	if (!r && stream->n_ops)
		r = CUDA_ERROR_NOT_READY;
	if (!r && stream->is_legacy)
		gp_list_for_each(other, &gp_queue.active, struct gp_stream, active)
			if (other->ctx == stream->ctx && stream_is_blocking(other))
				r = CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&gp_queue.lock);
	return r;
}

CUresult gp_event_record(struct gp_event *event, struct gp_stream *stream)
{
	struct gp_record *record = calloc(1, sizeof(*record));
	struct gp_op *op = calloc(1, sizeof(*op));
	CUresult r;

	if (!record || !op) {
		free(record);
		free(op);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	record->refs = 2; /* the event and the operation */
	op->kind = GP_OP_RECORD;
	op->record = record;
	pthread_mutex_lock(&gp_queue.lock);
	queue_add(stream, op);
	/* Not before it has its number: a wait submitted earlier would stand in its way. */
	record_put(event->last);
	event->last = record;
	r = stream->ctx->error;
	pthread_mutex_unlock(&gp_queue.lock);
	return r;
}

CUresult gp_event_wait(struct gp_event *event, struct gp_ctx *ctx)
{
	struct gp_record *record;
	CUresult r;

	pthread_mutex_lock(&gp_queue.lock);
	record = event->last;
	if (record) {
		record->refs++;
		while (!record->done)
			pthread_cond_wait(&gp_queue.changed, &gp_queue.lock);
		record_put(record);
	}
	r = ctx ? ctx->error : CUDA_SUCCESS;
	pthread_mutex_unlock(&gp_queue.lock);
	return r;
}

CUresult gp_stream_wait_event(struct gp_stream *stream, struct gp_event *event)
{
	struct gp_record *record;
	struct gp_op *op;

	pthread_mutex_lock(&gp_queue.lock);
	record = event->last;
	if (record)
		record->refs++;
	pthread_mutex_unlock(&gp_queue.lock);
	if (!record)
		return CUDA_SUCCESS;
	op = calloc(1, sizeof(*op));
	if (!op) {
		pthread_mutex_lock(&gp_queue.lock);
		record_put(record);
		pthread_mutex_unlock(&gp_queue.lock);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	op->kind = GP_OP_WAIT;
	op->record = record;
	return gp_queue_submit(stream, op, false);
}

void gp_event_free(struct gp_event *event)
{
	pthread_mutex_lock(&gp_queue.lock);
	record_put(event->last);
	pthread_mutex_unlock(&gp_queue.lock);
	event->magic = 0;
	free(event);
}
