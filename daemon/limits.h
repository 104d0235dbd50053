/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_LIMITS_H
#define GP_DAEMON_LIMITS_H
/*
 * The umask and the resource limits that a job inherits from the process that submitted it, as
 * it would if it had been started there. They are read where the submitter cannot lie: from /proc.
 */
#include "daemon/spawn/protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define GP_LIMITS_TEXT_BYTES 768

struct gp_limits {
	uint32_t umask;
	struct gp_spawn_limit limits[GP_SPAWN_N_LIMITS];
};

/* umask 022 and no limits beside those of gpupres-spawn. */
void gp_limits_init(struct gp_limits *limits);

/*
 * Those of @pid, which must not have ended when this returns, or they are another's: the caller
 * checks. -errno of /proc (which may be mounted with hidepid), -EBADMSG.
 */
gp_must_check int gp_limits_read(pid_t pid, struct gp_limits *ret);

/* As text, and back; -EBADMSG for any other text. */
void gp_limits_format(const struct gp_limits *limits, char text[GP_LIMITS_TEXT_BYTES]);
gp_must_check int gp_limits_parse(const char *text, struct gp_limits *ret);

/*
 * A queued job's gid and limits are kept where its command is, behind the last string that belongs
 * to that. Appends them to *@blob, which is reallocated; -ENOMEM.
 */
gp_must_check int gp_limits_append(char **blob, uint32_t *blob_bytes, gid_t gid,
				   const struct gp_limits *limits);
/*
 * Of a blob whose command has @n_strings: how many bytes at its end are not the command's, 0 if
 * there is nothing else, and what they say. Anything may be in @blob.
 */
size_t gp_limits_find(const char *blob, size_t blob_bytes, uint64_t n_strings, gid_t *ret_gid,
		      struct gp_limits *ret);

#endif
