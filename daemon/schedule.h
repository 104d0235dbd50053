/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_SCHEDULE_H
#define GP_DAEMON_SCHEDULE_H
/*
 * Turns what the policy decides into starts, resumes, grants and preemptions. Runs when something
 * changed, always on a fresh reading of the device's free memory.
 */
#include "daemon/device.h"

/* Asks for a decision at the end of this turn. */
void gp_schedule_want(struct gp_daemon *daemon);
/* As gp_schedule_want, after a while. */
void gp_schedule_later(struct gp_daemon *daemon);
/* End of turn: asks the devices for their free memory if a decision is wanted. */
void gp_schedule_turn(struct gp_daemon *daemon);
/* The device's free memory has just been read: decide. */
void gp_schedule_decide(struct gp_device *device);
/*
 * Whether the memory of a swapped job fits beside what others were promised. True where nobody was,
 * or where the last reading is too old to tell: then the driver says.
 */
bool gp_schedule_has_room(const struct gp_job *job);
/* An allocation of @proc waits. Answered by OK or ERROR. */
void gp_schedule_add_need(struct gp_proc *proc, const struct gp_wire_msg *msg);

#endif
