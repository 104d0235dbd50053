/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce: sum and exclusive-or over an array, by warp shuffles, then shared memory, then a second
 * launch over the blocks' partial results. Each round scales the values by another odd number.
 *
 * Integers modulo 2^64, so the order does not matter: sum(k * x) = k * sum(x), and the CPU needs
 * one pass over the input for all rounds.
 */
#include "common.h"

#define BLOCK	 256
#define WARP	 32
#define N_BLOCKS 512

struct partial {
	unsigned long long sum, xored;
};

static __device__ struct partial combine(struct partial a, struct partial b)
{
	a.sum += b.sum;
	a.xored ^= b.xored;
	return a;
}

static __device__ struct partial warp_reduce(struct partial p)
{
	for (unsigned d = WARP / 2; d > 0; d /= 2) {
		struct partial other;

		other.sum = __shfl_down_sync(0xffffffffu, p.sum, d);
		other.xored = __shfl_down_sync(0xffffffffu, p.xored, d);
		p = combine(p, other);
	}
	return p;
}

/* The result is valid in thread 0. All BLOCK threads must call. */
static __device__ struct partial block_reduce(struct partial p)
{
	__shared__ struct partial warps[BLOCK / WARP];
	const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;

	p = warp_reduce(p);
	if (lane == 0)
		warps[warp] = p;
	__syncthreads();
	if (warp == 0) {
		const struct partial none = { 0, 0 };

		p = warp_reduce(lane < BLOCK / WARP ? warps[lane] : none);
	}
	return p;
}

__global__ void reduce_input(const uint32_t *x, uint64_t n, uint64_t scale, struct partial *out)
{
	const uint64_t stride = (uint64_t)gridDim.x * BLOCK;
	struct partial p = { 0, 0 };

	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride) {
		const struct partial v = { x[i] * scale, x[i] ^ scale };

		p = combine(p, v);
	}
	p = block_reduce(p);
	if (threadIdx.x == 0)
		out[blockIdx.x] = p;
}

__global__ void reduce_partials(const struct partial *in, unsigned n, struct partial *out)
{
	struct partial p = { 0, 0 };

	for (unsigned i = threadIdx.x; i < n; i += BLOCK)
		p = combine(p, in[i]);
	p = block_reduce(p);
	if (threadIdx.x == 0)
		*out = p;
}

static uint64_t round_scale(uint64_t round)
{
	return mix64(~round) | 1;
}

int main(int argc, char **argv)
{
	uint64_t mb = 64, rounds = 50;
	const struct option_def defs[] = {
		{ "mb", &mb, 1, 1 << 20, "device memory in MiB" },
		{ "rounds", &rounds, 1, 1 << 24, "reductions" },
	};
	options_parse(argc, argv, "Reduces an array of integers.", defs);

	const uint64_t n = mb * MIB / sizeof(uint32_t);
	uint32_t *x = host_alloc<uint32_t>(n);
	struct partial *result = host_alloc<struct partial>(rounds);
	struct partial want = { 0, 0 };
	uint32_t *dev_x;
	struct partial *dev_partials, *dev_result;

	for (uint64_t i = 0; i < n; i++) {
		x[i] = (uint32_t)mix64(i);
		want.sum += x[i];
		want.xored ^= x[i];
	}
	double start = now_s();
	CU(cudaMalloc(&dev_x, n * sizeof(*x)));
	CU(cudaMalloc(&dev_partials, N_BLOCKS * sizeof(struct partial)));
	CU(cudaMalloc(&dev_result, rounds * sizeof(struct partial)));
	CU(cudaMemcpy(dev_x, x, n * sizeof(*x), cudaMemcpyHostToDevice));
	for (uint64_t r = 0; r < rounds; r++) {
		reduce_input<<<N_BLOCKS, BLOCK>>>(dev_x, n, round_scale(r), dev_partials);
		CU(cudaGetLastError());
		reduce_partials<<<1, BLOCK>>>(dev_partials, N_BLOCKS, dev_result + r);
		CU(cudaGetLastError());
	}
	CU(cudaMemcpy(result, dev_result, rounds * sizeof(*result), cudaMemcpyDeviceToHost));
	double seconds = now_s() - start;

	uint64_t wrong = 0;
	for (uint64_t r = 0; r < rounds; r++) {
		const uint64_t scale = round_scale(r);

		wrong += result[r].sum != want.sum * scale;
		wrong += result[r].xored != (want.xored ^ (n % 2 ? scale : 0));
	}
	const uint64_t hash = fnv64(FNV_INIT, result, rounds * sizeof(*result));
	CU(cudaFree(dev_x));
	CU(cudaFree(dev_partials));
	CU(cudaFree(dev_result));
	free(x);
	free(result);
	return report("reduce", hash, wrong, seconds);
}
