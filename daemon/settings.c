/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/settings.h"

#include "base/list.h"
#include "base/log.h"
#include "base/visible.h"
#include "base/wire/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/sysinfo.h>

#define SETTINGS_FOLDER	      "/etc/gpupres"
#define SETTINGS_SPAWN_SOCKET "/run/gpupres-spawn.sock"
#define SETTINGS_ARENA_BYTES  (16ull << 30) /* or, over all devices, a quarter of RAM if less */

static bool settings_is_user(const struct gp_config *config)
{
	return gp_container_of(config, const struct gp_settings, config)->user;
}

static int settings_default_group(const struct gp_config *config, char *buf, size_t buf_bytes,
				  struct gp_err *err)
{
	snprintf(buf, buf_bytes, "%s", settings_is_user(config) ? "" : "gpupres");
	return 0;
}

static int settings_default_runtime_dir(const struct gp_config *config, char *buf, size_t buf_bytes,
					struct gp_err *err)
{
	if (settings_is_user(config))
		return gp_wire_user_runtime_dir(buf, buf_bytes, err);
	snprintf(buf, buf_bytes, "/run/gpupres");
	return 0;
}

static int settings_default_spawn_socket(const struct gp_config *config, char *buf,
					 size_t buf_bytes, struct gp_err *err)
{
	snprintf(buf, buf_bytes, SETTINGS_SPAWN_SOCKET);
	return 0;
}

/* "$@xdg/gpupres", else "$HOME@fallback/gpupres". */
static int settings_home(const char *xdg, const char *fallback, char *buf, size_t buf_bytes,
			 struct gp_err *err)
{
	const char *base = getenv(xdg), *home = getenv("HOME");
	int n;

	if (base && *base == '/')
		n = snprintf(buf, buf_bytes, "%s/gpupres", base);
	else if (home && *home == '/')
		n = snprintf(buf, buf_bytes, "%s%sgpupres", home, fallback);
	else
		return gp_err_set(err, -ENOENT, "HOME is not set: set it, or %s", xdg);
	if ((size_t)n >= buf_bytes)
		return gp_err_set(err, -ENAMETOOLONG, "%s or HOME is too long", xdg);
	return 0;
}

static int settings_default_state_dir(const struct gp_config *config, char *buf, size_t buf_bytes,
				      struct gp_err *err)
{
	if (settings_is_user(config))
		return settings_home("XDG_STATE_HOME", "/.", buf, buf_bytes, err);
	snprintf(buf, buf_bytes, "/var/lib/gpupres");
	return 0;
}

static int settings_default_swap_dir(const struct gp_config *config, char *buf, size_t buf_bytes,
				     struct gp_err *err)
{
	const struct gp_config_value *dir =
		gp_config_get(config, gp_config_find(config, "daemon", "state_dir"));

	if (!dir)
		return gp_err_set(err, -ENOENT, "it is the state folder");
	snprintf(buf, buf_bytes, "%s", dir->text);
	return 0;
}

static int settings_default_devices(const struct gp_config *config, char *buf, size_t buf_bytes,
				    struct gp_err *err)
{
	const struct gp_config_value *kind =
		gp_config_get(config, gp_config_find(config, "daemon", "device"));
	uint32_t n = 1;

	if (!kind || strcmp(kind->text, "soft") != 0)
		n = gp_visible_count(getenv("CUDA_VISIBLE_DEVICES"), GP_VISIBLE_PROC,
				     GP_VISIBLE_DEV);
	/* A driver that is there need not say so in /proc (WSL): its mover will tell. */
	n = n ? n : 1;
	snprintf(buf, buf_bytes, "%u", n < GP_MAX_DEVICES ? n : GP_MAX_DEVICES);
	return 0;
}

/* In whole MiB, for people to read. */
static int settings_default_arena(const struct gp_config *config, char *buf, size_t buf_bytes,
				  struct gp_err *err)
{
	const struct gp_config_value *devices =
		gp_config_get(config, gp_config_find(config, "daemon", "devices"));
	uint64_t bytes = SETTINGS_ARENA_BYTES, share;
	struct sysinfo info;

	if (sysinfo(&info) < 0)
		return gp_err_sys(err, -errno, "cannot read the size of RAM");
	share = (uint64_t)info.totalram * info.mem_unit / 4;
	if (devices && strtoull(devices->text, NULL, 10))
		share /= strtoull(devices->text, NULL, 10);
	if (share < bytes)
		bytes = share;
	snprintf(buf, buf_bytes, "%" PRIu64 "M", bytes >> 20);
	return 0;
}

#define RELOAD	true
#define RESTART false
#define KEY(section_, key_, type_, member, initial_, reloadable_, doc_, ...)                       \
	{ .section = (section_),                                                                   \
	  .key = (key_),                                                                           \
	  .type = &gp_config_##type_,                                                              \
	  .offset = offsetof(struct gp_options, member),                                           \
	  .bytes = sizeof(((struct gp_options *)0)->member),                                       \
	  .initial = (initial_),                                                                   \
	  .reloadable = (reloadable_),                                                             \
	  .doc = (doc_),                                                                           \
	  ##__VA_ARGS__ }

/* In the order of the sample file and of --check-config; those of a section stand together. */
const struct gp_config_key gp_settings_keys[] = {
	KEY("daemon", "device", choice, device, "nvidia", RESTART,
	    "Kind of device. nvidia; soft, a CUDA device on the CPU that ships with gpupres; or "
	    "auto: nvidia where there is a driver, else soft.",
	    .choices = "auto soft nvidia", .option = "device", .metavar = "KIND"),
	KEY("daemon", "devices", count, n_devices, NULL, RESTART,
	    "Number of devices. The first ones are served, each with an arena and swap file of its "
	    "own.",
	    .least = 1, .most = GP_MAX_DEVICES, .option = "devices", .metavar = "N",
	    .work_out = settings_default_devices, .sample = "8",
	    .initial_doc = "all GPUs that CUDA_VISIBLE_DEVICES shows; one software device"),
	KEY("daemon", "runtime_dir", path, runtime_dir, NULL, RESTART, "Folder of the sockets.",
	    .option = "runtime-dir", .metavar = "DIR", .work_out = settings_default_runtime_dir,
	    .sample = "/run/gpupres",
	    .initial_doc = "/run/gpupres; with --user $GPUPRES_RUNTIME_DIR or "
			   "$XDG_RUNTIME_DIR/gpupres"),
	KEY("daemon", "state_dir", path, state_dir, NULL, RESTART,
	    "Folder of the database and of the jobs' logs.", .option = "state-dir",
	    .metavar = "DIR", .work_out = settings_default_state_dir, .sample = "/var/lib/gpupres",
	    .initial_doc = "/var/lib/gpupres; with --user $XDG_STATE_HOME/gpupres or "
			   "$HOME/.gpupres"),
	KEY("daemon", "log_level", choice, log_level, "info", RELOAD,
	    "What is logged. err, warn, info or debug; each includes those before it.",
	    .choices = "err warn info debug", .option = "log-level", .metavar = "LEVEL"),
	KEY("daemon", "group", name, group, NULL, RESTART,
	    "Group whose members may use the control socket. Empty: only the daemon's own user.",
	    .option = "group", .metavar = "GROUP", .work_out = settings_default_group,
	    .sample = "gpupres", .initial_doc = "gpupres; with --user empty"),
	KEY("daemon", "admins", names, admins, "", RELOAD,
	    "Who may see and control the jobs of others. Users, and groups written as @group, "
	    "separated by blanks or commas; besides root.",
	    .option = "admins", .metavar = "NAMES"),
	KEY("daemon", "max_priority", count, max_priority, "0", RELOAD,
	    "The highest priority of jobs of others than admins. With --user every priority is "
	    "allowed.",
	    .most = GP_REGISTRY_MAX_PRIORITY, .option = "max-priority", .metavar = "N"),
	KEY("daemon", "spawn_socket", path, spawn_socket, NULL, RESTART,
	    "Where gpupres-spawn listens. It starts jobs as their users; with --user it is not "
	    "needed.",
	    .option = "spawn-socket", .metavar = "PATH", .work_out = settings_default_spawn_socket,
	    .sample = SETTINGS_SPAWN_SOCKET, .initial_doc = SETTINGS_SPAWN_SOCKET),

	/* What one user may make the daemon hold: daemon/quota.h. Who meets one of these has a
	 * mistake in a script; at all of them a user costs about 200 MiB and 6,000 files. */
	KEY("limits", "max_connections", count, quota.counts[GP_QUOTA_CONNECTIONS], "4096", RELOAD,
	    "Connections of one user, those of jobs included.", .least = 1),
	KEY("limits", "max_requests", count, quota.counts[GP_QUOTA_REQUESTS], "4096", RELOAD,
	    "Requests of one user that wait for something to happen.", .least = 1),
	KEY("limits", "max_jobs", count, quota.counts[GP_QUOTA_JOBS], "2000", RELOAD,
	    "Submitted jobs of one user that have not ended.", .least = 1),
	KEY("limits", "max_command_bytes", size, quota.sizes[GP_QUOTA_COMMAND_BYTES], "64M", RELOAD,
	    "Arguments and environments of these jobs.", .least = 1),
	KEY("limits", "max_adopted", count, quota.counts[GP_QUOTA_ADOPTED], "1024", RELOAD,
	    "Programs of one user that were not submitted. More of them run, but are not managed.",
	    .least = 1),
	KEY("limits", "max_messages", count, quota.counts[GP_QUOTA_MESSAGES], "16384", RELOAD,
	    "Messages to one user's programs that these have not read.", .least = 1),
	KEY("limits", "max_message_bytes", size, quota.sizes[GP_QUOTA_MESSAGE_BYTES], "64M", RELOAD,
	    "Memory that these messages take.", .least = 1),
	KEY("limits", "max_fds", count, quota.counts[GP_QUOTA_FDS], "1024", RELOAD,
	    "Open files in these messages.", .least = 1),

	KEY("memory", "arena", size, arena_bytes, NULL, RESTART,
	    "Host memory that takes what is evicted, for each device.", .option = "arena",
	    .metavar = "SIZE", .work_out = settings_default_arena, .sample = "16G",
	    .initial_doc = "16G, or over all devices a quarter of RAM if that is less"),
	KEY("memory", "swap_dir", path, swap_dir, NULL, RESTART,
	    "Folder for what the arena does not hold.", .option = "swap-dir", .metavar = "DIR",
	    .work_out = settings_default_swap_dir, .sample = "/var/lib/gpupres",
	    .initial_doc = "the state folder"),
	KEY("memory", "swap_max", size, swap_bytes, "64G", RESTART,
	    "How much may be put there for each device. 0 for nothing.", .option = "swap-max",
	    .metavar = "SIZE"),

	KEY("history", "days", count, history_days, "90", RELOAD,
	    "Ended jobs and their events are forgotten after so many days.", .least = 1,
	    .most = 36500),
	KEY("history", "rows", count, history_rows, "1000000", RELOAD,
	    "Most events that are kept. The oldest are forgotten first.", .least = 1000),

	KEY("timeouts", "term", duration, term_ns, "5s", RELOAD,
	    "From SIGTERM to SIGKILL when a job is cancelled."),
	KEY("timeouts", "orphan_grace", duration, orphan_grace_ns, "10s", RELOAD,
	    "How long a new daemon waits for the processes of its predecessor's jobs."),
};

const size_t gp_settings_n_keys = GP_ARRAY_SIZE(gp_settings_keys);

int gp_settings_init(struct gp_settings *ret, void (*report)(const char *line, void *user),
		     void *user, struct gp_err *err)
{
	*ret = (struct gp_settings){ 0 };
	return gp_config_init(&ret->config, gp_settings_keys, gp_settings_n_keys, report, user,
			      err);
}

void gp_settings_fini(struct gp_settings *settings)
{
	gp_config_fini(&settings->config);
}

/* Without a HOME there is nothing to read. */
static void settings_read_folder(struct gp_settings *s)
{
	char folder[PATH_MAX] = SETTINGS_FOLDER, path[PATH_MAX + 32];
	struct gp_err err;

	if (s->user &&
	    settings_home("XDG_CONFIG_HOME", "/.config/", folder, sizeof(folder), &err) < 0)
		return;
	snprintf(path, sizeof(path), "%s/gpupresd.conf", folder);
	gp_config_read_file(&s->config, path, true);
	snprintf(path, sizeof(path), "%s/conf.d", folder);
	gp_config_read_folder(&s->config, path);
}

int gp_settings_load(struct gp_settings *s, struct gp_err *err)
{
	if (*s->file)
		gp_config_read_file(&s->config, s->file, false);
	else
		settings_read_folder(s);
	gp_config_set_defaults(&s->config);
	if (s->config.n_faults)
		return gp_err_set(err, -EINVAL,
				  "the configuration has %u fault(s): correct them, and see with "
				  "gpupresd --check-config",
				  s->config.n_faults);
	return 0;
}

void gp_settings_store(const struct gp_settings *s, struct gp_options *ret)
{
	for (size_t i = 0; i < gp_settings_n_keys; i++)
		gp_config_store(&s->config, &gp_settings_keys[i], ret);
}

/* A value in quotes stays one. */
static void settings_log_fault(const char *line, void *user)
{
	char text[900];

	snprintf(text, sizeof(text), "%s", line);
	for (char *p = text; (p = strchr(p, '"'));)
		*p = '\'';
	gp_log(GP_LOG_ERR, "config-fault", "error=\"%s\"", text);
}

static void settings_swap(struct gp_config_value *a, struct gp_config_value *b)
{
	struct gp_config_value old = *a;

	*a = *b;
	*b = old;
}

/* Takes over what is new in @fresh; describes it in @changed. */
static void settings_take(struct gp_settings *s, struct gp_settings *fresh,
			  struct gp_options *options, char *changed, size_t changed_bytes)
{
	size_t used = 0;

	for (size_t i = 0; i < gp_settings_n_keys; i++) {
		const struct gp_config_key *key = &gp_settings_keys[i];
		struct gp_config_value *old = &s->config.values[i], *new = &fresh->config.values[i];
		bool same = gp_config_same(&s->config, &fresh->config, key);

		/* A default that was worked out stays, also where it would come out differently
		 * now. */
		if (key->work_out && old->rank == GP_CONFIG_DEFAULT &&
		    new->rank == GP_CONFIG_DEFAULT)
			continue;
		if (!key->reloadable) {
			if (!same)
				gp_log(GP_LOG_WARN, "config-restart",
				       "key=%s.%s value=\"%.200s\" new=\"%.200s\" "
				       "source=\"%.200s\" effect=\"takes effect after a restart\"",
				       key->section, key->key, old->text, new->text, new->source);
			continue;
		}
		if (!same && used < changed_bytes)
			used += (size_t)snprintf(changed + used, changed_bytes - used,
						 "%s%s.%s: %.64s -> %.64s", used ? ", " : "",
						 key->section, key->key, old->text, new->text);
		settings_swap(old, new);
		gp_config_store(&s->config, key, options);
	}
	/* The old texts go with @fresh: nobody points to them any more. */
}

void gp_settings_reload(struct gp_settings *s, struct gp_options *options)
{
	char changed[700] = "";
	struct gp_settings fresh;
	struct gp_err err;
	int r = gp_settings_init(&fresh, settings_log_fault, NULL, &err);

	fresh.user = s->user;
	memcpy(fresh.file, s->file, sizeof(fresh.file));
	if (r == 0)
		r = gp_config_inherit(&fresh.config, &s->config, GP_CONFIG_COMMAND_LINE, &err);
	if (r == 0)
		r = gp_settings_load(&fresh, &err);
	if (r < 0) {
		gp_log(GP_LOG_ERR, "config-kept", "error=\"%s\" effect=\"nothing was changed\"",
		       err.msg);
	} else {
		settings_take(s, &fresh, options, changed, sizeof(changed));
		gp_log(GP_LOG_INFO, "config-reloaded", "changed=\"%s\"",
		       *changed ? changed : "nothing");
	}
	gp_settings_fini(&fresh);
}
