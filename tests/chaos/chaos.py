#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random jobs on several software devices, preempted, resumed, cancelled and killed at random, with
the programs of gpupres themselves among the victims. In the end everything is let finish, and:

* only jobs whose own processes were killed, or that were cancelled, may have failed; all others are
  done with the right output
* the history of each job is one chain of states without gaps, which ends where the job is
* no process, descriptor of the daemon, socket, device memory, page of an arena, block of a swap
  file or file in /dev/shm is left

The moments are real time, so a seed repeats the choices and not the run. What failed is printed with
the seed, the job's history and the daemon's lines about it.
"""
import argparse
import collections
import os
import random
import re
import signal
import sqlite3
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402
import machine  # noqa: E402
import workload  # noqa: E402

KILLS = ("jobs", "supervisors", "movers", "daemon", "helpers")
HELPERS = ("gpupres-spawn", "gpupres-policy", "gpupres-ckpt")
STATES = ("none", "queued", "starting", "running", "freezing", "frozen", "evicting", "swapped",
          "restoring", "thawing", "done", "failed", "cancelled")
FINAL = ("done", "failed", "cancelled")
MEMORY, ARENA = "512M", "192M"
MAX_LIVE = 16  # jobs at a time
MAX_HELD = 6   # preempted by hand at a time
ANSWER_S = 150  # longer than any deadline of the daemon's for one request


class Chaos:
    def __init__(self, args):
        self.args = args
        self.rng = random.Random(args.seed)
        self.n_jobs = args.jobs or max(8, 200 * args.seconds // 600)
        self.jobs = {}      # by name
        self.lock = threading.Lock()
        self.threads = []
        self.restarts = 0   # requests that were under way then may fail
        self.restarting = False
        self.done = collections.Counter()
        self.refused = collections.Counter()
        self.failures = []  # (text, id of the job or None)
        self.references = {}
        self.daemon = self.start()

    # --- the daemon ---

    def start(self, fresh_from=None):
        return harness.Daemon(memory=MEMORY, arena=ARENA, fresh_from=fresh_from,
                              args=("--devices", str(self.args.devices), "--swap-max", "4G"),
                              env={"GPUPRES_SOFT_CORES": "1"})

    def run_dir(self):
        return self.daemon.dir + "/run"

    def devices(self):
        return {d["device"]: d for d in self.daemon.json("devices")["devices"]}

    def fail(self, text, ident=None):
        with self.lock:
            self.failures.append((text, ident))

    def request(self, what, *args):
        """One request; None if it was refused, or lost with the daemon."""
        began, disturbed = self.restarts, self.restarting
        try:
            r = self.daemon.ctl(*args, check_code=False, timeout=ANSWER_S)
        except Exception as e:  # a request must be answered, whatever happens
            self.fail("gpupresctl %s: %s" % (" ".join(args), e), None)
            return None
        if r.returncode == 0:
            self.done[what] += 1
            return r.stdout
        disturbed = disturbed or self.restarting or began != self.restarts
        if r.returncode != 1 and not disturbed:
            self.fail("gpupresctl %s: exit %d: %s" % (" ".join(args), r.returncode, r.stderr))
        self.refused["%s: %s" % (what, re.sub(r"\d+", "N", r.stderr.strip()))] += 1
        return None

    def later(self, function, *args):
        """Requests wait for the daemon, and the chaos must not wait for them."""
        self.threads = [t for t in self.threads if t.is_alive()]
        thread = threading.Thread(target=function, args=args, daemon=True)
        thread.start()
        self.threads.append(thread)

    # --- what is done to it ---

    def submit(self, job):
        self.jobs[job.name] = job
        out = self.request("submit", "submit", *job.options(), "--", *job.argv)
        job.id = int(out) if out else None

    def live(self):
        return [j for j in self.listed if j["state"] not in FINAL and j["name"] in self.jobs]

    def preempt(self, job):
        self.request("preempt", "preempt", str(job["id"]))

    def freeze(self, job):
        self.request("freeze", "preempt", "--to", "frozen", str(job["id"]))

    def resume(self, job):
        self.request("resume", "resume", str(job["id"]))

    def cancel(self, job):
        self.jobs[job["name"]].cancelled = True
        self.request("cancel", "cancel", str(job["id"]))

    def kill(self, what, pid):
        try:
            os.kill(pid, signal.SIGKILL)
            self.done["kill " + what] += 1
        except ProcessLookupError:
            pass

    def kill_jobs(self, job):
        pids = sorted(machine.job_processes(self.run_dir(), job["id"]))
        if pids:
            self.jobs[job["name"]].killed.append("process")
            self.kill("jobs", self.rng.choice(pids))

    def kill_supervisors(self, job):
        pid = machine.supervisors(self.run_dir()).get(job["id"])
        if pid:
            self.jobs[job["name"]].killed.append("supervisor")
            self.kill("supervisors", pid)

    def kill_movers(self, _):
        pids = sorted(machine.programs(self.run_dir(), "gpupres-mover"))
        if pids:
            self.kill("movers", self.rng.choice(pids))

    def kill_helpers(self, _):
        """By name: a child that has just been forked is nothing yet, and may become a supervisor."""
        pids = sorted(pid for pid in machine.children(self.daemon.process.pid)
                      if machine.name(pid) in HELPERS)
        if pids:
            self.kill("helpers", self.rng.choice(pids))

    def wait_for_movers(self):
        harness.wait_until(lambda: all(d["ready"] for d in self.devices().values()),
                           "all movers", ANSWER_S)

    def kill_daemon(self, _):
        """Not while it alone has what a mover left: both at once is the loss of the arena."""
        self.wait_for_movers()
        self.restarting = True
        self.restarts += 1
        self.daemon.stop(signal.SIGKILL)
        self.done["kill daemon"] += 1
        self.daemon.process = self.start(fresh_from=self.daemon).process
        self.daemon.ready()
        self.wait_for_movers()
        self.restarting = False

    def disturb(self):
        live = self.live()
        if not live:
            return
        held = [j for j in live if j["held"]]
        actions = [(self.preempt, 8), (self.freeze, 4), (self.resume, 4), (self.cancel, 0.25)]
        actions += [(getattr(self, "kill_" + k), 0.25) for k in self.args.kill]
        if len(held) >= MAX_HELD:
            actions = [(self.resume, 1)]
        action = self.rng.choices([a for a, _ in actions], [w for _, w in actions])[0]
        job = self.rng.choice(held if action == self.resume and held else live)
        if action in (self.preempt, self.freeze, self.resume, self.cancel):
            self.later(action, job)
        else:
            action(job)

    # --- the run ---

    def take_references(self):
        """Each run once, undisturbed; also what an idle daemon and empty devices look like."""
        idents = {}
        for spec in workload.RUNS:
            run = workload.Run(spec)
            idents[run.key()] = self.daemon.submit(
                *run.argv(), options=("--mem", "%dM" % (run.mb + workload.BESIDES_MB)))
        for key, ident in idents.items():
            harness.check(self.daemon.wait(ident) == 0, "%s: %s" % (key, self.daemon.logs(ident)))
            match = re.search(r"hash=(\S+) wrong=0", self.daemon.logs(ident))
            harness.check(match, "%s: %s" % (key, self.daemon.logs(ident)))
            self.references[key] = match.group(1)
        harness.wait_until(lambda: not machine.job_processes(self.run_dir()) and
                           not machine.supervisors(self.run_dir()), "idle")
        self.empty = {n: d["free_bytes"] for n, d in self.settled_devices().items()}
        self.shm = self.shm_files()
        self.runtime_files = machine.files(self.run_dir())
        self.descriptors = machine.descriptors(self.daemon.process.pid)

    def settled_devices(self):
        """A reading that is as old as the last job: an idle daemon does not look."""
        before = None
        while True:
            harness.check(self.daemon.wait(self.daemon.submit("true")) == 0, "true failed")
            now = self.devices()
            if now == before:
                return now
            before = now

    def shm_files(self):
        """Of the software devices: allocations are numbered, so that only how many there are counts."""
        return collections.Counter(re.sub(r"\.[0-9a-f]{16}$", "", f)
                                   for f in machine.files(self.daemon.soft))

    def chaos(self):
        begin, next_submit, n = time.monotonic(), 0.0, 0
        while time.monotonic() - begin < self.args.seconds:
            self.listed = self.daemon.jobs()
            now = time.monotonic() - begin
            if n < self.n_jobs and now >= next_submit and len(self.live()) < MAX_LIVE:
                n += 1
                self.submit(workload.random_job(self.rng, "chaos%d" % n))
                next_submit = max(now, n * self.args.seconds * 0.9 / self.n_jobs)
            self.disturb()
            time.sleep(self.rng.uniform(0.02, 0.4))  # the moments are the stimulus

    def drain(self):
        """All that is held is resumed until all have ended."""
        def ended():
            live = [j for j in self.daemon.jobs() if j["state"] not in FINAL]
            for j in live:
                if j["held"]:
                    self.request("resume", "resume", str(j["id"]))
            return not live
        for t in self.threads:
            t.join(ANSWER_S + 10)
        try:
            harness.wait_until(ended, "the end of all jobs", self.args.drain)
        except harness.Failed as e:
            for j in self.daemon.jobs():
                if j["state"] not in FINAL:
                    self.fail("%s: job %d is %s (%s)" % (e, j["id"], j["state"], j["cause"]), j["id"])

    # --- what must be true then ---

    def check_jobs(self):
        for record in self.daemon.jobs():
            job = self.jobs.get(record["name"])
            if not job or record["state"] not in FINAL:
                continue
            ident, output = record["id"], self.daemon.logs(record["id"])
            self.done["job " + record["state"]] += 1
            self.done["preemptions"] += record["n_preemptions"]
            if record["state"] == "done":
                wrong = job.wrong(output, self.references)
                # What else was in the tree may have been killed unseen by the command.
                if wrong and not job.killed:
                    self.fail("job %d is done: %s" % (ident, wrong), ident)
            elif record["state"] == "cancelled" and not job.cancelled:
                self.fail("job %d is cancelled, and nobody asked" % ident, ident)
            elif not job.killed and not job.cancelled and \
                    not (job.may_lack_memory and "memory" in output):
                self.fail("job %d is %s (%s), and nothing was done to it: %r" %
                          (ident, record["state"], record["cause"], output), ident)

    def check_history(self):
        db = sqlite3.connect("file:%s/state/gpupres.db?mode=ro" % self.daemon.dir, uri=True)
        for ident, state in db.execute("SELECT id, state FROM jobs ORDER BY id").fetchall():
            last = 0
            for old, new in db.execute(
                    "SELECT old_state, new_state FROM events WHERE job=? ORDER BY rowid", (ident,)):
                if old != last:
                    self.fail("the history of job %d goes from %s to %s" %
                              (ident, STATES[last], STATES[old]), ident)
                last = new
            if last != state:
                self.fail("job %d is %s, its history ends with %s" %
                          (ident, STATES[state], STATES[last]), ident)
        db.close()

    def check_leaks(self):
        def expect(what, function, wanted):
            try:
                harness.wait_until(lambda: function() == wanted, what, 20)
            except harness.Failed:
                self.fail("%s: %s instead of %s" % (what, function(), wanted))
        expect("processes of jobs", lambda: machine.job_processes(self.run_dir()), {})
        for pid, ident in machine.job_processes(self.run_dir()).items():
            self.fail("process %d of job %d is left" % (pid, ident), ident)
        expect("supervisors", lambda: machine.supervisors(self.run_dir()), {})
        expect("free memory", lambda: {n: d["free_bytes"] for n, d in
                                       self.settled_devices().items()}, self.empty)
        expect("arenas and swap files in use",
               lambda: sum(d["arena_used_bytes"] + d["swap_used_bytes"]
                           for d in self.devices().values()), 0)
        # A client that had just gone may still have been among the first ones.
        expect("descriptors that were not there", lambda: dict(
            machine.descriptors(self.daemon.process.pid) - self.descriptors), {})
        expect("runtime folder", lambda: machine.files(self.run_dir()),
               self.runtime_files)
        expect("swap folder", lambda: machine.files(self.daemon.dir + "/swap"), [])
        expect("files in /dev/shm", self.shm_files, self.shm)
        expect("files of jobs", lambda: [f for f in machine.files(self.daemon.dir + "/state/jobs")
                                         if not re.fullmatch(r"\d+\.(log|status)", f)], [])

    def check_stopped(self):
        self.daemon.stop()
        if self.daemon.process.returncode:
            self.fail("the daemon's exit code is %d" % self.daemon.process.returncode)
        for name in ("gpupres-mover", "gpupres-run"):
            if machine.programs(self.run_dir(), name):
                self.fail("%s is left" % name)

    def story(self, ident):
        db = sqlite3.connect("file:%s/state/gpupres.db?mode=ro" % self.daemon.dir, uri=True)
        lines = ["  %s -> %s after %.3f s: %s" % (STATES[old], STATES[new], ns / 1e9, cause)
                 for old, new, ns, cause in db.execute(
                     "SELECT old_state, new_state, duration_ns, cause FROM events WHERE job=?"
                     " ORDER BY rowid", (ident,))]
        db.close()
        procs = set(re.findall(r"event=process job=%d proc=(\d+)" % ident, self.daemon.log()))
        about = re.compile(r"\bjob=%d\b|\bproc=(%s)\b" % (ident, "|".join(procs) or "none"))
        return "\n".join(lines + ["  | " + line for line in self.daemon.log().splitlines()
                                  if about.search(line)])

    def report(self):
        print("seed %d: %d jobs, %d devices, %d s; %s" % (
            self.args.seed, len(self.jobs), self.args.devices, self.args.seconds,
            ", ".join("%s %d" % c for c in sorted(self.done.items()))))
        for text, n in self.refused.most_common():
            print("  %4d times refused: %s" % (n, text))
        told = set()
        for text, ident in self.failures:
            print("FAIL (seed %d) %s" % (self.args.seed, text))
            if ident and ident not in told:
                told.add(ident)
                job = next((j for j in self.jobs.values() if j.id == ident), None)
                print("  command: %s" % (job and " ".join(job.argv)))
                print("  killed: %s, cancelled: %s" % (job and job.killed, job and job.cancelled))
                print(self.story(ident))
        if self.failures and self.args.keep:
            print("kept: %s" % self.daemon.dir)
        return 1 if self.failures else 0

    def run(self):
        self.daemon.ready()
        self.take_references()
        self.chaos()
        self.drain()
        self.check_jobs()
        self.check_leaks()
        self.check_stopped()
        self.check_history()
        return self.report()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=600, help="of chaos (600)")
    parser.add_argument("--jobs", type=int, default=0, help="how many (200 in 600 s)")
    parser.add_argument("--devices", type=int, default=4, help="how many (4)")
    parser.add_argument("--drain", type=int, default=300, help="seconds until all must have ended")
    parser.add_argument("--seed", type=int, default=0, help="0: by the clock")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a failed run")
    parser.add_argument("--kill", default=",".join(KILLS),
                        help="what is killed, of " + ",".join(KILLS) + " (all)")
    args = parser.parse_args()
    args.seed = args.seed or int(time.time())
    args.kill = [k for k in args.kill.split(",") if k]
    if set(args.kill) - set(KILLS):
        parser.error("--kill takes some of " + ",".join(KILLS))
    return args


def main():
    args = parse()
    print("seed %d" % args.seed, flush=True)
    chaos = Chaos(args)
    code = 1
    try:
        code = chaos.run()
    except BaseException:
        sys.stderr.write(chaos.daemon.log()[-8000:])
        raise
    finally:
        if args.keep and code:
            chaos.daemon.stop()
        else:
            chaos.daemon.close()
    sys.exit(code)


main()
