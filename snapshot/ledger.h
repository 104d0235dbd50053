/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_LEDGER_H
#define GP_SNAPSHOT_LEDGER_H
/*
 * Which saved chunk lies where, and what it hashes to, in a memfd, so that it outlives the mover
 * together with the arena and the swap file:
 *
 *	header | table of entries, one per saved extent | heap of chunk records
 *
 * An entry is a record when its sequence number is not 0. That number is stored last, with release
 * order, when everything else of the record is in place, and is the first to go when the record
 * ends. So whenever a mover is killed, each record is there whole or not at all. What is free in
 * table and heap is not stored: a successor derives it from the entries. A record that replaces
 * another becomes valid before the older one ends; a successor that finds both takes the higher
 * sequence. It believes nothing: entries are checked against bounds, against each other and against
 * a sum.
 *
 * The file has a fixed size and is sparse; memory is allocated before it is written, so that a
 * machine without memory is an error and no SIGBUS. Used by one thread.
 */
#include "base/err.h"
#include "snapshot/chunk_hash.h"
#include "snapshot/chunkmap.h"

#include <stddef.h>
#include <stdint.h>

enum gp_place {
	GP_PLACE_NONE, /* nothing there yet, or handed on to a newer record */
	GP_PLACE_ZERO,
	GP_PLACE_ARENA,
	GP_PLACE_DISK,
};

struct gp_saved_chunk {
	gp_hash_word hash[2];
	uint32_t place; /* enum gp_place */
	uint32_t index; /* chunk of the arena or of the swap file */
};

/* A record as its mover handles it: an extent of a process and its chunks. */
struct gp_saved {
	uint64_t job;
	uint64_t id; /* of the extent, as the process numbers them */
	uint32_t proc;
	uint32_t n_chunks;
	struct gp_saved_chunk *chunks; /* in the heap */
	uint32_t entry, unit;	       /* where it lies: in the table; first unit of the heap */
	uint64_t sequence;	       /* 0: not valid (yet) */
};

struct ledger_header;
struct ledger_entry;

struct gp_ledger {
	int fd;
	struct ledger_header *header; /* start of the mapping */
	struct ledger_entry *entries;
	char *heap;
	struct gp_chunkmap entry_map, unit_map; /* what is taken */
	size_t entries_backed, heap_backed;	/* bytes from their start that have memory */
	uint64_t sequence;			/* the highest so far */
};

/* A new, empty ledger with a random hash key, for an arena of @arena_bytes. -ENOMEM, -EIO. */
gp_must_check int gp_ledger_init(struct gp_ledger *ledger, uint64_t arena_bytes,
				 struct gp_err *err);
/*
 * Takes up the ledger behind @fd (borrowed) that a predecessor wrote for an arena of this size.
 * -EINVAL with the reason: it is none, of another version, or belongs to another arena. All its
 * entries are to be walked before the first gp_ledger_begin.
 */
gp_must_check int gp_ledger_adopt(struct gp_ledger *ledger, int fd, uint64_t arena_bytes,
				  struct gp_err *err);
void gp_ledger_fini(struct gp_ledger *ledger);

struct gp_hash_key gp_ledger_key(const struct gp_ledger *ledger);

/*
 * The next valid record from *@cursor (0 to begin with) on. 1: in *@ret_record, its place in the
 * ledger taken. 0: there are no more. -EBADMSG: a bad one; its entry has been cleared and the walk
 * may go on. What its chunks say of arena and swap file is for the caller to check.
 */
gp_must_check int gp_ledger_walk(struct gp_ledger *ledger, uint32_t *cursor,
				 struct gp_saved *ret_record, struct gp_err *err);

/*
 * Makes room for the record of @record->n_chunks (> 0) chunks and sets its chunks (all
 * GP_PLACE_NONE), entry and unit. -ENOSPC: the ledger is full; -ENOMEM.
 */
gp_must_check int gp_ledger_begin(struct gp_ledger *ledger, struct gp_saved *record,
				  struct gp_err *err);
/* Makes the record, complete by now, valid. It may not change from here on. */
void gp_ledger_commit(struct gp_ledger *ledger, struct gp_saved *record);
/* Ends the record's validity; afterwards what its chunks occupy may be reused. */
void gp_ledger_retire(struct gp_ledger *ledger, struct gp_saved *record);
/* Gives up the room of a record that is not valid. */
void gp_ledger_free(struct gp_ledger *ledger, struct gp_saved *record);

#endif
