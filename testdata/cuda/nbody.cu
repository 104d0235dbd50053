/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbody: gravity between all pairs of bodies, tiles of bodies in shared memory, one launch a step.
 * Small memory, much arithmetic with square roots and divisions.
 *
 * Both sides use one function for a pair and add pairs in ascending order, and all operations are
 * correctly rounded, so results agree bit for bit. The CPU checks some bodies of each step,
 * starting from the state that the device had before that step.
 */
#include "common.h"

#define BLOCK	   128
#define TIME_STEP  0.001f
#define SOFTENING  0.01f
#define CHECK_EACH 8 /* Bodies checked in each step. */

/* Adds to @acc the pull of body @q (mass in w) on a body at @p. */
static inline __host__ __device__ void pull(float4 p, float4 q, float3 *acc)
{
	const float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
	const float d2 = fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, SOFTENING)));
	const float inv = 1.0f / sqrtf(d2);
	const float s = q.w * inv * inv * inv;

	acc->x = fmaf(dx, s, acc->x);
	acc->y = fmaf(dy, s, acc->y);
	acc->z = fmaf(dz, s, acc->z);
}

static inline __host__ __device__ void move(float4 *p, float4 *v, float3 acc)
{
	v->x = fmaf(TIME_STEP, acc.x, v->x);
	v->y = fmaf(TIME_STEP, acc.y, v->y);
	v->z = fmaf(TIME_STEP, acc.z, v->z);
	p->x = fmaf(TIME_STEP, v->x, p->x);
	p->y = fmaf(TIME_STEP, v->y, p->y);
	p->z = fmaf(TIME_STEP, v->z, p->z);
}

/* @n is a multiple of BLOCK. */
__global__ void step(const float4 *pos, float4 *vel, float4 *new_pos, unsigned n)
{
	__shared__ float4 tile[BLOCK];
	const unsigned i = blockIdx.x * BLOCK + threadIdx.x;
	float4 p = pos[i], v = vel[i];
	float3 acc = { 0, 0, 0 };

	for (unsigned base = 0; base < n; base += BLOCK) {
		tile[threadIdx.x] = pos[base + threadIdx.x];
		__syncthreads();
		for (unsigned j = 0; j < BLOCK; j++)
			pull(p, tile[j], &acc);
		__syncthreads();
	}
	move(&p, &v, acc);
	new_pos[i] = p;
	vel[i] = v;
}

struct bodies {
	float4 *pos, *vel;
};

static uint64_t check_body(const struct bodies *before, const struct bodies *after, uint64_t n,
			   uint64_t i)
{
	float4 p = before->pos[i], v = before->vel[i];
	float3 acc = { 0, 0, 0 };

	for (uint64_t j = 0; j < n; j++)
		pull(p, before->pos[j], &acc);
	move(&p, &v, acc);
	return memcmp(&p, &after->pos[i], sizeof(p)) != 0 ||
	       memcmp(&v, &after->vel[i], sizeof(v)) != 0;
}

int main(int argc, char **argv)
{
	uint64_t n = 4096, rounds = 30;
	const struct option_def defs[] = {
		{ "bodies", &n, 1, 1 << 24, "number of bodies, rounded up to a multiple of 128" },
		{ "rounds", &rounds, 1, 1u << 30, "time steps" },
	};
	options_parse(argc, argv, "Moves bodies under gravity.", defs);

	n = (n + BLOCK - 1) / BLOCK * BLOCK;
	const uint64_t n_bytes = n * sizeof(float4);
	struct bodies host[2];
	float4 *dev_pos[2], *dev_vel;

	for (int s = 0; s < 2; s++) {
		host[s].pos = host_alloc<float4>(n);
		host[s].vel = host_alloc<float4>(n);
		CU(cudaMalloc(&dev_pos[s], n_bytes));
	}
	CU(cudaMalloc(&dev_vel, n_bytes));
	for (uint64_t i = 0; i < n; i++) {
		const float mass = (1.5f + unit_float(8 * i + 3)) / (float)n;

		host[0].pos[i] = make_float4(unit_float(8 * i), unit_float(8 * i + 1),
					     unit_float(8 * i + 2), mass);
		host[0].vel[i] = make_float4(unit_float(8 * i + 4), unit_float(8 * i + 5),
					     unit_float(8 * i + 6), 0);
	}
	CU(cudaMemcpy(dev_pos[0], host[0].pos, n_bytes, cudaMemcpyHostToDevice));
	CU(cudaMemcpy(dev_vel, host[0].vel, n_bytes, cudaMemcpyHostToDevice));

	uint64_t hash = FNV_INIT, wrong = 0;
	double seconds = 0;
	for (uint64_t r = 0; r < rounds; r++) {
		const struct bodies *before = &host[r % 2], *after = &host[(r + 1) % 2];
		const double start = now_s();

		step<<<(unsigned)(n / BLOCK), BLOCK>>>(dev_pos[r % 2], dev_vel,
						       dev_pos[(r + 1) % 2], (unsigned)n);
		CU(cudaGetLastError());
		CU(cudaMemcpy(after->pos, dev_pos[(r + 1) % 2], n_bytes, cudaMemcpyDeviceToHost));
		CU(cudaMemcpy(after->vel, dev_vel, n_bytes, cudaMemcpyDeviceToHost));
		seconds += now_s() - start;
		for (uint64_t k = 0; k < CHECK_EACH; k++)
			wrong += check_body(before, after, n, mix64(r * CHECK_EACH + k) % n);
		hash = fnv64(fnv64(hash, after->pos, n_bytes), after->vel, n_bytes);
	}
	for (int s = 0; s < 2; s++) {
		free(host[s].pos);
		free(host[s].vel);
		CU(cudaFree(dev_pos[s]));
	}
	CU(cudaFree(dev_vel));
	return report("nbody", hash, wrong, seconds);
}
