/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation takes a job through phases; each phase waits for all processes of the job, or for
 * the mover, and preempt_advance() begins the next one once nobody is waited for:
 *
 *	preempt	LOCK -> FREEZE -> PROBE (frozen) -> SAVE (swapped); of a frozen job, too
 *	resume	LOAD -> TABLES -> THAW -> UNLOCK (running)
 *	cancel	TABLES -> THAW -> UNLOCK -> KILL, or SCRATCH -> TABLES -> THAW -> KILL (cancelled)
 *
 * All processes are frozen before any memory moves, and all memory is back before any is thawed. A
 * process that joins meanwhile is locked; it is not part of the freeze, so its memory stays. An
 * error before the freeze unlocks again; an error while saving turns into a resume that answers
 * with the error, so that nothing is lost. Every message carries the epoch; answers to an earlier
 * operation are dropped, and so are those that do not fit the step of their process. Every phase
 * has a deadline.
 */
#include "daemon/preempt.h"

#include "base/log.h"
#include "base/time.h"
#include "daemon/device.h"
#include "daemon/recover.h"
#include "daemon/schedule.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PREEMPT_ANSWER_NS      (5 * GP_NS_PER_SEC)  /* a shim or mover that only has to react */
#define PREEMPT_MEMORY_NS      (30 * GP_NS_PER_SEC) /* a shim that creates and maps */
#define PREEMPT_MOVE_NS	       (60 * GP_NS_PER_SEC) /* moving bytes: this, and */
#define PREEMPT_NS_PER_BYTE    20		    /* 50 MB/s, below any disk worth swapping to */
#define PREEMPT_MAX_THAW_TRIES 5
#define PREEMPT_RETRY_NS       (5 * GP_NS_PER_SEC) /* after an operation that failed */

static void preempt_advance(struct gp_job *job);

static void preempt_error(struct gp_job *job, int code, const char *fmt, ...) gp_printf(3, 4);

/* Keeps the first error of the operation. */
static void preempt_error(struct gp_job *job, int code, const char *fmt, ...)
{
	va_list ap;

	if (job->op_code)
		return;
	job->op_code = code < 0 ? code : -EIO;
	va_start(ap, fmt);
	vsnprintf(job->op_error, sizeof(job->op_error), fmt, ap);
	va_end(ap);
	gp_log(GP_LOG_WARN, "operation", "job=%" PRIu64 " state=%s error=\"%s\"", job->id,
	       gp_job_state_name(job->state), job->op_error);
}

static bool preempt_any_away(const struct gp_job *job)
{
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->away)
			return true;
	}
	return false;
}

static void preempt_send(struct gp_proc *proc, uint32_t type, enum gp_proc_step step)
{
	const struct gp_job *job = proc->job;
	struct gp_wire_msg m;

	gp_wire_init(&m, type);
	m.header.job = job->id;
	m.header.epoch = job->epoch;
	m.header.proc = proc->id;
	if (type == GP_WIRE_LOCK)
		m.lock.moves = preempt_any_away(job) ||
			       (job->op == GP_OP_PREEMPT && job->op_target == GP_JOB_SWAPPED);
	proc->step = step;
	gp_peer_send(proc->peer, &m, NULL, 0);
}

static void preempt_send_mover(struct gp_proc *proc, uint32_t type, uint64_t bytes, uint32_t n)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, type);
	m.header.job = proc->job->id;
	m.header.epoch = proc->job->epoch;
	m.header.proc = proc->id;
	m.save = (struct gp_wire_count){ .bytes = bytes, .n = n };
	gp_device_send(proc->job->device, &m, NULL, 0);
}

/*
 * FREEZE of all processes that have channels, or THAW of those that may be frozen: from FREEZE on,
 * whatever became of it, until THAWED. False if there is none.
 */
static bool preempt_switch(struct gp_job *job, uint32_t type)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, type);
	m.header.job = job->id;
	m.header.epoch = job->epoch;
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (type == GP_WIRE_FREEZE ? !proc->linked || !proc->locked : !proc->frozen)
			continue;
		if (m.freeze.n == GP_WIRE_MAX_PROCS) {
			preempt_error(job, -E2BIG, "it has more than %d CUDA processes",
				      GP_WIRE_MAX_PROCS);
			return false;
		}
		m.freeze.procs[m.freeze.n++] = proc->id;
	}
	if (!m.freeze.n)
		return false;
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		proc->frozen |= proc->linked && proc->locked && type == GP_WIRE_FREEZE;
	}
	gp_device_send(job->device, &m, NULL, 0);
	return true;
}

static void preempt_set_thawed(struct gp_job *job)
{
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		proc->frozen = false;
	}
}

static void preempt_phase(struct gp_job *job, enum gp_phase phase, uint64_t within_ns)
{
	job->phase = phase;
	gp_timer_arm(&job->daemon->loop, &job->op_timer, gp_now_ns() + within_ns);
}

static bool preempt_any_in(const struct gp_job *job, enum gp_proc_step step)
{
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->step == step)
			return true;
	}
	return false;
}

static bool preempt_any_frozen(const struct gp_job *job)
{
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->frozen)
			return true;
	}
	return false;
}

/* A mover that is new to the job can switch a process only once it has its channels. */
static bool preempt_tables_known(const struct gp_job *job)
{
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->frozen && !proc->known)
			return false;
	}
	return true;
}

static void preempt_retry(struct gp_timer *timer)
{
	struct gp_job *job = gp_container_of(timer, struct gp_job, op_timer);
	struct gp_err err;

	if (job->cancelling)
		gp_preempt_cancel(job);
	else if (gp_preempt_resume(job, "tried again", &err) < 0)
		gp_log(GP_LOG_WARN, "resume", "job=%" PRIu64 " error=\"%s\"", job->id, err.msg);
}

static void preempt_retry_later(struct gp_job *job, uint64_t at_ns)
{
	gp_timer_disarm(&job->op_timer);
	gp_timer_init(&job->op_timer, preempt_retry);
	gp_timer_arm(&job->daemon->loop, &job->op_timer, at_ns);
}

/* The operation is over: answers who waits, and lets a cancel that came meanwhile go on. */
static void preempt_complete(struct gp_job *job)
{
	uint32_t type = job->op == GP_OP_PREEMPT ? GP_WIRE_PREEMPT : GP_WIRE_RESUME;

	gp_timer_disarm(&job->op_timer);
	job->op = GP_OP_NONE;
	job->phase = GP_PHASE_NONE;
	if (job->op_code && type == GP_WIRE_PREEMPT)
		job->held = false;
	if (job->op_code)
		job->rests_until_ns = gp_now_ns() + PREEMPT_RETRY_NS;
	gp_job_answer(job, type, job->op_code, job->op_error);
	gp_schedule_want(job->daemon);
	if (job->recovering)
		return; /* goes on from there */
	if (job->op_code && job->state == GP_JOB_FROZEN && (job->cancelling || !job->held))
		preempt_retry_later(job, job->rests_until_ns);
	else if (job->cancelling)
		gp_preempt_cancel(job);
}

static void preempt_kill(struct gp_timer *timer)
{
	struct gp_job *job = gp_container_of(timer, struct gp_job, op_timer);

	gp_job_signal(job, SIGKILL);
}

/* Running on its own memory: asked first. On scratch: its results are worthless, killed at once. */
static void preempt_begin_kill(struct gp_job *job, bool on_scratch)
{
	job->op = GP_OP_CANCEL;
	gp_timer_disarm(&job->op_timer);
	gp_timer_init(&job->op_timer, preempt_kill);
	preempt_phase(job, GP_PHASE_KILL, job->daemon->options.term_ns);
	gp_job_signal(job, on_scratch ? SIGKILL : SIGTERM);
}

static void preempt_begin_unlock(struct gp_job *job)
{
	/* Its threads must not see what is in its memory now. */
	if (job->on_scratch) {
		preempt_begin_kill(job, true);
		return;
	}
	preempt_phase(job, GP_PHASE_UNLOCK, PREEMPT_ANSWER_NS);
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->locked || proc->step == GP_STEP_LOCKING)
			preempt_send(proc, GP_WIRE_UNLOCK, GP_STEP_UNLOCKING);
		else
			proc->step = GP_STEP_IDLE;
	}
	preempt_advance(job);
}

static void preempt_begin_thaw(struct gp_job *job)
{
	gp_job_set_state(job, GP_JOB_THAWING, "%s",
			 job->op_code ? job->op_error : "its memory is in place");
	preempt_phase(job, GP_PHASE_TABLES, PREEMPT_ANSWER_NS);
	preempt_advance(job);
}

static void preempt_end_tables(struct gp_job *job)
{
	preempt_phase(job, GP_PHASE_THAW, PREEMPT_ANSWER_NS);
	if (!preempt_switch(job, GP_WIRE_THAW))
		preempt_begin_unlock(job);
}

static uint64_t preempt_move_ns(const struct gp_job *job)
{
	return PREEMPT_MOVE_NS +
	       PREEMPT_NS_PER_BYTE * (gp_job_device_bytes(job) + job->saved_bytes);
}

static void preempt_begin_save(struct gp_job *job)
{
	gp_job_set_state(job, GP_JOB_EVICTING, "%s", job->cause);
	job->report.total_bytes = job->report.zero_bytes = 0;
	job->report.arena_bytes = job->report.disk_bytes = 0;
	job->report.save_ns = 0;
	job->saved_bytes = 0;
	preempt_phase(job, GP_PHASE_SAVE, preempt_move_ns(job));
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (!proc->frozen || !proc->linked || !proc->n_extents)
			continue;
		proc->save_done = false;
		proc->release_sent = proc->release_acked = 0;
		preempt_send_mover(proc, GP_WIRE_SAVE, proc->movable_bytes, proc->n_extents);
		preempt_send(proc, GP_WIRE_EXPORT, GP_STEP_SAVING);
	}
	preempt_advance(job);
}

static void preempt_begin_load(struct gp_job *job, const char *cause)
{
	gp_job_set_state(job, GP_JOB_RESTORING, "%s", cause);
	job->report.load_ns = 0;
	preempt_phase(job, GP_PHASE_LOAD, PREEMPT_MEMORY_NS + preempt_move_ns(job));
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->away)
			preempt_send(proc, GP_WIRE_RECREATE, GP_STEP_RECREATING);
	}
	preempt_advance(job);
}

/* Before any memory has moved; of a job that was frozen before, some may be off. */
static void preempt_back_out(struct gp_job *job)
{
	if (preempt_any_frozen(job))
		preempt_begin_thaw(job);
	else
		preempt_begin_unlock(job);
}

static void preempt_begin_freeze(struct gp_job *job)
{
	preempt_phase(job, GP_PHASE_FREEZE, PREEMPT_ANSWER_NS);
	job->refreeze = preempt_any_frozen(job);
	if (!preempt_switch(job, GP_WIRE_FREEZE)) {
		preempt_error(job, -ENOTSUP, "it has nothing on the device yet");
		preempt_back_out(job);
	}
}

static void preempt_end_save(struct gp_job *job)
{
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->step == GP_STEP_SAVING)
			proc->step = GP_STEP_LOCKED;
	}
	if (job->op_code) {
		/* What a shim has yet to export for the failed save is not taken for this load. */
		job->epoch++;
		preempt_begin_load(job, job->op_error);
		return;
	}
	job->saved_bytes = job->report.total_bytes;
	job->report.evict_ns = gp_now_ns() - job->op_begin_ns;
	job->n_preemptions++;
	gp_job_set_state(job, GP_JOB_SWAPPED, "%s", job->cause);
	preempt_complete(job);
}

static void preempt_end_probe(struct gp_job *job)
{
	if (job->state != GP_JOB_FROZEN)
		gp_job_set_state(job, GP_JOB_FROZEN, "%s", job->cause);
	if (job->op_code) {
		preempt_begin_thaw(job);
	} else if (job->op_target == GP_JOB_FROZEN) {
		job->n_preemptions++;
		preempt_complete(job);
	} else {
		preempt_begin_save(job);
	}
}

static void preempt_end_load(struct gp_job *job)
{
	if (preempt_any_away(job)) {
		/* Nothing is lost: the saved copy is kept, and the scheduler tries again. */
		job->saved_bytes = gp_job_released_bytes(job);
		gp_job_set_state(job, GP_JOB_SWAPPED, "%s", job->op_error);
		preempt_complete(job);
		return;
	}
	preempt_begin_thaw(job);
}

static void preempt_end_unlock(struct gp_job *job)
{
	if (job->op == GP_OP_CANCEL) {
		preempt_begin_kill(job, false);
		return;
	}
	if (job->op == GP_OP_RESUME && !job->op_code)
		job->report.restore_ns = gp_now_ns() - job->op_begin_ns;
	job->saved_bytes = 0;
	gp_job_set_state(job, GP_JOB_RUNNING, "%s", job->op_code ? job->op_error : "resumed");
	preempt_complete(job);
}

/* True while a process still owes an answer for the current phase. */
static bool preempt_waits(const struct gp_job *job)
{
	switch (job->phase) {
	case GP_PHASE_LOCK:
		return preempt_any_in(job, GP_STEP_LOCKING) || !preempt_tables_known(job);
	case GP_PHASE_PROBE:
		return preempt_any_in(job, GP_STEP_PROBING);
	case GP_PHASE_SAVE:
		gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
			if (proc->step == GP_STEP_SAVING &&
			    (!proc->save_done || proc->release_sent != proc->release_acked))
				return true;
		}
		return false;
	case GP_PHASE_LOAD:
		return preempt_any_in(job, GP_STEP_RECREATING) ||
		       preempt_any_in(job, GP_STEP_LOADING) ||
		       preempt_any_in(job, GP_STEP_CONFIRMING);
	case GP_PHASE_SCRATCH:
		return preempt_any_away(job);
	case GP_PHASE_TABLES:
		return !preempt_tables_known(job);
	case GP_PHASE_UNLOCK:
		return preempt_any_in(job, GP_STEP_UNLOCKING);
	default:
		return true; /* the mover, or the end of the job */
	}
}

static void preempt_advance(struct gp_job *job)
{
	if (job->op == GP_OP_NONE || preempt_waits(job))
		return;
	switch (job->phase) {
	case GP_PHASE_LOCK:
		if (job->op_code)
			preempt_back_out(job);
		else
			preempt_begin_freeze(job);
		break;
	case GP_PHASE_PROBE:
		preempt_end_probe(job);
		break;
	case GP_PHASE_SAVE:
		preempt_end_save(job);
		break;
	case GP_PHASE_LOAD:
		preempt_end_load(job);
		break;
	case GP_PHASE_SCRATCH:
		preempt_begin_thaw(job);
		break;
	case GP_PHASE_TABLES:
		preempt_end_tables(job);
		break;
	case GP_PHASE_UNLOCK:
		preempt_end_unlock(job);
		break;
	default:
		break;
	}
}

static void preempt_scratch(struct gp_job *job)
{
	preempt_phase(job, GP_PHASE_SCRATCH, PREEMPT_MEMORY_NS);
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->away && proc->step != GP_STEP_SCRATCHING)
			preempt_send(proc, GP_WIRE_SCRATCH, GP_STEP_SCRATCHING);
	}
}

static bool preempt_mover_owes(const struct gp_job *job)
{
	if (job->phase == GP_PHASE_FREEZE || job->phase == GP_PHASE_THAW)
		return true;
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (job->phase == GP_PHASE_SAVE && proc->step == GP_STEP_SAVING && !proc->save_done)
			return true;
	}
	return false;
}

/*
 * A mover that does not answer is replaced, unless only it has the bytes that are to be loaded; a
 * shim is waited for, since only it can go on.
 */
static void preempt_timeout(struct gp_timer *timer)
{
	struct gp_job *job = gp_container_of(timer, struct gp_job, op_timer);
	struct gp_device *d = job->device;

	preempt_error(job, -ETIMEDOUT, "no answer in time while %s", gp_job_state_name(job->state));
	switch (job->phase) {
	case GP_PHASE_LOCK:
		job->epoch++; /* an ERROR that comes yet is none of UNLOCK */
		preempt_back_out(job);
		return;
	case GP_PHASE_PROBE:
		gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
			if (proc->step == GP_STEP_PROBING)
				proc->step = GP_STEP_LOCKED;
		}
		preempt_advance(job);
		return;
	case GP_PHASE_SCRATCH:
		preempt_scratch(job);
		return;
	default:
		break;
	}
	if (preempt_mover_owes(job)) {
		if (d->mover_pid)
			kill(d->mover_pid, SIGKILL);
		return;
	}
	gp_job_answer(job, job->op == GP_OP_PREEMPT ? GP_WIRE_PREEMPT : GP_WIRE_RESUME,
		      job->op_code, job->op_error);
	gp_timer_arm(&job->daemon->loop, &job->op_timer, gp_now_ns() + PREEMPT_MEMORY_NS);
}

static void preempt_begin_op(struct gp_job *job, enum gp_op op)
{
	job->op = op;
	job->op_code = 0;
	job->op_error[0] = '\0';
	job->op_begin_ns = gp_now_ns();
	job->n_thaw_tries = 0;
	job->epoch++;
	gp_timer_disarm(&job->op_timer);
	gp_timer_init(&job->op_timer, preempt_timeout);
}

static int preempt_busy(const struct gp_job *job, struct gp_err *err)
{
	if (gp_job_state_is_final(job->state))
		return gp_err_set(err, -ESRCH, "job %" PRIu64 " has ended (%s)", job->id,
				  gp_job_state_name(job->state));
	if (job->recovering)
		return gp_err_set(err, -EBUSY,
				  "job %" PRIu64 " is waited for after gpupresd or gpupres-mover "
				  "was restarted: try again in some seconds",
				  job->id);
	if (job->op != GP_OP_NONE || job->cancelling)
		return gp_err_set(
			err, -EBUSY, "job %" PRIu64 " is %s: try again when it is done", job->id,
			job->cancelling ? "being cancelled" : gp_job_state_name(job->state));
	if (!job->device || !job->device->ready)
		return gp_err_set(err, -ENODEV, "job %" PRIu64 " is %s: it is on no device",
				  job->id, gp_job_state_name(job->state));
	return 0;
}

int gp_preempt_begin(struct gp_job *job, enum gp_job_state target, const char *cause,
		     struct gp_err *err)
{
	bool linked = false;
	int r = preempt_busy(job, err);

	if (r < 0)
		return r;
	if (job->state != GP_JOB_RUNNING && job->state != GP_JOB_FROZEN)
		return gp_err_set(err, -EBUSY,
				  "job %" PRIu64 " is %s: only a running or frozen job "
				  "can be preempted",
				  job->id, gp_job_state_name(job->state));
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		linked |= proc->linked;
	}
	if (!linked)
		return gp_err_set(err, -ENOTSUP,
				  "job %" PRIu64 " has no process with a CUDA context", job->id);
	preempt_begin_op(job, GP_OP_PREEMPT);
	job->op_target = target;
	if (job->state == GP_JOB_FROZEN) {
		/* Locked and frozen again: who joined since is not, nor is all of a job that could
		 * not be thawed.
		 */
		gp_wire_text(job->cause, sizeof(job->cause), cause);
	} else {
		memset(&job->report, 0, sizeof(job->report));
		gp_job_set_state(job, GP_JOB_FREEZING, "%s", cause);
	}
	preempt_phase(job, GP_PHASE_LOCK, PREEMPT_ANSWER_NS);
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		preempt_send(proc, GP_WIRE_LOCK, GP_STEP_LOCKING);
	}
	return 0;
}

int gp_preempt_resume(struct gp_job *job, const char *cause, struct gp_err *err)
{
	int r = preempt_busy(job, err);

	if (r < 0)
		return r;
	if (job->state != GP_JOB_FROZEN && job->state != GP_JOB_SWAPPED)
		return gp_err_set(err, -EINVAL, "job %" PRIu64 " is %s: nothing to resume", job->id,
				  gp_job_state_name(job->state));
	preempt_begin_op(job, GP_OP_RESUME);
	if (job->state == GP_JOB_SWAPPED)
		preempt_begin_load(job, cause);
	else
		preempt_begin_thaw(job);
	return 0;
}

/* Nothing of the job is off the hardware: not yet, or not any more. */
static bool preempt_can_kill(const struct gp_job *job)
{
	if (preempt_any_frozen(job))
		return false;
	if (job->op == GP_OP_NONE)
		return job->state != GP_JOB_FROZEN && job->state != GP_JOB_SWAPPED;
	return job->phase == GP_PHASE_LOCK || job->phase == GP_PHASE_UNLOCK;
}

void gp_preempt_cancel(struct gp_job *job)
{
	job->cancelling = true;
	if (gp_job_state_is_final(job->state))
		return;
	if (job->state == GP_JOB_QUEUED) {
		gp_job_finish(job, GP_JOB_CANCELLED, "cancelled while queued");
		return;
	}
	if (job->recovering)
		return; /* its end is one of the outcomes */
	if (preempt_can_kill(job)) {
		preempt_begin_kill(job, false);
		return;
	}
	if (job->op != GP_OP_NONE || !job->device->ready)
		return; /* preempt_complete and daemon/recover.c come here again */
	preempt_begin_op(job, GP_OP_CANCEL);
	if (!preempt_any_away(job)) {
		preempt_begin_thaw(job);
		return;
	}
	job->on_scratch = true;
	gp_job_set_state(job, GP_JOB_RESTORING, "on scratch memory, to be ended");
	preempt_scratch(job);
}

void gp_preempt_fail(struct gp_job *job, const char *cause)
{
	gp_wire_text(job->fail_cause, sizeof(job->fail_cause), cause);
	job->cancelling = true;
	preempt_begin_kill(job, true);
}

void gp_preempt_proc_joined(struct gp_proc *proc)
{
	const struct gp_job *job = proc->job;

	if (job->recovering || job->state < GP_JOB_FREEZING || job->state > GP_JOB_THAWING ||
	    job->phase == GP_PHASE_UNLOCK || job->phase == GP_PHASE_KILL)
		return;
	preempt_send(proc, GP_WIRE_LOCK, GP_STEP_LOCKING);
}

void gp_preempt_proc_known(struct gp_job *job)
{
	if (job->phase == GP_PHASE_LOCK || job->phase == GP_PHASE_TABLES)
		preempt_advance(job);
}

static void preempt_proc_error(struct gp_proc *proc, const struct gp_wire_msg *msg)
{
	struct gp_job *job = proc->job;

	/* Late, or of a process that joined and could not be locked: it is no part of this. */
	if (proc->step == GP_STEP_IDLE || proc->step == GP_STEP_LOCKED ||
	    (proc->step == GP_STEP_LOCKING && job->phase != GP_PHASE_LOCK))
		return;
	preempt_error(job, msg->error.code, "%s", msg->error.text);
	switch (proc->step) {
	case GP_STEP_LOCKING:
	case GP_STEP_PROBING:
	case GP_STEP_RECREATING:
		proc->step = proc->locked ? GP_STEP_LOCKED : GP_STEP_IDLE;
		break;
	case GP_STEP_SCRATCHING: /* no memory even for scratch: tried again after a while */
		proc->step = GP_STEP_LOCKED;
		gp_timer_arm(&job->daemon->loop, &job->op_timer, gp_now_ns() + PREEMPT_ANSWER_NS);
		job->op_code = 0;
		break;
	case GP_STEP_UNLOCKING: /* it cannot go on, and it is not frozen */
		gp_preempt_fail(job, msg->error.text);
		break;
	default:
		break; /* SAVING: RELEASED has come; of an EXPORT the mover learns by its link */
	}
}

static void preempt_locked(struct gp_proc *proc, const struct gp_wire_locked *locked)
{
	proc->step = GP_STEP_LOCKED;
	proc->locked = true;
	proc->n_extents = locked->n_extents;
	gp_proc_set_movable(proc, locked->movable_bytes);
}

static void preempt_probed(struct gp_proc *proc, uint32_t mid_kernel)
{
	struct gp_wire_report *report = &proc->job->report;

	proc->step = GP_STEP_LOCKED;
	if (mid_kernel == GP_MID_KERNEL_YES || report->mid_kernel == GP_MID_KERNEL_NO)
		report->mid_kernel = mid_kernel;
}

/* Its addresses are backed again. */
static void preempt_backed(struct gp_proc *proc)
{
	proc->away = false;
	proc->released_bytes = 0;
	proc->step = GP_STEP_LOCKED;
}

/* The step in which a process owes an answer of this type. */
static enum gp_proc_step preempt_step_of(uint32_t type)
{
	switch ((enum gp_wire_type)type) {
	case GP_WIRE_LOCKED:
		return GP_STEP_LOCKING;
	case GP_WIRE_PROBED:
		return GP_STEP_PROBING;
	case GP_WIRE_RELEASED:
	case GP_WIRE_SAVED:
	case GP_WIRE_SAVE_DONE:
		return GP_STEP_SAVING;
	case GP_WIRE_RECREATED:
		return GP_STEP_RECREATING;
	case GP_WIRE_LOAD_DONE:
		return GP_STEP_LOADING;
	case GP_WIRE_CONFIRMED:
		return GP_STEP_CONFIRMING;
	case GP_WIRE_SCRATCHED:
		return GP_STEP_SCRATCHING;
	case GP_WIRE_UNLOCKED:
		return GP_STEP_UNLOCKING;
	default:
		return GP_STEP_IDLE;
	}
}

void gp_preempt_handle(struct gp_proc *proc, const struct gp_wire_msg *msg)
{
	struct gp_job *job = proc->job;

	if (job->op == GP_OP_NONE || msg->header.epoch != job->epoch)
		return;
	if (msg->header.type == GP_WIRE_ERROR)
		preempt_proc_error(proc, msg);
	else if (proc->step != preempt_step_of(msg->header.type))
		return;
	switch ((enum gp_wire_type)msg->header.type) {
	case GP_WIRE_LOCKED:
		preempt_locked(proc, &msg->locked);
		break;
	case GP_WIRE_PROBED:
		preempt_probed(proc, msg->probed.mid_kernel);
		break;
	case GP_WIRE_RELEASED:
		/* All of that RELEASE is settled; what it could not let go of is still there. */
		proc->release_acked += msg->header.cookie;
		proc->released_bytes += msg->released.bytes;
		break;
	case GP_WIRE_RECREATED:
		/* On the device again, if not yet with its bytes. */
		proc->released_bytes = 0;
		proc->step = GP_STEP_LOADING;
		preempt_send_mover(proc, GP_WIRE_LOAD, msg->recreated.bytes, msg->recreated.n);
		break;
	case GP_WIRE_CONFIRMED:
	case GP_WIRE_SCRATCHED:
		/* Not before: whoever crashes until now, the bytes are still there. */
		preempt_backed(proc);
		gp_device_drop(job->device, job->id, proc->id, GP_WIRE_DROP);
		break;
	case GP_WIRE_UNLOCKED:
		proc->step = GP_STEP_IDLE;
		proc->locked = false;
		break;
	default:
		break;
	}
	preempt_advance(job);
}

static void preempt_saved(struct gp_proc *proc, const struct gp_wire_ids *saved)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, GP_WIRE_RELEASE);
	m.header.job = proc->job->id;
	m.header.epoch = proc->job->epoch;
	m.header.proc = proc->id;
	/* Comes back in RELEASED, which counts only what could be let go of. */
	m.header.cookie = saved->n;
	m.release = *saved;
	proc->release_sent += saved->n;
	proc->away |= saved->n > 0; /* from now on it may lack them */
	gp_peer_send(proc->peer, &m, NULL, 0);
}

static void preempt_account(struct gp_wire_report *report, const struct gp_wire_moved *moved)
{
	report->total_bytes += moved->total_bytes;
	report->zero_bytes += moved->zero_bytes;
	report->arena_bytes += moved->arena_bytes;
	report->disk_bytes += moved->disk_bytes;
	if (moved->ns > report->save_ns)
		report->save_ns = moved->ns;
}

/* Its addresses are backed again, but not by its bytes: it must not run on. */
static void preempt_load_failed(struct gp_proc *proc, const char *text)
{
	struct gp_job *job = proc->job;

	snprintf(job->fail_cause, sizeof(job->fail_cause), "memory not restored: %.100s", text);
	preempt_backed(proc);
	job->on_scratch = true;
	job->op = GP_OP_CANCEL;
	job->cancelling = true;
}

static void preempt_proc_mover(struct gp_proc *proc, const struct gp_wire_msg *msg)
{
	struct gp_job *job = proc->job;

	if (msg->header.type != GP_WIRE_ERROR && proc->step != preempt_step_of(msg->header.type))
		return;
	switch ((enum gp_wire_type)msg->header.type) {
	case GP_WIRE_SAVED:
		preempt_saved(proc, &msg->saved);
		break;
	case GP_WIRE_SAVE_DONE:
		preempt_account(&job->report, &msg->save_done);
		proc->save_done = true;
		break;
	case GP_WIRE_LOAD_DONE:
		if (msg->load_done.ns > job->report.load_ns)
			job->report.load_ns = msg->load_done.ns;
		preempt_send(proc, GP_WIRE_CONFIRM, GP_STEP_CONFIRMING);
		break;
	case GP_WIRE_ERROR:
		if (proc->step != GP_STEP_SAVING && proc->step != GP_STEP_LOADING)
			break;
		preempt_error(job, msg->error.code, "%s", msg->error.text);
		if (proc->step == GP_STEP_LOADING)
			preempt_load_failed(proc, msg->error.text);
		proc->save_done = true;
		break;
	default:
		break;
	}
}

static void preempt_frozen(struct gp_job *job, const struct gp_wire_switched *frozen)
{
	job->report.freeze_ns = frozen->ns;
	job->report.n_channels = frozen->n_channels;
	job->report.stop_ns = gp_now_ns() - job->op_begin_ns;
	preempt_phase(job, GP_PHASE_PROBE, PREEMPT_ANSWER_NS);
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->frozen)
			preempt_send(proc, GP_WIRE_PROBE, GP_STEP_PROBING);
	}
	preempt_advance(job);
}

static void preempt_freeze_failed(struct gp_job *job, const struct gp_wire_error *error)
{
	preempt_error(job, error->code, "%s", error->text);
	/* The driver refused, and may have refused to undo a part of it; or it was frozen before.
	 */
	if (error->code == -EIO || job->refreeze) {
		preempt_begin_thaw(job);
		return;
	}
	preempt_set_thawed(job);
	preempt_begin_unlock(job);
}

static void preempt_thaw_failed(struct gp_job *job, const struct gp_wire_error *error)
{
	gp_log(GP_LOG_ERR, "thaw", "job=%" PRIu64 " try=%u error=\"%s\"", job->id,
	       job->n_thaw_tries, error->text);
	if (job->n_thaw_tries++ < PREEMPT_MAX_THAW_TRIES) {
		preempt_end_tables(job);
		return;
	}
	preempt_error(job, error->code, "%s", error->text);
	gp_job_set_state(job, GP_JOB_FROZEN, "cannot be thawed: %s", error->text);
	preempt_complete(job);
}

void gp_preempt_handle_mover(struct gp_job *job, const struct gp_wire_msg *msg)
{
	if (job->op == GP_OP_NONE || msg->header.epoch != job->epoch)
		return;
	if (msg->header.proc) {
		gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
			if (proc->id == msg->header.proc) {
				preempt_proc_mover(proc, msg);
				break;
			}
		}
		preempt_advance(job);
	} else if (msg->header.type == GP_WIRE_FROZEN && job->phase == GP_PHASE_FREEZE) {
		preempt_frozen(job, &msg->frozen);
	} else if (msg->header.type == GP_WIRE_THAWED && job->phase == GP_PHASE_THAW) {
		job->report.thaw_ns = msg->thawed.ns;
		preempt_set_thawed(job);
		preempt_begin_unlock(job);
	} else if (msg->header.type == GP_WIRE_ERROR && job->phase == GP_PHASE_FREEZE) {
		preempt_freeze_failed(job, &msg->error);
	} else if (msg->header.type == GP_WIRE_ERROR && job->phase == GP_PHASE_THAW) {
		preempt_thaw_failed(job, &msg->error);
	}
}

void gp_preempt_proc_gone(struct gp_job *job)
{
	if (gp_job_state_is_final(job->state))
		return;
	if (!gp_list_empty(&job->procs)) {
		if (job->state == GP_JOB_SWAPPED)
			job->saved_bytes = gp_job_released_bytes(job);
		preempt_advance(job);
		return;
	}
	if (job->phase == GP_PHASE_KILL || job->state == GP_JOB_STARTING ||
	    job->state == GP_JOB_RUNNING)
		return;
	/* Nothing is left on the device: the rest of the job just runs. */
	if (job->op != GP_OP_NONE)
		preempt_error(job, -ESRCH, "its CUDA processes ended meanwhile");
	job->saved_bytes = 0;
	job->held = false;
	gp_job_set_state(job, GP_JOB_RUNNING, "its CUDA processes ended");
	preempt_complete(job);
}

void gp_preempt_mover_gone(struct gp_job *job)
{
	bool away = preempt_any_away(job);

	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		proc->linked = false;
		proc->known = false;
	}
	if (job->recovering || job->phase == GP_PHASE_KILL || job->state == GP_JOB_QUEUED ||
	    job->state == GP_JOB_STARTING || job->state == GP_JOB_RUNNING)
		return;
	/* Nobody waits for what is under way. */
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->locked)
			proc->step = GP_STEP_LOCKED;
	}
	preempt_error(job, -EIO, "gpupres-mover ended");
	job->epoch++; /* whatever still arrives belongs to the past */
	gp_job_set_state(job, away ? GP_JOB_SWAPPED : GP_JOB_FROZEN, "gpupres-mover ended");
	gp_recover_begin(job, true);
	preempt_complete(job);
}

void gp_preempt_freeze_again(struct gp_job *job)
{
	preempt_begin_op(job, GP_OP_PREEMPT);
	job->op_target = GP_JOB_FROZEN;
	preempt_phase(job, GP_PHASE_LOCK, PREEMPT_ANSWER_NS);
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (!proc->locked)
			preempt_send(proc, GP_WIRE_LOCK, GP_STEP_LOCKING);
	}
	preempt_advance(job);
}
