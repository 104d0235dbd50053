/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_RM_H
#define GP_SHIM_SOFT_RM_H
/*
 * The resource-manager side of the software device: contexts own channels, and anybody on the same
 * device may take listed channels off the hardware, as on the card. Layouts and numbers are those
 * of the MIT-licensed open-gpu-kernel-modules headers (nvos.h, ctrl2080fifo.h, uvm_ioctl.h).
 *
 * The driver speaks to it by calling libc's ioctl on descriptors of its own; a kernel would answer
 * there. Since none does (ENOTTY), the driver then calls rm_ioctl itself; who interposes ioctl
 * to watch the traffic calls rm_ioctl in its stead.
 */
#include "shim/soft/state.h"

#define GP_RM_GR_CHANNELS   8
#define GP_RM_COPY_GROUPS   3
#define GP_RM_COPY_CHANNELS 4 /* of each copy group */
#define GP_RM_GROUPS	    (1 + GP_RM_COPY_GROUPS)
#define GP_RM_CHANNELS	    (GP_RM_GR_CHANNELS + GP_RM_COPY_GROUPS * GP_RM_COPY_CHANNELS)

/* Copy groups by what the queue sends there. */
enum gp_rm_copy { GP_RM_COPY_H2D, GP_RM_COPY_D2H, GP_RM_COPY_D2D };

/* The objects of one context. Slots live in shared memory as long as the context. */
struct gp_rm_context {
	uint32_t client, device, subdevice;
	struct gp_state_group *group[GP_RM_GROUPS];
	struct gp_state_channel *channel[GP_RM_CHANNELS]; /* GR first, then the copy groups */
};

/* Binds the module to the opened @state (kept for the life of the process). Negative errno. */
gp_must_check int gp_rm_init(struct gp_state *state, struct gp_err *err);

/* Forked child: closes inherited descriptors; rm_ioctl answers ENODEV from then on. */
void gp_rm_forget(void);

/* Allocates and registers a context's 4 groups and 20 channels. On failure nothing is left. */
gp_must_check int gp_rm_context_init(struct gp_rm_context *rm, struct gp_err *err);
void gp_rm_context_fini(struct gp_rm_context *rm);

/* A change of this process's doorbell wakes engines that found nothing runnable. */
uint32_t *gp_rm_doorbell(void);
void gp_rm_ring(uint32_t *doorbell);

/* Exported. 0 with a status in *@arg, or -1 with errno as ioctl(2). */
int rm_ioctl(int fd, unsigned long req, void *arg);

#endif
