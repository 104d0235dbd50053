/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_FDS_H
#define GP_BASE_FDS_H
/* Descriptors that go along with a message over a unix socket: SCM_RIGHTS of unix(7). */
#include "base/cleanup.h"

#include <stddef.h>
#include <sys/socket.h>

#define GP_FDS_MAX 64 /* of one message; the kernel allows 253 */

/*
 * Sends one message with @n_fds (at most GP_FDS_MAX) descriptors, borrowed. Blocks only if the
 * socket does; raises no SIGPIPE. 0, or what sendmsg(2) says, negative.
 */
gp_must_check int gp_fds_send(int sock, const void *bytes, size_t n_bytes, const int *fds,
			      size_t n_fds);
/*
 * Takes over the descriptors that came with @mh: up to @max of them to the caller, the others are
 * closed. Returns how many came.
 */
size_t gp_fds_take(struct msghdr *mh, int *ret_fds, size_t max);

#endif
