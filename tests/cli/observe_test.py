"""observe, power set, power restore: watching and setting GPUs, on simulated machines."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
import unittest

import harness

MACHINE = """gpus:
  - {model: H100-80GB-SXM5, count: 1}
state: node.state
instances:
  - {gpu: 0, profile: 3g.40gb, start: 4}
  - {gpu: 0, profile: 1g.10gb, start: 0}
processes:
  - {gpu: 0, start: 4, pid: 4242, name: trainer, activity: 0.8}
"""


class PowerTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)

    def sim(self, *words):
        return (*words, "--driver", "sim", "--machine", "machine.yaml")

    def power(self, *words):
        return self.sim("power", *words, "--state-dir", "state")

    def start(self, *words, **more):
        return subprocess.Popen([harness.PROGRAM, *words], cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def settings(self):
        """Limit and clocks as the machine has them."""
        power = json.loads(self.read("node.state"))["gpus"][0].get("power", {})
        return {key: power[key] for key in ("limit_w", "low_mhz", "high_mhz") if key in power}

    def wait_for(self, wanted):
        for _ in range(200):
            try:
                if self.settings() == wanted:
                    return
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        self.fail(f"{self.settings()} instead of {wanted}")


class ObserveTest(PowerTest):
    def test_recording_replays_exactly(self):
        done = self.run_partita(*self.sim("observe", "--record", "log.jsonl", "--interval", "50ms",
                                          "--count", "5"))
        self.assertEqual((done.returncode, done.stdout), (0, b""), done.stderr)
        log = self.read("log.jsonl")
        again = self.run_partita("observe", "--replay", "log.jsonl", "--format", "json")
        self.assertEqual(again.stdout.decode(), log)
        samples = [json.loads(line) for line in log.splitlines()]
        self.assertEqual(len(samples), 5)
        gpus = [sample["gpus"][0] for sample in samples]
        self.assertEqual(gpus, sorted(gpus, key=lambda gpu: gpu["energy_j"]))
        self.assertLess(gpus[0]["energy_j"], gpus[-1]["energy_j"])
        busy = [i for i in gpus[-1]["instances"] if i["profile"] == "3g.40gb"][0]
        self.assertAlmostEqual(busy["activity"]["graphics_engine"], 0.8, delta=0.2)
        text = self.run_partita("observe", "--replay", "log.jsonl").stdout.decode()
        self.assertIn("W on average (by counter)", text)
        refused = self.run_partita(*self.sim("observe", "--record", "log.jsonl", "--count", "1"))
        self.assertEqual(refused.returncode, 2)

    def test_damaged_recordings_are_refused_with_their_line(self):
        self.write("bad.jsonl", '{"at_s": 1, "gpus": []}\n{"at_s": 1, "gpus": []}\n')
        done = self.run_partita("observe", "--replay", "bad.jsonl")
        self.assertEqual(done.returncode, 2)
        self.assertIn("bad.jsonl:2", done.stderr.decode())

    def test_a_full_disk_costs_one_sample(self):
        full = subprocess.run(["bash", "-c", 'trap "" XFSZ; ulimit -f 4; exec "$@"', "bash",
                               harness.PROGRAM, *self.sim("observe", "--record", "log.jsonl",
                                                          "--interval", "10ms")],
                              cwd=self.folder, capture_output=True, timeout=60)
        self.assertEqual(full.returncode, 3, full.stderr)
        log = self.read("log.jsonl")
        self.assertGreater(len(log), 2048)
        self.assertTrue(log.endswith("}\n"), log[-80:])
        # Half a line, as a machine that died leaves it.
        self.write("torn.jsonl", log + log[:99])
        for words in (("observe", "--replay", "torn.jsonl", "--format", "json"),
                      ("energy", "attribute", "--telemetry", "torn.jsonl")):
            done = self.run_partita(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("the last line was not written to its end (99 bytes)",
                          (done.stdout + done.stderr).decode())

    def test_tables_and_metrics(self):
        text = self.run_partita(*self.sim("observe", "--interval", "50ms")).stdout.decode()
        self.assertIn("3g.40gb", text)
        self.assertNotIn("\x1b", text)
        metrics = self.run_partita(*self.sim("observe", "--interval", "50ms", "--format",
                                             "prometheus")).stdout.decode()
        self.assertRegex(metrics, r'partita_gpu_power_watts\{gpu="0",UUID="GPU-[^"]+",'
                                  r'modelName="H100-80GB-SXM5"\} [0-9.]+\n')
        self.assertRegex(metrics, r'GPU_I_ID="\d+",GPU_I_PROFILE="3g.40gb"\} 0\.')

    def test_picture_leaves_the_terminal_as_it_was(self):
        self.picture("observe", "--watch", "--interval", "50ms")

    def test_other_pictures_give_the_terminal_back_too(self):
        self.picture("top", "--interval", "50ms")
        self.picture("status", "--watch", "--interval", "50ms")

    def picture(self, *words):
        main, other = pty.openpty()
        child = subprocess.Popen([harness.PROGRAM, *self.sim(*words)],
                                 cwd=self.folder, stdin=other, stdout=other, stderr=other,
                                 env={**os.environ, "TERM": "xterm", "COLUMNS": "90"})
        os.close(other)
        seen = b""
        while seen.count(b"3g.40gb") < 3:
            if not select.select([main], [], [], 30)[0]:
                self.fail("no picture")
            seen += os.read(main, 65536)
        child.send_signal(signal.SIGTERM)
        while True:
            try:
                more = os.read(main, 65536)
            except OSError:
                break
            if not more:
                break
            seen += more
        os.close(main)
        self.assertEqual(child.wait(30), 0)
        self.assertTrue(seen.startswith(b"\x1b[?1049h"))
        self.assertTrue(seen.endswith(b"\x1b[?25h\x1b[?1049l"), seen[-40:])

    def test_top_says_what_runs_and_splits_the_watts(self):
        node = self.json(*self.sim("status"))["gpus"][0]
        uuids = {one["profile"]: one["uuid"] for one in node["instances"]}
        os.mkdir(self.path("state"))
        segment = {"device": uuids["3g.40gb"], "gpu_uuid": node["uuid"], "profile": "3g.40gb",
                   "start": 4, "service": "chat", "batch": 8, "processes": 2}
        self.write("state/assignment.json", json.dumps(
            {"api_version": "partita/v1", "kind": "Assignment", "revision": 1,
             "segments": [segment]}))
        text = self.ok(*self.sim("top", "--state-dir", "state", "--interval", "300ms", "--count",
                                 "2"))
        frames = text.split("1 GPU, 2 instances, 1 held by processes\n")[1:]
        self.assertEqual(len(frames), 2)
        busy, idle = [next(line for line in frames[1].splitlines() if line.startswith(start))
                      for start in ("  3g.40gb", "  1g.10gb")]
        self.assertIn("chat b8×2", busy)
        watts = [int(re.search(r"~(\d+) W", line)[1]) for line in (busy, idle)]
        power = int(re.search(r"(\d+) W of", frames[1])[1])
        self.assertGreater(watts[0], 2.5 * watts[1])  # three slices, and all the work
        self.assertLess(sum(watts), power + 2)
        self.assertGreater(sum(watts), power / 3)
        self.assertNotIn("chat", idle)

    def test_top_shows_what_a_gateway_says(self):
        gateway = subprocess.Popen(
            [harness.PROGRAM, *self.sim("gateway", "--state-dir", "state", "--http",
                                        "127.0.0.1:0")],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(gateway.wait)
        self.addCleanup(gateway.kill)
        for _ in range(200):
            if os.path.exists(self.path("state/gateway.json")):
                break
            time.sleep(0.05)
        text = self.ok(*self.sim("top", "--state-dir", "state", "--interval", "50ms"))
        self.assertIn("SERVICE", text)


class SetTest(PowerTest):
    def test_set_stays_and_restore_puts_back(self):
        done = self.run_partita(*self.power("set", "--power-limit", "300", "--clocks", "900,1200"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.settings(), {"limit_w": 300, "low_mhz": 900, "high_mhz": 1200})
        self.assertEqual(self.run_partita(*self.power("set", "--power-limit", "400")).returncode, 0)
        dry = self.run_partita(*self.power("restore", "--dry-run")).stdout.decode()
        self.assertIn("700 W, clocks free", dry)
        self.assertEqual(self.run_partita(*self.power("restore")).returncode, 0)
        self.assertEqual(self.settings(), {})
        again = self.run_partita(*self.power("restore"))
        self.assertEqual(again.stdout, b"nothing is changed\n")

    def test_what_the_board_cannot_is_refused(self):
        for words, flag in ((("--power-limit", "4000"), "--power-limit"), (("--clocks", "9000"),
                                                                           "--clocks"),
                            (("--clocks", "900,300"), "--clocks"), ((), "--power-limit"),
                            (("--power-limit", "300", "--gpu-index", "4"), "--gpu-index")):
            done = self.run_partita(*self.power("set", *words))
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(flag, done.stderr.decode())
        self.assertEqual(self.settings(), {})

    def test_without_rights_it_is_a_dry_run(self):
        self.write("machine.yaml", MACHINE + "power_rights: nobody\n")
        done = self.run_partita(*self.power("set", "--power-limit", "300"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("dry run: GPU 0: limit 300 W", done.stdout.decode())
        self.assertIn("nothing was changed", done.stderr.decode())
        self.assertEqual(self.settings(), {})

    def test_hold_puts_back_at_a_signal_and_when_killed(self):
        for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
            child = self.start(*self.power("set", "--power-limit", "300", "--hold", "1h"))
            self.wait_for({"limit_w": 300})
            child.send_signal(sent)
            child.communicate(timeout=60)
            self.wait_for({})


if __name__ == "__main__":
    unittest.main()
