/* SPDX-License-Identifier: Apache-2.0 */
/* base/config: every kind of fault in a file, ranks, files and folders. daemon/settings: the table.
 */
#include "base/config.h"
#include "base/time.h"
#include "daemon/settings.h"
#include "daemon/settings_doc.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

enum colour { RED, GREEN, BLUE };

struct owner {
	uint64_t room_bytes, wait_ns;
	uint32_t seats;
	enum colour colour;
	const char *folder, *group, *names;
};

#define KEY(section_, key_, type_, member, initial_, ...)                                          \
	{ .section = (section_),                                                                   \
	  .key = (key_),                                                                           \
	  .type = &gp_config_##type_,                                                              \
	  .offset = offsetof(struct owner, member),                                                \
	  .bytes = sizeof(((struct owner *)0)->member),                                            \
	  .initial = (initial_),                                                                   \
	  .doc = "Doc.",                                                                           \
	  ##__VA_ARGS__ }

static const struct gp_config_key keys[] = {
	KEY("house", "room", size, room_bytes, "1G"),
	KEY("house", "wait", duration, wait_ns, "5s", .least = GP_NS_PER_SEC,
	    .most = 60 * GP_NS_PER_SEC),
	KEY("house", "seats", count, seats, "4", .least = 1, .most = 100),
	KEY("look", "colour", choice, colour, "red", .choices = "red green blue"),
	KEY("look", "folder", path, folder, "/tmp"),
	KEY("look", "group", name, group, ""),
	KEY("look", "names", names, names, ""),
};

/* What was reported, a line each. */
static char reported[1 << 16];

static void report(const char *line, void *user)
{
	size_t used = strlen(reported);

	CHECK(!strpbrk(line, "\n\r\x1b"));
	snprintf(reported + used, sizeof(reported) - used, "%s\n", line);
}

static struct gp_config config;

static void start(void)
{
	struct gp_err err;

	gp_config_fini(&config);
	*reported = '\0';
	CHECK_EQ(gp_config_init(&config, keys, GP_ARRAY_SIZE(keys), report, NULL, &err), 0);
}

/* Reads @text as a file of its own. */
static void parse_bytes(const char *text, size_t len)
{
	/* Exactly as large, so that a sanitizer sees a byte too many. */
	char *copy = malloc(len ? len : 1);

	CHECK(copy);
	memcpy(copy, text, len);
	gp_config_parse(&config, copy, len, "f");
	free(copy);
}

static void parse_more(const char *text)
{
	parse_bytes(text, strlen(text));
}

static void parse(const char *text)
{
	start();
	parse_more(text);
}

static const char *value(const char *section, const char *key)
{
	const struct gp_config_value *v =
		gp_config_get(&config, gp_config_find(&config, section, key));

	return v ? v->text : NULL;
}

static const char *source(const char *section, const char *key)
{
	return gp_config_get(&config, gp_config_find(&config, section, key))->source;
}

static void test_parse_when_all_is_well_then_values_and_sources(void)
{
	struct owner owner;

	parse("# a comment\n"
	      "\t[house] # another\n"
	      "room=1.5G\n"
	      "  wait  =  30s\t# half a minute\n"
	      "\n"
	      "[look]\n"
	      "colour = blue\n"
	      "folder = /a#b c/d\n"
	      "names = alice, @wheel  bob,\n"
	      "[ house ]\n"
	      "seats = 7");
	CHECK_STR(reported, "");
	CHECK_STR(source("house", "seats"), "f:11");
	gp_config_set_defaults(&config);
	CHECK_STR(source("look", "group"), "default");
	for (size_t i = 0; i < GP_ARRAY_SIZE(keys); i++)
		gp_config_store(&config, &keys[i], &owner);
	CHECK_EQ(owner.room_bytes, 3ull << 29);
	CHECK_EQ(owner.wait_ns, 30 * GP_NS_PER_SEC);
	CHECK_EQ(owner.seats, 7);
	CHECK_EQ(owner.colour, BLUE);
	CHECK_STR(owner.folder, "/a#b c/d");
	CHECK_STR(owner.group, "");
	CHECK_STR(owner.names, "alice, @wheel  bob,");
}

static void test_parse_when_line_is_wrong_then_one_report_with_its_place(void)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "[hose]\nroom = 1G\n", "f:1: there is no section [hose]: choose one of house, "
					 "look\n" },
		{ "[house]\nrom = 1G\n", "f:2: [house] has no key rom: choose one of room, wait, "
					 "seats\n" },
		{ "[house]\ncolour = red\n",
		  "f:2: [house] has no key colour: move it to [look]\n" },
		{ "[house]\nroom = 1G\nroom = 1G\n", "f:3: [house] room was set in line 2 already: "
						     "remove one of them\n" },
		{ "[house]\nroom = 1G\n[look]\n[house]\nroom = 2G\n",
		  "f:5: [house] room was set in line 2 already: remove one of them\n" },
		{ "room = 1G\n", "f:1: room = 1G is in no section: put [section] before it\n" },
		{ "[house\nroom = 1G", "f:1: [house does not end with ]: write [section]\n" },
		{ "[]\n", "f:1: there is no section []: choose one of house, look\n" },
		{ "[", "f:1: [ does not end with ]: write [section]\n" },
		{ "[house]\nroom\n",
		  "f:2: room is neither [section] nor key = value: correct it, or "
		  "put a # before it\n" },
		{ "[house]\n= 1G\n",
		  "f:2: = 1G is neither [section] nor key = value: correct it, or "
		  "put a # before it\n" },
		{ "[house]\nroom =\n",
		  "f:2: [house] room = (empty) is no value: write one, or leave "
		  "the key out to have its default\n" },
		{ "[house]\nroom = # all\n",
		  "f:2: [house] room = (empty) is no value: write one, or "
		  "leave the key out to have its default\n" },
		{ "[house]\nroom = big\n", "f:2: [house] room = big is not a size: write 512M or "
					   "16G\n" },
		{ "[house]\nroom = 9999999T\n",
		  "f:2: [house] room = 9999999T is too large: write at "
		  "most 4194303T\n" },
		{ "[house]\nwait = 30\n", "f:2: [house] wait = 30 is not a duration: write 500ms, "
					  "30s, 10min, 2h or 90d\n" },
		{ "[house]\nwait = 500ms\n",
		  "f:2: [house] wait = 500ms is out of range: write 1s to "
		  "60s\n" },
		{ "[house]\nseats = -1\n", "f:2: [house] seats = -1 is not a number: write digits "
					   "only\n" },
		{ "[house]\nseats = 101\n", "f:2: [house] seats = 101 is out of range: write 1 to "
					    "100\n" },
		{ "[house]\nseats = 99999999999999999999\n",
		  "f:2: [house] seats = 99999999999999999999 is too large: write at most "
		  "4294967295\n" },
		{ "[look]\ncolour = re\n", "f:2: [look] colour = re is unknown: choose one of: red "
					   "green blue\n" },
		{ "[look]\ncolour = red green\n",
		  "f:2: [look] colour = red green is unknown: choose "
		  "one of: red green blue\n" },
		{ "[look]\nfolder = tmp\n", "f:2: [look] folder = tmp does not start with /: write "
					    "the whole path\n" },
		{ "[look]\ngroup = a b\n",
		  "f:2: [look] group = a b is not a name: write one word, without quotes\n" },
		{ "[look]\nnames = a, @\n",
		  "f:2: [look] names = a, @ holds @, which is no name: write users, and groups as "
		  "@group, without quotes\n" },
		{ "[look]\nnames = \"a\"\n", "f:2: [look] names = \"a\" holds \"a\", which is no "
					     "name: write users, and groups "
					     "as @group, without quotes\n" },
		{ "[look]\ngroup = 'a'\n",
		  "f:2: [look] group = 'a' is not a name: write one word, without quotes\n" },
		{ "[look]\nfolder = /\x1b[31m\n", "f:2: [look] folder = /?[31m holds a control "
						  "character: write text only\n" },
		{ "[\x1b]\n", "f:1: there is no section [?]: choose one of house, look\n" },
	};

	for (size_t i = 0; i < GP_ARRAY_SIZE(cases); i++) {
		parse(cases[i].text);
		CHECK_STR(reported, cases[i].want);
		CHECK_EQ(config.n_faults, 1);
	}
}

static void test_parse_when_several_lines_are_wrong_then_each_is_reported_and_the_rest_read(void)
{
	parse("[house]\nroom = x\nseats = 9\n[nowhere]\na = b\nc\n[look]\nx = y\ncolour = green\n");
	CHECK_EQ(config.n_faults, 4);
	CHECK(strstr(reported, "f:2: ") && strstr(reported, "f:4: ") && strstr(reported, "f:6: ") &&
	      strstr(reported, "f:8: "));
	CHECK(!value("house", "room"));
	CHECK_STR(value("house", "seats"), "9");
	CHECK_STR(value("look", "colour"), "green");
}

static void test_parse_when_lines_end_oddly_then_as_usual(void)
{
	parse("\xef\xbb\xbf[house]\r\nroom = 2G\r\n\r\nseats = 3");
	CHECK_STR(reported, "");
	CHECK_STR(value("house", "room"), "2G");
	CHECK_STR(value("house", "seats"), "3");
	parse("[house]\nroom = 2G\r");
	CHECK_STR(value("house", "room"), "2G");
	parse("");
	CHECK_STR(reported, "");
	parse("\n\n\n");
	CHECK_STR(reported, "");
	/* An old Macintosh's line ends make one line of it all. */
	parse("[house]\rroom = 2G\r");
	CHECK_EQ(config.n_faults, 1);
}

static void test_parse_when_line_holds_nul_then_fault(void)
{
	static const char text[] = "[house]\nroom = 2G\0\nseats = 3\n";

	start();
	parse_bytes(text, sizeof(text) - 1);
	CHECK_STR(reported, "f:2: the line holds a NUL byte: write text only\n");
	CHECK(!value("house", "room"));
	CHECK_STR(value("house", "seats"), "3");
}

static void test_parse_when_line_is_too_long_then_fault_and_the_next_is_read(void)
{
	size_t n = GP_CONFIG_LINE_BYTES;
	char *text = malloc(n + 64);

	CHECK(text);
	memset(text, 'x', n);
	strcpy(text + n, "\n[house]\nseats = 3\n");
	parse(text);
	CHECK_STR(reported, "f:1: the line is 16384 bytes long: at most 16383 are read\n");
	CHECK_STR(value("house", "seats"), "3");
	/* One byte less is read, and is no more than that. */
	memset(text, ' ', n - 1);
	memcpy(text, "[house]", 7);
	strcpy(text + n - 1, "\nseats = 3\n");
	parse(text);
	CHECK_STR(reported, "");
	/* A path of the largest size does, one byte more does not. */
	memset(text, 'x', n);
	strcpy(text, "[look]\nfolder = /");
	memset(text + strlen(text), 'x', PATH_MAX - 2);
	text[7 + 9 + PATH_MAX - 1] = '\0';
	parse(text);
	CHECK_STR(reported, "");
	strcat(text, "y");
	parse(text);
	CHECK(strstr(reported, "xxx... is too long for a path: choose another\n"));
	free(text);
}

static void test_values_when_ranks_differ_then_the_highest_wins(void)
{
	const struct gp_config_key *room = &keys[0];
	struct gp_err err;

	start();
	CHECK_EQ(gp_config_set(&config, room, "5G", GP_CONFIG_COMMAND_LINE, "--room", &err), 0);
	parse_more("[house]\nroom = 6G\nseats = 6");
	parse_more("[house]\nseats = 7\n");
	gp_config_set_defaults(&config);
	CHECK_STR(reported, "");
	CHECK_STR(value("house", "room"), "5G");
	CHECK_STR(source("house", "room"), "--room");
	CHECK_STR(value("house", "seats"), "7");
	CHECK_STR(value("look", "colour"), "red");
	CHECK(gp_config_set(&config, room, "x", GP_CONFIG_COMMAND_LINE, "--room", &err) < 0);
	CHECK_STR(err.msg, "x is not a size: write 512M or 16G");
	CHECK_STR(value("house", "room"), "5G");
}

static void test_set_when_a_file_could_not_hold_it_then_refused(void)
{
	static const char *const bad[] = { "/a #b", "#", " /a", "/a\t", "/a\nb", "/\x7f" };
	struct gp_err err;

	start();
	for (size_t i = 0; i < GP_ARRAY_SIZE(bad); i++) {
		CHECK(gp_config_set(&config, &keys[4], bad[i], GP_CONFIG_COMMAND_LINE, "--folder",
				    &err) < 0);
		CHECK(!strchr(err.msg, '\n'));
	}
	CHECK(!value("look", "folder"));
}

static void test_inherit_when_command_line_then_only_that(void)
{
	struct gp_config fresh;
	struct gp_err err;

	parse("[house]\nroom = 6G\n");
	CHECK_EQ(gp_config_set(&config, &keys[2], "9", GP_CONFIG_COMMAND_LINE, "--seats", &err), 0);
	CHECK_EQ(gp_config_init(&fresh, keys, GP_ARRAY_SIZE(keys), report, NULL, &err), 0);
	CHECK_EQ(gp_config_inherit(&fresh, &config, GP_CONFIG_COMMAND_LINE, &err), 0);
	CHECK(!gp_config_get(&fresh, &keys[0]));
	CHECK_STR(gp_config_get(&fresh, &keys[2])->text, "9");
	CHECK_EQ(gp_config_set(&fresh, &keys[0], "6144M", GP_CONFIG_FILE, "g:1", &err), 0);
	CHECK(gp_config_same(&fresh, &config, &keys[0]));
	CHECK_EQ(gp_config_set(&fresh, &keys[0], "6143M", GP_CONFIG_FILE, "g:1", &err), 0);
	CHECK(!gp_config_same(&fresh, &config, &keys[0]));
	gp_config_fini(&fresh);
}

/* Prints @c into a string, the caller's to free. */
static char *print(const struct gp_config *c)
{
	size_t len;
	char *text;
	FILE *out = open_memstream(&text, &len);

	CHECK(out);
	gp_config_print(c, out);
	CHECK_EQ(fclose(out), 0);
	return text;
}

static void test_print_when_read_again_then_same_values(void)
{
	char *first, *second;

	parse("[look]\nfolder = /a#b\nnames = a @b\n[house]\nroom = 1.5G\n");
	gp_config_set_defaults(&config);
	first = print(&config);
	parse(first);
	CHECK_STR(reported, "");
	for (size_t i = 0; i < GP_ARRAY_SIZE(keys); i++)
		CHECK(gp_config_get(&config, &keys[i]));
	CHECK_STR(value("look", "folder"), "/a#b");
	CHECK_STR(value("look", "names"), "a @b");
	CHECK_STR(value("look", "group"), "");
	CHECK_STR(value("house", "room"), "1.5G");
	second = print(&config);
	CHECK(strstr(second, "room = 1.5G  # f:2\n"));
	free(first);
	free(second);
}

static void test_next_name_when_walked_then_all_names(void)
{
	const char *pos = " a,@b ,, c\t";
	char name[GP_CONFIG_NAME_BYTES];

	CHECK(gp_config_next_name(&pos, name));
	CHECK_STR(name, "a");
	CHECK(gp_config_next_name(&pos, name));
	CHECK_STR(name, "@b");
	CHECK(gp_config_next_name(&pos, name));
	CHECK_STR(name, "c");
	CHECK(!gp_config_next_name(&pos, name));
	CHECK(!gp_config_next_name(&pos, name));
}

/* A folder of its own for a test with files; removed by remove_folder. */
static char folder[64];

static void make_folder(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(folder, sizeof(folder), "%.40s/gp-config-XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(folder));
	CHECK_EQ(chdir(folder), 0);
}

static void write_bytes(const char *name, const char *text, size_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, text, len), len);
	close(fd);
}

static void write_file(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

static void remove_folder(void)
{
	char command[128];

	CHECK_EQ(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -r '%s'", folder);
	CHECK_EQ(system(command), 0); // NOLINT(*-env33-c,*-command-processor)
}

static void test_read_file_when_it_cannot_be_read_then_fault(void)
{
	static char large[GP_CONFIG_FILE_BYTES + 1];

	make_folder();
	start();
	gp_config_read_file(&config, "none.conf", true);
	CHECK_STR(reported, "");
	gp_config_read_file(&config, "/dev/null", false);
	CHECK_STR(reported, "");
	gp_config_read_file(&config, "none.conf", false);
	CHECK_STR(reported, "none.conf: cannot be opened: No such file or directory\n");
	start();
	CHECK_EQ(mkdir("folder", 0700), 0);
	gp_config_read_file(&config, "folder", true);
	CHECK_STR(reported, "folder: is a folder: give a regular file\n");
	start();
	CHECK_EQ(mkfifo("fifo", 0600), 0);
	gp_config_read_file(&config, "fifo", true);
	CHECK_STR(reported, "fifo: is no regular file: give a regular file\n");
	start();
	memset(large, '\n', sizeof(large));
	write_bytes("large", large, sizeof(large));
	gp_config_read_file(&config, "large", true);
	CHECK_STR(reported, "large: is larger than 1024 KiB: is it a configuration file?\n");
	start();
	write_bytes("large", large, sizeof(large) - 1);
	gp_config_read_file(&config, "large", true);
	CHECK_STR(reported, "");
	if (geteuid() != 0) { /* root may read anything */
		write_file("secret", "");
		CHECK_EQ(chmod("secret", 0), 0);
		gp_config_read_file(&config, "secret", true);
		CHECK_STR(reported, "secret: cannot be opened: Permission denied\n");
	}
	remove_folder();
}

static void test_read_folder_when_it_has_files_then_by_bytes_of_their_names(void)
{
	make_folder();
	start();
	gp_config_read_folder(&config, "none.d");
	CHECK_STR(reported, "");
	CHECK_EQ(mkdir("conf.d", 0700), 0);
	write_file("conf.d/10-b.conf", "[house]\nseats = 1\nroom = 1G\n");
	write_file("conf.d/B.conf", "[house]\nseats = 2\n");
	write_file("conf.d/a.conf", "[house]\nseats = 3\n");
	write_file("conf.d/.hidden.conf", "x");
	write_file("conf.d/z.conf.old", "x");
	write_file("conf.d/.conf", "x");
	gp_config_read_folder(&config, "conf.d");
	CHECK_STR(reported, "");
	CHECK_STR(value("house", "seats"), "3");
	CHECK_STR(source("house", "seats"), "conf.d/a.conf:2");
	CHECK_STR(value("house", "room"), "1G");
	/* A name may hold anything; neither a report nor a source is more than a line. */
	write_file("conf.d/z\n.conf", "[house]\nseats = 4\nx\n");
	CHECK_EQ(symlink("nowhere", "conf.d/zz.conf"), 0);
	CHECK_EQ(mkdir("conf.d/zzz.conf", 0700), 0);
	gp_config_read_folder(&config, "conf.d");
	CHECK_EQ(config.n_faults, 3);
	CHECK_STR(source("house", "seats"), "conf.d/z?.conf:2");
	start();
	gp_config_read_folder(&config, "conf.d/a.conf");
	CHECK_STR(reported, "conf.d/a.conf: cannot be listed: Not a directory\n");
	remove_folder();
}

static void test_settings_when_table_is_looked_at_then_every_entry_is_whole(void)
{
	for (size_t i = 0; i < gp_settings_n_keys; i++) {
		const struct gp_config_key *k = &gp_settings_keys[i];

		CHECK_EQ(k->bytes, k->type->bytes);
		CHECK(k->offset + k->bytes <= sizeof(struct gp_options));
		CHECK(k->initial ? !k->work_out : k->work_out && k->initial_doc && k->sample);
		CHECK(!k->option == !k->metavar);
		CHECK(k->type != &gp_config_choice || k->choices);
		CHECK(k->doc[strlen(k->doc) - 1] == '.');
		for (size_t j = 0; j < i; j++) {
			CHECK(k->offset != gp_settings_keys[j].offset);
			CHECK(strcmp(k->section, gp_settings_keys[j].section) != 0 ||
			      strcmp(k->key, gp_settings_keys[j].key) != 0);
			/* A section is printed as one. */
			CHECK(j == i - 1 || strcmp(k->section, gp_settings_keys[j].section) != 0 ||
			      !strcmp(k->section, gp_settings_keys[i - 1].section));
		}
	}
}

static void test_settings_when_sample_is_uncommented_then_it_is_the_defaults(void)
{
	struct gp_settings settings, sample;
	struct gp_err err;
	size_t len;
	char *text;
	FILE *out = open_memstream(&text, &len);

	CHECK(out);
	gp_settings_print_sample(out);
	CHECK_EQ(fclose(out), 0);
	*reported = '\0';
	CHECK_EQ(gp_settings_init(&sample, report, NULL, &err), 0);
	gp_config_parse(&sample.config, text, len, "sample");
	CHECK_STR(reported, "");
	for (size_t i = 0; i < gp_settings_n_keys; i++)
		CHECK(!gp_config_get(&sample.config, &gp_settings_keys[i]));
	for (char *p = text; *p; p++) {
		if (*p == '#' && p[1] != ' ' && (p == text || p[-1] == '\n'))
			*p = ' ';
	}
	gp_config_parse(&sample.config, text, len, "sample");
	CHECK_STR(reported, "");
	CHECK_EQ(gp_settings_init(&settings, report, NULL, &err), 0);
	gp_config_set_defaults(&settings.config);
	CHECK_STR(reported, "");
	for (size_t i = 0; i < gp_settings_n_keys; i++) {
		const struct gp_config_key *k = &gp_settings_keys[i];

		CHECK(gp_config_get(&sample.config, k));
		/* The arena follows the machine. */
		CHECK(gp_config_same(&sample.config, &settings.config, k) ||
		      (k->work_out && !strcmp(k->key, "arena")));
	}
	gp_settings_fini(&sample);
	gp_settings_fini(&settings);
	free(text);
}

static void test_settings_when_page_is_made_then_it_has_every_key_and_default(void)
{
	char want[64];
	size_t len;
	char *text;
	FILE *out = open_memstream(&text, &len);

	CHECK(out);
	gp_settings_print_roff(out);
	CHECK_EQ(fclose(out), 0);
	for (size_t i = 0; i < gp_settings_n_keys; i++) {
		const struct gp_config_key *k = &gp_settings_keys[i];
		const char *entry, *next;

		snprintf(want, sizeof(want), "\n.B %s\n", k->key);
		entry = strstr(text, want);
		CHECK(entry);
		next = strstr(entry, ".TP\n");
		snprintf(want, sizeof(want), "\nDefault: %s.\n",
			 k->initial && *k->initial ? k->initial : "empty");
		CHECK(!k->initial ||
		      (strstr(entry, want) && (!next || strstr(entry, want) < next)));
		snprintf(want, sizeof(want), ".SS [%s]\n", k->section);
		CHECK(strstr(text, want));
	}
	free(text);
}

static void test_settings_when_reloaded_then_only_what_may_change_does(void)
{
	static const char before[] =
		"[daemon]\nlog_level = warn\nadmins = a\n[memory]\narena=64M\n",
			  after[] = "[daemon]\nlog_level = err\nadmins = b\n[memory]\narena=32M\n",
			  wrong[] = "[daemon]\nlog_level = debug\nadmins = c\n[memory]\narena=x\n";
	struct gp_options options;
	struct gp_settings settings;
	struct gp_err err;

	make_folder();
	*reported = '\0';
	CHECK_EQ(gp_settings_init(&settings, report, NULL, &err), 0);
	snprintf(settings.file, sizeof(settings.file), "%s/f.conf", folder);
	CHECK_EQ(gp_config_set(&settings.config,
			       gp_config_find(&settings.config, "timeouts", "term"), "3s",
			       GP_CONFIG_COMMAND_LINE, "--term", &err),
		 0);
	write_file("f.conf", before);
	CHECK_EQ(gp_settings_load(&settings, &err), 0);
	gp_settings_store(&settings, &options);
	CHECK_EQ(options.log_level, GP_LOG_WARN);
	CHECK_EQ(options.device, GP_DEVICE_NVIDIA);
	options.device = GP_DEVICE_SOFT; /* what the daemon made of it stays */
	gp_log_init("unit", GP_LOG_ERR);
	for (int i = 0; i < 2; i++) {
		write_file("f.conf", after);
		gp_settings_reload(&settings, &options);
		CHECK_EQ(options.log_level, GP_LOG_ERR);
		CHECK_STR(options.admins, "b");
		CHECK_EQ(options.arena_bytes, 64ull << 20);
		CHECK_EQ(options.term_ns, 3 * GP_NS_PER_SEC);
		CHECK_EQ(options.device, GP_DEVICE_SOFT);
		write_file("f.conf", wrong);
		gp_settings_reload(&settings, &options);
		CHECK_EQ(options.log_level, GP_LOG_ERR);
		CHECK_STR(options.admins, "b");
	}
	CHECK_EQ(unlink("f.conf"), 0);
	gp_settings_reload(&settings, &options);
	CHECK_STR(options.admins, "b");
	CHECK_STR(reported, ""); /* after the start faults go to the log */
	gp_settings_fini(&settings);
	remove_folder();
}

int main(void)
{
	test_parse_when_all_is_well_then_values_and_sources();
	test_parse_when_line_is_wrong_then_one_report_with_its_place();
	test_parse_when_several_lines_are_wrong_then_each_is_reported_and_the_rest_read();
	test_parse_when_lines_end_oddly_then_as_usual();
	test_parse_when_line_holds_nul_then_fault();
	test_parse_when_line_is_too_long_then_fault_and_the_next_is_read();
	test_values_when_ranks_differ_then_the_highest_wins();
	test_set_when_a_file_could_not_hold_it_then_refused();
	test_inherit_when_command_line_then_only_that();
	test_print_when_read_again_then_same_values();
	test_next_name_when_walked_then_all_names();
	test_read_file_when_it_cannot_be_read_then_fault();
	test_read_folder_when_it_has_files_then_by_bytes_of_their_names();
	test_settings_when_table_is_looked_at_then_every_entry_is_whole();
	test_settings_when_sample_is_uncommented_then_it_is_the_defaults();
	test_settings_when_page_is_made_then_it_has_every_key_and_default();
	test_settings_when_reloaded_then_only_what_may_change_does();
	gp_config_fini(&config);
	return 0;
}
