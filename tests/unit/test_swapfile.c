/* SPDX-License-Identifier: Apache-2.0 */
/* Works in a folder of its own below TMPDIR and, for O_DIRECT refused, below /dev/shm. */
#include "base/size.h"
#include "snapshot/swapfile.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_BUFFERS 4

static char *buffers;
static char disk_dir[256], shm_dir[] = "/dev/shm/gpupres-swapfile-XXXXXX";

static char *buffer(uint32_t i)
{
	return buffers + i * GP_CHUNK_BYTES;
}

enum { NO_URING = 1, NO_DIRECT = 2 };

static struct gp_swapfile *open_swapfile(const char *dir, uint64_t chunks, int without)
{
	struct gp_swapfile_options o = { .dir = dir,
					 .max_bytes = chunks * GP_CHUNK_BYTES,
					 .buffers = buffers,
					 .n_buffers = N_BUFFERS,
					 .no_uring = without & NO_URING,
					 .no_direct = without & NO_DIRECT };
	struct gp_swapfile *s = NULL;
	struct gp_err err = { 0 };

	if (gp_swapfile_new(&o, &s, &err) < 0)
		fprintf(stderr, "%s\n", err.msg);
	CHECK(s);
	return s;
}

static void fill(uint32_t i, uint32_t seed)
{
	uint32_t *words = (uint32_t *)(void *)buffer(i);

	for (uint32_t w = 0; w < GP_CHUNK_BYTES / 4; w++)
		words[w] = seed * 2654435761u + w;
}

static bool holds(uint32_t i, uint32_t seed)
{
	const uint32_t *words = (const uint32_t *)(const void *)buffer(i);

	for (uint32_t w = 0; w < GP_CHUNK_BYTES / 4; w++) {
		if (words[w] != seed * 2654435761u + w)
			return false;
	}
	return true;
}

static void wait_all(struct gp_swapfile *s, uint32_t n)
{
	uint32_t seen = 0, i;

	while (n--) {
		CHECK_EQ(gp_swapfile_wait(s, &i, NULL), 0);
		CHECK(!(seen & 1u << i));
		seen |= 1u << i;
	}
}

static void round_trip(const char *dir, int without)
{
	struct gp_swapfile *s = open_swapfile(dir, 10, without);
	uint32_t chunks[N_BUFFERS], first;

	fprintf(stderr, "%s: %s\n", dir, gp_swapfile_method(s));
	CHECK_EQ(gp_swapfile_take(s, 3, &first, NULL), 3);
	gp_swapfile_give(s, first + 1, 1);
	for (uint32_t i = 0; i < N_BUFFERS; i++) {
		CHECK_EQ(gp_swapfile_take(s, 1, &chunks[i], NULL), 1);
		fill(i, i + 1);
		gp_swapfile_submit(s, i, chunks[i], true);
	}
	wait_all(s, N_BUFFERS);
	CHECK_EQ(gp_swapfile_used_bytes(s), 6 * GP_CHUNK_BYTES);
	memset(buffers, 0, N_BUFFERS * GP_CHUNK_BYTES);
	for (uint32_t i = 0; i < N_BUFFERS; i++)
		gp_swapfile_submit(s, N_BUFFERS - 1 - i, chunks[i], false);
	wait_all(s, N_BUFFERS);
	for (uint32_t i = 0; i < N_BUFFERS; i++)
		CHECK(holds(N_BUFFERS - 1 - i, i + 1));
	gp_swapfile_free(s);
}

static void test_round_trip_when_any_method_then_same_bytes(void)
{
	for (int without = 0; without < 4; without++) {
		round_trip(disk_dir, without);
		round_trip(shm_dir, without);
	}
}

/* The descriptor of this process whose file has a name that starts so; -1 if there is none. */
static int find_fd(const char *name)
{
	char path[64], target[512];
	ssize_t n;

	for (int fd = 3; fd < 256; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target));
		if (n > 0 && (size_t)n >= strlen(name) && !strncmp(target, name, strlen(name)))
			return fd;
	}
	return -1;
}

/* Else the disk's errors would come after the bytes were said to be safe. */
static void test_new_when_page_cache_is_used_then_writes_are_synchronous(void)
{
	struct gp_swapfile *s = open_swapfile(disk_dir, 1, NO_DIRECT);

	CHECK_EQ(fcntl(find_fd(disk_dir), F_GETFL) & (O_DSYNC | O_DIRECT), O_DSYNC);
	gp_swapfile_free(s);
}

/* A request left in the ring could run later, on a buffer with other contents. */
static void test_submit_when_ring_breaks_then_writes_fail_for_good_and_reads_work(void)
{
	struct gp_swapfile *s = open_swapfile(disk_dir, 4, 0);
	int ring = find_fd("anon_inode:[io_uring]"), null = open("/dev/null", O_RDWR | O_CLOEXEC);
	uint32_t first, i;

	CHECK(null >= 0);
	if (ring < 0) {
		fprintf(stderr, "no io_uring here\n");
	} else {
		CHECK_EQ(gp_swapfile_take(s, 2, &first, NULL), 2);
		fill(0, 1);
		gp_swapfile_submit(s, 0, first, true);
		wait_all(s, 1);
		CHECK_EQ(dup3(null, ring, O_CLOEXEC), ring);
		for (uint32_t n = 0; n < 2 * N_BUFFERS; n++) {
			gp_swapfile_submit(s, 1, first + 1, true);
			gp_swapfile_submit(s, 2, first + 1, true);
			CHECK(gp_swapfile_wait(s, &i, NULL) < 0);
			CHECK(gp_swapfile_wait(s, &i, NULL) < 0);
		}
		memset(buffer(3), 0, GP_CHUNK_BYTES);
		gp_swapfile_submit(s, 3, first, false);
		wait_all(s, 1);
		CHECK(holds(3, 1));
	}
	close(null);
	gp_swapfile_free(s);
}

static void test_take_when_at_its_limit_then_enospc_says_so(void)
{
	struct gp_swapfile *s = open_swapfile(disk_dir, 5, 0);
	struct gp_err err = { 0 };
	uint32_t first;

	CHECK_EQ(gp_swapfile_take(s, 9, &first, NULL), 5);
	CHECK_EQ(gp_swapfile_take(s, 1, &first, &err), -ENOSPC);
	CHECK(strstr(err.msg, "--swap-max") && strstr(err.msg, disk_dir));
	gp_swapfile_give(s, 2, 1);
	CHECK_EQ(gp_swapfile_take(s, 4, &first, NULL), 1);
	CHECK_EQ(first, 2);
	gp_swapfile_free(s);
}

static void test_take_when_disk_is_full_then_enospc_before_any_write(void)
{
	struct rlimit old, limit = { 6 * GP_CHUNK_BYTES, RLIM_INFINITY };
	struct gp_swapfile *s = open_swapfile(disk_dir, 1000, 0);
	struct gp_err err = { 0 };
	uint32_t first;

	signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit.rlim_max = old.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQ(gp_swapfile_take(s, 6, &first, &err), 6); /* no step ahead fits: only the run */
	CHECK(gp_swapfile_take(s, 1, &first, &err) < 0);
	CHECK(strstr(err.msg, disk_dir) && strstr(err.msg, "--swap-dir"));
	CHECK_EQ(gp_swapfile_used_bytes(s), 6 * GP_CHUNK_BYTES);
	gp_swapfile_give(s, 0, 1);
	CHECK_EQ(gp_swapfile_take(s, 1, &first, &err), -EFBIG); /* next fit: behind the end */
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
	CHECK_EQ(gp_swapfile_take(s, 1, &first, &err), 1);
	gp_swapfile_free(s);
}

static void test_give_when_chunks_are_dropped_then_disk_blocks_are_freed(void)
{
	struct gp_swapfile *s = open_swapfile(disk_dir, 4, 0);
	uint32_t first;

	CHECK_EQ(gp_swapfile_take(s, 4, &first, NULL), 4);
	fill(0, 1);
	gp_swapfile_submit(s, 0, first, true);
	wait_all(s, 1);
	gp_swapfile_give(s, 0, 4);
	CHECK_EQ(gp_swapfile_used_bytes(s), 0);
	CHECK_EQ(gp_swapfile_take(s, 1, &first, NULL), 1);
	gp_swapfile_submit(s, 0, first, false);
	wait_all(s, 1);
	CHECK_EQ(buffer(0)[4], 0);
	gp_swapfile_free(s);
}

static void test_new_when_folder_is_missing_then_names_it(void)
{
	struct gp_swapfile_options o = { .dir = "/nonexistent/swap",
					 .max_bytes = GP_CHUNK_BYTES,
					 .buffers = buffers,
					 .n_buffers = N_BUFFERS };
	struct gp_swapfile *s = NULL;
	struct gp_err err = { 0 };
	uint32_t first;

	CHECK_EQ(gp_swapfile_new(&o, &s, &err), -ENOENT);
	CHECK(strstr(err.msg, "/nonexistent/swap"));
	o.max_bytes = 0; /* no swapping: no folder needed, always full */
	CHECK_EQ(gp_swapfile_new(&o, &s, &err), 0);
	CHECK_EQ(gp_swapfile_take(s, 1, &first, &err), -ENOSPC);
	gp_swapfile_free(s);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(disk_dir, sizeof(disk_dir), "%s/gpupres-test-XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(disk_dir) && mkdtemp(shm_dir));
	buffers = aligned_alloc(GP_CHUNK_BYTES, N_BUFFERS * GP_CHUNK_BYTES);
	CHECK(buffers);
	test_round_trip_when_any_method_then_same_bytes();
	test_new_when_page_cache_is_used_then_writes_are_synchronous();
	test_submit_when_ring_breaks_then_writes_fail_for_good_and_reads_work();
	test_take_when_at_its_limit_then_enospc_says_so();
	test_take_when_disk_is_full_then_enospc_before_any_write();
	test_give_when_chunks_are_dropped_then_disk_blocks_are_freed();
	test_new_when_folder_is_missing_then_names_it();
	free(buffers);
	CHECK_EQ(rmdir(disk_dir), 0); /* nothing was left there */
	CHECK_EQ(rmdir(shm_dir), 0);
	return 0;
}
