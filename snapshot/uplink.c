/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/uplink.h"

#include "base/log.h"
#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#define UPLINK_RETRY_NS	  (250 * GP_NS_PER_MS)
#define UPLINK_WELCOME_NS (5 * GP_NS_PER_SEC)
#define UPLINK_PROGRAM	  "gpupres-mover"

static int uplink_watch(struct gp_uplink *u, int op, uint32_t events, struct gp_err *err)
{
	struct epoll_event ev = { .events = events, .data.fd = u->sock };

	if (epoll_ctl(u->epoll, op, u->sock, &ev) < 0)
		return gp_err_sys(err, -errno, "epoll");
	u->watching = events;
	return 0;
}

int gp_uplink_init(struct gp_uplink *u, const char *path, uint32_t device, int epoll,
		   struct gp_err *err)
{
	int flags, r;

	*u = (struct gp_uplink){ .path = path, .device = device, .epoll = epoll, .sock = -1 };
	u->sock = gp_wire_connect(path, GP_ROLE_MOVER, 0, device, UPLINK_PROGRAM, err);
	if (u->sock < 0)
		return u->sock;
	flags = fcntl(u->sock, F_GETFL);
	if (flags < 0 || fcntl(u->sock, F_SETFL, flags | O_NONBLOCK) < 0)
		return gp_err_sys(err, -errno, "cannot set the socket non-blocking");
	r = uplink_watch(u, EPOLL_CTL_ADD, 0, err);
	if (r == 0)
		u->state = GP_UPLINK_SETTLING;
	return r;
}

void gp_uplink_fini(struct gp_uplink *u)
{
	gp_close_fd(&u->sock);
}

bool gp_uplink_is_open(const struct gp_uplink *u)
{
	return u->state == GP_UPLINK_SETTLING || u->state == GP_UPLINK_UP;
}

void gp_uplink_lose(struct gp_uplink *u)
{
	uint64_t now = gp_now_ns();

	gp_close_fd(&u->sock); /* the only descriptor of it: epoll forgets it, too */
	u->state = GP_UPLINK_DOWN;
	u->due_ns = now + UPLINK_RETRY_NS;
	if (!u->lost_ns)
		u->lost_ns = now;
}

static void uplink_dial(struct gp_uplink *u)
{
	struct gp_err err = { 0 };
	struct gp_wire_msg hello;

	gp_wire_init_hello(&hello, GP_ROLE_MOVER, 0, UPLINK_PROGRAM);
	hello.hello.device = u->device;
	u->sock = gp_wire_dial(u->path, &hello, &err);
	if (u->sock < 0 || uplink_watch(u, EPOLL_CTL_ADD, EPOLLIN, &err) < 0) {
		gp_log(GP_LOG_DEBUG, "no_daemon", "reason=\"%s\"", err.msg);
		gp_uplink_lose(u);
		return;
	}
	u->state = GP_UPLINK_GREETING;
	u->due_ns = gp_now_ns() + UPLINK_WELCOME_NS;
}

void gp_uplink_tick(struct gp_uplink *u)
{
	if (gp_uplink_is_open(u) || gp_now_ns() < u->due_ns)
		return;
	if (u->state == GP_UPLINK_GREETING)
		gp_uplink_lose(u);
	else
		uplink_dial(u);
}

int gp_uplink_timeout_ms(const struct gp_uplink *u)
{
	uint64_t now = gp_now_ns();

	if (gp_uplink_is_open(u))
		return -1;
	return now < u->due_ns ? (int)((u->due_ns - now) / GP_NS_PER_MS) + 1 : 0;
}

/* A refusal need not be for good: the daemon may be about to end, or not have found us yet. */
void gp_uplink_greeted(struct gp_uplink *u)
{
	struct gp_err err = { 0 };
	struct gp_wire_msg m;
	int r = gp_wire_recv(u->sock, &m, NULL, 0, NULL, 0, &err);

	if (r == -ETIMEDOUT)
		return;
	if (r == 0 && m.header.type == GP_WIRE_WELCOME)
		r = uplink_watch(u, EPOLL_CTL_MOD, 0, &err);
	else if (r == 0)
		r = gp_err_set(&err, -EPROTO, "%s",
			       m.header.type == GP_WIRE_ERROR ? m.error.text
							      : gp_wire_name(m.header.type));
	if (r == 0) {
		u->state = GP_UPLINK_SETTLING;
		return;
	}
	gp_log(GP_LOG_DEBUG, "no_welcome", "reason=\"%s\"", err.msg);
	gp_uplink_lose(u);
}

void gp_uplink_serve(struct gp_uplink *u)
{
	u->state = GP_UPLINK_UP;
	u->lost_ns = 0;
}

int gp_uplink_flush(struct gp_uplink *u, struct gp_outbox *outbox, struct gp_err *err)
{
	uint32_t events;
	bool left;
	int r = gp_outbox_flush(outbox, u->sock, &left, err);

	if (r < 0)
		return r;
	events = (left ? EPOLLOUT : 0u);
	if (u->state == GP_UPLINK_UP && gp_outbox_has_room(outbox))
		events |= EPOLLIN;
	return events == u->watching ? 0 : uplink_watch(u, EPOLL_CTL_MOD, events, err);
}
