/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/when.h"

#include "base/time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int when_parse_ago(const char *text, uint64_t now_ns, uint64_t *ret_ns)
{
	static const struct {
		char letter;
		uint64_t seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 10);
	for (size_t i = 0; i < GP_ARRAY_SIZE(units); i++) {
		uint64_t unit_ns = units[i].seconds * GP_NS_PER_SEC;

		if (*end != units[i].letter || end[1] || errno)
			continue;
		*ret_ns = n < now_ns / unit_ns ? now_ns - n * unit_ns : 0;
		return 0;
	}
	return -EINVAL;
}

static int when_parse_date(const char *text, uint64_t *ret_ns)
{
	static const char *const formats[] = { "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S",
					       "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S" };

	for (size_t i = 0; i < GP_ARRAY_SIZE(formats); i++) {
		struct tm tm = { .tm_isdst = -1 };
		const char *end = strptime(text, formats[i], &tm);
		time_t seconds;

		if (!end || *end)
			continue;
		seconds = mktime(&tm);
		if (seconds < 0)
			return -EINVAL;
		*ret_ns = (uint64_t)seconds * GP_NS_PER_SEC;
		return 0;
	}
	return -EINVAL;
}

int gp_when_parse(const char *text, uint64_t now_ns, uint64_t *ret_ns)
{
	size_t digits = strspn(text, "0123456789");

	if (digits && strchr("smhd", text[digits]) && text[digits])
		return when_parse_ago(text, now_ns, ret_ns);
	return when_parse_date(text, ret_ns);
}
