/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/soft/context.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

#define GP_CTX_STACK 32

struct gp_thread_stream {
	struct gp_thread_stream *next;
	struct gp_ctx *ctx;
	struct gp_stream *stream;
};

struct gp_driver {
	pthread_mutex_t lock; /* initialisation, contexts; taken before the queue lock */
	bool initialised;
	bool dead; /* forked child of an initialised process */
	CUresult init_error;
	struct gp_state state;
	struct gp_ctx *primary;
	unsigned int primary_refs, primary_flags;
	uint64_t last_ctx_id;
	pthread_key_t thread_key; /* frees a thread's default streams when it exits */
};

static struct gp_driver gp_driver = { .lock = PTHREAD_MUTEX_INITIALIZER };

static __thread struct gp_ctx *ctx_stack[GP_CTX_STACK];
static __thread unsigned int ctx_depth;
static __thread struct gp_thread_stream *thread_streams;

static void driver_thread_exit(void *arg)
{
	struct gp_thread_stream *own = arg;

	while (own) {
		struct gp_thread_stream *next = own->next;

		if (!gp_driver.dead && gp_ctx_valid(own->ctx))
			gp_stream_free(own->stream);
		free(own);
		own = next;
	}
}

/*
 * A card does not follow a fork: no engine threads exist in the child, and what the parent holds
 * must not stay alive through inherited descriptors.
 */
static void driver_child(void)
{
	if (!gp_driver.initialised)
		return;
	gp_driver.dead = true;
	gp_rm_forget();
	gp_state_forget(&gp_driver.state);
}

static CUresult driver_init_once(void)
{
	struct gp_err err = { 0 };
	int r = gp_state_open(&gp_driver.state, &err);

	if (r == 0)
		r = gp_rm_init(&gp_driver.state, &err);
	if (r == 0 && pthread_key_create(&gp_driver.thread_key, driver_thread_exit))
		r = gp_err_set(&err, -EAGAIN, "no thread-specific key left");
	if (r < 0) {
		gp_log(GP_LOG_ERR, "soft-init", "error=\"%s\"", err.msg);
		return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NO_DEVICE;
	}
	gp_vm_init(&gp_driver.state);
	gp_queue.doorbell = gp_rm_doorbell();
	pthread_atfork(NULL, NULL, driver_child);
	__atomic_store_n(&gp_driver.initialised, true, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

CUresult gp_driver_init(void)
{
	CUresult r;

	if (gp_driver.dead)
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&gp_driver.lock);
	if (!gp_driver.initialised && !gp_driver.init_error)
		gp_driver.init_error = driver_init_once();
	r = gp_driver.init_error;
	pthread_mutex_unlock(&gp_driver.lock);
	return r;
}

CUresult gp_driver_enter(void)
{
	if (gp_driver.dead || !__atomic_load_n(&gp_driver.initialised, __ATOMIC_ACQUIRE))
		return CUDA_ERROR_NOT_INITIALIZED;
	return CUDA_SUCCESS;
}

CUresult gp_driver_enter_ctx(struct gp_ctx **ret_ctx)
{
	CUresult r = gp_driver_enter();

	if (r)
		return r;
	*ret_ctx = gp_ctx_current();
	if (!*ret_ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!gp_ctx_valid(*ret_ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return __atomic_load_n(&(*ret_ctx)->error, __ATOMIC_RELAXED);
}

struct gp_state *gp_driver_state(void)
{
	return &gp_driver.state;
}

CUresult gp_driver_error(int code)
{
	switch (-code) {
	case 0:
		return CUDA_SUCCESS;
	case ENOMEM:
	case ENOSPC:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case ENOENT:
		return CUDA_ERROR_NOT_FOUND;
	case ENOEXEC:
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	case EEXIST:
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	case EMFILE:
	case ENFILE:
		return CUDA_ERROR_OPERATING_SYSTEM;
	case EINVAL:
		return CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}

bool gp_ctx_valid(const struct gp_ctx *ctx)
{
	return (uintptr_t)ctx > 4096 &&
	       __atomic_load_n(&ctx->magic, __ATOMIC_RELAXED) == GP_CTX_MAGIC;
}

static int ctx_fill(struct gp_ctx *ctx, struct gp_err *err)
{
	int r = gp_engine_start(err);

	if (r == 0) {
		r = gp_vm_create(GP_CTX_BYTES, false, &ctx->memory);
		if (r < 0)
			gp_err_sys(err, r, "no device memory for a context");
	}
	if (r == 0)
		r = gp_rm_context_init(&ctx->rm, err);
	if (r < 0)
		return r;
	gp_list_init(&ctx->streams);
	ctx->legacy = gp_stream_new(ctx, CU_STREAM_DEFAULT, 0);
	if (!ctx->legacy)
		return gp_err_set(err, -ENOMEM, "out of memory making a context");
	ctx->legacy->is_legacy = true;
	return 0;
}

CUresult gp_ctx_new(unsigned int flags, struct gp_ctx **ret_ctx)
{
	struct gp_ctx *ctx = calloc(1, sizeof(*ctx));
	struct gp_err err = { 0 };
	int r;

	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->flags = flags;
	ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
	ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	r = ctx_fill(ctx, &err);
	if (r < 0) {
		gp_log(GP_LOG_DEBUG, "soft-context", "error=\"%s\"", err.msg);
		gp_rm_context_fini(&ctx->rm);
		if (ctx->memory)
			gp_vm_release(ctx->memory);
		free(ctx);
		return gp_driver_error(r);
	}
	ctx->id = __atomic_add_fetch(&gp_driver.last_ctx_id, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&ctx->magic, GP_CTX_MAGIC, __ATOMIC_RELEASE);
	*ret_ctx = ctx;
	return CUDA_SUCCESS;
}

void gp_ctx_free(struct gp_ctx *ctx)
{
	gp_ctx_drain(ctx);
	__atomic_store_n(&ctx->magic, 0, __ATOMIC_RELEASE);
	gp_list_for_each(stream, &ctx->streams, struct gp_stream, entry) {
		gp_list_del(&stream->entry);
		stream->magic = 0;
		free(stream);
	}
	gp_rm_context_fini(&ctx->rm);
	gp_vm_release(ctx->memory);
	ctx->memory = NULL;
}

struct gp_ctx *gp_ctx_current(void)
{
	return ctx_depth ? ctx_stack[ctx_depth - 1] : NULL;
}

CUresult gp_ctx_push(struct gp_ctx *ctx)
{
	if (ctx_depth == GP_CTX_STACK)
		return CUDA_ERROR_INVALID_VALUE;
	ctx_stack[ctx_depth++] = ctx;
	return CUDA_SUCCESS;
}

CUresult gp_ctx_pop(struct gp_ctx **ret_ctx)
{
	if (!ctx_depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	ctx_depth--;
	if (ret_ctx)
		*ret_ctx = ctx_stack[ctx_depth];
	return CUDA_SUCCESS;
}

CUresult gp_ctx_set(struct gp_ctx *ctx)
{
	if (ctx_depth)
		ctx_depth--;
	return ctx ? gp_ctx_push(ctx) : CUDA_SUCCESS;
}

CUresult gp_primary_retain(struct gp_ctx **ret_ctx)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&gp_driver.lock);
	if (!gp_driver.primary)
		r = gp_ctx_new(gp_driver.primary_flags, &gp_driver.primary);
	if (!r) {
		gp_driver.primary_refs++;
		*ret_ctx = gp_driver.primary;
	}
	pthread_mutex_unlock(&gp_driver.lock);
	return r;
}

/* Takes the primary context out, so that freeing it (which waits) needs no lock. */
static struct gp_ctx *primary_take(bool all)
{
	struct gp_ctx *ctx = NULL;

	if (gp_driver.primary_refs && (all || --gp_driver.primary_refs == 0)) {
		ctx = gp_driver.primary;
		gp_driver.primary = NULL;
		gp_driver.primary_refs = 0;
	}
	return ctx;
}

CUresult gp_primary_release(void)
{
	struct gp_ctx *ctx;

	pthread_mutex_lock(&gp_driver.lock);
	if (!gp_driver.primary_refs) {
		pthread_mutex_unlock(&gp_driver.lock);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	ctx = primary_take(false);
	pthread_mutex_unlock(&gp_driver.lock);
	if (ctx)
		gp_ctx_free(ctx);
	return CUDA_SUCCESS;
}

CUresult gp_primary_reset(void)
{
	struct gp_ctx *ctx;

	pthread_mutex_lock(&gp_driver.lock);
	ctx = primary_take(true);
	pthread_mutex_unlock(&gp_driver.lock);
	if (ctx)
		gp_ctx_free(ctx);
	return CUDA_SUCCESS;
}

void gp_primary_state(unsigned int *ret_flags, int *ret_active)
{
	pthread_mutex_lock(&gp_driver.lock);
	*ret_flags = gp_driver.primary ? gp_driver.primary->flags : gp_driver.primary_flags;
	*ret_active = gp_driver.primary != NULL;
	pthread_mutex_unlock(&gp_driver.lock);
}

CUresult gp_primary_set_flags(unsigned int flags)
{
	pthread_mutex_lock(&gp_driver.lock);
	gp_driver.primary_flags = flags;
	if (gp_driver.primary)
		gp_driver.primary->flags = flags;
	pthread_mutex_unlock(&gp_driver.lock);
	return CUDA_SUCCESS;
}

static struct gp_stream *driver_thread_stream(struct gp_ctx *ctx)
{
	struct gp_thread_stream *own;

	for (own = thread_streams; own; own = own->next)
		if (own->ctx == ctx)
			return own->stream;
	own = calloc(1, sizeof(*own));
	if (own)
		own->stream = gp_stream_new(ctx, CU_STREAM_DEFAULT, 0);
	if (!own || !own->stream) {
		free(own);
		return NULL;
	}
	own->ctx = ctx;
	own->next = thread_streams;
	thread_streams = own;
	pthread_setspecific(gp_driver.thread_key, own);
	return own->stream;
}

CUresult gp_driver_enter_stream(CUstream handle, struct gp_stream **ret_stream)
{
	struct gp_stream *stream = (struct gp_stream *)handle;
	struct gp_ctx *ctx = NULL;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
		if (r)
			return r;
		*ret_stream =
			handle == CU_STREAM_PER_THREAD ? driver_thread_stream(ctx) : ctx->legacy;
		return *ret_stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* A stream brings its own context; none need be current. */
	if (r == CUDA_ERROR_NOT_INITIALIZED)
		return r;
	if ((uintptr_t)handle < 4096 || stream->magic != GP_STREAM_MAGIC || stream->destroyed)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_stream = stream;
	return __atomic_load_n(&stream->ctx->error, __ATOMIC_RELAXED);
}
