/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_OPS_H
#define GP_SHIM_SOFT_EXEC_OPS_H
/*
 * How an operation is written. OPS_PURE computes one value per lane without side effects: with all
 * lanes active a plain loop, else a blend, both of which gcc turns into vector code. OPS_EACH runs
 * a statement for active lanes only: for what may fault, trap or be seen by others.
 */
#include "shim/soft/exec/warp.h"

#include <math.h>
#include <string.h>

#define OPS_ALL 0xffffffffu

#define OP(name)                                                                                   \
	static void op_##name(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask)

#define OPS_IVDEP _Pragma("GCC ivdep")

#define SRC(T, field) const T *field = gp_exec_lanes(w, in->field)
#define DST(T)	      T *d = gp_exec_lanes(w, in->d)

/* A lane's destination may be its own source, never another lane's: hence ivdep. */
#define OPS_PURE(T, expr)                                                                          \
	do {                                                                                       \
		if (mask == OPS_ALL) {                                                             \
			OPS_IVDEP                                                                  \
			for (int l = 0; l < GP_EXEC_LANES; l++)                                    \
				d[l] = (T)(expr);                                                  \
		} else {                                                                           \
			OPS_IVDEP                                                                  \
			for (int l = 0; l < GP_EXEC_LANES; l++) {                                  \
				T ops_v = (T)(expr);                                               \
				d[l] = (mask >> l & 1) ? ops_v : d[l];                             \
			}                                                                          \
		}                                                                                  \
	} while (0)

#define OPS_EACH(stmt)                                                                             \
	do {                                                                                       \
		for (uint32_t ops_m = mask; ops_m; ops_m &= ops_m - 1) {                           \
			int l = __builtin_ctz(ops_m);                                              \
			stmt;                                                                      \
		}                                                                                  \
	} while (0)

static inline uint64_t ops_bits64(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static inline double ops_double(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static inline uint32_t ops_bits32(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static inline float ops_float(uint32_t bits)
{
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* Subnormals become zero of the same sign. */
static inline float ops_flush(float v)
{
	uint32_t bits = ops_bits32(v);

	return ops_float(bits & 0x7f800000u ? bits : bits & 0x80000000u);
}

#endif
