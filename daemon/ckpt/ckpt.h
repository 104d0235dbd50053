/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_CKPT_CKPT_H
#define GP_DAEMON_CKPT_CKPT_H
/*
 * gpupres-ckpt: the root helper that is to write whole processes to disk. This version has no way
 * to do so, and says that to whoever asks: every request is answered, by an ERROR. It runs only
 * while somebody asks. One thread, one loop; nobody can keep it up by being silent, or make it
 * wait by not reading.
 */
#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

#define GP_CKPT_MAX_PEERS 16 /* one daemon asks; more wait in the socket's queue */

/*
 * Serves the listening socket @fd (borrowed, non-blocking) to root and to @uid; others are turned
 * away. Returns 0 once nobody has been connected for @idle_ns; a peer that says nothing for as long
 * is closed. Fails only if the loop or accept does.
 */
gp_must_check int gp_ckpt_serve(int fd, uid_t uid, uint64_t idle_ns, struct gp_err *err);

#endif
