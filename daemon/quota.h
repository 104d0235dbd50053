/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_QUOTA_H
#define GP_DAEMON_QUOTA_H
/*
 * What one user may make the daemon hold. Whatever the daemon keeps on a user's behalf is charged
 * to that user where it comes into being, and the charge lives as long as it does: it is part of
 * the object, and dropped with it. What would go over a limit does not come into being, and
 * its user is told which limit that was.
 *
 * Nothing here needs to be initialised: zeroes are an empty quota without limits, and a charge of
 * nothing.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum gp_quota_kind {
	GP_QUOTA_CONNECTIONS,
	GP_QUOTA_REQUESTS,	/* that wait for something to happen */
	GP_QUOTA_JOBS,		/* submitted, and not ended */
	GP_QUOTA_COMMAND_BYTES, /* arguments and environments of these */
	GP_QUOTA_ADOPTED,	/* programs that were not submitted */
	GP_QUOTA_MESSAGES,	/* that their readers have not taken */
	GP_QUOTA_MESSAGE_BYTES,
	GP_QUOTA_FDS, /* in these */
	GP_QUOTA_KINDS_,
};

/* As configured: daemon/settings.c has their names and defaults. 0: none. */
struct gp_quota_limits {
	uint32_t counts[GP_QUOTA_KINDS_];
	uint64_t sizes[GP_QUOTA_KINDS_]; /* of GP_QUOTA_..._BYTES, which have no count */
};

#define GP_QUOTA_BUCKETS 256

struct gp_quota_user;

struct gp_quota {
	const struct gp_quota_limits *limits; /* NULL: none */
	struct gp_quota_user *users[GP_QUOTA_BUCKETS];
};

/* Part of what it pays for; not to be copied, but moved. */
struct gp_charge {
	struct gp_quota *quota;
	struct gp_quota_user *user; /* NULL: of nothing */
	enum gp_quota_kind kind;
	uint64_t amount;
};

/*
 * Charges @uid with @amount; *@ret must be a charge of nothing. -EDQUOT: over the limit, said in a
 * line for that user; -ENOMEM. *@ret stays as it was then.
 */
gp_must_check int gp_quota_charge(struct gp_quota *quota, uid_t uid, enum gp_quota_kind kind,
				  uint64_t amount, struct gp_charge *ret, struct gp_err *err);
/* Gives back; harmless for a charge of nothing, which it leaves. */
void gp_charge_drop(struct gp_charge *charge);
/* To @to, a charge of nothing, and leaves one behind. */
void gp_charge_move(struct gp_charge *to, struct gp_charge *from);

uint64_t gp_quota_used(const struct gp_quota *quota, uid_t uid, enum gp_quota_kind kind);

#endif
