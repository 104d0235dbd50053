/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_PEER_H
#define GP_DAEMON_PEER_H
/*
 * One connection. Identity comes from SO_PEERCRED, the role from the hello, and what it may send
 * from the role. Sending never blocks: what the socket does not take is queued. As long as a
 * client's queue is not empty its requests are not read; a peer that lets its queue grow over
 * GP_PEER_MAX_QUEUED messages all the same, or its user's over a limit of daemon/quota.h, is
 * dropped.
 *
 * Sending never ends the connection either: whoever sends may be walking a list that the end of a
 * peer changes, and what a peer said before it went must still be heard. A peer that cannot be sent
 * to is marked failed and shut down; the loop reads what it has left and closes it at the end.
 *
 * Who says nothing within GP_PEER_HELLO_NS is dropped. A shim or a supervisor is the process that
 * connected and nobody else: when it ends, the connection does, too, even if a process that
 * it forked has kept it open.
 */
#include "base/time.h"
#include "base/wire/wire.h"
#include "daemon/daemon.h"

#define GP_PEER_MAX_QUEUED   1024
#define GP_PEER_MAX_REQUESTS 64 /* that wait for a job to get somewhere */
#define GP_PEER_MAX_QUEUED   1024
#define GP_PEER_HELLO_NS     (5 * GP_NS_PER_SEC)

struct gp_peer {
	struct gp_source source;
	struct gp_list node;	 /* daemon->peers, or dead_peers */
	struct gp_list stranger; /* daemon->strangers, until the hello */
	struct gp_daemon *daemon;
	struct gp_list queue; /* messages the socket did not take */
	uint64_t came_ns;
	size_t n_queued;
	struct gp_list requests; /* struct gp_request: what it waits for */
	size_t n_requests;
	uint32_t role; /* 0 before the hello */
	bool on_shim_socket, closed;
	bool paused;		  /* a shim that waits for its mover: see peer_must_wait */
	bool failed;		  /* takes no more messages; closed once what it sent is read */
	struct gp_wire_msg hello; /* kept while the welcome waits for the devices */
	bool welcome_pending;
	struct gp_wire_msg list; /* a LIST under way: goes on when the queue is empty */
	bool listing;
	uint64_t listed_job;	/* the last one sent */
	struct gp_list recalls; /* struct gp_recall: what it asked of the past */
	size_t n_recalls;
	uid_t uid; /* of the process that connected, as all here; see daemon/access.h */
	gid_t gid;
	pid_t pid;
	int pidfd; /* shims and supervisors; else -1 */
	bool is_admin;
	struct gp_source process; /* its end, which is the end of the connection */
	struct gp_charge charge;  /* of the connection */
	union {
		struct gp_proc *proc;	  /* GP_ROLE_SHIM */
		struct gp_job *job;	  /* GP_ROLE_SUPERVISOR */
		struct gp_device *device; /* GP_ROLE_MOVER */
	};
};

void gp_peer_init_strangers(struct gp_daemon *daemon);
/* Takes over @fd; closes it on failure. */
void gp_peer_new(struct gp_daemon *daemon, int fd, bool on_shim_socket);
/* Ends the connection and tells its role's owner; freed at the end of the turn. */
void gp_peer_close(struct gp_peer *peer, const char *why);
/* Ends the connection and tells nobody: the daemon stops, and what is stored of jobs stays true. */
void gp_peer_drop(struct gp_peer *peer);
/* Frees what gp_peer_close left behind. */
void gp_peer_reap(struct gp_daemon *daemon);
/* Welcomes the clients that came while the devices were not up yet. */
void gp_peer_welcome_pending(struct gp_daemon *daemon);

/* Queues if needed; never closes the peer. @fds are borrowed. */
void gp_peer_send(struct gp_peer *peer, const struct gp_wire_msg *msg, const int *fds,
		  size_t n_fds);
/* Whether there is something that it was sent and has not read. */
bool gp_peer_has_unread(const struct gp_peer *peer);
/* Answers @request with OK, or with ERROR and the text. */
void gp_peer_send_ok(struct gp_peer *peer, const struct gp_wire_msg *request);
void gp_peer_send_error(struct gp_peer *peer, const struct gp_wire_msg *request, int code,
			const char *fmt, ...) gp_printf(4, 5);

#endif
