/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Origin: written for this project. kernels_*.ptx are made from it by regen.sh beside it.
 */
#include <cstdio>
#include <cassert>

__constant__ float c_weight[4] = { 1.0f, 2.0f, 3.0f, 4.0f };
__device__ int d_table[3] = { 7, 8, 9 };
__device__ int *d_pointers[2] = { d_table, d_table + 1 };
__device__ unsigned int d_lock;

extern "C" {

__global__ void saxpy(int n, float a, const float *x, float *y)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] = a * x[i] + y[i];
}

#define TILE 16
__global__ void matmul(const float *a, const float *b, float *c, int n)
{
	__shared__ float ta[TILE][TILE], tb[TILE][TILE];
	int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
	float sum = 0;

	for (int t = 0; t < n; t += TILE) {
		ta[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
		tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
		__syncthreads();
	}
	c[row * n + col] = sum;
}

__global__ void reduce_shared(const int *in, int *out, int n)
{
	extern __shared__ int dyn[];
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	dyn[threadIdx.x] = i < n ? in[i] : 0;
	__syncthreads();
	for (int s = blockDim.x / 2; s > 0; s >>= 1) {
		if (threadIdx.x < s)
			dyn[threadIdx.x] += dyn[threadIdx.x + s];
		__syncthreads();
	}
	if (!threadIdx.x)
		atomicAdd(out, dyn[0]);
}

__global__ void reduce_shfl(const float *in, float *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float v = i < n ? in[i] : 0.0f;

	for (int d = 16; d; d >>= 1)
		v += __shfl_down_sync(0xffffffffu, v, d);
	if (!(threadIdx.x & 31))
		atomicAdd(out, v);
}

__global__ void histogram(const unsigned char *data, unsigned int *bins, int n)
{
	__shared__ unsigned int local[256];

	for (int i = threadIdx.x; i < 256; i += blockDim.x)
		local[i] = 0;
	__syncthreads();
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		atomicAdd(&local[data[i]], 1u);
	__syncthreads();
	for (int i = threadIdx.x; i < 256; i += blockDim.x)
		atomicAdd(&bins[i], local[i]);
}

__global__ void nbody(const float4 *pos, float4 *acc, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float4 p = pos[i], s = make_float4(0, 0, 0, 0);

	for (int j = 0; j < n; j++) {
		float4 q = pos[j];
		float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
		float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
		float f = q.w * inv * inv * inv;

		s.x += dx * f;
		s.y += dy * f;
		s.z += dz * f;
	}
	acc[i] = s;
}

__global__ void mandelbrot(int *out, int w, int h, int max)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;

	if (x >= w || y >= h)
		return;
	double cr = -2.0 + 3.0 * x / w, ci = -1.5 + 3.0 * y / h, zr = 0, zi = 0;
	int i;

	for (i = 0; i < max; i++) {
		double t = zr * zr - zi * zi + cr;

		zi = 2 * zr * zi + ci;
		zr = t;
		if (zr * zr + zi * zi > 4.0)
			break;
	}
	out[y * w + x] = i;
}

__global__ void blackscholes(const float *s, const float *k, const float *t, float *call, float *put,
			     float r, float v, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	float sq = sqrtf(t[i]);
	float d1 = (logf(s[i] / k[i]) + (r + 0.5f * v * v) * t[i]) / (v * sq), d2 = d1 - v * sq;
	float e = expf(-r * t[i]);

	call[i] = s[i] * normcdff(d1) - k[i] * e * normcdff(d2);
	put[i] = k[i] * e * 0.5f * erfcf(d2 * 0.70710678f) - s[i] * normcdff(-d1);
}

__global__ void softmax(const float *in, float *out, int cols)
{
	__shared__ float part[32];
	const float *row = in + blockIdx.x * cols;
	float m = -1e30f, sum = 0;

	for (int i = threadIdx.x; i < cols; i += 32)
		m = fmaxf(m, row[i]);
	for (int d = 16; d; d >>= 1)
		m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
	for (int i = threadIdx.x; i < cols; i += 32)
		sum += expf(row[i] - m);
	part[threadIdx.x] = sum;
	__syncwarp();
	sum = 0;
	for (int i = 0; i < 32; i++)
		sum += part[i];
	for (int i = threadIdx.x; i < cols; i += 32)
		out[blockIdx.x * cols + i] = expf(row[i] - m) / sum;
}

__global__ void spinlock(unsigned int *lock, int *counter)
{
	bool done = false;

	while (!done) {
		if (atomicCAS(lock, 0u, 1u) == 0u) {
			*(volatile int *)counter += 1;
			__threadfence();
			atomicExch(lock, 0u);
			done = true;
		}
	}
}

/* The naive lock: the winner waits outside of the loop for the losers inside. */
__global__ void spinlock_naive(unsigned int *lock, int *counter)
{
	while (atomicCAS(lock, 0u, 1u))
		;
	*(volatile int *)counter += 1;
	__threadfence();
	atomicExch(lock, 0u);
}

__device__ __noinline__ float helper_leaf(float a, int b)
{
	float loc[8];

	for (int i = 0; i < 8; i++)
		loc[i] = a * i;
	return loc[b & 7];
}

__device__ __noinline__ float helper(float a, int b)
{
	if (b & 1)
		return helper_leaf(a, b) + 1.0f;
	return helper_leaf(a + 1.0f, b);
}

struct arg { int a; float v[5]; };

__global__ void calls(float *out, const int *sel, arg s)
{
	int i = threadIdx.x;
	float r = helper((float)i, sel[i]) + s.v[i % 5] + c_weight[i & 3] + *d_pointers[i & 1];

	if (i & 4)
		r += helper(r, i);
	out[i] = r;
}

__global__ void dispatch(int *out, const int *sel)
{
	int i = threadIdx.x, v = sel[i], r = i;

	switch (v) {
	case 0: r = r * 3 + 1; break;
	case 1: r = r ^ 0x55; break;
	case 2: r = r << 3; break;
	case 3: for (int k = 0; k < i; k++) r += k * r; break;
	case 4: r = __popc(r); break;
	case 5: r = __clz(r); break;
	case 6: r = __brev(r); break;
	case 7: r = r / 3 + r % 3; break;
	default: r = -1;
	}
	out[i] = r;
}

__global__ void wide(const long long *a, const long long *b, long long *out)
{
	int i = threadIdx.x;
	unsigned long long u = a[i], v = b[i];

	out[i * 8 + 0] = a[i] * b[i];
	out[i * 8 + 1] = b[i] ? a[i] / b[i] : 0;
	out[i * 8 + 2] = b[i] ? a[i] % b[i] : 0;
	out[i * 8 + 3] = __umul64hi(u, v);
	out[i * 8 + 4] = __mul64hi(a[i], b[i]);
	out[i * 8 + 5] = (u >> (v & 63)) ^ (u << (i & 63));
	out[i * 8 + 6] = __popcll(u) + __clzll(u) + __ffsll(u);
	out[i * 8 + 7] = __brevll(u) + (long long)__double2ll_rz((double)a[i] / 3.0);
}

__global__ void doubles(const double *a, const double *b, double *out)
{
	int i = threadIdx.x;

	out[i * 6 + 0] = a[i] / b[i];
	out[i * 6 + 1] = sqrt(fabs(a[i]));
	out[i * 6 + 2] = fma(a[i], b[i], 0.1);
	out[i * 6 + 3] = floor(a[i]) + ceil(b[i]) + trunc(a[i]) + rint(b[i]);
	out[i * 6 + 4] = exp(a[i] * 0.01) + log(fabs(b[i]) + 1.0);
	out[i * 6 + 5] = sin(a[i]) * cos(b[i]);
}

__global__ void intrinsics(const unsigned int *a, const unsigned int *b, unsigned int *out)
{
	int i = threadIdx.x;
	unsigned int x = a[i], y = b[i], *o = out + i * 10;

	o[0] = __byte_perm(x, y, 0x6420);
	o[1] = __funnelshift_l(x, y, i);
	o[2] = __umulhi(x, y) + __mulhi((int)x, (int)y);
	o[3] = __usad(x, y, 3) + __vsadu4(x, y);
	o[4] = (unsigned int)__float2int_rn(__uint_as_float((x & 0x7fffff) | 0x41000000));
	o[5] = (x >> (y & 31)) & ((1u << (i & 15)) - 1);
	o[6] = min((int)x, (int)y) ^ max(x, y);
	o[7] = (unsigned char)x + (signed char)y + (short)x;
	o[8] = __ffs(x) + (int)__uint2float_rz(x);
	o[9] = (x & y) | (~x & i);
}

__global__ void votes(unsigned int *out)
{
	int i = threadIdx.x;
	unsigned int *o = out + i * 6;

	o[0] = __ballot_sync(0xffffffffu, i % 3 == 0);
	o[1] = __any_sync(0xffffffffu, i == 40) | __all_sync(0xffffffffu, i < 64) << 1;
	o[2] = __match_any_sync(0xffffffffu, i / 5);
	o[3] = __shfl_sync(0xffffffffu, i, i + 3, 8) + __shfl_up_sync(0xffffffffu, i, 2, 16);
	if (i & 1)
		o[4] = __activemask() ^ __ballot_sync(0xaaaaaaaau, i & 2);
	else
		o[4] = __shfl_xor_sync(0x55555555u, i, 2);
	o[5] = __syncthreads_count(i & 1) + __syncthreads_or(i == 5) + __syncthreads_and(i < 64);
}

__global__ void spin_flag(volatile int *flag, int *out)
{
	while (!*flag)
		;
	out[threadIdx.x] = *flag + threadIdx.x;
}

__global__ void endless(unsigned long long *progress)
{
	for (;;)
		++*(volatile unsigned long long *)progress;
}

__global__ void print(int n)
{
	printf("thread %d of %s: %.2f %lld\n", threadIdx.x, "block", n * 0.5, 1ll << 40);
}

__global__ void fails(int n)
{
	assert(n == 0);
}

__global__ void bad_address(int *p)
{
	p[threadIdx.x] = 1;
}

__global__ void bad_shared(int *out, int at)
{
	__shared__ int s[32];

	s[threadIdx.x] = threadIdx.x;
	out[threadIdx.x] = s[threadIdx.x + at];
}

__global__ void atomics(int *i, unsigned int *u, unsigned long long *l, float *f, double *d)
{
	int t = threadIdx.x;

	atomicMin(&i[0], -t);
	atomicMax(&i[1], t);
	atomicSub(&i[2], t);
	atomicInc(&u[0], 10u);
	atomicDec(&u[1], 10u);
	atomicAnd(&u[2], ~(1u << (t & 15)));
	atomicOr(&u[3], 1u << (t & 31));
	atomicXor(&u[4], t);
	atomicAdd(&l[0], (unsigned long long)t << 20);
	atomicMax(&l[1], (unsigned long long)t << 33);
	atomicAdd(&f[0], 0.5f);
	atomicAdd(&d[0], 0.25);
	__shared__ unsigned int s[2];
	if (!t)
		s[0] = s[1] = 0;
	__syncthreads();
	atomicAdd(&s[0], t);
	atomicMax(&s[1], t);
	__syncthreads();
	if (!t)
		u[5] = s[0] + s[1];
}
}
