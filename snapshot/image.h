/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_IMAGE_H
#define GP_SNAPSHOT_IMAGE_H
/*
 * The saved bytes of one process: for every extent, what each of its chunks hashes to and where it
 * lies. A struct gp_saved is built aside while its extent is being saved and enters the image,
 * complete, by gp_image_put; from then on it does not change. Used by one thread.
 */
#include "base/err.h"
#include "snapshot/arena.h"
#include "snapshot/chunk_hash.h"
#include "snapshot/swapfile.h"

#include <stdint.h>

/* Where chunks can lie; owns neither. */
struct gp_store {
	struct gp_arena *arena;
	struct gp_swapfile *swapfile;
};

enum gp_place {
	GP_PLACE_NONE, /* nothing there yet, or handed on to a newer record */
	GP_PLACE_ZERO,
	GP_PLACE_ARENA,
	GP_PLACE_DISK,
};

struct gp_saved_chunk {
	gp_hash_word hash[2];
	uint32_t place; /* enum gp_place */
	uint32_t index; /* chunk of the arena or of the swap file */
};

struct gp_saved {
	uint64_t id; /* of the extent, as the process numbers them */
	uint32_t n_chunks;
	struct gp_saved_chunk chunks[];
};

struct gp_image {
	struct gp_saved **extents; /* sorted by id */
	size_t n, capacity;
};

/* NULL when out of memory. All chunks are GP_PLACE_NONE. */
struct gp_saved *gp_saved_new(uint64_t id, uint32_t n_chunks);
/* Frees the record (may be NULL) and gives its chunks back to @store. */
void gp_saved_free(struct gp_saved *saved, const struct gp_store *store);

/* Length of the run from chunk @i on that lies in one piece: neighbours in one place, or all zero.
 */
uint32_t gp_saved_run(const struct gp_saved *saved, uint32_t i);
/*
 * @loser gives up the chunks whose place it shares with @keeper (may be NULL), so that they are
 * given back once only.
 */
void gp_saved_disown(struct gp_saved *loser, const struct gp_saved *keeper);

/* Makes room for @n more extents, so that gp_image_put cannot fail. -ENOMEM. */
gp_must_check int gp_image_reserve(struct gp_image *image, size_t n);
/* Takes over @saved, freeing an older record of that extent. Room must have been reserved. */
void gp_image_put(struct gp_image *image, struct gp_saved *saved, const struct gp_store *store);
/* NULL if the extent was not saved. Borrowed until the next put or clear. */
struct gp_saved *gp_image_find(const struct gp_image *image, uint64_t id);
/* Frees every record and gives all chunks back. */
void gp_image_clear(struct gp_image *image, const struct gp_store *store);

#endif
