/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_SETTINGS_H
#define GP_DAEMON_SETTINGS_H
/*
 * What gpupresd can be told, by options and by configuration files: one table, gp_settings_keys,
 * read into struct gp_options. A new setting is one entry of the table and one field.
 *
 * Files: --config FILE, or gpupresd.conf and all *.conf files of conf.d in the configuration
 * folder, which is /etc/gpupres, or with --user $XDG_CONFIG_HOME/gpupres ($HOME/.config/gpupres).
 */
#include "base/config.h"
#include "daemon/daemon.h"

#include <limits.h>

extern const struct gp_config_key gp_settings_keys[];
extern const size_t gp_settings_n_keys;

struct gp_settings {
	struct gp_config config;
	bool user;	     /* --user */
	char file[PATH_MAX]; /* --config; "" */
};

/* Empty settings: options may be set by gp_config_set, then come files and defaults. */
gp_must_check int gp_settings_init(struct gp_settings *ret,
				   void (*report)(const char *line, void *user), void *user,
				   struct gp_err *err);
void gp_settings_fini(struct gp_settings *settings);

/* Reads the files and sets defaults. -EINVAL if there were faults; all of them were reported. */
gp_must_check int gp_settings_load(struct gp_settings *settings, struct gp_err *err);
/* Stores all values. Its strings live as long as @settings, those of reloadable ones until they
 * change. */
void gp_settings_store(const struct gp_settings *settings, struct gp_options *ret);

/*
 * Reads the files again. What may change while the daemon runs is changed in @settings and in
 * @options, and said in one line of the log; what may not is named in a warning. With a fault
 * anywhere nothing changes, and the faults are logged. Blocks for the disk.
 */
void gp_settings_reload(struct gp_settings *settings, struct gp_options *options);

#endif
