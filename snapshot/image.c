/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/image.h"

#include "base/size.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct gp_saved *gp_saved_new(const struct gp_store *store, uint64_t id, uint32_t n_chunks,
			      struct gp_err *err)
{
	struct gp_saved *saved = calloc(1, sizeof(*saved));

	if (!saved) {
		gp_err_sys(err, -ENOMEM, "record of %u chunks", n_chunks);
		return NULL;
	}
	saved->id = id;
	saved->n_chunks = n_chunks;
	if (gp_ledger_begin(store->ledger, saved, err) < 0) {
		free(saved);
		return NULL;
	}
	return saved;
}

struct gp_saved *gp_saved_copy(const struct gp_saved *found)
{
	struct gp_saved *saved = malloc(sizeof(*saved));

	if (saved)
		*saved = *found;
	return saved;
}

static bool saved_in_store(const struct gp_saved_chunk *c)
{
	return c->place == GP_PLACE_ARENA || c->place == GP_PLACE_DISK;
}

uint32_t gp_saved_run(const struct gp_saved *saved, uint32_t i)
{
	const struct gp_saved_chunk *c = &saved->chunks[i];
	uint32_t n = 1;

	while (i + n < saved->n_chunks && c[n].place == c->place &&
	       (!saved_in_store(c) || c[n].index == c->index + n))
		n++;
	return n;
}

void gp_saved_disown(struct gp_saved *loser, const struct gp_saved *keeper)
{
	if (!keeper || keeper->n_chunks != loser->n_chunks)
		return;
	for (uint32_t i = 0; i < loser->n_chunks; i++) {
		struct gp_saved_chunk *c = &loser->chunks[i];

		if (saved_in_store(c) && c->place == keeper->chunks[i].place &&
		    c->index == keeper->chunks[i].index)
			c->place = GP_PLACE_NONE;
	}
}

/* Gives back the first @n_chunks chunks of @saved. */
static void saved_give(const struct gp_saved *saved, uint32_t n_chunks,
		       const struct gp_store *store)
{
	uint32_t n;

	for (uint32_t i = 0; i < n_chunks; i += n) {
		const struct gp_saved_chunk *c = &saved->chunks[i];

		n = gp_saved_run(saved, i);
		n = n < n_chunks - i ? n : n_chunks - i;
		if (c->place == GP_PLACE_ARENA)
			gp_chunkmap_give(&store->arena->map, c->index, n);
		else if (c->place == GP_PLACE_DISK)
			gp_swapfile_give(store->swapfile, c->index, n);
	}
}

/* Out of the ledger, but the chunks stay as they are. */
static void saved_forget(struct gp_saved *saved, const struct gp_store *store)
{
	if (saved->sequence)
		gp_ledger_retire(store->ledger, saved);
	gp_ledger_free(store->ledger, saved);
	free(saved);
}

void gp_saved_free(struct gp_saved *saved, const struct gp_store *store)
{
	if (!saved)
		return;
	/* First: what is given back may hold other bytes the next moment. */
	if (saved->sequence)
		gp_ledger_retire(store->ledger, saved);
	saved_give(saved, saved->n_chunks, store);
	saved_forget(saved, store);
}

int gp_image_reserve(struct gp_image *image, size_t n)
{
	size_t capacity = image->capacity ? image->capacity : 64;
	struct gp_saved **grown;

	while (capacity < image->n + n)
		capacity *= 2;
	if (capacity == image->capacity)
		return 0;
	grown = realloc(image->extents, capacity * sizeof(struct gp_saved *));
	if (!grown)
		return -ENOMEM;
	image->extents = grown;
	image->capacity = capacity;
	return 0;
}

/* Index of the first record whose id is not below @id. */
static size_t image_lower_bound(const struct gp_image *image, uint64_t id)
{
	size_t low = 0, high = image->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (image->extents[mid]->id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Other threads read the totals. */
static void image_count(struct gp_image *image, const struct gp_saved *added,
			const struct gp_saved *removed)
{
	__atomic_store_n(&image->n, image->n + (added != NULL) - (removed != NULL),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&image->n_chunks,
			 image->n_chunks + (added ? added->n_chunks : 0) -
				 (removed ? removed->n_chunks : 0),
			 __ATOMIC_RELAXED);
}

/* Puts @saved at its place; returns the record that was there. */
static struct gp_saved *image_insert(struct gp_image *image, struct gp_saved *saved)
{
	size_t at = image_lower_bound(image, saved->id);
	struct gp_saved *old = NULL;

	if (at < image->n && image->extents[at]->id == saved->id) {
		old = image->extents[at];
	} else {
		assert(image->n < image->capacity);
		memmove(image->extents + at + 1, image->extents + at,
			(image->n - at) * sizeof(struct gp_saved *));
	}
	image->extents[at] = saved;
	image_count(image, saved, old);
	return old;
}

void gp_image_put(struct gp_image *image, struct gp_saved *saved, const struct gp_store *store)
{
	struct gp_saved *old;

	saved->job = image->job;
	saved->proc = image->proc;
	gp_ledger_commit(store->ledger, saved);
	old = image_insert(image, saved);
	if (!old)
		return;
	gp_ledger_retire(store->ledger, old);
	gp_saved_disown(old, saved);
	gp_saved_free(old, store);
}

void gp_image_adopt(struct gp_image *image, struct gp_saved *saved, const struct gp_store *store)
{
	struct gp_saved *other = gp_image_find(image, saved->id);

	if (other && other->sequence > saved->sequence)
		other = saved;
	else
		other = image_insert(image, saved);
	if (other)
		saved_forget(other, store);
}

static bool saved_claim_run(const struct gp_saved *saved, uint32_t i, uint32_t n,
			    const struct gp_store *store)
{
	const struct gp_saved_chunk *c = &saved->chunks[i];

	switch (c->place) {
	case GP_PLACE_ZERO:
		return true;
	case GP_PLACE_ARENA:
		return gp_chunkmap_claim(&store->arena->map, c->index, n);
	case GP_PLACE_DISK:
		return gp_swapfile_claim(store->swapfile, c->index, n);
	default:
		return false;
	}
}

int gp_image_claim(struct gp_image *image, size_t i, const struct gp_store *store,
		   struct gp_err *err)
{
	struct gp_saved *saved = image->extents[i];
	uint32_t at, n;
	int r;

	for (at = 0; at < saved->n_chunks; at += n) {
		n = gp_saved_run(saved, at);
		if (!saved_claim_run(saved, at, n, store))
			break;
	}
	if (at == saved->n_chunks)
		return 0;
	r = gp_err_set(err, -EBADMSG,
		       "extent %llu of process %u: its chunk %u lies in place %u at %u, which is "
		       "not possible",
		       (unsigned long long)saved->id, saved->proc, at, saved->chunks[at].place,
		       saved->chunks[at].index);
	gp_ledger_retire(store->ledger, saved);
	saved_give(saved, at, store);
	memmove(image->extents + i, image->extents + i + 1,
		(image->n - i - 1) * sizeof(struct gp_saved *));
	image_count(image, NULL, saved);
	saved_forget(saved, store);
	return r;
}

struct gp_saved *gp_image_find(const struct gp_image *image, uint64_t id)
{
	size_t at = image_lower_bound(image, id);

	return at < image->n && image->extents[at]->id == id ? image->extents[at] : NULL;
}

void gp_image_clear(struct gp_image *image, const struct gp_store *store)
{
	size_t n = image->n;

	__atomic_store_n(&image->n, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&image->n_chunks, 0, __ATOMIC_RELAXED);
	for (size_t i = 0; i < n; i++)
		gp_saved_free(image->extents[i], store);
	gp_image_leave(image);
}

void gp_image_leave(struct gp_image *image)
{
	for (size_t i = 0; i < image->n; i++)
		free(image->extents[i]);
	free(image->extents);
	image->extents = NULL;
	image->n = image->capacity = 0;
	image->n_chunks = 0;
}

size_t gp_image_count(const struct gp_image *image)
{
	return __atomic_load_n(&image->n, __ATOMIC_RELAXED);
}

uint64_t gp_image_bytes(const struct gp_image *image)
{
	return __atomic_load_n(&image->n_chunks, __ATOMIC_RELAXED) * GP_CHUNK_BYTES;
}
