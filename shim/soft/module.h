/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_MODULE_H
#define GP_SHIM_SOFT_MODULE_H
/*
 * Loaded code: a module owns the parsed PTX, its global variables and one function object per
 * kernel. CUmodule, CUlibrary point to a module; CUfunction and CUkernel to a function. Launches in
 * flight pin the module by a reference, so unloading never waits.
 */
#include "shim/soft/exec.h"

#define GP_MODULE_MAGIC	  0x4d4f4455u
#define GP_FUNCTION_MAGIC 0x46554e43u

struct gp_module;

struct gp_function {
	uint32_t magic;
	struct gp_module *module;
	const struct gp_ptx_kernel *kernel;
	struct gp_ptx_kernel_info info;
	uint32_t max_dyn_shared_bytes; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
	int carveout;		       /* kept, without effect */
};

struct gp_module {
	uint32_t magic;
	uint32_t refs;		   /* atomic */
	struct gp_ptx_module *ptx; /* NULL: an image without code */
	struct gp_function *functions;
	size_t n_functions;
	uint64_t *globals; /* addresses */
	size_t n_globals;
};

/* Parses @image and loads its globals onto the device. -ENOEXEC, -EINVAL, -ENOMEM, ... */
gp_must_check int gp_module_load(const void *image, struct gp_module **ret_module,
				 struct gp_err *err);
void gp_module_ref(struct gp_module *module);
/* The last reference frees the globals. Takes the memory lock only. */
void gp_module_unref(struct gp_module *module);

/* NULL if there is none of that name. */
struct gp_function *gp_module_function(struct gp_module *module, const char *name);
gp_must_check int gp_module_global(const struct gp_module *module, const char *name,
				   uint64_t *ret_addr, uint64_t *ret_bytes);

#endif
