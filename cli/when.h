/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_CLI_WHEN_H
#define GP_CLI_WHEN_H
/* Points in time, as people give them. */
#include "base/err.h"

#include <stdint.h>

/*
 * Reads "2026-05-04", "2026-05-04 12:30", "2026-05-04 12:30:15" (a T in place of the space will
 * do), all in local time, or how long ago: "90s", "15m", "2h", "7d". @now_ns and *@ret_ns: ns since
 * 1970. -EINVAL.
 */
gp_must_check int gp_when_parse(const char *text, uint64_t now_ns, uint64_t *ret_ns);

#endif
