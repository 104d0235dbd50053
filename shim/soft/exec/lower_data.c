/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering of moves, conversions, loads, stores and atomics.
 */
#include "shim/soft/exec/lower.h"

#include <string.h>

/* mov */

static void data_unpack(struct gp_lower *L, const struct gp_ptx_opnd *to, uint32_t wide_bits)
{
	uint32_t n = to->n_elems, d[4] = { GP_EXEC_NONE, GP_EXEC_NONE, GP_EXEC_NONE, GP_EXEC_NONE };
	uint32_t bits = n == 2 || n == 4 ? wide_bits / n : 0, src;
	struct gp_exec_ins *in;

	if (bits != 16 && bits != 32) {
		gp_lower_unsupported(L);
		return;
	}
	src = gp_lower_src(L, gp_lower_opnd(L, 1), wide_bits);
	for (uint32_t i = 0; i < n; i++)
		if (to->elems[i].kind != GP_PTX_OPND_SINK)
			d[i] = gp_lower_dst(L, &to->elems[i], bits);
	if (n == 4) {
		in = gp_lower_emit3(L, GP_EXEC_OP_unpack_64_16, d[0], src, d[1]);
		in->c = d[2];
		in->e = d[3];
	} else {
		in = gp_lower_emit3(L,
				    bits == 32 ? GP_EXEC_OP_unpack_64_32 : GP_EXEC_OP_unpack_32_16,
				    d[0], src, GP_EXEC_NONE);
		in->e = d[1];
	}
}

static void data_pack(struct gp_lower *L, const struct gp_ptx_opnd *from, uint32_t wide_bits)
{
	uint32_t n = from->n_elems, bits = n == 2 || n == 4 ? wide_bits / n : 0, src[4] = { 0 }, d;
	struct gp_exec_ins *in;

	if (bits != 16 && bits != 32) {
		gp_lower_unsupported(L);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		src[i] = gp_lower_src(L, &from->elems[i], bits);
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), wide_bits);
	in = gp_lower_emit3(L,
			    n == 4	 ? GP_EXEC_OP_pack_16_64
			    : bits == 32 ? GP_EXEC_OP_pack_32_64
					 : GP_EXEC_OP_pack_16_32,
			    d, src[0], src[1]);
	in->c = src[2];
	in->e = src[3];
}

static void data_mov(struct gp_lower *L, uint32_t unused)
{
	const struct gp_ptx_opnd *to = gp_lower_opnd(L, 0), *from = gp_lower_opnd(L, 1);
	uint32_t src, d;
	uint8_t flags;

	if (to->kind == GP_PTX_OPND_LIST) {
		data_unpack(L, to, L->type.bits);
	} else if (from->kind == GP_PTX_OPND_LIST) {
		data_pack(L, from, L->type.bits);
	} else if (L->type.kind == GP_LOWER_P) {
		src = gp_lower_pred(L, from, &flags);
		d = gp_lower_dst(L, to, 1);
		gp_lower_emit3(L, flags ? GP_EXEC_OP_notp : GP_EXEC_OP_movp, d, src, GP_EXEC_NONE);
	} else {
		src = gp_lower_src(L, from, L->type.bits);
		d = gp_lower_dst(L, to, L->type.bits);
		gp_lower_emit3(L, GP_EXEC_OP_mov_u16 + gp_lower_width(L, L->type.bits), d, src,
			       GP_EXEC_NONE);
	}
}

/* Generic and .global, .const, .local, .param addresses are all host addresses. */
static void data_cvta(struct gp_lower *L, uint32_t unused)
{
	bool is_shared = gp_lower_has(L, "shared") || gp_lower_has(L, "shared::cta");
	uint32_t src = gp_lower_src(L, gp_lower_opnd(L, 1), 64), d, op = GP_EXEC_OP_mov_u64;

	if (is_shared)
		op = gp_lower_has(L, "to") ? GP_EXEC_OP_cvta_to_shared : GP_EXEC_OP_cvta_shared;
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), 64);
	gp_lower_emit3(L, op, d, src, GP_EXEC_NONE);
}

static void data_isspacep(struct gp_lower *L, uint32_t unused)
{
	uint32_t src = gp_lower_src(L, gp_lower_opnd(L, 1), 64);
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), 1);

	gp_lower_emit3(L, GP_EXEC_OP_isspace, d, src, GP_EXEC_NONE)->aux =
		gp_lower_has(L, "shared") || gp_lower_has(L, "shared::cta") ? GP_PTX_SPACE_SHARED
		: gp_lower_has(L, "local")				    ? GP_PTX_SPACE_LOCAL
		: gp_lower_has(L, "global")				    ? GP_PTX_SPACE_GLOBAL
									    : GP_PTX_SPACE_PARAM;
}

/* cvt */

static void cvt_int_int(struct gp_lower *L, struct gp_lower_type to, struct gp_lower_type from)
{
	uint32_t s_bits, d_bits, src = gp_lower_any_src(L, gp_lower_opnd(L, 1), from.bits, &s_bits);
	uint32_t d = gp_lower_any_dst(L, gp_lower_opnd(L, 0), &d_bits), temp;
	struct gp_exec_ins *in;

	if (d_bits < to.bits || s_bits < from.bits) {
		gp_lower_unsupported(L);
	} else if (gp_lower_has(L, "sat")) {
		temp = gp_lower_temp(L, 64);
		gp_lower_ext(L, temp, 64, src, s_bits, from);
		in = gp_lower_emit3(L, GP_EXEC_OP_cvt_sat, temp, temp, GP_EXEC_NONE);
		in->aux = (uint8_t)to.bits;
		in->imm = from.kind == GP_LOWER_S ? -(int64_t)from.bits : (int64_t)from.bits;
		if (to.kind == GP_LOWER_S)
			in->flags |= GP_EXEC_SIGNED;
		gp_lower_ext(L, d, d_bits, temp, 64, to);
	} else if (to.bits <= from.bits) {
		gp_lower_ext(L, d, d_bits, src, s_bits, to);
	} else if (to.bits == d_bits) {
		gp_lower_ext(L, d, d_bits, src, s_bits, from);
	} else {
		temp = gp_lower_temp(L, to.bits);
		gp_lower_ext(L, temp, to.bits, src, s_bits, from);
		gp_lower_ext(L, d, d_bits, temp, to.bits, to);
	}
}

static void cvt_float_int(struct gp_lower *L, struct gp_lower_type to, struct gp_lower_type from)
{
	uint32_t src = gp_lower_src(L, gp_lower_opnd(L, 1), from.bits), d_bits, temp;
	uint32_t d = gp_lower_any_dst(L, gp_lower_opnd(L, 0), &d_bits);
	enum gp_exec_round round = gp_lower_round(L);
	struct gp_exec_ins *in;

	if (from.bits == 32 && to.bits == 32 && d_bits == 32 && to.kind == GP_LOWER_S &&
	    round == GP_EXEC_RZ) {
		gp_lower_emit3(L, GP_EXEC_OP_cvt_rzi_f32_s32, d, src, GP_EXEC_NONE);
		return;
	}
	temp = gp_lower_temp(L, 64);
	in = gp_lower_emit3(L, from.bits == 64 ? GP_EXEC_OP_cvt_f64_int : GP_EXEC_OP_cvt_f32_int,
			    temp, src, GP_EXEC_NONE);
	in->aux = (uint8_t)to.bits;
	in->imm = round;
	if (to.kind == GP_LOWER_S)
		in->flags |= GP_EXEC_SIGNED;
	if (gp_lower_has(L, "ftz"))
		in->flags |= GP_EXEC_FTZ;
	gp_lower_ext(L, d, d_bits, temp, 64, to);
}

static void cvt_int_float(struct gp_lower *L, struct gp_lower_type to, struct gp_lower_type from)
{
	uint32_t s_bits, src = gp_lower_any_src(L, gp_lower_opnd(L, 1), from.bits, &s_bits);
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), to.bits), bits = from.bits, temp, index;
	enum gp_exec_round round = gp_lower_round(L);
	struct gp_exec_ins *in;

	if (bits < 32 || s_bits != bits) {
		bits = bits < 32 ? 32 : bits;
		temp = gp_lower_temp(L, bits);
		gp_lower_ext(L, temp, bits, src, s_bits, from);
		src = temp;
	}
	index = (from.kind == GP_LOWER_S ? 1 : 0) + (bits == 64 ? 2 : 0);
	if (round == GP_EXEC_RN) {
		gp_lower_emit3(L,
			       (to.bits == 64 ? GP_EXEC_OP_cvt_u32_f64 : GP_EXEC_OP_cvt_u32_f32) +
				       index,
			       d, src, GP_EXEC_NONE);
	} else {
		in = gp_lower_emit3(L, to.bits == 64 ? GP_EXEC_OP_round_f64 : GP_EXEC_OP_round_f32,
				    d, src, GP_EXEC_NONE);
		in->aux = (uint8_t)(GP_EXEC_ROUND_U32 + index);
		in->imm = round;
	}
	if (gp_lower_has(L, "sat"))
		gp_lower_emit3(L, to.bits == 64 ? GP_EXEC_OP_fsat_f64 : GP_EXEC_OP_fsat_f32, d, d,
			       GP_EXEC_NONE);
}

/* Between equal types: a rounding to integer, a flush, or a plain move. */
static void cvt_same_float(struct gp_lower *L, uint32_t d, uint32_t src, uint32_t index)
{
	static const struct {
		const char *part;
		uint32_t op;
	} rounds[] = { { "rni", GP_EXEC_OP_frni_f32 },
		       { "rzi", GP_EXEC_OP_frzi_f32 },
		       { "rmi", GP_EXEC_OP_frmi_f32 },
		       { "rpi", GP_EXEC_OP_frpi_f32 } };

	for (size_t i = 0; i < GP_ARRAY_SIZE(rounds); i++) {
		if (gp_lower_has(L, rounds[i].part)) {
			gp_lower_emit3(L, rounds[i].op + index, d, src, GP_EXEC_NONE);
			return;
		}
	}
	gp_lower_emit3(L, GP_EXEC_OP_copysign_f32 + index, d, src, src);
}

static void cvt_float_float(struct gp_lower *L, struct gp_lower_type to, struct gp_lower_type from)
{
	uint32_t src = gp_lower_src(L, gp_lower_opnd(L, 1), from.bits), temp;
	uint32_t d = gp_lower_dst(L, gp_lower_opnd(L, 0), to.bits);
	bool ftz = gp_lower_has(L, "ftz");
	struct gp_exec_ins *in;

	if (to.bits == from.bits) {
		cvt_same_float(L, d, src, to.bits == 64 ? 2 : ftz ? 1 : 0);
	} else if (to.bits == 64) {
		if (ftz) {
			temp = gp_lower_temp(L, 32);
			gp_lower_emit3(L, GP_EXEC_OP_copysign_z32, temp, src, src);
			src = temp;
		}
		gp_lower_emit3(L, GP_EXEC_OP_cvt_f32_f64, d, src, GP_EXEC_NONE);
	} else if (gp_lower_round(L) == GP_EXEC_RN) {
		gp_lower_emit3(L, GP_EXEC_OP_cvt_f64_f32, d, src, GP_EXEC_NONE);
		if (ftz)
			gp_lower_emit3(L, GP_EXEC_OP_copysign_z32, d, d, d);
	} else {
		in = gp_lower_emit3(L, GP_EXEC_OP_round_f32, d, src, GP_EXEC_NONE);
		in->aux = GP_EXEC_ROUND_F64;
		in->imm = gp_lower_round(L);
		if (ftz)
			in->flags |= GP_EXEC_FTZ;
	}
	if (gp_lower_has(L, "sat"))
		gp_lower_emit3(L, to.bits == 64 ? GP_EXEC_OP_fsat_f64 : GP_EXEC_OP_fsat_f32, d, d,
			       GP_EXEC_NONE);
}

static void data_cvt(struct gp_lower *L, uint32_t unused)
{
	struct gp_lower_type to = gp_lower_type_at(L, 1), from = L->type;
	bool to_float = to.kind == GP_LOWER_F, from_float = from.kind == GP_LOWER_F;

	if (to.kind >= GP_LOWER_P || from.kind >= GP_LOWER_P || (to_float && to.bits < 32) ||
	    (from_float && from.bits < 32))
		gp_lower_unsupported(L);
	else if (to_float && from_float)
		cvt_float_float(L, to, from);
	else if (to_float)
		cvt_int_float(L, to, from);
	else if (from_float)
		cvt_float_int(L, to, from);
	else
		cvt_int_int(L, to, from);
}

/* Memory */

struct data_address {
	uint32_t base;
	int64_t imm;
	bool is_shared;
};

static bool data_is_shared(const struct gp_lower *L, const struct gp_ptx_opnd *opnd)
{
	return gp_lower_has(L, "shared") || gp_lower_has(L, "shared::cta") ||
	       gp_lower_has(L, "shared::cluster");
}

static struct data_address data_address(struct gp_lower *L, const struct gp_ptx_opnd *opnd)
{
	struct data_address addr = { .is_shared = data_is_shared(L, opnd) };
	uint32_t bits = addr.is_shared ? 32 : 64;
	struct gp_ptx_opnd base = *opnd;

	if (!opnd->is_mem)
		gp_lower_unsupported(L);
	if (opnd->kind == GP_PTX_OPND_REG) {
		addr.imm = opnd->imm;
		base.imm = 0;
	}
	addr.base = gp_lower_src(L, &base, bits);
	return addr;
}

/* ld.param of the kernel's own parameters: the same for all lanes, read once per block. */
static bool data_ld_kernel_param(struct gp_lower *L, const struct gp_ptx_opnd *to,
				 const struct gp_ptx_opnd *from, uint32_t skip_bytes)
{
	struct gp_exec_const want = { .kind = GP_EXEC_CONST_PARAM_LOAD,
				      .width_bits = L->type.bits < 16 ? 16 : L->type.bits,
				      .index = L->type.bits };
	uint32_t d_bits, d;

	if (from->kind != GP_PTX_OPND_VAR || !gp_lower_is_kernel_param(L, from->var))
		return false;
	want.value = from->var->offset_bytes + (uint64_t)from->imm + skip_bytes;
	if (want.value + L->type.bits / 8 > L->kernel->info.param_bytes) {
		gp_lower_unsupported(L);
		return true;
	}
	d = gp_lower_any_dst(L, to, &d_bits);
	gp_lower_ext(L, d, d_bits, gp_lower_const(L, &want), want.width_bits, L->type);
	return true;
}

static void data_ld_one(struct gp_lower *L, const struct gp_ptx_opnd *to,
			const struct data_address *addr, uint32_t skip_bytes)
{
	uint32_t d_bits, d = gp_lower_any_dst(L, to, &d_bits);
	uint32_t family = addr->is_shared ? GP_EXEC_OP_lds_u8_16 : GP_EXEC_OP_ld_u8_16;
	struct gp_exec_ins *in = gp_lower_emit3(L, family + gp_lower_mr(L, L->type, d_bits), d,
						addr->base, GP_EXEC_NONE);

	in->imm = addr->imm + skip_bytes;
}

/* Vectors of whole words go at once; true if this one did. */
static bool data_vector(struct gp_lower *L, const struct gp_ptx_opnd *list,
			const struct data_address *addr, bool is_store)
{
	uint32_t bits = L->type.bits,
		 reg[4] = { GP_EXEC_NONE, GP_EXEC_NONE, GP_EXEC_NONE, GP_EXEC_NONE };
	static const uint32_t ops[2][2][2] = {
		{ { GP_EXEC_OP_ldv_4, GP_EXEC_OP_ldv_8 }, { GP_EXEC_OP_stv_4, GP_EXEC_OP_stv_8 } },
		{ { GP_EXEC_OP_ldsv_4, GP_EXEC_OP_ldsv_8 },
		  { GP_EXEC_OP_stsv_4, GP_EXEC_OP_stsv_8 } },
	};
	struct gp_exec_ins *in;

	if (bits < 32 || list->n_elems > 4)
		return false;
	for (uint32_t i = 0; i < list->n_elems; i++) {
		const struct gp_ptx_opnd *elem = &list->elems[i];

		if (elem->kind == GP_PTX_OPND_SINK)
			continue;
		if (elem->kind == GP_PTX_OPND_REG && gp_lower_opnd_bits(L, elem) != bits)
			return false;
		reg[i] = is_store ? gp_lower_src(L, elem, bits) : gp_lower_dst(L, elem, bits);
	}
	in = gp_lower_emit3(L, ops[addr->is_shared][is_store][bits == 64], reg[0], addr->base,
			    reg[1]);
	in->c = reg[2];
	in->e = reg[3];
	in->aux = (uint8_t)list->n_elems;
	in->imm = addr->imm;
	return true;
}

static void data_ld(struct gp_lower *L, uint32_t unused)
{
	const struct gp_ptx_opnd *to = gp_lower_opnd(L, 0), *from = gp_lower_opnd(L, 1);
	struct gp_ptx_opnd single = *to;
	struct data_address addr;
	uint32_t n = 1, temp;

	if (to->kind == GP_PTX_OPND_LIST) {
		n = to->n_elems;
		single = (struct gp_ptx_opnd){ .reg = -1 };
	}
	if (L->type.kind >= GP_LOWER_P || !from->is_mem) {
		gp_lower_unsupported(L);
		return;
	}
	if (data_ld_kernel_param(
		    L, n == 1 && to->kind != GP_PTX_OPND_LIST ? &single : &to->elems[0], from, 0)) {
		for (uint32_t i = 1; i < n; i++)
			data_ld_kernel_param(L, &to->elems[i], from, i * L->type.bits / 8);
		return;
	}
	addr = data_address(L, from);
	if (to->kind != GP_PTX_OPND_LIST) {
		data_ld_one(L, &single, &addr, 0);
	} else if (!data_vector(L, to, &addr, false)) {
		/* Elements come one by one; the first might overwrite the address. */
		temp = gp_lower_temp(L, addr.is_shared ? 32 : 64);
		gp_lower_emit3(L, addr.is_shared ? GP_EXEC_OP_mov_u32 : GP_EXEC_OP_mov_u64, temp,
			       addr.base, GP_EXEC_NONE);
		addr.base = temp;
		for (uint32_t i = 0; i < n; i++)
			if (to->elems[i].kind != GP_PTX_OPND_SINK)
				data_ld_one(L, &to->elems[i], &addr, i * L->type.bits / 8);
	}
}

static void data_st_one(struct gp_lower *L, const struct gp_ptx_opnd *from,
			const struct data_address *addr, uint32_t skip_bytes)
{
	uint32_t s_bits, src = gp_lower_any_src(L, from, L->type.bits, &s_bits);
	uint32_t family = addr->is_shared ? GP_EXEC_OP_sts_u8_16 : GP_EXEC_OP_st_u8_16;
	struct gp_exec_ins *in = gp_lower_emit3(L, family + gp_lower_mr(L, L->type, s_bits), src,
						addr->base, GP_EXEC_NONE);

	in->imm = addr->imm + skip_bytes;
}

static void data_st(struct gp_lower *L, uint32_t unused)
{
	const struct gp_ptx_opnd *to = gp_lower_opnd(L, 0), *from = gp_lower_opnd(L, 1);
	struct data_address addr = data_address(L, to);

	if (L->type.kind >= GP_LOWER_P)
		gp_lower_unsupported(L);
	else if (from->kind != GP_PTX_OPND_LIST)
		data_st_one(L, from, &addr, 0);
	else if (!data_vector(L, from, &addr, true))
		for (uint32_t i = 0; i < from->n_elems; i++)
			data_st_one(L, &from->elems[i], &addr, i * L->type.bits / 8);
}

/* The operation's name and type; GP_EXEC_OP_nop if there is no such atomic. */
static uint32_t data_atom_op(const struct gp_lower *L)
{
	uint32_t wide = L->type.bits == 64, sign = L->type.kind == GP_LOWER_S ? 2 : 0;

	if (L->type.kind == GP_LOWER_F)
		return !gp_lower_has(L, "add") || L->type.bits < 32 ? GP_EXEC_OP_nop
		       : wide					    ? GP_EXEC_OP_atom_add_f64
								    : GP_EXEC_OP_atom_add_f32;
	if (L->type.kind >= GP_LOWER_P || L->type.bits < 32)
		return GP_EXEC_OP_nop;
	if (gp_lower_has(L, "add"))
		return GP_EXEC_OP_atom_add_u32 + wide;
	if (gp_lower_has(L, "min"))
		return GP_EXEC_OP_atom_min_u32 + wide + sign;
	if (gp_lower_has(L, "max"))
		return GP_EXEC_OP_atom_max_u32 + wide + sign;
	if (gp_lower_has(L, "and"))
		return GP_EXEC_OP_atom_and_u32 + wide;
	if (gp_lower_has(L, "or"))
		return GP_EXEC_OP_atom_or_u32 + wide;
	if (gp_lower_has(L, "xor"))
		return GP_EXEC_OP_atom_xor_u32 + wide;
	if (gp_lower_has(L, "exch"))
		return GP_EXEC_OP_atom_exch_u32 + wide;
	if (gp_lower_has(L, "cas"))
		return GP_EXEC_OP_atom_cas_u32 + wide;
	if (gp_lower_has(L, "inc") && !wide)
		return GP_EXEC_OP_atom_inc_u32;
	if (gp_lower_has(L, "dec") && !wide)
		return GP_EXEC_OP_atom_dec_u32;
	return GP_EXEC_OP_nop;
}

static void data_atom(struct gp_lower *L, uint32_t is_red)
{
	uint32_t first = is_red ? 0 : 1, op = data_atom_op(L), bits = L->type.bits, temp;
	struct data_address addr = data_address(L, gp_lower_opnd(L, first));
	uint32_t b, c = GP_EXEC_NONE, d = GP_EXEC_NONE;
	struct gp_exec_ins *in;

	if (op == GP_EXEC_OP_nop || gp_lower_has(L, "v2") || gp_lower_has(L, "v4") ||
	    gp_lower_has(L, "async")) {
		gp_lower_unsupported(L);
		return;
	}
	b = gp_lower_src(L, gp_lower_opnd(L, first + 1), bits);
	if (gp_lower_has(L, "cas"))
		c = gp_lower_src(L, gp_lower_opnd(L, first + 2), bits);
	if (!is_red && gp_lower_opnd(L, 0)->kind != GP_PTX_OPND_SINK)
		d = gp_lower_dst(L, gp_lower_opnd(L, 0), bits);
	if (addr.is_shared) {
		temp = gp_lower_temp(L, 64);
		in = gp_lower_emit3(L, GP_EXEC_OP_shared_addr, temp, addr.base, bits / 8);
		in->imm = addr.imm;
		addr = (struct data_address){ .base = temp };
	}
	in = gp_lower_emit3(L, op, d, addr.base, b);
	in->c = c;
	in->imm = addr.imm;
}

static void data_fence(struct gp_lower *L, uint32_t unused)
{
	gp_lower_emit(L, GP_EXEC_OP_fence);
}

/* Hints, and waits for what is never pending here (dependent launches). */
static void data_nop(struct gp_lower *L, uint32_t unused)
{
	gp_lower_emit(L, GP_EXEC_OP_nop);
}

bool gp_lower_data(struct gp_lower *L)
{
	static const struct gp_lower_rule rules[] = {
		{ "mov", data_mov, 0 },
		{ "ld", data_ld, 0 },
		{ "st", data_st, 0 },
		{ "cvt", data_cvt, 0 },
		{ "cvta", data_cvta, 0 },
		{ "atom", data_atom, 0 },
		{ "red", data_atom, 1 },
		{ "ldu", data_ld, 0 },
		{ "fence", data_fence, 0 },
		{ "membar", data_fence, 0 },
		{ "prefetch", data_nop, 0 },
		{ "prefetchu", data_nop, 0 },
		{ "griddepcontrol", data_nop, 0 },
		{ "isspacep", data_isspacep, 0 },
		{ "applypriority", data_nop, 0 },
	};

	return gp_lower_apply(L, rules, GP_ARRAY_SIZE(rules));
}
