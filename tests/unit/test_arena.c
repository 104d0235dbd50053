/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "snapshot/arena.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

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
	CHECK_EQ((uintptr_t)arena.chunks % GP_CHUNK_BYTES, 0);
	CHECK_EQ((uintptr_t)arena.extra % GP_CHUNK_BYTES, 0);
	CHECK_EQ(arena.bytes, 5 * GP_CHUNK_BYTES);
	CHECK_EQ(arena.extra_bytes, GP_CHUNK_BYTES);
	fprintf(stderr, "arena: %s\n", arena.pages);
	CHECK_EQ(arena.map.n_chunks, 5);
	memset(gp_arena_chunk(&arena, 4), 1, GP_CHUNK_BYTES);
	gp_arena_fini(&arena);
}

static void test_claim_when_one_is_taken_then_none_is(void)
{
	struct gp_chunkmap map;
	uint32_t first;

	CHECK_EQ(gp_chunkmap_init(&map, 200), 0);
	CHECK(gp_chunkmap_claim(&map, 60, 70));
	CHECK(!gp_chunkmap_claim(&map, 129, 2));
	CHECK(!gp_chunkmap_claim(&map, 0, 61));
	CHECK(gp_chunkmap_claim(&map, 199, 1));
	CHECK(!gp_chunkmap_claim(&map, 198, 3));
	CHECK(!gp_chunkmap_claim(&map, 200, 1));
	CHECK(!gp_chunkmap_claim(&map, UINT32_MAX, 2));
	CHECK_EQ(gp_chunkmap_used(&map), 71);
	CHECK_EQ(gp_chunkmap_take_low(&map, 10, &first), 10);
	CHECK_EQ(first, 0);
	gp_chunkmap_give(&map, 3, 2);
	CHECK_EQ(gp_chunkmap_take_low(&map, 2, &first), 2);
	CHECK_EQ(first, 3);
	gp_chunkmap_fini(&map);
}

/* As a successor does: the bytes are there, the size is the file's, nothing can be cut off. */
static void test_arena_when_adopted_then_the_bytes_are_there(void)
{
	struct gp_arena first, second;
	struct gp_err err = { 0 };

	CHECK_EQ(gp_arena_init(&first, 3 * GP_CHUNK_BYTES, 0, &err), 0);
	memset(gp_arena_chunk(&first, 0), 0x11, GP_CHUNK_BYTES);
	memset(gp_arena_chunk(&first, 2), 0x22, GP_CHUNK_BYTES);
	CHECK(ftruncate(first.fd, GP_CHUNK_BYTES) < 0);
	CHECK(ftruncate(first.fd, 8 * GP_CHUNK_BYTES) < 0);
	CHECK_EQ(gp_arena_adopt(&second, first.fd, 100, &err), 0);
	gp_arena_fini(&first);
	CHECK_EQ(second.bytes, 3 * GP_CHUNK_BYTES);
	CHECK_EQ(second.extra_bytes, GP_CHUNK_BYTES);
	CHECK_EQ(gp_chunkmap_used(&second.map), 0);
	for (size_t i = 0; i < GP_CHUNK_BYTES; i += 4096) {
		CHECK_EQ(((char *)gp_arena_chunk(&second, 0))[i], 0x11);
		CHECK_EQ(((char *)gp_arena_chunk(&second, 1))[i], 0);
		CHECK_EQ(((char *)gp_arena_chunk(&second, 2))[i], 0x22);
	}
	gp_arena_fini(&second);
}

static void test_arena_when_empty_then_it_can_be_adopted(void)
{
	struct gp_arena first, second;

	CHECK_EQ(gp_arena_init(&first, 0, 1, NULL), 0);
	CHECK_EQ(gp_arena_adopt(&second, first.fd, 1, NULL), 0);
	CHECK_EQ(second.bytes, 0);
	gp_arena_fini(&first);
	gp_arena_fini(&second);
}

static void test_arena_when_descriptor_is_something_else_then_refused(void)
{
	int fds[] = { -1, open("/dev/null", O_RDWR | O_CLOEXEC),
		      memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING),
		      memfd_create("odd", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
	struct gp_err err = { 0 };
	struct gp_arena arena;

	CHECK_EQ(ftruncate(fds[2], GP_CHUNK_BYTES), 0);
	CHECK_EQ(ftruncate(fds[3], 4096), 0);
	CHECK_EQ(fcntl(fds[3], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	for (size_t i = 0; i < GP_ARRAY_SIZE(fds); i++) {
		CHECK_EQ(gp_arena_adopt(&arena, fds[i], 0, &err), -EINVAL);
		CHECK(strstr(err.msg, "is no arena"));
		if (fds[i] >= 0)
			close(fds[i]);
	}
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
	test_claim_when_one_is_taken_then_none_is();
	test_arena_when_made_then_aligned_and_writable();
	test_arena_when_adopted_then_the_bytes_are_there();
	test_arena_when_empty_then_it_can_be_adopted();
	test_arena_when_descriptor_is_something_else_then_refused();
	test_arena_when_larger_than_memory_then_refused_in_one_line();
	return 0;
}
