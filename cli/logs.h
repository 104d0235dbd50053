/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_CLI_LOGS_H
#define GP_CLI_LOGS_H
/*
 * Prints what a job wrote. Following needs no polling: inotify tells that the file grew, a WAIT
 * pending at the daemon tells that the job has ended, and signals come through a signalfd.
 */
#include "cli/client.h"

#include <stdbool.h>

/* Prints what @job has written until now on stdout. With @json, as objects {"id", "text"}. */
gp_must_check int gp_logs_print(struct gp_client *c, uint64_t job, bool json, struct gp_err *err);

/*
 * Prints what @job has written and writes until it has ended, whose state *@ret then holds. With
 * @foreground, SIGINT, SIGTERM and SIGHUP, and a stdout that nobody reads any more, cancel the
 * job; its end is waited for all the same.
 */
gp_must_check int gp_logs_follow(struct gp_client *c, uint64_t job, bool json, bool foreground,
				 struct gp_wire_job *ret, struct gp_err *err);

#endif
