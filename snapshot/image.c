/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/image.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct gp_saved *gp_saved_new(uint64_t id, uint32_t n_chunks)
{
	struct gp_saved *saved = calloc(1, sizeof(*saved) + n_chunks * sizeof(saved->chunks[0]));

	if (!saved)
		return NULL;
	saved->id = id;
	saved->n_chunks = n_chunks;
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

void gp_saved_free(struct gp_saved *saved, const struct gp_store *store)
{
	uint32_t n;

	if (!saved)
		return;
	for (uint32_t i = 0; i < saved->n_chunks; i += n) {
		const struct gp_saved_chunk *c = &saved->chunks[i];

		n = gp_saved_run(saved, i);
		if (c->place == GP_PLACE_ARENA)
			gp_chunkmap_give(&store->arena->map, c->index, n);
		else if (c->place == GP_PLACE_DISK)
			gp_swapfile_give(store->swapfile, c->index, n);
	}
	free(saved);
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

void gp_image_put(struct gp_image *image, struct gp_saved *saved, const struct gp_store *store)
{
	size_t at = image_lower_bound(image, saved->id);

	if (at < image->n && image->extents[at]->id == saved->id) {
		struct gp_saved *old = image->extents[at];

		image->extents[at] = saved;
		gp_saved_free(old, store);
		return;
	}
	assert(image->n < image->capacity);
	memmove(image->extents + at + 1, image->extents + at,
		(image->n - at) * sizeof(struct gp_saved *));
	image->extents[at] = saved;
	image->n++;
}

struct gp_saved *gp_image_find(const struct gp_image *image, uint64_t id)
{
	size_t at = image_lower_bound(image, id);

	return at < image->n && image->extents[at]->id == id ? image->extents[at] : NULL;
}

void gp_image_clear(struct gp_image *image, const struct gp_store *store)
{
	for (size_t i = 0; i < image->n; i++)
		gp_saved_free(image->extents[i], store);
	free(image->extents);
	*image = (struct gp_image){ 0 };
}
