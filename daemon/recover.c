/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/recover.h"

#include "base/log.h"
#include "base/time.h"
#include "daemon/device.h"
#include "daemon/preempt.h"
#include "daemon/request.h"
#include "daemon/resync.h"
#include "daemon/schedule.h"
#include "daemon/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

static void recover_late(struct gp_timer *timer)
{
	struct gp_job *job = gp_container_of(timer, struct gp_job, recover_timer);

	job->recover_late = true;
	gp_recover_advance(job);
}

void gp_recover_begin(struct gp_job *job, bool same_boot)
{
	job->same_boot = same_boot;
	job->recovering = true;
	job->recover_late = false;
	gp_timer_disarm(&job->recover_timer);
	gp_timer_init(&job->recover_timer, recover_late);
	gp_timer_arm(&job->daemon->loop, &job->recover_timer,
		     gp_now_ns() + job->daemon->options.orphan_grace_ns);
}

/* ---- processes that are not back ---- */

void gp_lost_free(struct gp_lost *lost)
{
	if (lost->source.fd >= 0)
		gp_loop_remove(&lost->job->daemon->loop, &lost->source);
	gp_close_fd(&lost->source.fd);
	gp_list_del(&lost->node);
	free(lost);
}

/* It is over, and with it what the mover has of it. */
static void lost_forget(struct gp_lost *lost)
{
	struct gp_job *job = lost->job;

	gp_device_drop(job->device, job->id, lost->proc, GP_WIRE_UNLINK);
	gp_store_delete_proc(job->daemon->store, lost->proc);
	gp_lost_free(lost);
}

void gp_recover_end(struct gp_job *job)
{
	job->recovering = false;
	gp_timer_disarm(&job->recover_timer);
	gp_list_for_each(lost, &job->lost, struct gp_lost, node) {
		lost_forget(lost);
	}
}

static void lost_ended(struct gp_source *source, uint32_t events)
{
	struct gp_lost *lost = gp_container_of(source, struct gp_lost, source);

	gp_loop_remove(&lost->job->daemon->loop, source);
	gp_close_fd(&source->fd);
	lost->ended = true;
	if (lost->job->recovering) {
		gp_recover_advance(lost->job);
	} else {
		struct gp_job *job = lost->job;

		lost_forget(lost);
		gp_job_check_procs(job);
	}
}

struct gp_lost *gp_recover_find(const struct gp_job *job, uint32_t proc)
{
	gp_list_for_each(lost, &job->lost, struct gp_lost, node) {
		if (lost->proc == proc)
			return lost;
	}
	return NULL;
}

void gp_recover_expect(struct gp_job *job, uint32_t proc, pid_t pid)
{
	struct gp_lost *lost = calloc(1, sizeof(*lost));
	struct gp_err err;

	if (!lost) {
		gp_log(GP_LOG_ERR, "recover", "job=%" PRIu64 " proc=%u error=\"out of memory\"",
		       job->id, proc);
		return;
	}
	lost->job = job;
	lost->proc = proc;
	lost->pid = pid;
	lost->source = (struct gp_source){ .fd = -1, .dispatch = lost_ended };
	gp_list_init(&lost->node);
	gp_list_add_tail(&job->lost, &lost->node);
	if (pid > 0) {
		lost->source.fd = pidfd_open(pid, 0);
		/* Any other failure leaves it to the grace. */
		lost->ended = lost->source.fd < 0 && errno == ESRCH;
	}
	if (lost->source.fd >= 0 &&
	    gp_loop_add(&job->daemon->loop, &lost->source, EPOLLIN, &err) < 0)
		gp_close_fd(&lost->source.fd);
	if (gp_job_state_is_final(job->state) || (lost->ended && !job->recovering))
		lost_forget(lost);
}

static bool lost_is_over(const struct gp_lost *lost)
{
	const struct gp_device *d = lost->job->device;
	const struct gp_ledger *ledger = gp_device_ledger(d, lost->proc);

	/* The mover that has known it all the time sees its end, too. */
	return lost->ended || (d->mover_fate == GP_RESYNC_MOVER_SAME && ledger && !ledger->linked);
}

/* ---- what is known becomes a decision ---- */

static bool recover_waits(const struct gp_job *job)
{
	if (!job->same_boot)
		return false;
	if (!job->device->ready)
		return true;
	if (job->recover_late)
		return false;
	if (!job->adopted && !job->supervisor)
		return true;
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->asked)
			return true;
	}
	gp_list_for_each(lost, &job->lost, struct gp_lost, node) {
		if (!lost_is_over(lost))
			return true;
	}
	return false;
}

static uint32_t recover_saved(const struct gp_device *d, uint32_t proc)
{
	const struct gp_ledger *ledger = gp_device_ledger(d, proc);

	return ledger ? ledger->n_extents : 0;
}

/* Connected ones first, then the lost ones; in the order of their lists. */
static size_t recover_describe(const struct gp_job *job, struct gp_resync_proc *out)
{
	size_t n = 0;

	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (out)
			out[n] = (struct gp_resync_proc){
				.presence = !proc->resynced ? GP_RESYNC_NEW
					    : proc->asked   ? GP_RESYNC_LATE
							    : GP_RESYNC_BACK,
				.state = proc->resync.state,
				.n_released = proc->resync.n_released,
				.n_unfilled = proc->resync.n_unfilled,
				.n_saved = recover_saved(job->device, proc->id),
			};
		n++;
	}
	gp_list_for_each(lost, &job->lost, struct gp_lost, node) {
		if (out)
			out[n] = (struct gp_resync_proc){
				.presence = lost_is_over(lost) ? GP_RESYNC_GONE : GP_RESYNC_LATE,
				.n_saved = recover_saved(job->device, lost->proc),
			};
		n++;
	}
	return n;
}

static void recover_apply_proc(struct gp_proc *proc, uint32_t flags)
{
	const struct gp_wire_resync *r = &proc->resync;

	if (!proc->resynced)
		return;
	proc->locked = flags & GP_RESYNC_IS_LOCKED;
	proc->frozen = flags & GP_RESYNC_MAY_BE_FROZEN;
	proc->away = flags & GP_RESYNC_IS_AWAY;
	proc->step = proc->locked ? GP_STEP_LOCKED : GP_STEP_IDLE;
	proc->released_bytes = r->released_bytes;
	if (flags & GP_RESYNC_DO_DROP)
		gp_device_drop(proc->job->device, proc->job->id, proc->id, GP_WIRE_DROP);
}

/* Who is late may come yet, unless the job is over. */
static void recover_apply_lost(struct gp_job *job, bool over)
{
	gp_list_for_each(lost, &job->lost, struct gp_lost, node) {
		if (over || lost_is_over(lost))
			lost_forget(lost);
	}
}

/* Copies that a mover died before it dropped them. */
static void recover_drop_stale(const struct gp_job *job)
{
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (recover_saved(job->device, proc->id))
			gp_device_drop(job->device, job->id, proc->id, GP_WIRE_DROP);
	}
}

static void recover_lost(struct gp_job *job, const char *cause)
{
	gp_wire_text(job->fail_cause, sizeof(job->fail_cause), cause);
	gp_preempt_cancel(job);
}

static void recover_act(struct gp_job *job, const struct gp_resync_verdict *v)
{
	struct gp_err err;
	int r = 0;

	switch (v->outcome) {
	case GP_RESYNC_KEEP:
	case GP_RESYNC_WAIT:
	case GP_RESYNC_EXPEL:
	case GP_RESYNC_RUN:
	case GP_RESYNC_STAY_SWAPPED:
	case GP_RESYNC_OUTCOME_MAX_:
		break;
	case GP_RESYNC_THAW:
	case GP_RESYNC_BRING_BACK:
		r = gp_preempt_resume(job, v->cause, &err);
		break;
	case GP_RESYNC_STAY_FROZEN:
		gp_preempt_freeze_again(job);
		break;
	case GP_RESYNC_ORPHANED:
		job->orphaned = true;
		recover_lost(job, v->cause);
		break;
	case GP_RESYNC_LOST:
		recover_lost(job, v->cause);
		break;
	case GP_RESYNC_CANCEL:
		gp_preempt_cancel(job);
		break;
	case GP_RESYNC_ENDED:
	case GP_RESYNC_REBOOTED:
		gp_job_end_unseen(job, v->state, v->cause);
		break;
	}
	if (r < 0)
		gp_log(GP_LOG_ERR, "recover", "job=%" PRIu64 " error=\"%s\"", job->id, err.msg);
}

static void recover_apply(struct gp_job *job, const struct gp_resync_verdict *v,
			  const uint32_t *flags)
{
	size_t i = 0;

	gp_log(GP_LOG_INFO, "recover", "job=%" PRIu64 " outcome=%s row=%s cause=\"%s\"", job->id,
	       gp_resync_outcome_name(v->outcome), v->row, v->cause);
	if (v->outcome == GP_RESYNC_WAIT)
		return;
	job->recovering = false;
	gp_timer_disarm(&job->recover_timer);
	job->held = v->held;
	job->on_scratch = v->on_scratch;
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		recover_apply_proc(proc, flags[i++]);
	}
	recover_apply_lost(job, gp_job_state_is_final(v->state));
	job->saved_bytes = gp_job_released_bytes(job);
	if (!gp_job_state_is_final(v->state))
		gp_job_set_state(job, v->state, "%s", v->cause);
	/* Who joined meanwhile stands still if the others do. */
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (!proc->locked)
			gp_preempt_proc_joined(proc);
	}
	recover_act(job, v);
	gp_request_take_up(job);
	gp_schedule_want(job->daemon);
}

static void recover_decide(struct gp_job *job)
{
	const struct gp_resync_job about = {
		.state = job->state,
		.held = job->held,
		.cancelling = job->cancelling,
		.same_boot = job->same_boot,
		.adopted = job->adopted,
		.supervised = job->supervisor != NULL,
		.mover = job->device->mover_fate,
	};
	gp_auto_free struct gp_resync_proc *procs = NULL;
	gp_auto_free uint32_t *flags = NULL;
	struct gp_resync_verdict verdict;
	size_t n = recover_describe(job, NULL);

	procs = calloc(n + 1, sizeof(*procs));
	flags = calloc(n + 1, sizeof(*flags));
	if (!procs || !flags) {
		gp_recover_begin(job, job->same_boot); /* tried again after another grace */
		return;
	}
	recover_describe(job, procs);
	gp_resync_decide(&about, procs, n, &verdict, flags);
	recover_apply(job, &verdict, flags);
}

/* What was started, and only that is recovered, has a device. */
void gp_recover_advance(struct gp_job *job)
{
	if (job->recovering && job->device && !recover_waits(job))
		recover_decide(job);
}

/* ---- what comes ---- */

static void recover_ask(struct gp_proc *proc)
{
	struct gp_wire_msg m;

	/* A second answer would come when its job has gone on already. */
	if (proc->asked)
		return;
	gp_wire_init(&m, GP_WIRE_STATE);
	m.header.job = proc->job->id;
	m.header.epoch = proc->job->epoch;
	m.header.proc = proc->id;
	proc->asked = proc->resynced = true;
	gp_peer_send(proc->peer, &m, NULL, 0);
}

void gp_recover_mover_back(struct gp_job *job)
{
	if (!job->recovering) {
		recover_drop_stale(job);
		return;
	}
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		recover_ask(proc);
	}
	gp_recover_advance(job);
}

int gp_recover_resync(struct gp_proc *proc, const struct gp_wire_resync *resync, struct gp_err *err)
{
	struct gp_job *job = proc->job;

	if (gp_job_state_is_final(job->state))
		return gp_err_set(err, -ESRCH, "its job has ended");
	/* Late, or its connection was lost and not its daemon: the job is looked at as a whole. */
	if (!job->recovering && resync->state != GP_RESYNC_OPEN) {
		if (job->op != GP_OP_NONE)
			return gp_err_set(err, -EBUSY, "its job is %s",
					  gp_job_state_name(job->state));
		gp_recover_begin(job, true);
		gp_list_for_each(other, &job->procs, struct gp_proc, node) {
			if (other != proc)
				recover_ask(other);
		}
	}
	proc->asked = false;
	proc->resynced = true;
	proc->resync = *resync;
	gp_recover_advance(job);
	return 0;
}
