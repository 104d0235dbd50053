/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/run/link.h"

#include "base/time.h"
#include "base/wire/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

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
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	gp_auto_fd int sock = -1;
	struct gp_wire_msg hello;
	int r;

	if (strlen(link->path) >= sizeof(addr.sun_path))
		return gp_err_set(err, -ENAMETOOLONG, "socket path %s is longer than %zu bytes",
				  link->path, sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, link->path);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0)
		return gp_err_sys(err, -errno, "cannot create a socket");
	/* A unix socket connects at once or not at all; -EAGAIN: the daemon's backlog is full. */
	if (connect(sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		return gp_err_sys(err, -errno, "cannot connect to %s", link->path);
	gp_wire_init(&hello, GP_WIRE_HELLO);
	hello.header.job = link->job;
	hello.hello.version_min = GP_WIRE_VERSION_MIN;
	hello.hello.version_max = GP_WIRE_VERSION;
	hello.hello.role = GP_ROLE_SUPERVISOR;
	gp_wire_text(hello.hello.program, sizeof(hello.hello.program), "gpupres-run");
	r = gp_wire_send(sock, &hello, NULL, 0, err);
	if (r < 0)
		return r;
	link->sock = gp_take_fd(&sock);
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
