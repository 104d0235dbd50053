/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_RECALL_H
#define GP_DAEMON_RECALL_H
/*
 * Requests that the daemon answers from the database: HISTORY, and any about a job that ended so
 * long ago that it is no longer held in memory. Rows are sent as the client's socket takes them.
 */
#include "daemon/peer.h"

/* What one client may have waiting for the database. */
#define GP_RECALL_MAX 16

void gp_recall_history(struct gp_peer *peer, const struct gp_wire_msg *msg);
/* A request about a job that is not in memory: answered if that job has ended. */
void gp_recall_job(struct gp_peer *peer, const struct gp_wire_msg *msg);
/* The client has taken what was sent. */
void gp_recall_more(struct gp_peer *peer);
/* The client is gone. */
void gp_recall_forget_peer(struct gp_peer *peer);
/* The database reader is gone: frees what it still had. */
void gp_recall_fini(struct gp_daemon *daemon);

/* Whose jobs @peer may know of: its own uid, or GP_HISTORY_ANY_UID. */
uint32_t gp_recall_uid(const struct gp_peer *peer);

#endif
