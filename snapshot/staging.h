/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_STAGING_H
#define GP_SNAPSHOT_STAGING_H
/*
 * Carries chunks between the device and the swap file through a ring of host buffers, so that the
 * copy of one chunk and the disk transfers of others overlap. Used by one thread.
 *
 *	free -> downloading (device to buffer) -> writing -> free
 *	free -> reading -> uploading (buffer to device) -> free
 *
 * The first error sticks until gp_staging_reset; chunks after it pass through without effect.
 */
#include "snapshot/driver.h"
#include "snapshot/swapfile.h"

#define GP_STAGING_BUFFERS 16 /* 32 MiB: 16 ms of disk at 2 GB/s in flight */

enum gp_staging_state {
	GP_STAGING_FREE,
	GP_STAGING_DOWNLOADING,
	GP_STAGING_WRITING,
	GP_STAGING_READING,
	GP_STAGING_UPLOADING,
};

struct gp_staging_buffer {
	enum gp_staging_state state;
	uint64_t turn; /* order of the last queued copy: smaller is older */
	uint32_t chunk;
	uint32_t *pending; /* the owner's count of chunks not yet on disk */
	CUdeviceptr device;
	CUstream stream;
	CUevent copied;
};

struct gp_staging {
	const struct gp_driver *driver;
	struct gp_swapfile *swapfile;
	char *memory;
	uint64_t turn;
	struct gp_err error;
	struct gp_staging_buffer buffers[GP_STAGING_BUFFERS];
};

/* @memory: GP_STAGING_BUFFERS chunks, registered with the driver and given to the swap file. */
gp_must_check int gp_staging_init(struct gp_staging *staging, const struct gp_driver *driver,
				  struct gp_swapfile *swapfile, void *memory, struct gp_err *err);
void gp_staging_fini(struct gp_staging *staging);

/*
 * Queues @device -> @chunk of the swap file, after what @stream holds; *@pending is raised now and
 * lowered once the chunk is on disk. Blocks while all buffers are in use.
 */
void gp_staging_save(struct gp_staging *staging, CUdeviceptr device, uint32_t chunk,
		     CUstream stream, uint32_t *pending);
/* Waits until *@pending is 0. Returns the error that stuck, if any. */
gp_must_check int gp_staging_wait_saved(struct gp_staging *staging, const uint32_t *pending,
					struct gp_err *err);

/* Queues @chunk -> @device on @stream. Blocks while all buffers are in use. */
void gp_staging_load(struct gp_staging *staging, uint32_t chunk, CUdeviceptr device,
		     CUstream stream);
/* Waits until all chunks have been read and their uploads are queued on their streams. */
gp_must_check int gp_staging_wait_read(struct gp_staging *staging, struct gp_err *err);

/* Waits until every buffer is free, whatever happened, and forgets the error. */
void gp_staging_reset(struct gp_staging *staging);

#endif
