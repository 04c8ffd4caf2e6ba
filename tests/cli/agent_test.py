"""partita agent on simulated machines: it makes the node as wanted, holds its lock, ends when
asked, and goes on after kill -9 at random points to the state that it would have without."""

import fcntl
import json
import os
import random
import re
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
NVML_SIM = os.path.join(os.path.dirname(harness.PROGRAM), "sim")
ON_SIM = ["--driver", "sim", "--machine", "machine.yaml", "--state-dir", "state"]
KEPT = ("node.state", "state/agent-memory.json", "state/journal", "state/assignment.json")
KILLS = int(os.environ.get("PARTITA_KILLS", "20"))


class AgentTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)
        self.write("services.yaml", SERVICES % 300)
        self.driver = ON_SIM

    def quick_settings(self, driver):
        """Looks every second; a GPU that is well again is used at once."""
        machine = ", machine: machine.yaml" if driver == "sim" else ""
        self.write("agent.yaml", f"""node: {{driver: {driver}, state_dir: state{machine}}}
policy: {{mode: automatic, look_s: 1, health: {{back_after_s: 0}}}}
server: {{socket: {self.path("api.sock")}}}
""")
        return "agent.yaml"

    def agent(self, *more):
        return [harness.PROGRAM, "agent", *self.driver, "--services", "services.yaml",
                "--profiles", "profiles.csv", *more]

    def start(self, *more):
        with open(self.path("agent.log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(self.agent("--mode", "automatic", *more), cwd=self.folder,
                                       stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def layout(self):
        state = json.loads(subprocess.run(
            [harness.PROGRAM, "status", *self.driver, "--format", "json"],
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

    def change_machine(self, change):
        """Does something to the simulated machine, as whoever else shares it does."""
        with open(self.path("node.state.lock"), "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            machine = json.loads(self.read("node.state"))
            change(machine)
            self.write("node.state.new", json.dumps(machine))
            os.replace(self.path("node.state.new"), self.path("node.state"))

    @staticmethod
    def xid(gpu, number):
        """A GPU reports an XID; of 95 the driver wants a reset."""
        def change(machine):
            health = machine["gpus"][gpu].setdefault("health", {
                "reported": 0, "uncorrected_errors": 0, "rows_pending": False,
                "rows_failed": False, "recovery": 0, "xids": []})
            health["reported"] += 1
            health["recovery"] = 1 if number == 95 else health["recovery"]
            health["xids"].append({"number": health["reported"], "xid": number, "gi_id": -1,
                                   "ci_id": -1})
        return change

    def out(self):
        memory = json.loads(self.read("state/agent-memory.json"))
        return [(one["uuid"], one["why"]) for one in memory["out"]]

    def kept(self, kind):
        done = subprocess.run(
            [harness.PROGRAM, "history", "--state-dir", "state", "--format", "json", "--kind",
             kind], cwd=self.folder, capture_output=True, check=True)
        return json.loads(done.stdout)["events"]

    def test_sighup_takes_a_new_address_and_says_what_needs_a_restart(self):
        settings = self.quick_settings("sim")
        process = self.start("--settings", settings)
        self.wait_for(lambda: " keeps " in self.read("agent.log"))
        self.assertTrue(os.path.exists(self.path("api.sock")))
        text = self.read(settings)

        def reread(changed, said):
            self.write(settings, changed)
            process.send_signal(signal.SIGHUP)
            self.wait_for(lambda: said in self.read("agent.log"))

        reread(text.replace("api.sock", "new.sock"), "new.sock")
        self.wait_for(lambda: "read again" in self.read("agent.log"))
        self.assertTrue(os.path.exists(self.path("new.sock")))
        self.assertFalse(os.path.exists(self.path("api.sock")))
        # An address that cannot be leaves the API where it is.
        reread(text.replace("api.sock", "agent.log/api.sock"), "the API stays where it was")
        self.wait_for(lambda: os.path.exists(self.path("new.sock")))
        asked = subprocess.run([harness.PROGRAM, "--server", "unix:" + self.path("new.sock"),
                                "status"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        reread(text.replace("state_dir: state", "state_dir: state, catalogue: no"),
               "'node' was changed")
        reread(text.replace("policy", "polices"), "the settings stay as they were")
        self.stop(process)

    def numbers(self):
        """Number and maker of the changes that this history has, by their beginnings."""
        events = sorted(self.kept("applying") + self.kept("repair"), key=lambda one: one["id"])
        return [(one["change"], one["user"]) for one in events if one["change"] > 0]

    def by_hand(self, name, *places):
        """Applies a layout of single instances by hand."""
        self.write(name, json.dumps({
            "api_version": "partita/v1", "kind": "ServingPlan", "gpu_model": "A100-80GB",
            "planner": "by hand", "slo_rule": "queueing",
            "services": [{"name": "chat", "rate_rps": 50, "planned_rps": 100.0 * len(places),
                          "slo_ms": 100, "predicted_latency_ms": 20}],
            "gpus": [{"index": 0, "model": "A100-80GB", "instances": [
                {"profile": profile, "start": start, "service": "chat", "batch": 4,
                 "processes": 1, "throughput_rps": 100, "latency_ms": 10}
                for profile, start in places]}]}))
        done = subprocess.run([harness.PROGRAM, "apply", name, *ON_SIM], cwd=self.folder,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def forget_history(self):
        for end in ("", "-wal", "-shm"):
            if os.path.exists(self.path("state/history.db" + end)):
                os.remove(self.path("state/history.db" + end))

    def test_no_two_changes_have_one_number(self):
        """By hand, by the agent, after kills, with the history moved away in between."""
        given = []
        for _ in range(2):
            self.by_hand("one.json", ("3g.40gb", 0))
            self.by_hand("two.json", ("3g.40gb", 4), ("1g.10gb", 0))
            killed = self.start()
            self.wait_for(lambda: len(self.numbers()) > 2)  # the agent's, under way or done
            killed.kill()
            killed.wait()
            again = self.start()
            self.wait_for(self.in_force)
            self.stop(again)
            self.by_hand("one.json", ("3g.40gb", 0))
            now = self.numbers()
            self.assertGreaterEqual(len(now), 4)
            given += now
            self.forget_history()
        self.by_hand("two.json", ("3g.40gb", 4), ("1g.10gb", 0))
        os.remove(self.path("state/last-change"))  # the history is enough
        self.by_hand("one.json", ("3g.40gb", 0))
        given += self.numbers()
        # The agent may begin one of its own again, after a kill; nobody else ever has its number.
        by_hand = [number for number, user in given if user != "agent"]
        self.assertEqual(by_hand, sorted(set(by_hand)))
        agents = {number for number, user in given if user == "agent"}
        self.assertTrue(agents)
        self.assertFalse(agents & set(by_hand))
        first = list(dict.fromkeys(number for number, _ in given))
        self.assertEqual(first, sorted(first))

    def takes_a_gpu_out(self, process):
        """An XID of a program's fault changes nothing; one of the GPU's takes it out, its services
        go elsewhere, and it is said; when the GPU was reset it comes back."""
        self.wait_for(self.in_force)
        self.wait_for(lambda: " keeps " in self.read("agent.log"))
        gpus = self.layout()["gpus"]
        used = max(gpus, key=lambda gpu: len(gpu["instances"]))
        self.change_machine(self.xid(used["index"], 31))
        self.change_machine(self.xid(used["index"], 95))
        self.wait_for(lambda: self.out())
        self.assertEqual([uuid for uuid, _ in self.out()], [used["uuid"]])
        self.assertIn("XID 95", self.out()[0][1])
        self.wait_for(lambda: not self.layout()["gpus"][used["index"]]["instances"]
                      and self.in_force())
        self.assertEqual({place[3] for place in self.places()}, {"chat", "search"})
        self.assertIn("XID 95", self.read("agent.log"))
        told = [one for one in self.kept("health") if one["subject"] == used["uuid"]]
        self.assertEqual(len(told), 1, told)
        self.assertIn("taken out", told[0]["detail"])

        def reset(machine):
            machine["gpus"][used["index"]]["health"]["recovery"] = 0
        self.change_machine(reset)
        self.wait_for(lambda: not self.out())
        self.stop(process)

    def test_a_sick_gpu_is_taken_out_and_its_services_go_elsewhere(self):
        self.write("services.yaml", SERVICES % 100)
        self.takes_a_gpu_out(self.start("--settings", self.quick_settings("sim")))

    def test_the_same_through_the_simulated_nvml(self):
        if not os.path.exists(os.path.join(NVML_SIM, "libnvidia-ml.so.1")):
            self.skipTest("a build without the simulated libnvidia-ml")
        self.write("services.yaml", SERVICES % 100)
        self.variable("LD_LIBRARY_PATH", NVML_SIM)
        self.variable("PARTITA_SIM", self.path("machine.yaml"))
        self.driver = ["--state-dir", "state"]
        self.takes_a_gpu_out(self.start("--settings", self.quick_settings("nvml")))

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

    def test_a_damaged_file_ends_nothing(self):
        process = self.start()
        self.wait_for(self.in_force)
        self.stop(process)
        before, memory = self.places(), json.loads(self.read("state/agent-memory.json"))
        for name, text in (("history.db", "garbage" * 1000), ("agent-memory.json", "{"),
                           ("last-change", ""), ("journal", ""), ("assignment.json", "[]")):
            self.write("state/" + name, text)
            process = self.start()
            self.wait_for(lambda name=name: f"state/{name}.damaged-1" in self.read("agent.log"))
            self.stop(process)
            self.assertEqual(self.read(f"state/{name}.damaged-1"), text)
            self.assertRegex(self.read("agent.log"), rf"notice: \S*state/{name}")
            self.assertEqual(self.places(), before, name)
            self.assertTrue(any(one["subject"].endswith(name) for one in self.kept("repair")), name)
            now = json.loads(self.read("state/agent-memory.json"))
            self.assertEqual((now["changes"], now["target"]), (memory["changes"], memory["target"]))
        # One that nobody can open is named, and the node is kept all the same.
        os.remove(self.path("state/history.db"))
        os.mkdir(self.path("state/history.db"))
        process = self.start()
        self.wait_for(lambda: "the history is not kept: state/history.db" in self.read("agent.log"))
        self.stop(process)
        self.assertEqual(self.places(), before)

    def test_a_look_changes_nothing(self):
        done = subprocess.run(self.agent("--once", "--format", "json"), cwd=self.folder,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["kind"], "AgentState")
        self.assertEqual(self.places(), [])
        self.assertFalse(os.path.exists(self.path("state/agent-memory.json")))

    def test_a_look_says_what_is_left_out_where_gpus_are_short(self):
        self.write("services.yaml", SERVICES % 30_000)
        done = subprocess.run(self.agent("--once"), cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        part = re.search(r"only a part is served: chat (\S+) of (\S+) req/s \((\d+) %\)",
                         done.stdout)
        self.assertTrue(part, done.stdout)
        served, asked, share = (float(word) for word in part.groups())
        self.assertGreaterEqual(asked, 30_000)
        self.assertLess(served, asked)
        self.assertAlmostEqual(share, 100 * served / asked, delta=1)
        whole = re.search(r"all that is asked for would take (\d+) GPUs \(no plan has fewer than "
                          r"(\d+)\); 2 can be used", done.stdout)
        self.assertTrue(whole, done.stdout)
        self.assertGreaterEqual(int(whole.group(1)), int(whole.group(2)))
        self.assertGreater(int(whole.group(2)), 2)
        # No reason for the part passes as one for all.
        reasons = [line for line in done.stdout.splitlines() if "lower bound" in line]
        self.assertTrue(all(line.strip().startswith("of this part: ") for line in reasons),
                        reasons)

    def test_a_services_file_that_is_gone_is_told(self):
        for once in ((), ("--once",)):
            done = subprocess.run([harness.PROGRAM, "agent", *self.driver, "--services", "nope",
                                   "--profiles", "profiles.csv", *once], cwd=self.folder,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--services nope: ", done.stderr)
        self.start("--settings", self.quick_settings("sim"))
        self.wait_for(self.in_force)
        text = self.read("services.yaml")
        told = "the services file is not taken: services.yaml"

        def notices():
            shown = subprocess.run([harness.PROGRAM, "--server", "unix:" + self.path("api.sock"),
                                    "agent"], cwd=self.folder, capture_output=True, text=True)
            return shown.stdout.count(told)

        for times, broken in enumerate(("services: 7\n", None, "services:\n- {name: a}\n"), 1):
            if broken is None:
                os.remove(self.path("services.yaml"))
            else:
                self.write("services.yaml", broken)
            self.wait_for(lambda now=times: self.read("agent.log").count(told) == now)
            self.assertEqual(notices(), 1)
            self.write("services.yaml", text)
            self.wait_for(lambda: notices() == 0)

    def test_two_agents_of_one_state_directory(self):
        first = self.start("--settings", self.quick_settings("sim"))
        self.wait_for(lambda: "api.sock" in self.read("agent.log"))
        self.write("other.yaml", MACHINE.replace("node.state", "other.state"))
        for machine, said in (("other.yaml", "an agent keeps its state in this directory"),
                              ("machine.yaml", f"`partita --server unix:{self.path('api.sock')}`")):
            second = subprocess.run(
                [harness.PROGRAM, "agent", "--driver", "sim", "--machine", machine, "--state-dir",
                 "state", "--services", "services.yaml", "--profiles", "profiles.csv"],
                cwd=self.folder, capture_output=True, text=True, timeout=60)
            self.assertEqual(second.returncode, 3, second.stderr)
            self.assertIn(said, second.stderr)
            self.assertIn(f"pid {first.pid} ", second.stderr)
        self.stop(first)

    def test_a_look_that_cannot_plan_says_so(self):
        self.write("services.yaml", re.sub(r"slo_ms: \d+", "slo_ms: 0.01", SERVICES) % 300)
        done = subprocess.run(self.agent("--once"), cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("these services cannot be planned: ", done.stdout)
        self.write("services.yaml", "services:\n- {name: a, model: b, rate_rps: 1, slo_ms: 9}\n")
        done = subprocess.run(self.agent("--once"), cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("services.yaml:2: ", done.stderr)
        done = subprocess.run(self.agent("--settings", "nope"), cwd=self.folder,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--settings nope: ", done.stderr)

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

    def test_what_is_of_a_simulation_is_refused_without_one(self):
        for words in (("--tasks", "tasks.csv"), ("--calm",), ("--node", "n.yaml"), ("--pace", "5")):
            done = self.run_partita("agent", "--once", "--driver", "sim", "--services",
                                    "services.yaml", "--profiles", "profiles.csv", *words)
            self.assertEqual((done.returncode, b"--simulate" in done.stderr), (2, True), words)

    def test_simulated_groups_of_gpus_serve_and_the_unserved_say_why(self):
        points = os.path.join(harness.SOURCE, "data/published/llm/measured.csv")
        self.write("node.yaml", "gpus: [{model: H100-80GB-SXM5, count: 8, mig: true}]\n")
        service = ("services: [{name: big, kind: llm, model: meta-llama/Llama-3.1-8B-Instruct, "
                   "rate_rps: 8, slo: {ttft_ms: 800, tpot_ms: 30}, tokens: {in: 1000, out: 300}}]")
        self.write("llm.yaml", service)
        weeks = ("agent", "--simulate", "1", "--calm", "--services", "llm.yaml", "--profiles",
                 points)
        report = self.json(*weeks, "--node", "node.yaml")
        self.assertGreater(report["services"][0]["attainment"], 0.99)
        self.assertEqual(report["failed_changes"], 0)
        self.assertNotIn("why", report["services"][0])
        done = self.run_partita(*weeks, "--format", "json")  # A100s, on which nobody measured it
        self.assertEqual(done.returncode, 1)
        self.assertIn("service big: no request was answered in time", done.stderr.decode())
        [service] = json.loads(done.stdout)["services"]
        self.assertTrue(service["why"])

    def test_refuses_with_the_line(self):
        for text, message in (("polcy: {}\n", "agent.yaml:1"),
                              ("policy: {mode: sometimes}\n", "agent.yaml:1"),
                              ("policy: {hooks_before: [stop]}\n", "'stop'"),
                              ("server: {port: 1}\n", "agent.yaml:1")):
            self.write("agent.yaml", text)
            done = subprocess.run(self.agent("--once", "--settings", "agent.yaml"),
                                  cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, text + done.stderr)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
