/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/depot.h"

#include "base/log.h"
#include "base/size.h"
#include "base/time.h"
#include "snapshot/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static int depot_open_arena(struct gp_depot *d, const struct gp_depot_options *o, bool *inherits,
			    struct gp_err *err)
{
	struct gp_err why = { 0 };
	int r;

	if (*inherits) {
		r = gp_arena_adopt(&d->arena, o->inherited[GP_DEPOT_ARENA], o->extra_bytes, &why);
		if (r == 0)
			return 0;
		gp_log(GP_LOG_ERR, "inheritance_lost", "what=all reason=\"%s\"", why.msg);
		*inherits = false;
	}
	return gp_arena_init(&d->arena, o->arena_bytes, o->extra_bytes, err);
}

static int depot_open_ledger(struct gp_depot *d, const struct gp_depot_options *o, bool *inherits,
			     struct gp_err *err)
{
	struct gp_err why = { 0 };
	int r;

	if (*inherits) {
		r = gp_ledger_adopt(&d->ledger, o->inherited[GP_DEPOT_LEDGER], d->arena.bytes,
				    &why);
		if (r == 0)
			return 0;
		gp_log(GP_LOG_ERR, "inheritance_lost", "what=records reason=\"%s\"", why.msg);
		*inherits = false;
	}
	return gp_ledger_init(&d->ledger, d->arena.bytes, err);
}

/* A swap file without the ledger would be disk space that nobody can name. */
static int depot_open_swapfile(struct gp_depot *d, const struct gp_depot_options *o, bool inherits,
			       struct gp_err *err)
{
	struct gp_swapfile_options swap = { .dir = o->swap_dir,
					    .max_bytes = o->swap_max_bytes,
					    .buffers = d->arena.extra,
					    .n_buffers = o->n_swap_buffers };
	struct gp_err why = { 0 };
	struct stat st;

	if (inherits && fstat(o->inherited[GP_DEPOT_SWAP], &st) == 0 && !S_ISCHR(st.st_mode)) {
		swap.inherited_fd = o->inherited[GP_DEPOT_SWAP];
		if (gp_swapfile_new(&swap, &d->swapfile, &why) == 0)
			return 0;
		gp_log(GP_LOG_ERR, "inheritance_lost", "what=swap reason=\"%s\"", why.msg);
		swap.inherited_fd = 0;
	}
	return gp_swapfile_new(&swap, &d->swapfile, err);
}

static int depot_pin(struct gp_depot *d, struct gp_err *err)
{
	int r = gp_driver_pin(d->driver, d->arena.chunks, d->arena.bytes, err);

	if (r < 0)
		return r;
	d->arena_pinned = d->arena.bytes > 0;
	r = gp_driver_pin(d->driver, d->arena.extra, d->arena.extra_bytes, err);
	d->extra_pinned = r == 0 && d->arena.extra_bytes > 0;
	return r;
}

int gp_depot_open(struct gp_depot *d, const struct gp_driver *driver,
		  const struct gp_depot_options *o, struct gp_err *err)
{
	uint64_t start = gp_now_ns(), faulted, pinned;
	bool inherits = o->inherits;
	int r;

	*d = (struct gp_depot){ .driver = driver, .arena.fd = -1, .ledger.fd = -1 };
	d->no_swap_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (d->no_swap_fd < 0)
		return gp_err_sys(err, -errno, "cannot open /dev/null");
	r = depot_open_arena(d, o, &inherits, err);
	faulted = gp_now_ns();
	if (r == 0)
		r = depot_pin(d, err);
	pinned = gp_now_ns();
	if (r == 0)
		r = depot_open_ledger(d, o, &inherits, err);
	if (r == 0)
		r = depot_open_swapfile(d, o, inherits, err);
	if (r < 0)
		return r;
	d->inherited = inherits;
	gp_log(GP_LOG_INFO, "store",
	       "arena_bytes=%zu pages=\"%s\" inherited=%s fault_ms=%.1f register_ms=%.1f "
	       "swap_max_bytes=%llu swap_dir=\"%s\" method=\"%s\"",
	       d->arena.bytes, d->arena.pages, inherits ? "yes" : "no",
	       (double)(faulted - start) / 1e6, (double)(pinned - faulted) / 1e6,
	       (unsigned long long)gp_swapfile_max_bytes(d->swapfile),
	       o->swap_dir ? o->swap_dir : "", gp_swapfile_method(d->swapfile));
	return 0;
}

void gp_depot_close(struct gp_depot *d)
{
	if (!d->driver)
		return;
	gp_swapfile_free(d->swapfile);
	if (d->arena_pinned)
		d->driver->cuMemHostUnregister(d->arena.chunks);
	if (d->extra_pinned)
		d->driver->cuMemHostUnregister(d->arena.extra);
	gp_ledger_fini(&d->ledger);
	gp_arena_fini(&d->arena);
	gp_close_fd(&d->no_swap_fd);
	memset(d, 0, sizeof(*d));
}

struct gp_store gp_depot_store(struct gp_depot *d)
{
	return (struct gp_store){ &d->arena, d->swapfile, &d->ledger };
}

void gp_depot_fds(const struct gp_depot *d, int *ret_fds)
{
	int swap = gp_swapfile_fd(d->swapfile);

	ret_fds[GP_DEPOT_ARENA] = d->arena.fd;
	ret_fds[GP_DEPOT_LEDGER] = d->ledger.fd;
	ret_fds[GP_DEPOT_SWAP] = swap < 0 ? d->no_swap_fd : swap;
}

/* @hint: where the last record went; those of one process mostly follow each other. */
static struct gp_proc *depot_proc(struct gp_list *procs, struct gp_proc *hint,
				  const struct gp_saved *saved)
{
	struct gp_proc *proc;

	if (hint && hint->id == saved->proc)
		return hint;
	gp_list_for_each(p, procs, struct gp_proc, list) {
		if (p->id == saved->proc)
			return p;
	}
	proc = gp_proc_new(saved->job, saved->proc);
	if (proc)
		gp_list_add_tail(procs, &proc->list);
	return proc;
}

/* All valid records into images, of two of one extent the newer one. Returns the bad ones. */
static int depot_walk(struct gp_depot *d, struct gp_list *procs, struct gp_err *err)
{
	const struct gp_store store = gp_depot_store(d);
	struct gp_proc *proc = NULL;
	struct gp_saved found;
	struct gp_err why = { 0 };
	uint32_t cursor = 0;
	int bad = 0, r;

	while ((r = gp_ledger_walk(&d->ledger, &cursor, &found, &why))) {
		struct gp_saved *saved;

		if (r < 0) {
			gp_log(GP_LOG_ERR, "record_dropped", "reason=\"%s\"", why.msg);
			bad++;
			continue;
		}
		saved = gp_saved_copy(&found);
		proc = saved ? depot_proc(procs, proc, saved) : NULL;
		if (!proc || gp_image_reserve(&proc->image, 1) < 0) {
			free(saved);
			return gp_err_sys(err, -ENOMEM, "records of an earlier mover");
		}
		gp_image_adopt(&proc->image, saved, &store);
	}
	return bad;
}

int gp_depot_recover(struct gp_depot *d, struct gp_list *procs, struct gp_err *err)
{
	const struct gp_store store = gp_depot_store(d);
	uint64_t start = gp_now_ns(), bytes = 0;
	size_t n = 0, n_procs = 0;
	struct gp_err why = { 0 };
	int bad;

	if (!d->inherited)
		return 0;
	bad = depot_walk(d, procs, err);
	if (bad < 0)
		return bad;
	gp_list_for_each(proc, procs, struct gp_proc, list) {
		for (size_t i = 0; i < proc->image.n;) {
			if (gp_image_claim(&proc->image, i, &store, &why) == 0) {
				i++;
				continue;
			}
			gp_log(GP_LOG_ERR, "record_dropped", "reason=\"%s\"", why.msg);
			bad++;
		}
		n += gp_image_count(&proc->image);
		bytes += gp_image_bytes(&proc->image);
		n_procs++;
	}
	gp_swapfile_settle(d->swapfile);
	d->inherited = false;
	gp_log(GP_LOG_INFO, "inherited",
	       "procs=%zu extents=%zu bytes=%llu arena_used=%llu swap_used=%llu dropped=%d "
	       "ms=%.1f",
	       n_procs, n, (unsigned long long)bytes,
	       (unsigned long long)(gp_chunkmap_used(&d->arena.map) * GP_CHUNK_BYTES),
	       (unsigned long long)gp_swapfile_used_bytes(d->swapfile), bad,
	       (double)(gp_now_ns() - start) / 1e6);
	return bad;
}
