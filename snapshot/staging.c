/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/staging.h"

#include "base/size.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int gp_staging_init(struct gp_staging *s, const struct gp_driver *driver,
		    struct gp_swapfile *swapfile, void *memory, struct gp_err *err)
{
	int r;

	memset(s, 0, sizeof(*s));
	s->driver = driver;
	s->swapfile = swapfile;
	s->memory = memory;
	for (uint32_t i = 0; i < GP_STAGING_BUFFERS; i++) {
		r = gp_driver_check(
			driver,
			driver->cuEventCreate(&s->buffers[i].copied, CU_EVENT_DISABLE_TIMING),
			"cuEventCreate", err);
		if (r < 0) {
			gp_staging_fini(s);
			return r;
		}
	}
	return 0;
}

void gp_staging_fini(struct gp_staging *s)
{
	if (!s->driver)
		return;
	gp_staging_reset(s);
	for (uint32_t i = 0; i < GP_STAGING_BUFFERS; i++) {
		if (s->buffers[i].copied)
			s->driver->cuEventDestroy(s->buffers[i].copied);
	}
	memset(s, 0, sizeof(*s));
}

static void *staging_memory(const struct gp_staging *s, uint32_t buffer)
{
	return s->memory + buffer * GP_CHUNK_BYTES;
}

static void staging_fail(struct gp_staging *s, const struct gp_err *err)
{
	if (!s->error.code)
		s->error = *err;
}

static bool staging_ok(struct gp_staging *s, CUresult result, const char *what)
{
	struct gp_err err = { 0 };

	if (gp_driver_check(s->driver, result, what, &err) == 0)
		return true;
	staging_fail(s, &err);
	return false;
}

static void staging_saved(struct gp_staging_buffer *b)
{
	b->state = GP_STAGING_FREE;
	--*b->pending;
}

/* The copy of a buffer has ended: on to the disk, or free. */
static void staging_copied(struct gp_staging *s, uint32_t i)
{
	struct gp_staging_buffer *b = &s->buffers[i];

	if (b->state == GP_STAGING_UPLOADING) {
		b->state = GP_STAGING_FREE;
	} else if (s->error.code) {
		staging_saved(b);
	} else {
		b->state = GP_STAGING_WRITING;
		gp_swapfile_submit(s->swapfile, i, b->chunk, true);
	}
}

static void staging_upload(struct gp_staging *s, uint32_t i)
{
	const struct gp_driver *d = s->driver;
	struct gp_staging_buffer *b = &s->buffers[i];

	b->state = GP_STAGING_FREE;
	if (s->error.code || !staging_ok(s,
					 d->cuMemcpyHtoDAsync(b->device, staging_memory(s, i),
							      GP_CHUNK_BYTES, b->stream),
					 "cuMemcpyHtoDAsync"))
		return;
	b->turn = ++s->turn;
	b->state = GP_STAGING_UPLOADING;
	staging_ok(s, d->cuEventRecord(b->copied, b->stream), "cuEventRecord");
}

static bool staging_is_copying(const struct gp_staging_buffer *b)
{
	return b->state == GP_STAGING_DOWNLOADING || b->state == GP_STAGING_UPLOADING;
}

/* Moves every buffer on that can move without waiting. */
static void staging_poll(struct gp_staging *s)
{
	for (uint32_t i = 0; i < GP_STAGING_BUFFERS; i++) {
		struct gp_staging_buffer *b = &s->buffers[i];
		CUresult result;

		if (!staging_is_copying(b))
			continue;
		result = s->driver->cuEventQuery(b->copied);
		if (result == CUDA_ERROR_NOT_READY)
			continue;
		staging_ok(s, result, "copy to or from the device");
		staging_copied(s, i);
	}
}

/* Waits for the disk if a transfer is in flight, else for the oldest copy; false if all are free.
 */
static bool staging_wait_one(struct gp_staging *s)
{
	struct gp_staging_buffer *oldest = NULL;
	struct gp_err err = { 0 };
	bool disk = false;
	uint32_t i;

	for (i = 0; i < GP_STAGING_BUFFERS; i++) {
		struct gp_staging_buffer *b = &s->buffers[i];

		disk |= b->state == GP_STAGING_WRITING || b->state == GP_STAGING_READING;
		if (staging_is_copying(b) && (!oldest || b->turn < oldest->turn))
			oldest = b;
	}
	if (disk) {
		if (gp_swapfile_wait(s->swapfile, &i, &err) < 0)
			staging_fail(s, &err);
		if (s->buffers[i].state == GP_STAGING_WRITING)
			staging_saved(&s->buffers[i]);
		else
			staging_upload(s, i);
		return true;
	}
	if (!oldest)
		return false;
	staging_ok(s, s->driver->cuEventSynchronize(oldest->copied), "copy to or from the device");
	staging_copied(s, (uint32_t)(oldest - s->buffers));
	return true;
}

static uint32_t staging_get(struct gp_staging *s)
{
	for (;;) {
		staging_poll(s);
		for (uint32_t i = 0; i < GP_STAGING_BUFFERS; i++) {
			if (s->buffers[i].state == GP_STAGING_FREE)
				return i;
		}
		staging_wait_one(s);
	}
}

static int staging_result(const struct gp_staging *s, struct gp_err *err)
{
	if (s->error.code && err)
		*err = s->error;
	return s->error.code;
}

void gp_staging_save(struct gp_staging *s, CUdeviceptr device, uint32_t chunk, CUstream stream,
		     uint32_t *pending)
{
	const struct gp_driver *d = s->driver;
	uint32_t i = staging_get(s);
	struct gp_staging_buffer *b = &s->buffers[i];

	if (s->error.code ||
	    !staging_ok(s,
			d->cuMemcpyDtoHAsync(staging_memory(s, i), device, GP_CHUNK_BYTES, stream),
			"cuMemcpyDtoHAsync"))
		return;
	b->chunk = chunk;
	b->pending = pending;
	b->turn = ++s->turn;
	b->state = GP_STAGING_DOWNLOADING;
	++*pending;
	staging_ok(s, d->cuEventRecord(b->copied, stream), "cuEventRecord");
}

int gp_staging_wait_saved(struct gp_staging *s, const uint32_t *pending, struct gp_err *err)
{
	while (*pending) {
		staging_poll(s);
		if (*pending && !staging_wait_one(s))
			assert(!"a pending chunk has a buffer");
	}
	return staging_result(s, err);
}

void gp_staging_load(struct gp_staging *s, uint32_t chunk, CUdeviceptr device, CUstream stream)
{
	uint32_t i = staging_get(s);
	struct gp_staging_buffer *b = &s->buffers[i];

	if (s->error.code)
		return;
	b->device = device;
	b->stream = stream;
	b->state = GP_STAGING_READING;
	gp_swapfile_submit(s->swapfile, i, chunk, false);
}

static bool staging_is_reading(const struct gp_staging *s)
{
	for (uint32_t i = 0; i < GP_STAGING_BUFFERS; i++) {
		if (s->buffers[i].state == GP_STAGING_READING)
			return true;
	}
	return false;
}

int gp_staging_wait_read(struct gp_staging *s, struct gp_err *err)
{
	while (staging_is_reading(s))
		staging_wait_one(s);
	return staging_result(s, err);
}

void gp_staging_reset(struct gp_staging *s)
{
	while (staging_wait_one(s))
		;
	s->error = (struct gp_err){ 0 };
}
