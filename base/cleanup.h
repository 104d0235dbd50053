/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_CLEANUP_H
#define GP_BASE_CLEANUP_H
/*
 * Scope-bound ownership for user space: a variable marked gp_auto_free or gp_auto_fd releases
 * what it owns when the scope ends; gp_take_ptr and gp_take_fd move ownership out.
 */
#include <stdlib.h>
#include <unistd.h>

static inline void gp_cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void gp_cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define gp_auto_free	     __attribute__((cleanup(gp_cleanup_free)))
#define gp_auto_fd	     __attribute__((cleanup(gp_cleanup_fd)))
#define gp_must_check	     __attribute__((warn_unused_result))
#define gp_printf(fmt, args) __attribute__((format(printf, fmt, args)))

/* Moves the fd out of *@fd, leaving -1. */
static inline int gp_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/* Closes *@fd if it is open, leaving -1. */
static inline void gp_close_fd(int *fd)
{
	gp_cleanup_fd(fd);
	*fd = -1;
}

static inline void *gp_take_ptr_(void *slot)
{
	void **p = slot, *taken = *p;

	*p = NULL;
	return taken;
}

/* Moves the pointer out of @var, leaving NULL. */
#define gp_take_ptr(var) ((__typeof__(var))gp_take_ptr_(&(var)))

#define GP_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
