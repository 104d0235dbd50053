/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread owns "fd", "bytes" and "err" from its start until it writes to the eventfd. It is told
 * to stop by an atomic flag, looked at between two steps.
 */
#include "daemon/backup.h"

#include "base/log.h"
#include "base/time.h"
#include "daemon/store.h"
#include "daemon/store_db.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

/* 1 MiB of a database's usual pages of 4 KiB. */
#define BACKUP_STEP_PAGES 256
/* For what was stored just before; longer only if the disk is full. */
#define BACKUP_WRITTEN_MS 1000

struct gp_backup {
	struct gp_daemon *daemon;
	struct gp_source source; /* the eventfd */
	char path[PATH_MAX];	 /* of the copy that is being made */
	bool running;
	pthread_t thread;
	atomic_bool stop;
	struct gp_peer *peer; /* NULL: gone */
	struct gp_wire_msg msg;
	uint64_t begin_ns, ticket;

	int fd;
	uint64_t bytes;
	struct gp_err err; /* code 0: fd is the copy */
};

static int backup_fail(struct gp_backup *b, sqlite3 *db)
{
	return gp_err_set(&b->err, -EIO, "cannot copy the database to %s: %s", b->path,
			  sqlite3_errmsg(db));
}

/*
 * The transaction keeps the snapshot: without it a step after somebody wrote would begin anew. The
 * copy needs no journal as it is thrown away unless complete, and is to be one file in the end.
 */
static int backup_copy(struct gp_backup *b, sqlite3 *from, sqlite3 *to)
{
	sqlite3_backup *copy;
	int r;

	if (sqlite3_exec(from, "BEGIN; SELECT 1 FROM jobs LIMIT 1", NULL, NULL, NULL) != SQLITE_OK)
		return gp_store_db_fail(from, gp_store_path(b->daemon->store), &b->err);
	if (sqlite3_exec(to,
			 "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=OFF;"
			 " PRAGMA synchronous=OFF",
			 NULL, NULL, NULL) != SQLITE_OK)
		return backup_fail(b, to);
	copy = sqlite3_backup_init(to, "main", from, "main");
	if (!copy)
		return backup_fail(b, to);
	do {
		r = sqlite3_backup_step(copy, BACKUP_STEP_PAGES);
	} while (r == SQLITE_OK && !atomic_load(&b->stop));
	if (sqlite3_backup_finish(copy) != SQLITE_OK)
		return backup_fail(b, to);
	if (r != SQLITE_DONE)
		return gp_err_set(&b->err, -ECANCELED, "the daemon is stopping");
	if (sqlite3_exec(to, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL) != SQLITE_OK)
		return backup_fail(b, to);
	return 0;
}

static int backup_make(struct gp_backup *b)
{
	sqlite3 *from = NULL, *to = NULL;
	struct stat st;
	int r;

	(void)gp_store_wait_written(b->daemon->store, b->ticket, BACKUP_WRITTEN_MS);
	r = gp_store_db_open_reader(gp_store_path(b->daemon->store), &from, &b->err);
	if (r < 0)
		return r;
	if (sqlite3_open_v2(b->path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
	    SQLITE_OK)
		r = backup_fail(b, to);
	else
		r = backup_copy(b, from, to);
	sqlite3_close(to);
	sqlite3_close(from);
	if (r < 0)
		return r;
	b->fd = open(b->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (b->fd < 0 || fstat(b->fd, &st) < 0)
		return gp_err_sys(&b->err, -errno, "cannot open %s", b->path);
	b->bytes = (uint64_t)st.st_size;
	return 0;
}

static void *backup_thread(void *arg)
{
	struct gp_backup *b = arg;

	unlink(b->path);
	b->err.code = 0;
	if (backup_make(b) < 0)
		gp_close_fd(&b->fd);
	unlink(b->path);
	/* The counter is 0: it cannot fail. */
	(void)eventfd_write(b->source.fd, 1);
	return NULL;
}

static void backup_answer(struct gp_backup *b)
{
	struct gp_wire_msg m;

	if (b->err.code) {
		gp_peer_send_error(b->peer, &b->msg, b->err.code, "%s", b->err.msg);
		return;
	}
	gp_wire_init_reply(&m, GP_WIRE_BACKED_UP, &b->msg);
	m.backed_up.bytes = b->bytes;
	gp_peer_send(b->peer, &m, &b->fd, 1);
}

static void backup_ended(struct gp_source *source, uint32_t events)
{
	struct gp_backup *b = gp_container_of(source, struct gp_backup, source);
	eventfd_t n;

	if (eventfd_read(source->fd, &n) < 0)
		return;
	pthread_join(b->thread, NULL);
	b->running = false;
	if (b->err.code)
		gp_log(GP_LOG_WARN, "backup", "error=\"%s\"", b->err.msg);
	else
		gp_log(GP_LOG_INFO, "backup", "bytes=%" PRIu64 " duration_ms=%.3f", b->bytes,
		       (double)(gp_now_ns() - b->begin_ns) / GP_NS_PER_MS);
	if (b->peer)
		backup_answer(b);
	b->peer = NULL;
	gp_close_fd(&b->fd);
}

int gp_backup_new(struct gp_daemon *daemon, struct gp_backup **ret_backup, struct gp_err *err)
{
	struct gp_backup *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return gp_err_set(err, -ENOMEM, "out of memory");
	b->daemon = daemon;
	b->fd = -1;
	b->source.dispatch = backup_ended;
	b->source.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if ((size_t)snprintf(b->path, sizeof(b->path), "%s/backup.tmp",
			     daemon->options.state_dir) >= sizeof(b->path))
		r = gp_err_set(err, -ENAMETOOLONG, "the state folder's path is too long");
	else if (b->source.fd < 0)
		r = gp_err_sys(err, -errno, "cannot create an event fd");
	else
		r = gp_loop_add(&daemon->loop, &b->source, EPOLLIN, err);
	if (r < 0) {
		gp_backup_free(b);
		return r;
	}
	unlink(b->path);
	*ret_backup = b;
	return 0;
}

void gp_backup_free(struct gp_backup *b)
{
	if (!b)
		return;
	if (b->running) {
		atomic_store(&b->stop, true);
		pthread_join(b->thread, NULL);
	}
	gp_close_fd(&b->fd);
	if (b->source.fd >= 0)
		gp_loop_remove(&b->daemon->loop, &b->source);
	gp_close_fd(&b->source.fd);
	free(b);
}

static int backup_start(struct gp_backup *b, struct gp_err *err)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&b->thread, NULL, backup_thread, b);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r ? gp_err_sys(err, -r, "cannot start a thread for the backup") : 0;
}

void gp_backup_request(struct gp_peer *peer, const struct gp_wire_msg *msg)
{
	struct gp_backup *b = peer->daemon->backup;
	struct gp_err err;
	int r;

	if (!peer->is_admin) {
		gp_peer_send_error(peer, msg, -EPERM, "only the user who owns the daemon may");
		return;
	}
	if (b->running) {
		gp_peer_send_error(peer, msg, -EBUSY,
				   "another backup is being made: try again when it is done");
		return;
	}
	memcpy(&b->msg, msg, msg->header.size);
	b->begin_ns = gp_now_ns();
	b->ticket = gp_store_ticket(peer->daemon->store);
	r = backup_start(b, &err);
	if (r < 0) {
		gp_peer_send_error(peer, msg, r, "%s", err.msg);
		return;
	}
	b->running = true;
	b->peer = peer;
}

void gp_backup_forget_peer(struct gp_peer *peer)
{
	if (peer->daemon->backup && peer->daemon->backup->peer == peer)
		peer->daemon->backup->peer = NULL;
}
