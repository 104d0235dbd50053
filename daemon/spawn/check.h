/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_SPAWN_CHECK_H
#define GP_DAEMON_SPAWN_CHECK_H
/*
 * What gpupres-spawn believes of a request: nothing that it has not checked. Pure but for looking
 * at the attached files, so that it can be tested without root.
 */
#include "daemon/spawn/protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct gp_spawn_policy {
	uid_t for_uid; /* who may ask, besides root */
	uid_t min_uid; /* jobs run as this uid or a greater one */
	bool allow_root;
};

/* A command, as strings that live as long as @blob. */
struct gp_spawn_command {
	char *blob;
	char *socket, *cwd;
	char **args; /* n_args, n_env; NULL-terminated */
	char **env;
};

/*
 * Checks all but the command's text: @len bytes were received, with @n_fds fds, from a process of
 * @caller. -EPERM, -EBADMSG or -EPROTO with the reason.
 */
gp_must_check int gp_spawn_check(const struct gp_spawn_policy *policy,
				 const struct gp_spawn_request *request, size_t len, const int *fds,
				 size_t n_fds, uid_t caller, struct gp_err *err);

/*
 * Of a user that the user database does not know the group is what the request says: no group of
 * the system. -EPERM.
 */
gp_must_check int gp_spawn_check_group(const struct gp_spawn_policy *policy,
				       const struct gp_spawn_request *request, struct gp_err *err);

/* Reads a checked START's command from its memfd. -EBADMSG, -ENOMEM, -EIO. */
gp_must_check int gp_spawn_read_command(const struct gp_spawn_request *request, int memfd,
					struct gp_spawn_command *ret, struct gp_err *err);
void gp_spawn_free_command(struct gp_spawn_command *command);

#endif
