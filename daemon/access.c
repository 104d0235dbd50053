/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/access.h"

#include "base/config.h"
#include "daemon/job.h"
#include "daemon/peer.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

/* include/uapi/asm-generic/socket.h; the C library's header may be older. */
#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59 /* Linux 4.13 */
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* NGROUPS_MAX of the kernel is 65536; who is in more than these is no admin by the others. */
#define ACCESS_MAX_GROUPS 4096

static bool access_number(const char *text, unsigned int *ret)
{
	unsigned long n;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	n = strtoul(text, &end, 10);
	/* The last number is no id: it means "leave as it is" to the kernel. */
	if (errno || *end || n >= (uid_t)-1)
		return false;
	*ret = (unsigned int)n;
	return true;
}

int gp_access_find_group(const char *name, gid_t *ret, struct gp_err *err)
{
	const struct group *group;

	if (access_number(name, ret))
		return 0;
	group = getgrnam(name);
	if (!group)
		return gp_err_set(err, -ENOENT, "there is no group %s", name);
	*ret = group->gr_gid;
	return 0;
}

static int access_find_user(const char *name, uid_t *ret, struct gp_err *err)
{
	const struct passwd *user;

	if (access_number(name, ret))
		return 0;
	user = getpwnam(name);
	if (!user)
		return gp_err_set(err, -ENOENT, "there is no user %s", name);
	*ret = user->pw_uid;
	return 0;
}

static int access_add(unsigned int **ids, size_t *n, unsigned int id, struct gp_err *err)
{
	unsigned int *grown = reallocarray(*ids, *n + 1, sizeof(*grown));

	if (!grown)
		return gp_err_set(err, -ENOMEM, "out of memory");
	*ids = grown;
	grown[(*n)++] = id;
	return 0;
}

static int access_add_admin(struct gp_admins *admins, const char *name, struct gp_err *err)
{
	bool is_group = *name == '@';
	unsigned int id = 0;
	int r = is_group ? gp_access_find_group(name + 1, &id, err)
			 : access_find_user(name, &id, err);

	if (r < 0)
		return r;
	return is_group ? access_add(&admins->gids, &admins->n_gids, id, err)
			: access_add(&admins->uids, &admins->n_uids, id, err);
}

int gp_access_read_admins(const char *list, struct gp_admins *ret, struct gp_err *err)
{
	char name[GP_CONFIG_NAME_BYTES];
	int r = 0;

	*ret = (struct gp_admins){ 0 };
	while (r == 0 && gp_config_next_name(&list, name))
		r = access_add_admin(ret, name, err);
	if (r < 0)
		gp_access_free_admins(ret);
	return r;
}

void gp_access_free_admins(struct gp_admins *admins)
{
	free(admins->uids);
	free(admins->gids);
	*admins = (struct gp_admins){ 0 };
}

static bool access_has(const unsigned int *ids, size_t n, unsigned int id)
{
	for (size_t i = 0; i < n; i++) {
		if (ids[i] == id)
			return true;
	}
	return false;
}

bool gp_access_is_admin(const struct gp_daemon *daemon, uid_t uid, gid_t gid, const gid_t *groups,
			size_t n_groups)
{
	const struct gp_admins *a = &daemon->admins;

	/* A daemon of one user has refused all others: see gp_access_check_role. */
	if (!daemon->options.system || uid == 0 || access_has(a->uids, a->n_uids, uid) ||
	    access_has(a->gids, a->n_gids, gid))
		return true;
	for (size_t i = 0; i < n_groups; i++) {
		if (access_has(a->gids, a->n_gids, groups[i]))
			return true;
	}
	return false;
}

int gp_access_identify(struct gp_peer *peer, struct gp_err *err)
{
	const struct gp_daemon *daemon = peer->daemon;
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	gid_t groups[ACCESS_MAX_GROUPS];

	if (getsockopt(peer->source.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return gp_err_sys(err, -errno, "cannot tell who has connected");
	peer->uid = cred.uid;
	peer->gid = cred.gid;
	peer->pid = cred.pid;
	len = sizeof(groups);
	if (!daemon->admins.n_gids ||
	    getsockopt(peer->source.fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
		len = 0;
	peer->is_admin =
		gp_access_is_admin(daemon, cred.uid, cred.gid, groups, len / sizeof(groups[0]));
	return 0;
}

int gp_access_open_process(const struct gp_peer *peer, struct gp_err *err)
{
	socklen_t len = sizeof(int);
	int fd = -1;

	if (getsockopt(peer->source.fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0)
		return fd;
	if (errno == ENOPROTOOPT)
		fd = pidfd_open(peer->pid, 0);
	if (fd < 0)
		return gp_err_sys(err, -errno, "cannot watch process %d", peer->pid);
	return fd;
}

bool gp_access_may(const struct gp_peer *peer, const struct gp_job *job)
{
	return peer->is_admin || peer->uid == job->uid;
}

int gp_access_check_role(const struct gp_peer *peer, unsigned int role, struct gp_err *err)
{
	const struct gp_daemon *daemon = peer->daemon;
	bool for_jobs = role == GP_ROLE_SHIM || role == GP_ROLE_SUPERVISOR;

	if (!daemon->options.system && peer->uid != daemon->uid)
		return gp_err_set(err, -EPERM, "this daemon serves uid %u only",
				  (unsigned int)daemon->uid);
	/* A supervisor that runs as the daemon's user may come either way. */
	if (peer->on_shim_socket ? !for_jobs : role == GP_ROLE_SHIM)
		return gp_err_set(err, -EPERM, "role %u is not served on this socket", role);
	return 0;
}
