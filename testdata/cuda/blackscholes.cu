/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blackscholes: prices European options with the closed formula, single precision, adding up the
 * prices over rounds of growing volatility. Uses logf, expf and sqrtf.
 *
 * The device's logf and expf are not rounded as the CPU's are: a result may differ from a double
 * precision reference by TOLERANCE a round (prices are below 100, a float holds 6e-8 of that).
 */
#include "common.h"

#include <math.h>

#define BLOCK	  256
#define RISK_FREE 0.02f
#define TOLERANCE 1e-3

/* Volatility of a round; 1/64 is exact, so host and device mean the same number. */
static inline __host__ __device__ float volatility(uint32_t round)
{
	return (float)(8 + round % 32) * (1.0f / 64);
}

/* The normal distribution's integral by Abramowitz and Stegun 26.2.17, error below 7.5e-8. */
static __device__ float normal(float x)
{
	const float k = 1.0f / fmaf(0.2316419f, fabsf(x), 1.0f);
	float p = 1.330274429f;

	p = fmaf(p, k, -1.821255978f);
	p = fmaf(p, k, 1.781477937f);
	p = fmaf(p, k, -0.356563782f);
	p = fmaf(p, k, 0.319381530f);
	p = p * k * 0.39894228f * expf(-0.5f * x * x);
	return x > 0 ? 1.0f - p : p;
}

__global__ void price(const float *spot, const float *strike, const float *years, float *call,
		      float *put, uint64_t n, uint32_t round)
{
	const uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;

	if (i >= n)
		return;
	const float s = spot[i], x = strike[i], t = years[i], vol = volatility(round);
	const float spread = vol * sqrtf(t);
	const float d1 = fmaf(fmaf(0.5f * vol, vol, RISK_FREE), t, logf(s / x)) / spread;
	const float n1 = normal(d1), n2 = normal(d1 - spread);
	const float discounted = x * expf(-RISK_FREE * t);

	call[i] += fmaf(s, n1, -(discounted * n2));
	put[i] += fmaf(discounted, 1.0f - n2, -(s * (1.0f - n1)));
}

static double normal_double(double x)
{
	return 0.5 * erfc(-x / sqrt(2.0));
}

static bool option_is_right(double s, double x, double t, double call, double put, uint64_t rounds)
{
	double want_call = 0, want_put = 0;

	for (uint64_t r = 0; r < rounds; r++) {
		const double vol = volatility((uint32_t)r), spread = vol * sqrt(t);
		const double rate = (double)RISK_FREE;
		const double d1 = (log(s / x) + (rate + 0.5 * vol * vol) * t) / spread;
		const double n1 = normal_double(d1), n2 = normal_double(d1 - spread);
		const double discounted = x * exp(-rate * t);

		want_call += s * n1 - discounted * n2;
		want_put += discounted * (1 - n2) - s * (1 - n1);
	}
	/* Written so that a NaN is wrong. */
	return fabs(call - want_call) <= TOLERANCE * (double)rounds &&
	       fabs(put - want_put) <= TOLERANCE * (double)rounds;
}

int main(int argc, char **argv)
{
	enum { SPOT, STRIKE, YEARS, CALL, PUT, N_ARRAYS };
	uint64_t mb = 40, rounds = 20;
	const struct option_def defs[] = {
		{ "mb", &mb, 1, 1 << 20, "device memory in MiB" },
		{ "rounds", &rounds, 1, 4096, "volatilities to sum over" },
	};
	options_parse(argc, argv, "Prices European options.", defs);

	const uint64_t n = mb * MIB / (N_ARRAYS * sizeof(float));
	const uint64_t n_bytes = n * sizeof(float);
	float *host[N_ARRAYS], *dev[N_ARRAYS];

	for (int a = 0; a < N_ARRAYS; a++)
		host[a] = host_alloc<float>(n);
	for (uint64_t i = 0; i < n; i++) {
		host[SPOT][i] = fmaf(unit_float(4 * i), 20.0f, 50.0f);
		host[STRIKE][i] = fmaf(unit_float(4 * i + 1), 40.0f, 50.0f);
		host[YEARS][i] = fmaf(unit_float(4 * i + 2), 2.0f, 2.25f);
		host[CALL][i] = host[PUT][i] = 0;
	}
	double start = now_s();
	for (int a = 0; a < N_ARRAYS; a++) {
		CU(cudaMalloc(&dev[a], n_bytes));
		CU(cudaMemcpy(dev[a], host[a], n_bytes, cudaMemcpyHostToDevice));
	}
	for (uint32_t r = 0; r < rounds; r++) {
		price<<<(unsigned)((n + BLOCK - 1) / BLOCK), BLOCK>>>(
			dev[SPOT], dev[STRIKE], dev[YEARS], dev[CALL], dev[PUT], n, r);
		CU(cudaGetLastError());
	}
	CU(cudaMemcpy(host[CALL], dev[CALL], n_bytes, cudaMemcpyDeviceToHost));
	CU(cudaMemcpy(host[PUT], dev[PUT], n_bytes, cudaMemcpyDeviceToHost));
	double seconds = now_s() - start;

	const uint64_t step = sample_step(n, (1 << 21) / rounds);
	uint64_t wrong = 0;
	for (uint64_t i = 0; i < n; i += step)
		wrong += !option_is_right(host[SPOT][i], host[STRIKE][i], host[YEARS][i],
					  host[CALL][i], host[PUT][i], rounds);
	uint64_t hash = fnv64(FNV_INIT, host[CALL], n_bytes);
	hash = fnv64(hash, host[PUT], n_bytes);
	for (int a = 0; a < N_ARRAYS; a++) {
		CU(cudaFree(dev[a]));
		free(host[a]);
	}
	return report("blackscholes", hash, wrong, seconds);
}
