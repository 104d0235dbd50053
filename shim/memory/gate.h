/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_MEMORY_GATE_H
#define GP_SHIM_MEMORY_GATE_H
/*
 * The memory lock. Application threads pass through it for every call that changes what exists
 * (memory, contexts, streams); closing it makes newcomers wait and waits for those inside. What is
 * done inside must be short and must not wait for the GPU: with the channels off it would not end.
 */
#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define GP_GATE_NAMED 32 /* callers inside whose names are kept; more are only counted */

struct gp_gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed;
	unsigned int inside;
	const char *names[GP_GATE_NAMED];
};

/* Open, for a gate that must work before any code has run. */
#define GP_GATE_INIT { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

void gp_gate_init(struct gp_gate *gate);

/*
 * Blocks while closed; neither signals nor pthread_cancel end the wait. @name must be a literal.
 * The result is for gp_gate_leave.
 */
int gp_gate_enter(struct gp_gate *gate, const char *name);
void gp_gate_leave(struct gp_gate *gate, int place);

/* Blocks while closed, then goes on without being counted: for calls that may wait for the GPU. */
void gp_gate_pass(struct gp_gate *gate);

/*
 * Closes and waits at most @timeout_ms for the callers inside. -EBUSY names one that did not leave;
 * the gate is then open. 0 if it was closed already.
 */
gp_must_check int gp_gate_close(struct gp_gate *gate, unsigned int timeout_ms, struct gp_err *err);
void gp_gate_open(struct gp_gate *gate);

#endif
