/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special registers. Clocks read the host's: a thread sees time pass while it is frozen, as on the
 * card. %smid is the block's number modulo the count of SMs that the device claims.
 */
#include "shim/soft/exec/ops.h"

#include <time.h>

#define SREG_N_SMS	  16
#define SREG_SHARED_TOTAL (228u << 10) /* of an sm_90 multiprocessor */

static uint64_t sreg_now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t gp_exec_sreg_block(const struct gp_exec_scratch *scratch, unsigned int id)
{
	const struct gp_exec_launch *launch = scratch->launch;
	uint64_t shared = (uint64_t)scratch->code->shared_bytes + launch->dyn_shared_bytes;

	switch (id) {
	case GP_EXEC_SREG_NTID_X ... GP_EXEC_SREG_NTID_Z:
		return launch->block[id - GP_EXEC_SREG_NTID_X];
	case GP_EXEC_SREG_CTAID_X ... GP_EXEC_SREG_CTAID_Z:
		return scratch->ctaid[id - GP_EXEC_SREG_CTAID_X];
	case GP_EXEC_SREG_NCTAID_X ... GP_EXEC_SREG_NCTAID_Z:
		return launch->grid[id - GP_EXEC_SREG_NCTAID_X];
	case GP_EXEC_SREG_NWARPID:
		return scratch->n_warps;
	case GP_EXEC_SREG_SMID:
		return (scratch->ctaid[0] + scratch->ctaid[1] + scratch->ctaid[2]) % SREG_N_SMS;
	case GP_EXEC_SREG_NSMID:
		return SREG_N_SMS;
	case GP_EXEC_SREG_DYNAMIC_SMEM:
		return launch->dyn_shared_bytes;
	case GP_EXEC_SREG_TOTAL_SMEM:
		return shared < SREG_SHARED_TOTAL ? shared : SREG_SHARED_TOTAL;
	default:
		return 0; /* gridid, envreg: no value that a program could rely on */
	}
}

static uint64_t sreg_warp(const struct gp_exec_warp *w, unsigned int id)
{
	switch (id) {
	case GP_EXEC_SREG_WARPID:
		return w->index;
	case GP_EXEC_SREG_CLOCK:
	case GP_EXEC_SREG_CLOCK64:
		return sreg_now_ns(CLOCK_MONOTONIC);
	case GP_EXEC_SREG_CLOCK_HI:
		return sreg_now_ns(CLOCK_MONOTONIC) >> 32;
	case GP_EXEC_SREG_GLOBALTIMER:
	case GP_EXEC_SREG_GLOBALTIMER_LO:
		return sreg_now_ns(CLOCK_REALTIME);
	case GP_EXEC_SREG_GLOBALTIMER_HI:
		return sreg_now_ns(CLOCK_REALTIME) >> 32;
	default:
		return gp_exec_sreg_block(w->scratch, id);
	}
}

static uint32_t sreg_lane(const struct gp_exec_warp *w, unsigned int id, int l)
{
	uint32_t bit = 1u << l;

	switch (id) {
	case GP_EXEC_SREG_TID_X ... GP_EXEC_SREG_TID_Z:
		return w->tids->tid[id - GP_EXEC_SREG_TID_X][l];
	case GP_EXEC_SREG_LANEMASK_EQ:
		return bit;
	case GP_EXEC_SREG_LANEMASK_LT:
		return bit - 1;
	case GP_EXEC_SREG_LANEMASK_LE:
		return bit | (bit - 1);
	case GP_EXEC_SREG_LANEMASK_GT:
		return ~(bit | (bit - 1));
	case GP_EXEC_SREG_LANEMASK_GE:
		return ~(bit - 1);
	default:
		return (uint32_t)l;
	}
}

/* .aux is the register, .imm the width of the destination in bits. */
void gp_exec_sreg(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask)
{
	bool per_lane =
		in->aux <= GP_EXEC_SREG_TID_Z || in->aux == GP_EXEC_SREG_LANEID ||
		(in->aux >= GP_EXEC_SREG_LANEMASK_EQ && in->aux <= GP_EXEC_SREG_LANEMASK_GT);
	uint64_t uniform = per_lane ? 0 : sreg_warp(w, in->aux);
	uint32_t *narrow = gp_exec_lanes(w, in->d);
	uint64_t *wide = gp_exec_lanes(w, in->d);
	uint16_t *half = gp_exec_lanes(w, in->d);

	if (in->aux <= GP_EXEC_SREG_TID_Z && mask == OPS_ALL && in->imm == 32) {
		memcpy(narrow, w->tids->tid[in->aux], sizeof(w->tids->tid[0]));
		return;
	}
	OPS_EACH(uint64_t v = per_lane ? sreg_lane(w, in->aux, l) : uniform;
		 if (in->imm == 64) wide[l] = v; else if (in->imm == 16) half[l] = (uint16_t)v;
		 else narrow[l] = (uint32_t)v);
}
