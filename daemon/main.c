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

/* Of a daemon of all users. */
#define MAIN_SYSTEM_STATE_DIR	 "/var/lib/gpupres"
#define MAIN_SYSTEM_GROUP	 "gpupres"
#define MAIN_SYSTEM_SPAWN_SOCKET "/run/gpupres-spawn.sock"

enum main_option {
	OPT_USER = 256,
	OPT_GROUP,
	OPT_ADMINS,
	OPT_MAX_PRIORITY,
	OPT_SPAWN_SOCKET,
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
	{ "group", required_argument, NULL, OPT_GROUP },
	{ "admins", required_argument, NULL, OPT_ADMINS },
	{ "max-priority", required_argument, NULL, OPT_MAX_PRIORITY },
	{ "spawn-socket", required_argument, NULL, OPT_SPAWN_SOCKET },
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
	"Usage: gpupresd [--user] [OPTION]...\n"
	"Preempts and resumes CUDA jobs together with their device memory.\n"
	"\n"
	"  --user               serve this user only, without root (default: all users)\n"
	"  --group GROUP        who may submit to a daemon of all users (default: gpupres)\n"
	"  --admins LIST        who sees and controls all jobs there, beside root: "
	"alice,@wheel\n"
	"  --max-priority N     highest priority there for others than admins (default: 0)\n"
	"  --spawn-socket PATH  of gpupres-spawn, which starts jobs there (default: "
	"/run/gpupres-spawn.sock)\n"
	"  --device KIND        nvidia, soft (a CUDA device on the CPU), or auto (default: "
	"nvidia)\n"
	"  --arena SIZE         pinned host memory for evicted bytes (default: 16G or RAM/4)\n"
	"  --swap-dir DIR       where bytes go that the arena does not hold (default: the state "
	"folder)\n"
	"  --swap-max SIZE      at most this much of it (default: 64G; 0: none)\n"
	"  --state-dir DIR      database, logs (default: /var/lib/gpupres; with --user "
	"$XDG_STATE_HOME/gpupres)\n"
	"  --runtime-dir DIR    sockets (default: /run/gpupres; with --user "
	"$GPUPRES_RUNTIME_DIR or $XDG_RUNTIME_DIR/gpupres)\n"
	"  --log-level LEVEL    err, warn, info (default) or debug\n"
	"  --help, --version\n";

struct main_args {
	struct gp_options options;
	enum gp_log_level log_level;
	bool user, done;
	const char *group;
	char runtime_dir[PATH_MAX], state_dir[PATH_MAX], swap_dir[PATH_MAX];
	char spawn_socket[PATH_MAX];
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

static int main_priority(const char *text, int32_t *ret, struct gp_err *err)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || end == text || *end || n < -GP_WIRE_MAX_PRIORITY || n > GP_WIRE_MAX_PRIORITY)
		return gp_err_set(err, -EINVAL, "--max-priority %s is no number from -%d to %d",
				  text, GP_WIRE_MAX_PRIORITY, GP_WIRE_MAX_PRIORITY);
	*ret = (int32_t)n;
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
	case OPT_GROUP:
		args->group = optarg;
		return 0;
	case OPT_ADMINS:
		if (gp_access_add_admins(&args->options.admins, optarg, err) < 0)
			return gp_err_prepend(err, "--admins");
		return 0;
	case OPT_MAX_PRIORITY:
		return main_priority(optarg, &args->options.max_priority, err);
	case OPT_SPAWN_SOCKET:
		return main_path("--spawn-socket", optarg, args->spawn_socket, err);
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

/* Serves all users, from where all of them look, and needs no more rights than one of them. */
static int main_system(struct main_args *args, struct gp_err *err)
{
	struct gp_options *o = &args->options;

	if (geteuid() == 0)
		return gp_err_set(err, -EPERM,
				  "gpupresd does not run as root: start it as the user gpupres, or "
				  "with --user");
	o->system = true;
	if (!*args->runtime_dir)
		strcpy(args->runtime_dir, GP_WIRE_SYSTEM_DIR);
	if (!*args->state_dir)
		strcpy(args->state_dir, MAIN_SYSTEM_STATE_DIR);
	if (!*args->spawn_socket)
		strcpy(args->spawn_socket, MAIN_SYSTEM_SPAWN_SOCKET);
	o->spawn_socket = args->spawn_socket;
	if (gp_access_find_group(args->group ? args->group : MAIN_SYSTEM_GROUP, &o->control_group,
				 err) < 0)
		return gp_err_prepend(err, "cannot tell who may submit: give --group");
	return 0;
}

static int main_defaults(struct main_args *args, struct gp_err *err)
{
	struct gp_options *o = &args->options;
	struct sysinfo info;
	int r = 0;

	if (!args->user)
		r = main_system(args, err);
	if (r == 0 && !*args->runtime_dir)
		r = gp_wire_user_runtime_dir(args->runtime_dir, sizeof(args->runtime_dir), err);
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
	if (args->user &&
	    (args->group || args->options.admins.n_uids || args->options.admins.n_gids ||
	     args->options.max_priority || *args->spawn_socket))
		return gp_err_set(err, -EINVAL,
				  "--group, --admins, --max-priority and --spawn-socket are for a "
				  "daemon of all users: leave them out, or --user");
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
