/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include "base/size.h"
#include "base/time.h"
#include "base/wire/messages.h"
#include "cli/when.h"

#include <errno.h>
#include <string.h>

#define PRIORITY_MAX 1000
/* Column at which the explanations of --help start. */
#define HELP_COLUMN 22
/* Jobs that `history` shows unless told otherwise. */
#define HISTORY_LIMIT 100

enum option_id {
	OPT_HELP,
	OPT_VERSION,
	OPT_SOCKET,
	OPT_JSON,
	OPT_PRIORITY,
	OPT_MEM,
	OPT_NAME,
	OPT_ENV,
	OPT_WAIT,
	OPT_TO,
	OPT_FOLLOW,
	OPT_SINCE,
	OPT_LIMIT,
	OPT_ALL,
};

#define CMD(id)	   (1u << GP_CMD_##id)
#define CMD_ALL	   (~0u)
#define CMD_STARTS (CMD(SUBMIT) | CMD(RUN))

/* One line per option: the man page is checked against these lines. */
static const struct option {
	enum option_id id;
	unsigned int commands; /* bit mask of CMD() */
	char letter;	       /* 0 = none */
	const char *name;
	const char *value;  /* NULL = takes none */
	const char *values; /* all that are allowed, or NULL */
	const char *help;
} options[] = {
	{ OPT_PRIORITY, CMD_STARTS, 0, "priority", "N", NULL,
	  "-1000 to 1000, higher preempts lower (0)" },
	{ OPT_MEM, CMD_STARTS, 0, "mem", "SIZE", NULL,
	  "device memory the job needs to start, e.g. 12G" },
	{ OPT_NAME, CMD_STARTS, 0, "name", "NAME", NULL, "name of the job (the command's name)" },
	{ OPT_ENV, CMD_STARTS, 0, "env", "NAME=VALUE", NULL,
	  "set in the job's environment; may be repeated" },
	{ OPT_WAIT, CMD(SUBMIT), 0, "wait", NULL, NULL,
	  "wait for the job and exit with its exit code" },
	{ OPT_TO, CMD(PREEMPT), 0, "to", "STATE", "frozen swapped",
	  "frozen (memory stays) or swapped (memory freed, the default)" },
	{ OPT_FOLLOW, CMD(LOGS), 'f', "follow", NULL, NULL,
	  "go on until the job ends and print what it writes" },
	{ OPT_SINCE, CMD(HISTORY), 0, "since", "TIME", NULL,
	  "from then on: \"2026-05-04 12:30\", or 90s, 15m, 2h, 7d ago" },
	{ OPT_LIMIT, CMD(HISTORY), 0, "limit", "N", NULL,
	  "the last N only; 0 shows all (100, with a JOB all)" },
	{ OPT_ALL, CMD(LIST), 'a', "all", NULL, NULL, "the jobs of all users (for admins)" },
	{ OPT_SOCKET, CMD_ALL, 0, "socket", "PATH", NULL, "control socket of the daemon" },
	{ OPT_JSON, CMD_ALL, 0, "json", NULL, NULL, "print JSON: sizes in bytes, times in ns" },
	{ OPT_HELP, CMD_ALL, 'h', "help", NULL, NULL, "show this text" },
	{ OPT_VERSION, CMD_ALL, 0, "version", NULL, NULL, "show the version" },
};

/* What a command takes besides options. */
enum operand_kind {
	OPERAND_NONE,
	OPERAND_JOB,
	OPERAND_MAYBE_JOB,
	OPERAND_FILE,
	OPERAND_SHELL,
	OPERAND_ARGV,
};

static const struct command {
	const char *name;
	enum operand_kind operand;
	const char *help;
} commands[GP_CMD_MAX_] = {
	[GP_CMD_SUBMIT] = { "submit", OPERAND_ARGV, "start a command as a job; print its id" },
	[GP_CMD_RUN] = { "run", OPERAND_ARGV, "start a command as a job in the foreground" },
	[GP_CMD_PREEMPT] = { "preempt", OPERAND_JOB, "take the GPU away from a running job" },
	[GP_CMD_RESUME] = { "resume", OPERAND_JOB, "let a preempted job go on" },
	[GP_CMD_CANCEL] = { "cancel", OPERAND_JOB, "end a job" },
	[GP_CMD_LIST] = { "list", OPERAND_NONE, "list the jobs" },
	[GP_CMD_SHOW] = { "show", OPERAND_JOB, "show all about one job" },
	[GP_CMD_LOGS] = { "logs", OPERAND_JOB, "print what a job wrote" },
	[GP_CMD_WAIT] = { "wait", OPERAND_JOB, "wait for a job and exit with its exit code" },
	[GP_CMD_DEVICES] = { "devices", OPERAND_NONE, "list the GPUs and their memory" },
	[GP_CMD_HISTORY] = { "history", OPERAND_MAYBE_JOB,
			     "show the jobs that ended, or what happened to one" },
	[GP_CMD_BACKUP] = { "backup", OPERAND_FILE, "write a copy of the daemon's database" },
	[GP_CMD_COMPLETION] = { "completion", OPERAND_SHELL, "print a script for completion" },
};

static const char *const operand_names[] = {
	[OPERAND_NONE] = "",
	[OPERAND_JOB] = " JOB",
	[OPERAND_MAYBE_JOB] = " [JOB]",
	[OPERAND_FILE] = " FILE",
	[OPERAND_SHELL] = " bash",
	[OPERAND_ARGV] = " [--] COMMAND [ARGUMENT]...",
};

const char *gp_command_name(enum gp_command command)
{
	return commands[command].name;
}

static bool option_applies(const struct option *opt, enum gp_command command)
{
	return command == GP_CMD_NONE || (opt->commands & (1u << command));
}

static int options_set_priority(struct gp_options *o, const char *value, struct gp_err *err)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(value, &end, 10);
	if (errno || end == value || *end || n < -PRIORITY_MAX || n > PRIORITY_MAX)
		return gp_err_set(err, -EINVAL,
				  "--priority %s is no number from -1000 to 1000: give one", value);
	o->priority = (int32_t)n;
	return 0;
}

static int options_set_name(struct gp_options *o, const char *value, struct gp_err *err)
{
	if (!*value || strlen(value) >= GP_WIRE_NAME_BYTES)
		return gp_err_set(err, -EINVAL, "--name takes 1 to %d bytes: choose another name",
				  GP_WIRE_NAME_BYTES - 1);
	for (const char *p = value; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return gp_err_set(err, -EINVAL,
					  "--name holds a control character: "
					  "choose another name");
	}
	if (value[strspn(value, "0123456789")] == '\0')
		return gp_err_set(err, -EINVAL,
				  "--name %s would be taken for a job's id: add a letter", value);
	o->name = value;
	return 0;
}

static int options_set_env(struct gp_options *o, const char *value, struct gp_err *err)
{
	const char *equals = strchr(value, '=');

	if (!equals || equals == value)
		return gp_err_set(err, -EINVAL, "--env %s is not NAME=VALUE: add the value", value);
	o->env[o->n_env++] = value;
	return 0;
}

static int options_set_limit(struct gp_options *o, const char *value, struct gp_err *err)
{
	if (!*value || strlen(value) > 18 || value[strspn(value, "0123456789")])
		return gp_err_set(err, -EINVAL, "--limit %s is no number of lines: give one",
				  value);
	o->limit = strtoull(value, NULL, 10);
	o->has_limit = true;
	return 0;
}

static int options_set(struct gp_options *o, const struct option *opt, const char *value,
		       struct gp_err *err)
{
	switch (opt->id) {
	case OPT_HELP:
		o->help = true;
		return 0;
	case OPT_VERSION:
		o->version = true;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case OPT_WAIT:
		o->wait = true;
		return 0;
	case OPT_FOLLOW:
		o->follow = true;
		return 0;
	case OPT_ALL:
		o->all = true;
		return 0;
	case OPT_SOCKET:
		o->socket = value;
		return 0;
	case OPT_PRIORITY:
		return options_set_priority(o, value, err);
	case OPT_NAME:
		return options_set_name(o, value, err);
	case OPT_ENV:
		return options_set_env(o, value, err);
	case OPT_LIMIT:
		return options_set_limit(o, value, err);
	case OPT_SINCE:
		if (gp_when_parse(value, gp_wallclock_ns(), &o->since_ns) < 0)
			return gp_err_set(
				err, -EINVAL,
				"--since %s is no time: give a date, \"2026-05-04 12:30\", "
				"or 90s, 15m, 2h, 7d for how long ago",
				value);
		return 0;
	case OPT_MEM:
		if (gp_size_parse(value, &o->mem_bytes) < 0)
			return gp_err_set(err, -EINVAL,
					  "--mem %s is no size: give a number with K, M, G or T",
					  value);
		return 0;
	case OPT_TO:
		if (!strcmp(value, "frozen"))
			o->to = GP_JOB_FROZEN;
		else if (!strcmp(value, "swapped"))
			o->to = GP_JOB_SWAPPED;
		else
			return gp_err_set(err, -EINVAL,
					  "--to %s is no state: give frozen or swapped", value);
		return 0;
	}
	return gp_err_set(err, -EINVAL, "--%s is not handled", opt->name);
}

/* The option that @arg ("--name", "--name=value" or "-x") names; NULL if there is none. */
static const struct option *options_find(const char *arg, const char **ret_value)
{
	size_t len = strcspn(arg, "=");

	*ret_value = NULL;
	for (size_t i = 0; i < GP_ARRAY_SIZE(options); i++) {
		const struct option *opt = &options[i];

		if (arg[0] == '-' && arg[1] != '-' && arg[1] == opt->letter && !arg[2])
			return opt;
		if (len != strlen(opt->name) + 2 || strncmp(arg, "--", 2) != 0 ||
		    strncmp(arg + 2, opt->name, len - 2) != 0)
			continue;
		if (arg[len] == '=')
			*ret_value = arg + len + 1;
		return opt;
	}
	return NULL;
}

/* Handles the option at argv[*i]; moves *i to the last word that it took. */
static int options_take(struct gp_options *o, char **argv, int *i, struct gp_err *err)
{
	const char *arg = argv[*i], *value;
	const struct option *opt = options_find(arg, &value);
	const char *space = o->command ? " " : "",
		   *of = o->command ? commands[o->command].name : "";

	if (!opt)
		return gp_err_set(err, -EINVAL, "unknown option %s: see gpupresctl%s%s --help", arg,
				  space, of);
	if (!option_applies(opt, o->command) || (!o->command && opt->commands != CMD_ALL))
		return gp_err_set(err, -EINVAL, "%s has no option --%s: see gpupresctl%s%s --help",
				  o->command ? of : "gpupresctl before the command", opt->name,
				  space, of);
	if (!opt->value && value)
		return gp_err_set(err, -EINVAL, "--%s takes no value: leave out \"=%s\"", opt->name,
				  value);
	if (opt->value && !value) {
		value = argv[*i + 1];
		if (!value)
			return gp_err_set(err, -EINVAL, "--%s needs a value: --%s %s", opt->name,
					  opt->name, opt->value);
		(*i)++;
	}
	return options_set(o, opt, value ? value : "", err);
}

static int options_take_command(struct gp_options *o, const char *word, struct gp_err *err)
{
	for (unsigned int c = GP_CMD_NONE + 1; c < GP_CMD_MAX_; c++) {
		if (!strcmp(word, commands[c].name)) {
			o->command = (enum gp_command)c;
			return 0;
		}
	}
	return gp_err_set(err, -EINVAL, "unknown command %s: see gpupresctl --help", word);
}

/* What must be there once all words were read. */
static int options_check(const struct gp_options *o, struct gp_err *err)
{
	const struct command *c = &commands[o->command];

	if (o->help || o->version)
		return 0;
	if (!o->command)
		return gp_err_set(err, -EINVAL, "no command given: see gpupresctl --help");
	if (c->operand == OPERAND_ARGV && !o->n_args)
		return gp_err_set(err, -EINVAL, "%s needs a command to start: gpupresctl %s%s",
				  c->name, c->name, operand_names[c->operand]);
	if ((c->operand == OPERAND_JOB || c->operand == OPERAND_FILE ||
	     c->operand == OPERAND_SHELL) &&
	    !o->operand)
		return gp_err_set(err, -EINVAL, "%s needs one operand: gpupresctl %s%s", c->name,
				  c->name, operand_names[c->operand]);
	if (c->operand == OPERAND_SHELL && strcmp(o->operand, "bash") != 0)
		return gp_err_set(err, -EINVAL, "no completion for %s: only bash is known",
				  o->operand);
	return 0;
}

int gp_options_parse(int argc, char **argv, struct gp_options *ret, struct gp_err *err)
{
	bool operands_only = false;
	int r;

	*ret = (struct gp_options){ .to = GP_JOB_SWAPPED };
	/* No more --env than words. */
	ret->env = calloc((size_t)argc + 1, sizeof(*ret->env));
	if (!ret->env)
		return gp_err_sys(err, -ENOMEM, "cannot read the command line");
	for (int i = 1; i < argc; i++) {
		enum operand_kind kind = commands[ret->command].operand;

		if (!operands_only && !strcmp(argv[i], "--")) {
			operands_only = true;
			continue;
		}
		if (!operands_only && argv[i][0] == '-' && argv[i][1]) {
			r = options_take(ret, argv, &i, err);
		} else if (!ret->command) {
			r = options_take_command(ret, argv[i], err);
		} else if (kind == OPERAND_ARGV) {
			/* Everything from here on is the job's. */
			ret->argv = argv + i;
			ret->n_args = (size_t)(argc - i);
			break;
		} else if (kind == OPERAND_NONE || ret->operand) {
			r = gp_err_set(err, -EINVAL, "%s is one word too many: gpupresctl %s%s",
				       argv[i], commands[ret->command].name, operand_names[kind]);
		} else {
			ret->operand = argv[i];
			r = 0;
		}
		if (r < 0)
			return r;
	}
	if (!ret->has_limit && !ret->operand)
		ret->limit = HISTORY_LIMIT;
	return options_check(ret, err);
}

void gp_options_fini(struct gp_options *o)
{
	free(o->env);
	o->env = NULL;
}

static void options_help_options(enum gp_command command, FILE *out)
{
	for (size_t i = 0; i < GP_ARRAY_SIZE(options); i++) {
		const struct option *opt = &options[i];
		char left[64];

		if (!option_applies(opt, command) ||
		    (command == GP_CMD_NONE && opt->commands != CMD_ALL))
			continue;
		snprintf(left, sizeof(left), "%s%c%s--%s %s", opt->letter ? "-" : "  ",
			 opt->letter ? opt->letter : ' ', opt->letter ? ", " : " ", opt->name,
			 opt->value ? opt->value : "");
		fprintf(out, "  %-*s  %s\n", HELP_COLUMN, left, opt->help);
	}
}

void gp_options_help(enum gp_command command, FILE *out)
{
	const struct command *c = &commands[command];

	if (command != GP_CMD_NONE) {
		fprintf(out, "usage: gpupresctl %s [OPTION]...%s\n%s\n\n", c->name,
			operand_names[c->operand], c->help);
		options_help_options(command, out);
		if (c->operand == OPERAND_JOB || c->operand == OPERAND_MAYBE_JOB)
			fputs("\nJOB is an id, or a name that only one job has.\n", out);
		return;
	}
	fputs("usage: gpupresctl [OPTION]... COMMAND [OPTION]... [OPERAND]...\n"
	      "Submits and controls GPU jobs that can be preempted with their memory.\n\n",
	      out);
	for (unsigned int i = GP_CMD_NONE + 1; i < GP_CMD_MAX_; i++)
		fprintf(out, "  %-*s  %s\n", HELP_COLUMN, commands[i].name, commands[i].help);
	putc('\n', out);
	options_help_options(GP_CMD_NONE, out);
	fputs("\nSee gpupresctl COMMAND --help for the options of a command.\n", out);
}

static void completion_options(FILE *out, enum gp_command command)
{
	for (size_t i = 0; i < GP_ARRAY_SIZE(options); i++) {
		if (options[i].commands & (1u << command))
			fprintf(out, " --%s", options[i].name);
	}
}

/* The cases in which the word before the current one is an option that takes a value. */
static void completion_values(FILE *out)
{
	for (size_t i = 0; i < GP_ARRAY_SIZE(options); i++) {
		const struct option *opt = &options[i];

		if (!opt->value)
			continue;
		fprintf(out, "\t--%s)\n\t\t", opt->name);
		if (opt->values)
			fprintf(out, "mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\")\n",
				opt->values);
		else if (opt->id == OPT_SOCKET)
			fputs("mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n", out);
		else
			fputs("COMPREPLY=()\n", out);
		fputs("\t\treturn ;;\n", out);
	}
}

void gp_options_completion(FILE *out)
{
	static const char *const operands[] = {
		[OPERAND_NONE] = "",
		[OPERAND_JOB] =
			"$(gpupresctl list 2>/dev/null | awk 'NR > 1 { print $1; print $2 }')",
		[OPERAND_MAYBE_JOB] =
			"$(gpupresctl list 2>/dev/null | awk 'NR > 1 { print $1; print $2 }')",
		[OPERAND_FILE] = "$(compgen -f -- \"$cur\")",
		[OPERAND_SHELL] = "bash",
		[OPERAND_ARGV] = "$(compgen -c -- \"$cur\")",
	};

	fputs("# bash completion for gpupresctl; made by: gpupresctl completion bash\n"
	      "_gpupresctl() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	      "\tlocal command='' words='' i\n"
	      "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	      "\t\tcase ${COMP_WORDS[i]} in\n",
	      out);
	for (size_t i = 0; i < GP_ARRAY_SIZE(options); i++) {
		if (options[i].value && options[i].commands == CMD_ALL)
			fprintf(out, "\t\t--%s) i=$((i + 1)) ;;\n", options[i].name);
	}
	fputs("\t\t-*) ;;\n"
	      "\t\t*) command=${COMP_WORDS[i]}; break ;;\n"
	      "\t\tesac\n"
	      "\tdone\n"
	      "\tcase $prev in\n",
	      out);
	completion_values(out);
	fputs("\tesac\n\tcase $command in\n\t'') words='", out);
	for (unsigned int c = GP_CMD_NONE + 1; c < GP_CMD_MAX_; c++)
		fprintf(out, "%s ", commands[c].name);
	for (size_t i = 0; i < GP_ARRAY_SIZE(options); i++) {
		if (options[i].commands == CMD_ALL)
			fprintf(out, "--%s ", options[i].name);
	}
	fputs("' ;;\n", out);
	for (unsigned int c = GP_CMD_NONE + 1; c < GP_CMD_MAX_; c++) {
		fprintf(out, "\t%s)\n\t\tif [[ $cur == -* ]]; then words='", commands[c].name);
		completion_options(out, (enum gp_command)c);
		fprintf(out, "'; else words=\"%s\"; fi ;;\n", operands[commands[c].operand]);
	}
	fputs("\tesac\n"
	      "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	      "}\n"
	      "complete -o bashdefault -o default -F _gpupresctl gpupresctl\n",
	      out);
}
