/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_UNIT_CHECK_H
#define GP_TESTS_UNIT_CHECK_H
/* Checks for unit tests: print where and what, and exit. */
#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #cond);   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long check_a = (long long)(a), check_b = (long long)(b);                      \
		if (check_a != check_b) {                                                          \
			fprintf(stderr, "%s:%d: %s is %lld, %s is %lld\n", __FILE__, __LINE__, #a, \
				check_a, #b, check_b);                                             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
