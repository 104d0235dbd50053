/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_SPAWN_CGROUP_H
#define GP_DAEMON_SPAWN_CGROUP_H
/*
 * The cgroups of jobs: folders "job-<id>" below the cgroup (version 2) that this process runs in,
 * which systemd has delegated to it. No controller is switched on there: they serve to find and
 * kill what a job has left, nothing else.
 */
#include "base/err.h"

#include <stdint.h>

/*
 * Opens the folder of our own cgroup and tries whether folders can be made there. Its fd (CLOEXEC);
 * -ENOENT: no cgroup2 is mounted; -EROFS, -EACCES: not ours to change.
 */
gp_must_check int gp_cgroup_open(struct gp_err *err);

/* Moves the calling process to the cgroup of @job, made if need be. */
gp_must_check int gp_cgroup_enter(int own, uint64_t job, struct gp_err *err);

/* Kills what is in the cgroup of @job, if there is one (Linux 5.14). Does not wait. */
gp_must_check int gp_cgroup_kill(int own, uint64_t job, struct gp_err *err);

/*
 * Removes the cgroup of @job, if there is one; waits at most @timeout_ms until it is empty. -EBUSY:
 * it is not.
 */
gp_must_check int gp_cgroup_remove(int own, uint64_t job, int timeout_ms, struct gp_err *err);

#endif
