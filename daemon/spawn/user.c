/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/spawn/user.h"

#include <errno.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <pwd.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define USER_FIRST_GROUPS 64
/* NGROUPS_MAX: linux/limits.h */
#define USER_MAX_GROUPS 65536

static int user_list_groups(const struct passwd *entry, struct gp_user *user, struct gp_err *err)
{
	int room = USER_FIRST_GROUPS;

	for (;;) {
		gid_t *grown = reallocarray(user->groups, (size_t)room, sizeof(*grown));
		int n = room;

		if (!grown)
			return gp_err_set(err, -ENOMEM, "out of memory");
		user->groups = grown;
		if (getgrouplist(entry->pw_name, entry->pw_gid, grown, &n) >= 0) {
			user->n_groups = n;
			return 0;
		}
		if (room >= USER_MAX_GROUPS)
			return gp_err_set(err, -EIO, "cannot list the groups of %s",
					  entry->pw_name);
		room *= 2;
	}
}

int gp_user_find(uid_t uid, gid_t gid, struct gp_user *ret, struct gp_err *err)
{
	const struct passwd *entry;
	int r;

	*ret = (struct gp_user){ .uid = uid, .gid = gid };
	errno = 0;
	entry = getpwuid(uid);
	/* "Not found" has many names (getpwnam(3)); these are what else can be wrong. */
	if (!entry && (errno == EIO || errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return gp_err_sys(err, -errno, "cannot ask the user database for uid %u",
				  (unsigned int)uid);
	if (!entry)
		return 0;
	ret->gid = entry->pw_gid;
	r = user_list_groups(entry, ret, err);
	if (r < 0)
		gp_user_free(ret);
	return r < 0 ? r : 1;
}

void gp_user_free(struct gp_user *user)
{
	free(user->groups);
	user->groups = NULL;
	user->n_groups = 0;
}

int gp_user_limit(const struct gp_spawn_limit *limits, struct gp_err *err)
{
	for (int i = 0; i < GP_SPAWN_N_LIMITS; i++) {
		struct rlimit own;

		if (getrlimit((__rlimit_resource_t)i, &own) < 0)
			return gp_err_sys(err, -errno, "cannot read the limit %d", i);
		if (limits[i].hard < own.rlim_max)
			own.rlim_max = limits[i].hard;
		own.rlim_cur = limits[i].soft < own.rlim_max ? limits[i].soft : own.rlim_max;
		if (setrlimit((__rlimit_resource_t)i, &own) < 0)
			return gp_err_sys(err, -errno, "cannot set the limit %d", i);
	}
	return 0;
}

static bool user_is(uid_t uid, gid_t gid)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;

	return getresuid(&ruid, &euid, &suid) == 0 && getresgid(&rgid, &egid, &sgid) == 0 &&
	       ruid == uid && euid == uid && suid == uid && rgid == gid && egid == gid &&
	       sgid == gid;
}

int gp_user_become(const struct gp_user *user, struct gp_err *err)
{
	/* With these, capabilities or the way back to them would survive the change of uid. */
	if (prctl(PR_GET_SECUREBITS) != 0 || prctl(PR_GET_KEEPCAPS) != 0)
		return gp_err_set(err, -EPERM,
				  "gpupres-spawn has secure bits set: start it without them");
	if (setgroups((size_t)user->n_groups, user->groups) < 0 ||
	    setresgid(user->gid, user->gid, user->gid) < 0 ||
	    setresuid(user->uid, user->uid, user->uid) < 0)
		return gp_err_sys(err, -errno, "cannot become uid %u", (unsigned int)user->uid);
	if (!user_is(user->uid, user->gid) || (user->uid != 0 && setuid(0) == 0))
		return gp_err_set(err, -EPERM, "did not become uid %u", (unsigned int)user->uid);
	/* The keys of root's session are root's. Containers may forbid the call, and have none. */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS &&
	    errno != EPERM)
		return gp_err_sys(err, -errno, "cannot leave the keyring of root");
	return 0;
}
