/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/json.h"

#include <inttypes.h>
#include <string.h>

void gp_json_init(struct gp_json *j, FILE *out)
{
	j->out = out;
	j->first = true;
}

size_t gp_utf8_length(const char *s, size_t bytes)
{
	const unsigned char *u = (const unsigned char *)s;
	uint32_t code;
	size_t n;

	if (u[0] < 0x80)
		return 1;
	/* 0x80..0xc1 continue a sequence or start an overlong one; 0xf5.. lie past U+10FFFF. */
	if (u[0] < 0xc2 || u[0] > 0xf4)
		return 0;
	n = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
	if (bytes < n)
		return 0;
	code = u[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (u[i] & 0x3fu);
	}
	if ((n == 3 && code < 0x800) || (n == 4 && (code < 0x10000 || code > 0x10ffff)) ||
	    (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return n;
}

size_t gp_utf8_incomplete(const char *s, size_t bytes)
{
	for (size_t back = 1; back <= 3 && back <= bytes; back++) {
		unsigned char u = (unsigned char)s[bytes - back];

		if ((u & 0xc0) == 0x80)
			continue;
		if (u >= 0xc2 && u <= 0xf4)
			return (u < 0xe0 ? 2u : u < 0xf0 ? 3u : 4u) > back ? back : 0;
		return 0;
	}
	return 0;
}

static void json_quote(struct gp_json *j, const char *s, size_t bytes)
{
	putc('"', j->out);
	for (size_t i = 0; i < bytes;) {
		unsigned char c = (unsigned char)s[i];
		size_t n = gp_utf8_length(s + i, bytes - i);

		if (c == '"' || c == '\\')
			fprintf(j->out, "\\%c", c);
		else if (c == '\n')
			fputs("\\n", j->out);
		else if (c == '\t')
			fputs("\\t", j->out);
		else if (c == '\r')
			fputs("\\r", j->out);
		else if (c < 0x20 || c == 0x7f)
			fprintf(j->out, "\\u%04x", c);
		else if (n)
			fwrite(s + i, 1, n, j->out);
		else
			fputs("\\ufffd", j->out);
		i += n ? n : 1;
	}
	putc('"', j->out);
}

/* Comma and name in front of a value. */
static void json_begin(struct gp_json *j, const char *key)
{
	if (!j->first)
		putc(',', j->out);
	j->first = false;
	if (key) {
		json_quote(j, key, strlen(key));
		putc(':', j->out);
	}
}

static void json_open(struct gp_json *j, const char *key, char bracket)
{
	json_begin(j, key);
	putc(bracket, j->out);
	j->first = true;
}

static void json_close(struct gp_json *j, char bracket)
{
	putc(bracket, j->out);
	/* What was closed is itself a member of the level around it. */
	j->first = false;
}

void gp_json_open_object(struct gp_json *j, const char *key)
{
	json_open(j, key, '{');
}

void gp_json_close_object(struct gp_json *j)
{
	json_close(j, '}');
}

void gp_json_open_array(struct gp_json *j, const char *key)
{
	json_open(j, key, '[');
}

void gp_json_close_array(struct gp_json *j)
{
	json_close(j, ']');
}

void gp_json_text(struct gp_json *j, const char *key, const char *text)
{
	gp_json_bytes(j, key, text, strlen(text));
}

void gp_json_bytes(struct gp_json *j, const char *key, const char *text, size_t bytes)
{
	json_begin(j, key);
	json_quote(j, text, bytes);
}

void gp_json_unsigned(struct gp_json *j, const char *key, uint64_t value)
{
	json_begin(j, key);
	fprintf(j->out, "%" PRIu64, value);
}

void gp_json_signed(struct gp_json *j, const char *key, int64_t value)
{
	json_begin(j, key);
	fprintf(j->out, "%" PRId64, value);
}

void gp_json_bool(struct gp_json *j, const char *key, bool value)
{
	json_begin(j, key);
	fputs(value ? "true" : "false", j->out);
}

void gp_json_null(struct gp_json *j, const char *key)
{
	json_begin(j, key);
	fputs("null", j->out);
}
