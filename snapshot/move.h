/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_MOVE_H
#define GP_SNAPSHOT_MOVE_H
/*
 * Moves the memory of one process between the device and the store (arena, swap file). Everything
 * here runs in the move worker's thread, with the driver's context current.
 *
 * Extents pass through a few slots, so that the mapping, hashing and copying of one overlap with
 * the copies of those before it:
 *
 *	save: import -> map -> hash -> place -> copy out -> unmap, release -> in the image, SAVED
 *	load: import -> map -> copy in -> hash -> unmap, release -> compare
 *
 * A slot lets go of the device memory before the extent is reported: memory is free only when its
 * last import is gone.
 */
#include "base/wire/wire.h"
#include "snapshot/hasher.h"
#include "snapshot/link.h"
#include "snapshot/outbox.h"
#include "snapshot/proc.h"
#include "snapshot/staging.h"

#define GP_MOVE_SLOTS 16
/*
 * So many extents are hashed ahead of their copies: beside a running job a kernel may have to wait
 * for that job's time slice (2 ms), which would stall the copies of small extents one by one.
 */
#define GP_MOVE_HASH_AHEAD 8
#define GP_MOVE_STREAMS	   2

struct gp_move_slot {
	struct gp_link_extent extent;
	bool busy, mapped; /* busy: owns the import */
	CUdeviceptr at;	   /* its own address range, as large as the device */
	CUstream stream;   /* shared with other slots */
	CUevent hashed, done;
	struct gp_chunk_sum *sums; /* one per chunk of the largest extent */
	CUdeviceptr device_sums;
	struct gp_saved *saved; /* save: under construction, owned; load: the image's */
	uint32_t n_pending;	/* chunks on their way to the disk */
};

struct gp_move {
	const struct gp_driver *driver;
	struct gp_hasher hasher;
	struct gp_staging staging;
	struct gp_store store;
	struct gp_outbox *outbox;
	atomic_bool stop;	 /* the mover ends: give up the move under way */
	atomic_bool hurry;	 /* the daemon is gone: begin no extent, wait for no silent shim */
	char *host;		 /* registered memory: staging buffers, then the slots' sums */
	CUdeviceptr device_host; /* as the device sees it */
	CUdeviceptr base;
	size_t stride; /* of the slots' address ranges */
	CUstream hash_stream, streams[GP_MOVE_STREAMS];
	struct gp_move_slot slots[GP_MOVE_SLOTS];
	uint32_t n_started, n_placed, n_finished; /* slots go through their stages in turn */

	/* of the move under way */
	struct gp_proc *proc;
	const struct gp_wire_msg *request;
	uint32_t session; /* of the outbox, that the request came in */
	bool loading;
	bool unread;	      /* it failed and its shim may have sent more */
	uint64_t taken_bytes; /* a shim that sends without end is stopped by this */
	uint64_t first_ns, last_ns;
	struct gp_wire_moved totals;
	struct gp_wire_msg report; /* SAVED under construction */
	uint64_t report_ns;	   /* when its first extent was saved */
};

/* Bytes of host memory, seen by the device, that gp_move_init wants for @driver's device. */
size_t gp_move_host_bytes(const struct gp_driver *driver);

/*
 * @host: gp_move_host_bytes of zeros at the start of a registered range of private memory; the
 * first GP_STAGING_BUFFERS chunks are the buffers that store->swapfile was given. All borrowed.
 */
gp_must_check int gp_move_init(struct gp_move *move, const struct gp_driver *driver,
			       const struct gp_store *store, struct gp_outbox *outbox, void *host,
			       struct gp_err *err);
void gp_move_fini(struct gp_move *move);

/*
 * Does what @request, a SAVE or LOAD of this session, asks for @proc, posting SAVED on the way.
 * Blocks until done.
 * On failure, what was reported SAVED stays saved and every other import has been let go.
 */
gp_must_check int gp_move_run(struct gp_move *move, struct gp_proc *proc,
			      const struct gp_wire_msg *request, uint32_t session,
			      struct gp_wire_moved *ret_totals, struct gp_err *err);
/*
 * To be called after a failed move, once the failure was reported: takes what else its shim sends,
 * so that it is not stuck. Blocks up to GP_LINK_TIMEOUT_MS.
 */
void gp_move_discard(struct gp_move *move);

#endif
