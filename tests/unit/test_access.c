/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/access.h"
#include "daemon/job.h"
#include "daemon/peer.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_admins_when_ids_are_listed_then_they_and_root_are(void)
{
	struct gp_daemon d = { .options.system = true };
	const gid_t groups[] = { 7, 2000 };
	struct gp_err err;

	CHECK_EQ(gp_access_read_admins("1000, @2000 root,@root", &d.admins, &err), 0);
	CHECK(gp_access_is_admin(&d, 0, 5, NULL, 0));
	CHECK(gp_access_is_admin(&d, 1000, 5, NULL, 0));
	CHECK(gp_access_is_admin(&d, 1001, 2000, NULL, 0));
	CHECK(gp_access_is_admin(&d, 1001, 5, groups, 2));
	CHECK(!gp_access_is_admin(&d, 1001, 5, groups, 1));
	CHECK(!gp_access_is_admin(&d, 2000, 1000, NULL, 0));
	gp_access_free_admins(&d.admins);
	CHECK_EQ(gp_access_read_admins("", &d.admins, &err), 0);
	CHECK(gp_access_is_admin(&d, 0, 5, NULL, 0));
	CHECK(!gp_access_is_admin(&d, 1000, 2000, NULL, 0));
}

static void test_admins_when_one_is_unknown_then_refused(void)
{
	const char *const lists[] = { "4294967295", "no-such-user-here", "1000,@no-such-group-here",
				      "10x", "@" };
	struct gp_admins admins;
	struct gp_err err;

	for (size_t i = 0; i < GP_ARRAY_SIZE(lists); i++) {
		CHECK(gp_access_read_admins(lists[i], &admins, &err) < 0);
		CHECK(!admins.uids && !admins.gids);
	}
}

static void test_user_mode_when_anybody_asks_then_all_is_theirs(void)
{
	const struct gp_daemon d = { .options.system = false };

	CHECK(gp_access_is_admin(&d, 1234, 1234, NULL, 0));
}

static void test_job_when_of_another_user_then_only_for_admins(void)
{
	struct gp_peer peer = { .uid = 1000 };
	struct gp_job job = { .uid = 1000 };

	CHECK(gp_access_may(&peer, &job));
	job.uid = 1001;
	CHECK(!gp_access_may(&peer, &job));
	peer.is_admin = true;
	CHECK(gp_access_may(&peer, &job));
}

static void test_role_when_on_the_shim_socket_then_shims_and_supervisors_only(void)
{
	struct gp_daemon daemon = { .options.system = true, .uid = 77 };
	struct gp_peer peer = { .daemon = &daemon, .uid = 1000, .on_shim_socket = true };
	struct gp_err err;

	CHECK_EQ(gp_access_check_role(&peer, GP_ROLE_SHIM, &err), 0);
	CHECK_EQ(gp_access_check_role(&peer, GP_ROLE_SUPERVISOR, &err), 0);
	CHECK_EQ(gp_access_check_role(&peer, GP_ROLE_CLI, &err), -EPERM);
	CHECK_EQ(gp_access_check_role(&peer, GP_ROLE_MOVER, &err), -EPERM);
	CHECK_EQ(gp_access_check_role(&peer, 99, &err), -EPERM);
	peer.on_shim_socket = false;
	CHECK_EQ(gp_access_check_role(&peer, GP_ROLE_CLI, &err), 0);
	CHECK_EQ(gp_access_check_role(&peer, GP_ROLE_SHIM, &err), -EPERM);
	daemon.options.system = false;
	CHECK_EQ(gp_access_check_role(&peer, GP_ROLE_CLI, &err), -EPERM);
}

static void test_identity_when_a_connection_is_made_then_as_the_kernel_says(void)
{
	struct gp_daemon daemon = { .options.system = true };
	struct gp_peer peer = { .daemon = &daemon };
	struct gp_err err;
	int sv[2], fd;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	peer.source.fd = sv[0];
	CHECK_EQ(gp_access_identify(&peer, &err), 0);
	CHECK_EQ(peer.uid, geteuid());
	CHECK_EQ(peer.gid, getegid());
	CHECK_EQ(peer.pid, getpid());
	CHECK_EQ(peer.is_admin, geteuid() == 0);
	fd = gp_access_open_process(&peer, &err);
	CHECK(fd >= 0);
	CHECK_EQ(pidfd_send_signal(fd, 0, NULL, 0), 0);
	close(fd);
	close(sv[0]);
	close(sv[1]);
}

int main(void)
{
	test_admins_when_ids_are_listed_then_they_and_root_are();
	test_admins_when_one_is_unknown_then_refused();
	test_user_mode_when_anybody_asks_then_all_is_theirs();
	test_job_when_of_another_user_then_only_for_admins();
	test_role_when_on_the_shim_socket_then_shims_and_supervisors_only();
	test_identity_when_a_connection_is_made_then_as_the_kernel_says();
	return 0;
}
