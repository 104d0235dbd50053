/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_CLI_SUBMIT_H
#define GP_CLI_SUBMIT_H
/*
 * What `submit` and `run` hand to the daemon: the command by absolute path, the environment of
 * the caller with --env on top, and the working folder, in one sealed memfd.
 */
#include "cli/client.h"
#include "cli/options.h"

/*
 * Finds @command as a shell does: as a path if it holds a slash, else along $PATH. *@ret, absolute,
 * is the caller's to free. -ENOENT: not found; -EACCES: not executable.
 */
gp_must_check int gp_submit_resolve(const char *command, char **ret, struct gp_err *err);

/*
 * Packs the job into a new sealed memfd, which is the caller's, and fills @ret_msg with the
 * SUBMIT that goes with it. @path replaces the first argument. -E2BIG.
 */
gp_must_check int gp_submit_pack(const struct gp_options *o, const char *path, char **environment,
				 struct gp_wire_msg *ret_msg, struct gp_err *err);

/* Packs and submits, with the environment of this process; *@ret_job is the new job's id. */
gp_must_check int gp_submit(struct gp_client *c, const struct gp_options *o, const char *path,
			    uint64_t *ret_job, struct gp_err *err);

#endif
