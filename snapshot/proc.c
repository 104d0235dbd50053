/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/proc.h"

#include "snapshot/link.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct gp_proc *gp_proc_new(uint64_t job, uint32_t id)
{
	struct gp_proc *proc = calloc(1, sizeof(*proc));

	if (!proc)
		return NULL;
	gp_list_init(&proc->list);
	proc->id = id;
	proc->link = proc->worker_link = proc->pidfd = -1;
	proc->image.job = job;
	proc->image.proc = id;
	return proc;
}

void gp_proc_watch(struct gp_proc *proc, pid_t pid)
{
	gp_close_fd(&proc->pidfd);
	if (pid > 0)
		proc->pidfd = pidfd_open(pid, 0);
}

bool gp_proc_has_ended(const struct gp_proc *proc)
{
	struct pollfd p = { .fd = proc->pidfd, .events = POLLIN };

	if (proc->pidfd >= 0)
		return poll(&p, 1, 0) > 0;
	return proc->link >= 0 && !gp_link_is_open(proc->link);
}

void gp_proc_hang_up(struct gp_proc *proc)
{
	atomic_store(&proc->gone, true);
	if (proc->link >= 0)
		shutdown(proc->link, SHUT_RDWR);
}

void gp_proc_free(struct gp_proc *proc, const struct gp_store *store)
{
	if (store)
		gp_image_clear(&proc->image, store);
	else
		gp_image_leave(&proc->image);
	gp_channel_table_fini(&proc->channels);
	gp_close_fd(&proc->worker_link);
	gp_close_fd(&proc->pidfd);
	free(proc);
}
