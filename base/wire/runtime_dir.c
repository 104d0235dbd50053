/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *runtime_env(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value == '/' ? value : NULL;
}

int gp_wire_runtime_dir(char *buf, size_t buf_bytes, struct gp_err *err)
{
	const char *dir = runtime_env("GPUPRES_RUNTIME_DIR");
	int n;

	if (dir) {
		n = snprintf(buf, buf_bytes, "%s", dir);
	} else if ((dir = runtime_env("XDG_RUNTIME_DIR"))) {
		n = snprintf(buf, buf_bytes, "%s/gpupres", dir);
	} else if (access("/run/gpupres/control.sock", F_OK) == 0) {
		n = snprintf(buf, buf_bytes, "/run/gpupres");
	} else {
		n = snprintf(buf, buf_bytes, "/tmp/gpupres-%u", (unsigned int)getuid());
	}
	if (n < 0 || (size_t)n >= buf_bytes)
		return gp_err_set(err, -ENAMETOOLONG, "the path of the runtime folder is too long");
	return 0;
}
