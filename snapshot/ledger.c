/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/ledger.h"

#include "base/size.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#define LEDGER_MAGIC   0x7265676465504721ull
#define LEDGER_VERSION 1u
#define LEDGER_SEALS   (F_SEAL_SHRINK | F_SEAL_GROW)

/*
 * Sizes are of address space; memory follows use. 4 M extents and 44 M chunks, 89 TB of device
 * memory, are beyond what a host's memory and disks hold.
 */
#define LEDGER_HEADER_BYTES 4096
#define LEDGER_ENTRIES	    (4u << 20)
#define LEDGER_UNIT_BYTES   192 /* 8 chunks: most extents of 2 to 16 MiB waste little */
#define LEDGER_UNITS	    (5500u << 10)
#define LEDGER_STEP_BYTES   (64u << 10) /* allocated at a time */

struct ledger_header {
	uint64_t magic; /* stored last */
	uint32_t version;
	uint32_t reserved;
	uint64_t file_bytes, chunk_bytes, arena_bytes;
	struct gp_hash_key key;
};

struct ledger_entry {
	uint64_t sequence; /* 0: none. Stored last */
	uint64_t job, id;
	uint32_t proc, n_chunks;
	uint32_t unit; /* of the heap, where its chunks begin */
	uint32_t reserved;
	uint64_t chunks_sum;
	uint64_t sum; /* of all that is above */
	uint64_t padding;
};

#define LEDGER_TABLE_BYTES (LEDGER_ENTRIES * sizeof(struct ledger_entry))
#define LEDGER_HEAP_BYTES  ((size_t)LEDGER_UNITS * LEDGER_UNIT_BYTES)
#define LEDGER_BYTES	   (LEDGER_HEADER_BYTES + LEDGER_TABLE_BYTES + LEDGER_HEAP_BYTES)
#define LEDGER_UNIT_CHUNKS ((uint32_t)(LEDGER_UNIT_BYTES / sizeof(struct gp_saved_chunk)))

/* What a mover leaves to one that was built later. */
_Static_assert(sizeof(struct ledger_header) == 56, "ledger layout");
_Static_assert(sizeof(struct ledger_entry) == 64, "ledger layout");
_Static_assert(sizeof(struct gp_saved_chunk) == 24, "ledger layout");

static uint64_t ledger_mix(uint64_t sum, uint64_t word)
{
	return ((sum << 23 | sum >> 41) ^ word) * GP_HASH_M1;
}

/* The entry's own sum comes first: a damaged entry must not be followed to its chunks. */
static uint64_t ledger_sum(const struct ledger_entry *e)
{
	uint64_t sum = GP_HASH_M2;

	sum = ledger_mix(sum, e->sequence);
	sum = ledger_mix(sum, e->job);
	sum = ledger_mix(sum, e->id);
	sum = ledger_mix(sum, (uint64_t)e->proc << 32 | e->n_chunks);
	sum = ledger_mix(sum, (uint64_t)e->unit << 32 | e->reserved);
	sum = ledger_mix(sum, e->chunks_sum);
	return sum ^ sum >> 29;
}

static uint64_t ledger_chunks_sum(const struct gp_saved *saved)
{
	uint64_t sum = GP_HASH_M2;

	for (uint32_t i = 0; i < saved->n_chunks; i++) {
		const struct gp_saved_chunk *c = &saved->chunks[i];

		sum = ledger_mix(sum, c->hash[0]);
		sum = ledger_mix(sum, c->hash[1]);
		sum = ledger_mix(sum, (uint64_t)c->place << 32 | c->index);
	}
	return sum ^ sum >> 29;
}

static uint32_t ledger_units(uint32_t n_chunks)
{
	return n_chunks / LEDGER_UNIT_CHUNKS + (n_chunks % LEDGER_UNIT_CHUNKS != 0);
}

static struct gp_saved_chunk *ledger_unit(const struct gp_ledger *l, uint32_t unit)
{
	return (struct gp_saved_chunk *)(void *)(l->heap + (size_t)unit * LEDGER_UNIT_BYTES);
}

static int ledger_map(struct gp_ledger *l, struct gp_err *err)
{
	char *at = mmap(NULL, LEDGER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);
	int r;

	if (at == MAP_FAILED)
		return gp_err_sys(err, -errno, "cannot map the ledger");
	l->header = (struct ledger_header *)(void *)at;
	l->entries = (struct ledger_entry *)(void *)(at + LEDGER_HEADER_BYTES);
	l->heap = at + LEDGER_HEADER_BYTES + LEDGER_TABLE_BYTES;
	r = gp_chunkmap_init(&l->entry_map, LEDGER_ENTRIES);
	if (r == 0)
		r = gp_chunkmap_init(&l->unit_map, LEDGER_UNITS);
	return r < 0 ? gp_err_sys(err, r, "ledger") : 0;
}

/* Gives the file memory from @start + *@backed on, so that bytes [0, @end) of that part have it. */
static int ledger_back(const struct gp_ledger *l, size_t start, size_t *backed, size_t end,
		       struct gp_err *err)
{
	size_t bytes;
	int r;

	if (end <= *backed)
		return 0;
	bytes = gp_round_up(end - *backed, LEDGER_STEP_BYTES);
	if (start + *backed + bytes > LEDGER_BYTES)
		bytes = LEDGER_BYTES - start - *backed;
	do {
		r = fallocate(l->fd, 0, (off_t)(start + *backed), (off_t)bytes);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return gp_err_sys(err, -errno, "no memory for the ledger");
	*backed += bytes;
	return 0;
}

static int ledger_write_header(struct gp_ledger *l, uint64_t arena_bytes, struct gp_err *err)
{
	struct ledger_header *h = l->header;
	size_t backed = 0;
	int r = ledger_back(l, 0, &backed, LEDGER_HEADER_BYTES, err);

	assert(h);
	if (r < 0)
		return r;
	if (getrandom(&h->key, sizeof(h->key), 0) != (ssize_t)sizeof(h->key))
		return gp_err_sys(err, -EIO, "cannot draw a hash key");
	h->version = LEDGER_VERSION;
	h->file_bytes = LEDGER_BYTES;
	h->chunk_bytes = GP_CHUNK_BYTES;
	h->arena_bytes = arena_bytes;
	__atomic_store_n(&h->magic, LEDGER_MAGIC, __ATOMIC_RELEASE);
	return 0;
}

int gp_ledger_init(struct gp_ledger *l, uint64_t arena_bytes, struct gp_err *err)
{
	int r = 0;

	*l = (struct gp_ledger){ .fd = -1 };
	l->fd = memfd_create("gpupres-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (l->fd < 0 || ftruncate(l->fd, LEDGER_BYTES) < 0 ||
	    fcntl(l->fd, F_ADD_SEALS, LEDGER_SEALS) < 0)
		r = gp_err_sys(err, -errno, "cannot create the ledger");
	if (r == 0)
		r = ledger_map(l, err);
	if (r == 0)
		r = ledger_write_header(l, arena_bytes, err);
	if (r < 0)
		gp_ledger_fini(l);
	return r;
}

static int ledger_check_fd(int fd, struct gp_err *err)
{
	int seals = fcntl(fd, F_GET_SEALS), flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (seals < 0 || flags < 0 || fstat(fd, &st) < 0)
		return gp_err_set(err, -EINVAL, "descriptor %d is no ledger: %s", fd,
				  strerror(errno));
	if (st.st_size != LEDGER_BYTES || !(seals & F_SEAL_SHRINK) || (seals & F_SEAL_WRITE) ||
	    (flags & O_ACCMODE) != O_RDWR)
		return gp_err_set(err, -EINVAL,
				  "descriptor %d (%lld bytes, seals %#x) is no ledger of this "
				  "version",
				  fd, (long long)st.st_size, (unsigned int)seals);
	return 0;
}

static int ledger_check_header(const struct gp_ledger *l, uint64_t arena_bytes, struct gp_err *err)
{
	const struct ledger_header *h = l->header;

	assert(h);
	if (__atomic_load_n(&h->magic, __ATOMIC_ACQUIRE) != LEDGER_MAGIC)
		return gp_err_set(err, -EINVAL, "the ledger has no header");
	if (h->version != LEDGER_VERSION || h->file_bytes != LEDGER_BYTES ||
	    h->chunk_bytes != GP_CHUNK_BYTES)
		return gp_err_set(err, -EINVAL, "the ledger is of version %u, not %u", h->version,
				  LEDGER_VERSION);
	if (h->arena_bytes != arena_bytes)
		return gp_err_set(err, -EINVAL,
				  "the ledger belongs to an arena of %llu bytes, not to this one",
				  (unsigned long long)h->arena_bytes);
	return 0;
}

int gp_ledger_adopt(struct gp_ledger *l, int fd, uint64_t arena_bytes, struct gp_err *err)
{
	size_t backed = 0;
	int r;

	*l = (struct gp_ledger){ .fd = -1 };
	r = ledger_check_fd(fd, err);
	if (r < 0)
		return r;
	l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (l->fd < 0)
		return gp_err_sys(err, -errno, "ledger");
	r = ledger_map(l, err);
	if (r == 0)
		r = ledger_back(l, 0, &backed, LEDGER_HEADER_BYTES, err);
	if (r == 0)
		r = ledger_check_header(l, arena_bytes, err);
	if (r < 0)
		gp_ledger_fini(l);
	return r;
}

void gp_ledger_fini(struct gp_ledger *l)
{
	gp_chunkmap_fini(&l->entry_map);
	gp_chunkmap_fini(&l->unit_map);
	if (l->header)
		munmap(l->header, LEDGER_BYTES);
	gp_close_fd(&l->fd);
	*l = (struct gp_ledger){ .fd = -1 };
}

struct gp_hash_key gp_ledger_key(const struct gp_ledger *l)
{
	return l->header->key;
}

/* Where the walk goes on, past what never had memory; LEDGER_ENTRIES at the end. */
static uint32_t ledger_next_backed(const struct gp_ledger *l, uint32_t entry)
{
	size_t at = LEDGER_HEADER_BYTES + entry * sizeof(struct ledger_entry);
	off_t data = lseek(l->fd, (off_t)at, SEEK_DATA);

	if (data < 0)
		return errno == ENXIO ? LEDGER_ENTRIES : entry; /* ENXIO: no data behind */
	if ((size_t)data <= at)
		return entry;
	data -= LEDGER_HEADER_BYTES;
	return (size_t)data >= LEDGER_TABLE_BYTES
		       ? LEDGER_ENTRIES
		       : (uint32_t)((size_t)data / sizeof(struct ledger_entry));
}

static int ledger_check_entry(struct gp_ledger *l, struct gp_saved *r, struct gp_err *err)
{
	const struct ledger_entry *e = &l->entries[r->entry];

	if (ledger_sum(e) != e->sum)
		return gp_err_set(err, -EBADMSG, "its sum is wrong");
	if (r->n_chunks == 0 || r->unit >= LEDGER_UNITS ||
	    ledger_units(r->n_chunks) > LEDGER_UNITS - r->unit)
		return gp_err_set(err, -EBADMSG, "%u chunks at %u are out of bounds", r->n_chunks,
				  r->unit);
	r->chunks = ledger_unit(l, r->unit);
	if (ledger_chunks_sum(r) != e->chunks_sum)
		return gp_err_set(err, -EBADMSG, "the sum of its chunks is wrong");
	if (!gp_chunkmap_claim(&l->unit_map, r->unit, ledger_units(r->n_chunks)))
		return gp_err_set(err, -EBADMSG, "its chunks are another record's, too");
	return 0;
}

int gp_ledger_walk(struct gp_ledger *l, uint32_t *cursor, struct gp_saved *ret, struct gp_err *err)
{
	const struct ledger_entry *e;
	bool fresh;
	int r;

	for (; *cursor < LEDGER_ENTRIES; ++*cursor) {
		/* Once a page. */
		if (*cursor % (LEDGER_HEADER_BYTES / sizeof(*e)) == 0)
			*cursor = ledger_next_backed(l, *cursor);
		if (*cursor < LEDGER_ENTRIES &&
		    __atomic_load_n(&l->entries[*cursor].sequence, __ATOMIC_ACQUIRE))
			break;
	}
	if (*cursor >= LEDGER_ENTRIES)
		return 0;
	e = &l->entries[*cursor];
	*ret = (struct gp_saved){ .sequence = e->sequence,
				  .job = e->job,
				  .id = e->id,
				  .proc = e->proc,
				  .n_chunks = e->n_chunks,
				  .unit = e->unit,
				  .entry = *cursor };
	++*cursor;
	r = ledger_check_entry(l, ret, err);
	if (r < 0) {
		gp_ledger_retire(l, ret);
		return gp_err_prepend(err, "entry %u (job %llu, process %u, extent %llu)",
				      ret->entry, (unsigned long long)ret->job, ret->proc,
				      (unsigned long long)ret->id);
	}
	fresh = gp_chunkmap_claim(&l->entry_map, ret->entry, 1);
	assert(fresh); /* a ledger is walked once */
	(void)fresh;
	if (ret->sequence > l->sequence)
		l->sequence = ret->sequence;
	return 1;
}

/* A run of exactly @want; false if there is none. */
static bool ledger_take(struct gp_chunkmap *map, uint32_t want, uint32_t *ret_first)
{
	uint32_t n = gp_chunkmap_take_low(map, want, ret_first);

	if (n && n < want)
		gp_chunkmap_give(map, *ret_first, n);
	return n == want;
}

int gp_ledger_begin(struct gp_ledger *l, struct gp_saved *rec, struct gp_err *err)
{
	uint32_t n_units = ledger_units(rec->n_chunks);
	size_t heap_start = LEDGER_HEADER_BYTES + LEDGER_TABLE_BYTES;
	int r;

	assert(rec->n_chunks);
	if (!ledger_take(&l->entry_map, 1, &rec->entry))
		return gp_err_set(err, -ENOSPC, "the ledger is full: %u extents are saved",
				  LEDGER_ENTRIES);
	if (!ledger_take(&l->unit_map, n_units, &rec->unit)) {
		gp_chunkmap_give(&l->entry_map, rec->entry, 1);
		return gp_err_set(err, -ENOSPC,
				  "the ledger has no room left for an extent of %u chunks",
				  rec->n_chunks);
	}
	r = ledger_back(l, LEDGER_HEADER_BYTES, &l->entries_backed,
			(rec->entry + 1) * sizeof(struct ledger_entry), err);
	if (r == 0)
		r = ledger_back(l, heap_start, &l->heap_backed,
				(size_t)(rec->unit + n_units) * LEDGER_UNIT_BYTES, err);
	if (r < 0) {
		gp_ledger_free(l, rec);
		return r;
	}
	rec->sequence = 0;
	rec->chunks = ledger_unit(l, rec->unit);
	memset(rec->chunks, 0, rec->n_chunks * sizeof(*rec->chunks));
	return 0;
}

void gp_ledger_commit(struct gp_ledger *l, struct gp_saved *r)
{
	struct ledger_entry *e = &l->entries[r->entry];
	struct ledger_entry made = {
		.sequence = ++l->sequence,
		.job = r->job,
		.id = r->id,
		.proc = r->proc,
		.n_chunks = r->n_chunks,
		.unit = r->unit,
		.chunks_sum = ledger_chunks_sum(r),
	};

	r->sequence = made.sequence;
	made.sum = ledger_sum(&made);
	made.sequence = 0; /* as the entry is now; all but that number can be copied in any order */
	*e = made;
	__atomic_store_n(&e->sequence, r->sequence, __ATOMIC_RELEASE);
}

void gp_ledger_retire(struct gp_ledger *l, struct gp_saved *r)
{
	/* An exchange, unlike a store, is ordered with what follows: the reuse of what it held. */
	__atomic_exchange_n(&l->entries[r->entry].sequence, 0, __ATOMIC_SEQ_CST);
	r->sequence = 0;
}

void gp_ledger_free(struct gp_ledger *l, struct gp_saved *r)
{
	assert(r->sequence == 0);
	gp_chunkmap_give(&l->entry_map, r->entry, 1);
	gp_chunkmap_give(&l->unit_map, r->unit, ledger_units(r->n_chunks));
}
