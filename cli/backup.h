/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_CLI_BACKUP_H
#define GP_CLI_BACKUP_H
/*
 * `gpupresctl backup`: gets a copy of the daemon's database as an open file and writes it to one of
 * its own, so that neither needs rights to the other's folders.
 */
#include "cli/client.h"

/*
 * Writes the copy to @path, which must not exist; *@ret_bytes is its size. Nothing is left at @path
 * on failure, and all of it is on the disk on success.
 */
gp_must_check int gp_backup(struct gp_client *c, const char *path, uint64_t *ret_bytes,
			    struct gp_err *err);

#endif
