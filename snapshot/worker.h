/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_WORKER_H
#define GP_SNAPSHOT_WORKER_H
/*
 * The move worker: one thread that does, in the order of their arrival, everything that touches
 * the store or the links, or takes long: SAVE, LOAD, DROP, LINK, UNLINK. The main thread stays free
 * to freeze and thaw.
 */
#include "snapshot/move.h"

struct gp_worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct gp_list tasks;
	bool started, stop;
	bool busy; /* with a task */
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

/* Nothing queued and nothing under way. The outbox is kicked when that becomes so. */
bool gp_worker_is_idle(struct gp_worker *worker);

/*
 * Has the worker use @link, which it takes over on success, for @proc from here on; it closes the
 * one before. -ENOMEM.
 */
gp_must_check int gp_worker_link(struct gp_worker *worker, struct gp_proc *proc, int link,
				 struct gp_err *err);
/*
 * Queues @request (SAVE, LOAD, DROP or UNLINK) for @proc; answers go to the outbox. After UNLINK
 * the worker owns @proc. -ENOMEM.
 */
gp_must_check int gp_worker_queue(struct gp_worker *worker, const struct gp_wire_msg *request,
				  struct gp_proc *proc, struct gp_err *err);

#endif
