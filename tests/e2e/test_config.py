# SPDX-License-Identifier: Apache-2.0
"""gpupresd.conf: what wins over what, --check-config, and SIGHUP while jobs run."""
import os
import re
import signal
import subprocess
import tempfile

import harness
from harness import Daemon, check, wait_until


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def check_config(home, *args, mode="--user"):
    env = {k: v for k, v in os.environ.items() if k not in ("GPUPRES_RUNTIME_DIR",)}
    env.update(HOME=home, XDG_CONFIG_HOME=home + "/config", XDG_STATE_HOME=home + "/state",
               XDG_RUNTIME_DIR=home + "/run")
    argv = [harness.DAEMON, "--check-config", *([mode] if mode else []), *args]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)


def value(result, key):
    check(result.returncode == 0, "exit %d: %s" % (result.returncode, result.stderr))
    found = re.search(r"^%s =(?: (.*?))? +# (.*)$" % key, result.stdout, re.MULTILINE)
    check(found, "no %s in %s" % (key, result.stdout))
    return found.group(1) or "", found.group(2)


def test_check_config_says_where_each_value_comes_from():
    with tempfile.TemporaryDirectory() as home:
        main = home + "/config/gpupres/gpupresd.conf"
        write(main, "[memory]\nswap_max = 1G\narena = 512M\n[timeouts]\nterm=7s\n")
        write(home + "/config/gpupres/conf.d/20-b.conf", "[memory]\nswap_max = 3G\n")
        write(home + "/config/gpupres/conf.d/10-a.conf", "[memory]\nswap_max = 2G\n")
        write(home + "/config/gpupres/conf.d/30-c.conf~", "nonsense")
        r = check_config(home, "--arena", "256M")
        check(value(r, "swap_max") == ("3G", home + "/config/gpupres/conf.d/20-b.conf:2"), r.stdout)
        check(value(r, "arena") == ("256M", "--arena"), r.stdout)
        check(value(r, "term") == ("7s", main + ":5"), r.stdout)
        check(value(r, "log_level") == ("info", "default"), r.stdout)
        check(value(r, "swap_dir") == (home + "/state/gpupres", "default"), r.stdout)
        write(home + "/only.conf", "[daemon]\nlog_level = err")
        r = check_config(home, "--config", home + "/only.conf")
        check(value(r, "log_level")[0] == "err" and value(r, "swap_max")[0] == "64G", r.stdout)
        check(sorted(os.listdir(home)) == ["config", "only.conf"], str(os.listdir(home)))


def test_output_of_check_config_is_a_configuration_of_the_same_values():
    with tempfile.TemporaryDirectory() as home:
        first = check_config(home, "--arena", "1.5G", "--swap-dir", home, mode=None)
        check(value(first, "group")[0] == "gpupres", first.stdout)
        check(value(first, "runtime_dir")[0] == "/run/gpupres", first.stdout)
        write(home + "/again.conf", first.stdout)
        second = check_config(home, "--config", home + "/again.conf", mode=None)

        def bare(r):
            check(r.returncode == 0, r.stderr)
            return [line.split("#")[0].rstrip() for line in r.stdout.splitlines()]
        check(bare(first) == bare(second), first.stdout + second.stdout)


def test_check_config_names_all_faults():
    with tempfile.TemporaryDirectory() as home:
        main, drop = home + "/config/gpupres/gpupresd.conf", home + "/config/gpupres/conf.d/x.conf"
        write(main, "arena = 1G\n[memory]\narena = much\nswapmax = 1G\n[nothing]\nx = y\n")
        write(drop, "[history]\ndays = 0")
        r = check_config(home)
        check(r.returncode == 1 and r.stdout == "", repr(r))
        lines = r.stderr.splitlines()
        check([line.split(": ")[1] for line in lines] ==
              ["%s:%d" % (main, n) for n in (1, 3, 4, 5)] + [drop + ":2"], r.stderr)
        check("much" in lines[1] and "512M" in lines[1] and "swap_max" in lines[2], r.stderr)
        r = check_config(home, "--config", home + "/none.conf")
        check(r.returncode == 1 and r.stderr.count("\n") == 1 and "/none.conf" in r.stderr, repr(r))
        r = check_config(home, "--arena", "much")
        check(r.returncode == 2 and r.stderr.count("\n") == 1, repr(r))


def test_daemon_does_not_start_with_a_fault():
    with tempfile.TemporaryDirectory() as home:
        write(home + "/bad.conf", "[memory]\narena = much\nswap_max = more\n")
        r = subprocess.run([harness.DAEMON, "--user", "--config", home + "/bad.conf"],
                           capture_output=True, text=True, timeout=60, check=False)
        check(r.returncode == 2 and r.stderr.count("\n") == 2, repr(r))


def test_hangup_reloads_what_may_change_and_names_the_rest():
    with Daemon(log_level=None) as d:
        conf = d.dir + "/config/gpupres/gpupresd.conf"

        def reload(text):
            before = len(d.log())
            write(conf, text)
            d.process.send_signal(signal.SIGHUP)
            wait_until(lambda: re.search(r"event=config-(reloaded|kept) .*\n", d.log()[before:]),
                       "the end of a reload")
            return d.log()[before:]

        log = reload("[daemon]\nlog_level = debug\ndevices = 1\n[memory]\nswap_max = 1G\n")
        check('changed="daemon.log_level: info -> debug"' in log, log)
        check(re.search(r'warn .*key=memory\.swap_max .*new="1G".*after a restart', log), log)
        check("devices" not in log, log)
        log = reload("[daemon]\nlog_level = err\nlog_levl = err\n[timeouts]\nterm = soon\n")
        check(log.count("event=config-fault") == 2 and ":3:" in log and ":5:" in log, log)
        check("event=config-kept" in log, log)
        reload("[daemon]\nlog_level = warn\n")
        before = len(d.log())
        check(d.wait(d.submit("true")) == 0, "true failed")
        check("info " not in d.log()[before:] and "debug " not in d.log()[before:], d.log())


def test_options_win_over_a_reload_and_a_job_outlives_it():
    with Daemon() as d:
        ident = d.submit("sleep", "1000")
        d.wait_state(ident, "running")
        write(d.dir + "/config/gpupres/gpupresd.conf",
              "[daemon]\nlog_level = err\n[timeouts]\nterm = 100ms\n")
        d.process.send_signal(signal.SIGHUP)
        wait_until(lambda: 'changed="timeouts.term: 5s -> 100ms"' in d.log(), "a reload")
        check(d.job(ident)["state"] == "running", "the job ended")


harness.main()
