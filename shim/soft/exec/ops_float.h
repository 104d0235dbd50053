/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_OPS_FLOAT_H
#define GP_SHIM_SOFT_EXEC_OPS_FLOAT_H
/*
 * Floating point, round to nearest. Arithmetic is IEEE exact (fused where PTX says fma); .approx
 * functions are computed by the C library, so they are at least as exact as the card's, not equal.
 * z32 is f32 with .ftz: subnormal inputs and results become zero. Included once, by ops.c.
 */
#include "shim/soft/exec/ops_int.h"

static inline float ops_same32(float v)
{
	return v;
}

static inline double ops_same64(double v)
{
	return v;
}

/* F: flushes or does nothing. A, B, C: flushed operands. */
#define DEF_F1(name, t, T, F, expr)                                                                \
	OP(name##_##t)                                                                             \
	{                                                                                          \
		SRC(T, a);                                                                         \
		DST(T);                                                                            \
		OPS_PURE(T, F(expr(F(a[l]))));                                                     \
	}
#define DEF_F2(name, t, T, F, expr)                                                                \
	OP(name##_##t)                                                                             \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		DST(T);                                                                            \
		OPS_PURE(T, F(expr(F(a[l]), F(b[l]))));                                            \
	}
#define DEF_F3(name, t, T, F, expr)                                                                \
	OP(name##_##t)                                                                             \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		SRC(T, c);                                                                         \
		DST(T);                                                                            \
		OPS_PURE(T, F(expr(F(a[l]), F(b[l]), F(c[l]))));                                   \
	}
#define DEF_F(n, name, expr32, expr64)                                                             \
	DEF_F##n(name, f32, float, ops_same32, expr32)                                             \
		DEF_F##n(name, z32, float, ops_flush, expr32)                                      \
			DEF_F##n(name, f64, double, ops_same64, expr64)

#define OPS_ADD(x, y)	   ((x) + (y))
#define OPS_SUB(x, y)	   ((x) - (y))
#define OPS_MUL(x, y)	   ((x) * (y))
#define OPS_DIV(x, y)	   ((x) / (y))
#define OPS_NEG(x)	   (-(x))
#define OPS_RCP32(x)	   (1.0f / (x))
#define OPS_RCP64(x)	   (1.0 / (x))
#define OPS_RSQRT32(x)	   ((float)(1.0 / sqrt((double)(x))))
#define OPS_RSQRT64(x)	   (1.0 / sqrt(x))
#define OPS_FMA32(x, y, z) __builtin_fmaf(x, y, z)
#define OPS_FMA64(x, y, z) __builtin_fma(x, y, z)
DEF_F(2, fadd, OPS_ADD, OPS_ADD)
DEF_F(2, fsub, OPS_SUB, OPS_SUB)
DEF_F(2, fmul, OPS_MUL, OPS_MUL)
DEF_F(2, fdiv, OPS_DIV, OPS_DIV)
DEF_F(3, ffma, OPS_FMA32, OPS_FMA64)
DEF_F(1, fsqrt, __builtin_sqrtf, __builtin_sqrt)
DEF_F(1, frcp, OPS_RCP32, OPS_RCP64)
DEF_F(1, frsqrt, OPS_RSQRT32, OPS_RSQRT64)
DEF_F(1, fabs, __builtin_fabsf, __builtin_fabs)
DEF_F(1, fneg, OPS_NEG, OPS_NEG)
DEF_F(1, frni, __builtin_rintf, __builtin_rint)
DEF_F(1, frzi, __builtin_truncf, __builtin_trunc)
DEF_F(1, frmi, __builtin_floorf, __builtin_floor)
DEF_F(1, frpi, __builtin_ceilf, __builtin_ceil)

/* NaN becomes +0. */
#define OPS_SAT(x) ((x) > 0 ? ((x) < 1 ? (x) : 1) : 0)
DEF_F(1, fsat, OPS_SAT, OPS_SAT)

/* A NaN operand loses against a number; -0 is less than +0. */
#define DEF_MINMAX(t, T, B, nan, tobits, frombits)                                                 \
	static inline T ops_fmin_##t(T x, T y)                                                     \
	{                                                                                          \
		T equal = frombits(tobits(x) | tobits(y));                                         \
		T both = x < y ? x : y < x ? y : x == y ? equal : frombits(nan);                   \
		return x != x ? (y != y ? frombits(nan) : y) : y != y ? x : both;                  \
	}                                                                                          \
	static inline T ops_fmax_##t(T x, T y)                                                     \
	{                                                                                          \
		T equal = frombits(tobits(x) & tobits(y));                                         \
		T both = x > y ? x : y > x ? y : x == y ? equal : frombits(nan);                   \
		return x != x ? (y != y ? frombits(nan) : y) : y != y ? x : both;                  \
	}                                                                                          \
	static inline T ops_fminnan_##t(T x, T y)                                                  \
	{                                                                                          \
		return x != x || y != y ? frombits(nan) : ops_fmin_##t(x, y);                      \
	}                                                                                          \
	static inline T ops_fmaxnan_##t(T x, T y)                                                  \
	{                                                                                          \
		return x != x || y != y ? frombits(nan) : ops_fmax_##t(x, y);                      \
	}
DEF_MINMAX(32, float, uint32_t, 0x7fffffffu, ops_bits32, ops_float)
DEF_MINMAX(64, double, uint64_t, 0x7fffffffffffffffull, ops_bits64, ops_double)
DEF_F(2, fmin, ops_fmin_32, ops_fmin_64)
DEF_F(2, fmax, ops_fmax_32, ops_fmax_64)
DEF_F(2, fminnan, ops_fminnan_32, ops_fminnan_64)
DEF_F(2, fmaxnan, ops_fmaxnan_32, ops_fmaxnan_64)

/* copysign d, a, b: the sign of a, the rest of b. */
#define OPS_COPYSIGN32(x, y) __builtin_copysignf(y, x)
#define OPS_COPYSIGN64(x, y) __builtin_copysign(y, x)
DEF_F(2, copysign, OPS_COPYSIGN32, OPS_COPYSIGN64)

/* C library functions lane by lane. */
#define DEF_LIBM1(name, t, T, F, fn)                                                               \
	OP(name##_##t)                                                                             \
	{                                                                                          \
		SRC(T, a);                                                                         \
		DST(T);                                                                            \
		OPS_EACH(d[l] = F(fn(F(a[l]))));                                                   \
	}
#define DEF_LIBM(name, fn32, fn64)                                                                 \
	DEF_LIBM1(name, f32, float, ops_same32, fn32)                                              \
	DEF_LIBM1(name, z32, float, ops_flush, fn32)                                               \
	DEF_LIBM1(name, f64, double, ops_same64, fn64)
DEF_LIBM(fex2, exp2f, exp2)
DEF_LIBM(flg2, log2f, log2)
DEF_LIBM(fsin, sinf, sin)
DEF_LIBM(fcos, cosf, cos)
DEF_LIBM(ftanh, tanhf, tanh)

#define DEF_FCMP1(name, t, T, F, expr)                                                             \
	OP(name##_##t)                                                                             \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		uint32_t bits = 0;                                                                 \
		for (int l = 0; l < GP_EXEC_LANES; l++) {                                          \
			T x = F(a[l]), y = F(b[l]);                                                \
			bits |= (expr) ? 1u << l : 0;                                              \
		}                                                                                  \
		ops_set_cmp(w, in, mask, bits);                                                    \
	}
#define DEF_FCMP(name, expr)                                                                       \
	DEF_FCMP1(name, f32, float, ops_same32, expr)                                              \
	DEF_FCMP1(name, z32, float, ops_flush, expr)                                               \
	DEF_FCMP1(name, f64, double, ops_same64, expr)
DEF_FCMP(fsetp_eq, x == y)
DEF_FCMP(fsetp_ne, x<y || x> y)
DEF_FCMP(fsetp_lt, x < y)
DEF_FCMP(fsetp_le, x <= y)
DEF_FCMP(fsetp_gt, x > y)
DEF_FCMP(fsetp_ge, x >= y)
DEF_FCMP(fsetp_equ, !(x < y || x > y))
DEF_FCMP(fsetp_neu, x != y)
DEF_FCMP(fsetp_ltu, !(x >= y))
DEF_FCMP(fsetp_leu, !(x > y))
DEF_FCMP(fsetp_gtu, !(x <= y))
DEF_FCMP(fsetp_geu, !(x < y))
DEF_FCMP(fsetp_num, x == x && y == y)
DEF_FCMP(fsetp_nan, x != x || y != y)

/* .aux: 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal, 5 subnormal. */
static inline bool ops_testp(int class, unsigned int kind)
{
	static const unsigned char accepted[6] = {
		[0] = 1 << 2 | 1 << 3 | 1 << 4,
		[1] = 1 << 1,
		[2] = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4,
		[3] = 1 << 0,
		[4] = 1 << 4,
		[5] = 1 << 3,
	};

	return accepted[kind] >> class & 1;
}

#define DEF_TESTP(t, T)                                                                            \
	OP(testp_##t)                                                                              \
	{                                                                                          \
		SRC(T, a);                                                                         \
		uint32_t bits = 0;                                                                 \
		OPS_EACH(bits |=                                                                   \
			 (uint32_t)ops_testp(__builtin_fpclassify(0, 1, 4, 3, 2, a[l]), in->aux)   \
			 << l);                                                                    \
		gp_exec_set_pred(w, in->d, bits, mask);                                            \
	}
DEF_TESTP(f32, float)
DEF_TESTP(z32, float)
DEF_TESTP(f64, double)

/* Conversions, cvt_<destination>... named by source then destination for integers. */
DEF1(cvt_f32_f64, double, float, a[l])
DEF1(cvt_f64_f32, float, double, a[l])
DEF1(cvt_u32_f32, float, uint32_t, a[l])
DEF1(cvt_s32_f32, float, int32_t, a[l])
DEF1(cvt_u64_f32, float, uint64_t, a[l])
DEF1(cvt_s64_f32, float, int64_t, a[l])
DEF1(cvt_u32_f64, double, uint32_t, a[l])
DEF1(cvt_s32_f64, double, int32_t, a[l])
DEF1(cvt_u64_f64, double, uint64_t, a[l])
DEF1(cvt_s64_f64, double, int64_t, a[l])

/* Out of range saturates, NaN is zero; computed in double, where the limits are exact. */
static inline int32_t ops_f32_to_s32(float v)
{
	double x = v;

	x = x != x ? 0 : x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x;
	return (int32_t)x;
}

DEF1(cvt_rzi_f32_s32, int32_t, float, ops_f32_to_s32(a[l]))

/* @v is integral. 2^63 and 2^64 are exact in double. */
static inline uint64_t ops_double_to_int(double v, bool is_signed, unsigned int bits)
{
	uint64_t max = is_signed    ? (1ull << (bits - 1)) - 1
		       : bits == 64 ? UINT64_MAX
				    : (1ull << bits) - 1;
	double limit = ldexp(1.0, (int)bits - (is_signed ? 1 : 0));

	if (v >= limit)
		return max;
	if (is_signed)
		return v <= -limit ? ~max : (uint64_t)(int64_t)v;
	return v <= 0 ? 0 : (uint64_t)v;
}

/*
 * Any float to any integer: rounding in .imm, width in .aux, SIGNED; the result fills a 64-bit
 * register. NaN gives 0 where neither side is 64 bits wide, else the highest bit alone (PTX ISA,
 * cvt).
 */
static inline uint64_t ops_to_int(const struct gp_exec_ins *in, double v, bool from_f64)
{
	if (v != v)
		return in->aux == 64 || from_f64 ? 1ull << (in->aux - 1) : 0;
	switch (in->imm) {
	case GP_EXEC_RZ:
		v = __builtin_trunc(v);
		break;
	case GP_EXEC_RM:
		v = __builtin_floor(v);
		break;
	case GP_EXEC_RP:
		v = __builtin_ceil(v);
		break;
	default:
		v = __builtin_rint(v);
	}
	return ops_double_to_int(v, in->flags & GP_EXEC_SIGNED, in->aux);
}

OP(cvt_f32_int)
{
	SRC(float, a);
	DST(uint64_t);
	bool flush = in->flags & GP_EXEC_FTZ;

	OPS_EACH(d[l] = ops_to_int(in, flush ? ops_flush(a[l]) : a[l], false));
}

OP(cvt_f64_int)
{
	SRC(double, a);
	DST(uint64_t);

	OPS_EACH(d[l] = ops_to_int(in, a[l], true));
}

#endif
