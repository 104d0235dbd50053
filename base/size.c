/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIZE_MAX_BYTES 0x1p62

int gp_size_parse(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	double value, scale = 1;
	const char *unit;
	char *end;

	/* strtod also takes signs, spaces, hex, "inf" and "nan"; none of them is a size. */
	if (!isdigit((unsigned char)text[0]) || strpbrk(text, "xXpPeEnN"))
		return -EINVAL;
	errno = 0;
	value = strtod(text, &end);
	if (errno)
		return -ERANGE;
	if (*end && (unit = strchr(units, toupper((unsigned char)*end)))) {
		for (const char *u = units; u <= unit; u++)
			scale *= 1024;
		end++;
		if (!strcmp(end, "iB") || !strcmp(end, "B"))
			end = strchr(end, '\0');
	} else if (!strcmp(end, "B")) {
		end++;
	}
	if (*end)
		return -EINVAL;
	value *= scale;
	if (value >= SIZE_MAX_BYTES)
		return -ERANGE;
	*ret_bytes = (uint64_t)value;
	return 0;
}

const char *gp_size_format(uint64_t bytes, char *buf, size_t buf_bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	size_t i = 0;

	while (value >= 1024 && i + 1 < GP_ARRAY_SIZE(units)) {
		value /= 1024;
		i++;
	}
	snprintf(buf, buf_bytes, value == floor(value) ? "%.0f %s" : "%.1f %s", value, units[i]);
	return buf;
}
