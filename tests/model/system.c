/* SPDX-License-Identifier: Apache-2.0 */
/* The world around the daemon: processes with their shims, the mover, the arena, and crashes. */
#include "tests/model/system.h"

#include "daemon/proc.h"
#include "daemon/resync.h"

#include <string.h>

#define MAX_AGE 3

bool m_rule(const struct m_sys *sys, enum m_rule rule)
{
	return !(sys->config->without & 1u << rule);
}

void m_fail(struct m_sys *sys, const char *what)
{
	if (!sys->bad)
		sys->bad = what;
}

void m_push(struct m_sys *sys, struct m_queue *q, uint32_t type, uint32_t proc, uint32_t arg,
	    uint32_t age)
{
	if (q->n == M_QUEUE) {
		m_fail(sys, "a queue of the model is too short");
		return;
	}
	q->msgs[q->n++] =
		(struct m_msg){ (uint8_t)type, (uint8_t)proc, (uint8_t)arg, (uint8_t)age };
}

struct m_msg m_pop(struct m_queue *q)
{
	struct m_msg m = q->msgs[0];

	q->n--;
	memmove(q->msgs, q->msgs + 1, q->n * sizeof(q->msgs[0]));
	memset(&q->msgs[q->n], 0, sizeof(q->msgs[0]));
	return m;
}

static void clear(struct m_queue *q)
{
	memset(q, 0, sizeof(*q));
}

static void drop_last(struct m_queue *q)
{
	if (q->n)
		memset(&q->msgs[--q->n], 0, sizeof(q->msgs[0]));
}

static bool has_epoch(uint32_t type)
{
	return type != GP_WIRE_LINK && type != GP_WIRE_UNLINK && type != GP_WIRE_CHANNELS &&
	       type != GP_WIRE_DROP && type != GP_WIRE_RESYNC && type != GP_WIRE_STATE &&
	       type != GP_WIRE_MOVER_READY;
}

static void age(uint8_t *a)
{
	*a += *a < MAX_AGE;
}

static void age_queue(struct m_queue *q)
{
	for (int i = 0; i < q->n; i++) {
		if (has_epoch(q->msgs[i].type))
			age(&q->msgs[i].age);
	}
}

void m_age_all(struct m_sys *sys)
{
	for (int i = 0; i < sys->config->n_procs; i++) {
		struct m_proc *p = &sys->s.procs[i];

		age_queue(&sys->s.to_shim[i]);
		age_queue(&sys->s.from_shim[i]);
		if (p->slot)
			age(&p->slot_age);
		if (p->task)
			age(&p->task_age);
	}
	age_queue(&sys->s.to_mover);
	age_queue(&sys->s.from_mover);
}

/* --- a process and its shim --- */

static unsigned int mem_mask(const struct m_sys *sys, const struct m_proc *p, enum m_mem mem)
{
	unsigned int mask = 0;

	for (int e = 0; e < sys->config->n_extents; e++)
		mask |= (p->mem[e] == mem) << e;
	return mask;
}

/* Memory or bytes. */
bool m_lacks(const struct m_sys *sys, const struct m_proc *p)
{
	return mem_mask(sys, p, M_NONE) | mem_mask(sys, p, M_BLANK) | mem_mask(sys, p, M_FILLED);
}

static void clear_link(struct m_proc *p)
{
	p->slot = p->slot_age = 0;
	p->task = p->task_age = p->task_at = 0;
}

/* Its kernels go on, and may change whatever they like. */
static void turn_on(const struct m_sys *sys, struct m_proc *p)
{
	p->off = 0;
	for (int e = 0; e < sys->config->n_extents; e++) {
		if (p->copy[e] == M_VALID)
			p->copy[e] = M_STALE;
	}
}

static void shim_says(struct m_sys *sys, uint32_t i, const struct m_msg *request, uint32_t type,
		      uint32_t arg)
{
	if (sys->s.procs[i].conn == M_UP)
		m_push(sys, &sys->s.from_shim[i], type, i, arg, request->age);
}

static void shim_release(struct m_sys *sys, uint32_t i, const struct m_msg *m)
{
	struct m_proc *p = &sys->s.procs[i];

	/* The copy may have gone with the daemon: what is here is kept. */
	if (p->conn != M_UP && m_rule(sys, M_RULE_RELEASE))
		return;
	if (p->mem[m->arg] == M_OWN) {
		if (p->copy[m->arg] != M_VALID)
			m_fail(sys, "memory is released before its copy is valid");
		p->mem[m->arg] = M_NONE;
	}
	shim_says(sys, i, m, GP_WIRE_RELEASED, 1);
}

static void shim_recreate(struct m_sys *sys, uint32_t i, const struct m_msg *m)
{
	struct m_proc *p = &sys->s.procs[i];
	unsigned int n = 0;

	if (!p->link) {
		shim_says(sys, i, m, GP_WIRE_ERROR, 0);
		return;
	}
	for (int e = 0; e < sys->config->n_extents; e++) {
		if (p->mem[e] == M_NONE)
			p->mem[e] = M_BLANK;
	}
	p->slot = (uint8_t)(mem_mask(sys, p, M_BLANK) | mem_mask(sys, p, M_FILLED));
	p->slot_age = p->slot ? m->age : 0;
	n = (unsigned int)__builtin_popcount(p->slot);
	shim_says(sys, i, m, GP_WIRE_RECREATED, n);
}

static void shim_confirm(struct m_sys *sys, uint32_t i, const struct m_msg *m)
{
	struct m_proc *p = &sys->s.procs[i];

	if (mem_mask(sys, p, M_BLANK))
		m_fail(sys, "memory without its bytes is confirmed");
	for (int e = 0; e < sys->config->n_extents; e++) {
		if (p->mem[e] == M_BLANK || p->mem[e] == M_FILLED)
			p->mem[e] = M_OWN;
	}
	shim_says(sys, i, m, GP_WIRE_CONFIRMED, 0);
}

static void shim_scratch(struct m_sys *sys, uint32_t i, const struct m_msg *m)
{
	struct m_proc *p = &sys->s.procs[i];
	bool reason = sys->s.cancel_asked || (!sys->config->adopted && !sys->s.supervisor);

	for (int j = 0; j < sys->config->n_procs; j++) {
		for (int e = 0; e < sys->config->n_extents; e++)
			reason |= sys->s.procs[j].lost[e];
	}
	if (!reason)
		m_fail(sys, "memory is given up for no reason");
	for (int e = 0; e < sys->config->n_extents; e++) {
		if (p->mem[e] != M_OWN)
			p->mem[e] = M_SCRATCH;
	}
	shim_says(sys, i, m, GP_WIRE_SCRATCHED, 0);
}

static void shim_unlock(struct m_sys *sys, uint32_t i, const struct m_msg *m)
{
	struct m_proc *p = &sys->s.procs[i];

	if (m_lacks(sys, p) || mem_mask(sys, p, M_SCRATCH)) {
		shim_says(sys, i, m, GP_WIRE_ERROR, 0);
		return;
	}
	p->locked = p->moving = 0;
	shim_says(sys, i, m, GP_WIRE_UNLOCKED, 0);
}

static void shim_serve(struct m_sys *sys, uint32_t i, const struct m_msg *m)
{
	struct m_proc *p = &sys->s.procs[i];

	switch (m->type) {
	case GP_WIRE_STATE:
		shim_says(sys, i, m, GP_WIRE_RESYNC, 0);
		return;
	case GP_WIRE_LINK:
		p->link = m->arg;
		p->slot = p->slot_age = 0;
		shim_says(sys, i, m, GP_WIRE_CHANNELS, 0);
		return;
	case GP_WIRE_LOCK:
		p->locked = 1;
		p->moving |= m->arg;
		shim_says(sys, i, m, GP_WIRE_LOCKED, 0);
		return;
	case GP_WIRE_UNLOCK:
		shim_unlock(sys, i, m);
		return;
	default:
		break;
	}
	if (!p->locked) {
		shim_says(sys, i, m, GP_WIRE_ERROR, 0);
		return;
	}
	switch (m->type) {
	case GP_WIRE_PROBE:
		shim_says(sys, i, m, GP_WIRE_PROBED, 0);
		break;
	case GP_WIRE_EXPORT:
		p->slot = (uint8_t)(p->link ? mem_mask(sys, p, M_OWN) : 0);
		p->slot_age = p->slot ? m->age : 0;
		break;
	case GP_WIRE_RELEASE:
		shim_release(sys, i, m);
		break;
	case GP_WIRE_RECREATE:
		shim_recreate(sys, i, m);
		break;
	case GP_WIRE_CONFIRM:
		shim_confirm(sys, i, m);
		break;
	case GP_WIRE_SCRATCH:
		shim_scratch(sys, i, m);
		break;
	default:
		m_fail(sys, "a shim does not take this message");
	}
}

/* The requests that may fail: no room, an application in the way. */
static bool shim_can_refuse(const struct m_msg *m)
{
	return m->type == GP_WIRE_LOCK || m->type == GP_WIRE_RECREATE || m->type == GP_WIRE_SCRATCH;
}

static bool shim_step(struct m_sys *sys, enum m_event event, uint32_t i)
{
	struct m_proc *p = &sys->s.procs[i];
	struct m_queue *q = &sys->s.to_shim[i];
	struct m_msg m;

	if (i >= sys->config->n_procs || !p->alive)
		return false;
	switch (event) {
	case M_SHIM_TAKES:
		if (!q->n)
			return false;
		m = m_pop(q);
		shim_serve(sys, i, &m);
		return true;
	case M_SHIM_REFUSES:
		if (!q->n || !sys->s.n_faults || !shim_can_refuse(&q->msgs[0]))
			return false;
		sys->s.n_faults--;
		m = m_pop(q);
		shim_says(sys, i, &m, GP_WIRE_ERROR, 0);
		return true;
	case M_SHIM_LOSES:
		if (p->conn != M_OLD)
			return false;
		p->conn = M_DOWN;
		clear(q); /* it may not even read what is left */
		return true;
	case M_SHIM_CONNECTS:
		if (p->conn != M_DOWN || !sys->s.d.alive)
			return false;
		p->conn = M_UP;
		m_push(sys, &sys->s.from_shim[i], GP_WIRE_RESYNC, i, 0, 0);
		return true;
	case M_SHIM_THAWS:
		if (p->conn != M_DOWN || !p->locked ||
		    mem_mask(sys, p, M_OWN) + 1 != 1u << sys->config->n_extents)
			return false;
		if (p->moving && m_rule(sys, M_RULE_SELF_THAW))
			return false;
		p->locked = p->moving = 0;
		turn_on(sys, p);
		return true;
	default:
		return false;
	}
}

/* --- the mover --- */

static void mover_says(struct m_sys *sys, uint32_t type, uint32_t i, uint32_t arg, uint32_t msg_age)
{
	if (sys->s.m.conn == M_UP)
		m_push(sys, &sys->s.from_mover, type, i, arg, msg_age);
}

static void mover_switch(struct m_sys *sys, const struct m_msg *m, bool off, unsigned int limit)
{
	for (uint32_t i = 0; i < sys->config->n_procs && limit; i++) {
		struct m_proc *p = &sys->s.procs[i];

		if (!(m->arg & 1u << i) || !p->alive)
			continue;
		limit--;
		if (off)
			p->off = 1;
		else
			turn_on(sys, p);
	}
}

/* 0: all of it; else how many processes it gets to before the driver refuses. */
static void mover_freeze(struct m_sys *sys, const struct m_msg *m, bool off, bool partly)
{
	for (uint32_t i = 0; i < sys->config->n_procs; i++) {
		const struct m_proc *p = &sys->s.procs[i];

		if ((m->arg & 1u << i) && p->alive && !p->known) {
			mover_says(sys, GP_WIRE_ERROR, M_PROCS, 0, m->age);
			return;
		}
	}
	/* Its daemon is gone, so whoever was locked may thaw itself, and stay unfrozen. */
	if (off && sys->s.m.conn == M_OLD && m_rule(sys, M_RULE_UNDO))
		return;
	mover_switch(sys, m, off, partly ? 1 : M_PROCS);
	if (partly)
		mover_says(sys, GP_WIRE_ERROR, M_PROCS, 1, m->age);
	else
		mover_says(sys, off ? GP_WIRE_FROZEN : GP_WIRE_THAWED, M_PROCS, 0, m->age);
}

static void mover_drop(struct m_sys *sys, uint32_t i)
{
	struct m_proc *p = &sys->s.procs[i];

	if (p->alive && m_lacks(sys, p)) {
		bool lost = false;

		for (int e = 0; e < sys->config->n_extents; e++)
			lost |= p->lost[e];
		if (!lost)
			m_fail(sys, "a copy is dropped that is still needed");
	}
	memset(p->copy, M_NO_COPY, sizeof(p->copy));
	p->task = p->task_age = p->task_at = 0;
}

static void mover_serve(struct m_sys *sys, const struct m_msg *m)
{
	/* FREEZE and THAW are of several. */
	struct m_proc *p = &sys->s.procs[m->proc % M_PROCS];

	switch (m->type) {
	case GP_WIRE_LINK:
		p->known = 0;
		break;
	case GP_WIRE_CHANNELS:
		p->known = p->alive;
		break;
	case GP_WIRE_UNLINK:
		mover_drop(sys, m->proc);
		p->known = 0;
		break;
	case GP_WIRE_DROP:
		mover_drop(sys, m->proc);
		break;
	case GP_WIRE_FREEZE:
	case GP_WIRE_THAW:
		mover_freeze(sys, m, m->type == GP_WIRE_FREEZE, false);
		break;
	case GP_WIRE_SAVE:
	case GP_WIRE_LOAD:
		if (!p->alive)
			break;
		p->task = m->type == GP_WIRE_SAVE ? M_SAVING : M_LOADING;
		p->task_age = m->age;
		p->task_at = 0;
		/* Nothing comes over the link for it. */
		if (m->type == GP_WIRE_LOAD && !m->arg) {
			p->task = p->task_age = 0;
			mover_says(sys, GP_WIRE_LOAD_DONE, m->proc, 0, m->age);
		}
		break;
	default:
		m_fail(sys, "a mover does not take this message");
	}
}

static void mover_save(struct m_sys *sys, uint32_t i)
{
	struct m_proc *p = &sys->s.procs[i];

	p->copy[p->task_at] = p->off ? M_VALID : M_STALE;
	mover_says(sys, GP_WIRE_SAVED, i, p->task_at, p->task_age);
}

static void mover_load(struct m_sys *sys, uint32_t i)
{
	struct m_proc *p = &sys->s.procs[i];
	uint8_t *mem = &p->mem[p->task_at];

	if (*mem != M_BLANK)
		return; /* filled before, or given up */
	if (p->copy[p->task_at] != M_VALID)
		m_fail(sys, "bytes are loaded from a copy that is not valid");
	*mem = M_FILLED;
}

static bool mover_works(struct m_sys *sys, uint32_t i)
{
	struct m_proc *p = &sys->s.procs[i];
	uint8_t task = p->task, task_age = p->task_age;

	if (!p->alive || !task || !p->slot || p->slot_age != task_age)
		return false;
	while (!(p->slot & 1u << p->task_at))
		p->task_at++;
	if (task == M_SAVING)
		mover_save(sys, i);
	else
		mover_load(sys, i);
	p->task_at++;
	if (p->slot >> p->task_at)
		return true;
	clear_link(p);
	mover_says(sys, task == M_SAVING ? GP_WIRE_SAVE_DONE : GP_WIRE_LOAD_DONE, i, 0, task_age);
	return true;
}

static bool mover_fault(struct m_sys *sys, enum m_event event, uint32_t i)
{
	struct m_queue *q = &sys->s.to_mover;
	struct m_proc *p;
	struct m_msg m;

	if (!sys->s.n_faults)
		return false;
	if (event == M_MOVER_CANNOT) {
		p = &sys->s.procs[i];
		if (i >= sys->config->n_procs || p->task != M_SAVING || !p->slot ||
		    p->slot_age != p->task_age)
			return false;
		mover_says(sys, GP_WIRE_ERROR, i, 0, p->task_age);
		clear_link(p);
	} else {
		if (i || !q->n ||
		    (q->msgs[0].type != GP_WIRE_FREEZE && q->msgs[0].type != GP_WIRE_THAW))
			return false;
		m = m_pop(q);
		if (event == M_MOVER_FAILS)
			mover_freeze(sys, &m, m.type == GP_WIRE_FREEZE, true);
		else
			mover_says(sys, GP_WIRE_ERROR, M_PROCS, 0, m.age);
	}
	sys->s.n_faults--;
	return true;
}

static void mover_connect(struct m_sys *sys, enum gp_resync_mover fate)
{
	sys->s.m.conn = M_UP;
	m_push(sys, &sys->s.from_mover, GP_WIRE_MOVER_READY, 0, fate, 0);
}

static bool mover_step(struct m_sys *sys, enum m_event event, uint32_t i)
{
	struct m_mover *mover = &sys->s.m;
	struct m_queue *q = &sys->s.to_mover;
	struct m_msg m;

	if (event == M_MOVER_STARTS) {
		/* Only when the end of the last one has been noticed. */
		if (i || mover->alive || !sys->s.d.alive || sys->s.d.mover_ready ||
		    sys->s.from_mover.n)
			return false;
		mover->alive = 1;
		mover_connect(sys, sys->s.d.has_arena ? GP_RESYNC_MOVER_NEW : GP_RESYNC_MOVER_LOST);
		return true;
	}
	if (!mover->alive)
		return false;
	if (event == M_MOVER_WORKS)
		return i < sys->config->n_procs && mover_works(sys, i);
	if (event != M_MOVER_TAKES && event != M_MOVER_LOSES && event != M_MOVER_CONNECTS)
		return mover_fault(sys, event, i);
	if (i)
		return false;
	if (event == M_MOVER_TAKES) {
		if (!q->n)
			return false;
		m = m_pop(q);
		mover_serve(sys, &m);
		return true;
	}
	if (event == M_MOVER_LOSES) {
		if (mover->conn != M_OLD)
			return false;
		mover->conn = M_DOWN;
		clear(q);
		/* What the last daemon ordered is given up; what is saved stays saved. */
		for (int j = 0; j < M_PROCS; j++)
			clear_link(&sys->s.procs[j]);
		return true;
	}
	if (mover->conn != M_DOWN || !sys->s.d.alive)
		return false;
	mover_connect(sys, GP_RESYNC_MOVER_SAME);
	return true;
}

/* --- crashes --- */

/* The last one that had the arena open is gone. */
static void lose_arena(struct m_sys *sys)
{
	for (int i = 0; i < sys->config->n_procs; i++) {
		struct m_proc *p = &sys->s.procs[i];

		for (int e = 0; e < sys->config->n_extents; e++) {
			if (p->alive &&
			    (p->mem[e] == M_NONE || p->mem[e] == M_BLANK || p->mem[e] == M_FILLED))
				p->lost[e] = 1;
			p->copy[e] = M_NO_COPY;
		}
	}
}

static bool arena_is_held(const struct m_sys *sys)
{
	return sys->s.m.alive ||
	       (sys->s.d.alive && sys->s.d.has_arena && m_rule(sys, M_RULE_ARENA));
}

static bool crash_daemon(struct m_sys *sys, unsigned int unsent)
{
	struct m_daemon *d = &sys->s.d;
	struct m_daemon dead = { .state = d->state };

	if (!d->alive || unsent >> (sys->config->n_procs + 1))
		return false;
	/* The database has it all, or all but what the last turn changed. */
	dead.held = unsent & 1 ? d->stored_held : d->held;
	dead.cancelling = unsent & 1 ? d->stored_cancelling : d->cancelling;
	*d = dead;
	for (unsigned int i = 0; i < sys->config->n_procs; i++) {
		struct m_proc *p = &sys->s.procs[i];

		clear(&sys->s.from_shim[i]);
		if (p->alive && p->conn == M_UP)
			p->conn = M_OLD;
		if (unsent & 1u << i)
			drop_last(&sys->s.to_shim[i]);
	}
	clear(&sys->s.from_mover);
	if (sys->s.m.alive && sys->s.m.conn == M_UP)
		sys->s.m.conn = M_OLD;
	if (unsent & 1u << sys->config->n_procs)
		drop_last(&sys->s.to_mover);
	return true;
}

static bool crash_mover(struct m_sys *sys)
{
	if (!sys->s.m.alive)
		return false;
	memset(&sys->s.m, 0, sizeof(sys->s.m));
	clear(&sys->s.to_mover);
	for (int i = 0; i < sys->config->n_procs; i++) {
		struct m_proc *p = &sys->s.procs[i];
		struct m_queue *q = &sys->s.to_shim[i];

		p->link = p->known = 0;
		clear_link(p);
		for (int j = 0; j < q->n; j++) {
			if (q->msgs[j].type == GP_WIRE_LINK)
				q->msgs[j].arg = 0; /* leads nowhere */
		}
	}
	return true;
}

static void proc_dies(struct m_sys *sys, uint32_t i)
{
	struct m_proc *p = &sys->s.procs[i];
	struct m_proc dead = { .conn = p->conn };

	/* The mover keeps its copies until it is told. */
	memcpy(dead.copy, p->copy, sizeof(dead.copy));
	*p = dead;
	clear(&sys->s.to_shim[i]);
}

static bool crash_step(struct m_sys *sys, enum m_event event, unsigned int variant)
{
	bool done = false;

	if (!sys->s.n_crashes)
		return false;
	if (event == M_CRASH_DAEMON)
		done = crash_daemon(sys, variant);
	else if (event == M_CRASH_MOVER)
		done = !variant && crash_mover(sys);
	else if (event == M_CRASH_SUPERVISOR) {
		done = !variant && sys->s.supervisor;
		sys->s.supervisor = 0;
	} else if (variant < sys->config->n_procs && sys->s.procs[variant].alive) {
		proc_dies(sys, variant);
		done = true;
	}
	if (!done)
		return false;
	sys->s.n_crashes--;
	if (!arena_is_held(sys))
		lose_arena(sys);
	return true;
}

static bool kill_all(struct m_sys *sys)
{
	bool any = false;

	for (uint32_t i = 0; i < sys->config->n_procs; i++) {
		const struct m_proc *p = &sys->s.procs[i];

		if (!p->alive)
			continue;
		if (p->off)
			m_fail(sys, "a process is killed while it is frozen");
		proc_dies(sys, i);
		any = true;
	}
	return any;
}

/* --- all together --- */

void m_init(struct m_sys *sys, const struct m_config *config)
{
	memset(sys, 0, sizeof(*sys));
	sys->config = config;
	sys->s.d = (struct m_daemon){ .alive = 1, .mover_ready = 1, .has_arena = 1 };
	sys->s.d.state = GP_JOB_RUNNING;
	sys->s.m.alive = 1;
	sys->s.supervisor = !config->adopted;
	for (int i = 0; i < config->n_procs; i++) {
		sys->s.d.views[i].present = sys->s.d.views[i].known = 1;
		sys->s.procs[i].alive = sys->s.procs[i].link = sys->s.procs[i].known = 1;
	}
	sys->s.n_crashes = config->n_crashes;
	sys->s.n_requests = config->n_requests;
	sys->s.n_faults = config->n_faults;
}

bool m_step(struct m_sys *sys, enum m_event event, unsigned int variant)
{
	switch (event) {
	case M_SHIM_TAKES:
	case M_SHIM_LOSES:
	case M_SHIM_CONNECTS:
	case M_SHIM_THAWS:
	case M_SHIM_REFUSES:
		return variant < M_PROCS && shim_step(sys, event, variant);
	case M_MOVER_TAKES:
	case M_MOVER_WORKS:
	case M_MOVER_LOSES:
	case M_MOVER_CONNECTS:
	case M_MOVER_STARTS:
	case M_MOVER_REFUSES:
	case M_MOVER_FAILS:
	case M_MOVER_CANNOT:
		return variant < M_PROCS && mover_step(sys, event, variant);
	case M_CRASH_DAEMON:
	case M_CRASH_MOVER:
	case M_CRASH_PROC:
	case M_CRASH_SUPERVISOR:
		return crash_step(sys, event, variant);
	case M_KILL:
		return !variant && sys->s.d.alive && sys->s.d.phase == GP_PHASE_KILL &&
		       kill_all(sys);
	default:
		return variant < M_PROCS && m_daemon_step(sys, event, variant);
	}
}

static void check_proc(struct m_sys *sys, const struct m_proc *p)
{
	for (int e = 0; e < sys->config->n_extents; e++) {
		if (p->mem[e] == M_OWN || p->lost[e])
			continue;
		if (p->mem[e] != M_SCRATCH && p->copy[e] != M_VALID)
			m_fail(sys, "bytes are lost");
	}
	if (!p->off && m_lacks(sys, p))
		m_fail(sys, "a kernel runs while its memory is away");
	if (!p->off && !p->locked && mem_mask(sys, p, M_SCRATCH))
		m_fail(sys, "a program runs on scratch memory");
	if (p->off && !p->locked)
		m_fail(sys, "a process is frozen that is not locked");
}

void m_check(struct m_sys *sys)
{
	bool runs = false, lacks = false;

	for (int i = 0; i < sys->config->n_procs; i++) {
		const struct m_proc *p = &sys->s.procs[i];

		if (!p->alive)
			continue;
		check_proc(sys, p);
		runs |= !p->off;
		lacks |= m_lacks(sys, p);
		if (sys->s.d.state >= GP_JOB_DONE && (p->locked || p->off))
			m_fail(sys, "the job has ended, and a process of it stands still");
	}
	if (runs && lacks)
		m_fail(sys, "one process runs while the memory of another is away");
}

bool m_is_settled(const struct m_sys *sys)
{
	const struct m_daemon *d = &sys->s.d;
	bool lacks = false, off = true, on = true, any = false, copies = false;

	for (int i = 0; i < sys->config->n_procs; i++) {
		const struct m_proc *p = &sys->s.procs[i];

		for (int e = 0; e < sys->config->n_extents; e++)
			copies |= p->copy[e] != M_NO_COPY;
		if (!p->alive)
			continue;
		any = true;
		lacks |= m_lacks(sys, p) || mem_mask(sys, p, M_SCRATCH);
		off &= p->off && p->locked;
		on &= !p->off && !p->locked;
	}
	if (!d->alive || !d->mover_ready || d->op)
		return false;
	/* What nobody needs takes room in the arena from others. */
	if (copies && d->state != GP_JOB_SWAPPED)
		return false;
	if (d->state >= GP_JOB_DONE)
		return !any;
	if (!any || d->cancelling || d->resync)
		return false;
	if (d->state == GP_JOB_RUNNING)
		return on && !lacks && !d->held;
	if (d->state == GP_JOB_FROZEN)
		return off && !lacks && d->held;
	return d->state == GP_JOB_SWAPPED && off && d->held;
}
