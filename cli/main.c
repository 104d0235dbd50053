/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpupresctl: submits and controls jobs. One connection, one request (run, logs -f and wait hold
 * a WAIT beside it), single-threaded. All errors end here as one line on stderr.
 */
#include "base/wire/wire.h"
#include "cli/backup.h"
#include "cli/client.h"
#include "cli/history.h"
#include "cli/json.h"
#include "cli/logs.h"
#include "cli/options.h"
#include "cli/show.h"
#include "cli/submit.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int main_fail(int status, const struct gp_err *err)
{
	fprintf(stderr, "gpupresctl: %s\n", err->msg);
	return status;
}

/* One object with the id alone, or just the id. */
static void main_print_id(uint64_t job, bool json)
{
	struct gp_json j;

	if (!json) {
		printf("%" PRIu64 "\n", job);
		return;
	}
	gp_json_init(&j, stdout);
	gp_json_open_object(&j, NULL);
	gp_json_unsigned(&j, "id", job);
	gp_json_close_object(&j);
	putchar('\n');
}

/* The exit status for an ended job; says why where the status alone would leave that open. */
static int main_ended(const struct gp_wire_job *job, bool json)
{
	int status = gp_client_exit_status(job);

	if (json)
		gp_show_job(job, true, stdout);
	else if (job->state == GP_JOB_CANCELLED || job->exit_code < 0 ||
		 job->exit_code >= GP_EXIT_NOT_EXECUTABLE)
		fprintf(stderr, "gpupresctl: job %" PRIu64 " %s: %s\n", job->id,
			gp_job_state_name(job->state), job->cause);
	return status;
}

static int main_wait(struct gp_client *c, uint64_t job, bool json, struct gp_err *err)
{
	struct gp_wire_msg msg;
	int r;

	r = gp_client_ask(c, GP_WIRE_WAIT, job, &msg, GP_WIRE_JOB, NULL, err);
	if (r < 0)
		return main_fail(GP_EXIT_FAILURE, err);
	return main_ended(&msg.job, json);
}

static int main_submit(struct gp_client *c, const struct gp_options *o, const char *path)
{
	struct gp_wire_job job;
	struct gp_err err;
	uint64_t id;
	int r;

	if (o->command == GP_CMD_RUN) {
		sigset_t set;

		/* From here on these cancel the job (gp_logs_follow), even while submitting. */
		sigemptyset(&set);
		sigaddset(&set, SIGINT);
		sigaddset(&set, SIGTERM);
		sigaddset(&set, SIGHUP);
		sigaddset(&set, SIGPIPE);
		sigprocmask(SIG_BLOCK, &set, NULL);
	}
	r = gp_submit(c, o, path, &id, &err);
	if (r < 0)
		return main_fail(GP_EXIT_FAILURE, &err);
	if (o->command == GP_CMD_RUN) {
		r = gp_logs_follow(c, id, o->json, true, &job, &err);
		if (r < 0) {
			gp_err_prepend(&err, "job %" PRIu64 " goes on without output here", id);
			return main_fail(GP_EXIT_FAILURE, &err);
		}
		return main_ended(&job, o->json);
	}
	if (!o->wait || !o->json)
		main_print_id(id, o->json);
	fflush(stdout);
	return o->wait ? main_wait(c, id, o->json, &err) : GP_EXIT_OK;
}

static int main_list(struct gp_client *c, const struct gp_options *o)
{
	gp_auto_free struct gp_wire_msg *list = NULL;
	struct gp_err err;
	size_t n;
	int r;

	if (o->command == GP_CMD_LIST) {
		r = gp_client_list(c, GP_WIRE_LIST, o->all, &list, &n, &err);
		if (r == 0 && gp_show_jobs(list, n, o->all, o->json, stdout) < 0)
			r = gp_err_sys(&err, -ENOMEM, "cannot print %zu jobs", n);
	} else {
		r = gp_client_list(c, GP_WIRE_DEVICES, false, &list, &n, &err);
		if (r == 0 && gp_show_devices(list, n, o->json, stdout) < 0)
			r = gp_err_sys(&err, -ENOMEM, "cannot print %zu devices", n);
	}
	return r < 0 ? main_fail(GP_EXIT_FAILURE, &err) : GP_EXIT_OK;
}

static int main_logs(struct gp_client *c, const struct gp_options *o, uint64_t id)
{
	struct gp_wire_job job;
	struct gp_err err;
	int r;

	r = o->follow ? gp_logs_follow(c, id, o->json, false, &job, &err)
		      : gp_logs_print(c, id, o->json, &err);
	return r < 0 ? main_fail(GP_EXIT_FAILURE, &err) : GP_EXIT_OK;
}

/* Commands that are one request, answered by the job as it is then. */
static int main_request(struct gp_client *c, const struct gp_options *o, uint64_t id)
{
	static const uint32_t types[GP_CMD_MAX_] = {
		[GP_CMD_PREEMPT] = GP_WIRE_PREEMPT,
		[GP_CMD_RESUME] = GP_WIRE_RESUME,
		[GP_CMD_CANCEL] = GP_WIRE_CANCEL,
		[GP_CMD_SHOW] = GP_WIRE_SHOW,
	};
	struct gp_wire_msg msg;
	struct gp_err err;
	int r;

	gp_wire_init(&msg, types[o->command]);
	msg.header.job = id;
	if (o->command == GP_CMD_PREEMPT)
		msg.preempt.to = o->to;
	r = gp_client_call(c, &msg, -1, GP_WIRE_JOB, NULL, &err);
	if (r < 0)
		return main_fail(GP_EXIT_FAILURE, &err);
	if (o->command == GP_CMD_PREEMPT)
		gp_show_preemption(&msg.job, o->json, stdout);
	else if (o->command == GP_CMD_RESUME)
		gp_show_resumption(&msg.job, o->json, stdout);
	else if (o->command == GP_CMD_SHOW || o->json)
		gp_show_job(&msg.job, o->json, stdout);
	return GP_EXIT_OK;
}

static int main_history(struct gp_client *c, const struct gp_options *o)
{
	struct gp_err err;
	uint64_t id = 0;
	int r = 0;

	if (o->operand)
		r = gp_client_find(c, o->operand, &id, &err);
	if (r == 0)
		r = gp_history_print(c, id, o->since_ns, o->limit, o->json, stdout, &err);
	return r < 0 ? main_fail(GP_EXIT_FAILURE, &err) : GP_EXIT_OK;
}

static int main_backup(struct gp_client *c, const struct gp_options *o)
{
	struct gp_err err;
	struct gp_json j;
	uint64_t bytes;
	int r;

	r = gp_backup(c, o->operand, &bytes, &err);
	if (r < 0)
		return main_fail(GP_EXIT_FAILURE, &err);
	if (!o->json) {
		printf("%" PRIu64 " bytes\n", bytes);
		return GP_EXIT_OK;
	}
	gp_json_init(&j, stdout);
	gp_json_open_object(&j, NULL);
	gp_json_unsigned(&j, "size_bytes", bytes);
	gp_json_close_object(&j);
	putchar('\n');
	return GP_EXIT_OK;
}

static int main_connected(struct gp_client *c, const struct gp_options *o)
{
	struct gp_err err;
	uint64_t id;
	int r;

	if (o->command == GP_CMD_LIST || o->command == GP_CMD_DEVICES)
		return main_list(c, o);
	if (o->command == GP_CMD_HISTORY)
		return main_history(c, o);
	if (o->command == GP_CMD_BACKUP)
		return main_backup(c, o);
	r = gp_client_find(c, o->operand, &id, &err);
	if (r < 0)
		return main_fail(GP_EXIT_FAILURE, &err);
	if (o->command == GP_CMD_LOGS)
		return main_logs(c, o, id);
	if (o->command == GP_CMD_WAIT)
		return main_wait(c, id, o->json, &err);
	return main_request(c, o, id);
}

static int main_run(const struct gp_options *o)
{
	bool starts = o->command == GP_CMD_SUBMIT || o->command == GP_CMD_RUN;
	gp_auto_free char *path = NULL;
	struct gp_client c;
	struct gp_err err;
	int r, status;

	/* Before connecting: a mistyped command is reported as such, daemon or not. */
	if (starts) {
		r = gp_submit_resolve(o->argv[0], &path, &err);
		if (r < 0)
			return main_fail(r == -EACCES	? GP_EXIT_NOT_EXECUTABLE
					 : r == -ENOENT ? GP_EXIT_NOT_FOUND
							: GP_EXIT_FAILURE,
					 &err);
	}
	r = gp_client_open(&c, o->socket, &err);
	if (r < 0)
		return main_fail(r == -ENOTCONN ? GP_EXIT_NO_DAEMON : GP_EXIT_FAILURE, &err);
	status = starts ? main_submit(&c, o, path) : main_connected(&c, o);
	gp_client_close(&c);
	return status;
}

int main(int argc, char **argv)
{
	struct gp_options o;
	struct gp_err err;
	int r, status = GP_EXIT_OK;

	r = gp_options_parse(argc, argv, &o, &err);
	if (r < 0)
		status = main_fail(GP_EXIT_USAGE, &err);
	else if (o.help)
		gp_options_help(o.command, stdout);
	else if (o.version)
		puts("gpupresctl " GP_VERSION);
	else if (o.command == GP_CMD_COMPLETION)
		gp_options_completion(stdout);
	else
		status = main_run(&o);
	gp_options_fini(&o);
	if ((fflush(stdout) != 0 || ferror(stdout)) && status == GP_EXIT_OK) {
		gp_err_sys(&err, -EIO, "cannot write to the standard output");
		status = main_fail(GP_EXIT_FAILURE, &err);
	}
	return status;
}
