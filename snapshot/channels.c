/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/channels.h"

#include "base/log.h"
#include "base/time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A context has up to 256 channels with CUDA_DEVICE_MAX_CONNECTIONS=32; many contexts fit. */
#define CHANNEL_TABLE_MAX 16384

static int channel_list_reserve(struct gp_channel_list *list, size_t n)
{
	struct gp_rm_channel *grown;

	if (n <= list->capacity)
		return 0;
	grown = realloc(list->entries, n * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->entries = grown;
	list->capacity = n;
	return 0;
}

static void channel_list_fini(struct gp_channel_list *list)
{
	free(list->entries);
	*list = (struct gp_channel_list){ 0 };
}

static void channel_list_append(struct gp_channel_list *list, const struct gp_channel_list *more)
{
	if (more->n)
		memcpy(list->entries + list->n, more->entries, more->n * sizeof(*more->entries));
	list->n += more->n;
}

/* As gp_rm_set_disabled wants it, each channel once. */
static void channel_list_sort(struct gp_channel_list *list)
{
	size_t kept = 0;

	gp_rm_channels_sort(list->entries, list->n);
	for (size_t i = 0; i < list->n; i++) {
		const struct gp_rm_channel *last = kept ? &list->entries[kept - 1] : NULL;

		if (last && last->client == list->entries[i].client &&
		    last->channel == list->entries[i].channel)
			continue;
		list->entries[kept++] = list->entries[i];
	}
	list->n = kept;
}

int gp_channel_table_update(struct gp_channel_table *t, const struct gp_wire_channels *part,
			    struct gp_err *err)
{
	struct gp_channel_list *next = &t->next;

	if (part->first == 0) {
		next->n = 0;
		t->next_generation = part->generation;
	} else if (part->generation != t->next_generation || part->first != next->n) {
		t->torn = true;
		return 0; /* a newer table follows: this one changed while it was sent */
	}
	t->torn = true;
	if (part->total > CHANNEL_TABLE_MAX)
		return gp_err_set(err, -E2BIG, "a table of %u channels is too long", part->total);
	if (channel_list_reserve(next, part->total) < 0 ||
	    channel_list_reserve(&t->frozen, part->total) < 0)
		return gp_err_sys(err, -ENOMEM, "channel table of %u channels", part->total);
	for (uint32_t i = 0; i < part->n && next->n < next->capacity; i++) {
		const struct gp_wire_channel *c = &part->entries[i];

		next->entries[next->n++] =
			(struct gp_rm_channel){ c->client, c->channel, c->group, c->engine };
	}
	if (next->n == part->total) {
		struct gp_channel_list old = t->current;

		t->current = *next;
		*next = old;
		next->n = 0;
		t->known = true;
		t->complete = part->complete;
		t->torn = false;
	}
	return 0;
}

void gp_channel_table_fini(struct gp_channel_table *t)
{
	channel_list_fini(&t->current);
	channel_list_fini(&t->next);
	channel_list_fini(&t->frozen);
	memset(t, 0, sizeof(*t));
}

int gp_channel_switch_reserve(struct gp_channel_switch *sw, size_t n)
{
	return channel_list_reserve(&sw->all, n);
}

void gp_channel_switch_fini(struct gp_channel_switch *sw)
{
	channel_list_fini(&sw->all);
}

static int switch_call(struct gp_channel_switch *sw, const struct gp_rm_subdevice *sub,
		       const struct gp_rm_channel *channels, size_t n, bool disable,
		       struct gp_err *err)
{
	uint64_t start = gp_now_ns();
	int r = gp_rm_set_disabled(sub, channels, n, disable, err);

	sw->ns += gp_now_ns() - start;
	return r;
}

/*
 * One channel that the driver does not know makes it refuse a whole call; then each is enabled by
 * itself, which is safe for enabling. A channel unknown twice over is gone with its process.
 */
static int switch_enable(struct gp_channel_switch *sw, const struct gp_rm_subdevice *sub,
			 struct gp_err *err)
{
	size_t stuck = 0, gone = 0;
	struct gp_err why = { 0 };

	if (switch_call(sw, sub, sw->all.entries, sw->all.n, false, &why) == 0)
		return 0;
	for (size_t i = 0; i < sw->all.n; i++) {
		const struct gp_rm_channel *c = &sw->all.entries[i];
		int r = switch_call(sw, sub, c, 1, false, &why);

		if (r < 0)
			r = switch_call(sw, sub, c, 1, false, &why);
		if (r == -EAGAIN)
			gone++;
		else if (r < 0)
			stuck++;
	}
	if (gone)
		gp_log(GP_LOG_WARN, "channels_gone", "n=%zu of=%zu", gone, sw->all.n);
	if (stuck)
		return gp_err_set(err, -EIO, "%zu of %zu channels stay off: %.180s", stuck,
				  sw->all.n, why.msg);
	return 0;
}

static int switch_collect(struct gp_channel_switch *sw, struct gp_channel_table *const *tables,
			  size_t n, struct gp_err *err)
{
	size_t total = 0;

	for (size_t i = 0; i < n; i++) {
		const struct gp_channel_table *t = tables[i];

		if (!t->known || t->current.n == 0)
			return gp_err_set(err, -ENOTSUP, "no channels of the process are known");
		if (t->torn)
			return gp_err_set(err, -ENOTSUP,
					  "the channel table of the process is changing");
		if (!t->complete)
			return gp_err_set(err, -ENOTSUP,
					  "the process has channels that its shim does not know");
		total += t->current.n;
	}
	if (channel_list_reserve(&sw->all, total) < 0)
		return gp_err_sys(err, -ENOMEM, "list of %zu channels", total);
	sw->all.n = 0;
	for (size_t i = 0; i < n; i++)
		channel_list_append(&sw->all, &tables[i]->current);
	channel_list_sort(&sw->all);
	return 0;
}

int gp_channel_switch_freeze(struct gp_channel_switch *sw, const struct gp_rm_subdevice *sub,
			     struct gp_channel_table *const *tables, size_t n, struct gp_err *err)
{
	struct gp_err why = { 0 };
	int r;

	sw->ns = 0;
	r = switch_collect(sw, tables, n, err);
	if (r < 0)
		return r;
	r = switch_call(sw, sub, sw->all.entries, sw->all.n, true, err);
	if (r < 0) {
		gp_log(GP_LOG_WARN, "freeze_retry", "channels=%zu", sw->all.n);
		r = switch_enable(sw, sub, &why);
		if (r == 0)
			r = switch_call(sw, sub, sw->all.entries, sw->all.n, true, err);
		if (r < 0 && switch_enable(sw, sub, &why) < 0)
			return gp_err_set(err, -EIO, "freeze failed and %s", why.msg);
		if (r < 0)
			return err ? gp_err_prepend(err, "freeze") : r;
	}
	for (size_t i = 0; i < n; i++) {
		tables[i]->frozen.n = 0;
		channel_list_append(&tables[i]->frozen, &tables[i]->current);
	}
	return 0;
}

int gp_channel_switch_thaw(struct gp_channel_switch *sw, const struct gp_rm_subdevice *sub,
			   struct gp_channel_table *const *tables, size_t n, struct gp_err *err)
{
	size_t total = 0;
	int r;

	sw->ns = 0;
	for (size_t i = 0; i < n; i++)
		total += tables[i]->frozen.n + tables[i]->current.n;
	if (channel_list_reserve(&sw->all, total) < 0)
		return gp_err_sys(err, -ENOMEM, "list of %zu channels", total);
	sw->all.n = 0;
	/* Both lists: the table may have changed since, and a repeated thaw has only the current.
	 */
	for (size_t i = 0; i < n; i++) {
		channel_list_append(&sw->all, &tables[i]->frozen);
		channel_list_append(&sw->all, &tables[i]->current);
	}
	channel_list_sort(&sw->all);
	r = sw->all.n ? switch_enable(sw, sub, err) : 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		tables[i]->frozen.n = 0;
	return r;
}
