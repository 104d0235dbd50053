/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_LOG_H
#define GP_BASE_LOG_H
/*
 * One event a line on stderr: "<level> <program> event=<event> key=value...". Values with spaces
 * are the caller's to quote (%s in '"%s"').
 */
#include "base/cleanup.h"

enum gp_log_level { GP_LOG_ERR, GP_LOG_WARN, GP_LOG_INFO, GP_LOG_DEBUG };

/* Call it before there are threads. @program must outlive all logging. */
void gp_log_init(const char *program, enum gp_log_level max);

/* From any thread, at any time. */
void gp_log_set_level(enum gp_log_level max);

/* Parses "err", "warn", "info" or "debug"; -EINVAL otherwise. */
gp_must_check int gp_log_level_parse(const char *text, enum gp_log_level *ret_level);

/* Writes one line with a single write(2); never fails, never allocates, keeps errno. */
void gp_log(enum gp_log_level level, const char *event, const char *fmt, ...) gp_printf(3, 4);

#endif
