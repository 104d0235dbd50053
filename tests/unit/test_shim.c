/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim against a played daemon and mover. This program starts itself again as an application
 * that opens the built shim in front of the software driver, and speaks to it over a real socket.
 * It freezes the application through a context of its own, as the mover does, and takes memory by
 * mapping the fds it is sent, which on the software device are files.
 */
#include "base/rm/channels.h"
#include "base/rm/got.h"
#include "base/time.h"
#include "base/wire/wire.h"
#include "tests/unit/shim_app.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOB		 7
#define PROC		 3
#define DEVICE_MEMORY	 "256M"
#define MAX_TEST_EXTENTS 128
#define CHURN_CYCLES	 15

struct saved {
	uint64_t id, bytes;
	void *copy;
};

struct world {
	char dir[128], socket[160];
	int listener;
	struct gp_rm_watch *watch;
	struct gp_rm_subdevice sub;
	/* of the current application */
	pid_t pid;
	int talk, shim, link;
	uint64_t epoch;
	struct gp_rm_channel channels[GP_WIRE_MAX_CHANNELS];
	size_t n_channels;
	bool complete;
	struct gp_wire_memory memory;
	struct saved saved[MAX_TEST_EXTENTS];
	size_t n_saved;
	uint64_t may_fail; /* cookie of a request that may be answered ERROR, late */
};

static struct world w;

static int world_ioctl(int fd, unsigned long request, void *arg)
{
	return gp_rm_watch_ioctl(w.watch, fd, request, arg);
}

/* The patch left nothing writable of what was read-only after relocation. */
static int check_relro(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	const struct link_map *map = arg;

	for (size_t i = 0; info->dlpi_addr == map->l_addr && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t end = (info->dlpi_addr + p->p_vaddr + p->p_memsz) & ~4095ull;
		unsigned long start, stop;
		char line[512], perms[8];
		FILE *maps;

		if (p->p_type != PT_GNU_RELRO)
			continue;
		CHECK((maps = fopen("/proc/self/maps", "r")));
		while (fgets(line, sizeof(line), maps)) {
			CHECK_EQ(sscanf(line, "%lx-%lx %7s", &start, &stop, perms), 3);
			if (start < end && stop > info->dlpi_addr + p->p_vaddr)
				CHECK_STR(perms, "r--p");
		}
		fclose(maps);
	}
	return 0;
}

/* A context of our own on the device, whose subdevice we freeze others through. */
static void world_open_device(void)
{
	void *handle = open_driver("GPUPRES_DRIVER");
	gp_rm_ioctl_fn rm = (gp_rm_ioctl_fn)dlsym(handle, "rm_ioctl");
	struct link_map *map;
	CUcontext context;
	struct gp_err err;

	CHECK(rm && (w.watch = gp_rm_watch_new(rm)));
	CHECK_EQ(gp_got_patch(handle, "ioctl", (void *)world_ioctl, &err), 0);
	CHECK_EQ(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
	dl_iterate_phdr(check_relro, map);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	CHECK_EQ(gp_rm_watch_subdevice(w.watch, &w.sub, &err), 0);
}

static void world_listen(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	snprintf(w.socket, sizeof(w.socket), "%s/shim.sock", w.dir);
	CHECK(strlen(w.socket) < sizeof(addr.sun_path));
	strcpy(addr.sun_path, w.socket);
	w.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(w.listener >= 0);
	CHECK_EQ(bind(w.listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_EQ(listen(w.listener, 8), 0);
	setenv("GPUPRES_SOCKET", w.socket, 1);
}

/* Whatever is no answer is news about the process. */
static void world_note(const struct gp_wire_msg *m)
{
	switch (m->header.type) {
	case GP_WIRE_CHANNELS:
		CHECK_EQ(m->channels.first, 0);
		w.n_channels = m->channels.n;
		w.complete = m->channels.complete;
		for (size_t i = 0; i < w.n_channels; i++) {
			const struct gp_wire_channel *c = &m->channels.entries[i];

			w.channels[i] = (struct gp_rm_channel){ c->client, c->channel, c->group,
								c->engine };
		}
		break;
	case GP_WIRE_MEMORY:
		w.memory = m->memory;
		break;
	default:
		if (m->header.type == GP_WIRE_ERROR && w.may_fail && m->header.cookie == w.may_fail)
			break;
		fprintf(stderr, "unexpected %s %s\n", gp_wire_name(m->header.type),
			m->header.type == GP_WIRE_ERROR ? m->error.text : "");
		exit(1);
	}
}

static struct gp_wire_msg world_recv(void)
{
	struct gp_wire_msg m;
	struct gp_err err;

	if (gp_wire_recv(w.shim, &m, NULL, 0, NULL, WAIT_MS, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	return m;
}

static struct gp_wire_msg world_await(uint32_t type)
{
	struct gp_wire_msg m = world_recv();

	while (m.header.type != type) {
		world_note(&m);
		m = world_recv();
	}
	return m;
}

static void world_send(struct gp_wire_msg *m)
{
	struct gp_err err;

	m->header.job = JOB;
	m->header.proc = PROC;
	m->header.epoch = m->header.epoch ? m->header.epoch : w.epoch;
	CHECK_EQ(gp_wire_send(w.shim, m, NULL, 0, &err), 0);
}

static struct gp_wire_msg world_ask(uint32_t type, uint32_t answer)
{
	struct gp_wire_msg m;

	gp_wire_init(&m, type);
	m.header.cookie = 100 + type;
	world_send(&m);
	m = world_await(answer);
	CHECK_EQ(m.header.cookie, 100 + type);
	CHECK_EQ(m.header.epoch, w.epoch);
	CHECK_EQ(m.header.job, JOB);
	CHECK_EQ(m.header.proc, PROC);
	return m;
}

static void world_start_app(const char *what)
{
	char fd_text[16];
	int pair[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	snprintf(fd_text, sizeof(fd_text), "%d", pair[1]);
	w.pid = fork();
	if (w.pid == 0) {
		close(pair[0]);
		execl("/proc/self/exe", "test_shim", "app", what, fd_text, (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	w.talk = pair[0];
	w.epoch = 1;
	w.shim = w.link = -1;
	w.n_channels = w.n_saved = 0;
	w.may_fail = 0;
	memset(&w.memory, 0, sizeof(w.memory));
}

/* Dials that nobody took up must not be taken for the next application's. */
static void world_refuse_waiting(void)
{
	int sock;

	while ((sock = accept4(w.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		close(sock);
}

static void world_end_app(void)
{
	int status;

	CHECK_EQ(waitpid(w.pid, &status, 0), w.pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	world_refuse_waiting();
	close(w.talk);
	gp_close_fd(&w.shim);
	gp_close_fd(&w.link);
}

/* Gives the application a link; with @full none that anything can be sent over. */
static void world_link(bool full)
{
	struct gp_wire_msg m = { 0 };
	struct gp_err err;
	int pair[2];

	gp_close_fd(&w.link);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	while (full && send(pair[1], &m, sizeof(m), MSG_DONTWAIT) > 0)
		;
	gp_wire_init(&m, GP_WIRE_LINK);
	m.header.job = JOB;
	m.header.proc = PROC;
	CHECK_EQ(gp_wire_send(w.shim, &m, &pair[1], 1, &err), 0);
	close(pair[1]);
	w.link = pair[0];
}

static struct gp_wire_msg world_accept(void)
{
	struct pollfd p = { .fd = w.listener, .events = POLLIN };
	struct gp_wire_msg m;

	CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
	w.shim = accept4(w.listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(w.shim >= 0);
	m = world_recv();
	CHECK_EQ(m.header.type, GP_WIRE_HELLO);
	CHECK_EQ(m.hello.role, GP_ROLE_SHIM);
	CHECK_EQ(m.header.job, JOB);
	return m;
}

/* HELLO to LINK. */
static void world_welcome(void)
{
	struct gp_wire_msg m = world_accept();

	CHECK_EQ(m.header.proc, 0);
	gp_wire_init(&m, GP_WIRE_WELCOME);
	m.welcome.version = GP_WIRE_VERSION;
	world_send(&m);
	m = world_await(GP_WIRE_ATTACH);
	CHECK_EQ(m.attach.device, 0);
	CHECK(m.attach.total_bytes > 0);
	world_link(false);
}

/* A new daemon: what the process says of itself. */
static struct gp_wire_resync world_resync(void)
{
	struct gp_wire_msg welcome, m;

	gp_close_fd(&w.shim);
	w.n_channels = 0;
	m = world_accept();
	CHECK_EQ(m.header.proc, PROC);
	CHECK_EQ(m.header.epoch, w.epoch);
	m = world_recv();
	CHECK_EQ(m.header.type, GP_WIRE_RESYNC);
	CHECK_EQ(m.resync.attached, 1);
	gp_wire_init(&welcome, GP_WIRE_WELCOME);
	welcome.welcome.version = GP_WIRE_VERSION;
	world_send(&welcome);
	w.epoch++;
	return m.resync;
}

static void world_switch(bool disable)
{
	struct gp_err err;

	CHECK(w.complete);
	CHECK_EQ(w.n_channels, 20);
	if (gp_rm_set_disabled(&w.sub, w.channels, w.n_channels, disable, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
}

static struct saved *world_saved(uint64_t id)
{
	for (size_t i = 0; i < w.n_saved; i++) {
		if (w.saved[i].id == id)
			return &w.saved[i];
	}
	CHECK(w.n_saved < MAX_TEST_EXTENTS);
	w.saved[w.n_saved] = (struct saved){ .id = id };
	return &w.saved[w.n_saved++];
}

static void world_copy(const struct gp_wire_extent *e, int fd, bool save)
{
	void *map = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct saved *s = world_saved(e->id);

	CHECK(map != MAP_FAILED);
	if (save) {
		CHECK(!s->copy && (s->copy = malloc(e->bytes)));
		s->bytes = e->bytes;
		memcpy(s->copy, map, e->bytes);
	} else {
		CHECK(s->copy);
		memcpy(map, s->copy, e->bytes);
		free(s->copy);
		s->copy = NULL;
	}
	munmap(map, e->bytes);
}

/* Takes one message of extents; false after the last. */
static bool world_take_extents(bool save)
{
	struct gp_wire_msg m, ack;
	int fds[GP_WIRE_MAX_FDS];
	struct gp_err err;
	size_t n_fds;

	CHECK_EQ(gp_wire_recv(w.link, &m, fds, GP_WIRE_MAX_FDS, &n_fds, WAIT_MS, &err), 0);
	CHECK_EQ(m.header.type, GP_WIRE_EXTENTS);
	CHECK_EQ(m.extents.error, 0);
	CHECK_EQ(m.extents.n, n_fds);
	for (size_t i = 0; i < n_fds; i++) {
		world_copy(&m.extents.entries[i], fds[i], save);
		close(fds[i]);
	}
	gp_wire_init_reply(&ack, GP_WIRE_EXTENTS_ACK, &m);
	ack.extents_ack.n = m.extents.n;
	CHECK_EQ(gp_wire_send(w.link, &ack, NULL, 0, &err), 0);
	return !m.extents.last;
}

static uint64_t world_free_bytes(void)
{
	size_t free_bytes, total;

	OK(cuMemGetInfo_v2(&free_bytes, &total));
	return free_bytes;
}

/* LOCK, freeze and take all memory. Returns the bytes released. */
static uint64_t world_evict(uint64_t *ret_n)
{
	struct gp_wire_msg m = world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	uint64_t bytes = m.locked.movable_bytes, n = m.locked.n_extents;

	world_switch(true);
	m = world_ask(GP_WIRE_EXPORT, GP_WIRE_EXPORTED);
	CHECK_EQ(m.exported.bytes, bytes);
	CHECK_EQ(m.exported.n, n);
	while (world_take_extents(true))
		;
	CHECK_EQ(w.n_saved, n);
	gp_wire_init(&m, GP_WIRE_RELEASE);
	for (size_t i = 0; i < w.n_saved; i++)
		m.release.ids[m.release.n++] = (uint32_t)w.saved[i].id;
	world_send(&m);
	m = world_await(GP_WIRE_RELEASED);
	CHECK_EQ(m.released.bytes, bytes);
	CHECK_EQ(m.released.n, n);
	if (ret_n)
		*ret_n = n;
	return bytes;
}

/* Brings everything back and lets the application run. */
static void world_restore(void)
{
	w.epoch++;
	world_ask(GP_WIRE_RECREATE, GP_WIRE_RECREATED);
	while (world_take_extents(false))
		;
	world_ask(GP_WIRE_CONFIRM, GP_WIRE_CONFIRMED);
	world_switch(false);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	w.n_saved = 0;
	w.epoch++;
}

static void test_shim_when_swapped_mid_kernel_then_goes_on_bit_exact(void)
{
	uint64_t before = world_free_bytes(), resident, bytes, n;
	CUdeviceptr filler;
	struct gp_wire_msg m;

	world_start_app("swap");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	resident = world_free_bytes();
	bytes = world_evict(&n);
	CHECK_EQ(bytes, BIG_BYTES + 2 * MIB);
	CHECK_EQ(n, 2);
	CHECK_EQ(world_ask(GP_WIRE_PROBE, GP_WIRE_PROBED).probed.mid_kernel, GP_MID_KERNEL_YES);
	CHECK_EQ(world_free_bytes(), resident + bytes);
	say(w.talk, 2);
	CHECK(quiet(w.talk));
	m = world_ask(GP_WIRE_UNLOCK, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -EBUSY);

	/* Somebody else takes the memory: the job stays away, whole. */
	OK(cuMemAlloc_v2(&filler, BIG_BYTES));
	m = world_ask(GP_WIRE_RECREATE, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -ENOMEM);
	OK(cuMemFree_v2(filler));
	CHECK_EQ(world_free_bytes(), resident + bytes);

	w.epoch++;
	m = world_ask(GP_WIRE_RECREATE, GP_WIRE_RECREATED);
	CHECK_EQ(m.recreated.bytes, bytes);
	while (world_take_extents(false))
		;
	m = world_ask(GP_WIRE_UNLOCK, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -EBUSY);
	world_ask(GP_WIRE_CONFIRM, GP_WIRE_CONFIRMED);
	world_switch(false);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(hear(w.talk), 3);
	say(w.talk, 4);
	CHECK(hear(w.talk) > 0);
	world_end_app();
	CHECK_EQ(world_free_bytes(), before);
}

static void test_shim_when_memory_is_short_then_asks_and_waits(void)
{
	struct gp_wire_msg m, answer;
	CUdeviceptr filler;

	world_start_app("need");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	OK(cuMemAlloc_v2(&filler, BIG_BYTES));
	say(w.talk, 2);
	m = world_await(GP_WIRE_NEED);
	CHECK_EQ(m.need.bytes, BIG_BYTES);
	CHECK(quiet(w.talk));
	/* While it waits it can be locked: it holds nothing. */
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	OK(cuMemFree_v2(filler));
	gp_wire_init_reply(&answer, GP_WIRE_OK, &m);
	world_send(&answer);
	CHECK_EQ(hear(w.talk), 3);
	m = world_await(GP_WIRE_NEED);
	gp_wire_init_reply(&answer, GP_WIRE_ERROR, &m);
	answer.error.code = -ENOMEM;
	world_send(&answer);
	CHECK_EQ(hear(w.talk), 4);
	world_end_app();
}

static void test_shim_when_asked_about_pointers_then_answers_for_allocations(void)
{
	uint64_t before = world_free_bytes();

	world_start_app("query");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	say(w.talk, 2);
	CHECK_EQ(hear(w.talk), 3);
	CHECK_EQ(world_free_bytes(), before);
	say(w.talk, 4);
	world_end_app();
}

static void test_shim_when_forked_then_child_is_inert(void)
{
	world_start_app("fork");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	say(w.talk, 2);
	world_end_app();
}

static void test_shim_when_no_daemon_then_runs_unmanaged(void)
{
	setenv("GPUPRES_SOCKET", "/nonexistent/shim.sock", 1);
	world_start_app("simple");
	CHECK_EQ(hear(w.talk), 1);
	say(w.talk, 1);
	CHECK_EQ(hear(w.talk), 2);
	say(w.talk, 0);
	world_end_app();
	setenv("GPUPRES_SOCKET", w.socket, 1);
}

static void test_shim_when_daemon_dies_running_then_goes_on_and_comes_back(void)
{
	struct gp_wire_resync r;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	/* It has heard who it is. */
	CHECK_EQ(world_ask(GP_WIRE_LIST, GP_WIRE_ERROR).error.code, -EOPNOTSUPP);
	gp_close_fd(&w.shim);
	say(w.talk, 1);
	CHECK_EQ(hear(w.talk), 2);
	r = world_resync();
	CHECK_EQ(r.state, GP_RESYNC_OPEN);
	CHECK_EQ(r.linked, 1);
	CHECK_EQ(r.n_extents, 1);
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	CHECK(w.complete);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	say(w.talk, 0);
	world_end_app();
}

static void test_shim_when_new_daemon_refuses_then_runs_unmanaged(void)
{
	struct gp_wire_msg m;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	gp_close_fd(&w.shim);
	world_accept();
	gp_wire_init(&m, GP_WIRE_ERROR);
	m.error.code = -ENOENT;
	world_send(&m);
	say(w.talk, 1);
	CHECK_EQ(hear(w.talk), 2);
	say(w.talk, 0);
	world_end_app();
}

static void test_shim_when_daemon_dies_frozen_then_thaws_itself(void)
{
	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	world_switch(true);
	say(w.talk, 1);
	CHECK(quiet(w.talk));
	unlink(w.socket);
	close(w.listener);
	gp_close_fd(&w.shim);
	CHECK_EQ(hear(w.talk), 2);
	say(w.talk, 0);
	world_listen();
	world_end_app();
}

/* The memory of others in its job may be away. There is no event to wait for: the grace, and more.
 */
static void test_shim_when_daemon_dies_while_its_job_moves_then_waits_for_the_next(void)
{
	struct gp_wire_resync r;
	struct gp_wire_msg m;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	gp_wire_init(&m, GP_WIRE_LOCK);
	m.lock.moves = 1;
	world_send(&m);
	world_await(GP_WIRE_LOCKED);
	world_switch(true);
	say(w.talk, 1);
	unlink(w.socket);
	close(w.listener);
	gp_close_fd(&w.shim);
	CHECK_EQ(poll(&(struct pollfd){ .fd = w.talk, .events = POLLIN }, 1, 11000), 0);
	world_listen();
	r = world_resync();
	CHECK_EQ(r.state, GP_RESYNC_LOCKED);
	world_ask(GP_WIRE_PROBE, GP_WIRE_PROBED);
	world_switch(false);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(hear(w.talk), 2);
	say(w.talk, 0);
	world_end_app();
}

/* Copies may have ended with the daemon: what is in the process is not let go of any more. */
static void test_shim_when_daemon_dies_after_release_then_memory_stays(void)
{
	struct gp_wire_resync r;
	struct gp_wire_msg m;
	int status;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	world_ask(GP_WIRE_EXPORT, GP_WIRE_EXPORTED);
	while (world_take_extents(true))
		;
	kill(w.pid, SIGSTOP);
	CHECK_EQ(waitpid(w.pid, &status, WUNTRACED), w.pid);
	gp_wire_init(&m, GP_WIRE_RELEASE);
	for (size_t i = 0; i < w.n_saved; i++)
		m.release.ids[m.release.n++] = (uint32_t)w.saved[i].id;
	world_send(&m);
	gp_close_fd(&w.shim);
	kill(w.pid, SIGCONT);
	r = world_resync();
	CHECK_EQ(r.state, GP_RESYNC_LOCKED);
	CHECK_EQ(r.n_released, 0);
	for (size_t i = 0; i < w.n_saved; i++)
		free(w.saved[i].copy);
	w.n_saved = 0;
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	say(w.talk, 1);
	CHECK_EQ(hear(w.talk), 2);
	say(w.talk, 0);
	world_end_app();
}

static void test_shim_when_daemon_comes_back_to_frozen_then_it_decides(void)
{
	struct gp_wire_resync r;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	world_switch(true);
	say(w.talk, 1);
	r = world_resync();
	CHECK_EQ(r.state, GP_RESYNC_LOCKED);
	CHECK_EQ(r.n_released, 0);
	CHECK(quiet(w.talk));
	world_ask(GP_WIRE_PROBE, GP_WIRE_PROBED);
	world_switch(false);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	CHECK_EQ(hear(w.talk), 2);
	say(w.talk, 0);
	world_end_app();
}

/* Swapped, then half restored: twice a new daemon, and the last one ends it. */
static void test_shim_when_daemons_die_swapped_and_restoring_then_goes_on_bit_exact(void)
{
	struct gp_wire_resync r;
	uint64_t bytes;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	bytes = world_evict(NULL);
	say(w.talk, 1);
	r = world_resync();
	CHECK_EQ(r.state, GP_RESYNC_AWAY);
	CHECK_EQ(r.n_released, r.n_extents);
	CHECK_EQ(r.released_bytes, bytes);
	CHECK_EQ(r.linked, 1);
	w.may_fail = world_ask(GP_WIRE_RECREATE, GP_WIRE_RECREATED).header.cookie;
	r = world_resync();
	CHECK_EQ(r.state, GP_RESYNC_UNFILLED);
	CHECK_EQ(r.n_released, 0);
	CHECK_EQ(r.n_unfilled, r.n_extents);
	/* The mover is another one, too. */
	gp_close_fd(&w.link);
	world_link(false);
	CHECK(quiet(w.talk));
	world_restore();
	CHECK_EQ(hear(w.talk), 2);
	say(w.talk, 0);
	world_end_app();
}

/*
 * The application is stopped until its next try to send is overdue, so that it finds the new link
 * in the same turn; or tries just before that, fails, and says so.
 */
static void test_shim_when_link_is_replaced_while_sending_then_lives(void)
{
	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_link(true);
	world_ask(GP_WIRE_LOCK, GP_WIRE_LOCKED);
	w.may_fail = world_ask(GP_WIRE_EXPORT, GP_WIRE_EXPORTED).header.cookie;
	kill(w.pid, SIGSTOP);
	CHECK(quiet(w.talk));
	world_link(false);
	kill(w.pid, SIGCONT);
	world_ask(GP_WIRE_UNLOCK, GP_WIRE_UNLOCKED);
	say(w.talk, 0);
	world_end_app();
}

static void test_shim_when_scratched_then_can_end(void)
{
	CUdeviceptr filler;
	uint64_t free_bytes;
	int status;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_evict(NULL);
	for (size_t i = 0; i < w.n_saved; i++)
		free(w.saved[i].copy);
	free_bytes = world_free_bytes();
	OK(cuMemAlloc_v2(&filler, free_bytes - 2 * MIB));
	w.epoch++;
	world_ask(GP_WIRE_SCRATCH, GP_WIRE_SCRATCHED);
	world_switch(false);
	CHECK_EQ(world_ask(GP_WIRE_UNLOCK, GP_WIRE_ERROR).error.code, -EBUSY);
	kill(w.pid, SIGKILL);
	CHECK_EQ(waitpid(w.pid, &status, 0), w.pid);
	close(w.talk);
	gp_close_fd(&w.shim);
	gp_close_fd(&w.link);
	OK(cuMemFree_v2(filler));
}

static void move_many(const char *app)
{
	uint64_t n;

	world_start_app(app);
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	CHECK_EQ(world_evict(&n), 2 * MANY * MIB);
	CHECK_EQ(n, MANY);
	world_restore();
	say(w.talk, 2);
	CHECK_EQ(hear(w.talk), 3);
	while (w.memory.n_extents) {
		struct gp_wire_msg m = world_recv();

		world_note(&m);
	}
	say(w.talk, 4);
	world_end_app();
}

static void test_shim_when_extents_are_many_then_all_move(void)
{
	move_many("many");
}

static void test_shim_when_fds_run_out_then_moves_in_smaller_parts(void)
{
	move_many("few-fds");
}

static void test_shim_when_threads_allocate_then_every_cycle_is_exact(void)
{
	world_start_app("churn");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	for (int i = 0; i < CHURN_CYCLES; i++) {
		world_evict(NULL);
		world_restore();
	}
	say(w.talk, 2);
	CHECK_EQ(hear(w.talk), 3);
	say(w.talk, 4);
	world_end_app();
}

/* What a program does at its end waits like any other call, and is not left hanging. */
static void test_shim_when_locked_then_exit_waits_for_unlock(void)
{
	int status;

	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	world_evict(NULL);
	say(w.talk, 0);
	CHECK(quiet(w.talk));
	CHECK_EQ(waitpid(w.pid, &status, WNOHANG), 0);
	world_restore();
	world_end_app();
}

static void test_shim_when_preloaded_then_the_same(void)
{
	const char *shim = getenv("TEST_SHIM");

	CHECK(shim);
	setenv("LD_PRELOAD", shim, 1);
	test_shim_when_asked_about_pointers_then_answers_for_allocations();
	test_shim_when_swapped_mid_kernel_then_goes_on_bit_exact();
	unsetenv("LD_PRELOAD");
}

static void test_shim_when_not_locked_then_refuses_to_move(void)
{
	world_start_app("simple");
	world_welcome();
	CHECK_EQ(hear(w.talk), 1);
	CHECK_EQ(world_ask(GP_WIRE_EXPORT, GP_WIRE_ERROR).error.code, -EPROTO);
	CHECK_EQ(world_ask(GP_WIRE_RECREATE, GP_WIRE_ERROR).error.code, -EPROTO);
	CHECK_EQ(world_ask(GP_WIRE_LIST, GP_WIRE_ERROR).error.code, -EOPNOTSUPP);
	say(w.talk, 0);
	world_end_app();
}

static void world_remove(void)
{
	char command[512];

	snprintf(command, sizeof(command), "rm -rf '%s' '%s'", w.dir, getenv("GPUPRES_SOFT_DIR"));
	if (system(command))
		fprintf(stderr, "left behind: %s\n", w.dir);
}

static void set_path(const char *name, const char *build, const char *what)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/lib/gpupres/%s/libcuda.so.1", build, what);
	setenv(name, path, 1);
}

static void world_make(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[512];

	snprintf(w.dir, sizeof(w.dir), "%s/shim-XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(w.dir));
	CHECK(getenv("GP_BUILD"));
	snprintf(path, sizeof(path), "%s", getenv("GP_BUILD"));
	set_path("TEST_SHIM", path, "shim");
	set_path("GPUPRES_DRIVER", path, "soft");
	snprintf(path, sizeof(path), "/dev/shm/gpupres-test-shim-%d", getpid());
	CHECK_EQ(mkdir(path, 0700), 0);
	setenv("GPUPRES_SOFT_DIR", path, 1);
	setenv("GPUPRES_SOFT_MEMORY", DEVICE_MEMORY, 1);
	setenv("GPUPRES_JOB", "7", 1);
	atexit(world_remove);
	world_open_device();
	world_listen();
}

int main(int argc, char **argv)
{
	if (argc == 4)
		return app_main(argv[2], atoi(argv[3]));
	world_make();
	test_shim_when_no_daemon_then_runs_unmanaged();
	test_shim_when_asked_about_pointers_then_answers_for_allocations();
	test_shim_when_swapped_mid_kernel_then_goes_on_bit_exact();
	test_shim_when_memory_is_short_then_asks_and_waits();
	test_shim_when_not_locked_then_refuses_to_move();
	test_shim_when_forked_then_child_is_inert();
	test_shim_when_scratched_then_can_end();
	test_shim_when_extents_are_many_then_all_move();
	test_shim_when_fds_run_out_then_moves_in_smaller_parts();
	test_shim_when_threads_allocate_then_every_cycle_is_exact();
	test_shim_when_locked_then_exit_waits_for_unlock();
	test_shim_when_link_is_replaced_while_sending_then_lives();
	test_shim_when_preloaded_then_the_same();
	test_shim_when_daemon_dies_running_then_goes_on_and_comes_back();
	test_shim_when_new_daemon_refuses_then_runs_unmanaged();
	test_shim_when_daemon_dies_while_its_job_moves_then_waits_for_the_next();
	test_shim_when_daemon_dies_after_release_then_memory_stays();
	test_shim_when_daemon_comes_back_to_frozen_then_it_decides();
	test_shim_when_daemons_die_swapped_and_restoring_then_goes_on_bit_exact();
	test_shim_when_daemon_dies_frozen_then_thaws_itself();
	return 0;
}
