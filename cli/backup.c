/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/backup.h"

#include "base/wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define BACKUP_BUFFER_BYTES 65536

static int backup_write(int fd, const char *path, const char *bytes, size_t n_bytes,
			struct gp_err *err)
{
	for (size_t done = 0; done < n_bytes;) {
		ssize_t n = write(fd, bytes + done, n_bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gp_err_sys(err, -errno, "cannot write %s", path);
		done += (size_t)n;
	}
	return 0;
}

static int backup_copy(int from, int to, const char *path, uint64_t *ret_bytes, struct gp_err *err)
{
	char buf[BACKUP_BUFFER_BYTES];
	ssize_t n;
	int r;

	/* The daemon's copy is ours alone; its offset is where the daemon left it. */
	for (*ret_bytes = 0; (n = pread(from, buf, sizeof(buf), (off_t)*ret_bytes)) != 0;
	     *ret_bytes += (uint64_t)n) {
		if (n < 0)
			return gp_err_sys(err, -errno, "cannot read the daemon's copy");
		r = backup_write(to, path, buf, (size_t)n, err);
		if (r < 0)
			return r;
	}
	if (fsync(to) < 0)
		return gp_err_sys(err, -errno, "cannot write %s", path);
	return 0;
}

int gp_backup(struct gp_client *c, const char *path, uint64_t *ret_bytes, struct gp_err *err)
{
	gp_auto_fd int from = -1, to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct gp_wire_msg msg;
	int r;

	if (to < 0 && errno == EEXIST)
		return gp_err_set(err, -EEXIST, "%s exists: give another name, or remove it first",
				  path);
	if (to < 0)
		return gp_err_sys(err, -errno, "cannot create %s", path);
	r = gp_client_ask(c, GP_WIRE_BACKUP, 0, &msg, GP_WIRE_BACKED_UP, &from, err);
	if (r == 0 && from < 0)
		r = gp_err_set(err, -EPROTO, "the daemon answered BACKUP without a file");
	if (r == 0)
		r = backup_copy(from, to, path, ret_bytes, err);
	if (r < 0)
		unlink(path);
	return r;
}
