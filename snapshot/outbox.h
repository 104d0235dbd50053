/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_OUTBOX_H
#define GP_SNAPSHOT_OUTBOX_H
/*
 * Messages on their way to the daemon. The main thread and the move worker put them in; the main
 * thread sends them, without ever blocking on the daemon. When the daemon does not read, the
 * worker waits for room, and the main thread stops taking requests (gp_outbox_has_room), so that
 * it never needs more than the entries reserved for it.
 */
#include "base/wire/wire.h"

#include <pthread.h>

#define GP_OUTBOX_ENTRIES  128
#define GP_OUTBOX_RESERVED 16 /* for the main thread: one request makes at most one reply */

struct gp_outbox {
	pthread_mutex_t lock;
	pthread_cond_t room;
	int event_fd; /* readable when there is something to send */
	uint32_t first, n;
	bool closed;
	int ready_fds[3]; /* go with MOVER_READY; borrowed */
	struct gp_wire_msg entries[GP_OUTBOX_ENTRIES];
};

gp_must_check int gp_outbox_init(struct gp_outbox *outbox, struct gp_err *err);
void gp_outbox_fini(struct gp_outbox *outbox);

/* Queues a copy of @msg. Main thread: needs gp_outbox_has_room before; does not block. */
void gp_outbox_reply(struct gp_outbox *outbox, const struct gp_wire_msg *msg);
/* Queues a copy of @msg. Worker: blocks while there is no room; drops it once closed. */
void gp_outbox_post(struct gp_outbox *outbox, const struct gp_wire_msg *msg);
bool gp_outbox_has_room(struct gp_outbox *outbox);
/* Wakes a waiting worker for good. */
void gp_outbox_close(struct gp_outbox *outbox);

/*
 * Main thread: sends what there is. *@ret_left: the (non-blocking) socket is full and messages are
 * left. -EPIPE and others when the daemon is gone.
 */
gp_must_check int gp_outbox_flush(struct gp_outbox *outbox, int sock, bool *ret_left,
				  struct gp_err *err);

#endif
