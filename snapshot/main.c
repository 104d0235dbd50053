/* SPDX-License-Identifier: Apache-2.0 */
/* gpupres-mover: command line. */
#include "base/log.h"
#include "base/size.h"
#include "snapshot/mover.h"
#include "snapshot/selftest.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum main_option {
	MAIN_SOCKET = 1,
	MAIN_DEVICE,
	MAIN_KIND,
	MAIN_DRIVER,
	MAIN_ARENA,
	MAIN_SWAP_DIR,
	MAIN_SWAP_MAX,
	MAIN_LOCK,
	MAIN_ARENA_FD,
	MAIN_LEDGER_FD,
	MAIN_SWAP_FD,
	MAIN_LOG_LEVEL,
	MAIN_SELF_TEST,
	MAIN_HELP,
	MAIN_VERSION,
};

static const struct option main_options[] = {
	{ "socket", required_argument, NULL, MAIN_SOCKET },
	{ "device", required_argument, NULL, MAIN_DEVICE },
	{ "kind", required_argument, NULL, MAIN_KIND },
	{ "driver", required_argument, NULL, MAIN_DRIVER },
	{ "arena", required_argument, NULL, MAIN_ARENA },
	{ "swap-dir", required_argument, NULL, MAIN_SWAP_DIR },
	{ "swap-max", required_argument, NULL, MAIN_SWAP_MAX },
	{ "lock", required_argument, NULL, MAIN_LOCK },
	{ "arena-fd", required_argument, NULL, MAIN_ARENA_FD },
	{ "ledger-fd", required_argument, NULL, MAIN_LEDGER_FD },
	{ "swap-fd", required_argument, NULL, MAIN_SWAP_FD },
	{ "log-level", required_argument, NULL, MAIN_LOG_LEVEL },
	{ "self-test", no_argument, NULL, MAIN_SELF_TEST },
	{ "help", no_argument, NULL, MAIN_HELP },
	{ "version", no_argument, NULL, MAIN_VERSION },
	{ 0 },
};

static const char main_help[] =
	"Usage: gpupres-mover --socket PATH --device N --kind soft|nvidia --driver PATH\n"
	"                     --arena SIZE [--swap-dir DIR --swap-max SIZE] [--log-level L]\n"
	"                     [--arena-fd N --ledger-fd N --swap-fd N]\n"
	"       gpupres-mover --self-test --device N --kind soft|nvidia --driver PATH\n"
	"Freezes GPU processes and moves their memory; started by gpupresd, one per GPU.\n"
	"\n"
	"  --socket PATH      the daemon's socket\n"
	"  --device N         number of the GPU\n"
	"  --kind KIND        soft: the software device; nvidia: a card\n"
	"  --driver PATH      libcuda.so.1 of that kind\n"
	"  --arena SIZE       host memory for evicted memory, e.g. 64G\n"
	"  --swap-dir DIR     folder for what the arena cannot hold\n"
	"  --swap-max SIZE    most that is put there (default 0: nothing)\n"
	"  --lock FILE        locked as long as this mover lives\n"
	"  --arena-fd N, --ledger-fd N, --swap-fd N\n"
	"                     descriptors of what an earlier mover has left\n"
	"  --log-level L      err, warn, info (default) or debug\n"
	"  --self-test        compare the device's hash with the CPU's, and measure it\n"
	"  --help, --version\n";

struct main_args {
	struct gp_mover_options mover;
	enum gp_log_level level;
	uint32_t n_fds; /* of the inherited ones */
	bool self_test, done, have_device, have_kind, have_arena;
};

static int main_parse_size(const char *option, const char *text, uint64_t *ret, struct gp_err *err)
{
	int r = gp_size_parse(text, ret);

	return r < 0 ? gp_err_set(err, r, "--%s %s: not a size such as 512M or 64G", option, text)
		     : 0;
}

static int main_parse_device(const char *text, uint32_t *ret, struct gp_err *err)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || n > 1023 || text[0] == '-')
		return gp_err_set(err, -EINVAL, "--device %s: not the number of a GPU", text);
	*ret = (uint32_t)n;
	return 0;
}

/* Inherited descriptors are for this process alone. */
static int main_parse_fd(const char *option, struct main_args *a, enum gp_depot_fd which,
			 struct gp_err *err)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(optarg, &end, 10);
	if (errno || end == optarg || *end || optarg[0] == '-' || n <= STDERR_FILENO ||
	    n > INT_MAX || fcntl((int)n, F_SETFD, FD_CLOEXEC) < 0)
		return gp_err_set(err, -EINVAL, "--%s %s: not an open descriptor", option, optarg);
	a->n_fds += a->mover.inherited[which] == 0;
	a->mover.inherited[which] = (int)n;
	return 0;
}

static int main_parse_option(int option, struct main_args *a, struct gp_err *err)
{
	switch (option) {
	case MAIN_SOCKET:
		a->mover.socket = optarg;
		return 0;
	case MAIN_DEVICE:
		a->have_device = true;
		return main_parse_device(optarg, &a->mover.device, err);
	case MAIN_KIND:
		a->have_kind = true;
		a->mover.soft = strcmp(optarg, "soft") == 0;
		if (!a->mover.soft && strcmp(optarg, "nvidia"))
			return gp_err_set(err, -EINVAL, "--kind %s: soft or nvidia", optarg);
		return 0;
	case MAIN_DRIVER:
		a->mover.driver = optarg;
		return 0;
	case MAIN_ARENA:
		a->have_arena = true;
		return main_parse_size("arena", optarg, &a->mover.arena_bytes, err);
	case MAIN_SWAP_DIR:
		a->mover.swap_dir = optarg;
		return 0;
	case MAIN_SWAP_MAX:
		return main_parse_size("swap-max", optarg, &a->mover.swap_max_bytes, err);
	case MAIN_LOCK:
		a->mover.lock = optarg;
		return 0;
	case MAIN_ARENA_FD:
		return main_parse_fd("arena-fd", a, GP_DEPOT_ARENA, err);
	case MAIN_LEDGER_FD:
		return main_parse_fd("ledger-fd", a, GP_DEPOT_LEDGER, err);
	case MAIN_SWAP_FD:
		return main_parse_fd("swap-fd", a, GP_DEPOT_SWAP, err);
	case MAIN_LOG_LEVEL:
		if (gp_log_level_parse(optarg, &a->level) < 0)
			return gp_err_set(err, -EINVAL, "--log-level %s: err, warn, info or debug",
					  optarg);
		return 0;
	case MAIN_SELF_TEST:
		a->self_test = true;
		return 0;
	case MAIN_HELP:
		fputs(main_help, stdout);
		a->done = true;
		return 0;
	case MAIN_VERSION:
		puts("gpupres-mover " GP_VERSION);
		a->done = true;
		return 0;
	default:
		return gp_err_set(err, -EINVAL, "unknown option or missing value; see --help");
	}
}

static int main_parse(int argc, char **argv, struct main_args *a, struct gp_err *err)
{
	int option, r;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "", main_options, NULL)) != -1) {
		r = main_parse_option(option, a, err);
		if (r < 0 || a->done)
			return r;
	}
	if (optind < argc)
		return gp_err_set(err, -EINVAL, "unexpected argument %s; see --help", argv[optind]);
	if (!a->have_device || !a->have_kind || !a->mover.driver)
		return gp_err_set(err, -EINVAL, "--device, --kind and --driver are needed");
	if (a->self_test)
		return 0;
	if (!a->mover.socket || !a->have_arena)
		return gp_err_set(err, -EINVAL, "--socket and --arena are needed");
	if (a->mover.swap_max_bytes && !a->mover.swap_dir)
		return gp_err_set(err, -EINVAL, "--swap-max needs --swap-dir");
	if (a->n_fds && a->n_fds != GP_DEPOT_FDS)
		return gp_err_set(err, -EINVAL,
				  "--arena-fd, --ledger-fd and --swap-fd go together");
	a->mover.inherits = a->n_fds;
	return 0;
}

/* The process's owner object; static because the driver's ioctls come in without an argument. */
static struct gp_mover main_mover;

static int main_ioctl(int fd, unsigned long request, void *arg)
{
	return gp_rm_watch_ioctl(main_mover.driver.watch, fd, request, arg);
}

static int main_serve(const struct main_args *a, struct gp_err *err)
{
	int r = gp_mover_init(&main_mover, &a->mover, main_ioctl, err);

	if (r == 0)
		r = gp_mover_run(&main_mover, err);
	gp_mover_fini(&main_mover);
	return r;
}

int main(int argc, char **argv)
{
	struct main_args args = { .level = GP_LOG_INFO };
	struct gp_err err = { 0 };
	int r;

	r = main_parse(argc, argv, &args, &err);
	if (r == 0 && args.done)
		return 0;
	if (r == 0) {
		const struct gp_driver_options driver = { .path = args.mover.driver,
							  .soft = args.mover.soft,
							  .device = args.mover.device,
							  .hook = main_ioctl };

		gp_log_init("gpupres-mover", args.level);
		r = args.self_test ? gp_selftest_run(&main_mover.driver, &driver, &err)
				   : main_serve(&args, &err);
	}
	if (r < 0) {
		fprintf(stderr, "gpupres-mover: %s\n", err.msg);
		return 1;
	}
	return 0;
}
