/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/activation.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define ACTIVATION_FIRST_FD 3 /* SD_LISTEN_FDS_START */

static int activation_number(const char *text, long max, long *ret)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*ret = strtol(text, &end, 10);
	return errno || *end || *ret > max ? -EINVAL : 0;
}

/* The number of fds that are for us; 0 without any, -EINVAL. */
static int activation_count(struct gp_err *err)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	long for_pid, n;

	if (!pid || !fds)
		return 0;
	if (activation_number(pid, INT32_MAX, &for_pid) < 0)
		return gp_err_set(err, -EINVAL, "LISTEN_PID=%s is no process", pid);
	if (for_pid != getpid())
		return 0;
	if (activation_number(fds, GP_ACTIVATION_MAX_FDS, &n) < 0)
		return gp_err_set(err, -EINVAL, "LISTEN_FDS=%s is no number of sockets", fds);
	return (int)n;
}

static int activation_adopt(struct gp_activation *activation, int n, struct gp_err *err)
{
	const char *names = getenv("LISTEN_FDNAMES");

	activation->names = strdup(names ? names : "");
	if (!activation->names)
		return gp_err_set(err, -ENOMEM, "out of memory");
	for (int i = 0; i < n; i++) {
		int fd = ACTIVATION_FIRST_FD + i;

		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return gp_err_sys(err, -errno, "LISTEN_FDS=%d, but fd %d", n, fd);
		activation->fds[i] = fd;
		activation->n = i + 1;
	}
	return 0;
}

int gp_activation_init(struct gp_activation *activation, struct gp_err *err)
{
	int n, r;

	*activation = (struct gp_activation){ 0 };
	n = activation_count(err);
	r = n > 0 ? activation_adopt(activation, n, err) : n;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return r;
}

/* The index of @name's first fd that is still there, or -1. */
static int activation_find(const struct gp_activation *activation, const char *name)
{
	const char *s = activation->names;
	size_t len = strlen(name);

	for (int i = 0; i < activation->n; i++) {
		size_t field = strcspn(s, ":");

		if (field == len && !strncmp(s, name, len) && activation->fds[i] >= 0)
			return i;
		s += field + (s[field] == ':');
	}
	return -1;
}

static int activation_option(int fd, int option)
{
	int value = -1;
	socklen_t bytes = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) < 0 ? -1 : value;
}

int gp_activation_take(struct gp_activation *activation, const char *name, struct gp_err *err)
{
	int i = activation_find(activation, name), fd;

	if (i < 0)
		return -ENOENT;
	fd = activation->fds[i];
	if (activation_option(fd, SO_DOMAIN) != AF_UNIX ||
	    activation_option(fd, SO_TYPE) != SOCK_SEQPACKET ||
	    activation_option(fd, SO_ACCEPTCONN) != 1)
		return gp_err_set(err, -EINVAL,
				  "the socket %s that was passed is no listening unix socket for "
				  "packets: use ListenSequentialPacket=",
				  name);
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return gp_err_sys(err, -errno, "cannot set up the socket %s that was passed", name);
	return gp_take_fd(&activation->fds[i]);
}

void gp_activation_fini(struct gp_activation *activation)
{
	for (int i = 0; i < activation->n; i++) {
		if (activation->fds[i] >= 0)
			gp_log(GP_LOG_WARN, "socket_unused", "fd=%d names=\"%s\"",
			       activation->fds[i], activation->names);
		gp_close_fd(&activation->fds[i]);
	}
	free(activation->names);
	*activation = (struct gp_activation){ 0 };
}
