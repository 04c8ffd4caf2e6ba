"""AMD GPUs from the command line, on the simulated libamd_smi: observe, joules, settings that are
put back."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import harness

LIBRARIES = pathlib.Path(harness.PROGRAM).parent / "amd_fake"
if not (LIBRARIES / "libamd_smi.so.26").exists():
    sys.exit(77)  # a build without tests
AMD = ("--driver", "amd")


class AmdTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.variable("LD_LIBRARY_PATH", str(LIBRARIES))
        self.variable("AMD_SMI_FAKE_STATE", self.path("boards"))
        self.state = ("--state-dir", "st")

    def variable(self, name, value):
        before = os.environ.get(name)
        os.environ[name] = value

        def back():
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before
        self.addCleanup(back)

    def gpus(self):
        done = self.ok("observe", *AMD, "--format", "json", "--interval", "50ms")
        return json.loads(done.splitlines()[-1])["gpus"]

    def limits(self):
        return [gpu["power_limit_w"] for gpu in self.gpus()]

    def test_observe_shows_what_the_boards_tell(self):
        text = self.ok("observe", *AMD, "--interval", "50ms")
        self.assertIn("750", text)
        first, second = self.gpus()
        self.assertEqual(first["activity"]["graphics_engine"], 0.7)
        self.assertNotIn("power_average_w", first)
        self.assertEqual(second["power_average_w"], 40)
        metrics = self.ok("observe", *AMD, "--interval", "50ms", "--format", "prometheus")
        self.assertRegex(metrics, r'partita_gpu_energy_joules_total\{gpu="0",UUID="GPU-4eff')

    def test_joules_of_a_recording_are_those_of_the_counter(self):
        self.ok("observe", *AMD, "--record", "log.jsonl", "--interval", "50ms", "--count", "6")
        log = [json.loads(line)["gpus"] for line in self.read("log.jsonl").splitlines()]
        grew = sum(log[-1][gpu]["energy_j"] - log[0][gpu]["energy_j"] for gpu in (0, 1))
        report = self.json("energy", "attribute", "--telemetry", "log.jsonl")
        self.assertAlmostEqual(report["measured_j"], grew, places=5)
        parts = sum(tenant["energy_j"] for tenant in report["tenants"]) + report["idle_j"]
        self.assertAlmostEqual(parts, report["measured_j"], places=6)
        svg = self.ok("energy", "attribute", "--telemetry", "log.jsonl", "--compare", "--format",
                      "svg")
        self.assertTrue(svg.startswith("<svg") and svg.endswith("</svg>\n"))

    def test_what_was_set_is_put_back(self):
        self.assertEqual(self.limits(), [750, 300])
        self.ok("power", "set", *AMD, *self.state, "--gpu-index", "0", "--power-limit", "500",
                "--clocks", "600,1200")
        first = self.gpus()[0]
        self.assertEqual(first["power_limit_w"], 500)
        self.assertLessEqual(first["sm_clock_mhz"], 1200)
        self.assertLessEqual(first["power_w"], 500)
        self.ok("power", "restore", *AMD, *self.state)
        self.assertEqual(self.limits(), [750, 300])
        self.assertGreater(self.gpus()[0]["sm_clock_mhz"], 1200)

    def test_killed_while_it_holds_settings_they_are_put_back(self):
        state = os.path.join(self.folder, "st")
        for sent in (signal.SIGTERM, signal.SIGKILL):
            child = subprocess.Popen([harness.PROGRAM, "power", "set", *AMD, "--state-dir", state,
                                      "--power-limit", "200", "--hold", "1h"], cwd=self.folder,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(child.kill)
            for wanted in ([200, 200], [750, 300]):
                for _ in range(300):
                    if self.limits() == wanted:
                        break
                    time.sleep(0.05)
                self.assertEqual(self.limits(), wanted)
                child.send_signal(sent)
            child.wait(60)
        for _ in range(300):  # the second process still writes its journal
            if subprocess.run(["pgrep", "-f", state], stdout=subprocess.DEVNULL,
                              check=False).returncode:
                break
            time.sleep(0.05)

    def test_a_loop_follows_and_puts_back(self):
        self.as_in_a_clone()
        self.ok("power", "table", "--models", "bert", "--profiles", "data/published/reef", "-o",
                "mi50.csv")
        self.write("one.yaml", "services:\n- {name: b, model: bert, rate_rps: 60, slo_ms: 29, "
                               "percentile: 95}\n")
        done = self.ok("power", "run", *AMD, *self.state, "--services", "one.yaml", "--table",
                       "mi50.csv", "--poll", "50ms", "--trace", "data/published/swim/fb09-0.csv",
                       "--duration", "1s")
        self.assertRegex(done, r"restored: \d+ polls, [1-9]\d* changes, 0 without sight")
        self.assertEqual(self.limits(), [750, 300])

    def test_refusals(self):
        self.variable("AMD_SMI_FAKE_RIGHTS", "no")
        done = self.run_partita("power", "set", *AMD, *self.state, "--power-limit", "200")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"nothing was changed", done.stderr)
        self.assertEqual(self.limits(), [750, 300])
        self.variable("AMD_SMI_FAKE_VERSION", "25.3.0")
        done = self.run_partita("observe", *AMD)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"this is AMD SMI 25.3.0; only 26.x (ROCm 7) is known", done.stderr)

    def test_there_is_no_mig_to_change(self):
        status = self.ok("status", *AMD, *self.state)
        self.assertIn("AMD Instinct MI300X", status)


if __name__ == "__main__":
    unittest.main()
