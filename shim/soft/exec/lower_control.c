/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering of branches, calls, barriers and the calls that the device itself answers.
 */
#include "shim/soft/exec/lower.h"

#include <string.h>

/* Marked (.aux) for lower_resolve: .imm is still an index of PTX instructions. */
static void control_jump(struct gp_lower *L, uint32_t ptx_index)
{
	struct gp_exec_ins *in = gp_lower_emit(L, GP_EXEC_OP_bra);

	in->imm = ptx_index;
	in->aux = 1;
}

static void control_bra(struct gp_lower *L, uint32_t unused)
{
	const struct gp_ptx_opnd *to = gp_lower_opnd(L, 0);

	if (to->kind != GP_PTX_OPND_LABEL)
		gp_lower_unsupported(L);
	else
		control_jump(L, (uint32_t)to->imm);
}

static void control_brx(struct gp_lower *L, uint32_t unused)
{
	const struct gp_ptx_func *func = L->inst->func;
	uint32_t index = gp_lower_src(L, gp_lower_opnd(L, 0), 32), first = L->code->n_targets;
	const struct gp_ptx_opnd *label = gp_lower_opnd(L, 1);
	const struct gp_ptx_ins *table;
	struct gp_exec_ins *in;

	if (label->kind != GP_PTX_OPND_LABEL || label->imm >= func->n_ins ||
	    strcmp(func->ins[label->imm].name, ".branchtargets") != 0) {
		gp_lower_unsupported(L);
		return;
	}
	table = &func->ins[label->imm];
	for (uint32_t i = 0; i < table->n_opnds; i++) {
		if (table->opnds[i].kind != GP_PTX_OPND_LABEL)
			gp_lower_unsupported(L);
		gp_lower_target(L, (uint32_t)table->opnds[i].imm);
	}
	in = gp_lower_emit3(L, GP_EXEC_OP_brx, GP_EXEC_NONE, index, table->n_opnds);
	in->imm = first;
	in->aux = 1;
}

/* In an inlined function a return is a jump to its end. */
static void control_ret(struct gp_lower *L, uint32_t unused)
{
	const struct gp_ptx_func *func = L->inst->func;

	if (!L->inst->caller)
		gp_lower_emit(L, GP_EXEC_OP_exit);
	else if (L->ptx != &func->ins[func->n_ins - 1])
		control_jump(L, func->n_ins);
}

static void control_plain(struct gp_lower *L, uint32_t op)
{
	gp_lower_emit(L, op);
}

/* Value of the i-th argument: its .param variable lies in local memory. */
static uint32_t control_argument(struct gp_lower *L, const struct gp_ptx_opnd *args, uint32_t i)
{
	uint32_t temp = gp_lower_temp(L, 64), addr;

	if (!args || i >= args->n_elems || args->elems[i].kind != GP_PTX_OPND_VAR) {
		gp_lower_unsupported(L);
		return temp;
	}
	addr = gp_lower_src(L, &args->elems[i], 64);
	gp_lower_emit3(L,
		       args->elems[i].var->size_bytes == 8 ? GP_EXEC_OP_ld_u64_64
							   : GP_EXEC_OP_ld_u32_64,
		       temp, addr, GP_EXEC_NONE);
	return temp;
}

static void control_builtin(struct gp_lower *L, const char *name, const struct gp_ptx_opnd *args,
			    const struct gp_ptx_opnd *results)
{
	struct gp_exec_ins *in;
	uint32_t a, b, c, d, addr;

	if (!strcmp(name, "vprintf") && results && results->n_elems == 1) {
		a = control_argument(L, args, 0);
		b = control_argument(L, args, 1);
		d = gp_lower_temp(L, 32);
		gp_lower_emit3(L, GP_EXEC_OP_vprintf, d, a, b);
		addr = gp_lower_src(L, &results->elems[0], 64);
		gp_lower_emit3(L, GP_EXEC_OP_st_u32_32, d, addr, GP_EXEC_NONE);
	} else if (!strcmp(name, "__assertfail")) {
		a = control_argument(L, args, 0);
		b = control_argument(L, args, 1);
		c = control_argument(L, args, 2);
		d = control_argument(L, args, 3);
		in = gp_lower_emit3(L, GP_EXEC_OP_assertfail, a, b, c);
		in->c = d;
	} else {
		gp_lower_unsupported(L);
	}
}

static void control_call(struct gp_lower *L, uint32_t unused)
{
	const struct gp_ptx_opnd *results = NULL, *args = NULL;
	const struct gp_ptx_func *func;
	uint32_t i = 0;

	if (L->ptx->n_opnds && L->ptx->opnds[0].kind == GP_PTX_OPND_LIST)
		results = &L->ptx->opnds[i++];
	if (gp_lower_opnd(L, i)->kind != GP_PTX_OPND_FUNC) {
		gp_lower_unsupported(L); /* through a pointer */
		return;
	}
	func = L->ptx->opnds[i++].func;
	if (i < L->ptx->n_opnds && L->ptx->opnds[i].kind == GP_PTX_OPND_LIST)
		args = &L->ptx->opnds[i];
	if (func->has_body)
		gp_lower_inline(L, func, args, results);
	else
		control_builtin(L, func->name, args, results);
}

static struct gp_exec_ins *control_emit_bar(struct gp_lower *L, uint32_t op, uint32_t first,
					    uint32_t n)
{
	uint32_t a = n ? gp_lower_src(L, gp_lower_opnd(L, first), 32) : gp_lower_value(L, 32, 0);
	uint32_t b = n > 1 ? gp_lower_src(L, gp_lower_opnd(L, first + 1), 32) : GP_EXEC_NONE;

	return gp_lower_emit3(L, op, GP_EXEC_NONE, a, b);
}

/* bar.red: .aux 1 popc, 2 and, 3 or. */
static void control_bar_red(struct gp_lower *L)
{
	uint32_t n = L->ptx->n_opnds, d, c;
	bool is_popc = gp_lower_has(L, "popc");
	struct gp_exec_ins *in;
	uint8_t flags;

	if (n < 3) {
		gp_lower_unsupported(L);
		return;
	}
	d = gp_lower_dst(L, gp_lower_opnd(L, 0), is_popc ? 32 : 1);
	c = gp_lower_pred(L, gp_lower_opnd(L, n - 1), &flags);
	in = control_emit_bar(L, GP_EXEC_OP_bar, 1, n - 2);
	in->d = d;
	in->c = c;
	in->flags |= flags;
	in->aux = is_popc ? 1 : gp_lower_has(L, "and") ? 2 : 3;
}

static void control_bar(struct gp_lower *L, uint32_t unused)
{
	if (gp_lower_has(L, "cluster"))
		gp_lower_unsupported(L);
	else if (gp_lower_has(L, "warp"))
		gp_lower_emit(L, GP_EXEC_OP_warp_sync)->imm =
			gp_lower_src(L, gp_lower_opnd(L, 0), 32);
	else if (gp_lower_has(L, "red"))
		control_bar_red(L);
	else if (gp_lower_has(L, "arrive"))
		control_emit_bar(L, GP_EXEC_OP_bar_arrive, 0, L->ptx->n_opnds);
	else
		control_emit_bar(L, GP_EXEC_OP_bar, 0, L->ptx->n_opnds);
}

bool gp_lower_control(struct gp_lower *L)
{
	static const struct gp_lower_rule rules[] = {
		{ "bra", control_bra, 0 },
		{ "brx", control_brx, 0 },
		{ "ret", control_ret, 0 },
		{ "exit", control_plain, GP_EXEC_OP_exit },
		{ "trap", control_plain, GP_EXEC_OP_trap },
		{ "brkpt", control_plain, GP_EXEC_OP_trap },
		{ "nanosleep", control_plain, GP_EXEC_OP_yield },
		{ "call", control_call, 0 },
		{ "bar", control_bar, 0 },
		{ "barrier", control_bar, 0 },
	};

	return gp_lower_apply(L, rules, GP_ARRAY_SIZE(rules));
}
