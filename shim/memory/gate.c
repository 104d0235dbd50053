/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/memory/gate.h"

#include "base/time.h"

#include <errno.h>

void gp_gate_init(struct gp_gate *g)
{
	*g = (struct gp_gate)GP_GATE_INIT;
}

/* A thread that is cancelled in here would keep the lock. */
static void gate_wait(struct gp_gate *g)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_cond_wait(&g->changed, &g->lock);
	pthread_setcancelstate(state, NULL);
}

static void gate_wait_open(struct gp_gate *g)
{
	while (g->closed)
		gate_wait(g);
}

int gp_gate_enter(struct gp_gate *g, const char *name)
{
	int place = -1;

	pthread_mutex_lock(&g->lock);
	gate_wait_open(g);
	g->inside++;
	for (int i = 0; i < GP_GATE_NAMED; i++) {
		if (!g->names[i]) {
			g->names[i] = name;
			place = i;
			break;
		}
	}
	pthread_mutex_unlock(&g->lock);
	return place;
}

void gp_gate_leave(struct gp_gate *g, int place)
{
	pthread_mutex_lock(&g->lock);
	if (place >= 0)
		g->names[place] = NULL;
	if (--g->inside == 0 && g->closed)
		pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

void gp_gate_pass(struct gp_gate *g)
{
	pthread_mutex_lock(&g->lock);
	gate_wait_open(g);
	pthread_mutex_unlock(&g->lock);
}

static const char *gate_some_name(const struct gp_gate *g)
{
	for (int i = 0; i < GP_GATE_NAMED; i++) {
		if (g->names[i])
			return g->names[i];
	}
	return "a call";
}

int gp_gate_close(struct gp_gate *g, unsigned int timeout_ms, struct gp_err *err)
{
	uint64_t deadline = gp_now_ns() + timeout_ms * GP_NS_PER_MS;
	struct timespec ts = { (time_t)(deadline / GP_NS_PER_SEC),
			       (long)(deadline % GP_NS_PER_SEC) };
	int r = 0;

	pthread_mutex_lock(&g->lock);
	g->closed = true;
	while (g->inside && r != ETIMEDOUT)
		r = pthread_cond_clockwait(&g->changed, &g->lock, CLOCK_MONOTONIC, &ts);
	r = 0;
	if (g->inside) {
		r = gp_err_set(err, -EBUSY, "%s did not end within %u ms", gate_some_name(g),
			       timeout_ms);
		g->closed = false;
		pthread_cond_broadcast(&g->changed);
	}
	pthread_mutex_unlock(&g->lock);
	return r;
}

void gp_gate_open(struct gp_gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->closed = false;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}
