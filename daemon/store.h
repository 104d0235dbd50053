/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_STORE_H
#define GP_DAEMON_STORE_H
/*
 * Jobs and their history in sqlite3 (WAL, synchronous=NORMAL). Reading happens once, at start, on
 * the caller's thread; writing on a thread of the store, one transaction per loop turn. Nothing on
 * the preempt path waits for it. If a write fails (disk full), it is logged and the daemon goes on:
 * the running jobs matter more than their history.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_store;

struct gp_store_job {
	uint64_t id;
	uint32_t state;
	int32_t priority;
	uint32_t uid;
	uint32_t n_args, n_env;
	int32_t exit_code;
	uint64_t mem_bytes;
	uint64_t submitted_ns, started_ns, ended_ns; /* wallclock */
	uint32_t n_preemptions;
	bool adopted;
	const char *name, *cause;
	const void *blob;
	size_t blob_bytes;
};

/* One line of history. */
struct gp_store_event {
	uint64_t job;
	uint64_t wallclock_ns, duration_ns;
	uint32_t old_state, new_state;
	const char *cause, *boot_id;
};

/*
 * Opens or makes the database at @path and migrates an older schema. -EPROTO: made by a newer
 * version; -EUCLEAN: damaged; each with what to do.
 */
gp_must_check int gp_store_open(const char *path, struct gp_store **ret_store, struct gp_err *err);
/* Writes what is queued and closes. NULL is fine. */
void gp_store_close(struct gp_store *store);

/* Calls @each for every job, oldest first; the job's pointers live during the call only. */
gp_must_check int gp_store_load(struct gp_store *store,
				int (*each)(const struct gp_store_job *job, void *arg,
					    struct gp_err *err),
				void *arg, struct gp_err *err);

/*
 * Queue a job's row (insert or update; without a blob the stored one stays), or a line of history.
 * Copied; never block.
 */
void gp_store_put_job(struct gp_store *store, const struct gp_store_job *job);
void gp_store_add_event(struct gp_store *store, const struct gp_store_event *event);
/* Hands what was queued since the last call to the writer, as one transaction. */
void gp_store_commit(struct gp_store *store);

#endif
