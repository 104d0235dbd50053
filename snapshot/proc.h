/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_PROC_H
#define GP_SNAPSHOT_PROC_H
/*
 * A process with the shim, as the mover knows it. The main thread makes it and owns its channel
 * table; the move worker owns its image and reads its link, and frees it when it is forgotten.
 */
#include "base/list.h"
#include "snapshot/channels.h"
#include "snapshot/image.h"

#include <stdatomic.h>
#include <stdint.h>

struct gp_proc {
	struct gp_list list; /* of the mover; main thread */
	uint32_t id;	     /* the daemon's number */
	int link;	     /* to its shim; -1 until LINK came; fixed from then on */
	atomic_bool gone;    /* a move for it should stop */
	struct gp_channel_table channels;
	struct gp_image image;
};

/* NULL when out of memory. */
struct gp_proc *gp_proc_new(uint64_t job, uint32_t id);
/* May be called from either thread: wakes a worker that waits on the link. */
void gp_proc_hang_up(struct gp_proc *proc);
/*
 * Worker, or after it ended: the process is in no list any more. Its saved bytes are dropped from
 * @store; with NULL they stay in the ledger, for a successor.
 */
void gp_proc_free(struct gp_proc *proc, const struct gp_store *store);

#endif
