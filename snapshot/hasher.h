/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_HASHER_H
#define GP_SNAPSHOT_HASHER_H
/* Hashes chunks of device memory where they are: by the kernel, or on the software device by the
 * CPU twin. */
#include "snapshot/chunk_hash.h"
#include "snapshot/driver.h"

struct gp_hasher {
	const struct gp_driver *driver;
	struct gp_hash_key key;
	CUmodule module;
	CUfunction kernel;
};

/* -EIO when the driver refuses the embedded kernel. */
gp_must_check int gp_hasher_init(struct gp_hasher *hasher, const struct gp_driver *driver,
				 struct gp_hash_key key, struct gp_err *err);
void gp_hasher_fini(struct gp_hasher *hasher);

/*
 * Queues on @stream the hashing of @n_chunks chunks at @chunks. Results go to @sums, host memory
 * that the device sees at @device_sums, and are there once @stream has come past. Does not block
 * on a card; computes at once on the software device.
 */
gp_must_check int gp_hasher_launch(const struct gp_hasher *hasher, CUdeviceptr chunks,
				   uint32_t n_chunks, struct gp_chunk_sum *sums,
				   CUdeviceptr device_sums, CUstream stream, struct gp_err *err);

#endif
