/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recursive-descent parser, one pass. Errors are sticky: the first one is recorded and the current
 * token becomes the end of the text, so that every loop ends and callers need not check each step.
 * Branches to labels not yet seen are put on a list and resolved when the label's scope closes.
 */
#include "shim/ptx/parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARSE_MAX_REGS	  (1u << 20) /* per function; real ones stay below 2^16 */
#define PARSE_MAX_NESTING 8	     /* operands in operands */

void gp_ptx_fail(struct gp_ptx_parser *p, int code, const char *fmt, ...)
{
	char text[192];
	va_list ap;

	if (!p->code) {
		va_start(ap, fmt);
		vsnprintf(text, sizeof(text), fmt, ap);
		va_end(ap);
		p->code = code;
		gp_err_set(p->err, code, "ptx line %u: %s", p->tok.line, text);
	}
	p->tok.kind = GP_PTX_TOK_END;
	p->tok.punct = '\0';
	p->lexer.p = p->lexer.end;
}

void *gp_ptx_parser_alloc(struct gp_ptx_parser *p, size_t size)
{
	void *mem = gp_ptx_arena_alloc(&p->module->arena, size);

	if (!mem)
		gp_ptx_fail(p, -ENOMEM, "out of memory");
	return mem;
}

void gp_ptx_advance(struct gp_ptx_parser *p)
{
	if (!p->code)
		gp_ptx_lex_next(&p->lexer, &p->tok);
}

bool gp_ptx_at(const struct gp_ptx_parser *p, char punct)
{
	return p->tok.kind == GP_PTX_TOK_PUNCT && p->tok.punct == punct;
}

bool gp_ptx_accept(struct gp_ptx_parser *p, char punct)
{
	if (!gp_ptx_at(p, punct))
		return false;
	gp_ptx_advance(p);
	return true;
}

void gp_ptx_expect(struct gp_ptx_parser *p, char punct)
{
	if (!gp_ptx_accept(p, punct))
		gp_ptx_fail(p, -EINVAL, "expected '%c' before '%.*s'", punct,
			    (int)(p->tok.len < 40 ? p->tok.len : 40), p->tok.text);
}

bool gp_ptx_at_name(const struct gp_ptx_parser *p, const char *name)
{
	return p->tok.kind == GP_PTX_TOK_NAME && p->tok.len == strlen(name) &&
	       !memcmp(p->tok.text, name, p->tok.len);
}

bool gp_ptx_accept_name(struct gp_ptx_parser *p, const char *name)
{
	if (!gp_ptx_at_name(p, name))
		return false;
	gp_ptx_advance(p);
	return true;
}

uint64_t gp_ptx_expect_int(struct gp_ptx_parser *p)
{
	bool negative = gp_ptx_accept(p, '-');
	uint64_t value = p->tok.value;

	if (p->tok.kind != GP_PTX_TOK_INT)
		gp_ptx_fail(p, -EINVAL, "expected a number");
	gp_ptx_advance(p);
	return negative ? 0 - value : value;
}

/* Labels: forward references wait here. */
struct gp_ptx_fixup {
	struct gp_ptx_fixup *next;
	struct gp_ptx_opnd *opnd;
	const char *name;
	size_t len;
	uint32_t depth, line;
};

static void parse_label_ref(struct gp_ptx_parser *p, struct gp_ptx_opnd *opnd,
			    const struct gp_ptx_token *tok)
{
	struct gp_ptx_fixup *fix = gp_ptx_parser_alloc(p, sizeof(*fix));

	if (!fix)
		return;
	opnd->kind = GP_PTX_OPND_LABEL;
	*fix = (struct gp_ptx_fixup){ .next = p->fixups,
				      .opnd = opnd,
				      .name = tok->text,
				      .len = tok->len,
				      .depth = p->symtab.depth,
				      .line = tok->line };
	p->fixups = fix;
}

/* Resolves what the closing scope defines; the rest moves to the scope around it. */
static void parse_close_scope(struct gp_ptx_parser *p, uint32_t outermost)
{
	struct gp_ptx_fixup **slot = &p->fixups;

	while (*slot && !p->code) {
		struct gp_ptx_fixup *fix = *slot;
		struct gp_ptx_symbol *sym;

		if (fix->depth < p->symtab.depth)
			break;
		sym = gp_ptx_symtab_find(&p->symtab, fix->name, fix->len);
		if (sym && sym->kind == GP_PTX_SYM_LABEL) {
			fix->opnd->imm = sym->value;
			*slot = fix->next;
			continue;
		}
		if (p->symtab.depth == outermost) {
			p->tok.line = fix->line;
			gp_ptx_fail(p, -EINVAL, "'%.*s' is not defined", (int)fix->len, fix->name);
			return;
		}
		fix->depth--;
		slot = &fix->next;
	}
	gp_ptx_symtab_close(&p->symtab);
}

static void parse_name_opnd(struct gp_ptx_parser *p, struct gp_ptx_opnd *opnd)
{
	struct gp_ptx_token tok = p->tok;
	struct gp_ptx_symbol *sym;

	opnd->reg = gp_ptx_symtab_find_reg(&p->symtab, tok.text, tok.len);
	sym = gp_ptx_symtab_find(&p->symtab, tok.text, tok.len);
	gp_ptx_advance(p);
	if (opnd->reg >= 0) {
		opnd->kind = GP_PTX_OPND_REG;
	} else if (sym && sym->kind == GP_PTX_SYM_VAR) {
		opnd->kind = GP_PTX_OPND_VAR;
		opnd->var = sym->var;
	} else if (sym && sym->kind == GP_PTX_SYM_FUNC) {
		opnd->kind = GP_PTX_OPND_FUNC;
		opnd->func = sym->func;
	} else if (tok.len == 1 && *tok.text == '_') {
		opnd->kind = GP_PTX_OPND_SINK;
	} else if (tok.len == 7 && !memcmp(tok.text, "WARP_SZ", 7)) {
		opnd->kind = GP_PTX_OPND_IMM;
		opnd->imm = 32;
	} else if (*tok.text == '%') {
		opnd->kind = GP_PTX_OPND_SREG;
		opnd->name = gp_ptx_arena_strndup(&p->module->arena, tok.text, tok.len);
		if (!opnd->name)
			gp_ptx_fail(p, -ENOMEM, "out of memory");
	} else {
		parse_label_ref(p, opnd, &tok);
	}
}

static void parse_opnd(struct gp_ptx_parser *p, struct gp_ptx_opnd *opnd, unsigned int nesting);

/* Upper bound of the operands before @end, so that tables are allocated once and small. */
static uint32_t parse_count_opnds(const struct gp_ptx_parser *p, char end)
{
	uint32_t n = 2;

	for (const char *q = p->tok.text; q < p->lexer.end && *q != end && *q != ';'; q++)
		n += *q == ',' || *q == '|';
	return n;
}

/* Elements up to @close, which is eaten. */
static void parse_opnd_list(struct gp_ptx_parser *p, struct gp_ptx_opnd *opnd, char close,
			    unsigned int nesting)
{
	uint32_t max = parse_count_opnds(p, close);

	opnd->kind = GP_PTX_OPND_LIST;
	opnd->elems = gp_ptx_parser_alloc(p, max * sizeof(*opnd->elems));
	while (opnd->elems && p->tok.kind != GP_PTX_TOK_END && !gp_ptx_at(p, close)) {
		if (opnd->n_elems == max) {
			gp_ptx_fail(p, -EINVAL, "more than %u operands in a list", max);
			return;
		}
		parse_opnd(p, &opnd->elems[opnd->n_elems++], nesting + 1);
		if (!gp_ptx_accept(p, ','))
			break;
	}
	gp_ptx_expect(p, close);
}

static void parse_number_opnd(struct gp_ptx_parser *p, struct gp_ptx_opnd *opnd, bool negative)
{
	double value;

	opnd->kind = GP_PTX_OPND_IMM;
	opnd->is_float = p->tok.kind == GP_PTX_TOK_FLOAT;
	opnd->imm = (int64_t)p->tok.value;
	if (negative && opnd->is_float) {
		memcpy(&value, &opnd->imm, sizeof(value));
		value = -value;
		memcpy(&opnd->imm, &value, sizeof(value));
	} else if (negative) {
		opnd->imm = (int64_t)(0 - p->tok.value);
	}
	gp_ptx_advance(p);
}

static void parse_opnd(struct gp_ptx_parser *p, struct gp_ptx_opnd *opnd, unsigned int nesting)
{
	opnd->reg = -1;
	if (nesting > PARSE_MAX_NESTING) {
		gp_ptx_fail(p, -EINVAL, "operands nested too deeply");
	} else if (gp_ptx_accept(p, '[')) {
		parse_opnd(p, opnd, nesting + 1);
		opnd->is_mem = true;
		while (gp_ptx_accept(p, ',')) { /* texture coordinates: no reader for them yet */
			struct gp_ptx_opnd ignored = { 0 };

			parse_opnd(p, &ignored, nesting + 1);
		}
		gp_ptx_expect(p, ']');
	} else if (gp_ptx_accept(p, '{')) {
		parse_opnd_list(p, opnd, '}', nesting);
	} else if (gp_ptx_accept(p, '(')) {
		parse_opnd_list(p, opnd, ')', nesting);
	} else if (gp_ptx_accept(p, '!')) {
		parse_opnd(p, opnd, nesting + 1);
		opnd->negate = true;
	} else if (gp_ptx_accept(p, '-')) {
		if (p->tok.kind != GP_PTX_TOK_INT && p->tok.kind != GP_PTX_TOK_FLOAT)
			gp_ptx_fail(p, -EINVAL, "expected a number after '-'");
		else
			parse_number_opnd(p, opnd, true);
	} else if (p->tok.kind == GP_PTX_TOK_INT || p->tok.kind == GP_PTX_TOK_FLOAT) {
		parse_number_opnd(p, opnd, false);
	} else if (p->tok.kind == GP_PTX_TOK_NAME) {
		parse_name_opnd(p, opnd);
		if (gp_ptx_accept(p, '+'))
			opnd->imm = (int64_t)gp_ptx_expect_int(p);
		else if (gp_ptx_at(p, '-') && nesting)
			opnd->imm = (int64_t)gp_ptx_expect_int(p);
	} else {
		gp_ptx_fail(p, -EINVAL, "expected an operand before '%.*s'",
			    (int)(p->tok.len < 40 ? p->tok.len : 40), p->tok.text);
	}
}

static struct gp_ptx_ins *parse_new_ins(struct gp_ptx_parser *p)
{
	struct gp_ptx_ins *grown;
	uint32_t cap;

	if (p->n_ins == p->ins_cap) {
		cap = p->ins_cap ? p->ins_cap * 2 : 256;
		grown = realloc(p->ins, cap * sizeof(*grown));
		if (!grown) {
			gp_ptx_fail(p, -ENOMEM, "out of memory");
			return NULL;
		}
		p->ins = grown;
		p->ins_cap = cap;
	}
	grown = &p->ins[p->n_ins++];
	*grown = (struct gp_ptx_ins){ .guard = -1, .line = p->tok.line };
	return grown;
}

/* @name has been eaten; operands up to the semicolon. Their count is bounded by any real opcode's.
 */
static void parse_ins(struct gp_ptx_parser *p, const struct gp_ptx_token *name, int32_t guard,
		      bool guard_negated)
{
	struct gp_ptx_ins *ins = parse_new_ins(p);
	uint32_t max = parse_count_opnds(p, ';'), n = 0;
	struct gp_ptx_opnd *opnds = gp_ptx_parser_alloc(p, max * sizeof(*opnds));

	if (!ins || !opnds)
		return;
	ins->line = name->line;
	ins->guard = guard;
	ins->guard_negated = guard_negated;
	ins->name = gp_ptx_arena_strndup(&p->module->arena, name->text, name->len);
	ins->opnds = opnds;
	while (p->tok.kind != GP_PTX_TOK_END && !gp_ptx_at(p, ';')) {
		if (n == max) {
			gp_ptx_fail(p, -EINVAL, "more than %u operands", max);
			return;
		}
		parse_opnd(p, &opnds[n++], 0);
		if (gp_ptx_at(p, '|') && n)
			opnds[n - 1].is_pair = true;
		if (!gp_ptx_accept(p, ',') && !gp_ptx_accept(p, '|'))
			break;
	}
	ins->n_opnds = n;
	gp_ptx_expect(p, ';');
	if (!ins->name)
		gp_ptx_fail(p, -ENOMEM, "out of memory");
}

static void parse_regs(struct gp_ptx_parser *p)
{
	struct gp_ptx_func *func = p->func;
	uint32_t bits = gp_ptx_parse_type_bits(p);

	do {
		struct gp_ptx_token name = p->tok;
		struct gp_ptx_symbol *sym;
		uint64_t count = 1;
		bool is_range;
		uint8_t *grown;

		if (name.kind != GP_PTX_TOK_NAME) {
			gp_ptx_fail(p, -EINVAL, "expected a register name");
			return;
		}
		gp_ptx_advance(p);
		is_range = gp_ptx_accept(p, '<');
		if (is_range) {
			count = gp_ptx_expect_int(p);
			gp_ptx_expect(p, '>');
		}
		if (p->code)
			return;
		if (count > PARSE_MAX_REGS || func->n_regs + count > PARSE_MAX_REGS) {
			gp_ptx_fail(p, -EINVAL, "too many registers");
			return;
		}
		sym = gp_ptx_symtab_add(&p->symtab, is_range ? GP_PTX_SYM_RANGE : GP_PTX_SYM_REG,
					name.text, name.len);
		grown = realloc(p->regs, func->n_regs + count + 1);
		if (grown)
			p->regs = grown;
		if (!sym || !grown) {
			gp_ptx_fail(p, -ENOMEM, "out of memory");
			return;
		}
		sym->value = func->n_regs;
		sym->count = (uint32_t)count;
		memset(p->regs + func->n_regs, (int)bits, count);
		func->n_regs += (uint32_t)count;
	} while (gp_ptx_accept(p, ','));
	gp_ptx_expect(p, ';');
}

static void parse_label(struct gp_ptx_parser *p, const struct gp_ptx_token *name)
{
	struct gp_ptx_symbol *sym =
		gp_ptx_symtab_add(&p->symtab, GP_PTX_SYM_LABEL, name->text, name->len);

	if (sym)
		sym->value = p->n_ins;
	else
		gp_ptx_fail(p, -ENOMEM, "out of memory");
}

/* A directive inside a body; true if it was one. */
static bool parse_body_directive(struct gp_ptx_parser *p)
{
	if (p->tok.kind != GP_PTX_TOK_NAME || *p->tok.text != '.')
		return false;
	if (gp_ptx_accept_name(p, ".reg")) {
		parse_regs(p);
	} else if (gp_ptx_at_name(p, ".loc") || gp_ptx_at_name(p, ".file")) {
		gp_ptx_lex_skip_line(&p->lexer);
		gp_ptx_advance(p);
	} else if (gp_ptx_at_name(p, ".pragma") || gp_ptx_at_name(p, ".callprototype") ||
		   gp_ptx_at_name(p, ".calltargets")) {
		while (p->tok.kind != GP_PTX_TOK_END && !gp_ptx_at(p, ';'))
			gp_ptx_advance(p);
		gp_ptx_expect(p, ';');
	} else if (gp_ptx_at_name(p, ".branchtargets")) {
		struct gp_ptx_token name = p->tok;

		gp_ptx_advance(p);
		parse_ins(p, &name, -1, false);
	} else {
		gp_ptx_parse_vars(p);
	}
	return true;
}

static void parse_statement(struct gp_ptx_parser *p)
{
	struct gp_ptx_token name;
	int32_t guard = -1;
	bool negated = false;

	if (gp_ptx_accept(p, '@')) {
		negated = gp_ptx_accept(p, '!');
		guard = gp_ptx_symtab_find_reg(&p->symtab, p->tok.text, p->tok.len);
		if (guard < 0 || p->regs[guard] != 1)
			gp_ptx_fail(p, -EINVAL, "guard '%.*s' is no predicate register",
				    (int)(p->tok.len < 40 ? p->tok.len : 40), p->tok.text);
		gp_ptx_advance(p);
	}
	name = p->tok;
	if (name.kind != GP_PTX_TOK_NAME) {
		gp_ptx_fail(p, -EINVAL, "expected an instruction before '%.*s'",
			    (int)(name.len < 40 ? name.len : 40), name.text);
		return;
	}
	gp_ptx_advance(p);
	if (guard < 0 && gp_ptx_accept(p, ':'))
		parse_label(p, &name);
	else
		parse_ins(p, &name, guard, negated);
}

void gp_ptx_parse_body(struct gp_ptx_parser *p)
{
	uint32_t outermost = p->symtab.depth;

	while (p->tok.kind != GP_PTX_TOK_END) {
		if (gp_ptx_accept(p, '{')) {
			if (gp_ptx_symtab_open(&p->symtab))
				gp_ptx_fail(p, -EINVAL, "scopes nested too deeply");
		} else if (gp_ptx_at(p, '}')) {
			bool is_last = p->symtab.depth == outermost;

			parse_close_scope(p, outermost);
			gp_ptx_advance(p);
			if (is_last)
				return;
		} else if (!gp_ptx_accept(p, ';') && !parse_body_directive(p)) {
			parse_statement(p);
		}
	}
	gp_ptx_fail(p, -EINVAL, "the text ends inside function '%s'", p->func->name);
}
