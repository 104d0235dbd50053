/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct seen {
	size_t n;
	uint64_t last_id, next_job;
	char name[64], command[64], fail_cause[64];
	uint32_t state;
	size_t blob_bytes;
	int exit_code, device;
	bool held, cancelling;
	size_t n_procs;
	struct gp_store_proc last_proc;
};

static int see(const struct gp_store_job *job, void *arg, struct gp_err *err)
{
	struct seen *s = arg;

	s->n++;
	CHECK(job->id > s->last_id);
	s->last_id = job->id;
	s->state = job->state;
	s->exit_code = job->exit_code;
	s->blob_bytes = job->blob_bytes;
	s->held = job->held;
	s->cancelling = job->cancelling;
	s->device = job->device;
	snprintf(s->name, sizeof(s->name), "%s", job->name);
	snprintf(s->command, sizeof(s->command), "%s", job->command);
	snprintf(s->fail_cause, sizeof(s->fail_cause), "%s", job->fail_cause);
	return 0;
}

static int see_proc(const struct gp_store_proc *proc, void *arg, struct gp_err *err)
{
	struct seen *s = arg;

	s->n_procs++;
	s->last_proc = *proc;
	return 0;
}

static struct seen reopen(const char *path, struct gp_store **ret_store)
{
	struct seen s = { 0 };
	struct gp_err err;

	CHECK_EQ(gp_store_open(path, ret_store, &err), 0);
	CHECK_EQ(gp_store_load(*ret_store, see, &s, &s.next_job, &err), 0);
	CHECK_EQ(gp_store_load_procs(*ret_store, see_proc, &s, &err), 0);
	return s;
}

static struct seen read_once(const char *path)
{
	struct gp_store *store;
	struct seen s = reopen(path, &store);

	gp_store_close(store);
	return s;
}

static void start(struct gp_store *store)
{
	struct gp_err err;

	CHECK_EQ(gp_store_start(store, &err), 0);
}

static int execute(const char *path, const char *sql)
{
	sqlite3 *db;
	int r;

	CHECK_EQ(sqlite3_open(path, &db), SQLITE_OK);
	r = sqlite3_exec(db, sql, NULL, NULL, NULL);
	sqlite3_close(db);
	return r;
}

static void test_job_when_put_twice_then_last_is_kept(const char *path)
{
	struct gp_store_job job = { .id = 5,
				    .state = 3,
				    .exit_code = -1,
				    .device = 2,
				    .held = true,
				    .cancelling = true,
				    .name = "train",
				    .cause = "submitted",
				    .fail_cause = "for a reason",
				    .command = "a b",
				    .blob = "a\0b",
				    .blob_bytes = 4 };
	const struct gp_store_event event = { .job = 5, .cause = "because", .boot_id = "x" };
	struct gp_store *store;
	struct seen s;

	s = reopen(path, &store);
	CHECK_EQ(s.n, 0);
	CHECK_EQ(s.next_job, 1);
	start(store);
	gp_store_put_job(store, &job);
	gp_store_add_event(store, &event);
	gp_store_commit(store);
	job.exit_code = 3;
	job.blob = NULL; /* the stored one stays */
	job.blob_bytes = 0;
	gp_store_put_job(store, &job);
	gp_store_close(store);
	s = read_once(path);
	CHECK_EQ(s.n, 1);
	CHECK_EQ(s.last_id, 5);
	CHECK_EQ(s.next_job, 6);
	CHECK_EQ(s.exit_code, 3);
	CHECK_EQ(s.blob_bytes, 4);
	CHECK_EQ(s.device, 2);
	CHECK(s.held && s.cancelling);
	CHECK_STR(s.name, "train");
	CHECK_STR(s.command, "a b");
	CHECK_STR(s.fail_cause, "for a reason");
}

static void test_job_when_ended_then_its_command_is_dropped(const char *path)
{
	const struct gp_store_job job = {
		.id = 5, .state = 10, .ended_ns = 7, .name = "train", .cause = "", .command = "a b"
	};
	struct gp_store *store;
	struct seen s;

	s = reopen(path, &store);
	CHECK_EQ(s.blob_bytes, 4);
	gp_store_put_job(store, &job);
	gp_store_close(store); /* writes, though nothing was started */
	s = read_once(path);
	CHECK_EQ(s.n, 1);
	CHECK_EQ(s.state, 10);
	CHECK_EQ(s.blob_bytes, 0);
	CHECK_STR(s.command, "a b");
}

static void test_load_when_many_have_ended_then_the_last_and_all_live(const char *path)
{
	struct seen s;

	CHECK_EQ(execute(path,
			 "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
			 " 3000) INSERT INTO jobs (id, state, priority, uid, n_args, n_env,"
			 " mem_bytes, ended_ns, n_preemptions, adopted, name, cause)"
			 " SELECT i, CASE i WHEN 7 THEN 3 ELSE 10 END, 0, 0, 0, 0, 0, CASE i WHEN "
			 "7 THEN 0 ELSE 10000 - i END, 0,"
			 " 0, '', '' FROM n WHERE i != 5"),
		 SQLITE_OK);
	s = read_once(path);
	CHECK_EQ(s.n, GP_STORE_MAX_ENDED + 1);
	CHECK_EQ(s.last_id, 1002); /* 1 to 1002 but for 5 ended last, and 7 lives */
	CHECK_EQ(s.next_job, 3001);
}

static void test_events_when_changed_by_hand_then_refused(const char *path)
{
	CHECK_EQ(execute(path, "UPDATE events SET cause = 'other'"), SQLITE_CONSTRAINT);
	CHECK_EQ(execute(path, "DELETE FROM events"), SQLITE_CONSTRAINT);
}

static void test_procs_when_deleted_then_gone(const char *path)
{
	struct gp_store *store;
	struct seen s;

	s = reopen(path, &store);
	CHECK_EQ(s.n_procs, 0);
	start(store);
	gp_store_put_proc(store, 5, 65537, 101);
	gp_store_put_proc(store, 5, 65538, 102);
	gp_store_commit(store);
	gp_store_delete_proc(store, 65537);
	gp_store_put_proc(store, 6, 65538, 102);
	gp_store_close(store);
	s = read_once(path);
	CHECK_EQ(s.n_procs, 1);
	CHECK_EQ(s.last_proc.job, 6);
	CHECK_EQ(s.last_proc.proc, 65538);
	CHECK_EQ(s.last_proc.pid, 102);
}

static uint32_t take_block(const char *path, uint32_t used)
{
	struct gp_store *store;
	struct gp_err err;
	uint32_t first;

	CHECK_EQ(gp_store_open(path, &store, &err), 0);
	CHECK_EQ(gp_store_take_proc_block(store, &first, &err), 0);
	if (used)
		gp_store_put_proc(store, 1, first + used, 1);
	gp_store_close(store);
	return first;
}

static void test_proc_block_when_taken_again_then_another(const char *path)
{
	uint32_t first = take_block(path, 0);

	CHECK_EQ(first % GP_STORE_PROC_BLOCK, 0);
	CHECK_EQ(take_block(path, GP_STORE_PROC_BLOCK + 3), first + GP_STORE_PROC_BLOCK);
	/* The last one used its block up and went on. */
	CHECK_EQ(take_block(path, 0), first + 3 * GP_STORE_PROC_BLOCK);
	/* A process that comes back with its number of an earlier block gives none back. */
	CHECK_EQ(take_block(path, 0u - 2 * GP_STORE_PROC_BLOCK), first + 4 * GP_STORE_PROC_BLOCK);
	CHECK_EQ(take_block(path, 0), first + 5 * GP_STORE_PROC_BLOCK);
	CHECK_EQ(execute(path, "UPDATE meta SET value = 65535 WHERE key = 'proc_block'"),
		 SQLITE_OK);
	CHECK_EQ(take_block(path, 0), GP_STORE_PROC_BLOCK); /* not 0 */
}

/* As the first release made it: three jobs, one of them live. */
static const char version_1[] =
	"PRAGMA journal_mode=WAL;"
	"CREATE TABLE jobs (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, priority INTEGER NOT"
	" NULL, uid INTEGER NOT NULL, n_args INTEGER NOT NULL, n_env INTEGER NOT NULL, exit_code"
	" INTEGER, mem_bytes INTEGER NOT NULL, submitted_ns INTEGER, started_ns INTEGER, ended_ns"
	" INTEGER, n_preemptions INTEGER NOT NULL, adopted INTEGER NOT NULL, name TEXT NOT NULL,"
	" cause TEXT NOT NULL, blob BLOB);"
	"CREATE TABLE events (job INTEGER NOT NULL, wallclock_ns INTEGER NOT NULL, duration_ns"
	" INTEGER NOT NULL, old_state INTEGER NOT NULL, new_state INTEGER NOT NULL, cause TEXT NOT"
	" NULL, boot_id TEXT NOT NULL);"
	"CREATE INDEX events_by_job ON events (job);"
	"PRAGMA user_version=1;"
	"INSERT INTO jobs VALUES (1, 10, 0, 1000, 1, 0, 0, 0, 5, 6, 7, 0, 0, 'old', 'exit code 0',"
	" x'6c73002f00');"
	"INSERT INTO jobs VALUES (2, 11, 0, 1000, 0, 0, NULL, 0, 5, 0, 0, 0, 1, 'torn', '', NULL);"
	"INSERT INTO jobs VALUES (3, 7, 9, 1000, 3, 1, -1, 4096, 5, 6, 0, 2, 0, 'live', "
	"'preempted',"
	" x'707974686f6e33006120620063003d00412f00');"
	"INSERT INTO events VALUES (3, 5, 6, 1, 2, 'starts', 'boot');";

static void test_open_when_version_1_then_migrated(const char *path)
{
	struct gp_store *store;
	struct gp_err err;
	struct seen s;

	CHECK_EQ(execute(path, version_1), SQLITE_OK);
	s = read_once(path);
	CHECK_EQ(s.n, 3);
	CHECK_EQ(s.last_id, 3);
	CHECK_EQ(s.state, 7);
	CHECK_EQ(s.exit_code, -1);
	CHECK_EQ(s.device, -1);
	CHECK(!s.held && !s.cancelling);
	CHECK_STR(s.name, "live");
	CHECK_STR(s.command, "python3 a b c");
	CHECK_STR(s.fail_cause, "");
	CHECK_EQ(s.blob_bytes, 19);
	CHECK_EQ(execute(path, "DELETE FROM events"), SQLITE_CONSTRAINT);
	/* Once: nothing is left to be done. */
	CHECK_EQ(gp_store_open(path, &store, &err), 0);
	gp_store_close(store);
	CHECK_EQ(execute(path, "DELETE FROM jobs WHERE id = 3"), SQLITE_OK);
	s = read_once(path);
	CHECK_EQ(s.n, 2);
	CHECK_STR(s.name, "torn");
	CHECK_EQ(execute(path, "DELETE FROM jobs WHERE id = 2"), SQLITE_OK);
	s = read_once(path);
	CHECK_STR(s.command, "ls");
	CHECK_EQ(s.blob_bytes, 0); /* of an ended job */
}

static void test_open_when_made_by_newer_version_then_refused(const char *path)
{
	struct gp_store *store;
	struct gp_err err;
	sqlite3 *db;

	CHECK_EQ(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_EQ(sqlite3_exec(db, "PRAGMA user_version=99", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	CHECK_EQ(gp_store_open(path, &store, &err), -EPROTO);
	CHECK(strstr(err.msg, "newer") != NULL);
}

static void test_open_when_damaged_then_says_so(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	struct gp_store *store;
	struct gp_err err;

	for (int i = 0; i < 4096; i++)
		CHECK_EQ(write(fd, "not a database! ", 16), 16);
	close(fd);
	CHECK_EQ(gp_store_open(path, &store, &err), -EUCLEAN);
	CHECK(strstr(err.msg, path) != NULL);
}

static void test_open_when_folder_is_missing_then_says_where(void)
{
	struct gp_store *store;
	struct gp_err err;

	CHECK_EQ(gp_store_open("/nonexistent/gpupres.db", &store, &err), -EIO);
	CHECK(strstr(err.msg, "/nonexistent/gpupres.db") != NULL);
}

static int64_t number(const char *path, const char *sql)
{
	sqlite3_stmt *s;
	int64_t n = -1;
	sqlite3 *db;

	CHECK_EQ(sqlite3_open(path, &db), SQLITE_OK);
	CHECK_EQ(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
	if (sqlite3_step(s) == SQLITE_ROW)
		n = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	sqlite3_close(db);
	return n;
}

static void limit_files(rlim_t bytes)
{
	const struct rlimit limit = { .rlim_cur = bytes, .rlim_max = RLIM_INFINITY };

	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void put(struct gp_store *store, uint64_t id, uint32_t state, uint32_t n_preemptions)
{
	static const char blob[] = "/bin/true\0HOME=/root\0/";
	const struct gp_store_job job = { .id = id,
					  .state = state,
					  .n_preemptions = n_preemptions,
					  .ended_ns = state >= 10 ? 1 : 0,
					  .name = "job",
					  .cause = "for a test",
					  .blob = state >= 10 ? NULL : blob,
					  .blob_bytes = state >= 10 ? 0 : sizeof(blob) };
	const struct gp_store_event event = {
		.job = id, .wallclock_ns = 1, .new_state = state, .cause = "test", .boot_id = "x"
	};

	gp_store_put_job(store, &job);
	gp_store_add_event(store, &event);
	gp_store_commit(store);
}

/* A limit to the size of files is a full disk for sqlite. */
static void test_write_when_disk_is_full_then_last_states_come_later(const char *path)
{
	const uint64_t n_jobs = 300;
	const uint32_t n_steps = 40;
	struct gp_store *store;
	struct seen s;

	signal(SIGXFSZ, SIG_IGN);
	s = reopen(path, &store);
	CHECK_EQ(s.n, 0);
	start(store);
	put(store, 1, 1, 0);
	CHECK(gp_store_wait_written(store, gp_store_ticket(store), 10000));
	limit_files(4096);
	for (uint32_t step = 0; step < n_steps; step++) {
		for (uint64_t id = 1; id <= n_jobs; id++)
			put(store, id, step + 1 < n_steps ? 3 : id % 2 ? 3 : 10, step);
		gp_store_put_proc(store, 1, 70000 + step, 1);
		if (step)
			gp_store_delete_proc(store, 70000 + step - 1);
		gp_store_commit(store);
	}
	CHECK(!gp_store_wait_written(store, gp_store_ticket(store), 1500));
	limit_files(RLIM_INFINITY);
	CHECK(gp_store_wait_written(store, gp_store_ticket(store), 10000));
	gp_store_close(store);
	s = read_once(path);
	CHECK_EQ(s.n, n_jobs);
	CHECK_EQ(s.n_procs, 1);
	CHECK_EQ(s.last_proc.proc, 70000 + n_steps - 1);
	CHECK_EQ(number(path, "SELECT count(*) FROM jobs WHERE n_preemptions != 39"), 0);
	CHECK_EQ(number(path, "SELECT count(*) FROM commands"), n_jobs / 2);
	/* Of the history at least what may wait in memory; and the one written before. */
	CHECK(number(path, "SELECT count(*) FROM events") >= 8192 + 1);
}

static void test_write_when_one_row_is_impossible_then_others_are_written(const char *path)
{
	struct gp_store *store;

	CHECK_EQ(execute(path, "CREATE TRIGGER t BEFORE INSERT ON events WHEN new.job = 2 BEGIN"
			       " SELECT RAISE(ABORT, 'not this one'); END"),
		 SQLITE_OK);
	reopen(path, &store);
	start(store);
	put(store, 2, 3, 77);
	put(store, 3, 3, 78);
	gp_store_close(store);
	CHECK_EQ(number(path, "SELECT count(*) FROM jobs WHERE n_preemptions >= 77"), 2);
	CHECK_EQ(number(path, "SELECT count(*) FROM events WHERE job = 3 AND rowid ="
			      " (SELECT max(rowid) FROM events)"),
		 1);
}

static bool exists(const char *dir, uint64_t job, const char *suffix)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%llu.%s", dir, (unsigned long long)job, suffix);
	return access(path, F_OK) == 0;
}

static void touch(const char *dir, uint64_t job, const char *suffix)
{
	char path[PATH_MAX + 64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%llu.%s", dir, (unsigned long long)job, suffix);
	f = fopen(path, "w");
	CHECK(f);
	fclose(f);
}

/* Waits for the writer to have done what it does when there is nothing to write. */
static void wait_for(const char *path, const char *sql, int64_t want)
{
	for (int i = 0; i < 1000 && number(path, sql) != want; i++)
		usleep(10000); /* polls with a deadline */
	CHECK_EQ(number(path, sql), want);
}

/* Jobs 1 to 1000, each with 3 events; multiples of 100 live, the others ended in the order of ids.
 */
static const char past[] =
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
	" INSERT INTO jobs (id, state, priority, uid, n_args, n_env, mem_bytes, submitted_ns,"
	" ended_ns, n_preemptions, adopted, name, cause) SELECT i, 3, 0, 0, 0, 0, 0, 1,"
	" CASE WHEN i % 100 THEN i ELSE 0 END, 0, 0, '', '' FROM n;"
	"INSERT INTO events SELECT id, 1, 0, 0, 1, '', '' FROM jobs;"
	"INSERT INTO events SELECT id, 1, 0, 1, 2, '', '' FROM jobs;"
	"INSERT INTO events SELECT id, 1, 0, 2, 3, '', '' FROM jobs;";

static void test_retention_when_too_many_events_then_oldest_jobs_go(const char *path,
								    const char *dir)
{
	struct gp_store *store;

	reopen(path, &store);
	CHECK_EQ(execute(path, past), SQLITE_OK);
	for (uint64_t id = 99; id <= 1000; id++) {
		touch(dir, id, "log");
		touch(dir, id, "status");
	}
	start(store);
	gp_store_set_retention(store, 0, 2000, dir);
	wait_for(path, "SELECT count(*) FROM events", 1998); /* whole jobs */
	CHECK_EQ(number(path, "SELECT count(*) FROM jobs"), 1000 - 334);
	CHECK_EQ(number(path, "SELECT min(id) FROM jobs WHERE ended_ns > 0"), 338);
	CHECK_EQ(number(path, "SELECT count(*) FROM jobs WHERE ended_ns = 0"), 10);
	CHECK(exists(dir, 100, "log") && exists(dir, 300, "status") && exists(dir, 338, "log"));
	CHECK(!exists(dir, 99, "log") && !exists(dir, 99, "status") && !exists(dir, 337, "log"));
	/* Of live jobs only events go, and only if theirs alone are too many. */
	gp_store_set_retention(store, 0, 20, dir);
	wait_for(path, "SELECT count(*) FROM events", 20);
	CHECK_EQ(number(path, "SELECT count(*) FROM jobs"), 10);
	CHECK(exists(dir, 100, "log") && exists(dir, 1000, "status"));
	CHECK_EQ(number(path, "SELECT count(*) FROM meta WHERE key = 'forgetting'"), 0);
	CHECK_EQ(execute(path, "DELETE FROM events"), SQLITE_CONSTRAINT);
	gp_store_close(store);
}

static void test_retention_when_too_old_then_gone_and_ids_are_not_given_again(const char *path,
									      const char *dir)
{
	struct gp_store *store;
	struct seen s;

	reopen(path, &store);
	CHECK_EQ(execute(path, past), SQLITE_OK);
	CHECK_EQ(execute(path, "UPDATE jobs SET ended_ns = 5 WHERE ended_ns = 0 AND id > 500;"
			       "UPDATE jobs SET ended_ns = 4000000000000000000 WHERE id = 7"),
		 SQLITE_OK);
	start(store);
	gp_store_set_retention(store, 90, 0, dir);
	wait_for(path, "SELECT count(*) FROM jobs", 6); /* 5 that live, and one of the future */
	CHECK_EQ(number(path, "SELECT count(*) FROM events"), 18);
	gp_store_close(store);
	s = read_once(path);
	CHECK_EQ(s.next_job, 1001);
}

/* The second page is the root of the first table; the last pages hold rows. */
static void damage(const char *path, off_t offset)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	char junk[4096];

	CHECK(fd >= 0);
	memset(junk, 0xa5, sizeof(junk));
	CHECK_EQ(pwrite(fd, junk, sizeof(junk), offset), sizeof(junk));
	close(fd);
}

static void test_open_when_pages_are_damaged_then_says_so(const char *path)
{
	struct gp_store *store;
	struct gp_err err;

	CHECK_EQ(gp_store_open(path, &store, &err), 0);
	gp_store_close(store);
	CHECK_EQ(execute(path, past), SQLITE_OK);
	CHECK_EQ(execute(path, "PRAGMA wal_checkpoint(TRUNCATE)"), SQLITE_OK);
	damage(path, 4096 * 3);
	CHECK_EQ(gp_store_open(path, &store, &err), -EUCLEAN);
	CHECK(strstr(err.msg, path) && strstr(err.msg, "damaged") && !strchr(err.msg, '\n'));
	damage(path, 0);
	CHECK_EQ(gp_store_open(path, &store, &err), -EUCLEAN);
}

/* What a crash of the machine leaves: the write-ahead log ends in the middle of a transaction. */
static void test_open_when_wal_is_cut_short_then_what_was_whole_is_there(const char *path)
{
	char copy[PATH_MAX + 64], command[5 * PATH_MAX];
	struct gp_store *store;
	struct stat st;
	struct seen s;

	snprintf(copy, sizeof(copy), "%s.copy", path);
	reopen(path, &store);
	start(store);
	put(store, 1, 3, 0);
	CHECK(gp_store_wait_written(store, gp_store_ticket(store), 10000));
	put(store, 2, 3, 0);
	CHECK(gp_store_wait_written(store, gp_store_ticket(store), 10000));
	snprintf(command, sizeof(command), "cp %s %s && cp %s-wal %s-wal", path, copy, path, copy);
	CHECK_EQ(system(command), 0);
	gp_store_close(store);
	snprintf(command, sizeof(command), "%s-wal", copy);
	CHECK_EQ(stat(command, &st), 0);
	CHECK_EQ(truncate(command, st.st_size - 100), 0);
	s = read_once(copy);
	CHECK_EQ(s.n, 1);
	CHECK_EQ(s.last_id, 1);
}

static void test_open_when_folder_is_read_only_then_says_so(const char *dir)
{
	char path[PATH_MAX + 64];
	struct gp_store *store;
	struct gp_err err;

	snprintf(path, sizeof(path), "%s/read-only/gpupres.db", dir);
	*strrchr(path, '/') = '\0';
	CHECK_EQ(mkdir(path, 0500), 0);
	path[strlen(path)] = '/';
	/* Root may write there, nobody may not. */
	if (geteuid() == 0)
		CHECK_EQ(seteuid(65534), 0);
	CHECK_EQ(gp_store_open(path, &store, &err), -EIO);
	if (getuid() == 0)
		CHECK_EQ(seteuid(0), 0);
	CHECK(strstr(err.msg, path) && !strchr(err.msg, '\n'));
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");
	char dir[PATH_MAX], path[PATH_MAX + 32], other[PATH_MAX + 32], old[PATH_MAX + 32];
	char command[PATH_MAX + 16];

	snprintf(dir, sizeof(dir), "%s/gp-test-store-XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/gpupres.db", dir);
	snprintf(old, sizeof(old), "%s/old.db", dir);
	test_job_when_put_twice_then_last_is_kept(path);
	test_job_when_ended_then_its_command_is_dropped(path);
	test_load_when_many_have_ended_then_the_last_and_all_live(path);
	test_events_when_changed_by_hand_then_refused(path);
	test_procs_when_deleted_then_gone(path);
	test_proc_block_when_taken_again_then_another(path);
	test_open_when_version_1_then_migrated(old);
	snprintf(other, sizeof(other), "%s/full.db", dir);
	test_write_when_disk_is_full_then_last_states_come_later(other);
	test_write_when_one_row_is_impossible_then_others_are_written(other);
	snprintf(other, sizeof(other), "%s/many.db", dir);
	test_retention_when_too_many_events_then_oldest_jobs_go(other, dir);
	snprintf(other, sizeof(other), "%s/old-jobs.db", dir);
	test_retention_when_too_old_then_gone_and_ids_are_not_given_again(other, dir);
	snprintf(other, sizeof(other), "%s/pages.db", dir);
	test_open_when_pages_are_damaged_then_says_so(other);
	snprintf(other, sizeof(other), "%s/wal.db", dir);
	test_open_when_wal_is_cut_short_then_what_was_whole_is_there(other);
	test_open_when_folder_is_read_only_then_says_so(dir);
	snprintf(other, sizeof(other), "%s/damaged.db", dir);
	test_open_when_made_by_newer_version_then_refused(path);
	test_open_when_damaged_then_says_so(other);
	test_open_when_folder_is_missing_then_says_where();
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	CHECK_EQ(system(command), 0);
	return 0;
}
