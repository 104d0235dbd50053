/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_MEMORY_RESIDENT_H
#define GP_SHIM_MEMORY_RESIDENT_H
/*
 * Counts device memory that stays whatever we do: managed memory, pools, arrays, the program's own
 * VMM handles. Sizes are those asked for. For reports only: what is missed is a wrong number.
 */
#include <pthread.h>
#include <stdint.h>

enum gp_resident_kind {
	GP_RESIDENT_POINTER = 1,
	GP_RESIDENT_HANDLE,
	GP_RESIDENT_ARRAY,
};

struct gp_resident_entry {
	uint64_t key;
	uint64_t bytes;
	uint32_t kind; /* 0 = empty */
};

struct gp_resident {
	pthread_mutex_t lock;
	struct gp_resident_entry *entries; /* open addressing */
	uint64_t capacity;		   /* power of two, or 0 */
	uint64_t n;
	uint64_t bytes;
};

void gp_resident_init(struct gp_resident *res);

/* Out of memory: not counted. */
void gp_resident_add(struct gp_resident *res, enum gp_resident_kind kind, uint64_t key,
		     uint64_t bytes);

/* Does nothing for what was not added. */
void gp_resident_remove(struct gp_resident *res, enum gp_resident_kind kind, uint64_t key);

uint64_t gp_resident_bytes(struct gp_resident *res);

#endif
