/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/hasher.h"

#include "base/size.h"

#include <string.h>

/* Made from chunk_hash.cu by embed.cmake. */
extern const unsigned char gp_chunk_hash_fatbin[];

int gp_hasher_init(struct gp_hasher *h, const struct gp_driver *driver, struct gp_hash_key key,
		   struct gp_err *err)
{
	int r;

	memset(h, 0, sizeof(*h));
	h->driver = driver;
	h->key = key;
	if (driver->soft)
		return 0;
	r = gp_driver_check(driver, driver->cuModuleLoadData(&h->module, gp_chunk_hash_fatbin),
			    "cannot load the hash kernel: cuModuleLoadData", err);
	if (r < 0)
		return r;
	r = gp_driver_check(
		driver, driver->cuModuleGetFunction(&h->kernel, h->module, "gp_chunk_hash_kernel"),
		"cannot load the hash kernel: cuModuleGetFunction", err);
	if (r < 0)
		gp_hasher_fini(h);
	return r;
}

void gp_hasher_fini(struct gp_hasher *h)
{
	if (h->module)
		h->driver->cuModuleUnload(h->module);
	h->module = NULL;
}

int gp_hasher_launch(const struct gp_hasher *h, CUdeviceptr chunks, uint32_t n_chunks,
		     struct gp_chunk_sum *sums, CUdeviceptr device_sums, CUstream stream,
		     struct gp_err *err)
{
	const struct gp_driver *d = h->driver;
	struct gp_hash_key key = h->key;
	void *args[] = { &chunks, &key, &device_sums };
	int r;

	if (!d->soft)
		return gp_driver_check(d,
				       d->cuLaunchKernel(h->kernel, n_chunks, 1, 1, GP_HASH_LANES,
							 1, 1, 0, stream, args, NULL),
				       "cannot hash: cuLaunchKernel", err);
	r = gp_driver_check(d, d->cuStreamSynchronize(stream), "cuStreamSynchronize", err);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n_chunks; i++)
		gp_chunk_hash((const void *)(uintptr_t)(chunks + i * GP_CHUNK_BYTES), key,
			      &sums[i]);
	return 0;
}
