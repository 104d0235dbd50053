/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SHIM_H
#define GP_SHIM_SHIM_H
/*
 * The shim: a libcuda.so.1 in front of the real one. Everything it owns in a process is in one
 * object, gp_shim.
 *
 * Life of a process:
 *   new -> inert     cuInit found no daemon, or could not start the control thread
 *   new -> managed   cuInit found a daemon: device memory comes from extents, preemption works
 *   managed -> inert child of a fork: its CUDA is dead, what it calls goes to the driver as it is
 * Managed survives the loss of the daemon: existing extents go on working and new ones are made,
 * since nothing can be mixed up by that.
 *
 * Locks, outermost first: gate, control.lock, extents.lock, resident.lock. Nothing that waits for
 * the GPU is called with any of the last three held.
 */
#include "shim/control/control.h"
#include "shim/freeze/freeze.h"
#include "shim/interpose/driver.h"
#include "shim/memory/capture.h"
#include "shim/memory/extents.h"
#include "shim/memory/gate.h"
#include "shim/memory/resident.h"

#include <pthread.h>
#include <stdatomic.h>

struct gp_shim {
	pthread_once_t bound, started;
	atomic_bool managed;
	struct gp_interpose interpose;
	struct gp_gate gate;
	struct gp_extents extents;
	struct gp_resident resident;
	struct gp_captures captures;
	struct gp_freeze freeze;
	struct gp_control control;
};

extern struct gp_shim gp_shim;

/* Prepares locks and fork handlers; called once, while binding. */
void gp_shim_init(void);

/*
 * After a successful cuInit: looks for the daemon and starts the control thread, once per process.
 * Blocks for the daemon's answer, at most 5 s. Never fails: without a daemon the process is inert.
 */
void gp_shim_start(void);

static inline bool gp_shim_managed(void)
{
	return atomic_load_explicit(&gp_shim.managed, memory_order_acquire);
}

/* "GP_VERSION", for people who look at a process. */
extern const char gpupres_shim_version[];

#endif
