#!/usr/bin/env python3
"""Kills of programs, workers and servers: nothing hangs, every part is free again.

PARTITA_ROUNDS=25 makes 300 kills of the usual 12."""
import json
import os
import pathlib
import random
import signal
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
        folder = tempfile.TemporaryDirectory(prefix="partita-kills-")
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

    def program(self, name="launches"):
        return subprocess.Popen(
            [PARTITA, "remote", "run", "--server", f"unix:{self.path}/sock", "--",
             str(PROGRAMS / name)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def state(self):
        answer = subprocess.run([PARTITA, "remote", "sessions", "--state-dir", str(self.path),
                                 "--format", "json"], capture_output=True, text=True, check=True)
        servers = json.loads(answer.stdout)
        return servers[0] if servers else {"sessions": [], "ready": 0}

    def free_within(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            state = self.state()
            if not state["sessions"] and state["ready"] == 2:
                return True
            time.sleep(0.02)
        return False

    def test_kills(self):
        dice = random.Random(14)
        for number in range(KILLS):
            victim = dice.choice(["program", "program", "worker", "server"])
            running = self.program()
            time.sleep(dice.random() * 0.15)
            if victim == "program":
                kill(os.killpg, running.pid)
            elif victim == "worker":
                for session in self.state()["sessions"]:
                    kill(os.kill, session["worker_pid"])
            else:
                self.end()
            # Whatever was killed, the program ends by itself: done, with an error, or killed.
            running.wait(PATIENCE)
            if victim == "server":
                self.start()
            self.assertTrue(self.free_within(PATIENCE), f"kill {number} of the {victim}")
        self.assertEqual(self.program("memory").wait(PATIENCE), 0)


if __name__ == "__main__":
    if not PARTITA or not (PROGRAMS / "launches").exists():
        print("skipped: the CUDA programs are not built here")
        sys.exit(77)
    unittest.main()
