/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rm/channels.h"
#include "tests/unit/check.h"

#include <errno.h>

/* A stand-in for the driver: remembers what it was asked. */
static struct {
	uint32_t batches[16];
	size_t n_batches;
	uint32_t status; /* to answer with */
} driver;

static int driver_ioctl(int fd, unsigned long request, void *arg)
{
	if (request == GP_RM_IOC_CONTROL) {
		struct gp_rm_control *c = arg;

		if (c->cmd == GP_RM_CTRL_DISABLE_CHANNELS) {
			const struct gp_rm_disable_channels *d = (const void *)(uintptr_t)c->params;

			CHECK_EQ(c->params_bytes, 536);
			driver.batches[driver.n_batches++] = d->n_channels;
		}
		c->status = driver.status;
	}
	return 0;
}

static void alloc(struct gp_rm_watch *w, uint32_t client, uint32_t parent, uint32_t object,
		  uint32_t cls, uint32_t engine)
{
	uint32_t params[8] = { 0, 0, 0, engine };
	struct gp_rm_alloc a = { .root = client,
				 .parent = parent,
				 .object = object,
				 .cls = cls,
				 .params = (uintptr_t)params };

	CHECK_EQ(gp_rm_watch_ioctl(w, 3, GP_RM_IOC_ALLOC, &a), 0);
}

static void release(struct gp_rm_watch *w, uint32_t client, uint32_t object)
{
	struct gp_rm_free f = { .root = client, .object = object };

	CHECK_EQ(gp_rm_watch_ioctl(w, 3, GP_RM_IOC_FREE, &f), 0);
}

static size_t count(struct gp_rm_watch *w, bool *ret_complete)
{
	struct gp_rm_channel channels[256];
	uint64_t generation;
	bool complete;
	size_t n;

	gp_rm_watch_channels(w, channels, 256, &n, &generation, &complete);
	if (ret_complete)
		*ret_complete = complete;
	return n;
}

/* One client with a GR group of @n_gr channels and a copy group of 4. */
static struct gp_rm_watch *context(uint32_t client, uint32_t n_gr)
{
	struct gp_rm_watch *w = gp_rm_watch_new(driver_ioctl);

	CHECK(w);
	alloc(w, client, client, 0x80, GP_RM_CLASS_DEVICE, 0);
	alloc(w, client, 0x80, 0x2080, GP_RM_CLASS_SUBDEVICE, 0);
	alloc(w, client, 0x80, 0x100, GP_RM_CLASS_GROUP, GP_RM_ENGINE_GR);
	alloc(w, client, 0x80, 0x200, GP_RM_CLASS_GROUP, 0xb);
	for (uint32_t i = 0; i < n_gr; i++)
		alloc(w, client, 0x100, 0x101 + i, 0xc86f, 0);
	for (uint32_t i = 0; i < 4; i++)
		alloc(w, client, 0x200, 0x201 + i, 0xc86f, 0);
	return w;
}

static void test_watch_when_objects_are_freed_then_subtree_goes(void)
{
	struct gp_rm_watch *w = context(0xc1, 8);

	CHECK_EQ(count(w, NULL), 12);
	release(w, 0xc1, 0x101);
	CHECK_EQ(count(w, NULL), 11);
	release(w, 0xc1, 0x200);
	CHECK_EQ(count(w, NULL), 7);
	release(w, 0xc2, 0xc2); /* another client */
	CHECK_EQ(count(w, NULL), 7);
	release(w, 0xc1, 0x80); /* the device */
	CHECK_EQ(count(w, NULL), 0);
	gp_rm_watch_free(w);
	w = context(0xc1, 8);
	release(w, 0xc1, 0xc1); /* the client */
	CHECK_EQ(count(w, NULL), 0);
	gp_rm_watch_free(w);
}

static void test_watch_when_unknown_channel_is_registered_then_incomplete(void)
{
	struct gp_rm_watch *w = context(0xc1, 8);
	struct gp_uvm_register_channel r = { .client = 0xc1, .channel = 0x101 };
	bool complete;

	gp_rm_watch_ioctl(w, 4, GP_UVM_REGISTER_CHANNEL, &r);
	count(w, &complete);
	CHECK(complete);
	r.channel = 0x999;
	gp_rm_watch_ioctl(w, 4, GP_UVM_REGISTER_CHANNEL, &r);
	count(w, &complete);
	CHECK(!complete);
	gp_rm_watch_free(w);
}

static void test_watch_when_call_failed_then_nothing_is_recorded(void)
{
	struct gp_rm_watch *w = gp_rm_watch_new(driver_ioctl);
	struct gp_rm_alloc a = {
		.root = 1, .parent = 1, .object = 2, .cls = 0xc86f, .status = 0x1f
	};

	gp_rm_watch_ioctl(w, 3, GP_RM_IOC_ALLOC, &a);
	CHECK_EQ(count(w, NULL), 0);
	gp_rm_watch_free(w);
}

static void test_disable_when_over_64_then_split_between_groups(void)
{
	struct gp_rm_watch *w = context(0xc1, 62);
	struct gp_rm_channel channels[256];
	struct gp_rm_subdevice sub;
	uint64_t generation;
	struct gp_err err;
	bool complete;
	size_t n;

	gp_rm_watch_channels(w, channels, 256, &n, &generation, &complete);
	CHECK_EQ(n, 66);
	CHECK_EQ(channels[0].engine, GP_RM_ENGINE_GR);
	CHECK_EQ(gp_rm_watch_subdevice(w, &sub, &err), 0);
	driver.n_batches = 0;
	CHECK_EQ(gp_rm_set_disabled(&sub, channels, n, true, &err), 0);
	CHECK_EQ(driver.n_batches, 2);
	CHECK_EQ(driver.batches[0], 62);
	CHECK_EQ(driver.batches[1], 4);
	gp_rm_watch_free(w);
}

static void test_disable_when_refused_then_says_how(void)
{
	struct gp_rm_watch *w = context(0xc1, 65);
	struct gp_rm_channel channels[256];
	struct gp_rm_subdevice sub;
	uint64_t generation;
	struct gp_err err;
	bool complete;
	size_t n;

	gp_rm_watch_channels(w, channels, 256, &n, &generation, &complete);
	CHECK_EQ(gp_rm_watch_subdevice(w, &sub, &err), 0);
	CHECK_EQ(gp_rm_set_disabled(&sub, channels, n, true, &err), -EINVAL);
	driver.status = GP_RM_STATUS_INVALID_CHANNEL;
	CHECK_EQ(gp_rm_set_disabled(&sub, channels, 4, true, &err), -EAGAIN);
	driver.status = 0x1f;
	CHECK_EQ(gp_rm_set_disabled(&sub, channels, 4, true, &err), -EIO);
	driver.status = 0;
	gp_rm_watch_free(w);
}

int main(void)
{
	test_watch_when_objects_are_freed_then_subtree_goes();
	test_watch_when_unknown_channel_is_registered_then_incomplete();
	test_watch_when_call_failed_then_nothing_is_recorded();
	test_disable_when_over_64_then_split_between_groups();
	test_disable_when_refused_then_says_how();
	return 0;
}
