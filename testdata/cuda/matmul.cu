/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul: C += A * B in single precision, square matrices, tiles of 32 x 32 in shared memory, one
 * launch a round.
 *
 * Each element is one chain of fmaf() in ascending k that goes on from round to round, so the CPU
 * computes any element alone and bit for bit; large runs check a sample.
 */
#include "common.h"

#define TILE 32
#define ROWS 8 /* Rows of the block: each thread computes TILE / ROWS elements of one column. */

/* @n is a multiple of TILE; block TILE x ROWS, grid n/TILE x n/TILE. */
__global__ void matmul(const float *a, const float *b, float *c, uint32_t n)
{
	__shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
	const uint32_t x = threadIdx.x, y = threadIdx.y;
	const uint64_t col = (uint64_t)blockIdx.x * TILE + x;
	const uint64_t row = (uint64_t)blockIdx.y * TILE + y;
	float sum[TILE / ROWS];

	for (uint32_t j = 0; j < TILE / ROWS; j++)
		sum[j] = c[(row + j * ROWS) * n + col];
	for (uint32_t k0 = 0; k0 < n; k0 += TILE) {
		for (uint32_t j = 0; j < TILE / ROWS; j++) {
			tile_a[y + j * ROWS][x] = a[(row + j * ROWS) * n + k0 + x];
			tile_b[y + j * ROWS][x] = b[((uint64_t)k0 + y + j * ROWS) * n + col];
		}
		__syncthreads();
		for (uint32_t k = 0; k < TILE; k++)
			for (uint32_t j = 0; j < TILE / ROWS; j++)
				sum[j] = fmaf(tile_a[y + j * ROWS][k], tile_b[k][x], sum[j]);
		__syncthreads();
	}
	for (uint32_t j = 0; j < TILE / ROWS; j++)
		c[(row + j * ROWS) * n + col] = sum[j];
}

static float reference(const float *a, const float *b, uint64_t n, uint64_t rounds, uint64_t at)
{
	const uint64_t row = at / n, col = at % n;
	float sum = 0;

	for (uint64_t r = 0; r < rounds; r++)
		for (uint64_t k = 0; k < n; k++)
			sum = fmaf(a[row * n + k], b[k * n + col], sum);
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t mb = 20, rounds = 2;
	const struct option_def defs[] = {
		{ "mb", &mb, 1, 1 << 20, "device memory in MiB" },
		{ "rounds", &rounds, 1, 1u << 30, "multiplications" },
	};
	options_parse(argc, argv, "Multiplies square matrices.", defs);

	uint64_t n = TILE;
	while (3 * sizeof(float) * (n + TILE) * (n + TILE) <= mb * MIB)
		n += TILE;
	const uint64_t n_bytes = n * n * sizeof(float);
	float *a = host_alloc<float>(n * n), *b = host_alloc<float>(n * n);
	float *c = host_alloc<float>(n * n);
	float *dev_a, *dev_b, *dev_c;

	for (uint64_t i = 0; i < n * n; i++) {
		a[i] = unit_float(2 * i);
		b[i] = unit_float(2 * i + 1);
	}
	double start = now_s();
	CU(cudaMalloc(&dev_a, n_bytes));
	CU(cudaMalloc(&dev_b, n_bytes));
	CU(cudaMalloc(&dev_c, n_bytes));
	CU(cudaMemcpy(dev_a, a, n_bytes, cudaMemcpyHostToDevice));
	CU(cudaMemcpy(dev_b, b, n_bytes, cudaMemcpyHostToDevice));
	CU(cudaMemset(dev_c, 0, n_bytes));
	const dim3 grid((unsigned)(n / TILE), (unsigned)(n / TILE)), block(TILE, ROWS);
	for (uint64_t r = 0; r < rounds; r++) {
		matmul<<<grid, block>>>(dev_a, dev_b, dev_c, (uint32_t)n);
		CU(cudaGetLastError());
	}
	CU(cudaDeviceSynchronize());
	double seconds = now_s() - start;

	CU(cudaMemcpy(c, dev_c, n_bytes, cudaMemcpyDeviceToHost));
	/* About 2^26 multiplications on the CPU; an odd step wanders over the columns. */
	const uint64_t step = sample_step(n * n, (1 << 26) / (n * rounds) + 1) | 1;
	uint64_t wrong = 0;
	for (uint64_t i = 0; i < n * n; i += step) {
		const float want = reference(a, b, n, rounds, i);

		wrong += memcmp(&want, &c[i], sizeof(want)) != 0;
	}
	const uint64_t hash = fnv64(FNV_INIT, c, n_bytes);
	CU(cudaFree(dev_a));
	CU(cudaFree(dev_b));
	CU(cudaFree(dev_c));
	free(a);
	free(b);
	free(c);
	return report("matmul", hash, wrong, seconds);
}
