/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_ORPHANS_H
#define GP_DAEMON_ORPHANS_H
/*
 * What is left of a job whose supervisor was killed. Nobody has its processes as children then;
 * what tells them is the environment that the job was given, which they handed on to each other.
 */
#include "daemon/job.h"

/*
 * Sends SIGKILL to all of them; returns how many there were that live. Reads all of /proc: some
 * milliseconds. None of them may be frozen.
 *
 * A daemon of all users asks gpupres-spawn to do it, by the job's cgroup, and returns 0.
 */
size_t gp_orphans_kill(const struct gp_job *job);

#endif
