/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/size.h"
#include "base/wire/wire.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#define MAIN_DEFAULT_SWAP_BYTES	 (64ull << 30)
#define MAIN_DEFAULT_ARENA_BYTES (16ull << 30) /* or a quarter of RAM, if that is less */

enum main_option {
	OPT_USER = 256,
	OPT_DEVICE,
	OPT_ARENA,
	OPT_SWAP_DIR,
	OPT_SWAP_MAX,
	OPT_STATE_DIR,
	OPT_RUNTIME_DIR,
	OPT_LOG_LEVEL,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option main_options[] = {
	{ "user", no_argument, NULL, OPT_USER },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "arena", required_argument, NULL, OPT_ARENA },
	{ "swap-dir", required_argument, NULL, OPT_SWAP_DIR },
	{ "swap-max", required_argument, NULL, OPT_SWAP_MAX },
	{ "state-dir", required_argument, NULL, OPT_STATE_DIR },
	{ "runtime-dir", required_argument, NULL, OPT_RUNTIME_DIR },
	{ "log-level", required_argument, NULL, OPT_LOG_LEVEL },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char main_help[] =
	"Usage: gpupresd --user [OPTION]...\n"
	"Preempts and resumes CUDA jobs together with their device memory.\n"
	"\n"
	"  --user               serve this user only, without root\n"
	"  --device KIND        nvidia, soft (a CUDA device on the CPU), or auto (default: "
	"nvidia)\n"
	"  --arena SIZE         pinned host memory for evicted bytes (default: 16G or RAM/4)\n"
	"  --swap-dir DIR       where bytes go that the arena does not hold (default: the state "
	"folder)\n"
	"  --swap-max SIZE      at most this much of it (default: 64G; 0: none)\n"
	"  --state-dir DIR      database, logs (default: $XDG_STATE_HOME/gpupres)\n"
	"  --runtime-dir DIR    sockets (default: $GPUPRES_RUNTIME_DIR or "
	"$XDG_RUNTIME_DIR/gpupres)\n"
	"  --log-level LEVEL    err, warn, info (default) or debug\n"
	"  --help, --version\n";

struct main_args {
	struct gp_options options;
	enum gp_log_level log_level;
	bool user, done;
	char runtime_dir[PATH_MAX], state_dir[PATH_MAX], swap_dir[PATH_MAX];
};

static int main_size(const char *option, const char *text, uint64_t *ret, struct gp_err *err)
{
	if (gp_size_parse(text, ret) < 0)
		return gp_err_set(err, -EINVAL, "%s %s is not a size: write 512M or 16G", option,
				  text);
	return 0;
}

/* Other processes get these paths, with other working folders. */
static int main_path(const char *option, const char *text, char *buf, struct gp_err *err)
{
	char cwd[PATH_MAX];
	int n;

	if (*text != '/' && !getcwd(cwd, sizeof(cwd)))
		return gp_err_sys(err, -errno, "no working folder");
	n = *text == '/' ? snprintf(buf, PATH_MAX, "%s", text)
			 : snprintf(buf, PATH_MAX, "%s/%s", cwd, text);
	if (!*text || n < 0 || n >= PATH_MAX)
		return gp_err_set(err, -ENAMETOOLONG, "%s %s is not a usable path", option, text);
	return 0;
}

static int main_device(const char *text, struct main_args *args, struct gp_err *err)
{
	if (!strcmp(text, "soft"))
		args->options.device = GP_DEVICE_SOFT;
	else if (!strcmp(text, "nvidia"))
		args->options.device = GP_DEVICE_NVIDIA;
	else if (!strcmp(text, "auto"))
		args->options.device = GP_DEVICE_AUTO;
	else
		return gp_err_set(err, -EINVAL, "--device %s: choose nvidia, soft or auto", text);
	return 0;
}

static int main_option(int option, struct main_args *args, struct gp_err *err)
{
	switch ((enum main_option)option) {
	case OPT_USER:
		args->user = true;
		return 0;
	case OPT_DEVICE:
		return main_device(optarg, args, err);
	case OPT_ARENA:
		return main_size("--arena", optarg, &args->options.arena_bytes, err);
	case OPT_SWAP_MAX:
		return main_size("--swap-max", optarg, &args->options.swap_bytes, err);
	case OPT_SWAP_DIR:
		return main_path("--swap-dir", optarg, args->swap_dir, err);
	case OPT_STATE_DIR:
		return main_path("--state-dir", optarg, args->state_dir, err);
	case OPT_RUNTIME_DIR:
		return main_path("--runtime-dir", optarg, args->runtime_dir, err);
	case OPT_LOG_LEVEL:
		if (gp_log_level_parse(optarg, &args->log_level) < 0)
			return gp_err_set(err, -EINVAL,
					  "--log-level %s: choose err, warn, info or debug",
					  optarg);
		return 0;
	case OPT_HELP:
		fputs(main_help, stdout);
		args->done = true;
		return 0;
	case OPT_VERSION:
		puts("gpupresd " GP_VERSION);
		args->done = true;
		return 0;
	}
	return gp_err_set(err, -EINVAL, "see gpupresd --help");
}

static int main_default_state_dir(char *buf, struct gp_err *err)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;

	if (state && *state == '/')
		n = snprintf(buf, PATH_MAX, "%s/gpupres", state);
	else if (home && *home == '/')
		n = snprintf(buf, PATH_MAX, "%s/.gpupres", home);
	else
		return gp_err_set(err, -ENOENT, "no HOME for the state folder: give --state-dir");
	return n < PATH_MAX ? 0 : gp_err_set(err, -ENAMETOOLONG, "HOME is too long");
}

static int main_defaults(struct main_args *args, struct gp_err *err)
{
	struct gp_options *o = &args->options;
	struct sysinfo info;
	int r = 0;

	if (!*args->runtime_dir)
		r = gp_wire_runtime_dir(args->runtime_dir, sizeof(args->runtime_dir), err);
	if (r == 0 && !*args->state_dir)
		r = main_default_state_dir(args->state_dir, err);
	if (r < 0)
		return r;
	if (!*args->swap_dir)
		strcpy(args->swap_dir, args->state_dir);
	if (!o->arena_bytes && sysinfo(&info) == 0) {
		uint64_t quarter = (uint64_t)info.totalram * info.mem_unit / 4;

		o->arena_bytes =
			quarter < MAIN_DEFAULT_ARENA_BYTES ? quarter : MAIN_DEFAULT_ARENA_BYTES;
	}
	o->runtime_dir = args->runtime_dir;
	o->state_dir = args->state_dir;
	o->swap_dir = args->swap_dir;
	return 0;
}

static int main_parse(int argc, char **argv, struct main_args *args, struct gp_err *err)
{
	int option, r;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", main_options, NULL)) != -1) {
		if (option == '?')
			return gp_err_set(err, -EINVAL,
					  "unknown option or missing value: %s (see "
					  "gpupresd --help)",
					  argv[optind - 1]);
		r = main_option(option, args, err);
		if (r < 0 || args->done)
			return r;
	}
	if (optind < argc)
		return gp_err_set(err, -EINVAL, "unexpected argument %s (see gpupresd --help)",
				  argv[optind]);
	if (!args->user)
		return gp_err_set(err, -EINVAL,
				  "this version serves one user: start it with --user");
	return main_defaults(args, err);
}

int main(int argc, char **argv)
{
	static struct main_args args = { .log_level = GP_LOG_INFO,
					 .options.swap_bytes = MAIN_DEFAULT_SWAP_BYTES };
	static struct gp_daemon daemon;
	struct gp_err err;
	int r;

	r = main_parse(argc, argv, &args, &err);
	if (r < 0) {
		fprintf(stderr, "gpupresd: %s\n", err.msg);
		return 2;
	}
	if (args.done)
		return 0;
	gp_log_init("gpupresd", args.log_level);
	r = gp_daemon_init(&daemon, &args.options, &err);
	if (r == 0)
		r = gp_daemon_run(&daemon, &err);
	gp_daemon_fini(&daemon);
	if (r < 0) {
		fprintf(stderr, "gpupresd: %s\n", err.msg);
		return 1;
	}
	return 0;
}
