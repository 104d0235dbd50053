/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory shared by the processes of one software device; see state.h for the invariants.
 */
#include "shim/soft/state.h"

#include "base/log.h"
#include "base/size.h"
#include "base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define GP_STATE_MAGIC		0x3174666f73707067ull /* "gppsoft1" */
#define GP_STATE_DEFAULT_MEMORY (1ull << 30)
#define GP_STATE_FIRST_CLIENT	0xc1d00000u /* as RM numbers its clients */
#define GP_STATE_LOCK_MEMORY	0
#define GP_STATE_LOCK_CHANNELS	1

/* Longer than a freeze may keep the channel lock (rm.c: 2 s). */
#define GP_STATE_LOCK_TIMEOUT_NS (10 * GP_NS_PER_SEC)
#define GP_STATE_LOCK_NAP_NS	 20000

int gp_futex_wait(uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(timeout_ns / GP_NS_PER_SEC),
		.tv_nsec = (long)(timeout_ns % GP_NS_PER_SEC),
	};
	long r = syscall(SYS_futex, word, FUTEX_WAIT, value, &ts, NULL, 0);

	return r < 0 && errno == ETIMEDOUT ? -ETIMEDOUT : 0;
}

void gp_futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool gp_gate_enter(struct gp_gate *gate)
{
	__atomic_add_fetch(&gate->active, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&gate->stop, __ATOMIC_SEQ_CST))
		return true;
	gp_gate_leave(gate);
	return false;
}

void gp_gate_leave(struct gp_gate *gate)
{
	if (__atomic_sub_fetch(&gate->active, 1, __ATOMIC_SEQ_CST) == 0 &&
	    __atomic_load_n(&gate->stop, __ATOMIC_SEQ_CST))
		gp_futex_wake(&gate->active);
}

static int state_byte(struct gp_state *state, int cmd, short type, off_t byte)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
	int r;

	do
		r = fcntl(state->lock_fd, cmd, &lock);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return cmd == F_GETLK && lock.l_type != F_UNLCK;
}

/*
 * A holder can be stopped (debugger, cgroup freezer) but not for ever in our way: record locks have
 * no timed wait, so this polls, up to a deadline. Holders keep a lock for microseconds.
 */
static int state_lock(struct gp_state *state, pthread_mutex_t *mutex, off_t byte)
{
	uint64_t deadline_ns = gp_now_ns() + GP_STATE_LOCK_TIMEOUT_NS;
	struct timespec nap = { .tv_nsec = GP_STATE_LOCK_NAP_NS };
	int r;

	pthread_mutex_lock(mutex);
	while ((r = state_byte(state, F_SETLK, F_WRLCK, byte)) < 0) {
		if ((r != -EAGAIN && r != -EACCES) || gp_now_ns() > deadline_ns) {
			pthread_mutex_unlock(mutex);
			gp_log(GP_LOG_ERR, "soft-lock", "dir=%s lock=%lld error=\"%s\"",
			       state->path, (long long)byte,
			       r == -EAGAIN || r == -EACCES
				       ? "held by a process that does not go on"
				       : strerror(-r));
			return r == -EACCES || r == -EAGAIN ? -EBUSY : r;
		}
		nanosleep(&nap, NULL);
	}
	return 0;
}

static void state_unlock(struct gp_state *state, pthread_mutex_t *mutex, off_t byte)
{
	state_byte(state, F_SETLK, F_UNLCK, byte);
	pthread_mutex_unlock(mutex);
}

static int state_lock_memory(struct gp_state *state)
{
	return state_lock(state, &state->memory_mutex, GP_STATE_LOCK_MEMORY);
}

static void state_unlock_memory(struct gp_state *state)
{
	state_unlock(state, &state->memory_mutex, GP_STATE_LOCK_MEMORY);
}

int gp_state_lock_channels(struct gp_state *state)
{
	return state_lock(state, &state->channel_mutex, GP_STATE_LOCK_CHANNELS);
}

void gp_state_unlock_channels(struct gp_state *state)
{
	state_unlock(state, &state->channel_mutex, GP_STATE_LOCK_CHANNELS);
}

bool gp_state_proc_alive(struct gp_state *state, uint32_t proc)
{
	if (proc == state->proc)
		return true;
	if (proc >= GP_STATE_MAX_PROCS)
		return false;
	return state_byte(state, F_GETLK, F_WRLCK, GP_STATE_ALIVE + (off_t)proc) != 0;
}

/* Opens an allocation and tries for the exclusive lock: success means nobody uses it. */
static bool state_file_dead(struct gp_state *state, const char *name)
{
	gp_auto_fd int fd = openat(state->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Memory lock held. */
static void state_sweep(struct gp_state *state)
{
	int fd = openat(state->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	uint64_t used = 0;
	struct dirent *entry;
	struct stat st;

	if (!dir) {
		gp_close_fd(&fd);
		return; /* without fds nothing can be found dead: the figure stays as it was */
	}
	while ((entry = readdir(dir))) {
		const char *name = entry->d_name;

		if ((name[0] != 'd' && name[0] != 'h') || name[1] != '.')
			continue;
		if (state_file_dead(state, name))
			unlinkat(state->dir_fd, name, 0);
		else if (name[0] == 'd' && fstatat(state->dir_fd, name, &st, 0) == 0)
			used += (uint64_t)st.st_size;
	}
	closedir(dir);
	state->shared->used_bytes = used;
}

static void state_file_name(char name[32], uint64_t id, bool host)
{
	snprintf(name, 32, "%c.%016" PRIx64, host ? 'h' : 'd', id);
}

int gp_state_file_open(struct gp_state *state, uint64_t id, bool host)
{
	char name[32];
	int fd;

	state_file_name(name, id, host);
	fd = openat(state->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	/* May wait for a sweeper's try, which ends at once. */
	while (flock(fd, LOCK_SH) < 0)
		if (errno != EINTR) {
			int r = -errno;

			close(fd);
			return r;
		}
	return fd;
}

/*
 * A device is for those that may write in its folder, as /dev/nvidia0 is for those that may open
 * it; whoever makes a file there has a umask of his own.
 */
static int state_create(const struct gp_state *state, const char *name, int flags)
{
	int fd = openat(state->dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags,
			state->file_mode);
	struct stat st;

	/* If it cannot be changed, it is of use to its owner still. */
	if (fd >= 0 && state->file_mode != 0600 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	    (st.st_mode & 0777) != state->file_mode)
		(void)fchmod(fd, state->file_mode);
	return fd;
}

static int state_file_make(struct gp_state *state, const char *name, uint64_t bytes)
{
	gp_auto_fd int fd = state_create(state, name, O_EXCL);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0) {
		int r = -errno;

		unlinkat(state->dir_fd, name, 0);
		return r;
	}
	return gp_take_fd(&fd);
}

int gp_state_file_create(struct gp_state *state, uint64_t bytes, bool host, uint64_t *ret_id)
{
	struct gp_state_shared *shared = state->shared;
	int fd = -ENOMEM, r = state_lock_memory(state);
	char name[32];

	if (r < 0)
		return r;
	if (!host &&
	    (bytes > shared->capacity_bytes || shared->used_bytes > shared->capacity_bytes - bytes))
		state_sweep(state);
	if (host || (bytes <= shared->capacity_bytes &&
		     shared->used_bytes <= shared->capacity_bytes - bytes)) {
		*ret_id = shared->next_file++;
		state_file_name(name, *ret_id, host);
		if (!host)
			shared->used_bytes += bytes;
		fd = state_file_make(state, name, bytes);
		if (fd < 0 && !host)
			shared->used_bytes -= bytes;
	}
	state_unlock_memory(state);
	return fd;
}

int gp_state_file_identify(struct gp_state *state, int fd, uint64_t *ret_id, bool *ret_host,
			   uint64_t *ret_bytes)
{
	char proc[64], target[256], name[32];
	const char *base;
	struct stat st, named;
	ssize_t n;
	char kind;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	n = readlink(proc, target, sizeof(target) - 1);
	if (n <= 0)
		return -EINVAL;
	target[n] = '\0';
	base = strrchr(target, '/');
	if (!base || sscanf(base + 1, "%c.%16" SCNx64, &kind, ret_id) != 2 ||
	    (kind != 'd' && kind != 'h'))
		return -EINVAL;
	state_file_name(name, *ret_id, kind == 'h');
	/* The path seen by the sender may differ: what counts is that it is our file. */
	if (fstat(fd, &st) < 0 || fstatat(state->dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_dev != named.st_dev || st.st_ino != named.st_ino)
		return -EINVAL;
	*ret_host = kind == 'h';
	*ret_bytes = (uint64_t)st.st_size;
	return 0;
}

void gp_state_file_reap(struct gp_state *state, uint64_t id, bool host)
{
	struct stat st;
	char name[32];

	state_file_name(name, id, host);
	if (state_lock_memory(state) < 0)
		return; /* the next sweep finds it */
	if (state_file_dead(state, name) && fstatat(state->dir_fd, name, &st, 0) == 0 &&
	    unlinkat(state->dir_fd, name, 0) == 0 && !host)
		state->shared->used_bytes -= (uint64_t)st.st_size;
	state_unlock_memory(state);
}

int gp_state_memory(struct gp_state *state, uint64_t *ret_used, uint64_t *ret_capacity)
{
	int r = state_lock_memory(state);

	if (r < 0)
		return r;
	state_sweep(state);
	*ret_used = state->shared->used_bytes;
	*ret_capacity = state->shared->capacity_bytes;
	state_unlock_memory(state);
	return 0;
}

static uint64_t state_start_ticks(void)
{
	gp_auto_fd int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	char buf[1024], *p;
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (n <= 0)
		return 0;
	buf[n] = '\0';
	p = strrchr(buf, ')'); /* the name may hold anything; fields count from behind it */
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

static int state_capacity(uint64_t *ret_bytes, struct gp_err *err)
{
	const char *text = getenv("GPUPRES_SOFT_MEMORY");

	*ret_bytes = GP_STATE_DEFAULT_MEMORY;
	if (text && *text && gp_size_parse(text, ret_bytes) < 0)
		return gp_err_set(err, -EINVAL,
				  "GPUPRES_SOFT_MEMORY=%s: not a size like 512M or 4G", text);
	return 0;
}

/* Memory lock held. A device without living processes is a new device with a new capacity. */
static int state_found(struct gp_state *state, struct gp_err *err)
{
	struct gp_state_shared *shared = state->shared;
	bool first = shared->magic != GP_STATE_MAGIC;
	bool alone = true;
	int r;

	for (uint32_t i = 0; !first && alone && i < GP_STATE_MAX_PROCS; i++)
		alone = !shared->procs[i].in_use || !gp_state_proc_alive(state, i);
	if (first || alone) {
		r = state_capacity(&shared->capacity_bytes, err);
		if (r < 0)
			return r;
	}
	if (first) {
		shared->next_client = GP_STATE_FIRST_CLIENT;
		shared->next_file = 1;
		shared->magic = GP_STATE_MAGIC;
	}
	state_sweep(state);
	return 0;
}

static int state_init_shared(struct gp_state *state, struct gp_err *err)
{
	int r = state_lock_memory(state);

	if (r < 0)
		return gp_err_sys(err, r, "cannot lock %s", state->path);
	r = state_found(state, err);
	state_unlock_memory(state);
	return r;
}

/* Objects the last owner of slot @proc left behind must not look alive through our sign of life. */
static void state_clear_proc(struct gp_state_shared *shared, uint32_t proc)
{
	for (uint32_t i = 0; i < GP_STATE_MAX_CHANNELS; i++)
		if (shared->channels[i].proc == proc)
			shared->channels[i].in_use = 0;
	for (uint32_t i = 0; i < GP_STATE_MAX_GROUPS; i++)
		if (shared->groups[i].proc == proc)
			shared->groups[i].in_use = 0;
}

/* A slot whose byte can be locked has no living owner. */
static int state_take_proc(struct gp_state *state, struct gp_err *err)
{
	int r = gp_state_lock_channels(state);

	if (r < 0)
		return gp_err_sys(err, r, "cannot lock %s", state->path);
	r = gp_err_set(err, -EUSERS, "%s: already %d processes on this software device",
		       state->path, GP_STATE_MAX_PROCS);
	for (uint32_t i = 0; r < 0 && i < GP_STATE_MAX_PROCS; i++) {
		struct gp_state_proc *proc = &state->shared->procs[i];

		if (state_byte(state, F_SETLK, F_WRLCK, GP_STATE_ALIVE + (off_t)i) < 0)
			continue;
		if (proc->in_use)
			state_clear_proc(state->shared, i);
		proc->in_use = 1;
		proc->pid = getpid();
		proc->start_ticks = state_start_ticks();
		state->proc = i;
		r = 0;
	}
	gp_state_unlock_channels(state);
	return r;
}

static int state_open_dir(struct gp_state *state, struct gp_err *err)
{
	const char *dir = getenv("GPUPRES_SOFT_DIR");
	struct stat st;
	int n;

	if (dir && *dir)
		n = snprintf(state->path, sizeof(state->path), "%s", dir);
	else
		n = snprintf(state->path, sizeof(state->path), "/dev/shm/gpupres-soft-%u",
			     geteuid());
	if (n >= (int)sizeof(state->path))
		return gp_err_set(err, -ENAMETOOLONG,
				  "GPUPRES_SOFT_DIR is longer than %zu characters",
				  sizeof(state->path) - 1);
	if (mkdir(state->path, 0700) < 0 && errno != EEXIST)
		return gp_err_sys(err, -errno, "cannot create %s", state->path);
	state->dir_fd = open(state->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (state->dir_fd < 0 || fstat(state->dir_fd, &st) < 0)
		return gp_err_sys(err, -errno, "cannot open %s", state->path);
	state->file_mode = 0600;
	if (st.st_mode & S_IWGRP)
		state->file_mode |= 0060;
	if (st.st_mode & S_IWOTH)
		state->file_mode |= 0006;
	/* The default path can be guessed and made beforehand by anybody. */
	if (!(dir && *dir) && st.st_uid != geteuid())
		return gp_err_set(err, -EPERM,
				  "%s belongs to uid %u, not to you: set GPUPRES_SOFT_DIR",
				  state->path, st.st_uid);
	return 0;
}

static int state_open_files(struct gp_state *state, struct gp_err *err)
{
	gp_auto_fd int fd = -1;
	int r = state_open_dir(state, err);

	if (r < 0)
		return r;
	state->lock_fd = state_create(state, "lock", 0);
	fd = state_create(state, "state", 0);
	if (state->lock_fd < 0 || fd < 0)
		return gp_err_sys(err, -errno, "cannot open the state in %s", state->path);
	if (ftruncate(fd, sizeof(*state->shared)) < 0)
		return gp_err_sys(err, -errno, "cannot size the state in %s", state->path);
	state->shared =
		mmap(NULL, sizeof(*state->shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (state->shared == MAP_FAILED)
		return gp_err_sys(err, -errno, "cannot map the state in %s", state->path);
	return 0;
}

int gp_state_open(struct gp_state *state, struct gp_err *err)
{
	int r;

	state->dir_fd = -1;
	state->lock_fd = -1;
	state->shared = MAP_FAILED;
	state->proc = GP_STATE_MAX_PROCS;
	pthread_mutex_init(&state->memory_mutex, NULL);
	pthread_mutex_init(&state->channel_mutex, NULL);
	r = state_open_files(state, err);
	if (r == 0)
		r = state_init_shared(state, err);
	if (r == 0)
		r = state_take_proc(state, err);
	if (r == 0)
		return 0;
	if (state->shared != MAP_FAILED)
		munmap(state->shared, sizeof(*state->shared));
	gp_state_forget(state);
	return r;
}

void gp_state_forget(struct gp_state *state)
{
	gp_close_fd(&state->dir_fd);
	gp_close_fd(&state->lock_fd);
}
