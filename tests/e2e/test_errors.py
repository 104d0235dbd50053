# SPDX-License-Identifier: Apache-2.0
"""Bad input and a bad machine: one clear line on stderr, a non-zero exit, nothing else happens."""
import os
import re
import signal
import subprocess

import harness
from harness import Daemon, check


def one_line(result, *words, code=None):
    check(result.returncode != 0 and (code is None or result.returncode == code),
          "exit %d, stderr %r" % (result.returncode, result.stderr))
    check(result.stdout == "", "stdout %r" % result.stdout)
    check(result.stderr.count("\n") == 1 and result.stderr.endswith("\n"), repr(result.stderr))
    for word in words:
        check(word in result.stderr, "%r lacks %r" % (result.stderr, word))


def start_daemon(d, *args):
    return subprocess.run([harness.DAEMON, "--user", "--device", "soft", *args], env=d.env,
                          capture_output=True, text=True, timeout=60, check=False)


def test_no_daemon():
    with Daemon() as d:
        d.stop()
        one_line(d.ctl("list", check_code=False), "gpupresd --user", code=3)
        one_line(d.ctl("submit", "--", "true", check_code=False), "gpupresd --user", code=3)


def test_unknown_jobs_and_bad_arguments():
    with Daemon() as d:
        def bad(*args):
            return d.ctl(*args, check_code=False)
        for verb in ("show", "preempt", "resume", "cancel", "wait", "logs"):
            one_line(bad(verb, "4711"), "4711", code=1)
            one_line(bad(verb, "nobody"), "nobody")
            one_line(bad(verb), code=2)
        one_line(bad("frobnicate"), "frobnicate", code=2)
        one_line(bad("submit", "--mem", "lots", "--", "true"), "lots", code=2)
        one_line(bad("submit", "--mem", "-5M", "--", "true"), "-5M", code=2)
        one_line(bad("submit", "--priority", "high", "--", "true"), "high", code=2)
        one_line(bad("submit", "--priority", "1001", "--", "true"), "1001", code=2)
        one_line(bad("submit", "--env", "novalue", "--", "true"), "novalue", code=2)
        one_line(bad("submit"), code=2)
        one_line(bad("submit", "--", "no-such-command-here"), "no-such-command-here", code=127)
        one_line(bad("preempt", "--to", "mars", "1"), "mars", code=2)
        one_line(bad("submit", "--mem", "64G", "--", "true"), "64 GiB", "1 GiB", code=1)
        check(d.jobs() == [], "a job came of it: %s" % d.jobs())


def test_preempt_of_a_job_without_cuda_and_of_an_ended_one():
    with Daemon() as d:
        ident = d.submit("sleep", "1000")
        d.wait_state(ident, "running")
        one_line(d.ctl("preempt", str(ident), check_code=False), "CUDA", code=1)
        one_line(d.ctl("resume", str(ident), check_code=False) if d.job(ident)["state"] != "running"
                 else d.ctl("preempt", str(ident), check_code=False), str(ident))
        d.ctl("cancel", str(ident))
        one_line(d.ctl("preempt", str(ident), check_code=False), "cancelled", code=1)


def test_second_daemon_on_one_socket():
    with Daemon() as d:
        r = start_daemon(d, "--runtime-dir", d.dir + "/run", "--state-dir", d.dir + "/other")
        one_line(r, "another gpupresd", str(d.process.pid), code=1)
        d.ctl("list")


def test_bad_daemon_arguments():
    with Daemon() as d:
        own = ("--runtime-dir", d.dir + "/run2", "--state-dir", d.dir + "/state2")
        one_line(start_daemon(d, *own, "--arena", "9000G"), "--arena", "RAM", code=1)
        one_line(start_daemon(d, *own, "--swap-dir", "/nonexistent"), "/nonexistent", code=1)
        one_line(start_daemon(d, *own, "--arena", "much"), "much", code=2)
        one_line(start_daemon(d, *own, "--bogus"), "--bogus", code=2)
        one_line(start_daemon(d, *own, "stray"), "stray", code=2)
        r = subprocess.run([harness.DAEMON, "--user", "--device", "nvidia", *own], env=dict(
            d.env, GPUPRES_DRIVER="/nonexistent/libcuda.so.1"), capture_output=True, text=True,
            timeout=60, check=False)
        one_line(r, "/nonexistent/libcuda.so.1", code=1)


def test_command_that_ends_badly():
    with Daemon() as d:
        ident = d.submit("sh", "-c", "echo out; echo err >&2; exit 7")
        check(d.wait(ident) == 7, "exit code")
        check(d.logs(ident) == "out\nerr\n", repr(d.logs(ident)))
        check(d.job(ident)["state"] == "failed", "state")
        ident = d.submit("sh", "-c", "kill -TERM $$")
        check(d.wait(ident) == 143, "exit code")


def test_program_with_a_daemon_of_another_version():
    """It runs on, unmanaged, and says so once."""
    import socket
    import struct
    import threading
    with Daemon() as d:
        path = d.dir + "/fake.sock"
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server.bind(path)
        server.listen(8)

        def refuse():
            try:
                while True:
                    peer, _ = server.accept()
                    hello = peer.recv(8192)
                    kind = struct.unpack_from("<I", hello)[0]
                    # ERROR is the fourth message; HELLO the first.
                    check(kind == 1, "not a hello")
                    body = struct.pack("<iI256s", -71, 0, b"gpupresd 9.9 speaks protocol 7")
                    peer.send(struct.pack("<IIQQII", 4, 32 + len(body), 0, 0, 0, 0) + body)
                    peer.close()
            except OSError:
                pass

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        lib = os.path.join(harness.BUILD, "lib/gpupres")
        env = dict(d.env, GPUPRES_SOCKET=path, GPUPRES_DRIVER=lib + "/soft/libcuda.so.1",
                   LD_LIBRARY_PATH=lib + "/shim:" + lib + "/soft-runtime")
        r = subprocess.run([harness.PROGRAMS + "/vecadd"], env=env, capture_output=True, text=True,
                           timeout=120, check=False)
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        check(r.returncode == 0 and "wrong=0" in r.stdout, r.stdout + r.stderr)
        check(r.stderr.count("\n") == 1 and "protocol 7" in r.stderr, repr(r.stderr))


def test_program_without_a_daemon_runs_silently():
    with Daemon() as d:
        lib = os.path.join(harness.BUILD, "lib/gpupres")
        env = dict(d.env, GPUPRES_SOCKET=d.dir + "/nobody.sock",
                   GPUPRES_DRIVER=lib + "/soft/libcuda.so.1",
                   LD_LIBRARY_PATH=lib + "/shim:" + lib + "/soft-runtime")
        r = subprocess.run([harness.PROGRAMS + "/vecadd"], env=env, capture_output=True, text=True,
                           timeout=120, check=False)
        check(r.returncode == 0 and r.stderr == "", r.stdout + r.stderr)


def test_restart_of_the_daemon_keeps_queue_and_history():
    with Daemon() as d:
        done = d.submit("true")
        check(d.wait(done) == 0, "true failed")
        running = d.submit("sh", "-c", "while [ ! -e %s/go ]; do sleep 0.05; done; exit 5" % d.dir)
        d.wait_state(running, "running")
        d.stop(signal.SIGKILL)
        again = Daemon(fresh_from=d)
        d.process = again.process
        d.ready()
        check(d.job(done)["state"] == "done", "history")
        open(d.dir + "/go", "w").close()
        check(d.wait(running) == 5, "the exit code of a job that outlived the daemon")
        check(d.submit("true") > running, "ids go on")


def test_run_in_the_foreground():
    with Daemon() as d:
        r = d.ctl("run", "--", "sh", "-c", "echo hello; exit 3", check_code=False)
        check(r.returncode == 3 and r.stdout == "hello\n", repr((r.returncode, r.stdout, r.stderr)))
        p = subprocess.Popen([harness.CTL, "run", "--", "sh", "-c", "echo up; sleep 1000"], env=d.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        check(p.stdout.readline() == "up\n", "no output")
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=60)
        check(p.returncode != 0, "exit code %d" % p.returncode)
        check(d.jobs()[-1]["state"] == "cancelled", str(d.jobs()[-1]))


def test_environment_and_working_folder_reach_the_job():
    with Daemon() as d:
        ident = d.submit("sh", "-c", 'echo "$GREETING $PWD"', options=("--env", "GREETING=hi you"))
        check(d.wait(ident) == 0, "exit code")
        check(re.fullmatch(r"hi you %s\n" % re.escape(os.getcwd()), d.logs(ident)), d.logs(ident))


harness.main()
