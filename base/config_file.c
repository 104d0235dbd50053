/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads configuration files. A file is looked at line by line; a line is copied before it is cut
 * into pieces, so that a fault in one leaves all others readable.
 */
#include "base/config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Where the reader is. */
struct config_reader {
	struct gp_config *config;
	const char *name;
	unsigned int line;
	const char *section; /* of the table; NULL: none so far, or one that is unknown */
	bool section_unknown;
};

/* Names of files may hold anything; a message is one line. */
static void config_report(struct gp_config *config, char *text)
{
	for (char *p = text; *p; p++)
		*p = (unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p;
	config->n_faults++;
	config->report(text, config->user);
}

static gp_printf(2, 3) void config_fault(struct config_reader *r, const char *fmt, ...)
{
	char what[512], text[PATH_MAX + 600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	snprintf(text, sizeof(text), "%s:%u: %s", r->name, r->line, what);
	config_report(r->config, text);
}

static gp_printf(3, 4) void config_file_fault(struct gp_config *config, const char *path,
					      const char *fmt, ...)
{
	char what[512], text[PATH_MAX + 600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	snprintf(text, sizeof(text), "%s: %s", path, what);
	config_report(config, text);
}

/* Cuts blanks off both ends. */
static char *config_trim(char *s)
{
	size_t len;

	s += strspn(s, " \t");
	len = strlen(s);
	while (len > 0 && strchr(" \t", s[len - 1]))
		len--;
	s[len] = '\0';
	return s;
}

static void config_cut_comment(char *s)
{
	for (char *p = s; *p; p++) {
		if (*p == '#' && (p == s || p[-1] == ' ' || p[-1] == '\t')) {
			*p = '\0';
			return;
		}
	}
}

/* The names that would have been right: of sections, or of the keys of @section. */
static const char *config_list(const struct gp_config *config, const char *section, char *buf,
			       size_t buf_bytes)
{
	const char *last = "";
	size_t used = 0;

	*buf = '\0';
	for (size_t i = 0; i < config->n_keys && used < buf_bytes; i++) {
		const struct gp_config_key *key = &config->keys[i];

		if (section ? strcmp(key->section, section) != 0 : !strcmp(key->section, last))
			continue;
		used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%s", used ? ", " : "",
					 section ? key->key : key->section);
		last = key->section;
	}
	return buf;
}

static void config_take_section(struct config_reader *r, char *s)
{
	size_t len = strlen(s);
	char list[256];

	r->section = NULL;
	r->section_unknown = true;
	if (s[len - 1] != ']') {
		config_fault(r, "%.64s does not end with ]: write [section]", s);
		return;
	}
	s[len - 1] = '\0';
	s = config_trim(s + 1);
	for (size_t i = 0; i < r->config->n_keys; i++) {
		if (strcmp(r->config->keys[i].section, s) != 0)
			continue;
		r->section = r->config->keys[i].section;
		r->section_unknown = false;
		return;
	}
	config_fault(r, "there is no section [%.64s]: choose one of %s", s,
		     config_list(r->config, NULL, list, sizeof(list)));
}

static void config_unknown_key(struct config_reader *r, const char *key)
{
	char list[256];

	for (size_t i = 0; i < r->config->n_keys; i++) {
		if (strcmp(r->config->keys[i].key, key) != 0)
			continue;
		config_fault(r, "[%s] has no key %s: move it to [%s]", r->section, key,
			     r->config->keys[i].section);
		return;
	}
	config_fault(r, "[%s] has no key %.64s: choose one of %s", r->section, key,
		     config_list(r->config, r->section, list, sizeof(list)));
}

static void config_take_value(struct config_reader *r, const char *name, const char *text)
{
	const struct gp_config_key *key = gp_config_find(r->config, r->section, name);
	char source[PATH_MAX + 16];
	struct gp_config_value *v;
	struct gp_err err;

	if (!key) {
		config_unknown_key(r, name);
		return;
	}
	v = &r->config->values[key - r->config->keys];
	if (v->file == r->config->n_files) {
		config_fault(r, "[%s] %s was set in line %u already: remove one of them",
			     key->section, key->key, v->line);
		return;
	}
	v->file = r->config->n_files;
	v->line = r->line;
	snprintf(source, sizeof(source), "%s:%u", r->name, r->line);
	for (char *p = source; *p; p++)
		*p = (unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p;
	if (gp_config_set(r->config, key, text, GP_CONFIG_FILE, source, &err) < 0)
		config_fault(r, "[%s] %s = %s", key->section, key->key, err.msg);
}

static void config_take_line(struct config_reader *r, char *s)
{
	char *equals;

	config_cut_comment(s);
	s = config_trim(s);
	if (!*s)
		return;
	if (*s == '[') {
		config_take_section(r, s);
		return;
	}
	equals = strchr(s, '=');
	if (!equals || equals == s) {
		config_fault(r,
			     "%.64s is neither [section] nor key = value: correct it, or put a # "
			     "before it",
			     s);
		return;
	}
	if (r->section_unknown) /* that was said */
		return;
	if (!r->section) {
		config_fault(r, "%.64s is in no section: put [section] before it", s);
		return;
	}
	*equals = '\0';
	config_take_value(r, config_trim(s), config_trim(equals + 1));
}

void gp_config_parse(struct gp_config *config, const char *buf, size_t len, const char *name)
{
	static const char bom[] = "\xef\xbb\xbf"; /* what some editors put before UTF-8 */
	struct config_reader r = { .config = config, .name = name };
	char line[GP_CONFIG_LINE_BYTES];

	config->n_files++;
	if (len >= sizeof(bom) - 1 && !memcmp(buf, bom, sizeof(bom) - 1)) {
		buf += sizeof(bom) - 1;
		len -= sizeof(bom) - 1;
	}
	while (len > 0) {
		const char *end = memchr(buf, '\n', len);
		size_t n = end ? (size_t)(end - buf) : len, taken = n + (end != NULL);

		r.line++;
		if (n > 0 && buf[n - 1] == '\r')
			n--;
		if (n >= sizeof(line)) {
			config_fault(&r, "the line is %zu bytes long: at most %zu are read", n,
				     sizeof(line) - 1);
		} else if (memchr(buf, '\0', n)) {
			config_fault(&r, "the line holds a NUL byte: write text only");
		} else {
			memcpy(line, buf, n);
			line[n] = '\0';
			config_take_line(&r, line);
		}
		buf += taken;
		len -= taken;
	}
}

/* All of a file, or -errno. */
static ssize_t config_read_all(int fd, char *buf, size_t buf_bytes)
{
	size_t used = 0;

	while (used < buf_bytes) {
		ssize_t n = read(fd, buf + used, buf_bytes - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		used += (size_t)n;
	}
	return (ssize_t)used;
}

void gp_config_read_file(struct gp_config *config, const char *path, bool may_miss)
{
	/* Does not wait for the other end of a FIFO. */
	gp_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	gp_auto_free char *buf = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0) {
		if (errno != ENOENT || !may_miss)
			config_file_fault(config, path, "cannot be opened: %s", strerror(errno));
		return;
	}
	if (fstat(fd, &st) < 0) {
		config_file_fault(config, path, "cannot be looked at: %s", strerror(errno));
		return;
	}
	if (!S_ISREG(st.st_mode) && !(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))) {
		config_file_fault(config, path, "is %s: give a regular file",
				  S_ISDIR(st.st_mode) ? "a folder" : "no regular file");
		return;
	}
	buf = malloc(GP_CONFIG_FILE_BYTES + 1);
	if (!buf) {
		config_file_fault(config, path, "cannot be read: out of memory");
		return;
	}
	n = config_read_all(fd, buf, GP_CONFIG_FILE_BYTES + 1);
	if (n < 0)
		config_file_fault(config, path, "cannot be read: %s", strerror((int)-n));
	else if (n > GP_CONFIG_FILE_BYTES)
		config_file_fault(config, path,
				  "is larger than %u KiB: is it a configuration file?",
				  GP_CONFIG_FILE_BYTES >> 10);
	else
		gp_config_parse(config, buf, (size_t)n, path);
}

static int config_is_wanted(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return entry->d_name[0] != '.' && len > 5 && !strcmp(entry->d_name + len - 5, ".conf");
}

/* Not alphasort(): its order depends on the locale. */
static int config_compare(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

void gp_config_read_folder(struct gp_config *config, const char *path)
{
	struct dirent **entries = NULL;
	char file[PATH_MAX + 256];
	int n = scandir(path, &entries, config_is_wanted, config_compare);

	if (n < 0 && errno != ENOENT)
		config_file_fault(config, path, "cannot be listed: %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
		gp_config_read_file(config, file, false);
		free(entries[i]);
	}
	free(entries);
}
