/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/freeze/freeze.h"

#include "base/rm/channels.h"

#include <errno.h>
#include <stdlib.h>

bool gp_freeze_is_stale(const struct gp_freeze *f, struct gp_rm_watch *watch)
{
	return !f->loaded || (watch && gp_rm_watch_generation(watch) != f->generation);
}

static int freeze_reserve(struct gp_freeze *f, size_t n)
{
	struct gp_rm_channel *channels = realloc(f->channels, n * sizeof(*channels));
	struct gp_freeze_sample *samples;

	if (!channels)
		return -ENOMEM;
	f->channels = channels;
	samples = realloc(f->samples, n * sizeof(*samples));
	if (!samples)
		return -ENOMEM;
	f->samples = samples;
	f->capacity = n;
	return 0;
}

int gp_freeze_load(struct gp_freeze *f, struct gp_rm_watch *watch)
{
	int r;

	f->n = 0;
	f->n_samples = 0;
	f->complete = false;
	if (watch) {
		gp_rm_watch_channels(watch, f->channels, f->capacity, &f->n, &f->generation,
				     &f->complete);
		while (f->n > f->capacity) {
			r = freeze_reserve(f, f->n + 64);
			if (r < 0) {
				f->n = 0;
				f->complete = false;
				return r;
			}
			gp_rm_watch_channels(watch, f->channels, f->capacity, &f->n, &f->generation,
					     &f->complete);
		}
	}
	/* A process with a context has channels: none means that we did not see them. */
	if (f->n == 0)
		f->complete = false;
	f->loaded = true;
	return 0;
}

size_t gp_freeze_describe(const struct gp_freeze *f, size_t first, struct gp_wire_channels *ret)
{
	size_t n = f->n - first;

	if (n > GP_WIRE_MAX_CHANNELS)
		n = GP_WIRE_MAX_CHANNELS;
	ret->generation = f->generation;
	ret->total = (uint32_t)f->n;
	ret->first = (uint32_t)first;
	ret->n = (uint32_t)n;
	ret->complete = f->complete;
	for (size_t i = 0; i < n; i++) {
		const struct gp_rm_channel *c = &f->channels[first + i];

		ret->entries[i] =
			(struct gp_wire_channel){ c->client, c->channel, c->group, c->engine };
	}
	return first + n;
}

static bool freeze_read(const struct gp_rm_subdevice *sub, uint32_t client, uint32_t channel,
			struct gp_rm_ctxsw_stats *ret_stats)
{
	struct gp_err err;

	return gp_rm_ctxsw_stats(sub, client, channel, ret_stats, &err) == 0;
}

/*
 * A group is switched out as one and all its channels show the same counters; a reading costs
 * 0.4 ms on an H200, while the whole freeze takes 1.5: one channel of each group has to do.
 */
void gp_freeze_sample(struct gp_freeze *f, struct gp_rm_watch *watch)
{
	const struct gp_freeze_sample *last = NULL;
	struct gp_rm_subdevice sub;
	struct gp_rm_ctxsw_stats s;
	struct gp_err err;

	f->n_samples = 0;
	if (!watch || gp_rm_watch_subdevice(watch, &sub, &err) < 0)
		return;
	for (size_t i = 0; i < f->n; i++) {
		const struct gp_rm_channel *c = &f->channels[i];

		if (c->engine != GP_RM_ENGINE_GR ||
		    (last && last->client == c->client && last->group == c->group) ||
		    !freeze_read(&sub, c->client, c->channel, &s))
			continue;
		last = &f->samples[f->n_samples++];
		f->samples[f->n_samples - 1] =
			(struct gp_freeze_sample){ c->client, c->channel, c->group,
						   s.wfi,     s.cta,	  s.cilp };
	}
}

/* A group that was not on the hardware leaves the answer open, unless another was interrupted. */
enum gp_mid_kernel gp_freeze_probe(const struct gp_freeze *f, struct gp_rm_watch *watch)
{
	enum gp_mid_kernel answer = f->n_samples ? GP_MID_KERNEL_NO : GP_MID_KERNEL_UNKNOWN;
	struct gp_rm_subdevice sub;
	struct gp_rm_ctxsw_stats s;
	struct gp_err err;

	if (!watch || gp_rm_watch_subdevice(watch, &sub, &err) < 0)
		return GP_MID_KERNEL_UNKNOWN;
	for (size_t i = 0; i < f->n_samples; i++) {
		const struct gp_freeze_sample *before = &f->samples[i];

		if (!freeze_read(&sub, before->client, before->channel, &s))
			answer = GP_MID_KERNEL_UNKNOWN;
		else if (s.cilp != before->cilp || s.cta != before->cta)
			return GP_MID_KERNEL_YES;
		else if (s.wfi == before->wfi)
			answer = GP_MID_KERNEL_UNKNOWN;
	}
	return answer;
}

/* One by one, which is safe for enabling; a channel that the driver does not know is gone. */
static int freeze_enable_each(const struct gp_freeze *f, const struct gp_rm_subdevice *sub,
			      struct gp_err *err)
{
	int failed = 0;

	for (size_t i = 0; i < f->n; i++) {
		int r = gp_rm_set_disabled(sub, &f->channels[i], 1, false, err);

		if (r < 0 && r != -EAGAIN)
			failed = r;
	}
	return failed;
}

int gp_freeze_thaw(struct gp_freeze *f, struct gp_rm_watch *watch, struct gp_err *err)
{
	struct gp_rm_subdevice sub;
	int r;

	if (!watch)
		return gp_err_set(err, -ENODEV, "the driver's ioctls are not being watched");
	r = gp_rm_watch_subdevice(watch, &sub, err);
	if (r < 0)
		return r;
	if (gp_freeze_is_stale(f, watch) && gp_freeze_load(f, watch) < 0)
		return gp_err_set(err, -ENOMEM, "no memory for the channel table");
	r = gp_rm_set_disabled(&sub, f->channels, f->n, false, err);
	return r == -EAGAIN ? freeze_enable_each(f, &sub, err) : r;
}
