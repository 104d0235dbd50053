/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_UPLINK_H
#define GP_SNAPSHOT_UPLINK_H
/*
 * The mover's connection to the daemon, which may end and be replaced by another while the mover
 * goes on. Main thread only; nothing here waits, except the first connection.
 *
 *	            due: dial             WELCOME               gp_uplink_serve
 *	down ------------------> greeting ---------> settling ------------------> up
 *	  ^                         |                   |                          |
 *	  '-------------------------+-------------------+--------------------------'
 *	    gp_uplink_lose: refused, late, closed, broken
 *
 * While settling, what an earlier daemon asked for is brought to an end, and the new one learns
 * what there is; its requests wait in the socket.
 */
#include "snapshot/outbox.h"

#include <stdbool.h>
#include <stdint.h>

enum gp_uplink_state {
	GP_UPLINK_DOWN,
	GP_UPLINK_GREETING,
	GP_UPLINK_SETTLING,
	GP_UPLINK_UP,
};

struct gp_uplink {
	const char *path; /* of the daemon's socket */
	uint32_t device;
	int epoll, sock; /* @sock: in @epoll, non-blocking; -1 when down */
	enum gp_uplink_state state;
	uint64_t due_ns;   /* down: of the next attempt; greeting: when it is given up */
	uint64_t lost_ns;  /* since when no daemon is served; 0 = one is, or never was */
	uint32_t watching; /* what epoll waits for on @sock */
};

/*
 * Connects, blocking up to 5 s; settling then. @path and @epoll are borrowed. -ECONNREFUSED and
 * -ENOENT: there is no daemon.
 */
gp_must_check int gp_uplink_init(struct gp_uplink *uplink, const char *path, uint32_t device,
				 int epoll, struct gp_err *err);
void gp_uplink_fini(struct gp_uplink *uplink);

/* Gives up the connection, if there is one; the next attempt is due in a moment. */
void gp_uplink_lose(struct gp_uplink *uplink);
/* Does what is due. */
void gp_uplink_tick(struct gp_uplink *uplink);
/* ms until something is due, for epoll_wait; -1: nothing ever is. */
int gp_uplink_timeout_ms(const struct gp_uplink *uplink);
/* Greeting, and the socket has something to say. */
void gp_uplink_greeted(struct gp_uplink *uplink);
/* Settled: requests are read from now on. */
void gp_uplink_serve(struct gp_uplink *uplink);
/* Settling or up: messages may be sent. */
bool gp_uplink_is_open(const struct gp_uplink *uplink);

/*
 * Open: sends what @outbox has and the socket takes, and asks epoll for what it waits for next.
 * -EPIPE and others when the daemon is gone.
 */
gp_must_check int gp_uplink_flush(struct gp_uplink *uplink, struct gp_outbox *outbox,
				  struct gp_err *err);

#endif
