/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_HISTORY_H
#define GP_DAEMON_HISTORY_H
/*
 * Reads the database while the daemon runs: on a thread and a connection of its own, so that the
 * loop waits for no disk. A query is answered batch by batch: each time it is asked, it comes back
 * with the next rows, on the loop's thread. Between two batches no transaction is open, so a client
 * that reads slowly does not keep the write-ahead log from being folded in.
 */
#include "base/list.h"
#include "base/wire/messages.h"
#include "daemon/loop.h"

#include <stdbool.h>
#include <stddef.h>

struct gp_history;
struct gp_store;

/* Rows of a batch: about as many messages as a socket takes at once. */
#define GP_HISTORY_BATCH   64
#define GP_HISTORY_ANY_UID UINT32_MAX

enum gp_history_kind {
	GP_HISTORY_ENDED,   /* jobs that ended, the last first */
	GP_HISTORY_JOB,	    /* one job, live or ended */
	GP_HISTORY_EVENTS,  /* of one job, the first first */
	GP_HISTORY_COMMAND, /* of one job that has not ended */
};

struct gp_history_query {
	/* The question. */
	enum gp_history_kind kind;
	uint64_t job;
	uint32_t uid; /* jobs of others do not exist for it; or GP_HISTORY_ANY_UID */
	uint64_t since_ns;
	uint64_t limit; /* the last so many; 0 = all */
	void (*done)(struct gp_history_query *query);

	/* The answer, for done(). */
	int code; /* -ENOENT: no such job (with a job given); or another error, in err */
	struct gp_err err;
	bool end; /* no more rows follow */
	size_t n;
	union {
		struct gp_wire_job jobs[GP_HISTORY_BATCH];
		struct gp_wire_event events[GP_HISTORY_BATCH];
	};
	char *blob; /* malloc'd, the asker's */
	size_t blob_bytes;

	/* Of daemon/history.c. */
	struct gp_list node;
	uint64_t ticket;
	bool began;
	uint64_t n_seen, at_ns, at_id; /* the last row that was read */
};

/* Opens a connection of its own to the database of @store, which must outlive it. */
gp_must_check int gp_history_new(struct gp_store *store, struct gp_loop *loop,
				 struct gp_history **ret_history, struct gp_err *err);
/*
 * Waits for the query being read; no done() is called any more, so queries that were asked are the
 * asker's again. NULL is fine.
 */
void gp_history_free(struct gp_history *history);
/*
 * Asks for the (next) batch. The query belongs to the reader until done() is called from the loop;
 * never before this returns. What was stored before is seen.
 */
void gp_history_ask(struct gp_history *history, struct gp_history_query *query);

#endif
