/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of operations. Compiled three times, with GP_EXEC_TABLE naming the table and -march the
 * instruction set: the loops over 32 lanes are plain C, and gcc makes them SSE2, AVX2 or AVX-512.
 */
#include "shim/soft/exec/ops.h"

#include "shim/soft/exec/ops_int.h"

#include "shim/soft/exec/ops_float.h"
#include "shim/soft/exec/ops_mem.h"
#include "shim/soft/exec/ops_warp.h"

#define op_sreg	     gp_exec_sreg
#define op_round_f32 gp_exec_round_f32
#define op_round_f64 gp_exec_round_f64

#define OPS_ENTRY(name) [GP_EXEC_OP_##name] = op_##name,
const gp_exec_op_fn GP_EXEC_TABLE[GP_EXEC_N_TABLE_OPS] = { GP_EXEC_PLAIN_OPS(OPS_ENTRY)
								   GP_EXEC_SYNC_OPS(OPS_ENTRY) };
