/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_MEMORY_EXTENTS_H
#define GP_SHIM_MEMORY_EXTENTS_H
/*
 * Device memory that can be taken away and brought back under a fixed address: each extent is one
 * physical allocation of the driver (2 MiB granularity, exportable as an fd), mapped once.
 * Allocations of 1 MiB and more have an extent of their own; smaller ones share slabs; those over
 * 1 GiB have several, so that the first can be given back while the others are still being copied.
 *
 * State of an extent: resident -> released [release] -> unfilled [recreate] -> resident [confirm];
 * released -> scratch [scratch].
 *
 * Threads: the application's, inside the gate, create and destroy; the control thread exports,
 * and with the gate closed releases and recreates. The table is under one lock that is never held
 * over a call into the driver: an extent is in the table only while it is whole, and is pinned
 * while it is being exported: who would remove it waits first and looks again.
 */
#include "base/err.h"
#include "shim/memory/slab.h"

#include <cuda.h>
#include <pthread.h>

#define GP_EXTENT_OWN_BYTES (1ull << 20) /* from this size on: an extent of its own */
/* Up to this size one extent: 20 ms of copying against 0.3 ms to map and release (H200). */
#define GP_EXTENT_MAX_BYTES (1ull << 30)

enum gp_extent_state {
	GP_EXTENT_RESIDENT,
	GP_EXTENT_RELEASED,
	GP_EXTENT_UNFILLED, /* mapped again, but the bytes need not be back */
	GP_EXTENT_SCRATCH,
};

struct gp_extent {
	uint64_t id; /* never reused */
	uint64_t address, bytes;
	uint64_t start, asked_bytes; /* of the allocation it belongs to, or of the slab */
	struct gp_extent *next;	     /* the part of the same allocation behind it, or NULL */
	CUmemGenericAllocationHandle handle; /* resident or unfilled */
	CUcontext context;		     /* it ends with its context, as cuMemAlloc's does */
	CUdevice device;
	enum gp_extent_state state;
	int fd;		      /* of the exported handle; -1 = none */
	struct gp_slab *slab; /* NULL: one allocation */
};

struct gp_extents {
	pthread_mutex_t lock;
	pthread_cond_t unpinned;
	struct gp_extent *pinned;  /* being exported by the control thread; NULL = none */
	struct gp_extent **sorted; /* by address */
	struct gp_extent **by_id;  /* by age, and so by id */
	size_t n, capacity;
	struct gp_list roomy; /* slabs with a free block */
	uint64_t next_id;
	uint64_t bytes;	       /* of all extents */
	size_t n_fds, max_fds; /* exported ahead */
	uint64_t *deferred;    /* freed by the application, still in use by work under capture */
	size_t n_deferred, deferred_capacity;
};

struct gp_extents_summary {
	uint64_t bytes, released_bytes;
	uint32_t n;
	uint32_t n_released, n_unfilled, n_scratch;
};

/* An allocation as the application knows it. */
struct gp_allocation {
	uint64_t start, bytes;
	uint64_t buffer_id; /* unique in the process; apart from the driver's own ids */
	CUcontext context;
};

void gp_extents_init(struct gp_extents *x);

/*
 * Hold and release the table's lock around fork. Waits for an export under way, a matter of 0.6 ms:
 * the child could not close an fd that is in no table yet, and would keep its memory alive.
 */
void gp_extents_lock_all(struct gp_extents *x);
void gp_extents_unlock_all(struct gp_extents *x);

/* Child of a fork: closes the inherited fds and forgets all. */
void gp_extents_forget(struct gp_extents *x);

/*
 * Inside the gate. Allocates @bytes on @device for @context. The driver's error:
 * CUDA_ERROR_OUT_OF_MEMORY may be cured by waiting, any other means that this way does not work.
 */
CUresult gp_extents_alloc(struct gp_extents *x, CUcontext context, CUdevice device, uint64_t bytes,
			  CUdeviceptr *ret_address);

/* The allocation that holds @address. */
bool gp_extents_find(struct gp_extents *x, uint64_t address, struct gp_allocation *ret);

/* Whether @address is in any extent, in a free part of a slab too. */
bool gp_extents_covers(struct gp_extents *x, uint64_t address);

/* Lock held, or gate closed. NULL: there is none. */
struct gp_extent *gp_extents_by_id(const struct gp_extents *x, uint64_t id);

/* Inside the gate, after the GPU has finished with it. CUDA_ERROR_INVALID_VALUE: no such start. */
CUresult gp_extents_free(struct gp_extents *x, uint64_t address);

/* Remembers a free for later. CUDA_ERROR_INVALID_VALUE if it is already remembered. */
CUresult gp_extents_defer(struct gp_extents *x, uint64_t address);
/* Takes out one remembered free; false when there is none. */
bool gp_extents_deferred_take(struct gp_extents *x, uint64_t *ret_address);
bool gp_extents_has_deferred(struct gp_extents *x);

/* Every extent that exists now has an id below this; every later one has not. */
uint64_t gp_extents_next_id(struct gp_extents *x);

/*
 * Inside the gate: a context has ended, and with it what was allocated in it. Extents from @next_id
 * on are of another context that was given the same handle meanwhile.
 */
void gp_extents_drop_context(struct gp_extents *x, CUcontext context, uint64_t next_id);

void gp_extents_summary(struct gp_extents *x, struct gp_extents_summary *ret);

#endif
