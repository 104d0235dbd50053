/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_MODEL_SYSTEM_H
#define GP_TESTS_MODEL_SYSTEM_H
/*
 * A model of one job, its processes with their shims, the mover and the daemon, small enough that
 * all their interleavings and crashes can be visited. Messages are those of the protocol, in FIFO
 * queues; the daemon's steps are those of daemon/preempt.c; what a new daemon makes of what it
 * finds is decided by the real gp_resync_decide(), and every change of state is checked with the
 * real table of transitions.
 *
 * What is abstracted: time (whatever a deadline allows may happen at once), sizes, the link between
 * shim and mover (the extents that lie in it, with the epoch of their request), and epochs (a
 * message ages when its job's epoch is raised; only age 0 counts).
 */
#include "base/wire/messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define M_PROCS	  2
#define M_EXTENTS 2
#define M_QUEUE	  10 /* more than any queue ever holds; checked */

enum m_mem {
	M_OWN,	   /* mapped, with the program's bytes */
	M_NONE,	   /* released */
	M_BLANK,   /* mapped again, not filled */
	M_FILLED,  /* and filled, but the shim has not been told */
	M_SCRATCH, /* mapped to scratch */
};

/* A saved extent in the arena, as the ledger has it. */
enum m_copy {
	M_NO_COPY,
	M_VALID, /* equal to what the program last had in it */
	M_STALE, /* the program may have changed its memory since, or while it was copied */
};

enum m_conn {
	M_UP,
	M_OLD, /* its daemon is gone, which it has not seen yet */
	M_DOWN,
};

enum m_task { M_IDLE, M_SAVING, M_LOADING };

struct m_msg {
	uint8_t type; /* enum gp_wire_type */
	uint8_t proc, arg, age;
};

struct m_queue {
	uint8_t n;
	struct m_msg msgs[M_QUEUE];
};

/* A process, its shim, and what the mover and the arena have of it. */
struct m_proc {
	uint8_t alive, conn;
	uint8_t locked; /* the gate */
	uint8_t off;	/* its channels */
	uint8_t moving; /* locked to be swapped: memory of its job may be away */
	uint8_t link;	/* the shim's end leads to the mover of now */
	uint8_t mem[M_EXTENTS], copy[M_EXTENTS];
	uint8_t lost[M_EXTENTS]; /* its only bytes went in a crash of all that had them */
	uint8_t slot, slot_age;	 /* mask of extents in the link, and their request's age */
	uint8_t known;		 /* the mover has its channel table */
	uint8_t task, task_age, task_at;
};

struct m_mover {
	uint8_t alive, conn;
};

/* The daemon's view of a process; as struct gp_proc. */
struct m_view {
	uint8_t present, asked, known, locked, frozen, away, step, save_done, sent, acked;
};

/* As struct gp_job, with what the database has of it. */
struct m_daemon {
	uint8_t alive, mover_ready, has_arena, mover_fate;
	uint8_t resync; /* to be decided */
	uint8_t state, held, cancelling, on_scratch;
	uint8_t stored_held, stored_cancelling; /* before the turn that may not be committed */
	uint8_t op, phase, target, failed, n_thaw_tries;
	uint8_t orphaned; /* its supervisor ended: it fails, once nothing of it stands still */
	struct m_view views[M_PROCS];
};

struct m_state {
	struct m_daemon d;
	struct m_mover m;
	struct m_proc procs[M_PROCS];
	struct m_queue to_shim[M_PROCS], from_shim[M_PROCS], to_mover, from_mover;
	uint8_t n_crashes, n_requests, n_faults; /* that may still come */
	uint8_t supervisor, cancel_asked;
};

/* What the design rests on; each can be broken, to see what comes of it. */
enum m_rule {
	M_RULE_CONFIRM,	     /* a copy is dropped after CONFIRMED, not after LOAD_DONE */
	M_RULE_SCRATCH,	     /* a job that is on scratch stays so until it is dead */
	M_RULE_SELF_THAW,    /* no process thaws itself that was locked to be swapped */
	M_RULE_REFREEZE,     /* a held job is frozen again by a new daemon */
	M_RULE_FREEZE_FIRST, /* a frozen job is locked and frozen again before it is saved */
	M_RULE_LATE,	     /* a late process is not taken for one that ended */
	M_RULE_UNDO,	     /* a mover undoes a FREEZE whose daemon is gone */
	M_RULE_ARENA,	     /* the daemon keeps the arena for the mover's successor */
	M_RULE_RELEASE,	     /* a shim does not release for a daemon that is gone */
	M_RULE_SUPERVISOR,   /* a job without its supervisor is ended as by a cancel */
	M_RULE_LEDGER,	     /* what a ledger has that nobody needs is dropped when it comes */
	M_RULE_THAW_OUT,     /* after a FREEZE that failed there is a THAW before UNLOCK */
	M_RULE_EPOCH,	     /* a deadline that passes raises the epoch */
	M_RULE_KILL,	     /* a job is killed only when none of it may be frozen, in any phase */
	M_RULE_MAX_,
};

struct m_config {
	uint8_t n_procs, n_extents;
	uint8_t n_crashes, n_requests, n_faults;
	bool adopted;
	uint32_t without; /* mask of 1 << enum m_rule that are broken */
};

/* The system while it takes a step; @bad says what must not be. */
struct m_sys {
	struct m_state s;
	const struct m_config *config;
	const char *bad;
};

enum m_event {
	/* must happen sooner or later */
	M_SHIM_TAKES, /* the next message from the daemon */
	M_SHIM_LOSES, /* sees that its daemon is gone */
	M_SHIM_CONNECTS,
	M_MOVER_TAKES,
	M_MOVER_WORKS, /* on the next extent of a process */
	M_MOVER_LOSES,
	M_MOVER_CONNECTS,
	M_MOVER_STARTS,
	M_DAEMON_STARTS,
	M_DAEMON_HEARS,	 /* the next message of a shim */
	M_DAEMON_MISSES, /* the connection of a shim that ended */
	M_DAEMON_HEARS_MOVER,
	M_DAEMON_MISSES_MOVER,
	M_DAEMON_MISSES_SUPERVISOR,
	M_DAEMON_DECIDES, /* gp_resync_decide() */
	M_DAEMON_RESUMES, /* a swapped job that nobody holds */
	M_DAEMON_RETRIES, /* a frozen job that nobody holds, or a cancel */
	M_KILL,		  /* reaches all processes of the job */
	M_FINISH,	  /* none is left */
	M_LAST_FORCED = M_FINISH,
	/* may happen */
	M_SHIM_THAWS,	      /* itself, after the grace */
	M_DAEMON_DECIDES_NOW, /* without those that are late */
	/* requests */
	M_ASK_FREEZE,
	M_ASK_SWAP,
	M_ASK_YIELD, /* to be swapped, and to come back when there is room */
	M_ASK_RESUME,
	M_ASK_CANCEL,
	/* faults */
	M_SHIM_REFUSES,
	M_MOVER_REFUSES, /* with nothing done */
	M_MOVER_FAILS,	 /* with a part done */
	M_MOVER_CANNOT,	 /* save the next extent */
	M_DAEMON_TIRES,	 /* of waiting for LOCKED */
	/* crashes */
	M_CRASH_DAEMON, /* its last message to each peer may not have gone out: a mask */
	M_CRASH_MOVER,
	M_CRASH_PROC,
	M_CRASH_SUPERVISOR,
	M_EVENT_MAX_,
};

/* Every event has this many variants: of a process, or of what is lost with the daemon. */
#define M_VARIANTS 8

void m_init(struct m_sys *sys, const struct m_config *config);
/* Takes the event if it can happen; false: it cannot, and nothing was changed. */
bool m_step(struct m_sys *sys, enum m_event event, unsigned int variant);
/* What must hold in every state; sets sys->bad. */
void m_check(struct m_sys *sys);
/* Nothing more is to be done: the job runs, is held as asked, or has ended. */
bool m_is_settled(const struct m_sys *sys);

const char *m_event_name(enum m_event event);
const char *m_rule_name(enum m_rule rule);
/* One line; @buf of at least 512 bytes. */
void m_print(const struct m_sys *sys, char *buf, size_t buf_bytes);

/* --- between system.c and the daemon --- */

bool m_rule(const struct m_sys *sys, enum m_rule rule);
void m_fail(struct m_sys *sys, const char *what);
void m_push(struct m_sys *sys, struct m_queue *q, uint32_t type, uint32_t proc, uint32_t arg,
	    uint32_t age);
struct m_msg m_pop(struct m_queue *q);
bool m_lacks(const struct m_sys *sys, const struct m_proc *p);
void m_age_all(struct m_sys *sys);
bool m_daemon_step(struct m_sys *sys, enum m_event event, unsigned int variant);

#endif
