/* SPDX-License-Identifier: Apache-2.0 */
/* gpupres-ckpt: started by systemd, as root, when gpupresd connects to its socket. */
#include "base/log.h"
#include "base/time.h"
#include "daemon/activation.h"
#include "daemon/ckpt/ckpt.h"

#include <errno.h>
#include <getopt.h>
#include <pwd.h>
#include <stdio.h>

#define MAIN_EXIT_USAGE 2
#define MAIN_IDLE_NS	(10 * GP_NS_PER_SEC)

static const struct option main_options[] = {
	{ "for-user", required_argument, NULL, 'u' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'v' },
	{ NULL, 0, NULL, 0 },
};

static const char main_usage[] =
	"usage: gpupres-ckpt --for-user NAME\n"
	"Answers gpupresd's requests to write jobs to disk; this version refuses them. Started by\n"
	"systemd with its socket: not meant to be called by hand.\n"
	"\n"
	"  --for-user NAME  the user that gpupresd runs as: besides root, the only one who may "
	"ask\n"
	"  --help           show this text\n"
	"  --version        show the version\n";

/* 1 when --help or --version was answered. */
static int main_parse(int argc, char **argv, uid_t *ret_uid, struct gp_err *err)
{
	const struct passwd *user;
	const char *name = NULL;
	int letter;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, "", main_options, NULL)) != -1) {
		if (letter == 'h' || letter == 'v') {
			fputs(letter == 'h' ? main_usage : "gpupres-ckpt " GP_VERSION "\n", stdout);
			return 1;
		}
		if (letter != 'u')
			return gp_err_set(err, -EINVAL, "bad usage: see gpupres-ckpt --help");
		name = optarg;
	}
	if (!name || optind < argc)
		return gp_err_set(err, -EINVAL,
				  "--for-user NAME is needed, and nothing else: see "
				  "gpupres-ckpt --help");
	user = getpwnam(name);
	if (!user)
		return gp_err_set(err, -EINVAL, "--for-user %s: there is no such user", name);
	*ret_uid = user->pw_uid;
	return 0;
}

/* The socket that systemd passed. */
static int main_socket(struct gp_err *err)
{
	struct gp_activation activation;
	int r = gp_activation_init(&activation, err);

	if (r == 0) {
		r = gp_activation_take(&activation, "ckpt", err);
		if (r == -ENOENT)
			gp_err_set(err, r, "no socket was passed: start gpupres-ckpt.socket");
	}
	gp_activation_fini(&activation);
	return r;
}

int main(int argc, char **argv)
{
	gp_auto_fd int fd = -1;
	struct gp_err err;
	uid_t uid = (uid_t)-1;
	int r;

	gp_log_init("gpupres-ckpt", GP_LOG_INFO);
	r = main_parse(argc, argv, &uid, &err);
	if (r > 0)
		return EXIT_SUCCESS;
	if (r == 0)
		r = fd = main_socket(&err);
	if (r < 0) {
		fprintf(stderr, "gpupres-ckpt: %s\n", err.msg);
		return MAIN_EXIT_USAGE;
	}
	r = gp_ckpt_serve(fd, uid, MAIN_IDLE_NS, &err);
	if (r < 0) {
		fprintf(stderr, "gpupres-ckpt: %s\n", err.msg);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
