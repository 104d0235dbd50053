/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_CHUNKMAP_H
#define GP_SNAPSHOT_CHUNKMAP_H
/*
 * Which chunks of a fixed number are taken: a bitmap with next-fit search, used for the arena and
 * for the swap file. Runs are preferred to single chunks because one long copy is faster than many.
 * One thread allocates and frees; any thread may read the number taken.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_chunkmap {
	uint64_t *words; /* bit set = taken; bits past the end are set for good */
	uint32_t n_chunks;
	uint32_t n_used;
	uint32_t cursor; /* where the next search starts */
};

/* -ENOMEM. @n_chunks may be 0: then nothing can be taken. */
gp_must_check int gp_chunkmap_init(struct gp_chunkmap *map, uint32_t n_chunks);
void gp_chunkmap_fini(struct gp_chunkmap *map);

/*
 * Takes the first run of @want chunks found from the cursor on, else the longest run there is.
 * Returns its length (0: full) and its first chunk in *@ret_first.
 */
uint32_t gp_chunkmap_take(struct gp_chunkmap *map, uint32_t want, uint32_t *ret_first);
/*
 * As gp_chunkmap_take, from the start of the map: slower, but what is taken stays close together.
 */
uint32_t gp_chunkmap_take_low(struct gp_chunkmap *map, uint32_t want, uint32_t *ret_first);
/* Takes these chunks; false if one is taken already or past the end, and then none is taken. */
gp_must_check bool gp_chunkmap_claim(struct gp_chunkmap *map, uint32_t first, uint32_t n);
/* Gives back @n taken chunks. */
void gp_chunkmap_give(struct gp_chunkmap *map, uint32_t first, uint32_t n);

bool gp_chunkmap_taken(const struct gp_chunkmap *map, uint32_t chunk);
uint32_t gp_chunkmap_used(const struct gp_chunkmap *map);

#endif
