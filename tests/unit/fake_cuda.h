/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_UNIT_FAKE_CUDA_H
#define GP_TESTS_UNIT_FAKE_CUDA_H
/* What a test may ask the fake driver. */
#include <cuda.h>
#include <cudaProfiler.h>

/* Calls of cuCtxSynchronize, and mappings that exist. */
int fake_n_synchronised(void);
int fake_n_mapped(void);

/* @hook is called in every export of memory. */
void fake_on_export(void (*hook)(void));

/* @hook is called when cuThreadExchangeStreamCaptureMode is looked up by name. */
void fake_on_bind(void (*hook)(void));

#endif
