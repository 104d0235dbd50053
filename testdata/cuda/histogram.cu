/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram: counts bytes with integer atomics. Even rounds collect in shared memory and add the
 * block's bins to the total, odd rounds count in global memory at once; a last kernel finds
 * extremes with atomicMin, atomicMax, atomicXor and a compare-and-swap loop.
 *
 * Round r counts (byte + r) % 256, so the CPU counts once and rotates the bins.
 */
#include "common.h"

#define BINS	 256
#define BLOCK	 256
#define N_BLOCKS 256

struct extremes {
	unsigned int min, max, xored, cas_sum;
};

__global__ void count_shared(const uint32_t *words, uint64_t n, uint32_t round,
			     unsigned long long *total)
{
	__shared__ unsigned int bins[BINS];
	const uint64_t stride = (uint64_t)gridDim.x * BLOCK;

	bins[threadIdx.x] = 0;
	__syncthreads();
	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride)
		for (unsigned s = 0; s < 32; s += 8)
			atomicAdd(&bins[((words[i] >> s) + round) % BINS], 1u);
	__syncthreads();
	atomicAdd(&total[threadIdx.x], (unsigned long long)bins[threadIdx.x]);
}

__global__ void count_global(const uint32_t *words, uint64_t n, uint32_t round,
			     unsigned long long *total)
{
	const uint64_t stride = (uint64_t)gridDim.x * BLOCK;

	for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride)
		for (unsigned s = 0; s < 32; s += 8)
			atomicAdd(&total[((words[i] >> s) + round) % BINS], 1ull);
}

__global__ void find_extremes(const uint32_t *words, uint64_t n, struct extremes *e)
{
	const uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
	unsigned int seen, expected;

	if (i >= n)
		return;
	atomicMin(&e->min, words[i]);
	atomicMax(&e->max, words[i]);
	atomicXor(&e->xored, words[i]);
	seen = e->cas_sum;
	do {
		expected = seen;
		seen = atomicCAS(&e->cas_sum, expected, expected + words[i]);
	} while (seen != expected);
}

static uint64_t check(const uint32_t *words, uint64_t n, uint64_t n_ext, uint64_t rounds,
		      const unsigned long long *total, const struct extremes *got)
{
	struct extremes want = { UINT32_MAX, 0, 0, 0 };
	uint64_t once[BINS] = { 0 };
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < n; i++)
		for (unsigned s = 0; s < 32; s += 8)
			once[(words[i] >> s) % BINS]++;
	for (unsigned bin = 0; bin < BINS; bin++) {
		unsigned long long sum = 0;

		/* The rotation repeats after BINS rounds. */
		for (uint64_t r = 0; r < BINS; r++)
			sum += once[(bin + BINS - r) % BINS] *
			       (rounds / BINS + (r < rounds % BINS ? 1 : 0));
		wrong += total[bin] != sum;
	}
	for (uint64_t i = 0; i < n_ext; i++) {
		want.min = words[i] < want.min ? words[i] : want.min;
		want.max = words[i] > want.max ? words[i] : want.max;
		want.xored ^= words[i];
		want.cas_sum += words[i];
	}
	wrong += got->min != want.min;
	wrong += got->max != want.max;
	wrong += got->xored != want.xored;
	return wrong + (got->cas_sum != want.cas_sum);
}

int main(int argc, char **argv)
{
	uint64_t mb = 32, rounds = 8;
	const struct option_def defs[] = {
		{ "mb", &mb, 1, 1 << 20, "device memory in MiB" },
		{ "rounds", &rounds, 1, 1u << 30, "passes over the memory" },
	};
	options_parse(argc, argv, "Counts bytes with atomics.", defs);

	const uint64_t n = mb * MIB / sizeof(uint32_t);
	const uint64_t n_ext = 1 << 16; /* All threads meet at one address: kept small. */
	uint32_t *words = host_alloc<uint32_t>(n);
	unsigned long long total[BINS];
	struct extremes ext = { UINT32_MAX, 0, 0, 0 };
	uint32_t *dev_words;
	unsigned long long *dev_total;
	struct extremes *dev_ext;

	/* The product of two random numbers: low values are more frequent in the top byte. */
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t x = mix64(i);

		words[i] = (uint32_t)((x >> 32) * (x & UINT32_MAX) >> 32);
	}
	double start = now_s();
	CU(cudaMalloc(&dev_words, n * sizeof(*words)));
	CU(cudaMalloc(&dev_total, sizeof(total)));
	CU(cudaMalloc(&dev_ext, sizeof(ext)));
	CU(cudaMemcpy(dev_words, words, n * sizeof(*words), cudaMemcpyHostToDevice));
	CU(cudaMemcpy(dev_ext, &ext, sizeof(ext), cudaMemcpyHostToDevice));
	CU(cudaMemset(dev_total, 0, sizeof(total)));
	for (uint64_t r = 0; r < rounds; r++) {
		const uint32_t shift = (uint32_t)(r % BINS);

		if (r % 2 == 0)
			count_shared<<<N_BLOCKS, BLOCK>>>(dev_words, n, shift, dev_total);
		else
			count_global<<<N_BLOCKS, BLOCK>>>(dev_words, n, shift, dev_total);
		CU(cudaGetLastError());
	}
	find_extremes<<<(unsigned)(n_ext / BLOCK), BLOCK>>>(dev_words, n_ext, dev_ext);
	CU(cudaGetLastError());
	CU(cudaMemcpy(total, dev_total, sizeof(total), cudaMemcpyDeviceToHost));
	CU(cudaMemcpy(&ext, dev_ext, sizeof(ext), cudaMemcpyDeviceToHost));
	double seconds = now_s() - start;

	const uint64_t wrong = check(words, n, n_ext, rounds, total, &ext);
	const uint64_t hash = fnv64(fnv64(FNV_INIT, total, sizeof(total)), &ext, sizeof(ext));
	CU(cudaFree(dev_words));
	CU(cudaFree(dev_total));
	CU(cudaFree(dev_ext));
	free(words);
	return report("histogram", hash, wrong, seconds);
}
