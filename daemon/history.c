/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two lists under one lock: "asked" is taken from by the reader, "read" by the loop, which an
 * eventfd wakes. Rows are found by the last one that was read, so that a batch costs the same
 * wherever it stands.
 */
#include "daemon/history.h"

#include "base/wire/wire.h"
#include "daemon/store.h"
#include "daemon/store_db.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* For what was stored just before: longer only if the disk is full, and then old is better. */
#define HISTORY_WRITTEN_MS 1000

#define HISTORY_JOB_COLUMNS                                                                        \
	"id, state, priority, uid, exit_code, device, n_preemptions, held, mem_bytes,"             \
	" submitted_ns, started_ns, ended_ns, name, cause, command"

enum history_statement {
	HISTORY_ENDED,
	HISTORY_JOB,
	HISTORY_UID,
	HISTORY_FIRST_EVENT,
	HISTORY_EVENTS,
	HISTORY_COMMAND,
	HISTORY_STATEMENTS_,
};

static const char *const history_sql[HISTORY_STATEMENTS_] = {
	[HISTORY_ENDED] = "SELECT " HISTORY_JOB_COLUMNS " FROM jobs WHERE ended_ns >= max(1, ?1)"
			  " AND (ended_ns, id) < (?2, ?3) AND (?4 = 4294967295 OR uid = ?4)"
			  " ORDER BY ended_ns DESC, id DESC LIMIT ?5",
	[HISTORY_JOB] = "SELECT " HISTORY_JOB_COLUMNS " FROM jobs WHERE id = ?",
	[HISTORY_UID] = "SELECT uid FROM jobs WHERE id = ?",
	[HISTORY_FIRST_EVENT] = "SELECT rowid FROM events WHERE job = ? ORDER BY rowid DESC"
				" LIMIT 1 OFFSET ?",
	[HISTORY_EVENTS] = "SELECT rowid, wallclock_ns, duration_ns, old_state, new_state, cause,"
			   " boot_id FROM events WHERE job = ? AND rowid > ? AND wallclock_ns >= ?"
			   " ORDER BY rowid LIMIT ?",
	[HISTORY_COMMAND] = "SELECT blob FROM commands WHERE job = ?",
};

struct gp_history {
	struct gp_store *store;
	struct gp_loop *loop;
	struct gp_source source; /* the eventfd */
	sqlite3 *db;
	sqlite3_stmt *statements[HISTORY_STATEMENTS_];
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct gp_list asked, read;
	bool stop, has_thread;
	pthread_t thread;
};

static int history_fail(struct gp_history *h, struct gp_history_query *q)
{
	return gp_store_db_fail(h->db, gp_store_path(h->store), &q->err);
}

static int history_no_job(struct gp_history_query *q)
{
	return gp_err_set(&q->err, -ENOENT, "no job %" PRIu64 ": see gpupresctl history", q->job);
}

static void history_text(char *field, size_t bytes, sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	gp_wire_text(field, bytes, text ? text : "");
}

static void history_read_job(sqlite3_stmt *s, struct gp_wire_job *ret)
{
	int device = sqlite3_column_int(s, 5);

	memset(ret, 0, sizeof(*ret));
	ret->id = (uint64_t)sqlite3_column_int64(s, 0);
	ret->state = (uint32_t)sqlite3_column_int(s, 1);
	ret->priority = sqlite3_column_int(s, 2);
	ret->uid = (uint32_t)sqlite3_column_int64(s, 3);
	ret->exit_code = sqlite3_column_int(s, 4);
	ret->device = device < 0 ? 0 : (uint32_t)device;
	ret->n_preemptions = (uint32_t)sqlite3_column_int64(s, 6);
	ret->held = sqlite3_column_int(s, 7) != 0;
	ret->mem_bytes = (uint64_t)sqlite3_column_int64(s, 8);
	ret->submitted_wallclock_ns = (uint64_t)sqlite3_column_int64(s, 9);
	ret->started_wallclock_ns = (uint64_t)sqlite3_column_int64(s, 10);
	ret->ended_wallclock_ns = (uint64_t)sqlite3_column_int64(s, 11);
	history_text(ret->name, sizeof(ret->name), s, 12);
	history_text(ret->cause, sizeof(ret->cause), s, 13);
	history_text(ret->command, sizeof(ret->command), s, 14);
}

static size_t history_batch(const struct gp_history_query *q)
{
	uint64_t left = q->limit ? q->limit - q->n_seen : GP_HISTORY_BATCH;

	return left < GP_HISTORY_BATCH ? (size_t)left : GP_HISTORY_BATCH;
}

static int history_ended(struct gp_history *h, struct gp_history_query *q)
{
	sqlite3_stmt *s = h->statements[HISTORY_ENDED];
	size_t max = history_batch(q);
	int step;

	if (!q->began) {
		q->at_ns = INT64_MAX;
		q->at_id = INT64_MAX;
	}
	sqlite3_bind_int64(s, 1, (sqlite3_int64)q->since_ns);
	sqlite3_bind_int64(s, 2, (sqlite3_int64)q->at_ns);
	sqlite3_bind_int64(s, 3, (sqlite3_int64)q->at_id);
	sqlite3_bind_int64(s, 4, q->uid);
	sqlite3_bind_int64(s, 5, (sqlite3_int64)max);
	while ((step = sqlite3_step(s)) == SQLITE_ROW)
		history_read_job(s, &q->jobs[q->n++]);
	if (step != SQLITE_DONE)
		return history_fail(h, q);
	if (q->n) {
		q->at_ns = q->jobs[q->n - 1].ended_wallclock_ns;
		q->at_id = q->jobs[q->n - 1].id;
	}
	q->end = q->n < max;
	return 0;
}

/* The job is there, and visible to who asks. */
static int history_check_job(struct gp_history *h, struct gp_history_query *q)
{
	sqlite3_stmt *s = h->statements[HISTORY_UID];
	int step, r = 0;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)q->job);
	step = sqlite3_step(s);
	if (step == SQLITE_DONE || (step == SQLITE_ROW && q->uid != GP_HISTORY_ANY_UID &&
				    (uint32_t)sqlite3_column_int64(s, 0) != q->uid))
		r = history_no_job(q);
	else if (step != SQLITE_ROW)
		r = history_fail(h, q);
	sqlite3_reset(s);
	return r;
}

static int history_job(struct gp_history *h, struct gp_history_query *q)
{
	sqlite3_stmt *s = h->statements[HISTORY_JOB];
	int r = history_check_job(h, q);

	if (r < 0)
		return r;
	sqlite3_bind_int64(s, 1, (sqlite3_int64)q->job);
	if (sqlite3_step(s) != SQLITE_ROW)
		return history_fail(h, q);
	history_read_job(s, &q->jobs[q->n++]);
	q->end = true;
	return 0;
}

/* Only the last ones are wanted: before the first of them. */
static int history_first_event(struct gp_history *h, struct gp_history_query *q)
{
	sqlite3_stmt *s = h->statements[HISTORY_FIRST_EVENT];
	int step, r = 0;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)q->job);
	sqlite3_bind_int64(s, 2, (sqlite3_int64)q->limit - 1);
	step = sqlite3_step(s);
	if (step == SQLITE_ROW)
		q->at_id = (uint64_t)sqlite3_column_int64(s, 0) - 1;
	else if (step != SQLITE_DONE)
		r = history_fail(h, q);
	sqlite3_reset(s);
	return r;
}

static int history_events(struct gp_history *h, struct gp_history_query *q)
{
	sqlite3_stmt *s = h->statements[HISTORY_EVENTS];
	size_t max = history_batch(q);
	int step, r = 0;

	if (!q->began) {
		r = history_check_job(h, q);
		if (r == 0 && q->limit)
			r = history_first_event(h, q);
		if (r < 0)
			return r;
	}
	sqlite3_bind_int64(s, 1, (sqlite3_int64)q->job);
	sqlite3_bind_int64(s, 2, (sqlite3_int64)q->at_id);
	sqlite3_bind_int64(s, 3, (sqlite3_int64)q->since_ns);
	sqlite3_bind_int64(s, 4, (sqlite3_int64)max);
	while ((step = sqlite3_step(s)) == SQLITE_ROW) {
		struct gp_wire_event *e = &q->events[q->n++];

		q->at_id = (uint64_t)sqlite3_column_int64(s, 0);
		e->wallclock_ns = (uint64_t)sqlite3_column_int64(s, 1);
		e->duration_ns = (uint64_t)sqlite3_column_int64(s, 2);
		e->old_state = (uint32_t)sqlite3_column_int(s, 3);
		e->new_state = (uint32_t)sqlite3_column_int(s, 4);
		history_text(e->cause, sizeof(e->cause), s, 5);
		history_text(e->boot_id, sizeof(e->boot_id), s, 6);
	}
	if (step != SQLITE_DONE)
		return history_fail(h, q);
	q->end = q->n < max;
	return 0;
}

static int history_command(struct gp_history *h, struct gp_history_query *q)
{
	sqlite3_stmt *s = h->statements[HISTORY_COMMAND];
	int step;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)q->job);
	step = sqlite3_step(s);
	if (step == SQLITE_DONE)
		return history_no_job(q);
	if (step != SQLITE_ROW)
		return history_fail(h, q);
	q->blob_bytes = (size_t)sqlite3_column_bytes(s, 0);
	q->blob = malloc(q->blob_bytes);
	if (!q->blob)
		return gp_err_set(&q->err, -ENOMEM, "out of memory");
	memcpy(q->blob, sqlite3_column_blob(s, 0), q->blob_bytes);
	q->end = true;
	return 0;
}

static void history_read(struct gp_history *h, struct gp_history_query *q)
{
	(void)gp_store_wait_written(h->store, q->ticket, HISTORY_WRITTEN_MS);
	q->n = 0;
	q->end = true;
	switch (q->kind) {
	case GP_HISTORY_ENDED:
		q->code = history_ended(h, q);
		break;
	case GP_HISTORY_JOB:
		q->code = history_job(h, q);
		break;
	case GP_HISTORY_EVENTS:
		q->code = history_events(h, q);
		break;
	case GP_HISTORY_COMMAND:
		q->code = history_command(h, q);
		break;
	}
	/* Ends the read transaction, too. */
	for (size_t i = 0; i < HISTORY_STATEMENTS_; i++)
		sqlite3_reset(h->statements[i]);
	q->began = true;
	q->n_seen += q->n;
	q->end |= q->code < 0 || (q->limit && q->n_seen >= q->limit);
}

static void *history_thread(void *arg)
{
	struct gp_history *h = arg;

	pthread_mutex_lock(&h->lock);
	while (!h->stop) {
		struct gp_history_query *q;

		if (gp_list_empty(&h->asked)) {
			pthread_cond_wait(&h->wake, &h->lock);
			continue;
		}
		q = gp_container_of(h->asked.next, struct gp_history_query, node);
		gp_list_del(&q->node);
		pthread_mutex_unlock(&h->lock);
		history_read(h, q);
		pthread_mutex_lock(&h->lock);
		gp_list_add_tail(&h->read, &q->node);
		/* Fails only if the counter overflows, and then the loop is awake. */
		(void)eventfd_write(h->source.fd, 1);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

static struct gp_history_query *history_take(struct gp_history *h)
{
	struct gp_history_query *q = NULL;

	pthread_mutex_lock(&h->lock);
	if (!gp_list_empty(&h->read)) {
		q = gp_container_of(h->read.next, struct gp_history_query, node);
		gp_list_del(&q->node);
	}
	pthread_mutex_unlock(&h->lock);
	return q;
}

static void history_dispatch(struct gp_source *source, uint32_t events)
{
	struct gp_history *h = gp_container_of(source, struct gp_history, source);
	struct gp_history_query *q;
	eventfd_t n;

	(void)eventfd_read(source->fd, &n);
	while ((q = history_take(h)))
		q->done(q);
}

static int history_start_thread(struct gp_history *h, struct gp_err *err)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&h->thread, NULL, history_thread, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		return gp_err_sys(err, -r, "cannot start the database reader");
	h->has_thread = true;
	return 0;
}

static int history_open(struct gp_history *h, struct gp_err *err)
{
	int r = gp_store_db_open_reader(gp_store_path(h->store), &h->db, err);

	for (size_t i = 0; r == 0 && i < HISTORY_STATEMENTS_; i++) {
		if (sqlite3_prepare_v3(h->db, history_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &h->statements[i], NULL) != SQLITE_OK)
			r = gp_store_db_fail(h->db, gp_store_path(h->store), err);
	}
	if (r < 0)
		return r;
	h->source.dispatch = history_dispatch;
	h->source.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->source.fd < 0)
		return gp_err_sys(err, -errno, "cannot create an event fd");
	r = gp_loop_add(h->loop, &h->source, EPOLLIN, err);
	return r < 0 ? r : history_start_thread(h, err);
}

int gp_history_new(struct gp_store *store, struct gp_loop *loop, struct gp_history **ret_history,
		   struct gp_err *err)
{
	struct gp_history *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return gp_err_set(err, -ENOMEM, "out of memory");
	h->store = store;
	h->loop = loop;
	h->source.fd = -1;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->wake, NULL);
	gp_list_init(&h->asked);
	gp_list_init(&h->read);
	r = history_open(h, err);
	if (r < 0) {
		gp_history_free(h);
		return r;
	}
	*ret_history = h;
	return 0;
}

void gp_history_free(struct gp_history *h)
{
	if (!h)
		return;
	if (h->has_thread) {
		pthread_mutex_lock(&h->lock);
		h->stop = true;
		pthread_cond_signal(&h->wake);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->thread, NULL);
	}
	for (size_t i = 0; i < HISTORY_STATEMENTS_; i++)
		sqlite3_finalize(h->statements[i]);
	sqlite3_close(h->db);
	if (h->source.fd >= 0)
		gp_loop_remove(h->loop, &h->source);
	gp_close_fd(&h->source.fd);
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->wake);
	free(h);
}

void gp_history_ask(struct gp_history *h, struct gp_history_query *q)
{
	q->ticket = q->began ? 0 : gp_store_ticket(h->store);
	gp_list_init(&q->node);
	pthread_mutex_lock(&h->lock);
	gp_list_add_tail(&h->asked, &q->node);
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->lock);
}
