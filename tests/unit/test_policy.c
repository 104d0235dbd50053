/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/view.h"
#include "tests/unit/check.h"

#define GIB (1ull << 30)

static struct gp_policy_job running(uint64_t id, int32_t priority, uint64_t bytes)
{
	return (struct gp_policy_job){
		.id = id, .priority = priority, .running = true, .device_bytes = bytes
	};
}

static struct gp_policy_job waiting(uint64_t id, int32_t priority, uint64_t bytes, uint64_t since)
{
	return (struct gp_policy_job){ .id = id,
				       .priority = priority,
				       .waiting = true,
				       .need_bytes = bytes,
				       .since_ns = since };
}

static struct gp_policy_plan decide(const struct gp_policy_job *jobs, size_t n, uint64_t free_bytes)
{
	struct gp_policy_view view = {
		.total_bytes = 100 * GIB, .free_bytes = free_bytes, .jobs = jobs, .n_jobs = n
	};
	static struct gp_policy_plan plan;
	struct gp_err err;

	gp_policy_priority(&view, &plan);
	CHECK_EQ(gp_policy_check(&view, &plan, &err), 0);
	return plan;
}

static void test_plan_when_it_fits_then_no_victims(void)
{
	const struct gp_policy_job jobs[] = { running(1, 0, 10 * GIB), waiting(2, 5, 4 * GIB, 1) };
	struct gp_policy_plan plan = decide(jobs, 2, 4 * GIB);

	CHECK_EQ(plan.next, 2);
	CHECK_EQ(plan.n_victims, 0);
}

static void test_plan_when_short_then_lowest_priority_yields(void)
{
	const struct gp_policy_job jobs[] = { running(1, 3, 10 * GIB), running(2, 1, 10 * GIB),
					      waiting(3, 5, 8 * GIB, 1) };
	struct gp_policy_plan plan = decide(jobs, 3, 0);

	CHECK_EQ(plan.next, 3);
	CHECK_EQ(plan.n_victims, 1);
	CHECK_EQ(plan.victims[0], 2);
}

static void test_plan_when_equal_priority_then_nobody_yields(void)
{
	const struct gp_policy_job jobs[] = { running(1, 5, 10 * GIB), waiting(2, 5, 8 * GIB, 1) };

	CHECK_EQ(decide(jobs, 2, 0).next, 0);
}

static void test_plan_when_first_cannot_fit_then_smaller_passes(void)
{
	const struct gp_policy_job jobs[] = { running(1, 9, 90 * GIB), waiting(2, 5, 50 * GIB, 1),
					      waiting(3, 0, 1 * GIB, 2) };

	CHECK_EQ(decide(jobs, 3, 2 * GIB).next, 3);
}

static void test_plan_when_a_later_victim_suffices_then_earlier_is_spared(void)
{
	const struct gp_policy_job jobs[] = { running(1, 0, 1 * GIB), running(2, 1, 20 * GIB),
					      waiting(3, 5, 20 * GIB, 1) };
	struct gp_policy_plan plan = decide(jobs, 3, 0);

	CHECK_EQ(plan.n_victims, 1);
	CHECK_EQ(plan.victims[0], 2);
}

static void test_plan_when_equal_then_first_come(void)
{
	const struct gp_policy_job jobs[] = { waiting(4, 0, GIB, 7), waiting(3, 0, GIB, 9) };

	CHECK_EQ(decide(jobs, 2, GIB).next, 4);
}

/* Whether @job may go next by the words of view.h alone. */
static bool can_fit(const struct gp_policy_job *jobs, size_t n, size_t job, uint64_t free_bytes)
{
	for (size_t i = 0; i < n; i++) {
		if (jobs[i].running && jobs[i].priority < jobs[job].priority)
			free_bytes += jobs[i].device_bytes;
	}
	return free_bytes >= jobs[job].need_bytes;
}

static void test_plan_when_any_view_then_nobody_who_could_go_is_passed_over(void)
{
	static struct gp_policy_job jobs[GP_POLICY_MAX_JOBS];

	srand(1);
	for (int round = 0; round < 2000; round++) {
		size_t n = (size_t)rand() % (round % 100 ? 12 : GP_POLICY_MAX_JOBS);
		uint64_t free_bytes = (uint64_t)(rand() % 8) * GIB;
		struct gp_policy_plan plan;

		for (size_t i = 0; i < n; i++) {
			uint64_t bytes = (uint64_t)(rand() % 16) * GIB;

			jobs[i] = rand() % 3 ? waiting(i + 1, rand() % 5, bytes, i)
					     : running(i + 1, rand() % 5, bytes);
		}
		plan = decide(jobs, n, free_bytes);
		for (size_t i = 0; i < n; i++) {
			const struct gp_policy_job *next = &jobs[plan.next ? plan.next - 1 : 0];

			if (jobs[i].waiting && can_fit(jobs, n, i, free_bytes))
				CHECK(plan.next && (next->priority > jobs[i].priority ||
						    (next->priority == jobs[i].priority &&
						     next->since_ns <= jobs[i].since_ns)));
		}
	}
}

static void test_check_when_plan_is_wrong_then_refused(void)
{
	const struct gp_policy_job jobs[] = { running(1, 0, GIB), waiting(2, 5, 4 * GIB, 1) };
	const struct gp_policy_view view = { .jobs = jobs, .n_jobs = 2 };
	static const struct gp_policy_plan bad[] = {
		{ .next = 9 },
		{ .next = 1 },
		{ .next = 2 },
		{ .next = 2, .victims = { 1 }, .n_victims = 1 },
		{ .next = 2, .victims = { 1, 1, 1, 1 }, .n_victims = 4 },
		{ .next = 2, .victims = { 2 }, .n_victims = 1 },
		{ .next = 0, .victims = { 1 }, .n_victims = 1 },
		{ .next = 2, .n_victims = GP_POLICY_MAX_JOBS + 1 },
	};
	struct gp_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(gp_policy_check(&view, &bad[i], &err) < 0);
}

int main(void)
{
	test_plan_when_it_fits_then_no_victims();
	test_plan_when_short_then_lowest_priority_yields();
	test_plan_when_equal_priority_then_nobody_yields();
	test_plan_when_first_cannot_fit_then_smaller_passes();
	test_plan_when_a_later_victim_suffices_then_earlier_is_spared();
	test_plan_when_equal_then_first_come();
	test_plan_when_any_view_then_nobody_who_could_go_is_passed_over();
	test_check_when_plan_is_wrong_then_refused();
	return 0;
}
