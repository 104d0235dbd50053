/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
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

int main(void)
{
	const char *tmp = getenv("TMPDIR");
	char dir[PATH_MAX], path[PATH_MAX + 32], other[PATH_MAX + 32], old[PATH_MAX + 32];
	char command[PATH_MAX + 16];

	snprintf(dir, sizeof(dir), "%s/gp-test-store-XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/gpupres.db", dir);
	snprintf(other, sizeof(other), "%s/damaged.db", dir);
	snprintf(old, sizeof(old), "%s/old.db", dir);
	test_job_when_put_twice_then_last_is_kept(path);
	test_job_when_ended_then_its_command_is_dropped(path);
	test_load_when_many_have_ended_then_the_last_and_all_live(path);
	test_events_when_changed_by_hand_then_refused(path);
	test_procs_when_deleted_then_gone(path);
	test_proc_block_when_taken_again_then_another(path);
	test_open_when_version_1_then_migrated(old);
	test_open_when_made_by_newer_version_then_refused(path);
	test_open_when_damaged_then_says_so(other);
	test_open_when_folder_is_missing_then_says_where();
	snprintf(command, sizeof(command), "rm -r %s", dir);
	CHECK_EQ(system(command), 0);
	return 0;
}
