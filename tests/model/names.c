/* SPDX-License-Identifier: Apache-2.0 */
/* How states and events of the model look in a trace. */
#include "base/wire/wire.h"
#include "tests/model/system.h"

#include <stdio.h>

const char *m_rule_name(enum m_rule rule)
{
	static const char *const names[M_RULE_MAX_] = {
		[M_RULE_CONFIRM] = "confirm",
		[M_RULE_SCRATCH] = "scratch",
		[M_RULE_SELF_THAW] = "self-thaw",
		[M_RULE_REFREEZE] = "refreeze",
		[M_RULE_FREEZE_FIRST] = "freeze-first",
		[M_RULE_LATE] = "late",
		[M_RULE_UNDO] = "undo",
		[M_RULE_RELEASE] = "release",
		[M_RULE_SUPERVISOR] = "supervisor",
		[M_RULE_LEDGER] = "ledger",
		[M_RULE_THAW_OUT] = "thaw-out",
		[M_RULE_EPOCH] = "epoch",
		[M_RULE_KILL] = "kill",
		[M_RULE_ARENA] = "arena",
	};

	return names[rule];
}

const char *m_event_name(enum m_event event)
{
	static const char *const names[M_EVENT_MAX_] = {
		[M_SHIM_TAKES] = "shim takes",
		[M_SHIM_LOSES] = "shim loses its daemon",
		[M_SHIM_CONNECTS] = "shim connects",
		[M_MOVER_TAKES] = "mover takes",
		[M_MOVER_WORKS] = "mover moves an extent",
		[M_MOVER_LOSES] = "mover loses its daemon",
		[M_MOVER_CONNECTS] = "mover connects",
		[M_MOVER_STARTS] = "mover starts",
		[M_DAEMON_STARTS] = "daemon starts",
		[M_DAEMON_HEARS] = "daemon hears a shim",
		[M_DAEMON_MISSES] = "daemon misses a shim",
		[M_DAEMON_HEARS_MOVER] = "daemon hears the mover",
		[M_DAEMON_MISSES_MOVER] = "daemon misses the mover",
		[M_DAEMON_MISSES_SUPERVISOR] = "daemon misses the supervisor",
		[M_DAEMON_DECIDES] = "daemon decides",
		[M_DAEMON_RESUMES] = "scheduler resumes",
		[M_DAEMON_RETRIES] = "daemon tries again",
		[M_KILL] = "kill",
		[M_FINISH] = "finish",
		[M_SHIM_THAWS] = "shim thaws itself",
		[M_DAEMON_DECIDES_NOW] = "daemon decides without the late",
		[M_ASK_FREEZE] = "asked to freeze",
		[M_ASK_SWAP] = "asked to swap",
		[M_ASK_YIELD] = "asked to yield",
		[M_ASK_RESUME] = "asked to resume",
		[M_ASK_CANCEL] = "asked to cancel",
		[M_SHIM_REFUSES] = "FAULT shim refuses",
		[M_MOVER_REFUSES] = "FAULT driver refuses",
		[M_MOVER_FAILS] = "FAULT driver refuses after a part",
		[M_MOVER_CANNOT] = "FAULT mover cannot save",
		[M_DAEMON_TIRES] = "FAULT no LOCKED in time",
		[M_CRASH_DAEMON] = "CRASH daemon",
		[M_CRASH_MOVER] = "CRASH mover",
		[M_CRASH_PROC] = "CRASH process",
		[M_CRASH_SUPERVISOR] = "CRASH supervisor",
	};

	return names[event];
}

static size_t print_queue(char *buf, size_t bytes, const char *name, const struct m_queue *q)
{
	size_t n = 0;

	if (!q->n)
		return 0;
	n += (size_t)snprintf(buf, bytes, " %s[", name);
	for (int i = 0; i < q->n && n < bytes; i++) {
		n += (size_t)snprintf(buf + n, bytes - n, "%s%s%s", i ? " " : "",
				      gp_wire_name(q->msgs[i].type), q->msgs[i].age ? "'" : "");
	}
	if (n < bytes)
		n += (size_t)snprintf(buf + n, bytes - n, "]");
	return n < bytes ? n : bytes - 1;
}

static size_t print_proc(char *buf, size_t bytes, const struct m_sys *sys, int i)
{
	static const char mems[] = "O-bfS", copies[] = ".vs";
	const struct m_proc *p = &sys->s.procs[i];
	char text[2 * M_EXTENTS + 1] = "";

	for (int e = 0; e < sys->config->n_extents; e++) {
		text[2 * e] = mems[p->mem[e]];
		text[2 * e + 1] = copies[p->copy[e]];
	}
	if (!p->alive)
		return (size_t)snprintf(buf, bytes, "  p%d dead %s", i, text);
	return (size_t)snprintf(buf, bytes, "  p%d %s %s %s%s", i, p->locked ? "locked" : "open",
				p->off ? "off" : "on", text,
				p->conn == M_UP	   ? ""
				: p->conn == M_OLD ? " old"
						   : " down");
}

void m_print(const struct m_sys *sys, char *buf, size_t buf_bytes)
{
	const struct m_daemon *d = &sys->s.d;
	size_t n;

	n = (size_t)snprintf(buf, buf_bytes, "%s%s%s%s op=%u phase=%u%s",
			     gp_job_state_name(d->state), d->held ? " held" : "",
			     d->cancelling ? " cancelling" : "", d->alive ? "" : " (daemon dead)",
			     d->op, d->phase, sys->s.m.alive ? "" : " (mover dead)");
	for (int i = 0; i < sys->config->n_procs; i++) {
		n += print_proc(buf + n, buf_bytes - n, sys, i);
		n += print_queue(buf + n, buf_bytes - n, "D>S", &sys->s.to_shim[i]);
		n += print_queue(buf + n, buf_bytes - n, "S>D", &sys->s.from_shim[i]);
	}
	n += print_queue(buf + n, buf_bytes - n, "D>M", &sys->s.to_mover);
	(void)print_queue(buf + n, buf_bytes - n, "M>D", &sys->s.from_mover);
}
