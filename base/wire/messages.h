/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_WIRE_MESSAGES_H
#define GP_BASE_WIRE_MESSAGES_H
/*
 * Every message of gpupres, in one list. Each is a struct of fixed size and layout behind a common
 * header, sent as one SOCK_SEQPACKET datagram, file descriptors attached where noted. The list
 * makes the enum, the union, the size checks, the name table and the fuzz dispatcher.
 *
 * Conventions: sizes in bytes, times in ns (CLOCK_MONOTONIC unless named wallclock), text
 * NUL-terminated and NUL-padded, reserved fields zero. A reply carries the request's cookie.
 * Roles: C = gpupresctl, D = gpupresd, R = gpupres-run, S = shim, M = gpupres-mover.
 */
#include <stdint.h>

/* Raised when a message changes; the hello negotiates the highest common one. */
#define GP_WIRE_VERSION_MIN 1
#define GP_WIRE_VERSION	    1

#define GP_WIRE_TEXT_BYTES	256 /* of an error; as struct gp_err */
#define GP_WIRE_NAME_BYTES	64
#define GP_WIRE_UUID_BYTES	16 /* as CUuuid */
#define GP_WIRE_MAX_FDS		64 /* per message; the kernel allows 253 */
#define GP_WIRE_MAX_CHANNELS	64 /* entries of one CHANNELS message */
#define GP_WIRE_MAX_EXTENTS	64 /* entries of one EXTENTS message: one fd each */
#define GP_WIRE_MAX_IDS		256
#define GP_WIRE_NO_DEVICE	UINT32_MAX
#define GP_WIRE_MAX_PROCS	32 /* processes of one job on one device */
#define GP_WIRE_MAX_SUBMIT_BLOB (1u << 20)

enum gp_role {
	GP_ROLE_CLI = 1,
	GP_ROLE_SHIM,
	GP_ROLE_SUPERVISOR,
	GP_ROLE_MOVER,
};

/* DESIGN: queued -> starting -> running <-> frozen <-> swapped; any -> done, failed, cancelled. */
enum gp_job_state {
	GP_JOB_QUEUED = 1,
	GP_JOB_STARTING,
	GP_JOB_RUNNING,
	GP_JOB_FREEZING,
	GP_JOB_FROZEN,
	GP_JOB_EVICTING,
	GP_JOB_SWAPPED,
	GP_JOB_RESTORING,
	GP_JOB_THAWING,
	GP_JOB_DONE,
	GP_JOB_FAILED,
	GP_JOB_CANCELLED,
	GP_JOB_STATE_MAX_,
};

/* What a process says of its memory when it meets a new daemon; the worst of all its extents. */
enum gp_resync_state {
	GP_RESYNC_OPEN,	    /* not locked: it runs */
	GP_RESYNC_LOCKED,   /* locked, maybe frozen, all memory in place */
	GP_RESYNC_UNFILLED, /* frozen; mapped again, but nobody confirmed the bytes */
	GP_RESYNC_AWAY,	    /* frozen; extents were released */
	GP_RESYNC_SCRATCH,  /* frozen; mapped to scratch: it can only end */
};

enum gp_mid_kernel {
	GP_MID_KERNEL_NO,      /* the compute context was idle or at a kernel boundary */
	GP_MID_KERNEL_YES,     /* the driver's counters say that a running kernel was interrupted */
	GP_MID_KERNEL_UNKNOWN, /* switched out by a time slice just before: the counters cannot tell
				*/
};

struct gp_wire_header {
	uint32_t type; /* enum gp_wire_type */
	uint32_t size; /* of header and body */
	uint64_t job;
	uint64_t epoch; /* counts a job's preemptions and resumes; stale answers are dropped */
	uint32_t cookie;
	uint32_t proc; /* D's number of a process with the shim; 0 = none */
};

struct gp_wire_none {
	uint64_t reserved;
};

struct gp_wire_hello {
	uint32_t version_min, version_max;
	uint32_t role;
	uint32_t device; /* M: ordinal */
	char program[32];
};

struct gp_wire_welcome {
	uint32_t version;
	uint32_t reserved;
};

struct gp_wire_error {
	int32_t code; /* negative errno */
	uint32_t reserved;
	char text[GP_WIRE_TEXT_BYTES];
};

/*
 * Attached: one memfd, sealed against write, shrink and grow, of NUL-terminated strings: n_args
 * arguments, n_env "NAME=value", the working directory.
 */
struct gp_wire_submit {
	int32_t priority; /* -1000 .. 1000, higher wins */
	uint32_t n_args, n_env;
	uint32_t blob_bytes;
	uint64_t mem_bytes; /* device memory the job needs to start; 0 = unknown */
	char name[GP_WIRE_NAME_BYTES];
};

struct gp_wire_preempt {
	uint32_t to; /* GP_JOB_FROZEN or GP_JOB_SWAPPED */
	uint32_t reserved;
};

/* The last preemption and resume of a job, as measured by the daemon and the mover. */
struct gp_wire_report {
	uint64_t freeze_ns;  /* the driver call(s) that took the channels off */
	uint64_t stop_ns;    /* request to frozen */
	uint64_t save_ns;    /* first to last byte saved */
	uint64_t evict_ns;   /* request to all memory free */
	uint64_t restore_ns; /* resume request to running */
	uint64_t load_ns;    /* first to last byte loaded and verified */
	uint64_t thaw_ns;    /* the driver call(s) that put the channels back */
	uint64_t total_bytes, zero_bytes, arena_bytes, disk_bytes;
	uint32_t mid_kernel; /* enum gp_mid_kernel */
	uint32_t n_channels;
};

struct gp_wire_job {
	uint64_t id;
	uint32_t state; /* enum gp_job_state */
	int32_t priority;
	uint32_t uid, pid; /* pid of the command; 0 = not started */
	int32_t exit_code; /* 0..255, or 128 + signal, as a shell gives it; -1 = not ended */
	uint32_t device;   /* ordinal; GP_WIRE_NO_DEVICE while queued */
	uint32_t n_preemptions;
	uint32_t held; /* preempted by hand: stays so until resumed by hand */
	uint64_t mem_bytes, device_bytes, saved_bytes, resident_bytes;
	uint64_t submitted_wallclock_ns, started_wallclock_ns, ended_wallclock_ns;
	struct gp_wire_report report;
	char name[GP_WIRE_NAME_BYTES];
	char cause[128]; /* of the last change of state */
	char command[256];
};

/* What HISTORY asks for: of all jobs, those that ended; of one, the changes of its state. */
struct gp_wire_history {
	uint64_t since_wallclock_ns; /* what ended, or happened, then or later */
	uint64_t limit;		     /* the last so many; 0 = all */
};

/* A change of a job's state. */
struct gp_wire_event {
	uint64_t wallclock_ns, duration_ns; /* when; how long it had been in the old state */
	uint32_t old_state, new_state;	    /* enum gp_job_state; old_state 0 = it was new */
	char cause[128];
	char boot_id[40]; /* of the machine, as /proc/sys/kernel/random/boot_id */
};

struct gp_wire_device {
	uint32_t ordinal;
	uint32_t ready;
	uint64_t total_bytes, free_bytes;
	uint64_t arena_bytes, arena_used_bytes, swap_bytes, swap_used_bytes;
	char kind[16]; /* "soft" or "nvidia" */
	char name[GP_WIRE_NAME_BYTES];
};

struct gp_wire_list {
	uint32_t all; /* 0: the sender's own jobs; else those of all users, for admins */
	uint32_t reserved;
};

struct gp_wire_started {
	uint32_t pid;
	uint32_t reserved;
};

struct gp_wire_exited {
	int32_t exit_code;  /* as gp_wire_job */
	int32_t exec_errno; /* > 0: the command could not be started */
};

struct gp_wire_signal {
	int32_t signo;
	uint32_t reserved;
};

struct gp_wire_attach {
	uint32_t device; /* ordinal the process uses, by its own count */
	uint32_t pid;	 /* in the process's own pid namespace, for messages only */
	uint64_t total_bytes;
	uint8_t uuid[GP_WIRE_UUID_BYTES]; /* of the device; all 0 = unknown */
};

struct gp_wire_link {
	uint32_t pid; /* to M: of the process, as D knows it; 0 = unknown */
	uint32_t reserved;
};

struct gp_wire_channel {
	uint32_t client, channel, group, engine; /* as struct gp_rm_channel */
};

/* A table longer than GP_WIRE_MAX_CHANNELS comes in several messages of one generation. */
struct gp_wire_channels {
	uint64_t generation;
	uint32_t total, first, n;
	uint32_t complete; /* 0: the table may lack channels; the process cannot be frozen safely */
	struct gp_wire_channel entries[GP_WIRE_MAX_CHANNELS];
};

struct gp_wire_memory {
	uint64_t movable_bytes;	 /* in extents that can be evicted */
	uint64_t resident_bytes; /* known allocations that stay whatever we do */
	uint32_t n_extents;
	uint32_t reserved;
};

struct gp_wire_bytes {
	uint64_t bytes;
};

struct gp_wire_lock {
	uint32_t moves; /* memory of the job is or will be away: it must not thaw itself */
	uint32_t reserved;
};

struct gp_wire_locked {
	uint64_t generation; /* of the channel table; D has it already or receives it first */
	uint64_t movable_bytes;
	uint32_t n_extents;
	uint32_t reserved;
};

struct gp_wire_probed {
	uint32_t mid_kernel; /* enum gp_mid_kernel */
	uint32_t reserved;
};

struct gp_wire_ids {
	uint32_t n;
	uint32_t reserved;
	uint32_t ids[GP_WIRE_MAX_IDS];
};

struct gp_wire_count {
	uint64_t bytes;
	uint32_t n;
	uint32_t reserved;
};

struct gp_wire_extent {
	uint64_t id; /* unique within the process, never reused */
	uint64_t bytes;
	uint64_t address; /* first mapping; for messages only */
};

/* S -> M over the link, in answer to EXPORT or RECREATE. Attached: one fd per entry. */
struct gp_wire_extents {
	uint32_t n;
	uint32_t last; /* no further EXTENTS follow */
	int32_t error; /* negative errno: could not go on; n = 0, last = 1 */
	uint32_t reserved;
	struct gp_wire_extent entries[GP_WIRE_MAX_EXTENTS];
};

struct gp_wire_resync {
	uint32_t state; /* enum gp_resync_state */
	uint32_t device;
	uint32_t attached; /* has a context: wants a link */
	uint32_t linked;   /* the other end of its link is still there */
	uint32_t n_extents, n_released, n_unfilled;
	uint32_t reserved;
	uint64_t movable_bytes, released_bytes, resident_bytes;
	uint8_t uuid[GP_WIRE_UUID_BYTES]; /* as in ATTACH; of one that is attached */
};

struct gp_wire_ledger {
	uint32_t n_extents; /* saved, whether or not the process still has them, too */
	uint32_t linked;    /* the other end of its link is still there */
	uint32_t known;	    /* its channel table is known */
	uint32_t reserved;
	uint64_t bytes; /* of these extents */
};

struct gp_wire_mover_ready {
	uint64_t total_bytes, free_bytes;
	uint64_t arena_bytes, swap_bytes;
	uint32_t can_freeze;
	uint32_t reserved;
	uint8_t uuid[GP_WIRE_UUID_BYTES]; /* all 0 = unknown */
	char name[GP_WIRE_NAME_BYTES];
};

struct gp_wire_procs {
	uint32_t n;
	uint32_t reserved;
	uint32_t procs[GP_WIRE_MAX_PROCS];
};

struct gp_wire_switched {
	uint64_t ns; /* spent in the driver's calls */
	uint32_t n_channels;
	uint32_t reserved;
};

struct gp_wire_moved {
	uint64_t ns; /* first to last byte */
	uint64_t total_bytes, zero_bytes, arena_bytes, disk_bytes;
	uint32_t n_extents;
	uint32_t reserved;
};

struct gp_wire_meminfo {
	uint64_t free_bytes, total_bytes;
	uint64_t arena_bytes, arena_used_bytes, swap_bytes, swap_used_bytes;
};

/* X(ENUM_SUFFIX, member, body): direction and meaning in the comment. */
#define GP_WIRE_MESSAGES(X)                                                                        \
	/* first message of every connection; D answers WELCOME, or ERROR and closes */            \
	X(HELLO, hello, struct gp_wire_hello)                                                      \
	X(WELCOME, welcome, struct gp_wire_welcome)                                                \
	/* answers to any request */                                                               \
	X(OK, ok, struct gp_wire_none)                                                             \
	X(ERROR, error, struct gp_wire_error)                                                      \
	/* C -> D; +1 fd; answered by OK with the job id in the header */                          \
	X(SUBMIT, submit, struct gp_wire_submit)                                                   \
	/* C -> D; answered by JOB once done (for RESUME: once running), or ERROR */               \
	X(PREEMPT, preempt, struct gp_wire_preempt)                                                \
	X(RESUME, resume, struct gp_wire_none)                                                     \
	X(CANCEL, cancel, struct gp_wire_none)                                                     \
	/* C -> D; WAIT is answered by JOB when the job has ended */                               \
	X(SHOW, show, struct gp_wire_none)                                                         \
	X(WAIT, wait, struct gp_wire_none)                                                         \
	/* C -> D; answered by LOG +1 fd, a read-only file that grows */                           \
	X(LOGS, logs, struct gp_wire_none)                                                         \
	X(LOG, log, struct gp_wire_none)                                                           \
	/* C -> D; answered by JOB (DEVICE) messages and END */                                    \
	X(LIST, list, struct gp_wire_list)                                                         \
	X(DEVICES, devices, struct gp_wire_none)                                                   \
	/* C -> D; answered by JOB messages, the last that ended first, or, with the id of a job   \
	 * in the header, by EVENT messages, the first first; and END */                           \
	X(HISTORY, history, struct gp_wire_history)                                                \
	X(EVENT, event, struct gp_wire_event)                                                      \
	/* C -> D; answered by BACKED_UP with the size +1 fd: a copy of the database, read-only */ \
	X(BACKUP, backup, struct gp_wire_none)                                                     \
	X(BACKED_UP, backed_up, struct gp_wire_bytes)                                              \
	X(JOB, job, struct gp_wire_job)                                                            \
	X(DEVICE, device, struct gp_wire_device)                                                   \
	X(END, end, struct gp_wire_none)                                                           \
	/* R -> D, header.job set in all of them, HELLO included */                                \
	X(STARTED, started, struct gp_wire_started)                                                \
	X(EXITED, exited, struct gp_wire_exited)                                                   \
	/* D -> R: send to every process of the job; KILL is repeated until none is left */        \
	X(SIGNAL, signal, struct gp_wire_signal)                                                   \
	/* S -> D: the process has a context; answered by LINK +1 fd (also D -> M, +1 fd). LINK    \
	 * without a fd: the link that it has serves on, and the channels are to be told again */  \
	X(ATTACH, attach, struct gp_wire_attach)                                                   \
	X(LINK, link, struct gp_wire_link)                                                         \
	/* D -> M: the process is gone: forget its channels, link and saved bytes */               \
	X(UNLINK, unlink, struct gp_wire_none)                                                     \
	/* S -> D, forwarded to M: whenever the table changed */                                   \
	X(CHANNELS, channels, struct gp_wire_channels)                                             \
	/* S -> D: whenever it changed, at most every few ms */                                    \
	X(MEMORY, memory, struct gp_wire_memory)                                                   \
	/* S -> D: an allocation found too little memory; OK = try again, ERROR = give up */       \
	X(NEED, need, struct gp_wire_bytes)                                                        \
	/* D -> S: hold all calls that change what exists; LOCKED or ERROR. Again to one that is   \
	 * locked: LOCKED */                                                                       \
	X(LOCK, lock, struct gp_wire_lock)                                                         \
	X(LOCKED, locked, struct gp_wire_locked)                                                   \
	/* D -> S after FROZEN: was a kernel interrupted? */                                       \
	X(PROBE, probe, struct gp_wire_none)                                                       \
	X(PROBED, probed, struct gp_wire_probed)                                                   \
	/* D -> S: send all extents over the link; EXPORTED once queued there */                   \
	X(EXPORT, export_, struct gp_wire_none)                                                    \
	X(EXPORTED, exported, struct gp_wire_count)                                                \
	/* D -> S: unmap and let go of these extents; RELEASED, with the request's cookie, when    \
	 * the memory is gone; an ERROR besides if not all of it is */                             \
	X(RELEASE, release, struct gp_wire_ids)                                                    \
	X(RELEASED, released, struct gp_wire_count)                                                \
	/* D -> S: create and map all released extents again (all or none), RECREATED or           \
	 * ERROR, then send those extents over the link */                                         \
	X(RECREATE, recreate, struct gp_wire_none)                                                 \
	X(RECREATED, recreated, struct gp_wire_count)                                              \
	/* D -> S: the saved bytes are given up: map scratch at every address; SCRATCHED */        \
	X(SCRATCH, scratch, struct gp_wire_none)                                                   \
	X(SCRATCHED, scratched, struct gp_wire_none)                                               \
	/* D -> S after LOAD_DONE: the bytes are back in all that was created again; CONFIRMED.    \
	 * From then on the process needs its saved copy no more */                                \
	X(CONFIRM, confirm, struct gp_wire_none)                                                   \
	X(CONFIRMED, confirmed, struct gp_wire_none)                                               \
	/* S -> D, right after a HELLO that is not its first: it was known to an earlier daemon,   \
	 * as the header's job and proc, and this is what became of it. D keeps the numbers */     \
	X(RESYNC, resync, struct gp_wire_resync)                                                   \
	/* D -> S: what is your state, after all that you were told? RESYNC */                     \
	X(STATE, state, struct gp_wire_none)                                                       \
	/* D -> S: end of LOCK; UNLOCKED */                                                        \
	X(UNLOCK, unlock, struct gp_wire_none)                                                     \
	X(UNLOCKED, unlocked, struct gp_wire_none)                                                 \
	/* S -> M over the link; each answered by EXTENTS_ACK once its fds are taken */            \
	X(EXTENTS, extents, struct gp_wire_extents)                                                \
	X(EXTENTS_ACK, extents_ack, struct gp_wire_count)                                          \
	/* M -> D before MOVER_READY, one for each process that it has a link to or saved bytes of \
	 */                                                                                        \
	X(LEDGER, ledger, struct gp_wire_ledger)                                                   \
	/* M -> D once it can serve; +3 fds: arena, ledger and swap file, which D keeps for the    \
	 * mover's successor */                                                                    \
	X(MOVER_READY, mover_ready, struct gp_wire_mover_ready)                                    \
	/* D -> M: all channels of these processes off / on; FROZEN / THAWED or ERROR (all on) */  \
	X(FREEZE, freeze, struct gp_wire_procs)                                                    \
	X(FROZEN, frozen, struct gp_wire_switched)                                                 \
	X(THAW, thaw, struct gp_wire_procs)                                                        \
	X(THAWED, thawed, struct gp_wire_switched)                                                 \
	/* D -> M: take the extents from the link of header.proc and save them; SAVED for each     \
	 * batch that is safe, then SAVE_DONE; or ERROR (what was SAVED stays saved) */            \
	X(SAVE, save, struct gp_wire_count)                                                        \
	X(SAVED, saved, struct gp_wire_ids)                                                        \
	X(SAVE_DONE, save_done, struct gp_wire_moved)                                              \
	/* D -> M: take the extents from the link, fill and verify them; LOAD_DONE or ERROR (the   \
	 * saved copy is kept either way) */                                                       \
	X(LOAD, load, struct gp_wire_count)                                                        \
	X(LOAD_DONE, load_done, struct gp_wire_moved)                                              \
	/* D -> M: the saved copy of header.proc is no longer needed */                            \
	X(DROP, drop, struct gp_wire_none)                                                         \
	/* D -> M, answered by the same type */                                                    \
	X(MEMINFO, meminfo, struct gp_wire_meminfo)

enum gp_wire_type {
	GP_WIRE_NONE_,
#define GP_WIRE_ENUM(NAME, member, body) GP_WIRE_##NAME,
	GP_WIRE_MESSAGES(GP_WIRE_ENUM)
#undef GP_WIRE_ENUM
		GP_WIRE_MAX_,
};

struct gp_wire_msg {
	struct gp_wire_header header;
	union {
#define GP_WIRE_MEMBER(NAME, member, body) body member;
		GP_WIRE_MESSAGES(GP_WIRE_MEMBER)
#undef GP_WIRE_MEMBER
	};
};

_Static_assert(sizeof(struct gp_wire_header) == 32, "header layout");
_Static_assert(sizeof(struct gp_wire_hello) == 48, "hello layout");
_Static_assert(sizeof(struct gp_wire_report) == 96, "report layout");
_Static_assert(sizeof(struct gp_wire_job) == 640, "job layout");
_Static_assert(sizeof(struct gp_wire_extents) == 1552, "extents layout");

#endif
