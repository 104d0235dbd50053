/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_DEPOT_H
#define GP_SNAPSHOT_DEPOT_H
/*
 * Arena, ledger and swap file, made or inherited, and pinned for the driver. All three are files
 * without a name: the daemon keeps a descriptor of each (GP_WIRE_MOVER_READY), so they outlive the
 * mover, and a successor that is given them finds the saved bytes where they were.
 *
 * What of an inheritance is of no use is said and left: without the arena everything is made anew,
 * without the ledger its records are.
 */
#include "base/list.h"
#include "snapshot/driver.h"
#include "snapshot/image.h"

#include <stdbool.h>

/* Descriptors that MOVER_READY carries, in this order. */
enum gp_depot_fd {
	GP_DEPOT_ARENA,
	GP_DEPOT_LEDGER,
	GP_DEPOT_SWAP, /* of /dev/null where there is no swap file */
	GP_DEPOT_FDS,
};

struct gp_depot_options {
	uint64_t arena_bytes;
	uint64_t extra_bytes; /* of private, pinned memory: arena.extra */
	const char *swap_dir;
	uint64_t swap_max_bytes;
	uint32_t n_swap_buffers; /* at the start of the private memory */
	bool inherits;
	int inherited[GP_DEPOT_FDS]; /* borrowed */
};

struct gp_depot {
	const struct gp_driver *driver;
	struct gp_arena arena;
	struct gp_ledger ledger;
	struct gp_swapfile *swapfile;
	bool arena_pinned, extra_pinned;
	bool inherited; /* the ledger is a predecessor's and not recovered yet */
	int no_swap_fd; /* stands for the swap file where there is none */
};

/* Takes seconds for a large new arena. After a failure gp_depot_close is still to be called. */
gp_must_check int gp_depot_open(struct gp_depot *depot, const struct gp_driver *driver,
				const struct gp_depot_options *options, struct gp_err *err);
/* Lets go of everything; what somebody else holds a descriptor of stays. @depot may be zeroed. */
void gp_depot_close(struct gp_depot *depot);

struct gp_store gp_depot_store(struct gp_depot *depot);
/* Borrowed; as enum gp_depot_fd orders them. */
void gp_depot_fds(const struct gp_depot *depot, int *ret_fds);

/*
 * Adds a struct gp_proc to @procs (empty) for every process that the inherited ledger has records
 * of, with its image. Records that cannot be right are logged and dropped; returns how many.
 * Nothing to do for a depot of its own. -ENOMEM.
 */
gp_must_check int gp_depot_recover(struct gp_depot *depot, struct gp_list *procs,
				   struct gp_err *err);

#endif
