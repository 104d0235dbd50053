/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/wire/messages.h"
#include "cli/json.h"
#include "cli/show.h"
#include "tests/unit/check.h"

/* What @write puts out; the caller frees. */
static char *written(void (*write)(FILE *out))
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	CHECK(out);
	write(out);
	CHECK_EQ(fclose(out), 0);
	CHECK_EQ(strlen(text), bytes);
	return text;
}

static void write_nested(FILE *out)
{
	struct gp_json j;

	gp_json_init(&j, out);
	gp_json_open_object(&j, NULL);
	gp_json_open_array(&j, "empty");
	gp_json_close_array(&j);
	gp_json_open_array(&j, "two");
	gp_json_open_object(&j, NULL);
	gp_json_close_object(&j);
	gp_json_open_object(&j, NULL);
	gp_json_bool(&j, "yes", true);
	gp_json_bool(&j, "no", false);
	gp_json_close_object(&j);
	gp_json_close_array(&j);
	gp_json_unsigned(&j, "max", UINT64_MAX);
	gp_json_signed(&j, "min", INT64_MIN);
	gp_json_null(&j, "nothing");
	gp_json_text(&j, "text", "");
	gp_json_close_object(&j);
}

static void test_json_when_nested_puts_commas_between_members(void)
{
	gp_auto_free char *text = written(write_nested);

	CHECK_STR(text, "{\"empty\":[],\"two\":[{},{\"yes\":true,\"no\":false}],"
			"\"max\":18446744073709551615,\"min\":-9223372036854775808,"
			"\"nothing\":null,\"text\":\"\"}");
}

static void write_escapes(FILE *out)
{
	struct gp_json j;

	gp_json_init(&j, out);
	gp_json_open_array(&j, NULL);
	gp_json_text(&j, NULL, "quote\" back\\slash /");
	gp_json_text(&j, NULL, "\n\t\r\b\x01\x1f\x7f");
	gp_json_bytes(&j, NULL, "a\0b", 3);
	gp_json_close_array(&j);
}

static void test_json_when_text_has_specials_escapes_them(void)
{
	gp_auto_free char *text = written(write_escapes);

	CHECK_STR(text, "[\"quote\\\" back\\\\slash /\","
			"\"\\n\\t\\r\\u0008\\u0001\\u001f\\u007f\",\"a\\u0000b\"]");
}

static void write_utf8(FILE *out)
{
	static const char *const texts[] = {
		"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", /* valid: 2, 3 and 4 bytes */
		"\xff",					/* never valid */
		"\xc0\xaf",				/* overlong "/" */
		"\xe0\x80\xaf",				/* overlong "/" */
		"\xed\xa0\x80",				/* surrogate */
		"\xf4\x90\x80\x80",			/* past U+10FFFF */
		"x\xe2\x82",				/* cut off */
		"\xe2\x28\xa1",				/* broken */
	};
	struct gp_json j;

	gp_json_init(&j, out);
	gp_json_open_array(&j, NULL);
	for (size_t i = 0; i < GP_ARRAY_SIZE(texts); i++)
		gp_json_text(&j, NULL, texts[i]);
	gp_json_close_array(&j);
}

static void test_json_when_text_is_not_utf8_replaces_it(void)
{
	gp_auto_free char *text = written(write_utf8);

#define BAD "\\ufffd"
	CHECK_STR(text, "[\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\",\"" BAD "\",\"" BAD BAD
			"\",\"" BAD BAD BAD "\",\"" BAD BAD BAD "\",\"" BAD BAD BAD BAD
			"\",\"x" BAD BAD "\",\"" BAD "(" BAD "\"]");
#undef BAD
}

static void test_utf8_incomplete_counts_what_may_still_come(void)
{
	static const struct {
		const char *text;
		size_t want;
	} cases[] = {
		{ "", 0 },
		{ "abc", 0 },
		{ "\xc3\xa9", 0 },
		{ "a\xc3", 1 },
		{ "a\xe2\x82", 2 },
		{ "\xf0\x9f\x98", 3 },
		{ "\xf0\x9f\x98\x80", 0 },
		{ "\x80\x80\x80\x80", 0 },
		{ "\xff", 0 },
		{ "\xc0", 0 },
	};

	for (size_t i = 0; i < GP_ARRAY_SIZE(cases); i++)
		CHECK_EQ(gp_utf8_incomplete(cases[i].text, strlen(cases[i].text)), cases[i].want);
}

static struct gp_wire_msg job_message(void)
{
	struct gp_wire_msg msg = { .header.type = GP_WIRE_JOB };

	msg.job = (struct gp_wire_job){
		.id = 7,
		.state = GP_JOB_SWAPPED,
		.priority = -5,
		.exit_code = -1,
		.n_preemptions = 1,
		.held = 1,
		.saved_bytes = 700ull << 20,
		.report = { .freeze_ns = 800000,
			    .stop_ns = 900000,
			    .save_ns = 500000000,
			    .evict_ns = 600000000,
			    .total_bytes = 2000000000,
			    .mid_kernel = GP_MID_KERNEL_YES,
			    .n_channels = 20 },
		.name = ">train\x1b[31m",
		.command = "/usr/bin/train --fast",
	};
	return msg;
}

static void write_job_json(FILE *out)
{
	struct gp_wire_msg msg = job_message();

	gp_show_job(&msg.job, true, out);
}

static void test_show_job_as_json_names_units(void)
{
	gp_auto_free char *text = written(write_job_json);

	CHECK(strstr(text, "{\"id\":7,\"name\":\">train\\u001b[31m\",\"state\":\"swapped\"") ==
	      text);
	CHECK(strstr(text, "\"priority\":-5,"));
	CHECK(strstr(text, "\"exit_code\":null,"));
	CHECK(strstr(text, "\"held\":true,"));
	CHECK(strstr(text, "\"saved_bytes\":734003200,"));
	CHECK(strstr(text,
		     "\"report\":{\"mid_kernel\":\"yes\",\"n_channels\":20,\"freeze_ns\":800000,"));
	CHECK(strstr(text, "}}\n"));
}

static void write_preemption(FILE *out)
{
	struct gp_wire_msg msg = job_message();

	gp_show_preemption(&msg.job, false, out);
}

static void test_show_preemption_gives_times_and_rates(void)
{
	gp_auto_free char *text = written(write_preemption);

	CHECK_STR(text, "job 7 (>train?[31m): swapped\n"
			"mid-kernel        yes\n"
			"freeze            800.0 us, 20 channels\n"
			"request to stop   900.0 us\n"
			"saved             2.00 GB in 500.00 ms: 4.0 GB/s\n"
			"kept as           zero 0 B, arena 0 B, disk 0 B\n"
			"request to free   600.00 ms\n");
}

static void write_jobs(FILE *out)
{
	struct gp_wire_msg msgs[2] = { job_message(), job_message() };

	msgs[1].job.id = 12345;
	msgs[1].job.held = 0;
	msgs[1].job.exit_code = 3;
	strcpy(msgs[1].job.name, "n\xc3\xa9");
	CHECK_EQ(gp_show_jobs(msgs, 2, false, false, out), 0);
}

static void test_show_jobs_aligns_columns(void)
{
	gp_auto_free char *text = written(write_jobs);

	CHECK_STR(
		text,
		"   ID  NAME         STATE           PRIORITY  MEMORY    SAVED  PREEMPTIONS  EXIT  "
		"COMMAND\n"
		"    7  >train?[31m  swapped (held)        -5     0 B  700 MiB            1     -  "
		"/usr/bin/train --fast\n"
		"12345  n\xc3\xa9           swapped               -5     0 B  700 MiB            1 "
		" "
		"   3  /usr/bin/train --fast\n");
}

int main(void)
{
	test_json_when_nested_puts_commas_between_members();
	test_json_when_text_has_specials_escapes_them();
	test_json_when_text_is_not_utf8_replaces_it();
	test_utf8_incomplete_counts_what_may_still_come();
	test_show_job_as_json_names_units();
	test_show_preemption_gives_times_and_rates();
	test_show_jobs_aligns_columns();
	return 0;
}
