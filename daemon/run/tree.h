/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_RUN_TREE_H
#define GP_DAEMON_RUN_TREE_H
/* The processes below this one. As this one is a subreaper, none can leave the tree. */
#include "base/err.h"

#include <stddef.h>

struct gp_tree_result {
	size_t n_signalled;
	size_t n_refused; /* belong to somebody else by now (set-user-ID programs) */
};

/*
 * Sends @signo to every descendant of the calling process, those that are forked meanwhile
 * included as far as they show up within a few passes. Never signals a process that took over the
 * pid of an ended descendant. Does not wait. Allocates; -ENOMEM, -errno of /proc.
 */
gp_must_check int gp_tree_signal(int signo, struct gp_tree_result *ret, struct gp_err *err);

#endif
