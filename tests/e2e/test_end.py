# SPDX-License-Identifier: Apache-2.0
"""Jobs that are ended in every state: nothing may be left of them on the device or the machine."""
import os
import signal

import harness
from harness import Daemon, check, wait_until

FILL = ("fill", "--mb", "128", "--rounds", "100000")


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def running_kernel(daemon):
    ident = daemon.program(*FILL)
    daemon.wait_memory(ident, 128 * harness.MIB)
    wait_until(lambda: "running" in daemon.logs(ident), "the long kernel")
    return ident


def ended(daemon, ident, state):
    job = daemon.wait_state(ident, state)
    wait_until(lambda: not alive(job["pid"]), "the end of pid %d" % job["pid"])
    daemon.check_nothing_leaked()
    return job


def test_cancel_when_frozen():
    with Daemon() as d:
        d.note_free()
        ident = running_kernel(d)
        check(d.json("preempt", "--to", "frozen", str(ident))["state"] == "frozen", "not frozen")
        d.ctl("cancel", str(ident))
        ended(d, ident, "cancelled")


def test_cancel_when_swapped():
    with Daemon() as d:
        d.note_free()
        ident = running_kernel(d)
        d.ctl("preempt", str(ident))
        d.ctl("cancel", str(ident))
        ended(d, ident, "cancelled")


def test_cancel_when_swapped_and_device_full():
    """Even the scratch that a swapped job is ended on must find room, or be retried."""
    with Daemon(memory="512M") as d:
        d.note_free()
        ident = running_kernel(d)
        d.ctl("preempt", str(ident))
        free = d.device()["free_bytes"]
        other = d.program("fill", "--mb", str(free // harness.MIB - 16), "--rounds", "100000")
        d.wait_memory(other, free - 32 * harness.MIB)
        d.ctl("cancel", str(ident))
        d.wait_state(ident, "cancelled")
        d.ctl("cancel", str(other))
        ended(d, other, "cancelled")


def test_cancel_when_running_and_queued():
    with Daemon() as d:
        d.note_free()
        ident = running_kernel(d)
        queued = d.program("fill", "--mb", "16", options=("--mem", "1000M", "--priority", "-1"))
        check(d.job(queued)["state"] == "queued", "it should not fit")
        d.ctl("cancel", str(queued))
        check(d.job(queued)["state"] == "cancelled", "not cancelled")
        d.ctl("cancel", str(ident))
        ended(d, ident, "cancelled")


def kill_in(state):
    with Daemon() as d:
        d.note_free()
        ident = running_kernel(d)
        d.ctl("preempt", "--to", state, str(ident))
        os.kill(d.job(ident)["pid"], signal.SIGKILL)
        job = ended(d, ident, "failed")
        check(job["exit_code"] == 137, "exit code %d" % job["exit_code"])
        # The device still serves.
        again = d.program("vecadd")
        check(d.wait(again) == 0, "a job after it: " + d.logs(again))
        d.check_nothing_leaked()


def test_kill_when_frozen():
    kill_in("frozen")


def test_kill_when_swapped():
    kill_in("swapped")


def test_kill_of_the_supervisor():
    with Daemon() as d:
        d.note_free()
        ident = d.submit("sh", "-c", "cat /proc/self/stat; exec sleep 1000")
        d.wait_state(ident, "running")
        pid = d.job(ident)["pid"]
        with open("/proc/%d/stat" % pid) as f:
            supervisor = int(f.read().rsplit(")", 1)[1].split()[1])
        os.kill(supervisor, signal.SIGKILL)
        d.wait_state(ident, "failed")
        os.kill(pid, signal.SIGKILL)


def test_kill_of_the_mover_when_frozen_and_swapped():
    """The mover holds the saved bytes: a swapped job fails and says why; a frozen one lives on."""
    with Daemon() as d:
        d.note_free()
        frozen, swapped = running_kernel(d), running_kernel(d)
        d.ctl("preempt", "--to", "frozen", str(frozen))
        d.ctl("preempt", str(swapped))
        with open("/proc/%d/task/%d/children" % (d.process.pid, d.process.pid)) as f:
            children = [int(p) for p in f.read().split()]
        for pid in children:
            with open("/proc/%d/comm" % pid) as f:
                if f.read().strip() == "gpupres-mover":
                    os.kill(pid, signal.SIGKILL)
        job = d.wait_state(swapped, "failed")
        check("gpupres-mover" in job["cause"], job["cause"])
        d.ctl("resume", str(frozen))
        d.wait_state(frozen, "running")
        d.ctl("cancel", str(frozen))
        ended(d, frozen, "cancelled")


def restart_with(how, state):
    """Saved bytes go with the daemon's mover. Such a job is ended and says why; nothing hangs on."""
    with Daemon() as d:
        ident = running_kernel(d)
        d.ctl("preempt", "--to", state, str(ident))
        pid = d.job(ident)["pid"]
        d.stop(how)
        d.process = Daemon(fresh_from=d).process
        d.ready()
        if state == "frozen":
            check(d.job(ident)["state"] == "running", str(d.job(ident)))
            check("thaws itself" in d.job(ident)["cause"], d.job(ident)["cause"])
            os.kill(pid, signal.SIGKILL)  # a cancel would wait for the thaw
            d.wait_state(ident, "failed")
        else:
            job = d.wait_state(ident, "failed")
            check("memory was lost" in job["cause"] and "swapped" in job["cause"], job["cause"])
        wait_until(lambda: not alive(pid), "the end of pid %d" % pid)
        # The device still serves.
        again = d.program("vecadd")
        check(d.wait(again) == 0, "a job after it: " + d.logs(again))


def test_restart_after_a_kill_with_a_swapped_job():
    restart_with(signal.SIGKILL, "swapped")


def test_restart_in_order_with_a_swapped_job():
    restart_with(signal.SIGTERM, "swapped")


def test_restart_with_a_frozen_job():
    restart_with(signal.SIGTERM, "frozen")


harness.main()
