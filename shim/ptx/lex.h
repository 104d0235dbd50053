/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_PTX_LEX_H
#define GP_SHIM_PTX_LEX_H
/*
 * Tokens of PTX text. A dotted name ("ld.global.f32", "%tid.x", ".visible") is one token. The text
 * is read in place and never written.
 */
#include <stddef.h>
#include <stdint.h>

enum gp_ptx_token_kind {
	GP_PTX_TOK_END,
	GP_PTX_TOK_NAME,
	GP_PTX_TOK_INT,	  /* .value */
	GP_PTX_TOK_FLOAT, /* .value: the bits of a double */
	GP_PTX_TOK_STRING,
	GP_PTX_TOK_PUNCT, /* .punct */
};

struct gp_ptx_token {
	enum gp_ptx_token_kind kind;
	char punct;
	const char *text;
	size_t len;
	uint32_t line;
	uint64_t value;
};

struct gp_ptx_lexer {
	const char *p, *end;
	uint32_t line;
};

/* Never fails: what is no token comes as PUNCT with the offending byte. */
void gp_ptx_lex_next(struct gp_ptx_lexer *lexer, struct gp_ptx_token *ret_token);

/* Skips the rest of the line (.loc and .file end there, not at a semicolon). */
void gp_ptx_lex_skip_line(struct gp_ptx_lexer *lexer);

#endif
