/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_WARP_H
#define GP_SHIM_SOFT_EXEC_WARP_H
/*
 * State of the warps of the one block that a scratch runs, and the operations on it.
 */
#include "shim/soft/exec/code.h"

#include <setjmp.h>

struct gp_exec_scratch;
struct gp_exec_tids;

struct gp_exec_warp {
	uint8_t *bank[2];
	struct gp_exec_scratch *scratch;
	uint8_t *shared;
	uint8_t *local; /* of lane 0 */
	uint64_t local_stride;
	uint64_t shared_bytes;
	uint32_t carry;	  /* condition code, a bit per lane */
	uint32_t alive;	  /* lanes that have not exited */
	uint32_t barred;  /* lanes waiting at a block barrier */
	uint32_t waiting; /* lanes waiting for others of their warp */
	uint32_t index;
	uint32_t spins; /* back edges taken while other lanes stood elsewhere */
	uint32_t spin_limit;
	uint32_t turn_pc; /* where the last turn went: the next one goes further */
	uint32_t pc[GP_EXEC_LANES];
	uint8_t barrier[GP_EXEC_LANES]; /* number, valid in .barred */
	const struct gp_exec_tids *tids;
};

/* Thread indices of one warp; the same for all blocks of a launch. */
struct gp_exec_tids {
	uint32_t tid[3][GP_EXEC_LANES];
};

#define GP_EXEC_N_BARRIERS 16

struct gp_exec_barrier {
	uint32_t n_arrived; /* threads, those of bar.arrive too */
	uint32_t n_expected;
	uint32_t n_true, n_voted; /* bar.red */
};

/* One worker's memory, and the block it is running. */
struct gp_exec_scratch {
	const struct gp_exec_launch *launch;
	const struct gp_exec_code *code;
	struct gp_exec_warp *warps;
	uint32_t n_warps, n_threads, n_alive;
	uint32_t ctaid[3];
	uint8_t *pool, *regs, *shared, *local;
	struct gp_exec_tids *tids;
	uint32_t tids_block[3]; /* the block dimensions that .tids was made for */
	size_t tids_cap, warps_cap, pool_cap, regs_cap, shared_cap, local_cap;
	struct gp_exec_barrier barriers[GP_EXEC_N_BARRIERS];
	sigjmp_buf escape; /* out of an operation: illegal address or gp_exec_fail */
	int escape_code;
	bool is_signal_open;
	/* Where the running warp is, for messages. */
	const struct gp_exec_ins *volatile at;
	volatile uint64_t fault_address;
	struct gp_err *err;
};

typedef void (*gp_exec_op_fn)(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask);

/* The table for this CPU: baseline, x86-64-v3 or x86-64-v4. */
const gp_exec_op_fn *gp_exec_table(void);

extern const gp_exec_op_fn gp_exec_table_base[GP_EXEC_N_TABLE_OPS];
extern const gp_exec_op_fn gp_exec_table_v3[GP_EXEC_N_TABLE_OPS];
extern const gp_exec_op_fn gp_exec_table_v4[GP_EXEC_N_TABLE_OPS];

/* Leaves the operation and the block with -EFAULT; @address is for the message. */
_Noreturn void gp_exec_fault(struct gp_exec_warp *w, uint64_t address);

/* Operations with a rounding mode other than to nearest (round.c, built with -frounding-math). */
void gp_exec_round_f32(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask);
void gp_exec_round_f64(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask);
/* Special registers (sreg.c). */
void gp_exec_sreg(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask);

/* Value of a special register that is the same in the whole block. */
uint64_t gp_exec_sreg_block(const struct gp_exec_scratch *scratch, unsigned int id);

/* The operand's lane array. */
static inline void *gp_exec_lanes(const struct gp_exec_warp *w, uint32_t operand)
{
	return w->bank[operand & GP_EXEC_POOL_BANK] + (operand & ~GP_EXEC_POOL_BANK);
}

static inline uint32_t gp_exec_pred(const struct gp_exec_warp *w, uint32_t operand)
{
	return *(const uint32_t *)gp_exec_lanes(w, operand);
}

static inline void gp_exec_set_pred(const struct gp_exec_warp *w, uint32_t operand, uint32_t bits,
				    uint32_t mask)
{
	uint32_t *p;

	if (operand == GP_EXEC_NONE)
		return;
	p = gp_exec_lanes(w, operand);
	*p = (*p & ~mask) | (bits & mask);
}

#endif
