/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_CLI_HISTORY_H
#define GP_CLI_HISTORY_H
/*
 * `gpupresctl history`: prints what comes from the daemon as it comes, since it can be long; so the
 * columns have fixed widths.
 */
#include "cli/client.h"

#include <stdbool.h>
#include <stdio.h>

/*
 * The last @limit (0 = all) jobs that ended at @since_ns (since 1970) or later, or with @job its
 * changes of state.
 */
gp_must_check int gp_history_print(struct gp_client *c, uint64_t job, uint64_t since_ns,
				   uint64_t limit, bool json, FILE *out, struct gp_err *err);

#endif
