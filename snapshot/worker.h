/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_WORKER_H
#define GP_SNAPSHOT_WORKER_H
/*
 * The move worker: one thread that does, in the order of their arrival, everything that touches
 * the store or takes long: SAVE, LOAD, DROP, UNLINK. The main thread stays free to freeze and thaw.
 */
#include "snapshot/move.h"

struct gp_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct gp_list tasks;
	bool started, stop;
	struct gp_move *move;
};

/* Starts the thread; @move is its own until gp_worker_fini. */
gp_must_check int gp_worker_init(struct gp_worker *worker, struct gp_move *move,
				 struct gp_err *err);
/*
 * Gives up the move under way, waits for the thread and drops what is queued. Links must have been
 * hung up before, so that it waits on none.
 */
void gp_worker_fini(struct gp_worker *worker);

/*
 * Queues @request (SAVE, LOAD, DROP or UNLINK) for @proc; answers go to the outbox. After UNLINK
 * the worker owns @proc. -ENOMEM.
 */
gp_must_check int gp_worker_queue(struct gp_worker *worker, const struct gp_wire_msg *request,
				  struct gp_proc *proc, struct gp_err *err);

#endif
