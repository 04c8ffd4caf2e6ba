"""`profile measure` with real worker processes that take a fixed time, a kill amid it, and a plan
on CPU units made from what was measured."""
import csv
import os
import signal
import subprocess
import tempfile
import time
import unittest

from harness import PROGRAM


def measure(output, *more):
    return [PROGRAM, "profile", "measure", "--null", "--name", "m", "--instances", "1",
            "--batches", "1,2,4,8", "--point-time", "1s", "--precision", "20",
            "--worker-flag=--batch-us", "--worker-flag=4000", "-o", output, *more]


def rows(path):
    with open(path) as file:
        return list(csv.DictReader(file))


class MeasureTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.profile = os.path.join(self.folder, "profile.csv")

    def run_ok(self, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_measures_goes_on_after_a_kill_and_is_planned_with(self):
        first = subprocess.Popen(measure(self.profile), stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not os.path.exists(self.profile) and time.monotonic() < end:
            time.sleep(0.01)
        first.send_signal(signal.SIGTERM)
        first.wait(timeout=60)
        before = rows(self.profile)
        self.assertLess(len(before), 4)
        self.run_ok(measure(self.profile))
        after = rows(self.profile)
        self.assertEqual(after[:len(before)], before)
        self.assertEqual([int(row["batch"]) for row in after], [1, 2, 4, 8])
        for row in after:  # a batch takes 4 ms, whatever its size, and more on a busy machine
            self.assertGreaterEqual(float(row["latency_ms"]), 4)
            self.assertLessEqual(float(row["throughput_rps"]), 260 * int(row["batch"]))
            self.assertGreater(float(row["memory_mib"]), 0)
        again = self.run_ok(measure(self.profile))
        self.assertIn("all were there already", again.stdout)
        services = os.path.join(self.folder, "services.yaml")
        with open(services, "w") as file:
            file.write("services:\n  - {name: s, model: m, rate_rps: 5, slo_ms: 2000}\n")
        plan = os.path.join(self.folder, "plan.json")
        self.run_ok([PROGRAM, "plan", "--services", services, "--profiles", self.profile,
                     "--gpu", "CPU-1", "--format", "json", "-o", plan])
        self.run_ok([PROGRAM, "verify", plan, "--services", services, "--profiles", self.profile])

    def test_says_what_the_worker_said(self):
        done = subprocess.run([PROGRAM, "profile", "measure", "--model", "/nowhere/m.onnx",
                               "--instances", "1", "-o", self.profile],
                              capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PARTITA_ONNXRUNTIME": "/nowhere/lib.so"})
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("cannot load ONNX Runtime", done.stderr)
        self.assertFalse(os.path.exists(self.profile))

    def test_bad_flags(self):
        for flags in (["--instances", "0"], ["--batches", "1,x"], ["--processes", "3..1"],
                      ["--cpus", "3-1"], ["--model", "m.onnx"]):
            done = subprocess.run(measure(self.profile, *flags), capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 2, (flags, done.stderr))


if __name__ == "__main__":
    unittest.main()
