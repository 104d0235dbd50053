/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling of lanes, warps and barriers of one block.
 *
 * Lanes of a warp have a program counter each. A turn runs the lanes that stand at the lowest one
 * together until they branch apart or reach others; code is laid out so that this brings them
 * together again behind branches and loops. Lanes that spin for others of their warp are found by
 * counting back edges taken while somebody waits elsewhere: the turn then goes on to the lanes
 * further down.
 *
 * Lane states: running -> waiting for lanes of its warp [run_rendezvous] -> running
 *              running -> at a block barrier [run_bar] -> running [run_release]
 *              running -> exited [run_exit]
 */
#include "shim/soft/exec/run.h"

#include "shim/soft/exec/calls.h"
#include "shim/soft/exec/fault.h"

#include <errno.h>
#include <sched.h>

#define RUN_POLL_INS	1000 /* instructions between looks at the stop word, from exec.h */
#define RUN_SLICE_POLLS 16   /* polls until the next warp's turn */
#define RUN_SPINS_FIRST 1024 /* back edges before lanes further down get a turn */
#define RUN_SPINS_AGAIN 32   /* the same, once a warp was seen to need it */

/* The lanes that run together, where, and the next place where somebody stands. */
struct run_turn {
	uint32_t pc, mask, next_pc;
	bool is_lowest;
	bool is_forced; /* waiting lanes that will never be complete go on */
	uint32_t budget, slices;
};

/* Whole arrays, so that gcc makes vector code of it. */
static uint32_t run_lanes_at(const struct gp_exec_warp *w, uint32_t among, uint32_t pc)
{
	uint32_t lanes = 0;

	for (int l = 0; l < GP_EXEC_LANES; l++)
		lanes |= w->pc[l] == pc ? 1u << l : 0;
	return lanes & among;
}

static uint32_t run_lowest_above(const struct gp_exec_warp *w, uint32_t among, uint32_t limit)
{
	uint32_t best = UINT32_MAX;

	for (int l = 0; l < GP_EXEC_LANES; l++) {
		uint32_t pc = (among >> l & 1) && w->pc[l] >= limit ? w->pc[l] : UINT32_MAX;

		best = pc < best ? pc : best;
	}
	return best;
}

static void run_set_pc(struct gp_exec_warp *w, uint32_t lanes, uint32_t pc)
{
	for (int l = 0; l < GP_EXEC_LANES; l++)
		w->pc[l] = lanes >> l & 1 ? pc : w->pc[l];
}

static uint32_t run_members(const struct gp_exec_warp *w, const struct gp_exec_ins *in, int lane)
{
	const uint32_t *members;

	if ((uint32_t)in->imm == GP_EXEC_NONE)
		return 1u << lane;
	members = gp_exec_lanes(w, (uint32_t)in->imm);
	return members[lane];
}

/* True if every living lane that one of @present waits for is among them. */
static bool run_is_complete(const struct gp_exec_warp *w, const struct gp_exec_ins *in,
			    uint32_t present)
{
	for (uint32_t m = present; m; m &= m - 1)
		if (run_members(w, in, __builtin_ctz(m)) & w->alive & ~present)
			return false;
	return true;
}

/* Nobody can run but lanes that wait for each other: exits may have completed one group. */
static void run_pick_waiting(struct gp_exec_warp *w, struct run_turn *t)
{
	const struct gp_exec_code *code = w->scratch->code;
	uint32_t rest = w->waiting, group;

	while (rest) {
		t->pc = run_lowest_above(w, rest, 0);
		group = run_lanes_at(w, rest, t->pc);
		if (run_is_complete(w, &code->ins[t->pc], group))
			break;
		rest &= ~group;
	}
	t->is_forced = !rest;
	if (!rest)
		t->pc = run_lowest_above(w, w->waiting, 0);
	t->mask = run_lanes_at(w, w->waiting, t->pc);
	w->waiting &= ~t->mask;
	t->next_pc = UINT32_MAX;
	t->is_lowest = true;
}

/* Chooses the lanes of the next turn; false if none can run. */
static bool run_pick(struct gp_exec_warp *w, struct run_turn *t, bool further)
{
	uint32_t runnable = w->alive & ~w->barred & ~w->waiting, lowest;

	t->is_forced = false;
	if (!runnable) {
		if (!w->waiting)
			return false;
		run_pick_waiting(w, t);
		return true;
	}
	t->pc = w->pc[__builtin_ctz(runnable)];
	if (run_lanes_at(w, runnable, t->pc) == runnable) {
		/* Most turns: everybody is in one place. */
		t->mask = runnable;
		t->next_pc = UINT32_MAX;
		t->is_lowest = true;
		w->turn_pc = t->pc;
		w->spins = 0;
		w->spin_limit = RUN_SPINS_FIRST;
		return true;
	}
	lowest = run_lowest_above(w, runnable, 0);
	t->pc = lowest;
	if (further) {
		t->pc = run_lowest_above(w, runnable, w->turn_pc + 1);
		if (t->pc == UINT32_MAX)
			t->pc = lowest;
	}
	t->mask = run_lanes_at(w, runnable, t->pc);
	t->next_pc = run_lowest_above(w, runnable & ~t->mask, t->pc + 1);
	t->is_lowest = t->pc == lowest;
	w->turn_pc = t->pc;
	return true;
}

/* Barriers */

static void run_bar_result(struct gp_exec_warp *w, const struct gp_exec_barrier *bar,
			   const struct gp_exec_ins *in, int l)
{
	uint32_t *d;

	if (in->aux == 1) {
		d = gp_exec_lanes(w, in->d);
		d[l] = bar->n_true;
	} else if (in->aux) {
		gp_exec_set_pred(w, in->d,
				 (in->aux == 2 ? bar->n_true == bar->n_voted : bar->n_true > 0)
					 ? UINT32_MAX
					 : 0,
				 1u << l);
	}
}

/* Lets everybody go who stands at barrier @id, where somebody has arrived, if it is complete. */
static void run_release(struct gp_exec_scratch *scratch, uint32_t id)
{
	struct gp_exec_barrier *bar = &scratch->barriers[id];
	uint32_t expected = bar->n_expected;

	if (!expected || expected > scratch->n_alive)
		expected = scratch->n_alive;
	if (bar->n_arrived < expected)
		return;
	for (uint32_t i = 0; i < scratch->n_warps; i++) {
		struct gp_exec_warp *w = &scratch->warps[i];

		uint32_t here = 0;

		if (!w->barred)
			continue;
		for (int l = 0; l < GP_EXEC_LANES; l++)
			here |= w->barrier[l] == id ? 1u << l : 0;
		here &= w->barred;
		for (uint32_t m = bar->n_voted ? here : 0; m; m &= m - 1) {
			int l = __builtin_ctz(m);

			run_bar_result(w, bar, &scratch->code->ins[w->pc[l]], l);
		}
		w->barred &= ~here;
		for (int l = 0; l < GP_EXEC_LANES; l++)
			w->pc[l] += here >> l & 1;
	}
	*bar = (struct gp_exec_barrier){ 0 };
}

static void run_bar(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t pc,
		    uint32_t lanes)
{
	const uint32_t *id = gp_exec_lanes(w, in->a);
	int first = __builtin_ctz(lanes);
	uint32_t number = id[first] % GP_EXEC_N_BARRIERS, votes;
	struct gp_exec_barrier *bar = &w->scratch->barriers[number];

	bar->n_arrived += (uint32_t)__builtin_popcount(lanes);
	if (in->b != GP_EXEC_NONE)
		bar->n_expected = ((const uint32_t *)gp_exec_lanes(w, in->b))[first];
	if (in->aux) {
		votes = gp_exec_pred(w, in->c);
		votes = (in->flags & GP_EXEC_PRED_NOT ? ~votes : votes) & lanes;
		bar->n_voted += (uint32_t)__builtin_popcount(lanes);
		bar->n_true += (uint32_t)__builtin_popcount(votes);
	}
	if (in->op == GP_EXEC_OP_bar_arrive) {
		run_set_pc(w, lanes, pc + 1);
	} else {
		run_set_pc(w, lanes, pc);
		w->barred |= lanes;
		for (int l = 0; l < GP_EXEC_LANES; l++)
			w->barrier[l] = lanes >> l & 1 ? (uint8_t)number : w->barrier[l];
	}
	run_release(w->scratch, number);
}

static void run_exit(struct gp_exec_warp *w, uint32_t lanes)
{
	w->alive &= ~lanes;
	w->scratch->n_alive -= (uint32_t)__builtin_popcount(lanes);
	for (uint32_t id = 0; id < GP_EXEC_N_BARRIERS; id++)
		if (w->scratch->barriers[id].n_arrived)
			run_release(w->scratch, id);
}

/* Warp-wide operations */

/* Runs @in once for each set of @ready lanes that name the same members. */
static void run_sync_groups(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t ready)
{
	const gp_exec_op_fn *table = gp_exec_table();

	while (ready && in->op < GP_EXEC_N_TABLE_OPS) {
		uint32_t members = run_members(w, in, __builtin_ctz(ready)), group = 0;

		if ((uint32_t)in->imm == GP_EXEC_NONE)
			group = ready;
		for (uint32_t m = ready & ~group; m; m &= m - 1) {
			int l = __builtin_ctz(m);

			if (run_members(w, in, l) == members)
				group |= 1u << l;
		}
		table[in->op](w, in, group);
		ready &= ~group;
	}
}

/* @lanes have come to a .sync operation: those whose members are here run it, the others wait. */
static void run_rendezvous(struct gp_exec_warp *w, const struct gp_exec_ins *in, struct run_turn *t,
			   uint32_t lanes)
{
	uint32_t present = lanes | run_lanes_at(w, w->waiting, t->pc), ready = 0;

	for (uint32_t m = present; m; m &= m - 1) {
		int l = __builtin_ctz(m);
		uint32_t missing = run_members(w, in, l) & w->alive & ~present;

		if (!missing || t->is_forced)
			ready |= 1u << l;
	}
	run_sync_groups(w, in, ready);
	run_set_pc(w, ready | t->mask, t->pc + 1);
	run_set_pc(w, present & ~ready, t->pc);
	w->waiting = (w->waiting & ~present) | (present & ~ready);
}

/* Control */

/* Looks at the stop word and the clock; false ends this warp's turn. */
static bool run_poll(struct gp_exec_warp *w, struct run_turn *t, int *ret_outcome)
{
	struct gp_exec_scratch *scratch = w->scratch;
	const struct gp_exec_launch *launch = scratch->launch;

	*ret_outcome = 0;
	while (launch->stop && __atomic_load_n(launch->stop, __ATOMIC_RELAXED)) {
		int r;

		gp_exec_fault_guard(NULL);
		r = launch->park(launch->park_arg);
		gp_exec_fault_guard(scratch);
		if (r) {
			*ret_outcome = -ECANCELED;
			return false;
		}
	}
	if (t->budget)
		return true;
	t->budget = RUN_POLL_INS;
	return scratch->n_warps == 1 || --t->slices > 0;
}

/* Jumps @lanes of the turn; true if the turn goes on with the same lanes. */
static bool run_jump(struct gp_exec_warp *w, struct run_turn *t, uint32_t lanes, uint32_t target)
{
	if (lanes != t->mask) {
		run_set_pc(w, t->mask & ~lanes, t->pc + 1);
		run_set_pc(w, lanes, target);
		return false;
	}
	if ((target > t->pc && target >= t->next_pc) || !t->is_lowest) {
		run_set_pc(w, lanes, target);
		return false;
	}
	t->pc = target;
	return true;
}

static void run_brx(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t pc,
		    uint32_t turn, uint32_t lanes)
{
	const struct gp_exec_code *code = w->scratch->code;
	const uint32_t *index = gp_exec_lanes(w, in->a);

	run_set_pc(w, turn & ~lanes, pc + 1);
	for (uint32_t m = lanes; m; m &= m - 1) {
		int l = __builtin_ctz(m);

		/* An index beyond the table is undefined; going on is as good as any. */
		w->pc[l] = index[l] < in->b ? code->targets[in->imm + index[l]] : pc + 1;
	}
}

static int run_stop(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t lanes)
{
	struct gp_exec_scratch *scratch = w->scratch;
	const char *kernel = scratch->code->kernel->info.name;

	if (in->op == GP_EXEC_OP_trap)
		return gp_err_set(scratch->err, -EILSEQ, "kernel '%s': trap at ptx line %u", kernel,
				  in->line);
	if (in->op == GP_EXEC_OP_assertfail) {
		gp_exec_assertfail(w, in, lanes);
		return gp_err_set(scratch->err, -EILSEQ, "kernel '%s': assertion failed", kernel);
	}
	return gp_err_set(scratch->err, -EILSEQ,
			  "kernel '%s': ptx line %u: opcode '%s' is not supported", kernel,
			  in->line, scratch->code->names[in->imm]);
}

/*
 * One control or warp-wide instruction with a non-empty set of lanes. 0: the turn goes on at t->pc;
 * 1: lanes moved, choose again; 2: let other warps run; negative: the block ends.
 */
static int run_control(struct gp_exec_warp *w, const struct gp_exec_ins *in, struct run_turn *t,
		       uint32_t lanes)
{
	switch (in->op) {
	case GP_EXEC_OP_bra:
		return run_jump(w, t, lanes, (uint32_t)in->imm) ? 0 : 1;
	case GP_EXEC_OP_brx:
		run_brx(w, in, t->pc, t->mask, lanes);
		return 1;
	case GP_EXEC_OP_exit:
		run_set_pc(w, t->mask, t->pc + 1);
		run_exit(w, lanes);
		return 1;
	case GP_EXEC_OP_bar:
	case GP_EXEC_OP_bar_arrive:
		run_set_pc(w, t->mask, t->pc + 1);
		run_bar(w, in, t->pc, lanes);
		return 1;
	case GP_EXEC_OP_yield:
		run_set_pc(w, t->mask, t->pc + 1);
		sched_yield();
		return 2;
	case GP_EXEC_OP_vprintf:
		gp_exec_vprintf(w, in, lanes);
		run_set_pc(w, t->mask, t->pc + 1);
		return 1;
	case GP_EXEC_OP_trap:
	case GP_EXEC_OP_fail:
	case GP_EXEC_OP_assertfail:
		return run_stop(w, in, lanes);
	default:
		/* Almost always everybody is here already. */
		if (lanes == t->mask && in->op < GP_EXEC_N_TABLE_OPS && !w->waiting &&
		    t->next_pc == UINT32_MAX && t->is_lowest && !w->barred &&
		    (uint32_t)in->imm & GP_EXEC_POOL_BANK &&
		    !(run_members(w, in, __builtin_ctz(lanes)) & w->alive & ~lanes)) {
			gp_exec_table()[in->op](w, in, lanes);
			t->pc++;
			return 0;
		}
		run_rendezvous(w, in, t, lanes);
		return 1;
	}
}

/* After a jump: is this a lane spinning for another? Then the others get a turn. */
static bool run_is_spinning(struct gp_exec_warp *w, const struct run_turn *t)
{
	if (t->next_pc == UINT32_MAX && t->is_lowest)
		return false;
	if (++w->spins < w->spin_limit)
		return false;
	w->spins = 0;
	w->spin_limit = RUN_SPINS_AGAIN;
	return true;
}

/* One control instruction with its consequences; *@ret_again: the warp may go on. */
static int run_step_control(struct gp_exec_warp *w, const struct gp_exec_ins *in,
			    struct run_turn *t, uint32_t lanes, bool *ret_again)
{
	bool is_back_edge =
		(in->op == GP_EXEC_OP_bra && in->imm <= t->pc) || in->op == GP_EXEC_OP_brx;
	bool further = is_back_edge && run_is_spinning(w, t);
	int r = run_control(w, in, t, lanes), outcome = 0;

	*ret_again = false;
	if (r < 0)
		return r;
	if (r == 0 && further)
		run_set_pc(w, t->mask, t->pc);
	if (r == 2)
		return 0;
	*ret_again = (r == 0 && !further) || run_pick(w, t, further);
	if (!*ret_again || !is_back_edge)
		return 0;
	if (!run_poll(w, t, &outcome)) {
		run_set_pc(w, t->mask, t->pc);
		*ret_again = false;
	}
	return outcome;
}

int gp_exec_run_warp(struct gp_exec_warp *w)
{
	struct gp_exec_scratch *scratch = w->scratch;
	const struct gp_exec_ins *ins = scratch->code->ins;
	const gp_exec_op_fn *table = gp_exec_table();
	struct run_turn t = { .budget = RUN_POLL_INS, .slices = RUN_SLICE_POLLS };
	bool again = run_pick(w, &t, false);
	int r = 0;

	while (again) {
		const struct gp_exec_ins *in = &ins[t.pc];
		uint32_t lanes = t.mask, p;

		if (in->guard != GP_EXEC_NONE) {
			p = *(const uint32_t *)(w->bank[0] + in->guard);
			lanes &= in->flags & GP_EXEC_GUARD_NOT ? ~p : p;
		}
		scratch->at = in;
		if (in->op < GP_EXEC_FIRST_SYNC_ || !lanes) {
			if (lanes)
				table[in->op](w, in, lanes);
			if (++t.pc >= t.next_pc) {
				run_set_pc(w, t.mask, t.pc);
				run_pick(w, &t, false);
			}
		} else {
			r = run_step_control(w, in, &t, lanes, &again);
			if (r)
				return r;
		}
		if (--t.budget == 0 && again && !run_poll(w, &t, &r)) {
			run_set_pc(w, t.mask, t.pc);
			return r;
		}
	}
	return r;
}
