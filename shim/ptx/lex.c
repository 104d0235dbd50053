/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-written lexer. Every read is checked against the end, so text need not be NUL-terminated.
 */
#include "shim/ptx/lex.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool lex_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool lex_is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || lex_is_digit(c) || c == '_' ||
	       c == '$' || c == '%';
}

static int lex_digit(char c)
{
	if (lex_is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 99;
}

static char lex_peek(const struct gp_ptx_lexer *lexer, size_t ahead)
{
	return (size_t)(lexer->end - lexer->p) > ahead ? lexer->p[ahead] : '\0';
}

static void lex_skip_space(struct gp_ptx_lexer *lexer)
{
	while (lexer->p < lexer->end) {
		char c = *lexer->p;

		if (c == '\n') {
			lexer->line++;
			lexer->p++;
		} else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
			lexer->p++;
		} else if (c == '/' && lex_peek(lexer, 1) == '/') {
			while (lexer->p < lexer->end && *lexer->p != '\n')
				lexer->p++;
		} else if (c == '/' && lex_peek(lexer, 1) == '*') {
			lexer->p += 2;
			while (lexer->p < lexer->end &&
			       !(*lexer->p == '*' && lex_peek(lexer, 1) == '/')) {
				lexer->line += *lexer->p == '\n';
				lexer->p++;
			}
			lexer->p += lexer->end - lexer->p < 2 ? lexer->end - lexer->p : 2;
		} else {
			return;
		}
	}
}

/* A digit run in @base; the value wraps, as out-of-range literals are the compiler's business. */
static uint64_t lex_digits(struct gp_ptx_lexer *lexer, int base, size_t max)
{
	uint64_t value = 0;

	while (max-- && lexer->p < lexer->end && lex_digit(*lexer->p) < base)
		value = value * (uint64_t)base + (uint64_t)lex_digit(*lexer->p++);
	return value;
}

/* 0f3F800000 and 0d3FF0000000000000: the bits of the number. */
static void lex_hex_float(struct gp_ptx_lexer *lexer, struct gp_ptx_token *token)
{
	bool is_single = lex_peek(lexer, 1) == 'f' || lex_peek(lexer, 1) == 'F';
	uint32_t bits;
	double wide;
	float narrow;

	lexer->p += 2;
	token->kind = GP_PTX_TOK_FLOAT;
	token->value = lex_digits(lexer, 16, is_single ? 8 : 16);
	if (is_single) {
		bits = (uint32_t)token->value;
		memcpy(&narrow, &bits, sizeof(narrow));
		wide = narrow;
		memcpy(&token->value, &wide, sizeof(wide));
	}
}

static void lex_decimal(struct gp_ptx_lexer *lexer, struct gp_ptx_token *token)
{
	char buf[64];
	double value;
	size_t len = 0;

	while (len < sizeof(buf) - 1 && lexer->p < lexer->end &&
	       (lex_is_digit(*lexer->p) || strchr(".eE", *lexer->p) ||
		(len && strchr("+-", *lexer->p) && strchr("eE", buf[len - 1]))))
		buf[len++] = *lexer->p++;
	buf[len] = '\0';
	value = strtod(buf, NULL);
	token->kind = GP_PTX_TOK_FLOAT;
	memcpy(&token->value, &value, sizeof(value));
}

static void lex_number(struct gp_ptx_lexer *lexer, struct gp_ptx_token *token)
{
	const char *q = lexer->p;
	char second = lex_peek(lexer, 1);

	token->kind = GP_PTX_TOK_INT;
	if (*q == '0' && second && strchr("fFdD", second)) {
		lex_hex_float(lexer, token);
	} else if (*q == '0' && (second == 'x' || second == 'X')) {
		lexer->p += 2;
		token->value = lex_digits(lexer, 16, SIZE_MAX);
	} else if (*q == '0' && (second == 'b' || second == 'B')) {
		lexer->p += 2;
		token->value = lex_digits(lexer, 2, SIZE_MAX);
	} else {
		while (q < lexer->end && lex_is_digit(*q))
			q++;
		if (q < lexer->end && (*q == '.' || *q == 'e' || *q == 'E'))
			lex_decimal(lexer, token);
		else
			token->value = lex_digits(lexer, *lexer->p == '0' ? 8 : 10, SIZE_MAX);
	}
	if (token->kind == GP_PTX_TOK_INT &&
	    (lex_peek(lexer, 0) == 'U' || lex_peek(lexer, 0) == 'u'))
		lexer->p++;
}

void gp_ptx_lex_skip_line(struct gp_ptx_lexer *lexer)
{
	while (lexer->p < lexer->end && *lexer->p != '\n')
		lexer->p++;
}

void gp_ptx_lex_next(struct gp_ptx_lexer *lexer, struct gp_ptx_token *token)
{
	lex_skip_space(lexer);
	*token = (struct gp_ptx_token){ .text = lexer->p, .line = lexer->line };
	if (lexer->p >= lexer->end || *lexer->p == '\0') {
		token->kind = GP_PTX_TOK_END;
	} else if (lex_is_digit(*lexer->p)) {
		lex_number(lexer, token);
	} else if (lex_is_name(*lexer->p) ||
		   (*lexer->p == '.' && lex_is_name(lex_peek(lexer, 1)))) {
		/* Directives and types end at the next dot: ".reg.b32" is two of them. */
		bool is_directive = *lexer->p++ == '.';

		token->kind = GP_PTX_TOK_NAME;
		while (lexer->p < lexer->end &&
		       (lex_is_name(*lexer->p) ||
			(*lexer->p == '.' && !is_directive && lex_is_name(lex_peek(lexer, 1))) ||
			(*lexer->p == ':' && lex_peek(lexer, 1) == ':')))
			lexer->p += *lexer->p == ':' ? 2 : 1;
	} else if (*lexer->p == '"') {
		token->kind = GP_PTX_TOK_STRING;
		lexer->p++;
		while (lexer->p < lexer->end && *lexer->p != '"' && *lexer->p != '\n')
			lexer->p++;
		if (lexer->p < lexer->end && *lexer->p == '"')
			lexer->p++;
	} else {
		token->kind = GP_PTX_TOK_PUNCT;
		token->punct = *lexer->p++;
	}
	token->len = (size_t)(lexer->p - token->text);
}
