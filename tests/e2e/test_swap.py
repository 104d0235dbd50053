# SPDX-License-Identifier: Apache-2.0
"""What the arena does not hold goes to disk; when the disk is full nothing is lost."""
import harness
from harness import Daemon, MIB, check, wait_until


def running_fill(d, mb, rounds=10):
    """Its chunks are all different and none is zero, from before the long kernel begins."""
    ident = d.program("fill", "--mb", str(mb), "--rounds", str(rounds), "--unique", "1")
    d.wait_memory(ident, mb * MIB)
    wait_until(lambda: "running" in d.logs(ident), "the long kernel")
    return ident


def test_overflow_goes_to_disk_and_comes_back():
    with Daemon(arena="128M") as d:
        d.note_free()
        ident = running_fill(d, 400)
        report = d.json("preempt", str(ident))["report"]
        check(report["disk_bytes"] >= 200 * MIB, "on disk: %d" % report["disk_bytes"])
        check(report["arena_bytes"] > 0, "nothing in the arena")
        d.ctl("resume", str(ident))
        check(d.wait(ident) == 0, d.logs(ident))
        d.check_nothing_leaked()


def test_full_swap_leaves_the_job_running():
    with Daemon(arena="128M", args=("--swap-max", "64M")) as d:
        d.note_free()
        ident = running_fill(d, 400)
        r = d.ctl("preempt", str(ident), check_code=False)
        check(r.returncode == 1, "exit %d" % r.returncode)
        check(r.stderr.count("\n") == 1 and "swap" in r.stderr, r.stderr)
        d.wait_state(ident, "running")
        check(d.wait(ident) == 0, d.logs(ident))
        check("wrong=0" in d.logs(ident), d.logs(ident))
        d.check_nothing_leaked()


def test_allocation_of_several_extents():
    """Over 1 GiB in one allocation: several extents, given back one by one, one range to the program."""
    with Daemon(memory="2G", arena="1300M") as d:
        d.note_free()
        ident = running_fill(d, 1100, 4)
        report = d.json("preempt", str(ident))["report"]
        check(report["total_bytes"] >= 1100 * MIB, str(report))
        check(d.job(ident)["device_bytes"] == 0, "memory left on the device")
        d.ctl("resume", str(ident))
        check(d.wait(ident) == 0, d.logs(ident))
        check("wrong=0" in d.logs(ident), d.logs(ident))
        d.check_nothing_leaked()


def test_zero_chunks_take_no_room():
    with Daemon() as d:
        d.note_free()
        ident = running_fill(d, 64)
        report = d.json("preempt", str(ident))["report"]
        check(report["total_bytes"] == report["zero_bytes"] + report["arena_bytes"] +
              report["disk_bytes"], str(report))
        d.ctl("resume", str(ident))
        check(d.wait(ident) == 0, d.logs(ident))


harness.main()
