/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/outbox.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

int gp_outbox_init(struct gp_outbox *o, struct gp_err *err)
{
	o->first = o->n = 0;
	o->closed = false;
	o->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->event_fd < 0)
		return gp_err_sys(err, -errno, "cannot create an eventfd");
	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->room, NULL);
	return 0;
}

void gp_outbox_fini(struct gp_outbox *o)
{
	if (o->event_fd < 0)
		return;
	close(o->event_fd);
	o->event_fd = -1;
	pthread_cond_destroy(&o->room);
	pthread_mutex_destroy(&o->lock);
}

static void outbox_put(struct gp_outbox *o, const struct gp_wire_msg *msg)
{
	uint64_t one = 1;

	assert(o->n < GP_OUTBOX_ENTRIES);
	memcpy(&o->entries[(o->first + o->n++) % GP_OUTBOX_ENTRIES], msg, msg->header.size);
	/* Cannot fail short of 2^64 messages. */
	(void)!write(o->event_fd, &one, sizeof(one));
}

void gp_outbox_reply(struct gp_outbox *o, const struct gp_wire_msg *msg)
{
	pthread_mutex_lock(&o->lock);
	outbox_put(o, msg);
	pthread_mutex_unlock(&o->lock);
}

void gp_outbox_post(struct gp_outbox *o, const struct gp_wire_msg *msg)
{
	pthread_mutex_lock(&o->lock);
	while (!o->closed && o->n >= GP_OUTBOX_ENTRIES - GP_OUTBOX_RESERVED)
		pthread_cond_wait(&o->room, &o->lock);
	if (!o->closed)
		outbox_put(o, msg);
	pthread_mutex_unlock(&o->lock);
}

bool gp_outbox_has_room(struct gp_outbox *o)
{
	bool room;

	pthread_mutex_lock(&o->lock);
	room = o->n < GP_OUTBOX_ENTRIES;
	pthread_mutex_unlock(&o->lock);
	return room;
}

void gp_outbox_close(struct gp_outbox *o)
{
	pthread_mutex_lock(&o->lock);
	o->closed = true;
	pthread_cond_broadcast(&o->room);
	pthread_mutex_unlock(&o->lock);
}

int gp_outbox_flush(struct gp_outbox *o, int sock, bool *ret_left, struct gp_err *err)
{
	uint64_t count;
	int r = 0;

	*ret_left = false;
	(void)!read(o->event_fd, &count, sizeof(count));
	pthread_mutex_lock(&o->lock);
	while (o->n) {
		const struct gp_wire_msg *msg = &o->entries[o->first];
		size_t n_fds =
			msg->header.type == GP_WIRE_MOVER_READY ? GP_ARRAY_SIZE(o->ready_fds) : 0;

		r = gp_wire_send(sock, msg, o->ready_fds, n_fds, err);
		if (r < 0)
			break;
		o->first = (o->first + 1) % GP_OUTBOX_ENTRIES;
		o->n--;
		pthread_cond_signal(&o->room);
	}
	pthread_mutex_unlock(&o->lock);
	if (r == -EAGAIN) {
		*ret_left = true;
		return 0;
	}
	return r;
}
