/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/arena.h"

#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#define ARENA_MAX_FAULT_THREADS 8
#define ARENA_PAGE_BYTES	4096
#define ARENA_SEALS		(F_SEAL_SHRINK | F_SEAL_GROW)

struct arena_span {
	pthread_t thread;
	char *start;
	size_t bytes;
	int error;
};

static void *arena_fault_span(void *arg)
{
	struct arena_span *span = arg;

	if (span->bytes == 0 || madvise(span->start, span->bytes, MADV_POPULATE_WRITE) == 0)
		return NULL;
	if (errno != EINVAL) { /* EINVAL: kernel before 5.14 */
		span->error = -errno;
		return NULL;
	}
	/* A write that changes nothing: an arena that was taken over holds saved bytes. */
	for (size_t at = 0; at < span->bytes; at += ARENA_PAGE_BYTES)
		__atomic_fetch_or(span->start + at, 0, __ATOMIC_RELAXED);
	return NULL;
}

/* Zeroing pages is bound by one core's store rate: several cores share the work. */
static int arena_fault(void *mapping, size_t bytes)
{
	struct arena_span spans[ARENA_MAX_FAULT_THREADS];
	size_t n = (size_t)get_nprocs(), n_chunks = bytes / GP_CHUNK_BYTES, at = 0, started = 0;
	int r = 0;

	if (n > ARENA_MAX_FAULT_THREADS)
		n = ARENA_MAX_FAULT_THREADS;
	for (size_t i = 0; i < n; i++) {
		size_t end = n_chunks * (i + 1) / n * GP_CHUNK_BYTES;

		spans[i] = (struct arena_span){ .start = (char *)mapping + at, .bytes = end - at };
		at = end;
	}
	for (; started + 1 < n; started++) {
		if (pthread_create(&spans[started].thread, NULL, arena_fault_span, &spans[started]))
			break;
	}
	for (size_t i = started; i < n; i++)
		arena_fault_span(&spans[i]);
	for (size_t i = 0; i < started; i++)
		pthread_join(spans[i].thread, NULL);
	for (size_t i = 0; i < n; i++)
		r = spans[i].error ? spans[i].error : r;
	return r;
}

/* Bytes the kernel believes can be had without swapping; 0 if it does not say. */
static uint64_t arena_memory_available(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *f = fopen("/proc/meminfo", "re");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	}
	fclose(f);
	return (uint64_t)kib << 10;
}

static int arena_check_memory(uint64_t bytes, struct gp_err *err)
{
	uint64_t available = arena_memory_available();
	char want[32], have[32];

	if (available == 0 || bytes <= available)
		return 0;
	return gp_err_set(err, -ENOMEM,
			  "an arena of %s does not fit: %s of memory is available; "
			  "choose a smaller arena",
			  gp_size_format(bytes, want, sizeof(want)),
			  gp_size_format(available, have, sizeof(have)));
}

/*
 * mmap gives 4 KiB alignment; huge pages and O_DIRECT want 2 MiB: reserve more, trim both ends.
 * The caller maps over it.
 */
static void *arena_reserve(size_t bytes)
{
	size_t padded = bytes + GP_CHUNK_BYTES, head;
	char *start =
		mmap(NULL, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		return NULL;
	head = gp_round_up((uintptr_t)start, GP_CHUNK_BYTES) - (uintptr_t)start;
	if (head)
		munmap(start, head);
	if (head < GP_CHUNK_BYTES)
		munmap(start + head + bytes, GP_CHUNK_BYTES - head);
	return start + head;
}

/* @fd < 0: private memory. NULL with errno set. */
static void *arena_map(int fd, size_t bytes)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
	void *at = arena_reserve(bytes);

	if (!at)
		return NULL;
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) == MAP_FAILED) {
		int error = errno;

		munmap(at, bytes);
		errno = error;
		return NULL;
	}
	/* Advice only: without huge pages the arena works, more slowly. */
	(void)madvise(at, bytes, MADV_HUGEPAGE);
	(void)madvise(at, bytes, MADV_DONTDUMP);
	return at;
}

static int arena_make_fd(size_t bytes, unsigned int flags)
{
	int fd = memfd_create("gpupres-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) < 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

/* Maps and faults in what is behind arena->fd. */
static int arena_open(struct gp_arena *a)
{
	int r;

	a->chunks = arena_map(a->fd, a->bytes);
	if (!a->chunks)
		return -errno;
	r = arena_fault(a->chunks, a->bytes);
	if (r < 0) {
		munmap(a->chunks, a->bytes);
		a->chunks = NULL;
	}
	return r;
}

/*
 * Mapping a file of huge pages reserves them, and fails when too few are free. Others can make
 * the faults fail all the same (a cgroup's limit): then small pages serve.
 */
static int arena_make_huge(struct gp_arena *a)
{
	int r;

	a->fd = arena_make_fd(a->bytes, MFD_HUGETLB | MFD_HUGE_2MB);
	if (a->fd < 0)
		return a->fd;
	r = arena_open(a);
	if (r < 0)
		gp_close_fd(&a->fd);
	return r;
}

static int arena_make(struct gp_arena *a, struct gp_err *err)
{
	char size[32];
	int r;

	if (a->bytes && arena_make_huge(a) == 0)
		return 0;
	r = arena_check_memory(a->bytes + a->extra_bytes, err);
	if (r < 0)
		return r;
	r = a->fd = arena_make_fd(a->bytes, 0);
	if (r >= 0)
		r = a->bytes ? arena_open(a) : 0;
	if (r < 0)
		return gp_err_sys(err, r, "cannot fault in an arena of %s; choose a smaller arena",
				  gp_size_format(a->bytes, size, sizeof(size)));
	return 0;
}

static int arena_make_extra(struct gp_arena *a, struct gp_err *err)
{
	int r;

	if (!a->extra_bytes)
		return 0;
	a->extra = arena_map(-1, a->extra_bytes);
	r = a->extra ? arena_fault(a->extra, a->extra_bytes) : -errno;
	return r < 0 ? gp_err_sys(err, r, "cannot get %zu bytes of memory for copies",
				  a->extra_bytes)
		     : 0;
}

/* The word in brackets is what the kernel does for shared memory; the mapping has asked for it. */
static bool arena_thp_allowed(void)
{
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
	char line[128] = "", *open;

	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	open = strchr(line, '[');
	return open && strncmp(open, "[never]", 7) != 0 && strncmp(open, "[deny]", 6) != 0;
}

static const char *arena_pages(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_blksize == (blksize_t)GP_CHUNK_BYTES)
		return "reserved huge pages"; /* the block size of hugetlbfs is its page size */
	return arena_thp_allowed() ? "transparent huge pages" : "4 KiB pages";
}

/* What is the same for a new and an inherited arena: the map, the private memory, the seals. */
static int arena_finish(struct gp_arena *a, struct gp_err *err)
{
	int r = arena_make_extra(a, err);

	if (r < 0)
		return r;
	r = gp_chunkmap_init(&a->map, (uint32_t)(a->bytes / GP_CHUNK_BYTES));
	if (r < 0)
		return gp_err_sys(err, r, "arena");
	/* A kernel that cannot seal huge pages (before 4.16) leaves them to a successor unsealed,
	 * which then refuses them. */
	(void)fcntl(a->fd, F_ADD_SEALS, ARENA_SEALS);
	a->pages = arena_pages(a->fd);
	return 0;
}

int gp_arena_init(struct gp_arena *a, uint64_t bytes, uint64_t extra_bytes, struct gp_err *err)
{
	char size[32];
	int r;

	*a = (struct gp_arena){ .fd = -1 };
	bytes = gp_round_up(bytes, GP_CHUNK_BYTES);
	extra_bytes = gp_round_up(extra_bytes, GP_CHUNK_BYTES);
	if (bytes + extra_bytes == 0 || bytes / GP_CHUNK_BYTES > UINT32_MAX)
		return gp_err_set(err, -EINVAL, "an arena of %s is not possible",
				  gp_size_format(bytes, size, sizeof(size)));
	a->bytes = bytes;
	a->extra_bytes = extra_bytes;
	r = arena_make(a, err);
	if (r == 0)
		r = arena_finish(a, err);
	if (r < 0)
		gp_arena_fini(a);
	return r;
}

/* Anything but a file that cannot shrink could end the mover with SIGBUS at any time. */
static int arena_check_fd(int fd, size_t *ret_bytes, struct gp_err *err)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);

	if (seals < 0 || flags < 0 || fstat(fd, &st) < 0)
		return gp_err_set(err, -EINVAL, "descriptor %d is no arena: %s", fd,
				  strerror(errno));
	if (!(seals & F_SEAL_SHRINK) || (seals & F_SEAL_WRITE) || (flags & O_ACCMODE) != O_RDWR ||
	    st.st_size < 0 || (uint64_t)st.st_size % GP_CHUNK_BYTES ||
	    (uint64_t)st.st_size / GP_CHUNK_BYTES > UINT32_MAX)
		return gp_err_set(err, -EINVAL,
				  "descriptor %d (%lld bytes, seals %#x) is no arena that an "
				  "earlier mover made",
				  fd, (long long)st.st_size, (unsigned int)seals);
	*ret_bytes = (size_t)st.st_size;
	return 0;
}

int gp_arena_adopt(struct gp_arena *a, int fd, uint64_t extra_bytes, struct gp_err *err)
{
	char size[32];
	int r;

	*a = (struct gp_arena){ .fd = -1 };
	a->extra_bytes = gp_round_up(extra_bytes, GP_CHUNK_BYTES);
	r = arena_check_fd(fd, &a->bytes, err);
	if (r < 0)
		return r;
	a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	r = a->fd < 0 ? -errno : a->bytes ? arena_open(a) : 0;
	if (r < 0)
		gp_err_sys(err, r, "cannot map the arena of %s that an earlier mover made",
			   gp_size_format(a->bytes, size, sizeof(size)));
	else
		r = arena_finish(a, err);
	if (r < 0)
		gp_arena_fini(a);
	return r;
}

void gp_arena_fini(struct gp_arena *a)
{
	gp_chunkmap_fini(&a->map);
	if (a->chunks)
		munmap(a->chunks, a->bytes);
	if (a->extra)
		munmap(a->extra, a->extra_bytes);
	gp_close_fd(&a->fd);
	*a = (struct gp_arena){ .fd = -1 };
}

void *gp_arena_chunk(const struct gp_arena *a, uint32_t chunk)
{
	return (char *)a->chunks + chunk * GP_CHUNK_BYTES;
}
