/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/shim.h"

#include "base/log.h"

#include <stdlib.h>

/* Functions that go through the gate may be the very first to be called: it is ready by itself. */
struct gp_shim gp_shim = { .bound = PTHREAD_ONCE_INIT,
			   .started = PTHREAD_ONCE_INIT,
			   .gate = GP_GATE_INIT };

__attribute__((visibility("default"))) const char gpupres_shim_version[] = GP_VERSION;

/* Fork: the child's copy of what these locks protect must be whole. */
static void shim_fork_prepare(void)
{
	gp_control_lock_all(&gp_shim.control);
	gp_extents_lock_all(&gp_shim.extents);
}

static void shim_fork_parent(void)
{
	gp_extents_unlock_all(&gp_shim.extents);
	gp_control_unlock_all(&gp_shim.control);
}

/*
 * The child inherits fds but owns neither channels nor memory. Its copies of the extents' fds
 * would keep memory alive that the parent has let go of.
 */
static void shim_fork_child(void)
{
	bool was_managed = gp_shim_managed();

	gp_extents_unlock_all(&gp_shim.extents);
	gp_control_unlock_all(&gp_shim.control);
	/* Other threads of the parent may have held the locks of these. */
	gp_gate_init(&gp_shim.gate);
	gp_captures_init(&gp_shim.captures);
	if (!was_managed)
		return;
	atomic_store(&gp_shim.managed, false);
	if (gp_shim.interpose.watch)
		gp_rm_watch_forget(gp_shim.interpose.watch);
	gp_control_forget(&gp_shim.control);
	gp_extents_forget(&gp_shim.extents);
	gp_interpose_hold(false);
}

/*
 * Runs before the driver's own teardown. A locked process waits here like in any other call that
 * changes what exists: taking down a context whose channels are off would stall the driver.
 */
static void shim_exit(void)
{
	if (gp_shim_managed())
		gp_control_stop(&gp_shim.control);
}

void gp_shim_init(void)
{
	const char *text = getenv("GPUPRES_LOG");
	enum gp_log_level level = GP_LOG_WARN;

	if (text && gp_log_level_parse(text, &level) < 0)
		level = GP_LOG_WARN;
	gp_log_init("gpupres-shim", level);
	gp_extents_init(&gp_shim.extents);
	gp_resident_init(&gp_shim.resident);
	gp_captures_init(&gp_shim.captures);
	gp_control_init(&gp_shim.control);
	pthread_atfork(shim_fork_prepare, shim_fork_parent, shim_fork_child);
}

static void shim_start_once(void)
{
	if (gp_control_start(&gp_shim.control) < 0)
		return;
	atomic_store(&gp_shim.managed, true);
	atexit(shim_exit);
}

void gp_shim_start(void)
{
	pthread_once(&gp_shim.started, shim_start_once);
}
