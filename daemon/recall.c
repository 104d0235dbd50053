/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recall.h"

#include "daemon/history.h"
#include "daemon/job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* In daemon->recalls until it is freed, and besides in peer->recalls while the peer is there. */
struct gp_recall {
	struct gp_list node, peer_node;
	struct gp_peer *peer; /* NULL: gone, while the query is being read */
	struct gp_wire_msg msg;
	struct gp_history_query query;
	bool reading;
	size_t n_sent; /* of this batch */
};

static void recall_free(struct gp_recall *r)
{
	if (r->peer)
		r->peer->n_recalls--;
	gp_list_del(&r->peer_node);
	gp_list_del(&r->node);
	free(r);
}

static void recall_ask(struct gp_recall *r)
{
	r->reading = true;
	r->n_sent = 0;
	gp_history_ask(r->peer->daemon->history, &r->query);
}

static void recall_send_row(struct gp_recall *r)
{
	bool events = r->query.kind == GP_HISTORY_EVENTS;
	struct gp_wire_msg m;

	gp_wire_init_reply(&m, events ? GP_WIRE_EVENT : GP_WIRE_JOB, &r->msg);
	if (events)
		m.event = r->query.events[r->n_sent];
	else
		m.job = r->query.jobs[r->n_sent];
	r->n_sent++;
	gp_peer_send(r->peer, &m, NULL, 0);
}

/* Frees it when all is sent. */
static void recall_send_rows(struct gp_recall *r)
{
	struct gp_wire_msg m;

	while (r->n_sent < r->query.n) {
		if (r->peer->n_queued || r->peer->failed)
			return; /* gp_recall_more, or gp_recall_forget_peer */
		recall_send_row(r);
	}
	if (!r->query.end) {
		recall_ask(r);
		return;
	}
	gp_wire_init_reply(&m, GP_WIRE_END, &r->msg);
	gp_peer_send(r->peer, &m, NULL, 0);
	recall_free(r);
}

/* A job that ended has its log, unless it never wrote one or was forgotten meanwhile. */
static void recall_send_log(struct gp_recall *r)
{
	gp_auto_fd int fd = -1;
	struct gp_wire_msg m;
	char path[PATH_MAX];

	gp_job_file(r->peer->daemon, r->query.job, "log", path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		gp_peer_send_error(r->peer, &r->msg, -errno, "cannot open %s", path);
		return;
	}
	gp_wire_init_reply(&m, GP_WIRE_LOG, &r->msg);
	gp_peer_send(r->peer, &m, &fd, 1);
}

static void recall_send_job(struct gp_recall *r)
{
	const struct gp_wire_job *job = &r->query.jobs[0];

	switch ((enum gp_wire_type)r->msg.header.type) {
	case GP_WIRE_SHOW:
	case GP_WIRE_WAIT:
	case GP_WIRE_CANCEL:
		recall_send_row(r);
		break;
	case GP_WIRE_LOGS:
		recall_send_log(r);
		break;
	default:
		gp_peer_send_error(r->peer, &r->msg, -ESRCH, "job %" PRIu64 " has ended (%s)",
				   job->id, gp_job_state_name(job->state));
		break;
	}
	recall_free(r);
}

static void recall_done(struct gp_history_query *query)
{
	struct gp_recall *r = gp_container_of(query, struct gp_recall, query);

	r->reading = false;
	if (!r->peer) {
		recall_free(r);
	} else if (query->code < 0) {
		gp_peer_send_error(r->peer, &r->msg, query->code, "%s", query->err.msg);
		recall_free(r);
	} else if (query->kind == GP_HISTORY_JOB) {
		recall_send_job(r);
	} else {
		recall_send_rows(r);
	}
}

uint32_t gp_recall_uid(const struct gp_peer *peer)
{
	return peer->is_admin ? GP_HISTORY_ANY_UID : peer->uid;
}

/* Answers with an error, and NULL, if it cannot be. */
static struct gp_recall *recall_new(struct gp_peer *peer, const struct gp_wire_msg *msg,
				    enum gp_history_kind kind)
{
	struct gp_recall *r;

	if (peer->n_recalls >= GP_RECALL_MAX) {
		gp_peer_send_error(peer, msg, -EBUSY, "at most %d requests of the past at a time",
				   GP_RECALL_MAX);
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		gp_peer_send_error(peer, msg, -ENOMEM, "out of memory");
		return NULL;
	}
	memcpy(&r->msg, msg, msg->header.size);
	r->peer = peer;
	r->query.kind = kind;
	r->query.job = msg->header.job;
	r->query.uid = gp_recall_uid(peer);
	r->query.done = recall_done;
	gp_list_init(&r->node);
	gp_list_init(&r->peer_node);
	gp_list_add_tail(&peer->daemon->recalls, &r->node);
	gp_list_add_tail(&peer->recalls, &r->peer_node);
	peer->n_recalls++;
	return r;
}

void gp_recall_history(struct gp_peer *peer, const struct gp_wire_msg *msg)
{
	struct gp_recall *r =
		recall_new(peer, msg, msg->header.job ? GP_HISTORY_EVENTS : GP_HISTORY_ENDED);

	if (!r)
		return;
	/* sqlite's numbers are signed. */
	r->query.since_ns = msg->history.since_wallclock_ns & INT64_MAX;
	r->query.limit = msg->history.limit & INT64_MAX;
	recall_ask(r);
}

void gp_recall_job(struct gp_peer *peer, const struct gp_wire_msg *msg)
{
	struct gp_recall *r;

	if (!msg->header.job || msg->header.job >= peer->daemon->next_job) {
		gp_peer_send_error(peer, msg, -ENOENT, "no job %" PRIu64 ": see gpupresctl list",
				   msg->header.job);
		return;
	}
	r = recall_new(peer, msg, GP_HISTORY_JOB);
	if (r)
		recall_ask(r);
}

void gp_recall_more(struct gp_peer *peer)
{
	gp_list_for_each(r, &peer->recalls, struct gp_recall, peer_node) {
		if (!r->reading)
			recall_send_rows(r);
	}
}

void gp_recall_forget_peer(struct gp_peer *peer)
{
	gp_list_for_each(r, &peer->recalls, struct gp_recall, peer_node) {
		if (!r->reading) {
			recall_free(r);
			continue;
		}
		gp_list_del(&r->peer_node);
		r->peer = NULL;
	}
}

void gp_recall_fini(struct gp_daemon *daemon)
{
	gp_list_for_each(r, &daemon->recalls, struct gp_recall, node) {
		recall_free(r);
	}
}
