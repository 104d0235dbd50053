/* SPDX-License-Identifier: Apache-2.0 */
/* The types of configuration values. */
#include "base/config.h"
#include "base/size.h"
#include "base/time.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

static int config_parse_size(const struct gp_config_key *key, const char *text, void *field,
			     struct gp_err *err)
{
	int r = gp_size_parse(text, field);

	if (r == -ERANGE)
		return gp_err_set(err, r, "is too large: write at most 4194303T");
	return r < 0 ? gp_err_set(err, r, "is not a size: write 512M or 16G") : 0;
}

static int config_check_range(const struct gp_config_key *key, uint64_t value, const char *unit,
			      uint64_t per_unit, struct gp_err *err)
{
	uint64_t least = key->least / per_unit, most = key->most / per_unit;

	if (value >= key->least && (!key->most || value <= key->most))
		return 0;
	if (!key->most)
		return gp_err_set(err, -ERANGE, "is too little: write %" PRIu64 "%s or more", least,
				  unit);
	return gp_err_set(err, -ERANGE, "is out of range: write %" PRIu64 "%s to %" PRIu64 "%s",
			  least, unit, most, unit);
}

static int config_parse_duration(const struct gp_config_key *key, const char *text, void *field,
				 struct gp_err *err)
{
	uint64_t ns;
	int r = gp_duration_parse(text, &ns);

	if (r == -ERANGE)
		return gp_err_set(err, r, "is too long: write at most %llud",
				  GP_NS_MAX / GP_NS_PER_SEC / 86400);
	if (r < 0)
		return gp_err_set(err, r, "is not a duration: write 500ms, 30s, 10min, 2h or 90d");
	r = config_check_range(key, ns, "s", GP_NS_PER_SEC, err);
	if (r == 0)
		memcpy(field, &ns, sizeof(ns));
	return r;
}

static int config_parse_count(const struct gp_config_key *key, const char *text, void *field,
			      struct gp_err *err)
{
	uint32_t count;
	uint64_t value;
	char *end;
	int r;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end)
		return gp_err_set(err, -EINVAL, "is not a number: write digits only");
	if (errno || value > UINT32_MAX)
		return gp_err_set(err, -ERANGE, "is too large: write at most %u", UINT32_MAX);
	r = config_check_range(key, value, "", 1, err);
	count = (uint32_t)value;
	if (r == 0)
		memcpy(field, &count, sizeof(count));
	return r;
}

static int config_parse_choice(const struct gp_config_key *key, const char *text, void *field,
			       struct gp_err *err)
{
	size_t len = strlen(text);
	unsigned int index = 0;

	for (const char *c = key->choices; *c; index++) {
		size_t n = strcspn(c, " ");

		if (n == len && !memcmp(c, text, n)) {
			memcpy(field, &index, sizeof(index));
			return 0;
		}
		c += n + (c[n] == ' ');
	}
	return gp_err_set(err, -EINVAL, "is unknown: choose one of: %s", key->choices);
}

static int config_parse_path(const struct gp_config_key *key, const char *text, void *field,
			     struct gp_err *err)
{
	if (*text != '/')
		return gp_err_set(err, -EINVAL, "does not start with /: write the whole path");
	if (strlen(text) >= PATH_MAX)
		return gp_err_set(err, -ENAMETOOLONG, "is too long for a path: choose another");
	memcpy(field, &text, sizeof(text));
	return 0;
}

static int config_parse_name(const struct gp_config_key *key, const char *text, void *field,
			     struct gp_err *err)
{
	if (text[strcspn(text, " \t,@\"'")] || strlen(text) >= GP_CONFIG_NAME_BYTES)
		return gp_err_set(err, -EINVAL, "is not a name: write one word, without quotes");
	memcpy(field, &text, sizeof(text));
	return 0;
}

bool gp_config_next_name(const char **pos, char name[GP_CONFIG_NAME_BYTES])
{
	const char *start = *pos + strspn(*pos, " \t,");
	size_t n = strcspn(start, " \t,");

	*pos = start + n;
	if (n >= GP_CONFIG_NAME_BYTES)
		n = GP_CONFIG_NAME_BYTES - 1;
	memcpy(name, start, n);
	name[n] = '\0';
	return n > 0;
}

static int config_parse_names(const struct gp_config_key *key, const char *text, void *field,
			      struct gp_err *err)
{
	char name[GP_CONFIG_NAME_BYTES];

	for (const char *pos = text; gp_config_next_name(&pos, name);) {
		if (!strcmp(name, "@") || strpbrk(name, "\"'") ||
		    strlen(name) == GP_CONFIG_NAME_BYTES - 1)
			return gp_err_set(err, -EINVAL,
					  "holds %.16s, which is no name: write users, and "
					  "groups as @group, without quotes",
					  name);
	}
	memcpy(field, &text, sizeof(text));
	return 0;
}

const struct gp_config_type gp_config_size = {
	.parse = config_parse_size,
	.what = "A size such as 512M or 16G",
	.bytes = sizeof(uint64_t),
};

const struct gp_config_type gp_config_duration = {
	.parse = config_parse_duration,
	.what = "A duration such as 500ms, 30s or 90d",
	.bytes = sizeof(uint64_t),
};

const struct gp_config_type gp_config_count = {
	.parse = config_parse_count,
	.what = "A number",
	.bytes = sizeof(uint32_t),
};

const struct gp_config_type gp_config_choice = {
	.parse = config_parse_choice,
	.what = "One word",
	.bytes = sizeof(unsigned int),
};

const struct gp_config_type gp_config_path = {
	.parse = config_parse_path,
	.what = "A whole path",
	.bytes = sizeof(char *),
	.is_text = true,
};

const struct gp_config_type gp_config_name = {
	.parse = config_parse_name,
	.what = "One word, or nothing",
	.bytes = sizeof(char *),
	.is_text = true,
	.may_be_empty = true,
};

const struct gp_config_type gp_config_names = {
	.parse = config_parse_names,
	.what = "Names, or nothing",
	.bytes = sizeof(char *),
	.is_text = true,
	.may_be_empty = true,
};
