/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_STATE_H
#define GP_SHIM_SOFT_STATE_H
/*
 * What the processes of one software device share: a directory of allocation files and one mapped
 * state file with the capacity and the channel table.
 *
 * Invariants
 * - An allocation is a file "d.<id>" (device) or "h.<id>" (host location). Whoever uses it
 * (mapping, handle, fd in flight) holds an open file description with flock(LOCK_SH); so it is dead
 *   exactly when flock(LOCK_EX) succeeds, however its users died. Only the holder of the memory
 *   lock creates, counts and unlinks files.
 * - The two locks and the signs of life are POSIX record locks on bytes of the file "lock": the
 *   kernel drops them when a process dies, a forked child does not inherit them, and a test for
 *   one needs neither pids nor a pid namespace in common. Byte 0: memory; byte 1: channels;
 *   byte GP_STATE_ALIVE + i: process slot i lives. The two locks are never nested.
 * - used_bytes may be too high after a death (it is raised before a file exists), never too low;
 *   a sweep makes it exact.
 */
#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GP_STATE_MAX_PROCS    256
#define GP_STATE_MAX_GROUPS   1024
#define GP_STATE_MAX_CHANNELS 5120
#define GP_STATE_ALIVE	      64

/*
 * What stands between an engine and memory. @active counts threads that may touch memory; a
 * freezer sets @stop and waits for @active to become 0. Both sequentially consistent: either the
 * thread sees @stop or the freezer sees the thread. @busy: work is begun and not finished.
 */
struct gp_gate {
	uint32_t stop;	 /* futex; 0 or 1 */
	uint32_t active; /* futex */
	uint32_t busy;
};

struct gp_state_proc {
	uint32_t in_use;
	int32_t pid;	      /* for people; liveness is the record lock */
	uint64_t start_ticks; /* /proc/<pid>/stat field 22, for people */
	uint32_t doorbell;    /* futex: bumped when engines should look again */
	uint32_t pad;
};

struct gp_state_group {
	uint32_t in_use;
	uint32_t client, handle;
	uint32_t engine;	 /* 1 = GR, 0xb.. = copy */
	uint32_t proc;		 /* index of the owner */
	uint32_t kernel_channel; /* handle of the channel whose kernel runs, 0 = none */
	struct gp_gate gate;	 /* used by GR groups */
	uint32_t pad;
};

struct gp_state_channel {
	uint32_t in_use;
	uint32_t client, handle;
	uint32_t group; /* index */
	uint32_t proc;
	uint32_t disabled;
	uint32_t registered;		/* UVM knows it: it may run */
	struct gp_gate gate;		/* used by copy channels */
	uint32_t n_save, n_wfi, n_cilp; /* since creation */
};

struct gp_state_shared {
	uint64_t magic;
	uint64_t capacity_bytes;
	uint64_t used_bytes;
	uint64_t next_file;
	uint32_t next_client;
	uint32_t n_groups, n_channels; /* high-water marks: slots behind them were never used */
	uint32_t pad;
	struct gp_state_proc procs[GP_STATE_MAX_PROCS];
	struct gp_state_group groups[GP_STATE_MAX_GROUPS];
	struct gp_state_channel channels[GP_STATE_MAX_CHANNELS];
};

struct gp_state {
	char path[192];
	int dir_fd;
	int lock_fd;
	mode_t file_mode; /* who may use the folder may use the device */
	struct gp_state_shared *shared;
	uint32_t proc; /* own slot */
	pthread_mutex_t memory_mutex,
		channel_mutex; /* threads of this process; taken before the byte */
};

/*
 * Opens (creating if needed) the directory GPUPRES_SOFT_DIR and takes a process slot. May block
 * 10 s for each lock. On failure nothing is held. Call once per process.
 */
gp_must_check int gp_state_open(struct gp_state *state, struct gp_err *err);

/* Forked child: closes the inherited fds; the parent's slot and locks are untouched. */
void gp_state_forget(struct gp_state *state);

/* -EBUSY when another process kept it for 10 s. */
gp_must_check int gp_state_lock_channels(struct gp_state *state);
void gp_state_unlock_channels(struct gp_state *state);

/* True while the process of slot @proc lives. Channel lock held. */
bool gp_state_proc_alive(struct gp_state *state, uint32_t proc);

/*
 * Makes an allocation file of @bytes (multiple of 2 MiB), counted against the capacity unless
 * @host. Returns a CLOEXEC fd that holds the shared lock, and *@ret_id; -ENOMEM when over the
 * capacity even after a sweep; other negative errno.
 */
gp_must_check int gp_state_file_create(struct gp_state *state, uint64_t bytes, bool host,
				       uint64_t *ret_id);

/* Opens living allocation @id again with a shared lock of its own. fd or negative errno. */
gp_must_check int gp_state_file_open(struct gp_state *state, uint64_t id, bool host);

/* What allocation file an fd received from somewhere is. -EINVAL if it is none of this device. */
gp_must_check int gp_state_file_identify(struct gp_state *state, int fd, uint64_t *ret_id,
					 bool *ret_host, uint64_t *ret_bytes);

/* Unlinks allocation @id if nobody uses it any more; to be called after letting go of it. */
void gp_state_file_reap(struct gp_state *state, uint64_t id, bool host);

/* Sweeps the dead, then reports exactly. -EBUSY as above. */
gp_must_check int gp_state_memory(struct gp_state *state, uint64_t *ret_used,
				  uint64_t *ret_capacity);

/* Futexes on words shared between processes. Wait: -ETIMEDOUT, else 0 (spurious wakeups possible).
 */
int gp_futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns);
void gp_futex_wake(uint32_t *word);

/* Tries to pass; false leaves nothing behind. */
bool gp_gate_enter(struct gp_gate *gate);
void gp_gate_leave(struct gp_gate *gate);

#endif
