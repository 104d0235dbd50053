/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_ARENA_H
#define GP_SNAPSHOT_ARENA_H
/*
 * The host memory that evicted chunks go to: one private mapping of huge pages, faulted in at
 * start, because making host memory is slower than copying into it (on an H200: 0.16 s/GB against
 * 55 GB/s). The mover registers the whole mapping with the driver once. Ahead of the chunks lies a
 * second region for staging buffers and hash results, so that one registration serves all.
 * One thread uses an arena, except for gp_arena_used.
 */
#include "base/err.h"
#include "snapshot/chunkmap.h"

#include <stddef.h>
#include <stdint.h>

struct gp_arena {
	void *mapping; /* 2 MiB aligned: @extra_bytes, then the chunks */
	size_t extra_bytes;
	size_t bytes; /* of the chunks */
	struct gp_chunkmap map;
};

/*
 * Maps and faults in @bytes of chunks and @extra_bytes more, both rounded up to whole chunks.
 * Takes seconds for large arenas. -ENOMEM with the amounts when the machine has less memory
 * available (MemAvailable of /proc/meminfo).
 */
gp_must_check int gp_arena_init(struct gp_arena *arena, uint64_t bytes, uint64_t extra_bytes,
				struct gp_err *err);
void gp_arena_fini(struct gp_arena *arena);

/* Address of a chunk. */
void *gp_arena_chunk(const struct gp_arena *arena, uint32_t chunk);
/* The whole mapping, for registration. */
size_t gp_arena_mapping_bytes(const struct gp_arena *arena);

#endif
