/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points: modules, libraries, functions. A library is a module, a kernel a function. */
#include "shim/soft/context.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define GP_MODULE_SHARED_OPTIN 232448u /* CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */

static bool module_valid(const struct gp_module *module)
{
	return (uintptr_t)module > 4096 && module->magic == GP_MODULE_MAGIC;
}

static bool function_valid(const struct gp_function *function)
{
	return (uintptr_t)function > 4096 && function->magic == GP_FUNCTION_MAGIC;
}

static CUresult module_load(const void *image, struct gp_module **ret_module)
{
	struct gp_err err = { 0 };
	int r = gp_module_load(image, ret_module, &err);

	if (r == 0)
		return CUDA_SUCCESS;
	gp_log(GP_LOG_ERR, "soft-module", "error=\"%s\"", err.msg);
	switch (-r) {
	case ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case ENOEXEC:
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	case EINVAL:
		return CUDA_ERROR_INVALID_IMAGE;
	default:
		return CUDA_ERROR_INVALID_PTX;
	}
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *handle, const void *image)
{
	struct gp_module *module = NULL;
	struct gp_ctx *ctx;
	CUresult r = gp_driver_enter_ctx(&ctx);

	if (!r && (!handle || !image))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = module_load(image, &module);
	if (!r)
		*handle = (CUmodule)module;
	return r;
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *handle, const void *image, unsigned int n,
				    CUjit_option *options, void **values)
{
	return cuModuleLoadData(handle, image); /* options steer a compiler that is not there */
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *handle, const void *image)
{
	return cuModuleLoadData(handle, image);
}

/* The file with a NUL behind it, as text images need. */
static CUresult module_read(const char *path, char **ret_image)
{
	gp_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	gp_auto_free char *image = NULL;
	size_t have = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	image = calloc(1, (size_t)st.st_size + 1);
	if (!image)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (have < (size_t)st.st_size) {
		ssize_t n = read(fd, image + have, (size_t)st.st_size - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return CUDA_ERROR_OPERATING_SYSTEM;
		have += (size_t)n;
	}
	*ret_image = gp_take_ptr(image);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoad(CUmodule *handle, const char *path)
{
	gp_auto_free char *image = NULL;
	CUresult r = gp_driver_enter();

	if (!r && !path)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = module_read(path, &image);
	return r ? r : cuModuleLoadData(handle, image);
}

static CUresult module_enter(const void *handle, struct gp_module **ret_module)
{
	CUresult r = gp_driver_enter();

	*ret_module = (struct gp_module *)(uintptr_t)handle;
	return r || module_valid(*ret_module) ? r : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult function_enter(const void *handle, struct gp_function **ret_function)
{
	CUresult r = gp_driver_enter();

	*ret_function = (struct gp_function *)(uintptr_t)handle;
	return r || function_valid(*ret_function) ? r : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuModuleUnload(CUmodule handle)
{
	struct gp_module *module;
	CUresult r = module_enter(handle, &module);

	if (!r)
		gp_module_unref(module);
	return r;
}

static CUresult module_function(const void *handle, const char *name, struct gp_function **ret)
{
	struct gp_module *module;
	CUresult r = module_enter(handle, &module);

	if (!r && (!ret || !name))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	*ret = gp_module_function(module, name);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule handle, const char *name)
{
	return module_function(handle, name, (struct gp_function **)function);
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int *count, CUmodule handle)
{
	struct gp_module *module;
	CUresult r = module_enter(handle, &module);

	if (!r && !count)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*count = (unsigned int)module->n_functions;
	return r;
}

static CUresult module_global(CUdeviceptr *dptr, size_t *bytes, const void *handle,
			      const char *name)
{
	struct gp_module *module;
	uint64_t addr, size;
	CUresult r = module_enter(handle, &module);

	if (!r && !name)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = gp_driver_error(gp_module_global(module, name, &addr, &size));
	if (!r && dptr)
		*dptr = addr;
	if (!r && bytes)
		*bytes = size;
	return r;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule handle,
				      const char *name)
{
	return module_global(dptr, bytes, handle, name);
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	CUresult r = gp_driver_enter();

	if (!r && !mode)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*mode = CU_MODULE_EAGER_LOADING;
	return r;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *handle, const void *image, CUjit_option *jit_options,
				   void **jit_values, unsigned int n_jit, CUlibraryOption *options,
				   void **values, unsigned int n)
{
	struct gp_module *module = NULL;
	CUresult r = gp_driver_enter();

	if (!r && (!handle || !image))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = module_load(image, &module);
	if (!r)
		*handle = (CUlibrary)module;
	return r;
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *handle, const char *path,
				       CUjit_option *jit_options, void **jit_values,
				       unsigned int n_jit, CUlibraryOption *options, void **values,
				       unsigned int n)
{
	gp_auto_free char *image = NULL;
	CUresult r = gp_driver_enter();

	if (!r && !path)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = module_read(path, &image);
	return r ? r : cuLibraryLoadData(handle, image, NULL, NULL, 0, NULL, NULL, 0);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary handle)
{
	struct gp_module *module;
	CUresult r = module_enter(handle, &module);

	if (!r)
		gp_module_unref(module);
	return r;
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *kernel, CUlibrary handle, const char *name)
{
	return module_function(handle, name, (struct gp_function **)kernel);
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int *count, CUlibrary handle)
{
	return cuModuleGetFunctionCount(count, (CUmodule)handle);
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule *module, CUlibrary handle)
{
	struct gp_module *found;
	CUresult r = module_enter(handle, &found);

	if (!r && !module)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*module = (CUmodule)found;
	return r;
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary handle,
				    const char *name)
{
	return module_global(dptr, bytes, handle, name);
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction *function, CUkernel handle)
{
	struct gp_function *found;
	CUresult r = function_enter(handle, &found);

	if (!r && !function)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*function = (CUfunction)found;
	return r;
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *library, CUkernel handle)
{
	struct gp_function *found;
	CUresult r = function_enter(handle, &found);

	if (!r && !library)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*library = (CUlibrary)found->module;
	return r;
}

CUresult CUDAAPI cuFuncGetModule(CUmodule *module, CUfunction handle)
{
	return cuKernelGetLibrary((CUlibrary *)module, (CUkernel)handle);
}

static CUresult function_name(const char **name, const void *handle)
{
	struct gp_function *function;
	CUresult r = function_enter(handle, &function);

	if (!r && !name)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*name = function->info.name;
	return r;
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction handle)
{
	return function_name(name, handle);
}

CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel handle)
{
	return function_name(name, handle);
}

static CUresult function_param(const void *handle, size_t index, size_t *offset, size_t *size)
{
	struct gp_function *function;
	CUresult r = function_enter(handle, &function);

	if (!r && (!offset || index >= function->info.n_params))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	*offset = function->info.params[index].offset_bytes;
	if (size)
		*size = function->info.params[index].size_bytes;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
	return function_param(handle, index, offset, size);
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *size)
{
	return function_param(handle, index, offset, size);
}

static CUresult function_get(int *value, CUfunction_attribute attribute,
			     const struct gp_function *function)
{
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = (int)function->info.max_threads;
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*value = (int)function->info.shared_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*value = (int)function->info.const_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*value = (int)function->info.local_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = (int)function->info.n_regs;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = 90;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = (int)function->max_dyn_shared_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = function->carveout;
		break;
	default:
		if (attribute >= CU_FUNC_ATTRIBUTE_MAX)
			return CUDA_ERROR_INVALID_VALUE;
		*value = 0;
	}
	return CUDA_SUCCESS;
}

static CUresult function_set(struct gp_function *function, CUfunction_attribute attribute,
			     int value)
{
	switch (attribute) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 ||
		    (unsigned int)value + function->info.shared_bytes > GP_MODULE_SHARED_OPTIN)
			return CUDA_ERROR_INVALID_VALUE;
		function->max_dyn_shared_bytes = (uint32_t)value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		function->carveout = value;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
	struct gp_function *function;
	CUresult r = function_enter(handle, &function);

	if (!r && !value)
		r = CUDA_ERROR_INVALID_VALUE;
	return r ? r : function_get(value, attribute, function);
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
	struct gp_function *function;
	CUresult r = function_enter(handle, &function);

	return r ? r : function_set(function, attribute, value);
}

CUresult CUDAAPI cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel handle,
				      CUdevice dev)
{
	return dev ? CUDA_ERROR_INVALID_DEVICE
		   : cuFuncGetAttribute(value, attribute, (CUfunction)handle);
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
				      CUdevice dev)
{
	return dev ? CUDA_ERROR_INVALID_DEVICE
		   : cuFuncSetAttribute((CUfunction)handle, attribute, value);
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
	struct gp_function *function;

	return function_enter(handle, &function); /* a preference; there is no cache to configure */
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice dev)
{
	return cuFuncSetCacheConfig((CUfunction)handle, config);
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
	struct gp_function *function;
	CUresult r = function_enter(handle, &function);

	if (!r && !state)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return r;
}

CUresult CUDAAPI cuFuncLoad(CUfunction handle)
{
	struct gp_function *function;

	return function_enter(handle, &function);
}
