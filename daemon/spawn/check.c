/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/spawn/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define CHECK_SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

static const size_t check_n_fds[GP_SPAWN_TYPE_MAX_] = {
	[GP_SPAWN_START] = 3,
	[GP_SPAWN_SIGNAL] = 1,
};

static int check_user(const struct gp_spawn_policy *policy, const struct gp_spawn_request *r,
		      struct gp_err *err)
{
	if (r->uid == (uid_t)-1 || r->gid == (gid_t)-1)
		return gp_err_set(err, -EBADMSG, "%u:%u is no user", r->uid, r->gid);
	if (r->uid == 0 && policy->allow_root)
		return 0;
	if (r->uid == 0)
		return gp_err_set(err, -EPERM,
				  "jobs of root are refused: gpupres-spawn --allow-root allows "
				  "them");
	if (r->uid < policy->min_uid)
		return gp_err_set(err, -EPERM,
				  "jobs of uid %u are refused: gpupres-spawn --min-uid is %u",
				  r->uid, (unsigned int)policy->min_uid);
	return 0;
}

static int check_memfd(int fd, uint32_t bytes, struct gp_err *err)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & CHECK_SEALS) != CHECK_SEALS)
		return gp_err_set(err, -EPERM, "the command is not in a sealed memfd");
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != bytes)
		return gp_err_set(err, -EBADMSG, "the memfd has another size than announced");
	return 0;
}

/* A file that is not the caller's own is none that he could give away. */
static int check_file(int fd, const char *what, int flags, uid_t caller, struct gp_err *err)
{
	int mode = fcntl(fd, F_GETFL);
	struct stat st;

	if (mode < 0 || fstat(fd, &st) < 0)
		return gp_err_sys(err, -errno, "cannot look at the %s", what);
	if (!S_ISREG(st.st_mode) || st.st_uid != caller || st.st_nlink != 1)
		return gp_err_set(err, -EPERM, "the %s is not a regular file of uid %u", what,
				  (unsigned int)caller);
	if ((mode & O_ACCMODE) != O_WRONLY || (mode & flags) != flags)
		return gp_err_set(err, -EPERM, "the %s is not open for %s only", what,
				  flags ? "appending" : "writing");
	return 0;
}

static int check_start(const struct gp_spawn_policy *policy, const struct gp_spawn_request *r,
		       const int *fds, uid_t caller, struct gp_err *err)
{
	int code = check_user(policy, r, err);

	if (code < 0)
		return code;
	if (!r->n_args || !r->blob_bytes || r->blob_bytes > GP_SPAWN_MAX_BLOB)
		return gp_err_set(err, -EBADMSG, "a command of %u arguments in %u bytes", r->n_args,
				  r->blob_bytes);
	if (r->umask > 0777)
		return gp_err_set(err, -EBADMSG, "the umask 0%o", r->umask);
	for (size_t i = 0; i < GP_SPAWN_N_LIMITS; i++) {
		if (r->limits[i].soft > r->limits[i].hard)
			return gp_err_set(err, -EBADMSG, "the soft limit %zu is over the hard one",
					  i);
	}
	code = check_memfd(fds[0], r->blob_bytes, err);
	if (code == 0)
		code = check_file(fds[1], "log", O_APPEND, caller, err);
	if (code == 0)
		code = check_file(fds[2], "status file", 0, caller, err);
	return code;
}

int gp_spawn_check(const struct gp_spawn_policy *policy, const struct gp_spawn_request *r,
		   size_t len, const int *fds, size_t n_fds, uid_t caller, struct gp_err *err)
{
	if (caller != 0 && caller != policy->for_uid)
		return gp_err_set(err, -EPERM, "uid %u may not ask: gpupres-spawn --for-user is %u",
				  (unsigned int)caller, (unsigned int)policy->for_uid);
	if (len != sizeof(*r))
		return gp_err_set(err, -EBADMSG, "a request of %zu bytes instead of %zu", len,
				  sizeof(*r));
	if (r->version != GP_SPAWN_VERSION)
		return gp_err_set(err, -EPROTO,
				  "gpupres-spawn speaks protocol %d, not %u: install the same "
				  "release as that of gpupresd",
				  GP_SPAWN_VERSION, r->version);
	if (!r->type || r->type >= GP_SPAWN_TYPE_MAX_ || !r->job || r->reserved)
		return gp_err_set(err, -EBADMSG, "a request of unknown type %u", r->type);
	if (n_fds != check_n_fds[r->type])
		return gp_err_set(err, -EBADMSG, "%zu files instead of %zu", n_fds,
				  check_n_fds[r->type]);
	if (r->type == GP_SPAWN_START)
		return check_start(policy, r, fds, caller, err);
	if (r->type != GP_SPAWN_SIGNAL)
		return 0;
	if (r->signo < 1 || r->signo >= _NSIG)
		return gp_err_set(err, -EBADMSG, "there is no signal %d", r->signo);
	return check_user(policy, r, err);
}

int gp_spawn_check_group(const struct gp_spawn_policy *policy, const struct gp_spawn_request *r,
			 struct gp_err *err)
{
	if (r->gid >= policy->min_uid || (r->uid == 0 && policy->allow_root))
		return 0;
	return gp_err_set(err, -EPERM,
			  "uid %u is not in the user database, and its group %u is refused: "
			  "gpupres-spawn --min-uid is %u",
			  r->uid, r->gid, (unsigned int)policy->min_uid);
}

static char *command_next(char *s)
{
	return s + strlen(s) + 1;
}

/* The strings were counted: walking them stays within the blob. */
static int command_split(const struct gp_spawn_request *r, struct gp_spawn_command *c,
			 struct gp_err *err)
{
	char *s = c->blob;

	c->args = calloc((size_t)r->n_args + 1, sizeof(*c->args));
	c->env = calloc((size_t)r->n_env + 1, sizeof(*c->env));
	if (!c->args || !c->env)
		return gp_err_set(err, -ENOMEM, "out of memory");
	c->socket = s;
	s = command_next(s);
	for (uint32_t i = 0; i < r->n_args; i++, s = command_next(s))
		c->args[i] = s;
	for (uint32_t i = 0; i < r->n_env; i++, s = command_next(s))
		c->env[i] = s;
	c->cwd = s;
	return 0;
}

int gp_spawn_read_command(const struct gp_spawn_request *r, int memfd, struct gp_spawn_command *ret,
			  struct gp_err *err)
{
	uint64_t n_strings = 0;
	int code;

	*ret = (struct gp_spawn_command){ .blob = malloc(r->blob_bytes) };
	if (!ret->blob)
		return gp_err_set(err, -ENOMEM, "out of memory");
	if (pread(memfd, ret->blob, r->blob_bytes, 0) != (ssize_t)r->blob_bytes) {
		gp_spawn_free_command(ret);
		return gp_err_set(err, -EIO, "cannot read the command");
	}
	for (uint32_t i = 0; i < r->blob_bytes; i++)
		n_strings += ret->blob[i] == '\0';
	if (ret->blob[r->blob_bytes - 1] || n_strings != (uint64_t)r->n_args + r->n_env + 2) {
		gp_spawn_free_command(ret);
		return gp_err_set(err, -EBADMSG, "the command is not made of as many strings");
	}
	code = command_split(r, ret, err);
	if (code < 0)
		gp_spawn_free_command(ret);
	return code;
}

void gp_spawn_free_command(struct gp_spawn_command *c)
{
	free(c->blob);
	free(c->args);
	free(c->env);
	*c = (struct gp_spawn_command){ 0 };
}
