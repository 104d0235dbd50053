/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two lists of records: "pending" is filled by the loop's thread alone; gp_store_commit moves it as
 * one batch to "ready" under the lock, from where the writer takes whole batches to its own
 * "backlog". The connection belongs to the opener until the writer starts, then to the writer. A
 * batch that cannot be written stays in the backlog, made shorter: see store_compact.
 */
#include "daemon/store.h"

#include "base/list.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/store_db.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum store_kind {
	STORE_PUT_JOB,
	STORE_PUT_COMMAND,
	STORE_DROP_COMMAND, /* with the last PUT_JOB */
	STORE_ADD_EVENT,
	STORE_PUT_PROC,
	STORE_DELETE_PROC,
	STORE_PUT_PROC_BLOCK,
	STORE_KINDS_,
};

static const char *const store_sql[STORE_KINDS_] = {
	[STORE_PUT_JOB] =
		"INSERT INTO jobs (id, state, priority, uid, n_args, n_env,"
		" exit_code, mem_bytes, submitted_ns, started_ns, ended_ns, n_preemptions,"
		" adopted, held, cancelling, device, name, cause, fail_cause, command)"
		" VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
		" ON CONFLICT (id) DO UPDATE SET state=excluded.state,"
		" priority=excluded.priority, uid=excluded.uid, n_args=excluded.n_args,"
		" n_env=excluded.n_env, exit_code=excluded.exit_code,"
		" mem_bytes=excluded.mem_bytes, submitted_ns=excluded.submitted_ns,"
		" started_ns=excluded.started_ns, ended_ns=excluded.ended_ns,"
		" n_preemptions=excluded.n_preemptions, adopted=excluded.adopted,"
		" held=excluded.held, cancelling=excluded.cancelling, device=excluded.device,"
		" name=excluded.name, cause=excluded.cause, fail_cause=excluded.fail_cause,"
		" command=excluded.command",
	[STORE_PUT_COMMAND] = "INSERT OR REPLACE INTO commands (job, blob) VALUES (?,?)",
	[STORE_DROP_COMMAND] = "DELETE FROM commands WHERE job = ?",
	[STORE_ADD_EVENT] = "INSERT INTO events (job, wallclock_ns, duration_ns, old_state,"
			    " new_state, cause, boot_id) VALUES (?,?,?,?,?,?,?)",
	[STORE_PUT_PROC] = "INSERT OR REPLACE INTO procs (proc, job, pid) VALUES (?,?,?)",
	[STORE_DELETE_PROC] = "DELETE FROM procs WHERE proc = ?",
	[STORE_PUT_PROC_BLOCK] = "INSERT OR REPLACE INTO meta (key, value)"
				 " VALUES ('proc_block', ?)",
};

/* Live jobs have ended_ns 0; the others come by an index. */
#define STORE_LOAD                                                                                 \
	"SELECT id, state, priority, uid, n_args, n_env, exit_code, mem_bytes, submitted_ns,"      \
	" started_ns, ended_ns, n_preemptions, adopted, held, cancelling, device, name, cause,"    \
	" fail_cause, command, (SELECT blob FROM commands WHERE job = id AND ended_ns = 0)"        \
	" FROM jobs WHERE id IN (SELECT id FROM jobs WHERE ended_ns = 0 UNION ALL"                 \
	" SELECT id FROM (SELECT id FROM jobs WHERE ended_ns > 0 ORDER BY ended_ns DESC LIMIT ?))" \
	" ORDER BY id"
#define STORE_NEXT_JOB                                                                             \
	"SELECT max(ifnull((SELECT max(id) FROM jobs), 0) + 1,"                                    \
	" ifnull((SELECT value FROM meta WHERE key = 'next_job'), 1))"

struct store_record {
	struct gp_list node;
	enum store_kind kind;
	union {
		struct gp_store_job job;
		struct gp_store_event event;
		struct gp_store_proc proc;
		uint32_t block;
	};
	char text[]; /* what the pointers above point to */
};

struct gp_store {
	sqlite3 *db;
	sqlite3_stmt *statements[STORE_KINDS_];
	struct gp_list pending;
	uint32_t proc_block; /* the one reserved last */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct gp_list ready;
	bool stop, has_thread;
	pthread_t thread;
	struct gp_list backlog; /* the writer's */
};

static void store_bind_job(sqlite3_stmt *s, const struct gp_store_job *j)
{
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
			      j->adopted,
			      j->held,
			      j->cancelling,
			      j->device };
	const char *const text[] = { j->name, j->cause, j->fail_cause, j->command };
	int n = 0;

	for (size_t i = 0; i < GP_ARRAY_SIZE(v); i++)
		sqlite3_bind_int64(s, ++n, v[i]);
	for (size_t i = 0; i < GP_ARRAY_SIZE(text); i++)
		sqlite3_bind_text(s, ++n, text[i], -1, SQLITE_STATIC);
}

static void store_bind_event(sqlite3_stmt *s, const struct gp_store_event *e)
{
	const uint64_t v[] = { e->job, e->wallclock_ns, e->duration_ns, e->old_state,
			       e->new_state };
	int n = 0;

	for (size_t i = 0; i < GP_ARRAY_SIZE(v); i++)
		sqlite3_bind_int64(s, ++n, (sqlite3_int64)v[i]);
	sqlite3_bind_text(s, ++n, e->cause, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, ++n, e->boot_id, -1, SQLITE_STATIC);
}

static void store_bind(sqlite3_stmt *s, const struct store_record *r)
{
	switch (r->kind) {
	case STORE_PUT_JOB:
		store_bind_job(s, &r->job);
		break;
	case STORE_PUT_COMMAND:
		sqlite3_bind_int64(s, 1, (sqlite3_int64)r->job.id);
		sqlite3_bind_blob64(s, 2, r->job.blob, r->job.blob_bytes, SQLITE_STATIC);
		break;
	case STORE_DROP_COMMAND:
		sqlite3_bind_int64(s, 1, (sqlite3_int64)r->job.id);
		break;
	case STORE_ADD_EVENT:
		store_bind_event(s, &r->event);
		break;
	case STORE_PUT_PROC:
		sqlite3_bind_int64(s, 2, (sqlite3_int64)r->proc.job);
		sqlite3_bind_int64(s, 3, r->proc.pid);
		/* fallthrough */
	case STORE_DELETE_PROC:
		sqlite3_bind_int64(s, 1, r->proc.proc);
		break;
	case STORE_PUT_PROC_BLOCK:
		sqlite3_bind_int64(s, 1, r->block);
		break;
	case STORE_KINDS_:
		break;
	}
}

static int store_write_record(struct gp_store *store, const struct store_record *record)
{
	sqlite3_stmt *s = store->statements[record->kind];
	int r;

	store_bind(s, record);
	r = sqlite3_step(s) == SQLITE_DONE ? SQLITE_OK : sqlite3_errcode(store->db);
	sqlite3_reset(s);
	sqlite3_clear_bindings(s);
	return r;
}

static void store_free_list(struct gp_list *list)
{
	gp_list_for_each(record, list, struct store_record, node) {
		gp_list_del(&record->node);
		free(record);
	}
}

static int store_write_backlog(struct gp_store *store)
{
	int r = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

	gp_list_for_each(record, &store->backlog, struct store_record, node) {
		if (r == SQLITE_OK)
			r = store_write_record(store, record);
	}
	if (r == SQLITE_OK)
		r = sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
	if (r != SQLITE_OK) {
		gp_log(GP_LOG_ERR, "store", "error=\"%s: history is being lost\"",
		       sqlite3_errmsg(store->db));
		sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
	}
	store_free_list(&store->backlog);
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
	bool stop = false;

	while (!stop) {
		pthread_mutex_lock(&store->lock);
		while (gp_list_empty(&store->ready) && !store->stop)
			pthread_cond_wait(&store->wake, &store->lock);
		stop = store->stop;
		store_splice(&store->backlog, &store->ready);
		pthread_mutex_unlock(&store->lock);
		if (!gp_list_empty(&store->backlog))
			store_write_backlog(store);
	}
	return NULL;
}

static const char *store_path(const struct gp_store *store)
{
	return sqlite3_db_filename(store->db, NULL);
}

static int store_fail(struct gp_store *store, struct gp_err *err)
{
	return gp_store_db_fail(store->db, store_path(store), err);
}

int gp_store_open(const char *path, struct gp_store **ret_store, struct gp_err *err)
{
	struct gp_store *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return gp_err_set(err, -ENOMEM, "out of memory");
	gp_list_init(&store->pending);
	gp_list_init(&store->ready);
	gp_list_init(&store->backlog);
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->wake, NULL);
	r = gp_store_db_open(path, &store->db, err);
	for (size_t i = 0; r == 0 && i < STORE_KINDS_; i++) {
		if (sqlite3_prepare_v3(store->db, store_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &store->statements[i], NULL) != SQLITE_OK)
			r = store_fail(store, err);
	}
	if (r < 0) {
		gp_store_close(store);
		return r;
	}
	*ret_store = store;
	return 0;
}

int gp_store_start(struct gp_store *store, struct gp_err *err)
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
	} else if (!gp_list_empty(&store->ready)) {
		store_splice(&store->backlog, &store->ready);
		store_write_backlog(store);
	}
	for (size_t i = 0; i < STORE_KINDS_; i++)
		sqlite3_finalize(store->statements[i]);
	sqlite3_close(store->db);
	pthread_mutex_destroy(&store->lock);
	pthread_cond_destroy(&store->wake);
	free(store);
}

/* Never NULL: out of memory is an empty text. */
static const char *store_text(sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	return text ? text : "";
}

static void store_read_job(sqlite3_stmt *s, struct gp_store_job *ret)
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
		.held = sqlite3_column_int(s, 13) != 0,
		.cancelling = sqlite3_column_int(s, 14) != 0,
		.device = sqlite3_column_int(s, 15),
		.name = store_text(s, 16),
		.cause = store_text(s, 17),
		.fail_cause = store_text(s, 18),
		.command = store_text(s, 19),
		.blob = sqlite3_column_blob(s, 20),
		.blob_bytes = (size_t)sqlite3_column_bytes(s, 20),
	};
}

/* The number that @sql, a query of one row, gives. */
static int store_number(struct gp_store *store, const char *sql, int64_t *ret, struct gp_err *err)
{
	sqlite3_stmt *s = NULL;
	int r = 0;

	if (sqlite3_prepare_v2(store->db, sql, -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_ROW)
		r = store_fail(store, err);
	else
		*ret = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	return r;
}

int gp_store_load(struct gp_store *store,
		  int (*each)(const struct gp_store_job *job, void *arg, struct gp_err *err),
		  void *arg, uint64_t *ret_next_job, struct gp_err *err)
{
	sqlite3_stmt *s = NULL;
	struct gp_store_job job;
	int r, step = SQLITE_DONE;
	int64_t next;

	r = store_number(store, STORE_NEXT_JOB, &next, err);
	if (r < 0)
		return r;
	*ret_next_job = (uint64_t)next;
	if (sqlite3_prepare_v2(store->db, STORE_LOAD, -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_bind_int(s, 1, GP_STORE_MAX_ENDED) != SQLITE_OK)
		r = store_fail(store, err);
	while (r == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
		store_read_job(s, &job);
		r = each(&job, arg, err);
	}
	if (r == 0 && step != SQLITE_DONE)
		r = store_fail(store, err);
	sqlite3_finalize(s);
	return r < 0 ? r : 0;
}

int gp_store_load_procs(struct gp_store *store,
			int (*each)(const struct gp_store_proc *proc, void *arg,
				    struct gp_err *err),
			void *arg, struct gp_err *err)
{
	int r = 0, step = SQLITE_DONE;
	sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(store->db, "SELECT job, proc, pid FROM procs ORDER BY proc", -1, &s,
			       NULL) != SQLITE_OK)
		return store_fail(store, err);
	while (r == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
		const struct gp_store_proc proc = {
			.job = (uint64_t)sqlite3_column_int64(s, 0),
			.proc = (uint32_t)sqlite3_column_int64(s, 1),
			.pid = sqlite3_column_int(s, 2),
		};

		r = each(&proc, arg, err);
	}
	if (r == 0 && step != SQLITE_DONE)
		r = store_fail(store, err);
	sqlite3_finalize(s);
	return r < 0 ? r : 0;
}

/* Block 0 is left out, and with it the number 0. */
int gp_store_take_proc_block(struct gp_store *store, uint32_t *ret_first, struct gp_err *err)
{
	struct store_record record = { .kind = STORE_PUT_PROC_BLOCK };
	int64_t last;
	int r;

	r = store_number(store,
			 "SELECT ifnull((SELECT value FROM meta WHERE key = 'proc_block'), 0)",
			 &last, err);
	if (r < 0)
		return r;
	record.block = (uint32_t)(last % (UINT32_MAX / GP_STORE_PROC_BLOCK)) + 1;
	if (store_write_record(store, &record) != SQLITE_OK)
		return store_fail(store, err);
	store->proc_block = record.block;
	*ret_first = record.block * GP_STORE_PROC_BLOCK;
	return 0;
}

int gp_store_swap_boot_id(struct gp_store *store, const char *boot_id, bool *ret_same,
			  struct gp_err *err)
{
	sqlite3_stmt *get = NULL, *put = NULL;
	const char *last;
	int r = 0;

	if (sqlite3_prepare_v2(store->db, "SELECT value FROM meta WHERE key = 'boot_id'", -1, &get,
			       NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(store->db, "REPLACE INTO meta (key, value) VALUES ('boot_id', ?)",
			       -1, &put, NULL) != SQLITE_OK)
		r = store_fail(store, err);
	if (r == 0) {
		last = sqlite3_step(get) == SQLITE_ROW ? (const char *)sqlite3_column_text(get, 0)
						       : NULL;
		*ret_same = !last || !strcmp(last, boot_id);
		sqlite3_reset(get);
		sqlite3_bind_text(put, 1, boot_id, -1, SQLITE_STATIC);
		if (sqlite3_step(put) != SQLITE_DONE)
			r = store_fail(store, err);
	}
	sqlite3_finalize(get);
	sqlite3_finalize(put);
	return r;
}

/* One allocation holds the record and copies of all it points to. NULL: out of memory, logged. */
static struct store_record *store_new(struct gp_store *store, enum store_kind kind, uint64_t job,
				      size_t text_bytes)
{
	struct store_record *r = calloc(1, sizeof(*r) + text_bytes);

	if (!r) {
		gp_log(GP_LOG_ERR, "store", "job=%" PRIu64 " error=\"out of memory\"", job);
		return NULL;
	}
	r->kind = kind;
	gp_list_init(&r->node);
	gp_list_add_tail(&store->pending, &r->node);
	return r;
}

static const void *store_copy(char **at, const void *from, size_t bytes)
{
	char *to = *at;

	memcpy(to, from, bytes);
	*at += bytes;
	return to;
}

static void store_put_command(struct gp_store *store, const struct gp_store_job *job)
{
	struct store_record *r;
	char *at;

	if (job->ended_ns) {
		r = store_new(store, STORE_DROP_COMMAND, job->id, 0);
		if (r)
			r->job.id = job->id;
	} else if (job->blob_bytes) {
		r = store_new(store, STORE_PUT_COMMAND, job->id, job->blob_bytes);
		if (!r)
			return;
		at = r->text;
		r->job.id = job->id;
		r->job.blob = store_copy(&at, job->blob, job->blob_bytes);
		r->job.blob_bytes = job->blob_bytes;
	}
}

void gp_store_put_job(struct gp_store *store, const struct gp_store_job *job)
{
	const char *const text[] = { job->name, job->cause, job->fail_cause, job->command };
	size_t bytes[GP_ARRAY_SIZE(text)], sum = 0;
	struct store_record *r;
	char *at;

	for (size_t i = 0; i < GP_ARRAY_SIZE(text); i++) {
		bytes[i] = text[i] ? strlen(text[i]) + 1 : 1;
		sum += bytes[i];
	}
	r = store_new(store, STORE_PUT_JOB, job->id, sum);
	if (!r)
		return;
	at = r->text;
	r->job = *job;
	r->job.name = store_copy(&at, text[0] ? text[0] : "", bytes[0]);
	r->job.cause = store_copy(&at, text[1] ? text[1] : "", bytes[1]);
	r->job.fail_cause = store_copy(&at, text[2] ? text[2] : "", bytes[2]);
	r->job.command = store_copy(&at, text[3] ? text[3] : "", bytes[3]);
	store_put_command(store, job);
}

void gp_store_add_event(struct gp_store *store, const struct gp_store_event *event)
{
	size_t cause = strlen(event->cause) + 1, boot = strlen(event->boot_id) + 1;
	struct store_record *r = store_new(store, STORE_ADD_EVENT, event->job, cause + boot);
	char *at;

	if (!r)
		return;
	at = r->text;
	r->event = *event;
	r->event.cause = store_copy(&at, event->cause, cause);
	r->event.boot_id = store_copy(&at, event->boot_id, boot);
}

void gp_store_put_proc(struct gp_store *store, uint64_t job, uint32_t proc, pid_t pid)
{
	struct store_record *r = store_new(store, STORE_PUT_PROC, job, 0);

	if (r)
		r->proc = (struct gp_store_proc){ .job = job, .proc = proc, .pid = pid };
	if (proc / GP_STORE_PROC_BLOCK == store->proc_block)
		return;
	r = store_new(store, STORE_PUT_PROC_BLOCK, job, 0);
	if (!r)
		return;
	r->block = store->proc_block = proc / GP_STORE_PROC_BLOCK;
}

void gp_store_delete_proc(struct gp_store *store, uint32_t proc)
{
	struct store_record *r = store_new(store, STORE_DELETE_PROC, 0, 0);

	if (r)
		r->proc.proc = proc;
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
