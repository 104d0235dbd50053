/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_H
#define GP_SHIM_SOFT_EXEC_H
/*
 * Runs one thread block of a decoded kernel on the calling thread: the warp-vector interpreter.
 * Device addresses are host addresses. The driver (shim/soft/driver) owns the worker threads, hands
 * out blocks and decides when a block must stand still.
 */
#include "base/err.h"
#include "shim/ptx/ptx.h"

#include <stdint.h>

/*
 * The launch stands still while *@stop is non-zero: the interpreter reads it (relaxed, any
 * thread may write it) at least once every 1,000 warp instructions and at every spin-loop back
 * edge, and then calls @park, which returns 0 to go on or non-zero to abandon the launch.
 */
struct gp_exec_launch {
	const struct gp_ptx_kernel *kernel;
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t dyn_shared_bytes;
	const void *params; /* packed as gp_ptx_kernel_info.params says */
	const volatile uint32_t *stop;
	int (*park)(void *arg);
	void *park_arg;
};

/* Registers, shared and local memory of one worker thread, kept between blocks. Not thread-safe. */
struct gp_exec_scratch;
struct gp_exec_scratch *gp_exec_scratch_new(void); /* NULL when out of memory */
void gp_exec_scratch_free(struct gp_exec_scratch *scratch);

/*
 * Runs block number @block (x fastest) to its end. Blocks only in @park. 0; -ECANCELED if @park
 * said so; -EFAULT for an illegal address; -EILSEQ for a trap, an assertion, a barrier that can
 * never complete, or an instruction that is not supported (@err names kernel, PTX line and opcode;
 * found when a thread gets there, so what it stored before stays); -EINVAL for a block of no or
 * more than 1024 threads; -ENOMEM.
 *
 * Illegal addresses are found by SIGSEGV and SIGBUS: the first call in a process installs handlers,
 * which pass on what is not theirs, and the first call with a scratch unblocks both signals in the
 * calling thread. An address that is mapped is legal, whoever mapped it; .shared ones are checked,
 * but not where the program made them generic.
 * While @park runs, faults are not the interpreter's. @err must be given and stay valid meanwhile.
 * f32 and f64 arithmetic is IEEE exact; .approx functions are the C library's.
 */
gp_must_check int gp_exec_block(const struct gp_exec_launch *launch, uint64_t block,
				struct gp_exec_scratch *scratch, struct gp_err *err);

#endif
