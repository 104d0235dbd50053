/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/view.h"

static bool priority_before(const struct gp_policy_job *a, const struct gp_policy_job *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	if (a->since_ns != b->since_ns)
		return a->since_ns < b->since_ns;
	return a->id < b->id;
}

/* The running jobs by themselves: few, where those that wait may be very many. */
static size_t priority_running(const struct gp_policy_view *v, const struct gp_policy_job **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < v->n_jobs && n < GP_POLICY_MAX_JOBS; i++) {
		if (v->jobs[i].running)
			ret[n++] = &v->jobs[i];
	}
	return n;
}

/* Whether @next fits, or would if everything yielded that may. */
static bool priority_can_fit(const struct gp_policy_view *v, const struct gp_policy_job *next,
			     const struct gp_policy_job *const *running, size_t n_running)
{
	uint64_t free_bytes = v->free_bytes;

	for (size_t i = 0; i < n_running && free_bytes < next->need_bytes; i++) {
		if (running[i]->id != next->id && running[i]->priority < next->priority)
			free_bytes += running[i]->device_bytes;
	}
	return free_bytes >= next->need_bytes;
}

/* The first of those that wait, in their order, which can be made to fit; NULL: none. */
static const struct gp_policy_job *priority_next(const struct gp_policy_view *v)
{
	const struct gp_policy_job *running[GP_POLICY_MAX_JOBS], *best = NULL;
	size_t n_running = priority_running(v, running);

	for (size_t i = 0; i < v->n_jobs; i++) {
		const struct gp_policy_job *j = &v->jobs[i];

		if (j->waiting && (!best || priority_before(j, best)) &&
		    priority_can_fit(v, j, running, n_running))
			best = j;
	}
	return best;
}

static bool priority_chosen(const struct gp_policy_plan *plan, uint64_t id)
{
	for (size_t i = 0; i < plan->n_victims; i++) {
		if (plan->victims[i] == id)
			return true;
	}
	return false;
}

static const struct gp_policy_job *priority_victim(const struct gp_policy_view *v,
						   const struct gp_policy_job *next,
						   const struct gp_policy_plan *plan)
{
	const struct gp_policy_job *best = NULL;

	for (size_t i = 0; i < v->n_jobs; i++) {
		const struct gp_policy_job *j = &v->jobs[i];

		if (!j->running || j->id == next->id || j->priority >= next->priority ||
		    !j->device_bytes || priority_chosen(plan, j->id))
			continue;
		if (!best || j->priority < best->priority ||
		    (j->priority == best->priority && j->device_bytes > best->device_bytes))
			best = j;
	}
	return best;
}

/* Collects victims for @next, which can be made to fit. */
static void priority_make_room(const struct gp_policy_view *v, const struct gp_policy_job *next,
			       struct gp_policy_plan *plan)
{
	uint64_t free_bytes = v->free_bytes;

	plan->n_victims = 0;
	while (free_bytes < next->need_bytes) {
		const struct gp_policy_job *victim = priority_victim(v, next, plan);

		if (!victim || plan->n_victims == GP_POLICY_MAX_JOBS)
			return;
		plan->victims[plan->n_victims++] = victim->id;
		free_bytes += victim->device_bytes;
	}
}

/* Drops victims that the later, larger ones made superfluous. */
static void priority_spare(const struct gp_policy_view *v, const struct gp_policy_job *next,
			   struct gp_policy_plan *plan)
{
	uint64_t free_bytes = v->free_bytes;
	size_t kept = 0;

	for (size_t i = 0; i < plan->n_victims; i++) {
		for (size_t k = 0; k < v->n_jobs; k++) {
			if (v->jobs[k].id == plan->victims[i])
				free_bytes += v->jobs[k].device_bytes;
		}
	}
	for (size_t i = 0; i < plan->n_victims; i++) {
		uint64_t bytes = 0;

		for (size_t k = 0; k < v->n_jobs; k++) {
			if (v->jobs[k].id == plan->victims[i])
				bytes = v->jobs[k].device_bytes;
		}
		if (free_bytes - bytes >= next->need_bytes)
			free_bytes -= bytes;
		else
			plan->victims[kept++] = plan->victims[i];
	}
	plan->n_victims = kept;
}

void gp_policy_priority(const struct gp_policy_view *view, struct gp_policy_plan *ret_plan)
{
	const struct gp_policy_job *next = priority_next(view);

	ret_plan->next = next ? next->id : 0;
	ret_plan->n_victims = 0;
	if (!next)
		return;
	priority_make_room(view, next, ret_plan);
	priority_spare(view, next, ret_plan);
}
