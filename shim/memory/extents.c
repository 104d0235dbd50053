/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/memory/extents.h"

#include "shim/interpose/driver.h"
#include "shim/memory/vmm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The driver numbers buffers from 1 up; ours have the top bit set. */
#define EXTENT_BUFFER_ID (1ull << 63)

void gp_extents_init(struct gp_extents *x)
{
	struct rlimit files = { .rlim_cur = 1024 };

	*x = (struct gp_extents){ .next_id = 1 };
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->unpinned, NULL);
	gp_list_init(&x->roomy);
	/* At most half of what the process may open is ours; the rest is exported when asked for.
	 */
	(void)getrlimit(RLIMIT_NOFILE, &files);
	x->max_fds = files.rlim_cur > 65536 ? 32768 : (size_t)files.rlim_cur / 2;
}

void gp_extents_lock_all(struct gp_extents *x)
{
	pthread_mutex_lock(&x->lock);
	while (x->pinned)
		pthread_cond_wait(&x->unpinned, &x->lock);
}

void gp_extents_unlock_all(struct gp_extents *x)
{
	pthread_mutex_unlock(&x->lock);
}

void gp_extents_forget(struct gp_extents *x)
{
	/* The list of extents itself is left to the child's end: it may be large. */
	for (size_t i = 0; i < x->n; i++)
		gp_close_fd(&x->sorted[i]->fd);
	x->n = 0;
	x->bytes = 0;
	x->n_deferred = 0;
	gp_list_init(&x->roomy);
}

/* Index of the first extent that ends after @address. */
static size_t extents_position(const struct gp_extents *x, uint64_t address)
{
	size_t low = 0, high = x->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (x->sorted[mid]->address + x->sorted[mid]->bytes <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct gp_extent *extents_lookup(const struct gp_extents *x, uint64_t address)
{
	size_t i = extents_position(x, address);

	return i < x->n && x->sorted[i]->address <= address ? x->sorted[i] : NULL;
}

/* Whether any part of the allocation that @e belongs to is being exported. */
static bool extents_is_pinned(const struct gp_extents *x, const struct gp_extent *e)
{
	return x->pinned && x->pinned->start == e->start;
}

/* As extents_lookup; waits until an extent that is one allocation is not pinned. */
static struct gp_extent *extents_lookup_unpinned(struct gp_extents *x, uint64_t address)
{
	struct gp_extent *e;

	while ((e = extents_lookup(x, address)) && !e->slab && extents_is_pinned(x, e))
		pthread_cond_wait(&x->unpinned, &x->lock);
	return e;
}

/* Index of @id in by_id, or of where it would be. */
static size_t extents_age(const struct gp_extents *x, uint64_t id)
{
	size_t low = 0, high = x->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (x->by_id[mid]->id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct gp_extent *gp_extents_by_id(const struct gp_extents *x, uint64_t id)
{
	size_t i = extents_age(x, id);

	return i < x->n && x->by_id[i]->id == id ? x->by_id[i] : NULL;
}

static bool extents_grow(struct gp_extent ***array, size_t capacity)
{
	struct gp_extent **grown = realloc(*array, capacity * sizeof(struct gp_extent *));

	if (grown)
		*array = grown;
	return grown != NULL;
}

static bool extents_reserve_slots(struct gp_extents *x, size_t n)
{
	size_t capacity = x->capacity ? x->capacity : 64;

	if (x->n + n <= x->capacity)
		return true;
	while (capacity < x->n + n)
		capacity *= 2;
	if (!extents_grow(&x->sorted, capacity) || !extents_grow(&x->by_id, capacity))
		return false;
	x->capacity = capacity;
	return true;
}

/* All parts of the allocation that begins with @e, or none. */
static bool extents_insert(struct gp_extents *x, struct gp_extent *e)
{
	size_t n = 0;

	for (const struct gp_extent *part = e; part; part = part->next)
		n++;
	if (!extents_reserve_slots(x, n))
		return false;
	for (; e; e = e->next) {
		size_t i = extents_position(x, e->address);

		memmove(&x->sorted[i + 1], &x->sorted[i], (x->n - i) * sizeof(struct gp_extent *));
		x->sorted[i] = e;
		e->id = x->next_id++;
		x->by_id[x->n++] = e;
		x->bytes += e->bytes;
		if (e->slab)
			gp_list_add_tail(&x->roomy, &e->slab->roomy);
	}
	return true;
}

/* Remembered frees inside @e: its addresses may be handed out again. */
static void extents_forget_deferred(struct gp_extents *x, const struct gp_extent *e)
{
	size_t kept = 0;

	for (size_t i = 0; i < x->n_deferred; i++) {
		if (x->deferred[i] - e->address >= e->bytes)
			x->deferred[kept++] = x->deferred[i];
	}
	x->n_deferred = kept;
}

static void extents_remove_one(struct gp_extents *x, struct gp_extent *e)
{
	size_t i;

	extents_forget_deferred(x, e);
	i = extents_position(x, e->address);
	memmove(&x->sorted[i], &x->sorted[i + 1], (x->n - i - 1) * sizeof(struct gp_extent *));
	i = extents_age(x, e->id);
	memmove(&x->by_id[i], &x->by_id[i + 1], (x->n - i - 1) * sizeof(struct gp_extent *));
	x->n--;
	x->bytes -= e->bytes;
	if (e->fd >= 0)
		x->n_fds--;
	if (e->slab)
		gp_list_del(&e->slab->roomy);
}

/* Lock held. Takes all parts of the allocation that begins with @e, none pinned, out of the table.
 */
static void extents_remove(struct gp_extents *x, struct gp_extent *e)
{
	for (; e; e = e->next)
		extents_remove_one(x, e);
}

/* Frees the allocation that begins with @e; it is in no table. */
static void extent_destroy(struct gp_extent *e)
{
	uint64_t start = e->start, bytes = gp_round_up(e->asked_bytes, GP_CHUNK_BYTES);

	while (e) {
		struct gp_extent *next = e->next;

		gp_close_fd(&e->fd);
		if (e->state != GP_EXTENT_RELEASED)
			GP_DRIVER(cuMemUnmap)(e->address, e->bytes);
		if (e->state == GP_EXTENT_RESIDENT || e->state == GP_EXTENT_UNFILLED)
			GP_DRIVER(cuMemRelease)(e->handle);
		gp_slab_free(e->slab);
		free(e);
		e = next;
	}
	GP_DRIVER(cuMemAddressFree)(start, bytes);
}

/* The parts of an allocation, unbacked, from the last to the first; NULL when out of host memory.
 */
static struct gp_extent *extent_describe(CUcontext context, CUdevice device, uint64_t start,
					 uint64_t bytes)
{
	uint64_t end = gp_round_up(bytes, GP_CHUNK_BYTES), at = end;
	struct gp_extent *first = NULL;

	while (at) {
		struct gp_extent *e = malloc(sizeof(*e));
		uint64_t part = (at - 1) % GP_EXTENT_MAX_BYTES + 1;

		if (!e) {
			while ((e = first)) {
				first = e->next;
				free(e);
			}
			return NULL;
		}
		at -= part;
		*e = (struct gp_extent){
			.address = start + at,
			.bytes = part,
			.start = start,
			.asked_bytes = bytes,
			.next = first,
			.context = context,
			.device = device,
			.state = GP_EXTENT_RELEASED,
			.fd = -1,
		};
		first = e;
	}
	return first;
}

/* Reserves an address and backs it; all or nothing. */
static struct gp_extent *extent_new(CUcontext context, CUdevice device, uint64_t bytes,
				    CUresult *ret_error)
{
	uint64_t rounded = gp_round_up(bytes, GP_CHUNK_BYTES);
	struct gp_extent *first;
	CUdeviceptr start;

	*ret_error = GP_DRIVER(cuMemAddressReserve)(&start, rounded, GP_CHUNK_BYTES, 0, 0);
	if (*ret_error != CUDA_SUCCESS)
		return NULL;
	first = extent_describe(context, device, start, bytes);
	if (!first) {
		GP_DRIVER(cuMemAddressFree)(start, rounded);
		*ret_error = CUDA_ERROR_OUT_OF_MEMORY;
		return NULL;
	}
	for (struct gp_extent *e = first; e; e = e->next) {
		*ret_error = gp_vmm_back(device, e->address, e->bytes, &e->handle);
		if (*ret_error != CUDA_SUCCESS) {
			extent_destroy(first);
			return NULL;
		}
		e->state = GP_EXTENT_RESIDENT;
	}
	return first;
}

/* Lock held. A block of a slab that exists, or 0. */
static uint64_t extents_take_small(struct gp_extents *x, CUcontext context, CUdevice device,
				   uint64_t bytes)
{
	gp_list_for_each(slab, &x->roomy, struct gp_slab, roomy) {
		const struct gp_extent *e = extents_lookup(x, slab->address);
		uint64_t address;

		if (e->context != context || e->device != device)
			continue;
		address = gp_slab_take(slab, bytes);
		if (!gp_slab_has_room(slab))
			gp_list_del(&slab->roomy);
		if (address)
			return address;
	}
	return 0;
}

/* Adds an extent to the table; for a small allocation as a slab that it takes a block of. */
static CUresult extents_add(struct gp_extents *x, struct gp_extent *e, uint64_t bytes,
			    CUdeviceptr *ret_address)
{
	bool added;

	if (bytes < GP_EXTENT_OWN_BYTES) {
		e->slab = gp_slab_new(e->address);
		*ret_address = e->slab ? gp_slab_take(e->slab, bytes) : 0;
	} else {
		*ret_address = e->address;
	}
	pthread_mutex_lock(&x->lock);
	added = *ret_address && extents_insert(x, e);
	pthread_mutex_unlock(&x->lock);
	if (added)
		return CUDA_SUCCESS;
	extent_destroy(e);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult gp_extents_alloc(struct gp_extents *x, CUcontext context, CUdevice device, uint64_t bytes,
			  CUdeviceptr *ret_address)
{
	struct gp_extent *e;
	CUresult r;

	if (bytes > UINT64_MAX - GP_CHUNK_BYTES)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes < GP_EXTENT_OWN_BYTES) {
		uint64_t address;

		pthread_mutex_lock(&x->lock);
		address = extents_take_small(x, context, device, bytes);
		pthread_mutex_unlock(&x->lock);
		if (address) {
			*ret_address = address;
			return CUDA_SUCCESS;
		}
	}
	e = extent_new(context, device, bytes, &r);
	return e ? extents_add(x, e, bytes, ret_address) : r;
}

/* Lock held. */
static bool extents_find(const struct gp_extents *x, uint64_t address, struct gp_allocation *ret)
{
	const struct gp_extent *e = extents_lookup(x, address);

	if (!e)
		return false;
	if (e->address != e->start)
		e = extents_lookup(x, e->start); /* its first part, which gives it its identity */
	ret->context = e->context;
	ret->start = e->start;
	ret->bytes = e->asked_bytes;
	if (e->slab && !gp_slab_find(e->slab, address, &ret->start, &ret->bytes))
		return false;
	if (address - ret->start >= ret->bytes)
		return false;
	ret->buffer_id = EXTENT_BUFFER_ID | e->id << 12 |
			 (ret->start - e->address) / GP_SLAB_UNIT_BYTES % GP_SLAB_UNITS;
	return true;
}

bool gp_extents_find(struct gp_extents *x, uint64_t address, struct gp_allocation *ret)
{
	bool found;

	pthread_mutex_lock(&x->lock);
	found = extents_find(x, address, ret);
	pthread_mutex_unlock(&x->lock);
	return found;
}

bool gp_extents_covers(struct gp_extents *x, uint64_t address)
{
	bool covers;

	pthread_mutex_lock(&x->lock);
	covers = extents_lookup(x, address) != NULL;
	pthread_mutex_unlock(&x->lock);
	return covers;
}

/* Lock held. Another empty slab like that of @e: one is kept for the next small allocation. */
static bool extents_has_empty_slab(const struct gp_extents *x, const struct gp_extent *e)
{
	gp_list_for_each(slab, &x->roomy, struct gp_slab, roomy) {
		const struct gp_extent *other = extents_lookup(x, slab->address);

		if (slab != e->slab && slab->n_used == 0 && other->context == e->context &&
		    other->device == e->device)
			return true;
	}
	return false;
}

/*
 * Lock held. Gives back a block; true if the slab's extent is to go as well. A pinned one stays:
 * blocks of it could be taken while we waited.
 */
static bool extents_give_small(struct gp_extents *x, struct gp_extent *e)
{
	if (gp_list_empty(&e->slab->roomy))
		gp_list_add_tail(&x->roomy, &e->slab->roomy);
	return e->slab->n_used == 0 && e != x->pinned && extents_has_empty_slab(x, e);
}

CUresult gp_extents_free(struct gp_extents *x, uint64_t address)
{
	struct gp_extent *e;
	bool whole = false;

	pthread_mutex_lock(&x->lock);
	e = extents_lookup_unpinned(x, address);
	if (e && e->slab && gp_slab_give(e->slab, address)) {
		whole = extents_give_small(x, e);
	} else if (e && !e->slab && e->start == address) {
		whole = true;
	} else {
		pthread_mutex_unlock(&x->lock);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (whole)
		extents_remove(x, e);
	pthread_mutex_unlock(&x->lock);
	if (whole)
		extent_destroy(e);
	return CUDA_SUCCESS;
}

CUresult gp_extents_defer(struct gp_extents *x, uint64_t address)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&x->lock);
	for (size_t i = 0; i < x->n_deferred; i++) {
		if (x->deferred[i] == address)
			r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS && x->n_deferred == x->deferred_capacity) {
		size_t capacity = x->deferred_capacity ? 2 * x->deferred_capacity : 64;
		uint64_t *grown = realloc(x->deferred, capacity * sizeof(*grown));

		if (grown) {
			x->deferred = grown;
			x->deferred_capacity = capacity;
		} else {
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (r == CUDA_SUCCESS)
		x->deferred[x->n_deferred++] = address;
	pthread_mutex_unlock(&x->lock);
	return r;
}

bool gp_extents_deferred_take(struct gp_extents *x, uint64_t *ret_address)
{
	bool taken;

	pthread_mutex_lock(&x->lock);
	taken = x->n_deferred > 0;
	if (taken)
		*ret_address = x->deferred[--x->n_deferred];
	pthread_mutex_unlock(&x->lock);
	return taken;
}

bool gp_extents_has_deferred(struct gp_extents *x)
{
	bool any;

	pthread_mutex_lock(&x->lock);
	any = x->n_deferred > 0;
	pthread_mutex_unlock(&x->lock);
	return any;
}

uint64_t gp_extents_next_id(struct gp_extents *x)
{
	uint64_t id;

	pthread_mutex_lock(&x->lock);
	id = x->next_id;
	pthread_mutex_unlock(&x->lock);
	return id;
}

/* Lock held. One extent of @context that is older than @next_id, or NULL. */
static struct gp_extent *extents_of_context(const struct gp_extents *x, CUcontext context,
					    uint64_t next_id)
{
	for (size_t i = 0; i < x->n && x->by_id[i]->id < next_id; i++) {
		if (x->by_id[i]->context == context)
			return x->by_id[i];
	}
	return NULL;
}

void gp_extents_drop_context(struct gp_extents *x, CUcontext context, uint64_t next_id)
{
	struct gp_extent *gone;

	do {
		pthread_mutex_lock(&x->lock);
		while ((gone = extents_of_context(x, context, next_id)) &&
		       extents_is_pinned(x, gone))
			pthread_cond_wait(&x->unpinned, &x->lock);
		if (gone)
			extents_remove(x, gone);
		pthread_mutex_unlock(&x->lock);
		if (gone)
			extent_destroy(gone);
	} while (gone);
}

void gp_extents_summary(struct gp_extents *x, struct gp_extents_summary *ret)
{
	*ret = (struct gp_extents_summary){ 0 };
	pthread_mutex_lock(&x->lock);
	ret->bytes = x->bytes;
	ret->n = (uint32_t)x->n;
	for (size_t i = 0; i < x->n; i++) {
		const struct gp_extent *e = x->sorted[i];

		ret->n_released += e->state == GP_EXTENT_RELEASED;
		ret->n_unfilled += e->state == GP_EXTENT_UNFILLED;
		ret->n_scratch += e->state == GP_EXTENT_SCRATCH;
		if (e->state == GP_EXTENT_RELEASED)
			ret->released_bytes += e->bytes;
	}
	pthread_mutex_unlock(&x->lock);
}
