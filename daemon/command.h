/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_COMMAND_H
#define GP_DAEMON_COMMAND_H
/*
 * The commands of queued jobs: arguments, environment and working folder, up to a MiB each. Those
 * of the first jobs are held in memory, all are in the database; one that is not held is read when
 * the job starts, and waited for without blocking.
 */
#include "daemon/job.h"

/* So many bytes are held of all commands together. */
#define GP_COMMAND_MAX_HELD (8u << 20)

/* Whether @bytes more may be held. */
bool gp_command_fits(const struct gp_daemon *daemon, size_t bytes);
/* The job's blob was set, and handed to the store if it is to be read again: counts it, or drops
 * it. */
void gp_command_hold(struct gp_job *job);
/* Frees the job's blob. It is not needed, or not any more. */
void gp_command_drop(struct gp_job *job);
/*
 * Calls @then once the job's blob is there, at once if it is already. If it cannot be read the job
 * fails; if it has ended, or is to end, meanwhile, it ends, and @then is not called.
 */
void gp_command_need(struct gp_job *job, void (*then)(struct gp_job *job));
/* The daemon stops, and the database reader has: frees what was waited for. */
void gp_command_forget(struct gp_job *job);

#endif
