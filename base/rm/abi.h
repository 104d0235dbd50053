/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_RM_ABI_H
#define GP_BASE_RM_ABI_H
/*
 * The few ioctls of NVIDIA's resource manager (RM) that we watch and issue. Layouts and numbers
 * from the MIT-licensed headers of open-gpu-kernel-modules, unchanged from 535 to 595: nv_escape.h,
 * nvos.h (NVOS00, NVOS54, NVOS64), ctrl2080fifo.h, ctrl2080gr.h, uvm_ioctl.h.
 */
#include <stdint.h>
#include <sys/ioctl.h>

#define GP_RM_IOC_MAGIC		'F'
#define GP_RM_ESC_FREE		0x29
#define GP_RM_ESC_CONTROL	0x2a
#define GP_RM_ESC_ALLOC		0x2b
#define GP_UVM_REGISTER_CHANNEL 27 /* uvm ioctl numbers carry neither magic nor size */

#define GP_RM_CLASS_CLIENT    0x41
#define GP_RM_CLASS_DEVICE    0x80
#define GP_RM_CLASS_SUBDEVICE 0x2080
#define GP_RM_CLASS_GROUP     0xa06c
#define GP_RM_ENGINE_GR	      1 /* engine type of compute and graphics; 2..8 are further GR engines */

#define GP_RM_CTRL_DISABLE_CHANNELS 0x2080110b
#define GP_RM_CTRL_CTXSW_STATS	    0x20801215

#define GP_RM_STATUS_INVALID_CHANNEL 0x21
#define GP_RM_MAX_CHANNELS	     64 /* of one DISABLE_CHANNELS call */

struct gp_rm_alloc { /* NVOS64 */
	uint32_t root, parent, object, cls;
	uint64_t params, rights;
	uint32_t params_bytes, flags, status, pad;
};
_Static_assert(sizeof(struct gp_rm_alloc) == 48, "NVOS64");

struct gp_rm_free { /* NVOS00 */
	uint32_t root, parent, object, status;
};
_Static_assert(sizeof(struct gp_rm_free) == 16, "NVOS00");

struct gp_rm_control { /* NVOS54 */
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t params_bytes, status;
};
_Static_assert(sizeof(struct gp_rm_control) == 32, "NVOS54");

struct gp_rm_disable_channels { /* NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS */
	uint8_t disable;
	uint32_t n_channels;
	uint8_t only_scheduling, rewind_gp_put;
	uint64_t preempt_event;
	uint32_t clients[GP_RM_MAX_CHANNELS];
	uint32_t channels[GP_RM_MAX_CHANNELS];
};
_Static_assert(sizeof(struct gp_rm_disable_channels) == 536, "DISABLE_CHANNELS");

struct gp_rm_ctxsw_stats { /* NV2080_CTRL_GR_GET_CTXSW_STATS_PARAMS */
	uint32_t channel, flags, save, restore, wfi, cta, cilp, gfxp;
};

struct gp_uvm_register_channel { /* UVM_REGISTER_CHANNEL_PARAMS */
	uint8_t gpu_uuid[16];
	int32_t rm_ctrl_fd;
	uint32_t client, channel, pad;
	uint64_t base, length;
	uint32_t status, pad2;
};

#define GP_RM_IOC_FREE	  _IOWR(GP_RM_IOC_MAGIC, GP_RM_ESC_FREE, struct gp_rm_free)
#define GP_RM_IOC_CONTROL _IOWR(GP_RM_IOC_MAGIC, GP_RM_ESC_CONTROL, struct gp_rm_control)
#define GP_RM_IOC_ALLOC	  _IOWR(GP_RM_IOC_MAGIC, GP_RM_ESC_ALLOC, struct gp_rm_alloc)

#endif
