/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "snapshot/arena.h"
#include "tests/unit/check.h"

#include <errno.h>

static void test_take_when_empty_then_one_run(void)
{
	struct gp_chunkmap map;
	uint32_t first;

	CHECK_EQ(gp_chunkmap_init(&map, 200), 0);
	CHECK_EQ(gp_chunkmap_take(&map, 150, &first), 150);
	CHECK_EQ(first, 0);
	CHECK_EQ(gp_chunkmap_take(&map, 100, &first), 50); /* the longest there is */
	CHECK_EQ(first, 150);
	CHECK_EQ(gp_chunkmap_take(&map, 1, &first), 0);
	CHECK_EQ(gp_chunkmap_used(&map), 200);
	gp_chunkmap_fini(&map);
}

static void test_take_when_fragmented_then_prefers_a_run_that_fits(void)
{
	struct gp_chunkmap map;
	uint32_t first;

	CHECK_EQ(gp_chunkmap_init(&map, 256), 0);
	CHECK_EQ(gp_chunkmap_take(&map, 256, &first), 256);
	gp_chunkmap_give(&map, 3, 2);
	gp_chunkmap_give(&map, 60, 70); /* across two words of the bitmap */
	gp_chunkmap_give(&map, 250, 6);
	CHECK_EQ(gp_chunkmap_take(&map, 64, &first), 64);
	CHECK_EQ(first, 60);
	/* Next fit: the search goes on behind what was taken last, then wraps around. */
	CHECK_EQ(gp_chunkmap_take(&map, 2, &first), 2);
	CHECK_EQ(first, 124);
	CHECK_EQ(gp_chunkmap_take(&map, 6, &first), 6);
	CHECK_EQ(first, 250);
	CHECK_EQ(gp_chunkmap_take(&map, 2, &first), 2);
	CHECK_EQ(first, 3);
	CHECK_EQ(gp_chunkmap_take(&map, 9, &first), 4);
	CHECK_EQ(first, 126);
	CHECK_EQ(gp_chunkmap_take(&map, 1, &first), 0);
	gp_chunkmap_fini(&map);
}

static void test_take_when_used_at_random_then_no_chunk_is_taken_twice(void)
{
	enum { N = 300 };
	uint8_t owned[N] = { 0 };
	struct gp_chunkmap map;
	uint32_t x = 12345, used = 0, first;

	CHECK_EQ(gp_chunkmap_init(&map, N), 0);
	for (int step = 0; step < 20000; step++) {
		x = x * 1664525u + 1013904223u;
		if (x >> 31) {
			uint32_t n = gp_chunkmap_take(&map, 1 + (x >> 8) % 40, &first);

			CHECK(n || used == N);
			for (uint32_t i = first; n && i < first + n; i++)
				CHECK_EQ(owned[i]++, 0);
			used += n;
		} else {
			first = (x >> 8) % N;
			if (!owned[first])
				continue;
			owned[first] = 0;
			gp_chunkmap_give(&map, first, 1);
			used--;
		}
		CHECK_EQ(gp_chunkmap_used(&map), used);
	}
	gp_chunkmap_fini(&map);
}

static void test_arena_when_made_then_aligned_and_writable(void)
{
	struct gp_err err = { 0 };
	struct gp_arena arena;

	CHECK_EQ(gp_arena_init(&arena, 5 * GP_CHUNK_BYTES - 1, 100, &err), 0);
	CHECK_EQ((uintptr_t)arena.mapping % GP_CHUNK_BYTES, 0);
	CHECK_EQ(arena.bytes, 5 * GP_CHUNK_BYTES);
	CHECK_EQ(gp_arena_mapping_bytes(&arena), 6 * GP_CHUNK_BYTES);
	CHECK_EQ(arena.map.n_chunks, 5);
	memset(gp_arena_chunk(&arena, 4), 1, GP_CHUNK_BYTES);
	gp_arena_fini(&arena);
}

static void test_arena_when_larger_than_memory_then_refused_in_one_line(void)
{
	struct gp_err err = { 0 };
	struct gp_arena arena;

	CHECK_EQ(gp_arena_init(&arena, 1ull << 50, 0, &err), -ENOMEM);
	CHECK(strstr(err.msg, "1 PiB") || strstr(err.msg, "1024"));
	CHECK(strstr(err.msg, "choose a smaller arena"));
	CHECK(!strchr(err.msg, '\n'));
}

int main(void)
{
	test_take_when_empty_then_one_run();
	test_take_when_fragmented_then_prefers_a_run_that_fits();
	test_take_when_used_at_random_then_no_chunk_is_taken_twice();
	test_arena_when_made_then_aligned_and_writable();
	test_arena_when_larger_than_memory_then_refused_in_one_line();
	return 0;
}
