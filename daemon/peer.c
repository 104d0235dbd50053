/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peer.h"

#include "daemon/backup.h"
#include "daemon/device.h"
#include "daemon/job.h"
#include "daemon/preempt.h"
#include "daemon/proc.h"
#include "daemon/recall.h"
#include "daemon/request.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/log.h"

/* Messages that wait for a mover, from when on its shims wait, too. */
#define PEER_MOVER_BUSY 64
/* Messages of a process that has ended which are still read. */
#define PEER_LAST_WORDS 1024

/* A queued message is one of GP_QUOTA_MESSAGES, some _BYTES, and some _FDS. */
#define PEER_CHARGES 3

static void peer_process_ended(struct gp_source *source, uint32_t events);

struct peer_queued {
	struct gp_list node;
	struct gp_wire_msg msg;
	int fds[GP_WIRE_MAX_FDS];
	size_t n_fds;
	struct gp_charge charges[PEER_CHARGES]; /* as of PEER_CHARGES */
};

static void peer_queued_free(struct peer_queued *q)
{
	gp_list_del(&q->node);
	for (size_t i = 0; i < PEER_CHARGES; i++)
		gp_charge_drop(&q->charges[i]);
	for (size_t i = 0; i < q->n_fds; i++)
		close(q->fds[i]);
	free(q);
}

/* See the header: the loop closes it. */
static void peer_fail(struct gp_peer *peer, const char *why)
{
	peer->failed = true;
	gp_log(GP_LOG_DEBUG, "peer_failed", "role=%u pid=%d why=\"%s\"", peer->role, peer->pid,
	       why);
	shutdown(peer->source.fd, SHUT_RDWR);
	gp_loop_set_events(&peer->daemon->loop, &peer->source, EPOLLIN);
}

/*
 * A client that does not read its answers is not asked for more: what it sends then waits with it,
 * not here. Others answer us, and must be heard.
 */
static uint32_t peer_events(const struct gp_peer *peer)
{
	if (!peer->n_queued)
		return EPOLLIN;
	return peer->role == GP_ROLE_CLI ? EPOLLOUT : EPOLLIN | EPOLLOUT;
}

/* The movers are ours: what they are slow to read is on nobody's account. */
static int peer_charge_queued(struct gp_peer *peer, struct peer_queued *q, size_t n_fds,
			      struct gp_err *err)
{
	struct gp_quota *quota = &peer->daemon->quota;
	int r;

	if (peer->role == GP_ROLE_MOVER)
		return 0;
	r = gp_quota_charge(quota, peer->uid, GP_QUOTA_MESSAGES, 1, &q->charges[0], err);
	if (r == 0)
		r = gp_quota_charge(quota, peer->uid, GP_QUOTA_MESSAGE_BYTES, sizeof(*q),
				    &q->charges[1], err);
	if (r == 0 && n_fds)
		r = gp_quota_charge(quota, peer->uid, GP_QUOTA_FDS, n_fds, &q->charges[2], err);
	return r;
}

static void peer_enqueue(struct gp_peer *peer, const struct gp_wire_msg *msg, const int *fds,
			 size_t n_fds)
{
	struct peer_queued *q;
	struct gp_err err;

	if (peer->n_queued >= GP_PEER_MAX_QUEUED) {
		peer_fail(peer, "does not read its messages");
		return;
	}
	q = malloc(sizeof(*q));
	if (!q) {
		peer_fail(peer, "out of memory");
		return;
	}
	gp_list_init(&q->node);
	q->n_fds = 0;
	memset(q->charges, 0, sizeof(q->charges));
	if (peer_charge_queued(peer, q, n_fds, &err) < 0) {
		peer_queued_free(q);
		peer_fail(peer, err.msg);
		return;
	}
	memcpy(&q->msg, msg, msg->header.size);
	for (q->n_fds = 0; q->n_fds < n_fds; q->n_fds++) {
		q->fds[q->n_fds] = fcntl(fds[q->n_fds], F_DUPFD_CLOEXEC, 3);
		if (q->fds[q->n_fds] < 0) {
			peer_queued_free(q);
			peer_fail(peer, "out of file descriptors");
			return;
		}
	}
	gp_list_add_tail(&peer->queue, &q->node);
	if (++peer->n_queued == 1)
		gp_loop_set_events(&peer->daemon->loop, &peer->source, peer_events(peer));
}

void gp_peer_send(struct gp_peer *peer, const struct gp_wire_msg *msg, const int *fds, size_t n_fds)
{
	struct gp_err err;
	int r;

	if (peer->closed || peer->failed)
		return;
	if (!gp_list_empty(&peer->queue)) {
		peer_enqueue(peer, msg, fds, n_fds);
		return;
	}
	r = gp_wire_send(peer->source.fd, msg, fds, n_fds, &err);
	if (r == -EAGAIN)
		peer_enqueue(peer, msg, fds, n_fds);
	else if (r < 0)
		peer_fail(peer, err.msg);
}

bool gp_peer_has_unread(const struct gp_peer *peer)
{
	int bytes = 0;

	/* unix(7): what was sent over this socket and is still in the other's queue. */
	return peer->n_queued || (ioctl(peer->source.fd, SIOCOUTQ, &bytes) == 0 && bytes > 0);
}

/*
 * What a shim says may be for its mover. A mover that is busy must not be taken for one that does
 * not read because of shims that say too much.
 */
static bool peer_must_wait(const struct gp_peer *peer)
{
	const struct gp_device *d = peer->role == GP_ROLE_SHIM ? peer->proc->job->device : NULL;

	return d && d->mover && d->mover->n_queued > PEER_MOVER_BUSY;
}

static void peer_resume_shims(struct gp_daemon *daemon)
{
	gp_list_for_each(peer, &daemon->peers, struct gp_peer, node) {
		if (!peer->paused)
			continue;
		peer->paused = false;
		gp_loop_set_events(&daemon->loop, &peer->source, peer_events(peer));
	}
}

static void peer_flush(struct gp_peer *peer)
{
	struct gp_err err;

	gp_list_for_each(q, &peer->queue, struct peer_queued, node) {
		int r = gp_wire_send(peer->source.fd, &q->msg, q->fds, q->n_fds, &err);

		if (r == -EAGAIN)
			return;
		if (r < 0) {
			peer_fail(peer, err.msg);
			return;
		}
		peer_queued_free(q);
		peer->n_queued--;
	}
	gp_loop_set_events(&peer->daemon->loop, &peer->source, peer_events(peer));
	if (peer->listing)
		gp_request_list_more(peer);
	if (peer->role == GP_ROLE_MOVER)
		peer_resume_shims(peer->daemon);
	gp_recall_more(peer);
}

void gp_peer_send_ok(struct gp_peer *peer, const struct gp_wire_msg *request)
{
	struct gp_wire_msg m;

	gp_wire_init_reply(&m, GP_WIRE_OK, request);
	gp_peer_send(peer, &m, NULL, 0);
}

void gp_peer_send_error(struct gp_peer *peer, const struct gp_wire_msg *request, int code,
			const char *fmt, ...)
{
	char text[GP_WIRE_TEXT_BYTES];
	struct gp_wire_msg m;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	gp_wire_init_reply(&m, GP_WIRE_ERROR, request);
	m.error.code = code < 0 ? code : -EIO;
	gp_wire_text(m.error.text, sizeof(m.error.text), text);
	gp_peer_send(peer, &m, NULL, 0);
}

static void peer_welcome(struct gp_peer *peer)
{
	struct gp_wire_msg m;

	gp_wire_init_reply(&m, GP_WIRE_WELCOME, &peer->hello);
	m.welcome.version = GP_WIRE_VERSION;
	peer->welcome_pending = false;
	gp_peer_send(peer, &m, NULL, 0);
}

void gp_peer_welcome_pending(struct gp_daemon *daemon)
{
	gp_list_for_each(peer, &daemon->peers, struct gp_peer, node) {
		if (peer->welcome_pending)
			peer_welcome(peer);
	}
}

static int peer_watch_process(struct gp_peer *peer, struct gp_err *err)
{
	int r = gp_access_open_process(peer, err);

	if (r < 0)
		return r;
	peer->pidfd = peer->process.fd = r;
	peer->process.dispatch = peer_process_ended;
	return gp_loop_add(&peer->daemon->loop, &peer->process, EPOLLIN, err);
}

/* What the role's owner says to a newcomer. */
static int peer_admit(struct gp_peer *peer, const struct gp_wire_msg *hello, struct gp_err *err)
{
	struct gp_job *job;
	int r;

	r = gp_access_check_role(peer, hello->hello.role, err);
	if (r == 0 &&
	    (hello->hello.role == GP_ROLE_SHIM || hello->hello.role == GP_ROLE_SUPERVISOR))
		r = peer_watch_process(peer, err);
	if (r < 0)
		return r;
	switch (hello->hello.role) {
	case GP_ROLE_CLI:
		return 0;
	case GP_ROLE_SHIM:
		return gp_proc_new(peer, hello, err);
	case GP_ROLE_SUPERVISOR:
		job = gp_job_find(peer->daemon, hello->header.job);
		if (!job || job->uid != peer->uid || job->supervisor ||
		    (job->supervisor_pid && job->supervisor_pid != peer->pid) ||
		    gp_job_state_is_final(job->state))
			return gp_err_set(err, -ENOENT, "no job waits for this supervisor");
		peer->job = job;
		gp_job_attach_supervisor(job, peer);
		return 0;
	case GP_ROLE_MOVER:
		return gp_device_attach(peer, hello, err);
	default:
		return gp_err_set(err, -EINVAL, "unknown role %u", hello->hello.role);
	}
}

static void peer_hello(struct gp_peer *peer, const struct gp_wire_msg *msg)
{
	struct gp_err err;
	int r;

	gp_list_del(&peer->stranger);
	if (msg->header.type != GP_WIRE_HELLO) {
		gp_peer_close(peer, "no hello");
		return;
	}
	if (msg->hello.version_min > GP_WIRE_VERSION ||
	    msg->hello.version_max < GP_WIRE_VERSION_MIN) {
		gp_peer_send_error(
			peer, msg, -EPROTO,
			"gpupresd %s speaks protocol %u to %u, %s speaks %u to %u: install "
			"the same release of both",
			GP_VERSION, GP_WIRE_VERSION_MIN, GP_WIRE_VERSION, msg->hello.program,
			msg->hello.version_min, msg->hello.version_max);
		gp_peer_close(peer, "version mismatch");
		return;
	}
	r = peer_admit(peer, msg, &err);
	if (r < 0) {
		gp_peer_send_error(peer, msg, r, "%s", err.msg);
		gp_peer_close(peer, err.msg);
		return;
	}
	peer->role = msg->hello.role;
	peer->hello = *msg;
	if (peer->role == GP_ROLE_CLI && !gp_device_all_ready(peer->daemon))
		peer->welcome_pending = true;
	else
		peer_welcome(peer);
	if (peer->role == GP_ROLE_SHIM)
		gp_preempt_proc_joined(peer->proc);
}

static void peer_handle(struct gp_peer *peer, const struct gp_wire_msg *msg, int *fds, size_t n_fds)
{
	switch (peer->role) {
	case 0:
		peer_hello(peer, msg);
		break;
	case GP_ROLE_CLI:
		gp_request_handle(peer, msg, fds, n_fds);
		break;
	case GP_ROLE_SHIM:
		gp_proc_handle(peer, msg);
		break;
	case GP_ROLE_SUPERVISOR:
		gp_job_handle_supervisor(peer, msg);
		break;
	case GP_ROLE_MOVER:
		gp_device_handle(peer, msg, fds, n_fds);
		break;
	default:
		break;
	}
}

/* One message, if there is one. */
static bool peer_read(struct gp_peer *peer)
{
	int fds[GP_WIRE_MAX_FDS];
	struct gp_wire_msg msg;
	struct gp_err err;
	size_t n_fds = 0;
	int r;

	r = gp_wire_recv(peer->source.fd, &msg, fds, GP_WIRE_MAX_FDS, &n_fds, 0, &err);
	if (r == -ETIMEDOUT)
		return false;
	if (r < 0) {
		gp_peer_close(peer, err.msg);
		return false;
	}
	peer_handle(peer, &msg, fds, n_fds);
	for (size_t i = 0; i < n_fds; i++)
		gp_close_fd(&fds[i]);
	return !peer->closed;
}

static void peer_dispatch(struct gp_source *source, uint32_t events)
{
	struct gp_peer *peer = gp_container_of(source, struct gp_peer, source);

	if ((events & EPOLLOUT) && !peer->failed)
		peer_flush(peer);
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	/* Of one that is gone there is only so much left, and nobody can be asked to wait. */
	if (!(events & (EPOLLHUP | EPOLLERR)) && peer_must_wait(peer)) {
		peer->paused = true;
		gp_loop_set_events(&peer->daemon->loop, source, peer->n_queued ? EPOLLOUT : 0);
		return;
	}
	peer_read(peer);
}

/* What the process said last is heard; what others say over its connection is not, for long. */
static void peer_process_ended(struct gp_source *source, uint32_t events)
{
	struct gp_peer *peer = gp_container_of(source, struct gp_peer, process);

	for (int i = 0; i < PEER_LAST_WORDS && peer_read(peer); i++)
		continue;
	gp_peer_close(peer, "its process has ended");
}

/* In order of age, so that the first is the next to be dropped. */
static void peer_drop_strangers(struct gp_timer *timer)
{
	struct gp_daemon *daemon = gp_container_of(timer, struct gp_daemon, stranger_timer);
	uint64_t now_ns = gp_now_ns();

	gp_list_for_each(peer, &daemon->strangers, struct gp_peer, stranger) {
		if (peer->came_ns + GP_PEER_HELLO_NS > now_ns) {
			gp_timer_arm(&daemon->loop, timer, peer->came_ns + GP_PEER_HELLO_NS);
			return;
		}
		gp_peer_close(peer, "no hello in time");
	}
}

void gp_peer_init_strangers(struct gp_daemon *daemon)
{
	gp_list_init(&daemon->strangers);
	gp_timer_init(&daemon->stranger_timer, peer_drop_strangers);
}

static void peer_is_stranger(struct gp_peer *peer)
{
	struct gp_daemon *daemon = peer->daemon;

	peer->came_ns = gp_now_ns();
	if (gp_list_empty(&daemon->strangers))
		gp_timer_arm(&daemon->loop, &daemon->stranger_timer,
			     peer->came_ns + GP_PEER_HELLO_NS);
	gp_list_add_tail(&daemon->strangers, &peer->stranger);
}

static bool peer_is_mover(const struct gp_peer *peer)
{
	gp_list_for_each(d, &peer->daemon->devices, struct gp_device, node) {
		if (d->mover_pid && d->mover_pid == peer->pid)
			return true;
	}
	return false;
}

/* Who has too many connections is told so in place of a welcome. */
static int peer_charge(struct gp_peer *peer, struct gp_err *err)
{
	struct gp_wire_msg m;
	int r;

	if (peer_is_mover(peer))
		return 0;
	r = gp_quota_charge(&peer->daemon->quota, peer->uid, GP_QUOTA_CONNECTIONS, 1, &peer->charge,
			    err);
	if (r == 0)
		return 0;
	gp_wire_init(&m, GP_WIRE_ERROR);
	m.error.code = r;
	gp_wire_text(m.error.text, sizeof(m.error.text), err->msg);
	/* It need not be read. */
	(void)!gp_wire_send(peer->source.fd, &m, NULL, 0, NULL);
	return r;
}

void gp_peer_new(struct gp_daemon *daemon, int fd, bool on_shim_socket)
{
	gp_auto_fd int owned = fd;
	struct gp_peer *peer;
	struct gp_err err;

	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return;
	peer->daemon = daemon;
	peer->on_shim_socket = on_shim_socket;
	peer->pidfd = -1;
	peer->source.fd = fd;
	peer->source.dispatch = peer_dispatch;
	gp_list_init(&peer->queue);
	gp_list_init(&peer->requests);
	gp_list_init(&peer->recalls);
	gp_list_init(&peer->node);
	gp_list_init(&peer->stranger);
	if (gp_access_identify(peer, &err) < 0 || peer_charge(peer, &err) < 0 ||
	    gp_loop_add(&daemon->loop, &peer->source, EPOLLIN, &err) < 0) {
		/* A user can cause as many of these as there is time for. */
		gp_log(GP_LOG_DEBUG, "peer", "uid=%u pid=%d error=\"%s\"", (unsigned int)peer->uid,
		       peer->pid, err.msg);
		gp_charge_drop(&peer->charge);
		free(peer);
		return;
	}
	gp_list_add_tail(&daemon->peers, &peer->node);
	peer_is_stranger(peer);
	gp_take_fd(&owned);
}

static void peer_unwatch(struct gp_peer *peer)
{
	gp_loop_remove(&peer->daemon->loop, &peer->source);
	gp_close_fd(&peer->source.fd);
	gp_charge_drop(&peer->charge);
	if (peer->pidfd >= 0)
		gp_loop_remove(&peer->daemon->loop, &peer->process);
	gp_close_fd(&peer->pidfd);
}

void gp_peer_close(struct gp_peer *peer, const char *why)
{
	if (peer->closed)
		return;
	peer->closed = true;
	gp_log(GP_LOG_DEBUG, "peer_closed", "role=%u pid=%d why=\"%s\"", peer->role, peer->pid,
	       why);
	peer_unwatch(peer);
	gp_list_del(&peer->node);
	gp_list_del(&peer->stranger);
	gp_list_add_tail(&peer->daemon->dead_peers, &peer->node);
	gp_job_forget_peer(peer);
	gp_recall_forget_peer(peer);
	gp_backup_forget_peer(peer);
	if (peer->role == GP_ROLE_SHIM && peer->proc)
		gp_proc_gone(peer->proc);
	else if (peer->role == GP_ROLE_SUPERVISOR && peer->job)
		gp_job_supervisor_closed(peer->job);
	else if (peer->role == GP_ROLE_MOVER && peer->device)
		gp_device_mover_gone(peer->device);
	if (peer->role == GP_ROLE_MOVER)
		peer_resume_shims(peer->daemon);
}

static void peer_free(struct gp_peer *peer)
{
	gp_list_for_each(q, &peer->queue, struct peer_queued, node) {
		peer_queued_free(q);
	}
	gp_list_del(&peer->node);
	gp_list_del(&peer->stranger);
	free(peer);
}

void gp_peer_drop(struct gp_peer *peer)
{
	peer_unwatch(peer);
	gp_job_forget_peer(peer);
	gp_recall_forget_peer(peer);
	gp_backup_forget_peer(peer);
	peer_free(peer);
}

void gp_peer_reap(struct gp_daemon *daemon)
{
	gp_list_for_each(peer, &daemon->dead_peers, struct gp_peer, node) {
		peer_free(peer);
	}
}
