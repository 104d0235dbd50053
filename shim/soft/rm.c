/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects, channels and freezing of the software device.
 *
 * Everything below rm_ioctl runs with the channel lock held (all processes, all threads). A disable
 * call keeps it while it waits, up to GP_RM_STOP_TIMEOUT_NS, so that nobody enables what is being
 * disabled; the threads it waits for take no lock to park.
 *
 * A GR group stops only when all its channels are disabled: a partly disabled group is scheduled
 * again, as on the card. Copy channels stop one by one.
 */
#include "shim/soft/rm.h"

#include "base/time.h"
#include "shim/soft/rm_abi.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define GP_RM_STOP_TIMEOUT_NS (2 * GP_NS_PER_SEC)
#define GP_RM_STOP_SLICE_NS   (20 * GP_NS_PER_MS) /* between looks whether the owner still lives */

#define GP_RM_HANDLE_DEVICE    0x5c000001u
#define GP_RM_HANDLE_SUBDEVICE 0x5c000002u
#define GP_RM_HANDLE_GROUP     0x5c000010u
#define GP_RM_HANDLE_CHANNEL   0x5c000020u

struct gp_rm_object {
	uint32_t client, handle, parent, class_id;
	uint32_t slot; /* of groups and channels */
};

struct gp_rm {
	struct gp_state *state;
	int ctl_fd, uvm_fd;
	struct gp_rm_object *objects;
	size_t n_objects, max_objects;
	unsigned long freeze_fail; /* every Nth disable call fails; 0 = none */
	unsigned long n_disables;
};

static struct gp_rm gp_rm = { .ctl_fd = -1, .uvm_fd = -1 };

static struct gp_rm_object *rm_find(uint32_t client, uint32_t handle)
{
	for (size_t i = 0; i < gp_rm.n_objects; i++)
		if (gp_rm.objects[i].client == client && gp_rm.objects[i].handle == handle)
			return &gp_rm.objects[i];
	return NULL;
}

static int rm_add(const struct gp_rm_object *object)
{
	if (gp_rm.n_objects == gp_rm.max_objects) {
		size_t max = gp_rm.max_objects ? 2 * gp_rm.max_objects : 64;
		void *grown = realloc(gp_rm.objects, max * sizeof(*gp_rm.objects));

		if (!grown)
			return -ENOMEM;
		gp_rm.objects = grown;
		gp_rm.max_objects = max;
	}
	gp_rm.objects[gp_rm.n_objects++] = *object;
	return 0;
}

/* Gives back the slots of processes that are gone. */
static void rm_reclaim(void)
{
	struct gp_state_shared *shared = gp_rm.state->shared;
	bool dead[GP_STATE_MAX_PROCS];

	for (uint32_t i = 0; i < GP_STATE_MAX_PROCS; i++) {
		dead[i] = shared->procs[i].in_use && !gp_state_proc_alive(gp_rm.state, i);
		if (dead[i])
			shared->procs[i].in_use = 0;
	}
	for (uint32_t i = 0; i < shared->n_channels; i++)
		if (dead[shared->channels[i].proc % GP_STATE_MAX_PROCS])
			shared->channels[i].in_use = 0;
	for (uint32_t i = 0; i < shared->n_groups; i++)
		if (dead[shared->groups[i].proc % GP_STATE_MAX_PROCS])
			shared->groups[i].in_use = 0;
}

static int rm_take_group(void)
{
	struct gp_state_shared *shared = gp_rm.state->shared;

	for (uint32_t i = 0; i < GP_STATE_MAX_GROUPS; i++)
		if (!shared->groups[i].in_use) {
			if (i >= shared->n_groups)
				shared->n_groups = i + 1;
			return (int)i;
		}
	return -1;
}

static int rm_take_channel(void)
{
	struct gp_state_shared *shared = gp_rm.state->shared;

	for (uint32_t i = 0; i < GP_STATE_MAX_CHANNELS; i++)
		if (!shared->channels[i].in_use) {
			if (i >= shared->n_channels)
				shared->n_channels = i + 1;
			return (int)i;
		}
	return -1;
}

static uint32_t rm_alloc_client(struct gp_rm_alloc *alloc)
{
	struct gp_rm_object object = { .class_id = GP_RM_CLASS_CLIENT };

	rm_reclaim();
	alloc->object = gp_rm.state->shared->next_client++;
	alloc->root = alloc->object;
	object.client = alloc->object;
	object.handle = alloc->object;
	return rm_add(&object) < 0 ? GP_RM_INSUFFICIENT_RESOURCES : GP_RM_OK;
}

static uint32_t rm_alloc_group(const struct gp_rm_alloc *alloc, struct gp_rm_object *object)
{
	const struct gp_rm_group_params *params = (const void *)(uintptr_t)alloc->params;
	struct gp_state_group *group;
	int slot = rm_take_group();

	if (slot < 0)
		return GP_RM_INSUFFICIENT_RESOURCES;
	if (!params)
		return GP_RM_INVALID_ARGUMENT;
	object->slot = (uint32_t)slot;
	if (rm_add(object) < 0)
		return GP_RM_INSUFFICIENT_RESOURCES;
	group = &gp_rm.state->shared->groups[slot];
	*group = (struct gp_state_group){
		.client = alloc->root,
		.handle = alloc->object,
		.engine = params->engine_type,
		.proc = gp_rm.state->proc,
	};
	/* Last: who is killed half-way leaves no slot with a part of what was there before. */
	__atomic_store_n(&group->in_use, 1, __ATOMIC_RELEASE);
	return GP_RM_OK;
}

static uint32_t rm_alloc_channel(const struct gp_rm_alloc *alloc, struct gp_rm_object *object,
				 const struct gp_rm_object *group)
{
	struct gp_state_channel *channel;
	uint32_t group_slot = group->slot; /* rm_add moves the table */
	int slot = rm_take_channel();

	if (group->class_id != GP_RM_CLASS_GROUP)
		return GP_RM_INVALID_PARENT;
	if (slot < 0)
		return GP_RM_INSUFFICIENT_RESOURCES;
	object->slot = (uint32_t)slot;
	if (rm_add(object) < 0)
		return GP_RM_INSUFFICIENT_RESOURCES;
	channel = &gp_rm.state->shared->channels[slot];
	*channel = (struct gp_state_channel){
		.client = alloc->root,
		.handle = alloc->object,
		.group = group_slot,
		.proc = gp_rm.state->proc,
	};
	__atomic_store_n(&channel->in_use, 1, __ATOMIC_RELEASE);
	return GP_RM_OK;
}

static uint32_t rm_alloc(struct gp_rm_alloc *alloc)
{
	struct gp_rm_object object = {
		.client = alloc->root,
		.handle = alloc->object,
		.parent = alloc->parent,
		.class_id = alloc->class_id,
	};
	const struct gp_rm_object *parent;

	if (alloc->class_id == GP_RM_CLASS_CLIENT)
		return rm_alloc_client(alloc);
	if (!rm_find(alloc->root, alloc->root))
		return GP_RM_INVALID_CLIENT;
	parent = rm_find(alloc->root, alloc->parent);
	if (!parent)
		return GP_RM_INVALID_PARENT;
	if (rm_find(alloc->root, alloc->object))
		return GP_RM_INVALID_ARGUMENT;
	switch (alloc->class_id) {
	case GP_RM_CLASS_DEVICE:
	case GP_RM_CLASS_SUBDEVICE:
		return rm_add(&object) < 0 ? GP_RM_INSUFFICIENT_RESOURCES : GP_RM_OK;
	case GP_RM_CLASS_GROUP:
		return rm_alloc_group(alloc, &object);
	case GP_RM_CLASS_CHANNEL:
		return rm_alloc_channel(alloc, &object, parent);
	default:
		return GP_RM_INVALID_CLASS;
	}
}

/* Children first. */
static void rm_free_tree(uint32_t client, uint32_t handle)
{
	struct gp_rm_object *object;
	size_t i = 0;

	while (i < gp_rm.n_objects) {
		object = &gp_rm.objects[i];
		if (object->client == client && object->parent == handle &&
		    object->handle != handle) {
			rm_free_tree(client, object->handle);
			i = 0; /* the recursion moved the array's tail */
		} else {
			i++;
		}
	}
	object = rm_find(client, handle);
	if (!object)
		return;
	if (object->class_id == GP_RM_CLASS_GROUP)
		gp_rm.state->shared->groups[object->slot].in_use = 0;
	else if (object->class_id == GP_RM_CLASS_CHANNEL)
		gp_rm.state->shared->channels[object->slot].in_use = 0;
	*object = gp_rm.objects[--gp_rm.n_objects];
}

static uint32_t rm_free(const struct gp_rm_free *args)
{
	if (!rm_find(args->root, args->object))
		return GP_RM_INVALID_OBJECT;
	rm_free_tree(args->root, args->object);
	return GP_RM_OK;
}

static struct gp_state_channel *rm_find_channel(uint32_t client, uint32_t handle)
{
	struct gp_state_shared *shared = gp_rm.state->shared;

	for (uint32_t i = 0; i < shared->n_channels; i++) {
		struct gp_state_channel *channel = &shared->channels[i];

		if (channel->in_use && channel->client == client && channel->handle == handle)
			return gp_state_proc_alive(gp_rm.state, channel->proc) ? channel : NULL;
	}
	return NULL;
}

static struct gp_state_group *rm_group(const struct gp_state_channel *channel)
{
	return &gp_rm.state->shared->groups[channel->group % GP_STATE_MAX_GROUPS];
}

static struct gp_gate *rm_gate(struct gp_state_channel *channel)
{
	struct gp_state_group *group = rm_group(channel);

	return group->engine == GP_RM_ENGINE_GR ? &group->gate : &channel->gate;
}

static bool rm_wants_stop(struct gp_state_channel *channel)
{
	struct gp_state_shared *shared = gp_rm.state->shared;

	if (rm_gate(channel) == &channel->gate)
		return channel->disabled;
	for (uint32_t i = 0; i < shared->n_channels; i++)
		if (shared->channels[i].in_use && shared->channels[i].group == channel->group &&
		    !shared->channels[i].disabled)
			return false;
	return true;
}

/* Makes the gate follow the flags of its channels; true if that closed it. */
static bool rm_update_gate(struct gp_state_channel *channel)
{
	struct gp_gate *gate = rm_gate(channel);
	uint32_t stop = rm_wants_stop(channel);

	if (gate->stop == stop)
		return false;
	__atomic_store_n(&gate->stop, stop, __ATOMIC_SEQ_CST);
	if (!stop) {
		gp_futex_wake(&gate->stop);
		gp_rm_ring(&gp_rm.state->shared->procs[channel->proc].doorbell);
	}
	return stop;
}

/* Waits until no thread may touch memory through the gate. False on timeout. */
static bool rm_wait_off(struct gp_state_channel *channel, uint64_t deadline_ns)
{
	struct gp_gate *gate = rm_gate(channel);

	while (gate->stop) {
		uint32_t active = __atomic_load_n(&gate->active, __ATOMIC_SEQ_CST);

		if (!active || !gp_state_proc_alive(gp_rm.state, channel->proc))
			return true;
		if (gp_now_ns() >= deadline_ns)
			return false;
		gp_futex_wait(&gate->active, active, GP_RM_STOP_SLICE_NS);
	}
	return true;
}

static void rm_count(struct gp_state_channel *channel, bool mid_work)
{
	channel->n_save++;
	if (mid_work)
		channel->n_cilp++;
	else
		channel->n_wfi++;
}

/* A group is switched out as one: all its channels show the same counters, as on the card. */
static void rm_count_stop(struct gp_state_channel *channel)
{
	struct gp_state_shared *shared = gp_rm.state->shared;
	struct gp_state_group *group = rm_group(channel);

	if (rm_gate(channel) == &channel->gate) {
		rm_count(channel, __atomic_load_n(&channel->gate.busy, __ATOMIC_SEQ_CST));
		return;
	}
	for (uint32_t i = 0; i < shared->n_channels; i++)
		if (shared->channels[i].in_use && shared->channels[i].group == channel->group)
			rm_count(&shared->channels[i],
				 __atomic_load_n(&group->kernel_channel, __ATOMIC_SEQ_CST) != 0);
}

static uint32_t rm_disable_wait(struct gp_state_channel *const *list, const bool *was,
				const bool *closed, uint32_t n)
{
	uint64_t deadline_ns = gp_now_ns() + GP_RM_STOP_TIMEOUT_NS;
	bool off = true;

	for (uint32_t i = 0; off && i < n; i++)
		off = rm_wait_off(list[i], deadline_ns);
	if (!off) {
		/* Backwards, so that a channel listed twice gets its first state back. */
		for (uint32_t i = n; i-- > 0;)
			list[i]->disabled = was[i];
		for (uint32_t i = 0; i < n; i++)
			rm_update_gate(list[i]);
		return GP_RM_TIMEOUT;
	}
	for (uint32_t i = 0; i < n; i++)
		if (closed[i])
			rm_count_stop(list[i]);
	return GP_RM_OK;
}

static uint32_t rm_disable_channels(const struct gp_rm_disable *args)
{
	struct gp_state_channel *list[GP_RM_LIST_MAX];
	bool was[GP_RM_LIST_MAX], closed[GP_RM_LIST_MAX];

	if (args->n > GP_RM_LIST_MAX)
		return GP_RM_INVALID_ARGUMENT;
	if (args->disable && gp_rm.freeze_fail && ++gp_rm.n_disables % gp_rm.freeze_fail == 0)
		return GP_RM_INVALID_CHANNEL;
	for (uint32_t i = 0; i < args->n; i++) {
		list[i] = rm_find_channel(args->client[i], args->channel[i]);
		if (!list[i])
			return GP_RM_INVALID_CHANNEL;
	}
	for (uint32_t i = 0; i < args->n; i++) {
		was[i] = list[i]->disabled;
		list[i]->disabled = args->disable != 0;
	}
	for (uint32_t i = 0; i < args->n; i++)
		closed[i] = rm_update_gate(list[i]);
	return args->disable ? rm_disable_wait(list, was, closed, args->n) : GP_RM_OK;
}

static uint32_t rm_ctxsw_stats(uint32_t client, struct gp_rm_ctxsw_stats *stats)
{
	const struct gp_rm_object *object = rm_find(client, stats->channel);
	struct gp_state_channel *channel;

	if (!object || object->class_id != GP_RM_CLASS_CHANNEL)
		return GP_RM_INVALID_CHANNEL;
	channel = &gp_rm.state->shared->channels[object->slot];
	stats->save = channel->n_save;
	/* What is off now has been saved once more than restored. */
	stats->restore = channel->n_save - (channel->n_save && rm_gate(channel)->stop ? 1 : 0);
	stats->wfi = channel->n_wfi;
	stats->cta = 0;
	stats->cilp = channel->n_cilp;
	stats->gfxp = 0;
	return GP_RM_OK;
}

/* Enabling schedules the whole group again; disabling answers OK and does nothing: as on the card.
 */
static uint32_t rm_group_schedule(const struct gp_rm_object *group, const uint8_t *enable)
{
	struct gp_state_shared *shared = gp_rm.state->shared;

	if (!*enable)
		return GP_RM_OK;
	for (uint32_t i = 0; i < shared->n_channels; i++) {
		struct gp_state_channel *channel = &shared->channels[i];

		if (channel->in_use && channel->group == group->slot) {
			channel->disabled = 0;
			rm_update_gate(channel);
		}
	}
	return GP_RM_OK;
}

static uint32_t rm_control(const struct gp_rm_control *control)
{
	const struct gp_rm_object *object = rm_find(control->client, control->object);
	void *params = (void *)(uintptr_t)control->params;

	if (!object)
		return GP_RM_INVALID_OBJECT;
	if (!params)
		return GP_RM_INVALID_ARGUMENT;
	if (object->class_id == GP_RM_CLASS_SUBDEVICE) {
		if (control->cmd == GP_RM_CMD_DISABLE_CHANNELS)
			return control->params_size == sizeof(struct gp_rm_disable)
				       ? rm_disable_channels(params)
				       : GP_RM_INVALID_ARGUMENT;
		if (control->cmd == GP_RM_CMD_CTXSW_STATS)
			return control->params_size == sizeof(struct gp_rm_ctxsw_stats)
				       ? rm_ctxsw_stats(control->client, params)
				       : GP_RM_INVALID_ARGUMENT;
	}
	if (object->class_id == GP_RM_CLASS_GROUP && control->cmd == GP_RM_CMD_GROUP_SCHEDULE)
		return control->params_size ? rm_group_schedule(object, params)
					    : GP_RM_INVALID_ARGUMENT;
	return GP_RM_NOT_SUPPORTED;
}

static uint32_t rm_register_channel(const struct gp_uvm_register_channel *args)
{
	const struct gp_rm_object *object = rm_find(args->client, args->channel);

	if (!object || object->class_id != GP_RM_CLASS_CHANNEL)
		return GP_RM_INVALID_CHANNEL;
	gp_rm.state->shared->channels[object->slot].registered = 1;
	return GP_RM_OK;
}

__attribute__((visibility("default"))) int rm_ioctl(int fd, unsigned long req, void *arg)
{
	/* The system call, not ioctl(): who interposes that one calls us. */
	if (fd < 0 || (fd != gp_rm.ctl_fd && fd != gp_rm.uvm_fd))
		return (int)syscall(SYS_ioctl, fd, req, arg);
	if (!arg) {
		errno = EFAULT;
		return -1;
	}
	if (gp_state_lock_channels(gp_rm.state) < 0) {
		errno = EBUSY;
		return -1;
	}
	if (fd == gp_rm.ctl_fd && req == GP_RM_IOCTL_ALLOC)
		((struct gp_rm_alloc *)arg)->status = rm_alloc(arg);
	else if (fd == gp_rm.ctl_fd && req == GP_RM_IOCTL_FREE)
		((struct gp_rm_free *)arg)->status = rm_free(arg);
	else if (fd == gp_rm.ctl_fd && req == GP_RM_IOCTL_CONTROL)
		((struct gp_rm_control *)arg)->status = rm_control(arg);
	else if (fd == gp_rm.uvm_fd && req == GP_UVM_IOCTL_REGISTER)
		((struct gp_uvm_register_channel *)arg)->status = rm_register_channel(arg);
	else
		req = 0;
	gp_state_unlock_channels(gp_rm.state);
	if (!req) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

/* What libcuda does: an ordinary ioctl that an interposer sees. */
static int rm_call(int fd, unsigned long req, void *arg)
{
	int r = ioctl(fd, req, arg);

	if (r < 0 && (errno == ENOTTY || errno == ENODEV))
		r = rm_ioctl(fd, req, arg);
	return r < 0 ? -errno : 0;
}

static int rm_new(uint32_t *client, uint32_t parent, uint32_t handle, uint32_t class_id,
		  void *params, uint32_t params_size)
{
	struct gp_rm_alloc alloc = {
		.root = *client,
		.parent = parent,
		.object = handle,
		.class_id = class_id,
		.params = (uintptr_t)params,
		.params_size = params_size,
	};
	int r = rm_call(gp_rm.ctl_fd, GP_RM_IOCTL_ALLOC, &alloc);

	if (r < 0 || alloc.status != GP_RM_OK)
		return r < 0 ? r : -EIO;
	if (class_id == GP_RM_CLASS_CLIENT)
		*client = alloc.object;
	return 0;
}

static int rm_new_channel(struct gp_rm_context *rm, uint32_t group_handle, uint32_t i)
{
	uint32_t handle = GP_RM_HANDLE_CHANNEL + i;
	struct gp_uvm_register_channel reg = {
		.ctl_fd = gp_rm.ctl_fd,
		.client = rm->client,
		.channel = handle,
	};
	int r = rm_new(&rm->client, group_handle, handle, GP_RM_CLASS_CHANNEL, NULL, 0);

	if (r == 0)
		r = rm_call(gp_rm.uvm_fd, GP_UVM_IOCTL_REGISTER, &reg);
	if (r == 0 && reg.status != GP_RM_OK)
		r = -EIO;
	return r;
}

static int rm_new_groups(struct gp_rm_context *rm)
{
	uint32_t i_channel = 0;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < GP_RM_GROUPS; i++) {
		struct gp_rm_group_params params = {
			.engine_type = i ? GP_RM_ENGINE_COPY0 + i - 1 : GP_RM_ENGINE_GR,
		};
		uint32_t n = i ? GP_RM_COPY_CHANNELS : GP_RM_GR_CHANNELS;

		r = rm_new(&rm->client, rm->device, GP_RM_HANDLE_GROUP + i, GP_RM_CLASS_GROUP,
			   &params, sizeof(params));
		for (uint32_t k = 0; r == 0 && k < n; k++)
			r = rm_new_channel(rm, GP_RM_HANDLE_GROUP + i, i_channel++);
	}
	return r;
}

/* Where the objects' slots are, now that they exist. */
static int rm_bind(struct gp_rm_context *rm)
{
	struct gp_state_shared *shared = gp_rm.state->shared;
	int r = gp_state_lock_channels(gp_rm.state);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < GP_RM_CHANNELS; i++) {
		const struct gp_rm_object *object = rm_find(rm->client, GP_RM_HANDLE_CHANNEL + i);

		if (object)
			rm->channel[i] = &shared->channels[object->slot];
		else
			r = -EIO;
	}
	for (uint32_t i = 0; i < GP_RM_GROUPS; i++) {
		const struct gp_rm_object *object = rm_find(rm->client, GP_RM_HANDLE_GROUP + i);

		if (object)
			rm->group[i] = &shared->groups[object->slot];
		else
			r = -EIO;
	}
	gp_state_unlock_channels(gp_rm.state);
	return r;
}

int gp_rm_context_init(struct gp_rm_context *rm, struct gp_err *err)
{
	int r;

	memset(rm, 0, sizeof(*rm));
	rm->device = GP_RM_HANDLE_DEVICE;
	rm->subdevice = GP_RM_HANDLE_SUBDEVICE;
	r = rm_new(&rm->client, 0, 0, GP_RM_CLASS_CLIENT, NULL, 0);
	if (r == 0)
		r = rm_new(&rm->client, rm->client, rm->device, GP_RM_CLASS_DEVICE, NULL, 0);
	if (r == 0)
		r = rm_new(&rm->client, rm->device, rm->subdevice, GP_RM_CLASS_SUBDEVICE, NULL, 0);
	if (r == 0)
		r = rm_new_groups(rm);
	if (r == 0)
		r = rm_bind(rm);
	if (r < 0) {
		gp_rm_context_fini(rm);
		return gp_err_sys(err, r, "cannot allocate the channels of a context");
	}
	return 0;
}

void gp_rm_context_fini(struct gp_rm_context *rm)
{
	struct gp_rm_free args = { .root = rm->client, .object = rm->client };

	if (rm->client)
		rm_call(gp_rm.ctl_fd, GP_RM_IOCTL_FREE, &args);
	memset(rm, 0, sizeof(*rm));
}

uint32_t *gp_rm_doorbell(void)
{
	return &gp_rm.state->shared->procs[gp_rm.state->proc].doorbell;
}

void gp_rm_ring(uint32_t *doorbell)
{
	__atomic_add_fetch(doorbell, 1, __ATOMIC_SEQ_CST);
	gp_futex_wake(doorbell);
}

int gp_rm_init(struct gp_state *state, struct gp_err *err)
{
	const char *fail = getenv("GPUPRES_SOFT_FREEZE_FAIL");

	gp_rm.state = state;
	gp_rm.ctl_fd = memfd_create("gpupres-soft-ctl", MFD_CLOEXEC);
	gp_rm.uvm_fd = memfd_create("gpupres-soft-uvm", MFD_CLOEXEC);
	gp_rm.freeze_fail = fail ? strtoul(fail, NULL, 10) : 0;
	if (gp_rm.ctl_fd < 0 || gp_rm.uvm_fd < 0) {
		int r = gp_err_sys(err, -errno, "cannot make the control descriptors");

		gp_rm_forget();
		return r;
	}
	return 0;
}

void gp_rm_forget(void)
{
	gp_close_fd(&gp_rm.ctl_fd);
	gp_close_fd(&gp_rm.uvm_fd);
}
