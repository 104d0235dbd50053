/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_REGISTRY_H
#define GP_DAEMON_REGISTRY_H
/*
 * The jobs that the daemon holds in memory, so that none has to be looked for among all: by id, and
 * each live one in the order in which the scheduler asks for it. All live jobs are here, and the
 * last GP_STORE_MAX_ENDED that ended; older ones are in the database only. daemon->jobs, the list
 * of all by id, is kept here too. A job is placed whenever its state changes.
 */
#include "base/list.h"

#include <stddef.h>
#include <stdint.h>

struct gp_daemon;
struct gp_job;

/* Ids are given one after the other, so that up to so many jobs in a row share no bucket. */
#define GP_REGISTRY_BUCKETS 16384
/* As struct gp_wire_submit: -1000 to 1000. */
#define GP_REGISTRY_MAX_PRIORITY 1000
#define GP_REGISTRY_PRIORITIES	 (2 * GP_REGISTRY_MAX_PRIORITY + 1)

struct gp_registry {
	struct gp_job *buckets[GP_REGISTRY_BUCKETS];
	struct gp_list active;			      /* started and not ended */
	struct gp_list queue[GP_REGISTRY_PRIORITIES]; /* highest first; each first come */
	struct gp_list ended;			      /* the longest ago first */
	size_t n_queued, n_ended;
	uint64_t cursor; /* the scheduler's: the queued job it looked at last, out of order */
};

void gp_registry_init(struct gp_registry *registry);
/* Adds a job that has its id, and no place yet. Its id is the largest. */
void gp_registry_add(struct gp_daemon *daemon, struct gp_job *job);
void gp_registry_remove(struct gp_job *job);
/* Moves the job where its state belongs. */
void gp_registry_place(struct gp_job *job);
struct gp_job *gp_registry_find(const struct gp_daemon *daemon, uint64_t id);
/* The queued job after @job in the order of priority, then of age; the first for NULL; or NULL. */
struct gp_job *gp_registry_next_queued(const struct gp_registry *registry,
				       const struct gp_job *job);
/* Frees ended jobs that are too many and that nobody holds. At the end of a turn only. */
void gp_registry_trim(struct gp_daemon *daemon);

#endif
