#!/usr/bin/env python3
"""partita remote serve, sessions and stop, as people use them."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PARTITA = os.environ.get("PARTITA", "")
PATIENCE = 60


def run(*words):
    return subprocess.run([PARTITA, "remote", *words], capture_output=True, text=True,
                          timeout=PATIENCE)


class Serve(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="partita-serve-")
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
        self.assertTrue(self.until(lambda: self.sessions()[0]["ready"] == 2))
        self.assertEqual(self.sessions()[0]["parts"], 2)
        self.assertIn("partita_remote_ready_workers 2\n", metrics.read_text())
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
        self.assertTrue(self.until(lambda: self.sessions()[0]["ready"] == 1))
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

    def test_refusals(self):
        for words, why in [(["--listen", "tcp:0.0.0.0:0"], "--token-file"),
                           (["--shape", "2g.20gb"], "CPU-1 to CPU-"),
                           (["--backend", "cuda", "--shape", "x"], "PROFILE=UUID"),
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
