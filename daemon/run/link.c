/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/run/link.h"

#include "base/time.h"
#include "base/wire/wire.h"

#include <errno.h>

void gp_link_init(struct gp_link *link, const char *path, uint64_t job)
{
	*link = (struct gp_link){ .path = path, .job = job, .sock = -1 };
}

void gp_link_close(struct gp_link *link)
{
	gp_close_fd(&link->sock);
	link->up = false;
}

int gp_link_open(struct gp_link *link, struct gp_err *err)
{
	struct gp_wire_msg hello;
	int sock;

	gp_wire_init_hello(&hello, GP_ROLE_SUPERVISOR, link->job, "gpupres-run");
	sock = gp_wire_dial(link->path, &hello, err);
	if (sock < 0)
		return sock;
	link->sock = sock;
	link->up = false;
	link->greeted_ns = gp_now_ns();
	return 0;
}

int gp_link_send(struct gp_link *link, struct gp_wire_msg *msg, struct gp_err *err)
{
	if (link->sock < 0)
		return gp_err_set(err, -ENOTCONN, "cannot send %s: no daemon at %s",
				  gp_wire_name(msg->header.type), link->path);
	msg->header.job = link->job;
	return gp_wire_send(link->sock, msg, NULL, 0, err);
}

int gp_link_receive(struct gp_link *link, struct gp_wire_msg *ret, struct gp_err *err)
{
	int r;

	r = gp_wire_recv(link->sock, ret, NULL, 0, NULL, 0, err);
	if (r == -ETIMEDOUT)
		return r;
	if (r == 0 && ret->header.type == GP_WIRE_ERROR && !link->up)
		r = gp_err_set(err, ret->error.code, "the daemon refused: %s", ret->error.text);
	if (r < 0) {
		gp_link_close(link);
		return r;
	}
	if (ret->header.type == GP_WIRE_WELCOME)
		link->up = true;
	return 0;
}
