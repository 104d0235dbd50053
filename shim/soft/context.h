/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_CONTEXT_H
#define GP_SHIM_SOFT_CONTEXT_H
/*
 * The driver as a whole: initialisation, fork, contexts, the per-thread context stack and default
 * streams. A context is never freed once made (only its contents are), so that a stale handle is
 * recognised by its magic.
 */
#include "shim/soft/queue.h"
#include "shim/soft/vm.h"

#define GP_CTX_MAGIC 0x43545850u
#define GP_CTX_BYTES (8ull << 20) /* device memory a context takes for itself */

struct gp_ctx {
	uint32_t magic; /* 0 once destroyed */
	unsigned int flags;
	uint64_t id;
	CUresult error; /* sticky; queue lock */
	struct gp_rm_context rm;
	struct gp_vm_file *memory; /* GP_CTX_BYTES, counted only */
	struct gp_list streams;	   /* queue lock */
	struct gp_stream *legacy;
	uint32_t next_index;
	size_t limits[CU_LIMIT_MAX];
};

/* cuInit. Idempotent, thread-safe. */
CUresult gp_driver_init(void);
/* Every entry point starts here: NOT_INITIALIZED before cuInit and in a forked child. */
CUresult gp_driver_enter(void);
/* As above, and there is a healthy current context. */
CUresult gp_driver_enter_ctx(struct gp_ctx **ret_ctx);
struct gp_state *gp_driver_state(void);

CUresult gp_ctx_new(unsigned int flags, struct gp_ctx **ret_ctx);
/* Waits for its work. */
void gp_ctx_free(struct gp_ctx *ctx);
bool gp_ctx_valid(const struct gp_ctx *ctx);

/* The current context of the calling thread; NULL if none. */
struct gp_ctx *gp_ctx_current(void);
CUresult gp_ctx_push(struct gp_ctx *ctx);
CUresult gp_ctx_pop(struct gp_ctx **ret_ctx);
CUresult gp_ctx_set(struct gp_ctx *ctx); /* replaces the top; NULL pops */

/* One reference-counted primary context. */
CUresult gp_primary_retain(struct gp_ctx **ret_ctx);
CUresult gp_primary_release(void);
CUresult gp_primary_reset(void);
void gp_primary_state(unsigned int *ret_flags, int *ret_active);
CUresult gp_primary_set_flags(unsigned int flags);

/*
 * The stream a handle means for the calling thread: NULL and CU_STREAM_LEGACY the legacy stream of
 * the current context, CU_STREAM_PER_THREAD the thread's own. Enters the driver as well.
 */
CUresult gp_driver_enter_stream(CUstream handle, struct gp_stream **ret_stream);

/* What errno means to a program. */
CUresult gp_driver_error(int code);

#endif
