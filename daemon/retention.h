/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_RETENTION_H
#define GP_DAEMON_RETENTION_H
/*
 * Forgets the past, a little at a time: jobs that ended too long ago, and the ones that ended first
 * while there are too many events, each with its events, its log and its status file. Nothing of a
 * live job is touched, but for its oldest events if those of live jobs alone are too many.
 */
#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct gp_retention {
	uint64_t days;	 /* 0 = no bound */
	uint64_t events; /* rows; 0 = no bound */
	char jobs_dir[PATH_MAX];
};

/*
 * One transaction of a few hundred rows at most. @n_events is how many there are. *@ret_deleted is
 * the number of events that went, *@ret_more whether there is more to do. Returns SQLITE_OK, or the
 * error, and then the rows are as they were. Files are removed first: a row without them will be
 * looked at again, files without a row would stay for good.
 */
int gp_retention_step(sqlite3 *db, const struct gp_retention *retention, uint64_t wallclock_ns,
		      uint64_t n_events, uint64_t *ret_deleted, bool *ret_more);

#endif
