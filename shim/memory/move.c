/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/memory/move.h"

#include "shim/interpose/driver.h"
#include "shim/memory/vmm.h"

#include <errno.h>
#include <stdlib.h>

/* Lock held. A resident extent without an fd, if one more may be kept open. */
static struct gp_extent *move_next_unexported(const struct gp_extents *x)
{
	for (size_t i = 0; x->n_fds < x->max_fds && i < x->n; i++) {
		struct gp_extent *e = x->sorted[i];

		if (e->state == GP_EXTENT_RESIDENT && e->fd < 0)
			return e;
	}
	return NULL;
}

/* Lock held on entry and exit, not in between: the pin keeps @e from being freed. */
static int move_export(struct gp_extents *x, struct gp_extent *e)
{
	int fd;

	x->pinned = e;
	pthread_mutex_unlock(&x->lock);
	fd = gp_vmm_export(e->handle);
	pthread_mutex_lock(&x->lock);
	x->pinned = NULL;
	pthread_cond_broadcast(&x->unpinned);
	if (fd < 0)
		return fd;
	e->fd = fd;
	x->n_fds++;
	return 0;
}

bool gp_move_export_ahead(struct gp_extents *x)
{
	struct gp_extent *e;
	bool more = false;

	pthread_mutex_lock(&x->lock);
	e = move_next_unexported(x);
	if (e && move_export(x, e) == 0)
		more = true;
	pthread_mutex_unlock(&x->lock);
	return more;
}

/* Lock held. All extents in @state, as ids. */
static int move_ids(const struct gp_extents *x, enum gp_extent_state state, uint64_t **ret_ids,
		    size_t *ret_n)
{
	uint64_t *ids = malloc((x->n + 1) * sizeof(*ids));
	size_t n = 0;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < x->n; i++) {
		if (x->sorted[i]->state == state)
			ids[n++] = x->sorted[i]->id;
	}
	*ret_ids = ids;
	*ret_n = n;
	return 0;
}

int gp_move_resident_ids(struct gp_extents *x, uint64_t **ret_ids, size_t *ret_n)
{
	int r;

	pthread_mutex_lock(&x->lock);
	r = move_ids(x, GP_EXTENT_RESIDENT, ret_ids, ret_n);
	pthread_mutex_unlock(&x->lock);
	return r;
}

int gp_move_describe(struct gp_extents *x, uint64_t id, struct gp_wire_extent *ret_entry,
		     int *ret_fd, struct gp_err *err)
{
	struct gp_extent *e;
	int r = 0;

	pthread_mutex_lock(&x->lock);
	e = gp_extents_by_id(x, id);
	if (!e || (e->state != GP_EXTENT_RESIDENT && e->state != GP_EXTENT_UNFILLED)) {
		pthread_mutex_unlock(&x->lock);
		return gp_err_set(err, -ENOENT, "extent %llu has no memory",
				  (unsigned long long)id);
	}
	if (e->fd < 0)
		r = move_export(x, e);
	*ret_entry = (struct gp_wire_extent){ e->id, e->bytes, e->address };
	*ret_fd = e->fd;
	pthread_mutex_unlock(&x->lock);
	if (r < 0)
		return gp_err_set(err, r, "the driver does not export extent %llu",
				  (unsigned long long)id);
	return 0;
}

/* Lock held. */
static void move_close_fd(struct gp_extents *x, struct gp_extent *e)
{
	if (e->fd < 0)
		return;
	gp_close_fd(&e->fd);
	x->n_fds--;
}

void gp_move_trim(struct gp_extents *x, uint64_t id)
{
	struct gp_extent *e;

	pthread_mutex_lock(&x->lock);
	e = gp_extents_by_id(x, id);
	if (e && x->n_fds > x->max_fds)
		move_close_fd(x, e);
	pthread_mutex_unlock(&x->lock);
}

void gp_move_limit(struct gp_extents *x, size_t n)
{
	pthread_mutex_lock(&x->lock);
	x->max_fds = x->n_fds > n ? x->n_fds - n : 0;
	pthread_mutex_unlock(&x->lock);
}

int gp_move_release(struct gp_extents *x, uint64_t id, uint64_t *ret_bytes, struct gp_err *err)
{
	struct gp_extent *e;
	CUresult r;

	*ret_bytes = 0;
	pthread_mutex_lock(&x->lock);
	e = gp_extents_by_id(x, id);
	if (e)
		move_close_fd(x, e);
	pthread_mutex_unlock(&x->lock);
	if (!e || e->state != GP_EXTENT_RESIDENT)
		return 0;
	r = GP_DRIVER(cuMemUnmap)(e->address, e->bytes);
	if (r != CUDA_SUCCESS)
		return gp_err_set(err, -EIO, "cannot unmap extent %llu: driver error %d",
				  (unsigned long long)id, r);
	/* Unmapped is gone for the process whatever the release answers. */
	e->state = GP_EXTENT_RELEASED;
	*ret_bytes = e->bytes;
	r = GP_DRIVER(cuMemRelease)(e->handle);
	if (r != CUDA_SUCCESS)
		return gp_err_set(err, -EIO, "cannot release extent %llu: driver error %d",
				  (unsigned long long)id, r);
	return 0;
}

static void move_undo(struct gp_extents *x, const uint64_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct gp_extent *e = gp_extents_by_id(x, ids[i]);

		pthread_mutex_lock(&x->lock);
		move_close_fd(x, e);
		pthread_mutex_unlock(&x->lock);
		GP_DRIVER(cuMemUnmap)(e->address, e->bytes);
		GP_DRIVER(cuMemRelease)(e->handle);
		e->state = GP_EXTENT_RELEASED;
	}
}

static CUresult move_back(struct gp_extent *e)
{
	CUresult r = gp_vmm_back(e->device, e->address, e->bytes, &e->handle);

	if (r == CUDA_SUCCESS)
		e->state = GP_EXTENT_UNFILLED;
	return r;
}

static int move_unfilled(const struct gp_extents *x, uint64_t **ret_ids, size_t *ret_n,
			 uint64_t *ret_bytes)
{
	uint64_t bytes = 0;

	if (move_ids(x, GP_EXTENT_UNFILLED, ret_ids, ret_n) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < *ret_n; i++)
		bytes += gp_extents_by_id(x, (*ret_ids)[i])->bytes;
	*ret_bytes = bytes;
	return 0;
}

/* The gate is closed: the table and its entries stand still without the lock. */
int gp_move_recreate(struct gp_extents *x, uint64_t **ret_ids, size_t *ret_n, uint64_t *ret_bytes,
		     struct gp_err *err)
{
	gp_auto_free uint64_t *ids = NULL, *unfilled = NULL;
	struct gp_wire_extent entry;
	size_t n, n_unfilled;
	int fd, r;

	if (move_ids(x, GP_EXTENT_RELEASED, &ids, &n) < 0)
		return gp_err_set(err, -ENOMEM, "no host memory for a list of extents");
	for (size_t i = 0; i < n; i++) {
		struct gp_extent *e = gp_extents_by_id(x, ids[i]);
		CUresult refused = move_back(e);

		if (refused != CUDA_SUCCESS) {
			move_undo(x, ids, i);
			return gp_err_set(err, refused == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO,
					  "no device memory for extent %zu of %zu (%llu bytes): "
					  "driver error %d",
					  i + 1, n, (unsigned long long)e->bytes, refused);
		}
	}
	r = move_unfilled(x, &unfilled, &n_unfilled, ret_bytes);
	if (r < 0)
		gp_err_set(err, r, "no host memory for a list of extents");
	/* Memory that the mover cannot be given stays empty: better to try again later. */
	if (r == 0 && n)
		r = gp_move_describe(x, ids[0], &entry, &fd, err);
	if (r < 0) {
		move_undo(x, ids, n);
		return r;
	}
	*ret_ids = gp_take_ptr(unfilled);
	*ret_n = n_unfilled;
	return 0;
}

void gp_move_confirm(struct gp_extents *x)
{
	for (size_t i = 0; i < x->n; i++) {
		if (x->sorted[i]->state == GP_EXTENT_UNFILLED)
			x->sorted[i]->state = GP_EXTENT_RESIDENT;
	}
}

/* Device memory if a chunk is left, else host memory: the job only has to end, not to compute. */
static CUresult move_create_scratch(CUdevice device, CUmemGenericAllocationHandle *ret_handle)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0 },
	};
	CUresult r = gp_vmm_create(device, GP_CHUNK_BYTES, ret_handle);

	return r == CUDA_ERROR_OUT_OF_MEMORY
		       ? GP_DRIVER(cuMemCreate)(ret_handle, GP_CHUNK_BYTES, &prop, 0)
		       : r;
}

static CUresult move_map_scratch(struct gp_extent *e, CUmemGenericAllocationHandle scratch)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = e->device },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUresult r = CUDA_SUCCESS;
	uint64_t done = 0;

	for (; done < e->bytes && r == CUDA_SUCCESS; done += GP_CHUNK_BYTES)
		r = GP_DRIVER(cuMemMap)(e->address + done, GP_CHUNK_BYTES, 0, scratch, 0);
	if (r == CUDA_SUCCESS)
		r = GP_DRIVER(cuMemSetAccess)(e->address, e->bytes, &access, 1);
	else
		done -= GP_CHUNK_BYTES; /* the one that failed */
	if (r == CUDA_SUCCESS)
		e->state = GP_EXTENT_SCRATCH;
	else if (done)
		GP_DRIVER(cuMemUnmap)(e->address, done);
	return r;
}

int gp_move_scratch(struct gp_extents *x, struct gp_err *err)
{
	CUmemGenericAllocationHandle scratch = 0;
	bool have = false;
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; i < x->n && r == CUDA_SUCCESS; i++) {
		struct gp_extent *e = x->sorted[i];

		if (e->state != GP_EXTENT_RELEASED)
			continue;
		if (!have)
			r = move_create_scratch(e->device, &scratch);
		have |= r == CUDA_SUCCESS;
		if (r == CUDA_SUCCESS)
			r = move_map_scratch(e, scratch);
	}
	/* The mappings keep the memory. */
	if (have)
		GP_DRIVER(cuMemRelease)(scratch);
	if (r != CUDA_SUCCESS)
		return gp_err_set(err, -EIO, "cannot map scratch memory: driver error %d", r);
	return 0;
}
