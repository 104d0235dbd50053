/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/mover.h"

#include "base/log.h"
#include "base/size.h"
#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#define MOVER_ENABLE_ATTEMPTS 3
#define MOVER_OWN_CHANNELS    512 /* of this process; a CUDA process has 20 to 256 */

static struct gp_proc *mover_find(struct gp_mover *m, uint32_t id)
{
	gp_list_for_each(proc, &m->procs, struct gp_proc, list) {
		if (proc->id == id)
			return proc;
	}
	return NULL;
}

static struct gp_proc *mover_get(struct gp_mover *m, const struct gp_wire_header *header,
				 struct gp_err *err)
{
	struct gp_proc *proc = mover_find(m, header->proc);

	if (proc)
		return proc;
	proc = gp_proc_new(header->job, header->proc);
	if (!proc) {
		gp_err_sys(err, -ENOMEM, "process %u", header->proc);
		return NULL;
	}
	gp_list_add_tail(&m->procs, &proc->list);
	return proc;
}

/* For the others an ERROR would be taken for the end of the job's preemption: they are only logged,
 * unless the request asks for an answer by a cookie.
 */
static bool mover_wants_answer(const struct gp_wire_header *request)
{
	switch ((enum gp_wire_type)request->type) {
	case GP_WIRE_FREEZE:
	case GP_WIRE_THAW:
	case GP_WIRE_SAVE:
	case GP_WIRE_LOAD:
	case GP_WIRE_MEMINFO:
		return true;
	default:
		return request->cookie != 0;
	}
}

static void mover_reply_error(struct gp_mover *m, const struct gp_wire_msg *request,
			      const struct gp_err *err)
{
	struct gp_wire_msg reply;

	gp_log(GP_LOG_WARN, "refused", "what=%s job=%llu proc=%u reason=\"%s\"",
	       gp_wire_name(request->header.type), (unsigned long long)request->header.job,
	       request->header.proc, err->msg);
	if (!mover_wants_answer(&request->header))
		return;
	gp_wire_init_reply(&reply, GP_WIRE_ERROR, request);
	reply.error.code = err->code;
	gp_wire_text(reply.error.text, sizeof(reply.error.text), err->msg);
	gp_outbox_reply(&m->outbox, &reply);
}

/*
 * Takes over *@fd on success. The newest link is the one: a daemon that makes a new one has told
 * the shim, too, which lets go of the old.
 */
static int mover_link(struct gp_mover *m, const struct gp_wire_msg *request, int *fd,
		      struct gp_err *err)
{
	struct gp_proc *proc;
	int r;

	if (*fd < 0)
		return gp_err_set(err, -EBADMSG, "LINK without a descriptor");
	r = gp_link_prepare(*fd, err);
	if (r < 0)
		return r;
	proc = mover_get(m, &request->header, err);
	if (!proc)
		return -ENOMEM;
	r = gp_worker_link(&m->worker, proc, *fd, err);
	if (r < 0)
		return r;
	proc->link = gp_take_fd(fd);
	gp_proc_watch(proc, (pid_t)request->link.pid);
	return 0;
}

/* Room for a switch of all processes at once is made here, not when they are frozen. */
static int mover_channels(struct gp_mover *m, const struct gp_wire_msg *request, struct gp_err *err)
{
	struct gp_proc *proc = mover_get(m, &request->header, err);
	size_t total = 0;
	int r;

	if (!proc)
		return -ENOMEM;
	r = gp_channel_table_update(&proc->channels, &request->channels, err);
	if (r < 0)
		return r;
	gp_list_for_each(p, &m->procs, struct gp_proc, list)
		total += p->channels.current.n + p->channels.frozen.capacity;
	r = gp_channel_switch_reserve(&m->channel_switch, total);
	return r < 0 ? gp_err_sys(err, r, "list of %zu channels", total) : 0;
}

static int mover_switch(struct gp_mover *m, const struct gp_wire_msg *request, struct gp_err *err)
{
	bool freeze = request->header.type == GP_WIRE_FREEZE;
	struct gp_channel_table *tables[GP_WIRE_MAX_PROCS];
	const struct gp_wire_procs *list = &request->freeze;
	struct gp_wire_msg reply;
	size_t n = 0;
	int r;

	if (!m->can_freeze)
		return gp_err_set(err, -ENOTSUP, "the driver does not let this mover freeze");
	for (uint32_t i = 0; i < list->n; i++) {
		struct gp_proc *proc = mover_find(m, list->procs[i]);

		if (!proc && freeze)
			return gp_err_set(err, -ESRCH, "process %u is not known", list->procs[i]);
		/* Frozen by a mover before this one: thawing nothing would pass for a thaw. */
		if (proc && !freeze && !proc->channels.known)
			return gp_err_set(err, -EAGAIN, "process %u has not told its channels yet",
					  proc->id);
		if (proc)
			tables[n++] = &proc->channels;
	}
	r = freeze ? gp_channel_switch_freeze(&m->channel_switch, &m->subdevice, tables, n, err)
		   : gp_channel_switch_thaw(&m->channel_switch, &m->subdevice, tables, n, err);
	if (r < 0)
		return r;
	gp_wire_init_reply(&reply, freeze ? GP_WIRE_FROZEN : GP_WIRE_THAWED, request);
	reply.frozen.ns = m->channel_switch.ns;
	reply.frozen.n_channels = (uint32_t)m->channel_switch.all.n;
	gp_outbox_reply(&m->outbox, &reply);
	return 0;
}

static int mover_queue(struct gp_mover *m, const struct gp_wire_msg *request, struct gp_err *err)
{
	struct gp_proc *proc = mover_find(m, request->header.proc);

	if (!proc)
		return gp_err_set(err, -ESRCH, "process %u is not known", request->header.proc);
	if (proc->link < 0 && request->header.type != GP_WIRE_DROP)
		return gp_err_set(err, -ENOTCONN, "process %u has no link", request->header.proc);
	return gp_worker_queue(&m->worker, request, proc, err);
}

static int mover_forget(struct gp_mover *m, struct gp_proc *proc, const struct gp_wire_msg *request,
			struct gp_err *err)
{
	int r;

	gp_proc_hang_up(proc);
	/* Once queued it is the worker's, and may be gone already. */
	gp_list_del(&proc->list);
	r = gp_worker_queue(&m->worker, request, proc, err);
	if (r < 0)
		gp_list_add_tail(&m->procs, &proc->list);
	return r;
}

static int mover_unlink(struct gp_mover *m, const struct gp_wire_msg *request, struct gp_err *err)
{
	struct gp_proc *proc = mover_find(m, request->header.proc);

	if (!proc)
		return gp_err_set(err, -ESRCH, "process %u is not known", request->header.proc);
	return mover_forget(m, proc, request, err);
}

static int mover_meminfo(struct gp_mover *m, const struct gp_wire_msg *request, struct gp_err *err)
{
	size_t free_bytes = 0, total_bytes = 0;
	struct gp_wire_msg reply;
	int r;

	r = gp_driver_check(&m->driver, m->driver.cuMemGetInfo(&free_bytes, &total_bytes),
			    "cuMemGetInfo", err);
	if (r < 0)
		return r;
	gp_wire_init_reply(&reply, GP_WIRE_MEMINFO, request);
	reply.meminfo = (struct gp_wire_meminfo){
		.free_bytes = free_bytes,
		.total_bytes = total_bytes,
		.arena_bytes = m->depot.arena.bytes,
		.arena_used_bytes = gp_chunkmap_used(&m->depot.arena.map) * GP_CHUNK_BYTES,
		.swap_bytes = gp_swapfile_max_bytes(m->depot.swapfile),
		.swap_used_bytes = gp_swapfile_used_bytes(m->depot.swapfile),
	};
	gp_outbox_reply(&m->outbox, &reply);
	return 0;
}

static int mover_dispatch(struct gp_mover *m, const struct gp_wire_msg *request, int *fd,
			  struct gp_err *err)
{
	switch ((enum gp_wire_type)request->header.type) {
	case GP_WIRE_LINK:
		return mover_link(m, request, fd, err);
	case GP_WIRE_UNLINK:
		return mover_unlink(m, request, err);
	case GP_WIRE_CHANNELS:
		return mover_channels(m, request, err);
	case GP_WIRE_FREEZE:
	case GP_WIRE_THAW:
		return mover_switch(m, request, err);
	case GP_WIRE_SAVE:
	case GP_WIRE_LOAD:
	case GP_WIRE_DROP:
		return mover_queue(m, request, err);
	case GP_WIRE_MEMINFO:
		return mover_meminfo(m, request, err);
	default:
		return gp_err_set(err, -EOPNOTSUPP, "a mover does not take %s",
				  gp_wire_name(request->header.type));
	}
}

/* One request. */
static int mover_receive(struct gp_mover *m, struct gp_err *err)
{
	struct pollfd daemon = { .fd = m->uplink.sock };
	gp_auto_fd int fd = -1;
	struct gp_err why = { 0 };
	struct gp_wire_msg request;
	size_t n_fds = 0;
	int r;

	r = gp_wire_recv(m->uplink.sock, &request, &fd, 1, &n_fds, 0, err);
	if (r < 0)
		return r == -ETIMEDOUT ? 0 : r;
	/* Its process may have thawed itself meanwhile, and would stay frozen with nobody to know.
	 */
	if (request.header.type == GP_WIRE_FREEZE && poll(&daemon, 1, 0) != 0)
		return 0;
	if (mover_dispatch(m, &request, &fd, &why) < 0)
		mover_reply_error(m, &request, &why);
	return 0;
}

/* --- one daemon after the other --- */

static void mover_tell(struct gp_mover *m, struct gp_proc *proc)
{
	bool linked = gp_link_is_open(proc->link);
	struct gp_wire_msg msg;

	proc->told_session = m->outbox.session;
	if (!linked && gp_image_count(&proc->image) == 0)
		return;
	gp_wire_init(&msg, GP_WIRE_LEDGER);
	msg.header.job = proc->image.job;
	msg.header.proc = proc->id;
	msg.ledger.n_extents = (uint32_t)gp_image_count(&proc->image);
	msg.ledger.bytes = gp_image_bytes(&proc->image);
	msg.ledger.linked = linked;
	msg.ledger.known = proc->channels.known;
	gp_outbox_reply(&m->outbox, &msg);
}

static int mover_ready(struct gp_mover *m, struct gp_err *err)
{
	size_t free_bytes = 0, total_bytes = 0;
	struct gp_wire_msg msg;
	int r;

	r = gp_driver_check(&m->driver, m->driver.cuMemGetInfo(&free_bytes, &total_bytes),
			    "cuMemGetInfo", err);
	if (r < 0)
		return r;
	gp_wire_init(&msg, GP_WIRE_MOVER_READY);
	msg.mover_ready.total_bytes = total_bytes;
	msg.mover_ready.free_bytes = free_bytes;
	msg.mover_ready.arena_bytes = m->depot.arena.bytes;
	msg.mover_ready.swap_bytes = gp_swapfile_max_bytes(m->depot.swapfile);
	msg.mover_ready.can_freeze = m->can_freeze;
	memcpy(msg.mover_ready.uuid, m->driver.uuid.bytes, sizeof(msg.mover_ready.uuid));
	gp_wire_text(msg.mover_ready.name, sizeof(msg.mover_ready.name), m->driver.name);
	gp_outbox_reply(&m->outbox, &msg);
	return 0;
}

/*
 * Settling: once the worker has finished, tells the daemon of every process, as far as the outbox
 * has room, and then that it may ask for things.
 */
static int mover_settle(struct gp_mover *m, struct gp_err *err)
{
	int r;

	if (m->uplink.state != GP_UPLINK_SETTLING || !gp_worker_is_idle(&m->worker))
		return 0;
	gp_list_for_each(proc, &m->procs, struct gp_proc, list) {
		if (!gp_outbox_has_room(&m->outbox))
			return 0;
		if (proc->told_session != m->outbox.session)
			mover_tell(m, proc);
	}
	if (!gp_outbox_has_room(&m->outbox))
		return 0;
	r = mover_ready(m, err);
	if (r < 0)
		return r;
	atomic_store(&m->move.hurry, false);
	gp_uplink_serve(&m->uplink);
	return 0;
}

static void mover_lose(struct gp_mover *m, const struct gp_err *why)
{
	gp_log(GP_LOG_WARN, "daemon_lost", "reason=\"%s\"", why->msg);
	gp_uplink_lose(&m->uplink);
	gp_outbox_restart(&m->outbox);
	atomic_store(&m->move.hurry, true);
}

/* Nobody else will say that a process has ended. */
static void mover_forget_ended(struct gp_mover *m)
{
	struct gp_wire_msg request;
	struct gp_err err = { 0 };

	gp_wire_init(&request, GP_WIRE_UNLINK);
	gp_list_for_each(proc, &m->procs, struct gp_proc, list) {
		if (!gp_proc_has_ended(proc))
			continue;
		gp_log(GP_LOG_INFO, "process_ended", "job=%llu proc=%u saved_bytes=%llu",
		       (unsigned long long)proc->image.job, proc->id,
		       (unsigned long long)gp_image_bytes(&proc->image));
		request.header.job = proc->image.job;
		request.header.proc = proc->id;
		if (mover_forget(m, proc, &request, &err) == 0)
			continue;
		gp_log(GP_LOG_ERR, "process_ended", "proc=%u reason=\"%s\"", proc->id, err.msg);
		return; /* it is back at the end of the list */
	}
}

static bool mover_holds_bytes(struct gp_mover *m)
{
	if (!gp_worker_is_idle(&m->worker))
		return true; /* it may be about to */
	gp_list_for_each(proc, &m->procs, struct gp_proc, list) {
		if (gp_image_count(&proc->image))
			return true;
	}
	return false;
}

/* True: no daemon has come, and nobody else needs this mover. */
static bool mover_is_orphan(struct gp_mover *m)
{
	return m->uplink.lost_ns &&
	       gp_now_ns() - m->uplink.lost_ns >= m->options->orphan_grace_ns &&
	       !mover_holds_bytes(m);
}

static bool mover_is_stopped(const struct gp_mover *m)
{
	struct signalfd_siginfo info;

	return read(m->signals, &info, sizeof(info)) == (ssize_t)sizeof(info);
}

/* What the socket has to say, in whatever state. */
static void mover_hear(struct gp_mover *m, uint32_t events)
{
	struct gp_err err = { 0 };
	int r = 0;

	switch (m->uplink.state) {
	case GP_UPLINK_DOWN:
		return;
	case GP_UPLINK_GREETING:
		gp_uplink_greeted(&m->uplink);
		return;
	case GP_UPLINK_SETTLING:
		if (events & (EPOLLHUP | EPOLLERR))
			r = gp_err_set(&err, -ECONNRESET, "the daemon closed the connection");
		break;
	case GP_UPLINK_UP:
		if ((events & ~(uint32_t)EPOLLOUT) && gp_outbox_has_room(&m->outbox))
			r = mover_receive(m, &err);
		break;
	}
	if (r < 0)
		mover_lose(m, &err);
}

/* What needs doing before the next wait. 1: the mover has nothing left to do. */
static int mover_turn(struct gp_mover *m, struct gp_err *err)
{
	struct gp_err why = { 0 };
	int r;

	if (m->uplink.lost_ns)
		mover_forget_ended(m);
	gp_uplink_tick(&m->uplink);
	r = mover_settle(m, err);
	if (r < 0)
		return r;
	if (gp_uplink_is_open(&m->uplink)) {
		if (gp_uplink_flush(&m->uplink, &m->outbox, &why) < 0)
			mover_lose(m, &why);
	} else if (mover_is_orphan(m)) {
		gp_log(GP_LOG_INFO, "stop", "reason=\"no daemon has come\"");
		return 1;
	}
	return 0;
}

int gp_mover_run(struct gp_mover *m, struct gp_err *err)
{
	struct epoll_event events[3];
	int r;

	while ((r = mover_turn(m, err)) == 0) {
		int n = epoll_wait(m->epoll, events, GP_ARRAY_SIZE(events),
				   gp_uplink_timeout_ms(&m->uplink));

		if (n < 0 && errno != EINTR)
			return gp_err_sys(err, -errno, "epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd == m->signals && mover_is_stopped(m)) {
				gp_log(GP_LOG_INFO, "stop", "reason=signal");
				return 0;
			}
			if (fd == m->outbox.event_fd)
				gp_outbox_clear(&m->outbox);
			if (fd == m->uplink.sock)
				mover_hear(m, events[i].events);
		}
	}
	return r < 0 ? r : 0;
}

int gp_mover_try_freeze(struct gp_driver *driver, struct gp_rm_subdevice *ret_sub,
			struct gp_err *err)
{
	struct gp_rm_channel channels[MOVER_OWN_CHANNELS];
	uint64_t generation;
	bool complete;
	size_t n;
	int r;

	r = gp_rm_watch_subdevice(driver->watch, ret_sub, err);
	if (r < 0)
		return r;
	gp_rm_watch_channels(driver->watch, channels, MOVER_OWN_CHANNELS, &n, &generation,
			     &complete);
	/* A trial needs no complete table, only whole groups: channels come sorted by them. */
	if (n == 0 || n > MOVER_OWN_CHANNELS)
		return gp_err_set(err, -ENOTSUP, "%zu channels of this process were seen", n);
	r = gp_rm_set_disabled(ret_sub, channels, n, true, err);
	/* This process cannot work without its channels: one refusal is not taken for an answer. */
	for (int i = 0; i < MOVER_ENABLE_ATTEMPTS; i++) {
		if (gp_rm_set_disabled(ret_sub, channels, n, false, r < 0 ? NULL : err) == 0)
			return r;
	}
	return r < 0 ? r : -EIO;
}

/*
 * The lock says to a daemon, by F_GETLK, which process serves the device, whichever daemon started
 * it; and two movers would both take themselves for the owner of the arena. It goes with the
 * process. The file stays: another that removed it would not know whether somebody waits for it.
 */
static int mover_take_lock(struct gp_mover *m, struct gp_err *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	const char *path = m->options->lock;

	if (!path)
		return 0;
	m->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (m->lock < 0)
		return gp_err_sys(err, -errno, "cannot open the lock file %s", path);
	if (fcntl(m->lock, F_SETLK, &lock) == 0)
		return 0;
	if (errno != EAGAIN && errno != EACCES)
		return gp_err_sys(err, -errno, "cannot lock %s", path);
	if (fcntl(m->lock, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		lock.l_pid = 0;
	return gp_err_set(err, -EBUSY,
			  "another mover, process %d, serves device %u: it holds the lock on %s",
			  (int)lock.l_pid, m->options->device, path);
}

static int mover_init_signals(struct gp_mover *m, struct gp_err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* The daemon's log may end with it. */
	signal(SIGPIPE, SIG_IGN);
	/* A file size limit is to be an error of the write, not the end of the process. */
	signal(SIGXFSZ, SIG_IGN);
	m->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return m->signals < 0 ? gp_err_sys(err, -errno, "signalfd") : 0;
}

/* The slow part of the start follows: a wrong folder is said before it. */
static int mover_check_swap_dir(const struct gp_mover_options *o, struct gp_err *err)
{
	if (o->swap_max_bytes && access(o->swap_dir, W_OK | X_OK) < 0)
		return gp_err_sys(err, -errno,
				  "cannot write to the swap folder %s: create it, or give another "
				  "--swap-dir",
				  o->swap_dir);
	return 0;
}

static int mover_watch(struct gp_mover *m, int fd, struct gp_err *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(m->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return gp_err_sys(err, -errno, "epoll");
	return 0;
}

/*
 * Without a daemon there is no work, unless it ended just after it had entrusted this mover with
 * what another saved: then nobody else may have that any more.
 */
static int mover_connect(struct gp_mover *m, struct gp_err *err)
{
	const struct gp_mover_options *o = m->options;
	struct gp_err why = { 0 };
	int r = gp_uplink_init(&m->uplink, o->socket, o->device, m->epoll, &why);

	if (r < 0 && o->inherits) {
		mover_lose(m, &why);
		return 0;
	}
	if (r < 0 && err)
		*err = why;
	return r;
}

static int mover_init_loop(struct gp_mover *m, struct gp_err *err)
{
	int r;

	m->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (m->epoll < 0)
		return gp_err_sys(err, -errno, "epoll");
	r = gp_outbox_init(&m->outbox, err);
	if (r == 0)
		r = mover_watch(m, m->signals, err);
	if (r == 0)
		r = mover_watch(m, m->outbox.event_fd, err);
	if (r == 0)
		r = mover_connect(m, err);
	return r;
}

static int mover_init_device(struct gp_mover *m, gp_rm_ioctl_fn hook, struct gp_err *err)
{
	const struct gp_mover_options *o = m->options;
	const struct gp_driver_options driver = {
		.path = o->driver, .soft = o->soft, .device = o->device, .hook = hook
	};
	struct gp_err why = { 0 };
	int r;

	r = gp_driver_open(&m->driver, &driver, err);
	if (r < 0)
		return r;
	r = gp_mover_try_freeze(&m->driver, &m->subdevice, &why);
	m->can_freeze = r == 0;
	if (r < 0)
		gp_log(GP_LOG_WARN, "cannot_freeze", "reason=\"%s\"", why.msg);
	return 0;
}

static int mover_init_store(struct gp_mover *m, struct gp_err *err)
{
	const struct gp_mover_options *o = m->options;
	struct gp_depot_options depot = { .arena_bytes = o->arena_bytes,
					  .extra_bytes = gp_move_host_bytes(&m->driver),
					  .swap_dir = o->swap_dir,
					  .swap_max_bytes = o->swap_max_bytes,
					  .n_swap_buffers = GP_STAGING_BUFFERS,
					  .inherits = o->inherits };
	struct gp_store store;
	int r;

	memcpy(depot.inherited, o->inherited, sizeof(depot.inherited));
	r = gp_depot_open(&m->depot, &m->driver, &depot, err);
	/* It has its own by now; a refused one must not be kept in memory. */
	for (int i = 0; o->inherits && i < GP_DEPOT_FDS; i++)
		close(o->inherited[i]);
	if (r == 0)
		r = gp_depot_recover(&m->depot, &m->procs, err);
	if (r < 0)
		return r;
	gp_depot_fds(&m->depot, m->outbox.ready_fds);
	store = gp_depot_store(&m->depot);
	return gp_move_init(&m->move, &m->driver, &store, &m->outbox, m->depot.arena.extra, err);
}

int gp_mover_init(struct gp_mover *m, const struct gp_mover_options *options, gp_rm_ioctl_fn hook,
		  struct gp_err *err)
{
	int r;

	m->options = options;
	m->lock = m->signals = m->epoll = m->outbox.event_fd = m->uplink.sock = -1;
	gp_list_init(&m->procs);
	r = mover_take_lock(m, err);
	if (r == 0)
		r = mover_check_swap_dir(options, err);
	if (r == 0)
		r = mover_init_signals(m, err);
	if (r == 0)
		r = mover_init_loop(m, err);
	if (r == 0)
		r = mover_init_device(m, hook, err);
	if (r == 0)
		r = mover_init_store(m, err);
	if (r == 0)
		r = gp_worker_init(&m->worker, &m->move, err);
	return r;
}

void gp_mover_fini(struct gp_mover *m)
{
	gp_list_for_each(proc, &m->procs, struct gp_proc, list)
		gp_proc_hang_up(proc);
	gp_worker_fini(&m->worker);
	gp_list_for_each(proc, &m->procs, struct gp_proc, list) {
		gp_list_del(&proc->list);
		gp_proc_free(proc, NULL);
	}
	gp_move_fini(&m->move);
	gp_depot_close(&m->depot);
	gp_driver_close(&m->driver);
	gp_channel_switch_fini(&m->channel_switch);
	gp_uplink_fini(&m->uplink);
	gp_outbox_fini(&m->outbox);
	gp_close_fd(&m->epoll);
	gp_close_fd(&m->signals);
	gp_close_fd(&m->lock);
}
