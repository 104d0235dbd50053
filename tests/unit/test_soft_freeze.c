/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezing on the software device. This program interposes ioctl (it must export its symbols), as a
 * shim does: it passes the driver's requests to rm_ioctl and learns the handles.
 */
#include "shim/soft/rm_abi.h"
#include "tests/unit/soft_device.h"

#include <stdarg.h>
#include <stdbool.h>
#include <sys/syscall.h>

#define MAX_CHANNELS 64

struct handles {
	uint32_t client, subdevice;
	uint32_t gr_group;
	uint32_t n_channels, n_gr, n_groups, n_registered;
	uint32_t channel[MAX_CHANNELS]; /* GR first */
};

static struct handles seen;
static int ctl_fd = -1;
static int (*rm)(int fd, unsigned long req, void *arg);

static void learn(int fd, const struct gp_rm_alloc *alloc)
{
	const struct gp_rm_group_params *params = (const void *)(uintptr_t)alloc->params;

	switch (alloc->class_id) {
	case GP_RM_CLASS_CLIENT:
		seen = (struct handles){ .client = alloc->object };
		break;
	case GP_RM_CLASS_SUBDEVICE:
		seen.subdevice = alloc->object;
		ctl_fd = fd;
		break;
	case GP_RM_CLASS_GROUP:
		seen.n_groups++;
		if (params->engine_type == GP_RM_ENGINE_GR)
			seen.gr_group = alloc->object;
		break;
	case GP_RM_CLASS_CHANNEL:
		seen.channel[seen.n_channels++] = alloc->object;
		seen.n_gr += alloc->parent == seen.gr_group;
		break;
	}
}

int ioctl(int fd, unsigned long req, ...)
{
	va_list ap;
	void *arg;
	int r;

	va_start(ap, req);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!rm && soft_handle)
		rm = (int (*)(int, unsigned long, void *))dlsym(soft_handle, "rm_ioctl");
	if (!rm)
		return (int)syscall(SYS_ioctl, fd, req, arg);
	r = rm(fd, req, arg);
	if (r == 0 && req == GP_RM_IOCTL_ALLOC)
		learn(fd, arg);
	if (r == 0 && req == GP_UVM_IOCTL_REGISTER)
		seen.n_registered++;
	return r;
}

static uint32_t control(uint32_t object, uint32_t cmd, void *params, uint32_t bytes)
{
	struct gp_rm_control args = {
		.client = seen.client,
		.object = object,
		.cmd = cmd,
		.params = (uintptr_t)params,
		.params_size = bytes,
	};

	CHECK_EQ(rm(ctl_fd, GP_RM_IOCTL_CONTROL, &args), 0);
	return args.status;
}

/* Channels [first, first + n) of @of, through our own subdevice. */
static uint32_t disable(const struct handles *of, uint32_t first, uint32_t n, bool on)
{
	struct gp_rm_disable args = { .disable = on, .n = n };

	for (uint32_t i = 0; i < n && i < GP_RM_LIST_MAX; i++) {
		args.client[i] = of->client;
		args.channel[i] = of->channel[first + i];
	}
	return control(seen.subdevice, GP_RM_CMD_DISABLE_CHANNELS, &args, sizeof(args));
}

static struct gp_rm_ctxsw_stats stats(uint32_t channel)
{
	struct gp_rm_ctxsw_stats args = { .channel = channel };

	CHECK_EQ(control(seen.subdevice, GP_RM_CMD_CTXSW_STATS, &args, sizeof(args)), GP_RM_OK);
	return args;
}

/*
 * The victim's counter lives in an extent that the freezer imports: both look at the same memory.
 * soft_words[0]: go on; [1]: a pattern the victim's copies carry.
 */
static void victim(int sock)
{
	CUmemGenericAllocationHandle handle;
	struct gp_rm_ctxsw_stats total = { 0 };
	CUstream copy;
	CUdeviceptr va;
	int fd;

	soft_start();
	OK(cuMemCreate(&handle, 2 * MIB, &soft_prop, 0));
	OK(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
	OK(cuMemMap(va, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(va, 2 * MIB, &soft_access, 1));
	OK(cuStreamCreate(&copy, CU_STREAM_NON_BLOCKING));
	OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	soft_launch("spin", va, NULL);
	SOFT_UNTIL(*(volatile uint32_t *)(uintptr_t)va);
	soft_send_fd(sock, fd);
	CHECK(send(sock, &seen, sizeof(seen), MSG_NOSIGNAL) == sizeof(seen));
	soft_hear(sock);
	OK(cuMemsetD32Async(va + 4096, 0xabcd, 1, copy));
	soft_say(sock);
	OK(cuCtxSynchronize());
	for (uint32_t i = 0; i < seen.n_channels; i++) {
		struct gp_rm_ctxsw_stats one = stats(seen.channel[i]);

		total.save += one.save;
		total.cilp += one.cilp;
		total.wfi += one.wfi;
	}
	CHECK(send(sock, &total, sizeof(total), MSG_NOSIGNAL) == sizeof(total));
	soft_hear(sock);
}

struct peer {
	int sock;
	pid_t pid;
	struct handles handles;
	volatile uint32_t *word; /* the victim's memory */
};

static void peer_start(struct peer *peer)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr va;
	int fd;

	peer->pid = soft_child(victim, &peer->sock);
	fd = soft_receive_fd(peer->sock);
	CHECK(recv(peer->sock, &peer->handles, sizeof(peer->handles), 0) == sizeof(peer->handles));
	soft_start();
	OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	OK(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
	OK(cuMemMap(va, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(va, 2 * MIB, &soft_access, 1));
	OK(cuMemRelease(handle));
	peer->word = (volatile uint32_t *)(uintptr_t)va;
}

static void advances(struct peer *peer)
{
	uint32_t before = peer->word[0];

	SOFT_UNTIL(peer->word[0] != before);
}

/* Enough turns of the processor for a running kernel to show. */
static void stands_still(struct peer *peer)
{
	uint64_t end_ns = gp_now_ns() + 50 * GP_NS_PER_MS;
	uint32_t before = peer->word[0];

	while (gp_now_ns() < end_ns)
		sched_yield();
	CHECK_EQ(peer->word[0], before);
}

static void test_context_when_created_then_4_groups_20_channels_registered(void)
{
	soft_start();
	CHECK_EQ(seen.n_groups, 4);
	CHECK_EQ(seen.n_channels, 20);
	CHECK_EQ(seen.n_gr, 8);
	CHECK_EQ(seen.n_registered, 20);
	CHECK_EQ(seen.client & 0xffff0000u, 0xc1d00000u);
}

static void test_freeze_when_kernel_of_other_process_runs_then_stops_midway_and_resumes(void)
{
	struct gp_rm_ctxsw_stats total;
	struct peer peer;

	peer_start(&peer);
	CHECK(peer.handles.client != seen.client);
	for (int i = 0; i < 20; i++) {
		advances(&peer);
		CHECK_EQ(disable(&peer.handles, 0, 20, true), GP_RM_OK);
		if (i % 10 == 0)
			stands_still(&peer);
		CHECK_EQ(disable(&peer.handles, 0, 20, false), GP_RM_OK);
	}
	advances(&peer);
	CHECK_EQ(disable(&peer.handles, 0, 20, true), GP_RM_OK);
	soft_say(peer.sock);
	soft_hear(peer.sock);
	stands_still(&peer);
	CHECK_EQ(peer.word[1024], 0); /* copy channels are off as well */
	peer.word[1] = 1;
	CHECK_EQ(disable(&peer.handles, 0, 20, false), GP_RM_OK);
	CHECK(recv(peer.sock, &total, sizeof(total), 0) == sizeof(total));
	CHECK_EQ(peer.word[1024], 0xabcd);
	CHECK_EQ(total.save, 21 * 20);
	CHECK_EQ(total.cilp, 21 * 8); /* all of the compute group, whichever ran the kernel */
	CHECK_EQ(total.wfi, 21 * 12);
	soft_say(peer.sock);
	soft_join(peer.pid, 0);
}

static void test_freeze_when_group_only_partly_listed_then_kernel_runs_on(void)
{
	uint8_t enable = 1;
	struct peer peer;

	peer_start(&peer);
	CHECK_EQ(disable(&peer.handles, 0, 7, true), GP_RM_OK);
	advances(&peer);
	CHECK_EQ(disable(&peer.handles, 7, 1, true), GP_RM_OK);
	stands_still(&peer);
	/* Compute off, copies on. */
	soft_say(peer.sock);
	soft_hear(peer.sock);
	SOFT_UNTIL(peer.word[1024] == 0xabcd);
	stands_still(&peer);
	CHECK_EQ(disable(&peer.handles, 3, 1, false), GP_RM_OK);
	advances(&peer);
	/* A schedule of the group undoes a freeze, but only by its owner. */
	CHECK_EQ(control(peer.handles.gr_group, GP_RM_CMD_GROUP_SCHEDULE, &enable, 1), GP_RM_OK);
	kill(peer.pid, SIGKILL);
	soft_join(peer.pid, SIGKILL);
}

static void test_freeze_when_handle_unknown_then_nothing_applied(void)
{
	struct handles wrong;
	struct peer peer;

	peer_start(&peer);
	wrong = peer.handles;
	wrong.channel[19] = 0xdead;
	CHECK_EQ(disable(&wrong, 0, 20, true), GP_RM_INVALID_CHANNEL);
	advances(&peer);
	CHECK_EQ(disable(&peer.handles, 0, 65, true), GP_RM_INVALID_ARGUMENT);
	kill(peer.pid, SIGKILL);
	soft_join(peer.pid, SIGKILL);
	/* A dead owner's channels are gone, frozen or not. */
	CHECK_EQ(disable(&peer.handles, 0, 20, true), GP_RM_INVALID_CHANNEL);
}

static void test_freeze_when_victim_is_killed_frozen_then_device_stays_usable(void)
{
	struct peer peer;
	uint64_t before;

	peer_start(&peer);
	before = soft_free_bytes();
	CHECK_EQ(disable(&peer.handles, 0, 20, true), GP_RM_OK);
	kill(peer.pid, SIGKILL);
	soft_join(peer.pid, SIGKILL);
	CHECK_EQ(disable(&peer.handles, 0, 20, false), GP_RM_INVALID_CHANNEL);
	CHECK(soft_free_bytes() > before);
	OK(cuCtxDestroy_v2(soft_ctx));
	soft_start();
	CHECK_EQ(seen.n_channels, 20);
}

static void test_freeze_when_victim_stopped_by_signal_then_times_out_and_enables(void)
{
	struct peer peer;
	uint64_t start_ns;
	int status;

	peer_start(&peer);
	kill(peer.pid, SIGSTOP);
	CHECK_EQ(waitpid(peer.pid, &status, WUNTRACED), peer.pid);
	CHECK(WIFSTOPPED(status));
	start_ns = gp_now_ns();
	CHECK_EQ(disable(&peer.handles, 0, 20, true), GP_RM_TIMEOUT);
	CHECK(gp_now_ns() - start_ns < 10 * GP_NS_PER_SEC);
	kill(peer.pid, SIGCONT);
	advances(&peer);
	kill(peer.pid, SIGKILL);
	soft_join(peer.pid, SIGKILL);
}

static void test_freeze_when_own_group_scheduled_then_enabled_again(void)
{
	struct gp_rm_ctxsw_stats args;
	uint8_t enable = 1;
	CUdeviceptr p;
	volatile uint32_t *word;
	uint32_t count;

	soft_start();
	OK(cuMemAlloc_v2(&p, 8));
	OK(cuMemsetD8_v2(p, 0, 8));
	OK(cuCtxSynchronize());
	word = (volatile uint32_t *)(uintptr_t)p;
	soft_launch("spin", p, NULL);
	SOFT_UNTIL(word[0]);
	/* One channel of a group that runs on: nothing was saved, nothing restored. */
	CHECK_EQ(disable(&seen, 0, 1, true), GP_RM_OK);
	CHECK_EQ(stats(seen.channel[0]).restore, 0);
	CHECK_EQ(disable(&seen, 0, 8, true), GP_RM_OK);
	count = word[0];
	args = (struct gp_rm_ctxsw_stats){ .channel = seen.gr_group };
	CHECK_EQ(control(seen.subdevice, GP_RM_CMD_CTXSW_STATS, &args, sizeof(args)),
		 GP_RM_INVALID_CHANNEL);
	CHECK_EQ(stats(seen.channel[0]).save, 1);
	CHECK_EQ(stats(seen.channel[0]).restore, 0);
	CHECK_EQ(word[0], count);
	CHECK_EQ(control(seen.gr_group, GP_RM_CMD_GROUP_SCHEDULE, &enable, 1), GP_RM_OK);
	CHECK_EQ(stats(seen.channel[0]).restore, 1);
	SOFT_UNTIL(word[0] != count);
	word[1] = 1;
	OK(cuCtxSynchronize());
}

static void test_freeze_when_fault_injected_then_every_second_fails(void)
{
	setenv("GPUPRES_SOFT_FREEZE_FAIL", "2", 1);
	soft_start();
	CHECK_EQ(disable(&seen, 0, 20, true), GP_RM_OK);
	CHECK_EQ(disable(&seen, 0, 20, true), GP_RM_INVALID_CHANNEL);
	CHECK_EQ(disable(&seen, 0, 20, false), GP_RM_OK);
	OK(cuCtxSynchronize());
}

/* The memory goes away under a frozen kernel and comes back elsewhere: the kernel goes on with it.
 */
static void test_freeze_when_memory_swapped_under_kernel_then_finishes(void)
{
	CUmemGenericAllocationHandle handle;
	static char saved[2 * MIB];
	volatile uint32_t *word;
	CUdeviceptr va;
	uint32_t count;

	soft_start();
	OK(cuMemCreate(&handle, 2 * MIB, &soft_prop, 0));
	OK(cuMemAddressReserve(&va, 2 * MIB, 0, 0, 0));
	OK(cuMemMap(va, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(va, 2 * MIB, &soft_access, 1));
	OK(cuMemRelease(handle));
	word = (volatile uint32_t *)(uintptr_t)va;
	soft_launch("spin", va, NULL);
	SOFT_UNTIL(word[0]);
	CHECK_EQ(disable(&seen, 0, 20, true), GP_RM_OK);
	count = word[0];
	memcpy(saved, (void *)(uintptr_t)va, sizeof(saved));
	OK(cuMemUnmap(va, 2 * MIB));
	OK(cuMemCreate(&handle, 2 * MIB, &soft_prop, 0));
	OK(cuMemMap(va, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(va, 2 * MIB, &soft_access, 1));
	OK(cuMemRelease(handle));
	memcpy((void *)(uintptr_t)va, saved, sizeof(saved));
	CHECK_EQ(word[0], count);
	CHECK_EQ(disable(&seen, 0, 20, false), GP_RM_OK);
	CHECK_EQ(stats(seen.channel[0]).restore, 1);
	SOFT_UNTIL(word[0] != count);
	word[1] = 1;
	OK(cuCtxSynchronize());
}

/* Copies both ways and kernels; every word must come out as computed. */
static void worker(int sock)
{
	enum { N = 1 << 18 };
	CUdeviceptr p, q;
	CUstream stream;
	uint32_t *host;

	soft_start();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemHostAlloc((void **)&host, N * 4, 0));
	OK(cuMemAlloc_v2(&p, N * 4));
	OK(cuMemAlloc_v2(&q, N * 4));
	CHECK(send(sock, &seen, sizeof(seen), MSG_NOSIGNAL) == sizeof(seen));
	for (uint32_t round = 0; !soft_words[0] || round < 20; round++) {
		for (uint32_t i = 0; i < N; i++)
			host[i] = round + i;
		OK(cuMemcpyHtoDAsync_v2(p, host, N * 4, stream));
		for (int i = 0; i < 10; i++)
			soft_launch("incr", p, stream);
		OK(cuMemcpyDtoDAsync_v2(q, p, N * 4, stream));
		OK(cuMemsetD8Async(p, 0, N * 4, stream));
		OK(cuMemcpyDtoHAsync_v2(host, q, N * 4, stream));
		OK(cuStreamSynchronize(stream));
		CHECK_EQ(host[0], round + 10);
		for (uint32_t i = 1; i < N; i++)
			CHECK(host[i] == round + i);
		soft_words[2] = round;
	}
}

static void test_freeze_when_copies_and_kernels_mix_then_results_exact(void)
{
	static const uint32_t parts[][2] = { { 0, 20 }, { 0, 8 }, { 8, 12 }, { 12, 4 } };
	struct handles of;
	int sock;
	pid_t pid = soft_child(worker, &sock);

	CHECK(recv(sock, &of, sizeof(of), 0) == sizeof(of));
	soft_start();
	for (int i = 0; i < 400; i++) {
		const uint32_t *part = parts[i % 4];

		CHECK_EQ(disable(&of, part[0], part[1], true), GP_RM_OK);
		CHECK_EQ(disable(&of, part[0], part[1], false), GP_RM_OK);
	}
	soft_words[0] = 1;
	soft_join(pid, 0);
}

static void freezer(int sock)
{
	struct handles of;

	soft_start();
	CHECK(recv(sock, &of, sizeof(of), 0) == sizeof(of));
	CHECK_EQ(disable(&of, 0, 20, true), GP_RM_OK);
	soft_say(sock);
	pause();
}

static void test_freeze_when_freezer_dies_then_others_can_enable(void)
{
	struct peer peer;
	int sock;
	pid_t pid = soft_child(freezer, &sock);

	peer_start(&peer);
	CHECK(send(sock, &peer.handles, sizeof(peer.handles), 0) == sizeof(peer.handles));
	soft_hear(sock);
	kill(pid, SIGKILL);
	soft_join(pid, SIGKILL);
	stands_still(&peer);
	CHECK_EQ(disable(&peer.handles, 0, 20, false), GP_RM_OK);
	advances(&peer);
	kill(peer.pid, SIGKILL);
	soft_join(peer.pid, SIGKILL);
}

int main(void)
{
	void (*const tests[])(void) = {
		test_context_when_created_then_4_groups_20_channels_registered,
		test_freeze_when_kernel_of_other_process_runs_then_stops_midway_and_resumes,
		test_freeze_when_group_only_partly_listed_then_kernel_runs_on,
		test_freeze_when_handle_unknown_then_nothing_applied,
		test_freeze_when_victim_is_killed_frozen_then_device_stays_usable,
		test_freeze_when_victim_stopped_by_signal_then_times_out_and_enables,
		test_freeze_when_own_group_scheduled_then_enabled_again,
		test_freeze_when_fault_injected_then_every_second_fails,
		test_freeze_when_memory_swapped_under_kernel_then_finishes,
		test_freeze_when_copies_and_kernels_mix_then_results_exact,
		test_freeze_when_freezer_dies_then_others_can_enable,
	};

	return soft_run(tests, sizeof(tests) / sizeof(tests[0]));
}
