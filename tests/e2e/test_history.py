# SPDX-License-Identifier: Apache-2.0
"""The past: history, jobs that ended long ago, backups, retention."""
import os
import resource
import signal
import sqlite3
import subprocess
import threading
import time

import harness
from harness import Daemon, check, wait_until


def database(d):
    return sqlite3.connect(d.dir + "/state/gpupres.db")


def add_history(d, n):
    """Rows of jobs that ended just now, as the daemon writes them; it must not be running."""
    ended_ns = time.time_ns() - n
    with database(d) as db:
        db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)"
                   "INSERT INTO jobs (id, state, priority, uid, n_args, n_env, exit_code,"
                   " mem_bytes, submitted_ns, started_ns, ended_ns, n_preemptions, adopted, name,"
                   " cause, command) SELECT i, 10, 0, ?3, 1, 1, i % 3, 0, ?2 + i - 3, ?2 + i - 2,"
                   " ?2 + i, i % 2, 0, 'old' || i, 'exit code ' || (i % 3), '/bin/old ' || i"
                   " FROM n", (n, ended_ns, os.getuid()))
        db.execute("INSERT INTO events SELECT id, submitted_ns, 1, 0, 1, 'submitted', 'boot'"
                   " FROM jobs WHERE id <= ?", (n,))
        db.execute("INSERT INTO events SELECT id, started_ns, 1, 1, 2, 'fits', 'boot'"
                   " FROM jobs WHERE id <= ?", (n,))
        db.execute("INSERT INTO events SELECT id, ended_ns, 1, 3, 10, cause, 'boot'"
                   " FROM jobs WHERE id <= ?", (n,))
    db.close()


def restarted(d, **kw):
    d.stop()
    return Daemon(fresh_from=d, **kw)


def test_history_of_jobs_and_of_one():
    with Daemon() as d:
        good = d.submit("/bin/true", options=("--name", "good"))
        d.wait(good)
        bad = d.submit("/bin/sh", "-c", "exit 3", options=("--name", "bad"))
        d.wait(bad)
        live = d.submit("/bin/sleep", "1000")
        d.wait_state(live, "running")
        jobs = d.json("history")["jobs"]
        check([j["id"] for j in jobs] == [bad, good], "not the last first: %s" % jobs)
        check([j["state"] for j in jobs] == ["failed", "done"], str(jobs))
        check(jobs[0]["exit_code"] == 3 and jobs[0]["command"].endswith("sh -c exit 3"), str(jobs))
        check(len(d.json("history", "--limit", "1")["jobs"]) == 1, "--limit 1 gave another number")
        check(not d.json("history", "--since", "2100-01-01")["jobs"], "jobs of the future")
        check(len(d.json("history", "--since", "1h")["jobs"]) == 2, "not those of the last hour")
        events = d.json("history", "good")["events"]
        check([e["new_state"] for e in events] == ["queued", "starting", "running", "done"] or
              [e["new_state"] for e in events] == ["queued", "starting", "done"], str(events))
        check(events[0]["old_state"] is None and events[-1]["cause"] == "exit code 0", str(events))
        check(all(a["new_state"] == b["old_state"] for a, b in zip(events, events[1:])),
              "a gap between the states: %s" % events)
        last = d.json("history", str(live), "--limit", "1")["events"]
        check([e["new_state"] for e in last] == ["running"], "not the last one: %s" % last)
        text = d.ctl("history").stdout.splitlines()
        check(len(text) == 3 and text[1].split()[:2] == [str(bad), "failed"], str(text))
        r = d.ctl("history", "99", check_code=False)
        check(r.returncode == 1 and "no job 99" in r.stderr and r.stderr.count("\n") == 1, r.stderr)
        d.ctl("cancel", str(live))


def test_history_of_a_preemption_has_causes_and_durations():
    with Daemon() as d:
        job = d.program("fill", "--mb", "16", "--rounds", "100000")
        d.wait_memory(job)
        d.ctl("preempt", "--to", "frozen", str(job))
        d.ctl("resume", str(job))
        d.ctl("cancel", str(job))
        events = d.json("history", str(job))["events"]
        states = [e["new_state"] for e in events]
        for state in ("freezing", "frozen", "thawing", "running", "cancelled"):
            check(state in states, "%s is not in %s" % (state, states))
        frozen = events[states.index("frozen")]
        check(frozen["old_state"] == "freezing" and 0 < frozen["duration_ns"] < 10 ** 10 and
              frozen["cause"] == "preempted by hand" and frozen["boot_id"], str(frozen))


def test_a_hundred_thousand_jobs_of_the_past():
    n = 100000
    with Daemon() as d:
        first = d.job(d.submit("/bin/true"))["id"]
        check(first == 1, "the first job is %d" % first)
        d.wait(1)
        d.stop()
        with database(d) as db:
            db.execute("DELETE FROM jobs")
        db.close()
        add_history(d, n)
        begin = time.monotonic()
        d = Daemon(fresh_from=d)
        try:
            d.ready()
            print("     start with %d jobs of the past: %.2f s" % (n, time.monotonic() - begin))
            jobs = d.jobs()
            check(len(jobs) == 1000 and jobs[-1]["id"] == n and jobs[0]["id"] == n - 999,
                  "%d jobs in memory" % len(jobs))
            old = d.job(17)
            check(old["state"] == "done" and old["name"] == "old17" and old["exit_code"] == 2,
                  str(old))
            check(d.wait(17) == 2, "wait for an old job")
            check(d.logs(17) == "", "the log of an old job that has none")
            check(d.ctl("logs", "-f", "17").stdout == "", "the same, followed")
            check(d.json("cancel", "17")["state"] == "done", "cancel of an old job")
            r = d.ctl("preempt", "17", check_code=False)
            check(r.returncode == 1 and "has ended (done)" in r.stderr, r.stderr)
            check(len(d.json("history", "17")["events"]) == 3, "its events")
            done = threading.Event()
            worst = [0.0]

            def work():
                while not done.is_set():
                    begin = time.monotonic()
                    d.ctl("devices")
                    worst[0] = max(worst[0], time.monotonic() - begin)

            thread = threading.Thread(target=work)
            thread.start()
            begin = time.monotonic()
            lines = d.ctl("history", "--limit", "0").stdout
            took = time.monotonic() - begin
            done.set()
            thread.join()
            ids = [int(line.split()[0]) for line in lines.splitlines()[1:]]
            print("     history of all: %.2f s; others waited at most %.3f s" % (took, worst[0]))
            check(ids == list(range(n, 0, -1)), "%d rows instead of %d" % (len(ids), n))
            reader = subprocess.Popen([harness.CTL, "history", "--limit", "0"], env=d.env,
                                      stdout=subprocess.PIPE)
            reader.stdout.readline()
            d.ctl("devices")  # while a client does not read on
            reader.stdout.close()
            reader.wait()
            new = d.submit("/bin/true")
            check(new == n + 1, "the next job is %d" % new)
            d.wait(new)
            wait_until(lambda: len(d.jobs()) == 1000, "a thousand ended jobs in memory")
        finally:
            d.close()


def test_backup_under_load():
    with Daemon() as d:
        stop = threading.Event()
        ids = []

        def load():
            while not stop.is_set():
                ids.append(d.submit("/bin/true"))

        add = threading.Thread(target=load)
        add.start()
        try:
            wait_until(lambda: len(ids) > 20, "some jobs")
            path = d.dir + "/copy.db"
            before = ids[-1]
            size = d.json("backup", path)["size_bytes"]
        finally:
            stop.set()
            add.join()
        check(size == os.path.getsize(path), "%d bytes instead of %d" %
              (os.path.getsize(path), size))
        check(os.listdir(d.dir + "/state").count("backup.tmp") == 0, "left over: backup.tmp")
        os.chmod(path, 0o400)
        db = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
        check(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "not intact")
        check(db.execute("SELECT count(*) FROM jobs").fetchone()[0] >= before, "jobs are missing")
        db.close()
        for i in ids:
            d.wait(i)
        r = d.ctl("backup", path, check_code=False)
        check(r.returncode == 1 and "exists" in r.stderr and r.stderr.count("\n") == 1, r.stderr)
        r = d.ctl("backup", d.dir + "/none/copy.db", check_code=False)
        check(r.returncode == 1 and "none/copy.db" in r.stderr, r.stderr)


def test_backup_that_does_not_fit():
    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    with Daemon() as d:
        path = d.dir + "/copy.db"
        r = subprocess.run([harness.CTL, "backup", path], env=d.env, capture_output=True, text=True,
                           preexec_fn=small_files, timeout=60, check=False)
        check(r.returncode == 1 and "cannot write " + path in r.stderr and
              r.stderr.count("\n") == 1, r.stderr)
        check(not os.path.exists(path), "a part of the copy was left")
        d.ctl("backup", path)


def test_restart_from_a_backup():
    with Daemon() as d:
        job = d.submit("/bin/sh", "-c", "exit 4")
        d.wait(job)
        path = d.dir + "/copy.db"
        d.ctl("backup", path)
        d.stop()
        for name in os.listdir(d.dir + "/state"):
            if name.startswith("gpupres.db"):
                os.unlink(os.path.join(d.dir, "state", name))
        os.rename(path, d.dir + "/state/gpupres.db")
        with Daemon(fresh_from=d) as again:
            check(again.job(job)["exit_code"] == 4, "the job is not there")
            check(again.submit("/bin/true") == job + 1, "an id was given twice")


def test_commands_that_memory_does_not_hold():
    n, mib = 12, 1 << 20
    with Daemon() as d:
        holder = d.submit("/bin/sleep", "1000", options=("--priority", "9", "--mem", "900M"))
        d.wait_state(holder, "running")
        # Together more than the daemon holds; a single variable may have 128 KiB.
        env = ["--env=V%d=%s" % (i, chr(97 + i) * 120000) for i in range(7)]
        ids = [d.submit("/bin/sh", "-c", "echo %d $(expr length $V6)" % i,
                        options=("--mem", "900M", *env)) for i in range(n)]
        rss = int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(d.process.pid)])) * 1024
        print("     %d commands of 0.8 MiB queued: RSS %.1f MiB" % (n, rss / mib))
        check(all(d.job(i)["state"] == "queued" for i in ids), "they do not wait")
        d.ctl("cancel", str(ids[-1]))
        d.json("history")  # answered when what happened before is written
        d.stop(signal.SIGKILL)
        with Daemon(fresh_from=d) as again:
            again.ctl("cancel", str(holder))
            for i, job in enumerate(ids[:-1]):
                check(again.wait(job) == 0, "job %d: %s" % (job, again.job(job)["cause"]))
                check(again.logs(job) == "%d 120000\n" % i, "job %d wrote %s" %
                      (job, again.logs(job)))
            check(again.job(ids[-1])["state"] == "cancelled", "the cancelled one")
            again.ctl("backup", again.dir + "/copy.db")
            with sqlite3.connect(again.dir + "/copy.db") as db:
                check(not db.execute("SELECT job FROM commands").fetchall(),
                      "environments of jobs that ended are kept")
            db.close()


def test_disk_that_is_full_for_a_while():
    with Daemon() as d:
        first = d.submit("/bin/true")
        d.wait(first)
        hard = resource.prlimit(d.process.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(d.process.pid, resource.RLIMIT_FSIZE, (4096, hard))
        ids = [d.submit("/bin/sh", "-c", "exit %d" % (i % 3)) for i in range(20)]
        for i, job in enumerate(ids):
            check(d.wait(job) == i % 3, "job %d while the disk is full" % job)
        live = d.submit("/bin/sleep", "1000")
        d.wait_state(live, "running")
        r = d.ctl("backup", d.dir + "/copy.db", check_code=False)
        check(r.returncode == 1 and r.stderr.count("\n") == 1 and "backup.tmp" in r.stderr, r.stderr)
        check(not os.path.exists(d.dir + "/copy.db"), "an empty copy was left")
        check(d.log().count("history is being lost") == 1, "not said once:\n" + d.log())
        resource.prlimit(d.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        wait_until(lambda: "written_again_after_s" in d.log(), "the database is written again")
        d.stop(signal.SIGKILL)
        with Daemon(fresh_from=d) as again:
            for i, job in enumerate(ids):
                check(again.job(job)["exit_code"] == i % 3, str(again.job(job)))
                check(len(again.json("history", str(job))["events"]) >= 3, "its history")
            again.wait_state(live, "running")


if __name__ == "__main__":
    harness.main()
