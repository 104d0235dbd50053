/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/memory/resident.h"

#include <stdbool.h>
#include <stdlib.h>

void gp_resident_init(struct gp_resident *res)
{
	*res = (struct gp_resident){ 0 };
	pthread_mutex_init(&res->lock, NULL);
}

static uint64_t resident_hash(const struct gp_resident *res, uint32_t kind, uint64_t key)
{
	return ((key ^ kind) * 0x9e3779b97f4a7c15ull >> 32) & (res->capacity - 1);
}

/* Position of the entry, or of the empty one where it belongs. */
static uint64_t resident_position(const struct gp_resident *res, uint32_t kind, uint64_t key)
{
	uint64_t i = resident_hash(res, kind, key);

	while (res->entries[i].kind && (res->entries[i].kind != kind || res->entries[i].key != key))
		i = (i + 1) & (res->capacity - 1);
	return i;
}

/* At most half full. */
static bool resident_grow(struct gp_resident *res)
{
	struct gp_resident old = *res;

	if (2 * (res->n + 1) <= res->capacity)
		return true;
	res->capacity = old.capacity ? 2 * old.capacity : 256;
	res->entries = calloc(res->capacity, sizeof(*res->entries));
	if (!res->entries) {
		res->entries = old.entries;
		res->capacity = old.capacity;
		return false;
	}
	for (uint64_t i = 0; i < old.capacity; i++) {
		const struct gp_resident_entry *e = &old.entries[i];

		if (e->kind)
			res->entries[resident_position(res, e->kind, e->key)] = *e;
	}
	free(old.entries);
	return true;
}

void gp_resident_add(struct gp_resident *res, enum gp_resident_kind kind, uint64_t key,
		     uint64_t bytes)
{
	pthread_mutex_lock(&res->lock);
	if (resident_grow(res)) {
		struct gp_resident_entry *e = &res->entries[resident_position(res, kind, key)];

		res->bytes -= e->bytes;
		res->n += !e->kind;
		*e = (struct gp_resident_entry){ key, bytes, kind };
		res->bytes += bytes;
	}
	pthread_mutex_unlock(&res->lock);
}

/* Moves later entries of the same run up, so that none is cut off from its place. */
static void resident_delete(struct gp_resident *res, uint64_t hole)
{
	uint64_t mask = res->capacity - 1, i = hole;

	for (;;) {
		const struct gp_resident_entry *e;

		i = (i + 1) & mask;
		e = &res->entries[i];
		if (!e->kind)
			break;
		if (((i - resident_hash(res, e->kind, e->key)) & mask) >= ((i - hole) & mask)) {
			res->entries[hole] = *e;
			hole = i;
		}
	}
	res->entries[hole] = (struct gp_resident_entry){ 0 };
	res->n--;
}

void gp_resident_remove(struct gp_resident *res, enum gp_resident_kind kind, uint64_t key)
{
	pthread_mutex_lock(&res->lock);
	if (res->n) {
		uint64_t i = resident_position(res, kind, key);

		if (res->entries[i].kind) {
			res->bytes -= res->entries[i].bytes;
			resident_delete(res, i);
		}
	}
	pthread_mutex_unlock(&res->lock);
}

uint64_t gp_resident_bytes(struct gp_resident *res)
{
	uint64_t bytes;

	pthread_mutex_lock(&res->lock);
	bytes = res->bytes;
	pthread_mutex_unlock(&res->lock);
	return bytes;
}
