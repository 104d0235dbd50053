/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name;
	uint64_t ns;
} time_units[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", GP_NS_PER_MS },
	{ "s", GP_NS_PER_SEC },
	{ "min", 60 * GP_NS_PER_SEC },
	{ "h", 3600 * GP_NS_PER_SEC },
	{ "d", 86400 * GP_NS_PER_SEC },
};

int gp_duration_parse(const char *text, uint64_t *ret_ns)
{
	uint64_t value = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	}
	if (p == text)
		return -EINVAL;
	if (!*p && value == 0) {
		*ret_ns = 0;
		return 0;
	}
	for (size_t i = 0; i < GP_ARRAY_SIZE(time_units); i++) {
		if (strcmp(p, time_units[i].name) != 0)
			continue;
		if (__builtin_mul_overflow(value, time_units[i].ns, &value) || value > GP_NS_MAX)
			return -ERANGE;
		*ret_ns = value;
		return 0;
	}
	return -EINVAL;
}
