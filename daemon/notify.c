/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include "base/list.h"
#include "base/log.h"
#include "base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NOTIFY_RETRY_NS	 (100 * GP_NS_PER_MS)
#define NOTIFY_STATUS_NS GP_NS_PER_SEC
#define NOTIFY_NS_PER_US 1000u

/* What has to be told. RELOADING goes first, in a datagram of its own: READY ends it. */
enum notify_bit {
	NOTIFY_RELOADING = 1u << 0,
	NOTIFY_READY = 1u << 1,
	NOTIFY_STATUS = 1u << 2,
	NOTIFY_WATCHDOG = 1u << 3,
	NOTIFY_STOPPING = 1u << 4,
};

/* 0, or -EAGAIN: not now. An unreachable manager is logged once; nobody else could be told. */
static int notify_send(struct gp_notify *notify, const char *text)
{
	ssize_t n = sendto(notify->fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL,
			   (const struct sockaddr *)&notify->addr, notify->addr_bytes);

	if (n >= 0) {
		notify->unreachable = false;
		return 0;
	}
	if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)
		return -EAGAIN;
	if (!notify->unreachable)
		gp_log(GP_LOG_WARN, "notify", "error=\"%s\"", strerror(errno));
	notify->unreachable = true;
	return 0;
}

static int notify_send_reloading(struct gp_notify *notify)
{
	char text[64];

	if (!(notify->unsent & NOTIFY_RELOADING))
		return 0;
	/* The time tells the manager which of its requests this answers: Type=notify-reload. */
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		 notify->reloading_ns / NOTIFY_NS_PER_US);
	return notify_send(notify, text);
}

static int notify_send_rest(struct gp_notify *notify)
{
	bool status = notify->unsent & NOTIFY_STATUS;
	char text[GP_NOTIFY_STATUS_BYTES + 64];

	if (!(notify->unsent & ~(unsigned int)NOTIFY_RELOADING))
		return 0;
	snprintf(text, sizeof(text), "%s%s%s%s%s%s",
		 notify->unsent & NOTIFY_READY ? "READY=1\n" : "",
		 notify->unsent & NOTIFY_STOPPING ? "STOPPING=1\n" : "",
		 notify->unsent & NOTIFY_WATCHDOG ? "WATCHDOG=1\n" : "", status ? "STATUS=" : "",
		 status ? notify->status : "", status ? "\n" : "");
	return notify_send(notify, text);
}

static void notify_flush(struct gp_notify *notify)
{
	if (!notify->enabled)
		return;
	gp_timer_disarm(&notify->retry);
	if (notify_send_reloading(notify) == 0) {
		notify->unsent &= ~(unsigned int)NOTIFY_RELOADING;
		if (notify_send_rest(notify) == 0)
			notify->unsent = 0;
	}
	if (notify->unsent)
		gp_timer_arm(notify->loop, &notify->retry, gp_now_ns() + NOTIFY_RETRY_NS);
}

static void notify_tell(struct gp_notify *notify, enum notify_bit bit)
{
	notify->unsent |= bit;
	notify_flush(notify);
}

static void notify_retry(struct gp_timer *timer)
{
	notify_flush(gp_container_of(timer, struct gp_notify, retry));
}

static void notify_describe(struct gp_notify *notify)
{
	char text[GP_NOTIFY_STATUS_BYTES];

	notify->describe(notify, text, sizeof(text));
	if (!strcmp(text, notify->status))
		return;
	strcpy(notify->status, text);
	notify->unsent |= NOTIFY_STATUS;
}

static void notify_status(struct gp_timer *timer)
{
	struct gp_notify *notify = gp_container_of(timer, struct gp_notify, status_timer);

	notify_describe(notify);
	if (notify->unsent)
		notify_flush(notify);
}

static void notify_watchdog(struct gp_timer *timer)
{
	struct gp_notify *notify = gp_container_of(timer, struct gp_notify, watchdog);

	gp_timer_arm(notify->loop, timer, gp_now_ns() + notify->watchdog_ns);
	notify_tell(notify, NOTIFY_WATCHDOG);
}

/* A path, or "@" and the rest of an abstract name. The manager's other families are for guests. */
static int notify_address(struct gp_notify *notify, const char *text, struct gp_err *err)
{
	size_t len = strlen(text);

	if ((*text != '/' && *text != '@') || len < 2 || len >= sizeof(notify->addr.sun_path))
		return gp_err_set(err, -EINVAL, "NOTIFY_SOCKET=%s is no unix socket", text);
	notify->addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(notify->addr.sun_path, text, len);
	if (*text == '@')
		notify->addr.sun_path[0] = '\0';
	/* An abstract name ends with its last byte, a path with a NUL. */
	notify->addr_bytes =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (*text == '/'));
	notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (notify->fd < 0)
		return gp_err_sys(err, -errno, "cannot create a socket");
	notify->enabled = true;
	return 0;
}

static int notify_number(const char *text, uint64_t *ret)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno || *end || *ret > UINT64_MAX / NOTIFY_NS_PER_US ? -EINVAL : 0;
}

static int notify_read_watchdog(struct gp_notify *notify, struct gp_err *err)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t us, for_pid;

	if (!usec)
		return 0;
	if (pid && (notify_number(pid, &for_pid) < 0 || for_pid != (uint64_t)getpid()))
		return 0;
	if (notify_number(usec, &us) < 0 || !us)
		return gp_err_set(err, -EINVAL, "WATCHDOG_USEC=%s is no time", usec);
	/* Half of it, as sd_watchdog_enabled(3) advises: one ping may come late. */
	notify->watchdog_ns = us * NOTIFY_NS_PER_US / 2;
	return 0;
}

int gp_notify_init(struct gp_notify *notify, struct gp_loop *loop,
		   void (*describe)(struct gp_notify *, char *, size_t), struct gp_err *err)
{
	const char *text = getenv("NOTIFY_SOCKET");
	int r = 0;

	*notify = (struct gp_notify){ .loop = loop, .fd = -1, .describe = describe };
	gp_timer_init(&notify->retry, notify_retry);
	gp_timer_init(&notify->status_timer, notify_status);
	gp_timer_init(&notify->watchdog, notify_watchdog);
	if (text)
		r = notify_address(notify, text, err);
	if (text && r == 0)
		r = notify_read_watchdog(notify, err);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return r;
}

void gp_notify_fini(struct gp_notify *notify)
{
	if (!notify->enabled)
		return;
	gp_timer_disarm(&notify->retry);
	gp_timer_disarm(&notify->status_timer);
	gp_timer_disarm(&notify->watchdog);
	gp_close_fd(&notify->fd);
	notify->enabled = false;
}

void gp_notify_ready(struct gp_notify *notify)
{
	if (!notify->enabled)
		return;
	notify_describe(notify);
	if (notify->watchdog_ns)
		gp_timer_arm(notify->loop, &notify->watchdog, gp_now_ns() + notify->watchdog_ns);
	notify_tell(notify, NOTIFY_READY);
}

void gp_notify_reloading(struct gp_notify *notify)
{
	if (!notify->enabled)
		return;
	notify->reloading_ns = gp_now_ns();
	/* A READY that waits was of the time before. */
	notify->unsent &= ~(unsigned int)NOTIFY_READY;
	notify_tell(notify, NOTIFY_RELOADING);
}

void gp_notify_stopping(struct gp_notify *notify)
{
	if (notify->enabled)
		notify_tell(notify, NOTIFY_STOPPING);
}

void gp_notify_changed(struct gp_notify *notify)
{
	if (notify->enabled && !gp_timer_is_armed(&notify->status_timer))
		gp_timer_arm(notify->loop, &notify->status_timer, gp_now_ns() + NOTIFY_STATUS_NS);
}
