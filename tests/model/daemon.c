/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon of the model: the phases of daemon/preempt.c, step by step and under the same names.
 */
#include "tests/model/daemon.h"
#include "base/wire/messages.h"
#include "daemon/proc.h"
#include "daemon/transition.h"

#include <string.h>

#define MAX_THAW_TRIES 1

static void advance(struct m_sys *sys);
static void begin_unlock(struct m_sys *sys);

bool m_is_final(const struct m_daemon *d)
{
	return d->state >= GP_JOB_DONE;
}

static uint32_t by_op(const struct m_daemon *d)
{
	return d->op == GP_OP_PREEMPT  ? GP_BY_PREEMPT
	       : d->op == GP_OP_RESUME ? GP_BY_RESUME
				       : GP_BY_CANCEL;
}

void m_set_state(struct m_sys *sys, enum gp_job_state state, uint32_t by)
{
	if (!gp_transition_is_legal(sys->s.d.state, state, by))
		m_fail(sys, "a change of state that the table does not list");
	sys->s.d.state = (uint8_t)state;
}

static void order(struct m_sys *sys, uint32_t i, uint32_t type, uint32_t arg,
		  enum gp_proc_step step)
{
	struct m_view *v = &sys->s.d.views[i];

	v->step = (uint8_t)step;
	/* A dead process takes nothing. */
	if (sys->s.procs[i].alive && sys->s.procs[i].conn == M_UP)
		m_push(sys, &sys->s.to_shim[i], type, i, arg, 0);
}

void m_tell_mover(struct m_sys *sys, uint32_t type, uint32_t i, uint32_t arg)
{
	if (sys->s.d.mover_ready && sys->s.m.alive && sys->s.m.conn == M_UP)
		m_push(sys, &sys->s.to_mover, type, i, arg, 0);
}

static bool any_in(const struct m_sys *sys, enum gp_proc_step step)
{
	for (int i = 0; i < sys->config->n_procs; i++) {
		if (sys->s.d.views[i].present && sys->s.d.views[i].step == step)
			return true;
	}
	return false;
}

static bool any_away(const struct m_sys *sys)
{
	for (int i = 0; i < sys->config->n_procs; i++) {
		if (sys->s.d.views[i].present && sys->s.d.views[i].away)
			return true;
	}
	return false;
}

bool m_any_present(const struct m_sys *sys)
{
	for (int i = 0; i < sys->config->n_procs; i++) {
		if (sys->s.d.views[i].present)
			return true;
	}
	return false;
}

static bool tables_known(const struct m_sys *sys)
{
	for (int i = 0; i < sys->config->n_procs; i++) {
		const struct m_view *v = &sys->s.d.views[i];

		if (v->present && v->frozen && !v->known)
			return false;
	}
	return true;
}

void m_begin_op(struct m_sys *sys, enum gp_op op)
{
	struct m_daemon *d = &sys->s.d;

	d->op = (uint8_t)op;
	d->failed = 0;
	d->n_thaw_tries = 0;
	m_age_all(sys);
}

static void complete(struct m_sys *sys)
{
	struct m_daemon *d = &sys->s.d;
	bool preempt = d->op == GP_OP_PREEMPT, failed = d->failed;

	d->op = GP_OP_NONE;
	d->phase = GP_PHASE_NONE;
	d->target = d->failed = d->n_thaw_tries = 0;
	for (int i = 0; i < sys->config->n_procs; i++)
		d->views[i].sent = d->views[i].acked = d->views[i].save_done = 0;
	if (failed && preempt)
		d->held = 0;
	if (d->resync || (failed && d->state == GP_JOB_FROZEN))
		return; /* goes on from there, or is tried again later */
	if (d->cancelling)
		m_cancel(sys);
}

static bool switch_all(struct m_sys *sys, uint32_t type)
{
	uint32_t mask = 0;

	for (int i = 0; i < sys->config->n_procs; i++) {
		struct m_view *v = &sys->s.d.views[i];

		if (!v->present)
			continue;
		if (type == GP_WIRE_FREEZE ? v->known && v->locked : v->frozen)
			mask |= 1u << i;
		if (type == GP_WIRE_FREEZE && v->known && v->locked)
			v->frozen = 1;
	}
	if (mask)
		m_tell_mover(sys, type, M_PROCS, mask);
	return mask;
}

static void begin_kill(struct m_sys *sys)
{
	sys->s.d.op = GP_OP_CANCEL;
	sys->s.d.phase = GP_PHASE_KILL;
}

static void begin_unlock(struct m_sys *sys)
{
	if (sys->s.d.on_scratch) {
		begin_kill(sys);
		return;
	}
	sys->s.d.phase = GP_PHASE_UNLOCK;
	for (uint32_t i = 0; i < sys->config->n_procs; i++) {
		struct m_view *v = &sys->s.d.views[i];

		if (v->present && (v->locked || v->step == GP_STEP_LOCKING))
			order(sys, i, GP_WIRE_UNLOCK, 0, GP_STEP_UNLOCKING);
		else
			v->step = GP_STEP_IDLE;
	}
	advance(sys);
}

static void begin_thaw(struct m_sys *sys)
{
	m_set_state(sys, GP_JOB_THAWING, by_op(&sys->s.d));
	sys->s.d.phase = GP_PHASE_TABLES;
	advance(sys);
}

static void end_tables(struct m_sys *sys)
{
	sys->s.d.phase = GP_PHASE_THAW;
	if (!switch_all(sys, GP_WIRE_THAW))
		begin_unlock(sys);
}

static bool any_frozen(const struct m_sys *sys)
{
	for (int i = 0; i < sys->config->n_procs; i++) {
		if (sys->s.d.views[i].present && sys->s.d.views[i].frozen)
			return true;
	}
	return false;
}

/* A preemption that failed before anything moved; of a job that was frozen before, maybe. */
static void back_out(struct m_sys *sys)
{
	sys->s.d.failed = 1;
	if (any_frozen(sys) && m_rule(sys, M_RULE_THAW_OUT))
		begin_thaw(sys);
	else
		begin_unlock(sys);
}

static void begin_freeze(struct m_sys *sys)
{
	sys->s.d.phase = GP_PHASE_FREEZE;
	if (!switch_all(sys, GP_WIRE_FREEZE))
		back_out(sys);
}

static void begin_save(struct m_sys *sys)
{
	m_set_state(sys, GP_JOB_EVICTING, by_op(&sys->s.d));
	sys->s.d.phase = GP_PHASE_SAVE;
	for (uint32_t i = 0; i < sys->config->n_procs; i++) {
		struct m_view *v = &sys->s.d.views[i];

		if (!v->present || !v->frozen || !v->known)
			continue;
		v->save_done = v->sent = v->acked = 0;
		m_tell_mover(sys, GP_WIRE_SAVE, i, 0);
		order(sys, i, GP_WIRE_EXPORT, 0, GP_STEP_SAVING);
	}
	advance(sys);
}

static void begin_load(struct m_sys *sys)
{
	m_set_state(sys, GP_JOB_RESTORING, by_op(&sys->s.d));
	sys->s.d.phase = GP_PHASE_LOAD;
	for (uint32_t i = 0; i < sys->config->n_procs; i++) {
		if (sys->s.d.views[i].present && sys->s.d.views[i].away)
			order(sys, i, GP_WIRE_RECREATE, 0, GP_STEP_RECREATING);
	}
	advance(sys);
}

static void end_save(struct m_sys *sys)
{
	for (int i = 0; i < sys->config->n_procs; i++) {
		if (sys->s.d.views[i].step == GP_STEP_SAVING)
			sys->s.d.views[i].step = GP_STEP_LOCKED;
	}
	if (sys->s.d.failed) {
		m_age_all(sys);
		begin_load(sys);
		return;
	}
	m_set_state(sys, GP_JOB_SWAPPED, by_op(&sys->s.d));
	complete(sys);
}

static void end_probe(struct m_sys *sys)
{
	struct m_daemon *d = &sys->s.d;

	if (d->state != GP_JOB_FROZEN)
		m_set_state(sys, GP_JOB_FROZEN, by_op(d));
	if (d->failed)
		begin_thaw(sys);
	else if (d->target == GP_JOB_FROZEN)
		complete(sys);
	else
		begin_save(sys);
}

static void end_load(struct m_sys *sys)
{
	if (any_away(sys)) {
		m_set_state(sys, GP_JOB_SWAPPED, by_op(&sys->s.d));
		complete(sys);
		return;
	}
	begin_thaw(sys);
}

static void end_unlock(struct m_sys *sys)
{
	if (sys->s.d.op == GP_OP_CANCEL) {
		begin_kill(sys);
		return;
	}
	m_set_state(sys, GP_JOB_RUNNING, by_op(&sys->s.d));
	complete(sys);
}

static bool waits(const struct m_sys *sys)
{
	switch ((enum gp_phase)sys->s.d.phase) {
	case GP_PHASE_LOCK:
		return any_in(sys, GP_STEP_LOCKING);
	case GP_PHASE_PROBE:
		return any_in(sys, GP_STEP_PROBING);
	case GP_PHASE_SAVE:
		for (int i = 0; i < sys->config->n_procs; i++) {
			const struct m_view *v = &sys->s.d.views[i];

			if (v->present && v->step == GP_STEP_SAVING &&
			    (!v->save_done || v->sent != v->acked))
				return true;
		}
		return false;
	case GP_PHASE_LOAD:
		return any_in(sys, GP_STEP_RECREATING) || any_in(sys, GP_STEP_LOADING) ||
		       any_in(sys, GP_STEP_CONFIRMING);
	case GP_PHASE_SCRATCH:
		return any_away(sys);
	case GP_PHASE_TABLES:
		return !tables_known(sys);
	case GP_PHASE_UNLOCK:
		return any_in(sys, GP_STEP_UNLOCKING);
	default:
		return true;
	}
}

static void advance(struct m_sys *sys)
{
	if (sys->s.d.op == GP_OP_NONE || waits(sys))
		return;
	switch ((enum gp_phase)sys->s.d.phase) {
	case GP_PHASE_LOCK:
		if (sys->s.d.failed)
			back_out(sys);
		else
			begin_freeze(sys);
		break;
	case GP_PHASE_PROBE:
		end_probe(sys);
		break;
	case GP_PHASE_SAVE:
		end_save(sys);
		break;
	case GP_PHASE_LOAD:
		end_load(sys);
		break;
	case GP_PHASE_SCRATCH:
		begin_thaw(sys);
		break;
	case GP_PHASE_TABLES:
		end_tables(sys);
		break;
	case GP_PHASE_UNLOCK:
		end_unlock(sys);
		break;
	default:
		break;
	}
}

static void scratch(struct m_sys *sys)
{
	sys->s.d.phase = GP_PHASE_SCRATCH;
	for (uint32_t i = 0; i < sys->config->n_procs; i++) {
		const struct m_view *v = &sys->s.d.views[i];

		if (v->present && v->away && v->step != GP_STEP_SCRATCHING)
			order(sys, i, GP_WIRE_SCRATCH, 0, GP_STEP_SCRATCHING);
	}
}

static bool can_kill(const struct m_sys *sys)
{
	const struct m_daemon *d = &sys->s.d;

	if (any_frozen(sys) && m_rule(sys, M_RULE_KILL))
		return false;
	if (d->op == GP_OP_NONE)
		return d->state != GP_JOB_FROZEN && d->state != GP_JOB_SWAPPED;
	return d->phase == GP_PHASE_LOCK || d->phase == GP_PHASE_UNLOCK;
}

void m_cancel(struct m_sys *sys)
{
	struct m_daemon *d = &sys->s.d;

	d->cancelling = 1;
	if (m_is_final(d) || d->resync)
		return;
	if (can_kill(sys)) {
		begin_kill(sys);
		return;
	}
	if (d->op != GP_OP_NONE || !d->mover_ready)
		return;
	m_begin_op(sys, GP_OP_CANCEL);
	d->on_scratch = (uint8_t)((d->on_scratch && m_rule(sys, M_RULE_SCRATCH)) || any_away(sys));
	if (!any_away(sys)) {
		begin_thaw(sys);
		return;
	}
	m_set_state(sys, GP_JOB_RESTORING, GP_BY_CANCEL);
	scratch(sys);
}

/* @known_locked: who is locked is not told again. */
void m_begin_lock(struct m_sys *sys, bool known_locked)
{
	bool moves = sys->s.d.target == GP_JOB_SWAPPED;

	sys->s.d.phase = GP_PHASE_LOCK;
	for (uint32_t i = 0; i < sys->config->n_procs; i++) {
		struct m_view *v = &sys->s.d.views[i];

		if (v->present && v->locked && known_locked)
			v->step = GP_STEP_LOCKED;
		else if (v->present)
			order(sys, i, GP_WIRE_LOCK, moves, GP_STEP_LOCKING);
	}
	advance(sys);
}

bool m_resume(struct m_sys *sys)
{
	struct m_daemon *d = &sys->s.d;

	if (d->op || d->cancelling || d->resync || !d->mover_ready ||
	    (d->state != GP_JOB_FROZEN && d->state != GP_JOB_SWAPPED))
		return false;
	m_begin_op(sys, GP_OP_RESUME);
	if (d->state == GP_JOB_SWAPPED)
		begin_load(sys);
	else
		begin_thaw(sys);
	return true;
}

/* --- answers --- */

static void backed(struct m_view *v)
{
	v->away = 0;
	v->step = GP_STEP_LOCKED;
}

static void hear_error(struct m_sys *sys, struct m_view *v)
{
	struct m_daemon *d = &sys->s.d;

	if (v->step == GP_STEP_IDLE || v->step == GP_STEP_LOCKED ||
	    (v->step == GP_STEP_LOCKING && d->phase != GP_PHASE_LOCK))
		return;
	d->failed = 1;
	switch ((enum gp_proc_step)v->step) {
	case GP_STEP_LOCKING:
	case GP_STEP_PROBING:
	case GP_STEP_RECREATING:
		v->step = v->locked ? GP_STEP_LOCKED : GP_STEP_IDLE;
		break;
	case GP_STEP_SCRATCHING: /* tried again after a while */
		v->step = GP_STEP_LOCKED;
		d->failed = 0;
		scratch(sys);
		break;
	case GP_STEP_UNLOCKING:
		m_fail(sys, "a process cannot be unlocked");
		break;
	default:
		break;
	}
}

static enum gp_proc_step step_of(uint32_t type)
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

static void hear_answer(struct m_sys *sys, const struct m_msg *m)
{
	struct m_view *v = &sys->s.d.views[m->proc];

	if (sys->s.d.op == GP_OP_NONE || m->age)
		return;
	if (m->type == GP_WIRE_ERROR)
		hear_error(sys, v);
	else if (v->step != step_of(m->type))
		return;
	switch ((enum gp_wire_type)m->type) {
	case GP_WIRE_LOCKED:
		v->step = GP_STEP_LOCKED;
		v->locked = 1;
		break;
	case GP_WIRE_PROBED:
		v->step = GP_STEP_LOCKED;
		break;
	case GP_WIRE_RELEASED:
		v->acked++;
		break;
	case GP_WIRE_RECREATED:
		v->step = GP_STEP_LOADING;
		m_tell_mover(sys, GP_WIRE_LOAD, m->proc, m->arg);
		break;
	case GP_WIRE_CONFIRMED:
	case GP_WIRE_SCRATCHED:
		backed(v);
		m_tell_mover(sys, GP_WIRE_DROP, m->proc, 0);
		break;
	case GP_WIRE_UNLOCKED:
		v->step = GP_STEP_IDLE;
		v->locked = 0;
		break;
	default:
		break;
	}
	advance(sys);
}

static void link_proc(struct m_sys *sys, uint32_t i)
{
	struct m_view *v = &sys->s.d.views[i];
	const struct m_proc *p = &sys->s.procs[i];

	if (!sys->s.d.mover_ready || !v->present || v->known)
		return;
	/* RESYNC and LEDGER say that both ends of it are there. */
	if (p->link && p->known) {
		v->known = 1;
		return;
	}
	m_tell_mover(sys, GP_WIRE_LINK, i, 0);
	if (p->alive && p->conn == M_UP)
		m_push(sys, &sys->s.to_shim[i], GP_WIRE_LINK, i, sys->s.m.alive, 0);
}

static bool hear_shim(struct m_sys *sys, uint32_t i)
{
	struct m_daemon *d = &sys->s.d;
	struct m_msg m;

	if (!d->alive || !sys->s.from_shim[i].n)
		return false;
	m = m_pop(&sys->s.from_shim[i]);
	switch (m.type) {
	case GP_WIRE_RESYNC:
		if (!d->views[i].asked) {
			d->views[i] = (struct m_view){ .present = 1 };
			/* It is killed with the others. */
			d->resync |= d->phase != GP_PHASE_KILL;
			link_proc(sys, i);
		}
		d->views[i].asked = 0;
		break;
	case GP_WIRE_CHANNELS:
		m_tell_mover(sys, GP_WIRE_CHANNELS, i, 0);
		d->views[i].known = d->mover_ready;
		advance(sys);
		break;
	default:
		hear_answer(sys, &m);
	}
	return true;
}

/* --- the mover's answers --- */

static void hear_proc(struct m_sys *sys, const struct m_msg *m)
{
	struct m_view *v = &sys->s.d.views[m->proc];

	if (m->type != GP_WIRE_ERROR && v->step != step_of(m->type))
		return;
	switch ((enum gp_wire_type)m->type) {
	case GP_WIRE_SAVED:
		v->sent++;
		v->away = 1;
		order(sys, m->proc, GP_WIRE_RELEASE, m->arg, GP_STEP_SAVING);
		break;
	case GP_WIRE_SAVE_DONE:
		v->save_done = 1;
		break;
	case GP_WIRE_LOAD_DONE:
		order(sys, m->proc, GP_WIRE_CONFIRM, 0, GP_STEP_CONFIRMING);
		if (!m_rule(sys, M_RULE_CONFIRM))
			m_tell_mover(sys, GP_WIRE_DROP, m->proc, 0);
		break;
	case GP_WIRE_ERROR:
		if (v->step != GP_STEP_SAVING && v->step != GP_STEP_LOADING)
			break;
		sys->s.d.failed = 1;
		if (v->step == GP_STEP_LOADING)
			m_fail(sys, "memory is not restored");
		v->save_done = 1;
		break;
	default:
		break;
	}
}

static void set_thawed(struct m_sys *sys)
{
	for (int i = 0; i < sys->config->n_procs; i++)
		sys->s.d.views[i].frozen = 0;
}

static void thaw_failed(struct m_sys *sys)
{
	if (sys->s.d.n_thaw_tries++ < MAX_THAW_TRIES) {
		end_tables(sys);
		return;
	}
	sys->s.d.failed = 1;
	m_set_state(sys, GP_JOB_FROZEN, by_op(&sys->s.d));
	complete(sys);
}

static void hear_switch(struct m_sys *sys, const struct m_msg *m)
{
	struct m_daemon *d = &sys->s.d;

	if (m->type == GP_WIRE_FROZEN && d->phase == GP_PHASE_FREEZE) {
		d->phase = GP_PHASE_PROBE;
		for (uint32_t i = 0; i < sys->config->n_procs; i++) {
			if (d->views[i].present && d->views[i].frozen)
				order(sys, i, GP_WIRE_PROBE, 0, GP_STEP_PROBING);
		}
		advance(sys);
	} else if (m->type == GP_WIRE_THAWED && d->phase == GP_PHASE_THAW) {
		set_thawed(sys);
		begin_unlock(sys);
	} else if (m->type == GP_WIRE_ERROR && d->phase == GP_PHASE_FREEZE) {
		back_out(sys); /* a part may be off */
	} else if (m->type == GP_WIRE_ERROR && d->phase == GP_PHASE_THAW) {
		thaw_failed(sys);
	}
}

static void mover_ready(struct m_sys *sys, uint32_t fate)
{
	struct m_daemon *d = &sys->s.d;

	d->mover_ready = 1;
	d->has_arena = 1;
	d->mover_fate = (uint8_t)fate;
	for (uint32_t i = 0; i < sys->config->n_procs; i++) {
		link_proc(sys, i);
		/* Its answer to an earlier one is still on its way. */
		if (d->resync && d->views[i].present && !d->views[i].asked) {
			d->views[i].asked = 1;
			order(sys, i, GP_WIRE_STATE, 0, (enum gp_proc_step)d->views[i].step);
		}
		/* Saved, but never released; or of a process that ended while there was no mover.
		 */
		if (!d->resync && m_rule(sys, M_RULE_LEDGER))
			m_tell_mover(sys, d->views[i].present ? GP_WIRE_DROP : GP_WIRE_UNLINK, i,
				     0);
	}
}

static bool hear_mover(struct m_sys *sys)
{
	struct m_msg m;

	if (!sys->s.d.alive || !sys->s.from_mover.n)
		return false;
	m = m_pop(&sys->s.from_mover);
	if (m.type == GP_WIRE_MOVER_READY) {
		mover_ready(sys, m.arg);
		return true;
	}
	if (sys->s.d.op == GP_OP_NONE || m.age)
		return true;
	if (m.proc < M_PROCS) {
		if (sys->s.d.views[m.proc].present)
			hear_proc(sys, &m);
		advance(sys);
	} else {
		hear_switch(sys, &m);
	}
	return true;
}

/* --- ends --- */

static bool miss_shim(struct m_sys *sys, uint32_t i)
{
	struct m_daemon *d = &sys->s.d;

	if (!d->alive || !d->views[i].present || sys->s.procs[i].alive || sys->s.from_shim[i].n)
		return false;
	memset(&d->views[i], 0, sizeof(d->views[i]));
	m_tell_mover(sys, GP_WIRE_UNLINK, i, 0);
	if (m_is_final(d))
		return true;
	if (m_any_present(sys)) {
		advance(sys);
		return true;
	}
	if (d->phase == GP_PHASE_KILL || d->state == GP_JOB_RUNNING || d->resync)
		return true;
	if (d->op != GP_OP_NONE)
		d->failed = 1;
	d->held = 0;
	m_set_state(sys, GP_JOB_RUNNING, GP_BY_PROCS);
	complete(sys);
	return true;
}

static bool miss_mover(struct m_sys *sys)
{
	struct m_daemon *d = &sys->s.d;
	bool away = any_away(sys);

	if (!d->alive || !d->mover_ready || sys->s.m.alive || sys->s.from_mover.n)
		return false;
	d->mover_ready = 0;
	for (int i = 0; i < sys->config->n_procs; i++)
		d->views[i].known = 0;
	if (d->phase == GP_PHASE_KILL || d->state == GP_JOB_RUNNING || m_is_final(d) || d->resync)
		return true;
	for (int i = 0; i < sys->config->n_procs; i++) {
		if (d->views[i].locked)
			d->views[i].step = GP_STEP_LOCKED;
	}
	d->failed = 1;
	m_age_all(sys);
	m_set_state(sys, away ? GP_JOB_SWAPPED : GP_JOB_FROZEN, GP_BY_MOVER);
	d->resync = 1;
	complete(sys);
	return true;
}

/* --- the end --- */

/* gpupres-run ended without telling how the command did. */
static bool miss_supervisor(struct m_sys *sys)
{
	struct m_daemon *d = &sys->s.d;

	if (!d->alive || sys->config->adopted || sys->s.supervisor || d->orphaned ||
	    m_is_final(d) || d->resync)
		return false;
	d->orphaned = 1;
	if (m_rule(sys, M_RULE_SUPERVISOR)) {
		if (m_any_present(sys))
			m_cancel(sys);
	} else {
		m_set_state(sys, GP_JOB_FAILED, GP_BY_SUPERVISOR);
		d->op = GP_OP_NONE;
	}
	return true;
}

static bool finish(struct m_sys *sys)
{
	struct m_daemon *d = &sys->s.d;

	if (!d->alive || m_is_final(d) || m_any_present(sys) ||
	    (d->resync && d->phase != GP_PHASE_KILL))
		return false;
	for (int i = 0; i < sys->config->n_procs; i++) {
		if (sys->s.procs[i].alive)
			return false;
	}
	m_set_state(sys,
		    d->orphaned	    ? GP_JOB_FAILED
		    : d->cancelling ? GP_JOB_CANCELLED
				    : GP_JOB_DONE,
		    sys->config->adopted ? GP_BY_PROCS : GP_BY_SUPERVISOR);
	d->op = d->phase = d->target = d->failed = d->held = d->cancelling = d->on_scratch =
		d->resync = d->orphaned = 0;
	return true;
}

/* --- requests --- */

static bool preempt(struct m_sys *sys, enum gp_job_state target, bool hold)
{
	struct m_daemon *d = &sys->s.d;

	if (d->op || d->cancelling || d->resync || !d->mover_ready || !m_any_present(sys) ||
	    (d->state != GP_JOB_RUNNING && d->state != GP_JOB_FROZEN) || d->state == target)
		return false;
	d->held |= hold;
	m_begin_op(sys, GP_OP_PREEMPT);
	d->target = (uint8_t)target;
	if (d->state == GP_JOB_RUNNING) {
		m_set_state(sys, GP_JOB_FREEZING, GP_BY_PREEMPT);
		m_begin_lock(sys, false);
	} else if (m_rule(sys, M_RULE_FREEZE_FIRST)) {
		m_begin_lock(sys, false);
	} else {
		begin_save(sys);
	}
	return true;
}

static bool request(struct m_sys *sys, enum m_event event)
{
	struct m_daemon *d = &sys->s.d;
	bool done = false;

	if (!d->alive || !sys->s.n_requests || m_is_final(d))
		return false;
	switch (event) {
	case M_ASK_FREEZE:
		done = preempt(sys, GP_JOB_FROZEN, true);
		break;
	case M_ASK_SWAP:
		done = preempt(sys, GP_JOB_SWAPPED, true);
		break;
	case M_ASK_YIELD:
		done = d->state == GP_JOB_RUNNING && preempt(sys, GP_JOB_SWAPPED, false);
		break;
	case M_ASK_RESUME:
		if (d->op || !d->held)
			return false;
		d->held = 0;
		done = m_resume(sys);
		break;
	default:
		if (d->cancelling)
			return false;
		sys->s.cancel_asked = 1;
		m_cancel(sys);
		done = true;
	}
	sys->s.n_requests -= done;
	return done;
}

static bool retry(struct m_sys *sys)
{
	struct m_daemon *d = &sys->s.d;

	if (!d->alive || d->op || d->resync || !d->mover_ready || !m_any_present(sys))
		return false;
	if (d->cancelling && !m_is_final(d)) {
		m_cancel(sys);
		return true;
	}
	return d->state == GP_JOB_FROZEN && !d->held && m_resume(sys);
}

/* LOCKED did not come in time. */
static bool tire(struct m_sys *sys)
{
	if (!sys->s.d.alive || !sys->s.n_faults || sys->s.d.phase != GP_PHASE_LOCK)
		return false;
	sys->s.n_faults--;
	/* A late ERROR must not be taken for one of UNLOCK. */
	if (m_rule(sys, M_RULE_EPOCH))
		m_age_all(sys);
	back_out(sys);
	return true;
}

static bool daemon_step(struct m_sys *sys, enum m_event event, uint32_t i)
{
	switch (event) {
	case M_DAEMON_HEARS:
		return i < sys->config->n_procs && hear_shim(sys, i);
	case M_DAEMON_MISSES:
		return i < sys->config->n_procs && miss_shim(sys, i);
	default:
		break;
	}
	if (i)
		return false;
	switch (event) {
	case M_DAEMON_STARTS:
		return m_start(sys);
	case M_DAEMON_HEARS_MOVER:
		return hear_mover(sys);
	case M_DAEMON_MISSES_MOVER:
		return miss_mover(sys);
	case M_DAEMON_MISSES_SUPERVISOR:
		return miss_supervisor(sys);
	case M_DAEMON_DECIDES:
		return m_decide(sys, false);
	case M_DAEMON_DECIDES_NOW:
		return m_decide(sys, true);
	case M_DAEMON_RESUMES:
		return sys->s.d.alive && sys->s.d.state == GP_JOB_SWAPPED && !sys->s.d.held &&
		       m_any_present(sys) && m_resume(sys);
	case M_DAEMON_RETRIES:
		return retry(sys);
	case M_FINISH:
		return finish(sys);
	case M_DAEMON_TIRES:
		return tire(sys);
	default:
		return request(sys, event);
	}
}

bool m_daemon_step(struct m_sys *sys, enum m_event event, unsigned int variant)
{
	uint8_t held = sys->s.d.held, cancelling = sys->s.d.cancelling;

	if (!daemon_step(sys, event, variant))
		return false;
	/* What this turn changed may not be in the database yet; what earlier ones did is. */
	if (sys->s.d.alive) {
		sys->s.d.stored_held = held;
		sys->s.d.stored_cancelling = cancelling;
	}
	return true;
}
