/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_PTX_FATBIN_INTERNAL_H
#define GP_SHIM_PTX_FATBIN_INTERNAL_H
/* For tests and fuzzing: the reader with a known image size. */
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Large, yet adding header sizes to it does not wrap. */
#define GP_FATBIN_UNBOUNDED (UINT64_MAX / 2)

/* As gp_fatbin_find_ptx; reads at most @avail bytes of @image (what a wrapper points to aside). */
gp_must_check int gp_fatbin_find_ptx_bounded(const void *image, uint64_t avail, unsigned int sm,
					     char **ret_text, size_t *ret_len, struct gp_err *err);

#endif
