/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_MOVER_H
#define GP_SNAPSHOT_MOVER_H
/*
 * The mover: one process per GPU, the only part of the service with a CUDA context. It freezes and
 * thaws processes and moves their memory between device, arena and swap file, as the daemon asks.
 *
 * Threads: main (the loop: requests, freezing, answers), the move worker (snapshot/worker.h), and
 * whatever the driver starts. Signals are blocked everywhere and read by the loop.
 *
 * The mover outlives the daemon. When the connection ends, the worker finishes the extents that it
 * has begun, answers to nobody are dropped, and the mover tries to connect again, which the next
 * daemon accepts; then it says what it has (LEDGER for each process) and serves on. Links to shims
 * stay open meanwhile, and a process that ends is forgotten. Without a daemon for a while the mover
 * ends, unless it has saved bytes of a process that may live.
 *
 * When SIGTERM comes it ends at once. It thaws nothing then: the memory of a swapped process is
 * gone, and running it would destroy it. What is saved stays in arena, ledger and swap file, and
 * with them if somebody else holds their descriptors (snapshot/depot.h).
 */
#include "snapshot/depot.h"
#include "snapshot/uplink.h"
#include "snapshot/worker.h"

#include <signal.h>

struct gp_mover_options {
	const char *socket; /* the daemon's */
	const char *lock;   /* file, locked for life; NULL: none */
	uint32_t device;    /* ordinal */
	bool soft;	    /* --kind */
	const char *driver; /* path of libcuda.so.1 */
	uint64_t arena_bytes;
	const char *swap_dir;
	uint64_t swap_max_bytes;
	uint64_t orphan_grace_ns; /* how long it waits for a daemon with nothing to keep */
	bool inherits;
	int inherited[GP_DEPOT_FDS]; /* a predecessor's files; closed by gp_mover_init */
};

struct gp_mover {
	const struct gp_mover_options *options;
	int lock, signals, epoll;
	struct gp_uplink uplink;
	struct gp_driver driver;
	struct gp_rm_subdevice subdevice;
	bool can_freeze;
	struct gp_channel_switch channel_switch;
	struct gp_depot depot;
	struct gp_outbox outbox;
	struct gp_move move;
	struct gp_worker worker;
	struct gp_list procs;
};

/*
 * Takes the lock, blocks the signals, connects, brings up context, arena and swap file. @mover is
 * zeroed, static, and stays put: @hook (see gp_driver_options) reaches mover->driver.watch. Takes
 * seconds. Without a daemon it fails, unless it has inherited: then it waits for one.
 */
gp_must_check int gp_mover_init(struct gp_mover *mover, const struct gp_mover_options *options,
				gp_rm_ioctl_fn hook, struct gp_err *err);
/*
 * Serves, one daemon after the other. 0: SIGTERM or SIGINT came, or no daemon did and there is
 * nothing to keep.
 */
gp_must_check int gp_mover_run(struct gp_mover *mover, struct gp_err *err);
void gp_mover_fini(struct gp_mover *mover);

/* Switches this process's own channels off and on again: whether the driver lets us at all. */
gp_must_check int gp_mover_try_freeze(struct gp_driver *driver, struct gp_rm_subdevice *ret_sub,
				      struct gp_err *err);

#endif
