/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/loop.h"

#include "base/time.h"

#include <errno.h>
#include <limits.h>

int gp_loop_init(struct gp_loop *loop, struct gp_err *err)
{
	loop->first_timer = NULL;
	loop->stop = false;
	loop->n_batch = 0;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return gp_err_sys(err, -errno, "cannot create an epoll instance");
	return 0;
}

void gp_loop_fini(struct gp_loop *loop)
{
	gp_close_fd(&loop->epoll_fd);
}

static int loop_timeout_ms(const struct gp_loop *loop, uint64_t now_ns)
{
	const struct gp_timer *first = loop->first_timer;
	uint64_t ms;

	if (!first)
		return -1;
	if (first->deadline_ns <= now_ns)
		return 0;
	/* Rounded up: waking early would spin. */
	ms = (first->deadline_ns - now_ns + GP_NS_PER_MS - 1) / GP_NS_PER_MS;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

static void loop_fire_timers(struct gp_loop *loop)
{
	uint64_t now_ns = gp_now_ns();

	while (loop->first_timer && loop->first_timer->deadline_ns <= now_ns) {
		struct gp_timer *t = loop->first_timer;

		gp_timer_disarm(t);
		t->fire(t);
	}
}

int gp_loop_run(struct gp_loop *loop, struct gp_err *err)
{
	while (!loop->stop) {
		int n = epoll_wait(loop->epoll_fd, loop->batch, GP_LOOP_BATCH,
				   loop_timeout_ms(loop, gp_now_ns()));

		if (n < 0 && errno != EINTR)
			return gp_err_sys(err, -errno, "cannot wait for events");
		loop->n_batch = n < 0 ? 0 : n;
		for (int i = 0; i < loop->n_batch; i++) {
			struct gp_source *source = loop->batch[i].data.ptr;

			if (source)
				source->dispatch(source, loop->batch[i].events);
		}
		loop->n_batch = 0;
		loop_fire_timers(loop);
		if (loop->turn_end)
			loop->turn_end(loop);
	}
	return 0;
}

int gp_loop_add(struct gp_loop *loop, struct gp_source *source, uint32_t events, struct gp_err *err)
{
	struct epoll_event e = { .events = events, .data.ptr = source };

	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, source->fd, &e) < 0)
		return gp_err_sys(err, -errno, "cannot watch fd %d", source->fd);
	return 0;
}

void gp_loop_set_events(struct gp_loop *loop, struct gp_source *source, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = source };

	/* Cannot fail for a registered fd: nothing is allocated. */
	(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &e);
}

void gp_loop_remove(struct gp_loop *loop, struct gp_source *source)
{
	(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	for (int i = 0; i < loop->n_batch; i++) {
		if (loop->batch[i].data.ptr == source)
			loop->batch[i].data.ptr = NULL;
	}
}

/* The one that is due first becomes the other's parent; its place among siblings is the caller's.
 */
static struct gp_timer *timer_meld(struct gp_timer *a, struct gp_timer *b)
{
	if (b->deadline_ns < a->deadline_ns) {
		struct gp_timer *first = b;

		b = a;
		a = first;
	}
	b->next = a->child;
	if (b->next)
		b->next->at = &b->next;
	b->at = &a->child;
	a->child = b;
	return a;
}

/*
 * Melds siblings into one heap: in pairs from the left, then those from the right. This order is
 * what makes the cost logarithmic.
 */
static struct gp_timer *timer_meld_all(struct gp_timer *first)
{
	struct gp_timer *pairs = NULL, *heap = NULL;

	while (first) {
		struct gp_timer *a = first, *b = a->next;

		first = b ? b->next : NULL;
		if (b)
			a = timer_meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct gp_timer *a = pairs;

		pairs = a->next;
		heap = heap ? timer_meld(heap, a) : a;
	}
	return heap;
}

/* Puts @timer, which may be NULL, and its right siblings to where @at points. */
static void timer_put(struct gp_timer **at, struct gp_timer *timer)
{
	*at = timer;
	if (timer)
		timer->at = at;
}

void gp_timer_init(struct gp_timer *timer, void (*fire)(struct gp_timer *timer))
{
	*timer = (struct gp_timer){ .fire = fire };
}

void gp_timer_arm(struct gp_loop *loop, struct gp_timer *timer, uint64_t deadline_ns)
{
	struct gp_timer *first;

	gp_timer_disarm(timer);
	timer->deadline_ns = deadline_ns;
	first = loop->first_timer ? timer_meld(loop->first_timer, timer) : timer;
	first->next = NULL;
	timer_put(&loop->first_timer, first);
}

/* What is below it is due later than what is above it, so that can take its place. */
bool gp_timer_is_armed(const struct gp_timer *timer)
{
	return timer->at != NULL;
}

void gp_timer_disarm(struct gp_timer *timer)
{
	struct gp_timer *heap;

	if (!timer->at)
		return;
	heap = timer_meld_all(timer->child);
	if (heap) {
		timer_put(&heap->next, timer->next);
		timer_put(timer->at, heap);
	} else {
		timer_put(timer->at, timer->next);
	}
	timer->child = timer->next = NULL;
	timer->at = NULL;
}
