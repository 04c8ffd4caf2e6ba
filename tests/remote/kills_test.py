#!/usr/bin/env python3
"""Kills of programs, workers and servers: nothing hangs, every part is free again.

PARTITA_ROUNDS=25 makes 300 kills of the usual 12."""
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

PARTITA = os.environ.get("PARTITA", "")
PROGRAMS = pathlib.Path(PARTITA).parent / "remote" / "programs"
KILLS = 12 * int(os.environ.get("PARTITA_ROUNDS", "1"))
PATIENCE = 60


def kill(how, pid):
    try:
        how(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended by itself


class Kills(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="partita-kills-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.start()
        self.addCleanup(self.end)

    def start(self):
        self.server = subprocess.Popen(
            [PARTITA, "remote", "serve", "--listen", f"unix:{self.path}/sock", "--state-dir",
             str(self.path), "--shape", "CPU-1", "--shape", "CPU-1", "--warm", "2"],
            stdout=subprocess.PIPE, text=True)
        self.assertTrue(self.server.stdout.readline().startswith("listening on"))

    def end(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()

    def program(self, name, *words):
        return subprocess.Popen(
            [PARTITA, "remote", "run", "--server", f"unix:{self.path}/sock", "--",
             str(PROGRAMS / name), *words],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def state(self):
        answer = subprocess.run([PARTITA, "remote", "sessions", "--state-dir", str(self.path),
                                 "--format", "json"], capture_output=True, text=True, check=True)
        servers = json.loads(answer.stdout)
        return servers[0] if servers else {"sessions": [], "ready": 0}

    def wait_for(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition(self.state()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def wait_for_session(self):
        self.wait_for(lambda state: state["sessions"])

    def wait_until_free(self):
        self.wait_for(lambda state: not state["sessions"] and state["ready"] == 2)

    def test_kills(self):
        dice = random.Random(14)
        times = []
        for _ in range(KILLS):
            victim = dice.choice(["program", "program", "worker", "server"])
            forever = dice.random() < 0.5
            running = self.program("launches", *["forever"] * forever)
            if forever:  # else it may be anywhere between its start and its end
                self.wait_for_session()
            time.sleep(dice.random() * 0.15)
            if victim == "worker" and not self.state()["sessions"]:
                victim = "program"  # there is no worker any more
            if victim == "program":
                kill(os.killpg, running.pid)
            elif victim == "worker":
                for session in self.state()["sessions"]:
                    kill(os.kill, session["worker_pid"])
            else:
                self.end()
            begin = time.monotonic()
            if victim == "server":
                self.start()
            self.wait_until_free()
            if victim != "server" and forever:
                times.append(time.monotonic() - begin)
            # Whatever was killed, the program ends by itself: done, with an error, or killed.
            running.wait(PATIENCE)
        self.assertEqual(self.program("memory").wait(PATIENCE), 0)
        # Half of them on any machine, all but the slowest where nothing else runs.
        self.assertLess(statistics.median(times), 1, f"seconds until free: {sorted(times)}")
        print(f"free again after {statistics.median(times) * 1000:.0f} ms (median), "
              f"{max(times) * 1000:.0f} ms (longest) of {len(times)} kills")


if __name__ == "__main__":
    if not PARTITA or not (PROGRAMS / "launches").exists():
        print("skipped: the CUDA programs are not built here")
        sys.exit(77)
    unittest.main()
