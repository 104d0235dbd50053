/* SPDX-License-Identifier: Apache-2.0 */
/* gpupres-run: supervises one job. Started by gpupresd with the environment of the job. */
#include "base/log.h"
#include "base/time.h"
#include "daemon/run/run.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MAIN_EXIT_USAGE	   2
#define MAIN_MAX_GRACE_SEC 86400

static const struct option main_options[] = {
	{ "job", required_argument, NULL, 'j' },
	{ "socket", required_argument, NULL, 's' },
	{ "log", required_argument, NULL, 'l' },
	{ "status", required_argument, NULL, 't' },
	{ "log-fd", required_argument, NULL, 'L' },
	{ "status-fd", required_argument, NULL, 'T' },
	{ "chdir", required_argument, NULL, 'c' },
	{ "grace", required_argument, NULL, 'g' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'v' },
	{ NULL, 0, NULL, 0 },
};

static const char main_usage[] =
	"usage: gpupres-run --job ID --socket PATH --log FILE --status FILE --chdir DIR\n"
	"                   [--grace SECONDS] -- COMMAND [ARGUMENT]...\n"
	"Supervises one job of gpupresd, which starts this program: not meant to be called by "
	"hand.\n"
	"\n"
	"  --job ID         id of the job\n"
	"  --socket PATH    control socket of the daemon\n"
	"  --log FILE       what the job writes is appended here\n"
	"  --log-fd N       the same, to an open file\n"
	"  --status FILE    gets the exit code when the job has ended\n"
	"  --status-fd N    the same, to an open file\n"
	"  --chdir DIR      working folder of the job\n"
	"  --grace SECONDS  how long the rest of the job may outlive its command (0)\n"
	"  --help           show this text\n"
	"  --version        show the version\n";

/* A decimal number up to @max; -EINVAL. */
static int main_number(const char *text, uint64_t max, uint64_t *ret)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno || *end || *ret > max ? -EINVAL : 0;
}

static int main_set(struct gp_run_options *o, int letter, const char *value, struct gp_err *err)
{
	uint64_t seconds, fd;

	switch (letter) {
	case 'j':
		if (main_number(value, UINT64_MAX, &o->job) < 0 || !o->job)
			return gp_err_set(err, -EINVAL, "--job %s is no id: give a number", value);
		return 0;
	case 'g':
		if (main_number(value, MAIN_MAX_GRACE_SEC, &seconds) < 0)
			return gp_err_set(err, -EINVAL, "--grace %s: give 0 to %d seconds", value,
					  MAIN_MAX_GRACE_SEC);
		o->grace_ns = seconds * GP_NS_PER_SEC;
		return 0;
	case 'L':
	case 'T':
		if (main_number(value, INT_MAX, &fd) < 0 || fd <= STDERR_FILENO)
			return gp_err_set(err, -EINVAL, "--%s %s: give an open file's number",
					  letter == 'L' ? "log-fd" : "status-fd", value);
		*(letter == 'L' ? &o->log_fd : &o->status_fd) = (int)fd;
		return 0;
	case 's':
		o->socket = value;
		return 0;
	case 'l':
		o->log = value;
		return 0;
	case 't':
		o->status = value;
		return 0;
	case 'c':
		o->chdir = value;
		return 0;
	default:
		return gp_err_set(err, -EINVAL, "bad usage: see gpupres-run --help");
	}
}

/* 1 when --help or --version was answered. */
static int main_parse(int argc, char **argv, struct gp_run_options *ret, struct gp_err *err)
{
	int letter, r;

	*ret = (struct gp_run_options){ .log_fd = -1, .status_fd = -1 };
	opterr = 0;
	/* "+": what follows the command is the command's. */
	while ((letter = getopt_long(argc, argv, "+", main_options, NULL)) != -1) {
		if (letter == 'h' || letter == 'v') {
			fputs(letter == 'h' ? main_usage : "gpupres-run " GP_VERSION "\n", stdout);
			return 1;
		}
		r = main_set(ret, letter, optarg, err);
		if (r < 0)
			return r;
	}
	ret->argv = argv + optind;
	if (!ret->job || !ret->socket || (!ret->log && ret->log_fd < 0) ||
	    (!ret->status && ret->status_fd < 0) || !ret->chdir || !ret->argv[0])
		return gp_err_set(err, -EINVAL,
				  "--job, --socket, --log, --status, --chdir and a command are "
				  "needed: see gpupres-run --help");
	return 0;
}

int main(int argc, char **argv)
{
	struct gp_run_options options;
	struct gp_err err;
	int r;

	gp_log_init("gpupres-run", GP_LOG_INFO);
	r = main_parse(argc, argv, &options, &err);
	if (r < 0) {
		fprintf(stderr, "gpupres-run: %s\n", err.msg);
		return MAIN_EXIT_USAGE;
	}
	if (r > 0)
		return EXIT_SUCCESS;
	r = gp_run(&options, &err);
	if (r < 0) {
		fprintf(stderr, "gpupres-run: job %llu: %s\n", (unsigned long long)options.job,
			err.msg);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
