/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two lists of records: "pending" is filled by the loop's thread alone; gp_store_commit moves it as
 * one batch to "ready" under the lock, from where the writer takes whole batches to its own
 * "backlog". The connection belongs to the opener until the writer starts, then to the writer. A
 * batch that cannot be written stays in the backlog, made shorter: see store_compact. Whenever
 * there is nothing to be written, the writer forgets some of the past.
 */
#include "daemon/store.h"

#include "base/list.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/retention.h"
#include "daemon/store_db.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So often writing is tried again when it failed, and so often at most it is said. */
#define STORE_RETRY_NS GP_NS_PER_SEC
#define STORE_SAY_NS   (60 * GP_NS_PER_SEC)
/* Of a history that cannot be written: about 2 MiB. */
#define STORE_MAX_KEPT_EVENTS 8192
/* When there is nothing to write: forgetting, for the first time and then. */
#define STORE_FORGET_FIRST_NS (10 * GP_NS_PER_SEC)
#define STORE_FORGET_NS	      (300 * GP_NS_PER_SEC)

/* So much is freed before memory is given back to the system. */
#define STORE_TRIM_BYTES (8u << 20)

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
	size_t bytes;
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
	atomic_size_t backlog_bytes; /* of all lists */
	struct gp_list pending;
	uint32_t proc_block; /* the one reserved last */
	pthread_mutex_t lock;
	pthread_cond_t wake, written;
	struct gp_list ready;
	uint64_t n_committed; /* batches handed over; written under the lock by the loop alone */
	uint64_t n_written;
	bool stop, has_thread;
	pthread_t thread;
	struct gp_retention retention; /* under the lock */
	bool retention_changed;

	/* The writer's. */
	struct gp_list backlog;
	atomic_bool failing; /* written by the writer alone */
	bool said_failing;
	uint64_t failing_since_ns, said_ns, next_try_ns, next_forget_ns;
	uint64_t n_lost;    /* events, since it fails */
	size_t freed_bytes; /* since memory was given back */
	bool has_n_events;
	uint64_t n_events;
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

static void store_free_record(struct gp_store *store, struct store_record *record)
{
	atomic_fetch_sub(&store->backlog_bytes, record->bytes);
	store->freed_bytes += record->bytes;
	gp_list_del(&record->node);
	free(record);
}

static uint64_t store_record_job(const struct store_record *r)
{
	switch (r->kind) {
	case STORE_ADD_EVENT:
		return r->event.job;
	case STORE_PUT_PROC:
		return r->proc.job;
	case STORE_DELETE_PROC:
	case STORE_PUT_PROC_BLOCK:
		return 0;
	default:
		return r->job.id;
	}
}

/* The line is for people: a disk that is full now and then does not fill their journal, too. */
static void store_say_failing(struct gp_store *store)
{
	uint64_t now_ns = gp_now_ns();

	store->next_try_ns = now_ns + STORE_RETRY_NS;
	if (store->failing)
		return;
	store->failing = true;
	store->failing_since_ns = now_ns;
	if (store->said_ns && now_ns - store->said_ns < STORE_SAY_NS)
		return;
	gp_log(GP_LOG_ERR, "store",
	       "error=\"%s: jobs go on, but history is being lost until %s can be written again\"",
	       sqlite3_errmsg(store->db), gp_store_path(store));
	store->said_ns = now_ns;
	store->said_failing = true;
}

static void store_say_working(struct gp_store *store)
{
	if (store->failing && store->said_failing)
		gp_log(GP_LOG_WARN, "store", "written_again_after_s=%.1f events_lost=%" PRIu64,
		       (double)(gp_now_ns() - store->failing_since_ns) / GP_NS_PER_SEC,
		       store->n_lost);
	store->failing = false;
	store->said_failing = false;
	store->n_lost = 0;
}

/* What a record says the last word about; 0: nothing, each of its kind counts. */
static uint64_t store_subject(const struct store_record *r)
{
	switch (r->kind) {
	case STORE_PUT_JOB:
		return r->job.id << 2 | 1;
	case STORE_PUT_COMMAND:
	case STORE_DROP_COMMAND:
		return r->job.id << 2 | 2;
	case STORE_PUT_PROC:
	case STORE_DELETE_PROC:
		return (uint64_t)r->proc.proc << 2 | 3;
	case STORE_PUT_PROC_BLOCK:
		return 4; /* as no other: their last two bits are not 0 */
	default:
		return 0;
	}
}

/* Adds @subject to a table of @mask + 1 slots, some of them free; true if it is in it already. */
static bool store_seen(uint64_t *slots, size_t mask, uint64_t subject)
{
	size_t i = (size_t)(subject * 0x9e3779b97f4a7c15ull >> 20) & mask;

	while (slots[i] && slots[i] != subject)
		i = (i + 1) & mask;
	if (slots[i] == subject)
		return true;
	slots[i] = subject;
	return false;
}

/*
 * Keeps what matters of a backlog that cannot be written, and no more: of each job and process the
 * last word, and the last events. What is left can wait as long as it takes.
 */
static void store_compact(struct gp_store *store)
{
	size_t n = 0, n_slots = 64, n_events = 0;
	gp_auto_free uint64_t *slots = NULL;
	struct gp_list *at, *prev;

	gp_list_for_each(record, &store->backlog, struct store_record, node)
		n++;
	while (n_slots < 2 * n)
		n_slots *= 2;
	slots = calloc(n_slots, sizeof(*slots));
	for (at = store->backlog.prev; at != &store->backlog; at = prev) {
		struct store_record *record = gp_container_of(at, struct store_record, node);
		uint64_t subject = store_subject(record);

		prev = at->prev;
		if (record->kind == STORE_ADD_EVENT && ++n_events > STORE_MAX_KEPT_EVENTS) {
			store->n_lost++;
			store_free_record(store, record);
		} else if (slots && subject && store_seen(slots, n_slots - 1, subject)) {
			store_free_record(store, record);
		}
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

/* Wrong in itself: trying again would not help, and keep all others from being written. */
static bool store_is_record_bad(int code)
{
	return code == SQLITE_CONSTRAINT || code == SQLITE_TOOBIG || code == SQLITE_MISMATCH;
}

static int store_write_backlog(struct gp_store *store)
{
	int r = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	uint64_t n_events = 0;

	gp_list_for_each(record, &store->backlog, struct store_record, node) {
		if (r != SQLITE_OK)
			break;
		r = store_write_record(store, record);
		n_events += record->kind == STORE_ADD_EVENT;
		if (!store_is_record_bad(r))
			continue;
		gp_log(GP_LOG_ERR, "store", "job=%" PRIu64 " error=\"cannot be stored: %s\"",
		       store_record_job(record), sqlite3_errmsg(store->db));
		store_free_record(store, record);
		r = SQLITE_OK;
	}
	if (r == SQLITE_OK)
		r = sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
	if (r != SQLITE_OK) {
		store_say_failing(store);
		sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
		store_compact(store);
		return r;
	}
	store_say_working(store);
	store->n_events += n_events;
	gp_list_for_each(record, &store->backlog, struct store_record, node) {
		store_free_record(store, record);
	}
	return SQLITE_OK;
}

static void store_splice(struct gp_list *to, struct gp_list *from)
{
	gp_list_for_each(record, from, struct store_record, node) {
		gp_list_del(&record->node);
		gp_list_add_tail(to, &record->node);
	}
}

static void store_set_written(struct gp_store *store, uint64_t n)
{
	pthread_mutex_lock(&store->lock);
	store->n_written = n;
	pthread_cond_broadcast(&store->written);
	pthread_mutex_unlock(&store->lock);
}

static void store_count_events(struct gp_store *store)
{
	sqlite3_stmt *s = NULL;

	if (sqlite3_prepare_v2(store->db, "SELECT count(*) FROM events", -1, &s, NULL) ==
		    SQLITE_OK &&
	    sqlite3_step(s) == SQLITE_ROW) {
		store->n_events = (uint64_t)sqlite3_column_int64(s, 0);
		store->has_n_events = true;
	}
	sqlite3_finalize(s);
}

/* One step of forgetting the past; soon again if there is more of it. */
static void store_forget(struct gp_store *store)
{
	struct gp_retention retention;
	uint64_t deleted;
	bool more;

	pthread_mutex_lock(&store->lock);
	retention = store->retention;
	store->retention_changed = false;
	pthread_mutex_unlock(&store->lock);
	store->next_forget_ns = gp_now_ns() + STORE_FORGET_NS;
	if (!retention.days && !retention.events)
		return;
	if (!store->has_n_events)
		store_count_events(store);
	if (gp_retention_step(store->db, &retention, gp_wallclock_ns(), store->n_events, &deleted,
			      &more) != SQLITE_OK)
		return; /* there is always a next time */
	store->n_events -= deleted;
	if (more)
		store->next_forget_ns = gp_now_ns();
}

static void store_wait(struct gp_store *store, uint64_t until_ns)
{
	const struct timespec until = { .tv_sec = (time_t)(until_ns / GP_NS_PER_SEC),
					.tv_nsec = (long)(until_ns % GP_NS_PER_SEC) };

	pthread_cond_timedwait(&store->wake, &store->lock, &until);
}

/* Under the lock: sleeps until there is something to do. */
static void store_wait_for_work(struct gp_store *store)
{
	while (!store->stop) {
		uint64_t now_ns = gp_now_ns(), until_ns = store->next_forget_ns;

		if (store->retention_changed)
			until_ns = 0;
		if (store->failing)
			until_ns = store->next_try_ns;
		else if (!gp_list_empty(&store->ready))
			return;
		if (now_ns >= until_ns)
			return;
		store_wait(store, until_ns);
	}
}

/* After a burst: records of all sizes lie between what stays, and would be kept for good. */
static void store_give_back(struct gp_store *store)
{
	if (store->freed_bytes < STORE_TRIM_BYTES || atomic_load(&store->backlog_bytes))
		return;
	store->freed_bytes = 0;
	malloc_trim(0);
}

static void *store_thread(void *arg)
{
	struct gp_store *store = arg;
	uint64_t taken = 0;
	bool stop = false;

	store->next_forget_ns = gp_now_ns() + STORE_FORGET_FIRST_NS;
	while (!stop) {
		pthread_mutex_lock(&store->lock);
		store_wait_for_work(store);
		stop = store->stop;
		store_splice(&store->backlog, &store->ready);
		taken = store->n_committed;
		pthread_mutex_unlock(&store->lock);
		if (gp_list_empty(&store->backlog))
			store_forget(store);
		else if (store_write_backlog(store) == SQLITE_OK)
			store_set_written(store, taken);
		store_give_back(store);
	}
	return NULL;
}

const char *gp_store_path(const struct gp_store *store)
{
	return sqlite3_db_filename(store->db, NULL);
}

static int store_fail(struct gp_store *store, struct gp_err *err)
{
	return gp_store_db_fail(store->db, gp_store_path(store), err);
}

int gp_store_open(const char *path, struct gp_store **ret_store, struct gp_err *err)
{
	struct gp_store *store = calloc(1, sizeof(*store));
	pthread_condattr_t monotonic;
	int r;

	if (!store)
		return gp_err_set(err, -ENOMEM, "out of memory");
	gp_list_init(&store->pending);
	gp_list_init(&store->ready);
	gp_list_init(&store->backlog);
	pthread_mutex_init(&store->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&store->wake, &monotonic);
	pthread_cond_init(&store->written, &monotonic);
	pthread_condattr_destroy(&monotonic);
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

static void store_drop_backlog(struct gp_store *store)
{
	size_t n = 0;

	gp_list_for_each(record, &store->backlog, struct store_record, node) {
		n += record->kind == STORE_PUT_JOB;
		store_free_record(store, record);
	}
	if (n)
		gp_log(GP_LOG_ERR, "store", "error=\"the last state of %zu jobs was not written\"",
		       n);
}

void gp_store_set_retention(struct gp_store *store, uint64_t days, uint64_t events,
			    const char *jobs_dir)
{
	pthread_mutex_lock(&store->lock);
	store->retention.days = days;
	store->retention.events = events;
	snprintf(store->retention.jobs_dir, sizeof(store->retention.jobs_dir), "%s", jobs_dir);
	store->retention_changed = true;
	pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->lock);
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
	store_drop_backlog(store);
	for (size_t i = 0; i < STORE_KINDS_; i++)
		sqlite3_finalize(store->statements[i]);
	sqlite3_close(store->db);
	pthread_mutex_destroy(&store->lock);
	pthread_cond_destroy(&store->wake);
	pthread_cond_destroy(&store->written);
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
	int64_t next = 0;

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
/* Blocks are used in a ring, without number 0. */
static uint32_t store_next_block(int64_t block)
{
	return (uint32_t)(block % (UINT32_MAX / GP_STORE_PROC_BLOCK)) + 1;
}

int gp_store_take_proc_block(struct gp_store *store, uint32_t *ret_first, struct gp_err *err)
{
	struct store_record record = { .kind = STORE_PUT_PROC_BLOCK };
	int64_t last = 0;
	int r;

	r = store_number(store,
			 "SELECT ifnull((SELECT value FROM meta WHERE key = 'proc_block'), 0)",
			 &last, err);
	if (r < 0)
		return r;
	record.block = store_next_block(last);
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
	r->bytes = sizeof(*r) + text_bytes;
	atomic_fetch_add(&store->backlog_bytes, r->bytes);
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
	/* Our block is used up, and the next one begun. Who comes back has a number of an old one.
	 */
	if (proc / GP_STORE_PROC_BLOCK != store_next_block(store->proc_block))
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
	store->n_committed++;
	pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->lock);
}

size_t gp_store_backlog_bytes(const struct gp_store *store)
{
	return store->backlog_bytes;
}

bool gp_store_is_failing(const struct gp_store *store)
{
	return store->failing;
}

uint64_t gp_store_ticket(const struct gp_store *store)
{
	return store->n_committed + !gp_list_empty(&store->pending);
}

bool gp_store_wait_written(struct gp_store *store, uint64_t ticket, int timeout_ms)
{
	uint64_t until_ns = gp_now_ns() + (uint64_t)timeout_ms * GP_NS_PER_MS;
	const struct timespec until = { .tv_sec = (time_t)(until_ns / GP_NS_PER_SEC),
					.tv_nsec = (long)(until_ns % GP_NS_PER_SEC) };
	bool written;

	pthread_mutex_lock(&store->lock);
	while (store->n_written < ticket &&
	       pthread_cond_timedwait(&store->written, &store->lock, &until) == 0)
		;
	written = store->n_written >= ticket;
	pthread_mutex_unlock(&store->lock);
	return written;
}
