/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_SPAWN_PROTOCOL_H
#define GP_DAEMON_SPAWN_PROTOCOL_H
/*
 * What gpupresd and gpupres-spawn say to each other: a SOCK_SEQPACKET connection for each request,
 * one request on it, one answer, the end.
 *
 *	START	starts the supervisor of a job as a user, in a cgroup of its own.
 *		3 fds: the command (a memfd sealed against write, shrink and grow, below), the
 *		job's log and its status file (regular files of the caller, open for writing, the
 *		log for appending). The log becomes the user's, its group stays.
 *		Answered with 1 fd: a pidfd of the supervisor. Then the connection ends, which
 *		means that it runs, or an answer with an error follows.
 *	KILL	kills all that is in the job's cgroup and removes it. The last resort: on a real
 *		card no process must be killed while its channels are off.
 *	REMOVE	removes the job's cgroup, which must be empty or become so within GP_SPAWN_EMPTY_MS.
 *	SIGNAL	sends a signal to the process of the attached pidfd, as a user: what that user may
 *		not signal is refused by the kernel. For jobs that nobody submitted.
 *
 * The command: NUL-terminated strings, one after the other: the socket for the supervisor, n_args
 * arguments, n_env "NAME=value", the working folder.
 */
#include "base/err.h"

#include <stdint.h>

#define GP_SPAWN_VERSION 1

/* A submitted command of at most 1 MiB, with the variables that the daemon adds. */
#define GP_SPAWN_MAX_BLOB ((1u << 20) + (64u << 10))
/* RLIM_NLIMITS of Linux: RLIMIT_CPU (0) to RLIMIT_RTTIME (15), asm-generic/resource.h. */
#define GP_SPAWN_N_LIMITS 16
#define GP_SPAWN_MAX_FDS  3
#define GP_SPAWN_EMPTY_MS 2000

enum gp_spawn_type {
	GP_SPAWN_START = 1,
	GP_SPAWN_KILL,
	GP_SPAWN_REMOVE,
	GP_SPAWN_SIGNAL,
	GP_SPAWN_TYPE_MAX_,
};

/* A resource limit; UINT64_MAX is none, as RLIM_INFINITY is. */
struct gp_spawn_limit {
	uint64_t soft, hard;
};

struct gp_spawn_request {
	uint32_t version; /* GP_SPAWN_VERSION */
	uint32_t type;	  /* enum gp_spawn_type */
	uint64_t job;	  /* never 0; SIGNAL: for messages */
	uint32_t uid;	  /* START, SIGNAL */
	uint32_t gid;	  /* START: of a user that the user database does not know */
	uint32_t n_args, n_env, blob_bytes;
	int32_t signo; /* SIGNAL */
	uint32_t umask;
	uint32_t reserved;
	/* By number; each is applied up to the hard limit that gpupres-spawn itself has. */
	struct gp_spawn_limit limits[GP_SPAWN_N_LIMITS];
};

struct gp_spawn_reply {
	uint32_t version;
	int32_t code; /* 0 or a negative errno */
	uint64_t job;
	uint32_t pid; /* START */
	uint32_t reserved;
	char text[sizeof(((struct gp_err *)NULL)->msg)]; /* of an error */
};

_Static_assert(sizeof(struct gp_spawn_request) == 304, "request layout");
_Static_assert(sizeof(struct gp_spawn_reply) == 280, "reply layout");

#endif
