/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client.h"

#include "base/wire/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Room for the runtime folder and "/control.sock"; sun_path is shorter still. */
#define CLIENT_PATH_BYTES 512

static bool client_means_no_daemon(int code)
{
	return code == -ENOENT || code == -ECONNREFUSED || code == -ECONNRESET ||
	       code == -ETIMEDOUT;
}

int gp_client_open(struct gp_client *c, const char *path, struct gp_err *err)
{
	char dir[CLIENT_PATH_BYTES - sizeof("/control.sock")], buf[CLIENT_PATH_BYTES];
	int r;

	*c = (struct gp_client){ .sock = -1 };
	if (!path) {
		r = gp_wire_runtime_dir(dir, sizeof(dir), err);
		if (r < 0)
			return r;
		snprintf(buf, sizeof(buf), "%s/control.sock", dir);
		path = buf;
	}
	r = gp_wire_connect(path, GP_ROLE_CLI, 0, 0, "gpupresctl", err);
	if (client_means_no_daemon(r))
		return gp_err_set(err, -ENOTCONN,
				  "no daemon answers at %s: start one with gpupresd --user, "
				  "or give its socket with --socket",
				  path);
	if (r == -EACCES)
		return gp_err_set(
			err, r,
			"you may not use %s: ask an administrator to make you a member of "
			"its group (ls -l says which)",
			path);
	if (r < 0)
		return r;
	c->sock = r;
	return 0;
}

void gp_client_close(struct gp_client *c)
{
	gp_close_fd(&c->sock);
}

int gp_client_send(struct gp_client *c, struct gp_wire_msg *msg, int fd, struct gp_err *err)
{
	msg->header.cookie = ++c->last_cookie;
	return gp_wire_send(c->sock, msg, &fd, fd < 0 ? 0 : 1, err);
}

int gp_client_recv(struct gp_client *c, uint32_t cookie, struct gp_wire_msg *ret, int *ret_fd,
		   struct gp_err *err)
{
	for (;;) {
		gp_auto_fd int fd = -1;
		size_t n_fds;
		int r;

		r = gp_wire_recv(c->sock, ret, &fd, 1, &n_fds, -1, err);
		if (r == -ECONNRESET)
			return gp_err_set(err, r,
					  "the daemon ended before it answered: "
					  "look at its log, start it again");
		if (r < 0)
			return r;
		if (cookie && ret->header.cookie != cookie)
			continue;
		if (ret->header.type == GP_WIRE_ERROR)
			return gp_err_set(err, ret->error.code, "%s", ret->error.text);
		if (ret_fd)
			*ret_fd = gp_take_fd(&fd);
		return 0;
	}
}

int gp_client_call(struct gp_client *c, struct gp_wire_msg *msg, int fd, uint32_t answer,
		   int *ret_fd, struct gp_err *err)
{
	gp_auto_fd int got = -1;
	int r;

	r = gp_client_send(c, msg, fd, err);
	if (r < 0)
		return r;
	r = gp_client_recv(c, msg->header.cookie, msg, &got, err);
	if (r < 0)
		return r;
	if (msg->header.type != answer)
		return gp_err_set(err, -EPROTO, "the daemon answered %s instead of %s",
				  gp_wire_name(msg->header.type), gp_wire_name(answer));
	if (ret_fd)
		*ret_fd = gp_take_fd(&got);
	return 0;
}

int gp_client_ask(struct gp_client *c, uint32_t type, uint64_t job, struct gp_wire_msg *ret,
		  uint32_t answer, int *ret_fd, struct gp_err *err)
{
	gp_wire_init(ret, type);
	ret->header.job = job;
	return gp_client_call(c, ret, -1, answer, ret_fd, err);
}

int gp_client_list(struct gp_client *c, uint32_t type, bool all, struct gp_wire_msg **ret,
		   size_t *ret_n, struct gp_err *err)
{
	gp_auto_free struct gp_wire_msg *list = NULL;
	size_t n = 0, room = 0;
	struct gp_wire_msg msg;
	int r;

	gp_wire_init(&msg, type);
	if (type == GP_WIRE_LIST)
		msg.list.all = all;
	r = gp_client_send(c, &msg, -1, err);
	if (r < 0)
		return r;
	for (;;) {
		r = gp_client_recv(c, c->last_cookie, &msg, NULL, err);
		if (r < 0)
			return r;
		if (msg.header.type == GP_WIRE_END)
			break;
		if (msg.header.type != (type == GP_WIRE_LIST ? GP_WIRE_JOB : GP_WIRE_DEVICE))
			return gp_err_set(err, -EPROTO, "the daemon answered %s with %s",
					  gp_wire_name(type), gp_wire_name(msg.header.type));
		if (n == room) {
			struct gp_wire_msg *grown;

			room = room ? 2 * room : 16;
			grown = reallocarray(list, room, sizeof(*list));
			if (!grown)
				return gp_err_sys(err, -ENOMEM, "cannot hold %zu jobs", room);
			list = grown;
		}
		list[n++] = msg;
	}
	*ret = gp_take_ptr(list);
	*ret_n = n;
	return 0;
}

int gp_client_find(struct gp_client *c, const char *text, uint64_t *ret_job, struct gp_err *err)
{
	gp_auto_free struct gp_wire_msg *jobs = NULL;
	uint64_t live = 0, ended = 0;
	size_t n, n_live = 0, n_ended = 0;
	int r;

	if (*text && text[strspn(text, "0123456789")] == '\0') {
		errno = 0;
		*ret_job = strtoull(text, NULL, 10);
		if (!errno && *ret_job)
			return 0;
		return gp_err_set(err, -ESRCH, "there is no job %s: see gpupresctl list", text);
	}
	r = gp_client_list(c, GP_WIRE_LIST, false, &jobs, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		const struct gp_wire_job *job = &jobs[i].job;

		if (strcmp(job->name, text) != 0)
			continue;
		if (gp_job_state_is_final(job->state)) {
			ended = job->id;
			n_ended++;
		} else {
			live = job->id;
			n_live++;
		}
	}
	if (n_live + n_ended == 0)
		return gp_err_set(err, -ESRCH, "there is no job named %s: see gpupresctl list",
				  text);
	if (n_live > 1 || (n_live == 0 && n_ended > 1))
		return gp_err_set(err, -EEXIST,
				  "%zu jobs are named %s: give an id, see gpupresctl list",
				  n_live ? n_live : n_ended, text);
	*ret_job = n_live ? live : ended;
	return 0;
}

int gp_client_exit_status(const struct gp_wire_job *job)
{
	if (job->exit_code >= 0)
		return job->exit_code;
	/* Ended without an exit code: never started, or lost. */
	return job->state == GP_JOB_CANCELLED ? 128 + SIGTERM : GP_EXIT_FAILURE;
}
