/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const log_names[] = { "err", "warn", "info", "debug" };

/* The one process-wide setting. @max is atomic: it may change while other threads log. */
static struct {
	const char *program;
	enum gp_log_level max;
} log_config = { "gpupres", GP_LOG_WARN };

void gp_log_init(const char *program, enum gp_log_level max)
{
	log_config.program = program;
	gp_log_set_level(max);
}

void gp_log_set_level(enum gp_log_level max)
{
	__atomic_store_n(&log_config.max, max, __ATOMIC_RELAXED);
}

int gp_log_level_parse(const char *text, enum gp_log_level *ret_level)
{
	for (size_t i = 0; i < GP_ARRAY_SIZE(log_names); i++) {
		if (!strcmp(text, log_names[i])) {
			*ret_level = (enum gp_log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void gp_log(enum gp_log_level level, const char *event, const char *fmt, ...)
{
	int saved = errno, n, m;
	char line[1024];
	va_list ap;

	if (level > __atomic_load_n(&log_config.max, __ATOMIC_RELAXED))
		return;
	n = snprintf(line, sizeof(line), "%s %s event=%s ", log_names[level], log_config.program,
		     event);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	n += m < 0 ? 0 : m;
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	/* A log line that cannot be written has nowhere to be reported. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		errno = saved;
	errno = saved;
}
