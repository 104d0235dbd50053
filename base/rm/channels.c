/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rm/channels.h"

#include <errno.h>
#include <string.h>

/* Both the system call and RM report failure, each in its own place. */
static int rm_control(const struct gp_rm_subdevice *sub, uint32_t cmd, void *params,
		      size_t params_bytes, uint32_t *ret_status)
{
	struct gp_rm_control c = {
		.client = sub->client,
		.object = sub->object,
		.cmd = cmd,
		.params = (uintptr_t)params,
		.params_bytes = (uint32_t)params_bytes,
	};

	if (sub->ioctl(sub->fd, GP_RM_IOC_CONTROL, &c) < 0)
		return -errno;
	*ret_status = c.status;
	return 0;
}

static int rm_set_disabled_once(const struct gp_rm_subdevice *sub,
				const struct gp_rm_channel *channels, size_t n, bool disable,
				struct gp_err *err)
{
	struct gp_rm_disable_channels d = { .disable = disable, .n_channels = (uint32_t)n };
	uint32_t status = 0;
	int r;

	for (size_t i = 0; i < n; i++) {
		d.clients[i] = channels[i].client;
		d.channels[i] = channels[i].channel;
	}
	r = rm_control(sub, GP_RM_CTRL_DISABLE_CHANNELS, &d, sizeof(d), &status);
	if (r < 0)
		return gp_err_sys(err, r, "cannot %s %zu channels", disable ? "disable" : "enable",
				  n);
	if (status == GP_RM_STATUS_INVALID_CHANNEL)
		return gp_err_set(err, -EAGAIN, "the driver does not know one of %zu channels", n);
	if (status)
		return gp_err_set(err, -EIO, "the driver refused to %s %zu channels: status 0x%x",
				  disable ? "disable" : "enable", n, status);
	return 0;
}

static size_t rm_group_length(const struct gp_rm_channel *channels, size_t n)
{
	size_t k = 1;

	while (k < n && channels[k].client == channels[0].client &&
	       channels[k].group == channels[0].group)
		k++;
	return k;
}

int gp_rm_set_disabled(const struct gp_rm_subdevice *sub, const struct gp_rm_channel *channels,
		       size_t n, bool disable, struct gp_err *err)
{
	size_t first = 0, batch = 0;
	int r;

	while (first + batch < n) {
		size_t group = rm_group_length(channels + first + batch, n - first - batch);

		if (group > GP_RM_MAX_CHANNELS)
			return gp_err_set(err, -EINVAL,
					  "a channel group has %zu channels; one call takes %d",
					  group, GP_RM_MAX_CHANNELS);
		if (batch + group > GP_RM_MAX_CHANNELS) {
			r = rm_set_disabled_once(sub, channels + first, batch, disable, err);
			if (r < 0)
				return r;
			first += batch;
			batch = 0;
		}
		batch += group;
	}
	return batch ? rm_set_disabled_once(sub, channels + first, batch, disable, err) : 0;
}

int gp_rm_ctxsw_stats(const struct gp_rm_subdevice *sub, uint32_t client, uint32_t channel,
		      struct gp_rm_ctxsw_stats *ret_stats, struct gp_err *err)
{
	struct gp_rm_ctxsw_stats stats = { .channel = channel };
	uint32_t status = 0;
	int r;

	if (client != sub->client)
		return gp_err_set(err, -ENOTSUP, "channel 0x%x is of another client", channel);
	r = rm_control(sub, GP_RM_CTRL_CTXSW_STATS, &stats, sizeof(stats), &status);
	if (r < 0 || status)
		return gp_err_set(err, -ENOTSUP,
				  "no context switch counters: errno %d, status 0x%x", -r, status);
	*ret_stats = stats;
	return 0;
}
