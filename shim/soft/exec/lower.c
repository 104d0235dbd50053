/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of lowering: names, operands, register and constant allocation, inlining. The opcodes
 * are in lower_arith.c, lower_bits.c, lower_data.c and lower_control.c.
 */
#include "shim/soft/exec/lower.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOWER_MAX_DEPTH 32
#define LOWER_MAX_INS	(1u << 22) /* inlining that explodes is refused */
#define LOWER_LINE	64	   /* register alignment: one AVX-512 vector */

void gp_lower_fail(struct gp_lower *L, int error, const char *what)
{
	if (!L->error)
		L->error = gp_err_set(L->err, error, "kernel '%s': %s", L->kernel->info.name, what);
}

/* Makes room for one more element of a growing table. */
static void *lower_grow(struct gp_lower *L, void *table, uint32_t n, uint32_t *cap, size_t size)
{
	void *grown;

	if (n < *cap)
		return table;
	grown = realloc(table, (size_t)(*cap ? *cap * 2 : 64) * size);
	if (!grown) {
		gp_lower_fail(L, -ENOMEM, "no memory to decode it");
		return NULL;
	}
	*cap = *cap ? *cap * 2 : 64;
	return grown;
}

struct gp_exec_ins *gp_lower_emit(struct gp_lower *L, uint32_t op)
{
	struct gp_exec_code *code = L->code;
	struct gp_exec_ins *grown = NULL, *in;

	if (code->n_ins >= LOWER_MAX_INS)
		gp_lower_fail(L, -EILSEQ, "its inlined functions make too much code");
	if (!L->error)
		grown = lower_grow(L, code->ins, code->n_ins, &L->ins_cap, sizeof(*grown));
	if (!grown)
		return &L->nowhere;
	code->ins = grown;
	in = &grown[code->n_ins++];
	*in = (struct gp_exec_ins){ .op = (uint16_t)op,
				    .guard = GP_EXEC_NONE,
				    .d = GP_EXEC_NONE,
				    .a = GP_EXEC_NONE,
				    .b = GP_EXEC_NONE,
				    .c = GP_EXEC_NONE,
				    .e = GP_EXEC_NONE };
	if (L->ptx) {
		in->line = L->ptx->line;
		if (L->ptx->guard >= 0) {
			in->guard = L->inst->reg[L->ptx->guard];
			in->flags = L->ptx->guard_negated ? GP_EXEC_GUARD_NOT : 0;
		}
	}
	return in;
}

struct gp_exec_ins *gp_lower_emit3(struct gp_lower *L, uint32_t op, uint32_t d, uint32_t a,
				   uint32_t b)
{
	struct gp_exec_ins *in = gp_lower_emit(L, op);

	in->d = d;
	in->a = a;
	in->b = b;
	return in;
}

void gp_lower_unsupported(struct gp_lower *L)
{
	L->is_unsupported = true;
}

/* Names and types */

static void lower_split(struct gp_lower *L, const char *name)
{
	struct gp_lower_name *split = &L->name;

	split->n = 0;
	snprintf(split->text, sizeof(split->text), "%s", name);
	for (char *p = split->text; p && split->n < LOWER_MAX_PARTS;) {
		split->part[split->n++] = p;
		p = strchr(p, '.');
		if (p)
			*p++ = '\0';
	}
	L->type = gp_lower_parse_type(split->part[split->n - 1]);
}

bool gp_lower_has(const struct gp_lower *L, const char *part)
{
	for (unsigned int i = 1; i < L->name.n; i++)
		if (!strcmp(L->name.part[i], part))
			return true;
	return false;
}

struct gp_lower_type gp_lower_parse_type(const char *part)
{
	static const struct {
		char letter;
		enum gp_lower_kind kind;
	} kinds[] = {
		{ 'u', GP_LOWER_U }, { 'b', GP_LOWER_U }, { 's', GP_LOWER_S }, { 'f', GP_LOWER_F }
	};
	static const char *const widths[] = { "8", "16", "32", "64" };

	if (!strcmp(part, "pred"))
		return (struct gp_lower_type){ GP_LOWER_P, 1 };
	for (size_t i = 0; i < GP_ARRAY_SIZE(kinds); i++)
		for (size_t k = 0; k < GP_ARRAY_SIZE(widths) && *part == kinds[i].letter; k++)
			if (!strcmp(part + 1, widths[k]))
				return (struct gp_lower_type){ kinds[i].kind, 8u << k };
	return (struct gp_lower_type){ GP_LOWER_NO_TYPE, 0 };
}

struct gp_lower_type gp_lower_type_at(const struct gp_lower *L, unsigned int from_end)
{
	if (L->name.n < from_end + 2)
		return (struct gp_lower_type){ GP_LOWER_NO_TYPE, 0 };
	return gp_lower_parse_type(L->name.part[L->name.n - 1 - from_end]);
}

uint32_t gp_lower_width(struct gp_lower *L, uint32_t bits)
{
	if (bits != 16 && bits != 32 && bits != 64) {
		gp_lower_unsupported(L);
		return 1;
	}
	return bits == 16 ? 0 : bits == 32 ? 1 : 2;
}

uint32_t gp_lower_mr(struct gp_lower *L, struct gp_lower_type type, uint32_t reg_bits)
{
	uint32_t row = type.bits == 8 ? 0 : type.bits == 16 ? 2 : type.bits == 32 ? 4 : 6;

	if (type.kind == GP_LOWER_NO_TYPE || type.kind == GP_LOWER_P)
		gp_lower_unsupported(L);
	if (type.kind == GP_LOWER_S && type.bits < 64)
		row++;
	return row * 3 + gp_lower_width(L, reg_bits);
}

uint32_t gp_lower_float(struct gp_lower *L)
{
	if (L->type.kind != GP_LOWER_F || L->type.bits < 32)
		gp_lower_unsupported(L);
	if (L->type.bits == 64)
		return 2;
	return gp_lower_has(L, "ftz") ? 1 : 0;
}

enum gp_exec_round gp_lower_round(const struct gp_lower *L)
{
	if (gp_lower_has(L, "rz") || gp_lower_has(L, "rzi"))
		return GP_EXEC_RZ;
	if (gp_lower_has(L, "rm") || gp_lower_has(L, "rmi"))
		return GP_EXEC_RM;
	if (gp_lower_has(L, "rp") || gp_lower_has(L, "rpi"))
		return GP_EXEC_RP;
	return GP_EXEC_RN;
}

/* Registers and constants */

static uint32_t lower_alloc_reg(struct gp_lower *L, uint32_t bits)
{
	uint32_t at, bytes = bits / 8 * GP_EXEC_LANES;

	if (bits == 1) {
		if (L->pred_used == 0 || L->pred_used == LOWER_LINE) {
			L->pred_line = L->code->reg_bytes;
			L->code->reg_bytes += LOWER_LINE;
			L->pred_used = 0;
		}
		at = L->pred_line + L->pred_used;
		L->pred_used += sizeof(uint32_t);
		return at;
	}
	at = L->code->reg_bytes;
	L->code->reg_bytes += (bytes + LOWER_LINE - 1) & ~(LOWER_LINE - 1u);
	if (L->code->reg_bytes > (1u << 28))
		gp_lower_fail(L, -EILSEQ, "it needs too many registers");
	return at;
}

uint32_t gp_lower_temp(struct gp_lower *L, uint32_t bits)
{
	return lower_alloc_reg(L, bits);
}

uint32_t gp_lower_const(struct gp_lower *L, const struct gp_exec_const *want)
{
	struct gp_exec_code *code = L->code;
	struct gp_exec_const *grown;

	for (uint32_t i = 0; i < code->n_consts; i++) {
		struct gp_exec_const *have = &code->consts[i];

		if (have->kind == want->kind && have->width_bits == want->width_bits &&
		    have->index == want->index && have->value == want->value)
			return have->offset;
	}
	grown = lower_grow(L, code->consts, code->n_consts, &L->consts_cap, sizeof(*grown));
	if (!grown)
		return GP_EXEC_POOL_BANK;
	code->consts = grown;
	grown = &code->consts[code->n_consts++];
	*grown = *want;
	grown->offset = code->pool_bytes | GP_EXEC_POOL_BANK;
	code->pool_bytes += want->width_bits == 1
				    ? LOWER_LINE
				    : (want->width_bits / 8 * GP_EXEC_LANES + LOWER_LINE - 1) &
					      ~(LOWER_LINE - 1u);
	return grown->offset;
}

uint32_t gp_lower_value(struct gp_lower *L, uint32_t bits, uint64_t value)
{
	struct gp_exec_const want = { .kind = GP_EXEC_CONST_VALUE, .width_bits = bits };

	want.value = bits < 64 ? value & ((1ull << bits) - 1) : value;
	return gp_lower_const(L, &want);
}

/* Operands */

const struct gp_ptx_opnd *gp_lower_opnd(struct gp_lower *L, uint32_t i)
{
	static const struct gp_ptx_opnd none = { .kind = GP_PTX_OPND_SINK, .reg = -1 };

	if (i < L->ptx->n_opnds)
		return &L->ptx->opnds[i];
	gp_lower_unsupported(L);
	return &none;
}

static uint32_t lower_reg(struct gp_lower *L, int32_t reg)
{
	uint32_t *slot = &L->inst->reg[reg];

	if (*slot == GP_EXEC_NONE)
		*slot = lower_alloc_reg(L, L->inst->func->regs[reg]);
	return *slot;
}

uint32_t gp_lower_opnd_bits(struct gp_lower *L, const struct gp_ptx_opnd *opnd)
{
	return opnd->kind == GP_PTX_OPND_REG ? L->inst->func->regs[opnd->reg] : 0;
}

void gp_lower_ext(struct gp_lower *L, uint32_t d, uint32_t d_bits, uint32_t a, uint32_t a_bits,
		  struct gp_lower_type type)
{
	static const uint32_t base[] = { GP_EXEC_OP_ext_16_u8_16, GP_EXEC_OP_ext_32_u8_16,
					 GP_EXEC_OP_ext_64_u8_16 };

	gp_lower_emit3(L, base[gp_lower_width(L, a_bits)] + gp_lower_mr(L, type, d_bits), d, a,
		       GP_EXEC_NONE);
}

bool gp_lower_is_kernel_param(const struct gp_lower *L, const struct gp_ptx_var *var)
{
	for (uint32_t i = 0; i < L->kernel->func->n_formals; i++)
		if (L->kernel->func->formals[i].var == var)
			return true;
	return false;
}

uint32_t gp_lower_var_offset(struct gp_lower *L, const struct gp_ptx_var *var)
{
	struct gp_lower_instance *inst = L->inst;
	struct gp_lower_var_slot *grown;
	uint64_t at;

	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): some function is being lowered */
	for (uint32_t i = 0; i < inst->n_vars; i++)
		if (inst->vars[i].var == var)
			return inst->vars[i].local_offset;
	at = (L->code->local_bytes + var->align_bytes - 1) & ~(var->align_bytes - 1);
	/* 512 KiB of local memory per thread is the card's limit. */
	if (at + var->size_bytes > (512u << 10)) {
		gp_lower_fail(L, -EILSEQ, "it needs more than 512 KiB of local memory per thread");
		return 0;
	}
	grown = realloc(inst->vars, (inst->n_vars + 1) * sizeof(*grown));
	if (!grown) {
		gp_lower_fail(L, -ENOMEM, "no memory to decode it");
		return 0;
	}
	inst->vars = grown;
	grown[inst->n_vars++] =
		(struct gp_lower_var_slot){ .var = var, .local_offset = (uint32_t)at };
	L->code->local_bytes = (uint32_t)(at + var->size_bytes);
	return (uint32_t)at;
}

static uint32_t lower_shared_offset(struct gp_lower *L, const struct gp_ptx_var *var)
{
	if (var->is_unsized)
		return (L->code->shared_bytes + 15) & ~15u;
	for (uint32_t i = 0; i < L->kernel->n_shared; i++)
		if (L->kernel->shared[i].var == var)
			return L->kernel->shared[i].offset_bytes;
	gp_lower_unsupported(L);
	return 0;
}

/* A variable's address: 64 bits, but in .shared, where it is an offset of @bits. */
static uint32_t lower_address(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint32_t bits)
{
	const struct gp_ptx_var *var = opnd->var;
	struct gp_exec_const want = { .width_bits = 64, .value = (uint64_t)opnd->imm };
	struct gp_exec_ins *in;
	uint32_t temp, offset;

	switch (var->space) {
	case GP_PTX_SPACE_SHARED:
		return gp_lower_value(L, bits, lower_shared_offset(L, var) + (uint64_t)opnd->imm);
	case GP_PTX_SPACE_GLOBAL:
	case GP_PTX_SPACE_CONST:
		want.kind = GP_EXEC_CONST_GLOBAL;
		want.index = var->global_index;
		return gp_lower_const(L, &want);
	case GP_PTX_SPACE_PARAM:
		if (gp_lower_is_kernel_param(L, var)) {
			want.kind = GP_EXEC_CONST_PARAM;
			want.value += var->offset_bytes;
			return gp_lower_const(L, &want);
		}
		break;
	default:
		break;
	}
	offset = gp_lower_var_offset(L, var);
	temp = gp_lower_temp(L, 64);
	in = gp_lower_emit3(L, GP_EXEC_OP_local_addr, temp, GP_EXEC_NONE, GP_EXEC_NONE);
	in->imm = offset + opnd->imm;
	return temp;
}

static uint32_t lower_sreg(struct gp_lower *L, const char *name, uint32_t bits)
{
#define LOWER_SREG_NAME(id, text) text,
	static const char *const names[] = { GP_EXEC_SREGS(LOWER_SREG_NAME) };
	struct gp_exec_const want = { .kind = GP_EXEC_CONST_SREG, .width_bits = bits };
	uint32_t temp = gp_lower_temp(L, bits);
	struct gp_exec_ins *in;

	for (size_t i = 0; i < GP_ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], name) != 0)
			continue;
		want.index = (uint32_t)i;
		if (i >= GP_EXEC_SREG_NTID_X && i <= GP_EXEC_SREG_NCTAID_Z)
			return gp_lower_const(L, &want);
		in = gp_lower_emit3(L, GP_EXEC_OP_sreg, temp, GP_EXEC_NONE, GP_EXEC_NONE);
		in->aux = (uint8_t)i;
		in->imm = bits;
		return temp;
	}
	gp_lower_unsupported(L);
	return temp;
}

uint32_t gp_lower_src(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint32_t bits)
{
	struct gp_lower_type type = { GP_LOWER_U, bits };
	uint32_t have, temp;
	uint64_t value = (uint64_t)opnd->imm;
	double wide;
	float narrow;
	uint32_t narrow_bits;

	gp_lower_width(L, bits);
	switch (opnd->kind) {
	case GP_PTX_OPND_REG:
		have = gp_lower_opnd_bits(L, opnd);
		if (have == bits)
			return lower_reg(L, opnd->reg);
		if (have < 16 || have > 64)
			break;
		temp = gp_lower_temp(L, bits);
		if (have < bits)
			type.bits = have;
		gp_lower_ext(L, temp, bits, lower_reg(L, opnd->reg), have, type);
		return temp;
	case GP_PTX_OPND_IMM:
		if (opnd->is_float && bits == 32) {
			memcpy(&wide, &value, sizeof(wide));
			narrow = (float)wide;
			memcpy(&narrow_bits, &narrow, sizeof(narrow));
			value = narrow_bits;
		}
		return gp_lower_value(L, bits, value);
	case GP_PTX_OPND_VAR:
		if (bits == 64 || opnd->var->space == GP_PTX_SPACE_SHARED)
			return lower_address(L, opnd, bits);
		break;
	case GP_PTX_OPND_SREG:
		return lower_sreg(L, opnd->name, bits);
	default:
		break;
	}
	gp_lower_unsupported(L);
	return gp_lower_value(L, bits, 0);
}

uint32_t gp_lower_any_src(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint32_t default_bits,
			  uint32_t *ret_bits)
{
	uint32_t have = gp_lower_opnd_bits(L, opnd);

	*ret_bits = have >= 16 && have <= 64 ? have : default_bits < 16 ? 16 : default_bits;
	return gp_lower_src(L, opnd, *ret_bits);
}

uint32_t gp_lower_pred(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint8_t *ret_flags)
{
	*ret_flags = opnd->negate ? GP_EXEC_PRED_NOT : 0;
	if (opnd->kind == GP_PTX_OPND_REG && gp_lower_opnd_bits(L, opnd) == 1)
		return lower_reg(L, opnd->reg);
	if (opnd->kind == GP_PTX_OPND_IMM)
		return gp_lower_value(L, 32, opnd->imm ? UINT32_MAX : 0);
	gp_lower_unsupported(L);
	return gp_lower_value(L, 32, 0);
}

uint32_t gp_lower_any_dst(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint32_t *ret_bits)
{
	if (opnd->kind == GP_PTX_OPND_REG) {
		*ret_bits = gp_lower_opnd_bits(L, opnd);
		return lower_reg(L, opnd->reg);
	}
	*ret_bits = 32;
	gp_lower_unsupported(L);
	return gp_lower_temp(L, 64);
}

uint32_t gp_lower_dst(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint32_t bits)
{
	uint32_t have, reg;

	if (opnd->kind == GP_PTX_OPND_SINK)
		return gp_lower_temp(L, bits);
	reg = gp_lower_any_dst(L, opnd, &have);
	if (have != bits)
		gp_lower_unsupported(L);
	return reg;
}

uint32_t gp_lower_text(struct gp_lower *L, const char *text)
{
	struct gp_exec_code *code = L->code;
	const char **grown =
		lower_grow(L, code->names, code->n_names, &L->names_cap, sizeof(*grown));

	if (!grown)
		return 0;
	code->names = grown;
	code->names[code->n_names] = text;
	return code->n_names++;
}

uint32_t gp_lower_target(struct gp_lower *L, uint32_t ptx_index)
{
	struct gp_exec_code *code = L->code;
	uint32_t *grown =
		lower_grow(L, code->targets, code->n_targets, &L->targets_cap, sizeof(*grown));

	if (!grown)
		return 0;
	code->targets = grown;
	code->targets[code->n_targets] = ptx_index;
	return code->n_targets++;
}

bool gp_lower_apply(struct gp_lower *L, const struct gp_lower_rule *rules, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(rules[i].opcode, L->name.part[0])) {
			rules[i].fn(L, rules[i].param);
			return true;
		}
	}
	return false;
}

static void lower_one(struct gp_lower *L, const struct gp_ptx_ins *ptx)
{
	uint32_t start = L->code->n_ins;

	if (*ptx->name == '.')
		return; /* .branchtargets: a table, read by its brx */
	L->ptx = ptx;
	L->is_unsupported = false;
	if (ptx->guard >= 0)
		lower_reg(L, ptx->guard);
	lower_split(L, ptx->name);
	if (!gp_lower_arith(L) && !gp_lower_bits(L) && !gp_lower_data(L) && !gp_lower_control(L))
		gp_lower_unsupported(L);
	L->ptx = ptx;
	if (L->is_unsupported && !L->error) {
		L->code->n_ins = start;
		gp_lower_emit(L, GP_EXEC_OP_fail)->imm = gp_lower_text(L, ptx->name);
	}
}

/* Branches hold PTX instruction indices until the function's end. */
static void lower_resolve(struct gp_lower *L)
{
	struct gp_lower_instance *inst = L->inst;
	struct gp_exec_code *code = L->code;

	for (uint32_t i = inst->first_pc; i < code->n_ins; i++) {
		struct gp_exec_ins *in = &code->ins[i];

		if (in->op == GP_EXEC_OP_bra && in->aux) {
			in->imm = inst->pc[in->imm];
			in->aux = 0;
		} else if (in->op == GP_EXEC_OP_brx && in->aux) {
			for (uint32_t k = 0; k < in->b; k++) {
				uint32_t *target = &code->targets[in->imm + k];

				*target = inst->pc[*target];
			}
			in->aux = 0;
		}
	}
}

static void lower_body(struct gp_lower *L)
{
	struct gp_lower_instance *inst = L->inst;
	const struct gp_ptx_func *func = inst->func;

	inst->first_pc = L->code->n_ins;
	inst->reg = malloc((func->n_regs + 1) * sizeof(*inst->reg));
	inst->pc = malloc((func->n_ins + 1) * sizeof(*inst->pc));
	if (!inst->reg || !inst->pc) {
		gp_lower_fail(L, -ENOMEM, "no memory to decode it");
	} else {
		memset(inst->reg, 0xff, func->n_regs * sizeof(*inst->reg));
		for (uint32_t i = 0; i < func->n_ins && !L->error; i++) {
			inst->pc[i] = L->code->n_ins;
			lower_one(L, &func->ins[i]);
		}
		inst->pc[func->n_ins] = L->code->n_ins;
		if (!L->error)
			lower_resolve(L);
	}
	free(inst->reg);
	free(inst->pc);
	free(inst->vars);
	inst->reg = NULL;
	inst->pc = NULL;
	inst->vars = NULL;
}

/* Formals are the caller's variables under another name: no copying. */
static void lower_bind(struct gp_lower *L, struct gp_lower_instance *inst,
		       const struct gp_ptx_formal *formals, uint32_t n,
		       const struct gp_ptx_opnd *actuals)
{
	if (!n)
		return;
	if (!actuals || actuals->n_elems != n) {
		gp_lower_unsupported(L);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (actuals->elems[i].kind != GP_PTX_OPND_VAR) {
			gp_lower_unsupported(L);
			return;
		}
		inst->vars[inst->n_vars++] = (struct gp_lower_var_slot){
			.var = formals[i].var,
			.local_offset = gp_lower_var_offset(L, actuals->elems[i].var),
		};
	}
}

void gp_lower_inline(struct gp_lower *L, const struct gp_ptx_func *func,
		     const struct gp_ptx_opnd *args, const struct gp_ptx_opnd *results)
{
	struct gp_lower_instance inst = { .func = func, .caller = L->inst };
	const struct gp_ptx_ins *call = L->ptx;
	struct gp_exec_ins *skip = NULL;
	uint32_t skip_at = 0;

	for (struct gp_lower_instance *up = L->inst; up; up = up->caller) {
		if (up->func == func) {
			gp_lower_fail(L, -EILSEQ, "recursive device functions are not supported");
			return;
		}
	}
	if (L->depth >= LOWER_MAX_DEPTH) {
		gp_lower_fail(L, -EILSEQ, "device functions are nested too deeply");
		return;
	}
	inst.vars = malloc((func->n_formals + func->n_results + 1) * sizeof(*inst.vars));
	if (!inst.vars) {
		gp_lower_fail(L, -ENOMEM, "no memory to decode it");
		return;
	}
	lower_bind(L, &inst, func->formals, func->n_formals, args);
	lower_bind(L, &inst, func->results, func->n_results, results);
	if (L->is_unsupported) {
		free(inst.vars);
		return;
	}
	if (call->guard >= 0) {
		/* Lanes that do not call jump over the body. */
		skip = gp_lower_emit(L, GP_EXEC_OP_bra);
		skip->flags ^= GP_EXEC_GUARD_NOT;
		skip_at = L->code->n_ins - 1;
	}
	L->inst = &inst;
	L->depth++;
	lower_body(L);
	L->depth--;
	L->inst = inst.caller;
	if (skip && !L->error)
		L->code->ins[skip_at].imm = L->code->n_ins;
	L->is_unsupported = false;
}

static void lower_code_free(struct gp_ptx_attachment *attachment)
{
	struct gp_exec_code *code = (struct gp_exec_code *)attachment;

	free(code->ins);
	free(code->targets);
	free(code->consts);
	free(code->names);
	free(code);
}

static int lower_kernel(const struct gp_ptx_kernel *kernel, struct gp_exec_code *code,
			struct gp_err *err)
{
	struct gp_lower_instance inst = { .func = kernel->func };
	struct gp_lower L = { .kernel = kernel, .code = code, .inst = &inst, .err = err };

	code->kernel = kernel;
	code->shared_bytes = kernel->info.shared_bytes;
	lower_body(&L);
	L.ptx = NULL;
	gp_lower_emit(&L, GP_EXEC_OP_exit); /* a body may end in a label */
	code->local_bytes = (code->local_bytes + 15) & ~15u;
	return L.error;
}

int gp_exec_code_get(const struct gp_ptx_kernel *kernel, const struct gp_exec_code **ret_code,
		     struct gp_err *err)
{
	/* The slot is the one mutable part of a parsed kernel. */
	struct gp_ptx_kernel *slot = (struct gp_ptx_kernel *)(uintptr_t)kernel;
	struct gp_ptx_attachment *found = atomic_load(&slot->lowered);
	struct gp_exec_code *code;
	int r;

	if (!found) {
		code = calloc(1, sizeof(*code));
		if (!code)
			return gp_err_set(err, -ENOMEM, "kernel '%s': no memory to decode it",
					  kernel->info.name);
		code->attachment.free = lower_code_free;
		r = lower_kernel(kernel, code, err);
		if (r) {
			lower_code_free(&code->attachment);
			return r;
		}
		if (atomic_compare_exchange_strong(&slot->lowered, &found, &code->attachment))
			found = &code->attachment;
		else
			lower_code_free(&code->attachment); /* another worker was faster */
	}
	*ret_code = (struct gp_exec_code *)found;
	return 0;
}
