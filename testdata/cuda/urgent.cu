/* SPDX-License-Identifier: Apache-2.0 */
/*
 * urgent: short work that needs much memory at once: fills its memory, multiplies two small
 * matrices, then adds up the whole memory --rounds times.
 *
 * The value at i is i * FACTOR + START modulo 2^64: no two pieces of the memory are alike, and the
 * CPU knows the sum from a formula whatever the size. All matrix elements are checked bit for bit.
 * The seconds count from before the allocation: waiting for memory is part of them.
 */
#include "common.h"

#define BLOCK	      256
#define BLOCKS_PER_SM 8
#define TILE	      16
#define SIDE	      256 /* Of the matrices; a multiple of TILE. */
#define FACTOR	      0x9e3779b97f4a7c15ull
#define START	      0x94d049bb133111ebull

__global__ void fill(uint64_t *memory, uint64_t n)
{
	const uint64_t stride = (uint64_t)gridDim.x * BLOCK;

	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride)
		memory[i] = i * FACTOR + START;
}

struct verdict {
	unsigned long long sum, wrong;
};

__global__ void check(const uint64_t *memory, uint64_t n, struct verdict *verdict)
{
	const uint64_t stride = (uint64_t)gridDim.x * BLOCK;
	unsigned long long sum = 0, wrong = 0;

	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride) {
		sum += memory[i];
		wrong += memory[i] != i * FACTOR + START;
	}
	atomicAdd(&verdict->sum, sum);
	if (wrong)
		atomicAdd(&verdict->wrong, wrong);
}

__global__ void matmul(const float *a, const float *b, float *c)
{
	__shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
	const unsigned x = threadIdx.x, y = threadIdx.y;
	const unsigned row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
	float sum = 0;

	for (unsigned k0 = 0; k0 < SIDE; k0 += TILE) {
		tile_a[y][x] = a[row * SIDE + k0 + x];
		tile_b[y][x] = b[(k0 + y) * SIDE + col];
		__syncthreads();
		for (unsigned k = 0; k < TILE; k++)
			sum = fmaf(tile_a[y][k], tile_b[k][x], sum);
		__syncthreads();
	}
	c[row * SIDE + col] = sum;
}

static uint64_t check_matrix(const float *a, const float *b, const float *c)
{
	uint64_t wrong = 0;

	for (unsigned row = 0; row < SIDE; row++) {
		float want[SIDE] = { 0 };

		for (unsigned k = 0; k < SIDE; k++)
			for (unsigned col = 0; col < SIDE; col++)
				want[col] = fmaf(a[row * SIDE + k], b[k * SIDE + col], want[col]);
		for (unsigned col = 0; col < SIDE; col++)
			wrong += memcmp(&want[col], &c[row * SIDE + col], sizeof(float)) != 0;
	}
	return wrong;
}

static void run_matmul(const float *a, const float *b, float *c)
{
	float *dev_a = device_alloc(a, SIDE * SIDE), *dev_b = device_alloc(b, SIDE * SIDE);
	float *dev_c = device_alloc<float>(NULL, SIDE * SIDE);

	matmul<<<dim3(SIDE / TILE, SIDE / TILE), dim3(TILE, TILE)>>>(dev_a, dev_b, dev_c);
	CU(cudaGetLastError());
	CU(cudaMemcpy(c, dev_c, SIDE * SIDE * sizeof(float), cudaMemcpyDeviceToHost));
	CU(cudaFree(dev_a));
	CU(cudaFree(dev_b));
	CU(cudaFree(dev_c));
}

int main(int argc, char **argv)
{
	uint64_t mb = 64, rounds = 10;
	const struct option_def defs[] = {
		{ "mb", &mb, 1, 1 << 20, "device memory in MiB" },
		{ "rounds", &rounds, 1, 1u << 30, "sums over the whole memory" },
	};
	options_parse(argc, argv, "Short work over much memory.", defs);

	const uint64_t n = mb * MIB / sizeof(uint64_t);
	uint64_t *memory;
	float *a = host_alloc<float>(SIDE * SIDE), *b = host_alloc<float>(SIDE * SIDE);
	float *c = host_alloc<float>(SIDE * SIDE);
	struct verdict verdict = { 0, 0 };
	int n_sm;

	for (unsigned i = 0; i < SIDE * SIDE; i++) {
		a[i] = unit_float(2 * i);
		b[i] = unit_float(2 * i + 1);
	}
	const double start = now_s();
	CU(cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, 0));
	const unsigned grid = (unsigned)n_sm * BLOCKS_PER_SM;
	memory = device_alloc<uint64_t>(NULL, n);
	struct verdict *dev_verdict = device_alloc(&verdict, 1);
	fill<<<grid, BLOCK>>>(memory, n);
	CU(cudaGetLastError());
	run_matmul(a, b, c);
	for (uint64_t r = 0; r < rounds; r++) {
		check<<<grid, BLOCK>>>(memory, n, dev_verdict);
		CU(cudaGetLastError());
	}
	CU(cudaMemcpy(&verdict, dev_verdict, sizeof(verdict), cudaMemcpyDeviceToHost));
	CU(cudaFree(memory));
	CU(cudaFree(dev_verdict));
	const double seconds = now_s() - start;

	/* n is even, so n * (n - 1) / 2 is exact even modulo 2^64. */
	uint64_t wrong = check_matrix(a, b, c) + verdict.wrong;
	wrong += verdict.sum != rounds * (n / 2 * (n - 1) * FACTOR + n * START);
	uint64_t hash = fnv64(FNV_INIT, c, SIDE * SIDE * sizeof(float));
	hash = fnv64(hash, &verdict.sum, sizeof(verdict.sum));
	free(a);
	free(b);
	free(c);
	return report("urgent", hash, wrong, seconds);
}
