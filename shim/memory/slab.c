/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/memory/slab.h"

#include <stdlib.h>

#define SLAB_NONE UINT16_MAX

/* Of the list that a free block of @units hangs in: all its blocks have at least 2^class units. */
static unsigned int slab_class(unsigned int units)
{
	return 31 - (unsigned int)__builtin_clz(units);
}

static void slab_mark(struct gp_slab *s, unsigned int first, unsigned int units, bool used)
{
	s->unit[first].units = s->unit[first + units - 1].units = (uint16_t)units;
	s->unit[first].used = s->unit[first + units - 1].used = used;
}

static void slab_link(struct gp_slab *s, unsigned int first, unsigned int units)
{
	unsigned int class = slab_class(units);

	slab_mark(s, first, units, false);
	s->unit[first].prev = SLAB_NONE;
	s->unit[first].next = s->heads[class];
	if (s->heads[class] != SLAB_NONE)
		s->unit[s->heads[class]].prev = (uint16_t)first;
	s->heads[class] = (uint16_t)first;
	s->classes |= (uint16_t)(1u << class);
}

static void slab_unlink(struct gp_slab *s, unsigned int first)
{
	const struct gp_slab_unit *u = &s->unit[first];
	unsigned int class = slab_class(u->units);

	if (u->prev == SLAB_NONE)
		s->heads[class] = u->next;
	else
		s->unit[u->prev].next = u->next;
	if (u->next != SLAB_NONE)
		s->unit[u->next].prev = u->prev;
	if (s->heads[class] == SLAB_NONE)
		s->classes &= (uint16_t)~(1u << class);
}

struct gp_slab *gp_slab_new(uint64_t address)
{
	struct gp_slab *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	gp_list_init(&s->roomy);
	s->address = address;
	for (unsigned int i = 0; i < GP_SLAB_CLASSES; i++)
		s->heads[i] = SLAB_NONE;
	slab_link(s, 0, GP_SLAB_UNITS);
	return s;
}

void gp_slab_free(struct gp_slab *s)
{
	free(s);
}

/* First unit of a free block of at least @units, or SLAB_NONE. */
static unsigned int slab_search(const struct gp_slab *s, unsigned int units)
{
	unsigned int class = slab_class(units), above;

	for (unsigned int i = s->heads[class]; i != SLAB_NONE; i = s->unit[i].next) {
		if (s->unit[i].units >= units)
			return i;
	}
	above = s->classes & ~((2u << class) - 1);
	return above ? s->heads[__builtin_ctz(above)] : SLAB_NONE;
}

uint64_t gp_slab_take(struct gp_slab *s, uint64_t bytes)
{
	unsigned int units, first, left;

	if (bytes == 0 || bytes > GP_CHUNK_BYTES)
		return 0;
	units = (unsigned int)(gp_round_up(bytes, GP_SLAB_UNIT_BYTES) / GP_SLAB_UNIT_BYTES);
	first = slab_search(s, units);
	if (first == SLAB_NONE)
		return 0;
	slab_unlink(s, first);
	left = s->unit[first].units - units;
	if (left)
		slab_link(s, first + units, left);
	slab_mark(s, first, units, true);
	s->unit[first].slack = (uint16_t)(units * GP_SLAB_UNIT_BYTES - bytes);
	s->starts[first / 64] |= 1ull << first % 64;
	s->n_used++;
	return s->address + (uint64_t)first * GP_SLAB_UNIT_BYTES;
}

bool gp_slab_give(struct gp_slab *s, uint64_t address)
{
	uint64_t offset = address - s->address;
	unsigned int first = (unsigned int)(offset / GP_SLAB_UNIT_BYTES), units;

	if (offset >= GP_CHUNK_BYTES || offset % GP_SLAB_UNIT_BYTES ||
	    !(s->starts[first / 64] >> first % 64 & 1))
		return false;
	s->starts[first / 64] &= ~(1ull << first % 64);
	s->n_used--;
	units = s->unit[first].units;
	if (first + units < GP_SLAB_UNITS && !s->unit[first + units].used) {
		slab_unlink(s, first + units);
		units += s->unit[first + units].units;
	}
	if (first > 0 && !s->unit[first - 1].used) {
		unsigned int before = s->unit[first - 1].units;

		first -= before;
		units += before;
		slab_unlink(s, first);
	}
	slab_link(s, first, units);
	return true;
}

bool gp_slab_find(const struct gp_slab *s, uint64_t address, uint64_t *ret_start,
		  uint64_t *ret_bytes)
{
	unsigned int unit = (unsigned int)((address - s->address) / GP_SLAB_UNIT_BYTES);
	uint64_t bytes;

	for (unsigned int i = unit + 1; i-- > 0;) {
		if (!(s->starts[i / 64] >> i % 64 & 1))
			continue;
		bytes = (uint64_t)s->unit[i].units * GP_SLAB_UNIT_BYTES - s->unit[i].slack;
		if (address - s->address >= (uint64_t)i * GP_SLAB_UNIT_BYTES + bytes)
			return false;
		*ret_start = s->address + (uint64_t)i * GP_SLAB_UNIT_BYTES;
		*ret_bytes = bytes;
		return true;
	}
	return false;
}
