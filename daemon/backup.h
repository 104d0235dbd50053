/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_BACKUP_H
#define GP_DAEMON_BACKUP_H
/*
 * Copies the database while it is in use: on a thread of its own, that lives as long as the copy
 * takes, from one snapshot, so that nobody who writes waits for it. The copy is made in the state
 * folder, without a name as soon as it is complete, and handed to the client as an open file: what
 * the client does with it, and how slowly, is nothing to the daemon. One at a time.
 */
#include "daemon/peer.h"

struct gp_backup;

/* Nothing runs yet. Removes what an interrupted backup left. NULL and -ENOMEM. */
gp_must_check int gp_backup_new(struct gp_daemon *daemon, struct gp_backup **ret_backup,
				struct gp_err *err);
/* Interrupts a copy that is being made. NULL is fine. */
void gp_backup_free(struct gp_backup *backup);
/* Answers BACKUP, now with an error, or later. */
void gp_backup_request(struct gp_peer *peer, const struct gp_wire_msg *msg);
/* The client is gone. */
void gp_backup_forget_peer(struct gp_peer *peer);

#endif
