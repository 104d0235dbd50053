/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls: what a driver call costs through the libcuda.so.1 that the dynamic linker finds first.
 * Prints "NAME MEDIAN_NS" lines, medians over rounds, for tests/bench/run to compare.
 */
#include "base/time.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define CALLS_ROUNDS  21
#define CALLS_FORWARD 200000
#define CALLS_ALLOC   100

static CUresult (*calls_init)(unsigned int);
static CUresult (*calls_retain)(CUcontext *, CUdevice);
static CUresult (*calls_set)(CUcontext);
static CUresult (*calls_get)(CUcontext *);
static CUresult (*calls_alloc)(CUdeviceptr *, size_t);
static CUresult (*calls_free)(CUdeviceptr);

static void calls_check(CUresult r, const char *call)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "calls: %s failed with %d\n", call, r);
		exit(1);
	}
}

static void calls_open(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);

	if (!cuda) {
		fprintf(stderr, "calls: %s\n", dlerror());
		exit(1);
	}
#define CALLS_FIND(var, name) var = (__typeof__(var))dlsym(cuda, name)
	CALLS_FIND(calls_init, "cuInit");
	CALLS_FIND(calls_retain, "cuDevicePrimaryCtxRetain");
	CALLS_FIND(calls_set, "cuCtxSetCurrent");
	CALLS_FIND(calls_get, "cuCtxGetCurrent");
	CALLS_FIND(calls_alloc, "cuMemAlloc_v2");
	CALLS_FIND(calls_free, "cuMemFree_v2");
#undef CALLS_FIND
}

static int calls_compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void calls_measure(const char *name, void (*once)(void), int n)
{
	double ns[CALLS_ROUNDS];

	once();
	for (int round = 0; round < CALLS_ROUNDS; round++) {
		uint64_t begin = gp_now_ns();

		for (int i = 0; i < n; i++)
			once();
		ns[round] = (double)(gp_now_ns() - begin) / n;
	}
	qsort(ns, CALLS_ROUNDS, sizeof(ns[0]), calls_compare);
	printf("%s %.1f\n", name, ns[CALLS_ROUNDS / 2]);
}

static void calls_forward(void)
{
	CUcontext current;

	calls_get(&current);
}

static void calls_allocate(size_t bytes)
{
	CUdeviceptr p;

	calls_check(calls_alloc(&p, bytes), "cuMemAlloc");
	calls_check(calls_free(p), "cuMemFree");
}

static void calls_small(void)
{
	calls_allocate(4096);
}

static void calls_large(void)
{
	calls_allocate(4u << 20);
}

int main(void)
{
	CUcontext context;

	calls_open();
	calls_check(calls_init(0), "cuInit");
	calls_check(calls_retain(&context, 0), "cuDevicePrimaryCtxRetain");
	calls_check(calls_set(context), "cuCtxSetCurrent");
	calls_measure("cuCtxGetCurrent", calls_forward, CALLS_FORWARD);
	calls_measure("cuMemAlloc+cuMemFree,4KiB", calls_small, CALLS_ALLOC);
	calls_measure("cuMemAlloc+cuMemFree,4MiB", calls_large, CALLS_ALLOC);
	return 0;
}
