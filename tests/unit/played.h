/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_UNIT_PLAYED_H
#define GP_TESTS_UNIT_PLAYED_H
/*
 * Plays mover, shims, supervisor and client against the daemon's own loop, in this process: every
 * order of answers, ends and deadlines can be had, and none of it waits.
 */
#include "daemon/device.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

extern struct gp_daemon d;
extern struct gp_device *device;
extern struct gp_job *job;
extern int mover, shim, other, supervisor, client;

/* Turns until there is nothing left to be read. */
void settle(void);
/* The job's deadline has passed. */
void expire(void);
/* The type of the next message but for noise such as LINK; 0 if there is none. */
uint32_t next(int sock, struct gp_wire_msg *m);
/* The next message, but for noise such as LINK, is of this type. */
void expect(int sock, uint32_t type, struct gp_wire_msg *m);
/* There is none. */
void expect_none(int sock);
/* Sends, and lets the daemon take it. */
void send_to(int sock, const struct gp_wire_msg *m);
/* Answers what is expected next on @sock. */
void answer(int sock, uint32_t request, uint32_t type);
/* Says hello as @role for job @id and process @proc; 0 = none. */
int dial_as(uint32_t role, uint64_t id, uint32_t proc);
int dial(uint32_t role, uint64_t id);
void hang_up(int *sock);
void say_channels(int sock);
/* A process with a context, its channels told, and two extents of 2 MiB each. */
int start_shim(void);
/* A mover that has saved @n_saved extents of the first process, if that is not 0. */
void start_mover_with(uint32_t n_saved);
void start_mover(void);
/* What @shim's process says when it is asked what became of it. */
void say_state(enum gp_resync_state state, uint32_t n_released, uint32_t n_unfilled);
void say_free(uint64_t bytes);
void say_need(int sock, uint64_t bytes);
/* A daemon with a device, its mover, and a running job of one process. */
void begin(void);
void end(void);
void start_supervisor(void);
void preempt(enum gp_job_state to);
/* All answers from LOCK to the end of the probe, or of SAVE. */
void to_frozen(void);
/* The mover has @shim's two extents, and says so. @ret_save gets its request. */
void say_saved(struct gp_wire_msg *ret_save);
void say_save_done(const struct gp_wire_msg *save);
void to_swapped(void);
void resume(void);

#endif
