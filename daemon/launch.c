/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/launch.h"

#include "base/log.h"
#include "base/visible.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#define LAUNCH_EXTRA_ENV  9 /* variables that we add to a job's environment */
#define LAUNCH_EXTRA_ARGS 13
#define LAUNCH_MAX_FDS	  8

extern char **environ;

/* Ours are all O_CLOEXEC; what we inherited need not be. */
static int launch_fds(posix_spawn_file_actions_t *actions, const int *high, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = posix_spawn_file_actions_adddup2(actions, high[i], STDERR_FILENO + 1 + (int)i);
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1 + (int)n);
	return r;
}

/* @high is clear of the numbers that the child gets them by. */
static int launch_spawn(char *const argv[], char *const envp[], const int *high, size_t n,
			pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	r = posix_spawnattr_init(&attr);
	if (r)
		return -r;
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	r = posix_spawn_file_actions_init(&actions);
	if (r == 0) {
		r = launch_fds(&actions, high, n);
		if (r == 0)
			r = posix_spawn(ret_pid, argv[0], &actions, &attr, argv, envp);
		posix_spawn_file_actions_destroy(&actions);
	}
	posix_spawnattr_destroy(&attr);
	return -r;
}

int gp_launch(char *const argv[], char *const envp[], const int *fds, size_t n_fds, pid_t *ret_pid,
	      int *ret_pidfd, struct gp_err *err)
{
	int high[LAUNCH_MAX_FDS] = { 0 }, r = 0;
	size_t n = 0;

	assert(n_fds <= LAUNCH_MAX_FDS);
	for (; r == 0 && n < n_fds; n++) {
		high[n] = fcntl(fds[n], F_DUPFD_CLOEXEC, STDERR_FILENO + 1 + LAUNCH_MAX_FDS);
		if (high[n] < 0) {
			r = -errno;
			break;
		}
	}
	if (r == 0)
		r = launch_spawn(argv, envp, high, n_fds, ret_pid);
	for (size_t i = 0; i < n; i++)
		close(high[i]);
	if (r < 0)
		return gp_err_sys(err, r, "cannot start %s", argv[0]);
	*ret_pidfd = pidfd_open(*ret_pid, 0);
	if (*ret_pidfd < 0) {
		r = -errno;
		kill(*ret_pid, SIGKILL);
		waitpid(*ret_pid, NULL, 0);
		return gp_err_sys(err, r, "cannot watch %s", argv[0]);
	}
	return 0;
}

int gp_launch_reap(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		return 255;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The blob's strings one after the other, as request_read_blob checked them. */
static const char *launch_next(const char *s)
{
	return s + strlen(s) + 1;
}

/* The last two number the devices: a job must mean by 0 what its daemon does. */
static bool launch_is_ours(const char *variable)
{
	return !strncmp(variable, "GPUPRES_", 8) || !strncmp(variable, "LD_LIBRARY_PATH=", 16) ||
	       !strncmp(variable, "CUDA_VISIBLE_DEVICES=", 21) ||
	       !strncmp(variable, "CUDA_DEVICE_ORDER=", 18);
}

/* The job's device as the driver knows it: our own list of visible ones may renumber them. */
static void launch_visible(uint32_t ordinal, char *buf, size_t buf_bytes)
{
	static const char name[] = "CUDA_VISIBLE_DEVICES=";

	memcpy(buf, name, sizeof(name));
	gp_visible_entry(getenv("CUDA_VISIBLE_DEVICES"), ordinal, buf + sizeof(name) - 1,
			 buf_bytes - (sizeof(name) - 1));
}

/* Several software devices are told apart by their folders. */
static void launch_soft_dir(const struct gp_device *device, char *buf, size_t buf_bytes)
{
	*buf = '\0';
	if (*device->daemon->soft_root)
		snprintf(buf, buf_bytes, "GPUPRES_SOFT_DIR=%s/device-%u", device->daemon->soft_root,
			 device->ordinal);
}

struct launch_env {
	char **vars;
	size_t n;
	char *library_path;
	char job[64], socket[PATH_MAX + 32], driver[PATH_MAX + 32];
	char visible[128], soft_dir[PATH_MAX + 32];
};

static void launch_env_fini(struct launch_env *env)
{
	free(env->vars);
	free(env->library_path);
}

/*
 * The shim comes first in LD_LIBRARY_PATH, so that whatever opens libcuda.so.1 by name gets it; the
 * software device adds its own runtime library. The program's own folders follow.
 */
static int launch_library_path(const struct gp_job *job, const char *theirs, struct launch_env *env,
			       struct gp_err *err)
{
	const char *tree = job->daemon->tree;
	bool soft = job->daemon->options.device == GP_DEVICE_SOFT;

	if (asprintf(&env->library_path, "LD_LIBRARY_PATH=%s/lib/gpupres/shim%s%s%s%s%s", tree,
		     soft ? ":" : "", soft ? tree : "", soft ? "/lib/gpupres/soft-runtime" : "",
		     *theirs ? ":" : "", theirs) < 0) {
		env->library_path = NULL;
		return gp_err_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int launch_environment(const struct gp_job *job, const char *first, struct launch_env *env,
			      struct gp_err *err)
{
	const struct gp_daemon *daemon = job->daemon;
	const char *theirs = "", *s = first;
	size_t n_daemon = 0;
	int r;

	while (environ[n_daemon])
		n_daemon++;
	env->vars = calloc((size_t)job->n_env + n_daemon + LAUNCH_EXTRA_ENV, sizeof(*env->vars));
	if (!env->vars)
		return gp_err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < job->n_env; i++, s = launch_next(s)) {
		if (!strncmp(s, "LD_LIBRARY_PATH=", 16))
			theirs = s + 16;
		if (!launch_is_ours(s))
			env->vars[env->n++] = (char *)(uintptr_t)s;
	}
	/* The device of the job must be the daemon's. */
	launch_soft_dir(job->device, env->soft_dir, sizeof(env->soft_dir));
	if (*env->soft_dir)
		env->vars[env->n++] = env->soft_dir;
	for (size_t i = 0; i < n_daemon; i++) {
		if (*env->soft_dir && !strncmp(environ[i], "GPUPRES_SOFT_DIR=", 17))
			continue;
		if (!strncmp(environ[i], "GPUPRES_SOFT_", 13) ||
		    !strncmp(environ[i], "CUDA_DEVICE_ORDER=", 18))
			env->vars[env->n++] = environ[i];
	}
	r = launch_library_path(job, theirs, env, err);
	if (r < 0)
		return r;
	snprintf(env->job, sizeof(env->job), "GPUPRES_JOB=%" PRIu64, job->id);
	snprintf(env->socket, sizeof(env->socket), "GPUPRES_SOCKET=%s/shim.sock",
		 daemon->options.runtime_dir);
	snprintf(env->driver, sizeof(env->driver), "GPUPRES_DRIVER=%s", daemon->driver);
	env->vars[env->n++] = env->library_path;
	env->vars[env->n++] = env->job;
	env->vars[env->n++] = env->socket;
	env->vars[env->n++] = env->driver;
	if (daemon->options.device == GP_DEVICE_NVIDIA) {
		launch_visible(job->device->ordinal, env->visible, sizeof(env->visible));
		env->vars[env->n++] = env->visible;
	}
	return 0;
}

int gp_launch_supervisor(struct gp_job *job, pid_t *ret_pid, int *ret_pidfd, struct gp_err *err)
{
	char program[PATH_MAX + 64], id[32], control[PATH_MAX + 32], log[PATH_MAX],
		status[PATH_MAX];
	gp_auto_free char **argv = NULL;
	__attribute__((cleanup(launch_env_fini))) struct launch_env env = { 0 };
	const char *s = job->blob, *first_env;
	size_t n = 0;
	int r;

	/* Nobody's command may run with the rights of the daemon. */
	if (job->uid != job->daemon->uid)
		return gp_err_set(err, -EPERM, "this daemon cannot start jobs as uid %u",
				  (unsigned int)job->uid);
	argv = calloc((size_t)job->n_args + LAUNCH_EXTRA_ARGS + 1, sizeof(*argv));
	if (!argv)
		return gp_err_set(err, -ENOMEM, "out of memory");
	snprintf(program, sizeof(program), "%s/libexec/gpupres/gpupres-run", job->daemon->tree);
	snprintf(id, sizeof(id), "%" PRIu64, job->id);
	snprintf(control, sizeof(control), "%s/control.sock", job->daemon->options.runtime_dir);
	gp_job_path(job, "log", log, sizeof(log));
	gp_job_path(job, "status", status, sizeof(status));
	char *const fixed[] = { program, "--job",    id,     "--socket", control, "--log",
				log,	 "--status", status, "--chdir",	 NULL,	  "--" };
	memcpy(argv, fixed, sizeof(fixed));
	n = GP_ARRAY_SIZE(fixed);
	for (uint32_t i = 0; i < job->n_args; i++, s = launch_next(s))
		argv[n++] = (char *)(uintptr_t)s;
	first_env = s;
	for (uint32_t i = 0; i < job->n_env; i++)
		s = launch_next(s);
	argv[10] = (char *)(uintptr_t)s; /* the working directory is the last string */
	r = launch_environment(job, first_env, &env, err);
	if (r == 0)
		r = gp_launch(argv, env.vars, NULL, 0, ret_pid, ret_pidfd, err);
	/* Ours was raised, which programs that use select() do not bear. It starts nothing yet. */
	if (r == 0 && job->daemon->files.rlim_max &&
	    prlimit(*ret_pid, RLIMIT_NOFILE, &job->daemon->files, NULL) < 0)
		gp_log(GP_LOG_WARN, "limit", "job=%" PRIu64 " error=\"%s\"", job->id,
		       strerror(errno));
	return r;
}

/* Our own environment, with @variable (none if empty) in the place of what it replaces. */
static char **launch_mover_environment(char *variable)
{
	size_t name = strcspn(variable, "=") + 1, n = 0, n_kept = 0;
	char **vars;

	while (environ[n])
		n++;
	vars = calloc(n + 2, sizeof(*vars));
	if (!vars)
		return NULL;
	if (*variable)
		vars[n_kept++] = variable;
	for (size_t i = 0; i < n; i++) {
		if (!*variable || strncmp(environ[i], variable, name) != 0)
			vars[n_kept++] = environ[i];
	}
	return vars;
}

static int launch_seal(const char *bytes, size_t n_bytes, int *ret_memfd, struct gp_err *err)
{
	gp_auto_fd int fd = memfd_create("gpupres-command", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, bytes, n_bytes) != (ssize_t)n_bytes ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return gp_err_sys(err, -errno, "cannot put the command into a memfd");
	*ret_memfd = gp_take_fd(&fd);
	return 0;
}

/* What the supervisor is to run, in the order of daemon/spawn/protocol.h. */
static int launch_write_command(const struct gp_job *job, const struct launch_env *env,
				const char *cwd, FILE *out)
{
	const char *s = job->blob;

	fprintf(out, "%s/shim.sock%c", job->daemon->options.runtime_dir, 0);
	for (uint32_t i = 0; i < job->n_args; i++, s = launch_next(s))
		fwrite(s, 1, strlen(s) + 1, out);
	for (size_t i = 0; i < env->n; i++)
		fwrite(env->vars[i], 1, strlen(env->vars[i]) + 1, out);
	fwrite(cwd, 1, strlen(cwd) + 1, out);
	return fclose(out) == 0 ? 0 : -errno;
}

int gp_launch_pack(struct gp_job *job, struct gp_spawn_request *request, int *ret_memfd,
		   struct gp_err *err)
{
	__attribute__((cleanup(launch_env_fini))) struct launch_env env = { 0 };
	gp_auto_free char *bytes = NULL;
	const char *s = job->blob, *first_env;
	size_t n_bytes = 0;
	FILE *out;
	int r;

	for (uint32_t i = 0; i < job->n_args; i++)
		s = launch_next(s);
	first_env = s;
	for (uint32_t i = 0; i < job->n_env; i++)
		s = launch_next(s);
	r = launch_environment(job, first_env, &env, err);
	if (r < 0)
		return r;
	out = open_memstream(&bytes, &n_bytes);
	if (!out || launch_write_command(job, &env, s, out) < 0)
		return gp_err_set(err, -ENOMEM, "out of memory");
	if (n_bytes > GP_SPAWN_MAX_BLOB)
		return gp_err_set(err, -E2BIG, "arguments and environment take %zu bytes of %u",
				  n_bytes, GP_SPAWN_MAX_BLOB);
	request->n_args = job->n_args;
	request->n_env = (uint32_t)env.n;
	request->blob_bytes = (uint32_t)n_bytes;
	return launch_seal(bytes, n_bytes, ret_memfd, err);
}

int gp_launch_mover(struct gp_device *device, pid_t *ret_pid, int *ret_pidfd, struct gp_err *err)
{
	const struct gp_options *o = &device->daemon->options;
	char program[PATH_MAX + 64], control[PATH_MAX + 32], lock[PATH_MAX + 32];
	char ordinal[16], arena[32], swap[32], soft_dir[PATH_MAX + 32];
	bool inherits = device->mover_state[0] >= 0;
	gp_auto_free char **envp = NULL;

	launch_soft_dir(device, soft_dir, sizeof(soft_dir));
	envp = launch_mover_environment(soft_dir);
	if (!envp)
		return gp_err_set(err, -ENOMEM, "out of memory");
	snprintf(program, sizeof(program), "%s/libexec/gpupres/gpupres-mover",
		 device->daemon->tree);
	snprintf(control, sizeof(control), "%s/control.sock", o->runtime_dir);
	snprintf(ordinal, sizeof(ordinal), "%u", device->ordinal);
	snprintf(arena, sizeof(arena), "%" PRIu64, o->arena_bytes);
	snprintf(swap, sizeof(swap), "%" PRIu64, o->swap_bytes);
	gp_device_lock_path(device, lock, sizeof(lock));
	char *const argv[] = { program, "--socket", control, "--lock", lock, "--device", ordinal,
			       "--kind", o->device == GP_DEVICE_SOFT ? "soft" : "nvidia",
			       "--driver", device->daemon->driver, "--arena", arena, "--swap-dir",
			       (char *)(uintptr_t)o->swap_dir, "--swap-max", swap,
			       /* the predecessor's state, if there is one */
			       inherits ? "--arena-fd" : NULL, "3", "--ledger-fd", "4", "--swap-fd",
			       "5", NULL };

	return gp_launch(argv, envp, device->mover_state, inherits ? GP_MOVER_STATE_FDS : 0,
			 ret_pid, ret_pidfd, err);
}
