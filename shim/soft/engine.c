/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that do the work: compute workers, two copy engines, one caller of host functions.
 *
 * A thread touches device memory only between gp_gate_enter and gp_gate_leave of the gate of the
 * channel it works for (rm.c closes gates to freeze). A frozen kernel's workers stand in
 * engine_park; a copy engine leaves a closed channel at the next piece and serves other channels
 * meanwhile. All threads block all signals but those a bad access raises in the thread itself: the
 * program's handlers never run here.
 */
#include "base/log.h"
#include "base/time.h"
#include "shim/soft/context.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define GP_ENGINE_PIECE	     (2ull << 20) /* a copy channel stops between pieces of this size */
#define GP_ENGINE_PATTERN    (64u << 10)
#define GP_ENGINE_NAP_NS     GP_NS_PER_SEC /* longest sleep on a futex; wakeups end it */
#define GP_ENGINE_MAX_CORES  256
#define GP_ENGINE_STACK_SIZE (1u << 20)

static void engine_pass(struct gp_gate *gate)
{
	while (!gp_gate_enter(gate))
		gp_futex_wait(&gate->stop, 1, GP_ENGINE_NAP_NS);
}

/* The interpreter saw the gate closed: stand still until it opens. */
static int engine_park(void *arg)
{
	struct gp_gate *gate = arg;

	gp_gate_leave(gate);
	engine_pass(gate);
	return 0;
}

static CUresult engine_error(int code)
{
	switch (-code) {
	case EFAULT:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case ENOMEM:
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

/* Lock held. The kernel to work on: one at a time, in order. */
static struct gp_op *engine_current(void)
{
	struct gp_op *op;

	if (gp_list_empty(&gp_queue.kernels))
		return NULL;
	op = gp_container_of(gp_queue.kernels.next, struct gp_op, run);
	return op->kernel.next_block < op->kernel.n_blocks && !op->kernel.error ? op : NULL;
}

static struct gp_state_group *engine_group(const struct gp_op *op)
{
	return op->stream->ctx->rm.group[0];
}

static int engine_block(struct gp_op *op, uint64_t block, struct gp_exec_scratch *scratch)
{
	struct gp_state_group *group = engine_group(op);
	struct gp_err err = { 0 };
	int r;

	engine_pass(&group->gate);
	__atomic_store_n(&group->kernel_channel, op->channel->handle, __ATOMIC_SEQ_CST);
	r = gp_exec_block(&op->kernel.launch, block, scratch, &err);
	if (r < 0)
		gp_log(GP_LOG_ERR, "soft-kernel", "kernel=%s block=%llu error=\"%s\"",
		       op->kernel.function->info.name, (unsigned long long)block, err.msg);
	return r;
}

static void *engine_worker(void *arg)
{
	struct gp_exec_scratch *scratch = arg;

	pthread_mutex_lock(&gp_queue.lock);
	for (;;) {
		struct gp_op *op = engine_current();
		struct gp_state_group *group;
		uint64_t block;
		bool last;
		int r;

		if (!op) {
			pthread_cond_wait(&gp_queue.work, &gp_queue.lock);
			continue;
		}
		group = engine_group(op);
		block = op->kernel.next_block++;
		op->kernel.n_inside++;
		pthread_mutex_unlock(&gp_queue.lock);
		r = engine_block(op, block, scratch);
		pthread_mutex_lock(&gp_queue.lock);
		if (r < 0 && !op->kernel.error)
			op->kernel.error = r;
		last = --op->kernel.n_inside == 0 &&
		       (op->kernel.error || op->kernel.next_block == op->kernel.n_blocks);
		/* Before leaving: a freezer that finds nobody inside must not see a finished
		 * kernel. */
		if (last)
			__atomic_store_n(&group->kernel_channel, 0, __ATOMIC_SEQ_CST);
		gp_gate_leave(&group->gate);
		if (last) {
			if (op->kernel.error)
				gp_queue_fail(op->stream->ctx, engine_error(op->kernel.error));
			gp_queue_complete(op);
			pthread_cond_broadcast(&gp_queue.work);
		}
	}
	return NULL;
}

/*
 * Copies within the process by the kernel, which answers EFAULT where a load or store of ours
 * would be a fatal signal: the program may have unmapped either side.
 */
static int engine_move(const struct iovec *dst, const struct iovec *src, unsigned long n,
		       uint64_t bytes)
{
	ssize_t r = process_vm_readv(getpid(), dst, n, src, n, 0);

	if (r >= 0)
		return (uint64_t)r == bytes ? 0 : -EFAULT;
	if (errno != EPERM && errno != ENOSYS)
		return -errno;
	/* Filtered by a container's seccomp profile: do without that protection. */
	for (unsigned long i = 0; i < n; i++)
		memmove(dst[i].iov_base, src[i].iov_base, dst[i].iov_len);
	return 0;
}

/* One piece of a copy: up to GP_ENGINE_PIECE of one row, or that much in whole rows. */
static int engine_copy_piece(struct gp_op_copy *copy)
{
	struct iovec dst[128], src[128];
	unsigned long n = 0;
	uint64_t bytes = 0;

	while (n < GP_ARRAY_SIZE(dst) && bytes < GP_ENGINE_PIECE &&
	       copy->pos + bytes < copy->width * copy->height) {
		uint64_t at = copy->pos + bytes;
		uint64_t row = at / copy->width, column = at % copy->width;
		uint64_t len = copy->width - column;

		if (len > GP_ENGINE_PIECE - bytes)
			len = GP_ENGINE_PIECE - bytes;
		dst[n].iov_base = (void *)(uintptr_t)(copy->dst + row * copy->dst_pitch + column);
		src[n].iov_base = (void *)(uintptr_t)(copy->src + row * copy->src_pitch + column);
		dst[n].iov_len = len;
		src[n].iov_len = len;
		bytes += len;
		n++;
	}
	copy->pos += bytes;
	return engine_move(dst, src, n, bytes);
}

static void engine_pattern(uint8_t *pattern, const struct gp_op_fill *fill)
{
	for (uint32_t i = 0; i < GP_ENGINE_PATTERN; i += fill->elem_bytes)
		memcpy(pattern + i, &fill->value, fill->elem_bytes);
}

/* Rows and offsets are multiples of the element, so each part of a row starts the pattern anew. */
static int engine_fill_piece(struct gp_op_fill *fill, uint8_t *pattern)
{
	struct iovec dst[64], src[64];
	unsigned long n = 0;
	uint64_t bytes = 0;

	while (n < GP_ARRAY_SIZE(dst) && fill->pos + bytes < fill->width * fill->height) {
		uint64_t at = fill->pos + bytes;
		uint64_t row = at / fill->width, column = at % fill->width;
		uint64_t len = fill->width - column;

		if (len > GP_ENGINE_PATTERN)
			len = GP_ENGINE_PATTERN;
		dst[n].iov_base = (void *)(uintptr_t)(fill->dst + row * fill->pitch + column);
		src[n].iov_base = pattern;
		dst[n].iov_len = len;
		src[n].iov_len = len;
		bytes += len;
		n++;
	}
	fill->pos += bytes;
	return engine_move(dst, src, n, bytes);
}

static bool engine_finished(const struct gp_op *op)
{
	if (op->kind == GP_OP_COPY)
		return op->copy.pos >= op->copy.width * op->copy.height;
	return op->fill.pos >= op->fill.width * op->fill.height;
}

/* Runs @op, whose gate is entered, until it is done or the gate closes. */
static int engine_transfer(struct gp_op *op, uint8_t *pattern)
{
	struct gp_gate *gate = &op->channel->gate;
	int r = 0;

	__atomic_store_n(&gate->busy, 1, __ATOMIC_SEQ_CST);
	if (op->kind == GP_OP_FILL)
		engine_pattern(pattern, &op->fill);
	while (r == 0 && !engine_finished(op) && !__atomic_load_n(&gate->stop, __ATOMIC_SEQ_CST))
		r = op->kind == GP_OP_COPY ? engine_copy_piece(&op->copy)
					   : engine_fill_piece(&op->fill, pattern);
	if (r < 0 || engine_finished(op))
		__atomic_store_n(&gate->busy, 0, __ATOMIC_SEQ_CST);
	return r;
}

/* Lock held. The first transfer whose channel is on the hardware; its gate is entered. */
static struct gp_op *engine_pick(struct gp_list *list)
{
	gp_list_for_each(op, list, struct gp_op, run)
		if (gp_gate_enter(&op->channel->gate))
			return op;
	return NULL;
}

static void *engine_copier(void *arg)
{
	struct gp_list *list = arg;
	uint8_t pattern[GP_ENGINE_PATTERN];

	pthread_mutex_lock(&gp_queue.lock);
	for (;;) {
		uint32_t bell = __atomic_load_n(gp_queue.doorbell, __ATOMIC_SEQ_CST);
		struct gp_op *op = engine_pick(list);
		int r;

		pthread_mutex_unlock(&gp_queue.lock);
		if (!op) {
			gp_futex_wait(gp_queue.doorbell, bell, GP_ENGINE_NAP_NS);
			pthread_mutex_lock(&gp_queue.lock);
			continue;
		}
		r = engine_transfer(op, pattern);
		pthread_mutex_lock(&gp_queue.lock);
		gp_gate_leave(&op->channel->gate);
		if (r < 0)
			gp_queue_fail(op->stream->ctx, engine_error(r));
		if (r < 0 || engine_finished(op))
			gp_queue_complete(op);
	}
	return NULL;
}

static void *engine_host_caller(void *arg)
{
	pthread_mutex_lock(&gp_queue.lock);
	for (;;) {
		struct gp_op *op;

		if (gp_list_empty(&gp_queue.host_calls)) {
			pthread_cond_wait(&gp_queue.host_work, &gp_queue.lock);
			continue;
		}
		op = gp_container_of(gp_queue.host_calls.next, struct gp_op, run);
		pthread_mutex_unlock(&gp_queue.lock);
		op->host.fn(op->host.arg);
		pthread_mutex_lock(&gp_queue.lock);
		gp_queue_complete(op);
	}
	return NULL;
}

static int engine_spawn(void *(*fn)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, GP_ENGINE_STACK_SIZE);
	r = pthread_create(&thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	return -r;
}

unsigned int gp_engine_cores(void)
{
	const char *text = getenv("GPUPRES_SOFT_CORES");
	long n = text ? strtol(text, NULL, 10) : 0;

	if (n <= 0)
		n = sysconf(_SC_NPROCESSORS_ONLN);
	return n < 1 ? 1 : n > GP_ENGINE_MAX_CORES ? GP_ENGINE_MAX_CORES : (unsigned int)n;
}

static int engine_start_workers(void)
{
	unsigned int n = gp_engine_cores();

	for (unsigned int i = 0; i < n; i++) {
		struct gp_exec_scratch *scratch = gp_exec_scratch_new();
		int r = scratch ? engine_spawn(engine_worker, scratch) : -ENOMEM;

		if (r < 0) {
			gp_exec_scratch_free(scratch);
			if (i == 0)
				return r;
			break; /* fewer workers do as well */
		}
	}
	return 0;
}

int gp_engine_start(struct gp_err *err)
{
	sigset_t all, old;
	int r = 0;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_mutex_lock(&gp_queue.lock);
	if (!gp_queue.started) {
		pthread_sigmask(SIG_SETMASK, &all, &old);
		r = engine_start_workers();
		if (r == 0)
			r = engine_spawn(engine_copier, &gp_queue.copies[0]);
		if (r == 0)
			r = engine_spawn(engine_copier, &gp_queue.copies[1]);
		if (r == 0)
			r = engine_spawn(engine_host_caller, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		gp_queue.started = r == 0;
	}
	pthread_mutex_unlock(&gp_queue.lock);
	return r < 0 ? gp_err_sys(err, r, "cannot start the engine threads") : 0;
}

/* Fills the execution part of a kernel operation. */
void gp_engine_prepare(struct gp_op *op, struct gp_ctx *ctx)
{
	op->kernel.launch.stop = &ctx->rm.group[0]->gate.stop;
	op->kernel.launch.park = engine_park;
	op->kernel.launch.park_arg = &ctx->rm.group[0]->gate;
}
