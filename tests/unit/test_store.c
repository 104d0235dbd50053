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
	uint64_t last_id;
	char name[64];
	size_t blob_bytes;
	int exit_code;
};

static int see(const struct gp_store_job *job, void *arg, struct gp_err *err)
{
	struct seen *s = arg;

	s->n++;
	s->last_id = job->id;
	s->exit_code = job->exit_code;
	s->blob_bytes = job->blob_bytes;
	snprintf(s->name, sizeof(s->name), "%s", job->name);
	return 0;
}

static struct seen reopen(const char *path, struct gp_store **ret_store)
{
	struct seen s = { 0 };
	struct gp_err err;

	CHECK_EQ(gp_store_open(path, ret_store, &err), 0);
	CHECK_EQ(gp_store_load(*ret_store, see, &s, &err), 0);
	return s;
}

static void test_job_when_put_twice_then_last_is_kept(const char *path)
{
	struct gp_store_job job = { .id = 5,
				    .state = 3,
				    .exit_code = -1,
				    .name = "train",
				    .cause = "submitted",
				    .blob = "a\0b",
				    .blob_bytes = 4 };
	const struct gp_store_event event = { .job = 5, .cause = "because", .boot_id = "x" };
	struct gp_store *store;
	struct seen s;

	s = reopen(path, &store);
	CHECK_EQ(s.n, 0);
	gp_store_put_job(store, &job);
	gp_store_add_event(store, &event);
	gp_store_commit(store);
	job.exit_code = 3;
	job.blob = NULL; /* the stored one stays */
	job.blob_bytes = 0;
	gp_store_put_job(store, &job);
	gp_store_close(store);
	s = reopen(path, &store);
	gp_store_close(store);
	CHECK_EQ(s.n, 1);
	CHECK_EQ(s.last_id, 5);
	CHECK_EQ(s.exit_code, 3);
	CHECK_EQ(s.blob_bytes, 4);
	CHECK_STR(s.name, "train");
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
	char dir[] = "/tmp/gp-test-store-XXXXXX", path[64], other[64];
	char command[128];

	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/gpupres.db", dir);
	snprintf(other, sizeof(other), "%s/damaged.db", dir);
	test_job_when_put_twice_then_last_is_kept(path);
	test_open_when_made_by_newer_version_then_refused(path);
	test_open_when_damaged_then_says_so(other);
	test_open_when_folder_is_missing_then_says_where();
	snprintf(command, sizeof(command), "rm -r %s", dir);
	CHECK_EQ(system(command), 0);
	return 0;
}
