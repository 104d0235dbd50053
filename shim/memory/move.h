/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_MEMORY_MOVE_H
#define GP_SHIM_MEMORY_MOVE_H
/*
 * What the control thread does to extents: exports them, lets go of their memory and brings it
 * back. All but exporting ahead happen with the gate closed, so the table stands still.
 */
#include "base/wire/messages.h"
#include "shim/memory/extents.h"

/*
 * exports one extent that has no fd. False when there is nothing (more) to do
 * ahead. Costs 0.56 ms on a card.
 */
bool gp_move_export_ahead(struct gp_extents *x);

/* fills @ret_ids (malloc'ed, the caller's) with all extents that are
 * resident. -ENOMEM. */
gp_must_check int gp_move_resident_ids(struct gp_extents *x, uint64_t **ret_ids, size_t *ret_n);

/*
 * what to say about extent @id and its fd, which stays ours; exports
 * it if need be. -ENOENT: it has no memory; -EIO: the driver refused.
 */
gp_must_check int gp_move_describe(struct gp_extents *x, uint64_t id,
				   struct gp_wire_extent *ret_entry, int *ret_fd,
				   struct gp_err *err);

/* closes the fd of @id if more are open than should be kept. */
void gp_move_trim(struct gp_extents *x, uint64_t id);

/* the process can open no more: the last @n fds are to be closed when they are trimmed. */
void gp_move_limit(struct gp_extents *x, size_t n);

/*
 * gives up our hold on the memory of extent @id. *@ret_bytes is 0 if
 * it is unknown or already away. -EIO: the driver refused; the extent stays as it was, and
 * *@ret_bytes is 0, or it is unmapped but its memory not free.
 */
gp_must_check int gp_move_release(struct gp_extents *x, uint64_t id, uint64_t *ret_bytes,
				  struct gp_err *err);

/*
 * makes memory for all released extents and maps it where it was;
 * all or none. *@ret_ids (malloc'ed, the caller's) and *@ret_bytes: all that is unfilled now, also
 * from an earlier attempt. -ENOMEM: not enough device memory. -EIO: refused by the driver, or
 * nothing can be exported, and so filled, for lack of fds.
 */
gp_must_check int gp_move_recreate(struct gp_extents *x, uint64_t **ret_ids, size_t *ret_n,
				   uint64_t *ret_bytes, struct gp_err *err);

/* what was unfilled has its bytes back. */
void gp_move_confirm(struct gp_extents *x);

/* maps one chunk of scratch all over the released extents. */
gp_must_check int gp_move_scratch(struct gp_extents *x, struct gp_err *err);

#endif
