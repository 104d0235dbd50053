/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_ACCESS_H
#define GP_DAEMON_ACCESS_H
/*
 * Who may do what. Three kinds of user: those that the daemon serves, who see and control their own
 * jobs; its admins, who see and control all; others, who are refused. A daemon of one user
 * (--user) serves that user alone, as admin; a system daemon serves everybody who can open its
 * sockets, root and the users and groups of --admins as admins.
 *
 * Who a peer is says the kernel, of the process that connected, as it was then.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct gp_job;
struct gp_daemon;
struct gp_peer;

struct gp_admins {
	uid_t *uids;
	gid_t *gids;
	size_t n_uids, n_gids;
};

/*
 * Reads "alice,@wheel,1000,@1000": users and, after an @, groups, by name or number, separated by
 * blanks or commas. Asks the user database, which may block. Nothing to be freed on failure:
 * -ENOENT, -ENOMEM.
 */
gp_must_check int gp_access_read_admins(const char *list, struct gp_admins *ret,
					struct gp_err *err);
void gp_access_free_admins(struct gp_admins *admins);

/* A group by name or number. Asks the group database. -ENOENT. */
gp_must_check int gp_access_find_group(const char *name, gid_t *ret, struct gp_err *err);

/* @groups: the supplementary ones of a process of @uid and @gid. */
bool gp_access_is_admin(const struct gp_daemon *daemon, uid_t uid, gid_t gid, const gid_t *groups,
			size_t n_groups);

/* Fills uid, gid, pid and is_admin of @peer from its socket. */
gp_must_check int gp_access_identify(struct gp_peer *peer, struct gp_err *err);

/*
 * A pidfd of the process that connected as @peer, which names it even when it has ended and its
 * pid is another's. Before Linux 6.5 the socket cannot give one: then it is the process that has
 * the pid now. -ESRCH: it has ended.
 */
gp_must_check int gp_access_open_process(const struct gp_peer *peer, struct gp_err *err);

/* Whether @peer may know of @job, and do with it what its owner may. */
bool gp_access_may(const struct gp_peer *peer, const struct gp_job *job);

/*
 * Whether @peer, by its hello a client, a shim, a supervisor or a mover, may be that here: on the
 * daemon's control socket or on the one for jobs. -EPERM, and why.
 */
gp_must_check int gp_access_check_role(const struct gp_peer *peer, unsigned int role,
				       struct gp_err *err);

#endif
