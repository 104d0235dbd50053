/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_SPAWN_SPAWN_H
#define GP_DAEMON_SPAWN_SPAWN_H
/* gpupres-spawn: see daemon/spawn/spawn.c. */
#include "daemon/spawn/check.h"

struct gp_spawn_options {
	struct gp_spawn_policy policy;
	const char *socket; /* path; not used with a listening socket from systemd */
};

/*
 * Serves requests until SIGTERM or SIGINT. Changes the process for good (signals): for main() only.
 * Fails if it cannot begin; a request that fails is answered with why.
 */
gp_must_check int gp_spawn(const struct gp_spawn_options *options, struct gp_err *err);

#endif
