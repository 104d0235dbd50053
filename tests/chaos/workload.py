# SPDX-License-Identifier: Apache-2.0
"""The jobs of the chaos test: random commands whose right output is known.

A command is made of runs of test programs, (program, arguments); the reference of a run is the hash
that it prints undisturbed, together with wrong=0, which is the program's own check on the CPU.
"""
import os
import re

import harness

# Half a second to a few seconds of one core each, on the software device.
SHORT = [
    ("vecadd", 48, ("--mb", "48", "--rounds", "10")),
    ("matmul", 8, ("--mb", "8", "--rounds", "1")),
    ("reduce", 32, ("--mb", "32", "--rounds", "20")),
    ("histogram", 32, ("--mb", "32", "--rounds", "4")),
    ("nbody", 8, ("--bodies", "2048", "--rounds", "20")),
    ("mandelbrot", 10, ("--mb", "10", "--rounds", "400")),
    ("blackscholes", 40, ("--mb", "40", "--rounds", "6")),
    ("mlp", 32, ("--mb", "32", "--rounds", "20")),
    ("streams", 48, ("--mb", "48", "--rounds", "5")),
    ("urgent", 100, ("--mb", "100", "--rounds", "2")),
    ("urgent", 250, ("--mb", "250", "--rounds", "2")),
]
# Most of it in one kernel.
LONG = [
    ("fill", 64, ("--mb", "64", "--rounds", "150", "--unique", "1")),
    ("fill", 128, ("--mb", "128", "--rounds", "80", "--unique", "1")),
    ("fill", 280, ("--mb", "280", "--rounds", "40")),
]
RUNS = SHORT + LONG
# What contexts and small allocations of one process take beside the memory that is asked for.
BESIDES_MB = 64


class Run:
    """One run of one program."""

    def __init__(self, spec):
        self.program, self.mb, self.args = spec

    def key(self):
        return " ".join((self.program, *self.args))

    def argv(self):
        return [os.path.join(harness.PROGRAMS, self.program), *self.args]

    def shell(self):
        return " ".join(self.argv())


class Job:
    """What was submitted, and what the test did to it."""

    def __init__(self, name, argv, runs, mem_mb, priority, may_lack_memory=False):
        self.name, self.argv, self.runs = name, argv, runs
        self.mem_mb, self.priority = mem_mb, priority
        self.may_lack_memory = may_lack_memory  # it declares no memory: refused where nobody yields
        self.id = None
        self.killed = []  # by what; such a job may fail
        self.cancelled = False

    def options(self):
        memory = ("--mem", "%dM" % self.mem_mb) if self.mem_mb else ()
        return ("--name", self.name, "--priority", str(self.priority), *memory)

    def wrong(self, output, references):
        """Why the output of a job that is done is not the right one; None if it is."""
        lines = re.findall(r"^(\w+) hash=(\S+) wrong=(\d+)", output, re.M)
        expected = sorted((r.program, references[r.key()], "0") for r in self.runs)
        return None if sorted(lines) == expected else "output %r instead of %r" % (output, expected)


def single(rng, name):
    run = Run(rng.choice(RUNS))
    return Job(name, run.argv(), [run], run.mb + BESIDES_MB, rng.randrange(-3, 4))


def parallel(rng, name):
    """Processes with CUDA side by side: preempted as one."""
    runs = [Run(rng.choice([s for s in RUNS if s[1] <= 64])) for _ in range(rng.choice((2, 2, 3)))]
    script = "p=; %s for i in $p; do wait $i || exit; done" % "".join(
        "%s & p=\"$p $!\"; " % r.shell() for r in runs)
    return Job(name, ["sh", "-c", script], runs,
               sum(r.mb + BESIDES_MB for r in runs), rng.randrange(-3, 4))


def forking(rng, name):
    """One process after the other, at different depths of the tree."""
    a, b = (Run(rng.choice([s for s in SHORT if s[1] <= 100])) for _ in range(2))
    script = "sh -c '%s & wait $!' && (%s) && true" % (a.shell(), b.shell())
    return Job(name, ["sh", "-c", script], [a, b], max(a.mb, b.mb) + BESIDES_MB,
               rng.randrange(-3, 4))


def greedy(rng, name):
    """Says nothing of its memory, and takes what is there; it yields to all others, which may have
    been promised that."""
    run = Run(rng.choice([s for s in RUNS if s[1] >= 100]))
    return Job(name, run.argv(), [run], 0, rng.randrange(-9, -4), may_lack_memory=True)


def plain(rng, name):
    """No CUDA at all."""
    return Job(name, ["sh", "-c", "for i in 1 2 3; do sleep 0.%d; done" % rng.randrange(1, 9)], [],
               0, rng.randrange(-3, 4))


def random_job(rng, name):
    kinds = [single] * 6 + [parallel] * 3 + [forking] * 2 + [greedy, plain]
    return rng.choice(kinds)(rng, name)
