/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/registry.h"

#include "daemon/job.h"
#include "daemon/store.h"

void gp_registry_init(struct gp_registry *registry)
{
	*registry = (struct gp_registry){ 0 };
	gp_list_init(&registry->active);
	gp_list_init(&registry->ended);
	for (size_t i = 0; i < GP_REGISTRY_PRIORITIES; i++)
		gp_list_init(&registry->queue[i]);
}

static struct gp_job **registry_bucket(struct gp_registry *registry, uint64_t id)
{
	return &registry->buckets[id % GP_REGISTRY_BUCKETS];
}

void gp_registry_add(struct gp_daemon *daemon, struct gp_job *job)
{
	struct gp_job **bucket = registry_bucket(&daemon->registry, job->id);

	job->same_bucket = *bucket;
	*bucket = job;
	gp_list_init(&job->place);
	gp_list_init(&job->node);
	gp_list_add_tail(&daemon->jobs, &job->node);
}

static void registry_unplace(struct gp_registry *registry, struct gp_job *job)
{
	if (gp_list_empty(&job->place))
		return;
	registry->n_queued -= job->placed == GP_PLACE_QUEUE;
	registry->n_ended -= job->placed == GP_PLACE_ENDED;
	gp_list_del(&job->place);
}

void gp_registry_remove(struct gp_job *job)
{
	struct gp_registry *registry = &job->daemon->registry;
	struct gp_job **at = registry_bucket(registry, job->id);

	while (*at && *at != job)
		at = &(*at)->same_bucket;
	if (*at)
		*at = job->same_bucket;
	registry_unplace(registry, job);
	gp_list_del(&job->node);
}

/* Rows of the database may hold any number. */
static size_t registry_rank(const struct gp_job *job)
{
	if (job->priority >= GP_REGISTRY_MAX_PRIORITY)
		return 0;
	if (job->priority <= -GP_REGISTRY_MAX_PRIORITY)
		return GP_REGISTRY_PRIORITIES - 1;
	return (size_t)(GP_REGISTRY_MAX_PRIORITY - job->priority);
}

void gp_registry_place(struct gp_job *job)
{
	struct gp_registry *registry = &job->daemon->registry;
	enum gp_place place = gp_job_state_is_final(job->state) ? GP_PLACE_ENDED
			      : job->state == GP_JOB_QUEUED	? GP_PLACE_QUEUE
								: GP_PLACE_ACTIVE;

	if (!gp_list_empty(&job->place) && job->placed == place)
		return;
	registry_unplace(registry, job);
	job->placed = place;
	switch (place) {
	case GP_PLACE_QUEUE:
		gp_list_add_tail(&registry->queue[registry_rank(job)], &job->place);
		registry->n_queued++;
		break;
	case GP_PLACE_ACTIVE:
		gp_list_add_tail(&registry->active, &job->place);
		break;
	case GP_PLACE_ENDED:
		gp_list_add_tail(&registry->ended, &job->place);
		registry->n_ended++;
		break;
	}
}

struct gp_job *gp_registry_find(const struct gp_daemon *daemon, uint64_t id)
{
	struct gp_job *job = daemon->registry.buckets[id % GP_REGISTRY_BUCKETS];

	while (job && job->id != id)
		job = job->same_bucket;
	return job;
}

struct gp_job *gp_registry_next_queued(const struct gp_registry *registry, const struct gp_job *job)
{
	size_t rank = job ? registry_rank(job) : 0;
	const struct gp_list *head = &registry->queue[rank];
	const struct gp_list *next = job ? job->place.next : head->next;

	while (next == head) {
		if (++rank == GP_REGISTRY_PRIORITIES)
			return NULL;
		head = &registry->queue[rank];
		next = head->next;
	}
	return gp_container_of(next, struct gp_job, place);
}

static bool registry_is_held(const struct gp_job *job)
{
	return !gp_list_empty(&job->procs) || !gp_list_empty(&job->requests) || job->supervisor ||
	       job->supervisor_pidfd >= 0;
}

void gp_registry_trim(struct gp_daemon *daemon)
{
	struct gp_registry *registry = &daemon->registry;

	if (registry->n_ended <= GP_STORE_MAX_ENDED)
		return;
	gp_list_for_each(job, &registry->ended, struct gp_job, place) {
		if (registry->n_ended <= GP_STORE_MAX_ENDED)
			return;
		if (!registry_is_held(job))
			gp_job_free(job);
	}
}
