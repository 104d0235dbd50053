/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/soft/module.h"

#include "shim/ptx/fatbin.h"
#include "shim/soft/vm.h"

#include <errno.h>
#include <string.h>

/* The software device is of compute capability 9.0. */
#define GP_MODULE_SM 90

#define GP_MODULE_DYN_SHARED (48u << 10) /* without opting in, as on the card */

static int module_load_globals(struct gp_module *module, struct gp_err *err)
{
	size_t n = gp_ptx_n_globals(module->ptx);

	module->globals = calloc(n + 1, sizeof(*module->globals));
	if (!module->globals)
		return gp_err_set(err, -ENOMEM, "out of memory loading a module");
	for (size_t i = 0; i < n; i++) {
		const struct gp_ptx_global *global = gp_ptx_global_at(module->ptx, i);
		uint64_t bytes = global->size_bytes ? global->size_bytes : 1;
		int r = gp_vm_alloc(bytes, &module->globals[i]);

		if (r < 0)
			return gp_err_sys(err, r, "cannot allocate variable %s", global->name);
		module->n_globals++;
		memset((void *)(uintptr_t)module->globals[i], 0, bytes);
		gp_ptx_global_bind(module->ptx, i, module->globals[i]);
	}
	/* Only now: initialisers may hold addresses of any of them. */
	for (size_t i = 0; i < n; i++) {
		const struct gp_ptx_global *global = gp_ptx_global_at(module->ptx, i);

		if (global->init)
			memcpy((void *)(uintptr_t)module->globals[i], global->init,
			       global->init_bytes);
	}
	return 0;
}

static int module_make_functions(struct gp_module *module, struct gp_err *err)
{
	size_t n = gp_ptx_n_kernels(module->ptx);

	module->functions = calloc(n + 1, sizeof(*module->functions));
	if (!module->functions)
		return gp_err_set(err, -ENOMEM, "out of memory loading a module");
	for (size_t i = 0; i < n; i++) {
		struct gp_function *function = &module->functions[i];

		function->magic = GP_FUNCTION_MAGIC;
		function->module = module;
		function->kernel = gp_ptx_kernel_at(module->ptx, i);
		gp_ptx_kernel_get_info(function->kernel, &function->info);
		function->max_dyn_shared_bytes =
			function->info.shared_bytes < GP_MODULE_DYN_SHARED
				? GP_MODULE_DYN_SHARED - function->info.shared_bytes
				: 0;
		function->carveout = -1;
	}
	module->n_functions = n;
	return 0;
}

int gp_module_load(const void *image, struct gp_module **ret_module, struct gp_err *err)
{
	struct gp_module *module;
	gp_auto_free char *text = NULL;
	size_t len = 0;
	int r = gp_fatbin_find_ptx(image, GP_MODULE_SM, &text, &len, err);

	if (r < 0)
		return r;
	module = calloc(1, sizeof(*module));
	if (!module)
		return gp_err_set(err, -ENOMEM, "out of memory loading a module");
	module->magic = GP_MODULE_MAGIC;
	module->refs = 1;
	if (len) {
		r = gp_ptx_parse(text, len, &module->ptx, err);
		if (r == 0)
			r = module_load_globals(module, err);
		if (r == 0)
			r = module_make_functions(module, err);
	}
	if (r < 0) {
		gp_module_unref(module);
		return r;
	}
	*ret_module = module;
	return 0;
}

void gp_module_ref(struct gp_module *module)
{
	__atomic_add_fetch(&module->refs, 1, __ATOMIC_RELAXED);
}

void gp_module_unref(struct gp_module *module)
{
	if (__atomic_sub_fetch(&module->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (size_t i = 0; i < module->n_globals; i++)
		if (gp_vm_free(module->globals[i]) < 0)
			continue; /* the program freed the variable's address itself */
	for (size_t i = 0; i < module->n_functions; i++)
		module->functions[i].magic = 0;
	free(module->functions);
	free(module->globals);
	if (module->ptx)
		gp_ptx_module_free(module->ptx);
	module->magic = 0;
	free(module);
}

struct gp_function *gp_module_function(struct gp_module *module, const char *name)
{
	for (size_t i = 0; i < module->n_functions; i++)
		if (!strcmp(module->functions[i].info.name, name))
			return &module->functions[i];
	return NULL;
}

int gp_module_global(const struct gp_module *module, const char *name, uint64_t *ret_addr,
		     uint64_t *ret_bytes)
{
	for (size_t i = 0; i < module->n_globals; i++) {
		const struct gp_ptx_global *global = gp_ptx_global_at(module->ptx, i);

		if (strcmp(global->name, name))
			continue;
		*ret_addr = module->globals[i];
		*ret_bytes = global->size_bytes;
		return 0;
	}
	return -ENOENT;
}
