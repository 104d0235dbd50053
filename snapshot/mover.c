/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/mover.h"

#include "base/log.h"
#include "base/size.h"
#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
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

/* Takes over *@fd on success. */
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
	if (proc->link >= 0)
		return gp_err_set(err, -EEXIST, "process %u is linked already", proc->id);
	proc->link = gp_take_fd(fd);
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

static int mover_unlink(struct gp_mover *m, const struct gp_wire_msg *request, struct gp_err *err)
{
	struct gp_proc *proc = mover_find(m, request->header.proc);
	int r;

	if (!proc)
		return gp_err_set(err, -ESRCH, "process %u is not known", request->header.proc);
	gp_proc_hang_up(proc);
	/* Once queued it is the worker's, and may be gone already. */
	gp_list_del(&proc->list);
	r = gp_worker_queue(&m->worker, request, proc, err);
	if (r < 0)
		gp_list_add_tail(&m->procs, &proc->list);
	return r;
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

/* One request. 1: the daemon closed the connection. */
static int mover_receive(struct gp_mover *m, struct gp_err *err)
{
	gp_auto_fd int fd = -1;
	struct gp_err why = { 0 };
	struct gp_wire_msg request;
	size_t n_fds = 0;
	int r;

	r = gp_wire_recv(m->sock, &request, &fd, 1, &n_fds, 0, err);
	if (r == -ECONNRESET)
		return 1;
	if (r < 0)
		return gp_err_prepend(err, "connection to the daemon");
	if (mover_dispatch(m, &request, &fd, &why) < 0)
		mover_reply_error(m, &request, &why);
	return 0;
}

static int mover_watch(struct gp_mover *m, int op, int fd, uint32_t events, struct gp_err *err)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	if (epoll_ctl(m->epoll, op, fd, &ev) < 0)
		return gp_err_sys(err, -errno, "epoll");
	return 0;
}

/* Sends what it can; then asks epoll for what the socket is waiting for. */
static int mover_flush(struct gp_mover *m, struct gp_err *err)
{
	bool left, reading;
	int r;

	r = gp_outbox_flush(&m->outbox, m->sock, &left, err);
	if (r < 0)
		return r;
	reading = gp_outbox_has_room(&m->outbox);
	if (left == m->sending && reading == m->reading)
		return 0;
	m->sending = left;
	m->reading = reading;
	return mover_watch(m, EPOLL_CTL_MOD, m->sock,
			   (reading ? EPOLLIN : 0u) | (left ? EPOLLOUT : 0u), err);
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
	gp_wire_text(msg.mover_ready.name, sizeof(msg.mover_ready.name), m->driver.name);
	gp_outbox_reply(&m->outbox, &msg);
	return 0;
}

int gp_mover_run(struct gp_mover *m, struct gp_err *err)
{
	struct epoll_event events[3];
	int r = mover_ready(m, err);

	while (r == 0) {
		int n;

		r = mover_flush(m, err);
		if (r < 0)
			break;
		n = epoll_wait(m->epoll, events, GP_ARRAY_SIZE(events), -1);
		if (n < 0 && errno != EINTR)
			return gp_err_sys(err, -errno, "epoll_wait");
		for (int i = 0; r == 0 && i < n; i++) {
			if (events[i].data.fd == m->signals) {
				gp_log(GP_LOG_INFO, "stop", "reason=signal");
				return 0;
			}
			/* The eventfd of the outbox only has to end the wait. */
			if (events[i].data.fd == m->sock && (events[i].events & ~EPOLLOUT) &&
			    m->reading)
				r = mover_receive(m, err);
		}
	}
	if (r == 1 || r == -EPIPE || r == -ECONNRESET) {
		gp_log(GP_LOG_INFO, "stop", "reason=\"the daemon closed the connection\"");
		return 0;
	}
	return r;
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

static int mover_init_signals(struct gp_mover *m, struct gp_err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
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

static int mover_init_loop(struct gp_mover *m, struct gp_err *err)
{
	int flags, r;

	m->sock = gp_wire_connect(m->options->socket, GP_ROLE_MOVER, 0, m->options->device,
				  "gpupres-mover", err);
	if (m->sock < 0)
		return m->sock;
	flags = fcntl(m->sock, F_GETFL);
	if (flags < 0 || fcntl(m->sock, F_SETFL, flags | O_NONBLOCK) < 0)
		return gp_err_sys(err, -errno, "cannot set the socket non-blocking");
	m->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (m->epoll < 0)
		return gp_err_sys(err, -errno, "epoll");
	r = gp_outbox_init(&m->outbox, err);
	if (r == 0)
		r = mover_watch(m, EPOLL_CTL_ADD, m->sock, EPOLLIN, err);
	if (r == 0)
		r = mover_watch(m, EPOLL_CTL_ADD, m->signals, EPOLLIN, err);
	if (r == 0)
		r = mover_watch(m, EPOLL_CTL_ADD, m->outbox.event_fd, EPOLLIN, err);
	m->reading = true;
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
	if (r == 0)
		r = gp_depot_recover(&m->depot, &m->procs, err);
	if (r < 0)
		return r;
	gp_depot_fds(&m->depot, m->outbox.ready_fds);
	store = gp_depot_store(&m->depot);
	return gp_move_init(&m->move, &m->driver, &store, &m->outbox, m->depot.arena.extra, err);
}

/* The daemon finds a mover by the holder of this lock; the fd stays open for life. */
static int mover_lock(const struct gp_mover_options *o, struct gp_err *err)
{
	const struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd;

	if (!o->lock)
		return 0;
	fd = open(o->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return gp_err_sys(err, -errno, "cannot open %s", o->lock);
	if (fcntl(fd, F_SETLK, &lock) < 0)
		return gp_err_sys(err, -errno, "%s is locked: another gpupres-mover runs", o->lock);
	return 0;
}

int gp_mover_init(struct gp_mover *m, const struct gp_mover_options *options, gp_rm_ioctl_fn hook,
		  struct gp_err *err)
{
	int r;

	m->options = options;
	m->sock = m->signals = m->epoll = m->outbox.event_fd = -1;
	gp_list_init(&m->procs);
	r = mover_lock(options, err);
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
	gp_outbox_fini(&m->outbox);
	gp_close_fd(&m->epoll);
	gp_close_fd(&m->signals);
	gp_close_fd(&m->sock);
}
