/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlp: trains a perceptron with one hidden layer (128 - 256 - 16, ReLU, squared error) by SGD over
 * a data set that fills the device memory: forward, backward, update, nine launches a step.
 *
 * Every sum runs in ascending order through fmaf() and nothing else is rounded twice, so the CPU
 * repeats a step bit for bit: it checks the first and the last one, starting from the weights that
 * the device had before it, and that the error fell in between.
 */
#include "common.h"

#define TILE   16
#define BATCH  256
#define IN     128
#define HIDDEN 256
#define OUT    16
#define RATE   0.125f

/* All trained numbers in one array: w1[IN][HIDDEN], then w2[HIDDEN][OUT]. */
enum { W1 = 0, W2 = IN * HIDDEN, N_WEIGHTS = W2 + HIDDEN * OUT };

/* c[m][n] = op(a)[m][k] * op(b)[k][n]; TA, TB: that matrix is stored transposed. Sizes % TILE == 0.
 */
template <bool TA, bool TB>
__global__ void gemm(const float *a, const float *b, float *c, unsigned m, unsigned n, unsigned k)
{
	__shared__ float tile_a[TILE][TILE + 1], tile_b[TILE][TILE + 1];
	const unsigned x = threadIdx.x, y = threadIdx.y;
	const unsigned row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
	float sum = 0;

	for (unsigned k0 = 0; k0 < k; k0 += TILE) {
		if (TA)
			tile_a[x][y] = a[(k0 + y) * m + row0 + x];
		else
			tile_a[y][x] = a[(row0 + y) * k + k0 + x];
		if (TB)
			tile_b[x][y] = b[(col0 + y) * k + k0 + x];
		else
			tile_b[y][x] = b[(k0 + y) * n + col0 + x];
		__syncthreads();
		for (unsigned i = 0; i < TILE; i++)
			sum = fmaf(tile_a[y][i], tile_b[i][x], sum);
		__syncthreads();
	}
	c[(row0 + y) * n + col0 + x] = sum;
}

/* Clears v where @by is not positive: ReLU with v == by, its gradient with by = the activation. */
__global__ void rectify(float *v, const float *by)
{
	const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (!(by[i] > 0))
		v[i] = 0;
}

/* Replaces the output by the gradient there. */
__global__ void output_gradient(float *y, const float *target)
{
	const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	y[i] = (y[i] - target[i]) * (1.0f / BATCH);
}

__global__ void update(float *w, const float *gradient)
{
	const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	w[i] = fmaf(-RATE, gradient[i], w[i]);
}

struct net {
	float *w, *g, *h, *dh, *y;
};

template <bool TA, bool TB>
static void device_gemm(const float *a, const float *b, float *c, unsigned m, unsigned n,
			unsigned k)
{
	gemm<TA, TB><<<dim3(n / TILE, m / TILE), dim3(TILE, TILE)>>>(a, b, c, m, n, k);
}

static void device_step(const struct net *d, const float *x, const float *target)
{
	device_gemm<false, false>(x, d->w + W1, d->h, BATCH, HIDDEN, IN);
	rectify<<<BATCH, HIDDEN>>>(d->h, d->h);
	device_gemm<false, false>(d->h, d->w + W2, d->y, BATCH, OUT, HIDDEN);
	output_gradient<<<BATCH, OUT>>>(d->y, target);
	device_gemm<true, false>(d->h, d->y, d->g + W2, HIDDEN, OUT, BATCH);
	device_gemm<false, true>(d->y, d->w + W2, d->dh, BATCH, HIDDEN, OUT);
	rectify<<<BATCH, HIDDEN>>>(d->dh, d->h);
	device_gemm<true, false>(x, d->dh, d->g + W1, IN, HIDDEN, BATCH);
	update<<<N_WEIGHTS / 256, 256>>>(d->w, d->g);
	CU(cudaGetLastError());
}

/* The same step on the CPU, in place on @w; returns the mean squared error before it. */
static double host_step(float *w, const float *x, const float *target)
{
	float *g = host_alloc<float>(N_WEIGHTS);
	double error = 0;

	memset(g, 0, N_WEIGHTS * sizeof(*g));
	for (unsigned s = 0; s < BATCH; s++) {
		float h[HIDDEN] = { 0 }, dh[HIDDEN] = { 0 };

		for (unsigned i = 0; i < IN; i++)
			for (unsigned j = 0; j < HIDDEN; j++)
				h[j] = fmaf(x[s * IN + i], w[W1 + i * HIDDEN + j], h[j]);
		for (unsigned j = 0; j < HIDDEN; j++)
			h[j] = h[j] > 0 ? h[j] : 0;
		for (unsigned o = 0; o < OUT; o++) {
			float y = 0;

			for (unsigned j = 0; j < HIDDEN; j++)
				y = fmaf(h[j], w[W2 + j * OUT + o], y);
			y -= target[s * OUT + o];
			error += (double)y * y / (BATCH * OUT);
			y *= 1.0f / BATCH;
			for (unsigned j = 0; j < HIDDEN; j++) {
				g[W2 + j * OUT + o] = fmaf(h[j], y, g[W2 + j * OUT + o]);
				dh[j] = fmaf(y, w[W2 + j * OUT + o], dh[j]);
			}
		}
		for (unsigned i = 0; i < IN; i++)
			for (unsigned j = 0; j < HIDDEN; j++)
				g[W1 + i * HIDDEN + j] = fmaf(x[s * IN + i], h[j] > 0 ? dh[j] : 0,
							      g[W1 + i * HIDDEN + j]);
	}
	for (unsigned i = 0; i < N_WEIGHTS; i++)
		w[i] = fmaf(-RATE, g[i], w[i]);
	free(g);
	return error;
}

static void make_sample(uint64_t s, float *x, float *target)
{
	for (unsigned i = 0; i < IN; i++)
		x[i] = unit_float(s * IN + i);
	for (unsigned o = 0; o < OUT; o++)
		target[o] = fmaf(-0.5f, x[o + OUT], x[o] > 0 ? x[o] : 0);
}

int main(int argc, char **argv)
{
	uint64_t mb = 32, rounds = 50;
	const struct option_def defs[] = {
		{ "mb", &mb, 1, 1 << 20, "device memory in MiB, for the data set" },
		{ "rounds", &rounds, 2, 1u << 30, "training steps" },
	};
	options_parse(argc, argv, "Trains a small perceptron.", defs);

	const uint64_t n_batches = mb * MIB / (BATCH * (IN + OUT) * sizeof(float));
	const uint64_t n = n_batches * BATCH;
	float *x = host_alloc<float>(n * IN), *target = host_alloc<float>(n * OUT);
	float *w = host_alloc<float>(N_WEIGHTS), *want = host_alloc<float>(N_WEIGHTS);

	for (uint64_t s = 0; s < n; s++)
		make_sample(s, x + s * IN, target + s * OUT);
	for (unsigned i = 0; i < N_WEIGHTS; i++)
		w[i] = unit_float(~(uint64_t)i) * 0.125f;
	const double start = now_s();
	float *dev_x = device_alloc(x, n * IN), *dev_target = device_alloc(target, n * OUT);
	const struct net d = { device_alloc(w, N_WEIGHTS), device_alloc<float>(NULL, N_WEIGHTS),
			       device_alloc<float>(NULL, BATCH * HIDDEN),
			       device_alloc<float>(NULL, BATCH * HIDDEN),
			       device_alloc<float>(NULL, BATCH * OUT) };

	uint64_t wrong = 0;
	double error[2] = { 0, 0 };
	for (uint64_t r = 0; r < rounds; r++) {
		const uint64_t first = r % n_batches * BATCH;
		const bool checked = r == 0 || r == rounds - 1;

		if (checked) {
			CU(cudaMemcpy(want, d.w, N_WEIGHTS * sizeof(float),
				      cudaMemcpyDeviceToHost));
			error[r != 0] = host_step(want, x + first * IN, target + first * OUT);
		}
		device_step(&d, dev_x + first * IN, dev_target + first * OUT);
		if (!checked)
			continue;
		CU(cudaMemcpy(w, d.w, N_WEIGHTS * sizeof(float), cudaMemcpyDeviceToHost));
		for (unsigned i = 0; i < N_WEIGHTS; i++)
			wrong += memcmp(&w[i], &want[i], sizeof(float)) != 0;
	}
	const double seconds = now_s() - start;
	wrong += !(error[1] < error[0]);
	printf("mlp: mean squared error %.4f -> %.4f\n", error[0], error[1]);
	float *dev[] = { dev_x, dev_target, d.w, d.g, d.h, d.dh, d.y };
	for (float *p : dev)
		CU(cudaFree(p));
	const uint64_t hash = fnv64(FNV_INIT, w, N_WEIGHTS * sizeof(float));
	free(x);
	free(target);
	free(w);
	free(want);
	return report("mlp", hash, wrong, seconds);
}
