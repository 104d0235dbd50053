/* SPDX-License-Identifier: Apache-2.0 */
/* The memory lock. Order between threads is made by the gate itself and by semaphores. */
#include "shim/memory/gate.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

struct visitor {
	struct gp_gate *gate;
	sem_t inside, go_on;
	atomic_int done;
};

static void *visit(void *arg)
{
	struct visitor *v = arg;
	int place = gp_gate_enter(v->gate, "visit");

	sem_post(&v->inside);
	sem_wait(&v->go_on);
	atomic_store(&v->done, 1);
	gp_gate_leave(v->gate, place);
	return NULL;
}

static void visitor_start(struct visitor *v, struct gp_gate *gate, pthread_t *thread)
{
	v->gate = gate;
	atomic_store(&v->done, 0);
	sem_init(&v->inside, 0, 0);
	sem_init(&v->go_on, 0, 0);
	CHECK_EQ(pthread_create(thread, NULL, visit, v), 0);
}

static void test_gate_close_when_empty_then_newcomers_wait(void)
{
	struct gp_gate gate;
	struct visitor v;
	struct gp_err err;
	pthread_t thread;

	gp_gate_init(&gate);
	CHECK_EQ(gp_gate_close(&gate, 0, &err), 0);
	CHECK_EQ(gp_gate_close(&gate, 0, &err), 0);
	visitor_start(&v, &gate, &thread);
	sem_post(&v.go_on);
	/* It cannot be inside: the next line would see it as somebody who did not leave. */
	CHECK_EQ(gp_gate_close(&gate, 20, &err), 0);
	CHECK_EQ(atomic_load(&v.done), 0);
	gp_gate_open(&gate);
	pthread_join(thread, NULL);
	CHECK_EQ(atomic_load(&v.done), 1);
}

static void test_gate_close_when_caller_stays_then_names_it_and_opens(void)
{
	struct gp_gate gate;
	struct visitor v;
	struct gp_err err;
	pthread_t thread;

	gp_gate_init(&gate);
	visitor_start(&v, &gate, &thread);
	sem_wait(&v.inside);
	CHECK_EQ(gp_gate_close(&gate, 10, &err), -EBUSY);
	CHECK_STR(err.msg, "visit did not end within 10 ms");
	gp_gate_pass(&gate);
	sem_post(&v.go_on);
	pthread_join(thread, NULL);
	CHECK_EQ(gp_gate_close(&gate, 10, &err), 0);
}

static void *close_slowly(void *arg)
{
	struct gp_err err;

	CHECK_EQ(gp_gate_close(arg, 30000, &err), 0);
	return NULL;
}

static void test_gate_close_when_caller_leaves_then_succeeds(void)
{
	struct gp_gate gate;
	struct visitor v;
	pthread_t visitor, closer;

	gp_gate_init(&gate);
	visitor_start(&v, &gate, &visitor);
	sem_wait(&v.inside);
	CHECK_EQ(pthread_create(&closer, NULL, close_slowly, &gate), 0);
	sem_post(&v.go_on);
	pthread_join(closer, NULL);
	CHECK_EQ(atomic_load(&v.done), 1);
	gp_gate_open(&gate);
	pthread_join(visitor, NULL);
}

static void test_gate_enter_when_more_than_named_then_all_counted(void)
{
	int places[GP_GATE_NAMED + 4];
	struct gp_gate gate;
	struct gp_err err;

	gp_gate_init(&gate);
	for (int i = 0; i < GP_GATE_NAMED + 4; i++)
		places[i] = gp_gate_enter(&gate, "many");
	CHECK_EQ(places[GP_GATE_NAMED], -1);
	for (int i = 0; i < GP_GATE_NAMED + 3; i++)
		gp_gate_leave(&gate, places[i]);
	CHECK_EQ(gp_gate_close(&gate, 1, &err), -EBUSY);
	gp_gate_leave(&gate, places[GP_GATE_NAMED + 3]);
	CHECK_EQ(gp_gate_close(&gate, 1, &err), 0);
}

static void *pass_cancelled(void *gate)
{
	pthread_cancel(pthread_self());
	gp_gate_pass(gate);
	return NULL;
}

static void test_gate_pass_when_thread_is_cancelled_then_gate_still_works(void)
{
	struct gp_gate gate;
	struct timespec until;
	struct gp_err err;
	pthread_t thread;

	gp_gate_init(&gate);
	CHECK_EQ(gp_gate_close(&gate, 0, &err), 0);
	CHECK_EQ(pthread_create(&thread, NULL, pass_cancelled, &gate), 0);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 50 * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	/* It must not end in there: it would take the lock along. */
	CHECK_EQ(pthread_timedjoin_np(thread, NULL, &until), ETIMEDOUT);
	gp_gate_open(&gate);
	pthread_join(thread, NULL);
	gp_gate_pass(&gate);
}

int main(void)
{
	test_gate_close_when_empty_then_newcomers_wait();
	test_gate_close_when_caller_stays_then_names_it_and_opens();
	test_gate_close_when_caller_leaves_then_succeeds();
	test_gate_enter_when_more_than_named_then_all_counted();
	test_gate_pass_when_thread_is_cancelled_then_gate_still_works();
	return 0;
}
