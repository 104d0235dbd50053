/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_CLI_OPTIONS_H
#define GP_CLI_OPTIONS_H
/*
 * The command line of gpupresctl. One table of commands and one of options; parsing, --help and
 * the shell completion are made from them, and a test holds the man page against them.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum gp_command {
	GP_CMD_NONE, /* only --help or --version was given */
	GP_CMD_SUBMIT,
	GP_CMD_RUN,
	GP_CMD_PREEMPT,
	GP_CMD_RESUME,
	GP_CMD_CANCEL,
	GP_CMD_LIST,
	GP_CMD_SHOW,
	GP_CMD_LOGS,
	GP_CMD_WAIT,
	GP_CMD_DEVICES,
	GP_CMD_HISTORY,
	GP_CMD_BACKUP,
	GP_CMD_COMPLETION,
	GP_CMD_MAX_,
};

struct gp_options {
	enum gp_command command;
	bool help, version;
	bool json;
	bool wait;	    /* submit */
	bool follow;	    /* logs */
	bool all;	    /* list */
	int32_t priority;   /* -1000 .. 1000 */
	uint32_t to;	    /* preempt: GP_JOB_FROZEN or GP_JOB_SWAPPED */
	uint64_t mem_bytes; /* 0 = not given */
	uint64_t since_ns;  /* history: since 1970 */
	bool has_limit;
	uint64_t limit;	    /* history; 0 = all */
	const char *socket; /* NULL = not given */
	const char *name;   /* NULL = not given */
	const char **env;   /* n_env times "NAME=value"; the array belongs to this struct */
	size_t n_env;
	const char *operand; /* the job, the file of backup, or the shell of completion */
	char **argv;	     /* n_args arguments of submit and run; NULL-terminated */
	size_t n_args;
};

/*
 * Reads @argv, which must outlive *@ret. -EINVAL for bad usage, -ENOMEM. *@ret needs
 * gp_options_fini in every case; what was read before an error (--json) stays in it.
 */
gp_must_check int gp_options_parse(int argc, char **argv, struct gp_options *ret,
				   struct gp_err *err);
void gp_options_fini(struct gp_options *o);

/* "submit" for GP_CMD_SUBMIT. */
const char *gp_command_name(enum gp_command command);

/* The text of --help: of @command, or of the program for GP_CMD_NONE. */
void gp_options_help(enum gp_command command, FILE *out);

/* A completion script for bash. */
void gp_options_completion(FILE *out);

#endif
