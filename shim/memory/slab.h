/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_MEMORY_SLAB_H
#define GP_SHIM_MEMORY_SLAB_H
/*
 * Carves small allocations from one 2 MiB extent. Pure arithmetic on addresses: no CUDA, no locks,
 * the memory itself is never touched. Free neighbours are merged at once; free blocks hang in
 * lists by power of two.
 */
#include "base/list.h"
#include "base/size.h"

#include <stdbool.h>
#include <stdint.h>

#define GP_SLAB_UNIT_BYTES 512 /* cudaMalloc aligns to 256; textures want 512 */
#define GP_SLAB_UNITS	   (GP_CHUNK_BYTES / GP_SLAB_UNIT_BYTES)
#define GP_SLAB_CLASSES	   13 /* 2^0 .. 2^12 units */
_Static_assert(GP_SLAB_UNITS == 1u << (GP_SLAB_CLASSES - 1), "the largest class is a whole slab");

/* Kept for the first and for the last unit of each block, so that a block finds both neighbours. */
struct gp_slab_unit {
	uint16_t units;	     /* of the block */
	uint16_t used;	     /* 0 or 1 */
	uint16_t slack;	     /* used, first unit: bytes of the block that were not asked for */
	uint16_t next, prev; /* free, first unit: in the list of its class */
};

struct gp_slab {
	struct gp_list roomy; /* for the owner: its list of slabs with a free block */
	uint64_t address;
	uint32_t n_used;
	uint16_t classes; /* bit i: heads[i] is not empty */
	uint16_t heads[GP_SLAB_CLASSES];
	uint64_t starts[GP_SLAB_UNITS / 64]; /* bit set: a used block starts at this unit */
	struct gp_slab_unit unit[GP_SLAB_UNITS];
};

/* NULL when out of memory. */
struct gp_slab *gp_slab_new(uint64_t address);
void gp_slab_free(struct gp_slab *slab);

/* Address of a new block of @bytes (1 to GP_CHUNK_BYTES), or 0 if none fits. */
uint64_t gp_slab_take(struct gp_slab *slab, uint64_t bytes);

/* Gives back the block that starts at @address; false if none does. */
bool gp_slab_give(struct gp_slab *slab, uint64_t address);

/* The block that holds @address (inside the slab): its start and the bytes asked for. */
bool gp_slab_find(const struct gp_slab *slab, uint64_t address, uint64_t *ret_start,
		  uint64_t *ret_bytes);

static inline bool gp_slab_has_room(const struct gp_slab *slab)
{
	return slab->classes != 0;
}

#endif
