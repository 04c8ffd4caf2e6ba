#!/usr/bin/env python3
"""partita remote serve, sessions and stop, as people use them."""
import csv
import json
import os
import pathlib
import pwd
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PARTITA = os.environ.get("PARTITA", "")
PROGRAMS = pathlib.Path(PARTITA).parent / "remote" / "programs"
PATIENCE = 60


def run(*words):
    return subprocess.run([PARTITA, "remote", *words], capture_output=True, text=True,
                          timeout=PATIENCE)


class Serve(unittest.TestCase):
    def setUp(self):
        # Workers of a server that was killed may still write as they end.
        self.folder = tempfile.TemporaryDirectory(prefix="partita-serve-",
                                                  ignore_cleanup_errors=True)
        self.path = pathlib.Path(self.folder.name)
        self.server = None

    def tearDown(self):
        if self.server and self.server.poll() is None:
            self.server.kill()
            self.server.wait()
        if self.server:
            self.server.stdout.close()
            self.server.stderr.close()
        self.folder.cleanup()

    def start(self, *words):
        self.server = subprocess.Popen(
            [PARTITA, "remote", "serve", "--listen", f"unix:{self.path}/sock", "--state-dir",
             str(self.path / "state"), *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.server.stdout.readline()
        self.assertEqual(line, f"listening on unix:{self.path}/sock\n")

    def sessions(self):
        answer = run("sessions", "--state-dir", str(self.path / "state"), "--format", "json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def ready(self):
        servers = self.sessions()  # the file comes a moment after the line
        return servers[0]["ready"] if servers else -1

    def until(self, condition):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.02)
        return False

    def test_a_server_says_what_it_does_and_ends_when_asked(self):
        metrics = self.path / "metrics"
        self.start("--shape", "CPU-1", "--shape", "CPU-1", "--warm", "2", "--metrics", str(metrics))
        self.assertTrue(self.until(lambda: self.ready() == 2))
        self.assertEqual(self.sessions()[0]["parts"], 2)
        self.assertTrue(self.until(
            lambda: "partita_remote_ready_workers 2\n" in metrics.read_text()))
        with socket.socket(socket.AF_UNIX) as stranger:  # whoever speaks another language
            stranger.connect(str(self.path / "sock"))
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            self.assertEqual(self.sessions()[0]["sessions"], [])
        self.assertEqual(run("stop", "7", "--state-dir", str(self.path / "state")).returncode, 2)
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(PATIENCE), 0)
        self.assertFalse((self.path / "sock").exists())
        self.assertEqual(self.sessions(), [])

    def test_a_killed_server_takes_its_workers_along(self):
        self.start("--warm", "1")
        self.assertTrue(self.until(lambda: self.ready() == 1))
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.server.pid)],
                                  capture_output=True, text=True).stdout.split()
        self.assertEqual(len(children), 1)  # the zygote
        workers = subprocess.run(["ps", "-o", "pid=", "--ppid", children[0]],
                                 capture_output=True, text=True).stdout.split()
        self.assertEqual(len(workers), 1)
        self.server.kill()
        self.server.wait()

        def gone(pid):
            try:
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                return True
            return state == "Z"
        self.assertTrue(self.until(lambda: all(gone(pid) for pid in children + workers)))
        self.assertEqual(self.sessions(), [])
        self.server.stdout.close()
        self.server.stderr.close()
        self.start("--warm", "1")  # on the same address

    def needs_programs(self):
        if not (PROGRAMS / "launches").exists():
            self.skipTest("the CUDA programs are not built here")

    def program(self, *words, environment=None):
        """`launches` under this server."""
        self.needs_programs()
        running = subprocess.Popen(
            [PARTITA, "remote", "run", "--server", f"unix:{self.path}/sock", "--",
             str(PROGRAMS / "launches"), *words], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        self.addCleanup(running.stderr.close)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        return running

    def in_session(self, *words):
        """`launches` that has a session, and what the server says of it."""
        running = self.program(*words)
        found = []

        def has_one():
            servers = self.sessions()
            found[:] = servers[0]["sessions"] if servers else []
            return bool(found)
        self.assertTrue(self.until(has_one))
        return running, found[0]

    def test_a_client_that_always_has_more_is_stopped(self):
        self.start("--shape", "CPU-1")
        running, session = self.in_session("forever")
        time.sleep(0.2)
        self.assertEqual(running.poll(), None)
        stopped = run("stop", str(session["session"]), "--state-dir", str(self.path / "state"))
        self.assertEqual(stopped.returncode, 0, stopped.stderr)
        self.assertNotEqual(running.wait(PATIENCE), 0)
        self.assertTrue(self.until(lambda: not self.sessions()[0]["sessions"]))

    def test_limits_of_time_end_sessions(self):
        self.start("--shape", "CPU-1", "--shape", "CPU-1", "--idle-limit", "300ms", "--wall-limit",
                   "1s")
        begin = time.monotonic()
        idle, session = self.in_session("idle")
        self.assertTrue(self.until(lambda: not self.sessions()[0]["sessions"]))
        idle_end = time.monotonic() - begin
        self.assertGreaterEqual(idle_end, 0.3)
        busy = self.program("forever")  # never idle, so only the other limit ends it
        begin = time.monotonic()
        self.assertNotEqual(busy.wait(PATIENCE), 0)
        self.assertGreaterEqual(time.monotonic() - begin, 1)

    @unittest.skipUnless(os.geteuid() == 0, "another user's process needs root")
    def test_sessions_are_of_the_user_that_was_named(self):
        self.start("--shape", "CPU-1", "--run-as", "nobody")
        running, session = self.in_session("forever")
        status = pathlib.Path(f"/proc/{session['worker_pid']}/status").read_text()
        uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
        self.assertEqual(set(uids), {str(pwd.getpwnam("nobody").pw_uid)})
        self.assertIn("NoNewPrivs:\t1", status)
        running.kill()

    def test_images_are_kept_under_their_digest(self):
        kept = self.path / "images"
        self.start("--shape", "CPU-1", "--images", str(kept))
        program = self.program()
        self.assertEqual(program.wait(PATIENCE), 0, program.stderr.read())
        names = [file.name for file in kept.iterdir()]
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0], "^[0-9a-f]{64}$")
        # Who changes a file on the disk changes no session: what is not its name is not taken.
        (kept / names[0]).write_bytes(b"something else")
        program = self.program()
        self.assertEqual(program.wait(PATIENCE), 0, program.stderr.read())

    def test_the_back_end_on_a_driver(self):
        driver = pathlib.Path(PARTITA).parent / "cuda/server/cuda/libremote_cuda_sim.so"
        if not driver.exists():
            self.skipTest("the simulated libcuda is not built here")
        self.start("--backend", "cuda", "--library", str(driver))
        self.assertTrue(self.until(lambda: self.ready() == 1))
        self.assertEqual((self.sessions()[0]["backend"], self.sessions()[0]["parts"]), ("cuda", 1))

    def test_workers_of_a_kernel_plan_are_parts(self):
        for name in ("narrow", "wide"):
            rows = [f"0,{name}_kernel,{units},{4000 / units}" for units in (32, 64, 132)]
            (self.path / f"{name}.csv").write_text("\n".join(["index,kernel,units,time_us", *rows]))
        plan = subprocess.run(
            [PARTITA, "kernels", "plan", "--workers", "narrow,wide", "--kernel-profiles", self.path,
             "--topology", "H100", "--configs", "32,64,132", "--format", "json"],
            capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(plan.returncode, 0, plan.stderr)
        (self.path / "plan.json").write_text(plan.stdout)
        flags = ["--backend", "cuda", "--warm", "0", "--kernel-plan", str(self.path / "plan.json"),
                 "--kernel-profiles", str(self.path)]
        answer = run("serve", "--state-dir", str(self.path), "--listen", f"unix:{self.path}/s",
                     "--kernel-times", "t.csv", *flags)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("not by --kernel-plan", answer.stderr)
        self.start(*flags)
        self.assertTrue(self.until(lambda: self.sessions()))
        self.assertEqual(self.sessions()[0]["parts"], 2)

    def test_policies_of_kernels_on_the_cpu(self):
        self.needs_programs()
        for name in ("one", "two"):
            rows = "index,kernel,units,time_us\n0,k,1,20\n0,k,2,10\n"
            (self.path / f"{name}.csv").write_text(rows)
        self.start("--warm", "0", "--kernel-plan", "static", "--kernel-profiles", str(self.path),
                   "--workers", "one,two", "--units", "2")
        self.assertTrue(self.until(lambda: self.sessions()))
        self.assertEqual(self.sessions()[0]["parts"], 2)
        answer = run("run", "--server", f"unix:{self.path}/sock", "--profile", "two", "--",
                     str(PROGRAMS / "softmax"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        answer = run("run", "--server", f"unix:{self.path}/sock", "--", str(PROGRAMS / "softmax"))
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("given by name alone", answer.stderr)

    def test_prefill_and_decode_beside_each_other(self):
        self.needs_programs()
        self.start("--warm", "0", "--lanes", "phases", "--units", "4", "--decode-ms", "1000")
        self.assertTrue(self.until(lambda: self.sessions()))
        self.assertEqual(self.sessions()[0]["parts"], 3)

        def prefill():
            answer = run("run", "--server", f"unix:{self.path}/sock", "--profile", "prefill", "--",
                         str(PROGRAMS / "softmax"))
            self.assertEqual(answer.returncode, 0, answer.stderr)
            said = self.server.stderr.readline()
            found = re.fullmatch(r"partita: phases: prefill (\d+) kernels on ([\d.]+) units, "
                                 r"decode (\d+) on ([\d.]+); \d+ moves\n", said)
            self.assertTrue(found, said)
            return [float(number) for number in found.groups()]
        alone = prefill()
        self.assertGreater(alone[0], 0)
        self.assertEqual(alone[1:], [4, 0, 0])
        decode = subprocess.Popen(
            [PARTITA, "remote", "run", "--server", f"unix:{self.path}/sock", "--profile", "decode",
             "--", str(PROGRAMS / "launches"), "forever"], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(decode.wait)
        self.addCleanup(decode.kill)
        self.assertTrue(self.until(lambda: any(
            one["launches"] > 10 for one in self.sessions()[0]["sessions"])))
        beside = prefill()
        self.assertEqual(beside[0], 2 * alone[0])
        self.assertLess(beside[1], 4)
        self.assertGreater(beside[2], 0)

    def test_a_program_s_kernels_are_recorded_and_timed(self):
        self.needs_programs()
        answer = run("run", "--record-kernels", str(self.path / "k.csv"), "--kernel-times",
                     str(self.path / "t.csv"), "--units", "1", "--", str(PROGRAMS / "softmax"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        rows = (self.path / "k.csv").read_text().splitlines()
        self.assertEqual(rows[0], "index,kernel,request,grid,block,shared_bytes,stream,at_us")
        self.assertGreater(len(rows), 1)
        twice = f"{PROGRAMS / 'softmax'} && {PROGRAMS / 'softmax'}"
        answer = run("run", "--record-kernels", str(self.path / "two.csv"), "--", "sh", "-c", twice)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        both = list(csv.DictReader((self.path / "two.csv").read_text().splitlines()))
        self.assertEqual(len(both), 2 * (len(rows) - 1))
        requests = 1 + int(rows[-1].split(",")[2])
        self.assertEqual([int(row["request"]) for row in both[len(rows) - 1:]],
                         [requests + int(row["request"]) for row in both[:len(rows) - 1]])
        times = (self.path / "t.csv").read_text().splitlines()
        self.assertEqual(times[0], "index,kernel,units,time_us,gap_us")
        self.assertEqual(times[1].split(",")[2], "1")

    def test_a_program_s_kernels_are_measured_beside_neighbours(self):
        self.needs_programs()
        words = [PARTITA, "kernels", "measure", "--program", str(PROGRAMS / "softmax"),
                 "--repeats", "1", "--beside", "-o", str(self.path / "softmax.csv"), "--units"]
        answer = subprocess.run([*words, "1,2"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        with open(self.path / "softmax.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        settings = {}
        for row in rows:
            settings.setdefault(row["index"], set()).add((row["units"], row["beside"]))
            self.assertGreater(float(row["time_us"]), 0)
            self.assertEqual(row["presses"] != "", row["beside"] == "reading")
            self.assertTrue(0 <= float(row["presses"] or 0) <= 1)
        self.assertTrue(settings)
        for found in settings.values():
            self.assertEqual(found, {("1", ""), ("1", "computing"), ("1", "reading"), ("2", "")})
        answer = subprocess.run(
            [PARTITA, "kernels", "simulate", "--workers", "softmax,softmax", "--kernel-profiles",
             self.path, "--topology", "1x2", "--policies", "static"],
            capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        answer = subprocess.run([*words, "2"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("leaves some to others", answer.stderr)

    def test_refusals(self):
        for words, why in [(["--listen", "tcp:0.0.0.0:0"], "--token-file"),
                           (["--shape", "2g.20gb"], "CPU-1 to CPU-"),
                           (["--backend", "cuda", "--shape", "x"], "PROFILE=UUID"),
                           (["--backend", "cuda", "--shape", "LANE-0"], "LANE-64"),
                           (["--backend", "cuda", "--shape", "LANE-8", "--shape", "gpu"],
                            "no other shapes"),
                           (["--backend", "cuda", "--kernel-times", "t.csv"], "timed on lanes"),
                           (["--backend", "cuda", "--devices", "2"], "for --backend cpu"),
                           (["--kernel-plan", "p.json"], "--kernel-profiles"),
                           (["--kernel-plan", "none", "--kernel-profiles", ".", "--workers", "a"],
                            "neither a policy (default-stream, mps"),
                           (["--lanes", "phases", "--units", "1"], "a unit each"),
                           (["--lanes", "phases", "--profiles", "."], "not for workers"),
                           (["--lanes", "static", "--decode-ms", "9"], "--kernel-plan phases"),
                           (["--token-file", "/nowhere"], "/nowhere"),
                           (["--idle-limit", "soon"], "--idle-limit")]:
            answer = run("serve", "--state-dir", str(self.path), "--listen",
                         f"unix:{self.path}/s", *words) if "--listen" not in words else run(
                             "serve", "--state-dir", str(self.path), *words)
            self.assertEqual(answer.returncode, 2 if why != "/nowhere" else answer.returncode)
            self.assertNotEqual(answer.returncode, 0)
            self.assertIn(why, answer.stderr)


if __name__ == "__main__":
    if not PARTITA or not pathlib.Path(PARTITA).exists():
        sys.exit(77)
    unittest.main()
