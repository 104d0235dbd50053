/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_TIME_H
#define GP_BASE_TIME_H
#include <stdint.h>
#include <time.h>

#define GP_NS_PER_SEC 1000000000ull
#define GP_NS_PER_MS  1000000ull

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
