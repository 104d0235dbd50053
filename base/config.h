/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_CONFIG_H
#define GP_BASE_CONFIG_H
/*
 * Settings from a table of keys. A program lists its keys once; from that come the parser of its
 * configuration files, its long options, its --help, its sample file and the key list of its
 * manual page.
 *
 * A file has lines "[section]", "key = value" and "# comment"; "#" after a blank starts a comment
 * too. There are no quotes, no escapes and no continued lines. Every fault of every file is
 * reported, as one line with file, line, what is wrong and what to do; a value with a fault is not
 * taken over.
 *
 * A value is kept as text, with where it came from, and by rank: the command line wins over files,
 * files over defaults, a later file over an earlier one. gp_config_store turns all of them into
 * the fields of the program's own struct. Not thread-safe.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define GP_CONFIG_FILE_BYTES (1u << 20)	 /* no file is larger */
#define GP_CONFIG_LINE_BYTES (16u << 10) /* no line is longer: a path and where it came from */

struct gp_config;
struct gp_config_key;

/*
 * What a value may be. parse() checks @text and stores it into @field. On failure it fills @err
 * with what comes after "KEY = VALUE", e.g. "is not a size: write 512M or 16G".
 */
struct gp_config_type {
	int (*parse)(const struct gp_config_key *key, const char *text, void *field,
		     struct gp_err *err);
	const char *what; /* for the documentation: "A size" */
	size_t bytes;	  /* of the field */
	bool is_text;	  /* the field is a const char *, to text that the configuration owns */
	bool may_be_empty;
};

extern const struct gp_config_type gp_config_size;     /* uint64_t, in bytes */
extern const struct gp_config_type gp_config_duration; /* uint64_t, in ns */
extern const struct gp_config_type gp_config_count;    /* uint32_t */
extern const struct gp_config_type gp_config_choice;   /* an enum: the index among the choices */
extern const struct gp_config_type gp_config_path;     /* const char *, absolute */
extern const struct gp_config_type gp_config_name;     /* const char *, one word, may be "" */
extern const struct gp_config_type gp_config_names;    /* const char *, see gp_config_next_name */

struct gp_config_key {
	const char *section, *key;
	const struct gp_config_type *type;
	size_t offset, bytes; /* of the field in the owner's struct */
	const char *initial;  /* NULL: see work_out */
	bool reloadable;
	/* In whole sentences; --help shows the first one. */
	const char *doc;

	/* Optional from here on. */
	const char *choices;  /* gp_config_choice: "auto soft nvidia" */
	uint64_t least, most; /* numbers; most = 0: no bound */
	const char *option;   /* the long option that sets it too, without "--" */
	const char *metavar;  /* what --help calls the option's value */
	/* The default where there is no fixed one: writes it to @buf. May look at earlier keys. */
	int (*work_out)(const struct gp_config *config, char *buf, size_t buf_bytes,
			struct gp_err *err);
	const char *initial_doc; /* what work_out does, in words */
	const char *sample;	 /* a value for the sample file in its place */
};

enum gp_config_rank { GP_CONFIG_DEFAULT, GP_CONFIG_FILE, GP_CONFIG_COMMAND_LINE };

struct gp_config_value {
	char *text;   /* owned; NULL: none so far */
	char *source; /* owned; "default", "FILE:LINE" or "--option" */
	enum gp_config_rank rank;
	unsigned int file, line; /* where the key was seen last: the file's number and the line */
};

struct gp_config {
	const struct gp_config_key *keys; /* those of a section stand together */
	struct gp_config_value *values;	  /* as many */
	size_t n_keys;
	/* Told every fault: one line without its end, and without control characters. */
	void (*report)(const char *line, void *user);
	void *user;
	unsigned int n_files, n_faults;
};

/* Allocates. All other fields of @ret are set from the arguments. -ENOMEM. */
gp_must_check int gp_config_init(struct gp_config *ret, const struct gp_config_key *keys,
				 size_t n_keys, void (*report)(const char *line, void *user),
				 void *user, struct gp_err *err);
/* Also for a zeroed one. What gp_config_store stored of text types is gone then. */
void gp_config_fini(struct gp_config *config);

/*
 * Reads @len bytes of @buf as the file @name. Anything may be in them. Faults are reported and
 * counted in n_faults; everything else is taken over.
 */
void gp_config_parse(struct gp_config *config, const char *buf, size_t len, const char *name);
/*
 * The same for a file. One that is missing is no fault if @may_miss. Only regular files and
 * /dev/null (an empty one) are read: nothing blocks but the disk.
 */
void gp_config_read_file(struct gp_config *config, const char *path, bool may_miss);
/* The same for all *.conf files of a folder, in the order of the bytes of their names. */
void gp_config_read_folder(struct gp_config *config, const char *path);

/*
 * Takes over one value, unless there is one of a higher rank. Copies the strings. -EINVAL or
 * -ERANGE with a text that begins with the value; -ENOMEM.
 */
gp_must_check int gp_config_set(struct gp_config *config, const struct gp_config_key *key,
				const char *text, enum gp_config_rank rank, const char *source,
				struct gp_err *err);
/* Gives a default to every key that has no value. What cannot be worked out is a fault. */
void gp_config_set_defaults(struct gp_config *config);
/* Takes over what @from has of rank @rank, for keys that have no value of a higher rank. */
gp_must_check int gp_config_inherit(struct gp_config *config, const struct gp_config *from,
				    enum gp_config_rank rank, struct gp_err *err);

/* NULL: there is none. */
const struct gp_config_key *gp_config_find(const struct gp_config *config, const char *section,
					   const char *key);
/* The value of a key, NULL if it has none so far. */
const struct gp_config_value *gp_config_get(const struct gp_config *config,
					    const struct gp_config_key *key);
/* Do both have the same value, however it was written? Each must have one. */
bool gp_config_same(const struct gp_config *a, const struct gp_config *b,
		    const struct gp_config_key *key);
/* Stores the value of @key into its field of @owner. Every key must have a value. */
void gp_config_store(const struct gp_config *config, const struct gp_config_key *key, void *owner);

/* Prints all values with their sources; the output is a configuration file of the same values. */
void gp_config_print(const struct gp_config *config, FILE *out);

/*
 * Copies the next of the names in the value of a gp_config_names key, and moves *@pos behind it;
 * start with the value. False at the end. A name is at most GP_CONFIG_NAME_BYTES with its NUL.
 */
#define GP_CONFIG_NAME_BYTES 256
bool gp_config_next_name(const char **pos, char name[GP_CONFIG_NAME_BYTES]);

#endif
