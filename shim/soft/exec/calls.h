/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_CALLS_H
#define GP_SHIM_SOFT_EXEC_CALLS_H
/* Functions that device code calls and the device answers. */
#include "shim/soft/exec/warp.h"

/* printf of device code, lane by lane, to stdout: .a format, .b packed arguments, .d characters. */
void gp_exec_vprintf(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask);
/* Prints the failed assertion of the first lane to stderr, in CUDA's words. */
void gp_exec_assertfail(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask);

#endif
