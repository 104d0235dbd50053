/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vecadd: three vectors of 32-bit integers, each round replaces the oldest by the sum of the other
 * two. Many short launches on the default stream; all memory changes all the time.
 *
 * After r rounds an element is F(r) * a + F(r + 1) * b modulo 2^32 with Fibonacci numbers F, so the
 * check costs one pass whatever the number of rounds.
 */
#include "common.h"

__global__ void vecadd(const uint32_t *a, const uint32_t *b, uint32_t *c, uint64_t n)
{
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

int main(int argc, char **argv)
{
	uint64_t mb = 48, rounds = 40;
	const struct option_def defs[] = {
		{ "mb", &mb, 1, 1 << 20, "device memory in MiB" },
		{ "rounds", &rounds, 1, 1u << 30, "vector additions" },
	};
	options_parse(argc, argv, "Adds integer vectors.", defs);

	const uint64_t n = mb * MIB / (3 * sizeof(uint32_t));
	const uint64_t n_bytes = n * sizeof(uint32_t);
	uint32_t *a = host_alloc<uint32_t>(n), *b = host_alloc<uint32_t>(n);
	uint32_t *result = host_alloc<uint32_t>(n);
	uint32_t *dev[3];

	for (uint64_t i = 0; i < n; i++) {
		a[i] = (uint32_t)mix64(2 * i);
		b[i] = (uint32_t)mix64(2 * i + 1);
	}
	double start = now_s();
	for (int v = 0; v < 3; v++)
		CU(cudaMalloc(&dev[v], n_bytes));
	CU(cudaMemcpy(dev[0], a, n_bytes, cudaMemcpyHostToDevice));
	CU(cudaMemcpy(dev[1], b, n_bytes, cudaMemcpyHostToDevice));

	/* The vector of round r is fa[r % 3] * a + fb[r % 3] * b. */
	uint32_t fa[3] = { 1, 0, 0 }, fb[3] = { 0, 1, 0 };
	for (uint64_t r = 0; r < rounds; r++) {
		const uint64_t x = r % 3, y = (r + 1) % 3, z = (r + 2) % 3;

		vecadd<<<(unsigned)((n + 255) / 256), 256>>>(dev[x], dev[y], dev[z], n);
		CU(cudaGetLastError());
		fa[z] = fa[x] + fa[y];
		fb[z] = fb[x] + fb[y];
	}
	CU(cudaDeviceSynchronize());
	double seconds = now_s() - start;

	uint64_t hash = FNV_INIT, wrong = 0;
	for (int v = 0; v < 3; v++) {
		CU(cudaMemcpy(result, dev[v], n_bytes, cudaMemcpyDeviceToHost));
		hash = fnv64(hash, result, n_bytes);
		for (uint64_t i = 0; i < n; i++)
			wrong += result[i] != fa[v] * a[i] + fb[v] * b[i];
		CU(cudaFree(dev[v]));
	}
	free(a);
	free(b);
	free(result);
	return report("vecadd", hash, wrong, seconds);
}
