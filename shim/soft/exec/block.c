/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One block: memory for its warps, constants, shared and local memory; warps in turn until all have
 * exited. Nothing read from device memory is kept across a park, and kernel parameters, which the
 * driver owns, are read once.
 */
#include "shim/soft/exec/fault.h"
#include "shim/soft/exec/run.h"

#include <errno.h>
#include <string.h>

/* Behind shared memory: a wide access checked at its first byte may not touch a neighbour. */
#define BLOCK_SLACK_BYTES 64
#define BLOCK_ALIGN	  64
#define BLOCK_MAX_THREADS 1024

static int block_reserve(uint8_t **mem, size_t *cap, size_t need)
{
	void *fresh;

	need += BLOCK_SLACK_BYTES;
	if (need <= *cap)
		return 0;
	fresh = aligned_alloc(BLOCK_ALIGN, (need + BLOCK_ALIGN - 1) & ~(size_t)(BLOCK_ALIGN - 1));
	if (!fresh)
		return -ENOMEM;
	free(*mem);
	*mem = fresh;
	*cap = need;
	memset(fresh, 0, need);
	return 0;
}

static uint32_t block_shared_bytes(const struct gp_exec_launch *launch,
				   const struct gp_exec_code *code)
{
	uint32_t fixed = code->shared_bytes;

	return launch->dyn_shared_bytes ? ((fixed + 15) & ~15u) + launch->dyn_shared_bytes : fixed;
}

static int block_memory(struct gp_exec_scratch *scratch, const struct gp_exec_launch *launch,
			const struct gp_exec_code *code, struct gp_err *err)
{
	uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
	size_t warps;

	if (!threads || threads > BLOCK_MAX_THREADS)
		return gp_err_set(err, -EINVAL, "kernel '%s': blocks of %llu threads",
				  code->kernel->info.name, (unsigned long long)threads);
	scratch->n_threads = (uint32_t)threads;
	scratch->n_warps = (uint32_t)(threads + GP_EXEC_LANES - 1) / GP_EXEC_LANES;
	scratch->n_alive = scratch->n_threads;
	warps = scratch->n_warps;
	if (block_reserve((uint8_t **)&scratch->warps, &scratch->warps_cap,
			  warps * sizeof(*scratch->warps)) ||
	    block_reserve((uint8_t **)&scratch->tids, &scratch->tids_cap,
			  BLOCK_MAX_THREADS / GP_EXEC_LANES * sizeof(*scratch->tids)) ||
	    block_reserve(&scratch->regs, &scratch->regs_cap, warps * code->reg_bytes) ||
	    block_reserve(&scratch->pool, &scratch->pool_cap, code->pool_bytes) ||
	    block_reserve(&scratch->shared, &scratch->shared_cap,
			  block_shared_bytes(launch, code)) ||
	    block_reserve(&scratch->local, &scratch->local_cap,
			  warps * GP_EXEC_LANES * code->local_bytes))
		return gp_err_set(err, -ENOMEM,
				  "kernel '%s': no memory for a block of %llu threads",
				  code->kernel->info.name, (unsigned long long)threads);
	return 0;
}

static uint64_t block_const_value(const struct gp_exec_scratch *scratch,
				  const struct gp_exec_const *c)
{
	const struct gp_exec_launch *launch = scratch->launch;
	const struct gp_ptx_module *module = launch->kernel->func->module;
	uint64_t value = c->value;

	switch (c->kind) {
	case GP_EXEC_CONST_GLOBAL:
		return value + module->globals[c->index].address;
	case GP_EXEC_CONST_PARAM:
		return value + (uint64_t)(uintptr_t)launch->params;
	case GP_EXEC_CONST_PARAM_LOAD:
		value = 0;
		memcpy(&value, (const uint8_t *)launch->params + c->value, c->index / 8);
		return value;
	case GP_EXEC_CONST_SREG:
		return gp_exec_sreg_block(scratch, c->index);
	default:
		return value;
	}
}

static void block_fill_pool(struct gp_exec_scratch *scratch)
{
	const struct gp_exec_code *code = scratch->code;

	for (uint32_t i = 0; i < code->n_consts; i++) {
		const struct gp_exec_const *c = &code->consts[i];
		uint64_t value = block_const_value(scratch, c);
		void *at = scratch->pool + (c->offset & ~GP_EXEC_POOL_BANK);

		if (c->width_bits == 64)
			for (int l = 0; l < GP_EXEC_LANES; l++)
				((uint64_t *)at)[l] = value;
		else if (c->width_bits == 32)
			for (int l = 0; l < GP_EXEC_LANES; l++)
				((uint32_t *)at)[l] = (uint32_t)value;
		else
			for (int l = 0; l < GP_EXEC_LANES; l++)
				((uint16_t *)at)[l] = (uint16_t)value;
	}
}

/* Divisions: worth keeping from block to block. */
static void block_fill_tids(struct gp_exec_scratch *scratch)
{
	const uint32_t *dim = scratch->launch->block;

	if (!memcmp(scratch->tids_block, dim, sizeof(scratch->tids_block)))
		return;
	memcpy(scratch->tids_block, dim, sizeof(scratch->tids_block));
	for (uint32_t id = 0; id < scratch->n_warps * GP_EXEC_LANES; id++) {
		struct gp_exec_tids *tids = &scratch->tids[id / GP_EXEC_LANES];
		uint32_t l = id % GP_EXEC_LANES;

		tids->tid[0][l] = id % dim[0];
		tids->tid[1][l] = id / dim[0] % dim[1];
		tids->tid[2][l] = id / dim[0] / dim[1];
	}
}

static void block_init_warp(struct gp_exec_scratch *scratch, uint32_t index)
{
	const struct gp_exec_code *code = scratch->code;
	struct gp_exec_warp *w = &scratch->warps[index];
	uint32_t first = index * GP_EXEC_LANES;

	*w = (struct gp_exec_warp){
		.bank = { scratch->regs + (size_t)index * code->reg_bytes, scratch->pool },
		.scratch = scratch,
		.shared = scratch->shared,
		.shared_bytes = block_shared_bytes(scratch->launch, code),
		.local = scratch->local + (size_t)first * code->local_bytes,
		.local_stride = code->local_bytes,
		.index = index,
		.tids = &scratch->tids[index],
		.spin_limit = 1024,
	};
	w->alive = scratch->n_threads - first >= GP_EXEC_LANES
			   ? UINT32_MAX
			   : (1u << (scratch->n_threads - first)) - 1;
}

static int block_run(struct gp_exec_scratch *scratch)
{
	while (scratch->n_alive) {
		bool progress = false;

		for (uint32_t i = 0; i < scratch->n_warps; i++) {
			struct gp_exec_warp *w = &scratch->warps[i];
			int r;

			if (!(w->alive & ~w->barred))
				continue;
			progress = true;
			r = gp_exec_run_warp(w);
			if (r)
				return r;
		}
		if (!progress)
			return gp_err_set(scratch->err, -EILSEQ,
					  "kernel '%s': all threads wait at barriers for ever "
					  "(ptx line %u)",
					  scratch->code->kernel->info.name, scratch->at->line);
	}
	return 0;
}

/* Runs the block; faults come back here. */
static int block_run_guarded(struct gp_exec_scratch *scratch)
{
	int r;

	if (sigsetjmp(scratch->escape, 0)) {
		gp_exec_fault_guard(NULL);
		return gp_err_set(scratch->err, scratch->escape_code,
				  "kernel '%s': illegal address 0x%llx at ptx line %u",
				  scratch->code->kernel->info.name,
				  (unsigned long long)scratch->fault_address, scratch->at->line);
	}
	gp_exec_fault_guard(scratch);
	r = block_run(scratch);
	gp_exec_fault_guard(NULL);
	if (r == -ECANCELED)
		return gp_err_set(scratch->err, r, "kernel '%s': the launch was abandoned",
				  scratch->code->kernel->info.name);
	return r;
}

struct gp_exec_scratch *gp_exec_scratch_new(void)
{
	return calloc(1, sizeof(struct gp_exec_scratch));
}

void gp_exec_scratch_free(struct gp_exec_scratch *scratch)
{
	if (!scratch)
		return;
	free(scratch->warps);
	free(scratch->tids);
	free(scratch->regs);
	free(scratch->pool);
	free(scratch->shared);
	free(scratch->local);
	free(scratch);
}

int gp_exec_block(const struct gp_exec_launch *launch, uint64_t block,
		  struct gp_exec_scratch *scratch, struct gp_err *err)
{
	const struct gp_exec_code *code;
	int r;

	r = gp_exec_code_get(launch->kernel, &code, err);
	if (!r)
		r = gp_exec_fault_init(scratch, err);
	if (!r)
		r = block_memory(scratch, launch, code, err);
	if (r)
		return r;
	scratch->launch = launch;
	scratch->code = code;
	scratch->err = err;
	scratch->at = code->ins;
	memset(scratch->barriers, 0, sizeof(scratch->barriers));
	scratch->ctaid[0] = (uint32_t)(block % launch->grid[0]);
	scratch->ctaid[1] = (uint32_t)(block / launch->grid[0] % launch->grid[1]);
	scratch->ctaid[2] = (uint32_t)(block / launch->grid[0] / launch->grid[1]);
	block_fill_tids(scratch);
	block_fill_pool(scratch);
	for (uint32_t i = 0; i < scratch->n_warps; i++)
		block_init_warp(scratch, i);
	return block_run_guarded(scratch);
}
