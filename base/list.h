/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_LIST_H
#define GP_BASE_LIST_H
/*
 * Intrusive circular doubly linked list. The head is a struct gp_list of its own; an entry embeds
 * one and is found again by gp_container_of. An initialised entry that is in no list points to
 * itself, so gp_list_del may be called twice.
 */
#include <stdbool.h>
#include <stddef.h>

struct gp_list {
	struct gp_list *next, *prev;
};

#define gp_container_of(ptr, type, member)                                                         \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

static inline void gp_list_init(struct gp_list *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool gp_list_empty(const struct gp_list *l)
{
	return l->next == l;
}

static inline void gp_list_add_tail(struct gp_list *head, struct gp_list *entry)
{
	entry->prev = head->prev;
	entry->next = head;
	head->prev->next = entry;
	head->prev = entry;
}

static inline void gp_list_del(struct gp_list *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	gp_list_init(entry);
}

/* The body may delete the current entry, nothing else. */
#define gp_list_for_each(pos, head, type, member)                                                  \
	for (type *pos = gp_container_of((head)->next, type, member),                              \
		  *pos##_next = gp_container_of(pos->member.next, type, member);                   \
	     &pos->member != (head);                                                               \
	     pos = pos##_next, pos##_next = gp_container_of(pos->member.next, type, member))

#endif
