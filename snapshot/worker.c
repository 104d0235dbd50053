/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/worker.h"

#include "base/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct worker_task {
	struct gp_list list;
	struct gp_proc *proc;
	struct gp_wire_msg request;
};

static void worker_log_moved(const struct gp_wire_msg *request, const struct gp_wire_moved *t)
{
	gp_log(GP_LOG_INFO, "moved",
	       "what=%s job=%llu proc=%u extents=%u bytes=%llu zero=%llu arena=%llu disk=%llu "
	       "ms=%.3f",
	       gp_wire_name(request->header.type), (unsigned long long)request->header.job,
	       request->header.proc, t->n_extents, (unsigned long long)t->total_bytes,
	       (unsigned long long)t->zero_bytes, (unsigned long long)t->arena_bytes,
	       (unsigned long long)t->disk_bytes, (double)t->ns / 1e6);
}

static void worker_move(struct gp_worker *w, struct worker_task *task)
{
	const struct gp_wire_msg *request = &task->request;
	struct gp_wire_moved totals = { 0 };
	struct gp_err err = { 0 };
	struct gp_wire_msg reply;
	int r = gp_move_run(w->move, task->proc, request, &totals, &err);

	if (r < 0) {
		gp_log(GP_LOG_WARN, "move_failed", "what=%s job=%llu proc=%u reason=\"%s\"",
		       gp_wire_name(request->header.type), (unsigned long long)request->header.job,
		       request->header.proc, err.msg);
		gp_wire_init_reply(&reply, GP_WIRE_ERROR, request);
		reply.error.code = r;
		gp_wire_text(reply.error.text, sizeof(reply.error.text), err.msg);
	} else {
		worker_log_moved(request, &totals);
		gp_wire_init_reply(&reply,
				   request->header.type == GP_WIRE_SAVE ? GP_WIRE_SAVE_DONE
									: GP_WIRE_LOAD_DONE,
				   request);
		reply.save_done = totals;
	}
	gp_outbox_post(w->move->outbox, &reply);
	if (r < 0)
		gp_move_discard(w->move);
}

static void worker_run_task(struct gp_worker *w, struct worker_task *task)
{
	struct gp_wire_msg reply;

	switch (task->request.header.type) {
	case GP_WIRE_SAVE:
	case GP_WIRE_LOAD:
		worker_move(w, task);
		return;
	case GP_WIRE_DROP:
		gp_image_clear(&task->proc->image, &w->move->store);
		break;
	case GP_WIRE_UNLINK:
		gp_proc_free(task->proc, &w->move->store);
		break;
	}
	/* Nobody waits for these unless the request asks for an answer by a cookie. */
	if (task->request.header.cookie) {
		gp_wire_init_reply(&reply, GP_WIRE_OK, &task->request);
		gp_outbox_post(w->move->outbox, &reply);
	}
}

static struct worker_task *worker_next(struct gp_worker *w)
{
	struct worker_task *task = NULL;

	pthread_mutex_lock(&w->lock);
	while (!w->stop && gp_list_empty(&w->tasks))
		pthread_cond_wait(&w->wake, &w->lock);
	if (!w->stop) {
		task = gp_container_of(w->tasks.next, struct worker_task, list);
		gp_list_del(&task->list);
	}
	pthread_mutex_unlock(&w->lock);
	return task;
}

static void *worker_main(void *arg)
{
	struct gp_worker *w = arg;
	struct worker_task *task;
	struct gp_err err = { 0 };

	/* Moves report it themselves if the context is unusable in this thread. */
	if (gp_driver_enter(w->move->driver, &err) < 0)
		gp_log(GP_LOG_ERR, "worker", "reason=\"%s\"", err.msg);
	while ((task = worker_next(w))) {
		worker_run_task(w, task);
		free(task);
	}
	return NULL;
}

int gp_worker_init(struct gp_worker *w, struct gp_move *move, struct gp_err *err)
{
	int r;

	memset(w, 0, sizeof(*w));
	w->move = move;
	gp_list_init(&w->tasks);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	r = pthread_create(&w->thread, NULL, worker_main, w);
	if (r)
		return gp_err_sys(err, -r, "cannot start the move worker");
	w->started = true;
	return 0;
}

void gp_worker_fini(struct gp_worker *w)
{
	if (!w->started)
		return;
	atomic_store(&w->move->stop, true);
	gp_outbox_close(w->move->outbox);
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	gp_list_for_each(task, &w->tasks, struct worker_task, list) {
		if (task->request.header.type == GP_WIRE_UNLINK)
			gp_proc_free(task->proc, &w->move->store);
		if (task->request.header.type == GP_WIRE_DROP)
			gp_image_clear(&task->proc->image, &w->move->store);
		gp_list_del(&task->list);
		free(task);
	}
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	w->started = false;
}

int gp_worker_queue(struct gp_worker *w, const struct gp_wire_msg *request, struct gp_proc *proc,
		    struct gp_err *err)
{
	struct worker_task *task = malloc(sizeof(*task));

	if (!task)
		return gp_err_sys(err, -ENOMEM, "move");
	task->proc = proc;
	memcpy(&task->request, request, request->header.size);
	pthread_mutex_lock(&w->lock);
	gp_list_add_tail(&w->tasks, &task->list);
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	return 0;
}
