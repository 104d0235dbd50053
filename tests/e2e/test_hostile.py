# SPDX-License-Identifier: Apache-2.0
"""Hostile clients and shims cannot stop service to others, nor make the daemon keep what is theirs.

Each test does its worst while a witness, another client, asks and must be answered. GP_CONNECTS
(20000 connections one after the other) and GP_AT_ONCE (1000 at the same time) make it worse.
"""
import array
import contextlib
import fcntl
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types

import harness
from fake_daemon import BODIES, HEADER, TYPES
from harness import MIB, Daemon, check, wait_until

CONNECTS = int(os.environ.get("GP_CONNECTS", "20000"))
AT_ONCE = int(os.environ.get("GP_AT_ONCE", "1000"))
CLI, SHIM, SUPERVISOR, MOVER = 1, 2, 3, 4
ANSWER_SECONDS = 30  # a deadline for what must come, not a claim about how soon it does
KERNEL_MAX_FDS = 253  # of one message
SEALS = 0x2 | 0x4 | 0x8  # F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE
F_ADD_SEALS = 1033


def message(name, *fields, job=0, cookie=0, proc=0):
    body = BODIES[name].pack(*fields) if fields else bytes(BODIES[name].size)
    return HEADER.pack(TYPES[name], HEADER.size + len(body), job, 0, cookie, proc) + body


def connect(d, name="control.sock"):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    s.connect(d.dir + "/run/" + name)  # with a timeout it would not wait for room in the queue
    s.settimeout(ANSWER_SECONDS)
    return s


def hello(role=CLI, low=1, high=100, job=0, program=b"hostile"):
    return message("HELLO", low, high, role, 0, program, job=job)


def dial(d, role=CLI, job=0):
    s = connect(d, "shim.sock" if role == SHIM else "control.sock")
    s.send(hello(role, job=job))
    check(kind(s.recv(4096)) == "WELCOME", "no welcome")
    return s


def kind(data):
    number = HEADER.unpack_from(data)[0] if data else 0
    return next((name for name, n in TYPES.items() if n == number), "the end")


def send_fds(s, data, fds):
    s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def ended(s):
    """The daemon has closed the connection: what it said before may still be there."""
    with contextlib.suppress(ConnectionError):
        while s.recv(65536):
            pass
    s.close()


def flood(s, data, n):
    """As many as the daemon takes without being read from, at most @n; how many that were."""
    s.setblocking(False)
    for i in range(n):
        try:
            s.send(data)
        except (BlockingIOError, ConnectionError):
            return i
    return n


def fd_count(d):
    return len(os.listdir("/proc/%d/fd" % d.process.pid))


def rss_mib(d):
    with open("/proc/%d/status" % d.process.pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024


class Witness:
    """Asks for a job over its own connection until told to stop; every answer must come."""

    def __init__(self, d):
        self.job = d.submit("sleep", "1000", options=("--mem", "1M"))
        d.wait_state(self.job, "running")
        self.sock, self.stop, self.n, self.worst, self.error = dial(d), False, 0, 0, None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.stop:
                begin = time.monotonic()
                self.sock.send(message("SHOW", job=self.job))
                check(kind(self.sock.recv(4096)) == "JOB", "SHOW was not answered by JOB")
                self.n, self.worst = self.n + 1, max(self.worst, time.monotonic() - begin)
                time.sleep(0.002)
        except Exception as e:  # told to the test's own thread
            self.error = e


@contextlib.contextmanager
def witnessed(**kw):
    """A daemon that is the same after the test as before, and answered a witness all along."""
    with Daemon(args=("--log-level", "info"), **kw) as d:
        w = Witness(d)
        before = fd_count(d)
        w.thread.start()
        try:
            yield d
            wait_until(lambda: fd_count(d) <= before, "the daemon's descriptors: %d, not %d" %
                       (fd_count(d), before))
        finally:
            w.stop = True
            w.thread.join()
        check(w.error is None, "the witness: %r" % w.error)
        check(w.n > 0, "the witness was never answered")
        print("     %d answers meanwhile, the slowest after %.0f ms; RSS %.1f MiB" %
              (w.n, w.worst * 1e3, rss_mib(d)))
        w.sock.close()
        check(d.job(w.job)["state"] == "running", "the witness' job")


def test_bad_bytes_end_the_connection():
    with witnessed() as d:
        good, sizes = message("LIST"), (0, 1, 8, 31, 32, 39, 41, 1584, 1585, 65536, 200000)
        for size in sizes:
            for greeted in (False, True):
                s = dial(d) if greeted else connect(d)
                s.send((good * 6000)[:size])
                ended(s)
        for number in (0, len(TYPES) + 1, 2**31, 2**32 - 1):
            s = dial(d)
            s.send(struct.pack("=I", number) + good[4:])
            ended(s)
        for name in ("control.sock", "shim.sock"):
            s = connect(d, name)
            s.send(message("SHOW", job=1))  # before any hello
            ended(s)


def test_hello_of_other_versions_and_roles_is_refused():
    with witnessed() as d:
        for name, greeting in (("control.sock", hello(low=77)), ("control.sock", hello(high=0)),
                               ("control.sock", hello(SHIM)), ("control.sock", hello(MOVER)),
                               ("control.sock", hello(SUPERVISOR, job=10**9)),
                               ("control.sock", hello(5)), ("control.sock", hello(0)),
                               ("control.sock", hello(program=b"x" * 32)),
                               ("shim.sock", hello(CLI)), ("shim.sock", hello(MOVER)),
                               ("shim.sock", hello(SHIM, job=10**9))):
            s = connect(d, name)
            s.send(greeting)
            check(kind(s.recv(4096)) in ("ERROR", "the end"), "%s was welcome" % greeting)
            ended(s)


def test_descriptors_are_closed_whatever_they_come_with():
    with witnessed() as d:
        null = os.open("/dev/null", os.O_RDONLY)
        for n in (1, 64, 65, KERNEL_MAX_FDS):
            for data in (b"", b"half", hello(), message("LIST"), message("DEVICES")):
                for _ in range(20):
                    s = connect(d)
                    send_fds(s, data, [null] * n)
                    s.close()
                s = dial(d)
                send_fds(s, data, [null] * n)
                s.close()
        os.close(null)


def memfd(data, seals=SEALS):
    fd = os.memfd_create("hostile", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    if seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd


def submit(s, fds, n_args=1, n_env=0, size=12, **fields):
    data = message("SUBMIT", fields.get("priority", 0), n_args, n_env, size,
                   fields.get("mem", 0), fields.get("name", b"hostile"))
    if fds:
        send_fds(s, data, fds)
    else:
        s.send(data)


def test_commands_that_are_not_what_was_announced_are_refused():
    blob = b"/bin/true\0/\0"
    with witnessed() as d:
        n_jobs = len(d.jobs())
        wrong = [({}, [memfd(blob, 0)]), ({}, [memfd(blob, 0x2 | 0x4)]),  # can still be written
                 ({}, []), ({}, [memfd(blob), memfd(blob)]), ({"size": 13}, [memfd(blob)]),
                 ({"size": 11}, [memfd(blob)]), ({"size": 0}, [memfd(b"")]),
                 ({}, [memfd(b"/bin/true\0/x")]), ({"n_args": 2}, [memfd(blob)]),
                 ({"n_env": 2**32 - 1, "n_args": 2}, [memfd(blob)]),
                 ({"n_args": 2**32 - 1, "n_env": 2}, [memfd(blob)]),
                 ({}, list(os.pipe())[:1]), ({}, [os.open("/", os.O_RDONLY)]),
                 ({"priority": 10**6}, [memfd(blob)]), ({"mem": 2**64 - 1}, [memfd(blob)])]
        s = dial(d)
        for fields, fds in wrong:
            submit(s, fds, **fields)
            answer = s.recv(4096)
            check(kind(answer) == "ERROR", "%s, %d fds: %s" % (fields, len(fds), kind(answer)))
        short = memfd(blob, 0)  # cut short after it was sent, where it can be
        submit(s, [short])
        os.ftruncate(short, 0)
        check(kind(s.recv(4096)) == "ERROR", "an unsealed memfd was taken")
        submit(s, [memfd(blob)])
        check(kind(s.recv(4096)) == "OK", "a good one after all that")
        s.close()
        wait_until(lambda: len(d.jobs()) == n_jobs + 1, "just one job more: %s" % d.jobs())


def test_requests_without_reading_the_answers():
    """What a client does not read waits with the client; the daemon keeps a bounded part."""
    with witnessed() as d:
        before = rss_mib(d)
        log = d.submit("true")
        d.wait(log)
        socks = []
        for name in ("SHOW", "LIST", "DEVICES", "WAIT", "LOGS", "CANCEL"):
            for _ in range(40):
                socks.append(dial(d))
                flood(socks[-1], message(name, job=log), 3000)
        # The daemon has had a turn with each of them once the last one is served, or is full.
        s = dial(d)
        s.send(message("SHOW", job=log))
        check(kind(s.recv(4096)) == "JOB", "a newcomer was not served")
        check(d.logs(log) == "", "logs of another client")
        check(fd_count(d) < 2 * len(socks) + 100, "%d descriptors for %d clients" %
              (fd_count(d), len(socks)))
        check(rss_mib(d) < before + 64, "RSS grew from %.1f to %.1f MiB" % (before, rss_mib(d)))
        s.close()
        # One of them comes to its senses: it gets its answers, and is asked for more.
        s = socks[0]
        s.settimeout(ANSWER_SECONDS)
        check(kind(s.recv(4096)) == "JOB", "no answer")
        reader = threading.Thread(target=lambda: s.send(message("DEVICES")))
        reader.start()
        while kind(s.recv(4096)) != "END":
            pass
        reader.join()
        for s in socks:
            s.close()


def test_logs_that_are_not_taken_are_not_sent_again():
    """A user's descriptors under way are limited, and these would be the daemon's."""
    with witnessed() as d:
        ident, s, other = d.submit("true"), dial(d), dial(d)
        d.wait(ident)
        s.send(message("LOGS", job=ident))
        s.send(message("LOGS", job=ident))
        for _ in range(3):  # a message a turn: when these are answered, those have been
            other.send(message("SHOW", job=ident))
            other.recv(4096)
        data, fds, _, _ = socket.recv_fds(s, 4096, 8)
        check((kind(data), len(fds)) == ("LOG", 1), "%s, %s" % (kind(data), fds))
        check(kind(s.recv(4096)) == "ERROR", "two logs under way")
        s.send(message("LOGS", job=ident))
        data, more, _, _ = socket.recv_fds(s, 4096, 8)
        check((kind(data), len(more)) == ("LOG", 1), "%s, %s" % (kind(data), more))
        for fd in fds + more:
            os.close(fd)
        s.close()
        other.close()


def test_waiting_for_a_job_over_and_over_is_bounded():
    with witnessed() as d:
        before, ident, busy = rss_mib(d), d.submit("sleep", "1000"), 0
        s = dial(d)
        for i in range(50):
            for k in range(200):
                s.send(message("WAIT", job=ident, cookie=i * 200 + k))
            s.send(message("SHOW", job=ident))
            answer = kind(s.recv(4096))
            while answer != "JOB":
                check(answer == "ERROR", answer)
                busy += 1
                answer = kind(s.recv(4096))
        check(busy > 0, "10000 requests wait")
        check(rss_mib(d) < before + 8, "RSS grew from %.1f to %.1f MiB" % (before, rss_mib(d)))
        s.close()
        d.ctl("cancel", str(ident))


def test_connections_one_after_the_other():
    with witnessed() as d:
        begin = time.monotonic()
        for i in range(CONNECTS):
            s = connect(d, "shim.sock" if i % 4 == 3 else "control.sock")
            if i % 2:
                with contextlib.suppress(ConnectionError):
                    s.send(hello() if i % 4 == 1 else b"x")
            s.close()
        print("     %d connections in %.1f s" % (CONNECTS, time.monotonic() - begin))


def test_connections_at_once():
    """More than the daemon may have open where it was started; its jobs get that back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = min(AT_ONCE, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    path = tempfile.mkdtemp(prefix="gp-e2e-")
    os.makedirs(path + "/config/gpupres")
    with open(path + "/config/gpupres/gpupresd.conf", "w") as f:
        f.write("[limits]\nmax_connections = %d\n" % (n + 100))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        d = stack.enter_context(witnessed(fresh_from=types.SimpleNamespace(dir=path)))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        begin = time.monotonic()
        socks = [dial(d) for _ in range(n)]
        print("     %d connections at once after %.1f s, RSS %.1f MiB" %
              (n, time.monotonic() - begin, rss_mib(d)))
        ident = d.submit("sh", "-c", "ulimit -Sn")
        d.wait(ident)
        check(d.logs(ident) == "256\n", "the job's limit: %s" % d.logs(ident))
        for s in socks[::7]:
            s.send(message("DEVICES"))
            check(kind(s.recv(4096)) == "DEVICE", "one of many was not served")
        for s in socks:
            s.close()


def shim_message(name, fmt, *fields, job=0):
    body = struct.pack(fmt, *fields)
    return HEADER.pack(TYPES[name], HEADER.size + len(body), job, 0, 0, 0) + body


def channels_message(total, first, n):
    """Of the full size, whatever it says."""
    return shim_message("CHANNELS", "=QIIII1024s", 1, total, first, n, 1, bytes(1024))


EVERYTHING = 2**64 - 1


def lie(d):
    """What shims say to have everything, of a process that never made a context."""
    liars = [dial(d, SHIM) for _ in range(4)]
    for s in liars:
        flood(s, shim_message("ATTACH", "=IIQ", 0, 1, EVERYTHING), 10)
        flood(s, shim_message("MEMORY", "=QQII", EVERYTHING, EVERYTHING, 2**32 - 1, 0), 10)
        flood(s, shim_message("RELEASED", "=QII", EVERYTHING, 2**32 - 1, 0), 100)
        flood(s, shim_message("LOCKED", "=QQII", 1, EVERYTHING, 2**32 - 1, 0), 100)
    print("lying", flush=True)
    while True:
        for s in liars:
            flood(s, channels_message(2**32 - 1, 0, 64), 200)
            flood(s, channels_message(1, 0, 1), 200)
            flood(s, shim_message("NEED", "=Q", EVERYTHING), 200)
            flood(s, shim_message("NEED", "=Q", MIB), 200)
        time.sleep(0.01)


def hang_up(d):
    """A shim that goes away without its process."""
    dial(d, SHIM).close()
    print("hung up", flush=True)
    signal.pause()


@contextlib.contextmanager
def process(d, what):
    """Another process with a shim: the daemon may kill it."""
    with subprocess.Popen([sys.executable, __file__, what, d.dir], stdout=subprocess.PIPE) as p:
        try:
            check(p.stdout.readline(), "it ended at once")
            yield p
        finally:
            p.kill()


def test_shims_that_lie_or_flood_do_not_hurt_other_jobs():
    with witnessed() as d:
        victim = d.program("fill", "--mb", "64", "--rounds", "100000")
        d.wait_memory(victim, 64 * MIB)
        with process(d, "lie"):
            for _ in range(3):
                d.ctl("preempt", str(victim))
                check(d.job(victim)["state"] == "swapped", "%s" % d.job(victim))
                d.ctl("resume", str(victim))
                check(d.job(victim)["state"] == "running", "%s" % d.job(victim))
        check(d.log().count("event=mover_ended") == 0, "the mover did not survive it")
        d.ctl("cancel", str(victim))


def test_program_that_hung_up_can_be_cancelled():
    with witnessed() as d:
        with process(d, "hang_up") as p:
            ident = max(job["id"] for job in d.jobs())
            check(d.job(ident)["pid"] == p.pid, "%s" % d.job(ident))
            d.ctl("cancel", str(ident))
            check(d.job(ident)["state"] == "cancelled", "%s" % d.job(ident))
            p.wait(ANSWER_SECONDS)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if sys.argv[1:2] and sys.argv[1] in ("lie", "hang_up"):
        globals()[sys.argv[1]](types.SimpleNamespace(dir=sys.argv[2]))
    harness.main()
