/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int gp_err_set(struct gp_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	assert(code < 0);
	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return code;
}

int gp_err_sys(struct gp_err *err, int code, const char *fmt, ...)
{
	size_t used;
	va_list ap;
	int n;

	assert(code < 0);
	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	used = n < 0 ? 0 : (size_t)n;
	if (used < sizeof(err->msg))
		snprintf(err->msg + used, sizeof(err->msg) - used, ": %s", strerror(-code));
	return code;
}

int gp_err_prepend(struct gp_err *err, const char *fmt, ...)
{
	char old[sizeof(err->msg)];
	size_t used;
	va_list ap;
	int n;

	if (!err)
		return -EIO;
	memcpy(old, err->msg, sizeof(old));
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	used = n < 0 ? 0 : (size_t)n;
	if (used < sizeof(err->msg))
		snprintf(err->msg + used, sizeof(err->msg) - used, ": %.*s",
			 (int)(sizeof(err->msg) - used), old);
	return err->code ? err->code : -EIO;
}
