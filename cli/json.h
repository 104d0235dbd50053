/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_CLI_JSON_H
#define GP_CLI_JSON_H
/*
 * Writes JSON (RFC 8259) to a stdio stream: the caller opens and closes objects and arrays, commas
 * are put where they belong. @key is the member's name inside an object and NULL inside an array
 * or at the top. Everything is on one line. Bytes that are not UTF-8 become U+FFFD. Write errors
 * stay in the stream (ferror), nothing here fails.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct gp_json {
	FILE *out;
	bool first; /* nothing was written yet on this level */
};

void gp_json_init(struct gp_json *j, FILE *out);

void gp_json_open_object(struct gp_json *j, const char *key);
void gp_json_close_object(struct gp_json *j);
void gp_json_open_array(struct gp_json *j, const char *key);
void gp_json_close_array(struct gp_json *j);

void gp_json_text(struct gp_json *j, const char *key, const char *text);
/* As gp_json_text for @bytes bytes that may hold NULs. */
void gp_json_bytes(struct gp_json *j, const char *key, const char *text, size_t bytes);
void gp_json_unsigned(struct gp_json *j, const char *key, uint64_t value);
void gp_json_signed(struct gp_json *j, const char *key, int64_t value);
void gp_json_bool(struct gp_json *j, const char *key, bool value);
void gp_json_null(struct gp_json *j, const char *key);

/* Length of the UTF-8 sequence at @s (@bytes > 0 bytes long); 0 if there is none that is valid. */
size_t gp_utf8_length(const char *s, size_t bytes);

/*
 * How many bytes at the end of @s are the start of a UTF-8 sequence that is not complete: 0 .. 3.
 * For readers of a growing file, which must not cut a sequence in two.
 */
size_t gp_utf8_incomplete(const char *s, size_t bytes);

#endif
