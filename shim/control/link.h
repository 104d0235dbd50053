/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_CONTROL_LINK_H
#define GP_SHIM_CONTROL_LINK_H
/*
 * The socket to the mover, over which extents go as fds. One message of up to 64 is in flight;
 * the next goes when the mover has acknowledged it. Control thread only.
 */
#include "base/err.h"
#include "base/wire/messages.h"

#include <stdbool.h>
#include <stdint.h>

struct gp_extents;

struct gp_link {
	int fd; /* -1 = none */
	struct gp_wire_header request;
	uint64_t *ids; /* of what is being sent; NULL = idle */
	size_t n, next, in_flight;
	bool waiting;	      /* for an acknowledgement */
	uint64_t deadline_ns; /* of the next step */
};

void gp_link_init(struct gp_link *link);
/* Takes over @fd. What was being sent over an older socket is dropped. */
void gp_link_open(struct gp_link *link, int fd);
void gp_link_close(struct gp_link *link);

/*
 * Starts sending the extents @ids (malloc'ed, taken over; n may be 0), in answer to @request; the
 * first message is queued on return. Negative errno: nothing will be sent.
 */
gp_must_check int gp_link_start(struct gp_link *link, struct gp_extents *extents,
				const struct gp_wire_header *request, uint64_t *ids, size_t n,
				struct gp_err *err);

/* When gp_link_step is due at the latest; 0 = never. */
uint64_t gp_link_deadline(const struct gp_link *link);

/*
 * Goes on: to be called when the socket is readable (@readable) or the deadline has passed.
 * Negative errno: given up, the link is idle; the socket is closed if the mover closed it.
 */
gp_must_check int gp_link_step(struct gp_link *link, struct gp_extents *extents, bool readable,
			       struct gp_err *err);

#endif
