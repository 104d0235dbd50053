/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three small tables (subdevices, groups, channels) fed by RM_ALLOC, RM_FREE and UVM's
 * REGISTER_CHANNEL. Handles repeat between clients, so the key is always (client, object). Freeing
 * an object frees its subtree: we keep each entry's parent and treat a freed device or
 * client as the end of all below it.
 */
#include "base/rm/watch.h"

#include "base/rm/abi.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define RM_ALLOC_FLAG_SERIALIZED 1u /* NVOS64 flags: parameters are a FINN-serialised buffer */
#define RM_GROUP_ENGINE_INDEX	 3  /* u32 index of engineType in the group's parameters */

struct watch_object {
	uint32_t client, object, parent;
	uint32_t engine; /* groups: engine type */
	int fd;		 /* subdevices: the file the object was made through */
};

struct watch_table {
	struct watch_object *entries;
	size_t n, capacity;
};

struct gp_rm_watch {
	pthread_mutex_t lock;
	gp_rm_ioctl_fn next;
	struct watch_table subdevices, groups, channels;
	uint64_t generation;
	bool complete;
};

static bool watch_table_add(struct watch_table *t, const struct watch_object *o)
{
	if (t->n == t->capacity) {
		size_t capacity = t->capacity ? 2 * t->capacity : 32;
		struct watch_object *grown = realloc(t->entries, capacity * sizeof(*grown));

		if (!grown)
			return false;
		t->entries = grown;
		t->capacity = capacity;
	}
	t->entries[t->n++] = *o;
	return true;
}

static const struct watch_object *watch_table_find(const struct watch_table *t, uint32_t client,
						   uint32_t object)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->entries[i].client == client && t->entries[i].object == object)
			return &t->entries[i];
	}
	return NULL;
}

/* Removes @object itself and the entries directly below it; true if anything went. */
static bool watch_table_remove(struct watch_table *t, uint32_t client, uint32_t object)
{
	size_t kept = 0, before = t->n;

	for (size_t i = 0; i < t->n; i++) {
		const struct watch_object *o = &t->entries[i];

		if (o->client == client &&
		    (client == object || o->object == object || o->parent == object))
			continue;
		t->entries[kept++] = *o;
	}
	t->n = kept;
	return kept != before;
}

static void watch_alloc(struct gp_rm_watch *w, int fd, const struct gp_rm_alloc *a)
{
	struct watch_object o = {
		.client = a->root, .object = a->object, .parent = a->parent, .fd = fd
	};
	struct watch_table *t;

	if (a->cls == GP_RM_CLASS_SUBDEVICE) {
		t = &w->subdevices;
	} else if (a->cls == GP_RM_CLASS_GROUP) {
		const uint32_t *params = (const uint32_t *)(uintptr_t)a->params;

		if (params && !(a->flags & RM_ALLOC_FLAG_SERIALIZED))
			o.engine = params[RM_GROUP_ENGINE_INDEX];
		t = &w->groups;
	} else if ((a->cls & 0xff) == 0x6f && a->cls > 0xa000) { /* xx6f: GPFIFO channel classes */
		t = &w->channels;
	} else {
		return;
	}
	if (!watch_table_add(t, &o))
		w->complete = false;
	w->generation++;
}

static void watch_free_object(struct gp_rm_watch *w, const struct gp_rm_free *f)
{
	bool changed = false;

	/* A freed device takes its groups along, and those their channels. */
	for (size_t i = 0; i < w->groups.n; i++) {
		const struct watch_object *g = &w->groups.entries[i];

		if (g->client == f->root && g->parent == f->object)
			changed |= watch_table_remove(&w->channels, g->client, g->object);
	}
	changed |= watch_table_remove(&w->channels, f->root, f->object);
	changed |= watch_table_remove(&w->groups, f->root, f->object);
	changed |= watch_table_remove(&w->subdevices, f->root, f->object);
	if (changed)
		w->generation++;
}

static void watch_record(struct gp_rm_watch *w, int fd, unsigned long request, const void *arg)
{
	if (request == GP_RM_IOC_ALLOC) {
		const struct gp_rm_alloc *a = arg;

		if (a->status == 0)
			watch_alloc(w, fd, a);
	} else if (request == GP_RM_IOC_FREE) {
		const struct gp_rm_free *f = arg;

		if (f->status == 0)
			watch_free_object(w, f);
	} else if (request == GP_UVM_REGISTER_CHANNEL) {
		const struct gp_uvm_register_channel *r = arg;

		if (r->status == 0 && !watch_table_find(&w->channels, r->client, r->channel))
			w->complete = false;
	}
}

struct gp_rm_watch *gp_rm_watch_new(gp_rm_ioctl_fn next)
{
	struct gp_rm_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	w->next = next;
	w->complete = true;
	return w;
}

void gp_rm_watch_free(struct gp_rm_watch *w)
{
	if (!w)
		return;
	free(w->subdevices.entries);
	free(w->groups.entries);
	free(w->channels.entries);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int gp_rm_watch_ioctl(struct gp_rm_watch *w, int fd, unsigned long request, void *arg)
{
	int r = w->next(fd, request, arg), saved = errno;

	if (r == 0 && (request == GP_RM_IOC_ALLOC || request == GP_RM_IOC_FREE ||
		       request == GP_UVM_REGISTER_CHANNEL)) {
		pthread_mutex_lock(&w->lock);
		watch_record(w, fd, request, arg);
		pthread_mutex_unlock(&w->lock);
	}
	errno = saved;
	return r;
}

void gp_rm_watch_forget(struct gp_rm_watch *w)
{
	/*
	 * A thread of the parent may have held the lock at the fork, in the middle of growing a
	 * table: the old entries may be freed already, and are left to the child's end if not.
	 */
	pthread_mutex_init(&w->lock, NULL);
	w->subdevices = w->groups = w->channels = (struct watch_table){ 0 };
	w->complete = true;
	w->generation++;
}

uint64_t gp_rm_watch_generation(struct gp_rm_watch *w)
{
	uint64_t generation;

	pthread_mutex_lock(&w->lock);
	generation = w->generation;
	pthread_mutex_unlock(&w->lock);
	return generation;
}

static int watch_compare(const void *a, const void *b)
{
	const struct gp_rm_channel *x = a, *y = b;

	if (x->client != y->client)
		return x->client < y->client ? -1 : 1;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return x->channel < y->channel ? -1 : x->channel > y->channel;
}

void gp_rm_channels_sort(struct gp_rm_channel *channels, size_t n)
{
	if (n)
		qsort(channels, n, sizeof(*channels), watch_compare);
}

void gp_rm_watch_channels(struct gp_rm_watch *w, struct gp_rm_channel *channels, size_t capacity,
			  size_t *ret_n, uint64_t *ret_generation, bool *ret_complete)
{
	size_t n;

	pthread_mutex_lock(&w->lock);
	n = w->channels.n < capacity ? w->channels.n : capacity;
	for (size_t i = 0; i < n; i++) {
		const struct watch_object *c = &w->channels.entries[i];
		const struct watch_object *g = watch_table_find(&w->groups, c->client, c->parent);

		channels[i] = (struct gp_rm_channel){ c->client, c->object, c->parent,
						      g ? g->engine : 0 };
	}
	*ret_n = w->channels.n;
	*ret_generation = w->generation;
	*ret_complete = w->complete;
	pthread_mutex_unlock(&w->lock);
	gp_rm_channels_sort(channels, n);
}

int gp_rm_watch_subdevice(struct gp_rm_watch *w, struct gp_rm_subdevice *ret_sub,
			  struct gp_err *err)
{
	const struct watch_object *best = NULL;

	pthread_mutex_lock(&w->lock);
	for (size_t i = w->subdevices.n; i-- > 0;) {
		const struct watch_object *s = &w->subdevices.entries[i];

		if (!best)
			best = s;
		for (size_t k = 0; k < w->channels.n; k++) {
			if (w->channels.entries[k].client == s->client) {
				best = s;
				i = 0;
				break;
			}
		}
	}
	if (best)
		*ret_sub =
			(struct gp_rm_subdevice){ best->fd, best->client, best->object, w->next };
	pthread_mutex_unlock(&w->lock);
	if (!best)
		return gp_err_set(err, -ENODEV,
				  "no subdevice of the GPU was seen: the driver's ioctls "
				  "are not being watched in this process");
	return 0;
}
