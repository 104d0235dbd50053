/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding happens once per process, in whatever thread calls first. Nothing here is written after
 * that, except the slots of gp_interpose_hold: single pointers, written by the control thread and
 * read by jumps.
 */
#include "shim/interpose/driver.h"

#include "base/driver.h"
#include "base/log.h"
#include "base/rm/got.h"
#include "shim/shim.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>

extern void *gp_interpose_table[GP_CU_COUNT_];
extern void *const gp_interpose_held[GP_CU_COUNT_];
extern void *const gp_interpose_entries[GP_CU_COUNT_];

static const char *const interpose_names[GP_CU_COUNT_] = {
#define GP_CU(name)	    [GP_CU_##name] = #name,
#define GP_CU_WRAPPED(name) [GP_CU_##name] = #name,
#include "shim/interpose/symbols.inc"
#undef GP_CU
#undef GP_CU_WRAPPED
};

/* Prefixes of the functions that check or use the mapping behind a device address when called. */
static const char *const interpose_held_prefixes[] = {
	"cuMemcpy",	     "cuMemset",	   "cuMemPrefetch",	 "cuMemAdvise",
	"cuMemRangeGet",     "cuMemGetAccess",	   "cuMemDiscard",	 "cuPointerSetAttribute",
	"cuTexObjectCreate", "cuGraphAddMemcpy",   "cuGraphAddMemset",	 "cuGraphAddNode",
	"cuGraphExecMemcpy", "cuGraphExecMemset",  "cuGraphInstantiate", "cuGraphMemcpy",
	"cuGraphMemset",     "cuStreamWriteValue", "cuStreamWaitValue",	 "cuStreamBatchMemOp",
};

static CUresult interpose_no_device(void)
{
	return CUDA_ERROR_NO_DEVICE;
}

static CUresult interpose_not_found(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

/* Without a driver programs still print why they cannot run. */
static CUresult interpose_error_name(CUresult error, const char **text)
{
	*text = error == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : NULL;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult interpose_error_string(CUresult error, const char **text)
{
	*text = error == CUDA_ERROR_NO_DEVICE ? "no CUDA-capable device is detected" : NULL;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static size_t interpose_hash(const void *address)
{
	return ((uintptr_t)address >> 4) * 0x9e3779b97f4a7c15ull >> 53;
}
_Static_assert(GP_INTERPOSE_HASH_SLOTS == 1 << (64 - 53), "shift of interpose_hash");

static void interpose_remember(struct gp_interpose *ip, void *real, enum gp_cu_index index)
{
	size_t i = interpose_hash(real);

	while (ip->by_address[i].real)
		i = (i + 1) % GP_INTERPOSE_HASH_SLOTS;
	ip->by_address[i].real = real;
	ip->by_address[i].index = index;
}

/* "cuMemAlloc" asks for cuMemAlloc or any cuMemAlloc_x. */
static bool interpose_is_variant(const char *name, const char *symbol)
{
	size_t n = strlen(symbol);

	return !strncmp(name, symbol, n) && (name[n] == '\0' || name[n] == '_');
}

void *gp_interpose_exported(enum gp_cu_index index)
{
	return gp_interpose_entries[index];
}

void *gp_interpose_exported_for(const struct gp_interpose *ip, void *real, const char *symbol)
{
	void *found = NULL;

	for (size_t i = interpose_hash(real); ip->by_address[i].real;
	     i = (i + 1) % GP_INTERPOSE_HASH_SLOTS) {
		enum gp_cu_index index = ip->by_address[i].index;

		if (ip->by_address[i].real != real)
			continue;
		if (interpose_is_variant(interpose_names[index], symbol))
			return gp_interpose_entries[index];
		found = found ? found : gp_interpose_entries[index];
	}
	return found ? found : real;
}

/* What the driver calls in place of ioctl. */
static int interpose_ioctl(int fd, unsigned long request, void *arg)
{
	int r = gp_rm_watch_ioctl(gp_shim.interpose.watch, fd, request, arg);

	/* A call that failed changed nothing, and its errno is the driver's to see. */
	if (r >= 0)
		gp_control_note_ioctl(&gp_shim.control, request);
	return r;
}

static int interpose_libc_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg);
}

/* A driver that lives in this process answers its own ioctls, through rm_ioctl. */
static void interpose_watch(struct gp_interpose *ip)
{
	gp_rm_ioctl_fn next = (gp_rm_ioctl_fn)dlsym(ip->driver, "rm_ioctl");
	struct gp_err err;

	ip->watch = gp_rm_watch_new(next ? next : interpose_libc_ioctl);
	if (!ip->watch)
		return;
	if (gp_got_patch(ip->driver, "ioctl", (void *)interpose_ioctl, &err) < 0) {
		gp_log(GP_LOG_DEBUG, "not-watched", "error=\"%s\"", err.msg);
		gp_rm_watch_free(ip->watch);
		ip->watch = NULL;
	}
}

static void interpose_bind_none(void **real_functions, const char *why)
{
	gp_log(GP_LOG_ERR, "no-driver", "error=\"%s\"", why);
	for (size_t i = 0; i < GP_CU_COUNT_; i++)
		real_functions[i] = (void *)interpose_no_device;
	real_functions[GP_CU_cuGetErrorName] = (void *)interpose_error_name;
	real_functions[GP_CU_cuGetErrorString] = (void *)interpose_error_string;
}

static void interpose_bind_driver(struct gp_interpose *ip, void **real_functions)
{
	for (size_t i = 0; i < GP_CU_COUNT_; i++) {
		void *real = dlsym(ip->driver, interpose_names[i]);

		real_functions[i] = real ? real : (void *)interpose_not_found;
		if (real)
			interpose_remember(ip, real, (enum gp_cu_index)i);
	}
}

static void interpose_bind_once(void)
{
	struct gp_interpose *ip = &gp_shim.interpose;
	void *real[GP_CU_COUNT_];
	char path[PATH_MAX];
	struct gp_err err;

	gp_shim_init();
	if (gp_driver_find(path, sizeof(path), &err) < 0) {
		interpose_bind_none(real, err.msg);
	} else if (!(ip->driver = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
		interpose_bind_none(real, dlerror());
	} else if (dlsym(ip->driver, "gpupres_shim_version")) {
		interpose_bind_none(
			real, "GPUPRES_DRIVER names gpupres' own libcuda.so.1: name NVIDIA's");
	} else {
		interpose_bind_driver(ip, real);
		interpose_watch(ip);
	}
	/* Last: our wrappers in other threads do not wait for us once they find a real function. */
	for (size_t i = 0; i < GP_CU_COUNT_; i++) {
		__atomic_store_n(&gp_interpose_real[i], real[i], __ATOMIC_RELEASE);
		__atomic_store_n(&gp_interpose_table[i], real[i], __ATOMIC_RELEASE);
	}
}

void gp_interpose_bind(void)
{
	pthread_once(&gp_shim.bound, interpose_bind_once);
}

static bool interpose_is_held(const char *name)
{
	for (size_t i = 0; i < GP_ARRAY_SIZE(interpose_held_prefixes); i++) {
		if (!strncmp(name, interpose_held_prefixes[i], strlen(interpose_held_prefixes[i])))
			return true;
	}
	return false;
}

void gp_interpose_hold(bool hold)
{
	for (size_t i = 0; i < GP_CU_COUNT_; i++) {
		if (interpose_is_held(interpose_names[i]))
			__atomic_store_n(&gp_interpose_table[i],
					 hold ? gp_interpose_held[i] : gp_interpose_real[i],
					 __ATOMIC_RELEASE);
	}
}

void gp_interpose_wait(void)
{
	gp_gate_pass(&gp_shim.gate);
}
