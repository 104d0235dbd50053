/* SPDX-License-Identifier: Apache-2.0 */
/* What the service manager is told, and the sockets that it passes. */
#include "base/list.h"
#include "base/time.h"
#include "daemon/activation.h"
#include "daemon/notify.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define LIMIT_NS (10 * GP_NS_PER_SEC)

static struct gp_loop loop;
static struct gp_notify notify;
static char folder[64];
static int manager = -1; /* the manager's end */
static const char *described = "0 jobs";

static void describe(struct gp_notify *n, char *buf, size_t bytes)
{
	CHECK(n == &notify);
	snprintf(buf, bytes, "%s", described);
}

static void manager_open(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = strlen(name);

	memcpy(addr.sun_path, name, len);
	if (*name == '@')
		addr.sun_path[0] = '\0';
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(manager >= 0);
	CHECK_EQ(bind(manager, (struct sockaddr *)&addr,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
		 0);
	setenv("NOTIFY_SOCKET", name, 1);
}

/* The next datagram, or "" when there is none now. */
static const char *told(void)
{
	static char text[512];
	ssize_t n = recv(manager, text, sizeof(text) - 1, 0);

	CHECK(n >= 0 || errno == EAGAIN);
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

struct until {
	struct gp_source source;
	struct gp_timer limit;
	const char *wanted;
	int n;
};

static void until_readable(struct gp_source *source, uint32_t events)
{
	struct until *u = gp_container_of(source, struct until, source);

	if (strstr(told(), u->wanted) && --u->n == 0)
		loop.stop = true;
}

static void until_limit(struct gp_timer *timer)
{
	CHECK(!"told in time");
}

/* Runs the loop until the manager was told @wanted @n times. */
static void run_until_told(const char *wanted, int n)
{
	struct until u = { .source = { .fd = manager, .dispatch = until_readable },
			   .wanted = wanted,
			   .n = n };
	struct gp_err err;

	gp_timer_init(&u.limit, until_limit);
	gp_timer_arm(&loop, &u.limit, gp_now_ns() + LIMIT_NS);
	CHECK_EQ(gp_loop_add(&loop, &u.source, EPOLLIN, &err), 0);
	loop.stop = false;
	CHECK_EQ(gp_loop_run(&loop, &err), 0);
	gp_loop_remove(&loop, &u.source);
	gp_timer_disarm(&u.limit);
}

static void begin(const char *name)
{
	struct gp_err err;

	if (name)
		manager_open(name);
	CHECK_EQ(gp_loop_init(&loop, &err), 0);
	CHECK_EQ(gp_notify_init(&notify, &loop, describe, &err), 0);
	CHECK(!getenv("NOTIFY_SOCKET") && !getenv("WATCHDOG_USEC") && !getenv("WATCHDOG_PID"));
}

static void end(void)
{
	gp_notify_fini(&notify);
	CHECK(!loop.first_timer);
	gp_loop_fini(&loop);
	gp_close_fd(&manager);
}

static const char *in_folder(const char *name)
{
	static char path[100];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void test_ready_when_path_then_told_with_status(void)
{
	begin(in_folder("path"));
	gp_notify_ready(&notify);
	CHECK_STR(told(), "READY=1\nSTATUS=0 jobs\n");
	gp_notify_stopping(&notify);
	CHECK_STR(told(), "STOPPING=1\n");
	end();
}

static void test_ready_when_abstract_name_then_told(void)
{
	char name[64];

	snprintf(name, sizeof(name), "@gp-test-notify-%d", getpid());
	begin(name);
	gp_notify_ready(&notify);
	CHECK_STR(told(), "READY=1\nSTATUS=0 jobs\n");
	end();
}

static void test_all_when_no_manager_then_nothing_happens(void)
{
	static struct gp_notify zeroed;

	begin(NULL);
	gp_notify_changed(&notify);
	gp_notify_ready(&notify);
	gp_notify_reloading(&notify);
	gp_notify_stopping(&notify);
	end();
	gp_notify_changed(&zeroed);
	gp_notify_fini(&zeroed);
}

static void test_reload_when_ended_then_time_first_and_ready_after(void)
{
	uint64_t before_us = gp_now_ns() / 1000, us;
	const char *text;

	begin(in_folder("reload"));
	gp_notify_ready(&notify);
	told();
	gp_notify_reloading(&notify);
	text = told();
	CHECK_EQ(sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%" SCNu64, &us), 1);
	CHECK(us >= before_us && us <= gp_now_ns() / 1000);
	gp_notify_ready(&notify);
	CHECK_STR(told(), "READY=1\n");
	end();
}

static void test_changed_when_text_differs_then_told_once(void)
{
	begin(in_folder("status"));
	gp_notify_ready(&notify);
	told();
	described = "1 jobs";
	gp_notify_changed(&notify);
	gp_notify_changed(&notify);
	CHECK_STR(told(), "");
	run_until_told("STATUS=1 jobs\n", 1);
	CHECK_STR(told(), "");
	CHECK(!loop.first_timer);
	described = "0 jobs";
	end();
}

/* A datagram socket takes net.unix.max_dgram_qlen messages; a manager may be slow to read. */
static void test_ready_when_queue_is_full_then_told_later(void)
{
	begin(in_folder("full"));
	while (!notify.unsent)
		gp_notify_stopping(&notify);
	notify.unsent = 0;
	gp_notify_reloading(&notify);
	gp_notify_ready(&notify);
	run_until_told("RELOADING=1", 1);
	run_until_told("READY=1", 1);
	CHECK_EQ(notify.unsent, 0);
	end();
}

static void test_watchdog_when_wanted_then_pings_at_half_the_time(void)
{
	setenv("WATCHDOG_USEC", "40000", 1);
	begin(in_folder("watchdog"));
	CHECK_EQ(notify.watchdog_ns, 20 * GP_NS_PER_MS);
	gp_notify_ready(&notify);
	run_until_told("WATCHDOG=1", 3);
	end();
}

static void test_watchdog_when_for_another_process_then_none(void)
{
	setenv("WATCHDOG_USEC", "40000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	begin(in_folder("other"));
	CHECK_EQ(notify.watchdog_ns, 0);
	end();
}

static void test_init_when_variables_are_unusable_then_refused(void)
{
	struct gp_err err;

	CHECK_EQ(gp_loop_init(&loop, &err), 0);
	setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
	CHECK_EQ(gp_notify_init(&notify, &loop, describe, &err), -EINVAL);
	gp_notify_fini(&notify);
	setenv("NOTIFY_SOCKET", "@x", 1);
	setenv("WATCHDOG_USEC", "soon", 1);
	CHECK_EQ(gp_notify_init(&notify, &loop, describe, &err), -EINVAL);
	CHECK(strstr(err.msg, "WATCHDOG_USEC=soon") != NULL);
	gp_notify_fini(&notify);
	gp_loop_fini(&loop);
}

/* A socket of @type at fd @at, listening if @backlog. */
static void pass_socket(int at, int type, int backlog, const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type, 0);

	CHECK(fd >= 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", in_folder(name));
	CHECK_EQ(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK(!backlog || listen(fd, backlog) == 0);
	if (fd != at) {
		CHECK_EQ(dup2(fd, at), at);
		close(fd);
	}
}

static void pass_variables(int n, const char *names)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", getpid());
	setenv("LISTEN_PID", text, 1);
	snprintf(text, sizeof(text), "%d", n);
	setenv("LISTEN_FDS", text, 1);
	setenv("LISTEN_FDNAMES", names, 1);
}

static void test_take_when_passed_then_by_name(void)
{
	struct gp_activation a;
	struct gp_err err;
	int control, shim;

	pass_socket(3, SOCK_SEQPACKET, 1, "shim.sock");
	pass_socket(4, SOCK_SEQPACKET, 1, "control.sock");
	pass_socket(5, SOCK_DGRAM, 0, "else.sock");
	pass_variables(3, "shim:control:else");
	CHECK_EQ(gp_activation_init(&a, &err), 0);
	CHECK(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
	control = gp_activation_take(&a, "control", &err);
	shim = gp_activation_take(&a, "shim", &err);
	CHECK_EQ(control, 4);
	CHECK_EQ(shim, 3);
	CHECK(fcntl(control, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(control, F_GETFL) & O_NONBLOCK);
	CHECK_EQ(gp_activation_take(&a, "control", &err), -ENOENT);
	CHECK_EQ(gp_activation_take(&a, "els", &err), -ENOENT);
	CHECK_EQ(gp_activation_take(&a, "else", &err), -EINVAL);
	CHECK(strstr(err.msg, "ListenSequentialPacket=") != NULL);
	gp_activation_fini(&a);
	CHECK(fcntl(5, F_GETFD) < 0);
	close(control);
	close(shim);
}

static void test_take_when_for_another_process_then_none(void)
{
	struct gp_activation a;
	struct gp_err err;

	pass_variables(1, "control");
	setenv("LISTEN_PID", "1", 1);
	CHECK_EQ(gp_activation_init(&a, &err), 0);
	CHECK_EQ(gp_activation_take(&a, "control", &err), -ENOENT);
	gp_activation_fini(&a);
}

static void test_activation_when_variables_lie_then_refused(void)
{
	struct gp_activation a;
	struct gp_err err;

	pass_variables(2, "control:shim");
	setenv("LISTEN_FDS", "-1", 1);
	CHECK_EQ(gp_activation_init(&a, &err), -EINVAL);
	gp_activation_fini(&a);
	pass_variables(63, "control:shim");
	pass_socket(3, SOCK_SEQPACKET, 1, "lie.sock");
	close(4);
	CHECK_EQ(gp_activation_init(&a, &err), -EBADF);
	gp_activation_fini(&a);
	CHECK(fcntl(3, F_GETFD) < 0);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");
	char command[128];

	snprintf(folder, sizeof(folder), "%s/gp-notify-XXXXXX",
		 tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	CHECK(mkdtemp(folder));
	test_ready_when_path_then_told_with_status();
	test_ready_when_abstract_name_then_told();
	test_all_when_no_manager_then_nothing_happens();
	test_reload_when_ended_then_time_first_and_ready_after();
	test_changed_when_text_differs_then_told_once();
	test_ready_when_queue_is_full_then_told_later();
	test_watchdog_when_wanted_then_pings_at_half_the_time();
	test_watchdog_when_for_another_process_then_none();
	test_init_when_variables_are_unusable_then_refused();
	test_take_when_passed_then_by_name();
	test_take_when_for_another_process_then_none();
	test_activation_when_variables_lie_then_refused();
	snprintf(command, sizeof(command), "rm -r %s", folder);
	CHECK_EQ(system(command), 0);
	return 0;
}
