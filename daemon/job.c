/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/job.h"

#include "base/log.h"
#include "base/time.h"
#include "daemon/command.h"
#include "daemon/device.h"
#include "daemon/launch.h"
#include "daemon/orphans.h"
#include "daemon/preempt.h"
#include "daemon/proc.h"
#include "daemon/recover.h"
#include "daemon/schedule.h"
#include "daemon/spawner.h"
#include "daemon/store.h"
#include "daemon/transition.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#define JOB_KILL_AGAIN_NS (100 * GP_NS_PER_MS)
/* gpupres-spawn does not run: a job that waits for it is tried again. */
#define JOB_START_AGAIN_NS (5 * GP_NS_PER_SEC)

static void job_supervisor_timeout(struct gp_timer *timer);
static void job_kill_orphans(struct gp_job *job);

static struct gp_job *job_alloc(struct gp_daemon *daemon, uint64_t id)
{
	struct gp_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->daemon = daemon;
	job->id = id;
	job->supervisor_pidfd = job->spawner_fd = -1;
	job->exit_code = -1;
	gp_limits_init(&job->limits);
	gp_list_init(&job->procs);
	gp_list_init(&job->requests);
	gp_list_init(&job->lost);
	gp_timer_init(&job->supervisor_timer, job_supervisor_timeout);
	gp_registry_add(daemon, job);
	return job;
}

int gp_job_charge(struct gp_daemon *daemon, uid_t uid, bool adopted, uint32_t blob_bytes,
		  struct gp_charge *ret, struct gp_charge *ret_blob, struct gp_err *err)
{
	int r = gp_quota_charge(&daemon->quota, uid, adopted ? GP_QUOTA_ADOPTED : GP_QUOTA_JOBS, 1,
				ret, err);

	if (r < 0 || !blob_bytes)
		return r;
	r = gp_quota_charge(&daemon->quota, uid, GP_QUOTA_COMMAND_BYTES, blob_bytes, ret_blob, err);
	if (r < 0)
		gp_charge_drop(ret);
	return r;
}

struct gp_job *gp_job_new(struct gp_daemon *daemon, const char *name, uid_t uid, int32_t priority,
			  uint64_t mem_bytes)
{
	struct gp_job *job = job_alloc(daemon, daemon->next_job);
	const char *slash = strrchr(name, '/');

	if (!job)
		return NULL;
	daemon->next_job++;
	gp_wire_text(job->name, sizeof(job->name), slash ? slash + 1 : name);
	job->uid = uid;
	job->priority = priority;
	job->mem_bytes = mem_bytes;
	job->submitted_ns = gp_wallclock_ns();
	job->state_since_ns = gp_now_ns();
	return job;
}

void gp_job_free_request(struct gp_request *q)
{
	gp_list_del(&q->node);
	gp_list_del(&q->peer_node);
	q->peer->n_requests--;
	gp_charge_drop(&q->charge);
	free(q);
}

void gp_job_free(struct gp_job *job)
{
	gp_list_for_each(q, &job->requests, struct gp_request, node) {
		gp_job_free_request(q);
	}
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		free(proc);
	}
	gp_list_for_each(lost, &job->lost, struct gp_lost, node) {
		gp_lost_free(lost);
	}
	if (job->supervisor_pidfd >= 0)
		gp_loop_remove(&job->daemon->loop, &job->supervisor_source);
	gp_close_fd(&job->supervisor_pidfd);
	gp_close_fd(&job->spawner_fd);
	gp_timer_disarm(&job->op_timer);
	gp_timer_disarm(&job->supervisor_timer);
	gp_timer_disarm(&job->recover_timer);
	gp_registry_remove(job);
	gp_command_forget(job);
	gp_command_drop(job);
	gp_charge_drop(&job->blob_charge);
	gp_charge_drop(&job->charge);
	free(job);
}

struct gp_job *gp_job_find(struct gp_daemon *daemon, uint64_t id)
{
	return gp_registry_find(daemon, id);
}

void gp_job_file(const struct gp_daemon *daemon, uint64_t id, const char *suffix, char *buf,
		 size_t buf_bytes)
{
	snprintf(buf, buf_bytes, "%s/jobs/%" PRIu64 ".%s", daemon->options.state_dir, id, suffix);
}

void gp_job_path(const struct gp_job *job, const char *suffix, char *buf, size_t buf_bytes)
{
	gp_job_file(job->daemon, job->id, suffix, buf, buf_bytes);
}

bool gp_job_blob_is_sound(const char *blob, size_t bytes, uint32_t n_args, uint32_t n_env)
{
	uint64_t n_strings = 0;

	if (!bytes || blob[bytes - 1])
		return false;
	for (size_t i = 0; i < bytes; i++)
		n_strings += blob[i] == '\0';
	return n_args > 0 && n_strings == (uint64_t)n_args + n_env + 1;
}

bool gp_job_stored_blob_is_sound(const struct gp_job *job, const char *blob, size_t bytes)
{
	struct gp_limits limits;
	gid_t gid;
	size_t extra =
		gp_limits_find(blob, bytes, (uint64_t)job->n_args + job->n_env + 1, &gid, &limits);

	return gp_job_blob_is_sound(blob, bytes - extra, job->n_args, job->n_env);
}

void gp_job_set_command(struct gp_job *job, char *blob, uint32_t blob_bytes, uint32_t n_args,
			uint32_t n_env)
{
	char *out = job->command;
	size_t left = sizeof(job->command);
	const char *arg = blob;

	job->blob = blob;
	job->blob_bytes = blob_bytes;
	job->n_args = n_args;
	job->n_env = n_env;
	for (uint32_t i = 0; i < n_args && left > 1; i++, arg += strlen(arg) + 1) {
		int n = snprintf(out, left, "%s%s", i ? " " : "", arg);

		n = n < 0 ? 0 : n;
		n = (size_t)n >= left ? (int)left - 1 : n;
		out += n;
		left -= (size_t)n;
	}
}

/*
 * The command and environment do not change, and can be a MiB: written until the job has started,
 * and not with every step of a preemption.
 */
static void job_store(struct gp_job *job, enum gp_job_state old)
{
	bool with_blob = job->blob && (!old || old == GP_JOB_QUEUED);
	const struct gp_store_job s = {
		.id = job->id,
		.state = job->state,
		.priority = job->priority,
		.uid = job->uid,
		.n_args = job->n_args,
		.n_env = job->n_env,
		.exit_code = job->exit_code,
		.mem_bytes = job->mem_bytes,
		.submitted_ns = job->submitted_ns,
		.started_ns = job->started_ns,
		.ended_ns = job->ended_ns,
		.n_preemptions = job->n_preemptions,
		.adopted = job->adopted,
		.held = job->held,
		.cancelling = job->cancelling,
		.device = job->device ? (int32_t)job->device->ordinal : -1,
		.name = job->name,
		.cause = job->cause,
		.fail_cause = job->fail_cause,
		.command = job->command,
		.blob = with_blob ? job->blob : NULL,
		.blob_bytes = with_blob ? job->blob_bytes : 0,
	};

	gp_store_put_job(job->daemon->store, &s);
	if (with_blob)
		gp_command_hold(job);
}

static void job_set_state_va(struct gp_job *job, enum gp_job_state state, const char *cause,
			     va_list ap)
{
	enum gp_job_state old = job->state;
	uint64_t now_ns = gp_now_ns();
	char text[sizeof(job->cause)];
	struct gp_store_event event = {
		.job = job->id,
		.wallclock_ns = gp_wallclock_ns(),
		.duration_ns = now_ns - job->state_since_ns,
		.old_state = old,
		.new_state = state,
		.cause = job->cause,
		.boot_id = job->daemon->boot_id,
	};

	if (!gp_transition_is_legal(old, state, GP_BY_ANY)) {
		gp_log(GP_LOG_ERR, "transition", "job=%" PRIu64 " old=%s new=%s error=\"illegal\"",
		       job->id, gp_job_state_name(old), gp_job_state_name(state));
		assert(!"a change of state that daemon/transition.c does not list");
	}
	/* The new cause may quote the old one. */
	vsnprintf(text, sizeof(text), cause, ap);
	memcpy(job->cause, text, sizeof(job->cause));
	job->state = state;
	job->state_since_ns = now_ns;
	gp_registry_place(job);
	gp_log(GP_LOG_INFO, "state",
	       "job=%" PRIu64 " name=\"%s\" old=%s new=%s duration_ms=%.3f cause=\"%s\"", job->id,
	       job->name, old ? gp_job_state_name(old) : "none", gp_job_state_name(state),
	       (double)event.duration_ns / GP_NS_PER_MS, job->cause);
	gp_store_add_event(job->daemon->store, &event);
	job_store(job, old);
	gp_notify_changed(&job->daemon->notify);
}

void gp_job_set_state(struct gp_job *job, enum gp_job_state state, const char *cause, ...)
{
	va_list ap;

	va_start(ap, cause);
	job_set_state_va(job, state, cause, ap);
	va_end(ap);
}

void gp_job_finish(struct gp_job *job, enum gp_job_state state, const char *cause, ...)
{
	va_list ap;

	job->ended_ns = gp_wallclock_ns();
	job->op = GP_OP_NONE;
	job->phase = GP_PHASE_NONE;
	gp_recover_end(job);
	gp_timer_disarm(&job->op_timer);
	gp_timer_disarm(&job->supervisor_timer);
	job->saved_bytes = 0;
	/* It is never started again, and its environment is nobody's business any more. */
	gp_command_drop(job);
	gp_charge_drop(&job->blob_charge);
	gp_charge_drop(&job->charge);
	gp_close_fd(&job->spawner_fd);
	va_start(ap, cause);
	job_set_state_va(job, state, cause, ap);
	va_end(ap);
	gp_job_answer(job, GP_WIRE_WAIT, 0, NULL);
	gp_job_answer(job, GP_WIRE_CANCEL, 0, NULL);
	gp_job_answer(job, GP_WIRE_PREEMPT, -ESRCH, "the job has ended");
	gp_job_answer(job, GP_WIRE_RESUME, -ESRCH, "the job has ended");
	gp_schedule_want(job->daemon);
}

uint64_t gp_job_device_bytes(const struct gp_job *job)
{
	uint64_t sum = 0;

	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		if (proc->movable_bytes > proc->released_bytes)
			sum += proc->movable_bytes - proc->released_bytes;
	}
	return sum;
}

uint64_t gp_job_released_bytes(const struct gp_job *job)
{
	uint64_t sum = 0;

	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		sum += proc->released_bytes;
	}
	return sum;
}

uint64_t gp_job_resident_bytes(const struct gp_job *job)
{
	uint64_t sum = 0;

	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		sum += proc->resident_bytes;
	}
	return sum;
}

void gp_job_fill(const struct gp_job *job, struct gp_wire_job *ret_record)
{
	memset(ret_record, 0, sizeof(*ret_record));
	*ret_record = (struct gp_wire_job){
		.id = job->id,
		.state = job->state,
		.priority = job->priority,
		.uid = job->uid,
		.pid = (uint32_t)job->pid,
		.exit_code = job->exit_code,
		.device = job->device ? job->device->ordinal : GP_WIRE_NO_DEVICE,
		.n_preemptions = job->n_preemptions,
		.held = job->held,
		.mem_bytes = job->mem_bytes,
		.device_bytes = gp_job_device_bytes(job),
		.saved_bytes = job->saved_bytes,
		.resident_bytes = gp_job_resident_bytes(job),
		.submitted_wallclock_ns = job->submitted_ns,
		.started_wallclock_ns = job->started_ns,
		.ended_wallclock_ns = job->ended_ns,
		.report = job->report,
	};
	gp_wire_text(ret_record->name, sizeof(ret_record->name), job->name);
	gp_wire_text(ret_record->cause, sizeof(ret_record->cause), job->cause);
	gp_wire_text(ret_record->command, sizeof(ret_record->command), job->command);
}

void gp_job_add_request(struct gp_job *job, struct gp_peer *peer, const struct gp_wire_msg *msg)
{
	struct gp_request *q = calloc(1, sizeof(*q));
	struct gp_err err;
	int r;

	if (!q) {
		gp_peer_send_error(peer, msg, -ENOMEM, "out of memory");
		return;
	}
	r = gp_quota_charge(&job->daemon->quota, peer->uid, GP_QUOTA_REQUESTS, 1, &q->charge, &err);
	if (r < 0) {
		free(q);
		gp_peer_send_error(peer, msg, r, "%s", err.msg);
		return;
	}
	q->peer = peer;
	peer->n_requests++;
	memcpy(&q->msg, msg, msg->header.size);
	gp_list_init(&q->node);
	gp_list_add_tail(&job->requests, &q->node);
	gp_list_init(&q->peer_node);
	gp_list_add_tail(&peer->requests, &q->peer_node);
}

void gp_job_answer(struct gp_job *job, uint32_t type, int code, const char *text)
{
	struct gp_wire_msg m;

	gp_list_for_each(q, &job->requests, struct gp_request, node) {
		if (q->msg.header.type != type)
			continue;
		if (code < 0) {
			gp_peer_send_error(q->peer, &q->msg, code, "job %" PRIu64 ": %s", job->id,
					   text);
		} else {
			gp_wire_init_reply(&m, GP_WIRE_JOB, &q->msg);
			gp_job_fill(job, &m.job);
			gp_peer_send(q->peer, &m, NULL, 0);
		}
		gp_job_free_request(q);
	}
}

void gp_job_forget_peer(struct gp_peer *peer)
{
	gp_list_for_each(q, &peer->requests, struct gp_request, peer_node) {
		gp_job_free_request(q);
	}
}

static void job_signal_process(struct gp_job *job, int pidfd, pid_t pid, int signo)
{
	if (pidfd_send_signal(pidfd, signo, NULL, 0) == 0 || errno == ESRCH)
		return;
	if (errno == EPERM && job->daemon->options.system)
		gp_spawner_signal(job, pidfd, signo);
	else
		gp_log(GP_LOG_WARN, "signal", "job=%" PRIu64 " pid=%d error=\"%s\"", job->id, pid,
		       strerror(errno));
}

static void job_signal_procs(struct gp_job *job, int signo)
{
	gp_list_for_each(proc, &job->procs, struct gp_proc, node) {
		job_signal_process(job, proc->peer->pidfd, proc->pid, signo);
	}
	/* One that hung up goes on without us, and is still what the job is. */
	gp_list_for_each(lost, &job->lost, struct gp_lost, node) {
		if (lost->runs && lost->source.fd >= 0)
			job_signal_process(job, lost->source.fd, lost->pid, signo);
	}
}

void gp_job_signal(struct gp_job *job, int signo)
{
	struct gp_wire_msg m;

	if (job->adopted) {
		job_signal_procs(job, signo);
		return;
	}
	if (job->orphaned) {
		job_kill_orphans(job);
		return;
	}
	if (!job->supervisor)
		return; /* sent when it comes: gp_job_attach_supervisor */
	gp_wire_init(&m, GP_WIRE_SIGNAL);
	m.header.job = job->id;
	m.signal.signo = signo;
	gp_peer_send(job->supervisor, &m, NULL, 0);
}

static void job_end(struct gp_job *job)
{
	if (gp_job_state_is_final(job->state))
		return;
	if (job->exec_errno)
		gp_job_finish(job, GP_JOB_FAILED, "cannot start the command: %s",
			      strerror(job->exec_errno));
	else if (job->fail_cause[0])
		gp_job_finish(job, GP_JOB_FAILED, "%s", job->fail_cause);
	else if (job->cancelling)
		gp_job_finish(job, GP_JOB_CANCELLED, "cancelled");
	else if (job->exit_code == 0)
		gp_job_finish(job, GP_JOB_DONE, "exit code 0");
	else if (job->exit_code > 128)
		gp_job_finish(job, GP_JOB_FAILED, "killed by signal %d", job->exit_code - 128);
	else
		gp_job_finish(job, GP_JOB_FAILED, "exit code %d", job->exit_code);
}

/* What the supervisor wrote before it went, if it went without telling us. -ENOENT if nothing. */
static int job_read_status(struct gp_job *job)
{
	gp_auto_fd int fd = -1;
	char path[PATH_MAX], text[16] = "";
	char *end;
	long code;

	gp_job_path(job, "status", path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return -ENOENT;
	code = strtol(text, &end, 10);
	if (end == text || *end != '\n' || code < 0 || code > 255)
		return -ENOENT;
	job->exit_code = (int)code;
	return 0;
}

void gp_job_end_unseen(struct gp_job *job, enum gp_job_state state, const char *cause)
{
	if (gp_job_state_is_final(job->state))
		return;
	if (job->adopted)
		job->exit_code = state == GP_JOB_DONE ? 0 : job->exit_code;
	if (!job->adopted && job_read_status(job) == 0) {
		job_end(job);
		return;
	}
	if (!job->adopted)
		gp_orphans_kill(job);
	if (job->fail_cause[0])
		job_end(job);
	else
		gp_job_finish(job, state, "%s", cause);
}

/* One round; what was just killed, or forked meanwhile, is there to be seen in the next. */
static void job_kill_orphans(struct gp_job *job)
{
	job_signal_procs(job, SIGKILL);
	if (gp_orphans_kill(job) || !gp_list_empty(&job->procs) || !gp_list_empty(&job->lost))
		gp_timer_arm(&job->daemon->loop, &job->supervisor_timer,
			     gp_now_ns() + JOB_KILL_AGAIN_NS);
	else
		gp_job_end_unseen(job, job->cancelling ? GP_JOB_CANCELLED : GP_JOB_FAILED,
				  "its supervisor is gone");
}

void gp_job_check_procs(struct gp_job *job)
{
	if (job->recovering || gp_job_state_is_final(job->state) || !gp_list_empty(&job->procs) ||
	    !gp_list_empty(&job->lost))
		return;
	if (job->adopted)
		gp_job_end_unseen(job, job->cancelling ? GP_JOB_CANCELLED : GP_JOB_DONE,
				  "the process is gone");
	else if (job->orphaned)
		job_kill_orphans(job);
}

/*
 * It leaves its status file when nothing is left of the job. Without one the job has failed, but
 * processes of it may run on, or stand still with their memory saved: it ends as a cancelled one
 * does.
 */
static void job_supervisor_gone(struct gp_job *job)
{
	if (gp_job_state_is_final(job->state) || job->recovering || job->orphaned)
		return;
	if (job_read_status(job) == 0) {
		job_end(job);
		return;
	}
	job->orphaned = true;
	if (!job->cancelling && !job->fail_cause[0])
		snprintf(job->fail_cause, sizeof(job->fail_cause), "its supervisor is gone");
	if (job->phase == GP_PHASE_KILL)
		job_kill_orphans(job);
	else
		gp_preempt_cancel(job);
}

static void job_supervisor_timeout(struct gp_timer *timer)
{
	struct gp_job *job = gp_container_of(timer, struct gp_job, supervisor_timer);

	if (job->orphaned)
		job_kill_orphans(job);
	else
		job_supervisor_gone(job);
}

/* An empty cgroup is of no use. */
static void job_tidy(struct gp_job *job)
{
	if (job->daemon->options.system && !job->adopted && gp_job_state_is_final(job->state))
		gp_spawner_remove(job->daemon, job->id);
}

static void job_supervisor_ended(struct gp_source *source, uint32_t events)
{
	struct gp_job *job = gp_container_of(source, struct gp_job, supervisor_source);

	gp_loop_remove(&job->daemon->loop, source);
	gp_close_fd(&job->supervisor_pidfd);
	if (!job->spawned)
		gp_launch_reap(job->supervisor_pid);
	job_tidy(job);
	/* Its last message may still be in the socket: then the connection's end decides. */
	if (!job->supervisor)
		job_supervisor_gone(job);
}

void gp_job_supervisor_closed(struct gp_job *job)
{
	job->supervisor = NULL;
	if (gp_job_state_is_final(job->state)) {
		if (job->supervisor_pidfd < 0)
			job_tidy(job);
		return;
	}
	if (!job->supervisor_pid) /* started by an earlier daemon: it may come back */
		gp_timer_arm(&job->daemon->loop, &job->supervisor_timer,
			     gp_now_ns() + job->daemon->options.orphan_grace_ns);
	else if (job->supervisor_pidfd < 0)
		job_supervisor_gone(job);
}

void gp_job_attach_supervisor(struct gp_job *job, struct gp_peer *peer)
{
	job->supervisor = peer;
	gp_timer_disarm(&job->supervisor_timer);
	gp_recover_advance(job);
	/* What was sent while it was away is lost. In any other phase the job may be frozen. */
	if (job->phase == GP_PHASE_KILL)
		gp_job_signal(job, SIGKILL);
}

void gp_job_handle_supervisor(struct gp_peer *peer, const struct gp_wire_msg *msg)
{
	struct gp_job *job = peer->job;

	switch ((enum gp_wire_type)msg->header.type) {
	case GP_WIRE_STARTED:
		job->pid = (pid_t)msg->started.pid;
		if (job->state == GP_JOB_STARTING)
			gp_job_set_state(job, GP_JOB_RUNNING, "pid %d", job->pid);
		gp_schedule_want(job->daemon);
		break;
	case GP_WIRE_EXITED:
		job->exit_code = msg->exited.exit_code;
		job->exec_errno = msg->exited.exec_errno;
		job_end(job);
		break;
	default:
		gp_peer_close(peer, "sent a message that a supervisor must not send");
		break;
	}
}

/* The supervisor has been started: from now on its end is ours to see. */
static void job_watch_supervisor(struct gp_job *job)
{
	struct gp_err err;

	job->supervisor_source.fd = job->supervisor_pidfd;
	job->supervisor_source.dispatch = job_supervisor_ended;
	if (gp_loop_add(&job->daemon->loop, &job->supervisor_source, EPOLLIN, &err) < 0)
		gp_log(GP_LOG_ERR, "supervisor", "job=%" PRIu64 " error=\"%s\"", job->id, err.msg);
}

void gp_job_spawned(struct gp_job *job, pid_t pid, int pidfd)
{
	if (job->supervisor_pid || gp_job_state_is_final(job->state)) {
		close(pidfd);
		return;
	}
	job->spawned = true;
	job->supervisor_pid = pid;
	job->supervisor_pidfd = pidfd;
	/* Another process of its user was faster to call itself that. */
	if (job->supervisor && job->supervisor->pid != pid)
		gp_peer_close(job->supervisor, "not the job's supervisor");
	job_watch_supervisor(job);
}

void gp_job_not_spawned(struct gp_job *job, const char *why)
{
	if (!gp_job_state_is_final(job->state))
		gp_job_finish(job, GP_JOB_FAILED, "%s", why);
}

/* It is queued as before, and the daemon asks again. */
static void job_start_later(struct gp_job *job, const struct gp_err *err)
{
	job->device = NULL;
	job->rests_until_ns = gp_now_ns() + JOB_START_AGAIN_NS;
	gp_wire_text(job->cause, sizeof(job->cause), err->msg);
	gp_log(GP_LOG_WARN, "start", "job=%" PRIu64 " error=\"%s\"", job->id, err->msg);
}

static void job_launch(struct gp_job *job)
{
	bool spawn = job->daemon->options.system;
	struct gp_err err;
	int r;

	if (spawn)
		r = gp_spawner_start(job, gp_take_fd(&job->spawner_fd), &err);
	else
		r = gp_launch_supervisor(job, &job->supervisor_pid, &job->supervisor_pidfd, &err);
	if (r < 0)
		gp_job_finish(job, GP_JOB_FAILED, "%s", err.msg);
	else
		gp_command_drop(job);
	if (r == 0 && !spawn)
		job_watch_supervisor(job);
}

void gp_job_start(struct gp_job *job)
{
	struct gp_err err;

	if (job->daemon->options.system) {
		job->spawner_fd = gp_spawner_open(job->daemon, &err);
		if (job->spawner_fd < 0) {
			job_start_later(job, &err);
			return;
		}
	}
	job->started_ns = gp_wallclock_ns();
	gp_job_set_state(job, GP_JOB_STARTING, "fits on device %u", job->device->ordinal);
	gp_command_need(job, job_launch);
}

/*
 * A job that was alive under the last daemon. Queued ones are queued again. Of started ones only
 * those can live on whose memory is on the card: the bytes of swapped ones went with the mover.
 */
static int job_recover(const struct gp_store_job *s, void *arg, struct gp_err *err)
{
	struct gp_daemon *daemon = arg;
	struct gp_job *job;

	job = job_alloc(daemon, s->id);
	if (!job)
		return gp_err_set(err, -ENOMEM, "out of memory");
	gp_wire_text(job->name, sizeof(job->name), s->name);
	gp_wire_text(job->cause, sizeof(job->cause), s->cause);
	job->state = (enum gp_job_state)s->state;
	job->priority = s->priority;
	job->uid = s->uid;
	job->n_args = s->n_args;
	job->n_env = s->n_env;
	job->exit_code = s->exit_code;
	job->mem_bytes = s->mem_bytes;
	job->submitted_ns = s->submitted_ns;
	job->started_ns = s->started_ns;
	job->ended_ns = s->ended_ns;
	job->n_preemptions = s->n_preemptions;
	job->adopted = s->adopted;
	job->held = s->held;
	job->cancelling = s->cancelling;
	gp_wire_text(job->fail_cause, sizeof(job->fail_cause), s->fail_cause);
	gp_wire_text(job->command, sizeof(job->command), s->command);
	if (s->ended_ns) {
		job->device = gp_device_find(daemon, s->device);
	} else if (s->state != GP_JOB_QUEUED) {
		job->device = gp_device_get(daemon, s->device < 0 ? 0 : (uint32_t)s->device);
		if (!job->device)
			return gp_err_set(err, -ENOMEM, "out of memory");
	}
	job->state_since_ns = gp_now_ns();
	(void)gp_limits_find(s->blob, s->blob_bytes, (uint64_t)s->n_args + s->n_env + 1, &job->gid,
			     &job->limits);
	/* Rows can be damaged, or edited: what is not sound must not be walked. */
	if (!s->state || s->state >= GP_JOB_STATE_MAX_) {
		job->state = GP_JOB_QUEUED;
		gp_job_finish(job, GP_JOB_FAILED, "its row in the database is damaged");
		return 0;
	}
	gp_registry_place(job);
	if (gp_job_state_is_final(job->state))
		return 0;
	if (!(s->adopted && !s->blob_bytes && !s->n_args) &&
	    !gp_job_stored_blob_is_sound(job, s->blob, s->blob_bytes)) {
		job->n_args = job->n_env = 0;
		gp_job_finish(job, GP_JOB_FAILED, "its row in the database is damaged");
		return 0;
	}
	/* It stays also where that is more than what a user may have by now. */
	if (gp_job_charge(daemon, job->uid, job->adopted, (uint32_t)s->blob_bytes, &job->charge,
			  &job->blob_charge, err) < 0)
		gp_log(GP_LOG_INFO, "limits", "job=%" PRIu64 " uid=%u error=\"%s\"", job->id,
		       (unsigned int)job->uid, err->msg);
	job->blob_bytes = (uint32_t)s->blob_bytes;
	if (job->state == GP_JOB_QUEUED && s->blob_bytes &&
	    gp_command_fits(daemon, s->blob_bytes)) {
		job->blob = malloc(s->blob_bytes);
		if (!job->blob)
			return gp_err_set(err, -ENOMEM, "out of memory");
		memcpy(job->blob, s->blob, s->blob_bytes);
		gp_command_hold(job);
	}
	return 0;
}

static int job_recover_proc(const struct gp_store_proc *p, void *arg, struct gp_err *err)
{
	struct gp_job *job = gp_job_find(arg, p->job);

	if (job && job->recovering)
		gp_recover_expect(job, p->proc, p->pid);
	else
		gp_store_delete_proc(((struct gp_daemon *)arg)->store, p->proc);
	return 0;
}

int gp_job_recover(struct gp_daemon *daemon, struct gp_err *err)
{
	bool same_boot = true;
	int r = gp_store_load(daemon->store, job_recover, daemon, &daemon->next_job, err);

	if (r == 0)
		r = gp_store_take_proc_block(daemon->store, &daemon->next_proc, err);
	if (r == 0)
		r = gp_store_swap_boot_id(daemon->store, daemon->boot_id, &same_boot, err);
	if (r < 0)
		return r;
	gp_list_for_each(job, &daemon->jobs, struct gp_job, node) {
		if (gp_job_state_is_final(job->state) || job->state == GP_JOB_QUEUED)
			continue;
		gp_recover_begin(job, same_boot);
	}
	r = gp_store_load_procs(daemon->store, job_recover_proc, daemon, err);
	if (r < 0)
		return r;
	gp_list_for_each(job, &daemon->jobs, struct gp_job, node) {
		gp_recover_advance(job); /* of another boot: nobody is waited for */
	}
	return 0;
}
