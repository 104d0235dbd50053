/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/device.h"

#include "base/log.h"
#include "base/size.h"
#include "base/time.h"
#include "daemon/launch.h"
#include "daemon/preempt.h"
#include "daemon/schedule.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>

/* A mover that was ready once is started again, with pauses that double up to this. */
#define DEVICE_RESTART_FIRST_NS (250 * GP_NS_PER_MS)
#define DEVICE_RESTART_MAX	6
/* One that served so long was no failed start. */
#define DEVICE_STABLE_NS (60 * GP_NS_PER_SEC)
/* How long a mover may take to end when the daemon does. */
#define DEVICE_STOP_MS 10000

static void device_mover_ended(struct gp_source *source, uint32_t events);
static void device_restart_later(struct gp_device *d);

static int device_start_mover(struct gp_device *d, struct gp_err *err)
{
	int r = gp_launch_mover(d, &d->mover_pid, &d->mover_pidfd, err);

	if (r < 0)
		return r;
	d->mover_source.fd = d->mover_pidfd;
	d->mover_source.dispatch = device_mover_ended;
	return gp_loop_add(&d->daemon->loop, &d->mover_source, EPOLLIN, err);
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

static void device_restart_later(struct gp_device *d)
{
	if (!d->was_ready || d->n_restarts == DEVICE_RESTART_MAX) {
		/* It said why on stderr; a daemon without its device serves nobody. */
		d->daemon->exit_code = 1;
		d->daemon->loop.stop = true;
		return;
	}
	gp_timer_arm(&d->daemon->loop, &d->restart_timer,
		     gp_now_ns() + (DEVICE_RESTART_FIRST_NS << d->n_restarts));
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

int gp_device_new(struct gp_daemon *daemon, uint32_t ordinal, struct gp_err *err)
{
	struct gp_device *d = calloc(1, sizeof(*d));

	if (!d)
		return gp_err_set(err, -ENOMEM, "out of memory");
	d->daemon = daemon;
	d->ordinal = ordinal;
	d->mover_pidfd = -1;
	gp_list_init(&d->needs);
	gp_timer_init(&d->restart_timer, device_restart);
	gp_list_init(&d->node);
	gp_list_add_tail(&daemon->devices, &d->node);
	return device_start_mover(d, err);
}

void gp_device_free(struct gp_device *d)
{
	gp_list_for_each(need, &d->needs, struct gp_need, node) {
		free(need);
	}
	gp_timer_disarm(&d->restart_timer);
	if (d->mover_pidfd >= 0) {
		struct pollfd ended = { .fd = d->mover_pidfd, .events = POLLIN };

		gp_loop_remove(&d->daemon->loop, &d->mover_source);
		kill(d->mover_pid, SIGTERM);
		if (poll(&ended, 1, DEVICE_STOP_MS) <= 0)
			kill(d->mover_pid, SIGKILL);
		gp_launch_reap(d->mover_pid);
		gp_close_fd(&d->mover_pidfd);
	}
	gp_list_del(&d->node);
	free(d);
}

bool gp_device_all_ready(const struct gp_daemon *daemon)
{
	gp_list_for_each(d, &daemon->devices, struct gp_device, node) {
		if (!d->was_ready)
			return false;
	}
	return true;
}

int gp_device_attach(struct gp_peer *peer, const struct gp_wire_msg *hello, struct gp_err *err)
{
	gp_list_for_each(d, &peer->daemon->devices, struct gp_device, node) {
		if (d->ordinal == hello->hello.device && d->mover_pid == peer->pid && !d->mover) {
			d->mover = peer;
			peer->device = d;
			return 0;
		}
	}
	return gp_err_set(err, -EPERM, "not a mover that this daemon started");
}

static void device_set_ready(struct gp_device *d, const struct gp_wire_mover_ready *ready)
{
	char total[32], arena[32];

	d->ready = true;
	d->was_ready = true;
	d->ready_ns = gp_now_ns();
	d->meminfo.total_bytes = ready->total_bytes;
	d->meminfo.free_bytes = ready->free_bytes;
	d->meminfo.arena_bytes = ready->arena_bytes;
	d->meminfo.swap_bytes = ready->swap_bytes;
	d->meminfo_pending = d->meminfo_stale = d->meminfo_again = false;
	gp_wire_text(d->name, sizeof(d->name), ready->name);
	gp_log(GP_LOG_INFO, "device_ready",
	       "device=%u name=\"%s\" memory=\"%s\" arena=\"%s\" freeze=%s", d->ordinal, d->name,
	       gp_size_format(d->meminfo.total_bytes, total, sizeof(total)),
	       gp_size_format(ready->arena_bytes, arena, sizeof(arena)),
	       ready->can_freeze ? "yes" : "no");
	if (gp_device_all_ready(d->daemon))
		gp_peer_welcome_pending(d->daemon);
	gp_proc_link_all(d);
	gp_list_for_each(job, &d->daemon->jobs, struct gp_job, node) {
		if (job->device == d && !gp_job_state_is_final(job->state))
			gp_preempt_mover_back(job);
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

void gp_device_handle(struct gp_peer *peer, const struct gp_wire_msg *msg)
{
	struct gp_device *d = peer->device;
	struct gp_job *job;

	switch ((enum gp_wire_type)msg->header.type) {
	case GP_WIRE_MOVER_READY:
		device_set_ready(d, &msg->mover_ready);
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

void gp_device_forget_proc(struct gp_device *d, const struct gp_proc *proc)
{
	struct gp_wire_msg m;

	gp_list_for_each(need, &d->needs, struct gp_need, node) {
		if (need->proc == proc) {
			gp_list_del(&need->node);
			free(need);
		}
	}
	gp_wire_init(&m, GP_WIRE_UNLINK);
	m.header.job = proc->job->id;
	m.header.proc = proc->id;
	gp_device_send(d, &m, NULL, 0);
}
