/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing and thawing against a stand-in for the driver that knows which channels are off. */
#include "snapshot/channels.h"
#include "tests/unit/check.h"

#include <errno.h>

#define MAX_CHANNEL 1000

static struct {
	bool known[MAX_CHANNEL], off[MAX_CHANNEL];
	int fail_disables; /* so many DISABLE calls fail, half of their channels off */
	uint32_t fail_status;
	bool refuse_all;
	unsigned n_calls;
	uint32_t last_order[64];
} card;

static int card_ioctl(int fd, unsigned long request, void *arg)
{
	struct gp_rm_control *c = arg;
	const struct gp_rm_disable_channels *d = (const void *)(uintptr_t)c->params;

	card.n_calls++;
	c->status = 0;
	if (card.refuse_all) {
		errno = EPERM;
		return -1;
	}
	for (uint32_t i = 0; i < d->n_channels; i++) {
		card.last_order[i] = d->channels[i];
		if (!card.known[d->channels[i]]) {
			c->status = GP_RM_STATUS_INVALID_CHANNEL;
			return 0;
		}
	}
	if (d->disable && card.fail_disables) {
		card.fail_disables--;
		for (uint32_t i = 0; i < d->n_channels / 2; i++)
			card.off[d->channels[i]] = true;
		c->status = card.fail_status;
		return 0;
	}
	for (uint32_t i = 0; i < d->n_channels; i++)
		card.off[d->channels[i]] = d->disable;
	return 0;
}

static const struct gp_rm_subdevice sub = { .ioctl = card_ioctl };
static struct gp_channel_switch sw;

static unsigned n_off(void)
{
	unsigned n = 0;

	for (int i = 0; i < MAX_CHANNEL; i++)
		n += card.off[i];
	return n;
}

static void card_reset(void)
{
	memset(&card, 0, sizeof(card));
	memset(card.known, 1, sizeof(card.known));
	card.fail_status = GP_RM_STATUS_INVALID_CHANNEL;
}

/* Part [@first, @first + @n) of a table of @total channels numbered from @base, groups of 4. */
static void update(struct gp_channel_table *t, uint64_t generation, uint32_t base, uint32_t total,
		   uint32_t first, uint32_t n)
{
	struct gp_wire_channels part = {
		.generation = generation, .total = total, .first = first, .n = n, .complete = 1
	};

	for (uint32_t i = 0; i < n; i++)
		part.entries[i] = (struct gp_wire_channel){ .client = 1 + base / 100,
							    .channel = base + first + i,
							    .group = (first + i) / 4 };
	CHECK_EQ(gp_channel_table_update(t, &part, NULL), 0);
}

static void test_update_when_parts_are_of_two_generations_then_not_frozen(void)
{
	struct gp_channel_table t = { 0 }, *tables[] = { &t };

	card_reset();
	update(&t, 1, 0, 80, 0, 64);
	CHECK_EQ(gp_channel_switch_freeze(&sw, &sub, tables, 1, NULL), -ENOTSUP);
	update(&t, 1, 0, 80, 64, 16);
	CHECK_EQ(gp_channel_switch_freeze(&sw, &sub, tables, 1, NULL), 0);
	CHECK_EQ(n_off(), 80);
	CHECK_EQ(gp_channel_switch_thaw(&sw, &sub, tables, 1, NULL), 0);
	update(&t, 2, 0, 80, 0, 64);
	update(&t, 3, 0, 80, 64, 16); /* generation 2 never became whole */
	CHECK_EQ(gp_channel_switch_freeze(&sw, &sub, tables, 1, NULL), -ENOTSUP);
	CHECK_EQ(n_off(), 0);
	update(&t, 3, 0, 8, 0, 8);
	CHECK_EQ(gp_channel_switch_freeze(&sw, &sub, tables, 1, NULL), 0);
	CHECK_EQ(n_off(), 8);
	gp_channel_table_fini(&t);
}

static void test_freeze_when_processes_share_a_job_then_all_in_one_sorted_call(void)
{
	struct gp_channel_table a = { 0 }, b = { 0 }, *tables[] = { &b, &a };

	card_reset();
	update(&a, 1, 0, 20, 0, 20);
	update(&b, 1, 200, 20, 0, 20);
	CHECK_EQ(gp_channel_switch_freeze(&sw, &sub, tables, 2, NULL), 0);
	CHECK_EQ(card.n_calls, 1);
	CHECK_EQ(sw.all.n, 40);
	for (uint32_t i = 0; i < 40; i++)
		CHECK_EQ(card.last_order[i], i < 20 ? i : 180 + i);
	CHECK_EQ(n_off(), 40);
	CHECK_EQ(gp_channel_switch_thaw(&sw, &sub, tables, 2, NULL), 0);
	CHECK_EQ(n_off(), 0);
	gp_channel_table_fini(&a);
	gp_channel_table_fini(&b);
}

static void test_freeze_when_one_call_fails_then_retried_and_all_off(void)
{
	struct gp_channel_table t = { 0 }, *tables[] = { &t };

	card_reset();
	update(&t, 1, 0, 20, 0, 20);
	card.fail_disables = 1;
	CHECK_EQ(gp_channel_switch_freeze(&sw, &sub, tables, 1, NULL), 0);
	CHECK_EQ(n_off(), 20);
	CHECK_EQ(gp_channel_switch_thaw(&sw, &sub, tables, 1, NULL), 0);
	gp_channel_table_fini(&t);
}

static void test_freeze_when_it_keeps_failing_then_error_and_all_on(void)
{
	struct gp_channel_table t = { 0 }, *tables[] = { &t };
	struct gp_err err = { 0 };

	card_reset();
	update(&t, 1, 0, 20, 0, 20);
	card.fail_disables = 2;
	card.fail_status = 0x55;
	CHECK_EQ(gp_channel_switch_freeze(&sw, &sub, tables, 1, &err), -EIO);
	CHECK(strstr(err.msg, "0x55"));
	CHECK_EQ(n_off(), 0);
	gp_channel_table_fini(&t);
}

static void test_thaw_when_a_process_died_then_the_others_are_thawed(void)
{
	struct gp_channel_table a = { 0 }, b = { 0 }, *tables[] = { &a, &b };

	card_reset();
	update(&a, 1, 0, 20, 0, 20);
	update(&b, 1, 200, 20, 0, 20);
	CHECK_EQ(gp_channel_switch_freeze(&sw, &sub, tables, 2, NULL), 0);
	memset(card.known + 200, 0, 20);
	CHECK_EQ(gp_channel_switch_thaw(&sw, &sub, tables, 2, NULL), 0);
	for (int i = 0; i < 20; i++)
		CHECK(!card.off[i]);
	gp_channel_table_fini(&a);
	gp_channel_table_fini(&b);
}

static void test_thaw_when_refused_then_error_and_can_be_repeated(void)
{
	struct gp_channel_table t = { 0 }, *tables[] = { &t };
	struct gp_err err = { 0 };

	card_reset();
	update(&t, 1, 0, 20, 0, 20);
	CHECK_EQ(gp_channel_switch_freeze(&sw, &sub, tables, 1, NULL), 0);
	update(&t, 2, 0, 4, 0, 4); /* what was frozen is thawed, not what the table says now */
	card.refuse_all = true;
	CHECK_EQ(gp_channel_switch_thaw(&sw, &sub, tables, 1, &err), -EIO);
	CHECK(strstr(err.msg, "20 of 20"));
	card.refuse_all = false;
	CHECK_EQ(gp_channel_switch_thaw(&sw, &sub, tables, 1, NULL), 0);
	CHECK_EQ(n_off(), 0);
	gp_channel_table_fini(&t);
}

int main(void)
{
	test_update_when_parts_are_of_two_generations_then_not_frozen();
	test_freeze_when_processes_share_a_job_then_all_in_one_sorted_call();
	test_freeze_when_one_call_fails_then_retried_and_all_off();
	test_freeze_when_it_keeps_failing_then_error_and_all_on();
	test_thaw_when_a_process_died_then_the_others_are_thawed();
	test_thaw_when_refused_then_error_and_can_be_repeated();
	gp_channel_switch_fini(&sw);
	return 0;
}
