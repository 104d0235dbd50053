/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_LAUNCH_H
#define GP_DAEMON_LAUNCH_H
/* Starts the daemon's child processes: movers and supervisors. */
#include "daemon/device.h"
#include "daemon/job.h"
#include "daemon/spawn/protocol.h"

/*
 * Starts @argv[0] (a path) with @envp; default signal dispositions, nothing blocked, no fd but
 * 0, 1, 2 and, from 3 on, copies of the @n_fds (at most 8) in @fds. Returns its pid and a pidfd,
 * which becomes readable when it ends.
 */
gp_must_check int gp_launch(char *const argv[], char *const envp[], const int *fds, size_t n_fds,
			    pid_t *ret_pid, int *ret_pidfd, struct gp_err *err);
gp_must_check int gp_launch_supervisor(struct gp_job *job, pid_t *ret_pid, int *ret_pidfd,
				       struct gp_err *err);
/*
 * The command and environment for a supervisor that gpupres-spawn starts: fills the counts of
 * @request and makes a sealed memfd, which is the caller's.
 */
gp_must_check int gp_launch_pack(struct gp_job *job, struct gp_spawn_request *request,
				 int *ret_memfd, struct gp_err *err);
gp_must_check int gp_launch_mover(struct gp_device *device, pid_t *ret_pid, int *ret_pidfd,
				  struct gp_err *err);
/* Collects a child whose pidfd became readable: exit code, or 128 + signal. */
int gp_launch_reap(pid_t pid);

#endif
