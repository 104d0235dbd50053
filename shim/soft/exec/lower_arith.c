/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering of arithmetic, comparison and selection.
 */
#include "shim/soft/exec/lower.h"

#include <string.h>

/* Integer index in a WS family: u16 u32 u64 s16 s32 s64. */
static uint32_t arith_ws(struct gp_lower *L)
{
	return gp_lower_width(L, L->type.bits) + (L->type.kind == GP_LOWER_S ? 3 : 0);
}

static void arith_sources(struct gp_lower *L, uint32_t n, uint32_t bits, uint32_t *src)
{
	for (uint32_t i = 0; i < n; i++)
		src[i] = gp_lower_src(L, gp_lower_opnd(L, i + 1), bits);
}

static struct gp_exec_ins *arith_emit(struct gp_lower *L, uint32_t op, uint32_t d,
				      const uint32_t *src, uint32_t n)
{
	struct gp_exec_ins *in = gp_lower_emit(L, op);

	in->d = d;
	in->a = src[0];
	if (n > 1)
		in->b = src[1];
	if (n > 2)
		in->c = src[2];
	return in;
}

/* Rounding other than to nearest goes to the generic operation. */
static void arith_float(struct gp_lower *L, uint32_t family, uint32_t n,
			enum gp_exec_round_kind kind)
{
	uint32_t index = gp_lower_float(L), src[3] = { 0 }, bits = index == 2 ? 64 : 32;
	enum gp_exec_round round = gp_lower_round(L);
	struct gp_exec_ins *in;
	uint32_t d;

	if (L->is_unsupported)
		return;
	arith_sources(L, n, bits, src);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), bits);
	if (round == GP_EXEC_RN) {
		arith_emit(L, family + index, d, src, n);
	} else {
		in = arith_emit(L, bits == 64 ? GP_EXEC_OP_round_f64 : GP_EXEC_OP_round_f32, d, src,
				n);
		in->aux = (uint8_t)kind;
		in->imm = round;
		if (index == 1)
			in->flags |= GP_EXEC_FTZ;
	}
	if (gp_lower_has(L, "sat"))
		gp_lower_emit3(L, GP_EXEC_OP_fsat_f32 + index, d, d, GP_EXEC_NONE);
}

/* add.cc, addc, sub.cc, subc, mad.cc, madc. */
static bool arith_carry(struct gp_lower *L, uint32_t family, uint32_t n, bool carry_in)
{
	bool out = gp_lower_has(L, "cc");
	uint32_t src[3] = { 0 }, d, wide;

	if (!out && !carry_in)
		return false;
	if (L->type.bits != 32 && L->type.bits != 64) {
		gp_lower_unsupported(L);
		return true;
	}
	wide = L->type.bits == 64;
	if (family == GP_EXEC_OP_madc_hi_u32 && L->type.kind == GP_LOWER_S)
		wide += 2;
	arith_sources(L, n, L->type.bits, src);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), L->type.bits);
	arith_emit(L, family + wide, d, src, n)->flags |=
		(uint8_t)((out ? GP_EXEC_CARRY_OUT : 0) | (carry_in ? GP_EXEC_CARRY_IN : 0));
	return true;
}

static void arith_int(struct gp_lower *L, uint32_t op, uint32_t n)
{
	uint32_t src[3] = { 0 }, d;

	arith_sources(L, n, L->type.bits, src);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), L->type.bits);
	arith_emit(L, op, d, src, n);
}

static void arith_addsub(struct gp_lower *L, uint32_t is_sub)
{
	if (L->type.kind == GP_LOWER_F)
		arith_float(L, is_sub ? GP_EXEC_OP_fsub_f32 : GP_EXEC_OP_fadd_f32, 2,
			    is_sub ? GP_EXEC_ROUND_SUB : GP_EXEC_ROUND_ADD);
	else if (arith_carry(L, is_sub ? GP_EXEC_OP_subc_u32 : GP_EXEC_OP_addc_u32, 2, false))
		return;
	else if (gp_lower_has(L, "sat"))
		arith_int(L, is_sub ? GP_EXEC_OP_subsat : GP_EXEC_OP_addsat, 2);
	else
		arith_int(L,
			  (is_sub ? GP_EXEC_OP_sub_u16 : GP_EXEC_OP_add_u16) +
				  gp_lower_width(L, L->type.bits),
			  2);
}

static void arith_addc(struct gp_lower *L, uint32_t family)
{
	arith_carry(L, family, 2, true);
}

static void arith_madc(struct gp_lower *L, uint32_t unused)
{
	arith_carry(L, gp_lower_has(L, "hi") ? GP_EXEC_OP_madc_hi_u32 : GP_EXEC_OP_madc_lo_u32, 3,
		    true);
}

static void arith_wide(struct gp_lower *L, bool is_mad)
{
	uint32_t op = is_mad ? GP_EXEC_OP_madwide_u16 : GP_EXEC_OP_mulwide_u16;
	uint32_t bits = L->type.bits, src[3] = { 0 }, d;

	if (bits != 16 && bits != 32) {
		gp_lower_unsupported(L);
		return;
	}
	arith_sources(L, 2, bits, src);
	if (is_mad)
		src[2] = gp_lower_src(L, gp_lower_opnd(L, 3), bits * 2);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), bits * 2);
	op += (bits == 32 ? 1 : 0) + (L->type.kind == GP_LOWER_S ? 2 : 0);
	arith_emit(L, op, d, src, is_mad ? 3 : 2);
}

static void arith_mul(struct gp_lower *L, uint32_t is_mad)
{
	uint32_t n = is_mad ? 3 : 2;

	if (L->type.kind == GP_LOWER_F)
		arith_float(L, is_mad ? GP_EXEC_OP_ffma_f32 : GP_EXEC_OP_fmul_f32, n,
			    is_mad ? GP_EXEC_ROUND_FMA : GP_EXEC_ROUND_MUL);
	else if (gp_lower_has(L, "sat"))
		gp_lower_unsupported(L); /* mad.hi.sat.s32 */
	else if (gp_lower_has(L, "wide"))
		arith_wide(L, is_mad);
	else if (is_mad && arith_carry(L,
				       gp_lower_has(L, "hi") ? GP_EXEC_OP_madc_hi_u32
							     : GP_EXEC_OP_madc_lo_u32,
				       3, false))
		return;
	else if (gp_lower_has(L, "hi"))
		arith_int(L, (is_mad ? GP_EXEC_OP_madhi_u16 : GP_EXEC_OP_mulhi_u16) + arith_ws(L),
			  n);
	else
		arith_int(L,
			  (is_mad ? GP_EXEC_OP_mad_u16 : GP_EXEC_OP_mul_u16) +
				  gp_lower_width(L, L->type.bits),
			  n);
}

static void arith_fma(struct gp_lower *L, uint32_t unused)
{
	arith_float(L, GP_EXEC_OP_ffma_f32, 3, GP_EXEC_ROUND_FMA);
}

static void arith_mul24(struct gp_lower *L, uint32_t is_mad)
{
	uint32_t src[3] = { 0 }, product, d;
	struct gp_exec_ins *in;

	if (L->type.bits != 32 || gp_lower_has(L, "sat")) {
		gp_lower_unsupported(L);
		return;
	}
	arith_sources(L, is_mad ? 3 : 2, 32, src);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), 32);
	product = is_mad ? gp_lower_temp(L, 32) : d;
	in = gp_lower_emit3(
		L, L->type.kind == GP_LOWER_S ? GP_EXEC_OP_mul24_s32 : GP_EXEC_OP_mul24_u32,
		product, src[0], src[1]);
	in->aux = gp_lower_has(L, "hi");
	if (is_mad)
		gp_lower_emit3(L, GP_EXEC_OP_add_u32, d, product, src[2]);
}

static void arith_div(struct gp_lower *L, uint32_t unused)
{
	if (L->type.kind == GP_LOWER_F)
		arith_float(L, GP_EXEC_OP_fdiv_f32, 2, GP_EXEC_ROUND_DIV);
	else
		arith_int(L, GP_EXEC_OP_div_u16 + arith_ws(L), 2);
}

static void arith_rem(struct gp_lower *L, uint32_t unused)
{
	arith_int(L, GP_EXEC_OP_rem_u16 + arith_ws(L), 2);
}

static void arith_minmax(struct gp_lower *L, uint32_t is_max)
{
	bool nan = gp_lower_has(L, "NaN");
	uint32_t n = L->ptx->n_opnds, family;

	if (L->type.kind != GP_LOWER_F) {
		arith_int(L, (is_max ? GP_EXEC_OP_max_u16 : GP_EXEC_OP_min_u16) + arith_ws(L), 2);
		if (gp_lower_has(L, "relu"))
			gp_lower_unsupported(L);
		return;
	}
	if (nan)
		family = is_max ? GP_EXEC_OP_fmaxnan_f32 : GP_EXEC_OP_fminnan_f32;
	else
		family = is_max ? GP_EXEC_OP_fmax_f32 : GP_EXEC_OP_fmin_f32;
	if (n != 3 || gp_lower_has(L, "xorsign"))
		gp_lower_unsupported(L);
	else
		arith_float(L, family, 2, GP_EXEC_ROUND_ADD);
}

static void arith_sad(struct gp_lower *L, uint32_t unused)
{
	arith_int(L, GP_EXEC_OP_sad_u16 + arith_ws(L), 3);
}

static void arith_neg(struct gp_lower *L, uint32_t is_abs)
{
	if (L->type.kind == GP_LOWER_F)
		arith_float(L, is_abs ? GP_EXEC_OP_fabs_f32 : GP_EXEC_OP_fneg_f32, 1,
			    GP_EXEC_ROUND_ADD);
	else
		arith_int(L,
			  (is_abs ? GP_EXEC_OP_abs_u16 : GP_EXEC_OP_neg_u16) +
				  gp_lower_width(L, L->type.bits),
			  1);
}

static void arith_sqrt(struct gp_lower *L, uint32_t unused)
{
	arith_float(L, GP_EXEC_OP_fsqrt_f32, 1, GP_EXEC_ROUND_SQRT);
}

static void arith_rcp(struct gp_lower *L, uint32_t unused)
{
	arith_float(L, GP_EXEC_OP_frcp_f32, 1, GP_EXEC_ROUND_RCP);
}

/* One-operand functions without rounding variants. */
static void arith_approx(struct gp_lower *L, uint32_t family)
{
	arith_float(L, family, 1, GP_EXEC_ROUND_ADD);
}

static void arith_copysign(struct gp_lower *L, uint32_t unused)
{
	arith_float(L, GP_EXEC_OP_copysign_f32, 2, GP_EXEC_ROUND_ADD);
}

static void arith_testp(struct gp_lower *L, uint32_t unused)
{
	static const char *const kinds[] = { "finite",	   "infinite", "number",
					     "notanumber", "normal",   "subnormal" };
	uint32_t index = gp_lower_float(L);
	uint32_t src = gp_lower_src(L, gp_lower_opnd(L, 1), index == 2 ? 64 : 32);
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), 1);
	struct gp_exec_ins *in =
		gp_lower_emit3(L, GP_EXEC_OP_testp_f32 + index, d, src, GP_EXEC_NONE);

	for (size_t i = 0; i < GP_ARRAY_SIZE(kinds); i++) {
		if (gp_lower_has(L, kinds[i])) {
			in->aux = (uint8_t)i;
			return;
		}
	}
	gp_lower_unsupported(L);
}

/* Comparison */

static uint32_t arith_int_compare(struct gp_lower *L, const char *cmp, struct gp_lower_type type)
{
	static const struct {
		const char *name;
		uint32_t family;
		bool is_unsigned; /* lo ls hi hs always are */
		bool is_equality; /* one family for both signs */
	} cmps[] = {
		{ "eq", GP_EXEC_OP_setp_eq_u16, false, true },
		{ "ne", GP_EXEC_OP_setp_ne_u16, false, true },
		{ "lt", GP_EXEC_OP_setp_lt_u16, false, false },
		{ "le", GP_EXEC_OP_setp_le_u16, false, false },
		{ "gt", GP_EXEC_OP_setp_gt_u16, false, false },
		{ "ge", GP_EXEC_OP_setp_ge_u16, false, false },
		{ "lo", GP_EXEC_OP_setp_lt_u16, true, false },
		{ "ls", GP_EXEC_OP_setp_le_u16, true, false },
		{ "hi", GP_EXEC_OP_setp_gt_u16, true, false },
		{ "hs", GP_EXEC_OP_setp_ge_u16, true, false },
	};

	for (size_t i = 0; i < GP_ARRAY_SIZE(cmps); i++) {
		uint32_t sign = type.kind == GP_LOWER_S && !cmps[i].is_unsigned ? 3 : 0;

		if (!strcmp(cmps[i].name, cmp))
			return cmps[i].family + gp_lower_width(L, type.bits) +
			       (cmps[i].is_equality ? 0 : sign);
	}
	gp_lower_unsupported(L);
	return GP_EXEC_OP_nop;
}

static uint32_t arith_float_compare(struct gp_lower *L, const char *cmp, struct gp_lower_type type)
{
	static const char *const names[] = { "eq",  "ne",  "lt",  "le",	 "gt",	"ge",  "equ",
					     "neu", "ltu", "leu", "gtu", "geu", "num", "nan" };
	uint32_t index = type.bits == 64 ? 2 : gp_lower_has(L, "ftz") ? 1 : 0;

	for (uint32_t i = 0; i < GP_ARRAY_SIZE(names) && type.bits >= 32; i++)
		if (!strcmp(names[i], cmp))
			return GP_EXEC_OP_fsetp_eq_f32 + 3 * i + index;
	gp_lower_unsupported(L);
	return GP_EXEC_OP_nop;
}

/* The comparison of operands @first and the next; @pred is the operand of the boolean, if any. */
static struct gp_exec_ins *arith_compare(struct gp_lower *L, struct gp_lower_type type,
					 uint32_t first, uint32_t d, uint32_t e)
{
	const char *cmp = L->name.n > 1 ? L->name.part[1] : "";
	uint32_t op = type.kind == GP_LOWER_F ? arith_float_compare(L, cmp, type)
					      : arith_int_compare(L, cmp, type);
	uint32_t a = gp_lower_src(L, gp_lower_opnd(L, first), type.bits);
	uint32_t b = gp_lower_src(L, gp_lower_opnd(L, first + 1), type.bits);
	uint8_t aux = GP_EXEC_BOOL_NONE, flags = 0;
	uint32_t c = GP_EXEC_NONE;
	struct gp_exec_ins *in;

	if (gp_lower_has(L, "and"))
		aux = GP_EXEC_BOOL_AND;
	else if (gp_lower_has(L, "or"))
		aux = GP_EXEC_BOOL_OR;
	else if (gp_lower_has(L, "xor"))
		aux = GP_EXEC_BOOL_XOR;
	if (aux)
		c = gp_lower_pred(L, gp_lower_opnd(L, first + 2), &flags);
	in = gp_lower_emit3(L, op, d, a, b);
	in->c = c;
	in->e = e;
	in->aux = aux;
	in->flags |= flags;
	return in;
}

static void arith_setp(struct gp_lower *L, uint32_t unused)
{
	bool is_pair = gp_lower_opnd(L, 0)->is_pair;
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), 1);
	uint32_t e = is_pair ? gp_lower_dst(L, gp_lower_opnd(L, 1), 1) : GP_EXEC_NONE;

	arith_compare(L, L->type, is_pair ? 2 : 1, d, e);
}

/* set gives all ones (or 1.0) and zero. */
static void arith_set(struct gp_lower *L, uint32_t unused)
{
	struct gp_lower_type to = gp_lower_type_at(L, 1);
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), 32), p = gp_lower_temp(L, 1);
	uint32_t yes = gp_lower_value(L, 32, to.kind == GP_LOWER_F ? 0x3f800000u : UINT32_MAX);
	struct gp_exec_ins *in;

	if (to.bits != 32)
		gp_lower_unsupported(L);
	arith_compare(L, L->type, 1, p, GP_EXEC_NONE);
	in = gp_lower_emit3(L, GP_EXEC_OP_selp_u32, d, yes, gp_lower_value(L, 32, 0));
	in->c = p;
}

static void arith_selp(struct gp_lower *L, uint32_t unused)
{
	uint32_t bits = L->type.bits, src[2], d, c;
	struct gp_exec_ins *in;
	uint8_t flags;

	arith_sources(L, 2, bits, src);
	c = gp_lower_pred(L, gp_lower_opnd(L, 3), &flags);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), bits);
	in = gp_lower_emit3(L, GP_EXEC_OP_selp_u16 + gp_lower_width(L, bits), d, src[0], src[1]);
	in->c = c;
	in->flags |= flags;
}

/* slct d, a, b, c: c >= 0 ? a : b. */
static void arith_slct(struct gp_lower *L, uint32_t unused)
{
	struct gp_lower_type type = gp_lower_type_at(L, 1);
	uint32_t src[2], d, c, p = gp_lower_temp(L, 1);
	struct gp_exec_ins *in;
	bool is_float = L->type.kind == GP_LOWER_F;

	arith_sources(L, 2, type.bits, src);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), type.bits);
	c = gp_lower_src(L, gp_lower_opnd(L, 3), 32);
	gp_lower_emit3(L, is_float ? GP_EXEC_OP_fsetp_ge_f32 : GP_EXEC_OP_setp_ge_s32, p, c,
		       gp_lower_value(L, 32, 0));
	in = gp_lower_emit3(L, GP_EXEC_OP_selp_u16 + gp_lower_width(L, type.bits), d, src[0],
			    src[1]);
	in->c = p;
}

bool gp_lower_arith(struct gp_lower *L)
{
	static const struct gp_lower_rule rules[] = {
		{ "add", arith_addsub, 0 },
		{ "sub", arith_addsub, 1 },
		{ "mul", arith_mul, 0 },
		{ "mad", arith_mul, 1 },
		{ "fma", arith_fma, 0 },
		{ "setp", arith_setp, 0 },
		{ "selp", arith_selp, 0 },
		{ "addc", arith_addc, GP_EXEC_OP_addc_u32 },
		{ "subc", arith_addc, GP_EXEC_OP_subc_u32 },
		{ "madc", arith_madc, 0 },
		{ "mul24", arith_mul24, 0 },
		{ "mad24", arith_mul24, 1 },
		{ "div", arith_div, 0 },
		{ "rem", arith_rem, 0 },
		{ "min", arith_minmax, 0 },
		{ "max", arith_minmax, 1 },
		{ "sad", arith_sad, 0 },
		{ "neg", arith_neg, 0 },
		{ "abs", arith_neg, 1 },
		{ "sqrt", arith_sqrt, 0 },
		{ "rcp", arith_rcp, 0 },
		{ "rsqrt", arith_approx, GP_EXEC_OP_frsqrt_f32 },
		{ "ex2", arith_approx, GP_EXEC_OP_fex2_f32 },
		{ "lg2", arith_approx, GP_EXEC_OP_flg2_f32 },
		{ "sin", arith_approx, GP_EXEC_OP_fsin_f32 },
		{ "cos", arith_approx, GP_EXEC_OP_fcos_f32 },
		{ "tanh", arith_approx, GP_EXEC_OP_ftanh_f32 },
		{ "copysign", arith_copysign, 0 },
		{ "testp", arith_testp, 0 },
		{ "set", arith_set, 0 },
		{ "slct", arith_slct, 0 },
	};

	return gp_lower_apply(L, rules, GP_ARRAY_SIZE(rules));
}
