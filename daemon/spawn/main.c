/* SPDX-License-Identifier: Apache-2.0 */
/* gpupres-spawn: starts the supervisors of jobs as their users, for gpupresd. */
#include "base/log.h"
#include "daemon/spawn/spawn.h"

#include <errno.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#define MAIN_EXIT_USAGE	     2
#define MAIN_DEFAULT_USER    "gpupres"
#define MAIN_DEFAULT_MIN_UID 1000 /* where Linux distributions begin to number people */
#define MAIN_DEFAULT_SOCKET  "/run/gpupres-spawn.sock"

static const struct option main_options[] = {
	{ "for-user", required_argument, NULL, 'u' },  { "socket", required_argument, NULL, 's' },
	{ "min-uid", required_argument, NULL, 'm' },   { "allow-root", no_argument, NULL, 'r' },
	{ "log-level", required_argument, NULL, 'l' }, { "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'v' },	       { NULL, 0, NULL, 0 },
};

static const char main_usage[] =
	"usage: gpupres-spawn [OPTION]...\n"
	"Starts the supervisors of jobs as the users that submitted them. Runs as root.\n"
	"\n"
	"  --for-user USER    the user that gpupresd runs as, besides root (gpupres)\n"
	"  --socket PATH      where it asks (/run/gpupres-spawn.sock, or what systemd passes)\n"
	"  --min-uid UID      users below are refused (1000)\n"
	"  --allow-root       but root's jobs are started\n"
	"  --log-level LEVEL  err, warn, info (default) or debug\n"
	"  --help             show this text\n"
	"  --version          show the version\n";

struct main_args {
	struct gp_spawn_options options;
	const char *for_user;
	enum gp_log_level log_level;
};

/* Decimal; the last number is no uid. -EINVAL. */
static int main_uid(const char *text, uid_t *ret)
{
	unsigned long n;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || n >= (uid_t)-1)
		return -EINVAL;
	*ret = (uid_t)n;
	return 0;
}

static int main_set(struct main_args *args, int letter, const char *value, struct gp_err *err)
{
	switch (letter) {
	case 'u':
		args->for_user = value;
		return 0;
	case 's':
		if (*value != '/')
			return gp_err_set(err, -EINVAL, "--socket %s: give a path from the root",
					  value);
		args->options.socket = value;
		return 0;
	case 'm':
		if (main_uid(value, &args->options.policy.min_uid) < 0 ||
		    !args->options.policy.min_uid)
			return gp_err_set(err, -EINVAL, "--min-uid %s: give a number over 0",
					  value);
		return 0;
	case 'r':
		args->options.policy.allow_root = true;
		return 0;
	case 'l':
		if (gp_log_level_parse(value, &args->log_level) < 0)
			return gp_err_set(err, -EINVAL,
					  "--log-level %s: choose err, warn, info or debug", value);
		return 0;
	default:
		return gp_err_set(err, -EINVAL, "bad usage: see gpupres-spawn --help");
	}
}

static int main_find_user(struct main_args *args, struct gp_err *err)
{
	const struct passwd *entry;

	if (main_uid(args->for_user, &args->options.policy.for_uid) == 0)
		return 0;
	entry = getpwnam(args->for_user);
	if (!entry)
		return gp_err_set(err, -ENOENT, "there is no user %s: make one, or give --for-user",
				  args->for_user);
	args->options.policy.for_uid = entry->pw_uid;
	return 0;
}

/* 1 when --help or --version was answered. */
static int main_parse(int argc, char **argv, struct main_args *args, struct gp_err *err)
{
	int letter, r;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, "", main_options, NULL)) != -1) {
		if (letter == 'h' || letter == 'v') {
			fputs(letter == 'h' ? main_usage : "gpupres-spawn " GP_VERSION "\n",
			      stdout);
			return 1;
		}
		r = main_set(args, letter, optarg, err);
		if (r < 0)
			return r;
	}
	if (optind < argc)
		return gp_err_set(err, -EINVAL, "unexpected argument %s: see gpupres-spawn --help",
				  argv[optind]);
	return main_find_user(args, err);
}

int main(int argc, char **argv)
{
	struct main_args args = {
		.options = { .policy.min_uid = MAIN_DEFAULT_MIN_UID,
			     .socket = MAIN_DEFAULT_SOCKET },
		.for_user = MAIN_DEFAULT_USER,
		.log_level = GP_LOG_INFO,
	};
	struct gp_err err;
	int r;

	r = main_parse(argc, argv, &args, &err);
	if (r > 0)
		return EXIT_SUCCESS;
	if (r < 0) {
		fprintf(stderr, "gpupres-spawn: %s\n", err.msg);
		return MAIN_EXIT_USAGE;
	}
	gp_log_init("gpupres-spawn", args.log_level);
	r = gp_spawn(&args.options, &err);
	if (r < 0) {
		fprintf(stderr, "gpupres-spawn: %s\n", err.msg);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
