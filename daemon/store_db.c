/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store_db.h"

#include "base/time.h"
#include "base/wire/messages.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* PRAGMA user_version; raise it together with a new entry of store_migrations. */
#define STORE_VERSION 2

/* How long to wait for somebody who looks into the database with a tool of his own. */
#define STORE_BUSY_MS 5000
/* How long a daemon that starts looks for damage, and how often it looks at the clock meanwhile. */
#define STORE_CHECK_NS	  (300 * GP_NS_PER_MS)
#define STORE_CHECK_STEPS 1000 /* of sqlite's virtual machine */
/* As the command of struct gp_wire_job: what is shown of a job's arguments. */
#define STORE_COMMAND_BYTES 256

/* A job has ended when its ended_ns is not 0. What the numbers of states mean is part of the
 * schema.
 */
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

	/* Commands get a table of their own: a row is written again whole at each change. */
	"ALTER TABLE jobs ADD COLUMN held INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE jobs ADD COLUMN cancelling INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE jobs ADD COLUMN fail_cause TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE jobs ADD COLUMN device INTEGER NOT NULL DEFAULT -1;"
	"ALTER TABLE jobs ADD COLUMN command TEXT NOT NULL DEFAULT '';"
	"UPDATE jobs SET ended_ns = max(1, ifnull(submitted_ns, 0))"
	" WHERE state IN (10, 11, 12) AND ifnull(ended_ns, 0) = 0;"
	"UPDATE jobs SET command = gp_command(blob, n_args) WHERE blob IS NOT NULL;"
	"CREATE TABLE commands (job INTEGER PRIMARY KEY, blob BLOB NOT NULL);"
	"INSERT INTO commands SELECT id, blob FROM jobs WHERE blob IS NOT NULL AND ended_ns = 0;"
	"ALTER TABLE jobs DROP COLUMN blob;"
	"CREATE INDEX jobs_by_end ON jobs (ended_ns);"
	"CREATE TABLE procs (job INTEGER NOT NULL, proc INTEGER PRIMARY KEY, pid INTEGER NOT NULL);"
	"CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN"
	" SELECT RAISE(ABORT, 'events are append-only'); END;"
	"CREATE TRIGGER events_last BEFORE DELETE ON events"
	" WHEN NOT EXISTS (SELECT 1 FROM meta WHERE key = 'forgetting') BEGIN"
	" SELECT RAISE(ABORT, 'events are append-only'); END;",
};

_Static_assert(GP_JOB_QUEUED == 1 && GP_JOB_RUNNING == 3 && GP_JOB_FROZEN == 5 &&
		       GP_JOB_SWAPPED == 7 && GP_JOB_DONE == 10 && GP_JOB_FAILED == 11 &&
		       GP_JOB_CANCELLED == 12,
	       "databases hold these numbers: new states get new ones");

/* sqlite puts line ends into what it says of pages; the last words can do without the first. */
static int store_damaged(const char *path, const char *why, struct gp_err *err)
{
	const char *line = strrchr(why, '\n');

	return gp_err_set(err, -EUCLEAN,
			  "the database %s is damaged (%.80s): move it away to start afresh, or "
			  "rescue it with sqlite3's .recover",
			  path, line ? line + 1 : why);
}

int gp_store_db_fail(sqlite3 *db, const char *path, struct gp_err *err)
{
	int code = sqlite3_errcode(db);

	if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
		return store_damaged(path, sqlite3_errmsg(db), err);
	return gp_err_set(err, -EIO, "the database %s cannot be used: %s", path,
			  sqlite3_errmsg(db));
}

/* gp_command(blob, n_args): the arguments, with spaces between them. */
static void store_command(sqlite3_context *context, int n, sqlite3_value **values)
{
	const char *blob = sqlite3_value_blob(values[0]);
	int bytes = sqlite3_value_bytes(values[0]), used = 0;
	int64_t n_args = sqlite3_value_int64(values[1]);
	char text[STORE_COMMAND_BYTES];

	(void)n;
	for (int i = 0; i < bytes && n_args > 0 && used < STORE_COMMAND_BYTES - 1; i++) {
		if (blob[i])
			text[used++] = blob[i];
		else if (--n_args > 0)
			text[used++] = ' ';
	}
	sqlite3_result_text(context, text, used, SQLITE_TRANSIENT);
}

static int store_migrate(sqlite3 *db, const char *path, struct gp_err *err)
{
	sqlite3_stmt *s = NULL;
	char set[64];
	int version;

	if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &s, NULL) != SQLITE_OK ||
	    sqlite3_step(s) != SQLITE_ROW) {
		sqlite3_finalize(s);
		return gp_store_db_fail(db, path, err);
	}
	version = sqlite3_column_int(s, 0);
	sqlite3_finalize(s);
	if (version > STORE_VERSION || version < 0)
		return gp_err_set(
			err, -EPROTO,
			"the database %s was made by a newer gpupres (schema %d, this one "
			"knows %d): upgrade, or use another --state-dir",
			path, version, STORE_VERSION);
	if (version < STORE_VERSION &&
	    sqlite3_create_function(db, "gp_command", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
				    store_command, NULL, NULL) != SQLITE_OK)
		return gp_store_db_fail(db, path, err);
	for (; version < STORE_VERSION; version++) {
		snprintf(set, sizeof(set), "PRAGMA user_version=%d; COMMIT", version + 1);
		if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK ||
		    sqlite3_exec(db, store_migrations[version], NULL, NULL, NULL) != SQLITE_OK ||
		    sqlite3_exec(db, set, NULL, NULL, NULL) != SQLITE_OK)
			return gp_store_db_fail(db, path, err);
	}
	return 0;
}

static int store_check_is_over(void *arg)
{
	const uint64_t *until_ns = arg;

	return gp_now_ns() > *until_ns;
}

/*
 * Looks for damaged pages, as far as that goes in the time: of a large history the rest is noticed
 * when it is read.
 */
static int store_check(sqlite3 *db, const char *path, struct gp_err *err)
{
	uint64_t until_ns = gp_now_ns() + STORE_CHECK_NS;
	sqlite3_stmt *s = NULL;
	const char *found;
	int r, step;

	sqlite3_progress_handler(db, STORE_CHECK_STEPS, store_check_is_over, &until_ns);
	r = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &s, NULL);
	step = r == SQLITE_OK ? sqlite3_step(s) : r;
	found = step == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : "ok";
	if (step != SQLITE_ROW && step != SQLITE_INTERRUPT)
		r = gp_store_db_fail(db, path, err);
	else if (!found || strcmp(found, "ok") != 0)
		r = store_damaged(path, found ? found : "out of memory", err);
	else
		r = 0;
	sqlite3_finalize(s);
	sqlite3_progress_handler(db, 0, NULL, NULL);
	return r;
}

int gp_store_db_open(const char *path, sqlite3 **ret_db, struct gp_err *err)
{
	sqlite3 *db = NULL;
	int r;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
		    SQLITE_OK ||
	    sqlite3_busy_timeout(db, STORE_BUSY_MS) != SQLITE_OK ||
	    sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL", NULL, NULL,
			 NULL) != SQLITE_OK)
		r = gp_store_db_fail(db, path, err);
	else
		r = store_check(db, path, err);
	if (r == 0)
		r = store_migrate(db, path, err);
	if (r < 0) {
		sqlite3_close(db);
		db = NULL;
	}
	*ret_db = db;
	return r;
}

int gp_store_db_open_reader(const char *path, sqlite3 **ret_db, struct gp_err *err)
{
	sqlite3 *db = NULL;
	int r = 0;

	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
	    sqlite3_busy_timeout(db, STORE_BUSY_MS) != SQLITE_OK) {
		r = gp_store_db_fail(db, path, err);
		sqlite3_close(db);
		db = NULL;
	}
	*ret_db = db;
	return r;
}
