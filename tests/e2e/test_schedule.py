# SPDX-License-Identifier: Apache-2.0
"""Who yields to whom: priorities, allocation pressure, coming back by itself."""
import harness
from harness import Daemon, MIB, check, wait_until


def urgent_beside_fill(*options):
    """A job that does not fit beside one of lower priority: both end right, the other once evicted."""
    with Daemon() as d:
        d.note_free()
        low = d.program("fill", "--mb", "600", "--rounds", "12", options=("--name", "low"))
        d.wait_memory(low, 600 * MIB)
        wait_until(lambda: "running" in d.logs(low), "the long kernel")
        high = d.program("urgent", "--mb", "500", options=("--priority", "10", *options))
        check(d.wait(high) == 0, "urgent failed: " + d.logs(high))
        check(d.job(low)["n_preemptions"] == 1, "the low job was not preempted")
        check(d.wait(low) == 0, "the low job failed: " + d.logs(low))
        check("wrong=0" in d.logs(low), d.logs(low))
        d.check_nothing_leaked()


def test_high_priority_evicts_low_and_low_comes_back():
    urgent_beside_fill("--mem", "500M")


def test_allocation_over_what_is_free_evicts_lower_priority():
    """No --mem: the need shows only when the program allocates."""
    urgent_beside_fill()


def test_allocation_that_nobody_yields_to_is_refused():
    """The program gets the driver's own out-of-memory error, and soon."""
    with Daemon() as d:
        d.note_free()
        first = d.program("fill", "--mb", "600", "--rounds", "100000")
        d.wait_memory(first, 600 * MIB)
        second = d.program("fill", "--mb", "600")
        check(d.wait(second) == 2, "exit code")
        check("memory" in d.logs(second), d.logs(second))
        check(d.job(first)["n_preemptions"] == 0, "the first job was preempted")
        d.ctl("cancel", str(first))
        d.check_nothing_leaked()


def test_held_job_stays_until_resumed_by_hand():
    with Daemon() as d:
        d.note_free()
        held = d.program("fill", "--mb", "100", "--rounds", "60")
        d.wait_memory(held, 100 * MIB)
        d.ctl("preempt", str(held))
        other = d.program("vecadd")
        check(d.wait(other) == 0, d.logs(other))
        job = d.job(held)
        check(job["state"] == "swapped" and job["held"], str(job))
        d.ctl("resume", str(held))
        check(d.wait(held) == 0, d.logs(held))
        d.check_nothing_leaked()


def test_frozen_keeps_its_memory_and_others_run():
    with Daemon() as d:
        d.note_free()
        ident = d.program("fill", "--mb", "100", "--rounds", "60")
        d.wait_memory(ident, 100 * MIB)
        d.ctl("preempt", "--to", "frozen", str(ident))
        check(d.job(ident)["device_bytes"] >= 100 * MIB, "its memory is gone")
        other = d.program("vecadd")
        check(d.wait(other) == 0, d.logs(other))
        job = d.json("preempt", "--to", "swapped", str(ident))
        check(job["state"] == "swapped" and d.job(ident)["device_bytes"] == 0, str(job))
        d.ctl("resume", str(ident))
        check(d.wait(ident) == 0, d.logs(ident))
        d.check_nothing_leaked()


def test_two_processes_of_one_job_are_preempted_as_one():
    with Daemon() as d:
        d.note_free()
        fill = harness.PROGRAMS + "/fill"
        ident = d.submit("sh", "-c", "%s --mb 64 --rounds 60 & %s --mb 64 --rounds 60; r=$?; wait $! "
                         "&& exit $r" % (fill, fill))
        d.wait_memory(ident, 128 * MIB)
        d.ctl("preempt", str(ident))
        check(d.job(ident)["device_bytes"] == 0, "memory left")
        check(d.job(ident)["saved_bytes"] >= 128 * MIB, "not both saved")
        d.ctl("resume", str(ident))
        check(d.wait(ident) == 0, d.logs(ident))
        check(d.logs(ident).count("wrong=0") == 2, d.logs(ident))
        d.check_nothing_leaked()


def test_freeze_that_fails_now_and_then_is_retried():
    with Daemon(env={"GPUPRES_SOFT_FREEZE_FAIL": "2"}) as d:
        d.note_free()
        ident = d.program("fill", "--mb", "64", "--rounds", "200")
        d.wait_memory(ident, 64 * MIB)
        for _ in range(5):
            d.ctl("preempt", str(ident))
            d.ctl("resume", str(ident))
        check(d.wait(ident) == 0, d.logs(ident))
        d.check_nothing_leaked()


def test_small_job_far_behind_in_the_queue_is_started():
    # More than a decision looks at first.
    with Daemon(memory="1G") as d:
        holder = d.submit("/bin/sleep", "1000", options=("--mem", "600M"))
        d.wait_state(holder, "running")
        large = [d.submit("/bin/true", options=("--mem", "700M")) for _ in range(150)]
        small = d.submit("/bin/sh", "-c", "exit 7", options=("--mem", "16M"))
        check(d.wait(small) == 7, "the small job ended otherwise")
        check(d.job(large[0])["state"] == "queued", "a large one was started")
        d.ctl("cancel", str(holder))
        for job in large:
            check(d.wait(job) == 0, "job %d" % job)


harness.main()
