/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two lists of records: "pending" is filled by the loop's thread alone; gp_store_commit moves it as
 * one batch to "ready" under the lock, from where the writer takes whole batches. The connection
 * belongs to the opener until the writer starts, then to the writer.
 */
#include "daemon/store.h"

#include "base/list.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PRAGMA user_version; raise it together with a new entry of store_migrations. */
#define STORE_VERSION 1

static const char *const store_migrations[STORE_VERSION] = {
	"CREATE TABLE jobs (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, priority INTEGER NOT "
	"NULL,"
	" uid INTEGER NOT NULL, n_args INTEGER NOT NULL, n_env INTEGER NOT NULL, exit_code INTEGER,"
	" mem_bytes INTEGER NOT NULL, submitted_ns INTEGER, started_ns INTEGER, ended_ns INTEGER,"
	" n_preemptions INTEGER NOT NULL, adopted INTEGER NOT NULL, name TEXT NOT NULL,"
	" cause TEXT NOT NULL, blob BLOB);"
	"CREATE TABLE events (job INTEGER NOT NULL, wallclock_ns INTEGER NOT NULL,"
	" duration_ns INTEGER NOT NULL, old_state INTEGER NOT NULL, new_state INTEGER NOT NULL,"
	" cause TEXT NOT NULL, boot_id TEXT NOT NULL);"
	"CREATE INDEX events_by_job ON events (job);",
};

enum store_statement { STORE_PUT_JOB, STORE_ADD_EVENT, STORE_STATEMENTS_ };

static const char *const store_sql[STORE_STATEMENTS_] = {
	[STORE_PUT_JOB] =
		"INSERT INTO jobs (id, state, priority, uid, n_args, n_env,"
		" exit_code, mem_bytes, submitted_ns, started_ns, ended_ns, n_preemptions,"
		" adopted, name, cause, blob)"
		" VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
		" ON CONFLICT (id) DO UPDATE SET state=excluded.state,"
		" priority=excluded.priority, uid=excluded.uid, n_args=excluded.n_args,"
		" n_env=excluded.n_env, exit_code=excluded.exit_code,"
		" mem_bytes=excluded.mem_bytes, submitted_ns=excluded.submitted_ns,"
		" started_ns=excluded.started_ns, ended_ns=excluded.ended_ns,"
		" n_preemptions=excluded.n_preemptions, adopted=excluded.adopted,"
		" name=excluded.name, cause=excluded.cause, blob=COALESCE(excluded.blob, blob)",
	[STORE_ADD_EVENT] =
		"INSERT INTO events (job, wallclock_ns, duration_ns, old_state, new_state,"
		" cause, boot_id) VALUES (?,?,?,?,?,?,?)",
};

#define STORE_LOAD                                                                                 \
	"SELECT id, state, priority, uid, n_args, n_env, exit_code, mem_bytes, submitted_ns,"      \
	" started_ns, ended_ns, n_preemptions, adopted, name, cause, blob FROM jobs ORDER BY id"

struct store_record {
	struct gp_list node;
	bool is_event;
	struct gp_store_job job;
	struct gp_store_event event;
	char text[]; /* what the pointers above point to */
};

struct gp_store {
	sqlite3 *db;
	sqlite3_stmt *statements[STORE_STATEMENTS_];
	struct gp_list pending;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct gp_list ready;
	bool stop, has_thread;
	pthread_t thread;
};

static void store_bind(sqlite3_stmt *s, const struct store_record *r)
{
	const struct gp_store_job *j = &r->job;
	const struct gp_store_event *e = &r->event;
	int n = 0;

	if (r->is_event) {
		const uint64_t v[] = { e->job, e->wallclock_ns, e->duration_ns, e->old_state,
				       e->new_state };

		for (size_t i = 0; i < GP_ARRAY_SIZE(v); i++)
			sqlite3_bind_int64(s, ++n, (sqlite3_int64)v[i]);
		sqlite3_bind_text(s, ++n, e->cause, -1, SQLITE_STATIC);
		sqlite3_bind_text(s, ++n, e->boot_id, -1, SQLITE_STATIC);
		return;
	}
	const int64_t v[] = { (int64_t)j->id,
			      j->state,
			      j->priority,
			      j->uid,
			      j->n_args,
			      j->n_env,
			      j->exit_code,
			      (int64_t)j->mem_bytes,
			      (int64_t)j->submitted_ns,
			      (int64_t)j->started_ns,
			      (int64_t)j->ended_ns,
			      j->n_preemptions,
			      j->adopted };

	for (size_t i = 0; i < GP_ARRAY_SIZE(v); i++)
		sqlite3_bind_int64(s, ++n, v[i]);
	sqlite3_bind_text(s, ++n, j->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, ++n, j->cause, -1, SQLITE_STATIC);
	sqlite3_bind_blob64(s, ++n, j->blob, j->blob_bytes, SQLITE_STATIC);
}

static int store_write_batch(struct gp_store *store, struct gp_list *batch)
{
	int r = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

	gp_list_for_each(record, batch, struct store_record, node) {
		sqlite3_stmt *s =
			store->statements[record->is_event ? STORE_ADD_EVENT : STORE_PUT_JOB];

		if (r == SQLITE_OK) {
			store_bind(s, record);
			r = sqlite3_step(s) == SQLITE_DONE ? SQLITE_OK : sqlite3_errcode(store->db);
			sqlite3_reset(s);
			sqlite3_clear_bindings(s);
		}
		gp_list_del(&record->node);
		free(record);
	}
	if (r == SQLITE_OK)
		r = sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
	if (r != SQLITE_OK) {
		gp_log(GP_LOG_ERR, "store", "error=\"%s: history is being lost\"",
		       sqlite3_errmsg(store->db));
		sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
	}
	return r;
}

static void store_splice(struct gp_list *to, struct gp_list *from)
{
	gp_list_for_each(record, from, struct store_record, node) {
		gp_list_del(&record->node);
		gp_list_add_tail(to, &record->node);
	}
}

static void *store_thread(void *arg)
{
	struct gp_store *store = arg;
	struct gp_list batch;
	bool stop = false;

	gp_list_init(&batch);
	while (!stop) {
		pthread_mutex_lock(&store->lock);
		while (gp_list_empty(&store->ready) && !store->stop)
			pthread_cond_wait(&store->wake, &store->lock);
		stop = store->stop;
		store_splice(&batch, &store->ready);
		pthread_mutex_unlock(&store->lock);
		if (!gp_list_empty(&batch))
			store_write_batch(store, &batch);
	}
	return NULL;
}

static int store_fail(struct gp_store *store, const char *path, struct gp_err *err)
{
	int code = sqlite3_errcode(store->db);

	if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
		return gp_err_set(
			err, -EUCLEAN,
			"the database %s is damaged (%s): move it away to start afresh, or "
			"rescue it with sqlite3's .recover",
			path, sqlite3_errmsg(store->db));
	return gp_err_set(err, -EIO, "the database %s cannot be used: %s", path,
			  sqlite3_errmsg(store->db));
}

static int store_migrate(struct gp_store *store, const char *path, struct gp_err *err)
{
	sqlite3_stmt *s = NULL;
	char set[64];
	int version;

	if (sqlite3_prepare_v2(store->db, "PRAGMA user_version", -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_ROW) {
		sqlite3_finalize(s);
		return store_fail(store, path, err);
	}
	version = sqlite3_column_int(s, 0);
	sqlite3_finalize(s);
	if (version > STORE_VERSION)
		return gp_err_set(
			err, -EPROTO,
			"the database %s was made by a newer gpupres (schema %d, this one "
			"knows %d): upgrade, or use another --state-dir",
			path, version, STORE_VERSION);
	for (; version < STORE_VERSION; version++) {
		snprintf(set, sizeof(set), "PRAGMA user_version=%d; COMMIT", version + 1);
		if (sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK ||
		    sqlite3_exec(store->db, store_migrations[version], NULL, NULL, NULL) !=
			    SQLITE_OK ||
		    sqlite3_exec(store->db, set, NULL, NULL, NULL) != SQLITE_OK)
			return store_fail(store, path, err);
	}
	return 0;
}

static int store_start_thread(struct gp_store *store, struct gp_err *err)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&store->thread, NULL, store_thread, store);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		return gp_err_sys(err, -r, "cannot start the database writer");
	store->has_thread = true;
	return 0;
}

int gp_store_open(const char *path, struct gp_store **ret_store, struct gp_err *err)
{
	struct gp_store *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return gp_err_set(err, -ENOMEM, "out of memory");
	gp_list_init(&store->pending);
	gp_list_init(&store->ready);
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->wake, NULL);
	if (sqlite3_open_v2(path, &store->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
		    SQLITE_OK ||
	    sqlite3_busy_timeout(store->db, 5000) != SQLITE_OK ||
	    sqlite3_exec(store->db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL", NULL,
			 NULL, NULL) != SQLITE_OK)
		r = store_fail(store, path, err);
	else
		r = store_migrate(store, path, err);
	for (size_t i = 0; r == 0 && i < STORE_STATEMENTS_; i++) {
		if (sqlite3_prepare_v3(store->db, store_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &store->statements[i], NULL) != SQLITE_OK)
			r = store_fail(store, path, err);
	}
	if (r < 0) {
		gp_store_close(store);
		return r;
	}
	*ret_store = store;
	return 0;
}

void gp_store_close(struct gp_store *store)
{
	if (!store)
		return;
	gp_store_commit(store);
	if (store->has_thread) {
		pthread_mutex_lock(&store->lock);
		store->stop = true;
		pthread_cond_signal(&store->wake);
		pthread_mutex_unlock(&store->lock);
		pthread_join(store->thread, NULL);
	}
	for (size_t i = 0; i < STORE_STATEMENTS_; i++)
		sqlite3_finalize(store->statements[i]);
	sqlite3_close(store->db);
	pthread_mutex_destroy(&store->lock);
	pthread_cond_destroy(&store->wake);
	free(store);
}

/* NULL: out of memory, or no text. */
static const char *store_text(sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	return text ? text : "";
}

static void store_read_row(sqlite3_stmt *s, struct gp_store_job *ret)
{
	*ret = (struct gp_store_job){
		.id = (uint64_t)sqlite3_column_int64(s, 0),
		.state = (uint32_t)sqlite3_column_int(s, 1),
		.priority = sqlite3_column_int(s, 2),
		.uid = (uint32_t)sqlite3_column_int64(s, 3),
		.n_args = (uint32_t)sqlite3_column_int64(s, 4),
		.n_env = (uint32_t)sqlite3_column_int64(s, 5),
		.exit_code = sqlite3_column_int(s, 6),
		.mem_bytes = (uint64_t)sqlite3_column_int64(s, 7),
		.submitted_ns = (uint64_t)sqlite3_column_int64(s, 8),
		.started_ns = (uint64_t)sqlite3_column_int64(s, 9),
		.ended_ns = (uint64_t)sqlite3_column_int64(s, 10),
		.n_preemptions = (uint32_t)sqlite3_column_int64(s, 11),
		.adopted = sqlite3_column_int(s, 12) != 0,
		.name = store_text(s, 13),
		.cause = store_text(s, 14),
		.blob = sqlite3_column_blob(s, 15),
		.blob_bytes = (size_t)sqlite3_column_bytes(s, 15),
	};
}

int gp_store_load(struct gp_store *store,
		  int (*each)(const struct gp_store_job *job, void *arg, struct gp_err *err),
		  void *arg, struct gp_err *err)
{
	sqlite3_stmt *s = NULL;
	struct gp_store_job job;
	int r = 0, step = SQLITE_DONE;

	if (sqlite3_prepare_v2(store->db, STORE_LOAD, -1, &s, NULL) != SQLITE_OK)
		return store_fail(store, sqlite3_db_filename(store->db, NULL), err);
	while (r == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
		store_read_row(s, &job);
		r = each(&job, arg, err);
	}
	if (r == 0 && step != SQLITE_DONE)
		r = store_fail(store, sqlite3_db_filename(store->db, NULL), err);
	sqlite3_finalize(s);
	return r < 0 ? r : store_start_thread(store, err);
}

/* One allocation holds the record and copies of all it points to. */
static char *store_copy(char **at, const void *from, size_t bytes)
{
	char *to = *at;

	if (bytes)
		memcpy(to, from, bytes);
	*at += bytes;
	return to;
}

void gp_store_put_job(struct gp_store *store, const struct gp_store_job *job)
{
	size_t name = strlen(job->name) + 1, cause = strlen(job->cause) + 1;
	struct store_record *r = calloc(1, sizeof(*r) + name + cause + job->blob_bytes);
	char *at;

	if (!r) {
		gp_log(GP_LOG_ERR, "store", "job=%" PRIu64 " error=\"out of memory\"", job->id);
		return;
	}
	at = r->text;
	r->job = *job;
	r->job.name = store_copy(&at, job->name, name);
	r->job.cause = store_copy(&at, job->cause, cause);
	r->job.blob = job->blob_bytes ? store_copy(&at, job->blob, job->blob_bytes) : NULL;
	gp_list_add_tail(&store->pending, &r->node);
}

void gp_store_add_event(struct gp_store *store, const struct gp_store_event *event)
{
	size_t cause = strlen(event->cause) + 1, boot = strlen(event->boot_id) + 1;
	struct store_record *r = calloc(1, sizeof(*r) + cause + boot);
	char *at;

	if (!r) {
		gp_log(GP_LOG_ERR, "store", "job=%" PRIu64 " error=\"out of memory\"", event->job);
		return;
	}
	at = r->text;
	r->is_event = true;
	r->event = *event;
	r->event.cause = store_copy(&at, event->cause, cause);
	r->event.boot_id = store_copy(&at, event->boot_id, boot);
	gp_list_add_tail(&store->pending, &r->node);
}

void gp_store_commit(struct gp_store *store)
{
	if (gp_list_empty(&store->pending))
		return;
	pthread_mutex_lock(&store->lock);
	store_splice(&store->ready, &store->pending);
	pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->lock);
}
