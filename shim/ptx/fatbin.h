/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_PTX_FATBIN_H
#define GP_SHIM_PTX_FATBIN_H
/*
 * Reads what nvcc embeds: fatbin wrapper (0x466243B1), bare fatbin (0xBA55ED50), or plain PTX text.
 * Payloads raw, LZ4 block or zstd.
 */
#include "base/err.h"

#include <stddef.h>

/*
 * Finds the PTX best suited for compute capability @sm (e.g. 90: the highest entry <= sm) in
 * @image, an image as cuModuleLoadData takes it, decompressed into *@ret_text (caller frees,
 * NUL-terminated). An image with no code at all (nvcc's empty device-link fatbin) gives *@ret_len =
 * 0 and returns 0. -ENOEXEC if there is only machine code; -EINVAL for what is no image.
 */
gp_must_check int gp_fatbin_find_ptx(const void *image, unsigned int sm, char **ret_text,
				     size_t *ret_len, struct gp_err *err);

#endif
