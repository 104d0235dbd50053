/* SPDX-License-Identifier: Apache-2.0 */
/* A new daemon, or mover: what daemon/recover.c does around the real gp_resync_decide(). */
#include "daemon/resync.h"

#include "daemon/proc.h"
#include "daemon/transition.h"
#include "tests/model/daemon.h"

static uint32_t count(const struct m_sys *sys, const uint8_t *what, uint32_t low, uint32_t high)
{
	uint32_t n = 0;

	for (int e = 0; e < sys->config->n_extents; e++)
		n += what[e] >= low && what[e] <= high;
	return n;
}

static struct gp_resync_proc resync_of(const struct m_sys *sys, uint32_t i)
{
	const struct m_proc *p = &sys->s.procs[i];
	struct gp_resync_proc r = {
		.n_saved = count(sys, p->copy, M_VALID, M_STALE),
		.n_released = count(sys, p->mem, M_NONE, M_NONE),
		.n_unfilled = count(sys, p->mem, M_BLANK, M_FILLED),
	};

	if (!sys->s.d.views[i].present)
		r.presence = p->alive && m_rule(sys, M_RULE_LATE) ? GP_RESYNC_LATE : GP_RESYNC_GONE;
	r.state = count(sys, p->mem, M_SCRATCH, M_SCRATCH) ? GP_RESYNC_SCRATCH
		  : r.n_released			   ? GP_RESYNC_AWAY
		  : r.n_unfilled			   ? GP_RESYNC_UNFILLED
		  : p->locked				   ? GP_RESYNC_LOCKED
							   : GP_RESYNC_OPEN;
	return r;
}

static void take_flags(struct m_sys *sys, const struct gp_resync_proc *procs, const uint32_t *flags)
{
	for (uint32_t i = 0; i < sys->config->n_procs; i++) {
		struct m_view *v = &sys->s.d.views[i];

		if (flags[i] & GP_RESYNC_DO_DROP)
			m_tell_mover(sys,
				     procs[i].presence == GP_RESYNC_GONE ? GP_WIRE_UNLINK
									 : GP_WIRE_DROP,
				     i, 0);
		if (!v->present)
			continue;
		v->locked = !!(flags[i] & GP_RESYNC_IS_LOCKED);
		v->frozen = !!(flags[i] & GP_RESYNC_MAY_BE_FROZEN);
		v->away = !!(flags[i] & GP_RESYNC_IS_AWAY);
		v->step = v->locked ? GP_STEP_LOCKED : GP_STEP_IDLE;
	}
}

static void stay_frozen(struct m_sys *sys)
{
	if (!m_rule(sys, M_RULE_REFREEZE)) {
		sys->s.d.state = GP_JOB_FROZEN;
		return;
	}
	m_begin_op(sys, GP_OP_PREEMPT);
	sys->s.d.target = GP_JOB_FROZEN;
	m_begin_lock(sys, true);
}

static void act(struct m_sys *sys, const struct gp_resync_verdict *v)
{
	switch (v->outcome) {
	case GP_RESYNC_STAY_FROZEN:
		stay_frozen(sys);
		break;
	case GP_RESYNC_THAW:
	case GP_RESYNC_BRING_BACK:
		m_resume(sys);
		break;
	case GP_RESYNC_ORPHANED:
		sys->s.d.orphaned = 1;
		m_cancel(sys);
		break;
	case GP_RESYNC_CANCEL:
	case GP_RESYNC_LOST:
		m_cancel(sys);
		break;
	case GP_RESYNC_EXPEL:
		m_fail(sys, "the job has ended, and a process of it stands still");
		break;
	default:
		break;
	}
}

bool m_decide(struct m_sys *sys, bool without_late)
{
	struct m_daemon *d = &sys->s.d;
	struct gp_resync_proc procs[M_PROCS] = { 0 };
	struct gp_resync_verdict v;
	uint32_t flags[M_PROCS] = { 0 };
	bool late = false;
	const struct gp_resync_job job = {
		.state = (enum gp_job_state)d->state,
		.held = d->held,
		.cancelling = d->cancelling,
		.same_boot = true,
		.adopted = sys->config->adopted,
		.supervised = sys->s.supervisor,
		.mover = (enum gp_resync_mover)d->mover_fate,
	};

	if (!d->alive || !d->resync || !d->mover_ready || d->op)
		return false;
	for (uint32_t i = 0; i < sys->config->n_procs; i++) {
		procs[i] = resync_of(sys, i);
		/* STAY_FROZEN freezes at once. */
		if (sys->s.procs[i].alive && d->views[i].present &&
		    (d->views[i].asked || !d->views[i].known))
			return false;
		if (sys->s.procs[i].alive && !d->views[i].present)
			late = true;
		/* One that can thaw itself has done so within the grace. */
		if (late && without_late && sys->s.procs[i].locked &&
		    !m_lacks(sys, &sys->s.procs[i]) && !sys->s.procs[i].moving &&
		    !d->views[i].present)
			return false;
	}
	if (late != without_late)
		return false;
	gp_resync_decide(&job, procs, sys->config->n_procs, &v, flags);
	if (v.outcome == GP_RESYNC_WAIT)
		return false;
	d->resync = 0;
	if (v.state != job.state)
		m_set_state(sys, v.state, GP_BY_RESYNC);
	d->held = v.held;
	d->on_scratch |= v.on_scratch;
	take_flags(sys, procs, flags);
	act(sys, &v);
	return true;
}

bool m_start(struct m_sys *sys)
{
	struct m_daemon *d = &sys->s.d;

	if (d->alive)
		return false;
	d->alive = 1;
	d->resync = !m_is_final(d);
	return true;
}
