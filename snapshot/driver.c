/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/driver.h"

#include "base/log.h"
#include "base/rm/got.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define DRIVER_NAME(name) #name

static int driver_libc_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg);
}

int gp_driver_check(const struct gp_driver *d, CUresult result, const char *what,
		    struct gp_err *err)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return 0;
	d->cuGetErrorName(result, &name);
	return gp_err_set(err, result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, "%s: %s (%d)",
			  what, name ? name : "unknown CUDA error", (int)result);
}

static int driver_resolve(struct gp_driver *d, const char *path, struct gp_err *err)
{
#define DRIVER_RESOLVE(name)                                                                       \
	d->name = (__typeof__(d->name))dlsym(d->library, DRIVER_NAME(name));                       \
	if (!d->name)                                                                              \
		return gp_err_set(err, -ENOSYS, "%s has no %s; a newer driver is needed", path,    \
				  DRIVER_NAME(name));
	GP_DRIVER_FUNCTIONS(DRIVER_RESOLVE)
#undef DRIVER_RESOLVE
	return 0;
}

/* Before cuInit, so that no object of this process goes unseen. */
static int driver_watch(struct gp_driver *d, const struct gp_driver_options *o, struct gp_err *err)
{
	gp_rm_ioctl_fn next = (gp_rm_ioctl_fn)dlsym(d->library, "rm_ioctl");
	struct gp_err why = { 0 };

	d->watch = gp_rm_watch_new(next ? next : driver_libc_ioctl);
	if (!d->watch)
		return gp_err_sys(err, -ENOMEM, "channel watch");
	/* A mover that cannot freeze still moves memory of drained jobs. */
	if (gp_got_patch(d->library, "ioctl", (void *)(uintptr_t)o->hook, &why) < 0)
		gp_log(GP_LOG_WARN, "cannot_freeze", "reason=\"%s\"", why.msg);
	return 0;
}

static int driver_start(struct gp_driver *d, const struct gp_driver_options *o, struct gp_err *err)
{
	size_t total = 0;
	int r;

	r = gp_driver_check(d, d->cuInit(0), "cuInit", err);
	if (r < 0)
		return r;
	/* CUDA_VISIBLE_DEVICES leaves NVIDIA's driver one GPU, which then is number 0. */
	r = gp_driver_check(d, d->cuDeviceGet(&d->device, d->soft ? (int)o->device : 0),
			    "cuDeviceGet", err);
	if (r < 0)
		return gp_err_prepend(err, "device %u", o->device);
	r = gp_driver_check(d, d->cuDeviceGetName(d->name, sizeof(d->name), d->device),
			    "cuDeviceGetName", err);
	if (r < 0)
		return r;
	r = gp_driver_check(d, d->cuDeviceTotalMem(&total, d->device), "cuDeviceTotalMem", err);
	if (r < 0)
		return r;
	d->total_bytes = total;
	r = gp_driver_check(d, d->cuDevicePrimaryCtxRetain(&d->context, d->device),
			    "cannot create a context: cuDevicePrimaryCtxRetain", err);
	if (r < 0)
		return r;
	return gp_driver_enter(d, err);
}

int gp_driver_open(struct gp_driver *d, const struct gp_driver_options *o, struct gp_err *err)
{
	char ordinal[16];
	int r;

	memset(d, 0, sizeof(*d));
	d->soft = o->soft;
	snprintf(ordinal, sizeof(ordinal), "%u", o->device);
	if (!o->soft && setenv("CUDA_VISIBLE_DEVICES", ordinal, 1) < 0)
		return gp_err_sys(err, -errno, "cannot set CUDA_VISIBLE_DEVICES");
	d->library = dlopen(o->path, RTLD_NOW | RTLD_LOCAL);
	if (!d->library)
		return gp_err_set(err, -ENOENT, "cannot open the driver: %s", dlerror());
	r = driver_resolve(d, o->path, err);
	if (r == 0)
		r = driver_watch(d, o, err);
	if (r == 0)
		r = driver_start(d, o, err);
	if (r < 0)
		gp_driver_close(d);
	return r;
}

void gp_driver_close(struct gp_driver *d)
{
	if (d->context) {
		d->cuCtxSetCurrent(NULL);
		d->cuDevicePrimaryCtxRelease(d->device);
	}
	/*
	 * The library stays loaded and the watch alive: threads of the driver may still issue
	 * ioctls through the hook. Both end with the process.
	 */
	d->context = NULL;
}

int gp_driver_enter(const struct gp_driver *d, struct gp_err *err)
{
	return gp_driver_check(d, d->cuCtxSetCurrent(d->context), "cuCtxSetCurrent", err);
}

int gp_driver_pin(const struct gp_driver *d, void *memory, size_t bytes, struct gp_err *err)
{
	if (bytes == 0)
		return 0;
	return gp_driver_check(d, d->cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_DEVICEMAP),
			       "cannot register host memory: cuMemHostRegister", err);
}
