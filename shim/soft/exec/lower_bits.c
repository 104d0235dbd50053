/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering of logic, shifts, bit fields and warp-wide operations.
 */
#include "shim/soft/exec/lower.h"

static void bits_sources(struct gp_lower *L, uint32_t n, const uint32_t *bits, uint32_t *src)
{
	for (uint32_t i = 0; i < n; i++)
		src[i] = gp_lower_src(L, gp_lower_opnd(L, i + 1), bits[i]);
}

/* d and up to four sources, each of its own width. */
static struct gp_exec_ins *bits_emit(struct gp_lower *L, uint32_t op, uint32_t d_bits, uint32_t n,
				     const uint32_t *bits)
{
	uint32_t src[4] = { GP_EXEC_NONE, GP_EXEC_NONE, GP_EXEC_NONE, GP_EXEC_NONE }, d;
	struct gp_exec_ins *in;

	bits_sources(L, n, bits, src);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), d_bits);
	in = gp_lower_emit3(L, op, d, src[0], src[1]);
	in->c = src[2];
	in->e = src[3];
	return in;
}

/* A predicate source without negation flag: a negated one is computed first. */
static uint32_t bits_pred(struct gp_lower *L, uint32_t i)
{
	uint8_t flags;
	uint32_t p = gp_lower_pred(L, gp_lower_opnd(L, i), &flags), temp;

	if (!flags)
		return p;
	temp = gp_lower_temp(L, 1);
	gp_lower_emit3(L, GP_EXEC_OP_notp, temp, p, GP_EXEC_NONE);
	return temp;
}

/* @param: the family's first operation; its predicate form follows from it. */
static void bits_logic(struct gp_lower *L, uint32_t family)
{
	uint32_t width[2] = { L->type.bits, L->type.bits }, a, b, d, op;

	if (L->type.kind != GP_LOWER_P) {
		bits_emit(L, family + gp_lower_width(L, L->type.bits), L->type.bits, 2, width);
		return;
	}
	op = family == GP_EXEC_OP_and_u16  ? GP_EXEC_OP_andp
	     : family == GP_EXEC_OP_or_u16 ? GP_EXEC_OP_orp
					   : GP_EXEC_OP_xorp;
	a = bits_pred(L, 1);
	b = bits_pred(L, 2);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), 1);
	gp_lower_emit3(L, op, d, a, b);
}

static void bits_not(struct gp_lower *L, uint32_t family)
{
	uint32_t width[1] = { L->type.bits }, a, d;

	if (L->type.kind != GP_LOWER_P) {
		bits_emit(L, family + gp_lower_width(L, L->type.bits), L->type.bits, 1, width);
		return;
	}
	a = bits_pred(L, 1);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), 1);
	gp_lower_emit3(L, GP_EXEC_OP_notp, d, a, GP_EXEC_NONE);
}

static void bits_shift(struct gp_lower *L, uint32_t is_right)
{
	uint32_t width[2] = { L->type.bits, 32 }, index = gp_lower_width(L, L->type.bits);

	if (!is_right)
		bits_emit(L, GP_EXEC_OP_shl_u16 + index, L->type.bits, 2, width);
	else
		bits_emit(L, GP_EXEC_OP_shr_u16 + index + (L->type.kind == GP_LOWER_S ? 3 : 0),
			  L->type.bits, 2, width);
}

/* Index in a D family, or DS with the sign. */
static uint32_t bits_d(struct gp_lower *L, bool with_sign)
{
	if (L->type.bits != 32 && L->type.bits != 64)
		gp_lower_unsupported(L);
	return (L->type.bits == 64 ? 1 : 0) + (with_sign && L->type.kind == GP_LOWER_S ? 2 : 0);
}

/* popc and clz: the result has 32 bits. */
static void bits_count(struct gp_lower *L, uint32_t family)
{
	uint32_t width[1] = { L->type.bits };

	bits_emit(L, family + bits_d(L, false), 32, 1, width);
}

static void bits_brev(struct gp_lower *L, uint32_t unused)
{
	uint32_t width[1] = { L->type.bits };

	bits_emit(L, GP_EXEC_OP_brev_u32 + bits_d(L, false), L->type.bits, 1, width);
}

static void bits_bfind(struct gp_lower *L, uint32_t unused)
{
	uint32_t width[1] = { L->type.bits };

	bits_emit(L, GP_EXEC_OP_bfind_u32 + bits_d(L, true), 32, 1, width)->aux =
		gp_lower_has(L, "shiftamt");
}

static void bits_bfe(struct gp_lower *L, uint32_t unused)
{
	uint32_t width[3] = { L->type.bits, 32, 32 };

	bits_emit(L, GP_EXEC_OP_bfe_u32 + bits_d(L, true), L->type.bits, 3, width);
}

static void bits_bfi(struct gp_lower *L, uint32_t unused)
{
	uint32_t width[4] = { L->type.bits, L->type.bits, 32, 32 };

	bits_emit(L, GP_EXEC_OP_bfi_u32 + bits_d(L, false), L->type.bits, 4, width);
}

/* Operations on three 32-bit words. */
static void bits_three(struct gp_lower *L, uint32_t op)
{
	static const uint32_t width[3] = { 32, 32, 32 };

	if (L->name.n > 2 && op == GP_EXEC_OP_prmt)
		gp_lower_unsupported(L); /* prmt.b32.f4e and other modes */
	bits_emit(L, op, 32, 3, width);
}

static void bits_shf(struct gp_lower *L, uint32_t unused)
{
	static const uint32_t width[3] = { 32, 32, 32 };
	struct gp_exec_ins *in = bits_emit(
		L, gp_lower_has(L, "l") ? GP_EXEC_OP_shf_l : GP_EXEC_OP_shf_r, 32, 3, width);

	if (gp_lower_has(L, "wrap"))
		in->flags |= GP_EXEC_WRAP;
}

static void bits_lop3(struct gp_lower *L, uint32_t unused)
{
	static const uint32_t width[3] = { 32, 32, 32 };
	const struct gp_ptx_opnd *table = gp_lower_opnd(L, 4);

	if (table->kind != GP_PTX_OPND_IMM || L->name.n != 2)
		gp_lower_unsupported(L);
	bits_emit(L, GP_EXEC_OP_lop3, 32, 3, width)->imm = table->imm & 0xff;
}

static void bits_bmsk(struct gp_lower *L, uint32_t unused)
{
	static const uint32_t width[2] = { 32, 32 };
	struct gp_exec_ins *in = bits_emit(L, GP_EXEC_OP_bmsk, 32, 2, width);

	if (gp_lower_has(L, "wrap"))
		in->flags |= GP_EXEC_WRAP;
}

static void bits_dp4a(struct gp_lower *L, uint32_t unused)
{
	static const uint32_t width[3] = { 32, 32, 32 };
	uint8_t aux = (uint8_t)((gp_lower_type_at(L, 1).kind == GP_LOWER_S ? 1 : 0) |
				(L->type.kind == GP_LOWER_S ? 2 : 0));

	bits_emit(L, GP_EXEC_OP_dp4a, 32, 3, width)->aux = aux;
}

static void bits_vabsdiff4(struct gp_lower *L, uint32_t unused)
{
	static const uint32_t width[3] = { 32, 32, 32 };

	/* vabsdiff4.u32.u32.u32.add: the form that __vsadu4 compiles to. */
	if (!gp_lower_has(L, "add") || !gp_lower_has(L, "u32") || gp_lower_has(L, "s32"))
		gp_lower_unsupported(L);
	bits_emit(L, GP_EXEC_OP_vabsdiff4, 32, 3, width);
}

/* Warp-wide */

/* Member mask of a .sync operation, kept in .imm; without .sync nobody waits. */
static int64_t bits_members(struct gp_lower *L, uint32_t opnd)
{
	return gp_lower_has(L, "sync") ? gp_lower_src(L, gp_lower_opnd(L, opnd), 32) : GP_EXEC_NONE;
}

static void bits_vote(struct gp_lower *L, uint32_t unused)
{
	bool is_ballot = gp_lower_has(L, "ballot");
	uint32_t op = is_ballot		       ? GP_EXEC_OP_vote_ballot
		      : gp_lower_has(L, "all") ? GP_EXEC_OP_vote_all
		      : gp_lower_has(L, "any") ? GP_EXEC_OP_vote_any
					       : GP_EXEC_OP_vote_uni;
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), is_ballot ? 32 : 1), a;
	int64_t members = bits_members(L, 2);
	struct gp_exec_ins *in;
	uint8_t flags;

	a = gp_lower_pred(L, gp_lower_opnd(L, 1), &flags);
	in = gp_lower_emit3(L, op, d, a, GP_EXEC_NONE);
	in->imm = members;
	in->flags |= flags;
}

static void bits_shfl(struct gp_lower *L, uint32_t unused)
{
	bool is_pair = gp_lower_opnd(L, 0)->is_pair;
	uint32_t first = is_pair ? 2 : 1;
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), 32);
	uint32_t e = is_pair ? gp_lower_dst(L, gp_lower_opnd(L, 1), 1) : GP_EXEC_NONE;
	uint32_t a = gp_lower_src(L, gp_lower_opnd(L, first), 32);
	uint32_t b = gp_lower_src(L, gp_lower_opnd(L, first + 1), 32);
	uint32_t c = gp_lower_src(L, gp_lower_opnd(L, first + 2), 32);
	int64_t members = bits_members(L, first + 3);
	struct gp_exec_ins *in = gp_lower_emit3(L, GP_EXEC_OP_shfl, d, a, b);

	in->c = c;
	in->e = e;
	in->imm = members;
	in->aux = gp_lower_has(L, "up")	    ? GP_EXEC_SHFL_UP
		  : gp_lower_has(L, "down") ? GP_EXEC_SHFL_DOWN
		  : gp_lower_has(L, "bfly") ? GP_EXEC_SHFL_BFLY
					    : GP_EXEC_SHFL_IDX;
}

static void bits_match(struct gp_lower *L, uint32_t unused)
{
	bool is_pair = gp_lower_opnd(L, 0)->is_pair;
	uint32_t first = is_pair ? 2 : 1;
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), 32);
	uint32_t e = is_pair ? gp_lower_dst(L, gp_lower_opnd(L, 1), 1) : GP_EXEC_NONE;
	uint32_t a = gp_lower_src(L, gp_lower_opnd(L, first), L->type.bits);
	int64_t members = bits_members(L, first + 1);
	uint32_t op = gp_lower_has(L, "any") ? GP_EXEC_OP_match_any_u32 : GP_EXEC_OP_match_all_u32;
	struct gp_exec_ins *in = gp_lower_emit3(L, op + bits_d(L, false), d, a, GP_EXEC_NONE);

	in->e = e;
	in->imm = members;
}

static void bits_redux(struct gp_lower *L, uint32_t unused)
{
	static const char *const names[] = { "add", "min", "max", "and", "or", "xor" };
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), 32);
	uint32_t a = gp_lower_src(L, gp_lower_opnd(L, 1), 32);
	int64_t members = bits_members(L, 2);
	struct gp_exec_ins *in = gp_lower_emit3(L, GP_EXEC_OP_redux, d, a, GP_EXEC_NONE);

	in->imm = members;
	if (L->type.kind == GP_LOWER_S)
		in->flags |= GP_EXEC_SIGNED;
	else if (L->type.kind != GP_LOWER_U)
		gp_lower_unsupported(L);
	for (size_t i = 0; i < GP_ARRAY_SIZE(names); i++)
		if (gp_lower_has(L, names[i]))
			in->aux = (uint8_t)i;
}

static void bits_activemask(struct gp_lower *L, uint32_t unused)
{
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), 32);

	gp_lower_emit3(L, GP_EXEC_OP_activemask, d, GP_EXEC_NONE, GP_EXEC_NONE);
}

static void bits_elect(struct gp_lower *L, uint32_t unused)
{
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), 32);
	uint32_t e = gp_lower_dst(L, gp_lower_opnd(L, 1), 1);
	int64_t members = bits_members(L, 2);
	struct gp_exec_ins *in = gp_lower_emit3(L, GP_EXEC_OP_elect, d, GP_EXEC_NONE, GP_EXEC_NONE);

	in->e = e;
	in->imm = members;
}

bool gp_lower_bits(struct gp_lower *L)
{
	static const struct gp_lower_rule rules[] = {
		{ "and", bits_logic, GP_EXEC_OP_and_u16 },
		{ "or", bits_logic, GP_EXEC_OP_or_u16 },
		{ "xor", bits_logic, GP_EXEC_OP_xor_u16 },
		{ "not", bits_not, GP_EXEC_OP_not_u16 },
		{ "cnot", bits_not, GP_EXEC_OP_cnot_u16 },
		{ "shl", bits_shift, 0 },
		{ "shr", bits_shift, 1 },
		{ "popc", bits_count, GP_EXEC_OP_popc_u32 },
		{ "clz", bits_count, GP_EXEC_OP_clz_u32 },
		{ "brev", bits_brev, 0 },
		{ "bfind", bits_bfind, 0 },
		{ "bfe", bits_bfe, 0 },
		{ "bfi", bits_bfi, 0 },
		{ "prmt", bits_three, GP_EXEC_OP_prmt },
		{ "shf", bits_shf, 0 },
		{ "lop3", bits_lop3, 0 },
		{ "bmsk", bits_bmsk, 0 },
		{ "dp4a", bits_dp4a, 0 },
		{ "vabsdiff4", bits_vabsdiff4, 0 },
		{ "vote", bits_vote, 0 },
		{ "shfl", bits_shfl, 0 },
		{ "match", bits_match, 0 },
		{ "redux", bits_redux, 0 },
		{ "activemask", bits_activemask, 0 },
		{ "elect", bits_elect, 0 },
	};

	return gp_lower_apply(L, rules, GP_ARRAY_SIZE(rules));
}
