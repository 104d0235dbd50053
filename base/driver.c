/* SPDX-License-Identifier: Apache-2.0 */
#include "base/driver.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where distributions, NVIDIA's installer and container runtimes put the driver on x86-64. */
static const char *const driver_folders[] = {
	"/usr/local/nvidia/lib64",
	"/usr/lib/x86_64-linux-gnu",
	"/usr/lib/x86_64-linux-gnu/nvidia/current",
	"/usr/lib64",
	"/usr/lib64/nvidia",
	"/usr/lib",
};

int gp_driver_find(char *buf, size_t buf_bytes, struct gp_err *err)
{
	const char *given = secure_getenv("GPUPRES_DRIVER");
	char path[PATH_MAX], real[PATH_MAX];

	if (given && *given) {
		if (strlen(given) >= buf_bytes || access(given, R_OK) < 0)
			return gp_err_set(err, -ENOENT,
					  "GPUPRES_DRIVER names %s, which cannot be read", given);
		strcpy(buf, given);
		return 0;
	}
	for (size_t i = 0; i < GP_ARRAY_SIZE(driver_folders); i++) {
		snprintf(path, sizeof(path), "%s/libcuda.so.1", driver_folders[i]);
		/* Our own library may be mounted over the usual name; its real path gives it away.
		 */
		if (!realpath(path, real) || strstr(real, "/gpupres/") || strlen(path) >= buf_bytes)
			continue;
		strcpy(buf, path);
		return 0;
	}
	return gp_err_set(err, -ENOENT,
			  "no NVIDIA driver (libcuda.so.1) on this machine: install it, name it in "
			  "GPUPRES_DRIVER, or use the software device (--device soft)");
}

static char *driver_cut(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return NULL;
	*slash = '\0';
	return slash;
}

int gp_tree_root(char *buf, size_t buf_bytes, struct gp_err *err)
{
	ssize_t n = readlink("/proc/self/exe", buf, buf_bytes - 1);

	if (n < 0)
		return gp_err_sys(err, -errno, "cannot read /proc/self/exe");
	buf[n] = '\0';
	if (driver_cut(buf)) {
		if (strlen(buf) > 4 && !strcmp(buf + strlen(buf) - 4, "/bin") && driver_cut(buf))
			return 0;
		if (strstr(buf, "/libexec/gpupres") && driver_cut(buf) && driver_cut(buf))
			return 0;
	}
	return gp_err_set(err, -ENOENT,
			  "the running program is not inside gpupres' own tree "
			  "(bin/ or libexec/gpupres/)");
}
