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
        check(not alive(pid), "pid %d lives" % pid)


def kill_of_the_supervisor_in(state):
    """What is left of the job is ended as well, frozen or without its memory as it may be."""
    with Daemon() as d:
        d.note_free()
        ident = d.submit("sh", "-c", "%s/fill --mb 128 --rounds 100000 & sleep 1000"
                         % harness.PROGRAMS)
        d.wait_memory(ident, 128 * harness.MIB)
        wait_until(lambda: "running" in d.logs(ident), "the long kernel")
        d.ctl("preempt", "--to", state, str(ident))
        pid = d.job(ident)["pid"]
        with open("/proc/%d/stat" % pid) as f:
            os.kill(int(f.read().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
        job = ended(d, ident, "failed")
        check(job["cause"] == "its supervisor is gone", job["cause"])


def test_kill_of_the_supervisor_when_frozen():
    kill_of_the_supervisor_in("frozen")


def test_kill_of_the_supervisor_when_swapped():
    kill_of_the_supervisor_in("swapped")


def long_kernel(daemon, rounds=40):
    """One that ends by itself, and then says whether every byte is right."""
    ident = daemon.program("fill", "--mb", "128", "--rounds", str(rounds), "--unique", "1")
    daemon.wait_memory(ident, 128 * harness.MIB)
    wait_until(lambda: "running" in daemon.logs(ident), "the long kernel")
    return ident


def goes_on(daemon, ident):
    check(daemon.wait(ident) == 0, "job %d: %s" % (ident, daemon.job(ident)["cause"]))
    check("wrong=0" in daemon.logs(ident), daemon.logs(ident))


def movers_of(daemon):
    """By the locks they hold, as a new daemon finds them."""
    with open("/proc/locks") as f:
        locks = [line.split() for line in f]
    lock = os.stat(daemon.dir + "/run/mover-0.lock")
    return [int(l[4]) for l in locks if l[1] == "POSIX" and l[3] == "WRITE" and
            int(l[5].split(":")[2]) == lock.st_ino]


def kill_mover(daemon):
    pid = wait_until(lambda: movers_of(daemon), "the mover's lock")[0]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), "the end of the mover")
    return pid


def held(daemon, ident, state):
    """Once it is decided what became of the job, it is what it was."""
    daemon.ctl("preempt", str(ident), "--to", state)
    job = daemon.job(ident)
    check(job["state"] == state and job["held"], str(job))


def test_kill_of_the_mover_when_frozen_and_swapped():
    """What it had saved outlives it: nothing is lost, and who is held stays so."""
    with Daemon(memory="2G", arena="128M") as d:  # one of the two is saved on disk
        d.note_free()
        frozen, swapped, other = (long_kernel(d) for _ in range(3))
        d.ctl("preempt", "--to", "frozen", str(frozen))
        d.ctl("preempt", str(swapped))
        d.ctl("preempt", str(other))
        old = kill_mover(d)
        wait_until(lambda: movers_of(d) not in ([], [old]), "the next mover")
        for ident, state in (frozen, "frozen"), (swapped, "swapped"), (other, "swapped"):
            held(d, ident, state)
            d.ctl("resume", str(ident))
        for ident in frozen, swapped, other:
            goes_on(d, ident)
        d.check_nothing_leaked()


def restart(daemon, how):
    daemon.stop(how)
    daemon.process = Daemon(fresh_from=daemon).process
    daemon.ready()


def restart_with(how, state):
    with Daemon() as d:
        d.note_free()
        ident = long_kernel(d)
        d.ctl("preempt", "--to", state, str(ident))
        movers = movers_of(d)
        restart(d, how)
        check(movers_of(d) == movers, "another mover")
        held(d, ident, state)
        d.ctl("resume", str(ident))
        goes_on(d, ident)
        # The device still serves.
        again = d.program("vecadd")
        check(d.wait(again) == 0, "a job after it: " + d.logs(again))
        d.check_nothing_leaked()


def test_restart_after_a_kill_with_a_swapped_job():
    restart_with(signal.SIGKILL, "swapped")


def test_restart_in_order_with_a_swapped_job():
    restart_with(signal.SIGTERM, "swapped")


def test_restart_after_a_kill_with_a_frozen_job():
    restart_with(signal.SIGKILL, "frozen")


def test_restart_in_order_with_a_frozen_job():
    restart_with(signal.SIGTERM, "frozen")


def test_restart_with_a_running_job():
    with Daemon() as d:
        d.note_free()
        ident = long_kernel(d, 200)
        restart(d, signal.SIGKILL)
        held(d, ident, "swapped")
        d.ctl("resume", str(ident))
        goes_on(d, ident)
        d.check_nothing_leaked()


def test_restart_with_a_cancel_of_a_swapped_job():
    with Daemon() as d:
        d.note_free()
        ident = long_kernel(d)
        d.ctl("preempt", str(ident))
        restart(d, signal.SIGKILL)
        d.ctl("cancel", str(ident))
        ended(d, ident, "cancelled")


def test_kill_of_daemon_and_mover_with_a_swapped_job():
    """Nobody has its bytes any more: it is ended, and says why; a frozen one lives on."""
    with Daemon() as d:
        d.note_free()
        swapped, frozen = long_kernel(d), long_kernel(d)
        d.ctl("preempt", str(swapped))
        d.ctl("preempt", "--to", "frozen", str(frozen))
        d.stop(signal.SIGKILL)
        kill_mover(d)
        d.process = Daemon(fresh_from=d).process
        d.ready()
        job = d.wait_state(swapped, "failed")
        check("saved memory was lost" in job["cause"], job["cause"])
        held(d, frozen, "frozen")
        d.ctl("resume", str(frozen))
        goes_on(d, frozen)
        d.check_nothing_leaked()


harness.main()
