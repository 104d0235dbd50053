/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash table with the newest symbol first in each bucket, so that inner scopes hide outer ones;
 * closing a scope unlinks what it added.
 */
#include "shim/ptx/symtab.h"

#include <errno.h>
#include <string.h>

/* FNV-1a. */
static uint32_t symtab_hash(const char *name, size_t len)
{
	uint32_t hash = 2166136261u;

	while (len--)
		hash = (hash ^ (unsigned char)*name++) * 16777619u;
	return hash % GP_PTX_SYMTAB_BUCKETS;
}

struct gp_ptx_symbol *gp_ptx_symtab_add(struct gp_ptx_symtab *tab, enum gp_ptx_symbol_kind kind,
					const char *name, size_t len)
{
	struct gp_ptx_symbol *sym = gp_ptx_arena_alloc(tab->arena, sizeof(*sym));

	if (!sym)
		return NULL;
	sym->name = gp_ptx_arena_strndup(tab->arena, name, len);
	if (!sym->name)
		return NULL;
	sym->kind = kind;
	sym->len = len;
	sym->depth = tab->depth;
	sym->bucket = symtab_hash(name, len);
	sym->next_in_bucket = tab->buckets[sym->bucket];
	tab->buckets[sym->bucket] = sym;
	sym->next_in_scope = tab->scopes[tab->depth];
	tab->scopes[tab->depth] = sym;
	return sym;
}

struct gp_ptx_symbol *gp_ptx_symtab_find(const struct gp_ptx_symtab *tab, const char *name,
					 size_t len)
{
	struct gp_ptx_symbol *sym = tab->buckets[symtab_hash(name, len)];

	while (sym && (sym->len != len || memcmp(sym->name, name, len) != 0))
		sym = sym->next_in_bucket;
	return sym;
}

int32_t gp_ptx_symtab_find_reg(const struct gp_ptx_symtab *tab, const char *name, size_t len)
{
	struct gp_ptx_symbol *sym = gp_ptx_symtab_find(tab, name, len);
	uint64_t index = 0;
	size_t prefix = len;

	if (sym)
		return sym->kind == GP_PTX_SYM_REG ? (int32_t)sym->value : -1;
	while (prefix > 1 && name[prefix - 1] >= '0' && name[prefix - 1] <= '9') {
		prefix--;
		if (name[prefix] == '0' && prefix + 1 < len)
			continue; /* a leading zero belongs to the prefix */
		sym = gp_ptx_symtab_find(tab, name, prefix);
		if (!sym || sym->kind != GP_PTX_SYM_RANGE || len - prefix > 9)
			continue;
		index = 0;
		for (size_t i = prefix; i < len; i++)
			index = index * 10 + (uint64_t)(name[i] - '0');
		if (index < sym->count)
			return (int32_t)(sym->value + index);
	}
	return -1;
}

int gp_ptx_symtab_open(struct gp_ptx_symtab *tab)
{
	if (tab->depth + 1 >= GP_PTX_MAX_SCOPES)
		return -EOVERFLOW;
	tab->scopes[++tab->depth] = NULL;
	return 0;
}

void gp_ptx_symtab_close(struct gp_ptx_symtab *tab)
{
	for (struct gp_ptx_symbol *sym = tab->scopes[tab->depth]; sym; sym = sym->next_in_scope) {
		struct gp_ptx_symbol **slot = &tab->buckets[sym->bucket];

		/* A function's name joins the module's scope while that of its results is open. */
		while (*slot != sym)
			slot = &(*slot)->next_in_bucket;
		*slot = sym->next_in_bucket;
	}
	tab->depth--;
}
