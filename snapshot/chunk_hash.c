/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU twin of chunk_hash.cu. It goes row by row, all lanes abreast, as the GPU does: the 8 KiB
 * of lane states stay in the first-level cache and the lanes are independent of each other, so
 * multiplications overlap.
 */
#include "snapshot/chunk_hash.h"

#include "base/size.h"

#include <string.h>

_Static_assert(GP_HASH_CHUNK_BYTES == GP_CHUNK_BYTES, "one definition of a chunk");

void gp_chunk_hash(const void *chunk, struct gp_hash_key key, struct gp_chunk_sum *ret_sum)
{
	struct gp_hash_state lanes[GP_HASH_LANES];
	const unsigned char *bytes = chunk;
	gp_hash_word any = 0;

	for (gp_hash_index t = 0; t < GP_HASH_LANES; t++)
		lanes[t] = gp_hash_lane(key, t);
	for (size_t round = 0; round < GP_HASH_ROUNDS; round++) {
		for (size_t t = 0; t < GP_HASH_LANES; t++) {
			gp_hash_word v[2];

			memcpy(v, bytes + 16 * (round * GP_HASH_LANES + t), sizeof(v));
			gp_hash_step(&lanes[t], v[0], v[1]);
			any |= v[0] | v[1];
		}
	}
	for (gp_hash_index t = 0; t < GP_HASH_LANES; t++)
		gp_hash_lane_end(&lanes[t], t);
	for (gp_hash_index stride = GP_HASH_LANES / 2; stride > 0; stride /= 2) {
		for (gp_hash_index t = 0; t < stride; t++)
			gp_hash_combine(&lanes[t], &lanes[t + stride], stride);
	}
	ret_sum->hash[0] = lanes[0].a;
	ret_sum->hash[1] = lanes[0].b;
	ret_sum->nonzero = any != 0;
}
