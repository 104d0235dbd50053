# SPDX-License-Identifier: Apache-2.0
"""A machine that runs out: of processes, of disk. Jobs suffer, the daemon serves on."""
import os
import subprocess
import sys
import tempfile
import types

import harness
from harness import Daemon, check, wait_until

PROCESSES = 2000
# A tree of shells of this depth, each with a child that it starts again when it is killed; none
# heeds a SIGTERM, and every second one is in a session of its own. 2 * (2^9 - 1) processes per side.
BOMB = r"""
trap "" TERM HUP INT
if [ "$1" -gt 0 ]; then
	sh "$0" $(($1 - 1)) &
	setsid sh "$0" $(($1 - 1)) &
fi
[ "$2" = root ] && exit 0
while :; do sleep 1000; done
"""
DEPTH = 9


def processes(d, ident):
    """Of the job, wherever they are now: they have its environment."""
    want, socket = b"GPUPRES_JOB=%d\0" % ident, os.fsencode(d.dir)
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                environ = f.read()
            found += want in environ and socket in environ and b"/gpupres-run" not in \
                open("/proc/%s/cmdline" % pid, "rb").read()
        except OSError:
            pass
    return found


def bomb(d):
    path = d.dir + "/bomb"
    with open(path, "w") as f:
        f.write(BOMB)
    return path


def test_fork_bomb_ends_with_its_command():
    """The command ends at once, and the rest is killed while it still grows."""
    with Daemon() as d:
        ident = d.submit("sh", bomb(d), str(DEPTH), "root")
        d.wait_state(ident, "done", seconds=120)
        check(processes(d, ident) == 0, "%d processes are left" % processes(d, ident))
        check(d.submit("true") > ident, "no further job")


def test_fork_bomb_can_be_cancelled():
    with Daemon() as d:
        ident = d.submit("sh", bomb(d), str(DEPTH), "stays")
        wait_until(lambda: processes(d, ident) >= PROCESSES, "%d processes" % PROCESSES, 120)
        d.ctl("cancel", str(ident))
        check(d.job(ident)["state"] == "cancelled", "%s" % d.job(ident))
        check(processes(d, ident) == 0, "%d processes are left" % processes(d, ident))


# The state folder on a disk of its own, that the daemon and its jobs alone see.
SMALL_DISK = ("unshare", *(() if os.geteuid() == 0 else ("-U", "--map-root-user")), "-m", "sh", "-c",
              'mkdir -p "$0" && chmod 700 "$0" && mount -t tmpfs -o size=4M,mode=700 none "$0" && '
              'exec "$@"')


# sqlite looks behind the links of /proc, and finds itself outside again.
LOOK_UP = """import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(db.execute("SELECT exit_code FROM jobs WHERE id = ?", (sys.argv[2],)).fetchone())"""


def exit_code_stored(d, ident):
    user = () if os.geteuid() == 0 else ("-U", "--preserve-credentials")
    return subprocess.run(["nsenter", "-t", str(d.process.pid), *user, "-m", sys.executable, "-c",
                           LOOK_UP, d.dir + "/state/gpupres.db", str(ident)],
                          capture_output=True, text=True, check=True).stdout.strip()


def test_disk_full_of_a_log():
    able = subprocess.run([*SMALL_DISK, "/tmp", "true"], capture_output=True, check=False)
    if able.returncode != 0:
        print("     skipped: no mount namespaces here: %s" % able.stderr.decode().strip())
        return
    path = tempfile.mkdtemp(prefix="gp-e2e-")
    with Daemon(fresh_from=types.SimpleNamespace(dir=path),
                prefix=(*SMALL_DISK, path + "/state")) as d:
        state = "/proc/%d/root%s/state" % (d.process.pid, d.dir)
        check(os.statvfs(state).f_bavail * os.statvfs(state).f_bsize <= 4 << 20, "no small disk")
        talks = d.submit("sh", "-c", "head -c 8000000 /dev/zero || exit 7")
        check(d.wait(talks) == 7, "8 MB on a disk of 4: %s" % d.job(talks))
        check(os.statvfs(state).f_bavail == 0, "the disk is not full")
        silent = d.submit("true")
        d.wait(silent)
        job = d.job(silent)
        check(job["state"] in ("done", "failed") and (job["state"] == "done" or "space" in
                                                      job["cause"]), "%s" % job)
        ident = d.program("fill", "--mb", "16", "--rounds", "1", options=("--mem", "32M"))
        d.wait(ident)
        # There is room again: all is as before.
        os.truncate("%s/jobs/%d.log" % (state, talks), 0)
        speaks = d.submit("echo", "it works")
        check(d.wait(speaks) == 0 and d.logs(speaks) == "it works\n", "%s" % d.job(speaks))

        wait_until(lambda: exit_code_stored(d, speaks) == "(0,)", "job %d's row" % speaks)


if __name__ == "__main__":
    harness.main()
