/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/messages.h"
#include "cli/options.h"
#include "cli/submit.h"
#include "cli/when.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MAX_WORDS 32

/* Splits @line at spaces in place and parses it as a command line. */
static int parse_words(char *line, char **words, struct gp_options *o, struct gp_err *err)
{
	int n = 0;

	words[n++] = (char *)(uintptr_t)"gpupresctl";
	for (char *w = strtok(line, " "); w; w = strtok(NULL, " ")) {
		CHECK(n < MAX_WORDS);
		words[n++] = w;
	}
	words[n] = NULL;
	return gp_options_parse(n, words, o, err);
}

#define PARSE(text)                                                                                \
	char line[] = text, *words[MAX_WORDS + 1];                                                 \
	struct gp_options o;                                                                       \
	struct gp_err err = { 0 };                                                                 \
	int r = parse_words(line, words, &o, &err)

static void test_submit_when_all_options_are_given_takes_them(void)
{
	PARSE("--socket /s submit --priority -7 --mem=1.5G --name n --env A=1 --env=B= --wait "
	      "--json -- cmd --priority");

	CHECK_EQ(r, 0);
	CHECK_EQ(o.command, GP_CMD_SUBMIT);
	CHECK_STR(o.socket, "/s");
	CHECK_EQ(o.priority, -7);
	CHECK_EQ(o.mem_bytes, 3ull << 29);
	CHECK_STR(o.name, "n");
	CHECK_EQ(o.n_env, 2);
	CHECK_STR(o.env[0], "A=1");
	CHECK_STR(o.env[1], "B=");
	CHECK(o.wait && o.json && !o.follow);
	CHECK_EQ(o.n_args, 2);
	CHECK_STR(o.argv[0], "cmd");
	CHECK_STR(o.argv[1], "--priority");
	gp_options_fini(&o);
}

static void test_run_when_the_command_starts_takes_no_more_options(void)
{
	PARSE("run cmd --json -- x");

	CHECK_EQ(r, 0);
	CHECK(!o.json);
	CHECK_EQ(o.n_args, 4);
	gp_options_fini(&o);
}

static void test_preempt_when_no_state_is_given_swaps(void)
{
	PARSE("preempt 3");

	CHECK_EQ(r, 0);
	CHECK_EQ(o.to, GP_JOB_SWAPPED);
	CHECK_STR(o.operand, "3");
	gp_options_fini(&o);
}

static void test_options_when_after_the_operand_are_taken(void)
{
	PARSE("preempt 3 --to frozen --json");

	CHECK_EQ(r, 0);
	CHECK_EQ(o.to, GP_JOB_FROZEN);
	CHECK(o.json);
	gp_options_fini(&o);
}

static void test_logs_when_short_option_is_given_follows(void)
{
	PARSE("logs -f train");

	CHECK_EQ(r, 0);
	CHECK(o.follow);
	gp_options_fini(&o);
}

static void test_help_needs_no_operand(void)
{
	PARSE("submit --help");

	CHECK_EQ(r, 0);
	CHECK(o.help);
	CHECK_EQ(o.command, GP_CMD_SUBMIT);
	gp_options_fini(&o);
}

static void test_bad_usage_is_refused_in_one_line(void)
{
	static const char *const lines[] = {
		"",
		"bogus",
		"--bogus list",
		"--mem 1G submit x",
		"list x",
		"list --mem 1G",
		"list --json=1",
		"-f logs 1",
		"show",
		"show 1 2",
		"submit",
		"submit --",
		"submit --mem",
		"submit --mem 1X x",
		"submit --mem -1 x",
		"submit --priority 1001 x",
		"submit --priority -1001 x",
		"submit --priority 1x x",
		"submit --priority 99999999999999999999 x",
		"submit --env NOVALUE x",
		"submit --env =v x",
		"submit --name= x",
		"submit --name 12 x",
		"submit --name=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef x",
		"submit --follow x",
		"run --wait x",
		"preempt --to running 1",
		"history 1 2",
		"history --limit",
		"history --limit -1",
		"history --limit 1x",
		"history --since",
		"history --since yesterday",
		"list --since 1h",
		"backup",
		"backup a b",
		"completion",
		"completion fish",
	};

	for (size_t i = 0; i < GP_ARRAY_SIZE(lines); i++) {
		char line[256], *words[MAX_WORDS + 1];
		struct gp_err err = { 0 };
		struct gp_options o;

		strcpy(line, lines[i]);
		if (parse_words(line, words, &o, &err) != -EINVAL || !err.msg[0] ||
		    strchr(err.msg, '\n')) {
			fprintf(stderr, "\"%s\" gave \"%s\"\n", lines[i], err.msg);
			exit(1);
		}
		gp_options_fini(&o);
	}
}

static void test_help_and_completion_name_every_option(void)
{
	static const char *const names[] = { "--priority", "--mem",    "--name",   "--env",
					     "--wait",	   "--to",     "--follow", "--json",
					     "--help",	   "--socket", "--since",  "--limit" };
	gp_auto_free char *help = NULL;
	gp_auto_free char *script = NULL;
	size_t bytes;
	FILE *out = open_memstream(&help, &bytes);

	CHECK(out);
	for (unsigned int c = 0; c < GP_CMD_MAX_; c++)
		gp_options_help((enum gp_command)c, out);
	CHECK_EQ(fclose(out), 0);
	out = open_memstream(&script, &bytes);
	CHECK(out);
	gp_options_completion(out);
	CHECK_EQ(fclose(out), 0);
	for (size_t i = 0; i < GP_ARRAY_SIZE(names); i++) {
		CHECK(strstr(help, names[i]));
		CHECK(strstr(script, names[i]));
	}
	for (unsigned int c = GP_CMD_NONE + 1; c < GP_CMD_MAX_; c++) {
		CHECK(strstr(help, gp_command_name((enum gp_command)c)));
		CHECK(strstr(script, gp_command_name((enum gp_command)c)));
	}
}

static void test_resolve_finds_commands_as_a_shell_does(void)
{
	gp_auto_free char *sh = NULL;
	gp_auto_free char *relative = NULL;
	gp_auto_free char *none = NULL;
	struct gp_err err;

	CHECK_EQ(setenv("PATH", "/nonexistent:/bin", 1), 0);
	CHECK_EQ(gp_submit_resolve("sh", &sh, &err), 0);
	CHECK_STR(sh, "/bin/sh");
	CHECK_EQ(chdir("/"), 0);
	CHECK_EQ(gp_submit_resolve("bin/sh", &relative, &err), 0);
	CHECK_STR(strrchr(relative, 'b'), "bin/sh");
	CHECK_EQ(relative[0], '/');
	CHECK_EQ(gp_submit_resolve("no-such-command", &none, &err), -ENOENT);
	CHECK_EQ(gp_submit_resolve("", &none, &err), -ENOENT);
	CHECK_EQ(gp_submit_resolve("/bin", &none, &err), -EACCES);
	CHECK_EQ(gp_submit_resolve("/etc/passwd", &none, &err), -EACCES);
	CHECK(!none);
}

static void test_pack_when_env_is_set_again_takes_the_last_value(void)
{
	PARSE("submit --env A=new --env C=1 --env C=2 cmd arg");
	char *environment[] = { (char *)(uintptr_t)"A=old", (char *)(uintptr_t)"AB=kept",
				(char *)(uintptr_t)"junk", NULL };
	static const char want[] = "/x/cmd\0arg\0AB=kept\0A=new\0C=2\0/";
	char blob[sizeof(want) + 1];
	struct gp_wire_msg msg;
	gp_auto_fd int fd = -1;
	int seals;

	CHECK_EQ(r, 0);
	CHECK_EQ(chdir("/"), 0);
	fd = gp_submit_pack(&o, "/x/cmd", environment, &msg, &err);
	CHECK(fd >= 0);
	CHECK_EQ(msg.submit.n_args, 2);
	CHECK_EQ(msg.submit.n_env, 3);
	CHECK_EQ(msg.submit.blob_bytes, sizeof(want));
	CHECK_STR(msg.submit.name, "cmd");
	CHECK_EQ(pread(fd, blob, sizeof(blob), 0), sizeof(want));
	CHECK_EQ(memcmp(blob, want, sizeof(want)), 0);
	seals = fcntl(fd, F_GET_SEALS);
	CHECK_EQ(seals, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	gp_options_fini(&o);
}

static void test_pack_when_too_large_is_refused(void)
{
	static char big[GP_WIRE_MAX_SUBMIT_BLOB + 16] = "BIG=";
	char *environment[] = { big, NULL };
	struct gp_wire_msg msg;
	PARSE("submit cmd");

	CHECK_EQ(r, 0);
	memset(big + 4, 'x', sizeof(big) - 5);
	CHECK_EQ(gp_submit_pack(&o, "/x/cmd", environment, &msg, &err), -E2BIG);
	gp_options_fini(&o);
}

static void test_history_when_limit_and_since_are_given_takes_them(void)
{
	PARSE("history --since=1970-01-02 --limit 5 12");

	CHECK_EQ(r, 0);
	CHECK_EQ(o.limit, 5);
	CHECK_EQ(o.since_ns, 86400 * 1000000000ull);
	CHECK_STR(o.operand, "12");
	gp_options_fini(&o);
}

static void test_history_when_no_limit_is_given_shows_the_last_or_all_of_one(void)
{
	PARSE("history");
	char with_job[] = "history 3";

	CHECK_EQ(r, 0);
	CHECK_EQ(o.limit, 100);
	gp_options_fini(&o);
	CHECK_EQ(parse_words(with_job, words, &o, &err), 0);
	CHECK_EQ(o.limit, 0);
	gp_options_fini(&o);
}

static void test_when_is_a_date_or_how_long_ago(void)
{
	static const char *const bad[] = { "",
					   "x",
					   "1",
					   "1w",
					   "-1h",
					   "2026-13-01",
					   "2026-05-04 ",
					   "2026-05-04 12",
					   "12:30",
					   "99999999999999999999s",
					   "1hh" };
	const uint64_t second = 1000000000ull, now = 1000000 * second;
	uint64_t ns;

	CHECK_EQ(gp_when_parse("90s", now, &ns), 0);
	CHECK_EQ(ns, now - 90 * second);
	CHECK_EQ(gp_when_parse("2h", now, &ns), 0);
	CHECK_EQ(ns, now - 7200 * second);
	CHECK_EQ(gp_when_parse("100000000000d", now, &ns), 0);
	CHECK_EQ(ns, 0);
	CHECK_EQ(gp_when_parse("1970-01-02 01:02:03", now, &ns), 0);
	CHECK_EQ(ns, (86400 + 3600 + 123) * second);
	CHECK_EQ(gp_when_parse("1970-01-02T01:02", now, &ns), 0);
	CHECK_EQ(ns, (86400 + 3600 + 120) * second);
	for (size_t i = 0; i < GP_ARRAY_SIZE(bad); i++)
		CHECK_EQ(gp_when_parse(bad[i], now, &ns), -EINVAL);
}

int main(void)
{
	setenv("TZ", "UTC", 1);
	test_when_is_a_date_or_how_long_ago();
	test_history_when_limit_and_since_are_given_takes_them();
	test_history_when_no_limit_is_given_shows_the_last_or_all_of_one();
	test_submit_when_all_options_are_given_takes_them();
	test_run_when_the_command_starts_takes_no_more_options();
	test_preempt_when_no_state_is_given_swaps();
	test_options_when_after_the_operand_are_taken();
	test_logs_when_short_option_is_given_follows();
	test_help_needs_no_operand();
	test_bad_usage_is_refused_in_one_line();
	test_help_and_completion_name_every_option();
	test_resolve_finds_commands_as_a_shell_does();
	test_pack_when_env_is_set_again_takes_the_last_value();
	test_pack_when_too_large_is_refused();
	return 0;
}
