/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_LOOP_H
#define GP_DAEMON_LOOP_H
/*
 * The daemon's one loop: fds by epoll, timers in a pairing heap. Single-threaded. A source or timer
 * is embedded in its owner, which removes it before it goes away; removing is allowed from any
 * callback, also for sources that have an event waiting in the same turn.
 *
 * Every connection can have a timer, so there may be tens of thousands: arming is O(1), disarming
 * and firing are O(log n) amortised, and none of them allocates or fails.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#define GP_LOOP_BATCH 64

struct gp_source {
	int fd; /* owned by whoever embeds the source */
	void (*dispatch)(struct gp_source *source, uint32_t events);
};

/* No timer below another in the heap is due before it. */
struct gp_timer {
	struct gp_timer *child, *next; /* first child; next sibling */
	struct gp_timer **at;	       /* where the pointer to this timer is; NULL: not armed */
	uint64_t deadline_ns;
	void (*fire)(struct gp_timer *timer);
};

struct gp_loop {
	int epoll_fd;
	bool stop;
	struct gp_timer *first_timer; /* root of the heap */
	struct epoll_event batch[GP_LOOP_BATCH];
	int n_batch;
	void (*turn_end)(struct gp_loop *loop); /* after every turn, before sleeping; may be NULL */
};

gp_must_check int gp_loop_init(struct gp_loop *loop, struct gp_err *err);
void gp_loop_fini(struct gp_loop *loop);
/* Runs until loop->stop. Fails only if epoll does. */
gp_must_check int gp_loop_run(struct gp_loop *loop, struct gp_err *err);

gp_must_check int gp_loop_add(struct gp_loop *loop, struct gp_source *source, uint32_t events,
			      struct gp_err *err);
/* Changes what a registered source waits for. */
void gp_loop_set_events(struct gp_loop *loop, struct gp_source *source, uint32_t events);
/* Does not close the fd. Harmless for a source that is not registered but has a valid fd. */
void gp_loop_remove(struct gp_loop *loop, struct gp_source *source);

/*
 * A timer is initialised while it is not armed, which a zeroed one is not; arming an armed one
 * moves it. Timers that are due fire in the order of their deadlines; equal ones in any order.
 */
void gp_timer_init(struct gp_timer *timer, void (*fire)(struct gp_timer *timer));
void gp_timer_arm(struct gp_loop *loop, struct gp_timer *timer, uint64_t deadline_ns);
void gp_timer_disarm(struct gp_timer *timer);
bool gp_timer_is_armed(const struct gp_timer *timer);

#endif
