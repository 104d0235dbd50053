/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's loop: timers fire in order, whatever was armed, moved and disarmed meanwhile. */
#include "base/list.h"
#include "base/time.h"
#include "daemon/loop.h"
#include "tests/unit/check.h"

#include <sys/eventfd.h>
#include <unistd.h>

#define N_TIMERS 2000
#define N_STEPS	 20000

struct probe {
	struct gp_timer timer;
	uint64_t deadline_ns; /* 0: not armed */
	bool fired;
};

static struct gp_loop loop;
static struct probe probes[N_TIMERS];
static uint64_t last_ns;
static size_t n_fired;

static void open_loop(void)
{
	struct gp_err err;

	CHECK_EQ(gp_loop_init(&loop, &err), 0);
	loop.turn_end = NULL;
	last_ns = n_fired = 0;
}

static void run(void)
{
	struct gp_err err;

	loop.stop = false;
	CHECK_EQ(gp_loop_run(&loop, &err), 0);
}

static void on_stop(struct gp_timer *timer)
{
	loop.stop = true;
}

static void on_probe(struct gp_timer *timer)
{
	struct probe *p = gp_container_of(timer, struct probe, timer);

	CHECK(p->deadline_ns);
	CHECK_EQ(timer->deadline_ns, p->deadline_ns);
	CHECK(p->deadline_ns >= last_ns);
	last_ns = p->deadline_ns;
	p->deadline_ns = 0;
	p->fired = true;
	n_fired++;
}

/* xorshift: the same numbers in every run. */
static uint64_t next_number(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static void test_timers_when_armed_moved_and_disarmed_then_the_rest_fires_in_order(void)
{
	struct gp_timer stopper;
	size_t n_armed = 0;

	open_loop();
	gp_timer_init(&stopper, on_stop);
	for (size_t i = 0; i < N_TIMERS; i++)
		gp_timer_init(&probes[i].timer, on_probe);
	for (size_t i = 0; i < N_STEPS; i++) {
		struct probe *p = &probes[next_number() % N_TIMERS];

		if (next_number() % 3) {
			p->deadline_ns = 1 + next_number() % N_TIMERS;
			gp_timer_arm(&loop, &p->timer, p->deadline_ns);
		} else {
			p->deadline_ns = 0;
			gp_timer_disarm(&p->timer);
		}
	}
	for (size_t i = 0; i < N_TIMERS; i++)
		n_armed += probes[i].deadline_ns != 0;
	gp_timer_arm(&loop, &stopper, N_TIMERS + 1);
	run();
	CHECK_EQ(n_fired, n_armed);
	for (size_t i = 0; i < N_TIMERS; i++)
		CHECK_EQ(probes[i].deadline_ns, 0);
	CHECK(!loop.first_timer);
	gp_loop_fini(&loop);
}

static void on_pair(struct gp_timer *timer)
{
	on_probe(timer);
	probes[1].deadline_ns = 0;
	gp_timer_disarm(&probes[1].timer);
	probes[2].deadline_ns = 3;
	gp_timer_arm(&loop, &probes[2].timer, 3);
}

static void test_timer_when_its_callback_changes_others_then_they_follow(void)
{
	struct gp_timer stopper;

	open_loop();
	memset(probes, 0, sizeof(probes));
	gp_timer_init(&stopper, on_stop);
	gp_timer_init(&probes[0].timer, on_pair);
	for (size_t i = 0; i < 3; i++) {
		if (i)
			gp_timer_init(&probes[i].timer, on_probe);
		probes[i].deadline_ns = i + 1;
		gp_timer_arm(&loop, &probes[i].timer, i + 1);
	}
	probes[2].deadline_ns = gp_now_ns() + 3600 * GP_NS_PER_SEC;
	gp_timer_arm(&loop, &probes[2].timer, probes[2].deadline_ns);
	gp_timer_arm(&loop, &stopper, 4);
	run();
	CHECK(probes[0].fired);
	CHECK(!probes[1].fired);
	CHECK(probes[2].fired);
	gp_loop_fini(&loop);
}

static struct gp_source pair[2];
static int n_dispatched;

static void on_event(struct gp_source *source, uint32_t events)
{
	n_dispatched++;
	gp_loop_remove(&loop, &pair[source == &pair[0]]);
	loop.stop = true;
}

static void test_source_when_removed_in_the_turn_of_its_event_then_not_dispatched(void)
{
	struct gp_err err;

	open_loop();
	for (size_t i = 0; i < 2; i++) {
		pair[i].fd = eventfd(1, EFD_CLOEXEC);
		pair[i].dispatch = on_event;
		CHECK_EQ(gp_loop_add(&loop, &pair[i], EPOLLIN, &err), 0);
	}
	run();
	CHECK_EQ(n_dispatched, 1);
	close(pair[0].fd);
	close(pair[1].fd);
	gp_loop_fini(&loop);
}

int main(void)
{
	test_timers_when_armed_moved_and_disarmed_then_the_rest_fires_in_order();
	test_timer_when_its_callback_changes_others_then_they_follow();
	test_source_when_removed_in_the_turn_of_its_event_then_not_dispatched();
	return 0;
}
