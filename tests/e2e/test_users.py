#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One daemon, several users: who sees, controls and becomes what."""

import os
import resource
import signal
import socket
import struct
import time

import harness
import system
from harness import check, wait_until
from system import ADMIN, ALICE, BOB, DAEMON_UID, GROUP, OUTSIDER, System

# base/wire/messages.h
HELLO, WELCOME, ERROR, LIST, VERSION = 1, 2, 4, 13, 1


def refused(r, text):
    check(r.returncode != 0, "it should be refused: " + r.stdout)
    check(text in r.stderr and r.stderr.count("\n") == 1, "not one line with %r: %r" %
          (text, r.stderr))


def test_jobs_run_as_their_users():
    with System() as s:
        for uid in (ALICE, BOB):
            s.as_user(uid)
            ident = s.submit("sh", "-c", "id -u; id -g; id -G; pwd; umask; ulimit -n; "
                             "echo loud >> /dev/stderr; ls -l /proc/self/fd | wc -l")
            check(s.wait(ident) == 0, s.logs(ident))
            lines = s.logs(ident).split("\n")
            check(lines[:4] == [str(uid)] * 3 + ["/"], "it ran as " + repr(lines))
            check(lines[6] == "loud", "no /dev/stderr: " + repr(lines))
            # 0, 1, 2, the folder itself, and "total": nothing of the supervisor's.
            check(lines[7] == "5", "inherited files: " + repr(lines))
            program = s.program("vecadd")
            check(s.wait(program) == 0, s.logs(program))


def test_limits_and_umask_are_the_submitters():
    with System() as s:
        ident = int(s.command(
            ["sh", "-c", "umask 027; ulimit -Sn 77; ulimit -Hn 99; ulimit -c 0; exec %s submit -- "
             "sh -c 'umask; ulimit -Sn; ulimit -Hn; ulimit -c'" % harness.CTL]).stdout)
        check(s.wait(ident) == 0, s.logs(ident))
        check(s.logs(ident).split() == ["0027", "77", "99", "0"], s.logs(ident))


def test_others_jobs_do_not_exist():
    with System() as s:
        alices = s.as_user(ALICE).submit("sh", "-c", "echo secret; exec sleep 1000")
        s.wait_state(alices, "running")
        bobs = s.as_user(BOB).submit("sleep", "1000")
        s.wait_state(bobs, "running")
        check([j["id"] for j in s.jobs()] == [bobs], "Bob sees " + repr(s.jobs()))
        for request in ("show", "logs", "wait", "preempt", "resume", "cancel"):
            refused(s.ctl(request, str(alices), check_code=False), "no job %d: " % alices)
        refused(s.ctl("list", "--all", check_code=False), "only admins")
        refused(s.ctl("submit", "--priority", "1", "--", "true", check_code=False), "for admins")
        s.as_user(ALICE)
        check(s.job(alices)["state"] == "running", "it was not left alone")
        for path in ("jobs/%d.log" % alices, "jobs/%d.status" % alices, "gpupres.db"):
            r = s.command(["cat", "%s/state/%s" % (s.dir, path)], uid=BOB)
            check("denied" in r.stderr, "%s: %s" % (path, r.stdout))
        for uid in (ADMIN, 0):
            s.as_user(uid)
            jobs = {j["id"]: j["uid"] for j in s.json("list", "--all")["jobs"]}
            check(jobs == {alices: ALICE, bobs: BOB}, "an admin sees " + repr(jobs))
            check(s.jobs() == [], "an admin's own: " + repr(s.jobs()))
        check("secret" in s.logs(alices), "an admin reads logs")
        s.as_user(ADMIN).ctl("cancel", str(alices))
        s.wait_state(alices, "cancelled")
        check(s.wait(s.submit("true", options=("--priority", "5"))) == 0, "priority 5")


def test_who_is_not_in_the_group_cannot_submit():
    with System() as s:
        s.as_user(OUTSIDER)
        r = s.ctl("list", groups=(), check_code=False)
        refused(r, "you may not use")


def test_preempt_of_programs_of_two_users():
    with System() as s:
        idents = {}
        for uid in (ALICE, BOB):
            s.as_user(uid)
            idents[uid] = s.program("fill", "--mb", "64", "--rounds", "150")
            s.wait_memory(idents[uid])
        for uid, ident in idents.items():
            s.as_user(uid).ctl("preempt", str(ident))
        for uid, ident in idents.items():
            s.as_user(uid).ctl("resume", str(ident))
            check(s.wait(ident) == 0, s.logs(ident))


def shim_env(s):
    lib = harness.BUILD + "/lib/gpupres/"
    return dict(s.env, GPUPRES_SOCKET=s.dir + "/run/shim.sock",
                GPUPRES_DRIVER=lib + "soft/libcuda.so.1",
                LD_LIBRARY_PATH="%sshim:%ssoft-runtime" % (lib, lib))


def test_adopted_programs_are_their_users():
    """Who may not submit may still run programs with the shim, and they are preemptible."""
    with System() as s:
        s.uid = OUTSIDER
        env = shim_env(s)
        env.pop("GPUPRES_JOB", None)
        p = harness.subprocess.Popen(
            [harness.PROGRAMS + "/fill", "--mb", "64", "--rounds", "1000000"], env=env, cwd="/", user=OUTSIDER,
            group=OUTSIDER, extra_groups=[], stdout=harness.subprocess.DEVNULL)
        try:
            s.as_user(ADMIN)
            job = wait_until(lambda: (s.json("list", "--all")["jobs"] or [None])[0], "its job")
            check(job["uid"] == OUTSIDER and job["pid"] == p.pid, repr(job))
            s.as_user(BOB)
            refused(s.ctl("cancel", str(job["id"]), check_code=False), "no job")
            s.as_user(ADMIN).ctl("cancel", str(job["id"]))
            check(p.wait(60) in (-signal.SIGTERM, -signal.SIGKILL), "it ended by itself")
            s.wait_state(job["id"], "cancelled")
        finally:
            if p.poll() is None:
                p.kill()
                p.wait()


def test_children_that_use_cuda_speak_for_themselves():
    with System() as s:
        program = harness.PROGRAMS + "/vecadd"
        ident = s.submit("sh", "-c", "%s & %s; wait" % (program, program))
        check(s.wait(ident) == 0, s.logs(ident))
        pids = [line.split(" pid=")[1].split()[0] for line in s.log().split("\n")
                if "event=process job=%d " % ident in line]
        check(len(set(pids)) == 2 and str(s.job(ident)["pid"]) not in pids,
              "processes %s of a job of pid %d" % (pids, s.job(ident)["pid"]))


def test_supervisor_outlives_daemon_and_spawn():
    with System() as s:
        ident = s.submit("sh", "-c", "echo begin; sleep 3; echo end; exit 7")
        s.wait_state(ident, "running")
        s.stop(signal.SIGKILL)
        s.stop_spawn()
        s.start_spawn()
        s.start_daemon()
        s.ready()
        check(s.wait(ident) == 7, "exit code")
        check(s.logs(ident) == "begin\nend\n", s.logs(ident))


def test_job_that_ended_without_daemon():
    with System() as s:
        ident = s.submit("sh", "-c", "sleep 1; exit 9")
        s.wait_state(ident, "running")
        s.stop(signal.SIGKILL)
        wait_until(lambda: os.stat("%s/state/jobs/%d.status" % (s.dir, ident)).st_size, "status")
        s.start_daemon()
        s.ready()
        check(s.wait(ident) == 9, "exit code")


def test_queued_jobs_keep_their_user_and_limits_over_a_restart():
    with System() as s:
        s.stop_spawn()
        ident = int(s.command(
            ["sh", "-c", "umask 007; exec %s submit -- sh -c 'id -u; umask'" % harness.CTL]).stdout)
        job = wait_until(lambda: "gpupres-spawn" in s.job(ident)["cause"] and s.job(ident),
                         "a cause")
        check(job["state"] == "queued", repr(job))
        s.stop(signal.SIGKILL)
        s.start_spawn()
        s.start_daemon()
        s.ready()
        check(s.wait(ident) == 0, s.logs(ident))
        check(s.logs(ident).split() == [str(ALICE), "0007"], s.logs(ident))


def test_queued_commands_that_are_not_held_in_memory():
    with System() as s:
        s.stop_spawn()
        env = [w for i in range(8) for w in ("--env", "BIG%d=%s" % (i, 100000 * "x"))]
        idents = [s.submit("sh", "-c", "umask; echo ${#BIG7}", options=env) for _ in range(12)]
        s.start_spawn()
        for ident in idents:
            check(s.wait(ident) == 0, s.job(ident)["cause"])
            check(s.logs(ident).split() == ["0022", "100000"], s.logs(ident))


def test_root_and_system_users_are_refused_unless_allowed():
    with System(spawn_args=("--min-uid", "20000")) as s:
        for uid in (0, ALICE):
            s.as_user(uid)
            ident = s.submit("true")
            s.wait_state(ident, "failed")
            check("refused" in s.job(ident)["cause"], s.job(ident)["cause"])
    with System(spawn_args=("--allow-root",)) as s:
        ident = s.as_user(0).submit("id", "-u")
        check(s.wait(ident) == 0 and s.logs(ident) == "0\n", s.logs(ident))


def test_supervisor_killed_and_its_job_with_it():
    with System() as s:
        if "no_cgroups" in s.log():
            return
        ident = s.submit("sh", "-c", "sleep 1000 & sleep 1000")
        s.wait_state(ident, "running")
        pid = s.job(ident)["pid"]
        with open("/proc/%d/stat" % pid) as f:
            supervisor = int(f.read().rsplit(")", 1)[1].split()[1])
        with open("/proc/%d/cgroup" % pid) as f:
            check("/job-%d\n" % ident in f.read(), "not in a cgroup of its own")
        os.kill(supervisor, signal.SIGKILL)
        s.wait_state(ident, "failed")
        wait_until(lambda: not os.path.exists("/proc/%d" % pid), "the end of its processes")


def test_cgroups_of_ended_jobs_are_removed():
    with System() as s:
        if "no_cgroups" in s.log():
            return
        with open("/proc/self/mountinfo") as f:
            mount = [line.split()[4] for line in f if " - cgroup2 " in line][0]
        with open("/proc/%d/cgroup" % s.spawn.pid) as f:
            own = [line.strip()[3:] for line in f if line.startswith("0::")][0]
        ident = s.submit("true")
        check(s.wait(ident) == 0, "true")
        path = "%s%s/job-%d" % (mount, own, ident)
        wait_until(lambda: not os.path.exists(path), "the removal of " + path)


def as_process_of(uid, function):
    """Runs a function in a process of that user, which has ended when this returns."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([GROUP])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            function()
            os._exit(0)
        except BaseException as e:  # pylint: disable=broad-exception-caught
            print(e, flush=True)
            os._exit(1)
    check(os.waitpid(pid, 0)[1] == 0, "in a process of uid %d" % uid)


def hello(s, sock_name="control.sock", role=1, job=0):
    """A connection that has said hello."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect("%s/run/%s" % (s.dir, sock_name))
    sock.send(struct.pack("=IIQQII IIII32s", HELLO, 80, job, 0, 0, 0, VERSION, VERSION, role, 0,
                          b"test"))
    return sock


def answer(sock):
    """The type of the next message and, of an error, its text; (0, "") at the end."""
    data = sock.recv(65536)
    kind = struct.unpack_from("=I", data)[0] if data else 0
    return kind, data[40:].split(b"\0")[0].decode() if kind == ERROR else ""


def test_limits_are_each_users_own():
    with System(config="[limits]\nmax_jobs = 2\nmax_command_bytes = 100K\n"
                "max_connections = 8\n") as s:
        s.as_user(ALICE)
        for _ in range(2):
            s.wait_state(s.submit("sleep", "1000"), "running")
        refused(s.ctl("submit", "--", "true", check_code=False), "(max_jobs)")
        ident = s.as_user(BOB).submit("true")
        check(s.wait(ident) == 0, "Bob's job")
        refused(s.ctl("submit", "--env", "A=" + 110000 * "x", "--", "true", check_code=False),
                "(max_command_bytes)")

        def connect_too_often():
            many = [hello(s) for _ in range(8)]
            check(all(answer(sock)[0] == WELCOME for sock in many), "8 connections")
            r = harness.subprocess.run([harness.CTL, "list"], env=s.env, capture_output=True,
                                       text=True, check=False)
            refused(r, "(max_connections)")
            s.as_user(ALICE)
        as_process_of(BOB, connect_too_often)
        s.as_user(BOB)
        wait_until(lambda: s.ctl("list", check_code=False).returncode == 0, "room again")


def hostile(s, ident):
    for role, job, text in ((1, 0, "not served"), (4, 0, "not served"), (9, 0, "not served"),
                            (2, ident, "no job"), (3, ident, "no job"), (3, 0, "no job")):
        kind, said = answer(hello(s, "shim.sock", role, job))
        check(kind == ERROR and text in said, "role %d, job %d: %s" % (role, job, said))
    # A shim, but what a client asks for ends the connection.
    sock = hello(s, "shim.sock", 2, 0)
    check(answer(sock)[0] == WELCOME, "a program that nobody submitted")
    sock.send(struct.pack("=IIQQII Q", LIST, 40, 0, 0, 1, 0, 1))
    check(answer(sock) == (0, ""), "LIST on shim.sock was answered")
    # Who says nothing is dropped.
    silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    silent.settimeout(30)
    silent.connect(s.dir + "/run/shim.sock")
    check(silent.recv(100) == b"", "a silent peer is kept")


def test_hostile_peer_on_the_socket_for_jobs():
    with System() as s:
        ident = s.as_user(ALICE).submit("sleep", "1000")
        s.wait_state(ident, "running")
        as_process_of(OUTSIDER, lambda: hostile(s, ident))
        # Nor can its own user take the place of the supervisor that is there.
        as_process_of(ALICE, lambda: check(
            answer(hello(s, "shim.sock", 3, ident))[0] == ERROR, "a second supervisor"))
        check(s.job(ident)["state"] == "running", "the job")


def test_twenty_thousand_connections():
    """Or as many as this process may have files open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = min(20000, limit[1] - 200)
    socks = []
    with System(config="[limits]\nmax_connections = 20000\n") as s:
        # The daemon was started with the lower limit, and raised that itself.
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
        try:
            begin = time.monotonic()
            for i in range(n):
                socks.append(hello(s))
                check(answer(socks[-1])[0] == WELCOME, "connection %d" % i)
            took = time.monotonic() - begin
            begin = time.monotonic()
            check(s.as_user(ALICE).wait(s.submit("true")) == 0, "a job beside them")
            print("     %d connections in %.1f s, then a job in %.2f s" %
                  (n, took, time.monotonic() - begin))
        finally:
            for sock in socks:
                sock.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def test_daemon_does_not_run_as_root():
    r = harness.subprocess.run([harness.DAEMON, "--device", "soft"], capture_output=True, text=True,
                               check=False)
    refused(r, "does not run as root")
    check(DAEMON_UID != 0, "")


if __name__ == "__main__":
    system.skip_unless_root()
    harness.main()
