/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_DEVICE_H
#define GP_DAEMON_DEVICE_H
/* One GPU: its mover process, its memory, and the allocations that wait for some. */
#include "daemon/job.h"
#include "daemon/proc.h"

struct gp_device {
	struct gp_list node;
	struct gp_daemon *daemon;
	uint32_t ordinal;
	char name[GP_WIRE_NAME_BYTES];
	bool ready, was_ready;

	pid_t mover_pid;
	int mover_pidfd;
	struct gp_source mover_source;
	struct gp_peer *mover;
	struct gp_timer restart_timer;
	uint32_t n_restarts; /* since one was ready for a while */
	uint64_t ready_ns;   /* since when the mover serves; 0 = it does not */

	bool meminfo_pending;
	bool meminfo_stale; /* asked for before something changed: read again before deciding */
	bool meminfo_again; /* that is the second reading: decide, whatever changed since */
	struct gp_wire_meminfo meminfo;
	struct gp_list needs; /* struct gp_need: allocations that wait */
};

/* An allocation of a running process that found too little memory. */
struct gp_need {
	struct gp_list node;
	struct gp_proc *proc;
	struct gp_wire_msg msg;
	uint64_t since_ns;
};

/* Makes the device and starts its mover. */
gp_must_check int gp_device_new(struct gp_daemon *daemon, uint32_t ordinal, struct gp_err *err);
void gp_device_free(struct gp_device *device);
bool gp_device_all_ready(const struct gp_daemon *daemon);

/* A mover said hello; -EPERM if it is not the one we started. */
gp_must_check int gp_device_attach(struct gp_peer *peer, const struct gp_wire_msg *hello,
				   struct gp_err *err);
void gp_device_handle(struct gp_peer *peer, const struct gp_wire_msg *msg);
void gp_device_mover_gone(struct gp_device *device);
/* Sends to the mover; a device without one drops it (its jobs are failed when it goes). */
void gp_device_send(struct gp_device *device, const struct gp_wire_msg *msg, const int *fds,
		    size_t n_fds);
void gp_device_forget_proc(struct gp_device *device, const struct gp_proc *proc);

#endif
