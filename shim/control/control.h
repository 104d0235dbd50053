/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_CONTROL_CONTROL_H
#define GP_SHIM_CONTROL_CONTROL_H
/*
 * The connection to the daemon and the one thread that serves it. Application threads only leave
 * notes (an atomic word and an eventfd) and wait for answers to NEED.
 *
 * State, seen by the control thread:
 *   open -> locked [LOCK]; locked -> open [UNLOCK, or its own thaw after the daemon is lost]
 *
 * The connection: up -> lost [it ended] -> dialled [HELLO and RESYNC sent] -> up [WELCOME] or lost.
 * While it is lost, open runs on; locked with its memory thaws itself after a grace, unless memory
 * of others in its job may be away; locked without memory, or with memory whose bytes may not be
 * back, waits without limit: only a daemon can bring them back. A daemon that refuses a process
 * that is open is not asked again.
 */
#include "base/err.h"
#include "base/list.h"
#include "base/wire/messages.h"
#include "shim/control/link.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/un.h>

/* Device memory that an allocation lacks. Zero but for @bytes; reused over its retries. */
struct gp_need {
	uint64_t bytes;
	uint64_t deadline_ns;
	struct gp_list link;
	uint32_t cookie;
	bool sent, answered, granted;
};

struct gp_control {
	/* any thread */
	atomic_bool running;
	atomic_uint notes; /* enum control_note */
	atomic_int device; /* the one device managed for this process; -1 = no context yet */
	_Atomic(CUcontext) context; /* one that lives, for the thread's own calls */
	int wake;		    /* eventfd */

	pthread_mutex_t lock; /* over the needs */
	pthread_cond_t answered;
	struct gp_list needs;
	uint32_t next_cookie;
	bool hopeful; /* a daemon may answer: there is one, or there was one just now */

	pthread_mutex_t serving; /* held by the control thread but while it waits */
	bool stopped;		 /* under serving */

	/* control thread */
	pthread_t thread;
	int sock;
	bool up;						   /* welcomed */
	bool unmanaged;						   /* for good */
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* of the daemon's socket */
	uint64_t lost_ns; /* when the last daemon was lost */
	uint64_t step_ns; /* not up: when to dial again, or to give up what was dialled */
	struct gp_link to_mover;
	uint64_t job, epoch;
	uint32_t proc;
	uint32_t attach_cookie;
	uint8_t uuid[GP_WIRE_UUID_BYTES]; /* of the device, told with ATTACH */
	bool locked;
	bool moving; /* locked, and memory of its job may be away */
	bool export_pending;
	bool memory_pending, channels_pending;
	uint64_t memory_reported_ns;
	struct gp_wire_memory reported;
	uint64_t thaw_ns; /* when to thaw ourselves; 0 = not */
};

void gp_control_init(struct gp_control *c);

/*
 * Connects to the daemon and starts the thread. Blocks for the daemon's welcome, at most 5 s.
 * Negative errno, already reported as far as it is worth a line: there is no daemon for us.
 */
gp_must_check int gp_control_start(struct gp_control *c);

/*
 * At exit: waits while the process is locked, as long as somebody may unlock it, then ends the
 * thread's service. Blocks otherwise at most 2 s.
 */
void gp_control_stop(struct gp_control *c);

/* Around fork. */
void gp_control_lock_all(struct gp_control *c);
void gp_control_unlock_all(struct gp_control *c);
void gp_control_forget(struct gp_control *c);

/* A context exists on @device: true if that is the device managed for this process. */
bool gp_control_attach(struct gp_control *c, CUcontext context, CUdevice device);

/* @context is gone: the control thread must not stay in it. */
void gp_control_context_ended(struct gp_control *c, CUcontext context);

/* Something was allocated or freed. */
void gp_control_note_memory(struct gp_control *c);

/* The driver made an ioctl; it may have changed the channels. */
void gp_control_note_ioctl(struct gp_control *c, unsigned long request);

/*
 * Outside the gate: asks the daemon to make room and waits. True: try again. False: there will be
 * none; all waits for one @need together last at most 60 s ($GPUPRES_ALLOC_WAIT seconds), time
 * spent locked not counted.
 */
bool gp_control_need(struct gp_control *c, struct gp_need *need);

/* Control thread: sends with the identity of this process filled in. False: connection lost. */
bool gp_control_send(struct gp_control *c, struct gp_wire_msg *m);

/* Control thread: tells the daemon the channel table if it has changed. */
bool gp_control_send_channels(struct gp_control *c);

/* Control thread: says what became of this process; in answer to @request, or NULL. */
bool gp_control_send_resync(struct gp_control *c, const struct gp_wire_msg *request);

/* Control thread: an answer to NEED or ATTACH. */
void gp_control_answer(struct gp_control *c, const struct gp_wire_msg *m);

#endif
