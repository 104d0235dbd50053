/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/spawn/cgroup.h"

#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Whether folders can be made is tried with one that no job has. */
#define CGROUP_PROBE 0

struct cgroup_name {
	char text[32];
};

static struct cgroup_name cgroup_name(uint64_t job)
{
	struct cgroup_name name;

	snprintf(name.text, sizeof(name.text), "job-%" PRIu64, job);
	return name;
}

/* Where cgroup2 is mounted: "id parent dev root mountpoint options ... - type source options". */
static int cgroup_mount(char *buf, size_t buf_bytes, struct gp_err *err)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	gp_auto_free char *line = NULL;
	size_t room = 0;
	bool found = false;

	if (!file)
		return gp_err_sys(err, -errno, "cannot open /proc/self/mountinfo");
	while (!found && getline(&line, &room, file) >= 0) {
		char root[PATH_MAX], point[PATH_MAX];

		/* Of a mount of a part of the tree, own paths cannot be made. */
		found = strstr(line, " - cgroup2 ") &&
			sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) == 2 &&
			!strcmp(root, "/") && strlen(point) < buf_bytes;
		if (found)
			strcpy(buf, point);
	}
	fclose(file);
	return found ? 0 : gp_err_set(err, -ENOENT, "no cgroup2 is mounted");
}

/* Our own path below the mount: the line "0::/path". */
static int cgroup_own(char *buf, size_t buf_bytes, struct gp_err *err)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	gp_auto_free char *line = NULL;
	size_t room = 0;
	int r = -ENOENT;

	if (!file)
		return gp_err_sys(err, -errno, "cannot open /proc/self/cgroup");
	while (r == -ENOENT && getline(&line, &room, file) >= 0) {
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		r = (size_t)snprintf(buf, buf_bytes, "%s", line + 3) < buf_bytes ? 0
										 : -ENAMETOOLONG;
	}
	fclose(file);
	return r < 0 ? gp_err_sys(err, r, "cannot tell our own cgroup") : 0;
}

int gp_cgroup_open(struct gp_err *err)
{
	char mount[PATH_MAX / 2], own[PATH_MAX / 2], path[PATH_MAX];
	gp_auto_fd int fd = -1;
	int r;

	r = cgroup_mount(mount, sizeof(mount), err);
	if (r == 0)
		r = cgroup_own(own, sizeof(own), err);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s%s", mount, own);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return gp_err_sys(err, -errno, "cannot open the cgroup %s", path);
	if (mkdirat(fd, cgroup_name(CGROUP_PROBE).text, 0755) < 0 && errno != EEXIST)
		return gp_err_sys(err, -errno, "cannot make a cgroup in %s", path);
	unlinkat(fd, cgroup_name(CGROUP_PROBE).text, AT_REMOVEDIR);
	return gp_take_fd(&fd);
}

/* A file of the cgroup of @job; -ENOENT: there is no such cgroup, or the kernel has no such file.
 */
static int cgroup_file(int own, uint64_t job, const char *file, int flags)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", cgroup_name(job).text, file);
	fd = openat(own, path, flags | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

static bool cgroup_exists(int own, uint64_t job)
{
	return faccessat(own, cgroup_name(job).text, F_OK, 0) == 0;
}

int gp_cgroup_enter(int own, uint64_t job, struct gp_err *err)
{
	gp_auto_fd int fd = -1;

	if (mkdirat(own, cgroup_name(job).text, 0755) < 0 && errno != EEXIST)
		return gp_err_sys(err, -errno, "cannot make the cgroup %s", cgroup_name(job).text);
	fd = cgroup_file(own, job, "cgroup.procs", O_WRONLY);
	if (fd < 0)
		return gp_err_sys(err, fd, "cannot open the cgroup %s", cgroup_name(job).text);
	if (write(fd, "0", 1) != 1)
		return gp_err_sys(err, -errno, "cannot enter the cgroup %s", cgroup_name(job).text);
	return 0;
}

int gp_cgroup_kill(int own, uint64_t job, struct gp_err *err)
{
	gp_auto_fd int fd = cgroup_file(own, job, "cgroup.kill", O_WRONLY);

	if (fd == -ENOENT && !cgroup_exists(own, job))
		return 0;
	if (fd < 0)
		return gp_err_sys(err, fd, "cannot kill the cgroup %s", cgroup_name(job).text);
	if (write(fd, "1", 1) != 1)
		return gp_err_sys(err, -errno, "cannot kill the cgroup %s", cgroup_name(job).text);
	return 0;
}

static bool cgroup_is_populated(int events)
{
	char text[256];
	ssize_t n = pread(events, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return strstr(text, "populated 1") != NULL;
}

int gp_cgroup_remove(int own, uint64_t job, int timeout_ms, struct gp_err *err)
{
	uint64_t end_ns = gp_now_ns() + (uint64_t)timeout_ms * GP_NS_PER_MS, now_ns;
	gp_auto_fd int events = cgroup_file(own, job, "cgroup.events", O_RDONLY);
	struct pollfd p = { .fd = events, .events = POLLPRI };

	if (events == -ENOENT)
		return 0;
	if (events < 0)
		return gp_err_sys(err, events, "cannot look at the cgroup %s",
				  cgroup_name(job).text);
	/* The kernel signals each change of the file. */
	while (cgroup_is_populated(events) && (now_ns = gp_now_ns()) < end_ns)
		poll(&p, 1, (int)((end_ns - now_ns) / GP_NS_PER_MS) + 1);
	if (unlinkat(own, cgroup_name(job).text, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return gp_err_sys(err, -errno, "cannot remove the cgroup %s",
				  cgroup_name(job).text);
	return 0;
}
