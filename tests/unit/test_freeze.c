/* SPDX-License-Identifier: Apache-2.0 */
/* A process that thaws itself, against a driver that knows some of its channels. */
#include "base/rm/abi.h"
#include "shim/freeze/freeze.h"
#include "tests/unit/check.h"

#define CLIENT	   0xc1
#define GROUP	   0x100
#define CHANNEL	   0x101
#define N_CHANNELS 4

static struct {
	bool exists[N_CHANNELS], disabled[N_CHANNELS];
} driver;

/* As the real one: a call that names an unknown channel changes nothing. */
static uint32_t driver_disable(const struct gp_rm_disable_channels *d)
{
	for (uint32_t i = 0; i < d->n_channels; i++) {
		if (!driver.exists[d->channels[i] - CHANNEL])
			return GP_RM_STATUS_INVALID_CHANNEL;
	}
	for (uint32_t i = 0; i < d->n_channels; i++)
		driver.disabled[d->channels[i] - CHANNEL] = d->disable;
	return 0;
}

static int driver_ioctl(int fd, unsigned long request, void *arg)
{
	if (request == GP_RM_IOC_CONTROL) {
		struct gp_rm_control *c = arg;

		c->status = driver_disable((const void *)(uintptr_t)c->params);
	}
	return 0;
}

static void alloc(struct gp_rm_watch *w, uint32_t parent, uint32_t object, uint32_t cls)
{
	uint32_t params[8] = { 0, 0, 0, GP_RM_ENGINE_GR };
	struct gp_rm_alloc a = { .root = CLIENT,
				 .parent = parent,
				 .object = object,
				 .cls = cls,
				 .params = (uintptr_t)params };

	CHECK_EQ(gp_rm_watch_ioctl(w, 3, GP_RM_IOC_ALLOC, &a), 0);
}

/* A frozen process; the last of its channels is freed afterwards, seen or unseen. */
static void thaw_without_last(bool seen)
{
	struct gp_rm_watch *w = gp_rm_watch_new(driver_ioctl);
	struct gp_rm_free last = { .root = CLIENT, .object = CHANNEL + N_CHANNELS - 1 };
	struct gp_freeze f = { 0 };
	struct gp_err err;

	CHECK(w);
	alloc(w, CLIENT, 0x80, GP_RM_CLASS_DEVICE);
	alloc(w, 0x80, 0x2080, GP_RM_CLASS_SUBDEVICE);
	alloc(w, 0x80, GROUP, GP_RM_CLASS_GROUP);
	for (uint32_t i = 0; i < N_CHANNELS; i++) {
		alloc(w, GROUP, CHANNEL + i, 0xc86f);
		driver.exists[i] = driver.disabled[i] = true;
	}
	CHECK_EQ(gp_freeze_load(&f, w), 0);
	driver.exists[N_CHANNELS - 1] = false;
	if (seen)
		CHECK_EQ(gp_rm_watch_ioctl(w, 3, GP_RM_IOC_FREE, &last), 0);
	CHECK_EQ(gp_freeze_thaw(&f, w, &err), 0);
	for (uint32_t i = 0; i < N_CHANNELS - 1; i++)
		CHECK(!driver.disabled[i]);
	CHECK_EQ(f.n, N_CHANNELS - seen);
	free(f.channels);
	free(f.samples);
	gp_rm_watch_free(w);
}

static void test_thaw_when_channel_was_freed_then_others_run(void)
{
	thaw_without_last(true);
}

static void test_thaw_when_driver_lacks_channel_then_others_run(void)
{
	thaw_without_last(false);
}

int main(void)
{
	test_thaw_when_channel_was_freed_then_others_run();
	test_thaw_when_driver_lacks_channel_then_others_run();
	return 0;
}
