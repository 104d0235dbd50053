/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "snapshot/image.h"
#include "tests/unit/check.h"

static struct gp_arena arena;
static struct gp_ledger ledger;
static struct gp_store store = { .arena = &arena, .ledger = &ledger };
static struct gp_image image;

static struct gp_saved *saved_new(uint64_t id, uint32_t n)
{
	struct gp_saved *saved = gp_saved_new(&store, id, n, NULL);

	CHECK(saved);
	return saved;
}

/* A record of @n chunks in one run of the arena. */
static struct gp_saved *saved_in_arena(uint64_t id, uint32_t n)
{
	struct gp_saved *saved = saved_new(id, n);
	uint32_t first = 0;

	CHECK_EQ(gp_chunkmap_take(&arena.map, n, &first), n);
	for (uint32_t i = 0; i < n; i++) {
		saved->chunks[i].place = GP_PLACE_ARENA;
		saved->chunks[i].index = first + i;
	}
	return saved;
}

static void put(struct gp_saved *saved)
{
	CHECK_EQ(gp_image_reserve(&image, 1), 0);
	gp_image_put(&image, saved, &store);
}

static void test_put_when_ids_come_in_any_order_then_all_found(void)
{
	for (uint64_t id = 0; id < 500; id++)
		put(saved_new(id * 7919 % 1009, 1));
	for (uint64_t id = 0; id < 500; id++) {
		struct gp_saved *saved = gp_image_find(&image, id * 7919 % 1009);

		CHECK(saved);
		CHECK_EQ(saved->id, id * 7919 % 1009);
	}
	CHECK(!gp_image_find(&image, 2000));
	CHECK_EQ(image.n, 500);
	gp_image_clear(&image, &store);
	CHECK(!gp_image_find(&image, 1));
}

static void test_put_when_extent_is_saved_again_then_old_chunks_are_given_back(void)
{
	put(saved_in_arena(5, 4));
	put(saved_in_arena(6, 2));
	CHECK_EQ(gp_chunkmap_used(&arena.map), 6);
	put(saved_in_arena(5, 3));
	CHECK_EQ(gp_chunkmap_used(&arena.map), 5);
	CHECK_EQ(image.n, 2);
	gp_image_clear(&image, &store);
	CHECK_EQ(gp_chunkmap_used(&arena.map), 0);
}

static void test_put_when_chunks_are_shared_then_given_back_once(void)
{
	struct gp_saved *old = saved_in_arena(5, 4), *fresh = saved_new(5, 4);
	uint32_t index;

	put(old);
	for (uint32_t i = 0; i < 3; i++)
		fresh->chunks[i] = old->chunks[i];
	CHECK_EQ(gp_chunkmap_take(&arena.map, 1, &index), 1);
	fresh->chunks[3].place = GP_PLACE_ARENA;
	fresh->chunks[3].index = index;
	put(fresh);
	CHECK_EQ(gp_chunkmap_used(&arena.map), 4);
	CHECK(gp_chunkmap_taken(&arena.map, index));
	gp_image_clear(&image, &store);
	CHECK_EQ(gp_chunkmap_used(&arena.map), 0);
}

static void test_run_when_places_differ_then_ends_there(void)
{
	static const struct gp_saved_chunk chunks[] = {
		{ .place = GP_PLACE_ZERO },
		{ .place = GP_PLACE_ZERO },
		{ .place = GP_PLACE_ARENA, .index = 8 },
		{ .place = GP_PLACE_ARENA, .index = 9 },
		{ .place = GP_PLACE_ARENA, .index = 11 },
		{ .place = GP_PLACE_DISK, .index = 12 },
	};
	struct gp_saved *saved = saved_new(1, GP_ARRAY_SIZE(chunks));

	memcpy(saved->chunks, chunks, sizeof(chunks));
	CHECK_EQ(gp_saved_run(saved, 0), 2);
	CHECK_EQ(gp_saved_run(saved, 2), 2);
	CHECK_EQ(gp_saved_run(saved, 4), 1);
	CHECK_EQ(gp_saved_run(saved, 5), 1);
	memset(saved->chunks, 0, sizeof(chunks));
	gp_saved_free(saved, &store);
}

static void test_image_when_it_changes_then_the_totals_follow(void)
{
	put(saved_in_arena(5, 4));
	put(saved_in_arena(6, 2));
	put(saved_in_arena(5, 1));
	CHECK_EQ(gp_image_count(&image), 2);
	CHECK_EQ(gp_image_bytes(&image), 3 * GP_CHUNK_BYTES);
	gp_image_clear(&image, &store);
	CHECK_EQ(gp_image_count(&image), 0);
	CHECK_EQ(gp_image_bytes(&image), 0);
}

int main(void)
{
	CHECK_EQ(gp_arena_init(&arena, 16 * GP_CHUNK_BYTES, 0, NULL), 0);
	CHECK_EQ(gp_ledger_init(&ledger, arena.bytes, NULL), 0);
	test_put_when_ids_come_in_any_order_then_all_found();
	test_put_when_extent_is_saved_again_then_old_chunks_are_given_back();
	test_put_when_chunks_are_shared_then_given_back_once();
	test_run_when_places_differ_then_ends_there();
	test_image_when_it_changes_then_the_totals_follow();
	gp_ledger_fini(&ledger);
	gp_arena_fini(&arena);
	return 0;
}
