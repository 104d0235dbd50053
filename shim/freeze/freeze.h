/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_FREEZE_FREEZE_H
#define GP_SHIM_FREEZE_FREEZE_H
/*
 * The process's channels as told to the daemon, and whether a freeze caught a kernel in its
 * middle. All of it belongs to the control thread. The mover does the freezing; only a process
 * whose daemon died puts its own channels back.
 */
#include "base/err.h"
#include "base/rm/watch.h"
#include "base/wire/messages.h"

struct gp_freeze_sample {
	uint32_t client, channel, group;
	uint32_t wfi, cta, cilp; /* context switches so far, by how deep the switch was */
};

struct gp_freeze {
	struct gp_rm_channel *channels; /* copy of the watch's table */
	size_t n, capacity;
	uint64_t generation; /* of the copy */
	bool complete, loaded;
	struct gp_freeze_sample *samples; /* one channel of each compute group; room for capacity */
	size_t n_samples;
};

/* Whether the table has changed since it was loaded, or never was. @watch may be NULL. */
bool gp_freeze_is_stale(const struct gp_freeze *f, struct gp_rm_watch *watch);

/* Copies the table. Without a watch it is empty and incomplete. -ENOMEM. */
gp_must_check int gp_freeze_load(struct gp_freeze *f, struct gp_rm_watch *watch);

/* Fills a CHANNELS message with entries from @first on; returns the index after the last. */
size_t gp_freeze_describe(const struct gp_freeze *f, size_t first, struct gp_wire_channels *ret);

/* Reads the counters of all compute groups, before the freeze. */
void gp_freeze_sample(struct gp_freeze *f, struct gp_rm_watch *watch);

/* Reads them again, after the freeze, and compares. */
enum gp_mid_kernel gp_freeze_probe(const struct gp_freeze *f, struct gp_rm_watch *watch);

/*
 * Puts all own channels back on the hardware, those that are there by now: what was freed since the
 * freeze would make the driver refuse the others. Errors as gp_rm_set_disabled, but -EAGAIN.
 */
gp_must_check int gp_freeze_thaw(struct gp_freeze *f, struct gp_rm_watch *watch,
				 struct gp_err *err);

#endif
