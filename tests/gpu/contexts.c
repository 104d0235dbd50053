/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contexts: creates and destroys CUDA contexts and memory until it is told to stop (SIGTERM): the
 * neighbour that holds the driver's locks most. Prints how many contexts it made.
 */
#include <cuda.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static volatile sig_atomic_t contexts_stop;

static void contexts_on_signal(int signo)
{
	contexts_stop = 1;
}

static void contexts_check(CUresult r, const char *call)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "contexts: %s failed with %d\n", call, r);
		exit(1);
	}
}

int main(void)
{
	unsigned long n = 0;

	signal(SIGTERM, contexts_on_signal);
	contexts_check(cuInit(0), "cuInit");
	while (!contexts_stop) {
		CUdeviceptr p;
		CUcontext c;

		contexts_check(cuCtxCreate(&c, NULL, 0, 0), "cuCtxCreate");
		for (int i = 0; i < 16; i++) {
			contexts_check(cuMemAlloc(&p, 64u << 20), "cuMemAlloc");
			contexts_check(cuMemFree(p), "cuMemFree");
		}
		contexts_check(cuCtxDestroy(c), "cuCtxDestroy");
		if (n++ == 0) {
			puts("looping");
			fflush(stdout);
		}
	}
	printf("contexts: %lu\n", n);
	return 0;
}
