"""A batch beside services, handed to a live agent on a simulated node: every task runs exactly once
though the agent is killed in the middle, services' instances stay what they are, and what cannot be
carried out is refused with a sentence."""

import collections
import json
import os
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
  - {name: chat, model: small, rate_rps: 100, slo_ms: 200}
"""
POLICY = """policy:
  mode: automatic
  look_s: 0.5
  batch: {gpus: [1]}
"""
ON_SIM = ["--driver", "sim", "--machine", "machine.yaml", "--state-dir", "state"]
# The last one comes after the first; a task says when it begins and when it has come to its end.
SECONDS = {"a": 1.5, "b": 0.4, "c": 2.5, "d": 0.2, "e": 3, "f": 0.3, "g": 1, "last": 0.3}


class AgentBatchTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)
        self.write("services.yaml", SERVICES)
        socket = self.path("api.sock")
        self.write("agent.yaml", POLICY + f"server: {{socket: {socket}}}\n")
        self.server = ("--server", "unix:" + socket)

    def start(self):
        with open(self.path("agent.log"), "a", encoding="utf-8") as log:
            process = subprocess.Popen(
                [harness.PROGRAM, "agent", *ON_SIM, "--services", "services.yaml", "--profiles",
                 "profiles.csv", "--settings", "agent.yaml"],
                cwd=self.folder, stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def wait_for(self, what, seconds=120):
        end = time.monotonic() + seconds
        while not what():
            self.assertLess(time.monotonic(), end, self.read("agent.log"))
            time.sleep(0.05)

    def state(self):
        done = self.run_partita(*self.server, "agent", "--format", "json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def converged(self):
        state = self.state()
        return bool(state and state["converged"])

    def tasks_csv(self, seconds):
        log = self.path("tasks.log")
        rows = ["task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command,after"]
        for name, lasts in seconds.items():
            command = f"echo begin {name} >> {log}; sleep {lasts}; echo end {name} >> {log}"
            rows.append(f"{name},{lasts},{lasts},{lasts},{lasts},{lasts},{command},"
                        + ("a" if name == "last" else ""))
        return "\n".join(rows) + "\n"

    def said(self):
        """What tasks have said, by word and task."""
        if not os.path.exists(self.path("tasks.log")):
            return collections.Counter()
        return collections.Counter(self.read("tasks.log").splitlines())

    def instances(self, gpu):
        state = json.loads(subprocess.run(
            [harness.PROGRAM, "status", *ON_SIM, "--format", "json"],
            cwd=self.folder, capture_output=True, check=True).stdout)
        return state["gpus"][gpu]["instances"]

    def test_every_task_runs_once_though_the_agent_is_killed(self):
        agent = self.start()
        self.wait_for(self.converged)
        before = self.instances(0)
        self.assertTrue(before)
        self.write("tasks.csv", self.tasks_csv(SECONDS))
        taken = self.run_partita(*self.server, "batch", "run", "--tasks", "tasks.csv")
        self.assertEqual(taken.returncode, 0, taken.stderr)
        self.assertIn("8 tasks", taken.stdout.decode())
        for begun in (1, 3, 6):  # in the middle, with a task that ends while nobody watches
            self.wait_for(lambda: sum(count for word, count in self.said().items()
                                      if word.startswith("begin")) >= begun)
            agent.send_signal(signal.SIGKILL)
            agent.wait()
            time.sleep(0.6)
            agent = self.start()
        self.wait_for(lambda: (self.state() or {"batch": {"done": 0}})["batch"]["done"] == 8)
        self.assertEqual(self.said(), collections.Counter(
            [f"{word} {name}" for word in ("begin", "end") for name in SECONDS]))
        batch = self.state()["batch"]
        self.assertEqual((batch["waiting"], batch["running"]), (0, 0))
        gpus = {gpu["uuid"]: gpu["index"] for gpu in self.state()["gpus"]}
        self.assertEqual({task["name"] for task in batch["tasks"]}, set(SECONDS))
        times = {}
        for task in batch["tasks"]:
            self.assertEqual(task["state"], "done")
            self.assertEqual(gpus[task["gpu_uuid"]], 1)
            self.assertLessEqual(task["begin_ms"], task["end_ms"])
            times[task["name"]] = task
        self.assertLessEqual(times["a"]["end_ms"], times["last"]["begin_ms"])
        self.assertEqual(self.instances(0), before)  # services were not touched
        self.wait_for(lambda: self.instances(1) == [])
        shown = self.ok(*self.server, "agent")
        self.assertIn("8 are done", shown)
        self.assertIn("last", shown)
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(60), 0)

    def test_a_task_that_fails_is_not_tried_again_and_those_after_it_are_skipped(self):
        agent = self.start()
        self.wait_for(self.converged)
        log = self.path("tasks.log")
        self.write("tasks.csv", "task,time_s_1g,command,after\n"
                   f"bad,1,echo begin bad >> {log}; exit 3,\n"
                   f"next,1,echo begin next >> {log},bad\n"
                   f"long,2,sleep 2; echo begin long >> {log},\n")
        self.ok(*self.server, "batch", "run", "--tasks", "tasks.csv")
        self.wait_for(lambda: self.said()["begin bad"] == 1)
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        agent = self.start()
        self.wait_for(lambda: (self.state() or {"batch": {}})["batch"].get("failed") == 2)
        self.wait_for(lambda: self.state()["batch"]["done"] == 1)
        states = {task["name"]: task["state"] for task in self.state()["batch"]["tasks"]}
        self.assertEqual(states, {"bad": "failed", "next": "skipped", "long": "done"})
        self.assertEqual(self.said(), collections.Counter(["begin bad", "begin long"]))
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(60), 0)

    def test_a_batch_is_cancelled_though_the_agent_is_killed(self):
        agent = self.start()
        self.wait_for(self.converged)
        before = self.instances(0)
        # One that notes when it is asked to end; the last one can only begin after it.
        log = self.path("tasks.log")
        stay = f"trap 'echo asked stay >> {log}; exit 143' TERM; echo begin stay >> {log}; " \
               "sleep 300 & wait"
        self.write("tasks.csv", "task,time_s_1g,command,after\n"
                   f'stay,300,"{stay}",\n'
                   f"next,1,echo begin next >> {log},stay\n")
        self.ok(*self.server, "batch", "run", "--tasks", "tasks.csv")
        self.write("more.csv", f"task,time_s_1g,command\nmore,1,echo begin more >> {log}\n")
        self.ok(*self.server, "batch", "run", "--tasks", "more.csv")  # waits: the GPU is taken
        self.wait_for(lambda: self.said()["begin stay"] == 1)
        shown = self.ok(*self.server, "batch", "list")
        self.assertRegex(shown, r"(?m)^ *1 +running ")
        self.assertRegex(shown, r"(?m)^ *2 +waiting ")
        self.assertIn("batch 2 is cancelled", self.ok(*self.server, "batch", "cancel", "2"))
        told = self.ok(*self.server, "batch", "cancel", "1", "--why", "wrong data")
        self.assertIn("batch 1 is cancelled", told)
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        agent = self.start()
        batch = lambda number: self.json(*self.server, "batch", "show", number)
        # The old agent's state is still there when the new one does not listen yet.
        show = (*self.server, "batch", "show", "1")
        self.wait_for(lambda: self.run_partita(*show).returncode == 0 and
                      batch("1")["state"] == "cancelled")
        self.assertEqual(self.said(), collections.Counter(["begin stay", "asked stay"]))
        states = {task["name"]: task["state"] for task in batch("1")["tasks"]}
        self.assertEqual(states, {"stay": "cancelled", "next": "cancelled"})
        self.assertEqual([task["state"] for task in batch("2")["tasks"]], ["cancelled"])
        self.assertEqual((batch("1")["gpus"], self.instances(1)), ([], []))
        self.assertEqual(self.instances(0), before)
        for again in ("1", "2"):  # nothing more
            self.assertIn("is over", self.ok(*self.server, "batch", "cancel", again))
        done = self.run_partita(*self.server, "batch", "cancel", "3")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("no batch 3", done.stderr.decode())
        # The GPU is there for the next one, and who cancelled is kept.
        self.ok(*self.server, "batch", "run", "--tasks", "more.csv")
        self.wait_for(lambda: batch("3")["state"] == "done")
        self.assertEqual(self.said()["begin more"], 1)
        causes = [event["cause"] for event in
                  self.json(*self.server, "history", "--kind", "access")["events"]]
        self.assertIn("POST /v1/batch/1/cancel", causes)
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(60), 0)

    def test_a_batch_is_paused_though_the_agent_is_killed(self):
        agent = self.start()
        self.wait_for(self.converged)
        log = self.path("tasks.log")
        gate = self.path("gate")
        hold = f"echo begin hold >> {log}; while ! test -e {gate}; do sleep 0.05; done; " \
               f"echo end hold >> {log}"
        self.write("tasks.csv", "task,time_s_1g,command,after\n"
                   f'hold,5,"{hold}",\n'
                   f"next,1,echo begin next >> {log},hold\n")
        self.ok(*self.server, "batch", "run", "--tasks", "tasks.csv")
        self.wait_for(lambda: self.said()["begin hold"] == 1)
        told = self.ok(*self.server, "batch", "pause", "1", "--why", "data is late")
        self.assertIn("batch 1 is paused", told)
        self.assertIn("already", self.ok(*self.server, "batch", "pause", "1"))
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        agent = self.start()
        batch = lambda: self.json(*self.server, "batch", "show", "1")
        self.wait_for(lambda: self.run_partita(*self.server, "batch", "show", "1").returncode == 0)
        self.assertEqual(batch()["state"], "paused")
        states = lambda: {task["name"]: task["state"] for task in batch()["tasks"]}
        self.wait_for(lambda: states()["hold"] == "running")  # it went on all the while
        self.write("gate", "")
        self.wait_for(lambda: states()["hold"] == "done")
        self.wait_for(lambda: batch()["gpus"] == [])  # others may have its GPU
        self.wait_for(lambda: self.instances(1) == [])
        time.sleep(2)  # four looks of the agent
        self.assertEqual((batch()["state"], states()["next"]), ("paused", "waiting"))
        self.assertEqual(self.said(), collections.Counter(["begin hold", "end hold"]))
        self.assertIn("goes on", self.ok(*self.server, "batch", "resume", "1"))
        self.wait_for(lambda: batch()["state"] == "done")
        self.assertEqual(self.said(),
                         collections.Counter(["begin hold", "end hold", "begin next"]))
        events = self.json(*self.server, "history", "--kind", "desired")["events"]
        causes = [event["cause"].split(" ", 1)[1] for event in events]
        self.assertEqual([one for one in causes if "paused" in one or "resumed" in one],
                         ["resumed batch 1", "paused batch 1"])
        self.assertIn("data is late", [event.get("detail") for event in events])
        for word, status in (("pause", 1), ("resume", 1)):  # it is over
            done = self.run_partita(*self.server, "batch", word, "1")
            self.assertEqual(done.returncode, status, done.stderr)
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(60), 0)

    def test_what_cannot_be_is_refused(self):
        agent = self.start()
        self.wait_for(self.converged)
        for text, status, message in (
                ("task,time_s_1g\na,1\n", 2, "no command"),
                ("task,time_s_1g,command\na,-1,true\n", 2, "tasks:2"),
                ("task,time_s_1g,command,after\na,1,true,b\n", 2, "b")):
            self.write("tasks.csv", text)
            done = self.run_partita(*self.server, "batch", "run", "--tasks", "tasks.csv")
            self.assertEqual(done.returncode, status, text + done.stderr.decode())
            self.assertIn(message, done.stderr.decode())
        done = self.run_partita(*self.server, "batch", "run", "--tasks", "tasks.csv", "--gpu", "0")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("policy.batch", done.stderr.decode())
        self.assertEqual(self.state()["batch"], {"waiting": 0, "running": 0, "done": 0})
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
