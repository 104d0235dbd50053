/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Module level of the parser: variables with initial data, function headers, directives.
 */
#include "shim/ptx/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Larger static variables than this are refused, so that a corrupt size cannot eat all memory. */
#define TOPLEVEL_MAX_VAR_BYTES (1ull << 36)
#define TOPLEVEL_MAX_FORMALS   512
#define KERNEL_MAX_THREADS     1024

uint32_t gp_ptx_parse_type_bits(struct gp_ptx_parser *p)
{
	static const struct {
		const char *name;
		uint32_t bits;
	} types[] = {
		{ ".pred", 1 }, { ".b8", 8 },	{ ".u8", 8 },	{ ".s8", 8 },	  { ".b16", 16 },
		{ ".u16", 16 }, { ".s16", 16 }, { ".f16", 16 }, { ".bf16", 16 },  { ".b32", 32 },
		{ ".u32", 32 }, { ".s32", 32 }, { ".f32", 32 }, { ".f16x2", 32 }, { ".b64", 64 },
		{ ".u64", 64 }, { ".s64", 64 }, { ".f64", 64 }, { ".b128", 128 },
	};

	for (size_t i = 0; i < GP_ARRAY_SIZE(types); i++)
		if (gp_ptx_accept_name(p, types[i].name))
			return types[i].bits;
	gp_ptx_fail(p, -EINVAL, "'%.*s' is no supported type",
		    (int)(p->tok.len < 40 ? p->tok.len : 40), p->tok.text);
	return 32;
}

static struct gp_ptx_global_slot *toplevel_new_global(struct gp_ptx_parser *p,
						      struct gp_ptx_var *var)
{
	struct gp_ptx_module *module = p->module;
	struct gp_ptx_global_slot *grown;
	uint32_t n = module->n_globals;

	/* Powers of two: grow when the count is one. */
	if (!(n & (n - 1))) {
		grown = realloc(module->globals, (n ? n * 2 : 1) * sizeof(*grown));
		if (!grown) {
			gp_ptx_fail(p, -ENOMEM, "out of memory");
			return NULL;
		}
		module->globals = grown;
	}
	var->global_index = n;
	module->globals[n] = (struct gp_ptx_global_slot){
		.global = { .name = var->name,
			    .size_bytes = var->size_bytes,
			    .align_bytes = var->align_bytes,
			    .is_const = var->space == GP_PTX_SPACE_CONST },
	};
	module->n_globals++;
	return &module->globals[n];
}

/* An address in initial data: name, generic(name), name+4. */
static void toplevel_init_symbol(struct gp_ptx_parser *p, struct gp_ptx_global_slot *slot,
				 uint64_t at, uint32_t elem_bytes)
{
	bool is_generic = gp_ptx_accept_name(p, "generic");
	struct gp_ptx_symbol *sym;
	struct gp_ptx_reloc *reloc;

	if (is_generic)
		gp_ptx_expect(p, '(');
	sym = gp_ptx_symtab_find(&p->symtab, p->tok.text, p->tok.len);
	if (elem_bytes != 8 || !sym || sym->kind != GP_PTX_SYM_VAR ||
	    (sym->var->space != GP_PTX_SPACE_GLOBAL && sym->var->space != GP_PTX_SPACE_CONST)) {
		gp_ptx_fail(p, -ENOTSUP, "initial value '%.*s' is not supported",
			    (int)(p->tok.len < 40 ? p->tok.len : 40), p->tok.text);
		return;
	}
	gp_ptx_advance(p);
	if (is_generic)
		gp_ptx_expect(p, ')');
	reloc = gp_ptx_parser_alloc(p, sizeof(*reloc));
	if (!reloc)
		return;
	*reloc = (struct gp_ptx_reloc){ .next = slot->relocs, .at = at, .var = sym->var };
	if (gp_ptx_accept(p, '+') || gp_ptx_at(p, '-'))
		reloc->addend = (int64_t)gp_ptx_expect_int(p);
	slot->relocs = reloc;
}

static void toplevel_init_value(struct gp_ptx_parser *p, struct gp_ptx_global_slot *slot,
				uint64_t at, uint32_t elem_bytes)
{
	uint64_t bits;
	double wide;
	float narrow;

	if (p->tok.kind == GP_PTX_TOK_FLOAT) {
		bits = p->tok.value;
		if (elem_bytes == 4) {
			memcpy(&wide, &bits, sizeof(wide));
			narrow = (float)wide;
			memcpy(slot->init + at, &narrow, sizeof(narrow));
		} else {
			memcpy(slot->init + at, &bits, elem_bytes);
		}
		gp_ptx_advance(p);
	} else if (p->tok.kind == GP_PTX_TOK_NAME) {
		toplevel_init_symbol(p, slot, at, elem_bytes);
	} else {
		bits = gp_ptx_expect_int(p);
		memcpy(slot->init + at, &bits, elem_bytes);
	}
}

/* Braces of inner dimensions only group: nvcc writes every row in full. */
static void toplevel_init(struct gp_ptx_parser *p, struct gp_ptx_global_slot *slot,
			  uint32_t elem_bytes)
{
	uint64_t at = 0;
	unsigned int depth = 0;

	slot->init = gp_ptx_parser_alloc(p, slot->global.size_bytes);
	if (!slot->init || elem_bytes > 8) {
		gp_ptx_fail(p, -ENOTSUP, "initial data of this type is not supported");
		return;
	}
	do {
		if (gp_ptx_accept(p, '{')) {
			depth++;
			continue;
		}
		if (at + elem_bytes > slot->global.size_bytes) {
			gp_ptx_fail(p, -EINVAL, "too many initial values for '%s'",
				    slot->global.name);
			return;
		}
		toplevel_init_value(p, slot, at, elem_bytes);
		at += elem_bytes;
		while (depth && gp_ptx_accept(p, '}'))
			depth--;
		if (!gp_ptx_accept(p, ','))
			break;
	} while (p->tok.kind != GP_PTX_TOK_END);
	if (depth)
		gp_ptx_fail(p, -EINVAL, "expected '}' after initial values");
	slot->global.init = slot->init;
	slot->global.init_bytes = slot->global.size_bytes;
}

static bool toplevel_space(struct gp_ptx_parser *p, enum gp_ptx_space *ret_space)
{
	static const char *const names[] = { ".global", ".const", ".shared", ".local", ".param" };

	for (size_t i = 0; i < GP_ARRAY_SIZE(names); i++) {
		if (gp_ptx_accept_name(p, names[i])) {
			*ret_space = (enum gp_ptx_space)i;
			return true;
		}
	}
	return false;
}

/* ".align 4 .v2 .f32", and ".ptr .global .align 4" of parameters; gives the element size. */
static uint32_t toplevel_type(struct gp_ptx_parser *p, uint64_t *ret_align)
{
	uint32_t bytes = 0, vector = 1;
	enum gp_ptx_space pointee;
	uint64_t align = 0;

	while (gp_ptx_accept_name(p, ".align"))
		align = gp_ptx_expect_int(p);
	while (gp_ptx_accept_name(p, ".attribute")) {
		while (p->tok.kind != GP_PTX_TOK_END && !gp_ptx_accept(p, ')'))
			gp_ptx_advance(p);
	}
	if (gp_ptx_accept_name(p, ".v2"))
		vector = 2;
	else if (gp_ptx_accept_name(p, ".v4"))
		vector = 4;
	bytes = gp_ptx_parse_type_bits(p) / 8 * vector;
	if (gp_ptx_accept_name(p, ".ptr")) {
		toplevel_space(p, &pointee);
		if (gp_ptx_accept_name(p, ".align"))
			gp_ptx_expect_int(p); /* of what it points to */
	}
	if (!align)
		align = bytes;
	if (!bytes || align & (align - 1) || align > 4096)
		gp_ptx_fail(p, -EINVAL, "bad type or alignment of a variable");
	*ret_align = align ? align : 1;
	return bytes;
}

/* Name and dimensions; registers the symbol. */
static struct gp_ptx_var *toplevel_var(struct gp_ptx_parser *p, enum gp_ptx_space space,
				       uint64_t align, uint32_t elem_bytes)
{
	struct gp_ptx_var *var = gp_ptx_parser_alloc(p, sizeof(*var));
	struct gp_ptx_symbol *sym;

	if (!var)
		return NULL;
	if (p->tok.kind != GP_PTX_TOK_NAME) {
		gp_ptx_fail(p, -EINVAL, "expected the name of a variable");
		return NULL;
	}
	sym = gp_ptx_symtab_add(&p->symtab, GP_PTX_SYM_VAR, p->tok.text, p->tok.len);
	if (!sym) {
		gp_ptx_fail(p, -ENOMEM, "out of memory");
		return NULL;
	}
	gp_ptx_advance(p);
	*var = (struct gp_ptx_var){ .name = sym->name,
				    .func = p->func,
				    .space = space,
				    .align_bytes = align,
				    .size_bytes = elem_bytes };
	sym->var = var;
	while (gp_ptx_accept(p, '[')) {
		if (gp_ptx_at(p, ']')) {
			var->is_unsized = true;
			var->size_bytes = 0;
		} else {
			uint64_t n = gp_ptx_expect_int(p);

			if (__builtin_mul_overflow(var->size_bytes, n, &var->size_bytes) ||
			    var->size_bytes > TOPLEVEL_MAX_VAR_BYTES)
				gp_ptx_fail(p, -EINVAL, "variable '%s' is too large", var->name);
		}
		gp_ptx_expect(p, ']');
	}
	return p->code ? NULL : var;
}

void gp_ptx_parse_vars(struct gp_ptx_parser *p)
{
	struct gp_ptx_global_slot *slot;
	struct gp_ptx_var *var;
	enum gp_ptx_space space;
	uint32_t elem_bytes;
	uint64_t align;

	if (!toplevel_space(p, &space)) {
		gp_ptx_fail(p, -ENOTSUP, "directive '%.*s' is not supported",
			    (int)(p->tok.len < 40 ? p->tok.len : 40), p->tok.text);
		return;
	}
	elem_bytes = toplevel_type(p, &align);
	do {
		var = p->code ? NULL : toplevel_var(p, space, align, elem_bytes);
		if (!var)
			return;
		if (space == GP_PTX_SPACE_GLOBAL || space == GP_PTX_SPACE_CONST) {
			slot = toplevel_new_global(p, var);
			if (slot && gp_ptx_accept(p, '='))
				toplevel_init(p, slot, elem_bytes);
		} else if (space == GP_PTX_SPACE_LOCAL || space == GP_PTX_SPACE_PARAM) {
			if (!p->func) {
				gp_ptx_fail(p, -EINVAL, "'%s' stands outside a function",
					    var->name);
				return;
			}
			var->next = p->func->vars;
			p->func->vars = var;
		}
	} while (gp_ptx_accept(p, ','));
	gp_ptx_expect(p, ';');
}

/* One formal parameter or result; kernel parameters are packed in order, each at its alignment. */
static void toplevel_formal(struct gp_ptx_parser *p, struct gp_ptx_formal *formal,
			    uint32_t *offset_bytes)
{
	uint32_t elem_bytes;
	uint64_t align;

	formal->reg = -1;
	if (!gp_ptx_accept_name(p, ".param")) {
		gp_ptx_fail(p, -ENOTSUP, "only .param parameters are supported");
		return;
	}
	elem_bytes = toplevel_type(p, &align);
	formal->var = p->code ? NULL : toplevel_var(p, GP_PTX_SPACE_PARAM, align, elem_bytes);
	if (!formal->var)
		return;
	*offset_bytes = (*offset_bytes + (uint32_t)align - 1) & ~((uint32_t)align - 1);
	formal->var->offset_bytes = *offset_bytes;
	if (formal->var->size_bytes > 65536)
		gp_ptx_fail(p, -EINVAL, "parameter '%s' is too large", formal->var->name);
	*offset_bytes += (uint32_t)formal->var->size_bytes;
}

static struct gp_ptx_formal *toplevel_formals(struct gp_ptx_parser *p, uint32_t *ret_n,
					      uint32_t *ret_bytes)
{
	struct gp_ptx_formal *formals;
	uint32_t n = 0, bytes = 0;

	formals = gp_ptx_parser_alloc(p, TOPLEVEL_MAX_FORMALS * sizeof(*formals));
	gp_ptx_expect(p, '(');
	while (formals && p->tok.kind != GP_PTX_TOK_END && !gp_ptx_at(p, ')')) {
		if (n == TOPLEVEL_MAX_FORMALS) {
			gp_ptx_fail(p, -EINVAL, "too many parameters");
			break;
		}
		toplevel_formal(p, &formals[n++], &bytes);
		if (!gp_ptx_accept(p, ','))
			break;
	}
	gp_ptx_expect(p, ')');
	*ret_n = n;
	*ret_bytes = bytes;
	return formals;
}

static struct gp_ptx_func *toplevel_find_func(struct gp_ptx_parser *p)
{
	struct gp_ptx_symbol *sym = gp_ptx_symtab_find(&p->symtab, p->tok.text, p->tok.len);
	struct gp_ptx_symbol *outer = NULL;
	uint32_t depth = p->symtab.depth;

	if (sym && sym->kind == GP_PTX_SYM_FUNC)
		return sym->func;
	if (p->tok.kind != GP_PTX_TOK_NAME) {
		gp_ptx_fail(p, -EINVAL, "expected the name of a function");
		return NULL;
	}
	/* The results' scope is open already, but the function's name belongs to the module. */
	p->symtab.depth = 0;
	outer = gp_ptx_symtab_add(&p->symtab, GP_PTX_SYM_FUNC, p->tok.text, p->tok.len);
	p->symtab.depth = depth;
	if (!outer) {
		gp_ptx_fail(p, -ENOMEM, "out of memory");
		return NULL;
	}
	outer->func = gp_ptx_parser_alloc(p, sizeof(*outer->func));
	if (outer->func)
		*outer->func = (struct gp_ptx_func){ .name = outer->name, .module = p->module };
	return outer->func;
}

static void toplevel_add_kernel(struct gp_ptx_parser *p, uint32_t param_bytes, uint32_t max_threads)
{
	struct gp_ptx_module *module = p->module;
	struct gp_ptx_func *func = p->func;
	struct gp_ptx_kernel *kernel = gp_ptx_parser_alloc(p, sizeof(*kernel)), **grown;
	struct gp_ptx_param *params =
		gp_ptx_parser_alloc(p, (func->n_formals + 1) * sizeof(*params));

	grown = realloc(module->kernels, (module->n_kernels + 1) * sizeof(*grown));
	if (grown)
		module->kernels = grown;
	if (!kernel || !params || !grown) {
		gp_ptx_fail(p, -ENOMEM, "out of memory");
		return;
	}
	for (uint32_t i = 0; i < func->n_formals; i++)
		params[i] = (struct gp_ptx_param){
			.offset_bytes = func->formals[i].var->offset_bytes,
			.size_bytes = (uint32_t)func->formals[i].var->size_bytes,
		};
	kernel->func = func;
	kernel->info = (struct gp_ptx_kernel_info){ .name = func->name,
						    .params = params,
						    .n_params = func->n_formals,
						    .param_bytes = param_bytes,
						    .max_threads = max_threads };
	module->kernels[module->n_kernels++] = kernel;
}

/* ".maxntid 256, 1, 1" and friends; gives the largest block. */
static uint32_t toplevel_tuning(struct gp_ptx_parser *p)
{
	uint64_t threads = 0;

	while (p->tok.kind == GP_PTX_TOK_NAME && *p->tok.text == '.') {
		if (gp_ptx_at_name(p, ".maxntid") || gp_ptx_at_name(p, ".reqntid")) {
			gp_ptx_advance(p);
			threads = gp_ptx_expect_int(p);
			while (gp_ptx_accept(p, ','))
				threads *= gp_ptx_expect_int(p);
			continue;
		}
		gp_ptx_advance(p);
		while (p->tok.kind == GP_PTX_TOK_INT || p->tok.kind == GP_PTX_TOK_STRING ||
		       gp_ptx_at(p, ',') || gp_ptx_at(p, ';'))
			gp_ptx_advance(p);
	}
	return threads && threads < KERNEL_MAX_THREADS ? (uint32_t)threads : KERNEL_MAX_THREADS;
}

/* Moves the tables of a finished body into the arena. */
static void toplevel_keep_body(struct gp_ptx_parser *p)
{
	struct gp_ptx_func *func = p->func;

	func->ins = gp_ptx_parser_alloc(p, (p->n_ins + 1) * sizeof(*func->ins));
	func->regs = gp_ptx_parser_alloc(p, func->n_regs + 1);
	if (!func->ins || !func->regs)
		return;
	if (p->n_ins)
		memcpy(func->ins, p->ins, p->n_ins * sizeof(*func->ins));
	if (func->n_regs)
		memcpy(func->regs, p->regs, func->n_regs);
	func->n_ins = p->n_ins;
	func->has_body = true;
}

static void toplevel_func(struct gp_ptx_parser *p, bool is_entry)
{
	struct gp_ptx_formal *results = NULL, *formals = NULL;
	uint32_t n_results = 0, n_formals = 0, bytes = 0, max_threads;

	if (gp_ptx_symtab_open(&p->symtab))
		gp_ptx_fail(p, -EINVAL, "scopes nested too deeply");
	if (gp_ptx_at(p, '('))
		results = toplevel_formals(p, &n_results, &bytes);
	p->func = toplevel_find_func(p);
	gp_ptx_advance(p);
	bytes = 0;
	if (gp_ptx_at(p, '('))
		formals = toplevel_formals(p, &n_formals, &bytes);
	max_threads = toplevel_tuning(p);
	if (p->code)
		return;
	if (gp_ptx_accept(p, '{')) {
		if (p->func->has_body) {
			gp_ptx_fail(p, -EINVAL, "'%s' is defined twice", p->func->name);
			return;
		}
		*p->func = (struct gp_ptx_func){ .name = p->func->name,
						 .module = p->module,
						 .is_entry = is_entry,
						 .results = results,
						 .n_results = n_results,
						 .formals = formals,
						 .n_formals = n_formals };
		p->n_ins = 0;
		gp_ptx_parse_body(p);
		toplevel_keep_body(p);
		if (is_entry && !p->code)
			toplevel_add_kernel(p, bytes, max_threads);
	} else {
		gp_ptx_accept(p, ';');
		gp_ptx_symtab_close(&p->symtab);
	}
	p->func = NULL;
}

static void toplevel_skip_block(struct gp_ptx_parser *p)
{
	unsigned int depth = 0;

	while (p->tok.kind != GP_PTX_TOK_END) {
		if (gp_ptx_at(p, '{'))
			depth++;
		else if (gp_ptx_at(p, '}') && --depth == 0)
			break;
		gp_ptx_advance(p);
	}
	gp_ptx_expect(p, '}');
}

static void toplevel_directive(struct gp_ptx_parser *p)
{
	if (gp_ptx_accept_name(p, ".visible") || gp_ptx_accept_name(p, ".weak") ||
	    gp_ptx_accept_name(p, ".extern") || gp_ptx_accept_name(p, ".common") ||
	    gp_ptx_accept(p, ';')) {
		return;
	} else if (gp_ptx_accept_name(p, ".entry")) {
		toplevel_func(p, true);
	} else if (gp_ptx_accept_name(p, ".func")) {
		while (gp_ptx_accept_name(p, ".noreturn"))
			continue;
		toplevel_func(p, false);
	} else if (gp_ptx_at_name(p, ".version") || gp_ptx_at_name(p, ".target") ||
		   gp_ptx_at_name(p, ".address_size") || gp_ptx_at_name(p, ".file") ||
		   gp_ptx_at_name(p, ".loc") || gp_ptx_at_name(p, ".pragma")) {
		gp_ptx_lex_skip_line(&p->lexer);
		gp_ptx_advance(p);
	} else if (gp_ptx_at_name(p, ".section")) {
		toplevel_skip_block(p);
	} else {
		gp_ptx_parse_vars(p);
	}
}

static int toplevel_parse(struct gp_ptx_parser *p)
{
	int r;

	gp_ptx_advance(p);
	if (!gp_ptx_at_name(p, ".version"))
		gp_ptx_fail(p, -EINVAL, "no .version: this is no PTX");
	while (p->tok.kind != GP_PTX_TOK_END)
		toplevel_directive(p);
	for (uint32_t i = 0; i < p->module->n_kernels && !p->code; i++) {
		r = gp_ptx_kernel_finish(p->module, p->module->kernels[i]);
		if (r)
			gp_ptx_fail(p, r, "no memory for kernel '%s'",
				    p->module->kernels[i]->info.name);
	}
	return p->code;
}

int gp_ptx_parse(const char *text, size_t len, struct gp_ptx_module **ret_module,
		 struct gp_err *err)
{
	struct gp_ptx_parser p = {
		.lexer = { .p = text, .end = text + len, .line = 1 },
		.err = err,
	};
	int r;

	p.module = calloc(1, sizeof(*p.module));
	if (!p.module)
		return gp_err_set(err, -ENOMEM, "no memory for a PTX module");
	p.symtab.arena = &p.module->arena;
	r = toplevel_parse(&p);
	free(p.ins);
	free(p.regs);
	if (r) {
		gp_ptx_module_free(p.module);
		return r;
	}
	*ret_module = p.module;
	return 0;
}
