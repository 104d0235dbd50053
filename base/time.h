/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_TIME_H
#define GP_BASE_TIME_H
#include "base/cleanup.h"

#include <stdint.h>
#include <time.h>

#define GP_NS_PER_SEC 1000000000ull
#define GP_NS_PER_MS  1000000ull
/* The longest duration that may be configured: added to the time now it does not wrap. */
#define GP_NS_MAX (UINT64_MAX / 4)

/*
 * Parses "30s", "500ms", "90d": digits and one of ns, us, ms, s, min, h, d without a space; "0"
 * needs no unit. -EINVAL for anything else, -ERANGE over GP_NS_MAX.
 */
gp_must_check int gp_duration_parse(const char *text, uint64_t *ret_ns);

/* CLOCK_MONOTONIC in ns: all durations and deadlines. */
static inline uint64_t gp_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * GP_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* CLOCK_REALTIME in ns: only for timestamps shown to people and kept in the store. */
static inline uint64_t gp_wallclock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * GP_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

#endif
