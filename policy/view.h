/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_POLICY_VIEW_H
#define GP_POLICY_VIEW_H
/*
 * What a policy sees and what it answers. Policies decide and touch nothing: they read a view that
 * the daemon made and fill a plan, which the daemon checks before it acts.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_POLICY_MAX_JOBS 1024

/* One job on the device, or one that wants to be there. */
struct gp_policy_job {
	uint64_t id;
	int32_t priority;      /* higher wins */
	bool running;	       /* can be a victim: on the device, not being moved */
	bool waiting;	       /* wants memory: queued, swapped, or an allocation waits */
	uint64_t need_bytes;   /* waiting: device memory it needs to go on */
	uint64_t device_bytes; /* running: memory that evicting it gives back */
	uint64_t since_ns;     /* when it began to wait, or to run */
};

struct gp_policy_view {
	uint64_t now_ns;
	uint64_t total_bytes;
	uint64_t free_bytes; /* less what is promised to jobs that are starting */
	const struct gp_policy_job *jobs;
	size_t n_jobs;
};

/* The answer to select_next and select_victims together. */
struct gp_policy_plan {
	uint64_t next; /* job to start, resume or grant; 0 = none */
	uint64_t victims[GP_POLICY_MAX_JOBS];
	size_t n_victims; /* to be evicted first, whole; 0 = fits */
};

/*
 * The built-in policy: strict priority, then first come. The waiting job of highest priority that
 * fits or can be made to fit goes next; victims are running jobs of lower priority,
 * lowest first, among equals the largest first, and as few as will do. A job that cannot be
 * made to fit lets smaller ones pass. Pure: no allocation, no failure.
 */
void gp_policy_priority(const struct gp_policy_view *view, struct gp_policy_plan *ret_plan);

/*
 * Checks a plan against its view: known jobs, next is waiting, victims run and are not next, none
 * twice, and the sum makes next fit. -EINVAL with the reason.
 */
gp_must_check int gp_policy_check(const struct gp_policy_view *view,
				  const struct gp_policy_plan *plan, struct gp_err *err);

#endif
