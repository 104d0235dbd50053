/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_IMAGE_H
#define GP_SNAPSHOT_IMAGE_H
/*
 * The saved bytes of one process: for every extent, what each of its chunks hashes to and where it
 * lies. A struct gp_saved is built aside while its extent is being saved and enters the image,
 * complete, by gp_image_put; from then on it does not change and is in the ledger. Used by one
 * thread, except for gp_image_count and gp_image_bytes.
 */
#include "base/err.h"
#include "snapshot/arena.h"
#include "snapshot/ledger.h"
#include "snapshot/swapfile.h"

#include <stdint.h>

/* Where chunks can lie, and what is written down of them; owns none of them. */
struct gp_store {
	struct gp_arena *arena;
	struct gp_swapfile *swapfile;
	struct gp_ledger *ledger;
};

struct gp_image {
	uint64_t job;
	uint32_t proc;
	struct gp_saved **extents; /* sorted by id */
	size_t n, capacity;
	uint64_t n_chunks; /* of all extents */
};

/* All chunks are GP_PLACE_NONE. NULL: -ENOMEM, -ENOSPC or another error of the ledger in @err. */
struct gp_saved *gp_saved_new(const struct gp_store *store, uint64_t id, uint32_t n_chunks,
			      struct gp_err *err);
/* A record as gp_ledger_walk found it, for gp_image_adopt. NULL when out of memory. */
struct gp_saved *gp_saved_copy(const struct gp_saved *found);
/* Frees the record (may be NULL), also in the ledger, and gives its chunks back to @store. */
void gp_saved_free(struct gp_saved *saved, const struct gp_store *store);

/* Length of the run from chunk @i on that lies in one piece: neighbours in one place, or all zero.
 */
uint32_t gp_saved_run(const struct gp_saved *saved, uint32_t i);
/*
 * @loser, which is not in the ledger (any more), gives up the chunks whose place it shares with
 * @keeper (may be NULL), so that they are given back once only.
 */
void gp_saved_disown(struct gp_saved *loser, const struct gp_saved *keeper);

/* Makes room for @n more extents, so that gp_image_put cannot fail. -ENOMEM. */
gp_must_check int gp_image_reserve(struct gp_image *image, size_t n);
/*
 * Takes over @saved, which is in the ledger from then on, and frees an older record of that
 * extent, with which it may share chunks. Room must have been reserved.
 */
void gp_image_put(struct gp_image *image, struct gp_saved *saved, const struct gp_store *store);
/*
 * Takes over @saved as gp_ledger_walk found it. Of two records of one extent the one with the
 * higher sequence stays, the other is freed. Its chunks are not given back: gp_image_claim comes
 * first of what touches arena and swap file. Room must have been reserved.
 */
void gp_image_adopt(struct gp_image *image, struct gp_saved *saved, const struct gp_store *store);
/*
 * Takes the chunks of record @i in arena and swap file. -EBADMSG: it names chunks that do not
 * exist or are taken; then nothing is taken and the record is dropped from image and ledger.
 */
gp_must_check int gp_image_claim(struct gp_image *image, size_t i, const struct gp_store *store,
				 struct gp_err *err);
/* NULL if the extent was not saved. Borrowed until the next put or clear. */
struct gp_saved *gp_image_find(const struct gp_image *image, uint64_t id);
/* Frees every record and gives all chunks back. */
void gp_image_clear(struct gp_image *image, const struct gp_store *store);
/* Frees the memory only: records and chunks stay what they are, for a successor. */
void gp_image_leave(struct gp_image *image);

/* Extents, and their bytes. Any thread. */
size_t gp_image_count(const struct gp_image *image);
uint64_t gp_image_bytes(const struct gp_image *image);

#endif
