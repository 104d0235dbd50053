/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_FUZZ_GENERATE_H
#define GP_TESTS_FUZZ_GENERATE_H
/*
 * Makes messages for fuzzing, from the list of messages alone: valid ones of every type, and what
 * becomes of them when lengths, types, counts, texts, ids, epochs and descriptors are wrong. All of
 * it follows from the seed. Single-threaded; ends the program when it is out of memory or fds.
 */
#include "base/wire/wire.h"

#define GP_FUZZ_MAX_BYTES (sizeof(struct gp_wire_msg) + 64)
#define GP_FUZZ_MAX_FDS	  253 /* the kernel's own limit: SCM_MAX_FD in include/net/scm.h */
#define GP_FUZZ_MEMORY	  32

struct gp_fuzz {
	uint64_t x; /* state of the generator of numbers */
	/* Headers that were seen on the wire: what is made up later may refer to them. */
	struct gp_wire_header seen[GP_FUZZ_MEMORY];
	size_t n_seen;
};

/* What goes into one sendmsg. */
struct gp_fuzz_datagram {
	union {
		struct gp_wire_msg msg;
		unsigned char bytes[GP_FUZZ_MAX_BYTES];
	};
	size_t len;
	size_t n_fds;
	int fd; /* sent n_fds times; borrowed */
};

void gp_fuzz_init(struct gp_fuzz *fuzz, uint64_t seed);
uint64_t gp_fuzz_number(struct gp_fuzz *fuzz);
/* 0 .. @n - 1 */
size_t gp_fuzz_below(struct gp_fuzz *fuzz, size_t n);
/* True @percent times out of a hundred. */
bool gp_fuzz_percent(struct gp_fuzz *fuzz, unsigned int percent);

void gp_fuzz_remember(struct gp_fuzz *fuzz, const struct gp_wire_msg *msg);
/* A message of @type that gp_wire_check accepts, with a body and a header of any values else. */
void gp_fuzz_valid(struct gp_fuzz *fuzz, uint32_t type, struct gp_wire_msg *ret_msg);
uint32_t gp_fuzz_type(struct gp_fuzz *fuzz);
/* Makes something of @d wrong, or nothing. */
void gp_fuzz_mutate(struct gp_fuzz *fuzz, struct gp_fuzz_datagram *d);
/* A message of any type, @mutated percent of them wrong, or, @noise percent, no message at all. */
void gp_fuzz_anything(struct gp_fuzz *fuzz, unsigned int noise, unsigned int mutated,
		      struct gp_fuzz_datagram *d);
/* Bytes without any order. */
void gp_fuzz_noise(struct gp_fuzz *fuzz, struct gp_fuzz_datagram *d);

/*
 * Sends without waiting. 0, or negative errno: -EAGAIN, -EPIPE, -ETOOMANYREFS are the other side's
 * or the kernel's right.
 */
int gp_fuzz_send(int sock, const struct gp_fuzz_datagram *d);

/*
 * A memfd for @submit, whose counts it sets; one in three is not as it must be: not sealed, of
 * another size, of other strings, or no memfd at all. The caller's to close.
 */
int gp_fuzz_blob(struct gp_fuzz *fuzz, struct gp_wire_submit *submit);

#endif
