/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device printf. The text is made in a buffer first, so that a bad pointer faults while no lock of
 * stdio is held. Arguments lie packed, each at its natural alignment, as CUDA documents for
 * vprintf.
 */
#include "shim/soft/exec/calls.h"

#include <stdio.h>
#include <string.h>

#define CALLS_LINE_BYTES 4096 /* longer output of one call is cut */

struct calls_out {
	char text[CALLS_LINE_BYTES];
	size_t len;
	const uint8_t *args;
	size_t at;
};

static uint64_t calls_arg(struct calls_out *out, size_t bytes)
{
	uint64_t value = 0;

	out->at = (out->at + bytes - 1) & ~(bytes - 1);
	memcpy(&value, out->args + out->at, bytes);
	out->at += bytes;
	return value;
}

static void calls_put(struct calls_out *out, const char *text, size_t len)
{
	if (len > sizeof(out->text) - out->len)
		len = sizeof(out->text) - out->len;
	memcpy(out->text + out->len, text, len);
	out->len += len;
}

/* One conversion, its text in @spec up to the letter; @wide: it had an l. */
static void calls_convert(struct calls_out *out, char *spec, size_t n, bool wide, char letter)
{
	char piece[1024];
	uint64_t bits;
	double real;
	int len = 0;

	if (strchr("eEfFgGaA", letter)) {
		bits = calls_arg(out, 8);
		memcpy(&real, &bits, sizeof(real));
		snprintf(spec + n, 8, "%c", letter);
		len = snprintf(piece, sizeof(piece), spec, real);
	} else if (letter == 's') {
		snprintf(spec + n, 8, "s");
		len = snprintf(piece, sizeof(piece), spec,
			       (const char *)(uintptr_t)calls_arg(out, 8));
	} else if (letter == 'p') {
		len = snprintf(piece, sizeof(piece), "%p", (void *)(uintptr_t)calls_arg(out, 8));
	} else if (letter == 'c') {
		snprintf(spec + n, 8, "c");
		len = snprintf(piece, sizeof(piece), spec, (int)calls_arg(out, 4));
	} else {
		bits = calls_arg(out, wide ? 8 : 4);
		if (!wide && (letter == 'd' || letter == 'i'))
			bits = (uint64_t)(int64_t)(int32_t)bits;
		snprintf(spec + n, 8, "ll%c", letter);
		len = snprintf(piece, sizeof(piece), spec, (unsigned long long)bits);
	}
	if (len > 0)
		calls_put(out, piece,
			  (size_t)len < sizeof(piece) ? (size_t)len : sizeof(piece) - 1);
}

/* @p stands behind the '%'; gives where the conversion ends. */
static const char *calls_spec(struct calls_out *out, const char *p)
{
	char spec[48] = "%";
	bool wide = false;
	size_t n = 1;

	while (*p && !strchr("diouxXeEfFgGaAcsp%", *p)) {
		if (*p == '*')
			n += (size_t)snprintf(spec + n, 12, "%d", (int)calls_arg(out, 4));
		else if (*p == 'l' || *p == 'j' || *p == 'z' || *p == 't')
			wide = true;
		else if (*p != 'h')
			spec[n++] = *p;
		if (n > 24)
			return p; /* nonsense: print the rest as it is */
		p++;
	}
	if (!*p)
		return p;
	if (*p == '%')
		calls_put(out, "%", 1);
	else
		calls_convert(out, spec, n, wide, *p);
	return p + 1;
}

static uint32_t calls_print_lane(const char *format, const uint8_t *args)
{
	struct calls_out out = { .args = args };
	const char *next;
	uint32_t n_args = 0;

	for (const char *p = format; *p;) {
		if (*p != '%') {
			next = strchrnul(p, '%');
			calls_put(&out, p, (size_t)(next - p));
			p = next;
		} else {
			n_args += p[1] != '%';
			p = calls_spec(&out, p + 1);
		}
	}
	fwrite(out.text, 1, out.len, stdout);
	return n_args;
}

void gp_exec_vprintf(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask)
{
	const uint64_t *format = gp_exec_lanes(w, in->a), *args = gp_exec_lanes(w, in->b);
	uint32_t *d = gp_exec_lanes(w, in->d);

	for (; mask; mask &= mask - 1) {
		int l = __builtin_ctz(mask);

		d[l] = calls_print_lane((const char *)(uintptr_t)format[l],
					(const uint8_t *)(uintptr_t)args[l]);
	}
}

void gp_exec_assertfail(struct gp_exec_warp *w, const struct gp_exec_ins *in, uint32_t mask)
{
	const uint64_t *message = gp_exec_lanes(w, in->d), *file = gp_exec_lanes(w, in->a);
	const uint64_t *line = gp_exec_lanes(w, in->b), *func = gp_exec_lanes(w, in->c);
	const uint32_t *block = w->scratch->ctaid;
	int l = __builtin_ctz(mask);

	fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
		(const char *)(uintptr_t)file[l], (unsigned int)line[l],
		(const char *)(uintptr_t)func[l], block[0], block[1], block[2], w->tids->tid[0][l],
		w->tids->tid[1][l], w->tids->tid[2][l], (const char *)(uintptr_t)message[l]);
}
