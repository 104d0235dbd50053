/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/arena.h"

#include "base/size.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#define ARENA_MAX_FAULT_THREADS 16
#define ARENA_PAGE_BYTES	4096

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
	for (size_t at = 0; at < span->bytes; at += ARENA_PAGE_BYTES)
		*(volatile char *)(span->start + at) = 0;
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

/* mmap gives 4 KiB alignment; huge pages and O_DIRECT want 2 MiB: map more, trim both ends. */
static void *arena_map(size_t bytes)
{
	size_t padded = bytes + GP_CHUNK_BYTES, head;
	char *start = mmap(NULL, padded, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		return NULL;
	head = gp_round_up((uintptr_t)start, GP_CHUNK_BYTES) - (uintptr_t)start;
	if (head)
		munmap(start, head);
	if (head < GP_CHUNK_BYTES)
		munmap(start + head + bytes, GP_CHUNK_BYTES - head);
	return start + head;
}

int gp_arena_init(struct gp_arena *arena, uint64_t bytes, uint64_t extra_bytes, struct gp_err *err)
{
	uint64_t total;
	char size[32];
	int r;

	memset(arena, 0, sizeof(*arena));
	bytes = gp_round_up(bytes, GP_CHUNK_BYTES);
	extra_bytes = gp_round_up(extra_bytes, GP_CHUNK_BYTES);
	total = bytes + extra_bytes;
	if (total == 0 || bytes / GP_CHUNK_BYTES > UINT32_MAX)
		return gp_err_set(err, -EINVAL, "an arena of %s is not possible",
				  gp_size_format(bytes, size, sizeof(size)));
	r = arena_check_memory(total, err);
	if (r < 0)
		return r;
	arena->mapping = arena_map(total);
	if (!arena->mapping)
		return gp_err_sys(err, -errno, "cannot map an arena of %s",
				  gp_size_format(total, size, sizeof(size)));
	arena->bytes = bytes;
	arena->extra_bytes = extra_bytes;
	/* Advice only: without huge pages the arena works, more slowly. */
	(void)madvise(arena->mapping, total, MADV_HUGEPAGE);
	(void)madvise(arena->mapping, total, MADV_DONTDUMP);
	r = arena_fault(arena->mapping, total);
	if (r == 0)
		r = gp_chunkmap_init(&arena->map, (uint32_t)(bytes / GP_CHUNK_BYTES));
	if (r < 0) {
		gp_arena_fini(arena);
		return gp_err_sys(err, r, "cannot fault in an arena of %s; choose a smaller arena",
				  gp_size_format(total, size, sizeof(size)));
	}
	return 0;
}

void gp_arena_fini(struct gp_arena *arena)
{
	gp_chunkmap_fini(&arena->map);
	if (arena->mapping)
		munmap(arena->mapping, gp_arena_mapping_bytes(arena));
	memset(arena, 0, sizeof(*arena));
}

void *gp_arena_chunk(const struct gp_arena *arena, uint32_t chunk)
{
	return (char *)arena->mapping + arena->extra_bytes + chunk * GP_CHUNK_BYTES;
}

size_t gp_arena_mapping_bytes(const struct gp_arena *arena)
{
	return arena->extra_bytes + arena->bytes;
}
