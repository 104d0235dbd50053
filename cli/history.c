/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/history.h"

#include "base/time.h"
#include "base/wire/wire.h"
#include "cli/json.h"
#include "cli/show.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#define HISTORY_TEXT_BYTES 32 /* of a time or a duration */

static const char *history_clock(uint64_t wallclock_ns, char *buf)
{
	time_t seconds = (time_t)(wallclock_ns / GP_NS_PER_SEC);
	struct tm tm;

	if (!wallclock_ns || !localtime_r(&seconds, &tm) ||
	    !strftime(buf, HISTORY_TEXT_BYTES, "%Y-%m-%d %H:%M:%S", &tm))
		strcpy(buf, "-");
	return buf;
}

static const char *history_duration(uint64_t ns, char *buf)
{
	uint64_t seconds = ns / GP_NS_PER_SEC;

	if (seconds < 60)
		snprintf(buf, HISTORY_TEXT_BYTES, "%.3f s", (double)ns / 1e9);
	else if (seconds < 3600)
		snprintf(buf, HISTORY_TEXT_BYTES, "%" PRIu64 "m %02" PRIu64 "s", seconds / 60,
			 seconds % 60);
	else
		snprintf(buf, HISTORY_TEXT_BYTES, "%" PRIu64 "h %02" PRIu64 "m", seconds / 3600,
			 seconds / 60 % 60);
	return buf;
}

/* "-" for a job that never got there; clocks can be set back. */
static const char *history_between(uint64_t from_ns, uint64_t to_ns, char *buf)
{
	if (!from_ns || !to_ns)
		return strcpy(buf, "-");
	return history_duration(to_ns > from_ns ? to_ns - from_ns : 0, buf);
}

static void history_job_line(const struct gp_wire_job *job, FILE *out)
{
	char ended[HISTORY_TEXT_BYTES], queued[HISTORY_TEXT_BYTES], ran[HISTORY_TEXT_BYTES];
	char name[sizeof(job->name)], cause[sizeof(job->cause)], code[16] = "-";
	uint64_t left_ns =
		job->started_wallclock_ns ? job->started_wallclock_ns : job->ended_wallclock_ns;

	if (job->exit_code >= 0)
		snprintf(code, sizeof(code), "%d", job->exit_code);
	fprintf(out, "%8" PRIu64 "  %-9s  %-19s  %10s  %10s  %11u  %4s  %-16s  %s\n", job->id,
		gp_job_state_name(job->state), history_clock(job->ended_wallclock_ns, ended),
		history_between(job->submitted_wallclock_ns, left_ns, queued),
		history_between(job->started_wallclock_ns, job->ended_wallclock_ns, ran),
		job->n_preemptions, code, gp_show_safe(job->name, name, sizeof(name)),
		gp_show_safe(job->cause, cause, sizeof(cause)));
}

static void history_event_line(const struct gp_wire_event *e, FILE *out)
{
	char clock[HISTORY_TEXT_BYTES], took[HISTORY_TEXT_BYTES], cause[sizeof(e->cause)];

	fprintf(out, "%-19s.%03u  %-9s  %-9s  %10s  %s\n", history_clock(e->wallclock_ns, clock),
		(unsigned int)(e->wallclock_ns % GP_NS_PER_SEC / GP_NS_PER_MS),
		e->old_state ? gp_job_state_name(e->old_state) : "-",
		gp_job_state_name(e->new_state),
		e->old_state ? history_duration(e->duration_ns, took) : "-",
		gp_show_safe(e->cause, cause, sizeof(cause)));
}

static void history_event_json(struct gp_json *j, const struct gp_wire_event *e)
{
	gp_json_unsigned(j, "wallclock_ns", e->wallclock_ns);
	if (e->old_state)
		gp_json_text(j, "old_state", gp_job_state_name(e->old_state));
	else
		gp_json_null(j, "old_state");
	gp_json_text(j, "new_state", gp_job_state_name(e->new_state));
	gp_json_unsigned(j, "duration_ns", e->duration_ns);
	gp_json_text(j, "cause", e->cause);
	gp_json_text(j, "boot_id", e->boot_id);
}

static void history_head(uint64_t job, FILE *out)
{
	if (job)
		fprintf(out, "%-23s  %-9s  %-9s  %10s  %s\n", "TIME", "OLD", "NEW", "AFTER",
			"CAUSE");
	else
		fprintf(out, "%8s  %-9s  %-19s  %10s  %10s  %11s  %4s  %-16s  %s\n", "ID", "STATE",
			"ENDED", "QUEUED", "RAN", "PREEMPTIONS", "EXIT", "NAME", "CAUSE");
}

static void history_row(const struct gp_wire_msg *msg, struct gp_json *j, bool json, FILE *out)
{
	bool event = msg->header.type == GP_WIRE_EVENT;

	if (!json) {
		if (event)
			history_event_line(&msg->event, out);
		else
			history_job_line(&msg->job, out);
		return;
	}
	gp_json_open_object(j, NULL);
	if (event)
		history_event_json(j, &msg->event);
	else
		gp_show_job_json(j, &msg->job);
	gp_json_close_object(j);
}

int gp_history_print(struct gp_client *c, uint64_t job, uint64_t since_ns, uint64_t limit,
		     bool json, FILE *out, struct gp_err *err)
{
	uint32_t row = job ? GP_WIRE_EVENT : GP_WIRE_JOB;
	struct gp_wire_msg msg;
	struct gp_json j;
	bool began = false;
	int r;

	gp_wire_init(&msg, GP_WIRE_HISTORY);
	msg.header.job = job;
	msg.history.since_wallclock_ns = since_ns;
	msg.history.limit = limit;
	r = gp_client_send(c, &msg, -1, err);
	if (r < 0)
		return r;
	gp_json_init(&j, out);
	do {
		r = gp_client_recv(c, c->last_cookie, &msg, NULL, err);
		if (r < 0)
			return r;
		if (msg.header.type != row && msg.header.type != GP_WIRE_END)
			return gp_err_set(err, -EPROTO, "the daemon answered HISTORY with %s",
					  gp_wire_name(msg.header.type));
		if (!began && json) {
			gp_json_open_object(&j, NULL);
			if (job)
				gp_json_unsigned(&j, "id", job);
			gp_json_open_array(&j, job ? "events" : "jobs");
		} else if (!began) {
			history_head(job, out);
		}
		began = true;
		if (msg.header.type == row)
			history_row(&msg, &j, json, out);
		/* Nobody reads on: main() says so. */
	} while (msg.header.type == row && !ferror(out));
	if (json) {
		gp_json_close_array(&j);
		gp_json_close_object(&j);
		putc('\n', out);
	}
	return 0;
}
