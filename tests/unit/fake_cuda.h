/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_UNIT_FAKE_CUDA_H
#define GP_TESTS_UNIT_FAKE_CUDA_H
/* What a test may ask the fake driver. */
#include <cuda.h>

/* cudaProfiler.h, which not every toolkit's packages bring along. */
CUresult cuProfilerStart(void);

/* Calls of cuCtxSynchronize, and mappings that exist. */
int fake_n_synchronised(void);
int fake_n_mapped(void);

enum fake_event {
	FAKE_EXPORT,  /* in an export of memory */
	FAKE_BIND,    /* while cuThreadExchangeStreamCaptureMode is looked up by name */
	FAKE_CAPTURE, /* in the begin of a capture, which is already effective */
	FAKE_DESTROY, /* in the end of a context, which is already effective */
	FAKE_EVENTS_,
};

/* @hook is called at every @event, in the thread where that happens. */
void fake_on(enum fake_event event, void (*hook)(void));

#endif
