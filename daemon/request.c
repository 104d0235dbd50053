/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/request.h"

#include "base/log.h"
#include "base/size.h"
#include "daemon/backup.h"
#include "daemon/device.h"
#include "daemon/job.h"
#include "daemon/preempt.h"
#include "daemon/recall.h"
#include "daemon/schedule.h"
#include "daemon/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#define REQUEST_MAX_PRIORITY GP_REGISTRY_MAX_PRIORITY
/* Commands that wait for a disk that is slow, or full: then no more are taken. */
#define REQUEST_MAX_BACKLOG (64u << 20)
#define REQUEST_SEALS	    (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

/* Reads the sealed memfd: once sealed nobody can change or shorten it while we read. */
static int request_read_blob(int fd, const struct gp_wire_submit *s, char **ret_blob,
			     struct gp_err *err)
{
	gp_auto_free char *blob = NULL;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & REQUEST_SEALS) != REQUEST_SEALS)
		return gp_err_set(err, -EPERM, "the command must come in a sealed memfd");
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != s->blob_bytes || !s->blob_bytes)
		return gp_err_set(err, -EBADMSG, "the memfd has another size than announced");
	blob = malloc(s->blob_bytes);
	if (!blob)
		return gp_err_set(err, -ENOMEM, "out of memory");
	if (pread(fd, blob, s->blob_bytes, 0) != (ssize_t)s->blob_bytes)
		return gp_err_set(err, -EIO, "cannot read the command");
	if (!gp_job_blob_is_sound(blob, s->blob_bytes, s->n_args, s->n_env))
		return gp_err_set(err, -EBADMSG,
				  "the command is not made of %" PRIu64 " terminated strings",
				  (uint64_t)s->n_args + s->n_env + 1);
	*ret_blob = gp_take_ptr(blob);
	return 0;
}

static uint64_t request_largest_device(const struct gp_daemon *daemon)
{
	uint64_t largest = 0;

	gp_list_for_each(d, &daemon->devices, struct gp_device, node) {
		if (d->meminfo.total_bytes > largest)
			largest = d->meminfo.total_bytes;
	}
	return largest;
}

/* Ids start again with a new database; what an older job left under this one's id is not its own.
 */
static void request_forget_files(const struct gp_job *job)
{
	char path[PATH_MAX];

	gp_job_path(job, "log", path, sizeof(path));
	unlink(path);
	gp_job_path(job, "status", path, sizeof(path));
	unlink(path);
}

/*
 * What is read of a pid is the peer's if the peer has not ended by then. Where /proc hides others'
 * processes, the job gets the limits of gpupres-spawn.
 */
static void request_read_limits(const struct gp_peer *peer, struct gp_limits *ret)
{
	struct gp_limits limits;
	struct gp_err err;
	gp_auto_fd int process = gp_access_open_process(peer, &err);
	struct pollfd p = { .fd = process, .events = POLLIN };

	if (process >= 0 && gp_limits_read(peer->pid, &limits) == 0 && poll(&p, 1, 0) == 0)
		*ret = limits;
	else
		gp_log(GP_LOG_DEBUG, "limits", "pid=%d error=\"cannot be read\"", peer->pid);
}

/* They have to be known, as the command, until the job is started. */
static int request_take_limits(const struct gp_peer *peer, struct gp_limits *ret, char **blob,
			       uint32_t *blob_bytes, struct gp_err *err)
{
	gp_limits_init(ret);
	if (!peer->daemon->options.system)
		return 0;
	request_read_limits(peer, ret);
	if (gp_limits_append(blob, blob_bytes, peer->gid, ret) < 0)
		return gp_err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* What can be told from the message alone. */
static int request_check_submit(const struct gp_peer *peer, const struct gp_wire_submit *s,
				struct gp_err *err)
{
	uint64_t largest = request_largest_device(peer->daemon);
	int32_t max = (int32_t)peer->daemon->options.max_priority;
	char a[32], b[32];

	if (s->priority < -REQUEST_MAX_PRIORITY || s->priority > REQUEST_MAX_PRIORITY)
		return gp_err_set(err, -ERANGE, "priority %d is outside -%d to %d", s->priority,
				  REQUEST_MAX_PRIORITY, REQUEST_MAX_PRIORITY);
	if (!peer->is_admin && s->priority > max)
		return gp_err_set(err, -EPERM,
				  "priority %d is for admins, you may use %d and below: lower it",
				  s->priority, max);
	if (s->mem_bytes > largest)
		return gp_err_set(err, -ENOSPC,
				  "the job asks for %s of device memory, the largest device has %s",
				  gp_size_format(s->mem_bytes, a, sizeof(a)),
				  gp_size_format(largest, b, sizeof(b)));
	if (gp_store_backlog_bytes(peer->daemon->store) > REQUEST_MAX_BACKLOG)
		return gp_err_set(
			err, -EAGAIN, "%s still has to be written to the database: try again later",
			gp_size_format(gp_store_backlog_bytes(peer->daemon->store), a, sizeof(a)));
	return 0;
}

/* The job has its blob, charges and limits, and no state yet; NULL with the reason. */
static struct gp_job *request_new_job(struct gp_peer *peer, const struct gp_wire_submit *s, int fd,
				      struct gp_err *err)
{
	__attribute__((cleanup(gp_charge_drop))) struct gp_charge charge = { 0 },
								  blob_charge = { 0 };
	uint32_t blob_bytes = s->blob_bytes;
	gp_auto_free char *blob = NULL;
	struct gp_limits limits;
	struct gp_job *job;

	if (request_read_blob(fd, s, &blob, err) < 0 ||
	    request_take_limits(peer, &limits, &blob, &blob_bytes, err) < 0 ||
	    gp_job_charge(peer->daemon, peer->uid, false, blob_bytes, &charge, &blob_charge, err) <
		    0)
		return NULL;
	job = gp_job_new(peer->daemon, *s->name ? s->name : blob, peer->uid, s->priority,
			 s->mem_bytes);
	if (!job) {
		gp_err_set(err, -ENOMEM, "out of memory");
		return NULL;
	}
	gp_charge_move(&job->charge, &charge);
	gp_charge_move(&job->blob_charge, &blob_charge);
	job->gid = peer->gid;
	job->limits = limits;
	gp_job_set_command(job, gp_take_ptr(blob), blob_bytes, s->n_args, s->n_env);
	return job;
}

static void request_submit(struct gp_peer *peer, const struct gp_wire_msg *msg, const int *fds,
			   size_t n_fds)
{
	struct gp_job *job = NULL;
	struct gp_wire_msg reply;
	struct gp_err err;

	if (request_check_submit(peer, &msg->submit, &err) == 0) {
		if (n_fds == 1)
			job = request_new_job(peer, &msg->submit, fds[0], &err);
		else
			gp_err_set(&err, -EBADMSG, "SUBMIT without its memfd");
	}
	if (!job) {
		gp_peer_send_error(peer, msg, err.code, "%s", err.msg);
		return;
	}
	request_forget_files(job);
	gp_job_set_state(job, GP_JOB_QUEUED, "submitted");
	gp_wire_init_reply(&reply, GP_WIRE_OK, msg);
	reply.header.job = job->id;
	gp_peer_send(peer, &reply, NULL, 0);
	gp_schedule_want(peer->daemon);
}

static void request_send_job(struct gp_peer *peer, const struct gp_wire_msg *msg,
			     const struct gp_job *job)
{
	struct gp_wire_msg reply;

	gp_wire_init_reply(&reply, GP_WIRE_JOB, msg);
	gp_job_fill(job, &reply.job);
	gp_peer_send(peer, &reply, NULL, 0);
}

static bool request_lists(const struct gp_peer *peer, const struct gp_job *job)
{
	return job->uid == peer->uid || (peer->list.list.all && gp_access_may(peer, job));
}

/* History is longer than a queue may be: as much at a time as the socket takes. */
void gp_request_list_more(struct gp_peer *peer)
{
	struct gp_wire_msg reply;

	gp_list_for_each(job, &peer->daemon->jobs, struct gp_job, node) {
		if (peer->n_queued)
			return;
		if (job->id <= peer->listed_job || !request_lists(peer, job))
			continue; /* at most a few thousand, at most once for each full socket */
		peer->listed_job = job->id;
		request_send_job(peer, &peer->list, job);
	}
	peer->listing = false;
	gp_wire_init_reply(&reply, GP_WIRE_END, &peer->list);
	gp_peer_send(peer, &reply, NULL, 0);
}

static void request_list(struct gp_peer *peer, const struct gp_wire_msg *msg)
{
	if (peer->listing) {
		gp_peer_send_error(peer, msg, -EBUSY, "one LIST at a time");
		return;
	}
	if (msg->list.all && !peer->is_admin) {
		gp_peer_send_error(peer, msg, -EPERM,
				   "only admins may list the jobs of all users: leave out --all");
		return;
	}
	memcpy(&peer->list, msg, msg->header.size);
	peer->listing = true;
	peer->listed_job = 0;
	gp_request_list_more(peer);
}

static void request_devices(struct gp_peer *peer, const struct gp_wire_msg *msg)
{
	struct gp_wire_msg reply;

	gp_list_for_each(d, &peer->daemon->devices, struct gp_device, node) {
		gp_wire_init_reply(&reply, GP_WIRE_DEVICE, msg);
		reply.device = (struct gp_wire_device){
			.ordinal = d->ordinal,
			.ready = d->ready,
			.total_bytes = d->meminfo.total_bytes,
			.free_bytes = d->meminfo.free_bytes,
			.arena_bytes = d->meminfo.arena_bytes,
			.arena_used_bytes = d->meminfo.arena_used_bytes,
			.swap_bytes = d->meminfo.swap_bytes,
			.swap_used_bytes = d->meminfo.swap_used_bytes,
		};
		gp_wire_text(reply.device.kind, sizeof(reply.device.kind),
			     peer->daemon->options.device == GP_DEVICE_SOFT ? "soft" : "nvidia");
		gp_wire_text(reply.device.name, sizeof(reply.device.name), d->name);
		gp_peer_send(peer, &reply, NULL, 0);
	}
	gp_wire_init_reply(&reply, GP_WIRE_END, msg);
	gp_peer_send(peer, &reply, NULL, 0);
	/* These were the last figures read; whoever asks again gets later ones. */
	gp_schedule_want(peer->daemon);
}

static void request_logs(struct gp_peer *peer, const struct gp_wire_msg *msg, struct gp_job *job)
{
	gp_auto_fd int fd = -1;
	struct gp_wire_msg reply;
	char path[PATH_MAX];

	/*
	 * A user may have only so many descriptors under way, and those that nobody takes would
	 * be ours: one a connection, and there are never more than we may have open.
	 */
	if (gp_peer_has_unread(peer)) {
		gp_peer_send_error(peer, msg, -EBUSY,
				   "a log is sent only once all earlier answers have been read");
		return;
	}
	gp_job_path(job, "log", path, sizeof(path));
	/* Who follows a job asks before the supervisor has opened its log: both must find one file.
	 * The log of an ended job may have been removed with its history, and stays so.
	 */
	if (gp_job_state_is_final(job->state) && access(path, F_OK) < 0)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	else
		fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC,
			  peer->daemon->options.system ? GP_JOB_SYSTEM_LOG_MODE : 0600);
	if (fd < 0) {
		gp_peer_send_error(peer, msg, -errno, "cannot open the log of job %" PRIu64 ": %s",
				   job->id, path);
		return;
	}
	gp_wire_init_reply(&reply, GP_WIRE_LOG, msg);
	gp_peer_send(peer, &reply, &fd, 1);
}

/* The operation may be over already, and then nobody else would answer. */
static void request_wait_for_op(struct gp_peer *peer, const struct gp_wire_msg *msg,
				struct gp_job *job)
{
	gp_job_add_request(job, peer, msg);
	if (job->op == GP_OP_NONE)
		gp_job_answer(job, msg->header.type, job->op_code, job->op_error);
}

/* Of a job that stays where it is: a later daemon must know. */
static void request_set_held(struct gp_job *job, bool held)
{
	if (job->held == held)
		return;
	job->held = held;
	gp_job_set_state(job, job->state, held ? "held by hand" : "held no more");
}

static void request_preempt(struct gp_peer *peer, const struct gp_wire_msg *msg, struct gp_job *job)
{
	enum gp_job_state to = (enum gp_job_state)msg->preempt.to;
	struct gp_err err;
	bool was_held;
	int r;

	/* Already there, or deeper: done, and from now on held. */
	if (job->op == GP_OP_NONE && (job->state == to || job->state == GP_JOB_SWAPPED)) {
		request_set_held(job, true);
		request_send_job(peer, msg, job);
		return;
	}
	/* On the way there: as good as asked for. */
	if (job->op == GP_OP_PREEMPT && job->op_target == to && !job->cancelling) {
		job->held = true;
		gp_job_add_request(job, peer, msg);
		return;
	}
	/* Stored with the state that it begins with. */
	was_held = job->held;
	job->held = true;
	r = gp_preempt_begin(job, to, "preempted by hand", &err);
	if (r < 0) {
		job->held = was_held;
		gp_peer_send_error(peer, msg, r, "%s", err.msg);
		return;
	}
	request_wait_for_op(peer, msg, job);
}

/*
 * What others were promised is not its to take, or they would fail for the lack of it. From now on
 * it is the scheduler's.
 */
static void request_resume_later(struct gp_peer *peer, const struct gp_wire_msg *msg,
				 struct gp_job *job)
{
	char text[32];

	request_set_held(job, false);
	gp_schedule_want(peer->daemon);
	gp_peer_send_error(peer, msg, -ENOMEM,
			   "job %" PRIu64 ": its %s do not fit beside what other jobs were "
			   "promised: it comes back when they do",
			   job->id, gp_size_format(gp_job_released_bytes(job), text, sizeof(text)));
}

static void request_resume(struct gp_peer *peer, const struct gp_wire_msg *msg, struct gp_job *job)
{
	struct gp_err err;
	bool was_held;
	int r;

	if (job->state == GP_JOB_RUNNING && job->op == GP_OP_NONE) {
		request_send_job(peer, msg, job);
		return;
	}
	if (job->op == GP_OP_RESUME && !job->cancelling) {
		job->held = false;
		gp_job_add_request(job, peer, msg);
		return;
	}
	if (job->state == GP_JOB_SWAPPED && job->op == GP_OP_NONE && !job->cancelling &&
	    !job->recovering && !gp_schedule_has_room(job)) {
		request_resume_later(peer, msg, job);
		return;
	}
	was_held = job->held;
	job->held = false;
	r = gp_preempt_resume(job, "resumed by hand", &err);
	if (r < 0) {
		job->held = was_held;
		gp_peer_send_error(peer, msg, r, "%s", err.msg);
		return;
	}
	request_wait_for_op(peer, msg, job);
}

static void request_cancel(struct gp_peer *peer, const struct gp_wire_msg *msg, struct gp_job *job)
{
	if (gp_job_state_is_final(job->state)) {
		request_send_job(peer, msg, job);
		return;
	}
	gp_job_add_request(job, peer, msg);
	gp_preempt_cancel(job);
}

/* Those that may be answered only when the job has got somewhere. */
static bool request_waits(uint32_t type)
{
	return type == GP_WIRE_PREEMPT || type == GP_WIRE_RESUME || type == GP_WIRE_CANCEL ||
	       type == GP_WIRE_WAIT;
}

static void request_of_job(struct gp_peer *peer, const struct gp_wire_msg *msg, struct gp_job *job)
{
	bool moves = msg->header.type == GP_WIRE_PREEMPT || msg->header.type == GP_WIRE_RESUME;

	/* What becomes of the job is not decided yet: gp_request_take_up. */
	if (job->recovering && moves) {
		gp_job_add_request(job, peer, msg);
		return;
	}
	switch ((enum gp_wire_type)msg->header.type) {
	case GP_WIRE_PREEMPT:
		request_preempt(peer, msg, job);
		break;
	case GP_WIRE_RESUME:
		request_resume(peer, msg, job);
		break;
	case GP_WIRE_CANCEL:
		request_cancel(peer, msg, job);
		break;
	case GP_WIRE_SHOW:
		request_send_job(peer, msg, job);
		break;
	case GP_WIRE_WAIT:
		if (gp_job_state_is_final(job->state))
			request_send_job(peer, msg, job);
		else
			gp_job_add_request(job, peer, msg);
		break;
	case GP_WIRE_LOGS:
		request_logs(peer, msg, job);
		break;
	default:
		gp_peer_send_error(peer, msg, -EINVAL, "%s is not a client's request",
				   gp_wire_name(msg->header.type));
		break;
	}
}

void gp_request_take_up(struct gp_job *job)
{
	struct gp_list waiting;

	gp_list_init(&waiting);
	gp_list_for_each(q, &job->requests, struct gp_request, node) {
		if (q->msg.header.type != GP_WIRE_PREEMPT && q->msg.header.type != GP_WIRE_RESUME)
			continue;
		gp_list_del(&q->node);
		gp_list_add_tail(&waiting, &q->node);
	}
	gp_list_for_each(q, &waiting, struct gp_request, node) {
		request_of_job(q->peer, &q->msg, job);
		gp_job_free_request(q);
	}
}

void gp_request_handle(struct gp_peer *peer, const struct gp_wire_msg *msg, int *fds, size_t n_fds)
{
	struct gp_job *job;

	switch ((enum gp_wire_type)msg->header.type) {
	case GP_WIRE_SUBMIT:
		request_submit(peer, msg, fds, n_fds);
		return;
	case GP_WIRE_LIST:
		request_list(peer, msg);
		return;
	case GP_WIRE_DEVICES:
		request_devices(peer, msg);
		return;
	case GP_WIRE_BACKUP:
		gp_backup_request(peer, msg);
		return;
	case GP_WIRE_HISTORY:
		gp_recall_history(peer, msg);
		return;
	default:
		break;
	}
	if (request_waits(msg->header.type) && peer->n_requests >= GP_PEER_MAX_REQUESTS) {
		gp_peer_send_error(peer, msg, -EBUSY,
				   "%d requests of this connection wait already: use one more",
				   GP_PEER_MAX_REQUESTS);
		return;
	}
	job = gp_job_find(peer->daemon, msg->header.job);
	/* Whose job it is must not be told by how this fails. */
	if (!job || !gp_access_may(peer, job)) {
		gp_recall_job(peer, msg);
		return;
	}
	request_of_job(peer, msg, job);
}
