/* SPDX-License-Identifier: Apache-2.0 */
/* base/: errors, log, sizes, lists, cleanup attributes, time. */
#include "base/cleanup.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/size.h"
#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/check.h"

static void test_err_set_when_formatted_then_code_and_text_are_kept(void)
{
	struct gp_err err = { 0 };

	CHECK_EQ(gp_err_set(&err, -EINVAL, "job %d: bad size", 7), -EINVAL);
	CHECK_EQ(err.code, -EINVAL);
	CHECK_STR(err.msg, "job 7: bad size");
	CHECK_EQ(gp_err_set(NULL, -ENOENT, "nobody listens"), -ENOENT);
}

static void test_err_sys_when_set_then_strerror_is_appended(void)
{
	struct gp_err err = { 0 };

	CHECK_EQ(gp_err_sys(&err, -ENOENT, "open %s", "/a"), -ENOENT);
	CHECK_STR(err.msg, "open /a: No such file or directory");
	CHECK_EQ(gp_err_sys(NULL, -EIO, "nobody listens"), -EIO);
}

static void test_err_prepend_when_nested_then_outermost_comes_first(void)
{
	struct gp_err err = { 0 };

	gp_err_set(&err, -EIO, "read");
	CHECK_EQ(gp_err_prepend(&err, "extent %d", 3), -EIO);
	CHECK_EQ(gp_err_prepend(&err, "job %d", 1), -EIO);
	CHECK_STR(err.msg, "job 1: extent 3: read");
	CHECK_EQ(gp_err_prepend(NULL, "nobody listens"), -EIO);
}

static void test_err_when_too_long_then_text_is_cut_and_terminated(void)
{
	char text[2 * sizeof(((struct gp_err *)0)->msg)];
	struct gp_err err;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memset(&err, 'y', sizeof(err));
	gp_err_set(&err, -EIO, "%s", text);
	CHECK_EQ(strlen(err.msg), sizeof(err.msg) - 1);
	memset(&err, 'y', sizeof(err));
	gp_err_sys(&err, -EIO, "%s", text);
	CHECK_EQ(strlen(err.msg), sizeof(err.msg) - 1);
	gp_err_prepend(&err, "job 1");
	CHECK_EQ(strlen(err.msg), sizeof(err.msg) - 1);
	CHECK(!strncmp(err.msg, "job 1: xxx", 10));
	gp_err_prepend(&err, "%s", text);
	CHECK_EQ(strlen(err.msg), sizeof(err.msg) - 1);
}

static void test_log_level_parse_when_unknown_then_refused(void)
{
	enum gp_log_level level = GP_LOG_ERR;

	CHECK_EQ(gp_log_level_parse("debug", &level), 0);
	CHECK_EQ(level, GP_LOG_DEBUG);
	CHECK_EQ(gp_log_level_parse("err", &level), 0);
	CHECK_EQ(level, GP_LOG_ERR);
	CHECK_EQ(gp_log_level_parse("Info", &level), -EINVAL);
	CHECK_EQ(gp_log_level_parse("", &level), -EINVAL);
	CHECK_EQ(level, GP_LOG_ERR);
}

/* Sends stderr into a pipe. Returns the pipe's end to read; @ret_saved is the old stderr. */
static int stderr_capture(int *ret_saved)
{
	int ends[2];

	CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	*ret_saved = dup(STDERR_FILENO);
	CHECK(*ret_saved >= 0);
	CHECK_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	return ends[0];
}

/* Puts stderr back and reads all that was written to it into @buf. Closes @fd and @saved. */
static void stderr_restore(int fd, int saved, char *buf, size_t buf_bytes)
{
	ssize_t n;

	CHECK_EQ(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	n = read(fd, buf, buf_bytes - 1);
	buf[n > 0 ? n : 0] = '\0';
	close(fd);
	close(saved);
}

static void test_log_when_above_level_then_silent_else_one_line(void)
{
	char buf[2048];
	int fd, saved;

	fd = stderr_capture(&saved);
	gp_log_init("unit", GP_LOG_INFO);
	gp_log(GP_LOG_DEBUG, "hidden", "n=%d", 1);
	errno = EBADF;
	gp_log(GP_LOG_WARN, "shown", "job=%d", 2);
	CHECK_EQ(errno, EBADF);
	stderr_restore(fd, saved, buf, sizeof(buf));
	CHECK_STR(buf, "warn unit event=shown job=2\n");
}

static void test_log_set_level_when_raised_then_more_is_written(void)
{
	char buf[2048];
	int fd, saved;

	fd = stderr_capture(&saved);
	gp_log_init("unit", GP_LOG_ERR);
	gp_log(GP_LOG_WARN, "hidden", "n=%d", 1);
	gp_log_set_level(GP_LOG_WARN);
	gp_log(GP_LOG_WARN, "shown", "n=%d", 2);
	stderr_restore(fd, saved, buf, sizeof(buf));
	CHECK_STR(buf, "warn unit event=shown n=2\n");
}

static void test_log_when_too_long_then_cut_to_one_line(void)
{
	char text[4096], buf[2048];
	int fd, saved;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	fd = stderr_capture(&saved);
	gp_log(GP_LOG_ERR, "long", "%s", text);
	stderr_restore(fd, saved, buf, sizeof(buf));
	CHECK(strlen(buf) <= 1024);
	CHECK(!strncmp(buf, "err unit event=long xxx", 23));
	CHECK(strchr(buf, '\n') == buf + strlen(buf) - 1);
}

static void test_size_parse_when_valid_then_bytes(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "1B", 1 },
		{ "1k", 1 << 10 },
		{ "512M", 512ull << 20 },
		{ "512MiB", 512ull << 20 },
		{ "1.5G", 3ull << 29 },
		{ "1.5GB", 3ull << 29 },
		{ "2T", 2ull << 40 },
	};

	for (size_t i = 0; i < GP_ARRAY_SIZE(cases); i++) {
		uint64_t bytes = 99;

		CHECK_EQ(gp_size_parse(cases[i].text, &bytes), 0);
		CHECK_EQ(bytes, cases[i].bytes);
	}
}

static void test_size_parse_when_invalid_then_refused(void)
{
	static const char *const bad[] = { "",	  "M",	 "-1",	  "+1",	 " 1",
					   "1 ",  "1X",	 "0x10",  "1e3", "inf",
					   "nan", "1Mi", "1MiBB", "1MM", "1.2.3" };
	uint64_t bytes = 99;

	for (size_t i = 0; i < GP_ARRAY_SIZE(bad); i++)
		CHECK_EQ(gp_size_parse(bad[i], &bytes), -EINVAL);
	CHECK_EQ(gp_size_parse("4194304T", &bytes), -ERANGE);
	CHECK_EQ(gp_size_parse("99999999999999999999", &bytes), -ERANGE);
	CHECK_EQ(bytes, 99);
}

static void test_size_format_when_round_then_no_fraction(void)
{
	char buf[32];

	CHECK_STR(gp_size_format(0, buf, sizeof(buf)), "0 B");
	CHECK_STR(gp_size_format(1023, buf, sizeof(buf)), "1023 B");
	CHECK_STR(gp_size_format(GP_CHUNK_BYTES, buf, sizeof(buf)), "2 MiB");
	CHECK_STR(gp_size_format(3ull << 29, buf, sizeof(buf)), "1.5 GiB");
	CHECK_STR(gp_size_format(5000ull << 40, buf, sizeof(buf)), "5000 TiB");
	CHECK_EQ(gp_round_up(1, 512), 512);
	CHECK_EQ(gp_round_up(512, 512), 512);
	CHECK_EQ(gp_round_up(0, 512), 0);
}

struct item {
	int n;
	struct gp_list link;
};

static void test_list_when_entries_are_deleted_in_a_loop_then_rest_stays_in_order(void)
{
	struct item items[4];
	struct gp_list head;
	int seen = 0;

	gp_list_init(&head);
	CHECK(gp_list_empty(&head));
	for (int i = 0; i < 4; i++) {
		items[i].n = i;
		gp_list_add_tail(&head, &items[i].link);
	}
	gp_list_for_each(it, &head, struct item, link) {
		if (it->n % 2)
			gp_list_del(&it->link);
		seen = seen * 10 + it->n;
	}
	CHECK_EQ(seen, 123);
	seen = 0;
	gp_list_for_each(it, &head, struct item, link)
		seen = seen * 10 + it->n + 1;
	CHECK_EQ(seen, 13);
	gp_list_del(&items[1].link);
	gp_list_del(&items[0].link);
	gp_list_del(&items[2].link);
	CHECK(gp_list_empty(&head));
}

static void test_cleanup_when_scope_ends_then_fd_is_closed_unless_taken(void)
{
	int closed, kept;

	{
		gp_auto_fd int a = open("/dev/null", O_RDONLY | O_CLOEXEC);
		gp_auto_fd int b = open("/dev/null", O_RDONLY | O_CLOEXEC);

		CHECK(a >= 0 && b >= 0);
		closed = a;
		kept = gp_take_fd(&b);
		CHECK_EQ(b, -1);
	}
	CHECK_EQ(fcntl(closed, F_GETFD), -1);
	CHECK(fcntl(kept, F_GETFD) >= 0);
	gp_close_fd(&kept);
	CHECK_EQ(kept, -1);
	gp_close_fd(&kept);
}

/* That the rest is freed is what the leak check of the asan preset sees. */
static void test_cleanup_when_pointer_is_taken_then_it_survives(void)
{
	char *kept;

	{
		gp_auto_free char *a = strdup("a");
		gp_auto_free char *b = strdup("b");

		CHECK(a && b);
		kept = gp_take_ptr(b);
		CHECK(!b);
	}
	CHECK_STR(kept, "b");
	free(kept);
}

static void test_time_when_read_twice_then_not_backwards(void)
{
	uint64_t first = gp_now_ns();

	CHECK(gp_now_ns() >= first);
	/* 2020-01-01: the wall clock counts from 1970. */
	CHECK(gp_wallclock_ns() > 1577836800ull * GP_NS_PER_SEC);
}

static void test_duration_parse_when_valid_then_ns(void)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
		{ "0", 0 },
		{ "0s", 0 },
		{ "17ns", 17 },
		{ "250us", 250000 },
		{ "500ms", 500 * GP_NS_PER_MS },
		{ "030s", 30 * GP_NS_PER_SEC },
		{ "10min", 600 * GP_NS_PER_SEC },
		{ "2h", 7200 * GP_NS_PER_SEC },
		{ "90d", 90ull * 86400 * GP_NS_PER_SEC },
	};

	for (size_t i = 0; i < GP_ARRAY_SIZE(cases); i++) {
		uint64_t ns = 99;

		CHECK_EQ(gp_duration_parse(cases[i].text, &ns), 0);
		CHECK_EQ(ns, cases[i].ns);
	}
}

static void test_duration_parse_when_invalid_then_refused(void)
{
	static const char *const bad[] = { "",	   "s", "-1s", "+1s", " 1s", "1 s",  "1s ",
					   "1.5s", "5", "1m",  "1M",  "1S",  "1sec", "0x1s" };
	uint64_t ns = 99;

	for (size_t i = 0; i < GP_ARRAY_SIZE(bad); i++)
		CHECK_EQ(gp_duration_parse(bad[i], &ns), -EINVAL);
	CHECK_EQ(gp_duration_parse("99999999999999999999s", &ns), -ERANGE);
	CHECK_EQ(gp_duration_parse("18446744073709551616ns", &ns), -ERANGE);
	CHECK_EQ(gp_duration_parse("200000d", &ns), -ERANGE);
	CHECK_EQ(gp_duration_parse("60000d", &ns), -ERANGE);
	CHECK_EQ(ns, 99);
}

int main(void)
{
	test_err_set_when_formatted_then_code_and_text_are_kept();
	test_err_sys_when_set_then_strerror_is_appended();
	test_err_prepend_when_nested_then_outermost_comes_first();
	test_err_when_too_long_then_text_is_cut_and_terminated();
	test_log_level_parse_when_unknown_then_refused();
	test_log_when_above_level_then_silent_else_one_line();
	test_log_set_level_when_raised_then_more_is_written();
	test_log_when_too_long_then_cut_to_one_line();
	test_size_parse_when_valid_then_bytes();
	test_size_parse_when_invalid_then_refused();
	test_size_format_when_round_then_no_fraction();
	test_list_when_entries_are_deleted_in_a_loop_then_rest_stays_in_order();
	test_cleanup_when_scope_ends_then_fd_is_closed_unless_taken();
	test_cleanup_when_pointer_is_taken_then_it_survives();
	test_duration_parse_when_valid_then_ns();
	test_duration_parse_when_invalid_then_refused();
	test_time_when_read_twice_then_not_backwards();
	return 0;
}
