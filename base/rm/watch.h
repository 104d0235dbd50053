/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_RM_WATCH_H
#define GP_BASE_RM_WATCH_H
/*
 * Learns which channels a process has on the card by watching its own driver's ioctls, and keeps
 * the subdevice through which RM controls can be issued. All functions are thread-safe; the ioctl
 * path takes one mutex after the kernel call returned and may allocate.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gp_rm_watch;

/* As ioctl(2), with the argument as a pointer. */
typedef int (*gp_rm_ioctl_fn)(int fd, unsigned long request, void *arg);

struct gp_rm_channel {
	uint32_t client;
	uint32_t channel;
	uint32_t group;	 /* parent handle: a channel group, or the device for a bare channel */
	uint32_t engine; /* engine type of the group; GP_RM_ENGINE_GR = compute; 0 = unknown */
};

/* An object of this process through which controls go: valid while its client lives. */
struct gp_rm_subdevice {
	int fd;
	uint32_t client, object;
	gp_rm_ioctl_fn ioctl;
};

/* @next performs the real ioctl. NULL when out of memory. */
struct gp_rm_watch *gp_rm_watch_new(gp_rm_ioctl_fn next);
void gp_rm_watch_free(struct gp_rm_watch *watch);

/* Forwards to @next, then records what the call created or destroyed. Keeps result and errno. */
int gp_rm_watch_ioctl(struct gp_rm_watch *watch, int fd, unsigned long request, void *arg);

/* Forgets everything: for the child of a fork, which inherits fds but not the channels. */
void gp_rm_watch_forget(struct gp_rm_watch *watch);

/* Counts up with every change of the table. */
uint64_t gp_rm_watch_generation(struct gp_rm_watch *watch);

/*
 * Copies up to @capacity channels, grouped by (client, group); *@ret_n is the number there are,
 * also when larger. *@ret_complete is false when the kernel was told of a channel that the table
 * does not know: then a freeze could miss it.
 */
void gp_rm_watch_channels(struct gp_rm_watch *watch, struct gp_rm_channel *channels,
			  size_t capacity, size_t *ret_n, uint64_t *ret_generation,
			  bool *ret_complete);

/* Puts the channels of a group next to each other, as gp_rm_set_disabled wants them. */
void gp_rm_channels_sort(struct gp_rm_channel *channels, size_t n);

/* The newest subdevice of a client that owns channels (else the newest); -ENODEV if none. */
gp_must_check int gp_rm_watch_subdevice(struct gp_rm_watch *watch, struct gp_rm_subdevice *ret_sub,
					struct gp_err *err);

#endif
