/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/job.h"
#include "daemon/registry.h"
#include "daemon/store.h"
#include "tests/unit/check.h"

#define N_JOBS 5000

static struct gp_daemon d;

static struct gp_job *add(uint64_t id, int32_t priority, enum gp_job_state state)
{
	struct gp_job *job = calloc(1, sizeof(*job));

	CHECK(job);
	job->daemon = &d;
	job->id = id;
	job->priority = priority;
	job->state = state;
	job->supervisor_pidfd = -1;
	gp_list_init(&job->procs);
	gp_list_init(&job->requests);
	gp_list_init(&job->lost);
	gp_registry_add(&d, job);
	gp_registry_place(job);
	return job;
}

static void begin(void)
{
	gp_list_init(&d.jobs);
	gp_registry_init(&d.registry);
}

static void end(void)
{
	gp_list_for_each(job, &d.jobs, struct gp_job, node) {
		gp_job_free(job);
	}
	CHECK(gp_list_empty(&d.registry.active) && gp_list_empty(&d.registry.ended));
	CHECK(!gp_registry_next_queued(&d.registry, NULL));
	CHECK_EQ(d.registry.n_queued + d.registry.n_ended, 0);
}

static void test_find_when_buckets_are_shared_then_by_id(void)
{
	begin();
	for (uint64_t i = 1; i <= 3; i++)
		add(i * GP_REGISTRY_BUCKETS + 7, 0, GP_JOB_QUEUED);
	for (uint64_t i = 1; i <= 3; i++)
		CHECK_EQ(gp_registry_find(&d, i * GP_REGISTRY_BUCKETS + 7)->id,
			 i * GP_REGISTRY_BUCKETS + 7);
	gp_job_free(gp_registry_find(&d, 2 * GP_REGISTRY_BUCKETS + 7));
	CHECK(!gp_registry_find(&d, 2 * GP_REGISTRY_BUCKETS + 7));
	CHECK(!gp_registry_find(&d, 7));
	CHECK(gp_registry_find(&d, GP_REGISTRY_BUCKETS + 7));
	CHECK(gp_registry_find(&d, 3 * GP_REGISTRY_BUCKETS + 7));
	end();
}

static void test_queue_when_walked_then_by_priority_and_age(void)
{
	static const int32_t priorities[] = { 0, 5, -1000, 5, 1000, 0, INT32_MIN, INT32_MAX };
	static const uint64_t order[] = { 5, 8, 2, 4, 1, 6, 3, 7 };
	struct gp_job *job = NULL;

	begin();
	for (size_t i = 0; i < GP_ARRAY_SIZE(priorities); i++)
		add(i + 1, priorities[i], GP_JOB_QUEUED);
	CHECK_EQ(d.registry.n_queued, GP_ARRAY_SIZE(order));
	for (size_t i = 0; i < GP_ARRAY_SIZE(order); i++) {
		job = gp_registry_next_queued(&d.registry, job);
		CHECK(job);
		CHECK_EQ(job->id, order[i]);
	}
	CHECK(!gp_registry_next_queued(&d.registry, job));
	end();
}

static void test_place_when_state_changes_then_moved(void)
{
	struct gp_job *job;

	begin();
	job = add(1, 0, GP_JOB_QUEUED);
	job->state = GP_JOB_STARTING;
	gp_registry_place(job);
	CHECK_EQ(d.registry.n_queued, 0);
	CHECK(!gp_list_empty(&d.registry.active));
	job->state = GP_JOB_DONE;
	gp_registry_place(job);
	CHECK(gp_list_empty(&d.registry.active));
	CHECK_EQ(d.registry.n_ended, 1);
	end();
}

static void test_trim_when_many_ended_then_oldest_go_unless_held(void)
{
	struct gp_proc *proc = calloc(1, 4096);
	struct gp_list *node = (struct gp_list *)(void *)proc;
	struct gp_job *held;

	begin();
	CHECK(proc);
	held = add(1, 0, GP_JOB_DONE);
	gp_list_init(node);
	gp_list_add_tail(&held->procs, node); /* as if one of its processes still talked to us */
	for (uint64_t i = 2; i <= N_JOBS; i++)
		add(i, 0, i % 2 ? GP_JOB_DONE : GP_JOB_RUNNING);
	gp_registry_trim(&d);
	CHECK_EQ(d.registry.n_ended, GP_STORE_MAX_ENDED);
	CHECK(gp_registry_find(&d, 1));
	CHECK(!gp_registry_find(&d, 3));
	CHECK(gp_registry_find(&d, 4));
	CHECK(gp_registry_find(&d, N_JOBS - 1));
	gp_list_del(node);
	free(proc);
	end();
}

int main(void)
{
	test_find_when_buckets_are_shared_then_by_id();
	test_queue_when_walked_then_by_priority_and_age();
	test_place_when_state_changes_then_moved();
	test_trim_when_many_ended_then_oldest_go_unless_held();
	return 0;
}
