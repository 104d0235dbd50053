/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_ARENA_H
#define GP_SNAPSHOT_ARENA_H
/*
 * The host memory that evicted chunks go to: a memfd, so that it outlives the mover and can be
 * handed to a successor, mapped shared and faulted in at start, because making host memory is
 * slower than copying into it (on an H200: 0.16 s/GB with huge pages, 0.75 s/GB with 4 KiB pages
 * and one thread, against 55 GB/s). Beside it lies private memory for staging buffers and hash
 * results, which ends with the mover. The mover registers both with the driver once.
 *
 * A memfd has huge pages where the system reserves some (vm.nr_hugepages, or
 * vm.nr_overcommit_hugepages), or where
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled allows them on advice.
 *
 * One thread uses an arena, except for gp_chunkmap_used of its map.
 */
#include "base/err.h"
#include "snapshot/chunkmap.h"

#include <stddef.h>
#include <stdint.h>

struct gp_arena {
	int fd;
	void *chunks; /* 2 MiB aligned; NULL if there are none */
	size_t bytes; /* of the chunks */
	void *extra;  /* 2 MiB aligned, private; NULL if there is none */
	size_t extra_bytes;
	const char *pages; /* what backs the chunks, for the log */
	struct gp_chunkmap map;
};

/*
 * Maps and faults in @bytes of chunks and @extra_bytes more, both rounded up to whole chunks.
 * Takes seconds for large arenas. -ENOMEM with the amounts when the machine has less memory
 * available (MemAvailable of /proc/meminfo).
 */
gp_must_check int gp_arena_init(struct gp_arena *arena, uint64_t bytes, uint64_t extra_bytes,
				struct gp_err *err);
/*
 * Maps the arena that a predecessor left behind @fd (borrowed), whatever its size, contents
 * unchanged; all chunks count as free until gp_chunkmap_claim. -EINVAL: this is no arena.
 */
gp_must_check int gp_arena_adopt(struct gp_arena *arena, int fd, uint64_t extra_bytes,
				 struct gp_err *err);
void gp_arena_fini(struct gp_arena *arena);

/* Address of a chunk. */
void *gp_arena_chunk(const struct gp_arena *arena, uint32_t chunk);

#endif
