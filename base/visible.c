/* SPDX-License-Identifier: Apache-2.0 */
#include "base/visible.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VISIBLE_BLANKS " \t"

/* "Device Minor: 3", as nvidia.ko prints it since its first releases. */
static bool visible_minor(const char *proc, const char *name, unsigned int *ret_minor)
{
	char path[PATH_MAX], line[256];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s/information", proc, name);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "Device Minor: %u", ret_minor) == 1;
	if (file)
		fclose(file);
	return found;
}

static uint32_t visible_present(const char *proc, const char *dev)
{
	DIR *dir = opendir(proc);
	struct dirent *entry;
	unsigned int minor;
	uint32_t n = 0;

	while (dir && (entry = readdir(dir))) {
		char node[PATH_MAX];

		if (entry->d_name[0] == '.' || !visible_minor(proc, entry->d_name, &minor))
			continue;
		snprintf(node, sizeof(node), "%s/nvidia%u", dev, minor);
		n += access(node, R_OK | W_OK) == 0;
	}
	if (dir)
		closedir(dir);
	return n;
}

/* A number without a GPU ends the list, too, where it is known how many there are. */
static bool visible_is_end(const char *entry, uint32_t n_present)
{
	unsigned int number;
	char c;

	entry += strspn(entry, VISIBLE_BLANKS);
	if (!*entry || *entry == ',' || *entry == '-')
		return true;
	return n_present && sscanf(entry, "%u%c", &number, &c) >= 1 && *entry >= '0' &&
	       *entry <= '9' && number >= n_present;
}

static const char *visible_next(const char *entry)
{
	entry = strchr(entry, ',');
	return entry ? entry + 1 : NULL;
}

uint32_t gp_visible_count(const char *list, const char *proc, const char *dev)
{
	uint32_t n_present = visible_present(proc, dev), n = 0;

	if (!list)
		return n_present;
	for (const char *entry = list; entry && !visible_is_end(entry, n_present);
	     entry = visible_next(entry))
		n++;
	return n;
}

void gp_visible_entry(const char *list, uint32_t ordinal, char *buf, size_t buf_bytes)
{
	const char *entry = list;

	for (uint32_t i = 0; entry && i < ordinal; i++)
		entry = visible_next(entry);
	if (entry)
		entry += strspn(entry, VISIBLE_BLANKS);
	if (entry && *entry)
		snprintf(buf, buf_bytes, "%.*s", (int)strcspn(entry, "," VISIBLE_BLANKS), entry);
	else
		snprintf(buf, buf_bytes, "%u", ordinal);
}
