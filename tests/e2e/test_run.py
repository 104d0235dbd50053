#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpupres-run against a daemon played by this test, and without one."""

import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import fake_daemon

PROGRAM = pathlib.Path(os.environ.get("GP_BUILD", "build/dev")) / "libexec/gpupres/gpupres-run"
ROLE_SUPERVISOR = 3
JOB = 42


def wait_for(condition, what):
    """Polls @condition for conditions that offer nothing to wait on (files of other processes)."""
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within 20 s: {what}")
        select.select([], [], [], 0.01)


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class RunTest(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory(prefix="gpupres-test-")
        self.dir = pathlib.Path(self.tmp.name)
        self.log, self.status = self.dir / "log", self.dir / "status"
        self.daemon = None
        self.run = None

    def tearDown(self):
        if self.run and self.run.poll() is None:
            self.run.terminate()
            self.run.wait(20)
        if self.daemon:
            self.daemon.close()
        self.tmp.cleanup()

    def listen(self):
        self.daemon = fake_daemon.FakeDaemon(self.dir / "control.sock")

    def start(self, *command, extra=(), chdir=None):
        self.run = subprocess.Popen(
            [PROGRAM, "--job", str(JOB), "--socket", self.dir / "control.sock", "--log", self.log,
             "--status", self.status, "--chdir", chdir or self.dir, *extra, "--", *command],
            stdin=subprocess.DEVNULL)

    def started(self, *command, **options):
        """Starts @command under a listening daemon; returns (peer, pid)."""
        self.listen()
        self.start(*command, **options)
        peer, hello = self.daemon.accept()
        self.assertEqual(hello.job, JOB)
        self.assertEqual(hello.fields[2], ROLE_SUPERVISOR)
        message = peer.recv("STARTED")
        self.assertEqual(message.job, JOB)
        return peer, message.fields[0]

    def exited(self, peer, code, exec_errno=0):
        message = peer.recv("EXITED")
        self.assertEqual(message.job, JOB)
        self.assertEqual(message.fields, (code, exec_errno))
        self.assertIsNone(peer.recv())
        self.assertEqual(self.run.wait(20), 0)
        self.assertEqual(self.status.read_text(), f"{code}\n")

    def pid_in(self, name):
        path = self.dir / name
        wait_for(lambda: path.exists() and path.read_text().endswith("\n"), f"{path} is written")
        return int(path.read_text())

    def test_exit_code_when_command_ends_is_reported_and_stored(self):
        peer, _ = self.started("/bin/sh", "-c", "echo out; echo err >&2; pwd; exit 7")
        self.exited(peer, 7)
        self.assertEqual(self.log.read_text(), f"out\nerr\n{self.dir.resolve()}\n")
        self.assertEqual(self.log.stat().st_mode & 0o777, 0o600)

    def test_exit_code_when_command_is_signalled_is_128_more(self):
        peer, pid = self.started("/bin/sleep", "1000")
        os.kill(pid, signal.SIGUSR1)
        self.exited(peer, 128 + signal.SIGUSR1)

    def test_exec_failure_is_reported_with_errno(self):
        for command, code, exec_errno in (("/nonexistent/x", 127, 2), ("/etc/passwd", 126, 13)):
            self.listen()
            self.start(command)
            peer, _ = self.daemon.accept()
            self.exited(peer, code, exec_errno)
            self.daemon.close()

    def test_chdir_failure_is_reported_with_errno(self):
        self.listen()
        self.start("/bin/true", chdir="/nonexistent")
        peer, _ = self.daemon.accept()
        self.exited(peer, 127, 2)

    def test_job_has_own_session_and_no_stdin(self):
        peer, _ = self.started("/bin/sh", "-c", "cat; ps -o sid= -p $$; echo $$; ls /proc/$$/fd")
        self.exited(peer, 0)
        sid, pid, *fds = self.log.read_text().split()
        self.assertEqual(sid, pid)
        self.assertEqual(fds, ["0", "1", "2"])

    def test_tree_when_command_ends_is_killed(self):
        peer, _ = self.started("/bin/sh", "-c", "setsid sh -c 'trap \"\" TERM; echo $$ > pid; "
                               "exec sleep 1000' & while ! [ -s pid ]; do :; done")
        self.exited(peer, 0)
        self.assertFalse(alive(self.pid_in("pid")))

    def test_tree_within_grace_is_left_alone(self):
        peer, _ = self.started("/bin/sh", "-c", "(mkfifo f; read x < f; echo late) & exit 3",
                               extra=("--grace", "600"))
        wait_for(lambda: (self.dir / "f").exists(), "fifo is there")
        with open(self.dir / "f", "w", encoding="ascii") as fifo:
            fifo.write("go\n")
        self.exited(peer, 3)
        self.assertEqual(self.log.read_text(), "late\n")

    def test_tree_after_grace_is_killed(self):
        peer, _ = self.started("/bin/sh", "-c", "sleep 1000 & echo $! > pid; exit 3",
                               extra=("--grace", "1"))
        self.exited(peer, 3)
        self.assertFalse(alive(self.pid_in("pid")))

    def test_signal_reaches_orphans_in_other_sessions(self):
        script = ("trap 'while ! [ -e gone ]; do sleep 0.01; done; echo parent; exit 5' USR1; "
                  "(setsid sh -c 'trap \"echo orphan; echo > gone; exit\" USR1; echo $$ > pid; "
                  "while :; do sleep 0.01; done' &); while :; do sleep 0.01; done")
        peer, _ = self.started("/bin/sh", "-c", script)
        self.pid_in("pid")
        peer.send("SIGNAL", signal.SIGUSR1, 0, job=JOB)
        self.exited(peer, 5)
        # Shells also say in the log that the signal ended their sleep.
        lines = self.log.read_text().splitlines()
        self.assertEqual((lines.count("orphan"), lines.count("parent")), (1, 1))

    def test_kill_ends_a_tree_that_forks(self):
        # Each process starts another one and ends: the tree changes all the time.
        script = "echo $$ > pid; f() { sleep 0.002; f & }; f & f & f & sleep 1000"
        peer, _ = self.started("/bin/sh", "-c", script)
        pid = self.pid_in("pid")
        peer.send("SIGNAL", signal.SIGKILL, 0, job=JOB)
        self.exited(peer, 128 + signal.SIGKILL)
        self.assertFalse(alive(pid))

    def test_stopped_process_when_killed_ends(self):
        peer, _ = self.started("/bin/sh", "-c", "sleep 1000 & echo $! > pid; kill -STOP $$")
        self.pid_in("pid")
        peer.send("SIGNAL", signal.SIGKILL, 0, job=JOB)
        self.exited(peer, 128 + signal.SIGKILL)

    def test_supervisor_when_terminated_kills_the_tree(self):
        peer, pid = self.started("/bin/sh", "-c", "trap '' TERM; echo $$ > pid; sleep 1000")
        self.pid_in("pid")
        self.run.terminate()
        self.exited(peer, 128 + signal.SIGKILL)
        self.assertFalse(alive(pid))

    def test_no_daemon_when_started_runs_all_the_same(self):
        self.start("/bin/sh", "-c", "echo ran; exit 4")
        self.assertEqual(self.run.wait(20), 0)
        self.assertEqual(self.status.read_text(), "4\n")
        self.assertEqual(self.log.read_text(), "ran\n")

    def test_silent_daemon_does_not_hold_the_job_up(self):
        self.listen()
        self.start("/bin/sh", "-c", "exit 6")
        peer, _ = self.daemon.accept(welcome=False)
        self.exited(peer, 6)

    def test_late_daemon_is_told_of_the_start(self):
        self.start("/bin/sh", "-c", "echo $$ > pid; while ! [ -e go ]; do sleep 0.01; done")
        pid = self.pid_in("pid")
        self.listen()
        peer, _ = self.daemon.accept()
        self.assertEqual(peer.recv("STARTED").fields[0], pid)
        (self.dir / "go").touch()
        self.exited(peer, 0)

    def test_restarted_daemon_is_told_of_the_start_again(self):
        peer, pid = self.started("/bin/sleep", "1000")
        peer.close()
        self.daemon.close()
        self.listen()
        peer, hello = self.daemon.accept()
        self.assertEqual(hello.job, JOB)
        self.assertEqual(peer.recv("STARTED").fields[0], pid)
        peer.send("SIGNAL", signal.SIGTERM, 0, job=JOB)
        self.exited(peer, 128 + signal.SIGTERM)

    def test_garbage_from_the_daemon_does_not_hurt_the_job(self):
        peer, pid = self.started("/bin/sleep", "1000")
        peer.sock.send(b"\xff" * 100)
        peer, _ = self.daemon.accept()
        self.assertEqual(peer.recv("STARTED").fields[0], pid)
        peer.send("SIGNAL", 12345, 0, job=JOB)
        peer.send("SIGNAL", signal.SIGTERM, 0, job=JOB)
        self.exited(peer, 128 + signal.SIGTERM)

    def test_bad_usage_is_one_line_and_status_2(self):
        for args in ([], ["--job", "x"], ["--bogus"], ["--job", "1", "--", "true"],
                     ["--grace", "-1"], ["--job", "0"]):
            done = subprocess.run([PROGRAM, *args], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, args)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"\Agpupres-run: [^\n]+\n\Z")


if __name__ == "__main__":
    if not PROGRAM.exists():
        sys.exit(f"{PROGRAM} is not built")
    unittest.main()
