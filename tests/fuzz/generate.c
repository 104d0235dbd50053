/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/generate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* Numbers at which something may change over. */
static const uint64_t fuzz_edges[] = {
	0,
	1,
	2,
	3,
	7,
	GP_WIRE_MAX_PROCS - 1,
	GP_WIRE_MAX_PROCS,
	GP_WIRE_MAX_PROCS + 1,
	GP_WIRE_MAX_EXTENTS - 1,
	GP_WIRE_MAX_EXTENTS,
	GP_WIRE_MAX_EXTENTS + 1,
	GP_WIRE_MAX_IDS,
	GP_WIRE_MAX_IDS + 1,
	4096,
	1u << 20,
	GP_WIRE_MAX_SUBMIT_BLOB + 1,
	1ull << 30,
	INT32_MAX,
	1ull << 31,
	UINT32_MAX - 1,
	UINT32_MAX,
	1ull << 32,
	INT64_MAX,
	UINT64_MAX - 1,
	UINT64_MAX,
};

void gp_fuzz_init(struct gp_fuzz *fuzz, uint64_t seed)
{
	*fuzz = (struct gp_fuzz){ .x = seed * 0x9e3779b97f4a7c15ull + 1 };
	for (int i = 0; i < 8; i++)
		gp_fuzz_number(fuzz);
}

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators". */
uint64_t gp_fuzz_number(struct gp_fuzz *fuzz)
{
	fuzz->x ^= fuzz->x >> 12;
	fuzz->x ^= fuzz->x << 25;
	fuzz->x ^= fuzz->x >> 27;
	return fuzz->x * 0x2545f4914f6cdd1dull;
}

size_t gp_fuzz_below(struct gp_fuzz *fuzz, size_t n)
{
	return (size_t)((gp_fuzz_number(fuzz) >> 11) % n);
}

bool gp_fuzz_percent(struct gp_fuzz *fuzz, unsigned int percent)
{
	return gp_fuzz_below(fuzz, 100) < percent;
}

void gp_fuzz_remember(struct gp_fuzz *fuzz, const struct gp_wire_msg *msg)
{
	fuzz->seen[fuzz->n_seen++ % GP_FUZZ_MEMORY] = msg->header;
}

static const struct gp_wire_header *fuzz_seen(struct gp_fuzz *fuzz)
{
	size_t n = fuzz->n_seen < GP_FUZZ_MEMORY ? fuzz->n_seen : GP_FUZZ_MEMORY;

	return n ? &fuzz->seen[gp_fuzz_below(fuzz, n)] : NULL;
}

static uint64_t fuzz_value(struct gp_fuzz *fuzz)
{
	if (gp_fuzz_percent(fuzz, 60))
		return gp_fuzz_below(fuzz, 8);
	if (gp_fuzz_percent(fuzz, 80))
		return fuzz_edges[gp_fuzz_below(fuzz, GP_ARRAY_SIZE(fuzz_edges))];
	return gp_fuzz_number(fuzz);
}

uint32_t gp_fuzz_type(struct gp_fuzz *fuzz)
{
	return 1 + (uint32_t)gp_fuzz_below(fuzz, GP_WIRE_MAX_ - 1);
}

static void fuzz_text(struct gp_fuzz *fuzz, char *field, size_t bytes)
{
	size_t n = gp_fuzz_percent(fuzz, 20) ? bytes - 1 : gp_fuzz_below(fuzz, bytes);

	memset(field, 0, bytes);
	for (size_t i = 0; i < n; i++)
		field[i] = (char)(1 + gp_fuzz_below(fuzz, 255));
}

/* What gp_wire_check demands of a body. */
static void fuzz_make_valid(struct gp_fuzz *fuzz, struct gp_wire_msg *m)
{
	switch ((enum gp_wire_type)m->header.type) {
	case GP_WIRE_HELLO:
		fuzz_text(fuzz, m->hello.program, sizeof(m->hello.program));
		break;
	case GP_WIRE_ERROR:
		m->error.code = -1 - (int32_t)gp_fuzz_below(fuzz, 130);
		fuzz_text(fuzz, m->error.text, sizeof(m->error.text));
		break;
	case GP_WIRE_SUBMIT:
		fuzz_text(fuzz, m->submit.name, sizeof(m->submit.name));
		m->submit.n_args += !m->submit.n_args;
		m->submit.blob_bytes %= GP_WIRE_MAX_SUBMIT_BLOB + 1;
		break;
	case GP_WIRE_PREEMPT:
		m->preempt.to = gp_fuzz_percent(fuzz, 50) ? GP_JOB_FROZEN : GP_JOB_SWAPPED;
		break;
	case GP_WIRE_JOB:
		fuzz_text(fuzz, m->job.name, sizeof(m->job.name));
		fuzz_text(fuzz, m->job.cause, sizeof(m->job.cause));
		fuzz_text(fuzz, m->job.command, sizeof(m->job.command));
		break;
	case GP_WIRE_DEVICE:
		fuzz_text(fuzz, m->device.kind, sizeof(m->device.kind));
		fuzz_text(fuzz, m->device.name, sizeof(m->device.name));
		break;
	case GP_WIRE_CHANNELS:
		m->channels.n %= GP_WIRE_MAX_CHANNELS + 1;
		m->channels.first %= 1024;
		if (m->channels.total < m->channels.first + m->channels.n)
			m->channels.total = m->channels.first + m->channels.n;
		break;
	case GP_WIRE_RELEASE:
	case GP_WIRE_SAVED:
		m->release.n %= GP_WIRE_MAX_IDS + 1;
		break;
	case GP_WIRE_EXTENTS:
		m->extents.n %= GP_WIRE_MAX_EXTENTS + 1;
		m->extents.error = -(int32_t)gp_fuzz_below(fuzz, 3);
		break;
	case GP_WIRE_FREEZE:
	case GP_WIRE_THAW:
		m->freeze.n %= GP_WIRE_MAX_PROCS + 1;
		break;
	case GP_WIRE_RESYNC:
		m->resync.state %= GP_RESYNC_SCRATCH + 1;
		m->resync.n_released = m->resync.n_unfilled = m->resync.n_extents;
		break;
	case GP_WIRE_MOVER_READY:
		fuzz_text(fuzz, m->mover_ready.name, sizeof(m->mover_ready.name));
		break;
	default:
		break;
	}
}

void gp_fuzz_valid(struct gp_fuzz *fuzz, uint32_t type, struct gp_wire_msg *ret_msg)
{
	const struct gp_wire_header *seen = fuzz_seen(fuzz);
	uint32_t *word = (uint32_t *)(void *)((char *)ret_msg + sizeof(ret_msg->header));

	gp_wire_init(ret_msg, type);
	for (size_t i = 0; i < (gp_wire_size(type) - sizeof(ret_msg->header)) / sizeof(*word); i++)
		word[i] = (uint32_t)fuzz_value(fuzz);
	if (seen && gp_fuzz_percent(fuzz, 80)) {
		ret_msg->header.job = seen->job;
		ret_msg->header.epoch = seen->epoch;
		ret_msg->header.cookie = seen->cookie;
		ret_msg->header.proc = seen->proc;
	} else {
		ret_msg->header.job = gp_fuzz_below(fuzz, 8);
		ret_msg->header.epoch = gp_fuzz_below(fuzz, 4);
	}
	fuzz_make_valid(fuzz, ret_msg);
}

static void fuzz_mutate_header(struct gp_fuzz *fuzz, struct gp_wire_header *h)
{
	switch (gp_fuzz_below(fuzz, 6)) {
	case 0:
		h->type = (uint32_t)fuzz_value(fuzz);
		break;
	case 1:
		h->size = (uint32_t)fuzz_value(fuzz);
		break;
	case 2:
		h->job = fuzz_value(fuzz);
		break;
	case 3:
		h->epoch = gp_fuzz_percent(fuzz, 50) ? h->epoch - 1 : fuzz_value(fuzz);
		break;
	case 4:
		h->cookie = (uint32_t)fuzz_value(fuzz);
		break;
	default:
		h->proc = (uint32_t)fuzz_value(fuzz);
		break;
	}
}

void gp_fuzz_mutate(struct gp_fuzz *fuzz, struct gp_fuzz_datagram *d)
{
	uint32_t word = (uint32_t)fuzz_value(fuzz);

	switch (gp_fuzz_below(fuzz, 8)) {
	case 0: /* half of it */
		d->len = gp_fuzz_below(fuzz, d->len + 1);
		break;
	case 1: /* more than it is */
		d->len = GP_FUZZ_MAX_BYTES - gp_fuzz_below(fuzz, 64);
		break;
	case 2: /* the size says so, too */
		d->len = d->msg.header.size = (uint32_t)gp_fuzz_below(fuzz, GP_FUZZ_MAX_BYTES);
		break;
	case 3: /* another type of the right size */
		d->msg.header.type = gp_fuzz_type(fuzz);
		d->len = d->msg.header.size = (uint32_t)gp_wire_size(d->msg.header.type);
		break;
	case 4: /* no end of a text; whatever lies in the tail of a body */
		memset(d->bytes + sizeof(d->msg.header), 'x', d->len > 40 ? d->len - 32 : 0);
		break;
	case 5: /* one field */
		if (d->len >= sizeof(d->msg.header) + sizeof(word))
			memcpy(d->bytes + sizeof(d->msg.header) +
				       gp_fuzz_below(fuzz, (d->len - sizeof(d->msg.header)) /
								   sizeof(word)) *
					       sizeof(word),
			       &word, sizeof(word));
		break;
	case 6:
		d->n_fds = gp_fuzz_percent(fuzz, 30) ? GP_FUZZ_MAX_FDS : gp_fuzz_below(fuzz, 66);
		break;
	default:
		fuzz_mutate_header(fuzz, &d->msg.header);
		break;
	}
}

void gp_fuzz_noise(struct gp_fuzz *fuzz, struct gp_fuzz_datagram *d)
{
	for (size_t i = 0; i < sizeof(d->bytes); i++)
		d->bytes[i] = (unsigned char)gp_fuzz_number(fuzz);
	d->len = gp_fuzz_percent(fuzz, 20) ? 0 : gp_fuzz_below(fuzz, GP_FUZZ_MAX_BYTES);
	d->n_fds = gp_fuzz_percent(fuzz, 30) ? gp_fuzz_below(fuzz, GP_FUZZ_MAX_FDS + 1) : 0;
}

void gp_fuzz_anything(struct gp_fuzz *fuzz, unsigned int noise, unsigned int mutated,
		      struct gp_fuzz_datagram *d)
{
	if (gp_fuzz_percent(fuzz, noise)) {
		gp_fuzz_noise(fuzz, d);
		return;
	}
	gp_fuzz_valid(fuzz, gp_fuzz_type(fuzz), &d->msg);
	d->len = d->msg.header.size;
	if (gp_fuzz_percent(fuzz, mutated))
		gp_fuzz_mutate(fuzz, d);
}

int gp_fuzz_send(int sock, const struct gp_fuzz_datagram *d)
{
	union {
		char bytes[CMSG_SPACE(GP_FUZZ_MAX_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)d->bytes, d->len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (d->n_fds) {
		struct cmsghdr *c;

		mh.msg_control = control.bytes;
		mh.msg_controllen = CMSG_SPACE(d->n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(d->n_fds * sizeof(int));
		for (size_t i = 0; i < d->n_fds; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &d->fd, sizeof(d->fd));
	}
	return sendmsg(sock, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void fuzz_die(const char *what)
{
	perror(what);
	exit(1);
}

static int fuzz_pipe_end(void)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		fuzz_die("pipe");
	close(fds[1]);
	return fds[0];
}

int gp_fuzz_blob(struct gp_fuzz *fuzz, struct gp_wire_submit *submit)
{
	static const char good[] = "/bin/true\0an argument\0NAME=value\0/";
	bool wrong = gp_fuzz_percent(fuzz, 33);
	size_t bytes = sizeof(good);
	int fd;

	submit->n_args = 2;
	submit->n_env = 1;
	submit->blob_bytes = sizeof(good);
	if (wrong && gp_fuzz_percent(fuzz, 20))
		return fuzz_pipe_end();
	if (wrong && gp_fuzz_percent(fuzz, 30))
		bytes = gp_fuzz_below(fuzz, sizeof(good) + 1);
	if (wrong && gp_fuzz_percent(fuzz, 50))
		submit->n_args = (uint32_t)fuzz_value(fuzz) | 1;
	if (wrong && gp_fuzz_percent(fuzz, 30))
		submit->n_env = (uint32_t)fuzz_value(fuzz);
	fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || write(fd, good, bytes) != (ssize_t)bytes)
		fuzz_die("memfd");
	if (!wrong || gp_fuzz_percent(fuzz, 70)) {
		if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
			fuzz_die("seal");
	}
	return fd;
}
