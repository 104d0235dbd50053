/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot/proc.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct gp_proc *gp_proc_new(uint64_t job, uint32_t id)
{
	struct gp_proc *proc = calloc(1, sizeof(*proc));

	if (!proc)
		return NULL;
	gp_list_init(&proc->list);
	proc->id = id;
	proc->link = -1;
	proc->image.job = job;
	proc->image.proc = id;
	return proc;
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
	if (proc->link >= 0)
		close(proc->link);
	free(proc);
}
