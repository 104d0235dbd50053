/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the operations for this CPU. Results do not depend on the choice.
 */
#include "shim/soft/exec/warp.h"

const gp_exec_op_fn *gp_exec_table(void)
{
	/* Idempotent, so a race only repeats the choice. */
	static const gp_exec_op_fn *_Atomic chosen;
	const gp_exec_op_fn *table = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (table)
		return table;
	/* The names of psABI levels came to __builtin_cpu_supports with gcc 12. */
	if (__builtin_cpu_supports("x86-64-v4"))
		table = gp_exec_table_v4;
	else if (__builtin_cpu_supports("x86-64-v3"))
		table = gp_exec_table_v3;
	else
		table = gp_exec_table_base;
	atomic_store_explicit(&chosen, table, memory_order_relaxed);
	return table;
}
