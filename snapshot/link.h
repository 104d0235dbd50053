/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_LINK_H
#define GP_SNAPSHOT_LINK_H
/*
 * The mover's end of the socket to a shim: takes batches of extents and acknowledges them. The
 * descriptors arrive with the message, become imports at once and are closed, so that memory has
 * as few holders as possible.
 */
#include "base/wire/wire.h"
#include "snapshot/driver.h"

#define GP_LINK_TIMEOUT_MS 10000 /* exporting 64 extents takes 36 ms on an H200 */

struct gp_link_extent {
	uint64_t id;
	uint32_t n_chunks;
	CUmemGenericAllocationHandle handle;
};

struct gp_link_batch {
	uint32_t n, next; /* [next, n): imports that the batch still owns */
	bool last;
	struct gp_link_extent extents[GP_WIRE_MAX_EXTENTS];
};

/* Bounds what the mover sends over @link, too. */
gp_must_check int gp_link_prepare(int link, struct gp_err *err);

/*
 * Waits at most GP_LINK_TIMEOUT_MS for the next batch of preemption @epoch, imports and
 * acknowledges it; batches that an earlier, failed move left behind are let go. On failure nothing
 * is imported; batch->last tells whether more batches would follow (true also when the link is
 * dead). -ETIMEDOUT, -ECONNRESET (the process died), -EBADMSG, the shim's own error, or an import
 * error.
 */
gp_must_check int gp_link_receive(int link, const struct gp_driver *driver, uint64_t epoch,
				  struct gp_link_batch *batch, struct gp_err *err);
/* Releases the imports that @batch still owns. */
void gp_link_batch_drop(const struct gp_driver *driver, struct gp_link_batch *batch);
/* After a failure: lets go of all further batches of this move, so that the shim is not stuck. */
void gp_link_discard(int link);

/* True if a message is there. */
bool gp_link_readable(int link);

#endif
