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
	/*
	 * To its shim; -1 until LINK came. A later LINK replaces it: the main thread goes by the
	 * new one at once, the worker, who owns the descriptors, when it gets there.
	 */
	int link, worker_link;
	int pidfd;	       /* -1: not known which process it is; main thread */
	uint32_t told_session; /* in which the daemon was told of it; main thread */
	atomic_bool gone;      /* a move for it should stop */
	struct gp_channel_table channels;
	struct gp_image image;
};

/* NULL when out of memory. */
struct gp_proc *gp_proc_new(uint64_t job, uint32_t id);
/* Main thread: remembers the process itself, so that its end can be told from that of its link. */
void gp_proc_watch(struct gp_proc *proc, pid_t pid);
/* Main thread: the process has ended; where it is not known, its end of the link is closed. */
bool gp_proc_has_ended(const struct gp_proc *proc);
/* Main thread: wakes a worker that waits on the link. */
void gp_proc_hang_up(struct gp_proc *proc);
/*
 * Worker, or after it ended: the process is in no list any more. Its saved bytes are dropped from
 * @store; with NULL they stay in the ledger, for a successor.
 */
void gp_proc_free(struct gp_proc *proc, const struct gp_store *store);

#endif
