/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/control/link.h"

#include "base/time.h"
#include "base/wire/wire.h"
#include "shim/memory/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define LINK_ACK_NS   (10 * GP_NS_PER_SEC)
#define LINK_RETRY_NS (10 * GP_NS_PER_MS) /* the kernel's limit of fds in flight is reached */

void gp_link_init(struct gp_link *l)
{
	*l = (struct gp_link){ .fd = -1 };
}

static void link_idle(struct gp_link *l)
{
	free(l->ids);
	l->ids = NULL;
	l->waiting = false;
	l->deadline_ns = 0;
}

void gp_link_open(struct gp_link *l, int fd)
{
	gp_link_close(l);
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	l->fd = fd;
}

void gp_link_close(struct gp_link *l)
{
	link_idle(l);
	gp_close_fd(&l->fd);
}

/* Fills the next message, with less if the process runs out of fds; they stay the extents'. */
static int link_fill(struct gp_link *l, struct gp_extents *x, struct gp_wire_msg *m, int *fds,
		     struct gp_err *err)
{
	size_t n = l->n - l->next;
	int r;

	if (n > GP_WIRE_MAX_EXTENTS)
		n = GP_WIRE_MAX_EXTENTS;
	for (size_t i = 0; i < n; i++) {
		r = gp_move_describe(x, l->ids[l->next + i], &m->extents.entries[i], &fds[i], err);
		if (r < 0 && i == 0)
			return r;
		if (r < 0) {
			gp_move_limit(x, i);
			n = i;
		}
	}
	m->extents.n = (uint32_t)n;
	m->extents.last = l->next + n == l->n;
	l->in_flight = n;
	return 0;
}

/* -EAGAIN: to be tried again later. */
static int link_send(struct gp_link *l, struct gp_extents *x, struct gp_err *err)
{
	const struct gp_wire_msg request = { .header = l->request };
	int fds[GP_WIRE_MAX_EXTENTS], failed, r;
	struct gp_wire_msg m;

	gp_wire_init_reply(&m, GP_WIRE_EXTENTS, &request);
	failed = link_fill(l, x, &m, fds, err);
	if (failed < 0) {
		gp_wire_init_reply(&m, GP_WIRE_EXTENTS, &request);
		m.extents.last = 1;
		m.extents.error = failed;
		/* A mover that cannot be told learns it from the end of the link. */
		if (gp_wire_send(l->fd, &m, NULL, 0, NULL) < 0)
			gp_link_close(l);
		return failed;
	}
	r = gp_wire_send(l->fd, &m, fds, m.extents.n, err);
	if (r == -EAGAIN || r == -ETOOMANYREFS)
		return -EAGAIN;
	if (r < 0)
		return r;
	l->waiting = true;
	l->deadline_ns = gp_now_ns() + LINK_ACK_NS;
	return 0;
}

static int link_advance(struct gp_link *l, struct gp_extents *x, struct gp_err *err)
{
	int r = link_send(l, x, err);

	if (r == -EAGAIN) {
		l->deadline_ns = gp_now_ns() + LINK_RETRY_NS;
		return 0;
	}
	if (r < 0)
		link_idle(l);
	return r;
}

int gp_link_start(struct gp_link *l, struct gp_extents *x, const struct gp_wire_header *request,
		  uint64_t *ids, size_t n, struct gp_err *err)
{
	link_idle(l);
	l->request = *request;
	l->ids = ids;
	l->n = n;
	l->next = 0;
	if (l->fd < 0) {
		link_idle(l);
		return gp_err_set(err, -ENOTCONN, "no link to the mover");
	}
	return link_advance(l, x, err);
}

uint64_t gp_link_deadline(const struct gp_link *l)
{
	return l->ids ? l->deadline_ns : 0;
}

static int link_acknowledged(struct gp_link *l, struct gp_extents *x, struct gp_err *err)
{
	for (size_t i = 0; i < l->in_flight; i++)
		gp_move_trim(x, l->ids[l->next + i]);
	l->next += l->in_flight;
	l->waiting = false;
	if (l->next >= l->n) {
		link_idle(l);
		return 0;
	}
	return link_advance(l, x, err);
}

int gp_link_step(struct gp_link *l, struct gp_extents *x, bool readable, struct gp_err *err)
{
	struct gp_wire_msg m;
	int r;

	if (readable) {
		r = gp_wire_recv(l->fd, &m, NULL, 0, NULL, 0, err);
		if (r == -ETIMEDOUT)
			return 0;
		if (r < 0) {
			bool sending = l->ids;

			gp_link_close(l);
			return sending ? gp_err_prepend(err, "link to the mover") : 0;
		}
		/* What an older request still had under way does not count. */
		if (m.header.type == GP_WIRE_EXTENTS_ACK && l->ids && l->waiting &&
		    m.header.epoch == l->request.epoch && m.header.cookie == l->request.cookie)
			return link_acknowledged(l, x, err);
		return 0;
	}
	if (!l->waiting)
		return link_advance(l, x, err);
	link_idle(l);
	return gp_err_set(err, -ETIMEDOUT, "the mover did not take %zu extents within 10 s",
			  l->in_flight);
}
