/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_CLI_CLIENT_H
#define GP_CLI_CLIENT_H
/*
 * One connection of gpupresctl to the daemon. Requests carry a cookie of their own, so that a
 * pending WAIT and other requests can share the connection.
 */
#include "base/err.h"
#include "base/wire/messages.h"

#include <stdbool.h>

/* The exit statuses of gpupresctl beside that of a job (man page: EXIT STATUS). */
enum gp_exit {
	GP_EXIT_OK = 0,
	GP_EXIT_FAILURE = 1,
	GP_EXIT_USAGE = 2,
	GP_EXIT_NO_DAEMON = 3,
	GP_EXIT_NOT_EXECUTABLE = 126, /* as a shell */
	GP_EXIT_NOT_FOUND = 127,
};

struct gp_client {
	int sock; /* -1 = not connected */
	uint32_t last_cookie;
};

/*
 * Connects to @path, or for NULL to control.sock in the runtime folder; waits at most 60 s.
 * -ENOTCONN: no daemon answers there; @err says how to start one.
 */
gp_must_check int gp_client_open(struct gp_client *c, const char *path, struct gp_err *err);
void gp_client_close(struct gp_client *c);

/* Sends @msg with a new cookie, left in its header, and @fd unless that is -1. */
gp_must_check int gp_client_send(struct gp_client *c, struct gp_wire_msg *msg, int fd,
				 struct gp_err *err);

/*
 * Receives the next message with @cookie, dropping others; 0 = with any cookie. *@ret_fd (may be
 * NULL) gets its fd, -1 if it has none. No bound on the time. An ERROR message becomes @err with
 * its code.
 */
gp_must_check int gp_client_recv(struct gp_client *c, uint32_t cookie, struct gp_wire_msg *ret,
				 int *ret_fd, struct gp_err *err);

/* Sends @msg and receives the answer into it; -EPROTO if its type is not @answer. */
gp_must_check int gp_client_call(struct gp_client *c, struct gp_wire_msg *msg, int fd,
				 uint32_t answer, int *ret_fd, struct gp_err *err);

/* As gp_client_call, for a request of @type that consists of a job's id alone. */
gp_must_check int gp_client_ask(struct gp_client *c, uint32_t type, uint64_t job,
				struct gp_wire_msg *ret, uint32_t answer, int *ret_fd,
				struct gp_err *err);

/*
 * The user's jobs, with @all those of all users (-EPERM: for admins), or for GP_WIRE_DEVICES all
 * devices, as an array of *@ret_n messages. The caller frees *@ret.
 */
gp_must_check int gp_client_list(struct gp_client *c, uint32_t type, bool all,
				 struct gp_wire_msg **ret, size_t *ret_n, struct gp_err *err);

/*
 * The id of the job that @text names: an id, or a name that one job of this user has, or among
 * several jobs one that has not ended. -ESRCH: none; -EEXIST: more than one.
 */
gp_must_check int gp_client_find(struct gp_client *c, const char *text, uint64_t *ret_job,
				 struct gp_err *err);

/* What a shell would show as exit status of an ended @job. */
int gp_client_exit_status(const struct gp_wire_job *job);

#endif
