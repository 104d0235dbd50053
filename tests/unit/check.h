/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_UNIT_CHECK_H
#define GP_TESTS_UNIT_CHECK_H
/*
 * Checks of the unit tests: a test is a program, the first check that fails prints where and what
 * and ends it with status 1. Not assert(): NDEBUG must not turn tests off. CHECK_SKIP ends the
 * program with 77, which ctest counts as skipped; its reason must be in tests/expected-skips.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__,   \
				#cond);                                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Integers (or pointers), compared as 64 bits and shown as signed and in hex; evaluated once. */
#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long check_a_ = (long long)(a), check_b_ = (long long)(b);                    \
		if (check_a_ != check_b_) {                                                        \
			fprintf(stderr, "%s:%d: %s: %s is %lld (%#llx), not %s, %lld (%#llx)\n",   \
				__FILE__, __LINE__, __func__, #a, check_a_,                        \
				(unsigned long long)check_a_, #b, check_b_,                        \
				(unsigned long long)check_b_);                                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_STR(a, b)                                                                            \
	do {                                                                                       \
		const char *check_a_ = (a), *check_b_ = (b);                                       \
		if (!check_a_ || !check_b_ || strcmp(check_a_, check_b_) != 0) {                   \
			fprintf(stderr, "%s:%d: %s: %s is \"%s\", not \"%s\"\n", __FILE__,         \
				__LINE__, __func__, #a, check_a_ ? check_a_ : "(null)",            \
				check_b_ ? check_b_ : "(null)");                                   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_SKIP(reason)                                                                         \
	do {                                                                                       \
		fprintf(stderr, "skipped: %s\n", (reason));                                        \
		exit(77);                                                                          \
	} while (0)

#endif
