/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_SPAWNER_H
#define GP_DAEMON_SPAWNER_H
/*
 * What a daemon of all users asks gpupres-spawn for: daemon/spawn/protocol.h. A connection for each
 * request; none of them makes the loop wait, and each has a deadline.
 */
#include "daemon/job.h"

/* Before anything else here. */
void gp_spawner_init(struct gp_daemon *daemon);
/* Drops what is not answered yet. */
void gp_spawner_fini(struct gp_daemon *daemon);

/*
 * A connection for one request. -ENOTCONN, with what to do: it does not run, or is not root's;
 * -EAGAIN: it is busy.
 */
gp_must_check int gp_spawner_open(const struct gp_daemon *daemon, struct gp_err *err);

/*
 * Asks over @sock, which is taken over, for the supervisor of @job. On success one of
 * gp_job_spawned and gp_job_not_spawned is called later.
 */
gp_must_check int gp_spawner_start(struct gp_job *job, int sock, struct gp_err *err);

/* What can be done about failures of these is to log them. */
void gp_spawner_kill(struct gp_daemon *daemon, uint64_t job);
void gp_spawner_remove(struct gp_daemon *daemon, uint64_t job);
void gp_spawner_signal(const struct gp_job *job, int pidfd, int signo);

#endif
