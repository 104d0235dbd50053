/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/control/control.h"

#include "base/log.h"
#include "base/rm/abi.h"
#include "base/time.h"
#include "base/wire/wire.h"
#include "shim/control/serve.h"
#include "shim/memory/move.h"
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define CONTROL_REPORT_NS	 (5 * GP_NS_PER_MS)
#define CONTROL_THAW_GRACE_NS	 (10 * GP_NS_PER_SEC)
#define CONTROL_DIAL_NS		 (200 * GP_NS_PER_MS) /* a daemon that is started again */
#define CONTROL_DIAL_LATER_NS	 (1 * GP_NS_PER_SEC)  /* and one that was stopped */
#define CONTROL_WELCOME_NS	 (5 * GP_NS_PER_SEC)
#define CONTROL_THAW_RETRY_NS	 (1 * GP_NS_PER_SEC)
#define CONTROL_SEND_TIMEOUT_S	 5
#define CONTROL_STOP_TIMEOUT_S	 2
#define CONTROL_ALLOC_WAIT_S	 60
#define CONTROL_ALLOC_WAIT_MAX_S 86400
#define CONTROL_FD_FLOOR	 256 /* low numbers are the program's */

enum control_note {
	CONTROL_NOTE_CONTEXT = 1,
	CONTROL_NOTE_MEMORY = 2,
	CONTROL_NOTE_CHANNELS = 4,
	CONTROL_NOTE_NEED = 8,
	CONTROL_NOTE_STOP = 16,
};

void gp_control_init(struct gp_control *c)
{
	pthread_condattr_t attr;

	*c = (struct gp_control){ .sock = -1, .wake = -1, .device = -1 };
	gp_link_init(&c->to_mover);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->serving, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->answered, &attr);
	pthread_condattr_destroy(&attr);
	gp_list_init(&c->needs);
}

void gp_control_lock_all(struct gp_control *c)
{
	pthread_mutex_lock(&c->lock);
}

void gp_control_unlock_all(struct gp_control *c)
{
	pthread_mutex_unlock(&c->lock);
}

void gp_control_forget(struct gp_control *c)
{
	gp_link_close(&c->to_mover);
	gp_close_fd(&c->sock);
	gp_close_fd(&c->wake);
	gp_control_init(c);
}

/* ---- application threads ---- */

/* A note that is already there needs no second wakeup. */
static void control_note(struct gp_control *c, unsigned int note)
{
	uint64_t one = 1;

	if (!atomic_load_explicit(&c->running, memory_order_acquire) ||
	    (atomic_load_explicit(&c->notes, memory_order_relaxed) & note) ||
	    (atomic_fetch_or(&c->notes, note) & note))
		return;
	/* Only a counter at its maximum refuses, and then the thread wakes anyway. */
	if (write(c->wake, &one, sizeof(one)) < 0)
		return;
}

void gp_control_note_memory(struct gp_control *c)
{
	control_note(c, CONTROL_NOTE_MEMORY);
}

void gp_control_note_ioctl(struct gp_control *c, unsigned long request)
{
	if (request == GP_RM_IOC_ALLOC || request == GP_RM_IOC_FREE ||
	    request == GP_UVM_REGISTER_CHANNEL)
		control_note(c, CONTROL_NOTE_CHANNELS);
}

bool gp_control_attach(struct gp_control *c, CUcontext context, CUdevice device)
{
	CUcontext none = NULL;
	int expected = -1;

	if (atomic_load_explicit(&c->device, memory_order_relaxed) != device &&
	    !atomic_compare_exchange_strong(&c->device, &expected, device) && expected != device)
		return false;
	if (!atomic_load_explicit(&c->context, memory_order_relaxed) &&
	    atomic_compare_exchange_strong(&c->context, &none, context))
		control_note(c, CONTROL_NOTE_CONTEXT);
	return true;
}

void gp_control_context_ended(struct gp_control *c, CUcontext context)
{
	if (atomic_compare_exchange_strong(&c->context, &context, NULL))
		control_note(c, CONTROL_NOTE_CONTEXT);
}

static uint64_t control_alloc_wait_ns(void)
{
	const char *text = getenv("GPUPRES_ALLOC_WAIT");
	unsigned long seconds = CONTROL_ALLOC_WAIT_S;
	char *end;

	if (text && *text >= '0' && *text <= '9') {
		seconds = strtoul(text, &end, 10);
		if (*end || seconds > CONTROL_ALLOC_WAIT_MAX_S)
			seconds = CONTROL_ALLOC_WAIT_S;
	}
	return seconds * GP_NS_PER_SEC;
}

/* Lock held. Waits for the answer to @need, the loss of all hope for one, or the deadline. */
static void control_await(struct gp_control *c, const struct gp_need *need)
{
	struct timespec ts = { (time_t)(need->deadline_ns / GP_NS_PER_SEC),
			       (long)(need->deadline_ns % GP_NS_PER_SEC) };
	int r = 0, state;

	/* A thread that is cancelled in here would leave @need in the list, and the lock taken. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	while (!need->answered && c->hopeful && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&c->answered, &c->lock, &ts);
	pthread_setcancelstate(state, NULL);
}

bool gp_control_need(struct gp_control *c, struct gp_need *need)
{
	uint64_t began = gp_now_ns(), locked_ns;
	bool granted;

	/* Our own job may be the one that had to yield: what then passes is not waiting. */
	gp_gate_pass(&gp_shim.gate);
	locked_ns = gp_now_ns() - began;
	if (!need->deadline_ns)
		need->deadline_ns = began + control_alloc_wait_ns();
	need->deadline_ns += locked_ns;
	pthread_mutex_lock(&c->lock);
	need->sent = need->answered = need->granted = false;
	need->cookie = ++c->next_cookie;
	gp_list_add_tail(&c->needs, &need->link);
	pthread_mutex_unlock(&c->lock);
	control_note(c, CONTROL_NOTE_NEED);

	pthread_mutex_lock(&c->lock);
	control_await(c, need);
	gp_list_del(&need->link);
	granted = need->granted;
	pthread_mutex_unlock(&c->lock);
	if (granted)
		return true;
	if (need->answered || gp_now_ns() < need->deadline_ns)
		return false;
	/* Timed out. If that was spent locked, the job has its memory back now: ask afresh. */
	began = gp_now_ns();
	gp_gate_pass(&gp_shim.gate);
	need->deadline_ns = 0;
	return gp_now_ns() - began > CONTROL_REPORT_NS;
}

/* ---- control thread ---- */

bool gp_control_send(struct gp_control *c, struct gp_wire_msg *m)
{
	struct gp_err err;

	m->header.job = m->header.job ? m->header.job : c->job;
	m->header.epoch = m->header.epoch ? m->header.epoch : c->epoch;
	m->header.proc = m->header.proc ? m->header.proc : c->proc;
	return gp_wire_send(c->sock, m, NULL, 0, &err) == 0;
}

bool gp_control_send_channels(struct gp_control *c)
{
	struct gp_freeze *f = &gp_shim.freeze;
	struct gp_wire_msg m;
	size_t next = 0;

	if (!gp_freeze_is_stale(f, gp_shim.interpose.watch))
		return true;
	if (gp_freeze_load(f, gp_shim.interpose.watch) < 0)
		gp_log(GP_LOG_WARN, "not-preemptible", "error=\"no memory for the channel table\"");
	do {
		gp_wire_init(&m, GP_WIRE_CHANNELS);
		next = gp_freeze_describe(f, next, &m.channels);
		if (!gp_control_send(c, &m))
			return false;
	} while (next < f->n);
	return true;
}

static bool control_send_memory(struct gp_control *c)
{
	struct gp_extents_summary s;
	struct gp_wire_msg m;

	gp_extents_summary(&gp_shim.extents, &s);
	gp_wire_init(&m, GP_WIRE_MEMORY);
	m.memory.movable_bytes = s.bytes;
	m.memory.n_extents = s.n;
	m.memory.resident_bytes = gp_resident_bytes(&gp_shim.resident);
	if (!memcmp(&m.memory, &c->reported, sizeof(m.memory)))
		return true;
	c->reported = m.memory;
	return gp_control_send(c, &m);
}

static bool control_send_attach(struct gp_control *c)
{
	CUdevice device = atomic_load(&c->device);
	size_t total_bytes = 0;
	struct gp_wire_msg m;
	CUuuid uuid = { 0 };

	(void)GP_DRIVER(cuDeviceTotalMem_v2)(&total_bytes, device);
	(void)GP_DRIVER(cuDeviceGetUuid_v2)(&uuid, device);
	gp_wire_init(&m, GP_WIRE_ATTACH);
	m.attach.device = (uint32_t)device;
	m.attach.pid = (uint32_t)getpid();
	m.attach.total_bytes = total_bytes;
	memcpy(c->uuid, uuid.bytes, sizeof(c->uuid));
	memcpy(m.attach.uuid, c->uuid, sizeof(m.attach.uuid));
	pthread_mutex_lock(&c->lock);
	c->attach_cookie = m.header.cookie = ++c->next_cookie;
	pthread_mutex_unlock(&c->lock);
	return gp_control_send(c, &m);
}

static bool control_send_needs(struct gp_control *c)
{
	struct gp_wire_msg m;
	bool ok = true;

	pthread_mutex_lock(&c->lock);
	gp_list_for_each(need, &c->needs, struct gp_need, link) {
		if (need->sent || !ok)
			continue;
		gp_wire_init(&m, GP_WIRE_NEED);
		m.header.cookie = need->cookie;
		m.need.bytes = need->bytes;
		need->sent = true;
		ok = gp_control_send(c, &m);
	}
	pthread_mutex_unlock(&c->lock);
	return ok;
}

void gp_control_answer(struct gp_control *c, const struct gp_wire_msg *m)
{
	bool ok = m->header.type == GP_WIRE_OK, known = false;

	pthread_mutex_lock(&c->lock);
	gp_list_for_each(need, &c->needs, struct gp_need, link) {
		if (need->sent && need->cookie == m->header.cookie) {
			need->answered = known = true;
			need->granted = ok;
		}
	}
	pthread_cond_broadcast(&c->answered);
	pthread_mutex_unlock(&c->lock);
	if (!ok && !known && m->header.cookie == c->attach_cookie)
		gp_log(GP_LOG_WARN, "refused",
		       "error=\"%s\" effect=\"this program runs unmanaged\"", m->error.text);
}

static void control_set_hopeful(struct gp_control *c, bool hopeful)
{
	pthread_mutex_lock(&c->lock);
	c->hopeful = hopeful;
	pthread_cond_broadcast(&c->answered);
	pthread_mutex_unlock(&c->lock);
}

/* All its memory is there, and is its own: it may run on. */
static bool control_is_whole(void)
{
	struct gp_extents_summary s;

	gp_extents_summary(&gp_shim.extents, &s);
	return !s.n_released && !s.n_unfilled && !s.n_scratch;
}

static void control_lost(struct gp_control *c)
{
	uint64_t now_ns = gp_now_ns();

	gp_close_fd(&c->sock);
	if (!c->up) {
		c->step_ns = now_ns + (now_ns - c->lost_ns < CONTROL_THAW_GRACE_NS
					       ? CONTROL_DIAL_NS
					       : CONTROL_DIAL_LATER_NS);
		return;
	}
	c->up = false;
	c->lost_ns = now_ns;
	c->step_ns = now_ns + CONTROL_DIAL_NS;
	if (c->locked && !c->moving && control_is_whole())
		c->thaw_ns = now_ns + CONTROL_THAW_GRACE_NS;
	gp_log(c->locked ? GP_LOG_WARN : GP_LOG_INFO, "daemon-lost", "effect=\"%s\"",
	       !c->locked   ? "this program runs unmanaged until one is back"
	       : c->thaw_ns ? "this program is thawed if none is back within 10 s"
			    : "this program waits for one, which has its memory");
}

static enum gp_resync_state control_state(const struct gp_control *c,
					  const struct gp_extents_summary *s)
{
	if (s->n_scratch)
		return GP_RESYNC_SCRATCH;
	if (s->n_released)
		return GP_RESYNC_AWAY;
	if (s->n_unfilled)
		return GP_RESYNC_UNFILLED;
	return c->locked ? GP_RESYNC_LOCKED : GP_RESYNC_OPEN;
}

bool gp_control_send_resync(struct gp_control *c, const struct gp_wire_msg *request)
{
	struct pollfd link = { .fd = c->to_mover.fd };
	struct gp_extents_summary s;
	struct gp_wire_msg m;

	gp_extents_summary(&gp_shim.extents, &s);
	if (request)
		gp_wire_init_reply(&m, GP_WIRE_RESYNC, request);
	else
		gp_wire_init(&m, GP_WIRE_RESYNC);
	m.resync = (struct gp_wire_resync){
		.state = control_state(c, &s),
		.device = (uint32_t)(c->attach_cookie ? atomic_load(&c->device) : 0),
		.attached = c->attach_cookie != 0,
		.linked = link.fd >= 0 && poll(&link, 1, 0) >= 0 &&
			  !(link.revents & (POLLHUP | POLLERR)),
		.n_extents = s.n,
		.n_released = s.n_released,
		.n_unfilled = s.n_unfilled,
		.movable_bytes = s.bytes,
		.released_bytes = s.released_bytes,
		.resident_bytes = gp_resident_bytes(&gp_shim.resident),
	};
	memcpy(m.resync.uuid, c->uuid, sizeof(m.resync.uuid));
	return gp_control_send(c, &m);
}

static int control_keep_socket(struct gp_control *c, int sock)
{
	const struct timeval send_timeout = { .tv_sec = CONTROL_SEND_TIMEOUT_S };
	int high = fcntl(sock, F_DUPFD_CLOEXEC, CONTROL_FD_FLOOR);

	if (high >= 0)
		close(sock);
	c->sock = high >= 0 ? high : sock;
	(void)setsockopt(c->sock, SOL_SOCKET, SO_SNDTIMEO, &send_timeout, sizeof(send_timeout));
	return fcntl(c->sock, F_SETFL, 0);
}

/*
 * What it says stays true until the welcome: nothing is changed but by the daemon's orders, and the
 * thaw of our own waits for the outcome.
 */
static void control_dial(struct gp_control *c)
{
	struct gp_wire_msg hello;
	int sock;

	gp_wire_init_hello(&hello, GP_ROLE_SHIM, c->job, program_invocation_short_name);
	hello.header.proc = c->proc;
	hello.header.epoch = c->epoch;
	sock = gp_wire_dial(c->path, &hello, NULL);
	if (sock >= 0 && control_keep_socket(c, sock) == 0 && gp_control_send_resync(c, NULL)) {
		c->step_ns = gp_now_ns() + CONTROL_WELCOME_NS;
		return;
	}
	control_lost(c);
}

/* What waits for an answer, and what the last daemon may not have heard, is said again. */
static bool control_welcomed(struct gp_control *c)
{
	c->up = true;
	c->thaw_ns = 0;
	gp_log(GP_LOG_INFO, "daemon-back", "lost_ms=%llu",
	       (unsigned long long)((gp_now_ns() - c->lost_ns) / GP_NS_PER_MS));
	c->reported = (struct gp_wire_memory){ 0 };
	c->memory_pending = c->channels_pending = true;
	gp_shim.freeze.loaded = false;
	control_set_hopeful(c, true);
	pthread_mutex_lock(&c->lock);
	gp_list_for_each(need, &c->needs, struct gp_need, link) {
		need->sent = false;
	}
	pthread_mutex_unlock(&c->lock);
	/* Its first context may have come meanwhile. */
	if (!c->attach_cookie && atomic_load(&c->context) && !control_send_attach(c))
		return false;
	return control_send_needs(c);
}

/* A locked process goes on asking: it can do nothing else. */
static bool control_refused(struct gp_control *c, const struct gp_wire_msg *m)
{
	gp_log(GP_LOG_WARN, "refused", "error=\"%s\" effect=\"this program %s\"", m->error.text,
	       c->locked ? "stands still and asks again" : "runs unmanaged");
	if (!c->locked) {
		c->unmanaged = true;
		control_set_hopeful(c, false);
	}
	c->lost_ns = 0; /* asks at the slow pace */
	return false;
}

/* The daemon died while this process was frozen with all its memory. */
static void control_thaw(struct gp_control *c)
{
	struct gp_err err;

	if (gp_freeze_thaw(&gp_shim.freeze, gp_shim.interpose.watch, &err) < 0) {
		gp_log(GP_LOG_ERR, "thaw-failed", "error=\"%s\"", err.msg);
		c->thaw_ns = gp_now_ns() + CONTROL_THAW_RETRY_NS;
		return;
	}
	gp_log(GP_LOG_WARN, "thawed",
	       "cause=\"daemon lost\" effect=\"this program runs unmanaged until one is back\"");
	c->thaw_ns = 0;
	c->locked = false;
	gp_interpose_hold(false);
	gp_gate_open(&gp_shim.gate);
}

/* Takes over the notes, and acts on those that must not wait. */
static bool control_take_notes(struct gp_control *c)
{
	unsigned int notes = atomic_exchange(&c->notes, 0);

	if (notes & CONTROL_NOTE_MEMORY)
		c->memory_pending = true;
	if (notes & CONTROL_NOTE_CHANNELS)
		c->channels_pending = true;
	if (notes & CONTROL_NOTE_CONTEXT) {
		c->memory_pending = c->channels_pending = true;
		(void)GP_DRIVER(cuCtxSetCurrent)(atomic_load(&c->context));
		if (c->up && !c->attach_cookie && !control_send_attach(c))
			return false;
	}
	return !c->up || !(notes & CONTROL_NOTE_NEED) || control_send_needs(c);
}

static uint64_t control_report_due(const struct gp_control *c)
{
	return c->up && c->attach_cookie && (c->memory_pending || c->channels_pending)
		       ? c->memory_reported_ns + CONTROL_REPORT_NS
		       : 0;
}

/* What changed since the last report, once the process has a context. */
static bool control_report(struct gp_control *c)
{
	if (!control_report_due(c) || gp_now_ns() < control_report_due(c))
		return true;
	c->memory_reported_ns = gp_now_ns();
	c->memory_pending = c->channels_pending = false;
	c->export_pending = true;
	return gp_control_send_channels(c) && control_send_memory(c);
}

static bool control_receive(struct gp_control *c)
{
	struct gp_wire_msg m;
	struct gp_err err;
	size_t n_fds = 0;
	int fd = -1, r;

	r = gp_wire_recv(c->sock, &m, &fd, 1, &n_fds, 0, &err);
	if (r == -ETIMEDOUT)
		return true;
	if (r == -EBADMSG)
		gp_log(GP_LOG_WARN, "bad-message", "error=\"%s\"", err.msg);
	if (r < 0)
		return false;
	if (c->up)
		return gp_serve(c, &m, n_fds ? fd : -1);
	if (n_fds)
		close(fd);
	return m.header.type == GP_WIRE_WELCOME ? control_welcomed(c)
	       : m.header.type == GP_WIRE_ERROR ? control_refused(c, &m)
						: false;
}

static bool control_step_link(struct gp_control *c, bool readable)
{
	struct gp_wire_msg m;
	struct gp_err err;

	if (gp_link_step(&c->to_mover, &gp_shim.extents, readable, &err) == 0)
		return true;
	gp_wire_init_reply(&m, GP_WIRE_ERROR,
			   &(struct gp_wire_msg){ .header = c->to_mover.request });
	m.error.code = err.code;
	gp_wire_text(m.error.text, sizeof(m.error.text), err.msg);
	return !c->up || gp_control_send(c, &m);
}

static int control_timeout_ms(const struct gp_control *c)
{
	const uint64_t dues[] = { c->sock < 0 ? c->thaw_ns : 0,
				  c->up || c->unmanaged ? 0 : c->step_ns, control_report_due(c),
				  gp_link_deadline(&c->to_mover) };
	uint64_t now = gp_now_ns(), due = UINT64_MAX;

	if (c->export_pending && !c->locked)
		return 0;
	for (size_t i = 0; i < GP_ARRAY_SIZE(dues); i++) {
		if (dues[i] && dues[i] < due)
			due = dues[i];
	}
	if (due == UINT64_MAX)
		return -1;
	return due <= now ? 0 : (int)((due - now + GP_NS_PER_MS - 1) / GP_NS_PER_MS);
}

static void control_drain_wake(const struct gp_control *c)
{
	uint64_t count;

	/* EAGAIN: nobody wrote. */
	if (read(c->wake, &count, sizeof(count)) < 0)
		return;
}

/* What is due while no daemon has welcomed us. */
static void control_step_lost(struct gp_control *c)
{
	uint64_t now_ns = gp_now_ns();

	if (c->sock >= 0) {
		if (now_ns >= c->step_ns)
			control_lost(c);
		return;
	}
	if (c->thaw_ns && now_ns >= c->thaw_ns)
		control_thaw(c);
	if (c->hopeful && now_ns - c->lost_ns >= CONTROL_THAW_GRACE_NS)
		control_set_hopeful(c, false);
	if (!c->unmanaged && now_ns >= c->step_ns)
		control_dial(c);
}

/* One round of service; false: the connection is lost. */
static bool control_turn(struct gp_control *c, const struct pollfd *fds)
{
	uint64_t due;

	if (!control_take_notes(c))
		return false;
	if (fds[1].revents && !control_receive(c))
		return false;
	/* What was received may have replaced the link, or begun to send something else. */
	due = gp_link_deadline(&c->to_mover);
	if (fds[2].revents && fds[2].fd == c->to_mover.fd) {
		if (!control_step_link(c, true))
			return false;
	} else if (due && gp_now_ns() >= due && !control_step_link(c, false)) {
		return false;
	}
	if (!control_report(c))
		return false;
	if (c->export_pending && !c->locked)
		c->export_pending = gp_move_export_ahead(&gp_shim.extents);
	return true;
}

static void *control_main(void *arg)
{
	struct gp_control *c = arg;

	pthread_setname_np(pthread_self(), "gpupres");
	for (;;) {
		struct pollfd fds[] = { { .fd = c->wake, .events = POLLIN },
					{ .fd = c->sock, .events = POLLIN },
					{ .fd = c->to_mover.fd, .events = POLLIN } };
		bool done;

		if (poll(fds, GP_ARRAY_SIZE(fds), control_timeout_ms(c)) < 0)
			continue;
		/* Before the notes are taken: a note left after that wakes us again. */
		if (fds[0].revents)
			control_drain_wake(c);
		pthread_mutex_lock(&c->serving);
		if (!c->stopped && !control_turn(c, fds))
			control_lost(c);
		if (!c->stopped && !c->up)
			control_step_lost(c);
		done = c->stopped || (c->unmanaged && !c->locked);
		pthread_mutex_unlock(&c->serving);
		if (done)
			return NULL;
	}
}

/* Without the daemon a program runs as if we were not there; only what is odd is worth a line. */
static void control_report_absence(const struct gp_err *err)
{
	bool absent = err->code == -ENOENT || err->code == -ECONNREFUSED;

	gp_log(absent ? GP_LOG_DEBUG : GP_LOG_WARN, "unmanaged", "error=\"%s\"", err->msg);
}

static int control_socket_path(char *buf, size_t buf_bytes, struct gp_err *err)
{
	const char *path = getenv("GPUPRES_SOCKET");
	char dir[PATH_MAX];
	int r, n;

	if (path && *path) {
		n = snprintf(buf, buf_bytes, "%s", path);
	} else {
		r = gp_wire_runtime_dir(dir, sizeof(dir), err);
		if (r < 0)
			return r;
		n = snprintf(buf, buf_bytes, "%s/shim.sock", dir);
	}
	if (n < 0 || (size_t)n >= buf_bytes)
		return gp_err_set(err, -ENAMETOOLONG,
				  "the path of the daemon's socket is too long");
	return 0;
}

static int control_connect(struct gp_control *c, struct gp_err *err)
{
	const char *job = getenv("GPUPRES_JOB");
	int r;

	c->job = job ? strtoull(job, NULL, 10) : 0;
	r = control_socket_path(c->path, sizeof(c->path), err);
	if (r < 0)
		return r;
	r = gp_wire_connect(c->path, GP_ROLE_SHIM, c->job, 0, program_invocation_short_name, err);
	if (r < 0)
		return r;
	c->up = true;
	return control_keep_socket(c, r);
}

static int control_spawn(struct gp_control *c, struct gp_err *err)
{
	sigset_t all, before;
	int r;

	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->wake < 0)
		return gp_err_sys(err, -errno, "cannot make an eventfd");
	c->hopeful = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&c->thread, NULL, control_main, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r)
		return gp_err_sys(err, -r, "cannot start the control thread");
	(void)pthread_detach(c->thread);
	return 0;
}

int gp_control_start(struct gp_control *c)
{
	struct gp_err err;
	int r = control_connect(c, &err);

	if (r == 0)
		r = control_spawn(c, &err);
	if (r < 0) {
		control_report_absence(&err);
		gp_control_forget(c);
		return r;
	}
	atomic_store_explicit(&c->running, true, memory_order_release);
	if (!gp_shim.interpose.watch)
		gp_log(GP_LOG_WARN, "not-preemptible",
		       "error=\"the driver's ioctls cannot be watched\" "
		       "effect=\"this program runs, but cannot be frozen\"");
	return 0;
}

void gp_control_stop(struct gp_control *c)
{
	struct timespec deadline;
	bool locked;

	do {
		gp_gate_pass(&gp_shim.gate);
		clock_gettime(CLOCK_MONOTONIC, &deadline);
		deadline.tv_sec += CONTROL_STOP_TIMEOUT_S;
		if (pthread_mutex_clocklock(&c->serving, CLOCK_MONOTONIC, &deadline))
			return;
		locked = c->locked; /* again, in between */
		c->stopped = !locked;
		pthread_mutex_unlock(&c->serving);
	} while (locked);
	control_note(c, CONTROL_NOTE_STOP);
}
