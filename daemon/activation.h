/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_ACTIVATION_H
#define GP_DAEMON_ACTIVATION_H
/*
 * Listening sockets that the service manager opened and passed on, by the protocol of
 * sd_listen_fds(3): $LISTEN_FDS descriptors from 3 on, named by $LISTEN_FDNAMES, meant for
 * $LISTEN_PID. Own code: it is little, and the daemon also runs where there is no libsystemd.
 *
 * Whoever takes a socket must not bind, listen, chmod or unlink: all that is done, and a second
 * listen(2) would make the socket's credentials, which clients check, those of the daemon.
 */
#include "base/err.h"

#define GP_ACTIVATION_MAX_FDS 64 /* far more than all units of gpupres name */

struct gp_activation {
	int n;
	char *names;			/* separated by ':', as they were passed */
	int fds[GP_ACTIVATION_MAX_FDS]; /* in the names' order; -1: taken */
};

/*
 * Takes over what was passed to this process, if anything, and removes the variables, so that no
 * child takes them for its own. The fds become O_CLOEXEC. -EINVAL: the variables contradict
 * themselves; -EBADF: an fd is not open; -ENOMEM. Once a process.
 */
gp_must_check int gp_activation_init(struct gp_activation *activation, struct gp_err *err);

/*
 * Moves out the first listening SOCK_SEQPACKET unix socket named @name, non-blocking. -ENOENT (and
 * an untouched @err): none was passed; -EINVAL: what was passed under this name is something else.
 */
gp_must_check int gp_activation_take(struct gp_activation *activation, const char *name,
				     struct gp_err *err);

/* Closes what nobody took. Harmless for one that is all zero. */
void gp_activation_fini(struct gp_activation *activation);

#endif
