/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of testdata/ptx against the same computation on the host, for every compiled flavour.
 */
#include "tests/unit/ptx_fixture.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>

static bool is_fused; /* nvcc contracts a * b + c, but not at -O0 */

static float host_mad(float a, float b, float c)
{
	return is_fused ? fmaf(a, b, c) : (float)(a * b) + c;
}

static bool near(double a, double b, double tolerance)
{
	return fabs(a - b) <= tolerance * fmax(1.0, fabs(b));
}

static uint64_t rng_state = 88172645463325252ull;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static void test_saxpy_when_run_then_exact(struct fixture *fx)
{
	enum { N = 1000 };
	struct fixture_args args = fixture_args(fx, "saxpy");
	float x[N], y[N];

	for (int i = 0; i < N; i++) {
		x[i] = (float)i * 0.37f;
		y[i] = 1.0f;
	}
	ARG(args, int, N);
	ARG(args, float, 2.5f);
	ARG(args, float *, x);
	ARG(args, float *, y);
	fixture_run(fx, &args, 4, 1, 256, 1, 0);
	for (int i = 0; i < N; i++)
		CHECK(y[i] == host_mad(2.5f, x[i], 1.0f));
}

static void test_matmul_when_tiled_then_exact(struct fixture *fx)
{
	enum { N = 64 };
	static float a[N * N], b[N * N], c[N * N];
	struct fixture_args args = fixture_args(fx, "matmul");

	for (int i = 0; i < N * N; i++) {
		a[i] = (float)(int)(rng() % 100) / 7.0f;
		b[i] = (float)(int)(rng() % 100) / 3.0f;
	}
	ARG(args, float *, a);
	ARG(args, float *, b);
	ARG(args, float *, c);
	ARG(args, int, N);
	fixture_run(fx, &args, N / 16, N / 16, 16, 16, 0);
	for (int i = 0; i < N; i++) {
		for (int j = 0; j < N; j++) {
			float sum = 0;

			for (int k = 0; k < N; k++)
				sum = host_mad(a[i * N + k], b[k * N + j], sum);
			CHECK(c[i * N + j] == sum);
		}
	}
}

static void test_reductions_when_run_then_sum(struct fixture *fx)
{
	enum { N = 5000 };
	struct fixture_args args = fixture_args(fx, "reduce_shared");
	static int in[N];
	static float fin[N];
	int out = 0, sum = 0;
	float fout = 0;

	for (int i = 0; i < N; i++) {
		in[i] = (int)(rng() % 1000) - 500;
		fin[i] = (float)in[i];
		sum += in[i];
	}
	ARG(args, int *, in);
	ARG(args, int *, &out);
	ARG(args, int, N);
	fixture_run(fx, &args, (N + 255) / 256, 1, 256, 1, 1024);
	CHECK_EQ(out, sum);

	args = fixture_args(fx, "reduce_shfl");
	ARG(args, float *, fin);
	ARG(args, float *, &fout);
	ARG(args, int, N);
	fixture_run(fx, &args, (N + 127) / 128, 1, 128, 1, 0);
	CHECK(fout == (float)sum);
}

static void test_histogram_when_run_then_counts(struct fixture *fx)
{
	enum { N = 20000 };
	static unsigned char data[N];
	unsigned int bins[256] = { 0 }, expected[256] = { 0 };
	struct fixture_args args = fixture_args(fx, "histogram");

	for (int i = 0; i < N; i++) {
		data[i] = (unsigned char)(rng() >> 3 & rng());
		expected[data[i]]++;
	}
	ARG(args, unsigned char *, data);
	ARG(args, unsigned int *, bins);
	ARG(args, int, N);
	fixture_run(fx, &args, 8, 1, 128, 1, 0);
	for (int i = 0; i < 256; i++)
		CHECK_EQ(bins[i], expected[i]);
}

static void test_nbody_when_run_then_near(struct fixture *fx)
{
	enum { N = 96 };
	_Alignas(16) static float pos[N][4], acc[N][4];
	struct fixture_args args = fixture_args(fx, "nbody");

	for (int i = 0; i < N * 4; i++)
		pos[i / 4][i % 4] = (float)(rng() % 1000) / 500.0f - 1.0f;
	ARG(args, void *, pos);
	ARG(args, void *, acc);
	ARG(args, int, N);
	fixture_run(fx, &args, N / 32, 1, 32, 1, 0);
	for (int i = 0; i < N; i++) {
		double s[3] = { 0 };

		for (int j = 0; j < N; j++) {
			double d[3], r2 = 0.01, f;

			for (int k = 0; k < 3; k++) {
				d[k] = (double)pos[j][k] - (double)pos[i][k];
				r2 += d[k] * d[k];
			}
			f = pos[j][3] / (r2 * sqrt(r2));
			for (int k = 0; k < 3; k++)
				s[k] += d[k] * f;
		}
		for (int k = 0; k < 3; k++)
			CHECK(near(acc[i][k], s[k], 1e-3));
		CHECK(acc[i][3] == 0);
	}
}

static void test_mandelbrot_when_divergent_then_exact(struct fixture *fx)
{
	enum { W = 70, H = 37, MAX = 3000 };
	static int out[W * H];
	struct fixture_args args = fixture_args(fx, "mandelbrot");

	ARG(args, int *, out);
	ARG(args, int, W);
	ARG(args, int, H);
	ARG(args, int, MAX);
	fixture_run(fx, &args, 5, 5, 16, 8, 0);
	for (int y = 0; y < H; y++) {
		for (int x = 0; x < W; x++) {
			double cr = -2.0 + 3.0 * x / W, ci = -1.5 + 3.0 * y / H, zr = 0, zi = 0;
			int i;

			/* nvcc contracts these to fma; the loop above does too. */
			for (i = 0; i < MAX; i++) {
				double t = fma(zr, zr, -(zi * zi)) + cr;

				zi = fma(zr + zr, zi, ci);
				zr = t;
				if (fma(zr, zr, zi * zi) > 4.0)
					break;
			}
			/* Points inside are stable; near the border rounding decides. */
			CHECK(out[y * W + x] == i || abs(out[y * W + x] - i) < MAX);
			if (i == MAX || i < 20)
				CHECK_EQ(out[y * W + x], i);
		}
	}
}

static void test_blackscholes_when_run_then_near(struct fixture *fx)
{
	enum { N = 200 };
	static float s[N], k[N], t[N], call[N], put[N];
	struct fixture_args args = fixture_args(fx, "blackscholes");
	const double r = 0.02, v = 0.3;

	for (int i = 0; i < N; i++) {
		s[i] = 5.0f + (float)(rng() % 2500) / 100.0f;
		k[i] = 1.0f + (float)(rng() % 9900) / 100.0f;
		t[i] = 0.25f + (float)(rng() % 975) / 100.0f;
	}
	ARG(args, float *, s);
	ARG(args, float *, k);
	ARG(args, float *, t);
	ARG(args, float *, call);
	ARG(args, float *, put);
	ARG(args, float, (float)r);
	ARG(args, float, (float)v);
	ARG(args, int, N);
	fixture_run(fx, &args, 2, 1, 128, 1, 0);
	for (int i = 0; i < N; i++) {
		double sq = sqrt((double)t[i]), e = exp((double)(-r * t[i]));
		double d1 = (log((double)s[i] / k[i]) + (r + 0.5 * v * v) * t[i]) / (v * sq);
		double d2 = d1 - v * sq;
		double c =
			s[i] * 0.5 * erfc(-d1 * M_SQRT1_2) - k[i] * e * 0.5 * erfc(-d2 * M_SQRT1_2);
		double p =
			k[i] * e * 0.5 * erfc(d2 * M_SQRT1_2) - s[i] * 0.5 * erfc(d1 * M_SQRT1_2);

		CHECK(near(call[i], c, 2e-4));
		CHECK(near(put[i], p, 2e-4));
	}
}

static void test_softmax_when_run_then_sums_to_one(struct fixture *fx)
{
	enum { ROWS = 3, COLS = 100 };
	static float in[ROWS * COLS], out[ROWS * COLS];
	struct fixture_args args = fixture_args(fx, "softmax");

	for (int i = 0; i < ROWS * COLS; i++)
		in[i] = (float)(rng() % 1000) / 100.0f;
	ARG(args, float *, in);
	ARG(args, float *, out);
	ARG(args, int, COLS);
	fixture_run(fx, &args, ROWS, 1, 32, 1, 0);
	for (int row = 0; row < ROWS; row++) {
		double sum = 0;

		for (int i = 0; i < COLS; i++)
			sum += exp((double)in[row * COLS + i]);
		for (int i = 0; i < COLS; i++)
			CHECK(near(out[row * COLS + i], exp((double)in[row * COLS + i]) / sum,
				   1e-5));
	}
}

static void test_spinlock_when_lanes_of_a_warp_compete_then_all_pass(struct fixture *fx)
{
	static const char *const kernels[] = { "spinlock", "spinlock_naive" };

	for (int k = 0; k < 2; k++) {
		struct fixture_args args = fixture_args(fx, kernels[k]);
		unsigned int lock = 0;
		int counter = 0;

		ARG(args, unsigned int *, &lock);
		ARG(args, int *, &counter);
		fixture_run(fx, &args, 2, 1, 96, 1, 0);
		CHECK_EQ(counter, 192);
		CHECK_EQ(lock, 0);
	}
}

static float host_leaf(float a, int b)
{
	return a * (float)(b & 7);
}

static float host_helper(float a, int b)
{
	return b & 1 ? host_leaf(a, b) + 1.0f : host_leaf(a + 1.0f, b);
}

static void test_calls_when_divergent_then_exact(struct fixture *fx)
{
	struct {
		int a;
		float v[5];
	} s = { 1, { 0.5f, 1.5f, 2.5f, 3.5f, 4.5f } };
	struct fixture_args args = fixture_args(fx, "calls");
	float out[64];
	int sel[64];

	for (int i = 0; i < 64; i++)
		sel[i] = (int)(rng() % 100);
	ARG(args, float *, out);
	ARG(args, int *, sel);
	fixture_arg(&args, &s, sizeof(s));
	fixture_run(fx, &args, 1, 1, 64, 1, 0);
	for (int i = 0; i < 64; i++) {
		float r = host_helper((float)i, sel[i]) + s.v[i % 5] + (float)(1 + (i & 3)) +
			  (float)(7 + (i & 1));

		if (i & 4)
			r += host_helper(r, i);
		CHECK(near(out[i], r, 1e-6));
	}
}

static uint32_t host_brev(uint32_t v)
{
	uint32_t r = 0;

	for (int i = 0; i < 32; i++)
		r |= (v >> i & 1) << (31 - i);
	return r;
}

static void test_dispatch_when_every_case_then_exact(struct fixture *fx)
{
	struct fixture_args args = fixture_args(fx, "dispatch");
	int out[64], sel[64];

	for (int i = 0; i < 64; i++)
		sel[i] = (i * 7 + i / 9) % 10;
	ARG(args, int *, out);
	ARG(args, int *, sel);
	fixture_run(fx, &args, 1, 1, 64, 1, 0);
	for (int i = 0; i < 64; i++) {
		uint32_t r = (uint32_t)i;

		switch (sel[i]) {
		case 0:
			r = r * 3 + 1;
			break;
		case 1:
			r ^= 0x55;
			break;
		case 2:
			r <<= 3;
			break;
		case 3:
			for (uint32_t k = 0; k < (uint32_t)i; k++)
				r += k * r;
			break;
		case 4:
			r = (uint32_t)__builtin_popcount(r);
			break;
		case 5:
			r = r ? (uint32_t)__builtin_clz(r) : 32;
			break;
		case 6:
			r = host_brev(r);
			break;
		case 7:
			r = r / 3 + r % 3;
			break;
		default:
			r = (uint32_t)-1;
		}
		CHECK_EQ((uint32_t)out[i], r);
	}
}

static void test_wide_when_64_bit_then_exact(struct fixture *fx)
{
	struct fixture_args args = fixture_args(fx, "wide");
	static int64_t a[64], b[64], out[64 * 8];

	for (int i = 0; i < 64; i++) {
		a[i] = (int64_t)rng() >> (i % 40);
		b[i] = i == 5 ? 0 : (int64_t)rng() >> (i % 50);
	}
	ARG(args, int64_t *, a);
	ARG(args, int64_t *, b);
	ARG(args, int64_t *, out);
	fixture_run(fx, &args, 1, 1, 64, 1, 0);
	for (int i = 0; i < 64; i++) {
		uint64_t u = (uint64_t)a[i], v = (uint64_t)b[i], rev;
		int64_t *o = out + i * 8;

		rev = (uint64_t)host_brev((uint32_t)u) << 32 | host_brev((uint32_t)(u >> 32));
		CHECK(o[0] == (int64_t)(u * v));
		CHECK(o[1] == (b[i] ? a[i] / b[i] : 0));
		CHECK(o[2] == (b[i] ? a[i] % b[i] : 0));
		CHECK(o[3] == (int64_t)(uint64_t)((unsigned __int128)u * v >> 64));
		CHECK(o[4] == (int64_t)((__int128)a[i] * b[i] >> 64));
		CHECK(o[5] == (int64_t)((u >> (v & 63)) ^ (u << (i & 63))));
		CHECK(o[6] == __builtin_popcountll(u) + (u ? __builtin_clzll(u) : 64) +
				      __builtin_ffsll((long long)u));
		CHECK((uint64_t)o[7] == rev + (uint64_t)(int64_t)((double)a[i] / 3.0));
	}
}

static void test_doubles_when_run_then_exact_or_near(struct fixture *fx)
{
	struct fixture_args args = fixture_args(fx, "doubles");
	static double a[64], b[64], out[64 * 6];

	for (int i = 0; i < 64; i++) {
		a[i] = (double)(int64_t)rng() / 1e17;
		b[i] = (double)(int64_t)rng() / 1e17;
	}
	ARG(args, double *, a);
	ARG(args, double *, b);
	ARG(args, double *, out);
	fixture_run(fx, &args, 1, 1, 64, 1, 0);
	for (int i = 0; i < 64; i++) {
		double *o = out + i * 6;

		CHECK(o[0] == a[i] / b[i]);
		CHECK(o[1] == sqrt(fabs(a[i])));
		CHECK(o[2] == fma(a[i], b[i], 0.1));
		CHECK(o[3] == floor(a[i]) + ceil(b[i]) + trunc(a[i]) + rint(b[i]));
		CHECK(near(o[4], exp(a[i] * 0.01) + log(fabs(b[i]) + 1.0), 1e-13));
		CHECK(near(o[5], sin(a[i]) * cos(b[i]), 1e-13));
	}
}

static uint32_t host_prmt(uint32_t x, uint32_t y, uint32_t s)
{
	uint64_t v = (uint64_t)y << 32 | x;
	uint32_t r = 0;

	for (int i = 0; i < 4; i++)
		r |= ((uint32_t)(v >> (8 * (s >> (4 * i) & 7))) & 0xff) << (8 * i);
	return r;
}

static void test_intrinsics_when_run_then_exact(struct fixture *fx)
{
	struct fixture_args args = fixture_args(fx, "intrinsics");
	static uint32_t a[64], b[64], out[64 * 10];

	for (int i = 0; i < 64; i++) {
		a[i] = (uint32_t)rng();
		b[i] = (uint32_t)rng();
	}
	ARG(args, uint32_t *, a);
	ARG(args, uint32_t *, b);
	ARG(args, uint32_t *, out);
	fixture_run(fx, &args, 1, 1, 64, 1, 0);
	for (int i = 0; i < 64; i++) {
		uint32_t x = a[i], y = b[i], *o = out + i * 10, sad = 0, bits;
		uint64_t pair = (uint64_t)y << 32 | x;
		float f;

		for (int k = 0; k < 32; k += 8)
			sad += (uint32_t)abs((int)(x >> k & 0xff) - (int)(y >> k & 0xff));
		CHECK_EQ(o[0], host_prmt(x, y, 0x6420));
		CHECK_EQ(o[1], (uint32_t)(pair << (i & 31) >> 32));
		CHECK_EQ(o[2], (uint32_t)((uint64_t)x * y >> 32) +
				       (uint32_t)((int64_t)(int32_t)x * (int32_t)y >> 32));
		CHECK_EQ(o[3], (x > y ? x - y : y - x) + 3 + sad);
		bits = (x & 0x7fffff) | 0x41000000;
		memcpy(&f, &bits, sizeof(f));
		CHECK_EQ(o[4], (uint32_t)rintf(f));
		CHECK_EQ(o[5], (x >> (y & 31)) & ((1u << (i & 15)) - 1));
		CHECK_EQ(o[6], (uint32_t)((int32_t)x < (int32_t)y ? x : y) ^ (x > y ? x : y));
		CHECK_EQ(o[7], (uint32_t)((int)(uint8_t)x + (int)(int8_t)y + (int)(int16_t)x));
		f = (float)(double)x; /* then towards zero */
		if ((double)f > (double)x)
			f = nextafterf(f, 0);
		CHECK_EQ(o[8], (uint32_t)__builtin_ffs((int)x) +
				       (f >= 2147483648.0f ? 0x7fffffffu : (uint32_t)f));
		CHECK_EQ(o[9], (x & y) | (~x & (uint32_t)i));
	}
}

static void test_votes_when_run_then_exact(struct fixture *fx)
{
	struct fixture_args args = fixture_args(fx, "votes");
	static uint32_t out[64 * 6];

	ARG(args, uint32_t *, out);
	fixture_run(fx, &args, 1, 1, 64, 1, 0);
	for (int i = 0; i < 64; i++) {
		uint32_t *o = out + i * 6, ballot = 0, match = 0, lane = (uint32_t)i & 31, odd = 0;
		int first = i & ~31;

		for (int l = 0; l < 32; l++) {
			ballot |= (uint32_t)((first + l) % 3 == 0) << l;
			match |= (uint32_t)((first + l) / 5 == i / 5) << l;
			odd |= (uint32_t)((l & 1) && (l & 2)) << l;
		}
		CHECK_EQ(o[0], ballot);
		CHECK_EQ(o[1], (first ? 1u : 0u) | 2);
		CHECK_EQ(o[2], match);
		CHECK_EQ(o[3], (uint32_t)first + (lane & ~7u) + ((lane + 3) & 7) +
				       ((lane & 15) >= 2 ? (uint32_t)i - 2 : (uint32_t)i));
		CHECK_EQ(o[4], i & 1 ? 0xaaaaaaaau ^ odd : (uint32_t)(i ^ 2));
		CHECK_EQ(o[5], 32 + 1 + 1);
	}
}

static void test_atomics_when_run_then_exact(struct fixture *fx)
{
	enum { T = 100 };
	struct fixture_args args = fixture_args(fx, "atomics");
	int i[3] = { 5, 5, 0 };
	unsigned int u[6] = { 0, 3, 0xffffffffu, 0, 0, 0 }, x = 0, inc = 0, dec = 3;
	uint64_t l[2] = { 0, 0 };
	float f = 0;
	double d = 0;

	for (unsigned int t = 0; t < T; t++) {
		x ^= t;
		inc = inc >= 10 ? 0 : inc + 1;
		dec = !dec || dec > 10 ? 10 : dec - 1;
	}
	ARG(args, int *, i);
	ARG(args, unsigned int *, u);
	ARG(args, uint64_t *, l);
	ARG(args, float *, &f);
	ARG(args, double *, &d);
	fixture_run(fx, &args, 1, 1, T, 1, 0);
	CHECK_EQ(i[0], -99);
	CHECK_EQ(i[1], 99);
	CHECK_EQ(i[2], -4950);
	CHECK_EQ(u[0], inc);
	CHECK_EQ(u[1], dec);
	CHECK_EQ(u[2], 0xffff0000u);
	CHECK_EQ(u[3], 0xffffffffu);
	CHECK_EQ(u[4], x);
	CHECK_EQ(u[5], 4950 + 99);
	CHECK_EQ(l[0], 4950ull << 20);
	CHECK_EQ(l[1], 99ull << 33);
	CHECK(f == 50.0f && d == 25.0);
}

/* Stop and park: the other thread waits for the park, changes memory, lets go. */
struct parker {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct fixture *fx;
	int n_parks, answer;
	bool is_parked;
	volatile int *flag;
	volatile uint64_t *progress;
};

static int parker_park(void *arg)
{
	struct parker *p = arg;
	int answer;

	pthread_mutex_lock(&p->lock);
	p->n_parks++;
	p->is_parked = true;
	pthread_cond_broadcast(&p->cond);
	while (__atomic_load_n(&p->fx->stop, __ATOMIC_RELAXED))
		pthread_cond_wait(&p->cond, &p->lock);
	p->is_parked = false;
	pthread_cond_broadcast(&p->cond);
	answer = p->answer;
	pthread_mutex_unlock(&p->lock);
	return answer;
}

static void parker_stop(struct parker *p)
{
	pthread_mutex_lock(&p->lock);
	__atomic_store_n(&p->fx->stop, 1, __ATOMIC_RELAXED);
	while (!p->is_parked)
		pthread_cond_wait(&p->cond, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static void parker_go(struct parker *p, int answer)
{
	pthread_mutex_lock(&p->lock);
	p->answer = answer;
	__atomic_store_n(&p->fx->stop, 0, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&p->cond);
	while (p->is_parked)
		pthread_cond_wait(&p->cond, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static void *stop_and_go(void *arg)
{
	struct parker *p = arg;

	parker_stop(p);
	*p->flag = 42;
	parker_go(p, 0);
	return NULL;
}

static void *stop_and_abandon(void *arg)
{
	struct parker *p = arg;
	uint64_t seen;

	for (int i = 0; i < 3; i++) {
		parker_stop(p);
		seen = *p->progress;
		CHECK(seen > 0);
		CHECK(*p->progress == seen);
		parker_go(p, i == 2);
	}
	return NULL;
}

static void test_stop_when_mid_kernel_then_parks_and_goes_on(struct fixture *fx)
{
	struct fixture_args args = fixture_args(fx, "spin_flag");
	struct parker p = { .lock = PTHREAD_MUTEX_INITIALIZER,
			    .cond = PTHREAD_COND_INITIALIZER,
			    .fx = fx };
	volatile int flag = 0;
	int out[64];
	pthread_t thread;

	p.flag = &flag;
	fx->park = parker_park;
	fx->park_arg = &p;
	ARG(args, volatile int *, &flag);
	ARG(args, int *, out);
	CHECK(!pthread_create(&thread, NULL, stop_and_go, &p));
	fixture_run(fx, &args, 1, 1, 64, 1, 0);
	pthread_join(thread, NULL);
	CHECK(p.n_parks >= 1);
	for (int i = 0; i < 64; i++)
		CHECK_EQ(out[i], 42 + i);
}

static void test_park_when_it_says_so_then_launch_is_abandoned(struct fixture *fx)
{
	struct fixture_args args = fixture_args(fx, "endless");
	struct parker p = { .lock = PTHREAD_MUTEX_INITIALIZER,
			    .cond = PTHREAD_COND_INITIALIZER,
			    .fx = fx };
	volatile uint64_t progress = 1;
	pthread_t thread;

	p.progress = &progress;
	fx->park = parker_park;
	fx->park_arg = &p;
	ARG(args, volatile uint64_t *, &progress);
	CHECK(!pthread_create(&thread, NULL, stop_and_abandon, &p));
	CHECK_EQ(fixture_try(fx, &args, 1, 1, 32, 1, 0), -ECANCELED);
	pthread_join(thread, NULL);
	CHECK_EQ(p.n_parks, 3);
}

static void test_print_when_called_then_formats(struct fixture *fx)
{
	struct fixture_args args = fixture_args(fx, "print");

	ARG(args, int, 5);
	fixture_run(fx, &args, 1, 1, 2, 1, 0);
}

static void test_assert_when_it_fails_then_error(struct fixture *fx)
{
	struct fixture_args args = fixture_args(fx, "fails");
	struct fixture_args good = fixture_args(fx, "fails");

	ARG(args, int, 5);
	CHECK_EQ(fixture_try(fx, &args, 1, 1, 32, 1, 0), -EILSEQ);
	CHECK(strstr(fx->err.msg, "fails"));
	ARG(good, int, 0);
	fixture_run(fx, &good, 1, 1, 32, 1, 0);
}

static void test_address_when_illegal_then_efault_and_reusable(struct fixture *fx)
{
	struct fixture_args args = fixture_args(fx, "bad_address");
	struct fixture_args shared = fixture_args(fx, "bad_shared");
	int out[32];

	ARG(args, uint64_t, 0x10);
	CHECK_EQ(fixture_try(fx, &args, 1, 1, 32, 1, 0), -EFAULT);
	CHECK(strstr(fx->err.msg, "bad_address"));
	CHECK_EQ(fixture_try(fx, &args, 1, 1, 32, 1, 0), -EFAULT);
	ARG(shared, int *, out);
	ARG(shared, int, 100000);
	/* -O0 makes the address generic, and then only unmapped memory is illegal. */
	if (is_fused)
		CHECK_EQ(fixture_try(fx, &shared, 1, 1, 32, 1, 0), -EFAULT);
	test_saxpy_when_run_then_exact(fx);
}

int main(void)
{
	static const char *const flavours[] = { "kernels_sm75.ptx", "kernels_sm90.ptx",
						"kernels_fast.ptx", "kernels_o0.ptx" };
	static void (*const tests[])(struct fixture *) = {
		test_saxpy_when_run_then_exact,
		test_matmul_when_tiled_then_exact,
		test_reductions_when_run_then_sum,
		test_histogram_when_run_then_counts,
		test_nbody_when_run_then_near,
		test_mandelbrot_when_divergent_then_exact,
		test_blackscholes_when_run_then_near,
		test_softmax_when_run_then_sums_to_one,
		test_spinlock_when_lanes_of_a_warp_compete_then_all_pass,
		test_calls_when_divergent_then_exact,
		test_dispatch_when_every_case_then_exact,
		test_wide_when_64_bit_then_exact,
		test_doubles_when_run_then_exact_or_near,
		test_intrinsics_when_run_then_exact,
		test_votes_when_run_then_exact,
		test_atomics_when_run_then_exact,
		test_stop_when_mid_kernel_then_parks_and_goes_on,
		test_park_when_it_says_so_then_launch_is_abandoned,
		test_print_when_called_then_formats,
		test_assert_when_it_fails_then_error,
		test_address_when_illegal_then_efault_and_reusable,
	};

	for (size_t f = 0; f < sizeof(flavours) / sizeof(*flavours); f++) {
		struct fixture fx;

		is_fused = strcmp(flavours[f], "kernels_o0.ptx") != 0;
		fixture_open(&fx, flavours[f]);
		for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
			tests[i](&fx);
		fixture_close(&fx);
	}
	return 0;
}
