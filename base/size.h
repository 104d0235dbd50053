/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_SIZE_H
#define GP_BASE_SIZE_H
#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

/* Unit of hashing, dedup and checksum; the driver's allocation granularity (2 MiB on an H200, as
 * cuMemGetAllocationGranularity says).
 */
#define GP_CHUNK_BYTES (2ull << 20)

static inline uint64_t gp_round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/*
 * Parses "512M", "1.5G", "4096": a decimal number with an optional suffix K, M, G or T (binary
 * units; a trailing "iB" or "B" is allowed). -EINVAL for anything else, -ERANGE over 2^62.
 */
gp_must_check int gp_size_parse(const char *text, uint64_t *ret_bytes);

/* Prints @bytes in the largest unit that keeps it >= 1, e.g. "1.5 GiB"; returns @buf. */
const char *gp_size_format(uint64_t bytes, char *buf, size_t buf_bytes);

#endif
