/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_UNIT_CHECK_H
#define GP_TESTS_UNIT_CHECK_H
#include <stdio.h>
#include <stdlib.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: not true: %s\n", __FILE__, __LINE__, __func__, \
				#cond);                                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long a_ = (long long)(a), b_ = (long long)(b);                                \
		if (a_ != b_) {                                                                    \
			fprintf(stderr, "%s:%d: %s: %s = %lld, %s = %lld\n", __FILE__, __LINE__,   \
				__func__, #a, a_, #b, b_);                                         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
