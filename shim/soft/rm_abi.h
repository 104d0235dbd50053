/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_RM_ABI_H
#define GP_SHIM_SOFT_RM_ABI_H
/*
 * Layouts and numbers of the resource manager's ioctls, from the MIT-licensed headers of
 * open-gpu-kernel-modules: nvos.h, nvstatuscodes.h, nv_escape.h, ctrl2080fifo.h, ctrl2080gr.h,
 * ctrla06cgpfifo.h, uvm_ioctl.h. Natural alignment.
 */
#include <assert.h>
#include <stdint.h>
#include <sys/ioctl.h>

struct gp_rm_alloc { /* NVOS64_PARAMETERS */
	uint32_t root, parent, object, class_id;
	uint64_t params, rights;
	uint32_t params_size, flags, status, pad;
};

struct gp_rm_free { /* NVOS00_PARAMETERS */
	uint32_t root, parent, object, status;
};

struct gp_rm_control { /* NVOS54_PARAMETERS */
	uint32_t client, object, cmd, flags;
	uint64_t params;
	uint32_t params_size, status;
};

#define GP_RM_LIST_MAX 64
struct gp_rm_disable { /* NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS */
	uint8_t disable;
	uint32_t n;
	uint8_t only_scheduling, rewind_gp_put;
	uint64_t preempt_event;
	uint32_t client[GP_RM_LIST_MAX], channel[GP_RM_LIST_MAX];
};

struct gp_rm_ctxsw_stats { /* NV2080_CTRL_GR_GET_CTXSW_STATS_PARAMS */
	uint32_t channel, flags, save, restore, wfi, cta, cilp, gfxp;
};

struct gp_rm_group_params { /* the part of NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS that matters */
	uint32_t error_handle[3];
	uint32_t engine_type;
};

struct gp_uvm_register_channel { /* UVM_REGISTER_CHANNEL_PARAMS */
	uint8_t uuid[16];
	int32_t ctl_fd;
	uint32_t client, channel, pad;
	uint64_t base, length;
	uint32_t status, pad2;
};

static_assert(sizeof(struct gp_rm_alloc) == 48, "NVOS64");
static_assert(sizeof(struct gp_rm_control) == 32, "NVOS54");
static_assert(sizeof(struct gp_rm_disable) == 536, "DISABLE_CHANNELS");
static_assert(sizeof(struct gp_rm_ctxsw_stats) == 32, "CTXSW_STATS");

#define GP_RM_IOCTL_ALLOC     _IOWR('F', 0x2b, struct gp_rm_alloc)
#define GP_RM_IOCTL_FREE      _IOWR('F', 0x29, struct gp_rm_free)
#define GP_RM_IOCTL_CONTROL   _IOWR('F', 0x2a, struct gp_rm_control)
#define GP_UVM_IOCTL_REGISTER 27ul

#define GP_RM_CLASS_CLIENT    0x41u
#define GP_RM_CLASS_DEVICE    0x80u
#define GP_RM_CLASS_SUBDEVICE 0x2080u
#define GP_RM_CLASS_GROUP     0xa06cu
#define GP_RM_CLASS_CHANNEL   0xc86fu

#define GP_RM_CMD_DISABLE_CHANNELS 0x2080110bu
#define GP_RM_CMD_CTXSW_STATS	   0x20801215u
#define GP_RM_CMD_GROUP_SCHEDULE   0xa06c0101u

#define GP_RM_ENGINE_GR	   1u
#define GP_RM_ENGINE_COPY0 0xbu

#define GP_RM_OK		     0x00u
#define GP_RM_INSUFFICIENT_RESOURCES 0x1au
#define GP_RM_INVALID_ARGUMENT	     0x1fu
#define GP_RM_INVALID_CHANNEL	     0x21u
#define GP_RM_INVALID_CLASS	     0x22u
#define GP_RM_INVALID_CLIENT	     0x23u
#define GP_RM_INVALID_OBJECT	     0x33u
#define GP_RM_INVALID_PARENT	     0x36u
#define GP_RM_NOT_SUPPORTED	     0x56u
#define GP_RM_TIMEOUT		     0x65u

#endif
