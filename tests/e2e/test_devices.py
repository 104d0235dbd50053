# SPDX-License-Identifier: Apache-2.0
"""Several devices under one daemon: where jobs go, and that no device takes part in another's affairs."""
import os
import signal
import subprocess

import harness
from harness import Daemon, MIB, check, wait_until

LONG = ("--rounds", "100000")


def several(n, **kw):
    """@n software devices of 1 GiB."""
    return Daemon(args=("--devices", str(n)), arena="256M", **kw)


def devices(d):
    return {v["device"]: v for v in d.json("devices")["devices"]}


def wait_on_device(d, ident, mb):
    """Until the job runs and has its memory; the number of its device."""
    d.wait_memory(ident, mb * MIB)
    wait_until(lambda: "running" in d.logs(ident), "the long kernel")
    return d.job(ident)["device"]


def mover_of(d, number):
    with open("/proc/%d/task/%d/children" % (d.process.pid, d.process.pid)) as f:
        for pid in f.read().split():
            with open("/proc/%s/cmdline" % pid) as c:
                argv = c.read().split("\0")
            if "--device" in argv and argv[argv.index("--device") + 1] == str(number):
                return int(pid)
    return None


def test_jobs_spread_and_each_devices_memory_is_its_own():
    with several(3) as d:
        free = {n: v["free_bytes"] for n, v in devices(d).items()}
        check(sorted(free) == [0, 1, 2], "devices: %s" % free)
        jobs = [d.program("fill", "--mb", str(mb), *LONG) for mb in (100, 200, 300)]
        on = [wait_on_device(d, j, mb) for j, mb in zip(jobs, (100, 200, 300))]
        check(sorted(on) == [0, 1, 2], "the jobs are on %s" % on)
        for number, mb in zip(on, (100, 200, 300)):
            used = free[number] - devices(d)[number]["free_bytes"]
            check(mb * MIB <= used < (mb + 90) * MIB, "device %d: %d used" % (number, used))
        # What is evicted lies in the arena of its own device.
        d.ctl("preempt", str(jobs[1]))
        wait_until(lambda: [n for n, v in devices(d).items() if v["arena_used_bytes"]] == [on[1]],
                   "one arena in use: %s" % devices(d))
        check([d.job(j)["state"] for j in jobs] == ["running", "swapped", "running"], "states")
        d.ctl("resume", str(jobs[1]))
        for j in jobs:
            d.ctl("cancel", str(j))
        wait_until(lambda: {n: v["free_bytes"] for n, v in devices(d).items()} == free,
                   "empty devices")


def test_job_goes_where_nobody_must_yield():
    with several(2) as d:
        first = d.program("fill", "--mb", "700", *LONG, options=("--mem", "700M"))
        taken = wait_on_device(d, first, 700)
        other = None
        for _ in range(2):  # more jobs there, but more room
            small = d.program("fill", "--mb", "100", *LONG, options=("--mem", "100M"))
            other = wait_on_device(d, small, 100)
            if other != taken:
                break
        check(other != taken, "all jobs are on one device")
        urgent = d.program("urgent", "--mb", "500", "--rounds", "1", options=("--mem", "500M", "--priority", "10"))
        check(d.wait(urgent) == 0, d.logs(urgent))
        check(d.job(urgent)["device"] != taken, "it made somebody yield in vain")
        check(all(j["n_preemptions"] == 0 for j in d.jobs()), str(d.jobs()))


def test_eviction_on_one_device_leaves_the_others_alone():
    with several(2) as d:
        low = [d.program("fill", "--mb", "700", *LONG, options=("--mem", "700M", "--priority", p))
               for p in ("-5", "20")]
        on = [wait_on_device(d, j, 700) for j in low]
        check(sorted(on) == [0, 1], str(on))
        urgent = d.program("urgent", "--mb", "500", "--rounds", "1", options=("--mem", "500M", "--priority", "10"))
        check(d.wait(urgent) == 0, d.logs(urgent))
        check(d.job(urgent)["device"] == on[0], "on the device of a job that need not yield")
        check(d.job(low[0])["n_preemptions"] == 1, "the low job was not preempted")
        check(d.job(low[1])["n_preemptions"] == 0, "a job on the other device was preempted")
        d.wait_state(low[0], "running")


def test_two_urgent_jobs_have_one_victim_each():
    with several(2) as d:
        low = [d.program("fill", "--mb", "700", *LONG, options=("--mem", "700M",)) for _ in range(2)]
        for j in low:
            wait_on_device(d, j, 700)
        urgent = [d.program("urgent", "--mb", "500", "--rounds", "1", options=("--mem", "500M", "--priority", "10"))
                  for _ in range(2)]
        for j in urgent:
            check(d.wait(j) == 0, d.logs(j))
        check([d.job(j)["n_preemptions"] for j in low] == [1, 1], "victims")
        for j in low:
            d.wait_state(j, "running")


def test_death_of_one_mover_leaves_the_others_alone():
    with several(2) as d:
        jobs = [d.program("fill", "--mb", "64", *LONG) for _ in range(2)]
        on = [wait_on_device(d, j, 64) for j in jobs]
        for j in jobs:
            d.ctl("preempt", str(j))
        pid = mover_of(d, on[0])
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: mover_of(d, on[0]) not in (None, pid) and devices(d)[on[0]]["ready"],
                   "a new mover")
        check(d.job(jobs[1])["state"] == "swapped", str(d.job(jobs[1])))
        d.ctl("resume", str(jobs[1]))
        d.wait_state(jobs[1], "running")


def test_adopted_programs_are_on_the_device_that_they_use():
    with several(2) as d:
        lib = os.path.join(harness.BUILD, "lib/gpupres")
        env = dict(d.env, GPUPRES_SOCKET=d.dir + "/run/shim.sock",
                   GPUPRES_DRIVER=lib + "/soft/libcuda.so.1",
                   LD_LIBRARY_PATH=lib + "/shim:" + lib + "/soft-runtime")
        for number in (1, 0, None):
            folder = d.soft if number is None else "%s/device-%d" % (d.soft, number)
            p = subprocess.Popen([harness.PROGRAMS + "/fill", "--mb", "64", *LONG],
                                 env=dict(env, GPUPRES_SOFT_DIR=folder), stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
            check("running" in p.stdout.readline(), "no kernel")
            job = wait_until(lambda p=p: next((j for j in d.jobs() if j["pid"] == p.pid), None),
                             "an adopted job")
            if number is None:
                # A software device that no mover serves: said, left alone, and no memory is counted.
                wait_until(lambda i=job["id"]: "not served" in d.job(i)["cause"], "the cause")
                check(d.job(job["id"])["device_bytes"] == 0, "memory")
                r = d.ctl("preempt", str(job["id"]), check_code=False)
                check(r.returncode == 1 and r.stderr.count("\n") == 1, r.stderr)
            else:
                job = d.wait_memory(job["id"], 64 * MIB)
                check(job["device"] == number, "on device %s" % job["device"])
                d.ctl("preempt", str(job["id"]))
                d.ctl("resume", str(job["id"]))
            p.kill()
            p.communicate()


def with_broken_device(number, n):
    """A daemon of @n devices; where the folder of device @number (None: of the only one) is to be
    made there is a file."""
    root = "/dev/shm/gp-e2e-broken-%d" % os.getpid()
    if number is None:
        open(root, "w").close()
    else:
        os.mkdir(root)
        open("%s/device-%d" % (root, number), "w").close()
    d = several(n, env={"GPUPRES_SOFT_DIR": root})
    d.soft = root
    return d


def test_device_that_cannot_be_brought_up_beside_others():
    with with_broken_device(1, 2) as d:
        check([v["ready"] for _, v in sorted(devices(d).items())] == [True, False], "ready")
        check("event=device_off device=1" in d.log(), d.log())
        jobs = [d.program("vecadd") for _ in range(3)]
        for j in jobs:
            check(d.wait(j) == 0 and d.job(j)["device"] == 0, d.logs(j))


def test_device_that_cannot_be_brought_up_alone():
    d = with_broken_device(None, 1)
    try:
        check(d.process.wait(30) == 1, "exit code")
        check("no device can be served" in d.log(), d.log())
    finally:
        d.close()
        os.unlink(d.soft)


harness.main()
