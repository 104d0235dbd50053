/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_INTERPOSE_DRIVER_H
#define GP_SHIM_INTERPOSE_DRIVER_H
/*
 * The real driver behind us: opened at the first call of any cu* function, its functions resolved
 * into one table. The exported functions and the stubs are generated from symbols.inc.
 */
#include "base/rm/watch.h"

#include <cuda.h>
#include <stdbool.h>

/* cuda.h renames these to their newest variants; we tell the variants apart. */
#undef cuCtxDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuStreamBeginCapture
#undef cuStreamDestroy

enum gp_cu_index {
#define GP_CU(name)	    GP_CU_##name,
#define GP_CU_WRAPPED(name) GP_CU_##name,
#include "shim/interpose/symbols.inc"
#undef GP_CU
#undef GP_CU_WRAPPED
	GP_CU_COUNT_,
};

#define GP_INTERPOSE_HASH_SLOTS 2048 /* power of two, over twice GP_CU_COUNT_ */
_Static_assert(GP_CU_COUNT_ * 2 < GP_INTERPOSE_HASH_SLOTS, "address hash too small");

struct gp_interpose {
	void *driver;		   /* NULL: none could be opened */
	struct gp_rm_watch *watch; /* NULL: the driver's ioctls are not seen */
	struct {
		void *real; /* NULL = empty */
		enum gp_cu_index index;
	} by_address[GP_INTERPOSE_HASH_SLOTS];
};

/*
 * The real functions; each slot starts at a stub that binds all of them. Written once, before any
 * call goes through.
 */
extern void *gp_interpose_real[GP_CU_COUNT_];

/*
 * Calls the real function @name past our own: GP_DRIVER for those declared in cuda.h under this
 * name, GP_REAL inside the file that defines gp_wrap_@name. Never returns an error of our own
 * but CUDA_ERROR_NO_DEVICE (no driver) and CUDA_ERROR_NOT_FOUND (the driver lacks it).
 */
#define GP_DRIVER(name) ((__typeof__(&name))gp_interpose_real[GP_CU_##name])
#define GP_REAL(name)	((__typeof__(&gp_wrap_##name))gp_interpose_real[GP_CU_##name])

/* Defines the function that the exported @name jumps to; see symbols.inc. */
#define GP_WRAP(name, ...)                                                                         \
	CUresult gp_wrap_##name(__VA_ARGS__);                                                      \
	CUresult gp_wrap_##name(__VA_ARGS__)

/* Opens the driver and fills the tables; later calls return at once. Called by the stubs. */
void gp_interpose_bind(void);

/*
 * While @hold, functions that look up device memory by address (copies, sets, queries) wait at
 * their slot for the gate to open: the driver would refuse an address whose memory is away.
 */
void gp_interpose_hold(bool hold);

/* Waits for the gate. Called by the stubs of held slots. */
void gp_interpose_wait(void);

/* Our exported function of this index. */
void *gp_interpose_exported(enum gp_cu_index index);

/*
 * Our exported function for a real one that was asked for by the name @symbol, or @real itself. Of
 * several functions at one address (aliases, or bodies that the linker folded) the one of that
 * name or a variant of it.
 */
void *gp_interpose_exported_for(const struct gp_interpose *ip, void *real, const char *symbol);

#endif
