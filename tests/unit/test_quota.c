/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/quota.h"
#include "tests/unit/check.h"

#include <errno.h>

#define ALICE 1001
#define BOB   1002

static void test_charge_when_dropped_then_given_back(void)
{
	struct gp_quota_limits limits = { .counts[GP_QUOTA_JOBS] = 2 };
	struct gp_quota quota = { .limits = &limits };
	struct gp_charge a = { 0 }, b = { 0 }, c = { 0 };
	struct gp_err err;

	CHECK_EQ(gp_quota_charge(&quota, ALICE, GP_QUOTA_JOBS, 1, &a, &err), 0);
	CHECK_EQ(gp_quota_charge(&quota, ALICE, GP_QUOTA_JOBS, 1, &b, &err), 0);
	CHECK_EQ(gp_quota_charge(&quota, ALICE, GP_QUOTA_JOBS, 1, &c, &err), -EDQUOT);
	CHECK(!c.user);
	CHECK_STR(err.msg, "you have 2 jobs that have not ended, as many as a user may (max_jobs): "
			   "wait for some to end, or cancel some");
	CHECK_EQ(gp_quota_used(&quota, ALICE, GP_QUOTA_JOBS), 2);
	gp_charge_drop(&a);
	gp_charge_drop(&a);
	CHECK_EQ(gp_quota_used(&quota, ALICE, GP_QUOTA_JOBS), 1);
	CHECK_EQ(gp_quota_charge(&quota, ALICE, GP_QUOTA_JOBS, 1, &c, &err), 0);
	gp_charge_drop(&b);
	gp_charge_drop(&c);
	/* Nothing is kept of who has nothing. */
	for (size_t i = 0; i < GP_QUOTA_BUCKETS; i++)
		CHECK(!quota.users[i]);
}

static void test_limits_when_one_user_meets_them_then_others_do_not(void)
{
	/* The same bucket. */
	const uid_t users[] = { ALICE, ALICE + GP_QUOTA_BUCKETS, ALICE + 2 * GP_QUOTA_BUCKETS };
	struct gp_quota_limits limits = { .counts[GP_QUOTA_REQUESTS] = 1 };
	struct gp_quota quota = { .limits = &limits };
	struct gp_charge charges[3] = { 0 }, more = { 0 };
	struct gp_err err;

	for (int i = 0; i < 3; i++)
		CHECK_EQ(gp_quota_charge(&quota, users[i], GP_QUOTA_REQUESTS, 1, &charges[i], &err),
			 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gp_quota_charge(&quota, users[i], GP_QUOTA_REQUESTS, 1, &more, &err),
			 -EDQUOT);
	/* Kinds are counted each for itself. */
	CHECK_EQ(gp_quota_charge(&quota, ALICE, GP_QUOTA_FDS, 3, &more, &err), 0);
	gp_charge_drop(&charges[1]);
	CHECK_EQ(gp_quota_used(&quota, users[0], GP_QUOTA_REQUESTS), 1);
	CHECK_EQ(gp_quota_used(&quota, users[1], GP_QUOTA_REQUESTS), 0);
	CHECK_EQ(gp_quota_used(&quota, users[2], GP_QUOTA_REQUESTS), 1);
	gp_charge_drop(&charges[0]);
	gp_charge_drop(&charges[2]);
	gp_charge_drop(&more);
}

static void test_sizes_when_charged_then_up_to_the_limit_and_without_overflow(void)
{
	struct gp_quota_limits limits = { .sizes[GP_QUOTA_COMMAND_BYTES] = 1 << 20 };
	struct gp_quota quota = { .limits = &limits };
	struct gp_charge a = { 0 }, b = { 0 };
	struct gp_err err;

	CHECK_EQ(gp_quota_charge(&quota, BOB, GP_QUOTA_COMMAND_BYTES, 1 << 20, &a, &err), 0);
	CHECK_EQ(gp_quota_charge(&quota, BOB, GP_QUOTA_COMMAND_BYTES, UINT64_MAX, &b, &err),
		 -EDQUOT);
	CHECK_EQ(gp_quota_charge(&quota, BOB, GP_QUOTA_COMMAND_BYTES, 1, &b, &err), -EDQUOT);
	CHECK(strstr(err.msg, "1 MiB of arguments"));
	/* Lowered below what is used: what is there stays. */
	limits.sizes[GP_QUOTA_COMMAND_BYTES] = 10;
	CHECK_EQ(gp_quota_charge(&quota, BOB, GP_QUOTA_COMMAND_BYTES, 1, &b, &err), -EDQUOT);
	gp_charge_drop(&a);
	CHECK_EQ(gp_quota_charge(&quota, BOB, GP_QUOTA_COMMAND_BYTES, 10, &b, &err), 0);
	gp_charge_drop(&b);
}

static void test_charge_when_moved_then_dropped_once(void)
{
	struct gp_quota quota = { 0 };
	struct gp_charge from = { 0 }, to = { 0 };
	struct gp_err err;

	CHECK_EQ(gp_quota_charge(&quota, ALICE, GP_QUOTA_ADOPTED, 1, &from, &err), 0);
	gp_charge_move(&to, &from);
	gp_charge_drop(&from);
	CHECK_EQ(gp_quota_used(&quota, ALICE, GP_QUOTA_ADOPTED), 1);
	gp_charge_drop(&to);
	CHECK_EQ(gp_quota_used(&quota, ALICE, GP_QUOTA_ADOPTED), 0);
}

int main(void)
{
	test_charge_when_dropped_then_given_back();
	test_limits_when_one_user_meets_them_then_others_do_not();
	test_sizes_when_charged_then_up_to_the_limit_and_without_overflow();
	test_charge_when_moved_then_dropped_once();
	return 0;
}
