/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mandelbrot: escape times over a square of the complex plane, one launch. Neighbouring threads
 * leave the loop at different times: the divergent one among these programs.
 *
 * Host and device share the function for a point, correctly rounded throughout, so counts agree
 * exactly; the CPU checks a sample of the pixels.
 */
#include "common.h"

#define SIDE  16 /* Block of SIDE x SIDE pixels. */
#define LEFT  (-2.0f)
#define TOP   (-1.25f)
#define WIDTH 2.5f

static inline __host__ __device__ uint32_t escape_time(float cx, float cy, uint32_t limit)
{
	float x = 0, y = 0;
	uint32_t i;

	for (i = 0; i < limit; i++) {
		const float yy = y * y;

		if (fmaf(x, x, yy) > 4.0f)
			break;
		const float next_x = fmaf(x, x, fmaf(-y, y, cx));

		y = fmaf(x + x, y, cy);
		x = next_x;
	}
	return i;
}

static inline __host__ __device__ uint32_t pixel(uint64_t col, uint64_t row, float scale,
						 uint32_t limit)
{
	return escape_time(fmaf((float)col, scale, LEFT), fmaf((float)row, scale, TOP), limit);
}

__global__ void mandelbrot(uint32_t *image, uint32_t side, float scale, uint32_t limit)
{
	const uint32_t col = blockIdx.x * SIDE + threadIdx.x;
	const uint32_t row = blockIdx.y * SIDE + threadIdx.y;

	if (col < side && row < side)
		image[(uint64_t)row * side + col] = pixel(col, row, scale, limit);
}

int main(int argc, char **argv)
{
	uint64_t mb = 20, rounds = 800;
	const struct option_def defs[] = {
		{ "mb", &mb, 1, 1 << 18, "device memory in MiB (4 bytes a pixel)" },
		{ "rounds", &rounds, 1, UINT32_MAX, "iterations after which a point is inside" },
	};
	options_parse(argc, argv, "Computes escape times of the Mandelbrot set.", defs);

	uint64_t side = SIDE;
	while ((side + 1) * (side + 1) * sizeof(uint32_t) <= mb * MIB)
		side++;
	const float scale = WIDTH / (float)side;
	uint32_t *image = host_alloc<uint32_t>(side * side);
	uint32_t *dev_image;

	double start = now_s();
	CU(cudaMalloc(&dev_image, side * side * sizeof(*image)));
	const unsigned blocks = (unsigned)((side + SIDE - 1) / SIDE);
	mandelbrot<<<dim3(blocks, blocks), dim3(SIDE, SIDE)>>>(dev_image, (uint32_t)side, scale,
							       (uint32_t)rounds);
	CU(cudaGetLastError());
	CU(cudaMemcpy(image, dev_image, side * side * sizeof(*image), cudaMemcpyDeviceToHost));
	double seconds = now_s() - start;

	const uint64_t step = sample_step(side * side, (1 << 26) / rounds + 1) | 1;
	uint64_t wrong = 0;
	for (uint64_t i = 0; i < side * side; i += step)
		wrong += image[i] != pixel(i % side, i / side, scale, (uint32_t)rounds);
	const uint64_t hash = fnv64(FNV_INIT, image, side * side * sizeof(*image));
	CU(cudaFree(dev_image));
	free(image);
	return report("mandelbrot", hash, wrong, seconds);
}
