/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_RUN_H
#define GP_SHIM_SOFT_EXEC_RUN_H
#include "shim/soft/exec/warp.h"

/*
 * Runs the warp until all its lanes have exited or stand at a barrier, or its slice is over. 0, or
 * what gp_exec_block gives. Faults leave through scratch->escape.
 */
gp_must_check int gp_exec_run_warp(struct gp_exec_warp *w);

#endif
