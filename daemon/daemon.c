/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/daemon.h"

#include "base/driver.h"
#include "base/log.h"
#include "base/size.h"
#include "base/time.h"
#include "base/wire/wire.h"
#include "daemon/backup.h"
#include "daemon/device.h"
#include "daemon/history.h"
#include "daemon/job.h"
#include "daemon/peer.h"
#include "daemon/recall.h"
#include "daemon/schedule.h"
#include "daemon/settings.h"
#include "daemon/spawner.h"
#include "daemon/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/un.h>

#define DAEMON_ACCEPT_PAUSE_NS GP_NS_PER_SEC

static void daemon_turn_end(struct gp_loop *loop)
{
	struct gp_daemon *daemon = gp_container_of(loop, struct gp_daemon, loop);

	gp_schedule_turn(daemon);
	gp_store_commit(daemon->store);
	gp_peer_reap(daemon);
	gp_registry_trim(daemon);
}

static void daemon_schedule_again(struct gp_timer *timer)
{
	gp_schedule_want(gp_container_of(timer, struct gp_daemon, schedule_timer));
}

static void daemon_accept(struct gp_source *source, uint32_t events)
{
	struct gp_listener *l = gp_container_of(source, struct gp_listener, source);
	int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		gp_peer_new(l->daemon, fd, l->is_shim);
		return;
	}
	if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
		return;
	gp_log(GP_LOG_ERR, "accept", "error=\"%s\"", strerror(errno));
	/* Whoever waits stays in the queue, and the socket readable: looking on would spin. */
	gp_loop_set_events(&l->daemon->loop, source, 0);
	gp_timer_arm(&l->daemon->loop, &l->pause, gp_now_ns() + DAEMON_ACCEPT_PAUSE_NS);
}

static void daemon_accept_again(struct gp_timer *timer)
{
	struct gp_listener *l = gp_container_of(timer, struct gp_listener, pause);

	gp_loop_set_events(&l->daemon->loop, &l->source, EPOLLIN);
}

/*
 * A system's control socket is for the members of one group, and what is for jobs is for all: what
 * may be said there concerns the sender alone.
 */
static int daemon_open_to(const struct gp_daemon *daemon, const struct gp_listener *l,
			  const char *path, struct gp_err *err)
{
	const struct gp_options *o = &daemon->options;
	mode_t mode = !o->system ? 0600 : l->is_shim ? 0666 : *o->group ? 0660 : 0600;
	gid_t group;
	int r;

	if (mode == 0660) {
		r = gp_access_find_group(o->group, &group, err);
		if (r < 0)
			return gp_err_prepend(err, "cannot tell who may submit (--group)");
		if (chown(path, (uid_t)-1, group) < 0)
			return gp_err_sys(err, -errno,
					  "cannot give %s to group %s: make uid %u a member of it, "
					  "or choose another --group",
					  path, o->group, (unsigned int)daemon->uid);
	}
	if (chmod(path, mode) < 0)
		return gp_err_sys(err, -errno, "cannot open %s to its users", path);
	return 0;
}

/* A socket of our own at runtime_dir/NAME.sock. */
static int daemon_bind(struct gp_daemon *daemon, struct gp_listener *l, const char *name,
		       struct gp_err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int n = snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s.sock",
			 daemon->options.runtime_dir, name);
	int r;

	if (n < 0 || (size_t)n >= sizeof(addr.sun_path))
		return gp_err_set(
			err, -ENAMETOOLONG,
			"the runtime folder %s is too deep for a socket: choose a shorter "
			"--runtime-dir",
			daemon->options.runtime_dir);
	l->source.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->source.fd < 0)
		return gp_err_sys(err, -errno, "cannot create a socket");
	/* The lock says that nobody else serves here: what is left is a dead daemon's. */
	unlink(addr.sun_path);
	if (bind(l->source.fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return gp_err_sys(err, -errno, "cannot listen on %s", addr.sun_path);
	/* Nobody can connect before there is a queue. */
	r = daemon_open_to(daemon, l, addr.sun_path, err);
	if (r < 0)
		return r;
	if (listen(l->source.fd, SOMAXCONN) < 0)
		return gp_err_sys(err, -errno, "cannot listen on %s", addr.sun_path);
	return 0;
}

/* Serves on the socket that the service manager passed under @name, else on one of our own. */
static int daemon_listen(struct gp_daemon *daemon, struct gp_listener *l, const char *name,
			 struct gp_err *err)
{
	int r = gp_activation_take(&daemon->activation, name, err);

	l->daemon = daemon;
	l->source.dispatch = daemon_accept;
	gp_timer_init(&l->pause, daemon_accept_again);
	if (r >= 0)
		l->source.fd = r;
	else if (r == -ENOENT)
		r = daemon_bind(daemon, l, name, err);
	return r < 0 ? r : gp_loop_add(&daemon->loop, &l->source, EPOLLIN, err);
}

static void daemon_set_retention(struct gp_daemon *daemon)
{
	char jobs[PATH_MAX];

	snprintf(jobs, sizeof(jobs), "%s/jobs", daemon->options.state_dir);
	gp_store_set_retention(daemon->store, daemon->options.history_days,
			       daemon->options.history_rows, jobs);
}

/* Whoever keeps something that follows from a reloadable setting is told here. */
static void daemon_reload(struct gp_daemon *daemon)
{
	struct gp_admins admins;
	struct gp_err err;

	gp_settings_reload(daemon->settings, &daemon->options);
	daemon_set_retention(daemon);
	gp_log_set_level(daemon->options.log_level);
	if (gp_access_read_admins(daemon->options.admins, &admins, &err) < 0) {
		gp_log(GP_LOG_ERR, "admins", "error=\"%s\" effect=\"they stay as they were\"",
		       err.msg);
		return;
	}
	gp_access_free_admins(&daemon->admins);
	daemon->admins = admins;
}

static void daemon_signal(struct gp_source *source, uint32_t events)
{
	struct gp_daemon *daemon = gp_container_of(source, struct gp_daemon, signals);
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	/* Also when a terminal hangs up: jobs depend on us, and stopping has signals of its own. */
	if (info.ssi_signo == SIGHUP) {
		gp_notify_reloading(&daemon->notify);
		daemon_reload(daemon);
		gp_notify_ready(&daemon->notify);
	} else {
		gp_log(GP_LOG_INFO, "stopping", "signal=%u", info.ssi_signo);
		daemon->loop.stop = true;
	}
}

static int daemon_signals(struct gp_daemon *daemon, struct gp_err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* Our stderr may be a pipe whose reader has ended; jobs need us more than it does. */
	signal(SIGPIPE, SIG_IGN);
	/* A limit to the size of files is a full disk, not our end. */
	signal(SIGXFSZ, SIG_IGN);
	daemon->signals.dispatch = daemon_signal;
	daemon->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (daemon->signals.fd < 0)
		return gp_err_sys(err, -errno, "cannot receive signals");
	return gp_loop_add(&daemon->loop, &daemon->signals, EPOLLIN, err);
}

/* A folder of our own: made if missing, and nobody else's. */
static int daemon_folder(const char *path, mode_t mode, struct gp_err *err)
{
	struct stat st;

	/* Our umask is meant for files. */
	if (mkdir(path, mode) == 0 ? chmod(path, mode) < 0 : errno != EEXIST)
		return gp_err_sys(err, -errno, "cannot make the folder %s", path);
	if (lstat(path, &st) < 0)
		return gp_err_sys(err, -errno, "cannot look at %s", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return gp_err_set(err, -EPERM,
				  "%s is not a folder of uid %u: remove it, or choose another",
				  path, (unsigned int)geteuid());
	return 0;
}

static int daemon_lock(struct gp_daemon *daemon, struct gp_err *err)
{
	char path[PATH_MAX], pid[32] = "?";
	ssize_t n;

	snprintf(path, sizeof(path), "%s/lock", daemon->options.runtime_dir);
	daemon->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (daemon->lock_fd < 0)
		return gp_err_sys(err, -errno, "cannot open %s", path);
	if (flock(daemon->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		n = read(daemon->lock_fd, pid, sizeof(pid) - 1);
		if (n > 0)
			pid[strcspn(pid, "\n")] = '\0';
		return gp_err_set(err, -EADDRINUSE,
				  "another gpupresd (pid %s) serves %s: stop it, or choose another "
				  "--runtime-dir",
				  pid, daemon->options.runtime_dir);
	}
	if (ftruncate(daemon->lock_fd, 0) < 0 || dprintf(daemon->lock_fd, "%d\n", getpid()) < 0)
		return gp_err_sys(err, -errno, "cannot write %s", path);
	return 0;
}

static int daemon_find_driver(struct gp_daemon *daemon, struct gp_err *err)
{
	int r = gp_tree_root(daemon->tree, sizeof(daemon->tree), err);

	if (r < 0)
		return r;
	if (daemon->options.device != GP_DEVICE_SOFT) {
		r = gp_driver_find(daemon->driver, sizeof(daemon->driver), err);
		if (r == 0 || daemon->options.device == GP_DEVICE_NVIDIA) {
			daemon->options.device = GP_DEVICE_NVIDIA;
			return r;
		}
		gp_log(GP_LOG_WARN, "no-driver", "error=\"%s\" effect=\"device=soft\"", err->msg);
		daemon->options.device = GP_DEVICE_SOFT;
	}
	if ((size_t)snprintf(daemon->driver, sizeof(daemon->driver),
			     "%.4000s/lib/gpupres/soft/"
			     "libcuda.so.1",
			     daemon->tree) >= sizeof(daemon->driver) ||
	    access(daemon->driver, R_OK) < 0)
		return gp_err_sys(err, -ENOENT, "the software device is not installed: %s",
				  daemon->driver);
	return 0;
}

/* What would fail later, in another process, is said here, once and first. */
static int daemon_check_options(const struct gp_options *o, struct gp_err *err)
{
	struct sysinfo info;
	char a[32], b[32];
	uint64_t ram;

	if (sysinfo(&info) < 0)
		return gp_err_sys(err, -errno, "cannot read the size of RAM");
	ram = (uint64_t)info.totalram * info.mem_unit;
	if (o->arena_bytes > ram / o->n_devices)
		return gp_err_set(err, -ENOMEM,
				  "the arena of %s for each of %u devices is larger than this "
				  "machine's RAM of %s: choose a smaller one (--arena)",
				  gp_size_format(o->arena_bytes, a, sizeof(a)), o->n_devices,
				  gp_size_format(ram, b, sizeof(b)));
	if (access(o->swap_dir, W_OK | X_OK) < 0)
		return gp_err_sys(err, -errno, "the swap folder %s cannot be written", o->swap_dir);
	return 0;
}

static int daemon_open_store(struct gp_daemon *daemon, struct gp_err *err)
{
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%s/jobs", daemon->options.state_dir);
	r = daemon_folder(path, 0700, err);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/gpupres.db", daemon->options.state_dir);
	r = gp_store_open(path, &daemon->store, err);
	if (r == 0)
		daemon_set_retention(daemon);
	return r;
}

static void daemon_read_boot_id(struct gp_daemon *daemon)
{
	gp_auto_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, daemon->boot_id, sizeof(daemon->boot_id) - 1);

	daemon->boot_id[n < 0 ? 0 : n] = '\0';
	daemon->boot_id[strcspn(daemon->boot_id, "\n")] = '\0';
}

/* What `systemctl status` shows. */
static void daemon_describe(struct gp_notify *notify, char *buf, size_t bytes)
{
	struct gp_daemon *daemon = gp_container_of(notify, struct gp_daemon, notify);
	unsigned int n_jobs = 0, n_running = 0, n_swapped = 0;

	gp_list_for_each(job, &daemon->jobs, struct gp_job, node) {
		n_jobs += !gp_job_state_is_final(job->state);
		n_running += job->state == GP_JOB_RUNNING;
		n_swapped += job->state == GP_JOB_SWAPPED;
	}
	snprintf(buf, bytes, "%u jobs, %u running, %u swapped", n_jobs, n_running, n_swapped);
}

/* Each software device has a folder of its own; a single one has the one that is set. */
static int daemon_soft_root(struct gp_daemon *daemon, struct gp_err *err)
{
	const char *dir = getenv("GPUPRES_SOFT_DIR");

	if (daemon->options.device != GP_DEVICE_SOFT || daemon->options.n_devices == 1)
		return 0;
	if (dir && *dir)
		snprintf(daemon->soft_root, sizeof(daemon->soft_root), "%s", dir);
	else
		snprintf(daemon->soft_root, sizeof(daemon->soft_root), "/dev/shm/gpupres-soft-%u",
			 (unsigned int)daemon->uid);
	return daemon_folder(daemon->soft_root, 0700, err);
}

/* Serving all users takes no more rights than those of one, and many open files. */
static int daemon_check_rights(struct gp_daemon *daemon, struct gp_err *err)
{
	struct rlimit all;

	if (daemon->options.system && daemon->uid == 0)
		return gp_err_set(err, -EPERM,
				  "gpupresd does not run as root: start it as the user gpupres, or "
				  "with --user");
	/* The environments of all users' queued jobs are in our memory: no core dumps, no ptrace.
	 */
	if (daemon->options.system && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return gp_err_sys(err, -errno, "cannot forbid core dumps");
	if (getrlimit(RLIMIT_NOFILE, &daemon->files) < 0)
		return gp_err_sys(err, -errno, "cannot read the limit of open files");
	all = (struct rlimit){ daemon->files.rlim_max, daemon->files.rlim_max };
	if (setrlimit(RLIMIT_NOFILE, &all) < 0)
		return gp_err_sys(err, -errno, "cannot raise the limit of open files");
	return gp_access_read_admins(daemon->options.admins, &daemon->admins, err);
}

static int daemon_open(struct gp_daemon *daemon, struct gp_err *err)
{
	const struct gp_options *o = &daemon->options;
	int r;

	r = daemon_check_rights(daemon, err);
	if (r == 0)
		r = gp_activation_init(&daemon->activation, err);
	if (r == 0)
		r = gp_notify_init(&daemon->notify, &daemon->loop, daemon_describe, err);
	if (r == 0)
		r = daemon_folder(o->runtime_dir, o->system ? 0755 : 0700, err);
	if (r == 0)
		r = daemon_folder(o->state_dir, 0700, err);
	if (r == 0)
		r = daemon_lock(daemon, err);
	if (r == 0)
		r = daemon_find_driver(daemon, err);
	if (r == 0)
		r = daemon_soft_root(daemon, err);
	if (r == 0)
		r = daemon_check_options(o, err);
	if (r == 0)
		r = daemon_open_store(daemon, err);
	if (r == 0)
		r = daemon_signals(daemon, err);
	if (r == 0)
		r = daemon_listen(daemon, &daemon->control, "control", err);
	if (r == 0)
		r = daemon_listen(daemon, &daemon->shim, "shim", err);
	for (uint32_t i = 0; r == 0 && i < o->n_devices; i++)
		r = gp_device_new(daemon, i, err);
	if (r == 0)
		r = gp_job_recover(daemon, err);
	if (r == 0)
		r = gp_store_start(daemon->store, err);
	if (r == 0)
		r = gp_history_new(daemon->store, &daemon->loop, &daemon->history, err);
	if (r == 0)
		r = gp_backup_new(daemon, &daemon->backup, err);
	gp_activation_fini(&daemon->activation);
	return r;
}

int gp_daemon_init(struct gp_daemon *daemon, struct gp_settings *settings, struct gp_err *err)
{
	int r;

	*daemon = (struct gp_daemon){
		.settings = settings,
		.uid = geteuid(),
		.next_job = 1,
		.lock_fd = -1,
		.control.source.fd = -1,
		.shim.source.fd = -1,
		.shim.is_shim = true,
		.signals.fd = -1,
	};
	gp_settings_store(settings, &daemon->options);
	daemon->options.system = !settings->user;
	daemon->quota.limits = &daemon->options.quota;
	gp_log_init("gpupresd", daemon->options.log_level);
	gp_list_init(&daemon->peers);
	gp_peer_init_strangers(daemon);
	gp_spawner_init(daemon);
	gp_list_init(&daemon->dead_peers);
	gp_list_init(&daemon->jobs);
	gp_registry_init(&daemon->registry);
	gp_list_init(&daemon->recalls);
	gp_list_init(&daemon->devices);
	gp_timer_init(&daemon->schedule_timer, daemon_schedule_again);
	daemon_read_boot_id(daemon);
	r = gp_loop_init(&daemon->loop, err);
	if (r < 0)
		return r;
	daemon->loop.turn_end = daemon_turn_end;
	return daemon_open(daemon, err);
}

int gp_daemon_run(struct gp_daemon *daemon, struct gp_err *err)
{
	int r;

	gp_log(GP_LOG_INFO, "serving",
	       "runtime_dir=%s state_dir=%s device=%s devices=%u version=%s",
	       daemon->options.runtime_dir, daemon->options.state_dir,
	       daemon->options.device == GP_DEVICE_SOFT ? "soft" : "nvidia",
	       daemon->options.n_devices, GP_VERSION);
	gp_schedule_want(daemon);
	gp_notify_ready(&daemon->notify);
	r = gp_loop_run(&daemon->loop, err);
	gp_notify_stopping(&daemon->notify);
	if (r < 0)
		return r;
	if (daemon->exit_code)
		return gp_err_set(err, -ENODEV,
				  "no device can be served: see gpupres-mover's message "
				  "above");
	return 0;
}

uint32_t gp_daemon_next_proc(struct gp_daemon *daemon)
{
	daemon->next_proc += daemon->next_proc == 0;
	return daemon->next_proc++;
}

void gp_daemon_fini(struct gp_daemon *daemon)
{
	daemon->loop.stop = true;
	gp_backup_free(gp_take_ptr(daemon->backup));
	gp_history_free(daemon->history);
	gp_list_for_each(peer, &daemon->peers, struct gp_peer, node) {
		gp_peer_drop(peer);
	}
	gp_peer_reap(daemon);
	gp_recall_fini(daemon);
	gp_spawner_fini(daemon);
	gp_list_for_each(device, &daemon->devices, struct gp_device, node) {
		gp_device_free(device);
	}
	gp_list_for_each(job, &daemon->jobs, struct gp_job, node) {
		gp_job_free(job);
	}
	gp_store_close(daemon->store);
	gp_close_fd(&daemon->control.source.fd);
	gp_close_fd(&daemon->shim.source.fd);
	gp_close_fd(&daemon->signals.fd);
	gp_notify_fini(&daemon->notify);
	gp_loop_fini(&daemon->loop);
	gp_close_fd(&daemon->lock_fd);
	gp_access_free_admins(&daemon->admins);
}
