/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_CONTROL_SERVE_H
#define GP_SHIM_CONTROL_SERVE_H
/* Answers the daemon's requests. */
#include "shim/control/control.h"

/*
 * Control thread: does what @m asks and answers. @fd (-1 = none) came with it and is taken over.
 * False: the connection is lost.
 */
bool gp_serve(struct gp_control *c, const struct gp_wire_msg *m, int fd);

#endif
