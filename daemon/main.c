/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "daemon/daemon.h"
#include "daemon/settings.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAIN_HELP_COLUMN 22

/* Values of getopt_long: these, and from OPT_KEYS on the entries of gp_settings_keys. */
enum main_option {
	OPT_USER = 256,
	OPT_CONFIG,
	OPT_CHECK_CONFIG,
	OPT_HELP,
	OPT_VERSION,
	OPT_KEYS,
};

/* The options that are no settings. */
static const struct option main_options[] = {
	{ "user", no_argument, NULL, OPT_USER },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "check-config", no_argument, NULL, OPT_CHECK_CONFIG },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
};

static const char main_help_head[] =
	"Usage: gpupresd [--user] [OPTION]...\n"
	"Preempts and resumes CUDA jobs together with their device memory.\n"
	"\n"
	"  --user                serve this user only (default: all users)\n"
	"  --config FILE         read this file instead of gpupresd.conf and conf.d\n"
	"  --check-config        print the configuration and where it comes from, or its faults\n";

struct main_args {
	struct gp_settings settings;
	bool check, help, version;
};

static void main_help(void)
{
	fputs(main_help_head, stdout);
	for (size_t i = 0; i < gp_settings_n_keys; i++) {
		const struct gp_config_key *key = &gp_settings_keys[i];
		char left[64];

		if (!key->option)
			continue;
		snprintf(left, sizeof(left), "--%s %s", key->option, key->metavar);
		printf("  %-*s%.*s\n", MAIN_HELP_COLUMN, left, (int)strcspn(key->doc, "."),
		       key->doc);
	}
	puts("  --help, --version\n"
	     "\n"
	     "gpupresd.conf(5) has all settings and their defaults.");
}

/* Other processes get these paths, with other working folders. */
static int main_path(const char *text, char *buf, struct gp_err *err)
{
	char cwd[PATH_MAX];
	int n;

	if (*text != '/' && !getcwd(cwd, sizeof(cwd)))
		return gp_err_sys(err, -errno, "%.64s: no working folder", text);
	n = *text == '/' ? snprintf(buf, PATH_MAX, "%s", text)
			 : snprintf(buf, PATH_MAX, "%s/%s", cwd, text);
	if (!*text || n < 0 || n >= PATH_MAX)
		return gp_err_set(err, -ENAMETOOLONG, "%.64s is no path: give another", text);
	return 0;
}

static int main_key(const struct gp_config_key *key, struct main_args *args, struct gp_err *err)
{
	char source[64], path[PATH_MAX];
	const char *text = optarg;
	struct gp_err why;
	int r = 0;

	snprintf(source, sizeof(source), "--%s", key->option);
	if (key->type == &gp_config_path) {
		r = main_path(text, path, &why);
		text = path;
	}
	if (r == 0)
		r = gp_config_set(&args->settings.config, key, text, GP_CONFIG_COMMAND_LINE, source,
				  &why);
	return r < 0 ? gp_err_set(err, r, "%s %s", source, why.msg) : 0;
}

static int main_option(int option, struct main_args *args, struct gp_err *err)
{
	switch ((enum main_option)option) {
	case OPT_USER:
		args->settings.user = true;
		return 0;
	case OPT_CONFIG:
		return main_path(optarg, args->settings.file, err);
	case OPT_CHECK_CONFIG:
		args->check = true;
		return 0;
	case OPT_HELP:
		args->help = true;
		return 0;
	case OPT_VERSION:
		args->version = true;
		return 0;
	case OPT_KEYS:
		break;
	}
	return main_key(&gp_settings_keys[option - OPT_KEYS], args, err);
}

/* The fixed options and those of the settings, for getopt_long; the caller's to free. */
static struct option *main_all_options(void)
{
	size_t n = GP_ARRAY_SIZE(main_options);
	struct option *all = calloc(n + gp_settings_n_keys + 1, sizeof(*all));

	if (!all)
		return NULL;
	memcpy(all, main_options, sizeof(main_options));
	for (size_t i = 0; i < gp_settings_n_keys; i++) {
		if (gp_settings_keys[i].option)
			all[n++] = (struct option){ gp_settings_keys[i].option, required_argument,
						    NULL, OPT_KEYS + (int)i };
	}
	return all;
}

static int main_parse(int argc, char **argv, struct main_args *args, struct gp_err *err)
{
	gp_auto_free struct option *options = main_all_options();
	int option, r;

	if (!options)
		return gp_err_sys(err, -ENOMEM, "cannot read the command line");
	opterr = 0;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return gp_err_set(err, -EINVAL,
					  "unknown option or missing value: %s (see "
					  "gpupresd --help)",
					  argv[optind - 1]);
		r = main_option(option, args, err);
		if (r < 0 || args->help || args->version)
			return r;
	}
	if (optind < argc)
		return gp_err_set(err, -EINVAL, "unexpected argument %s (see gpupresd --help)",
				  argv[optind]);
	return 0;
}

static void main_report(const char *line, void *user)
{
	fprintf(stderr, "gpupresd: %s\n", line);
}

/* Reads the configuration as it would be used, and shows it. */
static int main_check_config(struct gp_settings *settings)
{
	struct gp_err err;

	if (gp_settings_load(settings, &err) < 0)
		return 1;
	gp_config_print(&settings->config, stdout);
	if (fflush(stdout) == 0)
		return 0;
	fprintf(stderr, "gpupresd: cannot write to the standard output: %s\n", strerror(errno));
	return 1;
}

static int main_serve(struct gp_settings *settings)
{
	static struct gp_daemon daemon;
	struct gp_err err;
	int r;

	if (gp_settings_load(settings, &err) < 0)
		return 2;
	r = gp_daemon_init(&daemon, settings, &err);
	if (r == 0)
		r = gp_daemon_run(&daemon, &err);
	gp_daemon_fini(&daemon);
	if (r == 0)
		return 0;
	fprintf(stderr, "gpupresd: %s\n", err.msg);
	return 1;
}

int main(int argc, char **argv)
{
	static struct main_args args;
	struct gp_err err;
	int r;

	r = gp_settings_init(&args.settings, main_report, NULL, &err);
	if (r == 0)
		r = main_parse(argc, argv, &args, &err);
	if (r < 0)
		fprintf(stderr, "gpupresd: %s\n", err.msg);
	if (r < 0)
		r = 2;
	else if (args.help)
		main_help();
	else if (args.version)
		puts("gpupresd " GP_VERSION);
	else if (args.check)
		r = main_check_config(&args.settings);
	else
		r = main_serve(&args.settings);
	gp_settings_fini(&args.settings);
	return r;
}
