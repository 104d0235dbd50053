/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/selftest.h"

#include "base/size.h"
#include "base/time.h"
#include "snapshot/arena.h"
#include "snapshot/hasher.h"
#include "snapshot/mover.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SELFTEST_PATTERNS 8   /* distinct chunks, repeated over the device memory */
#define SELFTEST_CARD	  512 /* chunks: enough blocks to fill any card */
#define SELFTEST_SOFT	  16
#define SELFTEST_REPEATS  10

/* Any key does: both sides have the same. */
static const struct gp_hash_key selftest_key = { { GP_HASH_M1, GP_HASH_M3 } };

struct selftest {
	struct gp_driver *driver;
	struct gp_hasher hasher;
	struct gp_arena host; /* private memory: the sums; chunks: the patterns */
	struct gp_chunk_sum *sums;
	CUdeviceptr device, device_sums;
	uint32_t n_chunks;
	bool chunks_pinned, extra_pinned;
};

/* Random, zero, counting, and single non-zero words at both ends and in the middle. */
static void selftest_fill(void *chunk, uint32_t pattern)
{
	uint64_t *words = chunk, x = 0x2545f4914f6cdd1dull + pattern;
	size_t n = GP_CHUNK_BYTES / sizeof(*words);

	memset(chunk, 0, GP_CHUNK_BYTES);
	switch (pattern) {
	case 0:
	case 1:
		for (size_t i = 0; i < n; i++) { /* xorshift64 */
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			words[i] = x;
		}
		break;
	case 2:
		break;
	case 3:
		for (size_t i = 0; i < n; i++)
			words[i] = i;
		break;
	case 4:
		memset(chunk, 0xff, GP_CHUNK_BYTES);
		break;
	case 5:
		words[0] = 1;
		break;
	case 6:
		words[n / 2 + 1] = 1ull << 63;
		break;
	default:
		words[n - 1] = 1ull << 40;
		break;
	}
}

static int selftest_prepare(struct selftest *t, struct gp_err *err)
{
	struct gp_driver *d = t->driver;
	int r;

	t->n_chunks = d->soft ? SELFTEST_SOFT : SELFTEST_CARD;
	r = gp_arena_init(&t->host, SELFTEST_PATTERNS * GP_CHUNK_BYTES,
			  t->n_chunks * sizeof(struct gp_chunk_sum), err);
	if (r < 0)
		return r;
	r = gp_driver_pin(d, t->host.chunks, t->host.bytes, err);
	if (r < 0)
		return r;
	t->chunks_pinned = true;
	r = gp_driver_pin(d, t->host.extra, t->host.extra_bytes, err);
	if (r < 0)
		return r;
	t->extra_pinned = true;
	t->sums = t->host.extra;
	r = gp_driver_check(d, d->cuMemHostGetDevicePointer(&t->device_sums, t->sums, 0),
			    "cuMemHostGetDevicePointer", err);
	if (r == 0)
		r = gp_driver_check(d, d->cuMemAlloc(&t->device, t->n_chunks * GP_CHUNK_BYTES),
				    "cuMemAlloc", err);
	for (uint32_t i = 0; r == 0 && i < SELFTEST_PATTERNS; i++)
		selftest_fill(gp_arena_chunk(&t->host, i), i);
	for (uint32_t i = 0; r == 0 && i < t->n_chunks; i++)
		r = gp_driver_check(
			d,
			d->cuMemcpyHtoDAsync(t->device + i * GP_CHUNK_BYTES,
					     gp_arena_chunk(&t->host, i % SELFTEST_PATTERNS),
					     GP_CHUNK_BYTES, NULL),
			"cuMemcpyHtoDAsync", err);
	if (r == 0)
		r = gp_driver_check(d, d->cuStreamSynchronize(NULL), "cuStreamSynchronize", err);
	return r;
}

static int selftest_hash(struct selftest *t, unsigned repeats, double *ret_gb_per_s,
			 struct gp_err *err)
{
	uint64_t start = gp_now_ns();
	int r = 0;

	for (unsigned i = 0; r == 0 && i < repeats; i++)
		r = gp_hasher_launch(&t->hasher, t->device, t->n_chunks, t->sums, t->device_sums,
				     NULL, err);
	if (r == 0)
		r = gp_driver_check(t->driver, t->driver->cuStreamSynchronize(NULL),
				    "the hash kernel failed", err);
	*ret_gb_per_s = (double)repeats * (double)(t->n_chunks * GP_CHUNK_BYTES) /
			(double)(gp_now_ns() - start);
	return r;
}

static int selftest_compare(struct selftest *t, struct gp_err *err)
{
	double device_rate = 0, cpu_rate;
	struct gp_chunk_sum sum;
	uint64_t start;
	int r;

	memset(t->sums, 0xee, t->n_chunks * sizeof(*t->sums));
	r = selftest_hash(t, 1, &device_rate, err);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < t->n_chunks; i++) {
		gp_chunk_hash(gp_arena_chunk(&t->host, i % SELFTEST_PATTERNS), t->hasher.key, &sum);
		if (sum.hash[0] != t->sums[i].hash[0] || sum.hash[1] != t->sums[i].hash[1] ||
		    (sum.nonzero != 0) != (t->sums[i].nonzero != 0))
			return gp_err_set(err, -EBADMSG,
					  "the device and the CPU hash chunk %u (pattern %u) "
					  "differently",
					  i, i % SELFTEST_PATTERNS);
	}
	start = gp_now_ns();
	for (uint32_t i = 0; i < SELFTEST_PATTERNS; i++)
		gp_chunk_hash(gp_arena_chunk(&t->host, i), t->hasher.key, &sum);
	cpu_rate = (double)(SELFTEST_PATTERNS * GP_CHUNK_BYTES) / (double)(gp_now_ns() - start);
	r = selftest_hash(t, t->driver->soft ? 1 : SELFTEST_REPEATS, &device_rate, err);
	if (r < 0)
		return r;
	printf("hash: device and CPU agree on %u chunks; device %.1f GB/s, CPU %.1f GB/s\n",
	       t->n_chunks, device_rate, cpu_rate);
	return 0;
}

static void selftest_free(struct selftest *t)
{
	if (t->device)
		t->driver->cuMemFree(t->device);
	if (t->chunks_pinned)
		t->driver->cuMemHostUnregister(t->host.chunks);
	if (t->extra_pinned)
		t->driver->cuMemHostUnregister(t->host.extra);
	gp_arena_fini(&t->host);
	gp_hasher_fini(&t->hasher);
}

int gp_selftest_run(struct gp_driver *driver, const struct gp_driver_options *options,
		    struct gp_err *err)
{
	struct selftest t = { .driver = driver, .host.fd = -1 };
	struct gp_rm_subdevice sub;
	struct gp_err why = { 0 };
	int r;

	r = gp_driver_open(driver, options, err);
	if (r < 0)
		return r;
	printf("device: %s\n", driver->name);
	r = gp_mover_try_freeze(driver, &sub, &why);
	printf("freeze: %s\n", r < 0 ? why.msg : "own channels can be switched off and on");
	r = gp_hasher_init(&t.hasher, driver, selftest_key, err);
	if (r == 0)
		r = selftest_prepare(&t, err);
	if (r == 0)
		r = selftest_compare(&t, err);
	selftest_free(&t);
	gp_driver_close(driver);
	return r;
}
