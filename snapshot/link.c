/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/link.h"

#include "base/size.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

int gp_link_prepare(int link, struct gp_err *err)
{
	struct timeval limit = { .tv_sec = GP_LINK_TIMEOUT_MS / 1000 };

	if (setsockopt(link, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0)
		return gp_err_sys(err, -errno, "the link is no socket");
	return 0;
}

static void link_close_fds(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static int link_ack(int link, const struct gp_wire_msg *extents, struct gp_err *err)
{
	struct gp_wire_msg ack;

	gp_wire_init_reply(&ack, GP_WIRE_EXTENTS_ACK, extents);
	ack.extents_ack.n = extents->extents.n;
	for (uint32_t i = 0; i < extents->extents.n; i++)
		ack.extents_ack.bytes += extents->extents.entries[i].bytes;
	return gp_wire_send(link, &ack, NULL, 0, err);
}

static int link_check_extent(const struct gp_wire_extent *e, const struct gp_driver *driver,
			     struct gp_err *err)
{
	/* Ids go back to the daemon in 32 bits. */
	if (e->id > UINT32_MAX || e->bytes == 0 || e->bytes % GP_CHUNK_BYTES ||
	    e->bytes > driver->total_bytes)
		return gp_err_set(err, -EBADMSG,
				  "extent %llu of %llu bytes at 0x%llx is not possible",
				  (unsigned long long)e->id, (unsigned long long)e->bytes,
				  (unsigned long long)e->address);
	return 0;
}

/* Closes all of @fds, imported or not. */
static int link_import(const struct gp_driver *driver, const struct gp_wire_extents *m, int *fds,
		       struct gp_link_batch *batch, struct gp_err *err)
{
	int r = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		const struct gp_wire_extent *e = &m->entries[i];
		struct gp_link_extent *x = &batch->extents[i];

		if (r == 0)
			r = link_check_extent(e, driver, err);
		if (r == 0) {
			x->id = e->id;
			x->n_chunks = (uint32_t)(e->bytes / GP_CHUNK_BYTES);
			r = gp_driver_check(
				driver,
				driver->cuMemImportFromShareableHandle(
					&x->handle, (void *)(uintptr_t)fds[i],
					CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
				"cannot import an extent: cuMemImportFromShareableHandle", err);
			batch->n += r == 0;
		}
		close(fds[i]);
	}
	return r;
}

static int link_ms_until(uint64_t deadline_ns)
{
	uint64_t now = gp_now_ns();

	return now < deadline_ns ? (int)((deadline_ns - now) / GP_NS_PER_MS) + 1 : 0;
}

/* Until there is something to read. Looks up at times, whether there is a hurry by now. */
static int link_wait(int link, uint64_t deadline_ns, const atomic_bool *hurry, struct gp_err *err)
{
	struct pollfd p = { .fd = link, .events = POLLIN };

	for (;;) {
		int ms = link_ms_until(deadline_ns);

		if (ms == 0) /* also when there is always one more */
			return gp_err_set(err, -ETIMEDOUT,
					  "link to the process: it takes too long to hand over its "
					  "memory");
		if (poll(&p, 1, ms < GP_LINK_HURRY_MS ? ms : GP_LINK_HURRY_MS) > 0)
			return 0;
		if (atomic_load(hurry))
			return gp_err_set(err, -ECANCELED,
					  "the move was given up: the daemon that asked for it is "
					  "gone");
	}
}

/* The next EXTENTS message of @epoch with its fds; stale ones are acknowledged and let go. */
static int link_next(int link, uint64_t epoch, uint64_t deadline_ns, const atomic_bool *hurry,
		     struct gp_wire_msg *m, int *fds, size_t *n_fds, struct gp_err *err)
{
	int r;

	for (;;) {
		r = link_wait(link, deadline_ns, hurry, err);
		if (r < 0)
			return r;
		r = gp_wire_recv(link, m, fds, GP_WIRE_MAX_FDS, n_fds, 0, err);
		if (r < 0)
			return gp_err_prepend(err, "link to the process");
		if (m->header.type != GP_WIRE_EXTENTS) {
			link_close_fds(fds, *n_fds);
			return gp_err_set(err, -EBADMSG, "link to the process: unexpected %s",
					  gp_wire_name(m->header.type));
		}
		/* 0: the shim does not count; it then has at most one move under way. */
		if (m->header.epoch == 0 || m->header.epoch >= epoch)
			return 0;
		link_close_fds(fds, *n_fds);
		r = link_ack(link, m, err);
		if (r < 0)
			return r;
	}
}

int gp_link_receive(int link, const struct gp_driver *driver, uint64_t epoch,
		    const atomic_bool *hurry, struct gp_link_batch *batch, struct gp_err *err)
{
	uint64_t start = gp_now_ns(), patience_ns = GP_LINK_PATIENCE_NS - batch->waited_ns;
	int fds[GP_WIRE_MAX_FDS];
	struct gp_wire_msg m;
	struct gp_err why = { 0 };
	size_t n_fds = 0;
	int r, acked;

	batch->n = batch->next = 0;
	batch->last = true;
	if (patience_ns > GP_LINK_TIMEOUT_MS * GP_NS_PER_MS)
		patience_ns = GP_LINK_TIMEOUT_MS * GP_NS_PER_MS;
	r = link_next(link, epoch, start + patience_ns, hurry, &m, fds, &n_fds, err);
	batch->waited_ns += gp_now_ns() - start;
	if (batch->waited_ns > GP_LINK_PATIENCE_NS)
		batch->waited_ns = GP_LINK_PATIENCE_NS;
	if (r < 0)
		return r;
	batch->last = m.extents.last;
	if (n_fds != m.extents.n) {
		link_close_fds(fds, n_fds);
		r = gp_err_set(err, -EBADMSG, "%u extents came with %zu descriptors", m.extents.n,
			       n_fds);
	} else if (m.extents.n == 0 && !m.extents.last) {
		r = gp_err_set(err, -EBADMSG, "a batch came without extents");
	} else {
		r = link_import(driver, &m.extents, fds, batch, err);
	}
	if (r == 0 && m.extents.error < 0)
		r = gp_err_sys(err, m.extents.error, "the process could not hand over its memory");
	acked = link_ack(link, &m, &why);
	if (r == 0 && acked < 0) {
		batch->last = true;
		r = acked;
		if (err)
			*err = why;
	}
	if (r < 0)
		gp_link_batch_drop(driver, batch);
	return r;
}

void gp_link_batch_drop(const struct gp_driver *driver, struct gp_link_batch *batch)
{
	for (; batch->next < batch->n; batch->next++)
		driver->cuMemRelease(batch->extents[batch->next].handle);
}

/* Waits for a message and looks at it without taking it. */
static bool link_next_is_later(int link, uint64_t epoch, uint64_t deadline_ns,
			       const atomic_bool *hurry)
{
	struct gp_wire_header h;

	return link_wait(link, deadline_ns, hurry, NULL) == 0 &&
	       recv(link, &h, sizeof(h), MSG_PEEK | MSG_DONTWAIT) == (ssize_t)sizeof(h) &&
	       h.epoch > epoch;
}

void gp_link_discard(int link, uint64_t epoch, const atomic_bool *hurry)
{
	uint64_t deadline_ns = gp_now_ns() + GP_LINK_TIMEOUT_MS * GP_NS_PER_MS;
	int fds[GP_WIRE_MAX_FDS];
	struct gp_wire_msg m;
	size_t n_fds = 0;

	do {
		if (link_next_is_later(link, epoch, deadline_ns, hurry) ||
		    link_next(link, 0, deadline_ns, hurry, &m, fds, &n_fds, NULL) < 0)
			return;
		link_close_fds(fds, n_fds);
		if (link_ack(link, &m, NULL) < 0)
			return;
	} while (!m.extents.last);
}

bool gp_link_readable(int link)
{
	struct pollfd p = { .fd = link, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

bool gp_link_is_open(int link)
{
	struct pollfd p = { .fd = link, .events = 0 };

	return link >= 0 && poll(&p, 1, 0) == 0;
}
