/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fill: fills its memory with 64-bit counters, then runs ONE long kernel that increments every
 * counter --rounds times, sweeping over all of the memory in each round. Stopped at any moment,
 * some counters are one round ahead of others; in the end each must have been incremented exactly
 * --rounds times.
 *
 * Counters start at zero, or with --unique 1 each at a number of its own, so that no two pieces of
 * the memory are ever alike. Made for memory up to the size of a large card: the check runs on the
 * device and only a few pieces are copied to the CPU. The hash is that of a digest made on the
 * device, a sum modulo 2^64 over all counters, which no order of threads can change. The seconds
 * are those of the long kernel.
 */
#include "common.h"

#define BLOCK	      256
#define BLOCKS_PER_SM 8	   /* 2,048 threads fit on an SM, so all blocks are there from the start. */
#define PIECE	      4096 /* Counters the CPU looks at in one place. */
#define N_PIECES      16

static inline __host__ __device__ uint64_t first_value(uint64_t i, bool unique)
{
	return unique ? mix64(i) : 0;
}

__global__ void fill(uint64_t *counters, uint64_t n, bool unique)
{
	const uint64_t stride = (uint64_t)gridDim.x * BLOCK;

	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride)
		counters[i] = first_value(i, unique);
}

/* A thread visits the same counters in every round: no two threads share one. */
__global__ void increment(uint64_t *counters, uint64_t n, uint64_t rounds)
{
	const uint64_t stride = (uint64_t)gridDim.x * BLOCK;

	for (uint64_t r = 0; r < rounds; r++)
		for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride)
			counters[i]++;
}

struct verdict {
	unsigned long long digest, wrong;
};

__global__ void check(const uint64_t *counters, uint64_t n, uint64_t rounds, bool unique,
		      struct verdict *verdict)
{
	const uint64_t stride = (uint64_t)gridDim.x * BLOCK;
	unsigned long long digest = 0, wrong = 0;

	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride) {
		digest += mix64(mix64(i) ^ counters[i]);
		wrong += counters[i] - first_value(i, unique) != rounds;
	}
	atomicAdd(&verdict->digest, digest);
	if (wrong)
		atomicAdd(&verdict->wrong, wrong);
}

/* The CPU's own look at pieces spread from the first counter to the last one. */
static uint64_t check_pieces(const uint64_t *counters, uint64_t n, uint64_t rounds, bool unique)
{
	const uint64_t len = n < PIECE ? n : PIECE;
	uint64_t *piece = host_alloc<uint64_t>(len);
	uint64_t wrong = 0;

	for (uint64_t p = 0; p < N_PIECES; p++) {
		const uint64_t from = (n - len) / (N_PIECES - 1) * p;
		const uint64_t at = p == N_PIECES - 1 ? n - len : from;

		CU(cudaMemcpy(piece, counters + at, len * sizeof(*piece), cudaMemcpyDeviceToHost));
		for (uint64_t i = 0; i < len; i++)
			wrong += piece[i] != first_value(at + i, unique) + rounds;
	}
	free(piece);
	return wrong;
}

int main(int argc, char **argv)
{
	uint64_t mb = 64, rounds = 250, unique = 0;
	const struct option_def defs[] = {
		{ "mb", &mb, 1, 1 << 20, "device memory in MiB" },
		{ "rounds", &rounds, 1, 1ull << 40, "increments of each counter" },
		{ "unique", &unique, 0, 1, "1: counters start at different numbers" },
	};
	options_parse(argc, argv, "Increments counters all over its memory in one long kernel.",
		      defs);

	const uint64_t n = mb * MIB / sizeof(uint64_t);
	struct verdict verdict = { 0, 0 };
	int n_sm;

	CU(cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, 0));
	const unsigned grid = (unsigned)n_sm * BLOCKS_PER_SM;
	uint64_t *counters = device_alloc<uint64_t>(NULL, n);
	struct verdict *dev_verdict = device_alloc(&verdict, 1);

	fill<<<grid, BLOCK>>>(counters, n, unique);
	CU(cudaGetLastError());
	CU(cudaDeviceSynchronize());

	printf("fill: running mb=%llu rounds=%llu\n", (unsigned long long)mb,
	       (unsigned long long)rounds);
	fflush(stdout);
	const double start = now_s();
	increment<<<grid, BLOCK>>>(counters, n, rounds);
	CU(cudaGetLastError());
	CU(cudaDeviceSynchronize());
	const double seconds = now_s() - start;

	check<<<grid, BLOCK>>>(counters, n, rounds, unique, dev_verdict);
	CU(cudaGetLastError());
	CU(cudaMemcpy(&verdict, dev_verdict, sizeof(verdict), cudaMemcpyDeviceToHost));
	const uint64_t wrong = verdict.wrong + check_pieces(counters, n, rounds, unique);
	CU(cudaFree(counters));
	CU(cudaFree(dev_verdict));
	return report("fill", fnv64(FNV_INIT, &verdict.digest, sizeof(verdict.digest)), wrong,
		      seconds);
}
