# SPDX-License-Identifier: Apache-2.0
"""Every test program is preempted with its memory at five random moments, twice in a row, and
must print what it prints undisturbed. At least three of the five must interrupt a kernel."""
import json
import os
import random
import re
import time

import harness
from harness import Daemon, check

N_PREEMPTIONS = 5
MIN_MID_KERNEL = 3
N_TURNS = int(os.environ.get("GP_TURNS", "2"))
SEED = int(os.environ.get("GP_SEED", "0")) or int(time.time())
PROGRAMS = ["vecadd", "matmul", "reduce", "histogram", "nbody", "mandelbrot", "blackscholes", "mlp",
            "streams"]


def result_of(daemon, ident):
    code = daemon.wait(ident)
    output = daemon.logs(ident)
    check(code == 0, "job %d: exit %d: %s" % (ident, code, output))
    match = re.search(r"hash=(\S+)", output)
    check(match, "no result line: " + output)
    return match.group(1)


def undisturbed(daemon, name):
    begin = time.monotonic()
    ident = daemon.program(name)
    daemon.wait_memory(ident)
    started = time.monotonic()
    result = result_of(daemon, ident)
    return result, started - begin, time.monotonic() - started


class Ended(Exception):
    """The job was faster than the undisturbed run let expect."""


def preempted(daemon, name, seconds, rng):
    """Splits a time in five slots and preempts at a random moment of each."""
    ident = daemon.program(name)
    daemon.wait_memory(ident)
    ran, mid = 0.0, 0
    moments = []
    for i in range(N_PREEMPTIONS):
        moment = seconds * (i + rng.random()) / N_PREEMPTIONS
        time.sleep(max(0.0, moment - ran))  # the moment is the stimulus, nothing is awaited
        ran = max(moment, ran)
        r = daemon.ctl("--json", "preempt", str(ident), check_code=False)
        if r.returncode and daemon.job(ident)["state"] == "done":
            raise Ended
        check(r.returncode == 0, r.stderr)
        report = json.loads(r.stdout)
        check(report["state"] == "swapped", "state %s" % report["state"])
        if not report["report"]["total_bytes"]:  # it has freed its memory, and is about to end
            daemon.ctl("cancel", str(ident))
            raise Ended
        check(daemon.job(ident)["device_bytes"] == 0, "memory left on the device")
        mid += report["report"]["mid_kernel"] == "yes"
        moments.append("%.2f%s" % (moment, "*" if report["report"]["mid_kernel"] == "yes" else ""))
        daemon.ctl("resume", str(ident))
    return result_of(daemon, ident), mid, moments


def preempt_program(name):
    rng = random.Random("%d %s" % (SEED, name))
    with Daemon() as daemon:
        daemon.note_free()
        expected, _, seconds = undisturbed(daemon, name)
        for _ in range(N_TURNS):
            # On a busy machine runs differ in length: spread over less of it if need be.
            for share in (0.85, 0.5, 0.3, 0.15):
                try:
                    got, mid, moments = preempted(daemon, name, seconds * share, rng)
                    break
                except Ended:
                    continue
            else:
                raise harness.Failed("%s always ended before its fifth preemption" % name)
            print("     %s: %.2f s, preempted at %s (* in a kernel)" %
                  (name, seconds, " ".join(moments)), flush=True)
            check(got == expected, "%s: %s after preemption, %s without (seed %d)" %
                  (name, got, expected, SEED))
            check(mid >= MIN_MID_KERNEL, "%s: only %d of %d preemptions hit a kernel (seed %d)" %
                  (name, mid, N_PREEMPTIONS, SEED))
        daemon.check_nothing_leaked()


for program in PROGRAMS:
    globals()["test_preempt_%s" % program] = lambda name=program: preempt_program(name)

harness.main()
