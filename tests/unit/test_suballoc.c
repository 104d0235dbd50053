/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs: small allocations inside one extent, checked against a plain model. */
#include "shim/memory/resident.h"
#include "shim/memory/slab.h"
#include "tests/unit/check.h"

#define BASE 0x700000000000ull
#define MANY 600

struct block {
	uint64_t address, bytes;
};

static void test_slab_new_then_holds_one_chunk(void)
{
	struct gp_slab *s = gp_slab_new(BASE);
	uint64_t start, bytes;

	CHECK(s && gp_slab_has_room(s));
	CHECK_EQ(gp_slab_take(s, GP_CHUNK_BYTES), BASE);
	CHECK(!gp_slab_has_room(s));
	CHECK_EQ(gp_slab_take(s, 1), 0);
	CHECK(gp_slab_find(s, BASE + GP_CHUNK_BYTES - 1, &start, &bytes));
	CHECK_EQ(start, BASE);
	CHECK_EQ(bytes, GP_CHUNK_BYTES);
	CHECK(gp_slab_give(s, BASE));
	CHECK_EQ(s->n_used, 0);
	gp_slab_free(s);
}

static void test_slab_take_when_size_is_odd_then_keeps_it(void)
{
	struct gp_slab *s = gp_slab_new(BASE);
	uint64_t a = gp_slab_take(s, 1), b = gp_slab_take(s, 513), start, bytes;

	CHECK_EQ(a, BASE);
	CHECK_EQ(b, BASE + 512);
	CHECK(gp_slab_find(s, b + 512, &start, &bytes));
	CHECK_EQ(start, b);
	CHECK_EQ(bytes, 513);
	CHECK(!gp_slab_find(s, b + 513, &start, &bytes));
	CHECK(!gp_slab_find(s, a + 1, &start, &bytes));
	CHECK(!gp_slab_find(s, b + 1024, &start, &bytes));
	gp_slab_free(s);
}

static void test_slab_give_when_no_block_starts_there_then_refuses(void)
{
	struct gp_slab *s = gp_slab_new(BASE);
	uint64_t a = gp_slab_take(s, 4096);

	CHECK(!gp_slab_give(s, a + 512));
	CHECK(!gp_slab_give(s, a + 1));
	CHECK(!gp_slab_give(s, a + 4096));
	CHECK(!gp_slab_give(s, BASE - 512));
	CHECK(!gp_slab_give(s, BASE + GP_CHUNK_BYTES));
	CHECK(gp_slab_give(s, a));
	CHECK(!gp_slab_give(s, a));
	gp_slab_free(s);
}

static void test_slab_give_when_neighbours_are_free_then_merges(void)
{
	struct gp_slab *s = gp_slab_new(BASE);
	uint64_t third = GP_CHUNK_BYTES / 4, at[4];
	int order[] = { 0, 2, 1, 3 };

	for (int i = 0; i < 4; i++)
		at[i] = gp_slab_take(s, third);
	CHECK(!gp_slab_has_room(s));
	for (int i = 0; i < 4; i++)
		CHECK(gp_slab_give(s, at[order[i]]));
	CHECK_EQ(gp_slab_take(s, GP_CHUNK_BYTES), BASE);
	gp_slab_free(s);
}

static void check_apart(const struct block *blocks, int n, const struct block *one)
{
	CHECK_EQ(one->address % GP_SLAB_UNIT_BYTES, 0);
	CHECK(one->address >= BASE && one->address + one->bytes <= BASE + GP_CHUNK_BYTES);
	for (int i = 0; i < n; i++)
		CHECK(one->address + one->bytes <= blocks[i].address ||
		      blocks[i].address + blocks[i].bytes <= one->address);
}

static void test_slab_when_used_at_random_then_blocks_stay_apart(void)
{
	struct gp_slab *s = gp_slab_new(BASE);
	struct block blocks[MANY];
	uint64_t seed = 1, start, bytes;
	int n = 0;

	for (int round = 0; round < 20000; round++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		if (n < MANY && (seed >> 40) % 3) {
			struct block b = { 0, 1 + (seed >> 33) % ((seed >> 60) ? 3000 : 200000) };

			b.address = gp_slab_take(s, b.bytes);
			if (!b.address)
				continue;
			check_apart(blocks, n, &b);
			blocks[n++] = b;
		} else if (n) {
			int i = (int)((seed >> 33) % (uint64_t)n);

			CHECK(gp_slab_find(s, blocks[i].address + blocks[i].bytes - 1, &start,
					   &bytes));
			CHECK_EQ(start, blocks[i].address);
			CHECK_EQ(bytes, blocks[i].bytes);
			CHECK(gp_slab_give(s, blocks[i].address));
			blocks[i] = blocks[--n];
		}
		CHECK_EQ(s->n_used, n);
	}
	while (n)
		CHECK(gp_slab_give(s, blocks[--n].address));
	CHECK_EQ(gp_slab_take(s, GP_CHUNK_BYTES), BASE);
	gp_slab_free(s);
}

static void test_resident_when_added_and_removed_then_counts(void)
{
	struct gp_resident res;

	gp_resident_init(&res);
	for (uint64_t i = 1; i <= 5000; i++)
		gp_resident_add(&res, GP_RESIDENT_POINTER, i * 512, 10);
	gp_resident_add(&res, GP_RESIDENT_ARRAY, 512, 7);
	gp_resident_add(&res, GP_RESIDENT_ARRAY, 512, 9); /* the key was freed unseen */
	CHECK_EQ(gp_resident_bytes(&res), 50009);
	for (uint64_t i = 5000; i > 0; i -= 2)
		gp_resident_remove(&res, GP_RESIDENT_POINTER, i * 512);
	gp_resident_remove(&res, GP_RESIDENT_HANDLE, 512);
	CHECK_EQ(gp_resident_bytes(&res), 25009);
	for (uint64_t i = 1; i <= 5000; i++)
		gp_resident_remove(&res, GP_RESIDENT_POINTER, i * 512);
	CHECK_EQ(gp_resident_bytes(&res), 9);
	free(res.entries);
}

int main(void)
{
	test_slab_new_then_holds_one_chunk();
	test_slab_take_when_size_is_odd_then_keeps_it();
	test_slab_give_when_no_block_starts_there_then_refuses();
	test_slab_give_when_neighbours_are_free_then_merges();
	test_slab_when_used_at_random_then_blocks_stay_apart();
	test_resident_when_added_and_removed_then_counts();
	return 0;
}
