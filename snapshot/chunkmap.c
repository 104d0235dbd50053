/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/chunkmap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int gp_chunkmap_init(struct gp_chunkmap *map, uint32_t n_chunks)
{
	size_t n_words = (size_t)n_chunks / 64 + 1;

	*map = (struct gp_chunkmap){ .n_chunks = n_chunks };
	map->words = calloc(n_words, sizeof(*map->words));
	if (!map->words)
		return -ENOMEM;
	/* At least one bit is past the end, so that every search meets a taken chunk. */
	map->words[n_words - 1] = ~0ull << n_chunks % 64;
	return 0;
}

void gp_chunkmap_fini(struct gp_chunkmap *map)
{
	free(map->words);
	*map = (struct gp_chunkmap){ 0 };
}

bool gp_chunkmap_taken(const struct gp_chunkmap *map, uint32_t chunk)
{
	return map->words[chunk / 64] >> chunk % 64 & 1;
}

uint32_t gp_chunkmap_used(const struct gp_chunkmap *map)
{
	return __atomic_load_n(&map->n_used, __ATOMIC_RELAXED);
}

/* First free chunk in [@from, @end), or @end. */
static uint32_t chunkmap_next_free(const struct gp_chunkmap *map, uint32_t from, uint32_t end)
{
	while (from < end) {
		uint64_t free_bits = ~map->words[from / 64] >> from % 64;

		if (free_bits) {
			from += (uint32_t)__builtin_ctzll(free_bits);
			break;
		}
		from = (from / 64 + 1) * 64;
	}
	return from < end ? from : end;
}

/* End of the free run that starts at @from, at most @end. */
static uint32_t chunkmap_run_end(const struct gp_chunkmap *map, uint32_t from, uint32_t end)
{
	while (from < end) {
		uint64_t taken_bits = map->words[from / 64] >> from % 64;

		if (taken_bits) {
			from += (uint32_t)__builtin_ctzll(taken_bits);
			break;
		}
		from = (from / 64 + 1) * 64;
	}
	return from < end ? from : end;
}

static void chunkmap_mark(struct gp_chunkmap *map, uint32_t first, uint32_t n, bool taken)
{
	for (uint32_t i = first; i < first + n; i++) {
		assert(gp_chunkmap_taken(map, i) != taken);
		map->words[i / 64] ^= 1ull << i % 64;
	}
	__atomic_store_n(&map->n_used, taken ? map->n_used + n : map->n_used - n, __ATOMIC_RELAXED);
}

/* Looks in [@from, @end) for @want free chunks; keeps the longest run seen in *@best. */
static bool chunkmap_search(const struct gp_chunkmap *map, uint32_t from, uint32_t end,
			    uint32_t want, uint32_t *best, uint32_t *best_n)
{
	for (;;) {
		uint32_t first = chunkmap_next_free(map, from, end), stop, n;

		if (first == end)
			return false;
		stop = chunkmap_run_end(map, first, end - first < want ? end : first + want);
		n = stop - first;
		if (n > *best_n) {
			*best = first;
			*best_n = n;
		}
		if (n == want)
			return true;
		from = stop;
	}
}

uint32_t gp_chunkmap_take(struct gp_chunkmap *map, uint32_t want, uint32_t *ret_first)
{
	uint32_t best = 0, best_n = 0;

	if (want == 0 || map->n_used == map->n_chunks)
		return 0;
	if (!chunkmap_search(map, map->cursor, map->n_chunks, want, &best, &best_n))
		chunkmap_search(map, 0, map->n_chunks, want, &best, &best_n);
	chunkmap_mark(map, best, best_n, true);
	map->cursor = best + best_n == map->n_chunks ? 0 : best + best_n;
	*ret_first = best;
	return best_n;
}

uint32_t gp_chunkmap_take_low(struct gp_chunkmap *map, uint32_t want, uint32_t *ret_first)
{
	map->cursor = 0;
	return gp_chunkmap_take(map, want, ret_first);
}

bool gp_chunkmap_claim(struct gp_chunkmap *map, uint32_t first, uint32_t n)
{
	if (first > map->n_chunks || n > map->n_chunks - first ||
	    chunkmap_run_end(map, first, first + n) != first + n)
		return false;
	chunkmap_mark(map, first, n, true);
	return true;
}

void gp_chunkmap_give(struct gp_chunkmap *map, uint32_t first, uint32_t n)
{
	assert(first + n <= map->n_chunks);
	chunkmap_mark(map, first, n, false);
}
