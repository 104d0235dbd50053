/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_JOB_H
#define GP_DAEMON_JOB_H
/*
 * A job: what was submitted, or adopted when a program with the shim came by itself. It owns its
 * processes (struct gp_proc) and its supervisor's connection. Its states, and all legal changes
 * between them with what does each, are the table of daemon/transition.h.
 */
#include "base/wire/wire.h"
#include "daemon/daemon.h"
#include "daemon/limits.h"
#include "daemon/peer.h"

/* Where daemon/registry.h has a job besides. */
enum gp_place { GP_PLACE_ACTIVE, GP_PLACE_QUEUE, GP_PLACE_ENDED };

/* A client that waits for the job to get somewhere. */
struct gp_request {
	struct gp_list node;	  /* job->requests */
	struct gp_list peer_node; /* peer->requests */
	struct gp_peer *peer;
	struct gp_wire_msg msg; /* the request, for its cookie */
	struct gp_charge charge;
};

enum gp_op {
	GP_OP_NONE,
	GP_OP_PREEMPT, /* to op_target */
	GP_OP_RESUME,
	GP_OP_CANCEL, /* back on the card, on scratch if need be, then killed */
};

/* What the operation waits for; from all processes, or from the mover (FREEZE, THAW). */
enum gp_phase {
	GP_PHASE_NONE,
	GP_PHASE_LOCK,
	GP_PHASE_FREEZE,
	GP_PHASE_PROBE,
	GP_PHASE_SAVE,
	GP_PHASE_LOAD, /* recreate, then load, each process at its own pace */
	GP_PHASE_SCRATCH,
	GP_PHASE_TABLES, /* until a new mover knows the channels that are to be thawed */
	GP_PHASE_THAW,
	GP_PHASE_UNLOCK,
	GP_PHASE_KILL,
};

struct gp_job {
	struct gp_list node;
	struct gp_list place; /* this, same_bucket and placed are those of daemon/registry.c */
	struct gp_job *same_bucket;
	struct gp_daemon *daemon;
	struct gp_device *device; /* NULL while queued */
	struct gp_device *awaits; /* queued, and others are evicted for it on this device */
	struct gp_list procs;
	struct gp_list requests;

	uint64_t id;
	enum gp_job_state state;
	int32_t priority;
	uid_t uid;
	gid_t gid;		 /* of a user that the user database does not know */
	struct gp_limits limits; /* system: of the submitter */
	uint64_t mem_bytes;
	bool adopted;
	bool held;	 /* preempted by hand */
	bool on_scratch; /* its memory is no longer its own: to be killed, not asked */
	bool refreeze;	 /* some of it may have been frozen before FREEZE */
	bool cancelling; /* ends as cancelled, or as failed with fail_cause */
	bool holds_blob; /* counted in daemon->held_bytes */
	bool orphaned;	 /* its supervisor is gone for good: its processes are ended by us */
	bool spawned;	 /* its supervisor was started by gpupres-spawn: it is not our child */
	/* daemon/recover.c */
	bool recovering;   /* no operation begins */
	bool recover_late; /* the grace is over */
	bool same_boot;	   /* it was started in this boot of the machine */
	char fail_cause[128];
	char name[GP_WIRE_NAME_BYTES];
	char cause[128];
	char command[256]; /* the arguments, as far as they are shown */
	/* argv, environment, working directory; NULL if adopted, or to be read: daemon/command.h */
	char *blob;
	struct gp_command_fetch *fetch;
	uint32_t n_args, n_env, blob_bytes;
	enum gp_place placed;
	struct gp_charge charge, blob_charge; /* until it has ended */

	struct gp_peer *supervisor;
	pid_t supervisor_pid; /* 0: started by an earlier daemon */
	int supervisor_pidfd;
	int spawner_fd; /* while the command is fetched: to gpupres-spawn; else -1 */
	struct gp_source supervisor_source;
	struct gp_timer supervisor_timer; /* waits for a supervisor after a restart */
	pid_t pid;
	int exit_code;
	int exec_errno;
	uint32_t n_preemptions;

	/* The one operation in progress; daemon/preempt.c owns these. */
	enum gp_op op;
	enum gp_phase phase;
	enum gp_job_state op_target;
	int op_code; /* first error */
	char op_error[GP_WIRE_TEXT_BYTES];
	uint64_t op_begin_ns;
	uint32_t n_thaw_tries;
	struct gp_timer op_timer;
	uint64_t epoch;

	/* daemon/recover.c */
	struct gp_list lost; /* struct gp_lost */
	struct gp_timer recover_timer;

	uint64_t rests_until_ns; /* an operation failed: the scheduler leaves it alone so long */
	uint64_t state_since_ns;
	uint64_t submitted_ns, started_ns, ended_ns; /* wallclock */
	uint64_t saved_bytes;
	struct gp_wire_report report;
};

/*
 * Charges @uid with a job, submitted or adopted, and with @blob_bytes for its command. -EDQUOT with
 * a line for that user; then both are charges of nothing.
 */
gp_must_check int gp_job_charge(struct gp_daemon *daemon, uid_t uid, bool adopted,
				uint32_t blob_bytes, struct gp_charge *ret,
				struct gp_charge *ret_blob, struct gp_err *err);
/* Makes a job with the next id; gp_job_set_state gives it its first state and stores it. NULL when
 * out of memory.
 */
struct gp_job *gp_job_new(struct gp_daemon *daemon, const char *name, uid_t uid, int32_t priority,
			  uint64_t mem_bytes);
void gp_job_free(struct gp_job *job);
/* Takes over @blob (malloc'd), which is sound: see gp_job_blob_is_sound. */
void gp_job_set_command(struct gp_job *job, char *blob, uint32_t blob_bytes, uint32_t n_args,
			uint32_t n_env);
struct gp_job *gp_job_find(struct gp_daemon *daemon, uint64_t id);

/*
 * Moves to @state, logs and stores the change with its cause. The one place where state changes; a
 * change that daemon/transition.h does not list is a bug.
 */
void gp_job_set_state(struct gp_job *job, enum gp_job_state state, const char *cause, ...)
	gp_printf(3, 4);
/* Ends the job: final state, answers waiting clients, gives back what it held. */
void gp_job_finish(struct gp_job *job, enum gp_job_state state, const char *cause, ...)
	gp_printf(3, 4);

/*
 * Ends a job whose processes and supervisor ended while nobody looked: by the supervisor's status
 * file if there is one, else as @state with @cause.
 */
void gp_job_end_unseen(struct gp_job *job, enum gp_job_state state, const char *cause);

/* Ends a job without a supervisor that has no process left. */
void gp_job_check_procs(struct gp_job *job);

/* Starts the supervisor of a queued job on its device (job->device set); finishes it on failure. */
void gp_job_start(struct gp_job *job);
/* Sends a signal to all processes of the job through its supervisor, or by pid if adopted. */
void gp_job_signal(struct gp_job *job, int signo);

/* Sums over the job's processes. */
uint64_t gp_job_device_bytes(const struct gp_job *job);
uint64_t gp_job_released_bytes(const struct gp_job *job);
uint64_t gp_job_resident_bytes(const struct gp_job *job);
void gp_job_fill(const struct gp_job *job, struct gp_wire_job *ret_record);

/* Remembers that @peer waits; answered by gp_job_answer or dropped when the peer goes. */
void gp_job_add_request(struct gp_job *job, struct gp_peer *peer, const struct gp_wire_msg *msg);
void gp_job_free_request(struct gp_request *request);
/* Answers waiting requests of @type (GP_WIRE_WAIT, ...) with the job, or with an error. */
void gp_job_answer(struct gp_job *job, uint32_t type, int code, const char *text);
void gp_job_forget_peer(struct gp_peer *peer);

/* Of a job's log in a system: its user owns it, the daemon reads it as the group. */
#define GP_JOB_SYSTEM_LOG_MODE 0640

/* gpupres-spawn has started the supervisor; takes over @pidfd. Or it could not, and said why. */
void gp_job_spawned(struct gp_job *job, pid_t pid, int pidfd);
void gp_job_not_spawned(struct gp_job *job, const char *why);

/* Messages and end of the supervisor. */
void gp_job_attach_supervisor(struct gp_job *job, struct gp_peer *peer);
void gp_job_handle_supervisor(struct gp_peer *peer, const struct gp_wire_msg *msg);
/* The supervisor's connection ended. */
void gp_job_supervisor_closed(struct gp_job *job);
/* @blob is just @n_args arguments, @n_env variables and a working directory, each terminated. */
bool gp_job_blob_is_sound(const char *blob, size_t bytes, uint32_t n_args, uint32_t n_env);
/* The same for what is stored: with the job's n_args and n_env, and its limits behind them. */
bool gp_job_stored_blob_is_sound(const struct gp_job *job, const char *blob, size_t bytes);
/* As gp_job_path, for a job that need not be in memory. */
void gp_job_file(const struct gp_daemon *daemon, uint64_t id, const char *suffix, char *buf,
		 size_t buf_bytes);
/* Folder and paths of a job's files; -ENAMETOOLONG cannot happen for paths checked at start. */
void gp_job_path(const struct gp_job *job, const char *suffix, char *buf, size_t buf_bytes);

/* Takes up what the store says of jobs that were alive when the last daemon ended. */
gp_must_check int gp_job_recover(struct gp_daemon *daemon, struct gp_err *err);

#endif
