/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visits every state that the model of a job can get into, breadth first, so that the first
 * violation found has a shortest trace. Of a visited state only a hash of 64 bits is kept (two of
 * 10^7 states share one with a chance of 10^-6), and which event of which state led to it; the
 * trace is replayed.
 *
 *	explore [--procs N] [--extents N] [--crashes N] [--requests N] [--faults N] [--adopted]
 *		[--without RULE]... [--expect-violation] [--max-states N]
 *
 * Exit status: 0 no violation, 1 one was found and printed (--expect-violation: the other way
 * round), 2 not all states fit.
 */
#include "base/size.h"
#include "base/time.h"
#include "tests/model/system.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than any way to rest takes. */
#define MAX_STEPS_TO_REST 1000

struct origin {
	uint32_t from; /* index of a state */
	uint8_t event, variant;
};

struct explorer {
	struct m_config config;
	uint64_t *seen; /* open addressing; 0 = free */
	uint64_t n_slots;
	struct origin *origins; /* by index of the state */
	uint32_t n_states, max_states;
	struct m_state *level, *next; /* states of this depth and the next one */
	uint32_t n_level, n_next, room_level, room_next;
	uint32_t first; /* index of the first state of this depth */
	uint32_t depth;
	uint64_t n_steps;
	bool expect_violation;
};

static uint64_t hash_state(const struct m_state *s)
{
	const unsigned char *b = (const unsigned char *)s;
	uint64_t h = 0x9e3779b97f4a7c15u, word;

	for (size_t i = 0; i < sizeof(*s); i += sizeof(word)) {
		word = 0;
		memcpy(&word, b + i, sizeof(*s) - i < sizeof(word) ? sizeof(*s) - i : sizeof(word));
		h = (h ^ word) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h ? h : 1;
}

/* False if it was there before. */
static bool note_seen(struct explorer *x, const struct m_state *s)
{
	uint64_t h = hash_state(s), at = h & (x->n_slots - 1);

	while (x->seen[at]) {
		if (x->seen[at] == h)
			return false;
		at = (at + 1) & (x->n_slots - 1);
	}
	x->seen[at] = h;
	return true;
}

static void die(const char *what)
{
	fprintf(stderr, "explore: %s\n", what);
	exit(2);
}

static void add_state(struct explorer *x, const struct m_state *s, struct origin origin)
{
	if (!note_seen(x, s))
		return;
	if (x->n_states == x->max_states)
		die("more states than --max-states");
	if (x->n_next == x->room_next) {
		x->room_next = x->room_next ? 2 * x->room_next : 1024;
		struct m_state *next = realloc(x->next, x->room_next * sizeof(*next));

		if (!next)
			die("out of memory");
		x->next = next;
	}
	x->origins[x->n_states++] = origin;
	x->next[x->n_next++] = *s;
}

static void replay(const struct explorer *x, uint32_t index, struct m_sys *sys, uint32_t *step)
{
	struct origin o = x->origins[index];
	char text[1024];

	if (!index) {
		m_init(sys, &x->config);
		return;
	}
	replay(x, o.from, sys, step);
	m_step(sys, (enum m_event)o.event, o.variant);
	m_print(sys, text, sizeof(text));
	printf("%3u  %s %u\n\t%s\n", ++*step, m_event_name((enum m_event)o.event), o.variant, text);
}

static void print_trace(const struct explorer *x, uint32_t index, const struct origin *last,
			const char *what)
{
	struct m_sys sys;
	uint32_t step = 0;
	char text[1024];

	replay(x, index, &sys, &step);
	if (last) {
		m_step(&sys, (enum m_event)last->event, last->variant);
		m_print(&sys, text, sizeof(text));
		printf("%3u  %s %u\n\t%s\n", ++step, m_event_name((enum m_event)last->event),
		       last->variant, text);
	}
	printf("violation: %s\n", what);
}

/*
 * From where something came from outside: if nothing more does, all that must happen leads to rest,
 * whether the first or the last of what can happen is taken. Otherwise it would go on for ever.
 */
static bool comes_to_rest(const struct m_sys *from, bool last_first)
{
	struct m_sys sys = *from;
	int n = 0;

	for (;;) {
		bool moved = false;

		for (unsigned int i = 0; i < (M_LAST_FORCED + 1) * M_PROCS && !moved; i++) {
			unsigned int at = last_first ? (M_LAST_FORCED + 1) * M_PROCS - 1 - i : i;

			moved = m_step(&sys, (enum m_event)(at / M_PROCS), at % M_PROCS);
		}
		if (!moved)
			return true;
		if (++n > MAX_STEPS_TO_REST)
			return false;
	}
}

/* All that can happen in one state; false: there is a violation, which has been printed. */
static bool expand(struct explorer *x, uint32_t at)
{
	struct m_sys before = { .s = x->level[at], .config = &x->config };
	struct m_sys sys = before;
	bool forced = false;

	for (unsigned int event = 0; event < M_EVENT_MAX_; event++) {
		for (unsigned int variant = 0; variant < M_VARIANTS; variant++) {
			struct origin o = { x->first + at, (uint8_t)event, (uint8_t)variant };

			if (!m_step(&sys, (enum m_event)event, variant))
				continue;
			x->n_steps++;
			forced |= event <= M_LAST_FORCED;
			if (!sys.bad)
				m_check(&sys);
			if (!sys.bad && event > M_LAST_FORCED &&
			    (!comes_to_rest(&sys, false) || !comes_to_rest(&sys, true)))
				sys.bad = "it never comes to rest";
			if (sys.bad) {
				print_trace(x, x->first + at, &o, sys.bad);
				return false;
			}
			add_state(x, &sys.s, o);
			sys = before;
		}
	}
	if (!forced && !m_is_settled(&before)) {
		print_trace(x, x->first + at, NULL,
			    "nothing more happens, and the job is not settled");
		return false;
	}
	return true;
}

static bool explore(struct explorer *x)
{
	struct m_sys sys;

	m_init(&sys, &x->config);
	add_state(x, &sys.s, (struct origin){ 0 });
	while (x->n_next) {
		struct m_state *level = x->level;
		uint32_t room = x->room_level;

		x->first = x->n_states - x->n_next;
		x->level = x->next;
		x->n_level = x->n_next;
		x->room_level = x->room_next;
		x->next = level;
		x->n_next = 0;
		x->room_next = room;
		for (uint32_t i = 0; i < x->n_level; i++) {
			if (!expand(x, i))
				return false;
		}
		x->depth++;
	}
	return true;
}

static uint8_t number(const char *text, unsigned int min, unsigned int max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n < min || n > max)
		die("a number is out of range");
	return (uint8_t)n;
}

static uint32_t rule(const char *name)
{
	for (int i = 0; i < M_RULE_MAX_; i++) {
		if (strcmp(name, m_rule_name((enum m_rule)i)) == 0)
			return 1u << i;
	}
	die("no such rule");
	return 0;
}

static void parse(struct explorer *x, int argc, char **argv)
{
	static const struct option options[] = {
		{ "procs", required_argument, NULL, 'p' },
		{ "extents", required_argument, NULL, 'e' },
		{ "crashes", required_argument, NULL, 'c' },
		{ "requests", required_argument, NULL, 'r' },
		{ "faults", required_argument, NULL, 'f' },
		{ "adopted", no_argument, NULL, 'a' },
		{ "without", required_argument, NULL, 'w' },
		{ "expect-violation", no_argument, NULL, 'x' },
		{ "max-states", required_argument, NULL, 'm' },
		{ 0 },
	};
	int c;

	x->config = (struct m_config){ 1, 2, 1, 2, 1, false, 0 };
	x->max_states = 4000000;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			x->config.n_procs = number(optarg, 1, M_PROCS);
			break;
		case 'e':
			x->config.n_extents = number(optarg, 1, M_EXTENTS);
			break;
		case 'c':
			x->config.n_crashes = number(optarg, 0, 9);
			break;
		case 'r':
			x->config.n_requests = number(optarg, 0, 9);
			break;
		case 'f':
			x->config.n_faults = number(optarg, 0, 9);
			break;
		case 'a':
			x->config.adopted = true;
			break;
		case 'w':
			x->config.without |= rule(optarg);
			break;
		case 'x':
			x->expect_violation = true;
			break;
		case 'm':
			x->max_states = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		default:
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	static struct explorer x;
	uint64_t begin_ns = gp_now_ns();
	bool ok;

	parse(&x, argc, argv);
	for (x.n_slots = 1024; x.n_slots < 2ull * x.max_states; x.n_slots *= 2)
		;
	x.seen = calloc(x.n_slots, sizeof(*x.seen));
	x.origins = calloc(x.max_states, sizeof(*x.origins));
	if (!x.seen || !x.origins)
		die("out of memory");
	ok = explore(&x);
	printf("%u states, %llu steps, depth %u, %.1f s: %u processes of %u extents, %u crashes, "
	       "%u requests, %u faults%s\n",
	       x.n_states, (unsigned long long)x.n_steps, x.depth,
	       (double)(gp_now_ns() - begin_ns) / GP_NS_PER_SEC, x.config.n_procs,
	       x.config.n_extents, x.config.n_crashes, x.config.n_requests, x.config.n_faults,
	       x.config.adopted ? ", adopted" : "");
	free(x.seen);
	free(x.origins);
	free(x.level);
	free(x.next);
	return ok == x.expect_violation;
}
