/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/limits.h"
#include "daemon/spawn/check.h"
#include "daemon/spawn/user.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAEMON_UID 500

static const char command[] = "/run/x/shim.sock\0/bin/echo\0hi\0A=1\0/home";
static char folder[] = "/tmp/gp-test-spawn-XXXXXX";

static int sealed(const char *bytes, size_t n, unsigned int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, bytes, n), n);
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW)

static int file(const char *name, int flags)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_CREAT | O_CLOEXEC | flags, 0600);
	CHECK(fd >= 0);
	return fd;
}

struct fixture {
	struct gp_spawn_policy policy;
	struct gp_spawn_request request;
	int fds[3];
	size_t len, n_fds;
	uid_t caller;
	struct gp_err err;
};

/* What gpupresd would send, this process being it. */
static struct fixture sound(void)
{
	struct fixture f = {
		.policy = { .for_uid = geteuid(), .min_uid = 1000 },
		.request = { .version = GP_SPAWN_VERSION,
			     .type = GP_SPAWN_START,
			     .job = 7,
			     .uid = 1000,
			     .gid = 1000,
			     .n_args = 2,
			     .n_env = 1,
			     .blob_bytes = sizeof(command),
			     .umask = 022 },
		.fds = { sealed(command, sizeof(command), SEALS), file("log", O_WRONLY | O_APPEND),
			 file("status", O_WRONLY) },
		.len = sizeof(struct gp_spawn_request),
		.n_fds = 3,
		.caller = geteuid(),
	};

	return f;
}

static int verdict(struct fixture *f)
{
	int r = gp_spawn_check(&f->policy, &f->request, f->len, f->fds, f->n_fds, f->caller,
			       &f->err);

	for (size_t i = 0; i < GP_ARRAY_SIZE(f->fds); i++)
		close(f->fds[i]);
	return r;
}

#define VERDICT(code, change)                                                                      \
	do {                                                                                       \
		struct fixture f = sound();                                                        \
		change;                                                                            \
		CHECK_EQ(verdict(&f), code);                                                       \
	} while (0)

static void replace(struct fixture *f, int i, int fd)
{
	close(f->fds[i]);
	f->fds[i] = fd;
}

static void test_start_when_sound_then_accepted(void)
{
	VERDICT(0, (void)0);
	VERDICT(0, f.request.uid = 4000000000u);
	VERDICT(0, (f.policy.allow_root = true, f.request.uid = 0, f.request.gid = 0));
	VERDICT(0, f.request.limits[7] = ((struct gp_spawn_limit){ 10, 20 }));
}

static void test_start_when_the_user_is_not_allowed_then_refused(void)
{
	VERDICT(-EPERM, f.request.uid = 0);
	VERDICT(-EPERM, f.request.uid = 999);
	VERDICT(-EBADMSG, f.request.uid = UINT32_MAX);
	VERDICT(-EBADMSG, f.request.gid = UINT32_MAX);
	VERDICT(-EPERM, (f.policy.allow_root = true, f.request.uid = 1));
}

static void test_group_when_the_user_is_unknown_then_none_of_the_system(void)
{
	struct gp_spawn_policy policy = { .min_uid = 1000 };
	struct gp_spawn_request r = { .uid = 12345, .gid = 12345 };
	struct gp_err err;

	CHECK_EQ(gp_spawn_check_group(&policy, &r, &err), 0);
	r.gid = 0;
	CHECK_EQ(gp_spawn_check_group(&policy, &r, &err), -EPERM);
	r.gid = 999;
	CHECK_EQ(gp_spawn_check_group(&policy, &r, &err), -EPERM);
	policy.allow_root = true;
	CHECK_EQ(gp_spawn_check_group(&policy, &r, &err), -EPERM);
	r.uid = 0;
	CHECK_EQ(gp_spawn_check_group(&policy, &r, &err), 0);
}

static void test_request_when_from_somebody_else_then_refused(void)
{
	VERDICT(-EPERM, f.caller = 1001);
	VERDICT(-EPERM, (f.policy.for_uid = DAEMON_UID, f.caller = 1001));
}

static void test_request_when_malformed_then_refused(void)
{
	VERDICT(-EBADMSG, f.len--);
	VERDICT(-EBADMSG, f.len = 0);
	VERDICT(-EPROTO, f.request.version++);
	VERDICT(-EBADMSG, f.request.type = 0);
	VERDICT(-EBADMSG, f.request.type = GP_SPAWN_TYPE_MAX_);
	VERDICT(-EBADMSG, f.request.job = 0);
	VERDICT(-EBADMSG, f.request.reserved = 1);
	VERDICT(-EBADMSG, f.request.n_args = 0);
	VERDICT(-EBADMSG, f.request.blob_bytes = 0);
	VERDICT(-EBADMSG, f.request.blob_bytes = GP_SPAWN_MAX_BLOB + 1);
	VERDICT(-EBADMSG, f.request.umask = 01000);
	VERDICT(-EBADMSG, f.request.limits[3] = ((struct gp_spawn_limit){ 20, 10 }));
	VERDICT(-EBADMSG, f.n_fds = 2);
	VERDICT(-EBADMSG, f.n_fds = 4);
	VERDICT(-EBADMSG, f.request.type = GP_SPAWN_KILL); /* with files */
}

static void forget(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	CHECK_EQ(unlink(path), 0);
}

static void test_files_when_not_what_they_should_be_then_refused(void)
{
	char byte = 0;

	VERDICT(-EPERM, replace(&f, 0, sealed(command, sizeof(command), F_SEAL_WRITE)));
	VERDICT(-EPERM, replace(&f, 0, file("plain", O_RDWR)));
	VERDICT(-EBADMSG, replace(&f, 0, sealed(&byte, 1, SEALS)));
	VERDICT(-EPERM, replace(&f, 1, file("log", O_WRONLY))); /* could be overwritten */
	VERDICT(-EPERM, replace(&f, 1, file("log", O_RDWR | O_APPEND)));
	VERDICT(-EPERM, (replace(&f, 1, file("gone", O_WRONLY | O_APPEND)), forget("gone")));
	VERDICT(-EPERM, replace(&f, 1, open("/dev/null", O_WRONLY | O_APPEND)));
	VERDICT(-EPERM, replace(&f, 2, open("/proc/self/exe", O_RDONLY)));
	VERDICT(-EPERM, replace(&f, 2, open(folder, O_RDONLY | O_DIRECTORY)));
	/* Root may ask, but not give away what is gpupresd's. */
	if (geteuid() == 0) {
		VERDICT(-EPERM, (f.policy.for_uid = DAEMON_UID, f.caller = DAEMON_UID));
	}
}

static void test_signal_when_its_number_or_user_is_wrong_then_refused(void)
{
	VERDICT(0, (f.request.type = GP_SPAWN_SIGNAL, f.n_fds = 1, f.request.signo = 15));
	VERDICT(-EBADMSG, (f.request.type = GP_SPAWN_SIGNAL, f.n_fds = 1));
	VERDICT(-EBADMSG, (f.request.type = GP_SPAWN_SIGNAL, f.n_fds = 1, f.request.signo = 65));
	VERDICT(-EPERM, (f.request.type = GP_SPAWN_SIGNAL, f.n_fds = 1, f.request.signo = 15,
			 f.request.uid = 0));
}

static void test_command_when_its_strings_do_not_add_up_then_refused(void)
{
	struct gp_spawn_request r = sound().request;
	struct gp_spawn_command c;
	struct gp_err err;
	int fd = sealed(command, sizeof(command), SEALS);

	CHECK_EQ(gp_spawn_read_command(&r, fd, &c, &err), 0);
	CHECK_STR(c.socket, "/run/x/shim.sock");
	CHECK_STR(c.args[0], "/bin/echo");
	CHECK_STR(c.args[1], "hi");
	CHECK(!c.args[2]);
	CHECK_STR(c.env[0], "A=1");
	CHECK(!c.env[1]);
	CHECK_STR(c.cwd, "/home");
	gp_spawn_free_command(&c);
	r.n_env++;
	CHECK_EQ(gp_spawn_read_command(&r, fd, &c, &err), -EBADMSG);
	r.n_env = UINT32_MAX;
	r.n_args = 4;
	CHECK_EQ(gp_spawn_read_command(&r, fd, &c, &err), -EBADMSG);
	r = sound().request;
	r.blob_bytes--; /* not terminated */
	CHECK_EQ(gp_spawn_read_command(&r, fd, &c, &err), -EBADMSG);
	close(fd);
}

static void test_user_when_unknown_then_the_group_alone(void)
{
	struct gp_user user;
	struct gp_err err;

	CHECK_EQ(gp_user_find(3999999999u, 1234, &user, &err), 0);
	CHECK_EQ(user.gid, 1234);
	CHECK_EQ(user.n_groups, 0);
	CHECK_EQ(gp_user_find(0, 1234, &user, &err), 1);
	CHECK_EQ(user.gid, 0);
	CHECK(user.n_groups > 0);
	gp_user_free(&user);
}

static void test_limits_when_over_our_own_then_no_more_than_these(void)
{
	struct gp_limits l;
	struct rlimit had, has;
	struct gp_err err;

	gp_limits_init(&l);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &had), 0);
	l.limits[RLIMIT_NOFILE] = (struct gp_spawn_limit){ had.rlim_max + 1, UINT64_MAX };
	l.limits[RLIMIT_CORE] = (struct gp_spawn_limit){ 0, 0 };
	CHECK_EQ(gp_user_limit(l.limits, &err), 0);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &has), 0);
	CHECK_EQ(has.rlim_max, had.rlim_max);
	CHECK_EQ(has.rlim_cur, had.rlim_max);
	CHECK_EQ(getrlimit(RLIMIT_CORE, &has), 0);
	CHECK_EQ(has.rlim_max, 0);
}

static void test_limits_when_read_from_a_process_then_its_own(void)
{
	struct gp_limits l, again;
	char text[GP_LIMITS_TEXT_BYTES];
	struct rlimit nofile;
	mode_t mask = umask(0137);

	CHECK_EQ(gp_limits_read(getpid(), &l), 0);
	umask(mask);
	CHECK_EQ(l.umask, 0137);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &nofile), 0);
	CHECK_EQ(l.limits[RLIMIT_NOFILE].soft, nofile.rlim_cur);
	CHECK_EQ(l.limits[RLIMIT_NOFILE].hard, nofile.rlim_max);
	gp_limits_format(&l, text);
	CHECK_EQ(gp_limits_parse(text, &again), 0);
	CHECK_EQ(again.umask, l.umask);
	CHECK(!memcmp(l.limits, again.limits, sizeof(l.limits)));
	CHECK(gp_limits_parse("", &l) < 0);
	CHECK(gp_limits_parse("0022 1:2", &l) < 0);
	strcat(text, " 1:2");
	CHECK(gp_limits_parse(text, &l) < 0);
}

static void test_limits_when_behind_a_command_then_found_there_and_only_there(void)
{
	uint32_t bytes = sizeof(command);
	struct gp_limits l, found;
	char *blob = malloc(bytes);
	gid_t gid;

	CHECK(blob);
	memcpy(blob, command, bytes);
	gp_limits_init(&l);
	l.umask = 077;
	CHECK_EQ(gp_limits_find(blob, bytes, 5, &gid, &found), 0);
	CHECK_EQ(gp_limits_append(&blob, &bytes, 4242, &l), 0);
	CHECK_EQ(gp_limits_find(blob, bytes, 5, &gid, &found), bytes - sizeof(command));
	CHECK_EQ(gid, 4242);
	CHECK_EQ(found.umask, l.umask);
	CHECK(!memcmp(l.limits, found.limits, sizeof(l.limits)));
	CHECK_EQ(gp_limits_find(blob, bytes, 4, &gid, &found), 0);
	CHECK_EQ(gp_limits_find(blob, bytes - 1, 5, &gid, &found), 0);
	CHECK_EQ(gp_limits_find(blob, 1, 5, &gid, &found), 0);
	CHECK_EQ(gp_limits_find(NULL, 0, 5, &gid, &found), 0);
	free(blob);
}

int main(void)
{
	char path[160];

	CHECK(mkdtemp(folder));
	test_start_when_sound_then_accepted();
	test_start_when_the_user_is_not_allowed_then_refused();
	test_group_when_the_user_is_unknown_then_none_of_the_system();
	test_request_when_from_somebody_else_then_refused();
	test_request_when_malformed_then_refused();
	test_files_when_not_what_they_should_be_then_refused();
	test_signal_when_its_number_or_user_is_wrong_then_refused();
	test_command_when_its_strings_do_not_add_up_then_refused();
	test_user_when_unknown_then_the_group_alone();
	test_limits_when_read_from_a_process_then_its_own();
	test_limits_when_behind_a_command_then_found_there_and_only_there();
	test_limits_when_over_our_own_then_no_more_than_these();
	snprintf(path, sizeof(path), "rm -rf %s", folder);
	CHECK_EQ(system(path), 0);
	return 0;
}
