/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_RM_CHANNELS_H
#define GP_BASE_RM_CHANNELS_H
/* Takes channels off the hardware and puts them back. */
#include "base/rm/abi.h"
#include "base/rm/watch.h"

/*
 * Disables (@disable) or enables @n channels, of any process, sorted by group as
 * gp_rm_watch_channels gives them: whole groups per call, since a group with one channel left
 * enabled is scheduled again. Blocks for 0.4 to 4 ms on a card, longer while another process holds
 * the driver's locks. On failure the channels of earlier calls are left as those calls made
 * them: the caller enables all again. -EINVAL for a group of over GP_RM_MAX_CHANNELS channels;
 * -EAGAIN when the driver did not know a channel, which retrying may cure; -EIO for any other
 * refusal.
 */
gp_must_check int gp_rm_set_disabled(const struct gp_rm_subdevice *sub,
				     const struct gp_rm_channel *channels, size_t n, bool disable,
				     struct gp_err *err);

/* Context switch counters of one channel of this process's own client. -ENOTSUP if refused. */
gp_must_check int gp_rm_ctxsw_stats(const struct gp_rm_subdevice *sub, uint32_t client,
				    uint32_t channel, struct gp_rm_ctxsw_stats *ret_stats,
				    struct gp_err *err);

#endif
