/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_OPS_INT_H
#define GP_SHIM_SOFT_EXEC_OPS_INT_H
/*
 * Integer, logic, predicate and data-movement operations. Included once, by ops.c.
 */
#include "shim/soft/exec/ops.h"

#define DEF2(name, T, expr)                                                                        \
	OP(name)                                                                                   \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		DST(T);                                                                            \
		OPS_PURE(T, expr);                                                                 \
	}
#define DEF2_W(name, expr)                                                                         \
	DEF2(name##_u16, uint16_t, expr)                                                           \
	DEF2(name##_u32, uint32_t, expr)                                                           \
	DEF2(name##_u64, uint64_t, expr)
#define DEF2_WS(name, expr)                                                                        \
	DEF2_W(name, expr)                                                                         \
	DEF2(name##_s16, int16_t, expr)                                                            \
	DEF2(name##_s32, int32_t, expr)                                                            \
	DEF2(name##_s64, int64_t, expr)

#define DEF1(name, D, T, expr)                                                                     \
	OP(name)                                                                                   \
	{                                                                                          \
		SRC(T, a);                                                                         \
		DST(D);                                                                            \
		OPS_PURE(D, expr);                                                                 \
	}
#define DEF1_W(name, expr)                                                                         \
	DEF1(name##_u16, uint16_t, uint16_t, expr)                                                 \
	DEF1(name##_u32, uint32_t, uint32_t, expr)                                                 \
	DEF1(name##_u64, uint64_t, uint64_t, expr)

#define DEF3(name, D, T, C, expr)                                                                  \
	OP(name)                                                                                   \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		SRC(C, c);                                                                         \
		DST(D);                                                                            \
		OPS_PURE(D, expr);                                                                 \
	}

OP(nop)
{
}

DEF1_W(mov, a[l])
DEF1_W(not, ~a[l])
DEF1_W(cnot, a[l] == 0)
DEF1(neg_u16, uint16_t, uint16_t, 0 - (uint32_t)a[l])
DEF1(neg_u32, uint32_t, uint32_t, 0 - a[l])
DEF1(neg_u64, uint64_t, uint64_t, 0 - a[l])
DEF1(abs_u16, uint16_t, int16_t, a[l] < 0 ? 0 - (uint32_t)a[l] : (uint32_t)a[l])
DEF1(abs_u32, uint32_t, int32_t, a[l] < 0 ? 0 - (uint32_t)a[l] : (uint32_t)a[l])
DEF1(abs_u64, uint64_t, int64_t, a[l] < 0 ? 0 - (uint64_t)a[l] : (uint64_t)a[l])
DEF2(add_u16, uint16_t, (uint32_t)a[l] + b[l])
DEF2(add_u32, uint32_t, a[l] + b[l])
DEF2(add_u64, uint64_t, a[l] + b[l])
DEF2(sub_u16, uint16_t, (uint32_t)a[l] - b[l])
DEF2(sub_u32, uint32_t, a[l] - b[l])
DEF2(sub_u64, uint64_t, a[l] - b[l])
DEF2(mul_u16, uint16_t, (uint32_t)a[l] * b[l])
DEF2(mul_u32, uint32_t, a[l] * b[l])
DEF2(mul_u64, uint64_t, a[l] * b[l])
DEF3(mad_u16, uint16_t, uint16_t, uint16_t, (uint32_t)a[l] * b[l] + c[l])
DEF3(mad_u32, uint32_t, uint32_t, uint32_t, a[l] * b[l] + c[l])
DEF3(mad_u64, uint64_t, uint64_t, uint64_t, a[l] * b[l] + c[l])
DEF2_W(and, a[l] & b[l])
DEF2_W(or, a[l] | b[l])
DEF2_W(xor, a[l] ^ b[l])
DEF2_WS(min, a[l] < b[l] ? a[l] : b[l])
DEF2_WS(max, a[l] > b[l] ? a[l] : b[l])

/* Widening products. */
#define DEF_WIDE(t, T, D)                                                                          \
	DEF1_WIDE_MUL(mulwide_##t, T, D)                                                           \
	DEF3(madwide_##t, D, T, D, (D)a[l] * (D)b[l] + c[l])
#define DEF1_WIDE_MUL(name, T, D)                                                                  \
	OP(name)                                                                                   \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		DST(D);                                                                            \
		OPS_PURE(D, (D)a[l] * (D)b[l]);                                                    \
	}
DEF_WIDE(u16, uint16_t, uint32_t)
DEF_WIDE(u32, uint32_t, uint64_t)
DEF1_WIDE_MUL(mulwide_s16, int16_t, int32_t)
DEF1_WIDE_MUL(mulwide_s32, int32_t, int64_t)
DEF3(madwide_s16, uint32_t, int16_t, uint32_t, (uint32_t)((int32_t)a[l] * b[l]) + c[l])
DEF3(madwide_s32, uint64_t, int32_t, uint64_t, (uint64_t)((int64_t)a[l] * b[l]) + c[l])

#define OPS_HI(W, half) ((W)a[l] * (W)b[l] >> (half))
#define DEF_HI(t, T, U, W, half)                                                                   \
	DEF2(mulhi_##t, T, OPS_HI(W, half))                                                        \
	DEF3(madhi_##t, U, T, U, (U)OPS_HI(W, half) + c[l])
DEF_HI(u16, uint16_t, uint16_t, uint32_t, 16)
DEF_HI(u32, uint32_t, uint32_t, uint64_t, 32)
DEF_HI(u64, uint64_t, uint64_t, unsigned __int128, 64)
DEF_HI(s16, int16_t, uint16_t, int32_t, 16)
DEF_HI(s32, int32_t, uint32_t, int64_t, 32)
DEF_HI(s64, int64_t, uint64_t, __int128, 64)

#define DEF_SAD(t, T, U)                                                                           \
	DEF3(sad_##t, U, T, U, c[l] + (a[l] < b[l] ? (U)b[l] - (U)a[l] : (U)a[l] - (U)b[l]))
DEF_SAD(u16, uint16_t, uint16_t)
DEF_SAD(u32, uint32_t, uint32_t)
DEF_SAD(u64, uint64_t, uint64_t)
DEF_SAD(s16, int16_t, uint16_t)
DEF_SAD(s32, int32_t, uint32_t)
DEF_SAD(s64, int64_t, uint64_t)

/* Division by zero gives all ones, as on the card; the overflowing quotient wraps. */
#define DEF_DIV_U(t, T)                                                                            \
	OP(div_##t)                                                                                \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		DST(T);                                                                            \
		OPS_EACH(d[l] = b[l] ? (T)(a[l] / b[l]) : (T) - 1);                                \
	}                                                                                          \
	OP(rem_##t)                                                                                \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		DST(T);                                                                            \
		OPS_EACH(d[l] = b[l] ? (T)(a[l] % b[l]) : a[l]);                                   \
	}
#define DEF_DIV_S(t, T, U)                                                                         \
	OP(div_##t)                                                                                \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		DST(T);                                                                            \
		OPS_EACH(d[l] = !b[l] ? -1 : b[l] == -1 ? (T)(0 - (U)a[l]) : (T)(a[l] / b[l]));    \
	}                                                                                          \
	OP(rem_##t)                                                                                \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		DST(T);                                                                            \
		OPS_EACH(d[l] = !b[l] ? a[l] : b[l] == -1 ? 0 : (T)(a[l] % b[l]));                 \
	}
DEF_DIV_U(u16, uint16_t)
DEF_DIV_U(u32, uint32_t)
DEF_DIV_U(u64, uint64_t)
DEF_DIV_S(s16, int16_t, uint16_t)
DEF_DIV_S(s32, int32_t, uint32_t)
DEF_DIV_S(s64, int64_t, uint64_t)

/* Shift counts are 32 bits and clamp at the width. */
#define DEF_SHIFT(name, T, expr_big, expr)                                                         \
	OP(name)                                                                                   \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(uint32_t, b);                                                                  \
		DST(T);                                                                            \
		OPS_PURE(T, b[l] >= sizeof(T) * 8 ? (T)(expr_big) : (T)(expr));                    \
	}
#define OPS_COUNT(T) (b[l] & (sizeof(T) * 8 - 1))
DEF_SHIFT(shl_u16, uint16_t, 0, (uint32_t)a[l] << OPS_COUNT(uint16_t))
DEF_SHIFT(shl_u32, uint32_t, 0, a[l] << OPS_COUNT(uint32_t))
DEF_SHIFT(shl_u64, uint64_t, 0, a[l] << OPS_COUNT(uint64_t))
DEF_SHIFT(shr_u16, uint16_t, 0, a[l] >> OPS_COUNT(uint16_t))
DEF_SHIFT(shr_u32, uint32_t, 0, a[l] >> OPS_COUNT(uint32_t))
DEF_SHIFT(shr_u64, uint64_t, 0, a[l] >> OPS_COUNT(uint64_t))
DEF_SHIFT(shr_s16, int16_t, a[l] < 0 ? -1 : 0, a[l] >> OPS_COUNT(int16_t))
DEF_SHIFT(shr_s32, int32_t, a[l] < 0 ? -1 : 0, a[l] >> OPS_COUNT(int32_t))
DEF_SHIFT(shr_s64, int64_t, a[l] < 0 ? -1 : 0, a[l] >> OPS_COUNT(int64_t))

#define DEF_FUNNEL(name, expr)                                                                     \
	OP(name)                                                                                   \
	{                                                                                          \
		SRC(uint32_t, a);                                                                  \
		SRC(uint32_t, b);                                                                  \
		SRC(uint32_t, c);                                                                  \
		DST(uint32_t);                                                                     \
		bool wrap = in->flags & GP_EXEC_WRAP;                                              \
		OPS_EACH(uint64_t v = (uint64_t)b[l] << 32 | a[l];                                 \
			 uint32_t n = wrap ? c[l] & 31 : (c[l] > 32 ? 32 : c[l]);                  \
			 d[l] = (uint32_t)(expr));                                                 \
	}
DEF_FUNNEL(shf_l, n == 32 ? a[l] : v << n >> 32)
DEF_FUNNEL(shf_r, v >> n)

DEF1(popc_u32, uint32_t, uint32_t, __builtin_popcount(a[l]))
DEF1(popc_u64, uint32_t, uint64_t, __builtin_popcountll(a[l]))
DEF1(clz_u32, uint32_t, uint32_t, a[l] ? __builtin_clz(a[l]) : 32)
DEF1(clz_u64, uint32_t, uint64_t, a[l] ? __builtin_clzll(a[l]) : 64)

static inline uint32_t ops_brev32(uint32_t v)
{
	v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
	v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
	v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
	return __builtin_bswap32(v);
}

DEF1(brev_u32, uint32_t, uint32_t, ops_brev32(a[l]))
DEF1(brev_u64, uint64_t, uint64_t,
     (uint64_t)ops_brev32((uint32_t)a[l]) << 32 | ops_brev32((uint32_t)(a[l] >> 32)))

/* Position of the highest bit that differs from the sign, from bit 0 or (.shiftamt) from the top.
 */
static inline uint32_t ops_bfind(uint64_t v, unsigned int width, bool shiftamt)
{
	unsigned int pos;

	if (!v)
		return UINT32_MAX;
	pos = 63u - (unsigned int)__builtin_clzll(v);
	return shiftamt ? width - 1 - pos : pos;
}

DEF1(bfind_u32, uint32_t, uint32_t, ops_bfind(a[l], 32, in->aux))
DEF1(bfind_u64, uint32_t, uint64_t, ops_bfind(a[l], 64, in->aux))
DEF1(bfind_s32, uint32_t, int32_t, ops_bfind((uint32_t)(a[l] < 0 ? ~a[l] : a[l]), 32, in->aux))
DEF1(bfind_s64, uint32_t, int64_t, ops_bfind((uint64_t)(a[l] < 0 ? ~a[l] : a[l]), 64, in->aux))

static inline uint64_t ops_bfe(uint64_t v, unsigned int width, uint32_t pos, uint32_t len,
			       bool is_signed)
{
	uint64_t field, sign;

	pos &= 0xff;
	len &= 0xff;
	/* The sign is the field's top bit, or the value's where the field reaches beyond it. */
	sign = !is_signed || !len ? 0
				  : v >> (pos + len - 1 < width ? pos + len - 1 : width - 1) & 1;
	field = pos >= width ? 0 : v >> pos;
	if (len < width) {
		field &= (1ull << len) - 1;
		if (sign)
			field |= ~0ull << len;
	}
	if (sign && pos && pos + len > width)
		field |= pos >= width ? ~0ull : ~0ull << (width - pos);
	return field;
}

#define DEF_BFE(t, T, is_signed)                                                                   \
	OP(bfe_##t)                                                                                \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(uint32_t, b);                                                                  \
		SRC(uint32_t, c);                                                                  \
		DST(T);                                                                            \
		OPS_EACH(d[l] = (T)ops_bfe(a[l], sizeof(T) * 8, b[l], c[l], is_signed));           \
	}
DEF_BFE(u32, uint32_t, false)
DEF_BFE(u64, uint64_t, false)
DEF_BFE(s32, uint32_t, true)
DEF_BFE(s64, uint64_t, true)

/* bfi d, a, b, pos(c), len(e): bits of a into b. */
#define DEF_BFI(t, T)                                                                              \
	OP(bfi_##t)                                                                                \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		SRC(uint32_t, c);                                                                  \
		SRC(uint32_t, e);                                                                  \
		DST(T);                                                                            \
		OPS_EACH(uint32_t pos = c[l] & 0xff; uint32_t len = e[l] & 0xff;                   \
			 T field = len >= sizeof(T) * 8 ? (T) - 1 : ((T)1 << len) - 1;             \
			 T m = pos >= sizeof(T) * 8 ? 0 : (T)(field << pos);                       \
			 d[l] = (b[l] & ~m) | (pos >= sizeof(T) * 8 ? 0 : (T)(a[l] << pos) & m));  \
	}
DEF_BFI(u32, uint32_t)
DEF_BFI(u64, uint64_t)

OP(bmsk)
{
	SRC(uint32_t, a);
	SRC(uint32_t, b);
	DST(uint32_t);
	bool wrap = in->flags & GP_EXEC_WRAP;

	OPS_EACH(uint32_t pos = wrap ? a[l] & 31 : a[l]; uint32_t len = wrap ? b[l] & 31 : b[l];
		 uint64_t m = pos >= 32 ? 0 : ((len >= 32 ? 1ull << 32 : 1ull << len) - 1) << pos;
		 d[l] = (uint32_t)m);
}

static inline uint32_t ops_prmt(uint32_t a, uint32_t b, uint32_t selector)
{
	uint64_t bytes = (uint64_t)b << 32 | a;
	uint32_t out = 0;

	for (int i = 0; i < 4; i++) {
		uint32_t sel = selector >> (4 * i) & 0xf;
		uint32_t byte = (uint32_t)(bytes >> (8 * (sel & 7))) & 0xff;

		if (sel & 8)
			byte = byte & 0x80 ? 0xff : 0;
		out |= byte << (8 * i);
	}
	return out;
}

DEF3(prmt, uint32_t, uint32_t, uint32_t, ops_prmt(a[l], b[l], c[l]))

/* The truth table's bit for each combination, or-ed; constant per instruction, so few terms. */
OP(lop3)
{
	SRC(uint32_t, a);
	SRC(uint32_t, b);
	SRC(uint32_t, c);
	DST(uint32_t);
	uint32_t t[8];

	for (int k = 0; k < 8; k++)
		t[k] = in->imm >> k & 1 ? ~0u : 0;
	OPS_PURE(uint32_t, (t[0] & ~a[l] & ~b[l] & ~c[l]) | (t[1] & ~a[l] & ~b[l] & c[l]) |
				   (t[2] & ~a[l] & b[l] & ~c[l]) | (t[3] & ~a[l] & b[l] & c[l]) |
				   (t[4] & a[l] & ~b[l] & ~c[l]) | (t[5] & a[l] & ~b[l] & c[l]) |
				   (t[6] & a[l] & b[l] & ~c[l]) | (t[7] & a[l] & b[l] & c[l]));
}

static inline uint32_t ops_mul24(int64_t a, int64_t b, bool hi)
{
	return (uint32_t)(hi ? a * b >> 16 : a * b);
}

DEF2(mul24_u32, uint32_t, ops_mul24(a[l] & 0xffffff, b[l] & 0xffffff, in->aux))
DEF2(mul24_s32, uint32_t, ops_mul24((int32_t)(a[l] << 8) >> 8, (int32_t)(b[l] << 8) >> 8, in->aux))

/* .aux bit 0: a is signed, bit 1: b is signed. */
static inline uint32_t ops_dp4a(uint32_t a, uint32_t b, uint32_t c, unsigned int aux)
{
	for (int i = 0; i < 32; i += 8) {
		int32_t x = aux & 1 ? (int8_t)(a >> i) : (int32_t)(a >> i & 0xff);
		int32_t y = aux & 2 ? (int8_t)(b >> i) : (int32_t)(b >> i & 0xff);

		c += (uint32_t)(x * y);
	}
	return c;
}

DEF3(dp4a, uint32_t, uint32_t, uint32_t, ops_dp4a(a[l], b[l], c[l], in->aux))

static inline uint32_t ops_clamp32(int64_t v)
{
	return (uint32_t)(int32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

DEF2(addsat, int32_t, ops_clamp32((int64_t)a[l] + b[l]))
DEF2(subsat, int32_t, ops_clamp32((int64_t)a[l] - b[l]))

static inline uint32_t ops_vabsdiff4(uint32_t a, uint32_t b, uint32_t c)
{
	for (int i = 0; i < 32; i += 8) {
		uint32_t x = a >> i & 0xff, y = b >> i & 0xff;

		c += x > y ? x - y : y - x;
	}
	return c;
}

DEF3(vabsdiff4, uint32_t, uint32_t, uint32_t, ops_vabsdiff4(a[l], b[l], c[l]))

/* Carry chains: the condition code is one bit per lane. */
#define OPS_CARRY(T, W, expr)                                                                      \
	uint32_t carry = in->flags & GP_EXEC_CARRY_IN ? w->carry : 0;                              \
	DST(T);                                                                                    \
	OPS_EACH(W v = (expr); d[l] = (T)v;                                                        \
		 if (in->flags & GP_EXEC_CARRY_OUT) w->carry =                                     \
			 (w->carry & ~(1u << l)) | (uint32_t)(v >> (sizeof(T) * 8) & 1) << l)
#define OPS_CIN (carry >> l & 1)
#define DEF_CARRY(t, T, W)                                                                         \
	OP(addc_##t)                                                                               \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		OPS_CARRY(T, W, (W)a[l] + b[l] + OPS_CIN);                                         \
	}                                                                                          \
	OP(subc_##t)                                                                               \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		OPS_CARRY(T, W, (W)a[l] - b[l] - OPS_CIN);                                         \
	}                                                                                          \
	OP(madc_lo_##t)                                                                            \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		SRC(T, c);                                                                         \
		OPS_CARRY(T, W, (W)(T)(a[l] * b[l]) + c[l] + OPS_CIN);                             \
	}                                                                                          \
	OP(madc_hi_##t)                                                                            \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		SRC(T, c);                                                                         \
		OPS_CARRY(T, W, ((W)a[l] * b[l] >> (sizeof(T) * 8)) + c[l] + OPS_CIN);             \
	}
DEF_CARRY(u32, uint32_t, uint64_t)
DEF_CARRY(u64, uint64_t, unsigned __int128)
#define DEF_CARRY_HI_S(t, T, U, W, V)                                                              \
	OP(madc_hi_##t)                                                                            \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		SRC(U, c);                                                                         \
		OPS_CARRY(U, V, (V)(U)((W)a[l] * b[l] >> (sizeof(T) * 8)) + c[l] + OPS_CIN);       \
	}
DEF_CARRY_HI_S(s32, int32_t, uint32_t, int64_t, uint64_t)
DEF_CARRY_HI_S(s64, int64_t, uint64_t, __int128, unsigned __int128)

/* Predicates are words: no loop. */
OP(movp)
{
	gp_exec_set_pred(w, in->d, gp_exec_pred(w, in->a), mask);
}

OP(notp)
{
	gp_exec_set_pred(w, in->d, ~gp_exec_pred(w, in->a), mask);
}

OP(andp)
{
	gp_exec_set_pred(w, in->d, gp_exec_pred(w, in->a) & gp_exec_pred(w, in->b), mask);
}

OP(orp)
{
	gp_exec_set_pred(w, in->d, gp_exec_pred(w, in->a) | gp_exec_pred(w, in->b), mask);
}

OP(xorp)
{
	gp_exec_set_pred(w, in->d, gp_exec_pred(w, in->a) ^ gp_exec_pred(w, in->b), mask);
}

OP(selpp)
{
	uint32_t p = gp_exec_pred(w, in->c);

	gp_exec_set_pred(w, in->d, (gp_exec_pred(w, in->a) & p) | (gp_exec_pred(w, in->b) & ~p),
			 mask);
}

#define DEF_SELP(t, T)                                                                             \
	OP(selp_##t)                                                                               \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		DST(T);                                                                            \
		uint32_t p = gp_exec_pred(w, in->c);                                               \
		if (in->flags & GP_EXEC_PRED_NOT)                                                  \
			p = ~p;                                                                    \
		OPS_PURE(T, p >> l & 1 ? a[l] : b[l]);                                             \
	}
DEF_SELP(u16, uint16_t)
DEF_SELP(u32, uint32_t)
DEF_SELP(u64, uint64_t)

/* Stores a comparison's bits, combined with a third predicate, and their complement. */
static inline void ops_set_cmp(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask,
			       uint32_t bits)
{
	uint32_t other = ~bits, c;

	if (in->aux) {
		c = gp_exec_pred(w, in->c);
		if (in->flags & GP_EXEC_PRED_NOT)
			c = ~c;
		if (in->aux == GP_EXEC_BOOL_AND) {
			bits &= c;
			other &= c;
		} else if (in->aux == GP_EXEC_BOOL_OR) {
			bits |= c;
			other |= c;
		} else {
			bits ^= c;
			other ^= c;
		}
	}
	gp_exec_set_pred(w, in->d, bits, mask);
	gp_exec_set_pred(w, in->e, other, mask);
}

/* The or of single bits is a reduction that gcc vectorises. */
#define DEF_CMP(name, T, expr)                                                                     \
	OP(name)                                                                                   \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		uint32_t bits = 0;                                                                 \
		for (int l = 0; l < GP_EXEC_LANES; l++)                                            \
			bits |= (expr) ? 1u << l : 0;                                              \
		ops_set_cmp(w, in, mask, bits);                                                    \
	}
#define DEF_CMP_W(name, expr)                                                                      \
	DEF_CMP(name##_u16, uint16_t, expr)                                                        \
	DEF_CMP(name##_u32, uint32_t, expr)                                                        \
	DEF_CMP(name##_u64, uint64_t, expr)
#define DEF_CMP_WS(name, expr)                                                                     \
	DEF_CMP_W(name, expr)                                                                      \
	DEF_CMP(name##_s16, int16_t, expr)                                                         \
	DEF_CMP(name##_s32, int32_t, expr)                                                         \
	DEF_CMP(name##_s64, int64_t, expr)
DEF_CMP_W(setp_eq, a[l] == b[l])
DEF_CMP_W(setp_ne, a[l] != b[l])
DEF_CMP_WS(setp_lt, a[l] < b[l])
DEF_CMP_WS(setp_le, a[l] <= b[l])
DEF_CMP_WS(setp_gt, a[l] > b[l])
DEF_CMP_WS(setp_ge, a[l] >= b[l])

/* ext_<width of source register>_<type>_<width of destination register>. */
#define DEF_EXT(sw, S, t, T, dw, D) DEF1(ext_##sw##_##t##_##dw, D, S, (T)a[l])
#define DEF_EXT_D(sw, S, t, T)                                                                     \
	DEF_EXT(sw, S, t, T, 16, uint16_t)                                                         \
	DEF_EXT(sw, S, t, T, 32, uint32_t)                                                         \
	DEF_EXT(sw, S, t, T, 64, uint64_t)
#define DEF_EXT_S(sw, S)                                                                           \
	DEF_EXT_D(sw, S, u8, uint8_t)                                                              \
	DEF_EXT_D(sw, S, s8, int8_t)                                                               \
	DEF_EXT_D(sw, S, u16, uint16_t)                                                            \
	DEF_EXT_D(sw, S, s16, int16_t)                                                             \
	DEF_EXT_D(sw, S, u32, uint32_t)                                                            \
	DEF_EXT_D(sw, S, s32, int32_t)                                                             \
	DEF_EXT_D(sw, S, u64, uint64_t)
DEF_EXT_S(16, uint16_t)
DEF_EXT_S(32, uint32_t)
DEF_EXT_S(64, uint64_t)

/*
 * Saturating integer conversion: from .imm bits (negative: signed) to .aux bits (SIGNED: signed).
 * Source and destination registers are 64 bits, extended before and after.
 */
OP(cvt_sat)
{
	SRC(uint64_t, a);
	DST(uint64_t);
	unsigned int bits = in->aux;
	bool from_signed = in->imm < 0;
	int64_t hi = bits == 64 ? INT64_MAX : (int64_t)((1ull << (bits - 1)) - 1);
	uint64_t uhi = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;

	if (in->flags & GP_EXEC_SIGNED)
		OPS_EACH(int64_t v = !from_signed && (int64_t)a[l] < 0 ? INT64_MAX : (int64_t)a[l];
			 d[l] = (uint64_t)(v > hi	 ? hi
					   : v < -hi - 1 ? -hi - 1
							 : v));
	else
		OPS_EACH(uint64_t v = from_signed && (int64_t)a[l] < 0 ? 0 : a[l];
			 d[l] = v > uhi ? uhi : v);
}

/* mov of vectors: two or four narrow registers from or to one wide one. */
#define DEF_PACK2(name, T, D, half)                                                                \
	OP(name)                                                                                   \
	{                                                                                          \
		SRC(T, a);                                                                         \
		SRC(T, b);                                                                         \
		DST(D);                                                                            \
		OPS_PURE(D, (D)a[l] | (D)b[l] << (half));                                          \
	}
DEF_PACK2(pack_16_32, uint16_t, uint32_t, 16)
DEF_PACK2(pack_32_64, uint32_t, uint64_t, 32)

#define DEF_UNPACK2(name, T, D, half)                                                              \
	OP(name)                                                                                   \
	{                                                                                          \
		T tmp[GP_EXEC_LANES];                                                              \
		memcpy(tmp, gp_exec_lanes(w, in->a), sizeof(tmp));                                 \
		if (in->d != GP_EXEC_NONE) {                                                       \
			DST(D);                                                                    \
			OPS_PURE(D, tmp[l]);                                                       \
		}                                                                                  \
		if (in->e != GP_EXEC_NONE) {                                                       \
			D *d = gp_exec_lanes(w, in->e);                                            \
			OPS_PURE(D, tmp[l] >> (half));                                             \
		}                                                                                  \
	}
DEF_UNPACK2(unpack_32_16, uint32_t, uint16_t, 16)
DEF_UNPACK2(unpack_64_32, uint64_t, uint32_t, 32)

OP(pack_16_64)
{
	SRC(uint16_t, a);
	SRC(uint16_t, b);
	SRC(uint16_t, c);
	SRC(uint16_t, e);
	DST(uint64_t);

	OPS_PURE(uint64_t, (uint64_t)a[l] | (uint64_t)b[l] << 16 | (uint64_t)c[l] << 32 |
				   (uint64_t)e[l] << 48);
}

/* Destinations d, b, c, e. */
OP(unpack_64_16)
{
	const uint32_t dst[4] = { in->d, in->b, in->c, in->e };
	SRC(uint64_t, a);

	for (int k = 0; k < 4; k++) {
		uint16_t *d;

		if (dst[k] == GP_EXEC_NONE)
			continue;
		d = gp_exec_lanes(w, dst[k]);
		OPS_PURE(uint16_t, a[l] >> (16 * k));
	}
}

#endif
