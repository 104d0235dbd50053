/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_LINK_H
#define GP_SNAPSHOT_LINK_H
/*
 * The mover's end of the socket to a shim: takes batches of extents and acknowledges them. The
 * descriptors arrive with the message, become imports at once and are closed, so that memory has
 * as few holders as possible.
 */
#include "base/time.h"
#include "base/wire/wire.h"
#include "snapshot/driver.h"

#include <stdatomic.h>

#define GP_LINK_TIMEOUT_MS 10000 /* exporting 64 extents takes 36 ms on an H200 */
/*
 * All waits of one move: exporting 50,000 extents takes so long. The daemon replaces a mover that
 * has not finished 60 s after it should have, and with it goes what others saved: a shim must not
 * be able to bring that about.
 */
#define GP_LINK_PATIENCE_NS (30 * GP_NS_PER_SEC)

/* How long a shim may say nothing when nobody waits for its memory any more. */
#define GP_LINK_HURRY_MS 200

struct gp_link_extent {
	uint64_t id;
	uint32_t n_chunks;
	CUmemGenericAllocationHandle handle;
};

struct gp_link_batch {
	uint32_t n, next; /* [next, n): imports that the batch still owns */
	bool last;
	uint64_t waited_ns; /* for all batches of the move so far */
	struct gp_link_extent extents[GP_WIRE_MAX_EXTENTS];
};

/* Bounds what the mover sends over @link, too. */
gp_must_check int gp_link_prepare(int link, struct gp_err *err);

/*
 * Waits for the next batch of preemption @epoch, imports and acknowledges it; batches that an
 * earlier, failed move left behind are let go. Waits at most GP_LINK_TIMEOUT_MS, and for all
 * batches of a move, which starts with a zeroed @batch, at most GP_LINK_PATIENCE_NS. On failure
 * nothing is imported; batch->last tells whether more batches would follow (true also when the
 * link is dead). -ETIMEDOUT, -ECONNRESET (the process died), -EBADMSG, the shim's own error, or an
 * import error; -ECANCELED: *@hurry, and the shim said nothing for GP_LINK_HURRY_MS.
 */
gp_must_check int gp_link_receive(int link, const struct gp_driver *driver, uint64_t epoch,
				  const atomic_bool *hurry, struct gp_link_batch *batch,
				  struct gp_err *err);
/* Releases the imports that @batch still owns. */
void gp_link_batch_drop(const struct gp_driver *driver, struct gp_link_batch *batch);
/*
 * After a failure: lets go of all further batches of this move, so that the shim is not stuck.
 * Stops at what belongs to a later preemption than @epoch: the shim gives up sending the rest when
 * it is asked to recreate. Blocks up to GP_LINK_TIMEOUT_MS, and for one acknowledgement; *@hurry as
 * for gp_link_receive.
 */
void gp_link_discard(int link, uint64_t epoch, const atomic_bool *hurry);

/* False once the other end is closed. Any thread. */
bool gp_link_is_open(int link);
/* True if a message is there. */
bool gp_link_readable(int link);

#endif
