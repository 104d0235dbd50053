/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/soft/runtime/runtime.h"

#include "base/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

struct gp_rt_driver gp_rt;

struct gp_rt_state {
	pthread_mutex_t lock;
	bool opened;
	cudaError_t open_error;
	CUcontext context; /* the primary one, once retained */
};

static struct gp_rt_state rt_state = { .lock = PTHREAD_MUTEX_INITIALIZER };
static __thread cudaError_t rt_last_error;
static __thread CUcontext rt_own_context; /* what gp_rt_enter made current here */

/* A thread of the parent may have held it. */
static void rt_child(void)
{
	pthread_mutex_init(&rt_state.lock, NULL);
}

static cudaError_t rt_open(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	if (!handle) {
		gp_log(GP_LOG_ERR, "soft-runtime", "error=\"%s\"", dlerror());
		return cudaErrorInsufficientDriver;
	}
#define X(name)                                                                                    \
	gp_rt.name = (__typeof__(gp_rt.name))dlsym(handle, #name);                                 \
	if (!gp_rt.name)                                                                           \
		return cudaErrorInsufficientDriver;
	GP_RT_FUNCTIONS(X)
#undef X
	pthread_atfork(NULL, NULL, rt_child);
	return (cudaError_t)gp_rt.cuInit(0);
}

cudaError_t gp_rt_enter_driver(void)
{
	if (!__atomic_load_n(&rt_state.opened, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&rt_state.lock);
		if (!rt_state.opened) {
			rt_state.open_error = rt_open();
			__atomic_store_n(&rt_state.opened, true, __ATOMIC_RELEASE);
		}
		pthread_mutex_unlock(&rt_state.lock);
	}
	return rt_state.open_error;
}

static cudaError_t rt_retain(CUcontext *ret_context)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&rt_state.lock);
	*ret_context = rt_state.context;
	if (!*ret_context)
		r = gp_rt.cuDevicePrimaryCtxRetain(ret_context, 0);
	if (!r)
		__atomic_store_n(&rt_state.context, *ret_context, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&rt_state.lock);
	return (cudaError_t)r;
}

/* Another thread may have reset the device since. */
static bool rt_is_stale(CUcontext context)
{
	return context == rt_own_context &&
	       context != __atomic_load_n(&rt_state.context, __ATOMIC_ACQUIRE);
}

cudaError_t gp_rt_enter(void)
{
	CUcontext context = NULL;
	cudaError_t e = gp_rt_enter_driver();

	if (e)
		return e;
	/* A context that the program made current itself is the one to use. */
	e = (cudaError_t)gp_rt.cuCtxGetCurrent(&context);
	if (e || (context && !rt_is_stale(context)))
		return e;
	e = rt_retain(&context);
	if (!e)
		e = (cudaError_t)gp_rt.cuCtxSetCurrent(context);
	if (!e)
		rt_own_context = context;
	return e;
}

void gp_rt_forget_context(void)
{
	pthread_mutex_lock(&rt_state.lock);
	__atomic_store_n(&rt_state.context, NULL, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&rt_state.lock);
	gp_rt.cuCtxSetCurrent(NULL);
}

cudaError_t gp_rt_note(int error)
{
	if (error)
		rt_last_error = (cudaError_t)error;
	return (cudaError_t)error;
}

cudaError_t CUDARTAPI cudaGetLastError(void)
{
	cudaError_t e = rt_last_error;

	rt_last_error = cudaSuccess;
	return e;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void)
{
	return rt_last_error;
}
