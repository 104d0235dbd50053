/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_PTX_PARSE_H
#define GP_SHIM_PTX_PARSE_H
/*
 * Shared by the two halves of the parser: parse.c (function bodies) and toplevel.c (variables,
 * function headers, module). Lives on the stack of gp_ptx_parse.
 */
#include "shim/ptx/lex.h"
#include "shim/ptx/symtab.h"

struct gp_ptx_fixup;

struct gp_ptx_parser {
	struct gp_ptx_lexer lexer;
	struct gp_ptx_token tok;
	struct gp_ptx_module *module;
	struct gp_ptx_symtab symtab;
	struct gp_err *err;
	int code; /* sticky */
	/* The function being parsed; its tables grow here and are copied into the arena at its end.
	 */
	struct gp_ptx_func *func;
	struct gp_ptx_ins *ins;
	uint32_t n_ins, ins_cap;
	uint8_t *regs;
	struct gp_ptx_fixup *fixups;
};

/* Records the first error, with the current line, and ends the text. */
void gp_ptx_fail(struct gp_ptx_parser *p, int code, const char *fmt, ...) gp_printf(3, 4);
/* From the module's arena; fails the parser when there is no memory. */
void *gp_ptx_parser_alloc(struct gp_ptx_parser *p, size_t size);

void gp_ptx_advance(struct gp_ptx_parser *p);
bool gp_ptx_at(const struct gp_ptx_parser *p, char punct);
bool gp_ptx_accept(struct gp_ptx_parser *p, char punct);
void gp_ptx_expect(struct gp_ptx_parser *p, char punct);
bool gp_ptx_at_name(const struct gp_ptx_parser *p, const char *name);
bool gp_ptx_accept_name(struct gp_ptx_parser *p, const char *name);
/* A possibly negative integer. */
uint64_t gp_ptx_expect_int(struct gp_ptx_parser *p);

/* Eats a type (".f32") and gives its width; 1 for .pred. */
uint32_t gp_ptx_parse_type_bits(struct gp_ptx_parser *p);
/* Eats a variable declaration, from its state space to the semicolon. */
void gp_ptx_parse_vars(struct gp_ptx_parser *p);
/* Eats a body, from after its '{' to its '}'. */
void gp_ptx_parse_body(struct gp_ptx_parser *p);

#endif
