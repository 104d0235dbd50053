/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash of chunk_hash.h on the GPU: one block of GP_HASH_LANES threads a chunk, one thread a
 * lane, the tree in shared memory. Sums may lie in host memory mapped to the device.
 */
#include "snapshot/chunk_hash.h"

extern "C" __global__ void __launch_bounds__(GP_HASH_LANES)
	gp_chunk_hash_kernel(const ulonglong2 *chunks, struct gp_hash_key key,
			     struct gp_chunk_sum *sums)
{
	__shared__ struct gp_hash_state lanes[GP_HASH_LANES];
	const unsigned int t = threadIdx.x;
	const ulonglong2 *v = chunks + (size_t)blockIdx.x * GP_HASH_LANES * GP_HASH_ROUNDS + t;
	struct gp_hash_state s = gp_hash_lane(key, t);
	unsigned long long any = 0;

#pragma unroll 8
	for (unsigned int round = 0; round < GP_HASH_ROUNDS; round++) {
		ulonglong2 x = v[(size_t)round * GP_HASH_LANES];

		gp_hash_step(&s, x.x, x.y);
		any |= x.x | x.y;
	}
	gp_hash_lane_end(&s, t);
	lanes[t] = s;
	any = __syncthreads_or(any != 0);
	for (unsigned int stride = GP_HASH_LANES / 2; stride > 0; stride /= 2) {
		if (t < stride)
			gp_hash_combine(&lanes[t], &lanes[t + stride], stride);
		__syncthreads();
	}
	if (t == 0) {
		sums[blockIdx.x].hash[0] = lanes[0].a;
		sums[blockIdx.x].hash[1] = lanes[0].b;
		sums[blockIdx.x].nonzero = any;
	}
}
