/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/proc.h"

#include "base/log.h"
#include "base/time.h"
#include "daemon/device.h"
#include "daemon/preempt.h"
#include "daemon/recover.h"
#include "daemon/schedule.h"
#include "daemon/store.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

/* A program with the shim that nobody submitted becomes a job of its own. */
static struct gp_job *proc_adopt(struct gp_peer *peer, const struct gp_wire_msg *hello,
				 struct gp_err *err)
{
	struct gp_charge charge = { 0 }, none = { 0 };
	struct gp_daemon *daemon = peer->daemon;
	struct gp_job *job;

	if (gp_job_charge(daemon, peer->uid, true, 0, &charge, &none, err) < 0)
		return NULL;
	job = gp_job_new(daemon, hello->hello.program, peer->uid, 0, 0);
	if (!job) {
		gp_charge_drop(&charge);
		gp_err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	gp_charge_move(&job->charge, &charge);
	job->adopted = true;
	job->pid = peer->pid;
	job->device = gp_device_first(daemon); /* until it says which one it uses */
	job->started_ns = gp_wallclock_ns();
	gp_job_set_state(job, GP_JOB_RUNNING, "adopted pid %d", peer->pid);
	return job;
}

struct gp_proc *gp_proc_find(const struct gp_job *job, uint32_t id)
{
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->id == id)
			return proc;
	}
	return NULL;
}

/* One that comes back keeps its number, by which the mover knows it. */
static uint32_t proc_number(struct gp_daemon *daemon, struct gp_job *job,
			    const struct gp_peer *peer, uint32_t said)
{
	struct gp_lost *lost = said ? gp_recover_find(job, said) : NULL;

	if (lost && (!lost->pid || lost->pid == peer->pid)) {
		gp_lost_free(lost);
		return said;
	}
	return gp_daemon_next_proc(daemon);
}

int gp_proc_new(struct gp_peer *peer, const struct gp_wire_msg *hello, struct gp_err *err)
{
	struct gp_daemon *daemon = peer->daemon;
	struct gp_job *job;
	struct gp_proc *proc;

	if (!gp_device_first(daemon))
		return gp_err_set(err, -ENODEV, "the daemon has no device");
	job = hello->header.job ? gp_job_find(daemon, hello->header.job) : NULL;
	if (hello->header.job &&
	    (!job || job->uid != peer->uid || gp_job_state_is_final(job->state) || !job->device))
		return gp_err_set(err, -ENOENT, "no job %" PRIu64 " is running", hello->header.job);
	proc = calloc(1, sizeof(*proc));
	if (!proc)
		return gp_err_set(err, -ENOMEM, "out of memory");
	if (!job)
		job = proc_adopt(peer, hello, err);
	if (!job) {
		free(proc);
		return err->code;
	}
	proc->job = job;
	proc->peer = peer;
	proc->pid = peer->pid;
	proc->id = proc_number(daemon, job, peer, hello->header.proc);
	if (hello->header.epoch > job->epoch)
		job->epoch = hello->header.epoch;
	gp_store_put_proc(daemon->store, job->id, proc->id, proc->pid);
	gp_list_init(&proc->node);
	gp_list_add_tail(&job->procs, &proc->node);
	peer->proc = proc;
	gp_log(GP_LOG_INFO, "process", "job=%" PRIu64 " proc=%u pid=%d program=\"%s\"", job->id,
	       proc->id, proc->pid, hello->hello.program);
	return 0;
}

/* Ties shim and mover together; each gets one end and the daemon keeps none. */
static void proc_link(struct gp_proc *proc)
{
	gp_auto_fd int shim_end = -1, mover_end = -1;
	const struct gp_ledger *ledger;
	struct gp_wire_msg m;
	int pair[2];

	if (proc->linked || !proc->placed || !proc->job->device->ready)
		return;
	gp_wire_init(&m, GP_WIRE_LINK);
	m.header.job = proc->job->id;
	m.header.proc = proc->id;
	/* Both outlived the last daemon, and so did what ties them; but the channels may have
	 * changed while nobody passed that on. */
	ledger = gp_device_ledger(proc->job->device, proc->id);
	if (ledger && ledger->linked && proc->keeps_link) {
		gp_peer_send(proc->peer, &m, NULL, 0);
		proc->linked = true;
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		gp_log(GP_LOG_ERR, "link", "proc=%u error=\"%s\"", proc->id, strerror(errno));
		return;
	}
	shim_end = pair[0];
	mover_end = pair[1];
	m.link.pid = (uint32_t)proc->pid;
	gp_device_send(proc->job->device, &m, &mover_end, 1);
	m.link.pid = 0;
	gp_peer_send(proc->peer, &m, &shim_end, 1);
	proc->linked = true;
}

/* It is left alone: nothing of it can be preempted by this daemon. */
static void proc_set_foreign(struct gp_proc *proc)
{
	struct gp_job *job = proc->job;

	proc->foreign = true;
	proc->movable_bytes = proc->resident_bytes = 0;
	gp_log(GP_LOG_WARN, "foreign_device",
	       "job=%" PRIu64 " proc=%u pid=%d effect=\"it runs on unmanaged\"", job->id, proc->id,
	       proc->pid);
	if (job->adopted && job->state == GP_JOB_RUNNING)
		gp_job_set_state(job, job->state,
				 "uses a device that is not served: it runs on unmanaged");
}

/* An adopted job is on no device for sure before its first process has told. */
static bool proc_may_move(const struct gp_proc *proc)
{
	const struct gp_job *job = proc->job;

	if (!job->adopted || job->state != GP_JOB_RUNNING || job->op != GP_OP_NONE ||
	    job->recovering)
		return false;
	gp_list_for_each(other, &job->procs, struct gp_proc, node) {
		if (other->placed)
			return false;
	}
	return true;
}

/* An adopted job is where its process is; what it waits for moves along. */
static void proc_set_device(struct gp_proc *proc, struct gp_device *device)
{
	struct gp_device *old = proc->job->device;

	proc->job->device = device;
	gp_list_for_each(need, &old->needs, struct gp_need, node) {
		if (need->proc != proc)
			continue;
		gp_list_del(&need->node);
		gp_list_add_tail(&device->needs, &need->node);
	}
	/* Stored: a later daemon finds the job there. */
	gp_job_set_state(proc->job, proc->job->state, "uses device %u", device->ordinal);
}

/* Which device it uses is known for certain only once all of them have told their names. */
static void proc_place(struct gp_proc *proc)
{
	struct gp_job *job = proc->job;
	struct gp_device *used = gp_device_used(job->daemon, &proc->attach);

	if (proc->placed || proc->foreign)
		return;
	if (!used && !gp_device_all_told(job->daemon))
		return;
	if (used && used != job->device && proc_may_move(proc))
		proc_set_device(proc, used);
	if (used == job->device)
		proc->placed = true;
	else
		proc_set_foreign(proc);
}

void gp_proc_place_all(struct gp_daemon *daemon)
{
	gp_list_for_each(job, &daemon->jobs, struct gp_job, node) {
		gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
			if (!proc->attached)
				continue;
			proc_place(proc);
			proc_link(proc);
		}
	}
}

void gp_proc_link_all(struct gp_device *device)
{
	gp_list_for_each(job, &device->daemon->jobs, struct gp_job, node) {
		gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
			if (job->device == device && proc->attached)
				proc_link(proc);
		}
	}
}

static uint64_t proc_at_most(uint64_t bytes, const struct gp_proc *proc)
{
	return bytes < proc->job->device->meminfo.total_bytes
		       ? bytes
		       : proc->job->device->meminfo.total_bytes;
}

void gp_proc_set_movable(struct gp_proc *proc, uint64_t bytes)
{
	proc->movable_bytes = proc->foreign ? 0 : proc_at_most(bytes, proc);
}

static void proc_channels(struct gp_proc *proc, const struct gp_wire_msg *msg)
{
	const struct gp_wire_channels *c = &msg->channels;
	struct gp_wire_msg m = *msg;

	/* The number is ours to give: a client must not speak for another process. */
	m.header.proc = proc->id;
	m.header.job = proc->job->id;
	gp_device_send(proc->job->device, &m, NULL, 0);
	if (proc->linked && c->first + c->n == c->total) {
		proc->known = true;
		gp_preempt_proc_known(proc->job);
	}
}

/* What it had before, with a daemon that is gone. */
static void proc_resync(struct gp_proc *proc, const struct gp_wire_resync *r)
{
	struct gp_err err;

	gp_proc_set_movable(proc, r->movable_bytes);
	proc->resident_bytes = proc_at_most(r->resident_bytes, proc);
	proc->n_extents = r->n_extents;
	proc->attached = r->attached;
	proc->attach.device = r->device;
	memcpy(proc->attach.uuid, r->uuid, sizeof(proc->attach.uuid));
	proc->keeps_link = r->linked;
	if (proc->attached) {
		proc_place(proc);
		proc_link(proc);
	}
	if (gp_recover_resync(proc, r, &err) < 0)
		gp_peer_close(proc->peer, err.msg);
}

void gp_proc_handle(struct gp_peer *peer, const struct gp_wire_msg *msg)
{
	struct gp_proc *proc = peer->proc;

	switch ((enum gp_wire_type)msg->header.type) {
	case GP_WIRE_ATTACH:
		proc->attached = true;
		proc->attach = msg->attach;
		proc_place(proc);
		proc_link(proc);
		break;
	case GP_WIRE_RESYNC:
		proc_resync(proc, &msg->resync);
		break;
	case GP_WIRE_CHANNELS:
		proc_channels(proc, msg);
		break;
	case GP_WIRE_MEMORY:
		if (proc->foreign)
			break;
		gp_proc_set_movable(proc, msg->memory.movable_bytes);
		if (proc->movable_bytes >= proc->granted_from_bytes + proc->granted_bytes)
			proc->n_grants = 0; /* it was of use */
		proc->resident_bytes = proc_at_most(msg->memory.resident_bytes, proc);
		proc->n_extents = msg->memory.n_extents;
		gp_schedule_want(peer->daemon);
		break;
	case GP_WIRE_NEED:
		gp_schedule_add_need(proc, msg);
		break;
	case GP_WIRE_LOCKED:
	case GP_WIRE_PROBED:
	case GP_WIRE_EXPORTED:
	case GP_WIRE_RELEASED:
	case GP_WIRE_RECREATED:
	case GP_WIRE_CONFIRMED:
	case GP_WIRE_SCRATCHED:
	case GP_WIRE_UNLOCKED:
	case GP_WIRE_ERROR:
		gp_preempt_handle(proc, msg);
		break;
	default:
		gp_peer_close(peer, "sent a message that a shim must not send");
		break;
	}
}

void gp_proc_gone(struct gp_proc *proc)
{
	struct gp_job *job = proc->job;
	struct gp_lost *lost;

	gp_log(GP_LOG_INFO, "process_gone", "job=%" PRIu64 " proc=%u pid=%d", job->id, proc->id,
	       proc->pid);
	if (job->device)
		gp_device_forget_needs(job->device, proc);
	job->rests_until_ns = 0;
	gp_list_del(&proc->node);
	proc->peer->proc = NULL;
	/* Its memory may be away: what is saved of it goes only when the process has ended. */
	gp_recover_expect(job, proc->id, proc->pid);
	lost = gp_recover_find(job, proc->id);
	if (lost)
		lost->runs = !proc->frozen && !proc->away && !proc->locked;
	free(proc);
	if (job->recovering)
		gp_recover_advance(job);
	else
		gp_preempt_proc_gone(job);
	gp_job_check_procs(job);
	gp_schedule_want(job->daemon);
}
