/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTDATA_CUDA_COMMON_H
#define TESTDATA_CUDA_COMMON_H
/*
 * What every program in this folder shares: options, error checks, deterministic numbers, the hash
 * and the closing line
 *
 *     PROGRAM hash=<16 hex digits> wrong=<count> seconds=<s>
 *
 * Two runs with the same options on the same device must print the same hash, so results never
 * depend on the order in which threads ran. Exit status: 0 right, 1 wrong results, 2 could not run.
 *
 * Host and device must round alike where a program compares bit for bit: every product that feeds
 * a sum is written as fmaf(), which leaves neither compiler a choice.
 */
#include <cuda_runtime.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((uint64_t)1 << 20)

/* Ends the program with status 2 and one line on stderr when a runtime call fails. */
#define CU(call) cu_check((call), #call, __FILE__, __LINE__)

static inline void cu_check(cudaError_t e, const char *call, const char *file, int line)
{
	if (e == cudaSuccess)
		return;
	fflush(stdout);
	fprintf(stderr, "%s: %s failed: %s (error %d, %s:%d)\n", program_invocation_short_name,
		call, cudaGetErrorString(e), (int)e, file, line);
	exit(2);
}

/* One numeric option "--name N" (or "--name=N"), from @min to @max; *@value holds the default. */
struct option_def {
	const char *name;
	uint64_t *value;
	uint64_t min, max;
	const char *help;
};

static inline void options_help(const char *what, const struct option_def *defs, size_t n_defs)
{
	printf("usage: %s [option]...\n%s\n", program_invocation_short_name, what);
	for (size_t i = 0; i < n_defs; i++)
		printf("  --%-8s N  %s (%llu)\n", defs[i].name, defs[i].help,
		       (unsigned long long)*defs[i].value);
	printf("  --help        show this text\n");
}

static inline void options_set(const struct option_def *def, const char *text)
{
	char *end;

	errno = 0;
	*def->value = strtoull(text, &end, 10);
	if (errno == 0 && *text >= '0' && *text <= '9' && *end == '\0' && *def->value >= def->min &&
	    *def->value <= def->max)
		return;
	fprintf(stderr, "%s: --%s %s: a number from %llu to %llu is needed\n",
		program_invocation_short_name, def->name, text, (unsigned long long)def->min,
		(unsigned long long)def->max);
	exit(2);
}

/* Reads the command line into *defs[].value; --help and mistakes end the program. */
template <size_t N>
static void options_parse(int argc, char **argv, const char *what,
			  const struct option_def (&defs)[N])
{
	for (int i = 1; i < argc; i++) {
		const struct option_def *def = NULL;
		const char *text = NULL;

		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			options_help(what, defs, N);
			exit(0);
		}
		for (size_t d = 0; d < N && !text; d++) {
			size_t len = strlen(defs[d].name);

			if (strncmp(argv[i], "--", 2) != 0 ||
			    strncmp(argv[i] + 2, defs[d].name, len) != 0)
				continue;
			def = &defs[d];
			if (argv[i][2 + len] == '=')
				text = argv[i] + 2 + len + 1;
			else if (argv[i][2 + len] == '\0' && i + 1 < argc)
				text = argv[++i];
		}
		if (!text) {
			fprintf(stderr, "%s: %s: unknown option or no value; see --help\n",
				program_invocation_short_name, argv[i]);
			exit(2);
		}
		options_set(def, text);
	}
}

/* splitmix64's finaliser: the deterministic random number that belongs to @x. */
static inline __host__ __device__ uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* The random float that belongs to @x, in [-1, 1), a multiple of 2^-23 and so exact. */
static inline __host__ __device__ float unit_float(uint64_t x)
{
	return (float)((int32_t)(mix64(x) >> 40) - (1 << 23)) * (1.0f / (1 << 23));
}

/* FNV-1a, 64 bits. Start with FNV_INIT, feed the result back for further parts. */
#define FNV_INIT 0xcbf29ce484222325ull

static inline uint64_t fnv64(uint64_t hash, const void *data, size_t n_bytes)
{
	const unsigned char *p = (const unsigned char *)data;

	for (size_t i = 0; i < n_bytes; i++)
		hash = (hash ^ p[i]) * 0x100000001b3ull;
	return hash;
}

/* CLOCK_MONOTONIC in seconds. */
static inline double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* malloc() that ends the program when there is no memory. The caller frees. */
template <typename T> static T *host_alloc(uint64_t n)
{
	T *p = (T *)malloc(n * sizeof(T));

	if (!p) {
		fprintf(stderr, "%s: no host memory for %llu bytes; choose a smaller --mb\n",
			program_invocation_short_name, (unsigned long long)(n * sizeof(T)));
		exit(2);
	}
	return p;
}

/* cudaMalloc() for @n elements, filled from @from unless that is NULL. Free with cudaFree(). */
template <typename T> static T *device_alloc(const T *from, uint64_t n)
{
	T *p;

	CU(cudaMalloc(&p, n * sizeof(T)));
	if (from)
		CU(cudaMemcpy(p, from, n * sizeof(T), cudaMemcpyHostToDevice));
	return p;
}

/* The step with which to visit @n items so that at most @budget (>= 1) are visited. */
static inline uint64_t sample_step(uint64_t n, uint64_t budget)
{
	return n <= budget ? 1 : (n + budget - 1) / budget;
}

/* Prints the closing line; returns the exit status. */
static inline int report(const char *program, uint64_t hash, uint64_t wrong, double seconds)
{
	printf("%s hash=%016llx wrong=%llu seconds=%.3f\n", program, (unsigned long long)hash,
	       (unsigned long long)wrong, seconds);
	fflush(stdout);
	return wrong ? 1 : 0;
}

#endif
