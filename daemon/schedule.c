/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/schedule.h"

#include "base/log.h"
#include "base/size.h"
#include "base/time.h"
#include "daemon/preempt.h"
#include "policy/view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * Memory can come free behind our back (a process outside gpupres ends), so while somebody waits we
 * look again at this interval.
 */
#define SCHEDULE_RETRY_NS (250 * GP_NS_PER_MS)
/* A granted allocation has its memory by then (64 GB take 0.15 s to create), or asks again. */
#define SCHEDULE_GRANT_NS (2 * GP_NS_PER_SEC)
/* What the driver reports as free need not all be allocatable: so often, then it is refused. */
#define SCHEDULE_MAX_GRANTS 2
/* A job that cannot be made a victim now. */
#define SCHEDULE_REST_NS (5 * GP_NS_PER_SEC)
/*
 * What a policy is shown: the effort of a decision grows with its square. More jobs than this do
 * not share a device, as each has a context on it.
 */
#define SCHEDULE_MAX_FIRST  128
#define SCHEDULE_MAX_TURN   64
#define SCHEDULE_MAX_ACTIVE (GP_POLICY_MAX_JOBS - SCHEDULE_MAX_FIRST - SCHEDULE_MAX_TURN)
/* A mover that owes an answer so long has other troubles: its device is no place for new jobs. */
#define SCHEDULE_SILENT_NS (2 * GP_NS_PER_SEC)

void gp_schedule_want(struct gp_daemon *daemon)
{
	daemon->schedule_wanted = true;
}

void gp_schedule_later(struct gp_daemon *daemon)
{
	gp_timer_arm(&daemon->loop, &daemon->schedule_timer, gp_now_ns() + SCHEDULE_RETRY_NS);
}

void gp_schedule_turn(struct gp_daemon *daemon)
{
	struct gp_wire_msg m;

	if (!daemon->schedule_wanted)
		return;
	daemon->schedule_wanted = false;
	gp_list_for_each(d, &daemon->devices, struct gp_device, node) {
		if (!d->ready)
			continue;
		if (d->meminfo_pending) {
			/* Memory may have come free since it was asked for. */
			d->meminfo_stale = true;
			continue;
		}
		d->meminfo_pending = true;
		d->meminfo_asked_ns = gp_now_ns();
		gp_wire_init(&m, GP_WIRE_MEMINFO);
		gp_device_send(d, &m, NULL, 0);
	}
}

static struct gp_need *schedule_need_of(const struct gp_device *d, const struct gp_job *job)
{
	gp_list_for_each(need, &d->needs, struct gp_need, node) {
		if (need->proc->job == job)
			return need;
	}
	return NULL;
}

/* What was granted to @proc and is not there yet. */
static uint64_t schedule_granted(const struct gp_proc *proc, uint64_t now_ns)
{
	uint64_t target = proc->granted_from_bytes + proc->granted_bytes;

	if (now_ns >= proc->granted_until_ns || proc->movable_bytes >= target)
		return 0;
	return target - proc->movable_bytes;
}

/*
 * Spoken for is what a started job declared and has not taken yet, what one that is coming back has
 * not created yet, and what was granted to an allocation.
 */
static uint64_t schedule_promised(const struct gp_device *d)
{
	uint64_t sum = 0, now_ns = gp_now_ns();

	gp_list_for_each(job, &d->daemon->registry.active, struct gp_job, place) {
		uint64_t has = gp_job_device_bytes(job), granted = 0;

		if (job->device != d)
			continue;
		gp_list_for_each(proc, &job->procs, struct gp_proc, node)
			granted += schedule_granted(proc, now_ns);
		if (job->state == GP_JOB_RESTORING && !job->cancelling)
			sum += gp_job_released_bytes(job);
		if ((job->state == GP_JOB_STARTING || job->state == GP_JOB_RUNNING) &&
		    job->mem_bytes > has + granted)
			sum += job->mem_bytes - has - granted;
		sum += granted;
	}
	return sum;
}

/* Swapped, and back as soon as there is room. */
static bool schedule_wants_back(const struct gp_job *job)
{
	return job->state == GP_JOB_SWAPPED && !job->held && !job->cancelling && !job->recovering &&
	       job->op == GP_OP_NONE;
}

static bool schedule_is_before(const struct gp_job *a, const struct gp_job *b)
{
	if (a->priority != b->priority)
		return a->priority > b->priority;
	return a->state_since_ns != b->state_since_ns ? a->state_since_ns < b->state_since_ns
						      : a->id < b->id;
}

static void schedule_fill(const struct gp_device *d, const struct gp_job *job, uint64_t now_ns,
			  struct gp_policy_job *ret)
{
	const struct gp_need *need = schedule_need_of(d, job);
	bool rests = now_ns < job->rests_until_ns;

	*ret = (struct gp_policy_job){
		.id = job->id,
		.priority = job->priority,
		.device_bytes = gp_job_device_bytes(job),
		.since_ns = job->state_since_ns,
	};
	if (job->op != GP_OP_NONE || job->cancelling || job->recovering)
		return;
	if (job->state == GP_JOB_QUEUED) {
		ret->waiting = !rests;
		ret->need_bytes = job->mem_bytes;
	} else if (schedule_wants_back(job)) {
		ret->waiting = !rests;
		ret->need_bytes = gp_job_released_bytes(job);
	} else if (job->state == GP_JOB_RUNNING && need) {
		ret->waiting = true;
		ret->need_bytes = need->msg.need.bytes;
		ret->since_ns = need->since_ns;
	} else if (job->state == GP_JOB_RUNNING) {
		ret->running = !rests && !gp_list_empty(&job->procs);
	}
}

/* Something is on its way that may give memory back: better wait than refuse. */
static bool schedule_memory_is_moving(const struct gp_device *d)
{
	gp_list_for_each(job, &d->daemon->registry.active, struct gp_job, place) {
		if (job->device == d &&
		    ((job->op == GP_OP_PREEMPT && !job->op_code) || job->op == GP_OP_CANCEL))
			return true;
	}
	return false;
}

static void schedule_grant(const struct gp_need *need)
{
	struct gp_proc *proc = need->proc;

	proc->n_grants = proc->granted_bytes == need->msg.need.bytes &&
					 proc->granted_from_bytes == proc->movable_bytes
				 ? proc->n_grants + 1
				 : 1;
	proc->granted_bytes = need->msg.need.bytes;
	proc->granted_from_bytes = proc->movable_bytes;
	proc->granted_until_ns = gp_now_ns() + SCHEDULE_GRANT_NS;
	gp_peer_send_ok(proc->peer, &need->msg);
}

static void schedule_answer_need(struct gp_need *need, int code)
{
	char text[32];

	if (code < 0)
		gp_peer_send_error(need->proc->peer, &need->msg, code,
				   "no job of lower priority can make room for %s",
				   gp_size_format(need->msg.need.bytes, text, sizeof(text)));
	else
		schedule_grant(need);
	need->proc->n_needs--;
	gp_list_del(&need->node);
	free(need);
}

static void schedule_serve(struct gp_device *d, struct gp_job *job)
{
	struct gp_need *need = schedule_need_of(d, job);
	struct gp_err err;

	if (job->state == GP_JOB_QUEUED) {
		job->device = d;
		gp_job_start(job);
	} else if (job->state == GP_JOB_SWAPPED) {
		if (gp_preempt_resume(job, "its memory fits again", &err) < 0) {
			gp_log(GP_LOG_WARN, "resume", "job=%" PRIu64 " error=\"%s\"", job->id,
			       err.msg);
			job->rests_until_ns = gp_now_ns() + SCHEDULE_REST_NS;
		}
	} else if (need) {
		schedule_answer_need(need, 0);
	}
}

/* Who is on the way back, or being recovered, can be made to yield once it runs. */
static bool schedule_is_settled(const struct gp_device *d)
{
	gp_list_for_each(job, &d->daemon->registry.active, struct gp_job, place) {
		if (job->device == d && (job->op != GP_OP_NONE || job->recovering))
			return false;
	}
	return true;
}

/*
 * Needs that nothing can satisfy are refused at once: a job must not hold memory and wait for more.
 * Operations end within their deadlines, and are waited for. Those of a job that stands still are
 * looked at when it runs again.
 */
static void schedule_refuse_needs(struct gp_device *d)
{
	if (!schedule_is_settled(d))
		return;
	gp_list_for_each(need, &d->needs, struct gp_need, node) {
		const struct gp_job *job = need->proc->job;

		if (job->op == GP_OP_NONE &&
		    (job->state == GP_JOB_RUNNING || gp_job_state_is_final(job->state)))
			schedule_answer_need(need, -ENOMEM);
	}
}

static bool schedule_evict(struct gp_device *d, const struct gp_policy_plan *plan)
{
	struct gp_err err;

	gp_job_find(d->daemon, plan->next)->awaits = d;
	for (size_t i = 0; i < plan->n_victims; i++) {
		struct gp_job *victim = gp_job_find(d->daemon, plan->victims[i]);
		char cause[64];

		snprintf(cause, sizeof(cause), "makes room for job %" PRIu64, plan->next);
		if (gp_preempt_begin(victim, GP_JOB_SWAPPED, cause, &err) < 0) {
			gp_log(GP_LOG_WARN, "preempt", "job=%" PRIu64 " error=\"%s\"", victim->id,
			       err.msg);
			victim->rests_until_ns = gp_now_ns() + SCHEDULE_REST_NS;
			return false;
		}
	}
	return true;
}

/* What each device has room for, and how many jobs it has, now. */
static void schedule_measure(struct gp_daemon *daemon)
{
	gp_list_for_each(d, &daemon->devices, struct gp_device, node) {
		uint64_t promised = schedule_promised(d);

		d->n_jobs = 0;
		d->room_bytes =
			d->meminfo.free_bytes > promised ? d->meminfo.free_bytes - promised : 0;
	}
	gp_list_for_each(job, &daemon->registry.active, struct gp_job, place) {
		if (job->device)
			job->device->n_jobs++;
	}
}

static bool schedule_is_served(const struct gp_device *d)
{
	return d->ready &&
	       !(d->meminfo_pending && gp_now_ns() - d->meminfo_asked_ns > SCHEDULE_SILENT_NS);
}

static bool schedule_is_better(const struct gp_device *d, const struct gp_device *than)
{
	if (d->n_jobs != than->n_jobs)
		return d->n_jobs < than->n_jobs;
	return d->room_bytes > than->room_bytes;
}

/*
 * Where a queued job is to go: where others are evicted for it, else where it fits as things are,
 * with the fewest jobs. NULL: nowhere yet, so that each device may look for victims. Each device
 * decides on a fresh reading of its own; what it knows of the others may be old by one decision,
 * and the one that was chosen looks again.
 */
static const struct gp_device *schedule_place(struct gp_job *job)
{
	const struct gp_device *best = NULL;

	if (job->awaits && schedule_is_served(job->awaits) &&
	    schedule_memory_is_moving(job->awaits))
		return job->awaits;
	job->awaits = NULL;
	gp_list_for_each(d, &job->daemon->devices, struct gp_device, node) {
		if (schedule_is_served(d) && d->room_bytes >= job->mem_bytes &&
		    (!best || schedule_is_better(d, best)))
			best = d;
	}
	return best;
}

/* Whether the queued @job is one for this device to decide about. */
static bool schedule_belongs(const struct gp_device *d, struct gp_job *job)
{
	const struct gp_device *place;

	if (job->device)
		return job->device == d;
	place = schedule_place(job);
	return !place || place == d;
}

/* Jobs that wait for memory or could give some; the rest is nothing to decide about. */
static size_t schedule_view_active(const struct gp_device *d, uint64_t now_ns,
				   struct gp_policy_job *jobs, bool *ret_waiting)
{
	size_t n = 0;

	gp_list_for_each(job, &d->daemon->registry.active, struct gp_job, place) {
		if (job->device != d)
			continue;
		*ret_waiting |= schedule_wants_back(job);
		if (n == SCHEDULE_MAX_ACTIVE)
			continue;
		schedule_fill(d, job, now_ns, &jobs[n]);
		*ret_waiting |= jobs[n].waiting;
		n += jobs[n].waiting || jobs[n].running;
	}
	return n;
}

static size_t schedule_view_from(const struct gp_device *d, struct gp_job **job, size_t max,
				 uint64_t now_ns, struct gp_policy_job *jobs)
{
	const struct gp_registry *registry = &d->daemon->registry;
	size_t n = 0;

	for (; *job && n < max; *job = gp_registry_next_queued(registry, *job)) {
		if (schedule_belongs(d, *job))
			schedule_fill(d, *job, now_ns, &jobs[n++]);
	}
	return n;
}

/*
 * The first of the queue, and each time some more of the rest, so that a job that would fit is
 * found, wherever it stands, and no decision has to look at all.
 */
static size_t schedule_view_queued(struct gp_device *d, uint64_t now_ns, struct gp_policy_job *jobs)
{
	const struct gp_registry *registry = &d->daemon->registry;
	struct gp_job *job = gp_registry_next_queued(registry, NULL), *turn;
	size_t n = schedule_view_from(d, &job, SCHEDULE_MAX_FIRST, now_ns, jobs);

	if (!job)
		return n;
	turn = gp_registry_find(d->daemon, d->cursor);
	if (!turn || turn->state != GP_JOB_QUEUED || schedule_is_before(turn, job))
		turn = job;
	n += schedule_view_from(d, &turn, SCHEDULE_MAX_TURN, now_ns, jobs + n);
	d->cursor = turn ? turn->id : 0;
	return n;
}

void gp_schedule_decide(struct gp_device *d)
{
	static struct gp_policy_job jobs[GP_POLICY_MAX_JOBS];
	static struct gp_policy_plan plan;
	bool waiting = d->daemon->registry.n_queued > 0;
	struct gp_policy_view view = {
		.now_ns = gp_now_ns(),
		.total_bytes = d->meminfo.total_bytes,
		.jobs = jobs,
	};
	struct gp_err err;

	schedule_measure(d->daemon);
	view.free_bytes = d->room_bytes;
	view.n_jobs = schedule_view_active(d, view.now_ns, jobs, &waiting);
	view.n_jobs += schedule_view_queued(d, view.now_ns, jobs + view.n_jobs);
	if (!waiting)
		return;
	gp_schedule_later(d->daemon);
	gp_policy_priority(&view, &plan);
	if (gp_policy_check(&view, &plan, &err) < 0) {
		gp_log(GP_LOG_ERR, "plan_rejected", "error=\"%s\"", err.msg);
		return;
	}
	if (!plan.next) {
		schedule_refuse_needs(d);
	} else if (plan.n_victims) {
		/* Their memory is not free yet: what is under way decides when we come back. */
		if (!schedule_memory_is_moving(d) && !schedule_evict(d, &plan))
			gp_schedule_want(d->daemon);
	} else {
		schedule_serve(d, gp_job_find(d->daemon, plan.next));
		gp_schedule_want(d->daemon); /* there may be room for one more */
	}
}

bool gp_schedule_has_room(const struct gp_job *job)
{
	const struct gp_device *d = job->device;
	uint64_t promised;

	if (!d->ready || d->meminfo_pending || d->daemon->schedule_wanted)
		return true;
	promised = schedule_promised(d);
	return !promised || d->meminfo.free_bytes >= promised + gp_job_released_bytes(job);
}

void gp_schedule_add_need(struct gp_proc *proc, const struct gp_wire_msg *msg)
{
	struct gp_device *d = proc->job->device;
	struct gp_need *need = NULL;
	uint64_t now_ns = gp_now_ns();
	char a[32], b[32];

	if (proc->foreign) {
		gp_peer_send_error(proc->peer, msg, -ENODEV, "its device is not served");
		return;
	}
	if (proc->n_needs >= GP_PROC_MAX_NEEDS) {
		gp_peer_send_error(proc->peer, msg, -EBUSY,
				   "%d allocations of this process wait already",
				   GP_PROC_MAX_NEEDS);
		return;
	}
	need = calloc(1, sizeof(*need));
	if (!need || msg->need.bytes > d->meminfo.total_bytes) {
		gp_peer_send_error(proc->peer, msg, -ENOMEM,
				   "an allocation of %s on a device of %s",
				   gp_size_format(msg->need.bytes, a, sizeof(a)),
				   gp_size_format(d->meminfo.total_bytes, b, sizeof(b)));
		free(need);
		return;
	}
	if (now_ns < proc->granted_until_ns && msg->need.bytes == proc->granted_bytes &&
	    proc->movable_bytes == proc->granted_from_bytes &&
	    proc->n_grants >= SCHEDULE_MAX_GRANTS) {
		gp_peer_send_error(proc->peer, msg, -ENOMEM,
				   "the driver does not allocate %s, though as much is free",
				   gp_size_format(msg->need.bytes, a, sizeof(a)));
		free(need);
		return;
	}
	proc->granted_until_ns = 0; /* what it was granted before did not do */
	need->proc = proc;
	proc->n_needs++;
	need->msg = *msg;
	need->since_ns = now_ns;
	gp_list_init(&need->node);
	gp_list_add_tail(&d->needs, &need->node);
	gp_schedule_want(proc->job->daemon);
}
