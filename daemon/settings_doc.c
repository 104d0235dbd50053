/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/settings_doc.h"

#include "daemon/settings.h"

#include <inttypes.h>
#include <string.h>

#define DOC_COLUMNS 78 /* of the sample file */

static const char doc_reload[] = "Applies at once when the configuration is reloaded.";

/* Prints @text as comment lines, broken at blanks. */
static void doc_comment(FILE *out, const char *text)
{
	while (*text) {
		size_t n = strlen(text);

		if (n > DOC_COLUMNS - 2) {
			n = DOC_COLUMNS - 2;
			while (n > 0 && text[n] != ' ')
				n--;
		}
		fprintf(out, "# %.*s\n", (int)n, text);
		text += n + (text[n] == ' ');
	}
}

static void doc_default(const struct gp_config_key *key, char *buf, size_t buf_bytes)
{
	if (!key->initial)
		snprintf(buf, buf_bytes, "%s", key->initial_doc);
	else
		snprintf(buf, buf_bytes, "%s", *key->initial ? key->initial : "empty");
}

/* "A number from 1 to 36500." */
static void doc_value(const struct gp_config_key *key, char *buf, size_t buf_bytes)
{
	size_t used = (size_t)snprintf(buf, buf_bytes, "%s", key->type->what);

	/* Durations are bounded too, but nobody reads those in nanoseconds. */
	if (key->type != &gp_config_count)
		return;
	used += (size_t)snprintf(buf + used, buf_bytes - used, ", at least %" PRIu64, key->least);
	if (key->most)
		snprintf(buf + used, buf_bytes - used, ", at most %" PRIu64, key->most);
}

void gp_settings_print_sample(FILE *out)
{
	const char *section = "", *value;
	char text[512];

	fputs("# Configuration of gpupresd: all settings with their defaults, see "
	      "gpupresd.conf(5).\n"
	      "# Copy it to /etc/gpupres/gpupresd.conf and remove the \"#\" before what you "
	      "change.\n"
	      "# To check it: gpupresd --check-config. To reload it: send SIGHUP.\n",
	      out);
	for (size_t i = 0; i < gp_settings_n_keys; i++) {
		const struct gp_config_key *key = &gp_settings_keys[i];

		if (strcmp(section, key->section) != 0)
			fprintf(out, "\n[%s]\n", key->section);
		section = key->section;
		fputc('\n', out);
		doc_comment(out, key->doc);
		if (key->reloadable)
			doc_comment(out, doc_reload);
		if (!key->initial) {
			snprintf(text, sizeof(text), "Default: %s.", key->initial_doc);
			doc_comment(out, text);
		}
		value = key->initial ? key->initial : key->sample;
		fprintf(out, "#%s =%s%s\n", key->key, *value ? " " : "", value);
	}
}

/* A minus that is not a hyphen, and no line that starts with a request. */
static void doc_roff(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\\')
			fputs("\\e", out);
		else
			fputc(*text, out);
	}
}

/* Each sentence on a line of its own, so that the formatter sees where it ends. */
static void doc_roff_sentences(FILE *out, const char *text)
{
	char sentence[512];

	while (*text) {
		const char *end = strstr(text, ". ");
		size_t n = end ? (size_t)(end - text) + 1 : strlen(text);

		snprintf(sentence, sizeof(sentence), "%.*s", (int)n, text);
		doc_roff(out, sentence);
		fputc('\n', out);
		text += n + (text[n] == ' ');
	}
}

void gp_settings_print_roff(FILE *out)
{
	const char *section = "";
	char text[512];

	for (size_t i = 0; i < gp_settings_n_keys; i++) {
		const struct gp_config_key *key = &gp_settings_keys[i];

		if (strcmp(section, key->section) != 0)
			fprintf(out, ".SS [%s]\n", key->section);
		section = key->section;
		fprintf(out, ".TP\n.B %s\n", key->key);
		doc_roff_sentences(out, key->doc);
		doc_value(key, text, sizeof(text));
		doc_roff(out, text);
		fputs(".\nDefault: ", out);
		doc_default(key, text, sizeof(text));
		doc_roff(out, text);
		fputs(".\n", out);
		if (key->reloadable)
			fprintf(out, "%s\n", doc_reload);
		if (key->option)
			fprintf(out, "Option:\n.BR \\-\\-");
		for (const char *p = key->option; p && *p; p++)
			fprintf(out, *p == '-' ? "\\-" : "%c", *p);
		if (key->option)
			fputs(" .\n", out);
	}
}
