/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_STORE_H
#define GP_DAEMON_STORE_H
/*
 * Jobs and their history in sqlite3 (WAL, synchronous=NORMAL). What the daemon needs to start is
 * read once, on the caller's thread; writing is done on a thread of the store, one transaction per
 * loop turn. Nothing on the preempt path waits for it.
 *
 * If writing fails (disk full), that is logged once and the daemon goes on: the running jobs matter
 * more than their history. What could not be written is kept: of each job and process the last
 * state, of the history the last events; it is tried again every second.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* So many ended jobs are loaded and stay in the daemon's memory; older ones are history. */
#define GP_STORE_MAX_ENDED 1000

struct gp_store;

struct gp_store_job {
	uint64_t id;
	uint32_t state;
	int32_t priority;
	uint32_t uid;
	uint32_t n_args, n_env;
	int32_t exit_code;
	uint64_t mem_bytes;
	uint64_t submitted_ns, started_ns, ended_ns; /* wallclock; ended_ns = 0: it lives */
	uint32_t n_preemptions;
	bool adopted, held, cancelling;
	int32_t device; /* ordinal, -1 = none */
	const char *name, *cause, *fail_cause;
	const char *command; /* the arguments, as far as they are shown */
	const void *blob;    /* kept until the job has ended */
	size_t blob_bytes;
};

/* One line of history. */
struct gp_store_event {
	uint64_t job;
	uint64_t wallclock_ns, duration_ns;
	uint32_t old_state, new_state;
	const char *cause, *boot_id;
};

/* A process with the shim. */
struct gp_store_proc {
	uint64_t job;
	uint32_t proc;
	pid_t pid;
};

/*
 * Opens or makes the database at @path and migrates an older schema. -EPROTO: made by a newer
 * version; -EUCLEAN: damaged; each with what to do.
 */
gp_must_check int gp_store_open(const char *path, struct gp_store **ret_store, struct gp_err *err);
/* Writes what is queued and closes. NULL is fine. */
void gp_store_close(struct gp_store *store);

/*
 * Before gp_store_start. Calls @each for every live job and the last GP_STORE_MAX_ENDED that ended,
 * by id; the job's pointers live during the call only, and an ended job has no blob. What @each
 * returns if negative ends it. *@ret_next_job is larger than any id that was ever used.
 */
gp_must_check int gp_store_load(struct gp_store *store,
				int (*each)(const struct gp_store_job *job, void *arg,
					    struct gp_err *err),
				void *arg, uint64_t *ret_next_job, struct gp_err *err);
/* Before gp_store_start. The same for the processes that were put and not deleted, by number. */
gp_must_check int gp_store_load_procs(struct gp_store *store,
				      int (*each)(const struct gp_store_proc *proc, void *arg,
						  struct gp_err *err),
				      void *arg, struct gp_err *err);
/*
 * Before gp_store_start. Reserves a block of GP_STORE_PROC_BLOCK process numbers that no earlier
 * daemon used lately, on disk before it returns; *@ret_first is the first one. A daemon that uses
 * up its block goes on with the next number (0 is none); gp_store_put_proc reserves that block.
 */
#define GP_STORE_PROC_BLOCK 65536u
gp_must_check int gp_store_take_proc_block(struct gp_store *store, uint32_t *ret_first,
					   struct gp_err *err);

/*
 * Before gp_store_start. Whether the last daemon ran in the boot that @boot_id names (true too if
 * there was none), and remembers it.
 */
gp_must_check int gp_store_swap_boot_id(struct gp_store *store, const char *boot_id, bool *ret_same,
					struct gp_err *err);

/* Starts the writer. What was queued before is written now. */
gp_must_check int gp_store_start(struct gp_store *store, struct gp_err *err);

/*
 * Queue a job's row (insert or update; without a blob the stored one stays), a line of history, or
 * a process. Copied; never block.
 */
void gp_store_put_job(struct gp_store *store, const struct gp_store_job *job);
void gp_store_add_event(struct gp_store *store, const struct gp_store_event *event);
void gp_store_put_proc(struct gp_store *store, uint64_t job, uint32_t proc, pid_t pid);
void gp_store_delete_proc(struct gp_store *store, uint32_t proc);
/* Hands what was queued since the last call to the writer, as one transaction. */
void gp_store_commit(struct gp_store *store);

#endif
