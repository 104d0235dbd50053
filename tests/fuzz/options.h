/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_FUZZ_OPTIONS_H
#define GP_TESTS_FUZZ_OPTIONS_H
/* The command line of all fuzzers: [--seed N] [--seconds N] [--sessions N]. */
#include "base/time.h"
#include "tests/fuzz/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GP_FUZZ_SECONDS 20

struct gp_fuzz_options {
	uint64_t seed;
	uint64_t end_ns;
	uint64_t max_sessions; /* 0: until end_ns */
};

static inline struct gp_fuzz_options gp_fuzz_parse(int argc, char **argv)
{
	struct gp_fuzz_options o = { .seed = gp_now_ns() };
	uint64_t seconds = GP_FUZZ_SECONDS;

	for (int i = 1; i + 1 < argc; i += 2) {
		uint64_t value = strtoull(argv[i + 1], NULL, 10);

		if (!strcmp(argv[i], "--seed"))
			o.seed = value;
		else if (!strcmp(argv[i], "--seconds"))
			seconds = value;
		else if (!strcmp(argv[i], "--sessions"))
			o.max_sessions = value;
	}
	o.end_ns = gp_now_ns() + seconds * GP_NS_PER_SEC;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("--seed %llu --seconds %llu\n", (unsigned long long)o.seed,
	       (unsigned long long)seconds);
	return o;
}

#endif
