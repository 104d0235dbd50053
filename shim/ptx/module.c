/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoded module: arena, lookups, what the driver asks about kernels and variables. Everything
 * here is read-only after parsing but gp_ptx_global_bind and the lowered-code slot (atomic).
 */
#include "shim/ptx/ir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BLOCK_BYTES 65536

/* Memory is handed out from the newest block. */
struct gp_ptx_arena {
	struct gp_ptx_arena *older;
	size_t used, size;
	_Alignas(16) char data[];
};

void *gp_ptx_arena_alloc(struct gp_ptx_arena **arena, size_t size)
{
	struct gp_ptx_arena *top = *arena;
	size_t block;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + 15) & ~(size_t)15;
	if (!top || top->size - top->used < size) {
		block = size > ARENA_BLOCK_BYTES ? size : ARENA_BLOCK_BYTES;
		top = calloc(1, sizeof(*top) + block);
		if (!top)
			return NULL;
		top->older = *arena;
		top->size = block;
		*arena = top;
	}
	top->used += size;
	return top->data + top->used - size;
}

char *gp_ptx_arena_strndup(struct gp_ptx_arena **arena, const char *text, size_t len)
{
	char *copy = gp_ptx_arena_alloc(arena, len + 1);

	if (copy)
		memcpy(copy, text, len);
	return copy;
}

void gp_ptx_arena_free(struct gp_ptx_arena *arena)
{
	while (arena) {
		struct gp_ptx_arena *older = arena->older;

		free(arena);
		arena = older;
	}
}

/* What one walk over a kernel's call graph collects. */
struct walk {
	struct gp_ptx_module *module;
	struct gp_ptx_kernel *kernel;
	uint64_t shared_bytes, local_bytes;
	uint32_t n_regs_max, shared_cap;
};

static int walk_add_shared(struct walk *walk, const struct gp_ptx_var *var)
{
	struct gp_ptx_kernel *kernel = walk->kernel;
	struct gp_ptx_shared_slot *grown;

	for (uint32_t i = 0; i < kernel->n_shared; i++)
		if (kernel->shared[i].var == var)
			return 0;
	if (kernel->n_shared == walk->shared_cap) {
		walk->shared_cap = walk->shared_cap ? walk->shared_cap * 2 : 8;
		grown = gp_ptx_arena_alloc(&walk->module->arena, walk->shared_cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		if (kernel->n_shared)
			memcpy(grown, kernel->shared, kernel->n_shared * sizeof(*grown));
		kernel->shared = grown;
	}
	walk->shared_bytes = (walk->shared_bytes + var->align_bytes - 1) & ~(var->align_bytes - 1);
	kernel->shared[kernel->n_shared++] =
		(struct gp_ptx_shared_slot){ .var = var,
					     .offset_bytes = (uint32_t)walk->shared_bytes };
	walk->shared_bytes += var->size_bytes;
	return walk->shared_bytes > UINT32_MAX / 2 ? -ENOMEM : 0;
}

static int walk_func(struct walk *walk, struct gp_ptx_func *func);

static int walk_opnd(struct walk *walk, const struct gp_ptx_opnd *opnd)
{
	int r = 0;

	if (opnd->kind == GP_PTX_OPND_LIST) {
		for (uint32_t i = 0; i < opnd->n_elems && !r; i++)
			r = walk_opnd(walk, &opnd->elems[i]);
	} else if (opnd->kind == GP_PTX_OPND_VAR && opnd->var->space == GP_PTX_SPACE_SHARED &&
		   !opnd->var->is_unsized) {
		r = walk_add_shared(walk, opnd->var);
	} else if (opnd->kind == GP_PTX_OPND_FUNC && opnd->func->mark != walk->module->walk) {
		r = walk_func(walk, opnd->func);
	}
	return r;
}

static int walk_func(struct walk *walk, struct gp_ptx_func *func)
{
	int r = 0;

	func->mark = walk->module->walk;
	if (func->n_regs > walk->n_regs_max)
		walk->n_regs_max = func->n_regs;
	for (struct gp_ptx_var *var = func->vars; var; var = var->next)
		if (var->space == GP_PTX_SPACE_LOCAL)
			walk->local_bytes += var->size_bytes;
	for (uint32_t i = 0; i < func->n_ins && !r; i++)
		for (uint32_t k = 0; k < func->ins[i].n_opnds && !r; k++)
			r = walk_opnd(walk, &func->ins[i].opnds[k]);
	return r;
}

int gp_ptx_kernel_finish(struct gp_ptx_module *module, struct gp_ptx_kernel *kernel)
{
	struct walk walk = { .module = module, .kernel = kernel };
	uint64_t const_bytes = 0;
	int r;

	module->walk++;
	r = walk_func(&walk, kernel->func);
	if (r)
		return r;
	for (uint32_t i = 0; i < module->n_globals; i++)
		if (module->globals[i].global.is_const)
			const_bytes += module->globals[i].global.size_bytes;
	kernel->info.shared_bytes = (uint32_t)walk.shared_bytes;
	kernel->info.local_bytes = (uint32_t)walk.local_bytes;
	kernel->info.const_bytes = (uint32_t)const_bytes;
	/* Virtual registers are many more than an allocator would need. */
	kernel->info.n_regs = walk.n_regs_max / 2 < 16 ? 16 : walk.n_regs_max / 2;
	if (kernel->info.n_regs > 255)
		kernel->info.n_regs = 255;
	/* 64 Ki registers per SM, as every GPU since sm_50 has. */
	while ((uint64_t)kernel->info.n_regs * kernel->info.max_threads > 65536)
		kernel->info.n_regs = 65536 / kernel->info.max_threads;
	return 0;
}

void gp_ptx_module_free(struct gp_ptx_module *module)
{
	if (!module)
		return;
	for (uint32_t i = 0; i < module->n_kernels; i++) {
		struct gp_ptx_attachment *lowered = atomic_load(&module->kernels[i]->lowered);

		if (lowered)
			lowered->free(lowered);
	}
	free(module->kernels);
	free(module->globals);
	gp_ptx_arena_free(module->arena);
	free(module);
}

size_t gp_ptx_n_kernels(const struct gp_ptx_module *module)
{
	return module->n_kernels;
}

const struct gp_ptx_kernel *gp_ptx_kernel_at(const struct gp_ptx_module *module, size_t i)
{
	return i < module->n_kernels ? module->kernels[i] : NULL;
}

const struct gp_ptx_kernel *gp_ptx_kernel_find(const struct gp_ptx_module *module, const char *name)
{
	for (uint32_t i = 0; i < module->n_kernels; i++)
		if (!strcmp(module->kernels[i]->info.name, name))
			return module->kernels[i];
	return NULL;
}

void gp_ptx_kernel_get_info(const struct gp_ptx_kernel *kernel, struct gp_ptx_kernel_info *ret_info)
{
	*ret_info = kernel->info;
}

size_t gp_ptx_n_globals(const struct gp_ptx_module *module)
{
	return module->n_globals;
}

const struct gp_ptx_global *gp_ptx_global_at(const struct gp_ptx_module *module, size_t i)
{
	return i < module->n_globals ? &module->globals[i].global : NULL;
}

void gp_ptx_global_bind(struct gp_ptx_module *module, size_t index, uint64_t address)
{
	module->globals[index].address = address;
	module->globals[index].is_bound = true;
	for (uint32_t i = 0; i < module->n_globals; i++) {
		struct gp_ptx_global_slot *slot = &module->globals[i];

		for (struct gp_ptx_reloc *reloc = slot->relocs; reloc; reloc = reloc->next) {
			uint64_t value = address + (uint64_t)reloc->addend;

			if (reloc->var->global_index == index)
				memcpy(slot->init + reloc->at, &value, sizeof(value));
		}
	}
}
