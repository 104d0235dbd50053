/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_STORE_DB_H
#define GP_DAEMON_STORE_DB_H
/*
 * The database file: opening, its schema and how an older one becomes the present one.
 *
 *	jobs		a row for each job that is known, live or ended
 *	commands	arguments, environment and working folder (they can be a MiB, and hold
 *			secrets), from submission until the job has ended
 *	events		history, a row for each change of state; append-only, but for retention
 *	procs		processes with the shim that a new daemon has to expect back
 *	meta		what there is one of: next_job (no job before it is to be numbered again),
 *			proc_block (see gp_store_take_proc_block), forgetting (retention at work)
 */
#include "base/err.h"

#include <sqlite3.h>

/*
 * Opens or makes the database at @path for writing and brings it to the present schema; each step
 * is one transaction. Blocks on the disk. -EPROTO: made by a newer version; -EUCLEAN: damaged; -EIO
 * otherwise; each with what to do. *@ret_db is NULL on failure.
 */
gp_must_check int gp_store_db_open(const char *path, sqlite3 **ret_db, struct gp_err *err);
/* A second connection, for reading only; waits for no writer. */
gp_must_check int gp_store_db_open_reader(const char *path, sqlite3 **ret_db, struct gp_err *err);
/* Turns the last error of @db into one line and an errno. */
int gp_store_db_fail(sqlite3 *db, const char *path, struct gp_err *err);

#endif
