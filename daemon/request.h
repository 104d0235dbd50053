/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_REQUEST_H
#define GP_DAEMON_REQUEST_H
/* What gpupresctl asks for. */
#include "daemon/peer.h"

struct gp_job;

/* Takes those of @fds that it keeps, leaving -1. */
void gp_request_handle(struct gp_peer *peer, const struct gp_wire_msg *msg, int *fds, size_t n_fds);
/* The job is no longer being recovered: does what waited for that. */
void gp_request_take_up(struct gp_job *job);
/* The client has taken what was sent of its LIST. */
void gp_request_list_more(struct gp_peer *peer);

#endif
