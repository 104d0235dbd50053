/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_OPS_WARP_H
#define GP_SHIM_SOFT_EXEC_OPS_WARP_H
/*
 * Operations across lanes. The scheduler has brought together the lanes that take part: @mask.
 * Included once, by ops.c.
 */
#include "shim/soft/exec/ops.h"

OP(activemask)
{
	DST(uint32_t);

	OPS_EACH(d[l] = mask);
}

/* Clamp and segment are packed in c as PTX packs them (shfl.sync). */
OP(shfl)
{
	uint32_t src[GP_EXEC_LANES], valid = 0;
	SRC(uint32_t, b);
	SRC(uint32_t, c);
	DST(uint32_t);

	memcpy(src, gp_exec_lanes(w, in->a), sizeof(src));
	OPS_EACH(int32_t lane = l; int32_t seg = c[l] >> 8 & 31; int32_t n = b[l] & 31;
		 int32_t min = lane & seg; int32_t max = min | ((int32_t)(c[l] & 31) & ~seg);
		 int32_t from; bool ok; switch (in->aux) {
			 case GP_EXEC_SHFL_UP:
				 from = lane - n;
				 ok = from >= max;
				 break;
			 case GP_EXEC_SHFL_DOWN:
				 from = lane + n;
				 ok = from <= max;
				 break;
			 case GP_EXEC_SHFL_BFLY:
				 from = lane ^ n;
				 ok = from <= max;
				 break;
			 default:
				 from = min | (n & ~seg);
				 ok = from <= max;
		 } d[l] = src[ok ? from & 31 : lane];
		 valid |= (uint32_t)ok << l);
	gp_exec_set_pred(w, in->e, valid, mask);
}

static inline uint32_t ops_vote_bits(struct gp_exec_warp *w, const struct gp_exec_ins *in,
				     uint32_t mask)
{
	uint32_t p = gp_exec_pred(w, in->a);

	return (in->flags & GP_EXEC_PRED_NOT ? ~p : p) & mask;
}

OP(vote_all)
{
	gp_exec_set_pred(w, in->d, ops_vote_bits(w, in, mask) == mask ? OPS_ALL : 0, mask);
}

OP(vote_any)
{
	gp_exec_set_pred(w, in->d, ops_vote_bits(w, in, mask) ? OPS_ALL : 0, mask);
}

OP(vote_uni)
{
	uint32_t bits = ops_vote_bits(w, in, mask);

	gp_exec_set_pred(w, in->d, !bits || bits == mask ? OPS_ALL : 0, mask);
}

OP(vote_ballot)
{
	uint32_t bits = ops_vote_bits(w, in, mask);
	DST(uint32_t);

	OPS_EACH(d[l] = bits);
}

#define DEF_MATCH(t, T)                                                                            \
	OP(match_any_##t)                                                                          \
	{                                                                                          \
		T v[GP_EXEC_LANES];                                                                \
		DST(uint32_t);                                                                     \
		memcpy(v, gp_exec_lanes(w, in->a), sizeof(v));                                     \
		OPS_EACH(uint32_t same = 0; for (int k = 0; k < GP_EXEC_LANES; k++) same |=        \
					    (mask >> k & 1) && v[k] == v[l] ? 1u << k : 0;         \
			 d[l] = same);                                                             \
	}                                                                                          \
	OP(match_all_##t)                                                                          \
	{                                                                                          \
		T v[GP_EXEC_LANES];                                                                \
		uint32_t differ = 0;                                                               \
		DST(uint32_t);                                                                     \
		memcpy(v, gp_exec_lanes(w, in->a), sizeof(v));                                     \
		OPS_EACH(differ |= v[l] != v[__builtin_ctz(mask)]);                                \
		OPS_EACH(d[l] = differ ? 0 : mask);                                                \
		gp_exec_set_pred(w, in->e, differ ? 0 : OPS_ALL, mask);                            \
	}
DEF_MATCH(u32, uint32_t)
DEF_MATCH(u64, uint64_t)

static inline uint32_t ops_redux_step(unsigned int kind, bool is_signed, uint32_t x, uint32_t y)
{
	bool less = is_signed ? (int32_t)x < (int32_t)y : x < y;

	switch (kind) {
	case GP_EXEC_REDUX_ADD:
		return x + y;
	case GP_EXEC_REDUX_MIN:
		return less ? x : y;
	case GP_EXEC_REDUX_MAX:
		return less ? y : x;
	case GP_EXEC_REDUX_AND:
		return x & y;
	case GP_EXEC_REDUX_OR:
		return x | y;
	default:
		return x ^ y;
	}
}

OP(redux)
{
	uint32_t acc = 0, first = 1;
	SRC(uint32_t, a);
	DST(uint32_t);

	OPS_EACH(acc = first ? a[l]
			     : ops_redux_step(in->aux, in->flags & GP_EXEC_SIGNED, acc, a[l]);
		 first = 0);
	OPS_EACH(d[l] = acc);
}

/* The lowest lane is elected. */
OP(elect)
{
	uint32_t leader = (uint32_t)__builtin_ctz(mask);

	if (in->d != GP_EXEC_NONE) {
		DST(uint32_t);
		OPS_EACH(d[l] = leader);
	}
	gp_exec_set_pred(w, in->e, 1u << leader, mask);
}

#endif
