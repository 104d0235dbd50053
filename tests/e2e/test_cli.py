#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpupresctl against a daemon played by this test."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from fake_daemon import STATES, FakeDaemon, job

PROGRAM = pathlib.Path(os.environ.get("GP_BUILD", "build/dev")).resolve() / "bin/gpupresctl"
REPORT = (800_000, 900_000, 500_000_000, 600_000_000, 0, 0, 0, 2_000_000_000, 0, 2_000_000_000, 0,
          1, 20)


class CliTest(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory(prefix="gpupres-test-")
        self.dir = pathlib.Path(self.tmp.name)
        self.daemon = FakeDaemon(self.dir / "control.sock")
        self.env = {**os.environ, "GPUPRES_RUNTIME_DIR": str(self.dir)}
        self.process = None

    def tearDown(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.communicate()
        self.daemon.close()
        self.tmp.cleanup()

    def start(self, *args, stdout=subprocess.PIPE):
        self.process = subprocess.Popen([PROGRAM, *args], stdout=stdout, stderr=subprocess.PIPE,
                                        text=True, env=self.env, cwd=self.dir)
        return self.daemon.accept()[0]

    def finish(self):
        """(exit status, stdout, stderr)"""
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err

    def run_alone(self, *args):
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, env=self.env,
                              cwd=self.dir, timeout=20)
        return done.returncode, done.stdout, done.stderr

    def answer_list(self, peer, *jobs):
        request = peer.recv("LIST")
        for fields in jobs:
            peer.send("JOB", *fields, cookie=request.cookie)
        peer.send("END", 0, cookie=request.cookie)

    def test_submit_sends_command_environment_and_folder(self):
        self.env["MARK"] = "old"
        peer = self.start("submit", "--priority", "5", "--mem", "1G", "--env", "MARK=new", "--",
                          "true", "a b")
        message = peer.recv("SUBMIT")
        priority, n_args, n_env, n_bytes, mem_bytes, name = message.fields
        self.assertEqual((priority, n_args, mem_bytes), (5, 2, 1 << 30))
        self.assertEqual(name.rstrip(b"\0"), b"true")
        blob = os.pread(message.fds[0], 1 << 20, 0)
        self.assertEqual(len(blob), n_bytes)
        with self.assertRaises(OSError):
            os.ftruncate(message.fds[0], 0)
        os.close(message.fds[0])
        strings = blob.decode().split("\0")
        self.assertEqual(len(strings), n_args + n_env + 2)
        self.assertTrue(os.path.isabs(strings[0]) and strings[0].endswith("/true"))
        self.assertEqual(strings[1], "a b")
        self.assertIn("MARK=new", strings[2:-2])
        self.assertNotIn("MARK=old", strings[2:-2])
        self.assertEqual(strings[-2], str(self.dir.resolve()))
        peer.send("OK", 0, job=12, cookie=message.cookie)
        self.assertEqual(self.finish(), (0, "12\n", ""))

    def test_submit_when_waiting_exits_as_the_job(self):
        peer = self.start("submit", "--wait", "true")
        peer.send("OK", 0, job=12, cookie=peer.recv("SUBMIT").cookie)
        message = peer.recv("WAIT")
        peer.send("JOB", *job(12, "failed", exit_code=9), job=12, cookie=message.cookie)
        self.assertEqual(self.finish(), (9, "12\n", ""))

    def start_run(self, *options, **kwargs):
        """Starts `run`, up to the pending WAIT: (peer, log file, cookie)."""
        peer = self.start("run", *options, "true", **kwargs)
        peer.send("OK", 0, job=3, cookie=peer.recv("SUBMIT").cookie)
        log = open(self.dir / "log", "w", encoding="utf-8")
        self.addCleanup(log.close)
        fd = os.open(self.dir / "log", os.O_RDONLY)
        request = peer.recv("LOGS")
        peer.send("LOG", 0, job=3, cookie=request.cookie, fds=[fd])
        os.close(fd)
        return peer, log, peer.recv("WAIT").cookie

    def test_run_streams_output_as_it_comes(self):
        peer, log, cookie = self.start_run()
        for line in ("first\n", "second\n"):
            log.write(line)
            log.flush()
            self.assertEqual(self.process.stdout.readline(), line)
        log.write("last")
        log.flush()
        peer.send("JOB", *job(3, "done", exit_code=0), job=3, cookie=cookie)
        self.assertEqual(self.finish(), (0, "last", ""))

    def test_run_when_interrupted_cancels_once(self):
        for signo in (signal.SIGINT, signal.SIGTERM):
            peer, _, cookie = self.start_run()
            self.process.send_signal(signo)
            cancel = peer.recv("CANCEL")
            self.assertEqual(cancel.job, 3)
            fields = job(3, "cancelled", exit_code=137, cause="cancelled")
            peer.send("JOB", *fields, job=3, cookie=cancel.cookie)
            peer.send("JOB", *fields, job=3, cookie=cookie)
            self.assertEqual(self.finish(),
                             (137, "", "gpupresctl: job 3 cancelled: cancelled\n"))
            self.assertIsNone(peer.recv())

    def test_run_when_nobody_reads_cancels(self):
        peer, log, cookie = self.start_run()
        self.process.stdout.close()
        self.process.stdout = None
        log.write("x")
        log.flush()
        peer.recv("CANCEL")
        peer.send("JOB", *job(3, "cancelled", exit_code=137), job=3, cookie=cookie)
        self.assertEqual(self.finish()[0], 137)

    def test_run_as_json_does_not_cut_characters(self):
        peer, log, cookie = self.start_run("--json")
        log.buffer.write("x€".encode()[:-1])
        log.flush()
        self.assertEqual(json.loads(self.process.stdout.readline()), {"id": 3, "text": "x"})
        log.buffer.write("€".encode()[-1:])
        log.flush()
        self.assertEqual(json.loads(self.process.stdout.readline()), {"id": 3, "text": "€"})
        peer.send("JOB", *job(3, "done", exit_code=0), job=3, cookie=cookie)
        status, out, _ = self.finish()
        self.assertEqual((status, json.loads(out)["state"]), (0, "done"))

    def test_run_when_the_daemon_ends_says_that_the_job_goes_on(self):
        peer, _, _ = self.start_run()
        peer.close()
        status, _, err = self.finish()
        self.assertEqual(status, 1)
        self.assertRegex(err, r"\Agpupresctl: job 3 goes on [^\n]*\n\Z")

    def test_logs_prints_what_is_there(self):
        (self.dir / "log").write_text("one\ntwo\n")
        peer = self.start("logs", "5")
        request = peer.recv("LOGS")
        self.assertEqual(request.job, 5)
        with open(self.dir / "log", "rb") as log:
            peer.send("LOG", 0, job=5, cookie=request.cookie, fds=[log.fileno()])
        self.assertEqual(self.finish(), (0, "one\ntwo\n", ""))

    def test_preempt_prints_the_report(self):
        peer = self.start("preempt", "5", "--to", "swapped")
        request = peer.recv("PREEMPT")
        self.assertEqual((request.job, request.fields[0]), (5, STATES["swapped"]))
        peer.send("JOB", *job(5, "swapped", report=REPORT), job=5, cookie=request.cookie)
        status, out, _ = self.finish()
        self.assertEqual(status, 0)
        for text in ("job 5 (job): swapped", "mid-kernel        yes", "800.0 us, 20 channels",
                     "2.00 GB in 500.00 ms: 4.0 GB/s", "request to free   600.00 ms"):
            self.assertIn(text, out)

    def test_preempt_as_json_has_the_report(self):
        peer = self.start("--json", "preempt", "5")
        request = peer.recv("PREEMPT")
        peer.send("JOB", *job(5, "swapped", report=REPORT), job=5, cookie=request.cookie)
        record = json.loads(self.finish()[1])
        self.assertEqual(record["report"]["freeze_ns"], 800_000)
        self.assertEqual(record["report"]["mid_kernel"], "yes")

    def test_names_are_looked_up(self):
        jobs = [job(1, "done", name="a"), job(2, "running", name="a"), job(3, name="b"),
                job(4, name="b")]
        peer = self.start("resume", "a")
        self.answer_list(peer, *jobs)
        request = peer.recv("RESUME")
        self.assertEqual(request.job, 2)
        peer.send("JOB", *jobs[1], cookie=request.cookie)
        self.assertEqual(self.finish()[0], 0)
        for name, word in (("b", "2 jobs are named b"), ("c", "no job named c")):
            peer = self.start("cancel", name)
            self.answer_list(peer, *jobs)
            status, out, err = self.finish()
            self.assertEqual((status, out), (1, ""))
            self.assertIn(word, err)

    def test_list_and_devices_as_json(self):
        peer = self.start("list", "--json")
        self.answer_list(peer, job(1, name="a\"\x1b"), job(2))
        status, out, _ = self.finish()
        self.assertEqual([j["name"] for j in json.loads(out)["jobs"]], ["a\"\x1b", "job"])
        peer = self.start("devices", "--json")
        request = peer.recv("DEVICES")
        peer.send("DEVICE", 0, 1, 1 << 30, 1 << 29, 0, 0, 0, 0, b"soft", b"software",
                  cookie=request.cookie)
        peer.send("END", 0, cookie=request.cookie)
        self.assertEqual(json.loads(self.finish()[1])["devices"][0]["free_bytes"], 1 << 29)

    def test_list_when_empty_prints_titles(self):
        peer = self.start("list")
        self.answer_list(peer)
        status, out, _ = self.finish()
        self.assertEqual((status, out.count("\n")), (0, 1))

    def test_error_of_the_daemon_is_one_line(self):
        peer = self.start("resume", "5")
        peer.send("ERROR", -2, 0, b"job 5 cannot go on: no memory", cookie=peer.recv().cookie)
        self.assertEqual(self.finish(), (1, "", "gpupresctl: job 5 cannot go on: no memory\n"))

    def test_wait_passes_the_exit_code_on(self):
        for state, code, want in (("done", 0, 0), ("failed", 7, 7), ("failed", -1, 1),
                                  ("cancelled", -1, 143)):
            peer = self.start("wait", "5")
            peer.send("JOB", *job(5, state, exit_code=code), cookie=peer.recv("WAIT").cookie)
            self.assertEqual(self.finish()[0], want)

    def test_no_daemon_is_status_3_and_says_what_to_do(self):
        self.daemon.close()
        status, out, err = self.run_alone("list")
        self.assertEqual((status, out), (3, ""))
        self.assertRegex(err, r"\Agpupresctl: no daemon answers at \S+/control\.sock: "
                              r"[^\n]*gpupresd --user[^\n]*\n\Z")

    def test_refused_hello_is_reported(self):
        def refuse():
            peer, hello = self.daemon.accept(welcome=False)
            peer.send("ERROR", -71, 0, b"version 1 is not spoken here", cookie=hello.cookie)

        thread = threading.Thread(target=refuse)
        thread.start()
        status, _, err = self.run_alone("list")
        thread.join()
        self.assertEqual((status, err), (1, "gpupresctl: version 1 is not spoken here\n"))

    def test_unknown_command_to_start_is_status_127(self):
        status, _, err = self.run_alone("run", "no-such-command")
        self.assertEqual(status, 127)
        self.assertRegex(err, r"\Agpupresctl: command not found: no-such-command[^\n]*\n\Z")
        self.assertEqual(self.run_alone("run", "/etc/passwd")[0], 126)

    def test_bad_usage_is_status_2(self):
        status, out, err = self.run_alone("preempt", "--to", "nowhere", "1")
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(err, r"\Agpupresctl: [^\n]+\n\Z")

    def test_completion_is_valid_bash_and_completes(self):
        script = self.run_alone("completion", "bash")[1]
        probe = script + ('COMP_WORDS=(gpupresctl pre); COMP_CWORD=1; _gpupresctl\n'
                          'echo "${COMPREPLY[@]}"\n'
                          'COMP_WORDS=(gpupresctl --socket /x preempt --to sw); COMP_CWORD=5\n'
                          '_gpupresctl; echo "${COMPREPLY[@]}"\n'
                          'COMP_WORDS=(gpupresctl submit --p); COMP_CWORD=2; _gpupresctl\n'
                          'echo "${COMPREPLY[@]}"\n')
        done = subprocess.run(["bash", "-u", "-c", probe], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("preempt\nswapped\n--priority\n", ""))


if __name__ == "__main__":
    if not PROGRAM.exists():
        sys.exit(f"{PROGRAM} is not built")
    unittest.main()
