/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger, and that it survives the end of a mover at any instruction: a child does to its
 * records what a mover does, this process lets it go on one instruction at a time, and whenever the
 * file has changed it recovers from a copy, as a successor would, and compares.
 */
#include "base/size.h"
#include "snapshot/depot.h"
#include "snapshot/proc.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define N_ARENA	  40 /* chunks */
#define N_EXTENTS 4
#define N_CHUNKS  20 /* of an extent, at most */
#define JOB	  9
#define PROC	  1

#define ENTRY_BYTES  64 /* ledger.c asserts it */
#define WATCH_TABLE  4096
#define WATCH_HEAP   16384
#define ENTRY_FIELDS 56 /* what the sums cover; a padding word follows */

/* --- a store, and what a save does with it --- */

static struct gp_arena arena;
static struct gp_ledger ledger;
static struct gp_store store = { .arena = &arena, .ledger = &ledger };
static struct gp_image image;

static void set_up(void)
{
	struct gp_err err = { 0 };

	CHECK_EQ(gp_arena_init(&arena, N_ARENA * GP_CHUNK_BYTES, 0, &err), 0);
	CHECK_EQ(gp_ledger_init(&ledger, arena.bytes, &err), 0);
	image = (struct gp_image){ .job = JOB, .proc = PROC };
	CHECK_EQ(gp_image_reserve(&image, N_EXTENTS), 0);
}

static void tear_down(void)
{
	gp_image_leave(&image);
	gp_ledger_fini(&ledger);
	gp_arena_fini(&arena);
}

/* One step of a mover: saves an extent (n > 0) or drops all. */
struct step {
	uint64_t id;
	uint32_t n;
	uint64_t version;
	uint32_t changed; /* chunks of that version; the others are shared with the record before */
};

/* The hash words name the chunk; its first words in the arena do, too. Chunk 0 is always zero. */
static void build_chunk(struct gp_saved_chunk *c, const struct step *s, uint32_t i)
{
	uint64_t *words;

	c->hash[0] = s->version;
	c->hash[1] = s->id << 32 | i;
	c->place = i == 0 ? GP_PLACE_ZERO : GP_PLACE_ARENA;
	c->index = 0;
	if (i == 0)
		return;
	/* The chunk that was given back last is the first to be used again. */
	CHECK_EQ(gp_chunkmap_take_low(&arena.map, 1, &c->index), 1);
	words = gp_arena_chunk(&arena, c->index);
	words[0] = c->hash[0];
	words[1] = c->hash[1];
}

static void do_step(const struct step *s)
{
	struct gp_saved *old = gp_image_find(&image, s->id), *saved;

	if (s->n == 0) {
		gp_image_clear(&image, &store);
		CHECK_EQ(gp_image_reserve(&image, N_EXTENTS), 0);
		return;
	}
	saved = gp_saved_new(&store, s->id, s->n, NULL);
	CHECK(saved);
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->changed >> i & 1)
			build_chunk(&saved->chunks[i], s, i);
		else
			saved->chunks[i] = old->chunks[i];
	}
	gp_image_put(&image, saved, &store);
}

/* --- recovery from a file --- */

struct recovered {
	struct gp_depot depot;
	struct gp_list procs;
	int n_dropped;
};

static void recover(struct recovered *r, int ledger_fd)
{
	struct gp_err err = { 0 };

	*r = (struct recovered){ .depot = { .ledger.fd = -1, .inherited = true } };
	gp_list_init(&r->procs);
	CHECK_EQ(gp_chunkmap_init(&r->depot.arena.map, N_ARENA), 0);
	CHECK_EQ(gp_swapfile_new(&(struct gp_swapfile_options){ 0 }, &r->depot.swapfile, NULL), 0);
	if (gp_ledger_adopt(&r->depot.ledger, ledger_fd, N_ARENA * GP_CHUNK_BYTES, &err) < 0)
		fprintf(stderr, "%s\n", err.msg);
	CHECK(r->depot.ledger.fd >= 0);
	r->n_dropped = gp_depot_recover(&r->depot, &r->procs, &err);
	CHECK(r->n_dropped >= 0);
}

static void forget(struct recovered *r)
{
	gp_list_for_each(proc, &r->procs, struct gp_proc, list) {
		gp_list_del(&proc->list);
		gp_proc_free(proc, NULL);
	}
	gp_swapfile_free(r->depot.swapfile);
	gp_ledger_fini(&r->depot.ledger);
	gp_chunkmap_fini(&r->depot.arena.map);
}

static const struct gp_saved *found(const struct recovered *r, uint64_t id)
{
	gp_list_for_each(proc, &r->procs, struct gp_proc, list) {
		if (proc->id == PROC && proc->image.job == JOB)
			return gp_image_find(&proc->image, id);
	}
	return NULL;
}

static size_t count(const struct recovered *r)
{
	size_t n = 0;

	gp_list_for_each(proc, &r->procs, struct gp_proc, list)
		n += gp_image_count(&proc->image);
	return n;
}

/* What a kill now would leave: a copy of the file's data, with its holes. */
static int copy_file(int fd)
{
	int copy = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	static char buf[1 << 16];
	off_t at = 0;

	CHECK(copy >= 0);
	CHECK_EQ(ftruncate(copy, lseek(fd, 0, SEEK_END)), 0);
	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		off_t hole = lseek(fd, at, SEEK_HOLE);

		while (at < hole) {
			size_t n = sizeof(buf);

			n = hole - at < (off_t)n ? (size_t)(hole - at) : n;
			CHECK_EQ(pread(fd, buf, n, at), n);
			CHECK_EQ(pwrite(copy, buf, n, at), n);
			at += (off_t)n;
		}
	}
	CHECK_EQ(fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return copy;
}

static void recover_copy(struct recovered *r)
{
	int fd = copy_file(ledger.fd);

	recover(r, fd);
	close(fd);
}

/* --- killed at any instruction --- */

static const struct step steps[] = {
	{ .id = 0, .n = 4, .version = 1, .changed = 0xf },
	{ .id = 1, .n = 20, .version = 2, .changed = 0xfffff }, /* in several units of the heap */
	{ .id = 0, .n = 4, .version = 3, .changed = 0x6 },	/* shares chunks with the first */
	{ .id = 0, .n = 4, .version = 4, .changed = 0 },	/* shares all */
	{ .id = 2, .n = 1, .version = 5, .changed = 0x1 },
	{ .id = 1, .n = 9, .version = 6, .changed = 0x1ff }, /* of another size: shares none */
	{ .id = 0, .n = 4, .version = 7, .changed = 0xf },
	{ .n = 0 },
	{ .id = 3, .n = 6, .version = 8, .changed = 0x3f },
	{ .id = 0, .n = 2, .version = 9, .changed = 0x3 },
};

#define N_STEPS GP_ARRAY_SIZE(steps)

/* What extents hold before step k: the version of each chunk; n = 0: not saved. */
static struct content {
	uint32_t n;
	uint64_t versions[N_CHUNKS];
} contents[N_STEPS + 1][N_EXTENTS];

static void foresee(void)
{
	for (size_t k = 0; k < N_STEPS; k++) {
		const struct step *s = &steps[k];
		struct content *after = contents[k + 1];

		memcpy(after, contents[k], sizeof(contents[k]));
		if (s->n == 0) {
			memset(after, 0, sizeof(contents[k]));
			continue;
		}
		after[s->id].n = s->n;
		for (uint32_t i = 0; i < s->n; i++) {
			if (s->changed >> i & 1)
				after[s->id].versions[i] = s->version;
		}
	}
}

static bool is_content(const struct gp_saved *saved, const struct content *c)
{
	if (!saved || saved->n_chunks != c->n)
		return !saved && c->n == 0;
	for (uint32_t i = 0; i < c->n; i++) {
		if (saved->chunks[i].hash[0] != c->versions[i])
			return false;
	}
	return true;
}

/* The bytes are still those that the record speaks of, and no chunk is counted twice. */
static void check_bytes(const struct recovered *r)
{
	uint32_t n = 0;

	for (uint64_t id = 0; id < N_EXTENTS; id++) {
		const struct gp_saved *saved = found(r, id);

		for (uint32_t i = 0; saved && i < saved->n_chunks; i++) {
			const struct gp_saved_chunk *c = &saved->chunks[i];
			const uint64_t *words;

			CHECK_EQ(c->hash[1], id << 32 | i);
			CHECK_EQ(c->place, i ? GP_PLACE_ARENA : GP_PLACE_ZERO);
			if (i == 0)
				continue;
			words = gp_arena_chunk(&arena, c->index);
			CHECK_EQ(words[0], c->hash[0]);
			CHECK_EQ(words[1], c->hash[1]);
			n++;
		}
	}
	CHECK_EQ(gp_chunkmap_used(&r->depot.arena.map), n);
}

/* Killed during step @k: every extent is as before it or as after it. */
static void check_killed(size_t k)
{
	struct recovered r;
	size_t n = 0;
	int again;

	recover_copy(&r);
	CHECK_EQ(r.n_dropped, 0);
	for (uint64_t id = 0; id < N_EXTENTS; id++) {
		const struct gp_saved *saved = found(&r, id);

		CHECK(is_content(saved, &contents[k][id]) ||
		      (k < N_STEPS && is_content(saved, &contents[k + 1][id])));
		n += saved != NULL;
	}
	CHECK_EQ(count(&r), n);
	check_bytes(&r);
	/* A successor may be killed, too: what it leaves says the same. */
	again = copy_file(r.depot.ledger.fd);
	forget(&r);
	recover(&r, again);
	close(again);
	CHECK_EQ(r.n_dropped, 0);
	CHECK_EQ(count(&r), n);
	forget(&r);
}

/* Runs in the child; *@at tells the parent how far it has come. */
static void run_steps(volatile uint32_t *at)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	for (uint32_t k = 0; k < N_STEPS; k++) {
		*at = k;
		do_step(&steps[k]);
	}
	*at = N_STEPS;
	_exit(0);
}

/* Lets the child go on by an instruction; false once it has ended. */
static bool single_step(pid_t pid)
{
	int status;

	CHECK_EQ(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status)) {
		CHECK_EQ(WEXITSTATUS(status), 0);
		return false;
	}
	CHECK(WIFSTOPPED(status));
	CHECK_EQ(WSTOPSIG(status), SIGTRAP);
	return true;
}

static bool changed(char *seen)
{
	bool table = memcmp(seen, ledger.entries, WATCH_TABLE) != 0;
	bool heap = memcmp(seen + WATCH_TABLE, ledger.heap, WATCH_HEAP) != 0;

	if (table)
		memcpy(seen, ledger.entries, WATCH_TABLE);
	if (heap)
		memcpy(seen + WATCH_TABLE, ledger.heap, WATCH_HEAP);
	return table || heap;
}

static void test_mover_when_killed_at_any_instruction_then_old_or_new_is_found(void)
{
	static char seen[WATCH_TABLE + WATCH_HEAP];
	uint32_t *at =
		mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long n_steps = 0, n_states = 0;
	struct recovered r;
	int status;
	pid_t pid;

	CHECK(at != MAP_FAILED);
	set_up();
	foresee();
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		run_steps(at);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	for (; single_step(pid); n_steps++) {
		if (!changed(seen))
			continue;
		check_killed(*at);
		n_states++;
	}
	recover_copy(&r);
	for (uint64_t id = 0; id < N_EXTENTS; id++)
		CHECK(is_content(found(&r, id), &contents[N_STEPS][id]));
	forget(&r);
	fprintf(stderr, "%lu instructions, %lu states\n", n_steps, n_states);
	CHECK(n_states > 100);
	munmap(at, sizeof(*at));
	tear_down();
}

/* --- what a successor does not believe --- */

static const struct step one = { .id = 3, .n = 6, .version = 8, .changed = 0x3f };
static const struct step other = { .id = 2, .n = 3, .version = 9, .changed = 0x7 };

static void test_walk_when_a_bit_is_wrong_then_that_record_is_dropped(void)
{
	char *entry, *chunks;
	struct recovered r;

	set_up();
	do_step(&one);
	do_step(&other);
	entry = (char *)ledger.entries;
	chunks = ledger.heap;
	for (size_t bit = 0; bit < ENTRY_FIELDS * 8; bit++) {
		entry[bit / 8] ^= (char)(1 << bit % 8);
		recover_copy(&r);
		entry[bit / 8] ^= (char)(1 << bit % 8);
		/* Without its sequence number, here 1, it is no record. */
		CHECK_EQ(r.n_dropped, bit > 0);
		CHECK(!found(&r, one.id) && found(&r, other.id));
		CHECK_EQ(count(&r), 1);
		check_bytes(&r);
		forget(&r);
	}
	for (size_t bit = 0; bit < 6 * sizeof(struct gp_saved_chunk) * 8; bit += 5) {
		chunks[bit / 8] ^= (char)(1 << bit % 8);
		recover_copy(&r);
		chunks[bit / 8] ^= (char)(1 << bit % 8);
		CHECK_EQ(r.n_dropped, 1);
		CHECK(!found(&r, one.id) && found(&r, other.id));
		forget(&r);
	}
	tear_down();
}

/* A record that is right in itself, but speaks of what cannot be. */
static void put_impossible(uint64_t id, uint32_t place, uint32_t index)
{
	struct gp_saved *saved = gp_saved_new(&store, id, 3, NULL);

	CHECK(saved);
	saved->job = JOB;
	saved->proc = PROC;
	saved->chunks[0].place = saved->chunks[1].place = GP_PLACE_ZERO;
	saved->chunks[2].place = place;
	saved->chunks[2].index = index;
	gp_ledger_commit(&ledger, saved);
	free(saved);
}

static void test_recover_when_chunks_are_impossible_then_the_record_is_dropped(void)
{
	struct recovered r;

	set_up();
	do_step(&other); /* has chunks 0 and 1 */
	put_impossible(10, GP_PLACE_ARENA, N_ARENA);
	put_impossible(11, GP_PLACE_ARENA, UINT32_MAX);
	put_impossible(12, GP_PLACE_DISK, 0);
	put_impossible(13, GP_PLACE_NONE, 0);
	put_impossible(14, 17, 0);
	put_impossible(15, GP_PLACE_ARENA, 1);
	recover_copy(&r);
	CHECK_EQ(r.n_dropped, 6);
	CHECK_EQ(count(&r), 1);
	CHECK(found(&r, other.id));
	check_bytes(&r);
	forget(&r);
	tear_down();
}

static void test_adopt_when_file_is_no_ledger_of_this_arena_then_refused(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int empty = memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING), copy;
	struct gp_ledger l;
	struct gp_err err = { 0 };

	set_up();
	CHECK_EQ(gp_ledger_adopt(&l, -1, arena.bytes, &err), -EINVAL);
	CHECK_EQ(gp_ledger_adopt(&l, null, arena.bytes, &err), -EINVAL);
	CHECK_EQ(gp_ledger_adopt(&l, empty, arena.bytes, &err), -EINVAL);
	CHECK_EQ(ftruncate(empty, lseek(ledger.fd, 0, SEEK_END)), 0);
	CHECK_EQ(gp_ledger_adopt(&l, empty, arena.bytes, &err), -EINVAL); /* not sealed */
	CHECK_EQ(fcntl(empty, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	CHECK_EQ(gp_ledger_adopt(&l, empty, arena.bytes, &err), -EINVAL);
	CHECK(strstr(err.msg, "no header"));
	CHECK_EQ(gp_ledger_adopt(&l, ledger.fd, arena.bytes + GP_CHUNK_BYTES, &err), -EINVAL);
	CHECK(strstr(err.msg, "belongs to an arena"));
	copy = copy_file(ledger.fd);
	CHECK_EQ(pwrite(copy, "\xff", 1, 8), 1);
	CHECK_EQ(gp_ledger_adopt(&l, copy, arena.bytes, &err), -EINVAL);
	CHECK(strstr(err.msg, "version"));
	close(copy);
	close(empty);
	close(null);
	tear_down();
}

static void test_begin_when_extent_is_too_large_then_error_and_nothing_taken(void)
{
	struct gp_err err = { 0 };

	set_up();
	CHECK(!gp_saved_new(&store, 1, UINT32_MAX, &err));
	CHECK_EQ(err.code, -ENOSPC);
	CHECK_EQ(gp_chunkmap_used(&ledger.entry_map) + gp_chunkmap_used(&ledger.unit_map), 0);
	do_step(&one);
	CHECK(!gp_saved_new(&store, 1, UINT32_MAX, &err));
	CHECK_EQ(gp_chunkmap_used(&ledger.entry_map), 1);
	gp_image_clear(&image, &store);
	CHECK_EQ(gp_chunkmap_used(&ledger.entry_map) + gp_chunkmap_used(&ledger.unit_map), 0);
	tear_down();
}

static void test_adopt_when_successor_goes_on_then_its_successor_finds_both(void)
{
	struct recovered r;
	struct gp_proc *proc;
	struct gp_store successor;
	struct gp_saved *saved;
	int fd;

	set_up();
	do_step(&one);
	do_step(&other);
	fd = copy_file(ledger.fd);
	CHECK_EQ(ledger.sequence, 2);
	recover(&r, fd);
	CHECK_EQ(r.depot.ledger.sequence, 2);
	CHECK_EQ(gp_ledger_key(&r.depot.ledger).k[0], gp_ledger_key(&ledger).k[0]);
	CHECK_EQ(gp_ledger_key(&r.depot.ledger).k[1], gp_ledger_key(&ledger).k[1]);
	proc = gp_container_of(r.procs.next, struct gp_proc, list);
	successor = gp_depot_store(&r.depot);
	CHECK_EQ(gp_image_reserve(&proc->image, 1), 0);
	saved = gp_saved_new(&successor, 1, 1, NULL);
	CHECK(saved);
	saved->chunks[0].place = GP_PLACE_ZERO;
	saved->chunks[0].hash[1] = 1ull << 32;
	gp_image_put(&proc->image, saved, &successor);
	forget(&r);
	recover(&r, fd);
	CHECK_EQ(r.n_dropped, 0);
	CHECK_EQ(count(&r), 3);
	CHECK(found(&r, 1) && found(&r, one.id) && found(&r, other.id));
	CHECK_EQ(found(&r, 1)->sequence, 3);
	check_bytes(&r);
	forget(&r);
	close(fd);
	tear_down();
}

int main(void)
{
	test_mover_when_killed_at_any_instruction_then_old_or_new_is_found();
	test_walk_when_a_bit_is_wrong_then_that_record_is_dropped();
	test_recover_when_chunks_are_impossible_then_the_record_is_dropped();
	test_adopt_when_file_is_no_ledger_of_this_arena_then_refused();
	test_begin_when_extent_is_too_large_then_error_and_nothing_taken();
	test_adopt_when_successor_goes_on_then_its_successor_finds_both();
	return 0;
}
