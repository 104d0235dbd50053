/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_CODE_H
#define GP_SHIM_SOFT_EXEC_CODE_H
/*
 * Lowered code: one kernel with all its device functions inlined, as compact instructions on a
 * register file of 32-lane arrays.
 *
 * An operand is a byte offset into one of two banks, told by its lowest bit: 0 the warp's
 * registers, 1 the pool of constants, shared by all warps of a block. A register of w bits is 32
 * consecutive w-bit values; a predicate is one 32-bit word, a bit per lane. Addresses are host
 * addresses, but in the .shared space, where they are offsets from the start of the block's shared
 * memory.
 */
#include "shim/ptx/ir.h"
#include "shim/soft/exec.h"

#define GP_EXEC_LANES	  32
#define GP_EXEC_NONE	  UINT32_MAX
#define GP_EXEC_POOL_BANK 1u

/* Suffixes: uN/sN integers, f32, z32 (f32 with subnormals flushed to zero), f64. Order matters to
 * lower_*.c: within a family types come in the order of these lists. */
#define GP_EXEC_W(X, n)	 X(n##_u16) X(n##_u32) X(n##_u64)
#define GP_EXEC_WS(X, n) GP_EXEC_W(X, n) X(n##_s16) X(n##_s32) X(n##_s64)
#define GP_EXEC_D(X, n)	 X(n##_u32) X(n##_u64)
#define GP_EXEC_DS(X, n) GP_EXEC_D(X, n) X(n##_s32) X(n##_s64)
#define GP_EXEC_F(X, n)	 X(n##_f32) X(n##_z32) X(n##_f64)
/* Lists of macro calls, which the formatter does not know. */
/* clang-format off */
/* Memory or source type by register width. */
#define GP_EXEC_MR(X, n) \
	X(n##_u8_16) X(n##_u8_32) X(n##_u8_64) X(n##_s8_16) X(n##_s8_32) X(n##_s8_64) \
	X(n##_u16_16) X(n##_u16_32) X(n##_u16_64) X(n##_s16_16) X(n##_s16_32) X(n##_s16_64) \
	X(n##_u32_16) X(n##_u32_32) X(n##_u32_64) X(n##_s32_16) X(n##_s32_32) X(n##_s32_64) \
	X(n##_u64_16) X(n##_u64_32) X(n##_u64_64)

/* Control: handled by the scheduler (run.c), which knows the program counters. */
#define GP_EXEC_CONTROL_OPS(X) \
	X(bra) X(brx) X(exit) X(bar) X(bar_arrive) X(warp_sync) X(trap) X(fail) X(yield) \
	X(vprintf) X(assertfail)

/* Warp-wide: wait for the lanes of the mask in operand .sync_mask. */
#define GP_EXEC_SYNC_OPS(X) \
	X(shfl) X(vote_all) X(vote_any) X(vote_uni) X(vote_ballot) X(match_any_u32) \
	X(match_any_u64) X(match_all_u32) X(match_all_u64) X(redux) X(elect)

#define GP_EXEC_PLAIN_OPS(X) \
	X(nop) GP_EXEC_W(X, mov) X(movp) X(andp) X(orp) X(xorp) X(notp) GP_EXEC_W(X, selp) \
	X(selpp) X(sreg) X(activemask) X(local_addr) X(shared_addr) X(cvta_shared) \
	X(cvta_to_shared) X(isspace) X(fence) X(pack_16_32) X(unpack_32_16) X(pack_32_64) \
	X(unpack_64_32) X(pack_16_64) X(unpack_64_16) GP_EXEC_W(X, add) GP_EXEC_W(X, sub) \
	GP_EXEC_W(X, mul) GP_EXEC_W(X, mad) GP_EXEC_W(X, and) GP_EXEC_W(X, or) \
	GP_EXEC_W(X, xor) GP_EXEC_W(X, not) GP_EXEC_W(X, cnot) GP_EXEC_W(X, shl) \
	GP_EXEC_WS(X, shr) GP_EXEC_WS(X, min) GP_EXEC_WS(X, max) GP_EXEC_WS(X, div) \
	GP_EXEC_WS(X, rem) GP_EXEC_WS(X, mulhi) GP_EXEC_WS(X, madhi) GP_EXEC_WS(X, sad) \
	X(mulwide_u16) X(mulwide_u32) X(mulwide_s16) X(mulwide_s32) X(madwide_u16) \
	X(madwide_u32) X(madwide_s16) X(madwide_s32) GP_EXEC_W(X, neg) GP_EXEC_W(X, abs) \
	GP_EXEC_D(X, popc) GP_EXEC_D(X, clz) GP_EXEC_D(X, brev) GP_EXEC_DS(X, bfind) \
	GP_EXEC_DS(X, bfe) GP_EXEC_D(X, bfi) X(prmt) X(shf_l) X(shf_r) X(lop3) X(bmsk) \
	X(mul24_u32) X(mul24_s32) X(dp4a) X(addsat) X(subsat) X(vabsdiff4) GP_EXEC_D(X, addc) \
	GP_EXEC_D(X, subc) GP_EXEC_D(X, madc_lo) GP_EXEC_DS(X, madc_hi) GP_EXEC_W(X, setp_eq) \
	GP_EXEC_W(X, setp_ne) GP_EXEC_WS(X, setp_lt) GP_EXEC_WS(X, setp_le) \
	GP_EXEC_WS(X, setp_gt) GP_EXEC_WS(X, setp_ge) GP_EXEC_F(X, fsetp_eq) \
	GP_EXEC_F(X, fsetp_ne) GP_EXEC_F(X, fsetp_lt) GP_EXEC_F(X, fsetp_le) \
	GP_EXEC_F(X, fsetp_gt) GP_EXEC_F(X, fsetp_ge) GP_EXEC_F(X, fsetp_equ) \
	GP_EXEC_F(X, fsetp_neu) GP_EXEC_F(X, fsetp_ltu) GP_EXEC_F(X, fsetp_leu) \
	GP_EXEC_F(X, fsetp_gtu) GP_EXEC_F(X, fsetp_geu) GP_EXEC_F(X, fsetp_num) \
	GP_EXEC_F(X, fsetp_nan) GP_EXEC_F(X, fadd) GP_EXEC_F(X, fsub) GP_EXEC_F(X, fmul) \
	GP_EXEC_F(X, ffma) GP_EXEC_F(X, fdiv) GP_EXEC_F(X, fsqrt) GP_EXEC_F(X, frcp) \
	GP_EXEC_F(X, fmin) GP_EXEC_F(X, fmax) GP_EXEC_F(X, fminnan) GP_EXEC_F(X, fmaxnan) \
	GP_EXEC_F(X, fabs) GP_EXEC_F(X, fneg) GP_EXEC_F(X, fsat) GP_EXEC_F(X, frsqrt) \
	GP_EXEC_F(X, fex2) GP_EXEC_F(X, flg2) GP_EXEC_F(X, fsin) GP_EXEC_F(X, fcos) \
	GP_EXEC_F(X, ftanh) GP_EXEC_F(X, frni) GP_EXEC_F(X, frzi) GP_EXEC_F(X, frmi) \
	GP_EXEC_F(X, frpi) GP_EXEC_F(X, copysign) GP_EXEC_F(X, testp) X(round_f32) \
	X(round_f64) X(cvt_f32_f64) X(cvt_f64_f32) X(cvt_u32_f32) X(cvt_s32_f32) \
	X(cvt_u64_f32) X(cvt_s64_f32) X(cvt_u32_f64) X(cvt_s32_f64) X(cvt_u64_f64) \
	X(cvt_s64_f64) X(cvt_rzi_f32_s32) X(cvt_f32_int) X(cvt_f64_int) X(cvt_sat) \
	GP_EXEC_MR(X, ext_16) GP_EXEC_MR(X, ext_32) GP_EXEC_MR(X, ext_64) GP_EXEC_MR(X, ld) \
	GP_EXEC_MR(X, lds) GP_EXEC_MR(X, st) GP_EXEC_MR(X, sts) X(ldv_4) X(ldv_8) X(stv_4) \
	X(stv_8) X(ldsv_4) X(ldsv_8) X(stsv_4) X(stsv_8) GP_EXEC_D(X, atom_add) \
	X(atom_add_f32) X(atom_add_f64) GP_EXEC_DS(X, atom_min) GP_EXEC_DS(X, atom_max) \
	GP_EXEC_D(X, atom_and) GP_EXEC_D(X, atom_or) GP_EXEC_D(X, atom_xor) \
	GP_EXEC_D(X, atom_exch) GP_EXEC_D(X, atom_cas) X(atom_inc_u32) X(atom_dec_u32)

#define GP_EXEC_ENUM(n) GP_EXEC_OP_##n,
enum gp_exec_op {
	GP_EXEC_PLAIN_OPS(GP_EXEC_ENUM) GP_EXEC_FIRST_SYNC_,
	GP_EXEC_BEFORE_SYNC_ = GP_EXEC_FIRST_SYNC_ - 1,
	GP_EXEC_SYNC_OPS(GP_EXEC_ENUM) GP_EXEC_N_TABLE_OPS,
	GP_EXEC_BEFORE_CONTROL_ = GP_EXEC_N_TABLE_OPS - 1,
	GP_EXEC_CONTROL_OPS(GP_EXEC_ENUM)
};

#define GP_EXEC_GUARD_NOT 0x01 /* run where the guard is false */
#define GP_EXEC_PRED_NOT  0x02 /* predicate operand (.c, or .a of vote) is negated */
#define GP_EXEC_CARRY_IN  0x04
#define GP_EXEC_CARRY_OUT 0x08
#define GP_EXEC_WRAP	  0x10 /* shf, bmsk: count modulo 32 */
#define GP_EXEC_FTZ	  0x20
#define GP_EXEC_SIGNED	  0x40

struct gp_exec_ins {
	uint16_t op;
	uint8_t flags;
	uint8_t aux; /* mode, kind or element count, as the operation says */
	uint32_t line;
	uint32_t guard; /* predicate, or GP_EXEC_NONE */
	uint32_t d, a, b, c, e;
	int64_t imm;
};

enum gp_exec_bool_op { GP_EXEC_BOOL_NONE, GP_EXEC_BOOL_AND, GP_EXEC_BOOL_OR, GP_EXEC_BOOL_XOR };
enum gp_exec_shfl_mode { GP_EXEC_SHFL_UP, GP_EXEC_SHFL_DOWN, GP_EXEC_SHFL_BFLY, GP_EXEC_SHFL_IDX };
enum gp_exec_round { GP_EXEC_RN, GP_EXEC_RZ, GP_EXEC_RM, GP_EXEC_RP };
/* round_f32/f64: operation in .aux, rounding in .imm. */
enum gp_exec_round_kind {
	GP_EXEC_ROUND_ADD,
	GP_EXEC_ROUND_SUB,
	GP_EXEC_ROUND_MUL,
	GP_EXEC_ROUND_FMA,
	GP_EXEC_ROUND_DIV,
	GP_EXEC_ROUND_SQRT,
	GP_EXEC_ROUND_RCP,
	GP_EXEC_ROUND_U32,
	GP_EXEC_ROUND_S32,
	GP_EXEC_ROUND_U64,
	GP_EXEC_ROUND_S64,
	GP_EXEC_ROUND_F64,
};
enum gp_exec_redux {
	GP_EXEC_REDUX_ADD,
	GP_EXEC_REDUX_MIN,
	GP_EXEC_REDUX_MAX,
	GP_EXEC_REDUX_AND,
	GP_EXEC_REDUX_OR,
	GP_EXEC_REDUX_XOR
};

#define GP_EXEC_SREGS(X) \
	X(TID_X, "%tid.x") X(TID_Y, "%tid.y") X(TID_Z, "%tid.z") X(NTID_X, "%ntid.x") \
	X(NTID_Y, "%ntid.y") X(NTID_Z, "%ntid.z") X(CTAID_X, "%ctaid.x") \
	X(CTAID_Y, "%ctaid.y") X(CTAID_Z, "%ctaid.z") X(NCTAID_X, "%nctaid.x") \
	X(NCTAID_Y, "%nctaid.y") X(NCTAID_Z, "%nctaid.z") X(LANEID, "%laneid") \
	X(WARPID, "%warpid") X(NWARPID, "%nwarpid") X(SMID, "%smid") X(NSMID, "%nsmid") \
	X(LANEMASK_EQ, "%lanemask_eq") X(LANEMASK_LE, "%lanemask_le") \
	X(LANEMASK_LT, "%lanemask_lt") X(LANEMASK_GE, "%lanemask_ge") \
	X(LANEMASK_GT, "%lanemask_gt") X(CLOCK, "%clock") X(CLOCK_HI, "%clock_hi") \
	X(CLOCK64, "%clock64") X(GLOBALTIMER, "%globaltimer") \
	X(GLOBALTIMER_LO, "%globaltimer_lo") X(GLOBALTIMER_HI, "%globaltimer_hi") \
	X(GRIDID, "%gridid") X(DYNAMIC_SMEM, "%dynamic_smem_size") \
	X(TOTAL_SMEM, "%total_smem_size") X(ENVREG1, "%envreg1") X(ENVREG2, "%envreg2")
/* clang-format on */
#define GP_EXEC_SREG_ENUM(id, name) GP_EXEC_SREG_##id,
enum gp_exec_sreg { GP_EXEC_SREGS(GP_EXEC_SREG_ENUM) GP_EXEC_N_SREGS };

/* A constant of the pool, broadcast to all lanes when a block starts. */
enum gp_exec_const_kind {
	GP_EXEC_CONST_VALUE,
	GP_EXEC_CONST_GLOBAL,	  /* + address of global .index */
	GP_EXEC_CONST_PARAM,	  /* + address of the launch's parameters */
	GP_EXEC_CONST_PARAM_LOAD, /* .index bits of the parameters at .value */
	GP_EXEC_CONST_SREG,	  /* special register .index, the same in the whole block */
};

struct gp_exec_const {
	enum gp_exec_const_kind kind;
	uint32_t offset; /* operand, with the bank bit */
	uint32_t width_bits;
	uint32_t index;
	uint64_t value;
};

struct gp_exec_code {
	struct gp_ptx_attachment attachment; /* first: the kernel owns this object */
	const struct gp_ptx_kernel *kernel;
	struct gp_exec_ins *ins;
	uint32_t n_ins;
	uint32_t *targets; /* brx: .imm is the first, .aux2 in .b the count */
	uint32_t n_targets;
	struct gp_exec_const *consts;
	uint32_t n_consts;
	const char **names; /* vprintf and fail: text for messages, by .imm */
	uint32_t n_names;
	uint32_t reg_bytes, pool_bytes;
	uint32_t local_bytes;  /* per thread: .local variables and call parameters */
	uint32_t shared_bytes; /* static; dynamic memory follows at the next multiple of 16 */
};

/*
 * Gives the kernel's lowered code, making it on first use (any thread). The kernel owns it.
 * -ENOMEM; -EILSEQ for something that cannot be lowered at all (recursion).
 */
gp_must_check int gp_exec_code_get(const struct gp_ptx_kernel *kernel,
				   const struct gp_exec_code **ret_code, struct gp_err *err);

#endif
