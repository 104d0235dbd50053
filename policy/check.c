/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/view.h"

#include <errno.h>
#include <inttypes.h>

static const struct gp_policy_job *check_find(const struct gp_policy_view *v, uint64_t id)
{
	for (size_t i = 0; i < v->n_jobs; i++) {
		if (v->jobs[i].id == id)
			return &v->jobs[i];
	}
	return NULL;
}

int gp_policy_check(const struct gp_policy_view *view, const struct gp_policy_plan *plan,
		    struct gp_err *err)
{
	const struct gp_policy_job *next;
	uint64_t free_bytes = view->free_bytes;

	if (plan->n_victims > GP_POLICY_MAX_JOBS)
		return gp_err_set(err, -EINVAL, "plan with %zu victims", plan->n_victims);
	if (!plan->next)
		return plan->n_victims ? gp_err_set(err, -EINVAL, "victims for nobody") : 0;
	next = check_find(view, plan->next);
	if (!next || !next->waiting)
		return gp_err_set(err, -EINVAL, "job %" PRIu64 " does not wait for memory",
				  plan->next);
	for (size_t i = 0; i < plan->n_victims; i++) {
		const struct gp_policy_job *victim = check_find(view, plan->victims[i]);

		if (!victim || !victim->running || victim == next)
			return gp_err_set(err, -EINVAL, "job %" PRIu64 " cannot be a victim",
					  plan->victims[i]);
		for (size_t k = 0; k < i; k++) {
			if (plan->victims[k] == plan->victims[i])
				return gp_err_set(err, -EINVAL, "job %" PRIu64 " is a victim twice",
						  plan->victims[i]);
		}
		free_bytes += victim->device_bytes;
	}
	if (free_bytes < next->need_bytes)
		return gp_err_set(err, -EINVAL,
				  "job %" PRIu64 " would still lack %" PRIu64 " bytes", next->id,
				  next->need_bytes - free_bytes);
	return 0;
}
