/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic with directed rounding. Built with -frounding-math: the mode is the CPU's, set around
 * the loop. Rare in programs (expf has one per call), so one generic version.
 */
#include "shim/soft/exec/ops.h"

#include <xmmintrin.h>

/* Only SSE's mode: all arithmetic here is, and fesetround would set the x87's too, which is slow.
 */
static void round_set(int64_t round)
{
	static const unsigned int modes[] = { [GP_EXEC_RN] = _MM_ROUND_NEAREST,
					      [GP_EXEC_RZ] = _MM_ROUND_TOWARD_ZERO,
					      [GP_EXEC_RM] = _MM_ROUND_DOWN,
					      [GP_EXEC_RP] = _MM_ROUND_UP };

	_MM_SET_ROUNDING_MODE(modes[round]);
}

/* Flushes if the instruction says so; stores one lane. */
static inline float round_in(const struct gp_exec_ins *in, const float *v, int l)
{
	return in->flags & GP_EXEC_FTZ ? ops_flush(v[l]) : v[l];
}

#define ROUND_OP(T, kind, expr)                                                                    \
	case kind:                                                                                 \
		OPS_EACH(d[l] = (T)(expr));                                                        \
		break

#define ROUND_INT_OP(T, kind, S)                                                                   \
	case kind: {                                                                               \
		const S *s = gp_exec_lanes(w, in->a);                                              \
		OPS_EACH(d[l] = (T)s[l]);                                                          \
		break;                                                                             \
	}

void gp_exec_round_f32(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask)
{
	SRC(float, a);
	const float *b = in->b == GP_EXEC_NONE ? a : gp_exec_lanes(w, in->b);
	const float *c = in->c == GP_EXEC_NONE ? a : gp_exec_lanes(w, in->c);
	const double *wide = gp_exec_lanes(w, in->a);
	DST(float);

#define X(p) round_in(in, p, l)
	round_set(in->imm);
	switch (in->aux) {
		ROUND_OP(float, GP_EXEC_ROUND_ADD, X(a) + X(b));
		ROUND_OP(float, GP_EXEC_ROUND_SUB, X(a) - X(b));
		ROUND_OP(float, GP_EXEC_ROUND_MUL, X(a) * X(b));
		ROUND_OP(float, GP_EXEC_ROUND_FMA, fmaf(X(a), X(b), X(c)));
		ROUND_OP(float, GP_EXEC_ROUND_DIV, X(a) / X(b));
		ROUND_OP(float, GP_EXEC_ROUND_SQRT, sqrtf(X(a)));
		ROUND_OP(float, GP_EXEC_ROUND_RCP, 1.0f / X(a));
		ROUND_INT_OP(float, GP_EXEC_ROUND_U32, uint32_t)
		ROUND_INT_OP(float, GP_EXEC_ROUND_S32, int32_t)
		ROUND_INT_OP(float, GP_EXEC_ROUND_U64, uint64_t)
		ROUND_INT_OP(float, GP_EXEC_ROUND_S64, int64_t)
	default:
		OPS_EACH(d[l] = (float)wide[l]);
	}
	round_set(GP_EXEC_RN);
#undef X
	if (in->flags & GP_EXEC_FTZ)
		OPS_EACH(d[l] = ops_flush(d[l]));
}

void gp_exec_round_f64(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask)
{
	SRC(double, a);
	const double *b = in->b == GP_EXEC_NONE ? a : gp_exec_lanes(w, in->b);
	const double *c = in->c == GP_EXEC_NONE ? a : gp_exec_lanes(w, in->c);
	DST(double);

	round_set(in->imm);
	switch (in->aux) {
		ROUND_OP(double, GP_EXEC_ROUND_ADD, a[l] + b[l]);
		ROUND_OP(double, GP_EXEC_ROUND_SUB, a[l] - b[l]);
		ROUND_OP(double, GP_EXEC_ROUND_MUL, a[l] * b[l]);
		ROUND_OP(double, GP_EXEC_ROUND_FMA, fma(a[l], b[l], c[l]));
		ROUND_OP(double, GP_EXEC_ROUND_DIV, a[l] / b[l]);
		ROUND_OP(double, GP_EXEC_ROUND_SQRT, sqrt(a[l]));
		ROUND_OP(double, GP_EXEC_ROUND_RCP, 1.0 / a[l]);
		ROUND_INT_OP(double, GP_EXEC_ROUND_U32, uint32_t)
		ROUND_INT_OP(double, GP_EXEC_ROUND_S32, int32_t)
		ROUND_INT_OP(double, GP_EXEC_ROUND_U64, uint64_t)
	default: {
		const int64_t *s = gp_exec_lanes(w, in->a);
		OPS_EACH(d[l] = (double)s[l]);
	}
	}
	round_set(GP_EXEC_RN);
}
