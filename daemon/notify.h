/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_NOTIFY_H
#define GP_DAEMON_NOTIFY_H
/*
 * Tells the service manager how the daemon is, by the protocol of sd_notify(3): datagrams of
 * "KEY=value" lines to $NOTIFY_SOCKET. Own code: the protocol is short and stable, and the daemon
 * also runs where there is no libsystemd. Without the variable, and on a zeroed
 * struct, all calls do nothing.
 *
 * Nothing blocks: what the manager's queue does not take is kept (each fact once, its last value)
 * and sent a little later. The watchdog's pings come from a timer of the loop, so that a loop that
 * hangs is noticed. Only the loop's thread may call.
 */
#include "base/err.h"
#include "daemon/loop.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define GP_NOTIFY_STATUS_BYTES 128

struct gp_notify {
	struct gp_loop *loop;
	bool enabled; /* somebody listens */
	int fd;
	struct sockaddr_un addr;
	socklen_t addr_bytes;
	unsigned int unsent; /* bits, see notify.c */
	bool unreachable;    /* said so already */
	struct gp_timer retry, status_timer, watchdog;
	uint64_t watchdog_ns; /* between pings; 0: nobody waits for them */
	uint64_t reloading_ns;
	char status[GP_NOTIFY_STATUS_BYTES];
	void (*describe)(struct gp_notify *notify, char *buf, size_t bytes);
};

/*
 * Reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID and removes them: children are not the
 * service. @describe writes one line for people, the service's status; it is called from the loop,
 * at most once a second, after gp_notify_changed. -EINVAL: an address or time that cannot be used.
 */
gp_must_check int gp_notify_init(struct gp_notify *notify, struct gp_loop *loop,
				 void (*describe)(struct gp_notify *, char *, size_t),
				 struct gp_err *err);
void gp_notify_fini(struct gp_notify *notify);

/* The sockets serve: at first, and again after gp_notify_reloading. Starts the watchdog's pings. */
void gp_notify_ready(struct gp_notify *notify);
/* The configuration is being read again; gp_notify_ready ends it, also if nothing was taken. */
void gp_notify_reloading(struct gp_notify *notify);
/* Going down on purpose. Sent at once or not at all: the loop has ended. */
void gp_notify_stopping(struct gp_notify *notify);
/* What @describe would write may be another text now. Cheap. */
void gp_notify_changed(struct gp_notify *notify);

#endif
