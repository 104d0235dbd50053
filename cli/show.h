/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_CLI_SHOW_H
#define GP_CLI_SHOW_H
/*
 * What gpupresctl prints about jobs and devices, for people (aligned columns, units) and as JSON
 * (bytes, ns, one object a line). Text that came from others is made harmless for terminals.
 */
#include "base/wire/messages.h"
#include "cli/json.h"

#include <stddef.h>
#include <stdio.h>

/* Copies @text with what could steer a terminal replaced by '?'; returns @buf. */
const char *gp_show_safe(const char *text, char *buf, size_t buf_bytes);

/* The members of one job, without the braces. */
void gp_show_job_json(struct gp_json *j, const struct gp_wire_job *job);

void gp_show_job(const struct gp_wire_job *job, bool json, FILE *out);
/* The report of the last preemption: what `preempt` prints. */
void gp_show_preemption(const struct gp_wire_job *job, bool json, FILE *out);
/* What `resume` prints. */
void gp_show_resumption(const struct gp_wire_job *job, bool json, FILE *out);

/* @messages are JOB (DEVICE) messages; @uids: say whose they are. Allocates; -ENOMEM. */
int gp_show_jobs(const struct gp_wire_msg *messages, size_t n, bool uids, bool json, FILE *out);
int gp_show_devices(const struct gp_wire_msg *messages, size_t n, bool json, FILE *out);

#endif
