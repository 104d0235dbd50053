/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/control/serve.h"

#include "base/log.h"
#include "base/wire/wire.h"
#include "shim/memory/move.h"
#include "shim/shim.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#define SERVE_LOCK_MS 500

static bool serve_error(struct gp_control *c, const struct gp_wire_msg *m, const struct gp_err *err)
{
	struct gp_wire_msg reply;

	gp_wire_init_reply(&reply, GP_WIRE_ERROR, m);
	reply.error.code = err->code;
	gp_wire_text(reply.error.text, sizeof(reply.error.text), err->msg);
	return gp_control_send(c, &reply);
}

static bool serve_lock(struct gp_control *c, const struct gp_wire_msg *m)
{
	struct gp_extents_summary s;
	struct gp_wire_msg reply;
	struct gp_err err;

	if (!c->locked) {
		if (gp_gate_close(&gp_shim.gate, SERVE_LOCK_MS, &err) < 0)
			return serve_error(c, m, &err);
		c->locked = true;
	}
	c->moving |= m->lock.moves != 0;
	if (!gp_control_send_channels(c))
		return false;
	gp_freeze_sample(&gp_shim.freeze, gp_shim.interpose.watch);
	gp_extents_summary(&gp_shim.extents, &s);
	gp_wire_init_reply(&reply, GP_WIRE_LOCKED, m);
	reply.locked.generation = gp_shim.freeze.generation;
	reply.locked.movable_bytes = s.bytes;
	reply.locked.n_extents = s.n;
	return gp_control_send(c, &reply);
}

static bool serve_probe(struct gp_control *c, const struct gp_wire_msg *m)
{
	struct gp_wire_msg reply;

	gp_wire_init_reply(&reply, GP_WIRE_PROBED, m);
	reply.probed.mid_kernel = gp_freeze_probe(&gp_shim.freeze, gp_shim.interpose.watch);
	return gp_control_send(c, &reply);
}

/* Functions that would find no memory at their addresses wait from here on until UNLOCK. */
static bool serve_export(struct gp_control *c, const struct gp_wire_msg *m)
{
	struct gp_extents_summary s;
	struct gp_wire_msg reply;
	struct gp_err err;
	uint64_t *ids;
	size_t n;

	gp_interpose_hold(true);
	gp_extents_summary(&gp_shim.extents, &s);
	if (gp_move_resident_ids(&gp_shim.extents, &ids, &n) < 0) {
		gp_err_set(&err, -ENOMEM, "no host memory for a list of extents");
		return serve_error(c, m, &err);
	}
	if (gp_link_start(&c->to_mover, &gp_shim.extents, &m->header, ids, n, &err) < 0)
		return serve_error(c, m, &err);
	gp_wire_init_reply(&reply, GP_WIRE_EXPORTED, m);
	reply.exported.n = (uint32_t)n;
	reply.exported.bytes = s.bytes;
	return gp_control_send(c, &reply);
}

/*
 * Not for a daemon that is gone: the copies may have gone with it and the mover, and what is here
 * would be the last.
 */
static bool serve_release(struct gp_control *c, const struct gp_wire_msg *m)
{
	struct pollfd daemon = { .fd = c->sock };
	struct gp_wire_msg reply;
	struct gp_err err;
	int failed = 0;

	if (poll(&daemon, 1, 0) != 0)
		return false;
	gp_interpose_hold(true);
	gp_wire_init_reply(&reply, GP_WIRE_RELEASED, m);
	for (uint32_t i = 0; i < m->release.n; i++) {
		uint64_t bytes = 0;
		int r = gp_move_release(&gp_shim.extents, m->release.ids[i], &bytes, &err);

		failed = failed ? failed : r;
		reply.released.bytes += bytes;
		reply.released.n += bytes > 0;
	}
	/* What is away must be known to be so, also when the rest is not. */
	if (!gp_control_send(c, &reply))
		return false;
	return !failed || serve_error(c, m, &err);
}

static bool serve_recreate(struct gp_control *c, const struct gp_wire_msg *m)
{
	struct gp_wire_msg reply;
	struct gp_err err;
	uint64_t *ids;
	size_t n;

	gp_wire_init_reply(&reply, GP_WIRE_RECREATED, m);
	/* Nobody would fill it. */
	if (c->to_mover.fd < 0) {
		gp_err_set(&err, -ENOTCONN, "no link to the mover");
		return serve_error(c, m, &err);
	}
	if (gp_move_recreate(&gp_shim.extents, &ids, &n, &reply.recreated.bytes, &err) < 0)
		return serve_error(c, m, &err);
	reply.recreated.n = (uint32_t)n;
	if (!gp_control_send(c, &reply)) {
		free(ids);
		return false;
	}
	if (gp_link_start(&c->to_mover, &gp_shim.extents, &m->header, ids, n, &err) < 0)
		return serve_error(c, m, &err);
	return true;
}

static bool serve_confirm(struct gp_control *c, const struct gp_wire_msg *m)
{
	struct gp_wire_msg reply;

	gp_move_confirm(&gp_shim.extents);
	gp_wire_init_reply(&reply, GP_WIRE_CONFIRMED, m);
	return gp_control_send(c, &reply);
}

static bool serve_scratch(struct gp_control *c, const struct gp_wire_msg *m)
{
	struct gp_wire_msg reply;
	struct gp_err err;

	if (gp_move_scratch(&gp_shim.extents, &err) < 0)
		return serve_error(c, m, &err);
	gp_wire_init_reply(&reply, GP_WIRE_SCRATCHED, m);
	return gp_control_send(c, &reply);
}

static bool serve_unlock(struct gp_control *c, const struct gp_wire_msg *m)
{
	struct gp_extents_summary s;
	struct gp_wire_msg reply;
	struct gp_err err;

	gp_extents_summary(&gp_shim.extents, &s);
	if (s.n_released || s.n_unfilled || s.n_scratch) {
		gp_err_set(&err, -EBUSY, "%u of %u extents do not have their bytes back",
			   s.n_released + s.n_unfilled + s.n_scratch, s.n);
		return serve_error(c, m, &err);
	}
	if (c->locked) {
		gp_interpose_hold(false);
		c->locked = c->moving = false;
		c->export_pending = true;
		gp_gate_open(&gp_shim.gate);
	}
	gp_wire_init_reply(&reply, GP_WIRE_UNLOCKED, m);
	return gp_control_send(c, &reply);
}

/* A mover that is new to this process has not heard of its channels. */
static bool serve_link(struct gp_control *c, int *fd)
{
	if (*fd >= 0)
		gp_link_open(&c->to_mover, gp_take_fd(fd));
	gp_shim.freeze.loaded = false;
	return gp_control_send_channels(c);
}

static bool serve_unlocked_request(struct gp_control *c, const struct gp_wire_msg *m)
{
	struct gp_err err;

	gp_err_set(&err, -EPROTO, "%s without LOCK", gp_wire_name(m->header.type));
	return serve_error(c, m, &err);
}

static bool serve_unknown(struct gp_control *c, const struct gp_wire_msg *m)
{
	struct gp_err err;

	gp_err_set(&err, -EOPNOTSUPP, "a program does not serve %s", gp_wire_name(m->header.type));
	return serve_error(c, m, &err);
}

static bool serve_locked_request(struct gp_control *c, const struct gp_wire_msg *m)
{
	if (!c->locked)
		return serve_unlocked_request(c, m);
	switch (m->header.type) {
	case GP_WIRE_PROBE:
		return serve_probe(c, m);
	case GP_WIRE_EXPORT:
		return serve_export(c, m);
	case GP_WIRE_RELEASE:
		return serve_release(c, m);
	case GP_WIRE_RECREATE:
		return serve_recreate(c, m);
	case GP_WIRE_CONFIRM:
		return serve_confirm(c, m);
	default:
		return serve_scratch(c, m);
	}
}

bool gp_serve(struct gp_control *c, const struct gp_wire_msg *m, int received_fd)
{
	gp_auto_fd int fd = received_fd;

	if (m->header.proc)
		c->proc = m->header.proc;
	if (m->header.job)
		c->job = m->header.job;
	if (m->header.epoch)
		c->epoch = m->header.epoch;
	switch (m->header.type) {
	case GP_WIRE_LINK:
		return serve_link(c, &fd);
	case GP_WIRE_OK:
	case GP_WIRE_ERROR:
		gp_control_answer(c, m);
		return true;
	case GP_WIRE_STATE:
		return gp_control_send_resync(c, m);
	case GP_WIRE_LOCK:
		return serve_lock(c, m);
	case GP_WIRE_UNLOCK:
		return serve_unlock(c, m);
	case GP_WIRE_PROBE:
	case GP_WIRE_EXPORT:
	case GP_WIRE_RELEASE:
	case GP_WIRE_RECREATE:
	case GP_WIRE_CONFIRM:
	case GP_WIRE_SCRATCH:
		return serve_locked_request(c, m);
	default:
		return serve_unknown(c, m);
	}
}
