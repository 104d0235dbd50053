/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_FAULT_H
#define GP_SHIM_SOFT_EXEC_FAULT_H
/*
 * Illegal device addresses are illegal host addresses: a SIGSEGV or SIGBUS of a thread inside an
 * operation leaves it with siglongjmp to scratch->escape. Any other fault goes to the handler that
 * was there before.
 */
#include "shim/soft/exec/warp.h"

/* Installs the handlers once per process and unblocks both signals in this thread. */
gp_must_check int gp_exec_fault_init(struct gp_exec_scratch *scratch, struct gp_err *err);
/* From now on a fault of this thread belongs to @scratch; NULL: to nobody. */
void gp_exec_fault_guard(struct gp_exec_scratch *scratch);

#endif
