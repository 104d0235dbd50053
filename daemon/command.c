/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/command.h"

#include "base/log.h"
#include "base/time.h"
#include "daemon/history.h"
#include "daemon/limits.h"
#include "daemon/store.h"

#include <errno.h>
#include <inttypes.h>

/* Not written yet, on a disk that is slow, or full: looked for again. */
#define COMMAND_RETRY_NS GP_NS_PER_SEC

/* Belongs to its job, which is not freed before the query has come back. */
struct gp_command_fetch {
	struct gp_history_query query;
	struct gp_timer retry;
	struct gp_job *job;
	void (*then)(struct gp_job *job);
};

bool gp_command_fits(const struct gp_daemon *daemon, size_t bytes)
{
	return daemon->held_bytes + bytes <= GP_COMMAND_MAX_HELD;
}

void gp_command_hold(struct gp_job *job)
{
	struct gp_daemon *daemon = job->daemon;

	if (!job->blob || job->holds_blob)
		return;
	/* What cannot be written now must not be given away. */
	if (!gp_command_fits(daemon, job->blob_bytes) && !gp_store_is_failing(daemon->store)) {
		free(gp_take_ptr(job->blob));
		return;
	}
	job->holds_blob = true;
	daemon->held_bytes += job->blob_bytes;
}

void gp_command_drop(struct gp_job *job)
{
	free(gp_take_ptr(job->blob));
	if (job->holds_blob)
		job->daemon->held_bytes -= job->blob_bytes;
	job->holds_blob = false;
}

static void command_end(struct gp_command_fetch *f)
{
	f->job->fetch = NULL;
	gp_timer_disarm(&f->retry);
	free(f->query.blob);
	free(f);
}

static void command_again(struct gp_timer *timer)
{
	struct gp_command_fetch *f = gp_container_of(timer, struct gp_command_fetch, retry);

	f->query.began = false;
	gp_history_ask(f->job->daemon->history, &f->query);
}

static bool command_is_sound(const struct gp_job *job, const struct gp_history_query *query)
{
	struct gp_limits limits;
	gid_t gid;
	size_t extra = gp_limits_find(query->blob, query->blob_bytes,
				      (uint64_t)job->n_args + job->n_env + 1, &gid, &limits);

	return query->blob_bytes == job->blob_bytes &&
	       gp_job_blob_is_sound(query->blob, query->blob_bytes - extra, job->n_args,
				    job->n_env);
}

static void command_done(struct gp_history_query *query)
{
	struct gp_command_fetch *f = gp_container_of(query, struct gp_command_fetch, query);
	void (*then)(struct gp_job *job) = f->then;
	struct gp_job *job = f->job;

	if (gp_job_state_is_final(job->state)) {
		command_end(f);
	} else if (job->cancelling) {
		command_end(f);
		gp_job_finish(job, GP_JOB_CANCELLED, "cancelled before it was started");
	} else if (query->code == -ENOENT && gp_store_backlog_bytes(job->daemon->store)) {
		gp_timer_arm(&job->daemon->loop, &f->retry, gp_now_ns() + COMMAND_RETRY_NS);
	} else if (query->code < 0) {
		gp_job_finish(job, GP_JOB_FAILED, "its command cannot be read: %s", query->err.msg);
		command_end(f);
	} else if (!command_is_sound(job, query)) {
		command_end(f);
		gp_job_finish(job, GP_JOB_FAILED, "its row in the database is damaged");
	} else {
		job->blob = gp_take_ptr(query->blob);
		command_end(f);
		then(job);
	}
}

void gp_command_need(struct gp_job *job, void (*then)(struct gp_job *job))
{
	struct gp_command_fetch *f;

	if (job->blob || !job->blob_bytes) {
		then(job);
		return;
	}
	f = calloc(1, sizeof(*f));
	if (!f) {
		gp_job_finish(job, GP_JOB_FAILED, "out of memory");
		return;
	}
	f->job = job;
	f->then = then;
	f->query.kind = GP_HISTORY_COMMAND;
	f->query.job = job->id;
	f->query.uid = GP_HISTORY_ANY_UID;
	f->query.done = command_done;
	gp_timer_init(&f->retry, command_again);
	job->fetch = f;
	gp_history_ask(job->daemon->history, &f->query);
}

void gp_command_forget(struct gp_job *job)
{
	if (job->fetch)
		command_end(job->fetch);
}
