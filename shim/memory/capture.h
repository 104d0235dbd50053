/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_MEMORY_CAPTURE_H
#define GP_SHIM_MEMORY_CAPTURE_H
/*
 * Which streams are being captured into graphs. Synchronising a context while one of its streams
 * is captured would invalidate the capture, so frees wait until there is none.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>

#define GP_CAPTURES_MAX 64

struct gp_captures {
	pthread_mutex_t lock;
	CUstream streams[GP_CAPTURES_MAX];
	unsigned int n;
};

void gp_captures_init(struct gp_captures *c);
bool gp_captures_any(struct gp_captures *c);

/* @stream is destroyed, and its capture with it. */
void gp_captures_end(struct gp_captures *c, CUstream stream);

#endif
