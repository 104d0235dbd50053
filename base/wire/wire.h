/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_WIRE_WIRE_H
#define GP_BASE_WIRE_WIRE_H
/* Sends, receives and checks messages. No allocation, no stdio; usable from any thread. */
#include "base/err.h"
#include "base/wire/messages.h"

#include <stdbool.h>
#include <stddef.h>

/* "HELLO" for GP_WIRE_HELLO; "?" for what is no type. */
const char *gp_wire_name(uint32_t type);
/* Header and body of @type; 0 for what is no type. */
size_t gp_wire_size(uint32_t type);
/* "running" for GP_JOB_RUNNING; "?" for what is no state. */
const char *gp_job_state_name(uint32_t state);
bool gp_job_state_is_final(uint32_t state);

/* Zeroes @msg and fills its header for @type. */
void gp_wire_init(struct gp_wire_msg *msg, uint32_t type);
/* As gp_wire_init, with job, epoch, cookie and proc of @request. */
void gp_wire_init_reply(struct gp_wire_msg *msg, uint32_t type, const struct gp_wire_msg *request);
/* Copies @text into a fixed field of @bytes bytes: truncated, NUL-terminated, NUL-padded. */
void gp_wire_text(char *field, size_t bytes, const char *text);

/*
 * Checks a received datagram of @len bytes: known type, exact size, counts within their arrays,
 * text terminated. Anything may be in @msg. -EBADMSG with a reason.
 */
gp_must_check int gp_wire_check(const struct gp_wire_msg *msg, size_t len, struct gp_err *err);

/*
 * Sends one message with @n_fds fds (borrowed). Blocks only if the socket does. -EAGAIN when a
 * non-blocking socket is full, -EPIPE when the peer is gone.
 */
gp_must_check int gp_wire_send(int sock, const struct gp_wire_msg *msg, const int *fds,
			       size_t n_fds, struct gp_err *err);

/*
 * Receives and checks one message; waits at most @timeout_ms (-1 = no bound, 0 = do not wait).
 * Fds received (O_CLOEXEC) are the caller's; those over @max_fds are closed. -ETIMEDOUT (no
 * message in time), -ECONNRESET (peer gone), -EBADMSG.
 */
gp_must_check int gp_wire_recv(int sock, struct gp_wire_msg *ret_msg, int *ret_fds, size_t max_fds,
			       size_t *ret_n_fds, int timeout_ms, struct gp_err *err);

/* A HELLO as @role; @job 0 if none. */
void gp_wire_init_hello(struct gp_wire_msg *msg, uint32_t role, uint64_t job, const char *program);

/*
 * Connects to the socket at @path without waiting and sends @hello; returns the socket
 * (non-blocking, CLOEXEC), over which WELCOME or ERROR is to come. -EAGAIN: the daemon has too many
 * connections waiting; -ECONNREFUSED, -ENOENT: no daemon.
 */
gp_must_check int gp_wire_dial(const char *path, const struct gp_wire_msg *hello,
			       struct gp_err *err);

/*
 * Connects to the socket at @path and says hello as @role; returns the connected socket (blocking,
 * CLOEXEC). Waits for the answer: at most 60 s as GP_ROLE_CLI (the daemon may be starting), else 5
 * s. -ECONNREFUSED / -ENOENT: no daemon; -EPROTO: another version, said in @err.
 */
gp_must_check int gp_wire_connect(const char *path, uint32_t role, uint64_t job, uint32_t device,
				  const char *program, struct gp_err *err);

/* Where the daemon of the system has its sockets. */
#define GP_WIRE_SYSTEM_DIR "/run/gpupres"

/*
 * The folder of the sockets and run-time files of this user's own daemon: $GPUPRES_RUNTIME_DIR,
 * else $XDG_RUNTIME_DIR/gpupres, else /tmp/gpupres-<uid>. -ENAMETOOLONG.
 */
gp_must_check int gp_wire_user_runtime_dir(char *buf, size_t buf_bytes, struct gp_err *err);

/*
 * The folder of the daemon that this user's programs talk to: that of the user's own if
 * $GPUPRES_RUNTIME_DIR names it or it has a control.sock, else that of the system if that has one.
 * -ENAMETOOLONG.
 */
gp_must_check int gp_wire_runtime_dir(char *buf, size_t buf_bytes, struct gp_err *err);

#endif
