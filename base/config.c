/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a table of keys: where they come from, and where they go to. */
#include "base/config.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#define CONFIG_SHOWN_BYTES 64 /* of a value, in a message about it */

int gp_config_init(struct gp_config *ret, const struct gp_config_key *keys, size_t n_keys,
		   void (*report)(const char *line, void *user), void *user, struct gp_err *err)
{
	*ret = (struct gp_config){
		.keys = keys,
		.values = calloc(n_keys, sizeof(*ret->values)),
		.n_keys = n_keys,
		.report = report,
		.user = user,
	};
	return ret->values ? 0 : gp_err_sys(err, -ENOMEM, "cannot keep the configuration");
}

void gp_config_fini(struct gp_config *config)
{
	for (size_t i = 0; config->values && i < config->n_keys; i++) {
		free(config->values[i].text);
		free(config->values[i].source);
	}
	free(config->values);
	*config = (struct gp_config){ 0 };
}

static struct gp_config_value *config_value(const struct gp_config *config,
					    const struct gp_config_key *key)
{
	return &config->values[key - config->keys];
}

const struct gp_config_value *gp_config_get(const struct gp_config *config,
					    const struct gp_config_key *key)
{
	const struct gp_config_value *value = config_value(config, key);

	return value->text ? value : NULL;
}

const struct gp_config_key *gp_config_find(const struct gp_config *config, const char *section,
					   const char *key)
{
	for (size_t i = 0; i < config->n_keys; i++) {
		if (!strcmp(config->keys[i].section, section) && !strcmp(config->keys[i].key, key))
			return &config->keys[i];
	}
	return NULL;
}

/* Room for the field of any type. */
union config_field {
	uint64_t number;
	const char *text;
};

/* What a file cannot hold must not come from the command line either. */
static int config_check_text(const char *text, struct gp_err *err)
{
	if (strlen(text) >= GP_CONFIG_LINE_BYTES / 2)
		return gp_err_set(err, -EINVAL, "is too long: shorten it");
	for (const char *p = text; *p; p++) {
		if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
			return gp_err_set(err, -EINVAL,
					  "holds a control character: write text only");
	}
	if (*text && (strchr(" \t", *text) || strchr(" \t", text[strlen(text) - 1])))
		return gp_err_set(err, -EINVAL, "starts or ends with a blank: leave it out");
	if (*text == '#' || strstr(text, " #") || strstr(text, "\t#"))
		return gp_err_set(err, -EINVAL,
				  "holds a \"#\" after a blank, which would start a "
				  "comment: write it without the blank");
	return 0;
}

/* On failure @err begins with the value, as far as it can be shown. */
static int config_check(const struct gp_config_key *key, const char *text, struct gp_err *err)
{
	char shown[CONFIG_SHOWN_BYTES];
	union config_field field;
	struct gp_err why;
	int r;

	assert(key->bytes == key->type->bytes);
	if (!*text && !key->type->may_be_empty)
		return gp_err_set(err, -EINVAL,
				  "(empty) is no value: write one, or leave the key out to have "
				  "its default");
	r = config_check_text(text, &why);
	if (r == 0)
		r = key->type->parse(key, text, &field, &why);
	if (r == 0)
		return 0;
	snprintf(shown, sizeof(shown), "%s", text);
	for (char *p = shown; *p; p++)
		*p = (unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p;
	return gp_err_set(err, r, "%s%s %s", shown, strlen(text) >= sizeof(shown) ? "..." : "",
			  why.msg);
}

int gp_config_set(struct gp_config *config, const struct gp_config_key *key, const char *text,
		  enum gp_config_rank rank, const char *source, struct gp_err *err)
{
	struct gp_config_value *value = config_value(config, key);
	gp_auto_free char *text_copy = NULL, *source_copy = NULL;
	int r = config_check(key, text, err);

	if (r < 0 || (value->text && value->rank > rank))
		return r;
	text_copy = strdup(text);
	source_copy = strdup(source);
	if (!text_copy || !source_copy)
		return gp_err_sys(err, -ENOMEM, "cannot keep the value");
	free(value->text);
	free(value->source);
	value->text = gp_take_ptr(text_copy);
	value->source = gp_take_ptr(source_copy);
	value->rank = rank;
	return 0;
}

static int config_set_default(struct gp_config *config, const struct gp_config_key *key,
			      struct gp_err *err)
{
	char buf[PATH_MAX];
	int r;

	if (key->initial)
		return gp_config_set(config, key, key->initial, GP_CONFIG_DEFAULT, "default", err);
	r = key->work_out(config, buf, sizeof(buf), err);
	return r < 0 ? r : gp_config_set(config, key, buf, GP_CONFIG_DEFAULT, "default", err);
}

void gp_config_set_defaults(struct gp_config *config)
{
	struct gp_err err;

	for (size_t i = 0; i < config->n_keys; i++) {
		if (config->values[i].text ||
		    config_set_default(config, &config->keys[i], &err) == 0)
			continue;
		config->n_faults++;
		gp_err_prepend(&err, "[%s] %s has no default here", config->keys[i].section,
			       config->keys[i].key);
		config->report(err.msg, config->user);
	}
}

int gp_config_inherit(struct gp_config *config, const struct gp_config *from,
		      enum gp_config_rank rank, struct gp_err *err)
{
	for (size_t i = 0; i < from->n_keys; i++) {
		const struct gp_config_value *v = &from->values[i];
		int r = 0;

		if (v->text && v->rank == rank &&
		    (!config->values[i].text || rank > config->values[i].rank))
			r = gp_config_set(config, &config->keys[i], v->text, rank, v->source, err);
		if (r < 0)
			return r;
	}
	return 0;
}

bool gp_config_same(const struct gp_config *a, const struct gp_config *b,
		    const struct gp_config_key *key)
{
	const char *text_a = config_value(a, key)->text, *text_b = config_value(b, key)->text;
	union config_field field_a = { 0 }, field_b = { 0 };
	struct gp_err err;

	if (key->type->is_text || !strcmp(text_a, text_b))
		return !strcmp(text_a, text_b);
	return key->type->parse(key, text_a, &field_a, &err) == 0 &&
	       key->type->parse(key, text_b, &field_b, &err) == 0 &&
	       field_a.number == field_b.number;
}

void gp_config_store(const struct gp_config *config, const struct gp_config_key *key, void *owner)
{
	struct gp_err err;
	int r = key->type->parse(key, config_value(config, key)->text, (char *)owner + key->offset,
				 &err);

	/* It was checked when it was set. */
	assert(r == 0);
	(void)r;
}

void gp_config_print(const struct gp_config *config, FILE *out)
{
	const char *section = "";

	for (size_t i = 0; i < config->n_keys; i++) {
		const struct gp_config_key *key = &config->keys[i];

		if (strcmp(section, key->section) != 0)
			fprintf(out, "%s[%s]\n", *section ? "\n" : "", key->section);
		section = key->section;
		fprintf(out, "%s = %s%s# %s\n", key->key, config->values[i].text,
			*config->values[i].text ? "  " : " ", config->values[i].source);
	}
}
