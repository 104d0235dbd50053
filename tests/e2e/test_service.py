# SPDX-License-Identifier: Apache-2.0
"""The daemon as a service manager starts it: sockets passed, readiness, status, watchdog."""
import os
import re
import signal
import socket
import sys
import tempfile

import harness
from harness import Daemon, check

# Puts the sockets where they are expected, and tells the process that it is meant: the pid stays.
PASS = """import fcntl, os, sys
fds = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[1].split(",")]
for i, fd in enumerate(fds):
    os.dup2(fd, 3 + i)
os.environ["LISTEN_PID"] = os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])"""


class Manager:
    """What the service manager has: the notification socket and the listening sockets."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="gp-e2e-")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(self.dir + "/notify")
        self.notify.settimeout(30)
        os.mkdir(self.dir + "/run", 0o700)
        self.sockets = [self.listen(name) for name in ("shim.sock", "control.sock")]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.notify.close()
        for s in self.sockets:
            s.close()

    def listen(self, name):
        path = "%s/run/%s" % (self.dir, name)
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.bind(path)
        os.chmod(path, 0o660)
        s.listen(16)
        return s

    def start(self, **env):
        fds = [s.fileno() for s in self.sockets]
        return Daemon(fresh_from=self, pass_fds=fds,
                      prefix=(sys.executable, "-c", PASS, ",".join(map(str, fds))),
                      env={"NOTIFY_SOCKET": self.dir + "/notify", "LISTEN_FDS": "2",
                           "LISTEN_FDNAMES": "shim:control", **env})

    def told(self, pattern):
        """Reads what the daemon tells until one line of it matches."""
        while True:
            for line in self.notify.recv(4096).decode().splitlines():
                if re.fullmatch(pattern, line):
                    return line


def test_sockets_when_passed_then_served_and_left_behind():
    with Manager() as manager, manager.start() as d:
        manager.told("READY=1")
        path = d.dir + "/run/control.sock"
        before = os.stat(path)
        check(before.st_mode & 0o777 == 0o660, "mode of %s: %o" % (path, before.st_mode))
        check(d.jobs() == [], "jobs at the start")
        job = d.submit("true")
        check(d.wait(job) == 0, "the job's exit code")
        d.stop()
        manager.told("STOPPING=1")
        check(os.stat(path).st_ino == before.st_ino, "%s was made anew" % path)
        # Who comes while nobody serves waits in the queue for the next daemon.
        with manager.start() as again:
            manager.told("READY=1")
            check(len(again.jobs()) == 1, "jobs after the restart")


def test_children_when_started_then_are_not_the_service():
    with Manager() as manager, manager.start(WATCHDOG_USEC="60000000") as d:
        children = [pid for pid in os.listdir("/proc") if pid.isdigit() and
                    is_child(pid, d.process.pid)]
        check(children, "gpupres-mover is no child of the daemon")
        with open("/proc/%s/environ" % children[0]) as f:
            seen = "\0" + f.read()
        for name in ("NOTIFY_SOCKET", "LISTEN_", "WATCHDOG_"):
            check("\0" + name not in seen, "%s in a child's environment" % name)


def is_child(pid, parent):
    try:
        with open("/proc/%s/stat" % pid) as f:
            return int(f.read().rpartition(")")[2].split()[1]) == parent
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_status_when_jobs_come_and_go_then_told():
    with Manager() as manager, manager.start() as d:
        manager.told("STATUS=0 jobs, 0 running, 0 swapped")
        job = d.submit("sleep", "1000")
        manager.told("STATUS=1 jobs, 1 running, 0 swapped")
        d.ctl("cancel", str(job))
        manager.told("STATUS=0 jobs, 0 running, 0 swapped")


def test_reload_when_hung_up_then_told_from_begin_to_end():
    with Manager() as manager, manager.start() as d:
        manager.told("READY=1")
        d.process.send_signal(signal.SIGHUP)
        manager.told("RELOADING=1")
        manager.told("READY=1")
        check(d.jobs() == [], "jobs after the reload")


def test_watchdog_when_loop_stands_then_no_ping():
    with Manager() as manager, manager.start(WATCHDOG_USEC="400000") as d:
        manager.told("WATCHDOG=1")
        manager.told("WATCHDOG=1")
        d.process.send_signal(signal.SIGSTOP)
        try:
            os.waitid(os.P_PID, d.process.pid, os.WSTOPPED)
            manager.notify.settimeout(0)
            try:
                while manager.notify.recv(4096):
                    pass
            except BlockingIOError:
                pass
            # Twice the time within which the manager would have acted.
            manager.notify.settimeout(0.8)
            try:
                check(False, "told by a stopped daemon: %s" % manager.notify.recv(4096))
            except TimeoutError:
                pass
        finally:
            d.process.send_signal(signal.SIGCONT)
        manager.notify.settimeout(30)
        manager.told("WATCHDOG=1")


harness.main()
