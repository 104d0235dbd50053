/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/wire.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *runtime_env(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value == '/' ? value : NULL;
}

int gp_wire_user_runtime_dir(char *buf, size_t buf_bytes, struct gp_err *err)
{
	const char *dir = runtime_env("GPUPRES_RUNTIME_DIR");
	int n;

	if (dir)
		n = snprintf(buf, buf_bytes, "%s", dir);
	else if ((dir = runtime_env("XDG_RUNTIME_DIR")))
		n = snprintf(buf, buf_bytes, "%s/gpupres", dir);
	else
		n = snprintf(buf, buf_bytes, "/tmp/gpupres-%u", (unsigned int)getuid());
	if (n < 0 || (size_t)n >= buf_bytes)
		return gp_err_set(err, -ENAMETOOLONG, "the path of the runtime folder is too long");
	return 0;
}

static bool runtime_serves(const char *dir)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/control.sock", dir);

	return n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0;
}

int gp_wire_runtime_dir(char *buf, size_t buf_bytes, struct gp_err *err)
{
	int r = gp_wire_user_runtime_dir(buf, buf_bytes, err);

	if (r < 0 || runtime_env("GPUPRES_RUNTIME_DIR") || runtime_serves(buf) ||
	    !runtime_serves(GP_WIRE_SYSTEM_DIR))
		return r;
	if (strlen(GP_WIRE_SYSTEM_DIR) >= buf_bytes)
		return gp_err_set(err, -ENAMETOOLONG, "the path of the runtime folder is too long");
	strcpy(buf, GP_WIRE_SYSTEM_DIR);
	return 0;
}
