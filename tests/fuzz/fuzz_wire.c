/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds made-up messages to gp_wire_check and gp_wire_recv alone: what they accept is of the right
 * size and sound, what they refuse leaves nothing open, and neither reads more than there is.
 */
#include "base/time.h"
#include "tests/fuzz/options.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <sys/socket.h>

#define WIRE_BATCH 2000

static void make(struct gp_fuzz *fuzz, struct gp_fuzz_datagram *d)
{
	*d = (struct gp_fuzz_datagram){ 0 };
	if (gp_fuzz_percent(fuzz, 5)) {
		gp_fuzz_noise(fuzz, d);
		return;
	}
	gp_fuzz_valid(fuzz, gp_fuzz_type(fuzz), &d->msg);
	d->len = d->msg.header.size;
	for (size_t n = gp_fuzz_below(fuzz, 4); n > 0; n--)
		gp_fuzz_mutate(fuzz, d);
}

/* In a block of just its size, so that the sanitizer sees a step beyond its end. */
static int check_exact(const struct gp_fuzz_datagram *d)
{
	void *exact = malloc(d->len ? d->len : 1);
	struct gp_err err;
	int r;

	CHECK(exact);
	memcpy(exact, d->bytes, d->len);
	r = gp_wire_check(exact, d->len, &err);
	if (r == 0)
		CHECK_EQ(d->len, gp_wire_size(d->msg.header.type));
	else
		CHECK_EQ(r, -EBADMSG);
	free(exact);
	return r;
}

static int first_free_fd(void)
{
	int fd = dup(STDIN_FILENO);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}

static void through_a_socket(const int *sv, const struct gp_fuzz_datagram *d, int checked,
			     size_t max_fds)
{
	int fds[GP_WIRE_MAX_FDS], before = first_free_fd(), r;
	struct gp_wire_msg got;
	struct gp_err err;
	size_t n = 0;

	CHECK_EQ(gp_fuzz_send(sv[0], d), 0);
	r = gp_wire_recv(sv[1], &got, fds, max_fds, &n, 0, &err);
	if (!d->len)
		CHECK_EQ(r, -ECONNRESET);
	else if (d->n_fds > GP_WIRE_MAX_FDS || d->len > sizeof(got))
		CHECK_EQ(r, -EBADMSG);
	else
		CHECK_EQ(r, checked);
	if (r == 0) {
		CHECK_EQ(n, d->n_fds < max_fds ? d->n_fds : max_fds);
		CHECK_EQ(memcmp(&got, d->bytes, d->len), 0);
	}
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	CHECK_EQ(first_free_fd(), before);
}

static void test_every_type_when_made_valid_then_accepted(struct gp_fuzz *fuzz)
{
	for (int i = 0; i < 200; i++) {
		for (uint32_t type = 1; type < GP_WIRE_MAX_; type++) {
			struct gp_fuzz_datagram d = { 0 };

			gp_fuzz_valid(fuzz, type, &d.msg);
			d.len = d.msg.header.size;
			CHECK_EQ(check_exact(&d), 0);
		}
	}
}

int main(int argc, char **argv)
{
	struct gp_fuzz_options o = gp_fuzz_parse(argc, argv);
	struct gp_fuzz_datagram d;
	struct gp_fuzz fuzz;
	uint64_t n = 0;
	int sv[2];

	gp_fuzz_init(&fuzz, o.seed);
	test_every_type_when_made_valid_then_accepted(&fuzz);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	while (gp_now_ns() < o.end_ns) {
		for (int i = 0; i < WIRE_BATCH; i++, n++) {
			make(&fuzz, &d);
			through_a_socket(sv, &d, check_exact(&d),
					 gp_fuzz_below(&fuzz, GP_WIRE_MAX_FDS + 1));
		}
	}
	close(sv[0]);
	close(sv[1]);
	printf("%llu messages\n", (unsigned long long)n);
	return 0;
}
