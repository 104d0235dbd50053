/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_DRIVER_H
#define GP_BASE_DRIVER_H
/* Finds NVIDIA's driver library by absolute path, past our own libcuda.so.1. */
#include "base/err.h"

/*
 * The path of the real libcuda.so.1: $GPUPRES_DRIVER if set, else the first of the usual folders
 * that has one outside gpupres' own tree. -ENOENT: no driver, said with what to do.
 */
gp_must_check int gp_driver_find(char *buf, size_t buf_bytes, struct gp_err *err);

/*
 * The root of gpupres' own tree, which holds bin/, libexec/gpupres/ and lib/gpupres/, from the
 * place of the running program (bin/X or libexec/gpupres/X). -ENOENT if it has no such shape.
 */
gp_must_check int gp_tree_root(char *buf, size_t buf_bytes, struct gp_err *err);

#endif
