/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_RUN_LINK_H
#define GP_DAEMON_RUN_LINK_H
/*
 * The supervisor's connection to the daemon. Nothing here waits: the supervisor must reap and kill
 * while a daemon hangs. A link is down, greeted (HELLO sent), or up (WELCOME received).
 */
#include "base/err.h"
#include "base/wire/messages.h"

#include <stdbool.h>

struct gp_link {
	const char *path;
	uint64_t job;
	int sock; /* -1 = down */
	bool up;
	uint64_t greeted_ns; /* CLOCK_MONOTONIC */
};

void gp_link_init(struct gp_link *link, const char *path, uint64_t job);
/* Connects and says hello. The state stays down on failure: -errno. */
gp_must_check int gp_link_open(struct gp_link *link, struct gp_err *err);
void gp_link_close(struct gp_link *link);

/* Sends @msg with the job's id; -ENOTCONN when down, -EAGAIN when the daemon does not read. */
gp_must_check int gp_link_send(struct gp_link *link, struct gp_wire_msg *msg, struct gp_err *err);

/*
 * Takes the next message; a WELCOME turns the link up. -ETIMEDOUT: none is there. Any other
 * error, a refused HELLO among them, closes the link.
 */
gp_must_check int gp_link_receive(struct gp_link *link, struct gp_wire_msg *ret,
				  struct gp_err *err);

#endif
