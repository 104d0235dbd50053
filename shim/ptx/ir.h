/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_PTX_IR_H
#define GP_SHIM_PTX_IR_H
/*
 * What the parser makes of PTX text: functions with resolved operands. Internal to shim/ptx and
 * shim/soft/exec. An instruction keeps its full dotted name; what it means is the reader's
 * business, so a module with instructions nobody supports still loads and its other kernels run.
 * All objects and strings live in the module's arena and die with the module.
 */
#include "shim/ptx/ptx.h"

#include <stdatomic.h>

enum gp_ptx_space {
	GP_PTX_SPACE_GLOBAL,
	GP_PTX_SPACE_CONST,
	GP_PTX_SPACE_SHARED,
	GP_PTX_SPACE_LOCAL,
	GP_PTX_SPACE_PARAM,
};

enum gp_ptx_opnd_kind {
	GP_PTX_OPND_REG,   /* .reg */
	GP_PTX_OPND_SREG,  /* .name: special register, with its '%' */
	GP_PTX_OPND_IMM,   /* .imm: integer, or the bits of a double if .is_float */
	GP_PTX_OPND_VAR,   /* .var + .imm: address of a variable */
	GP_PTX_OPND_FUNC,  /* .func */
	GP_PTX_OPND_LABEL, /* .imm: index of an instruction in the function */
	GP_PTX_OPND_LIST,  /* .elems: {vector} or (call arguments) */
	GP_PTX_OPND_SINK,  /* _ */
};

/* A variable in any space but .reg. Offsets of .param are within the function's parameter buffer.
 */
struct gp_ptx_var {
	const char *name;
	struct gp_ptx_func *func; /* NULL at module scope */
	struct gp_ptx_var *next;  /* in its function */
	uint64_t size_bytes;
	uint64_t align_bytes;
	uint32_t offset_bytes;
	uint32_t global_index; /* GLOBAL and CONST: index for gp_ptx_global_at */
	enum gp_ptx_space space;
	bool is_unsized; /* extern .shared x[]: starts where static shared memory ends */
};

struct gp_ptx_opnd {
	enum gp_ptx_opnd_kind kind;
	bool is_mem;   /* stood in [] */
	bool negate;   /* !pred */
	bool is_float; /* IMM: written as a float; 0f literals are widened to double exactly */
	bool is_pair;  /* a|b: the next operand is b */
	int32_t reg;   /* REG, index into gp_ptx_func.regs */
	uint32_t n_elems;
	int64_t imm;
	union {
		struct gp_ptx_var *var;
		struct gp_ptx_func *func;
		struct gp_ptx_opnd *elems;
		const char *name;
	};
};

struct gp_ptx_ins {
	const char *name; /* "ld.global.nc.f32"; ".branchtargets" for tables */
	struct gp_ptx_opnd *opnds;
	uint32_t n_opnds;
	uint32_t line;
	int32_t guard; /* register, -1 for none */
	bool guard_negated;
};

struct gp_ptx_formal {
	struct gp_ptx_var *var; /* NULL if the parameter is a register */
	int32_t reg;
};

struct gp_ptx_shared_slot {
	const struct gp_ptx_var *var;
	uint32_t offset_bytes;
};

struct gp_ptx_func {
	const char *name;
	struct gp_ptx_module *module;
	bool is_entry;
	bool has_body;
	struct gp_ptx_formal *formals, *results;
	uint32_t n_formals, n_results;
	uint8_t *regs; /* width in bits; 1 for .pred */
	uint32_t n_regs;
	struct gp_ptx_ins *ins;
	uint32_t n_ins;
	struct gp_ptx_var *vars; /* .local and .param variables of the body */
	uint32_t mark;		 /* of the module's current walk */
};

/* Lowered code hangs here: made at first launch by whoever wins, freed with the module. */
struct gp_ptx_attachment {
	void (*free)(struct gp_ptx_attachment *self);
};

struct gp_ptx_kernel {
	struct gp_ptx_func *func;
	struct gp_ptx_kernel_info info;
	struct gp_ptx_shared_slot *shared; /* static, every variable the call graph names */
	uint32_t n_shared;
	_Atomic(struct gp_ptx_attachment *) lowered;
};

/* Address of another variable inside initial data. */
struct gp_ptx_reloc {
	struct gp_ptx_reloc *next;
	uint64_t at;
	const struct gp_ptx_var *var;
	int64_t addend;
};

struct gp_ptx_global_slot {
	struct gp_ptx_global global;
	struct gp_ptx_reloc *relocs;
	uint8_t *init;
	uint64_t address;
	bool is_bound;
};

struct gp_ptx_arena;

struct gp_ptx_module {
	struct gp_ptx_arena *arena;
	struct gp_ptx_kernel **kernels;
	uint32_t n_kernels;
	struct gp_ptx_global_slot *globals;
	uint32_t n_globals;
	uint32_t walk; /* generation of gp_ptx_func.mark; parse time only */
};

/* Zeroed, 16-byte aligned memory that lives as long as the module; NULL when there is none. */
void *gp_ptx_arena_alloc(struct gp_ptx_arena **arena, size_t size);
char *gp_ptx_arena_strndup(struct gp_ptx_arena **arena, const char *text, size_t len);
void gp_ptx_arena_free(struct gp_ptx_arena *arena);

/* Computes shared layout, register counts and the rest of the kernel's info. -ENOMEM. */
gp_must_check int gp_ptx_kernel_finish(struct gp_ptx_module *module, struct gp_ptx_kernel *kernel);

#endif
