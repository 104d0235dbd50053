/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transfer is one struct swapfile_transfer per staging buffer: idle -> in flight -> (resubmitted
 * when short) -> ended, handed out by gp_swapfile_wait. Without io_uring a transfer ends inside
 * gp_swapfile_submit and waits in the queue `ended`.
 */
#include "snapshot/swapfile.h"

#include "base/size.h"
#include "snapshot/chunkmap.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SWAPFILE_STEP_CHUNKS 32 /* 64 MiB: some 30 ms of writing at 2 GB/s */

struct swapfile_transfer {
	uint64_t offset; /* of the chunk in the file */
	uint32_t done;	 /* bytes */
	bool write, busy;
	int result; /* of the pread/pwrite path: 0 or negative errno */
};

struct gp_swapfile {
	char *dir;
	int fd;
	struct gp_chunkmap map;	   /* chunks that hold data */
	struct gp_chunkmap backed; /* chunks with disk blocks; only its bits are used */
	bool direct, uring, fixed; /* fixed: buffers are registered */
	bool no_fallocate;	   /* the file system cannot allocate ahead */
	char *buffers;
	uint32_t n_buffers;
	struct swapfile_transfer *transfers; /* one per buffer */
	uint32_t *ended;		     /* pread/pwrite path: queue of buffers */
	uint32_t n_ended;
	uint32_t n_busy;
	struct io_uring ring;
	int broken; /* why the ring is not used any more */
};

static int swapfile_fail(const struct gp_swapfile *s, int code, const char *what,
			 struct gp_err *err)
{
	if (code == -ENOSPC || code == -EFBIG || code == -EDQUOT)
		return gp_err_set(err, code,
				  "%s the swap file in %s: no space left (%s); free space there "
				  "or give another --swap-dir",
				  what, s->dir, strerror(-code));
	return gp_err_set(err, code, "%s the swap file in %s: %s; check that disk", what, s->dir,
			  strerror(-code));
}

/* A file without a name from the start, or without one a moment later. */
static int swapfile_create(const char *dir, int extra_flags)
{
	char path[PATH_MAX];
	int fd = open(dir, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC | extra_flags, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd >= 0 ? fd : -errno;
	if (snprintf(path, sizeof(path), "%s/gpupres-swap-XXXXXX", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC | extra_flags);
	if (fd < 0)
		fd = -errno;
	unlink(path); /* a file whose open was refused for O_DIRECT has been made, too */
	return fd;
}

static int swapfile_open(struct gp_swapfile *s, bool no_direct, struct gp_err *err)
{
	s->fd = no_direct ? -EINVAL : swapfile_create(s->dir, O_DIRECT);
	s->direct = s->fd >= 0;
	/*
	 * FUSE and others: page cache instead. Synchronous, because a write that fails once the
	 * chunk has been reported as saved is memory lost.
	 */
	if (s->fd == -EINVAL)
		s->fd = swapfile_create(s->dir, O_DSYNC);
	if (s->fd < 0)
		return gp_err_sys(err, s->fd, "cannot create a swap file in %s", s->dir);
	return 0;
}

/* The flags of the descriptor are the predecessor's, too: it chose them for this file system. */
static int swapfile_inherit(struct gp_swapfile *s, int fd, uint64_t *n_chunks, struct gp_err *err)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);
	uint64_t n;

	if (flags < 0 || fstat(fd, &st) < 0)
		return gp_err_set(err, -EINVAL, "descriptor %d is no swap file: %s", fd,
				  strerror(errno));
	if (!S_ISREG(st.st_mode) || (flags & O_ACCMODE) != O_RDWR || st.st_size < 0)
		return gp_err_set(err, -EINVAL, "descriptor %d is no swap file", fd);
	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (s->fd < 0)
		return gp_err_sys(err, -errno, "swap file");
	s->direct = flags & O_DIRECT;
	n = ((uint64_t)st.st_size + GP_CHUNK_BYTES - 1) / GP_CHUNK_BYTES;
	if (n > *n_chunks)
		*n_chunks = n;
	return 0;
}

static void swapfile_start_uring(struct gp_swapfile *s)
{
	struct iovec *iov;

	if (io_uring_queue_init(s->n_buffers, &s->ring, 0) < 0)
		return; /* forbidden by seccomp or sysctl, or out of locked memory: pread/pwrite */
	if (io_uring_register_files(&s->ring, &s->fd, 1) < 0) {
		io_uring_queue_exit(&s->ring);
		return;
	}
	s->uring = true;
	iov = calloc(s->n_buffers, sizeof(*iov));
	if (!iov)
		return;
	for (uint32_t i = 0; i < s->n_buffers; i++)
		iov[i] = (struct iovec){ s->buffers + i * GP_CHUNK_BYTES, GP_CHUNK_BYTES };
	/* Counts against RLIMIT_MEMLOCK for users; unregistered buffers merely cost more CPU. */
	s->fixed = io_uring_register_buffers(&s->ring, iov, s->n_buffers) == 0;
	free(iov);
}

static int swapfile_init(struct gp_swapfile *s, const struct gp_swapfile_options *o,
			 struct gp_err *err)
{
	uint64_t n_chunks = o->max_bytes / GP_CHUNK_BYTES;
	int r;

	s->dir = strdup(o->dir ? o->dir : "");
	s->transfers = calloc(o->n_buffers + 1, sizeof(*s->transfers));
	s->ended = calloc(o->n_buffers + 1, sizeof(*s->ended));
	if (!s->dir || !s->transfers || !s->ended)
		return gp_err_sys(err, -ENOMEM, "swap file");
	r = o->inherited_fd ? swapfile_inherit(s, o->inherited_fd, &n_chunks, err) : 0;
	if (r < 0)
		return r;
	if (n_chunks > UINT32_MAX - 64)
		return gp_err_set(err, -EINVAL, "the swap file limit is too large");
	r = gp_chunkmap_init(&s->map, (uint32_t)n_chunks);
	if (r == 0)
		r = gp_chunkmap_init(&s->backed, (uint32_t)n_chunks);
	if (r < 0)
		return gp_err_sys(err, r, "swap file");
	if (n_chunks == 0)
		return 0;
	r = s->fd < 0 ? swapfile_open(s, o->no_direct, err) : 0;
	if (r < 0)
		return r;
	if (!o->no_uring)
		swapfile_start_uring(s);
	return 0;
}

int gp_swapfile_new(const struct gp_swapfile_options *options, struct gp_swapfile **ret_swapfile,
		    struct gp_err *err)
{
	struct gp_swapfile *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return gp_err_sys(err, -ENOMEM, "swap file");
	s->fd = -1;
	s->buffers = options->buffers;
	s->n_buffers = options->n_buffers;
	r = swapfile_init(s, options, err);
	if (r < 0) {
		gp_swapfile_free(s);
		return r;
	}
	*ret_swapfile = s;
	return 0;
}

void gp_swapfile_free(struct gp_swapfile *s)
{
	uint32_t buffer;

	if (!s)
		return;
	while (s->n_busy)
		(void)!gp_swapfile_wait(s, &buffer, NULL);
	if (s->uring)
		io_uring_queue_exit(&s->ring);
	if (s->fd >= 0)
		close(s->fd);
	gp_chunkmap_fini(&s->map);
	gp_chunkmap_fini(&s->backed);
	free(s->transfers);
	free(s->ended);
	free(s->dir);
	free(s);
}

static void swapfile_mark_backed(struct gp_swapfile *s, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++)
		s->backed.words[i / 64] |= 1ull << i % 64;
}

static int swapfile_allocate(struct gp_swapfile *s, uint32_t first, uint32_t n)
{
	int r;

	do {
		r = fallocate(s->fd, 0, (off_t)(first * GP_CHUNK_BYTES),
			      (off_t)(n * GP_CHUNK_BYTES));
	} while (r < 0 && errno == EINTR);
	if (r < 0 && errno == EOPNOTSUPP) {
		s->no_fallocate = true; /* then a full disk shows at the write */
		return 0;
	}
	if (r < 0)
		return -errno;
	swapfile_mark_backed(s, first, n);
	return 0;
}

/* Makes sure that the run has disk blocks: a step ahead if there is room, else just the run. */
static int swapfile_back(struct gp_swapfile *s, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n && !s->no_fallocate; i++) {
		uint32_t step = s->map.n_chunks - i;
		int r;

		if (gp_chunkmap_taken(&s->backed, i))
			continue;
		step = step < SWAPFILE_STEP_CHUNKS ? step : SWAPFILE_STEP_CHUNKS;
		r = swapfile_allocate(s, i, step);
		if (r < 0 && step > first + n - i)
			r = swapfile_allocate(s, i, first + n - i);
		if (r < 0)
			return r;
	}
	return 0;
}

int gp_swapfile_take(struct gp_swapfile *s, uint32_t want, uint32_t *ret_first, struct gp_err *err)
{
	uint32_t n = gp_chunkmap_take(&s->map, want, ret_first);
	char size[32];
	int r;

	if (n == 0 && s->map.n_chunks == 0)
		return gp_err_set(err, -ENOSPC,
				  "the arena is full and swapping to disk is off; give a larger "
				  "--arena or a --swap-max");
	if (n == 0)
		return gp_err_set(
			err, -ENOSPC,
			"the arena is full and the swap file in %s is at its limit of %s; "
			"raise --swap-max",
			s->dir, gp_size_format(gp_swapfile_max_bytes(s), size, sizeof(size)));
	r = swapfile_back(s, *ret_first, n);
	if (r < 0) {
		gp_swapfile_give(s, *ret_first, n);
		return swapfile_fail(s, r, "cannot grow", err);
	}
	return (int)n;
}

/* A file system that cannot punch keeps the blocks: they serve the next chunk. */
static void swapfile_punch(struct gp_swapfile *s, uint32_t first, uint32_t n)
{
	if (fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)(first * GP_CHUNK_BYTES), (off_t)(n * GP_CHUNK_BYTES)) < 0)
		return;
	for (uint32_t i = first; i < first + n; i++)
		s->backed.words[i / 64] &= ~(1ull << i % 64);
}

void gp_swapfile_give(struct gp_swapfile *s, uint32_t first, uint32_t n)
{
	gp_chunkmap_give(&s->map, first, n);
	swapfile_punch(s, first, n);
}

bool gp_swapfile_claim(struct gp_swapfile *s, uint32_t first, uint32_t n)
{
	if (!gp_chunkmap_claim(&s->map, first, n))
		return false;
	swapfile_mark_backed(s, first, n);
	return true;
}

void gp_swapfile_settle(struct gp_swapfile *s)
{
	for (uint32_t i = 0, n; i < s->map.n_chunks; i += n) {
		for (n = 1; i + n < s->map.n_chunks &&
			    gp_chunkmap_taken(&s->map, i + n) == gp_chunkmap_taken(&s->map, i);)
			n++;
		if (!gp_chunkmap_taken(&s->map, i))
			swapfile_punch(s, i, n);
	}
}

static void swapfile_prepare(struct gp_swapfile *s, uint32_t buffer)
{
	struct swapfile_transfer *t = &s->transfers[buffer];
	struct io_uring_sqe *sqe = io_uring_get_sqe(&s->ring);
	char *at = s->buffers + buffer * GP_CHUNK_BYTES + t->done;
	uint32_t bytes = (uint32_t)GP_CHUNK_BYTES - t->done;
	uint64_t offset = t->offset + t->done;

	assert(sqe); /* the ring has an entry per buffer */
	if (t->write && s->fixed)
		io_uring_prep_write_fixed(sqe, 0, at, bytes, offset, (int)buffer);
	else if (t->write)
		io_uring_prep_write(sqe, 0, at, bytes, offset);
	else if (s->fixed)
		io_uring_prep_read_fixed(sqe, 0, at, bytes, offset, (int)buffer);
	else
		io_uring_prep_read(sqe, 0, at, bytes, offset);
	io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
	io_uring_sqe_set_data64(sqe, buffer);
}

static int swapfile_transfer_now(struct gp_swapfile *s, uint32_t buffer)
{
	struct swapfile_transfer *t = &s->transfers[buffer];

	while (t->done < GP_CHUNK_BYTES) {
		char *at = s->buffers + buffer * GP_CHUNK_BYTES + t->done;
		size_t bytes = GP_CHUNK_BYTES - t->done;
		off_t offset = (off_t)(t->offset + t->done);
		ssize_t n = t->write ? pwrite(s->fd, at, bytes, offset)
				     : pread(s->fd, at, bytes, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO; /* 0: the file ends before the chunk */
		t->done += (uint32_t)n;
	}
	return 0;
}

void gp_swapfile_submit(struct gp_swapfile *s, uint32_t buffer, uint32_t chunk, bool write)
{
	struct swapfile_transfer *t = &s->transfers[buffer];

	assert(buffer < s->n_buffers && !t->busy);
	*t = (struct swapfile_transfer){ .offset = chunk * GP_CHUNK_BYTES,
					 .write = write,
					 .busy = true };
	s->n_busy++;
	if (s->uring && !s->broken) {
		swapfile_prepare(s, buffer);
		io_uring_submit(&s->ring); /* what it could not take, gp_swapfile_wait submits */
		return;
	}
	t->result = s->broken && write ? s->broken : swapfile_transfer_now(s, buffer);
	s->ended[s->n_ended++] = buffer;
}

/*
 * The ring itself is unusable: its transfers may have ended, be under way, or not have begun.
 * Nothing may be written any more, since one of them might still overwrite it; reads are verified.
 */
static void swapfile_break(struct gp_swapfile *s, int error)
{
	s->broken = error;
	for (uint32_t i = 0; i < s->n_buffers; i++) {
		if (!s->transfers[i].busy)
			continue;
		s->transfers[i].result = error;
		s->ended[s->n_ended++] = i;
	}
}

static int swapfile_take_ended(struct gp_swapfile *s, uint32_t *ret_buffer)
{
	*ret_buffer = s->ended[0];
	memmove(s->ended, s->ended + 1, --s->n_ended * sizeof(*s->ended));
	return s->transfers[*ret_buffer].result;
}

/* Waits until one transfer is complete or has failed; short ones are continued. */
static int swapfile_wait_uring(struct gp_swapfile *s, uint32_t *ret_buffer)
{
	for (;;) {
		struct swapfile_transfer *t;
		struct io_uring_cqe *cqe;
		uint32_t buffer;
		int r = io_uring_submit_and_wait(&s->ring, 1), res;

		if (r < 0 && r != -EINTR && r != -EAGAIN && r != -EBUSY) {
			swapfile_break(s, r);
			return swapfile_take_ended(s, ret_buffer);
		}
		if (io_uring_peek_cqe(&s->ring, &cqe) < 0)
			continue;
		buffer = (uint32_t)io_uring_cqe_get_data64(cqe);
		res = cqe->res;
		io_uring_cqe_seen(&s->ring, cqe);
		t = &s->transfers[buffer];
		*ret_buffer = buffer;
		if (res == 0)
			return -EIO; /* the file ends before the chunk */
		if (res < 0 && res != -EINTR && res != -EAGAIN)
			return res;
		t->done += res > 0 ? (uint32_t)res : 0;
		if (t->done == GP_CHUNK_BYTES)
			return 0;
		swapfile_prepare(s, buffer);
	}
}

int gp_swapfile_wait(struct gp_swapfile *s, uint32_t *ret_buffer, struct gp_err *err)
{
	struct swapfile_transfer *t;
	int r;

	assert(s->n_busy);
	r = s->uring && !s->broken ? swapfile_wait_uring(s, ret_buffer)
				   : swapfile_take_ended(s, ret_buffer);
	t = &s->transfers[*ret_buffer];
	t->busy = false;
	s->n_busy--;
	if (r < 0)
		return swapfile_fail(s, r, t->write ? "cannot write" : "cannot read", err);
	return 0;
}

int gp_swapfile_fd(const struct gp_swapfile *s)
{
	return s->fd;
}

uint64_t gp_swapfile_max_bytes(const struct gp_swapfile *s)
{
	return s->map.n_chunks * GP_CHUNK_BYTES;
}

uint64_t gp_swapfile_used_bytes(const struct gp_swapfile *s)
{
	return gp_chunkmap_used(&s->map) * GP_CHUNK_BYTES;
}

const char *gp_swapfile_method(const struct gp_swapfile *s)
{
	if (s->fd < 0)
		return "none";
	if (!s->uring)
		return s->direct ? "pwrite, O_DIRECT" : "pwrite, page cache";
	if (s->fixed)
		return s->direct ? "io_uring, registered buffers, O_DIRECT"
				 : "io_uring, registered buffers, page cache";
	return s->direct ? "io_uring, O_DIRECT" : "io_uring, page cache";
}
