/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_PTX_SYMTAB_H
#define GP_SHIM_PTX_SYMTAB_H
/*
 * Scoped names of a module being parsed. A range ".reg .b32 %r<100>" is one symbol "%r" that
 * answers for %r0 to %r99. Symbols live in the module's arena; the table itself is on the parser's
 * stack.
 */
#include "shim/ptx/ir.h"

#define GP_PTX_SYMTAB_BUCKETS 1024

enum gp_ptx_symbol_kind {
	GP_PTX_SYM_REG,
	GP_PTX_SYM_RANGE,
	GP_PTX_SYM_VAR,
	GP_PTX_SYM_FUNC,
	GP_PTX_SYM_LABEL
};

struct gp_ptx_symbol {
	struct gp_ptx_symbol *next_in_bucket, *next_in_scope;
	const char *name;
	size_t len;
	uint32_t bucket;
	uint32_t depth;
	enum gp_ptx_symbol_kind kind;
	uint32_t value; /* first register or index of the labelled instruction */
	uint32_t count; /* RANGE */
	union {
		struct gp_ptx_var *var;
		struct gp_ptx_func *func;
	};
};

#define GP_PTX_MAX_SCOPES 64

struct gp_ptx_symtab {
	struct gp_ptx_arena **arena;
	struct gp_ptx_symbol *buckets[GP_PTX_SYMTAB_BUCKETS];
	struct gp_ptx_symbol *scopes[GP_PTX_MAX_SCOPES];
	uint32_t depth;
};

/* A new symbol in the innermost scope, hiding outer ones; NULL when out of memory. */
struct gp_ptx_symbol *gp_ptx_symtab_add(struct gp_ptx_symtab *tab, enum gp_ptx_symbol_kind kind,
					const char *name, size_t len);
/* Innermost symbol of that exact name, or NULL. */
struct gp_ptx_symbol *gp_ptx_symtab_find(const struct gp_ptx_symtab *tab, const char *name,
					 size_t len);
/* The register @name stands for, alone or in a range; -1 if there is none. */
int32_t gp_ptx_symtab_find_reg(const struct gp_ptx_symtab *tab, const char *name, size_t len);
/* -EOVERFLOW if nested too deeply. */
gp_must_check int gp_ptx_symtab_open(struct gp_ptx_symtab *tab);
void gp_ptx_symtab_close(struct gp_ptx_symtab *tab);

#endif
