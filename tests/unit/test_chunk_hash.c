/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU twin of the chunk hash. That the kernel agrees with it: gpupres-mover --self-test. */
#include "snapshot/chunk_hash.h"
#include "tests/unit/check.h"

#define WORDS (GP_HASH_CHUNK_BYTES / 8)

static const struct gp_hash_key key = { { 0x0123456789abcdefull, 0xfedcba9876543210ull } };

static uint64_t chunk[WORDS];

static struct gp_chunk_sum hash(void)
{
	struct gp_chunk_sum sum;

	gp_chunk_hash(chunk, key, &sum);
	return sum;
}

static void fill_random(uint64_t x)
{
	for (size_t i = 0; i < WORDS; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		chunk[i] = x;
	}
}

/* A second reading of the text in chunk_hash.h: lane by lane, one vector after the other. */
static void slow_step(uint64_t s[2], uint64_t x, uint64_t y)
{
	uint64_t a = (s[0] ^ x) * 0x9e3779b97f4a7c15ull, b = (s[1] ^ y) * 0xbb67ae8584caa73bull;

	s[0] = (a << 29 | a >> 35) + s[1];
	s[1] = (b << 31 | b >> 33) + s[0];
}

static void slow_stir(uint64_t s[2], uint64_t tweak)
{
	slow_step(s, tweak, 0x510e527fade682d1ull);
	slow_step(s, s[1] >> 32, s[0] >> 32);
	slow_step(s, 0x510e527fade682d1ull, tweak);
	slow_step(s, s[1] >> 29, s[0] >> 31);
}

static void slow_hash(uint64_t ret[2])
{
	static uint64_t lanes[512][2];

	for (uint64_t t = 0; t < 512; t++) {
		lanes[t][0] = key.k[0] ^ (t + 1) * 0xbb67ae8584caa73bull;
		lanes[t][1] = key.k[1] ^ (t + 1) * 0x9e3779b97f4a7c15ull;
		slow_stir(lanes[t], t);
		for (size_t v = t; v < GP_HASH_CHUNK_BYTES / 16; v += 512)
			slow_step(lanes[t], chunk[2 * v], chunk[2 * v + 1]);
		slow_stir(lanes[t], t);
	}
	for (uint64_t stride = 256; stride; stride /= 2) {
		for (uint64_t t = 0; t < stride; t++) {
			slow_step(lanes[t], lanes[t + stride][0], lanes[t + stride][1]);
			slow_stir(lanes[t], stride);
		}
	}
	ret[0] = lanes[0][0];
	ret[1] = lanes[0][1];
}

static void test_hash_when_computed_lane_by_lane_then_equal(void)
{
	uint64_t slow[2];

	for (uint64_t seed = 1; seed < 4; seed++) {
		fill_random(seed);
		slow_hash(slow);
		CHECK_EQ(hash().hash[0], slow[0]);
		CHECK_EQ(hash().hash[1], slow[1]);
	}
}

/* Images outlive the program that wrote them: the function must never change. */
static void test_hash_when_known_input_then_known_vector(void)
{
	struct gp_chunk_sum sum;

	memset(chunk, 0, sizeof(chunk));
	sum = hash();
	CHECK_EQ(sum.hash[0], 0x47a7426097c96f35ull);
	CHECK_EQ(sum.hash[1], 0xff8aa28479f4d6b5ull);
	CHECK_EQ(sum.nonzero, 0);
	for (size_t i = 0; i < WORDS; i++)
		chunk[i] = i;
	sum = hash();
	CHECK_EQ(sum.hash[0], 0x1eff4fa2c261f68bull);
	CHECK_EQ(sum.hash[1], 0x9b5e7c3322ce84dbull);
	CHECK_EQ(sum.nonzero, 1);
}

static int differing_bits(const struct gp_chunk_sum *a, const struct gp_chunk_sum *b)
{
	return __builtin_popcountll(a->hash[0] ^ b->hash[0]) +
	       __builtin_popcountll(a->hash[1] ^ b->hash[1]);
}

/* First, second and last row, first, middle and last lane, both words of a vector, all bits. */
static void test_hash_when_one_bit_flips_then_half_of_the_hash_flips(void)
{
	static const size_t rows[] = { 0, 1, GP_HASH_ROUNDS - 1 }, lanes[] = { 0, 255, 511 };
	struct gp_chunk_sum before, after;
	uint64_t total = 0, n = 0;

	fill_random(7);
	before = hash();
	for (size_t place = 0; place < 18; place++) {
		size_t word =
			2 * (rows[place / 6] * GP_HASH_LANES + lanes[place / 2 % 3]) + place % 2;

		for (int bit = 0; bit < 64; bit += 7) {
			int flipped;

			chunk[word] ^= 1ull << bit;
			after = hash();
			chunk[word] ^= 1ull << bit;
			flipped = differing_bits(&before, &after);
			CHECK(flipped >= 30 && flipped <= 98); /* 64 +- 6 standard deviations */
			total += (uint64_t)flipped;
			n++;
		}
	}
	CHECK(total > 60 * n && total < 68 * n);
}

static void test_hash_when_vectors_swap_places_then_differs(void)
{
	struct gp_chunk_sum before, after;
	uint64_t x;

	fill_random(9);
	before = hash();
	x = chunk[0]; /* neighbouring lanes */
	chunk[0] = chunk[2];
	chunk[2] = x;
	after = hash();
	CHECK(differing_bits(&before, &after) > 20);
	before = after;
	x = chunk[0]; /* rows of one lane */
	chunk[0] = chunk[2 * GP_HASH_LANES];
	chunk[2 * GP_HASH_LANES] = x;
	after = hash();
	CHECK(differing_bits(&before, &after) > 20);
}

static void test_hash_when_key_differs_then_differs(void)
{
	struct gp_hash_key other = key;
	struct gp_chunk_sum a = hash(), b;

	other.k[1] ^= 1;
	gp_chunk_hash(chunk, other, &b);
	CHECK(differing_bits(&a, &b) > 20);
}

static void test_nonzero_when_any_single_word_is_set_then_seen(void)
{
	memset(chunk, 0, sizeof(chunk));
	for (size_t word = 0; word < WORDS; word += 4001) {
		chunk[word] = 1ull << word % 64;
		CHECK_EQ(hash().nonzero, 1);
		chunk[word] = 0;
	}
	CHECK_EQ(hash().nonzero, 0);
}

int main(void)
{
	test_hash_when_computed_lane_by_lane_then_equal();
	test_hash_when_known_input_then_known_vector();
	test_hash_when_one_bit_flips_then_half_of_the_hash_flips();
	test_hash_when_vectors_swap_places_then_differs();
	test_hash_when_key_differs_then_differs();
	test_nonzero_when_any_single_word_is_set_then_seen();
	return 0;
}
