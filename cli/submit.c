/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/submit.h"

#include "base/wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a shell uses when PATH is not set. */
#define SUBMIT_DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* 0 if @path is a file that this user may execute; -EACCES, -ENOENT. */
static int submit_check_file(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	/* faccessat with AT_EACCESS asks for the effective ids, as exec does. */
	if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
		return -EACCES;
	return 0;
}

/* @path behind the working folder, unless it is absolute. */
static int submit_absolute(const char *path, char **ret, struct gp_err *err)
{
	gp_auto_free char *cwd = NULL;

	if (*path == '/') {
		*ret = strdup(path);
		return *ret ? 0 : gp_err_sys(err, -ENOMEM, "cannot hold the path %s", path);
	}
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return gp_err_sys(err, -errno, "cannot tell the working folder");
	if (asprintf(ret, "%s/%s", cwd, path) < 0)
		return gp_err_sys(err, -ENOMEM, "cannot hold the path %s", path);
	return 0;
}

static int submit_not_executable(const char *path, struct gp_err *err)
{
	return gp_err_set(err, -EACCES, "%s cannot be executed: make it executable (chmod +x)",
			  path);
}

int gp_submit_resolve(const char *command, char **ret, struct gp_err *err)
{
	const char *list = getenv("PATH"), *next;
	char path[PATH_MAX], denied[PATH_MAX] = "";
	int r;

	if (strchr(command, '/')) {
		r = submit_check_file(command);
		if (r == -EACCES)
			return submit_not_executable(command, err);
		if (r < 0)
			return gp_err_sys(err, -ENOENT, "cannot find the command %s", command);
		return submit_absolute(command, ret, err);
	}
	if (!list)
		list = SUBMIT_DEFAULT_PATH;
	for (; *command && list; list = next) {
		size_t len = strcspn(list, ":");

		next = list[len] ? list + len + 1 : NULL;
		/* An empty entry is the working folder. */
		r = snprintf(path, sizeof(path), "%.*s%s%s", (int)len, list, len ? "/" : "./",
			     command);
		if (r < 0 || (size_t)r >= sizeof(path))
			continue;
		r = submit_check_file(path);
		if (r == 0)
			return submit_absolute(path, ret, err);
		if (r == -EACCES && !*denied)
			strcpy(denied, path);
	}
	if (*denied)
		return submit_not_executable(denied, err);
	return gp_err_set(err, -ENOENT, "command not found: %s: give its path or extend PATH",
			  command);
}

/* True if @variable ("NAME=value") is set again by one of the @n strings at @later. */
static bool submit_overridden(const char *variable, const char *const *later, size_t n)
{
	size_t len = strcspn(variable, "=") + 1;

	for (size_t i = 0; i < n; i++) {
		if (!strncmp(variable, later[i], len))
			return true;
	}
	return false;
}

static void submit_put(FILE *out, const char *text)
{
	fwrite(text, 1, strlen(text) + 1, out);
}

static void submit_put_env(const struct gp_options *o, char **environment, FILE *out,
			   uint32_t *ret_n)
{
	uint32_t n = 0;

	for (char **e = environment; *e; e++) {
		if (!strchr(*e, '=') || submit_overridden(*e, o->env, o->n_env))
			continue;
		submit_put(out, *e);
		n++;
	}
	for (size_t i = 0; i < o->n_env; i++) {
		if (submit_overridden(o->env[i], o->env + i + 1, o->n_env - i - 1))
			continue;
		submit_put(out, o->env[i]);
		n++;
	}
	*ret_n = n;
}

/* A sealed memfd with these bytes. */
static int submit_seal(const char *bytes, size_t n_bytes, struct gp_err *err)
{
	gp_auto_fd int fd = memfd_create("gpupres-submit", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return gp_err_sys(err, -errno, "cannot create a memfd");
	for (size_t done = 0; done < n_bytes;) {
		ssize_t n = write(fd, bytes + done, n_bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gp_err_sys(err, -errno, "cannot write %zu bytes to a memfd",
					  n_bytes);
		done += (size_t)n;
	}
	/* The daemon maps it: nobody may change or truncate it under its feet. */
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return gp_err_sys(err, -errno, "cannot seal a memfd");
	return gp_take_fd(&fd);
}

static const char *submit_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

int gp_submit_pack(const struct gp_options *o, const char *path, char **environment,
		   struct gp_wire_msg *ret_msg, struct gp_err *err)
{
	gp_auto_free char *blob = NULL, *cwd = getcwd(NULL, 0);
	size_t blob_bytes = 0;
	uint32_t n_env;
	FILE *out;

	if (!cwd)
		return gp_err_sys(err, -errno, "cannot tell the working folder");
	out = open_memstream(&blob, &blob_bytes);
	if (!out)
		return gp_err_sys(err, -errno, "cannot pack the job");
	submit_put(out, path);
	for (size_t i = 1; i < o->n_args; i++)
		submit_put(out, o->argv[i]);
	submit_put_env(o, environment, out, &n_env);
	submit_put(out, cwd);
	if (fclose(out) != 0)
		return gp_err_sys(err, -errno, "cannot pack the job");
	if (blob_bytes > GP_WIRE_MAX_SUBMIT_BLOB)
		return gp_err_set(err, -E2BIG,
				  "arguments and environment take %zu bytes, at most %u are "
				  "taken: shorten them",
				  blob_bytes, GP_WIRE_MAX_SUBMIT_BLOB);
	gp_wire_init(ret_msg, GP_WIRE_SUBMIT);
	ret_msg->submit.priority = o->priority;
	ret_msg->submit.n_args = (uint32_t)o->n_args;
	ret_msg->submit.n_env = n_env;
	ret_msg->submit.blob_bytes = (uint32_t)blob_bytes;
	ret_msg->submit.mem_bytes = o->mem_bytes;
	gp_wire_text(ret_msg->submit.name, sizeof(ret_msg->submit.name),
		     o->name ? o->name : submit_base_name(path));
	return submit_seal(blob, blob_bytes, err);
}

int gp_submit(struct gp_client *c, const struct gp_options *o, const char *path, uint64_t *ret_job,
	      struct gp_err *err)
{
	gp_auto_fd int fd = -1;
	struct gp_wire_msg msg;
	int r;

	r = fd = gp_submit_pack(o, path, environ, &msg, err);
	if (r < 0)
		return r;
	r = gp_client_call(c, &msg, fd, GP_WIRE_OK, NULL, err);
	if (r < 0)
		return r;
	*ret_job = msg.header.job;
	return 0;
}
