/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/quota.h"

#include "base/size.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* What a user is told who meets a limit. */
static const struct quota_kind {
	const char *name; /* of the setting */
	const char *what, *advice;
	bool is_size;
} quota_kinds[GP_QUOTA_KINDS_] = {
	[GP_QUOTA_CONNECTIONS] = { "max_connections", "connections", "close some first", false },
	[GP_QUOTA_REQUESTS] = { "max_requests", "waiting requests", "end some of them first",
				false },
	[GP_QUOTA_JOBS] = { "max_jobs", "jobs that have not ended",
			    "wait for some to end, or cancel some", false },
	[GP_QUOTA_COMMAND_BYTES] = { "max_command_bytes", "arguments and environments of jobs",
				     "wait for some to end, or cancel some", true },
	[GP_QUOTA_ADOPTED] = { "max_adopted", "programs that were not submitted",
			       "this one runs, but cannot be preempted", false },
	[GP_QUOTA_MESSAGES] = { "max_messages", "messages that were not read", "read them", false },
	[GP_QUOTA_MESSAGE_BYTES] = { "max_message_bytes", "messages that were not read",
				     "read them", true },
	[GP_QUOTA_FDS] = { "max_fds", "open files in messages that were not read", "read them",
			   false },
};

struct gp_quota_user {
	struct gp_quota_user *next;
	uid_t uid;
	uint64_t n_charges;
	uint64_t used[GP_QUOTA_KINDS_];
};

static uint64_t quota_max(const struct gp_quota *quota, enum gp_quota_kind kind)
{
	uint64_t max = 0;

	if (quota->limits)
		max = quota_kinds[kind].is_size ? quota->limits->sizes[kind]
						: quota->limits->counts[kind];
	return max ? max : UINT64_MAX;
}

static struct gp_quota_user **quota_bucket(struct gp_quota *quota, uid_t uid)
{
	/* Users are numbered one after the other. */
	return &quota->users[uid % GP_QUOTA_BUCKETS];
}

static struct gp_quota_user *quota_find(const struct gp_quota *quota, uid_t uid)
{
	struct gp_quota_user *user = quota->users[uid % GP_QUOTA_BUCKETS];

	while (user && user->uid != uid)
		user = user->next;
	return user;
}

static struct gp_quota_user *quota_add(struct gp_quota *quota, uid_t uid)
{
	struct gp_quota_user **bucket = quota_bucket(quota, uid);
	struct gp_quota_user *user = calloc(1, sizeof(*user));

	if (!user)
		return NULL;
	user->uid = uid;
	user->next = *bucket;
	*bucket = user;
	return user;
}

static int quota_refuse(enum gp_quota_kind kind, uint64_t max, struct gp_err *err)
{
	const struct quota_kind *k = &quota_kinds[kind];
	char text[32];

	if (k->is_size)
		gp_size_format(max, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%" PRIu64, max);
	return gp_err_set(err, -EDQUOT, "you have %s%s %s, as many as a user may (%s): %s", text,
			  k->is_size ? " of" : "", k->what, k->name, k->advice);
}

int gp_quota_charge(struct gp_quota *quota, uid_t uid, enum gp_quota_kind kind, uint64_t amount,
		    struct gp_charge *ret, struct gp_err *err)
{
	struct gp_quota_user *user = quota_find(quota, uid);
	uint64_t max = quota_max(quota, kind), used = user ? user->used[kind] : 0;

	assert(!ret->user);
	/* The limit may have been lowered below what is used. */
	if (used >= max || amount > max - used)
		return quota_refuse(kind, max, err);
	if (!user)
		user = quota_add(quota, uid);
	if (!user)
		return gp_err_set(err, -ENOMEM, "out of memory");
	user->used[kind] += amount;
	user->n_charges++;
	*ret = (struct gp_charge){ quota, user, kind, amount };
	return 0;
}

void gp_charge_drop(struct gp_charge *charge)
{
	struct gp_quota_user *user = charge->user, **at;

	if (!user)
		return;
	assert(user->used[charge->kind] >= charge->amount && user->n_charges);
	user->used[charge->kind] -= charge->amount;
	if (--user->n_charges == 0) {
		at = quota_bucket(charge->quota, user->uid);
		while (*at != user)
			at = &(*at)->next;
		*at = user->next;
		free(user);
	}
	*charge = (struct gp_charge){ 0 };
}

void gp_charge_move(struct gp_charge *to, struct gp_charge *from)
{
	assert(!to->user);
	*to = *from;
	*from = (struct gp_charge){ 0 };
}

uint64_t gp_quota_used(const struct gp_quota *quota, uid_t uid, enum gp_quota_kind kind)
{
	const struct gp_quota_user *user = quota_find(quota, uid);

	return user ? user->used[kind] : 0;
}
