/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_CHANNELS_H
#define GP_SNAPSHOT_CHANNELS_H
/*
 * The channel tables of the processes, as their shims report them, and the switch that takes all
 * channels of several processes off the hardware and puts them back. Main thread only. Memory is
 * taken when tables arrive, not when they are switched.
 */
#include "base/rm/channels.h"
#include "base/wire/messages.h"

struct gp_channel_list {
	struct gp_rm_channel *entries;
	size_t n, capacity;
};

struct gp_channel_table {
	struct gp_channel_list current; /* a whole table of one generation */
	struct gp_channel_list next;	/* parts of a newer one, as far as they came */
	struct gp_channel_list frozen;	/* what the last freeze took off; n = 0: thawed */
	uint64_t next_generation;
	bool known;    /* a whole table came */
	bool complete; /* and the shim vouches for it */
	bool torn;     /* a newer table is under way, or came with parts missing */
};

/* Takes in one message. -ENOMEM, -E2BIG: it cannot be frozen until another table came. */
gp_must_check int gp_channel_table_update(struct gp_channel_table *table,
					  const struct gp_wire_channels *part, struct gp_err *err);
void gp_channel_table_fini(struct gp_channel_table *table);

/* What one switch works on; kept between switches for its memory. */
struct gp_channel_switch {
	struct gp_channel_list all;
	uint64_t ns; /* spent in the driver by the last switch */
};

/* Makes room for @n channels. -ENOMEM. */
gp_must_check int gp_channel_switch_reserve(struct gp_channel_switch *sw, size_t n);
void gp_channel_switch_fini(struct gp_channel_switch *sw);

/*
 * Takes all channels of @n tables off; a second attempt follows a first that failed. On failure
 * everything is enabled again, as far as the driver lets us (said in @err otherwise). -ENOTSUP: a
 * table is missing, empty or incomplete.
 */
gp_must_check int gp_channel_switch_freeze(struct gp_channel_switch *sw,
					   const struct gp_rm_subdevice *sub,
					   struct gp_channel_table *const *tables, size_t n,
					   struct gp_err *err);
/*
 * Puts the channels of @n tables back; harmless for channels that are on. Channels that the driver
 * no longer knows are skipped. -EIO when a channel stayed off: may be repeated.
 */
gp_must_check int gp_channel_switch_thaw(struct gp_channel_switch *sw,
					 const struct gp_rm_subdevice *sub,
					 struct gp_channel_table *const *tables, size_t n,
					 struct gp_err *err);

#endif
