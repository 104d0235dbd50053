/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/retention.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"

#include <inttypes.h>
#include <stdio.h>

/* Bounds of one transaction: some ms, and what waits to be written waits no longer. */
#define RETENTION_JOBS	 64
#define RETENTION_EVENTS 512

struct retention_step {
	sqlite3 *db;
	const struct gp_retention *retention;
	uint64_t cutoff_ns; /* what ended before is to go */
	uint64_t excess;    /* events that are too many */
	uint64_t n_events, n_jobs, last_job;
	bool more;
};

/* Runs @sql with up to two numbers; -1 or the number of rows that it changed. */
static int64_t retention_run(sqlite3 *db, const char *sql, uint64_t a, uint64_t b)
{
	sqlite3_stmt *s = NULL;
	int64_t n = -1;

	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK) {
		int n_bound = sqlite3_bind_parameter_count(s);

		if (n_bound >= 1)
			sqlite3_bind_int64(s, 1, (sqlite3_int64)a);
		if (n_bound >= 2)
			sqlite3_bind_int64(s, 2, (sqlite3_int64)b);
		if (sqlite3_step(s) == SQLITE_DONE)
			n = sqlite3_changes(db);
	}
	sqlite3_finalize(s);
	return n;
}

static void retention_unlink(const struct retention_step *step, uint64_t job)
{
	static const char *const suffixes[] = { "log", "status" };
	char path[PATH_MAX + 32];

	for (size_t i = 0; i < GP_ARRAY_SIZE(suffixes); i++) {
		snprintf(path, sizeof(path), "%s/%" PRIu64 ".%s", step->retention->jobs_dir, job,
			 suffixes[i]);
		unlink(path);
	}
}

/* -1 on failure. A job with more events than fit into this step goes with a later one. */
static int retention_forget(struct retention_step *step, uint64_t job)
{
	int64_t n = retention_run(step->db,
				  "DELETE FROM events WHERE rowid IN"
				  " (SELECT rowid FROM events WHERE job = ? LIMIT ?)",
				  job, RETENTION_EVENTS - step->n_events);

	if (n < 0)
		return -1;
	step->n_events += (uint64_t)n;
	if (step->n_events >= RETENTION_EVENTS) {
		step->more = true;
		return 0;
	}
	retention_unlink(step, job);
	if (retention_run(step->db, "DELETE FROM commands WHERE job = ?", job, 0) < 0 ||
	    retention_run(step->db, "DELETE FROM jobs WHERE id = ?", job, 0) < 0)
		return -1;
	step->n_jobs++;
	if (job > step->last_job)
		step->last_job = job;
	return 0;
}

static size_t retention_choose(struct retention_step *step, uint64_t *ids, int *ret_code)
{
	sqlite3_stmt *s = NULL;
	size_t n = 0;
	int r = sqlite3_prepare_v2(step->db,
				   "SELECT id FROM jobs WHERE ended_ns > 0 AND ended_ns < ?"
				   " ORDER BY ended_ns LIMIT ?",
				   -1, &s, NULL);

	if (r == SQLITE_OK) {
		sqlite3_bind_int64(s, 1, step->excess ? INT64_MAX : (sqlite3_int64)step->cutoff_ns);
		sqlite3_bind_int64(s, 2, RETENTION_JOBS);
		while ((r = sqlite3_step(s)) == SQLITE_ROW)
			ids[n++] = (uint64_t)sqlite3_column_int64(s, 0);
	}
	*ret_code = r == SQLITE_DONE ? SQLITE_OK : r;
	sqlite3_finalize(s);
	return n;
}

static int retention_delete(struct retention_step *step)
{
	uint64_t ids[RETENTION_JOBS];
	size_t n;
	int r;

	n = retention_choose(step, ids, &r);
	if (r != SQLITE_OK)
		return r;
	step->more = n == RETENTION_JOBS;
	for (size_t i = 0; i < n && step->n_events < RETENTION_EVENTS; i++) {
		/* Too many events is a reason for so many jobs only. */
		if (step->excess && step->n_events >= step->excess)
			break;
		if (retention_forget(step, ids[i]) < 0)
			return sqlite3_errcode(step->db);
	}
	if (!n && step->excess) {
		uint64_t max = step->excess < RETENTION_EVENTS ? step->excess : RETENTION_EVENTS;
		int64_t gone = retention_run(step->db,
					     "DELETE FROM events WHERE rowid IN"
					     " (SELECT rowid FROM events ORDER BY rowid LIMIT ?)",
					     max, 0);

		if (gone < 0)
			return sqlite3_errcode(step->db);
		step->n_events += (uint64_t)gone;
		step->more = step->n_events < step->excess && gone > 0;
	}
	/* Ids are not given again, even if none is left. */
	if (step->last_job &&
	    retention_run(step->db,
			  "INSERT INTO meta (key, value) VALUES ('next_job', ? + 1)"
			  " ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)",
			  step->last_job, 0) < 0)
		return sqlite3_errcode(step->db);
	return SQLITE_OK;
}

int gp_retention_step(sqlite3 *db, const struct gp_retention *retention, uint64_t wallclock_ns,
		      uint64_t n_events, uint64_t *ret_deleted, bool *ret_more)
{
	uint64_t days = retention->days, day_ns = 86400 * GP_NS_PER_SEC;
	struct retention_step step = {
		.db = db,
		.retention = retention,
		.cutoff_ns =
			days && days < wallclock_ns / day_ns ? wallclock_ns - days * day_ns : 0,
		.excess = retention->events && n_events > retention->events
				  ? n_events - retention->events
				  : 0,
	};
	int r;

	*ret_deleted = 0;
	*ret_more = false;
	/* The trigger lets events go only while this row is there, that is in here. */
	r = sqlite3_exec(db,
			 "BEGIN IMMEDIATE; INSERT OR REPLACE INTO meta VALUES ('forgetting', 1)",
			 NULL, NULL, NULL);
	if (r == SQLITE_OK)
		r = retention_delete(&step);
	if (r == SQLITE_OK)
		r = sqlite3_exec(db, "DELETE FROM meta WHERE key = 'forgetting'; COMMIT", NULL,
				 NULL, NULL);
	if (r != SQLITE_OK) {
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
		return r;
	}
	if (step.n_jobs || step.n_events)
		gp_log(GP_LOG_DEBUG, "forgotten", "jobs=%" PRIu64 " events=%" PRIu64, step.n_jobs,
		       step.n_events);
	*ret_deleted = step.n_events;
	*ret_more = step.more || (step.excess && step.n_events < step.excess && step.n_events);
	return SQLITE_OK;
}
