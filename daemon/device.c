/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/device.h"

#include "base/log.h"
#include "base/size.h"
#include "base/time.h"
#include "daemon/launch.h"
#include "daemon/preempt.h"
#include "daemon/recover.h"
#include "daemon/schedule.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

/* A mover that was ready once is started again, with pauses that double up to this. */
#define DEVICE_RESTART_FIRST_NS (250 * GP_NS_PER_MS)
#define DEVICE_RESTART_MAX	6
/* One that served so long was no failed start. */
#define DEVICE_STABLE_NS (60 * GP_NS_PER_SEC)
/* A mover that outlived an earlier daemon dials four times a second. */
#define DEVICE_SURVIVOR_NS (10 * GP_NS_PER_SEC)
/* It has first to finish the extent that it was saving: 100 GB of it at the 1 GB/s of a disk. */
#define DEVICE_SETTLE_NS (120 * GP_NS_PER_SEC)
/* How long a mover may take to end when the daemon does. */
#define DEVICE_STOP_MS 10000

static void device_mover_ended(struct gp_source *source, uint32_t events);
static void device_restart_later(struct gp_device *d);

static int device_watch_mover(struct gp_device *d, struct gp_err *err)
{
	d->mover_source.fd = d->mover_pidfd;
	d->mover_source.dispatch = device_mover_ended;
	return gp_loop_add(&d->daemon->loop, &d->mover_source, EPOLLIN, err);
}

static int device_start_mover(struct gp_device *d, struct gp_err *err)
{
	int r = gp_launch_mover(d, &d->mover_pid, &d->mover_pidfd, err);

	d->mover_fate = d->mover_state[0] >= 0 ? GP_RESYNC_MOVER_NEW : GP_RESYNC_MOVER_LOST;
	return r < 0 ? r : device_watch_mover(d, err);
}

/* It has our predecessor's state, but does not come: it must make room. */
static void device_survivor_late(struct gp_timer *timer)
{
	struct gp_device *d = gp_container_of(timer, struct gp_device, restart_timer);

	gp_log(GP_LOG_ERR, "mover", "device=%u pid=%d error=\"does not come back: replaced\"",
	       d->ordinal, d->mover_pid);
	pidfd_send_signal(d->mover_pidfd, SIGKILL, NULL, 0);
}

void gp_device_lock_path(const struct gp_device *d, char *buf, size_t buf_bytes)
{
	snprintf(buf, buf_bytes, "%s/mover-%u.lock", d->daemon->options.runtime_dir, d->ordinal);
}

/*
 * The mover of an earlier daemon, which has its lock: it dials again. Its pid is what the kernel
 * says of the lock's holder. False: there is none.
 */
static bool device_find_survivor(struct gp_device *d, struct gp_err *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_MAX + 32];
	gp_auto_fd int fd = -1;

	gp_device_lock_path(d, path, sizeof(path));
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK || lock.l_pid <= 0)
		return false;
	d->mover_pidfd = pidfd_open(lock.l_pid, 0);
	if (d->mover_pidfd < 0)
		return false;
	d->mover_pid = lock.l_pid;
	d->mover_fate = GP_RESYNC_MOVER_SAME;
	if (device_watch_mover(d, err) < 0) {
		gp_close_fd(&d->mover_pidfd);
		return false;
	}
	gp_log(GP_LOG_INFO, "mover_survived", "device=%u pid=%d", d->ordinal, d->mover_pid);
	gp_timer_init(&d->restart_timer, device_survivor_late);
	gp_timer_arm(&d->daemon->loop, &d->restart_timer, gp_now_ns() + DEVICE_SURVIVOR_NS);
	d->was_ready = true; /* once: so its successor is worth more than one try */
	return true;
}

static void device_restart(struct gp_timer *timer)
{
	struct gp_device *d = gp_container_of(timer, struct gp_device, restart_timer);
	struct gp_err err;

	if (device_start_mover(d, &err) == 0)
		return;
	gp_log(GP_LOG_ERR, "mover", "device=%u error=\"%s\"", d->ordinal, err.msg);
	device_restart_later(d);
}

/* Jobs have memory, or will have, on the card or where the mover saved it. */
static bool device_has_jobs(const struct gp_device *d)
{
	gp_list_for_each(job, &d->daemon->jobs, struct gp_job, node) {
		if (job->device == d && !gp_job_state_is_final(job->state))
			return true;
	}
	return false;
}

/* Its mover said why on stderr. */
static void device_give_up(struct gp_device *d)
{
	d->off = true;
	if (!gp_device_first(d->daemon)) {
		/* A daemon without a device serves nobody. */
		d->daemon->exit_code = 1;
		d->daemon->loop.stop = true;
		return;
	}
	gp_log(GP_LOG_ERR, "device_off", "device=%u effect=\"the other devices are served\"",
	       d->ordinal);
	if (gp_device_all_ready(d->daemon))
		gp_peer_welcome_pending(d->daemon);
	gp_proc_place_all(d->daemon);
	gp_schedule_want(d->daemon);
}

/*
 * One that has jobs, or is one of several, is tried for ever: with the daemon the last hold on what
 * is saved would go, and other devices are served meanwhile.
 */
static void device_restart_later(struct gp_device *d)
{
	bool alone = d->daemon->options.n_devices <= 1 && !device_has_jobs(d);

	if (!d->was_ready || (alone && d->n_restarts == DEVICE_RESTART_MAX)) {
		device_give_up(d);
		return;
	}
	gp_timer_disarm(&d->restart_timer);
	gp_timer_init(&d->restart_timer, device_restart);
	gp_timer_arm(&d->daemon->loop, &d->restart_timer,
		     gp_now_ns() + (DEVICE_RESTART_FIRST_NS << d->n_restarts));
	if (d->n_restarts < DEVICE_RESTART_MAX)
		d->n_restarts++;
}

static void device_mover_ended(struct gp_source *source, uint32_t events)
{
	struct gp_device *d = gp_container_of(source, struct gp_device, mover_source);
	int code = gp_launch_reap(d->mover_pid);

	gp_loop_remove(&d->daemon->loop, source);
	gp_close_fd(&d->mover_pidfd);
	d->mover_pid = 0;
	if (d->mover)
		gp_peer_close(d->mover, "the mover ended");
	if (d->daemon->loop.stop)
		return;
	gp_log(GP_LOG_ERR, "mover_ended", "device=%u code=%d", d->ordinal, code);
	if (d->ready_ns && gp_now_ns() - d->ready_ns > DEVICE_STABLE_NS)
		d->n_restarts = 0;
	d->ready_ns = 0;
	device_restart_later(d);
}

static struct gp_device *device_alloc(struct gp_daemon *daemon, uint32_t ordinal)
{
	struct gp_device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->daemon = daemon;
	d->ordinal = ordinal;
	d->mover_pidfd = -1;
	for (int i = 0; i < GP_MOVER_STATE_FDS; i++)
		d->mover_state[i] = -1;
	gp_list_init(&d->needs);
	gp_list_init(&d->ledgers);
	gp_timer_init(&d->restart_timer, device_restart);
	gp_list_init(&d->node);
	gp_list_add_tail(&daemon->devices, &d->node);
	return d;
}

int gp_device_new(struct gp_daemon *daemon, uint32_t ordinal, struct gp_err *err)
{
	struct gp_device *d = device_alloc(daemon, ordinal);

	if (!d)
		return gp_err_set(err, -ENOMEM, "out of memory");
	return device_find_survivor(d, err) ? 0 : device_start_mover(d, err);
}

static void device_forget_ledgers(struct gp_device *d)
{
	gp_list_for_each(ledger, &d->ledgers, struct gp_ledger, node) {
		gp_list_del(&ledger->node);
		free(ledger);
	}
}

struct gp_ledger *gp_device_ledger(const struct gp_device *d, uint32_t proc)
{
	gp_list_for_each(ledger, &d->ledgers, struct gp_ledger, node) {
		if (ledger->proc == proc)
			return ledger;
	}
	return NULL;
}

static struct gp_ledger *device_get_ledger(struct gp_device *d, const struct gp_wire_header *of)
{
	struct gp_ledger *ledger = gp_device_ledger(d, of->proc);

	if (ledger)
		return ledger;
	ledger = calloc(1, sizeof(*ledger));
	if (!ledger) {
		gp_log(GP_LOG_ERR, "ledger", "device=%u error=\"out of memory\"", d->ordinal);
		return NULL;
	}
	ledger->job = of->job;
	ledger->proc = of->proc;
	gp_list_init(&ledger->node);
	gp_list_add_tail(&d->ledgers, &ledger->node);
	return ledger;
}

static void device_set_ledger(struct gp_device *d, const struct gp_wire_msg *msg)
{
	struct gp_ledger *ledger = device_get_ledger(d, &msg->header);

	if (!ledger)
		return;
	ledger->n_extents = msg->ledger.n_extents;
	ledger->linked = msg->ledger.linked;
}

/* What it said when it came is kept up to date by what it says later. */
static void device_note_saved(struct gp_device *d, const struct gp_wire_msg *msg)
{
	struct gp_ledger *ledger = device_get_ledger(d, &msg->header);

	if (!ledger)
		return;
	ledger->n_extents += msg->saved.n;
	ledger->linked = true;
}

/*
 * Processes that only the mover remembers: one whose link is open may come back, the others are
 * over.
 */
static void device_match_ledgers(struct gp_device *d)
{
	gp_list_for_each(ledger, &d->ledgers, struct gp_ledger, node) {
		struct gp_job *job = gp_job_find(d->daemon, ledger->job);
		bool live = job && job->device == d && !gp_job_state_is_final(job->state);

		if (live && (gp_proc_find(job, ledger->proc) || gp_recover_find(job, ledger->proc)))
			continue;
		if (live && job->recovering && ledger->linked)
			gp_recover_expect(job, ledger->proc, 0);
		else
			gp_device_drop(d, ledger->job, ledger->proc, GP_WIRE_UNLINK);
	}
}

void gp_device_free(struct gp_device *d)
{
	gp_list_for_each(need, &d->needs, struct gp_need, node) {
		free(need);
	}
	device_forget_ledgers(d);
	gp_timer_disarm(&d->restart_timer);
	if (d->mover_pidfd >= 0)
		gp_loop_remove(&d->daemon->loop, &d->mover_source);
	/* Otherwise it outlives us: whoever comes next finds their memory where it is. */
	if (d->mover_pidfd >= 0 && !device_has_jobs(d)) {
		struct pollfd ended = { .fd = d->mover_pidfd, .events = POLLIN };

		kill(d->mover_pid, SIGTERM);
		if (poll(&ended, 1, DEVICE_STOP_MS) <= 0)
			kill(d->mover_pid, SIGKILL);
		gp_launch_reap(d->mover_pid);
	}
	gp_close_fd(&d->mover_pidfd);
	for (int i = 0; i < GP_MOVER_STATE_FDS; i++)
		gp_close_fd(&d->mover_state[i]);
	gp_list_del(&d->node);
	free(d);
}

bool gp_device_all_ready(const struct gp_daemon *daemon)
{
	gp_list_for_each(d, &daemon->devices, struct gp_device, node) {
		if (!d->was_ready && !d->off)
			return false;
	}
	return true;
}

bool gp_device_all_told(const struct gp_daemon *daemon)
{
	gp_list_for_each(d, &daemon->devices, struct gp_device, node) {
		if (!d->told && !d->off)
			return false;
	}
	return true;
}

struct gp_device *gp_device_first(const struct gp_daemon *daemon)
{
	gp_list_for_each(d, &daemon->devices, struct gp_device, node) {
		if (!d->off)
			return d;
	}
	return NULL;
}

struct gp_device *gp_device_find(const struct gp_daemon *daemon, int64_t ordinal)
{
	gp_list_for_each(d, &daemon->devices, struct gp_device, node) {
		if (d->ordinal == ordinal)
			return d;
	}
	return NULL;
}

struct gp_device *gp_device_get(struct gp_daemon *daemon, uint32_t ordinal)
{
	struct gp_device *d = gp_device_find(daemon, ordinal);

	if (d)
		return d;
	d = device_alloc(daemon, ordinal);
	if (d)
		d->off = true;
	return d;
}

struct gp_device *gp_device_used(const struct gp_daemon *daemon, const struct gp_wire_attach *used)
{
	static const uint8_t unknown[GP_WIRE_UUID_BYTES];
	bool by_uuid = memcmp(used->uuid, unknown, sizeof(unknown)) != 0;

	gp_list_for_each(d, &daemon->devices, struct gp_device, node) {
		if (d->told && (by_uuid ? !memcmp(d->uuid, used->uuid, sizeof(d->uuid))
					: d->ordinal == used->device))
			return d;
	}
	return NULL;
}

int gp_device_attach(struct gp_peer *peer, const struct gp_wire_msg *hello, struct gp_err *err)
{
	gp_list_for_each(d, &peer->daemon->devices, struct gp_device, node) {
		if (d->ordinal == hello->hello.device && d->mover_pid == peer->pid && !d->mover) {
			d->mover = peer;
			peer->device = d;
			device_forget_ledgers(d);
			if (d->mover_fate == GP_RESYNC_MOVER_SAME)
				gp_timer_arm(&d->daemon->loop, &d->restart_timer,
					     gp_now_ns() + DEVICE_SETTLE_NS);
			return 0;
		}
	}
	return gp_err_set(err, -EPERM, "not a mover that this daemon started");
}

static void device_set_ready(struct gp_device *d, const struct gp_wire_mover_ready *ready, int *fds,
			     size_t n_fds)
{
	char total[32], arena[32];

	for (size_t i = 0; n_fds == GP_MOVER_STATE_FDS && i < n_fds; i++) {
		gp_close_fd(&d->mover_state[i]);
		d->mover_state[i] = gp_take_fd(&fds[i]);
	}
	if (d->mover_fate == GP_RESYNC_MOVER_SAME)
		gp_timer_disarm(&d->restart_timer);

	d->ready = true;
	d->was_ready = d->told = true;
	d->ready_ns = gp_now_ns();
	d->meminfo.total_bytes = ready->total_bytes;
	d->meminfo.free_bytes = ready->free_bytes;
	d->meminfo.arena_bytes = ready->arena_bytes;
	d->meminfo.swap_bytes = ready->swap_bytes;
	d->meminfo_pending = d->meminfo_stale = d->meminfo_again = false;
	gp_wire_text(d->name, sizeof(d->name), ready->name);
	memcpy(d->uuid, ready->uuid, sizeof(d->uuid));
	gp_log(GP_LOG_INFO, "device_ready",
	       "device=%u name=\"%s\" memory=\"%s\" arena=\"%s\" freeze=%s", d->ordinal, d->name,
	       gp_size_format(d->meminfo.total_bytes, total, sizeof(total)),
	       gp_size_format(ready->arena_bytes, arena, sizeof(arena)),
	       ready->can_freeze ? "yes" : "no");
	if (gp_device_all_ready(d->daemon))
		gp_peer_welcome_pending(d->daemon);
	gp_proc_place_all(d->daemon);
	gp_proc_link_all(d);
	device_match_ledgers(d);
	gp_list_for_each(job, &d->daemon->jobs, struct gp_job, node) {
		if (job->device == d && !gp_job_state_is_final(job->state))
			gp_recover_mover_back(job);
	}
	gp_schedule_want(d->daemon);
}

/* At least every second reading is decided on, however often something changes. */
static void device_meminfo(struct gp_device *d, const struct gp_wire_meminfo *meminfo)
{
	bool again = d->meminfo_stale && !d->meminfo_again;

	d->meminfo = *meminfo;
	if (d->meminfo_stale)
		gp_schedule_want(d->daemon);
	d->meminfo_pending = d->meminfo_stale = false;
	d->meminfo_again = again;
	if (!again)
		gp_schedule_decide(d);
}

static void device_no_meminfo(struct gp_device *d, const struct gp_wire_error *error)
{
	gp_log(GP_LOG_ERR, "meminfo", "device=%u error=\"%s\"", d->ordinal, error->text);
	d->meminfo_pending = d->meminfo_stale = d->meminfo_again = false;
	gp_schedule_later(d->daemon);
}

void gp_device_handle(struct gp_peer *peer, const struct gp_wire_msg *msg, int *fds, size_t n_fds)
{
	struct gp_device *d = peer->device;
	struct gp_job *job;

	switch ((enum gp_wire_type)msg->header.type) {
	case GP_WIRE_MOVER_READY:
		device_set_ready(d, &msg->mover_ready, fds, n_fds);
		break;
	case GP_WIRE_LEDGER:
		device_set_ledger(d, msg);
		break;
	case GP_WIRE_MEMINFO:
		device_meminfo(d, &msg->meminfo);
		break;
	case GP_WIRE_FROZEN:
	case GP_WIRE_THAWED:
	case GP_WIRE_SAVED:
	case GP_WIRE_SAVE_DONE:
	case GP_WIRE_LOAD_DONE:
	case GP_WIRE_ERROR:
		if (msg->header.type == GP_WIRE_SAVED)
			device_note_saved(d, msg);
		job = gp_job_find(peer->daemon, msg->header.job);
		if (job)
			gp_preempt_handle_mover(job, msg);
		else if (!msg->header.job)
			device_no_meminfo(d, &msg->error);
		break;
	default:
		gp_peer_close(peer, "sent a message that a mover must not send");
		break;
	}
}

void gp_device_mover_gone(struct gp_device *d)
{
	d->mover->device = NULL;
	d->mover = NULL;
	d->ready = false;
	/* Without us it is of no use; one that hangs would keep its successor from being started.
	 */
	if (d->mover_pid)
		kill(d->mover_pid, SIGKILL);
	d->meminfo_pending = d->meminfo_stale = d->meminfo_again = false;
	gp_list_for_each(job, &d->daemon->jobs, struct gp_job, node) {
		if (job->device == d && !gp_job_state_is_final(job->state))
			gp_preempt_mover_gone(job);
	}
}

void gp_device_send(struct gp_device *d, const struct gp_wire_msg *msg, const int *fds,
		    size_t n_fds)
{
	if (d->mover)
		gp_peer_send(d->mover, msg, fds, n_fds);
}

void gp_device_drop(struct gp_device *d, uint64_t job, uint32_t proc, uint32_t type)
{
	struct gp_ledger *ledger = gp_device_ledger(d, proc);
	struct gp_wire_msg m;

	gp_wire_init(&m, type);
	m.header.job = job;
	m.header.proc = proc;
	gp_device_send(d, &m, NULL, 0);
	if (!ledger)
		return;
	ledger->n_extents = 0;
	if (type == GP_WIRE_UNLINK) {
		gp_list_del(&ledger->node);
		free(ledger);
	}
}

void gp_device_forget_needs(struct gp_device *d, const struct gp_proc *proc)
{
	gp_list_for_each(need, &d->needs, struct gp_need, node) {
		if (need->proc == proc) {
			gp_list_del(&need->node);
			free(need);
		}
	}
}
