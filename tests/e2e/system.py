# SPDX-License-Identifier: Apache-2.0
"""A daemon of all users with its gpupres-spawn, and users by number: none is in the user database.

For root alone: it needs to be everybody.
"""
import atexit
import os
import shutil
import signal
import subprocess
import sys

import harness
from harness import check

DAEMON_UID = 64321
GROUP = 64300  # who may submit
ALICE, BOB, ADMIN, OUTSIDER = 12345, 65533, 23456, 34567


def skip_unless_root():
    if os.geteuid() != 0:
        print("skipped: users can be played by root only")
        sys.exit(77)


def is_open(folder):
    """Every user can reach it."""
    parts = os.path.realpath(folder).split("/")
    return all(os.stat("/".join(parts[:i]) or "/").st_mode & 0o001
               for i in range(1, len(parts) + 1))


def open_folder():
    """One for temporary files that every user can reach."""
    for folder in (harness.tempfile.gettempdir(), "/var/tmp", "/dev/shm"):
        if is_open(folder):
            return folder
    raise harness.Failed("no folder for temporary files that every user can reach")


def open_build():
    """The built tree, or, below somebody's home, a copy that every user can reach."""
    if is_open(harness.BUILD):
        return harness.BUILD
    copy = harness.tempfile.mkdtemp(prefix="gp-e2e-", dir=open_folder())
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    os.chmod(copy, 0o755)
    for part in ("bin", "lib", "libexec", "testdata"):
        shutil.copytree(os.path.join(harness.BUILD, part), os.path.join(copy, part), symlinks=True)
    return copy


if os.geteuid() == 0:
    harness.use_build(open_build())
SPAWN = os.path.join(harness.BUILD, "libexec", "gpupres", "gpupres-spawn")


class System(harness.Daemon):
    """As harness.Daemon; ctl() and what builds on it act as self.uid."""

    def __init__(self, memory="1G", args=(), spawn_args=(), config=""):
        # pylint: disable=super-init-not-called
        self.dir = harness.tempfile.mkdtemp(prefix="gp-e2e-", dir=open_folder())
        os.chmod(self.dir, 0o755)
        self.soft = "/dev/shm/gp-e2e-%d-%s" % (os.getpid(), os.path.basename(self.dir))
        os.mkdir(self.soft)
        os.chmod(self.soft, 0o777)
        for name in ("run", "state", "swap"):
            os.mkdir("%s/%s" % (self.dir, name), 0o755 if name == "run" else 0o700)
            os.chown("%s/%s" % (self.dir, name), DAEMON_UID, DAEMON_UID)
        self.env = dict(os.environ, GPUPRES_SOFT_DIR=self.soft, GPUPRES_SOFT_MEMORY=memory,
                        GPUPRES_RUNTIME_DIR=self.dir + "/run", HOME="/nonexistent")
        self.env.pop("LD_PRELOAD", None)
        self.uid = ALICE
        self.log_path = self.dir + "/log"
        self.args, self.spawn_args = args, spawn_args
        with open(self.dir + "/gpupresd.conf", "w") as f:
            f.write(config)
        self.spawn = self.process = None
        self.start_spawn()
        self.start_daemon()

    def __enter__(self):
        try:
            return super().__enter__()
        except BaseException:
            self.close()
            raise

    def start_spawn(self):
        with open(self.log_path, "ab") as log:
            self.spawn = subprocess.Popen(
                [SPAWN, "--for-user", str(DAEMON_UID), "--socket", self.dir + "/spawn.sock",
                 *self.spawn_args], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        harness.wait_until(lambda: "event=serving socket=" in self.log(), "gpupres-spawn")

    def start_daemon(self):
        argv = [harness.DAEMON, "--device", "soft", "--runtime-dir", self.dir + "/run",
                "--state-dir", self.dir + "/state", "--swap-dir", self.dir + "/swap",
                "--spawn-socket", self.dir + "/spawn.sock", "--group", str(GROUP),
                "--admins", str(ADMIN), "--arena", "256M", "--log-level", "debug",
                "--config", self.dir + "/gpupresd.conf", *self.args]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                argv, env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                user=DAEMON_UID, group=DAEMON_UID, extra_groups=[GROUP])

    def stop_spawn(self):
        if self.spawn.poll() is None:
            self.spawn.send_signal(signal.SIGTERM)
        self.spawn.wait(30)

    def close(self):
        try:
            self.uid = 0
            if self.process.poll() is None:
                for job in self.json("list", "--all")["jobs"]:
                    if job["state"] not in ("done", "failed", "cancelled"):
                        self.ctl("cancel", str(job["id"]), check_code=False)
            self.stop()
            self.stop_spawn()
        finally:
            for process in (self.process, self.spawn):
                if process.poll() is None:
                    process.kill()
                    process.wait()
            shutil.rmtree(self.dir, ignore_errors=True)
            shutil.rmtree(self.soft, ignore_errors=True)

    def command(self, argv, uid=None, groups=(GROUP,), env=None, timeout=120, **kw):
        """Runs a program as a user."""
        uid = self.uid if uid is None else uid
        return subprocess.run(argv, env=env or self.env, stdin=subprocess.DEVNULL, timeout=timeout,
                              capture_output=True, text=True, check=False, cwd="/", user=uid,
                              group=uid, extra_groups=list(groups), **kw)

    def ctl(self, *args, check_code=True, timeout=120, text=True, **kw):
        # pylint: disable=arguments-differ
        r = self.command([harness.CTL, *args], timeout=timeout, **kw)
        if check_code:
            check(r.returncode == 0, "gpupresctl %s: exit %d: %s" %
                  (" ".join(args), r.returncode, r.stderr))
        return r

    def as_user(self, uid):
        self.uid = uid
        return self
