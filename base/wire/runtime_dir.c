/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *runtime_env(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value == '/' ? value : NULL;
}

/* Anybody can make a folder in /tmp, and who listens there gets a job's whole environment. */
static int runtime_check_owner(const char *dir, struct gp_err *err)
{
	struct stat st;

	if (lstat(dir, &st) == 0 && st.st_uid != getuid())
		return gp_err_set(err, -EPERM,
				  "%s belongs to uid %u: choose another folder with "
				  "GPUPRES_RUNTIME_DIR",
				  dir, (unsigned int)st.st_uid);
	return 0;
}

int gp_wire_runtime_dir(char *buf, size_t buf_bytes, struct gp_err *err)
{
	const char *dir = runtime_env("GPUPRES_RUNTIME_DIR");
	bool in_tmp = false;
	int n;

	if (dir) {
		n = snprintf(buf, buf_bytes, "%s", dir);
	} else if ((dir = runtime_env("XDG_RUNTIME_DIR"))) {
		n = snprintf(buf, buf_bytes, "%s/gpupres", dir);
	} else if (access("/run/gpupres/control.sock", F_OK) == 0) {
		n = snprintf(buf, buf_bytes, "/run/gpupres");
	} else {
		n = snprintf(buf, buf_bytes, "/tmp/gpupres-%u", (unsigned int)getuid());
		in_tmp = true;
	}
	if (n < 0 || (size_t)n >= buf_bytes)
		return gp_err_set(err, -ENAMETOOLONG, "the path of the runtime folder is too long");
	return in_tmp ? runtime_check_owner(buf, err) : 0;
}
