/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_PTX_PTX_H
#define GP_SHIM_PTX_PTX_H
/*
 * PTX text -> decoded module. Serves the software driver (shim/soft) and, later, instrumentation.
 * A module is immutable once parsed, except for the addresses its loader assigns to globals.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_ptx_module;
struct gp_ptx_kernel;

struct gp_ptx_param {
	uint32_t offset_bytes; /* in the packed parameter buffer */
	uint32_t size_bytes;
};

/* What the driver API reports about a kernel (cuFuncGetAttribute, cuFuncGetParamInfo). */
struct gp_ptx_kernel_info {
	const char *name;
	const struct gp_ptx_param *params;
	uint32_t n_params;
	uint32_t param_bytes;
	uint32_t shared_bytes; /* static */
	uint32_t local_bytes;  /* per thread */
	uint32_t const_bytes;
	uint32_t max_threads; /* from .maxntid/.reqntid, else 1024 */
	uint32_t n_regs;      /* plausible count, at most 255 */
};

/* A module-scope .global or .const variable. The loader allocates it and sets its address. */
struct gp_ptx_global {
	const char *name;
	uint64_t size_bytes;
	uint64_t align_bytes;
	bool is_const;
	const void *init; /* init_bytes of initial data, NULL for zero; pointers patched by _bind */
	uint64_t init_bytes;
};

/*
 * Parses @len bytes of PTX (a trailing NUL is allowed). Allocates. On failure *@ret_module is
 * untouched and @err names line, opcode and what is missing. The text may be freed afterwards.
 */
gp_must_check int gp_ptx_parse(const char *text, size_t len, struct gp_ptx_module **ret_module,
			       struct gp_err *err);
void gp_ptx_module_free(struct gp_ptx_module *module);

size_t gp_ptx_n_kernels(const struct gp_ptx_module *module);
const struct gp_ptx_kernel *gp_ptx_kernel_at(const struct gp_ptx_module *module, size_t i);
/* NULL if there is no such entry. */
const struct gp_ptx_kernel *gp_ptx_kernel_find(const struct gp_ptx_module *module,
					       const char *name);
void gp_ptx_kernel_get_info(const struct gp_ptx_kernel *kernel,
			    struct gp_ptx_kernel_info *ret_info);

size_t gp_ptx_n_globals(const struct gp_ptx_module *module);
const struct gp_ptx_global *gp_ptx_global_at(const struct gp_ptx_module *module, size_t i);
/*
 * Tells the module where global @i lives; call for every global before executing a kernel and
 * before reading .init of any (initialisers may hold addresses of other globals).
 */
void gp_ptx_global_bind(struct gp_ptx_module *module, size_t i, uint64_t address);

#endif
