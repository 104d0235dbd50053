/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_SWAPFILE_H
#define GP_SNAPSHOT_SWAPFILE_H
/*
 * Where chunks go when the arena is full: one nameless file (mode 0600, gone when nobody holds its
 * descriptor any more: not the mover, not the daemon that keeps it for the mover's successor),
 * written and read in whole chunks through a fixed set of staging buffers. A buffer carries one
 * transfer at a time; several buffers are in flight. Space is allocated in steps ahead of the
 * writes, so that a full disk is noticed before the device memory is touched; freed chunks are
 * punched out of the file.
 *
 * io_uring with a registered file and, where RLIMIT_MEMLOCK allows, registered buffers; where
 * io_uring is refused, pread and pwrite inside gp_swapfile_submit. O_DIRECT where the file system
 * has it, O_DSYNC elsewhere. One thread uses a swap file, except for gp_swapfile_used_bytes.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_swapfile;

struct gp_swapfile_options {
	const char *dir; /* of an inherited file: for messages only */
	/*
	 * 0: a new file. Else what gp_swapfile_fd gave to a predecessor (borrowed). All its chunks
	 * count as free until gp_swapfile_claim.
	 */
	int inherited_fd;
	uint64_t max_bytes; /* rounded down to whole chunks; 0 = no swapping to disk */
	void *buffers; /* @n_buffers staging buffers of one chunk each, 2 MiB aligned, borrowed */
	uint32_t n_buffers;
	bool no_uring, no_direct; /* for tests: as if io_uring, O_DIRECT were refused */
};

/*
 * Creates the file. -ENOENT, -EACCES, ... naming the folder when nothing can be written there. A
 * @max_bytes of 0 makes a swap file that is always full and touches no folder. An inherited file
 * is never made smaller than it is; -EINVAL when the descriptor is no regular file.
 */
gp_must_check int gp_swapfile_new(const struct gp_swapfile_options *options,
				  struct gp_swapfile **ret_swapfile, struct gp_err *err);
/* Waits for transfers in flight; the contents are gone. */
void gp_swapfile_free(struct gp_swapfile *swapfile);

/*
 * Takes and allocates on disk a run of up to @want chunks; returns its length (> 0) and first
 * chunk. -ENOSPC: at the limit, or the disk is full (naming the folder and what to do); -EIO.
 */
gp_must_check int gp_swapfile_take(struct gp_swapfile *swapfile, uint32_t want, uint32_t *ret_first,
				   struct gp_err *err);
/* Gives chunks back and punches them out of the file. */
void gp_swapfile_give(struct gp_swapfile *swapfile, uint32_t first, uint32_t n);

/* Inherited file: takes chunks that hold data; false, and none taken, as gp_chunkmap_claim. */
gp_must_check bool gp_swapfile_claim(struct gp_swapfile *swapfile, uint32_t first, uint32_t n);
/* Inherited file, once all is claimed: punches the rest out of the file. */
void gp_swapfile_settle(struct gp_swapfile *swapfile);

/*
 * Starts to write buffer @buffer to @chunk, or to read it from there. The buffer must be idle. May
 * block when io_uring is not available. Errors come out of gp_swapfile_wait.
 */
void gp_swapfile_submit(struct gp_swapfile *swapfile, uint32_t buffer, uint32_t chunk, bool write);
/*
 * Waits for any transfer to end; returns 0, or the error of that transfer (-ENOSPC, -EIO, ...)
 * naming the folder; the buffer is idle again in both cases. *@ret_buffer tells which. At least one
 * transfer must be in flight.
 */
gp_must_check int gp_swapfile_wait(struct gp_swapfile *swapfile, uint32_t *ret_buffer,
				   struct gp_err *err);

/* Borrowed; -1 when there is no file. */
int gp_swapfile_fd(const struct gp_swapfile *swapfile);
uint64_t gp_swapfile_max_bytes(const struct gp_swapfile *swapfile);
uint64_t gp_swapfile_used_bytes(const struct gp_swapfile *swapfile); /* any thread */
/* "io_uring, registered buffers, O_DIRECT" and the like, for the log. */
const char *gp_swapfile_method(const struct gp_swapfile *swapfile);

#endif
