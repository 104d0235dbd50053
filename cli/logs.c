/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/logs.h"

#include "base/wire/wire.h"
#include "cli/json.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define LOGS_BUFFER_BYTES 65536
/* Without inotify (no instance left, or a log of another user) the file is looked at this often. */
#define LOGS_TICK_MS 200

struct logs {
	struct gp_client *client;
	uint64_t job;
	bool json;
	int file; /* shares no offset: read with pread */
	off_t offset;
	bool mute; /* stdout is gone: go on without printing */
	bool cancelled;
	uint32_t wait_cookie, cancel_cookie;
};

static int logs_write(const struct logs *l, const char *bytes, size_t n_bytes, struct gp_err *err)
{
	if (l->json) {
		struct gp_json j;

		gp_json_init(&j, stdout);
		gp_json_open_object(&j, NULL);
		gp_json_unsigned(&j, "id", l->job);
		gp_json_bytes(&j, "text", bytes, n_bytes);
		gp_json_close_object(&j);
		putc('\n', stdout);
	} else {
		fwrite(bytes, 1, n_bytes, stdout);
	}
	if (fflush(stdout) != 0 || ferror(stdout))
		return gp_err_sys(err, -errno, "cannot print the output of job %llu",
				  (unsigned long long)l->job);
	return 0;
}

/* Prints all that the file has past l->offset. @last: nothing will be added to it any more. */
static int logs_drain(struct logs *l, bool last, struct gp_err *err)
{
	char buf[LOGS_BUFFER_BYTES];

	while (!l->mute) {
		ssize_t n = pread(l->file, buf, sizeof(buf), l->offset);
		size_t use;
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gp_err_sys(err, -errno, "cannot read the log of job %llu",
					  (unsigned long long)l->job);
		use = (size_t)n;
		/* JSON is text: a sequence of UTF-8 of which only a part is there waits. */
		if (l->json && !last)
			use -= gp_utf8_incomplete(buf, use);
		if (use == 0)
			return 0;
		r = logs_write(l, buf, use, err);
		if (r < 0)
			return r;
		l->offset += (off_t)use;
	}
	return 0;
}

static int logs_open(struct logs *l, struct gp_client *c, uint64_t job, bool json,
		     struct gp_err *err)
{
	struct gp_wire_msg msg;
	int r;

	*l = (struct logs){ .client = c, .job = job, .json = json, .file = -1 };
	r = gp_client_ask(c, GP_WIRE_LOGS, job, &msg, GP_WIRE_LOG, &l->file, err);
	if (r < 0)
		return r;
	if (l->file < 0)
		return gp_err_set(err, -EPROTO, "the daemon sent no log file");
	return 0;
}

int gp_logs_print(struct gp_client *c, uint64_t job, bool json, struct gp_err *err)
{
	struct logs l;
	int r;

	r = logs_open(&l, c, job, json, err);
	if (r < 0)
		return r;
	r = logs_drain(&l, true, err);
	gp_close_fd(&l.file);
	return r;
}

/* An inotify fd that reports growth of l->file; -1 where that is refused. */
static int logs_watch(const struct logs *l)
{
	gp_auto_fd int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", l->file);
	if (fd < 0 || inotify_add_watch(fd, path, IN_MODIFY) < 0)
		return -1;
	return gp_take_fd(&fd);
}

static int logs_cancel(struct logs *l, struct gp_err *err)
{
	struct gp_wire_msg msg;
	int r;

	if (l->cancelled)
		return 0;
	gp_wire_init(&msg, GP_WIRE_CANCEL);
	msg.header.job = l->job;
	r = gp_client_send(l->client, &msg, -1, err);
	if (r < 0)
		return r;
	l->cancelled = true;
	l->cancel_cookie = msg.header.cookie;
	return 0;
}

/* Takes one message; 1 when it says that the job has ended. */
static int logs_receive(struct logs *l, struct gp_wire_job *ret, struct gp_err *err)
{
	struct gp_wire_msg msg = { 0 };
	int r;

	r = gp_client_recv(l->client, 0, &msg, NULL, err);
	/* The job may end before the request to cancel it arrives: not worth a word. */
	if (r < 0 && l->cancel_cookie && msg.header.type == GP_WIRE_ERROR &&
	    msg.header.cookie == l->cancel_cookie)
		return 0;
	if (r < 0)
		return r;
	if (msg.header.cookie != l->wait_cookie || msg.header.type != GP_WIRE_JOB)
		return 0;
	*ret = msg.job;
	return 1;
}

/* What the file has, on stdout; in the foreground a closed stdout cancels the job. */
static int logs_copy(struct logs *l, bool last, bool foreground, struct gp_err *err)
{
	int r = logs_drain(l, last, err);

	if (r >= 0 || !foreground)
		return r;
	l->mute = true;
	return logs_cancel(l, err);
}

static void logs_discard(int fd)
{
	/* Large enough for one event with the longest name; what it says is known. */
	char buf[4096];

	while (read(fd, buf, sizeof(buf)) > 0)
		continue;
}

/* @watch and @signals may be -1. */
static int logs_loop(struct logs *l, int watch, int signals, bool foreground,
		     struct gp_wire_job *ret, struct gp_err *err)
{
	struct pollfd polls[] = {
		{ .fd = l->client->sock, .events = POLLIN },
		{ .fd = watch, .events = POLLIN },
		{ .fd = signals, .events = POLLIN },
	};

	for (;;) {
		int r, ended = 0;

		/* After the watch exists and before each wait: growth in between is an event. */
		r = logs_copy(l, false, foreground, err);
		if (r < 0)
			return r;
		r = poll(polls, GP_ARRAY_SIZE(polls), watch < 0 ? LOGS_TICK_MS : -1);
		if (r < 0 && errno != EINTR)
			return gp_err_sys(err, -errno, "cannot wait for output");
		if (r <= 0)
			continue;
		if (polls[1].revents)
			logs_discard(watch);
		if (polls[2].revents) {
			logs_discard(signals);
			r = logs_cancel(l, err);
			if (r < 0)
				return r;
		}
		if (polls[0].revents)
			ended = logs_receive(l, ret, err);
		if (ended < 0)
			return ended;
		if (ended)
			return logs_copy(l, true, foreground, err);
	}
}

static int logs_follow(struct logs *l, bool foreground, struct gp_wire_job *ret, struct gp_err *err)
{
	gp_auto_fd int watch = -1, signals = -1;
	struct gp_wire_msg msg;
	int r;

	if (foreground) {
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGINT);
		sigaddset(&set, SIGTERM);
		sigaddset(&set, SIGHUP);
		signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
		if (signals < 0)
			return gp_err_sys(err, -errno, "cannot receive signals");
	}
	gp_wire_init(&msg, GP_WIRE_WAIT);
	msg.header.job = l->job;
	r = gp_client_send(l->client, &msg, -1, err);
	if (r < 0)
		return r;
	l->wait_cookie = msg.header.cookie;
	watch = logs_watch(l);
	return logs_loop(l, watch, signals, foreground, ret, err);
}

int gp_logs_follow(struct gp_client *c, uint64_t job, bool json, bool foreground,
		   struct gp_wire_job *ret, struct gp_err *err)
{
	struct logs l;
	int r;

	r = logs_open(&l, c, job, json, err);
	if (r == 0)
		r = logs_follow(&l, foreground, ret, err);
	gp_close_fd(&l.file);
	return r;
}
