# SPDX-License-Identifier: Apache-2.0
"""What is there on the machine of one daemon: its processes, descriptors and files."""
import collections
import os


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def strings(path):
    return [s.decode(errors="replace") for s in read(path).split(b"\0") if s]


def alive(pid):
    state = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    return bool(state) and state[0] not in (b"Z", b"X")


def pids():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def job_processes(runtime_dir, ident=None):
    """{pid: id} of the processes that live with the environment of a job of this daemon."""
    found = {}
    for pid in pids():
        env = strings("/proc/%d/environ" % pid)
        if "GPUPRES_SOCKET=%s/shim.sock" % runtime_dir not in env:
            continue
        job = next((e[12:] for e in env if e.startswith("GPUPRES_JOB=")), None)
        argv = strings("/proc/%d/cmdline" % pid)
        if not job or not alive(pid) or (argv and argv[0].endswith("/gpupres-run")):
            continue
        if ident in (None, int(job)):
            found[pid] = int(job)
    return found


def programs(runtime_dir, name):
    """{pid: argv} of the daemon's own programs: gpupres-run, gpupres-mover and others."""
    found = {}
    for pid in pids():
        argv = strings("/proc/%d/cmdline" % pid)
        if argv and os.path.basename(argv[0]) == name and alive(pid) and \
                any(a.startswith(runtime_dir + "/") for a in argv):
            found[pid] = argv
    return found


def supervisors(runtime_dir):
    """{id of the job: pid}"""
    return {int(argv[argv.index("--job") + 1]): pid
            for pid, argv in programs(runtime_dir, "gpupres-run").items()}


def name(pid):
    """At most 15 characters of its program's."""
    return read("/proc/%d/comm" % pid).decode(errors="replace").strip()


def children(pid):
    return [int(c) for c in read("/proc/%d/task/%d/children" % (pid, pid)).split()]


def descriptors(pid):
    """What the process holds open: how many of each kind."""
    found = collections.Counter()
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            target = os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except OSError:
            continue
        found[target.split("[")[0] if "[" in target else target.removesuffix(" (deleted)")] += 1
    return found


def files(folder):
    """Paths of the plain files and sockets below a folder, relative to it."""
    return sorted(os.path.relpath(os.path.join(root, name), folder)
                  for root, _, names in os.walk(folder) for name in names)
