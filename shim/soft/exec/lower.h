/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_LOWER_H
#define GP_SHIM_SOFT_EXEC_LOWER_H
/*
 * From parsed PTX to struct gp_exec_code. Calls are inlined, so one kernel is one stretch of code
 * and a return address needs no storage. What is not supported becomes a `fail` instruction that
 * names itself when a thread gets there; a kernel that never does runs.
 */
#include "shim/soft/exec/code.h"

#define LOWER_MAX_PARTS 16

/* A dotted name taken apart: "ld.global.f32" is "ld", "global", "f32". */
struct gp_lower_name {
	char text[128];
	const char *part[LOWER_MAX_PARTS];
	unsigned int n;
};

enum gp_lower_kind { GP_LOWER_U, GP_LOWER_S, GP_LOWER_F, GP_LOWER_P, GP_LOWER_NO_TYPE };

struct gp_lower_type {
	enum gp_lower_kind kind;
	uint32_t bits;
};

/* One inlined copy of a function. */
struct gp_lower_var_slot {
	const struct gp_ptx_var *var;
	uint32_t local_offset;
};

struct gp_lower_instance {
	const struct gp_ptx_func *func;
	struct gp_lower_instance *caller;
	uint32_t *reg; /* operand of each PTX register, GP_EXEC_NONE until used */
	uint32_t *pc;  /* of each PTX instruction, and of the end */
	uint32_t first_pc, first_target;
	struct gp_lower_var_slot *vars;
	uint32_t n_vars;
};

struct gp_lower {
	const struct gp_ptx_kernel *kernel;
	struct gp_exec_code *code;
	struct gp_lower_instance *inst;
	const struct gp_ptx_ins *ptx; /* being lowered */
	struct gp_lower_name name;
	struct gp_lower_type type; /* last part of the name, if it is a type */
	uint32_t ins_cap, targets_cap, consts_cap, names_cap;
	uint32_t pred_line, pred_used; /* predicates share 64-byte lines */
	uint32_t depth;
	bool is_unsupported; /* the current instruction */
	int error;	     /* sticky: -ENOMEM, -EILSEQ */
	struct gp_err *err;
};

typedef void (*gp_lower_fn)(struct gp_lower *L, uint32_t param);

struct gp_lower_rule {
	const char *opcode;
	gp_lower_fn fn;
	uint32_t param;
};

/* Looks @opcode up in the module's table; false if it is not there. */
bool gp_lower_arith(struct gp_lower *L);
bool gp_lower_bits(struct gp_lower *L);
bool gp_lower_data(struct gp_lower *L);
bool gp_lower_control(struct gp_lower *L);
bool gp_lower_apply(struct gp_lower *L, const struct gp_lower_rule *rules, size_t n);

/* Names and types. */
bool gp_lower_has(const struct gp_lower *L, const char *part);
struct gp_lower_type gp_lower_parse_type(const char *part);
/* Type at @from_end parts from the end: 0 is the last. */
struct gp_lower_type gp_lower_type_at(const struct gp_lower *L, unsigned int from_end);
/* 16, 32, 64 bits: 0, 1, 2; anything else marks the instruction unsupported. */
uint32_t gp_lower_width(struct gp_lower *L, uint32_t bits);
/* Index in a GP_EXEC_MR family: row of the type, column of the register width. */
uint32_t gp_lower_mr(struct gp_lower *L, struct gp_lower_type type, uint32_t reg_bits);
/* Index in a GP_EXEC_F family, of L->type and .ftz. */
uint32_t gp_lower_float(struct gp_lower *L);
enum gp_exec_round gp_lower_round(const struct gp_lower *L);

/* Operands. All may mark the instruction unsupported and then return something harmless. */
const struct gp_ptx_opnd *gp_lower_opnd(struct gp_lower *L, uint32_t i);
uint32_t gp_lower_opnd_bits(struct gp_lower *L, const struct gp_ptx_opnd *opnd);
uint32_t gp_lower_temp(struct gp_lower *L, uint32_t bits);
uint32_t gp_lower_const(struct gp_lower *L, const struct gp_exec_const *want);
uint32_t gp_lower_value(struct gp_lower *L, uint32_t bits, uint64_t value);
uint32_t gp_lower_src(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint32_t bits);
/* A predicate; *@ret_flags gets PRED_NOT for !p. */
uint32_t gp_lower_pred(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint8_t *ret_flags);
uint32_t gp_lower_dst(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint32_t bits);
/* The register itself with its own width (*@ret_bits). */
uint32_t gp_lower_any_dst(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint32_t *ret_bits);
uint32_t gp_lower_any_src(struct gp_lower *L, const struct gp_ptx_opnd *opnd, uint32_t default_bits,
			  uint32_t *ret_bits);
/* Place of a .local or call .param variable in the thread's local memory. */
uint32_t gp_lower_var_offset(struct gp_lower *L, const struct gp_ptx_var *var);
/* True for a parameter of the kernel itself. */
bool gp_lower_is_kernel_param(const struct gp_lower *L, const struct gp_ptx_var *var);

/* Appends an instruction under the current guard. The pointer holds until the next emit. */
struct gp_exec_ins *gp_lower_emit(struct gp_lower *L, uint32_t op);
struct gp_exec_ins *gp_lower_emit3(struct gp_lower *L, uint32_t op, uint32_t d, uint32_t a,
				   uint32_t b);
/* Widens or narrows between registers: the low bits read as @type. */
void gp_lower_ext(struct gp_lower *L, uint32_t d, uint32_t d_bits, uint32_t a, uint32_t a_bits,
		  struct gp_lower_type type);
void gp_lower_unsupported(struct gp_lower *L);
void gp_lower_fail(struct gp_lower *L, int error, const char *what);
/* Text kept with the code; its index. */
uint32_t gp_lower_text(struct gp_lower *L, const char *text);
uint32_t gp_lower_target(struct gp_lower *L, uint32_t ptx_index);
/* Inlines @func. Arguments and results are operands naming .param variables of the caller. */
void gp_lower_inline(struct gp_lower *L, const struct gp_ptx_func *func,
		     const struct gp_ptx_opnd *args, const struct gp_ptx_opnd *results);

#endif
