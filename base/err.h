/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_ERR_H
#define GP_BASE_ERR_H
/*
 * Errors carry a negative errno and one line of text for the user: what failed, on what, what to
 * do. A fallible function returns 0 or a negative errno and fills a caller-owned struct gp_err;
 * each layer on the way out may prepend context. Text is truncated, never allocated.
 */
#include "base/cleanup.h"

struct gp_err {
	int code; /* negative errno; 0 = no error recorded */
	char msg[256];
};

/* Fills @err (may be NULL) and returns @code, so that failing is one line. @code must be negative.
 */
int gp_err_set(struct gp_err *err, int code, const char *fmt, ...) gp_printf(3, 4);

/* As gp_err_set, with ": <strerror(-code)>" appended. */
int gp_err_sys(struct gp_err *err, int code, const char *fmt, ...) gp_printf(3, 4);

/* Puts "context: " in front of the recorded message and returns err->code (-EIO for a NULL @err).
 */
int gp_err_prepend(struct gp_err *err, const char *fmt, ...) gp_printf(2, 3);

#endif
