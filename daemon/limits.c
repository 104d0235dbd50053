/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIMITS_DEFAULT_UMASK 022
/* Names in /proc/<pid>/limits are padded to so many characters: proc(5), fs/proc/base.c. */
#define LIMITS_NAME_WIDTH 26

void gp_limits_init(struct gp_limits *l)
{
	l->umask = LIMITS_DEFAULT_UMASK;
	for (int i = 0; i < GP_SPAWN_N_LIMITS; i++)
		l->limits[i] = (struct gp_spawn_limit){ UINT64_MAX, UINT64_MAX };
}

static bool limits_number(const char *text, uint64_t *ret)
{
	char *end;

	if (!strcmp(text, "unlimited")) {
		*ret = UINT64_MAX;
		return true;
	}
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return !errno && !*end;
}

static bool limits_pair(const char *soft, const char *hard, struct gp_spawn_limit *ret)
{
	return limits_number(soft, &ret->soft) && limits_number(hard, &ret->hard) &&
	       ret->soft <= ret->hard;
}

/* A line of titles, then one line for each limit, in the order of their numbers. */
static int limits_read_limits(FILE *file, struct gp_limits *ret)
{
	char line[256], soft[24], hard[24];

	if (!fgets(line, sizeof(line), file))
		return -EBADMSG;
	for (int i = 0; i < GP_SPAWN_N_LIMITS; i++) {
		if (!fgets(line, sizeof(line), file) || strlen(line) <= LIMITS_NAME_WIDTH ||
		    sscanf(line + LIMITS_NAME_WIDTH, "%23s %23s", soft, hard) != 2 ||
		    !limits_pair(soft, hard, &ret->limits[i]))
			return -EBADMSG;
	}
	return 0;
}

static int limits_read_umask(FILE *file, struct gp_limits *ret)
{
	char line[256];

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Umask: %" SCNo32, &ret->umask) == 1)
			return ret->umask <= 0777 ? 0 : -EBADMSG;
	}
	return -EBADMSG;
}

static int limits_read_file(pid_t pid, const char *name,
			    int (*read)(FILE *file, struct gp_limits *ret), struct gp_limits *ret)
{
	char path[64];
	FILE *file;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	r = read(file, ret);
	fclose(file);
	return r;
}

int gp_limits_read(pid_t pid, struct gp_limits *ret)
{
	int r = limits_read_file(pid, "limits", limits_read_limits, ret);

	return r < 0 ? r : limits_read_file(pid, "status", limits_read_umask, ret);
}

static void limits_put(char *text, size_t *at, uint64_t n, char before)
{
	*at += (size_t)(n == UINT64_MAX ? snprintf(text + *at, GP_LIMITS_TEXT_BYTES - *at,
						   "%cunlimited", before)
					: snprintf(text + *at, GP_LIMITS_TEXT_BYTES - *at,
						   "%c%" PRIu64, before, n));
}

/* Two numbers of at most 20 digits with a separator each, 16 times, fit. */
_Static_assert(4 + GP_SPAWN_N_LIMITS * 2 * 21 < GP_LIMITS_TEXT_BYTES, "text of limits");

void gp_limits_format(const struct gp_limits *l, char text[GP_LIMITS_TEXT_BYTES])
{
	size_t at = (size_t)snprintf(text, GP_LIMITS_TEXT_BYTES, "%04o", l->umask & 0777u);

	for (int i = 0; i < GP_SPAWN_N_LIMITS; i++) {
		limits_put(text, &at, l->limits[i].soft, ' ');
		limits_put(text, &at, l->limits[i].hard, ':');
	}
}

int gp_limits_parse(const char *text, struct gp_limits *ret)
{
	char soft[24], hard[24];
	int used;

	if (sscanf(text, "%" SCNo32 "%n", &ret->umask, &used) != 1 || ret->umask > 0777)
		return -EBADMSG;
	for (int i = 0; i < GP_SPAWN_N_LIMITS; i++) {
		text += used;
		if (sscanf(text, " %23[^: ]:%23[^: ]%n", soft, hard, &used) != 2 ||
		    !limits_pair(soft, hard, &ret->limits[i]))
			return -EBADMSG;
	}
	return text[used] ? -EBADMSG : 0;
}

int gp_limits_append(char **blob, uint32_t *blob_bytes, gid_t gid, const struct gp_limits *limits)
{
	char text[GP_LIMITS_TEXT_BYTES], line[GP_LIMITS_TEXT_BYTES + 16], *grown;
	size_t n;

	gp_limits_format(limits, text);
	n = (size_t)snprintf(line, sizeof(line), "%u %s", (unsigned int)gid, text) + 1;
	grown = realloc(*blob, *blob_bytes + n);
	if (!grown)
		return -ENOMEM;
	memcpy(grown + *blob_bytes, line, n);
	*blob = grown;
	*blob_bytes += (uint32_t)n;
	return 0;
}

size_t gp_limits_find(const char *blob, size_t blob_bytes, uint64_t n_strings, gid_t *ret_gid,
		      struct gp_limits *ret)
{
	uint64_t n = 0;
	const char *last;
	int used;

	if (blob_bytes < 2 || blob[blob_bytes - 1])
		return 0;
	for (size_t i = 0; i < blob_bytes; i++)
		n += blob[i] == '\0';
	last = memrchr(blob, 0, blob_bytes - 1);
	if (n != n_strings + 1 || !last || sscanf(last + 1, "%u %n", ret_gid, &used) != 1 ||
	    gp_limits_parse(last + 1 + used, ret) < 0)
		return 0;
	return strlen(last + 1) + 1;
}
