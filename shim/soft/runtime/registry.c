/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration happens before main (and in dlopen), lookups at first use of each kernel by nvcc's
 * code but at every call of cudaLaunchKernel: a hash table by host address. One lock; loading
 * an image happens with it held, once per image.
 */
#include "shim/soft/runtime/registry.h"

#include "base/list.h"
#include "shim/soft/runtime/runtime.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GP_REGISTRY_BUCKETS 1024

struct gp_rt_image {
	struct gp_list entry;
	void *wrapper;	   /* nvcc's fatbin wrapper, in the program */
	CUlibrary library; /* NULL until loaded */
};

enum gp_rt_symbol_kind { GP_RT_KERNEL, GP_RT_VARIABLE, GP_RT_MANAGED };

struct gp_rt_symbol {
	struct gp_list entry; /* in its bucket */
	struct gp_rt_image *image;
	const void *host;
	const char *name; /* in the program */
	enum gp_rt_symbol_kind kind;
	CUkernel kernel; /* once looked up */
};

struct gp_rt_registry {
	pthread_mutex_t lock;
	struct gp_list images;
	struct gp_list buckets[GP_REGISTRY_BUCKETS];
	int ready;
};

static struct gp_rt_registry registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void registry_child(void)
{
	pthread_mutex_init(&registry.lock, NULL); /* a thread of the parent may have held it */
}

static void registry_lock(void)
{
	pthread_mutex_lock(&registry.lock);
	if (registry.ready)
		return;
	gp_list_init(&registry.images);
	for (size_t i = 0; i < GP_REGISTRY_BUCKETS; i++)
		gp_list_init(&registry.buckets[i]);
	pthread_atfork(NULL, NULL, registry_child);
	registry.ready = 1;
}

static struct gp_list *registry_bucket(const void *host)
{
	return &registry.buckets[((uintptr_t)host >> 4) * 0x9e3779b97f4a7c15ull >> 54];
}

static struct gp_rt_symbol *registry_find(const void *host)
{
	gp_list_for_each(symbol, registry_bucket(host), struct gp_rt_symbol, entry)
		if (symbol->host == host)
			return symbol;
	return NULL;
}

static void registry_add(void **handle, const void *host, const char *name,
			 enum gp_rt_symbol_kind kind)
{
	struct gp_rt_symbol *symbol = calloc(1, sizeof(*symbol));

	/* Without memory the symbol stays unknown, which its first use reports. */
	if (!symbol || !handle) {
		free(symbol);
		return;
	}
	symbol->image = (struct gp_rt_image *)handle;
	symbol->host = host;
	symbol->name = name;
	symbol->kind = kind;
	registry_lock();
	gp_list_add_tail(registry_bucket(host), &symbol->entry);
	pthread_mutex_unlock(&registry.lock);
}

/* Lock held; the driver is entered. */
static cudaError_t registry_load(struct gp_rt_image *image)
{
	if (image->library)
		return cudaSuccess;
	return (cudaError_t)gp_rt.cuLibraryLoadData(&image->library, image->wrapper, NULL, NULL, 0,
						    NULL, NULL, 0);
}

void **__cudaRegisterFatBinary(void *wrapper)
{
	struct gp_rt_image *image = calloc(1, sizeof(*image));

	if (!image)
		return NULL;
	image->wrapper = wrapper;
	registry_lock();
	gp_list_add_tail(&registry.images, &image->entry);
	pthread_mutex_unlock(&registry.lock);
	return (void **)image;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
}

/* At exit, or when a plug-in is closed: its addresses may come to mean something else. */
void __cudaUnregisterFatBinary(void **handle)
{
	struct gp_rt_image *image = (struct gp_rt_image *)handle;

	if (!image)
		return;
	registry_lock();
	for (size_t i = 0; i < GP_REGISTRY_BUCKETS; i++)
		gp_list_for_each(symbol, &registry.buckets[i], struct gp_rt_symbol, entry)
			if (symbol->image == image) {
				gp_list_del(&symbol->entry);
				free(symbol);
			}
	gp_list_del(&image->entry);
	if (image->library)
		gp_rt.cuLibraryUnload(image->library);
	pthread_mutex_unlock(&registry.lock);
	free(image);
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
			    int thread_limit, struct uint3 *tid, struct uint3 *bid,
			    struct dim3 *block, struct dim3 *grid, int *warp_size)
{
	registry_add(handle, host, name, GP_RT_KERNEL);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
		       size_t bytes, int constant, int global)
{
	registry_add(handle, host, name, GP_RT_VARIABLE);
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
			      size_t bytes, int constant, int global)
{
	registry_add(handle, host, name, GP_RT_MANAGED);
}

/* Managed variables are reached by the host through a pointer, which must be set before use. */
char __cudaInitModule(void **handle)
{
	struct gp_rt_image *image = (struct gp_rt_image *)handle;
	cudaError_t e = image ? gp_rt_enter() : cudaErrorInvalidValue;

	if (e)
		return 0;
	registry_lock();
	e = registry_load(image);
	for (size_t i = 0; !e && i < GP_REGISTRY_BUCKETS; i++)
		gp_list_for_each(symbol, &registry.buckets[i], struct gp_rt_symbol, entry) {
			CUdeviceptr addr;

			if (symbol->image != image || symbol->kind != GP_RT_MANAGED)
				continue;
			if (gp_rt.cuLibraryGetGlobal(&addr, NULL, image->library, symbol->name) ==
			    CUDA_SUCCESS)
				*(void **)(uintptr_t)symbol->host = (void *)(uintptr_t)addr;
		}
	pthread_mutex_unlock(&registry.lock);
	return e == cudaSuccess;
}

static cudaError_t registry_kernel(struct gp_rt_symbol *symbol)
{
	cudaError_t e = registry_load(symbol->image);

	if (e || symbol->kernel)
		return e;
	return (cudaError_t)gp_rt.cuLibraryGetKernel(&symbol->kernel, symbol->image->library,
						     symbol->name);
}

cudaError_t gp_registry_kernel(const void *host, CUkernel *ret_kernel)
{
	struct gp_rt_symbol *symbol;
	cudaError_t e = gp_rt_enter();

	if (e)
		return e;
	registry_lock();
	symbol = registry_find(host);
	if (!symbol || symbol->kind != GP_RT_KERNEL)
		e = cudaErrorInvalidDeviceFunction;
	else
		e = registry_kernel(symbol);
	if (!e)
		*ret_kernel = symbol->kernel;
	pthread_mutex_unlock(&registry.lock);
	/* The image has no code for the kernel: the program's answer to that is this one. */
	return e == (cudaError_t)CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : e;
}

cudaError_t gp_registry_symbol(const void *host, CUdeviceptr *ret_addr, size_t *ret_bytes)
{
	struct gp_rt_symbol *symbol;
	cudaError_t e = gp_rt_enter();

	if (e)
		return e;
	registry_lock();
	symbol = registry_find(host);
	e = !symbol || symbol->kind == GP_RT_KERNEL ? cudaErrorInvalidSymbol
						    : registry_load(symbol->image);
	if (!e &&
	    gp_rt.cuLibraryGetGlobal(ret_addr, ret_bytes, symbol->image->library, symbol->name))
		e = cudaErrorInvalidSymbol;
	pthread_mutex_unlock(&registry.lock);
	return e;
}
