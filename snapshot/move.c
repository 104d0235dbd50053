/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/move.h"

#include "base/log.h"
#include "base/size.h"
#include "base/time.h"

#include <errno.h>
#include <string.h>

#define MOVE_REPORT_NS	  (10 * GP_NS_PER_MS) /* 550 MB of copying at the 55 GB/s of PCIe 5 */
#define MOVE_LARGE_CHUNKS 32		      /* 64 MiB: 1.2 ms of it */

static uint32_t move_max_chunks(const struct gp_driver *driver)
{
	return (uint32_t)(driver->total_bytes / GP_CHUNK_BYTES) + 1;
}

static size_t move_sums_bytes(const struct gp_driver *driver)
{
	return gp_round_up(move_max_chunks(driver) * sizeof(struct gp_chunk_sum), 4096);
}

size_t gp_move_host_bytes(const struct gp_driver *driver)
{
	return GP_STAGING_BUFFERS * GP_CHUNK_BYTES + GP_MOVE_SLOTS * move_sums_bytes(driver);
}

static int move_init_slot(struct gp_move *m, unsigned i, struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	struct gp_move_slot *slot = &m->slots[i];
	size_t sums = GP_STAGING_BUFFERS * GP_CHUNK_BYTES + i * move_sums_bytes(d);
	int r;

	slot->at = m->base + i * m->stride;
	slot->stream = m->streams[i % GP_MOVE_STREAMS];
	slot->sums = (struct gp_chunk_sum *)(void *)(m->host + sums);
	slot->device_sums = m->device_host + sums;
	r = gp_driver_check(d, d->cuEventCreate(&slot->hashed, CU_EVENT_DISABLE_TIMING),
			    "cuEventCreate", err);
	if (r == 0)
		r = gp_driver_check(d, d->cuEventCreate(&slot->done, CU_EVENT_DISABLE_TIMING),
				    "cuEventCreate", err);
	return r;
}

static int move_init_streams(struct gp_move *m, struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	int r = gp_driver_check(d, d->cuStreamCreate(&m->hash_stream, CU_STREAM_NON_BLOCKING),
				"cuStreamCreate", err);

	for (unsigned i = 0; r == 0 && i < GP_MOVE_STREAMS; i++)
		r = gp_driver_check(d, d->cuStreamCreate(&m->streams[i], CU_STREAM_NON_BLOCKING),
				    "cuStreamCreate", err);
	return r;
}

/*
 * The first launch is the slow one; and a kernel that does not agree with the CPU is better known
 * now. The first staging buffer serves as a chunk of zeros.
 */
static int move_try_hash(struct gp_move *m, struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	struct gp_move_slot *slot = &m->slots[0];
	struct gp_chunk_sum expected;
	int r;

	r = gp_hasher_launch(&m->hasher, m->device_host, 1, slot->sums, slot->device_sums,
			     m->hash_stream, err);
	if (r == 0)
		r = gp_driver_check(d, d->cuStreamSynchronize(m->hash_stream),
				    "the hash kernel failed", err);
	if (r < 0)
		return r;
	gp_chunk_hash(m->host, m->hasher.key, &expected);
	if (slot->sums[0].hash[0] != expected.hash[0] ||
	    slot->sums[0].hash[1] != expected.hash[1] || slot->sums[0].nonzero != expected.nonzero)
		return gp_err_set(err, -EBADMSG,
				  "the hash kernel does not agree with the CPU; see --self-test");
	return 0;
}

int gp_move_init(struct gp_move *m, const struct gp_driver *driver, const struct gp_store *store,
		 struct gp_outbox *outbox, void *host, struct gp_err *err)
{
	int r;

	memset(m, 0, sizeof(*m));
	m->driver = driver;
	m->store = *store;
	m->outbox = outbox;
	m->host = host;
	m->stride = move_max_chunks(driver) * GP_CHUNK_BYTES;
	r = gp_driver_check(
		driver, driver->cuMemAddressReserve(&m->base, GP_MOVE_SLOTS * m->stride, 0, 0, 0),
		"cannot reserve addresses: cuMemAddressReserve", err);
	if (r == 0)
		r = gp_driver_check(driver,
				    driver->cuMemHostGetDevicePointer(&m->device_host, host, 0),
				    "cuMemHostGetDevicePointer", err);
	if (r == 0)
		r = gp_hasher_init(&m->hasher, driver, gp_ledger_key(store->ledger), err);
	if (r == 0)
		r = move_init_streams(m, err);
	if (r == 0)
		r = gp_staging_init(&m->staging, driver, store->swapfile, host, err);
	for (unsigned i = 0; r == 0 && i < GP_MOVE_SLOTS; i++)
		r = move_init_slot(m, i, err);
	if (r == 0)
		r = move_try_hash(m, err);
	if (r < 0)
		gp_move_fini(m);
	return r;
}

void gp_move_fini(struct gp_move *m)
{
	const struct gp_driver *d = m->driver;

	if (!d)
		return;
	gp_staging_fini(&m->staging);
	for (unsigned i = 0; i < GP_MOVE_SLOTS; i++) {
		if (m->slots[i].hashed)
			d->cuEventDestroy(m->slots[i].hashed);
		if (m->slots[i].done)
			d->cuEventDestroy(m->slots[i].done);
	}
	for (unsigned i = 0; i < GP_MOVE_STREAMS; i++) {
		if (m->streams[i])
			d->cuStreamDestroy(m->streams[i]);
	}
	if (m->hash_stream)
		d->cuStreamDestroy(m->hash_stream);
	gp_hasher_fini(&m->hasher);
	if (m->base)
		d->cuMemAddressFree(m->base, GP_MOVE_SLOTS * m->stride);
	m->driver = NULL;
}

/*
 * SAVED: several extents a message, sent when full, when the first of them has waited for a while
 * (memory that others wait for can be released), or when the move is about to wait for a large
 * extent, the disk or the shim.
 */
static void move_flush_saved(struct gp_move *m)
{
	if (m->report.saved.n)
		gp_outbox_post(m->outbox, &m->report, m->session);
	gp_wire_init_reply(&m->report, GP_WIRE_SAVED, m->request);
}

static void move_report_saved(struct gp_move *m, uint64_t id)
{
	if (m->report.saved.n == 0)
		m->report_ns = m->last_ns;
	m->report.saved.ids[m->report.saved.n++] = (uint32_t)id;
	if (m->report.saved.n == GP_WIRE_MAX_IDS || m->last_ns - m->report_ns > MOVE_REPORT_NS)
		move_flush_saved(m);
}

static size_t slot_bytes(const struct gp_move_slot *slot)
{
	return slot->extent.n_chunks * GP_CHUNK_BYTES;
}

static CUdeviceptr slot_chunk(const struct gp_move_slot *slot, uint32_t chunk)
{
	return slot->at + chunk * GP_CHUNK_BYTES;
}

static int slot_map(struct gp_move *m, struct gp_move_slot *slot, struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	const CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->device },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	int r;

	r = gp_driver_check(d, d->cuMemMap(slot->at, slot_bytes(slot), 0, slot->extent.handle, 0),
			    "cannot map an extent: cuMemMap", err);
	if (r < 0)
		return r;
	slot->mapped = true;
	return gp_driver_check(d, d->cuMemSetAccess(slot->at, slot_bytes(slot), &access, 1),
			       "cannot map an extent: cuMemSetAccess", err);
}

/* Lets go of the device memory. The slot's work has ended. */
static int slot_unmap(struct gp_move *m, struct gp_move_slot *slot, struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	int r = 0, released;

	if (slot->mapped)
		r = gp_driver_check(d, d->cuMemUnmap(slot->at, slot_bytes(slot)), "cuMemUnmap",
				    err);
	slot->mapped = false;
	released = gp_driver_check(d, d->cuMemRelease(slot->extent.handle), "cuMemRelease",
				   r < 0 ? NULL : err);
	slot->busy = false;
	return r < 0 ? r : released;
}

/* Zero and clean chunks need no copy; the others get GP_PLACE_NONE. */
static void save_classify(struct gp_move_slot *slot, const struct gp_saved *old)
{
	struct gp_saved *saved = slot->saved;

	if (old && old->n_chunks != saved->n_chunks)
		old = NULL;
	for (uint32_t i = 0; i < saved->n_chunks; i++) {
		struct gp_saved_chunk *c = &saved->chunks[i];
		const struct gp_chunk_sum *sum = &slot->sums[i];

		c->hash[0] = sum->hash[0];
		c->hash[1] = sum->hash[1];
		c->place = sum->nonzero ? GP_PLACE_NONE : GP_PLACE_ZERO;
		if (c->place == GP_PLACE_NONE && old && old->chunks[i].hash[0] == c->hash[0] &&
		    old->chunks[i].hash[1] == c->hash[1]) {
			c->place = old->chunks[i].place;
			c->index = old->chunks[i].index;
		}
	}
}

static void save_set_places(struct gp_saved *saved, uint32_t chunk, uint32_t n, enum gp_place place,
			    uint32_t index)
{
	for (uint32_t i = 0; i < n; i++) {
		saved->chunks[chunk + i].place = place;
		saved->chunks[chunk + i].index = index + i;
	}
}

/* Copies @n neighbouring chunks out: to the arena in as few pieces as it has, the rest to disk. */
static int save_run(struct gp_move *m, struct gp_move_slot *slot, uint32_t chunk, uint32_t n,
		    struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	int r;

	while (n) {
		uint32_t index, got = gp_chunkmap_take(&m->store.arena->map, n, &index);

		if (got) {
			save_set_places(slot->saved, chunk, got, GP_PLACE_ARENA, index);
			r = gp_driver_check(
				d,
				d->cuMemcpyDtoHAsync(gp_arena_chunk(m->store.arena, index),
						     slot_chunk(slot, chunk), got * GP_CHUNK_BYTES,
						     slot->stream),
				"cuMemcpyDtoHAsync", err);
			if (r < 0)
				return r;
		} else {
			r = gp_swapfile_take(m->store.swapfile, n, &index, err);
			if (r < 0)
				return r;
			got = (uint32_t)r;
			move_flush_saved(m);
			save_set_places(slot->saved, chunk, got, GP_PLACE_DISK, index);
			for (uint32_t i = 0; i < got; i++)
				gp_staging_save(&m->staging, slot_chunk(slot, chunk + i), index + i,
						slot->stream, &slot->n_pending);
		}
		chunk += got;
		n -= got;
	}
	return 0;
}

/* The records of one extent share places; two under way at once would give them back twice. */
static bool move_is_under_way(const struct gp_move *m, const struct gp_move_slot *slot)
{
	for (uint32_t i = m->n_finished; i < m->n_started; i++) {
		const struct gp_move_slot *other = &m->slots[i % GP_MOVE_SLOTS];

		if (other != slot && other->extent.id == slot->extent.id)
			return true;
	}
	return false;
}

static int save_begin(struct gp_move *m, struct gp_move_slot *slot, struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	uint32_t n_chunks = slot->extent.n_chunks;
	struct gp_err why = { 0 };
	int r;

	if (move_is_under_way(m, slot))
		return gp_err_set(err, -EBADMSG, "the process sent extent %llu twice",
				  (unsigned long long)slot->extent.id);
	r = gp_image_reserve(&m->proc->image, GP_MOVE_SLOTS);
	if (r < 0)
		return gp_err_sys(err, r, "record of %u chunks", n_chunks);
	slot->saved = gp_saved_new(&m->store, slot->extent.id, n_chunks, &why);
	if (!slot->saved) {
		if (err)
			*err = why;
		return why.code;
	}
	r = gp_hasher_launch(&m->hasher, slot->at, n_chunks, slot->sums, slot->device_sums,
			     m->hash_stream, err);
	if (r < 0)
		return r;
	return gp_driver_check(d, d->cuEventRecord(slot->hashed, m->hash_stream), "cuEventRecord",
			       err);
}

static int save_place(struct gp_move *m, struct gp_move_slot *slot, struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	uint32_t n_chunks = slot->extent.n_chunks, n;
	int r;

	r = gp_driver_check(d, d->cuEventSynchronize(slot->hashed), "cannot hash", err);
	if (r < 0)
		return r;
	save_classify(slot, gp_image_find(&m->proc->image, slot->extent.id));
	for (uint32_t i = 0; i < n_chunks; i += n) {
		n = gp_saved_run(slot->saved, i);
		if (slot->saved->chunks[i].place != GP_PLACE_NONE)
			continue;
		r = save_run(m, slot, i, n, err);
		if (r < 0)
			return r;
	}
	return gp_driver_check(d, d->cuEventRecord(slot->done, slot->stream), "cuEventRecord", err);
}

static int save_finish(struct gp_move *m, struct gp_move_slot *slot, struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	int r;

	if (slot->extent.n_chunks >= MOVE_LARGE_CHUNKS)
		move_flush_saved(m);
	r = gp_staging_wait_saved(&m->staging, &slot->n_pending, err);
	if (r == 0)
		r = gp_driver_check(d, d->cuEventSynchronize(slot->done), "copy to the arena", err);
	if (r < 0)
		return r;
	m->last_ns = gp_now_ns();
	r = slot_unmap(m, slot, err);
	if (r < 0)
		return r;
	gp_image_put(&m->proc->image, slot->saved, &m->store);
	slot->saved = NULL;
	move_report_saved(m, slot->extent.id);
	return 0;
}

static int load_run(struct gp_move *m, struct gp_move_slot *slot, uint32_t chunk, uint32_t n,
		    struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	const struct gp_saved_chunk *c = &slot->saved->chunks[chunk];
	CUdeviceptr to = slot_chunk(slot, chunk);

	switch ((enum gp_place)c->place) {
	case GP_PLACE_ZERO:
		return gp_driver_check(d,
				       d->cuMemsetD8Async(to, 0, n * GP_CHUNK_BYTES, slot->stream),
				       "cuMemsetD8Async", err);
	case GP_PLACE_ARENA:
		return gp_driver_check(
			d,
			d->cuMemcpyHtoDAsync(to, gp_arena_chunk(m->store.arena, c->index),
					     n * GP_CHUNK_BYTES, slot->stream),
			"cuMemcpyHtoDAsync", err);
	case GP_PLACE_DISK:
		for (uint32_t i = 0; i < n; i++)
			gp_staging_load(&m->staging, c->index + i, slot_chunk(slot, chunk + i),
					slot->stream);
		return 0;
	case GP_PLACE_NONE:
		break;
	}
	return gp_err_set(err, -EBADMSG, "extent %llu chunk %u has no saved bytes",
			  (unsigned long long)slot->extent.id, chunk);
}

static int load_begin(struct gp_move *m, struct gp_move_slot *slot, struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	uint32_t n_chunks = slot->extent.n_chunks, n;
	int r = 0;

	slot->saved = gp_image_find(&m->proc->image, slot->extent.id);
	if (!slot->saved) {
		gp_err_set(err, -ENOENT, "extent %llu has no saved copy",
			   (unsigned long long)slot->extent.id);
		return -ENOENT;
	}
	if (slot->saved->n_chunks != n_chunks)
		return gp_err_set(
			err, -EBADMSG, "extent %llu has %u chunks, but %u were saved of it",
			(unsigned long long)slot->extent.id, n_chunks, slot->saved->n_chunks);
	for (uint32_t i = 0; r == 0 && i < n_chunks; i += n) {
		n = gp_saved_run(slot->saved, i);
		r = load_run(m, slot, i, n, err);
	}
	if (r == 0)
		r = gp_staging_wait_read(&m->staging, err);
	if (r == 0)
		r = gp_hasher_launch(&m->hasher, slot->at, n_chunks, slot->sums, slot->device_sums,
				     slot->stream, err);
	if (r == 0)
		r = gp_driver_check(d, d->cuEventRecord(slot->done, slot->stream), "cuEventRecord",
				    err);
	return r;
}

static int load_finish(struct gp_move *m, struct gp_move_slot *slot, struct gp_err *err)
{
	const struct gp_driver *d = m->driver;
	int r;

	r = gp_driver_check(d, d->cuEventSynchronize(slot->done), "copy to the device", err);
	if (r < 0)
		return r;
	m->last_ns = gp_now_ns();
	for (uint32_t i = 0; i < slot->saved->n_chunks; i++) {
		const struct gp_saved_chunk *c = &slot->saved->chunks[i];

		if (slot->sums[i].hash[0] == c->hash[0] && slot->sums[i].hash[1] == c->hash[1])
			continue;
		return gp_err_set(err, -EBADMSG,
				  "extent %llu chunk %u (saved %s) came back different from what "
				  "was saved",
				  (unsigned long long)slot->extent.id, i,
				  c->place == GP_PLACE_DISK    ? "on disk"
				  : c->place == GP_PLACE_ARENA ? "in the arena"
							       : "as zeros");
	}
	r = slot_unmap(m, slot, err);
	slot->saved = NULL;
	return r;
}

static void move_count(struct gp_move *m, const struct gp_saved *saved)
{
	uint64_t *const by_place[] = {
		[GP_PLACE_ZERO] = &m->totals.zero_bytes,
		[GP_PLACE_ARENA] = &m->totals.arena_bytes,
		[GP_PLACE_DISK] = &m->totals.disk_bytes,
	};

	m->totals.n_extents++;
	m->totals.total_bytes += saved->n_chunks * GP_CHUNK_BYTES;
	for (uint32_t i = 0; i < saved->n_chunks; i++)
		*by_place[saved->chunks[i].place] += GP_CHUNK_BYTES;
}

static bool move_cancelled(struct gp_move *m, struct gp_err *err)
{
	if (!atomic_load(&m->stop) && !atomic_load(&m->proc->gone))
		return false;
	gp_err_set(err, -ECANCELED, "the move was given up: the process is gone");
	return true;
}

/*
 * What was begun is finished; but the next daemon does not wait for more than that. It decides anew
 * what is to be moved, and finds what was saved.
 */
static bool move_has_no_daemon(struct gp_move *m, struct gp_err *err)
{
	if (!atomic_load(&m->hurry))
		return false;
	gp_err_set(err, -ECANCELED, "the move was given up: the daemon that asked for it is gone");
	return true;
}

/* Finishes the oldest slot in use, which has been placed. */
static int move_finish_one(struct gp_move *m, struct gp_err *err)
{
	struct gp_move_slot *slot = &m->slots[m->n_finished % GP_MOVE_SLOTS];
	int r;

	/* A second attempt would let go twice, and report memory as free that is not. */
	if (!slot->busy)
		return gp_err_set(err, -EIO, "extent %llu could not be let go of",
				  (unsigned long long)slot->extent.id);
	r = m->loading ? load_finish(m, slot, err) : save_finish(m, slot, err);
	if (r == 0)
		m->n_finished++;
	return r;
}

/* Finishes what has ended by now: memory that others wait for is not held while others are placed.
 */
static int move_finish_ended(struct gp_move *m, struct gp_err *err)
{
	int r = 0;

	while (r == 0 && m->n_finished < m->n_placed) {
		struct gp_move_slot *slot = &m->slots[m->n_finished % GP_MOVE_SLOTS];

		if (slot->n_pending || m->driver->cuEventQuery(slot->done) != CUDA_SUCCESS)
			break;
		r = move_finish_one(m, err);
	}
	return r;
}

/* Queues the copies of the oldest slot that has none; a load has queued them when it began. */
static int move_place_one(struct gp_move *m, struct gp_err *err)
{
	struct gp_move_slot *slot = &m->slots[m->n_placed % GP_MOVE_SLOTS];
	int r = move_finish_ended(m, err);

	if (r == 0 && !m->loading)
		r = save_place(m, slot, err);
	if (r < 0)
		return r;
	move_count(m, slot->saved);
	m->n_placed++;
	return 0;
}

/* Takes over the next import of @batch. The slot is in use even if this fails. */
static int move_begin_one(struct gp_move *m, struct gp_link_batch *batch, struct gp_err *err)
{
	struct gp_move_slot *slot;
	int r;

	if (move_cancelled(m, err) || move_has_no_daemon(m, err))
		return -ECANCELED;
	if (m->n_started - m->n_finished == GP_MOVE_SLOTS) {
		r = move_finish_one(m, err);
		if (r < 0)
			return r;
	}
	m->taken_bytes += batch->extents[batch->next].n_chunks * GP_CHUNK_BYTES;
	if (m->taken_bytes > m->driver->total_bytes)
		return gp_err_set(err, -EBADMSG,
				  "the process sent more memory than the device has");
	slot = &m->slots[m->n_started++ % GP_MOVE_SLOTS];
	slot->extent = batch->extents[batch->next++];
	slot->busy = true;
	slot->saved = NULL;
	if (!m->first_ns)
		m->first_ns = gp_now_ns();
	r = slot_map(m, slot, err);
	if (r == 0)
		r = m->loading ? load_begin(m, slot, err) : save_begin(m, slot, err);
	while (r == 0 && m->n_started - m->n_placed > (m->loading ? 0 : GP_MOVE_HASH_AHEAD))
		r = move_place_one(m, err);
	return r;
}

static int move_finish_all(struct gp_move *m, struct gp_err *err)
{
	int r = 0;

	while (r == 0 && m->n_placed < m->n_started)
		r = move_place_one(m, err);
	while (r == 0 && m->n_finished < m->n_started)
		r = move_finish_one(m, err);
	return r;
}

/* After a failure: what was well under way before it still counts, unless nobody wants it. */
static void move_finish_placed(struct gp_move *m)
{
	while (m->n_finished < m->n_placed) {
		if (move_cancelled(m, NULL) || move_finish_one(m, NULL) < 0)
			break;
	}
	move_flush_saved(m);
}

/* Lets go of everything that was begun and not finished. */
static void move_abandon(struct gp_move *m)
{
	const struct gp_driver *d = m->driver;

	gp_staging_reset(&m->staging);
	d->cuStreamSynchronize(m->hash_stream);
	for (unsigned i = 0; i < GP_MOVE_STREAMS; i++)
		d->cuStreamSynchronize(m->streams[i]);
	for (; m->n_finished < m->n_started; m->n_finished++) {
		struct gp_move_slot *slot = &m->slots[m->n_finished % GP_MOVE_SLOTS];
		struct gp_err err = { 0 };

		if (slot->busy && slot_unmap(m, slot, &err) < 0)
			gp_log(GP_LOG_ERR, "let_go", "extent=%llu reason=\"%s\"",
			       (unsigned long long)slot->extent.id, err.msg);
		if (!m->loading && slot->saved) {
			gp_saved_disown(slot->saved,
					gp_image_find(&m->proc->image, slot->extent.id));
			gp_saved_free(slot->saved, &m->store);
		}
		slot->saved = NULL;
	}
}

static int move_batch(struct gp_move *m, struct gp_link_batch *batch, struct gp_err *err)
{
	int r = 0;

	while (r == 0 && batch->next < batch->n)
		r = move_begin_one(m, batch, err);
	gp_link_batch_drop(m->driver, batch);
	/* Nothing to overlap with: what is done should be known before the next wait. */
	if (r == 0 && (batch->last || !gp_link_readable(m->proc->worker_link)))
		r = move_finish_all(m, err);
	if (r == 0)
		move_flush_saved(m);
	return r;
}

int gp_move_run(struct gp_move *m, struct gp_proc *proc, const struct gp_wire_msg *request,
		uint32_t session, struct gp_wire_moved *ret_totals, struct gp_err *err)
{
	struct gp_link_batch batch = { 0 };
	int r;

	m->proc = proc;
	m->request = request;
	m->session = session;
	m->loading = request->header.type == GP_WIRE_LOAD;
	m->first_ns = m->last_ns = 0;
	m->n_started = m->n_placed = m->n_finished = 0;
	m->unread = false;
	m->taken_bytes = 0;
	memset(&m->totals, 0, sizeof(m->totals));
	gp_wire_init_reply(&m->report, GP_WIRE_SAVED, request);
	do {
		r = gp_link_receive(proc->worker_link, m->driver, request->header.epoch, &m->hurry,
				    &batch, err);
		if (r == 0)
			r = move_batch(m, &batch, err);
	} while (r == 0 && !batch.last);
	if (r < 0) {
		move_finish_placed(m);
		move_abandon(m);
		m->unread = !batch.last;
		return r;
	}
	m->totals.ns = m->first_ns ? m->last_ns - m->first_ns : 0;
	*ret_totals = m->totals;
	return 0;
}

void gp_move_discard(struct gp_move *m)
{
	if (m->unread)
		gp_link_discard(m->proc->worker_link, m->request->header.epoch, &m->hurry);
	m->unread = false;
}
