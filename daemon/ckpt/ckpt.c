/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ckpt/ckpt.h"

#include "base/list.h"
#include "base/log.h"
#include "base/time.h"
#include "base/wire/wire.h"
#include "daemon/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

struct ckpt {
	struct gp_loop loop;
	struct gp_source listener;
	struct gp_timer idle;
	struct gp_list peers;
	unsigned int n_peers;
	uid_t uid;
	uint64_t idle_ns;
	int error; /* negative errno of an accept that failed */
};

struct ckpt_peer {
	struct gp_list node;
	struct gp_source source;
	struct gp_timer silence;
	struct ckpt *ckpt;
	bool greeted;
};

static void ckpt_close(struct ckpt_peer *peer)
{
	struct ckpt *ckpt = peer->ckpt;

	gp_loop_remove(&ckpt->loop, &peer->source);
	gp_timer_disarm(&peer->silence);
	gp_list_del(&peer->node);
	close(peer->source.fd);
	free(peer);
	if (ckpt->n_peers-- == GP_CKPT_MAX_PEERS)
		gp_loop_set_events(&ckpt->loop, &ckpt->listener, EPOLLIN);
	if (ckpt->n_peers == 0)
		gp_timer_arm(&ckpt->loop, &ckpt->idle, gp_now_ns() + ckpt->idle_ns);
}

static void ckpt_refuse(struct gp_wire_msg *reply, const struct gp_wire_msg *request, int code,
			const char *text)
{
	gp_wire_init_reply(reply, GP_WIRE_ERROR, request);
	reply->error.code = code;
	gp_wire_text(reply->error.text, sizeof(reply->error.text), text);
}

/* What is answered to @msg; false: and that was all. */
static bool ckpt_answer(struct ckpt_peer *peer, const struct gp_wire_msg *msg,
			struct gp_wire_msg *reply)
{
	if (peer->greeted) {
		ckpt_refuse(reply, msg, -EOPNOTSUPP,
			    "checkpointing to disk is not available in this version");
		return true;
	}
	if (msg->header.type != GP_WIRE_HELLO) {
		ckpt_refuse(reply, msg, -EPROTO, "the first message must be HELLO");
		return false;
	}
	if (msg->hello.version_min > GP_WIRE_VERSION ||
	    msg->hello.version_max < GP_WIRE_VERSION_MIN) {
		ckpt_refuse(reply, msg, -EPROTO,
			    "gpupres-ckpt " GP_VERSION " speaks another protocol: install the same "
			    "release of all programs");
		return false;
	}
	peer->greeted = true;
	gp_wire_init_reply(reply, GP_WIRE_WELCOME, msg);
	reply->welcome.version = GP_WIRE_VERSION;
	return true;
}

static void ckpt_receive(struct gp_source *source, uint32_t events)
{
	struct ckpt_peer *peer = gp_container_of(source, struct ckpt_peer, source);
	struct gp_wire_msg msg, reply;
	struct gp_err err;
	bool go_on;
	int r;

	/* Attached fds are closed: no request has any. */
	r = gp_wire_recv(source->fd, &msg, NULL, 0, NULL, 0, &err);
	if (r == -ETIMEDOUT)
		return;
	if (r < 0) {
		ckpt_close(peer);
		return;
	}
	go_on = ckpt_answer(peer, &msg, &reply);
	/* A socket that is full is one of somebody who does not read. */
	if (gp_wire_send(source->fd, &reply, NULL, 0, &err) < 0 || !go_on) {
		ckpt_close(peer);
		return;
	}
	gp_timer_arm(&peer->ckpt->loop, &peer->silence, gp_now_ns() + peer->ckpt->idle_ns);
}

static void ckpt_silent(struct gp_timer *timer)
{
	ckpt_close(gp_container_of(timer, struct ckpt_peer, silence));
}

static bool ckpt_may_ask(const struct ckpt *ckpt, int fd)
{
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t bytes = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) < 0)
		return false;
	if (cred.uid == 0 || cred.uid == ckpt->uid)
		return true;
	gp_log(GP_LOG_WARN, "turned_away", "uid=%u pid=%d", (unsigned int)cred.uid, cred.pid);
	return false;
}

static void ckpt_accept(struct gp_source *source, uint32_t events)
{
	struct ckpt *ckpt = gp_container_of(source, struct ckpt, listener);
	gp_auto_fd int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ckpt_peer *peer;
	struct gp_err err;

	if (fd < 0) {
		if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
			return;
		ckpt->error = -errno;
		ckpt->loop.stop = true;
		return;
	}
	if (!ckpt_may_ask(ckpt, fd))
		return;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return;
	peer->ckpt = ckpt;
	peer->source.fd = fd;
	peer->source.dispatch = ckpt_receive;
	if (gp_loop_add(&ckpt->loop, &peer->source, EPOLLIN, &err) < 0) {
		gp_log(GP_LOG_WARN, "peer", "error=\"%s\"", err.msg);
		free(peer);
		return;
	}
	gp_take_fd(&fd);
	gp_timer_init(&peer->silence, ckpt_silent);
	gp_timer_arm(&ckpt->loop, &peer->silence, gp_now_ns() + ckpt->idle_ns);
	gp_timer_disarm(&ckpt->idle);
	gp_list_init(&peer->node);
	gp_list_add_tail(&ckpt->peers, &peer->node);
	if (++ckpt->n_peers == GP_CKPT_MAX_PEERS)
		gp_loop_set_events(&ckpt->loop, &ckpt->listener, 0);
}

static void ckpt_idle(struct gp_timer *timer)
{
	gp_container_of(timer, struct ckpt, idle)->loop.stop = true;
}

int gp_ckpt_serve(int fd, uid_t uid, uint64_t idle_ns, struct gp_err *err)
{
	struct ckpt ckpt = { .listener = { .fd = fd, .dispatch = ckpt_accept },
			     .uid = uid,
			     .idle_ns = idle_ns };
	int r;

	gp_list_init(&ckpt.peers);
	r = gp_loop_init(&ckpt.loop, err);
	if (r < 0)
		return r;
	gp_timer_init(&ckpt.idle, ckpt_idle);
	gp_timer_arm(&ckpt.loop, &ckpt.idle, gp_now_ns() + idle_ns);
	r = gp_loop_add(&ckpt.loop, &ckpt.listener, EPOLLIN, err);
	if (r == 0)
		r = gp_loop_run(&ckpt.loop, err);
	gp_list_for_each(peer, &ckpt.peers, struct ckpt_peer, node) {
		ckpt_close(peer);
	}
	gp_loop_fini(&ckpt.loop);
	if (r == 0 && ckpt.error)
		r = gp_err_sys(err, ckpt.error, "cannot accept");
	return r;
}
