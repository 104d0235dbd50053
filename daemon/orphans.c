/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/orphans.h"

#include "base/log.h"
#include "daemon/spawner.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

/* Both lines stand in the environment that the process was started with; see launch_environment. */
static bool orphan_is_of(pid_t pid, const char *job, const char *socket)
{
	gp_auto_free char *variable = NULL;
	bool is_job = false, is_ours = false;
	size_t room = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	file = fopen(path, "re"); /* fails for those of others */
	while (file && getdelim(&variable, &room, '\0', file) > 0) {
		is_job |= !strcmp(variable, job);
		is_ours |= !strcmp(variable, socket);
	}
	if (file)
		fclose(file);
	return is_job && is_ours; /* a process that has ended has no environment any more */
}

size_t gp_orphans_kill(const struct gp_job *job)
{
	char id[64], socket[PATH_MAX + 32];
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t n = 0;

	/* Another user's we can neither see nor signal; they are in a cgroup of their own. */
	if (job->daemon->options.system) {
		if (proc)
			closedir(proc);
		gp_spawner_kill(job->daemon, job->id);
		return 0;
	}
	snprintf(id, sizeof(id), "GPUPRES_JOB=%" PRIu64, job->id);
	snprintf(socket, sizeof(socket), "GPUPRES_SOCKET=%s/shim.sock",
		 job->daemon->options.runtime_dir);
	if (!proc)
		gp_log(GP_LOG_ERR, "orphans", "job=%" PRIu64 " error=\"%s\"", job->id,
		       strerror(errno));
	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		/* Of the process that is looked at now: a number that is used anew is spared. */
		gp_auto_fd int pidfd = pid > 0 && pid != getpid() ? pidfd_open(pid, 0) : -1;

		if (pidfd < 0 || !orphan_is_of(pid, id, socket))
			continue;
		if (pidfd_send_signal(pidfd, SIGKILL, NULL, 0) == 0)
			n++;
		else if (errno != ESRCH)
			gp_log(GP_LOG_WARN, "orphans", "job=%" PRIu64 " pid=%d error=\"%s\"",
			       job->id, pid, strerror(errno));
	}
	if (proc)
		closedir(proc);
	return n;
}
