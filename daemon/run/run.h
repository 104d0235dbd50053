/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_RUN_RUN_H
#define GP_DAEMON_RUN_RUN_H
/* The supervisor of one job: see daemon/run/run.c. */
#include "base/err.h"

#include <stdint.h>

struct gp_run_options {
	uint64_t job;
	const char *socket, *log, *status, *chdir;
	int log_fd, status_fd; /* instead of log and status; -1 = not given */
	uint64_t grace_ns;     /* for what is left of the tree when the command has ended */
	char **argv;	       /* NULL-terminated */
};

/*
 * Runs the job to its end: returns when its tree is gone, the status file is written and the
 * daemon, if there is one, was told. Changes the process for good (group, signals, subreaper):
 * for main() only. Fails only if the supervisor itself cannot work; no command was started then.
 */
gp_must_check int gp_run(const struct gp_run_options *options, struct gp_err *err);

#endif
