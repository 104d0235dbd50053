# SPDX-License-Identifier: Apache-2.0
"""Starts the real daemon on the software device in a private folder and drives it by gpupresctl.

A test file defines functions test_*(daemon-less or taking nothing) and calls harness.main(). Every
daemon is stopped and every folder removed at the end, also when a check fails.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

BUILD = os.environ.get("GP_BUILD") or os.path.join(os.getcwd(), "build", "dev")
MIB = 1 << 20


def use_build(folder):
    """Takes what is tested from there."""
    global BUILD, CTL, DAEMON, PROGRAMS
    BUILD = folder
    CTL = os.path.join(BUILD, "bin", "gpupresctl")
    DAEMON = os.path.join(BUILD, "bin", "gpupresd")
    PROGRAMS = os.path.join(BUILD, "testdata", os.environ.get("GP_PROGRAMS", "cuda"))


use_build(BUILD)


class Failed(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


def wait_until(condition, message, seconds=60):
    """Polls a condition; a deadline, never a delay that something must have happened by."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise Failed("not within %d s: %s" % (seconds, message))


class Daemon:
    """A gpupresd --user of its own, with its own software device, or on the card."""

    def __init__(self, memory="1G", arena="1G", args=(), env=None, fresh_from=None, device="soft",
                 log_level="debug", prefix=(), pass_fds=()):
        self.dir = fresh_from.dir if fresh_from else tempfile.mkdtemp(prefix="gp-e2e-")
        self.soft = "/dev/shm/gp-e2e-%d-%s" % (os.getpid(), os.path.basename(self.dir))
        self.env = dict(os.environ, GPUPRES_SOFT_DIR=self.soft, GPUPRES_SOFT_MEMORY=memory,
                        GPUPRES_RUNTIME_DIR=self.dir + "/run",
                        XDG_CONFIG_HOME=self.dir + "/config")
        self.env.pop("LD_PRELOAD", None)
        self.env.update(env or {})
        self.log_path = self.dir + "/gpupresd.log"
        os.makedirs(self.dir + "/swap", exist_ok=True)
        argv = [*prefix, DAEMON, "--user", "--device", device, "--runtime-dir", self.dir + "/run",
                "--state-dir", self.dir + "/state", "--swap-dir", self.dir + "/swap",
                "--arena", arena, *(("--log-level", log_level) if log_level else ()), *args]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(argv, env=self.env, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, pass_fds=pass_fds)

    def __enter__(self):
        self.ready()
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            sys.stderr.write("---- %s\n%s----\n" % (self.log_path, self.log()[-8000:]))
        self.close()

    def ready(self):
        def answers():
            check(self.process.poll() is None, "the daemon ended:\n" + self.log())
            # 3: nobody listens. A socket that a killed daemon left behind is not ours yet.
            r = self.ctl("devices", check_code=False)
            check(r.returncode in (0, 3), "gpupresctl devices: " + r.stderr)
            return r.returncode == 0
        wait_until(answers, "the daemon's answer")

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(30)

    def close(self):
        try:
            if self.process.poll() is None:
                for job in self.jobs():
                    if job["state"] not in ("done", "failed", "cancelled"):
                        self.ctl("cancel", str(job["id"]), check_code=False)
            self.stop()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            shutil.rmtree(self.dir, ignore_errors=True)
            shutil.rmtree(self.soft, ignore_errors=True)

    def ctl(self, *args, check_code=True, timeout=120, text=True):
        r = subprocess.run([CTL, *args], env=self.env, stdin=subprocess.DEVNULL, timeout=timeout,
                           capture_output=True, text=text, check=False)
        if check_code:
            check(r.returncode == 0, "gpupresctl %s: exit %d: %s" %
                  (" ".join(args), r.returncode, r.stderr))
        return r

    def json(self, *args, **kw):
        return json.loads(self.ctl("--json", *args, **kw).stdout)

    def jobs(self):
        return self.json("list")["jobs"]

    def job(self, ident):
        return self.json("show", str(ident))

    def device(self):
        return self.json("devices")["devices"][0]

    def submit(self, *argv, options=()):
        return int(self.ctl("submit", *options, "--", *argv).stdout.strip())

    def program(self, name, *args, options=()):
        return self.submit(os.path.join(PROGRAMS, name), *args, options=options)

    def wait_state(self, ident, *states, seconds=60):
        def reached():
            job = self.job(ident)
            check(job["state"] in states or
                  job["state"] not in ("done", "failed", "cancelled"),
                  "job %d is %s (%s) instead of %s" % (ident, job["state"], job["cause"], states))
            return job if job["state"] in states else None
        return wait_until(reached, "job %d in %s" % (ident, states), seconds)

    def wait_memory(self, ident, least=1, seconds=60):
        """Until the job holds device memory: its kernels may run."""
        return wait_until(lambda: self.job(ident)["device_bytes"] >= least and self.job(ident),
                          "job %d with device memory" % ident, seconds)

    def wait(self, ident):
        return self.ctl("wait", str(ident), check_code=False, timeout=280).returncode

    def logs(self, ident):
        return self.ctl("logs", str(ident)).stdout

    def check_nothing_leaked(self):
        """All jobs ended: the device, the arena and the swap file are as empty as at the start."""
        def empty():
            d = self.device()
            return d["arena_used_bytes"] == 0 and d["swap_used_bytes"] == 0 and \
                d["free_bytes"] >= self.free_at_start
        wait_until(empty, "an empty device: %s (free at the start: %d)" %
                   (self.device(), self.free_at_start))

    def note_free(self):
        self.free_at_start = self.device()["free_bytes"]


def main():
    """Runs every test_* function of the calling script; -k NAME runs one."""
    module = sys.modules["__main__"]
    only = sys.argv[2] if len(sys.argv) > 2 and sys.argv[1] == "-k" else None
    failed = []
    for name, function in list(vars(module).items()):
        if not name.startswith("test_") or (only and name != only):
            continue
        begin = time.monotonic()
        try:
            function()
            print("ok   %s (%.1f s)" % (name, time.monotonic() - begin), flush=True)
        except Exception:
            failed.append(name)
            print("FAIL %s (%.1f s)" % (name, time.monotonic() - begin), flush=True)
            traceback.print_exc()
    sys.exit(1 if failed else 0)
