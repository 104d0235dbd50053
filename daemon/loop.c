/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/loop.h"

#include "base/time.h"

#include <errno.h>

int gp_loop_init(struct gp_loop *loop, struct gp_err *err)
{
	gp_list_init(&loop->timers);
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
	const struct gp_timer *first;

	if (gp_list_empty(&loop->timers))
		return -1;
	first = gp_container_of(loop->timers.next, struct gp_timer, node);
	if (first->deadline_ns <= now_ns)
		return 0;
	/* Rounded up: waking early would spin. */
	return (int)((first->deadline_ns - now_ns + GP_NS_PER_MS - 1) / GP_NS_PER_MS);
}

static void loop_fire_timers(struct gp_loop *loop)
{
	uint64_t now_ns = gp_now_ns();

	while (!gp_list_empty(&loop->timers)) {
		struct gp_timer *t = gp_container_of(loop->timers.next, struct gp_timer, node);

		if (t->deadline_ns > now_ns)
			return;
		gp_list_del(&t->node);
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

void gp_timer_init(struct gp_timer *timer, void (*fire)(struct gp_timer *timer))
{
	gp_list_init(&timer->node);
	timer->deadline_ns = 0;
	timer->fire = fire;
}

void gp_timer_arm(struct gp_loop *loop, struct gp_timer *timer, uint64_t deadline_ns)
{
	struct gp_list *at = &loop->timers;

	gp_list_del(&timer->node);
	timer->deadline_ns = deadline_ns;
	gp_list_for_each(t, &loop->timers, struct gp_timer, node) {
		if (t->deadline_ns > deadline_ns) {
			at = &t->node;
			break;
		}
	}
	gp_list_add_tail(at, &timer->node);
}

void gp_timer_disarm(struct gp_timer *timer)
{
	gp_list_del(&timer->node);
}
