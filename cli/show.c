/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/show.h"

#include "base/cleanup.h"
#include "base/size.h"
#include "base/time.h"
#include "base/wire/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_BYTES     24 /* of a formatted size or time */
#define MAX_COLUMNS    12
#define COMMAND_COLUMN 40 /* columns of the list that a command may take */

/* The cells of a table, row by row; each is its own allocation. */
struct show_table {
	size_t n_columns, n_cells, room;
	char **cells;
	bool failed; /* out of memory */
};

static void show_table_fini(struct show_table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
}

gp_printf(2, 3) static void show_cell(struct show_table *t, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	if (t->n_cells == t->room) {
		size_t room = t->room ? 2 * t->room : 64;
		char **grown = reallocarray(t->cells, room, sizeof(*t->cells));

		if (!grown) {
			t->failed = true;
			return;
		}
		t->cells = grown;
		t->room = room;
	}
	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		t->failed = true;
		return;
	}
	t->cells[t->n_cells++] = text;
}

/* Number of columns that @text takes, taking each code point as one. */
static size_t show_width(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

/* Columns of numbers stand at the right: those whose title starts with '>'. */
static int show_table_print(const struct show_table *t, FILE *out)
{
	size_t widths[MAX_COLUMNS] = { 0 };

	if (t->failed || !t->n_columns)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t w = show_width(t->cells[i]) - (i < t->n_columns && t->cells[i][0] == '>');

		if (w > widths[i % t->n_columns])
			widths[i % t->n_columns] = w;
	}
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t column = i % t->n_columns;
		bool last = column + 1 == t->n_columns, right = t->cells[column][0] == '>';
		const char *text = t->cells[i] + (i == column && right);
		int pad = (int)(widths[column] - show_width(text));

		fprintf(out, "%*s%s%*s%s", right ? pad : 0, "", text, right || last ? 0 : pad, "",
			last ? "\n" : "  ");
	}
	return 0;
}

const char *gp_show_safe(const char *text, char *buf, size_t buf_bytes)
{
	size_t used = 0, left = strlen(text);

	while (left) {
		size_t n = gp_utf8_length(text, left), take = n ? n : 1;
		/* U+0080 .. U+009f are control characters too. */
		bool control =
			(unsigned char)*text < 0x20 || *text == 0x7f ||
			(n == 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0);

		if (used + take >= buf_bytes)
			break;
		if (n && !control) {
			memcpy(buf + used, text, n);
			used += n;
		} else {
			buf[used++] = '?';
		}
		text += take;
		left -= take;
	}
	buf[used] = '\0';
	return buf;
}

static const char *show_ns(uint64_t ns, char *buf)
{
	if (ns < GP_NS_PER_MS)
		snprintf(buf, SIZE_BYTES, "%.1f us", (double)ns / 1e3);
	else if (ns < GP_NS_PER_SEC)
		snprintf(buf, SIZE_BYTES, "%.2f ms", (double)ns / 1e6);
	else
		snprintf(buf, SIZE_BYTES, "%.2f s", (double)ns / 1e9);
	return buf;
}

static const char *show_size(uint64_t bytes, char *buf)
{
	return gp_size_format(bytes, buf, SIZE_BYTES);
}

static double show_rate(uint64_t bytes, uint64_t ns)
{
	/* Bytes per ns are GB/s. */
	return ns ? (double)bytes / (double)ns : 0;
}

static const char *show_mid_kernel(uint32_t mid_kernel)
{
	static const char *const names[] = {
		[GP_MID_KERNEL_NO] = "no",
		[GP_MID_KERNEL_YES] = "yes",
		[GP_MID_KERNEL_UNKNOWN] = "unknown",
	};

	return mid_kernel < GP_ARRAY_SIZE(names) ? names[mid_kernel] : "unknown";
}

static void show_report_json(struct gp_json *j, const struct gp_wire_report *r)
{
	gp_json_open_object(j, "report");
	gp_json_text(j, "mid_kernel", show_mid_kernel(r->mid_kernel));
	gp_json_unsigned(j, "n_channels", r->n_channels);
	gp_json_unsigned(j, "freeze_ns", r->freeze_ns);
	gp_json_unsigned(j, "stop_ns", r->stop_ns);
	gp_json_unsigned(j, "save_ns", r->save_ns);
	gp_json_unsigned(j, "evict_ns", r->evict_ns);
	gp_json_unsigned(j, "restore_ns", r->restore_ns);
	gp_json_unsigned(j, "load_ns", r->load_ns);
	gp_json_unsigned(j, "thaw_ns", r->thaw_ns);
	gp_json_unsigned(j, "total_bytes", r->total_bytes);
	gp_json_unsigned(j, "zero_bytes", r->zero_bytes);
	gp_json_unsigned(j, "arena_bytes", r->arena_bytes);
	gp_json_unsigned(j, "disk_bytes", r->disk_bytes);
	gp_json_close_object(j);
}

void gp_show_job_json(struct gp_json *j, const struct gp_wire_job *job)
{
	gp_json_unsigned(j, "id", job->id);
	gp_json_text(j, "name", job->name);
	gp_json_text(j, "state", gp_job_state_name(job->state));
	gp_json_text(j, "cause", job->cause);
	gp_json_text(j, "command", job->command);
	gp_json_signed(j, "priority", job->priority);
	gp_json_unsigned(j, "uid", job->uid);
	if (job->pid)
		gp_json_unsigned(j, "pid", job->pid);
	else
		gp_json_null(j, "pid");
	if (job->exit_code >= 0)
		gp_json_signed(j, "exit_code", job->exit_code);
	else
		gp_json_null(j, "exit_code");
	if (job->device == GP_WIRE_NO_DEVICE)
		gp_json_null(j, "device");
	else
		gp_json_unsigned(j, "device", job->device);
	gp_json_unsigned(j, "n_preemptions", job->n_preemptions);
	gp_json_bool(j, "held", job->held);
	gp_json_unsigned(j, "mem_bytes", job->mem_bytes);
	gp_json_unsigned(j, "device_bytes", job->device_bytes);
	gp_json_unsigned(j, "saved_bytes", job->saved_bytes);
	gp_json_unsigned(j, "resident_bytes", job->resident_bytes);
	gp_json_unsigned(j, "submitted_wallclock_ns", job->submitted_wallclock_ns);
	gp_json_unsigned(j, "started_wallclock_ns", job->started_wallclock_ns);
	gp_json_unsigned(j, "ended_wallclock_ns", job->ended_wallclock_ns);
	show_report_json(j, &job->report);
}

static void show_job_object(const struct gp_wire_job *job, FILE *out)
{
	struct gp_json j;

	gp_json_init(&j, out);
	gp_json_open_object(&j, NULL);
	gp_show_job_json(&j, job);
	gp_json_close_object(&j);
	putc('\n', out);
}

static void show_line(FILE *out, const char *title, const char *value)
{
	fprintf(out, "%-18s%s\n", title, value);
}

static void show_size_line(FILE *out, const char *title, uint64_t bytes)
{
	char buf[SIZE_BYTES];

	show_line(out, title, show_size(bytes, buf));
}

static void show_ns_line(FILE *out, const char *title, uint64_t ns)
{
	char buf[SIZE_BYTES];

	show_line(out, title, show_ns(ns, buf));
}

static void show_clock_line(FILE *out, const char *title, uint64_t wallclock_ns)
{
	time_t seconds = (time_t)(wallclock_ns / GP_NS_PER_SEC);
	char buf[64] = "-";
	struct tm tm;

	if (wallclock_ns && localtime_r(&seconds, &tm))
		strftime(buf, sizeof(buf), "%Y-%m-%d %H:%M:%S %z", &tm);
	show_line(out, title, buf);
}

static void show_preemption_lines(const struct gp_wire_report *r, FILE *out)
{
	char a[SIZE_BYTES], b[SIZE_BYTES], c[SIZE_BYTES], d[SIZE_BYTES];

	show_line(out, "mid-kernel", show_mid_kernel(r->mid_kernel));
	fprintf(out, "%-18s%s, %u channels\n", "freeze", show_ns(r->freeze_ns, a), r->n_channels);
	show_ns_line(out, "request to stop", r->stop_ns);
	if (!r->evict_ns)
		return;
	fprintf(out, "%-18s%.2f GB in %s: %.1f GB/s\n", "saved", (double)r->total_bytes / 1e9,
		show_ns(r->save_ns, a), show_rate(r->total_bytes, r->save_ns));
	fprintf(out, "%-18szero %s, arena %s, disk %s\n", "kept as", show_size(r->zero_bytes, b),
		show_size(r->arena_bytes, c), show_size(r->disk_bytes, d));
	show_ns_line(out, "request to free", r->evict_ns);
}

static void show_resumption_lines(const struct gp_wire_report *r, FILE *out)
{
	char a[SIZE_BYTES];

	if (r->load_ns)
		fprintf(out, "%-18s%.2f GB in %s: %.1f GB/s\n", "loaded",
			(double)r->total_bytes / 1e9, show_ns(r->load_ns, a),
			show_rate(r->total_bytes, r->load_ns));
	show_ns_line(out, "thaw", r->thaw_ns);
	show_ns_line(out, "request to running", r->restore_ns);
}

/* "job 3 (train): swapped" */
static void show_headline(const struct gp_wire_job *job, FILE *out)
{
	char name[sizeof(job->name)];

	fprintf(out, "job %" PRIu64 " (%s): %s\n", job->id,
		gp_show_safe(job->name, name, sizeof(name)), gp_job_state_name(job->state));
}

void gp_show_job(const struct gp_wire_job *job, bool json, FILE *out)
{
	char text[sizeof(job->command)];

	if (json) {
		show_job_object(job, out);
		return;
	}
	show_headline(job, out);
	show_line(out, "command", gp_show_safe(job->command, text, sizeof(text)));
	show_line(out, "cause", gp_show_safe(job->cause, text, sizeof(text)));
	fprintf(out, "%-18s%d\n", "priority", job->priority);
	fprintf(out, "%-18s%u\n", "uid", job->uid);
	if (job->pid)
		fprintf(out, "%-18s%u\n", "pid", job->pid);
	if (job->device != GP_WIRE_NO_DEVICE)
		fprintf(out, "%-18s%u\n", "device", job->device);
	if (job->exit_code >= 0)
		fprintf(out, "%-18s%d\n", "exit code", job->exit_code);
	show_size_line(out, "memory asked for", job->mem_bytes);
	show_size_line(out, "on the device", job->device_bytes);
	show_size_line(out, "saved", job->saved_bytes);
	show_size_line(out, "cannot be moved", job->resident_bytes);
	show_clock_line(out, "submitted", job->submitted_wallclock_ns);
	show_clock_line(out, "started", job->started_wallclock_ns);
	show_clock_line(out, "ended", job->ended_wallclock_ns);
	fprintf(out, "%-18s%u%s\n", "preemptions", job->n_preemptions,
		job->held ? ", held until resumed by hand" : "");
	if (!job->n_preemptions)
		return;
	fputs("last preemption\n", out);
	show_preemption_lines(&job->report, out);
	if (job->report.restore_ns)
		show_resumption_lines(&job->report, out);
}

void gp_show_preemption(const struct gp_wire_job *job, bool json, FILE *out)
{
	if (json) {
		show_job_object(job, out);
		return;
	}
	show_headline(job, out);
	show_preemption_lines(&job->report, out);
}

void gp_show_resumption(const struct gp_wire_job *job, bool json, FILE *out)
{
	if (json) {
		show_job_object(job, out);
		return;
	}
	show_headline(job, out);
	show_resumption_lines(&job->report, out);
}

static void show_json_list(const struct gp_wire_msg *messages, size_t n, const char *key,
			   void (*members)(struct gp_json *, const struct gp_wire_msg *), FILE *out)
{
	struct gp_json j;

	gp_json_init(&j, out);
	gp_json_open_object(&j, NULL);
	gp_json_open_array(&j, key);
	for (size_t i = 0; i < n; i++) {
		gp_json_open_object(&j, NULL);
		members(&j, &messages[i]);
		gp_json_close_object(&j);
	}
	gp_json_close_array(&j);
	gp_json_close_object(&j);
	putc('\n', out);
}

static void show_job_members(struct gp_json *j, const struct gp_wire_msg *msg)
{
	gp_show_job_json(j, &msg->job);
}

static void show_device_members(struct gp_json *j, const struct gp_wire_msg *msg)
{
	const struct gp_wire_device *d = &msg->device;

	gp_json_unsigned(j, "device", d->ordinal);
	gp_json_text(j, "kind", d->kind);
	gp_json_text(j, "name", d->name);
	gp_json_bool(j, "ready", d->ready);
	gp_json_unsigned(j, "total_bytes", d->total_bytes);
	gp_json_unsigned(j, "free_bytes", d->free_bytes);
	gp_json_unsigned(j, "arena_bytes", d->arena_bytes);
	gp_json_unsigned(j, "arena_used_bytes", d->arena_used_bytes);
	gp_json_unsigned(j, "swap_bytes", d->swap_bytes);
	gp_json_unsigned(j, "swap_used_bytes", d->swap_used_bytes);
}

static void show_titles(struct show_table *t, const char *const *titles, size_t n)
{
	t->n_columns = n;
	for (size_t i = 0; i < n; i++)
		show_cell(t, "%s", titles[i]);
}

int gp_show_jobs(const struct gp_wire_msg *messages, size_t n, bool uids, bool json, FILE *out)
{
	static const char *const titles[] = { ">ID",	 "NAME",   "STATE",	   ">PRIORITY",
					      ">MEMORY", ">SAVED", ">PREEMPTIONS", ">EXIT",
					      "COMMAND", ">UID" };
	char a[SIZE_BYTES], name[GP_WIRE_NAME_BYTES], command[COMMAND_COLUMN + 1];
	struct show_table t = { 0 };
	int r;

	if (json) {
		show_json_list(messages, n, "jobs", show_job_members, out);
		return 0;
	}
	show_titles(&t, titles, GP_ARRAY_SIZE(titles) - !uids);
	for (size_t i = 0; i < n; i++) {
		const struct gp_wire_job *job = &messages[i].job;

		show_cell(&t, "%" PRIu64, job->id);
		show_cell(&t, "%s", gp_show_safe(job->name, name, sizeof(name)));
		show_cell(&t, "%s%s", gp_job_state_name(job->state), job->held ? " (held)" : "");
		show_cell(&t, "%d", job->priority);
		show_cell(&t, "%s", show_size(job->device_bytes, a));
		show_cell(&t, "%s", show_size(job->saved_bytes, a));
		show_cell(&t, "%u", job->n_preemptions);
		if (job->exit_code >= 0)
			show_cell(&t, "%d", job->exit_code);
		else
			show_cell(&t, "-");
		show_cell(&t, "%s", gp_show_safe(job->command, command, sizeof(command)));
		if (uids)
			show_cell(&t, "%u", job->uid);
	}
	r = show_table_print(&t, out);
	show_table_fini(&t);
	return r;
}

int gp_show_devices(const struct gp_wire_msg *messages, size_t n, bool json, FILE *out)
{
	static const char *const titles[] = { ">DEVICE", "KIND",   "NAME",  "READY", ">MEMORY",
					      ">FREE",	 ">ARENA", ">USED", ">SWAP", ">USED" };
	char a[SIZE_BYTES], name[GP_WIRE_NAME_BYTES], kind[sizeof(messages->device.kind)];
	struct show_table t = { 0 };
	int r;

	if (json) {
		show_json_list(messages, n, "devices", show_device_members, out);
		return 0;
	}
	show_titles(&t, titles, GP_ARRAY_SIZE(titles));
	for (size_t i = 0; i < n; i++) {
		const struct gp_wire_device *d = &messages[i].device;

		show_cell(&t, "%u", d->ordinal);
		show_cell(&t, "%s", gp_show_safe(d->kind, kind, sizeof(kind)));
		show_cell(&t, "%s", gp_show_safe(d->name, name, sizeof(name)));
		show_cell(&t, "%s", d->ready ? "yes" : "no");
		show_cell(&t, "%s", show_size(d->total_bytes, a));
		show_cell(&t, "%s", show_size(d->free_bytes, a));
		show_cell(&t, "%s", show_size(d->arena_bytes, a));
		show_cell(&t, "%s", show_size(d->arena_used_bytes, a));
		show_cell(&t, "%s", show_size(d->swap_bytes, a));
		show_cell(&t, "%s", show_size(d->swap_used_bytes, a));
	}
	r = show_table_print(&t, out);
	show_table_fini(&t);
	return r;
}
