/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_SPAWN_USER_H
#define GP_DAEMON_SPAWN_USER_H
/* Becoming a user: groups, limits, then the uid, with nothing of root left. */
#include "daemon/spawn/protocol.h"

#include <sys/types.h>

struct gp_user {
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int n_groups;
};

/*
 * The groups of @uid as the user database has them: those of a login. 0 if it does not know @uid,
 * which then has @gid alone, else 1. Asks the database, which may block. -ENOMEM, -EIO.
 */
gp_must_check int gp_user_find(uid_t uid, gid_t gid, struct gp_user *ret, struct gp_err *err);
void gp_user_free(struct gp_user *user);

/* Sets @limits, each up to the hard limit that this process has. */
gp_must_check int gp_user_limit(const struct gp_spawn_limit *limits, struct gp_err *err);

/*
 * The calling process, which has one thread, is @user's from now on, for good: all ids, no
 * capabilities, no keyring of root's session. -EPERM if anything of it does not hold.
 */
gp_must_check int gp_user_become(const struct gp_user *user, struct gp_err *err);

#endif
