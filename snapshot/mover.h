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
 * When the connection closes or SIGTERM comes, the mover ends and the saved bytes end with it. It
 * thaws nothing then: the memory of a swapped process is gone, and running it would destroy it.
 */
#include "snapshot/depot.h"
#include "snapshot/worker.h"

#include <signal.h>

struct gp_mover_options {
	const char *lock;   /* file to lock for life; NULL = none */
	const char *socket; /* the daemon's */
	uint32_t device;    /* ordinal */
	bool soft;	    /* --kind */
	const char *driver; /* path of libcuda.so.1 */
	uint64_t arena_bytes;
	const char *swap_dir;
	uint64_t swap_max_bytes;
	bool inherits;
	int inherited[GP_DEPOT_FDS]; /* a predecessor's arena, ledger and swap file */
};

struct gp_mover {
	const struct gp_mover_options *options;
	int sock, signals, epoll;
	bool sending, reading; /* what epoll waits for on the socket */
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
 * Blocks the signals, connects, brings up context, arena and swap file. @mover is zeroed, static,
 * and stays put: @hook (see gp_driver_options) reaches mover->driver.watch. Takes seconds.
 */
gp_must_check int gp_mover_init(struct gp_mover *mover, const struct gp_mover_options *options,
				gp_rm_ioctl_fn hook, struct gp_err *err);
/* Sends MOVER_READY and serves. 0: the daemon closed the connection, or SIGTERM or SIGINT came. */
gp_must_check int gp_mover_run(struct gp_mover *mover, struct gp_err *err);
void gp_mover_fini(struct gp_mover *mover);

/* Switches this process's own channels off and on again: whether the driver lets us at all. */
gp_must_check int gp_mover_try_freeze(struct gp_driver *driver, struct gp_rm_subdevice *ret_sub,
				      struct gp_err *err);

#endif
