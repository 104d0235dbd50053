/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_DRIVER_H
#define GP_SNAPSHOT_DRIVER_H
/*
 * The CUDA driver, opened by path so that neither our own libcuda.so.1 nor a search path comes in
 * between, with its ioctls watched: the subdevice it creates for this process is the object through
 * which channels of other processes are switched.
 */
#include "base/err.h"
#include "base/rm/watch.h"

#include <cuda.h>
#include <stdbool.h>

/* cuda.h maps some names to versioned ones; the entries of the table carry the mapped names. */
#define GP_DRIVER_FUNCTIONS(X)                                                                     \
	X(cuInit)                                                                                  \
	X(cuGetErrorName)                                                                          \
	X(cuDeviceGet)                                                                             \
	X(cuDeviceGetName)                                                                         \
	X(cuDeviceTotalMem)                                                                        \
	X(cuDevicePrimaryCtxRetain)                                                                \
	X(cuDevicePrimaryCtxRelease)                                                               \
	X(cuCtxSetCurrent)                                                                         \
	X(cuMemGetInfo)                                                                            \
	X(cuMemAlloc)                                                                              \
	X(cuMemFree)                                                                               \
	X(cuMemHostRegister)                                                                       \
	X(cuMemHostUnregister)                                                                     \
	X(cuMemHostGetDevicePointer)                                                               \
	X(cuMemImportFromShareableHandle)                                                          \
	X(cuMemRelease)                                                                            \
	X(cuMemAddressReserve)                                                                     \
	X(cuMemAddressFree)                                                                        \
	X(cuMemMap)                                                                                \
	X(cuMemUnmap)                                                                              \
	X(cuMemSetAccess)                                                                          \
	X(cuMemcpyDtoHAsync)                                                                       \
	X(cuMemcpyHtoDAsync)                                                                       \
	X(cuMemsetD8Async)                                                                         \
	X(cuStreamCreate)                                                                          \
	X(cuStreamDestroy)                                                                         \
	X(cuStreamSynchronize)                                                                     \
	X(cuEventCreate)                                                                           \
	X(cuEventDestroy)                                                                          \
	X(cuEventRecord)                                                                           \
	X(cuEventQuery)                                                                            \
	X(cuEventSynchronize)                                                                      \
	X(cuModuleLoadData)                                                                        \
	X(cuModuleUnload)                                                                          \
	X(cuModuleGetFunction)                                                                     \
	X(cuLaunchKernel)

struct gp_driver {
	void *library;
	bool soft; /* device addresses are host addresses */
	CUdevice device;
	CUcontext context; /* the primary one; current in the thread that opened */
	struct gp_rm_watch *watch;
	uint64_t total_bytes;
	char name[64];
#define GP_DRIVER_ENTRY(name) __typeof__(&name) name;
	GP_DRIVER_FUNCTIONS(GP_DRIVER_ENTRY)
#undef GP_DRIVER_ENTRY
};

struct gp_driver_options {
	const char *path; /* of libcuda.so.1 */
	bool soft;
	uint32_t device; /* ordinal */
	/*
	 * Takes the place of ioctl in the library; must call gp_rm_watch_ioctl with driver->watch.
	 * A function of its own because ioctl has no room for an argument.
	 */
	gp_rm_ioctl_fn hook;
};

/*
 * Opens the library, initialises CUDA and makes the device's primary context current in the
 * calling thread. Takes 0.3 to 0.5 s on a card. @driver must stay where it is: the hook uses it
 * during this call. For NVIDIA's driver all other GPUs are hidden from this process.
 */
gp_must_check int gp_driver_open(struct gp_driver *driver, const struct gp_driver_options *options,
				 struct gp_err *err);
void gp_driver_close(struct gp_driver *driver);

/* Makes the context current in another thread. */
gp_must_check int gp_driver_enter(const struct gp_driver *driver, struct gp_err *err);

/* Registers @bytes (may be 0) of host memory for copies and for access by the device. -EIO. */
gp_must_check int gp_driver_pin(const struct gp_driver *driver, void *memory, size_t bytes,
				struct gp_err *err);

/* 0 for CUDA_SUCCESS; else -ENOMEM (out of device memory) or -EIO with "@what: <CUDA's name>". */
gp_must_check int gp_driver_check(const struct gp_driver *driver, CUresult result, const char *what,
				  struct gp_err *err);

#endif
