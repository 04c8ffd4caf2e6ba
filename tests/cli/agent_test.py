"""partita agent on simulated machines: it makes the node as wanted, holds its lock, ends when
asked, and goes on after kill -9 at random points to the state that it would have without."""

import json
import os
import random
import signal
import subprocess
import time
import unittest

import harness

MACHINE = """gpus: [{model: A100-80GB, count: 2, mig: true}]
state: node.state
speed: 0.02
"""
SERVICES = """services:
  - {name: chat, model: small, rate_rps: %d, slo_ms: 200}
  - {name: search, model: large, rate_rps: 60, slo_ms: 500}
"""
ON_SIM = ["--driver", "sim", "--machine", "machine.yaml", "--state-dir", "state"]
KEPT = ("node.state", "state/agent-memory.json", "state/journal", "state/assignment.json")
KILLS = int(os.environ.get("PARTITA_KILLS", "20"))


class AgentTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)
        self.write("services.yaml", SERVICES % 300)

    def agent(self, *more):
        return [harness.PROGRAM, "agent", *ON_SIM, "--services", "services.yaml",
                "--profiles", "profiles.csv", *more]

    def start(self, *more):
        with open(self.path("agent.log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(self.agent("--mode", "automatic", *more), cwd=self.folder,
                                       stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def layout(self):
        state = json.loads(subprocess.run(
            [harness.PROGRAM, "status", *ON_SIM, "--format", "json"],
            cwd=self.folder, capture_output=True, check=True).stdout)
        return state

    def places(self):
        return sorted((gpu["index"], one["profile"], one["start"], one.get("service", ""))
                      for gpu in self.layout()["gpus"] for one in gpu["instances"])

    def in_force(self):
        """The memory's target is done, and nothing is unfinished."""
        try:
            memory = json.loads(self.read("state/agent-memory.json"))
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        return bool(memory.get("target") and memory["target"].get("done"))

    def wait_for(self, what, seconds=60):
        end = time.monotonic() + seconds
        while not what():
            self.assertLess(time.monotonic(), end, self.read("agent.log"))
            time.sleep(0.05)

    def stop(self, process):
        """Asks it to end, once it takes signals as questions."""
        self.wait_for(lambda: " keeps " in self.read("agent.log"))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 0, self.read("agent.log"))

    def test_makes_the_node_as_wanted_and_owns_it(self):
        process = self.start()
        self.wait_for(self.in_force)
        self.assertTrue(self.places())
        refused = subprocess.run(
            [harness.PROGRAM, "rollback", *ON_SIM], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(refused.returncode, 3, refused.stderr)
        self.assertIn("partita agent", refused.stderr)
        self.assertIn(str(process.pid), refused.stderr)
        process.send_signal(signal.SIGHUP)
        self.wait_for(lambda: "read again" in self.read("agent.log"))
        self.stop(process)
        before = self.layout()
        again = self.start()  # goes on and finds nothing to do
        time.sleep(1)
        self.stop(again)
        self.assertEqual(self.layout()["gpus"], before["gpus"])

    def test_a_look_changes_nothing(self):
        done = subprocess.run(self.agent("--once", "--format", "json"), cwd=self.folder,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["kind"], "AgentState")
        self.assertEqual(self.places(), [])
        self.assertFalse(os.path.exists(self.path("state/agent-memory.json")))

    def test_after_kills_the_node_is_as_without(self):
        wanted = {}
        for rate in (300, 900):  # without a kill
            self.write("services.yaml", SERVICES % rate)
            process = self.start()
            self.wait_for(self.in_force)
            self.stop(process)
            wanted[rate] = self.places()
            for name in KEPT:
                os.remove(self.path(name))
        rng = random.Random(5)
        for kill in range(KILLS):
            rate = (300, 900)[kill % 2]
            self.write("services.yaml", SERVICES % rate)
            process = self.start()
            time.sleep(rng.uniform(0.01, 0.6))
            process.kill()
            process.wait()
            if kill % 2:
                continue
            process = self.start()
            self.wait_for(self.in_force)
            self.stop(process)
            if kill == 0:
                self.assertEqual(self.places(), wanted[rate])
            assignment = json.loads(self.read("state/assignment.json"))
            devices = [one["device"] for one in assignment["segments"]]
            there = [one["uuid"] for gpu in self.layout()["gpus"]
                     for one in gpu["instances"]]
            self.assertEqual(sorted(devices), sorted(there))  # nothing twice, nothing left behind
            for name in KEPT:
                os.remove(self.path(name))

    def test_simulated_weeks_are_deterministic(self):
        def weeks(*more):
            return subprocess.run(
                [harness.PROGRAM, "agent", "--simulate", "1", "--services", "services.yaml",
                 "--profiles", "profiles.csv", "--format", "json", *more],
                cwd=self.folder, capture_output=True, text=True, check=True).stdout
        once = weeks()
        self.assertEqual(json.loads(once)["kind"], "AgentSimulation")
        self.assertEqual(once, weeks())
        self.assertNotEqual(once, weeks("--seed", "2"))

    def test_refuses_with_the_line(self):
        for text, message in (("polcy: {}\n", "agent.yaml:1"),
                              ("policy: {mode: sometimes}\n", "agent.yaml:1"),
                              ("policy: {hooks_before: [stop]}\n", "'stop'"),
                              ("server: {port: 1}\n", "agent.yaml:1")):
            self.write("agent.yaml", text)
            done = subprocess.run(self.agent("--once", "--config", "agent.yaml"),
                                  cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, text + done.stderr)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
