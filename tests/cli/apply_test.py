"""apply, rollback and drain on simulated machines: the node becomes what the plan says, and every
wrong input leaves it as it was."""

import json
import os
import signal
import subprocess
import time
import unittest
from xml.etree import ElementTree

import harness
from status_test import have_nvml

MACHINE = """gpus: [{model: A100-80GB, count: 2, mig: true}]
state: node.state
speed: 0
"""


def plan(*gpus, model="A100-80GB"):
    """A plan of GPUs, each a list of (profile, start, service)."""
    instances = [
        {"profile": profile, "start": start, "service": service, "batch": 4, "processes": 1,
         "throughput_rps": 100, "latency_ms": 10}
        for gpu in gpus for profile, start, service in gpu]
    cut = iter(instances)
    carried = {}
    for one in instances:
        carried[one["service"]] = carried.get(one["service"], 0) + one["throughput_rps"]
    return json.dumps({
        "api_version": "partita/v1", "kind": "ServingPlan", "gpu_model": model,
        "planner": "by hand", "slo_rule": "queueing",
        "services": [{"name": name, "rate_rps": 50, "planned_rps": rps, "slo_ms": 100,
                      "predicted_latency_ms": 20} for name, rps in sorted(carried.items())],
        "gpus": [{"index": index, "model": model, "instances": [next(cut) for _ in gpu]}
                 for index, gpu in enumerate(gpus)]})


ONE = [("3g.40gb", 0, "chat"), ("1g.10gb", 4, "search"), ("1g.10gb", 5, "search")]
TWO = [("3g.40gb", 0, "chat"), ("2g.20gb", 4, "search")]


class ApplyTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)
        self.write("one.json", plan(ONE))
        self.write("two.json", plan(TWO, [("7g.80gb", 0, "chat")]))

    def on_sim(self, command, *more):
        return (command, "--driver", "sim", "--machine", "machine.yaml", "--state-dir", "state",
                *more)

    def node(self):
        """(gpu, profile, start) to (gi_id, uuid), and (gpu, profile, start) to service."""
        state = self.json(*self.on_sim("status"))
        found = {(gpu["index"], one["profile"], one["start"]): one
                 for gpu in state["gpus"] for one in gpu["instances"]}
        return ({place: (one["gi_id"], one["uuid"]) for place, one in found.items()},
                {place: one.get("service") for place, one in found.items()})

    def apply(self, *more, status=0):
        done = self.run_partita(*self.on_sim("apply", *more))
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done.stderr.decode()

    def start(self, *args):
        return subprocess.Popen([harness.PROGRAM, *args], cwd=self.folder,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def holder(self, uuid):
        """A process that uses the MIG device."""
        process = subprocess.Popen(["sleep", "60"],
                                   env={**os.environ, "CUDA_VISIBLE_DEVICES": uuid})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_dry_run_says_what_apply_then_does(self):
        change = self.json(*self.on_sim("apply", "one.json", "--dry-run"))
        self.assertEqual((change["api_version"], change["kind"]), ("partita/v1", "Change"))
        self.assertEqual((change["keep"], change["destroy"], change["move"]), ([], [], []))
        self.assertAlmostEqual(change["predicted_s"],
                               sum(step["predicted_s"] for step in change["steps"]))
        self.assertFalse(os.path.exists(self.path("state")))
        self.assertEqual(self.node()[0], {})
        created = {(one["gpu"], one["profile"], one["start"]): one["service"]
                   for one in change["create"]}
        self.apply("one.json")
        self.assertEqual(self.node()[1], created)
        self.assertEqual(sorted(created.values()), ["chat", "search", "search"])
        self.assertIn("nothing to do", self.apply("one.json"))

    def test_what_stays_is_not_touched_and_rollback_brings_back(self):
        self.apply("one.json")
        before, services = self.node()
        change = self.json(*self.on_sim("apply", "two.json", "--dry-run"))
        kept = {(one["gpu"], one["profile"], one["start"]): (one["gi_id"], one["uuid"])
                for one in change["keep"]}
        self.assertEqual(len(kept), 1)
        self.assertEqual({one["name"] for one in change["affected_services"]}, {"search"})
        self.assertTrue(all(one["unavailable_s"] == 0 for one in change["affected_services"]))
        self.apply("two.json")
        after = self.node()[0]
        self.assertEqual(len(after), 3)
        self.assertEqual({place: after[place] for place in kept}, kept)
        text = self.ok(*self.on_sim("rollback", "--dry-run"))
        self.assertIn("+ gpu 0 1g.10gb at 4  search b4x1", text)
        self.ok(*self.on_sim("rollback"))
        now, again = self.node()
        self.assertEqual(again, services)
        for place, ids in kept.items():
            self.assertEqual((before[place], now[place]), (ids, ids))

    def test_again_brings_back_what_a_reboot_took(self):
        self.refused_again()
        self.ok(*self.on_sim("apply", "one.json"))
        self.ok(*self.on_sim("apply", "two.json"))
        wanted = self.node()[1]
        # All is there: nothing to do, and nothing is noted.
        journal = self.read("state/journal")
        self.ok(*self.on_sim("apply", "--again"))
        self.assertEqual(self.read("state/journal"), journal)
        os.remove(self.path("node.state"))
        self.assertEqual(self.node()[0], {})
        dry = self.ok(*self.on_sim("apply", "--again", "--dry-run"))
        self.assertIn("3 created", dry)
        self.ok(*self.on_sim("apply", "--again"))
        self.assertEqual(self.node()[1], wanted)
        # After a rollback that is what was applied last.
        self.ok(*self.on_sim("rollback"))
        before = self.node()[1]
        os.remove(self.path("node.state"))
        self.ok(*self.on_sim("apply", "--again"))
        self.assertEqual(self.node()[1], before)
        for more in (("one.json",), ("--rollback",)):
            done = self.run_partita(*self.on_sim("apply", "--again", *more))
            self.assertEqual(done.returncode, 2)

    def test_again_undoes_what_was_cut_short(self):
        self.ok(*self.on_sim("apply", "one.json"))
        before = self.node()[1]
        self.write("machine.yaml", MACHINE + "faults: [{call: 5, dies: true}]\n")
        self.run_partita(*self.on_sim("apply", "two.json"))
        self.write("machine.yaml", MACHINE)
        self.assertNotEqual(self.node()[1], before)
        os.remove(self.path("node.state"))
        self.ok(*self.on_sim("apply", "--again"))
        self.assertEqual(self.node()[1], before)

    def refused_again(self):
        done = self.run_partita(*self.on_sim("apply", "--again"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"nothing was ever applied here", done.stderr)

    def test_a_picture_of_what_would_be(self):
        self.ok(*self.on_sim("apply", "one.json"))
        svg = self.ok(*self.on_sim("apply", "two.json", "--dry-run", "--format", "svg"))
        boxes = [box.findtext("{http://www.w3.org/2000/svg}text") for box in
                 ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g")
                 if box.get("class", "").startswith("instance") and len(box) > 2]
        self.assertEqual(len([b for b in boxes if b.startswith("+ ")]), 2)
        self.assertIn("prefers-color-scheme", svg)
        status = self.ok(*self.on_sim("status", "--format", "svg"))
        self.assertEqual(status.count('class="instance'), 3)
        self.assertIn(">chat</text>", status)

    def hooks(self, stop_status=0):
        """Settings with hooks that note what they are told; what was noted so far is forgotten."""
        self.write("noted", "")
        note = 'echo "$0 $PARTITA_PHASE $PARTITA_CHANGE" >> noted'
        def hook(name, more=""):
            return json.dumps({"name": name, "command": ["sh", "-c", note + more, name]})
        self.write("agent.yaml", f"""hooks:
  - {hook("stop-exporter", f"; exit {stop_status}")}
  - {hook("start-exporter", "; exit 7")}
  - {hook("start-plugin")}
policy: {{hooks_before: [stop-exporter], hooks_after: [start-exporter, start-plugin]}}
""")

    def noted(self):
        return self.read("noted").splitlines()

    def hook_events(self):
        events = self.json("history", "--state-dir", "state", "--kind", "hook")["events"]
        return [(one["subject"], one["outcome"], one["change"]) for one in reversed(events)]

    def test_hooks_run_around_what_is_done_and_whatever_comes_of_it(self):
        with_hooks = ("--hooks", "agent.yaml")
        self.hooks()
        self.apply("one.json", *with_hooks)
        around = ["stop-exporter before {0}", "start-exporter after {0}", "start-plugin after {0}"]
        self.assertEqual(self.noted(), [line.format(1) for line in around])
        self.assertEqual(self.hook_events(), [("stop-exporter", "succeeded", 1),
                                              ("start-exporter", "failed", 1),
                                              ("start-plugin", "succeeded", 1)])
        self.assertEqual(self.json("history", "--state-dir", "state", "--kind", "applied")
                         ["events"][0]["change"], 1)
        # Nothing to do, or nothing done: no hook.
        self.hooks()
        self.assertIn("nothing to do", self.apply("one.json", *with_hooks))
        self.ok(*self.on_sim("apply", "two.json", "--dry-run", *with_hooks))
        self.assertEqual(self.noted(), [])
        # One that fails before: nothing is touched, those afterwards run.
        before = self.node()
        self.hooks(stop_status=3)
        said = self.apply("two.json", *with_hooks, status=3)
        self.assertIn("stop-exporter", said)
        self.assertEqual(self.node(), before)
        self.assertEqual([line.split()[0] for line in self.noted()],
                         ["stop-exporter", "start-exporter", "start-plugin"])
        # A change that fails, and one that is interrupted.
        self.hooks()
        pid = self.holder(before[0][0, "1g.10gb", 4][1]).pid
        said = self.apply("two.json", "--drain-timeout", "0.05", *with_hooks, status=3)
        self.assertIn(str(pid), said)
        self.assertEqual(len(self.noted()), 3)
        self.hooks()
        running = self.start(*self.on_sim("apply", "two.json", "--drain-timeout", "600",
                                          *with_hooks))
        end = time.monotonic() + 60
        while not self.noted() and time.monotonic() < end:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        self.assertNotEqual(running.wait(60), 0)
        self.assertEqual([line.split()[0] for line in self.noted()],
                         ["stop-exporter", "start-exporter", "start-plugin"])
        # Rollback and drain have them, too.
        self.hooks()
        self.ok(*self.on_sim("drain", before[0][0, "3g.40gb", 0][1], *with_hooks))
        self.assertEqual(len(self.noted()), 3)
        done = self.run_partita(*self.on_sim("rollback", "--hooks", "nowhere.yaml"))
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--hooks nowhere.yaml", done.stderr)

    def test_a_reset_for_mig_mode_can_be_refused(self):
        self.write("machine.yaml", """gpus: [{model: A100-80GB, mig: false}, {model: A100-80GB}]
state: node.state
speed: 0
processes: [{gpu: 0, pid: 4711, name: trainer}]
""")
        self.write("both.json", plan(ONE, TWO))
        said = self.apply("both.json", "--no-reset", status=3)
        self.assertIn("--no-reset", said)
        self.assertIn("nvidia-smi --gpu-reset -i 0", said)
        self.assertEqual(self.node()[0], {})
        said = self.apply("both.json", status=3)
        self.assertIn("4711 (trainer)", said)
        self.assertIn("gpu 0", said)
        self.assertEqual(self.node()[0], {})
        os.remove(self.path("node.state"))
        self.write("machine.yaml", self.read("machine.yaml").split("processes")[0])
        self.apply("both.json")
        self.assertEqual(len(self.node()[0]), 5)
        # Hopper turns MIG on without one.
        os.remove(self.path("node.state"))
        self.write("machine.yaml", """gpus: [{model: H100-80GB-SXM5, mig: false}]
state: node.state
speed: 0
""")
        self.write("hopper.json", plan([("1g.10gb", 0, "chat")], model="H100-80GB-SXM5"))
        self.ok("apply", "hopper.json", "--driver", "sim", "--machine", "machine.yaml",
                "--state-dir", "other")

    def test_a_kill_at_any_moment_is_made_good_by_the_same_command(self):
        self.write("machine.yaml", MACHINE.replace("speed: 0", "speed: 0.1"))
        for wait_s in (0.03, 0.06, 0.1):
            running = self.start(*self.on_sim("apply", "two.json"))
            time.sleep(wait_s)
            running.send_signal(signal.SIGKILL)
            running.wait()
        self.apply("two.json")
        self.assertEqual(sorted(self.node()[1]),
                         [(0, "2g.20gb", 4), (0, "3g.40gb", 0), (1, "7g.80gb", 0)])

    def test_processes_of_others_are_named_and_nothing_is_changed(self):
        self.apply("one.json")
        before = self.node()
        pid = self.holder(before[0][0, "1g.10gb", 4][1]).pid
        blockers = self.json(*self.on_sim("apply", "two.json", "--dry-run"))["blockers"]
        self.assertEqual([one["pid"] for one in blockers], [])  # our segment's, as far as we know
        said = self.apply("two.json", "--drain-timeout", "0.05", status=3)
        self.assertIn(str(pid), said)
        self.assertEqual(self.node()[0][0, "1g.10gb", 4], before[0][0, "1g.10gb", 4])
        device = before[0][0, "1g.10gb", 4][1]
        done = self.run_partita(*self.on_sim("drain", device, "--wait", "0.05"))
        self.assertEqual(done.returncode, 3)
        self.assertIn(str(pid), done.stderr.decode())

    def test_wrong_input_is_refused_and_changes_nothing(self):
        self.apply("one.json")
        before = self.node()
        journal = self.read("state/journal")
        self.write("h200.json", plan([("1g.18gb", 0, "chat")], model="H200-141GB"))
        self.write("three.json", plan(ONE, ONE, ONE))
        self.write("illegal.json", plan([("4g.40gb", 0, "chat"), ("3g.40gb", 0, "chat")]))
        for args, status, words in (
                (("h200.json",), 2, "the plan is for H200-141GB, this node has A100-80GB"),
                (("three.json",), 1, "the plan needs 3 GPUs of model A100-80GB, 2 can be used"),
                (("illegal.json",), 2, "illegal.json: gpu 0: A100-80GB cannot be cut like this"),
                (("nowhere.json",), 2, "nowhere.json"),
                (("machine.yaml",), 2, "machine.yaml"),
                (("one.json", "--min-available", "2"), 2, "--min-available"),
                ((), 2, "PLAN")):
            with self.subTest(words):
                self.assertIn(words, self.apply(*args, status=status))
        lines = journal.splitlines(keepends=True)
        lines[1] = lines[1].replace("chat", "chut")
        self.write("state/journal", "".join(lines))
        self.assertIn("state/journal:2", self.apply("two.json", status=2))
        self.write("state/journal", journal)
        self.assertEqual(self.node(), before)

    def test_a_plan_that_does_not_hold_together_is_not_applied(self):
        right = json.loads(self.read("one.json"))
        row = right["services"][0]
        for words, services in (
                ("gpu 0 instance 0: unknown_service", []),
                ("gpu 0 instance 1: unknown_service", [row]),
                ("service idle: missing_service", [*right["services"], {**row, "name": "idle"}]),
                ("service chat: rate: have 100, need 120",
                 [{**row, "rate_rps": 120}, *right["services"][1:]]),
                ("service chat: slo: have 101, need 100",
                 [{**row, "predicted_latency_ms": 101}, *right["services"][1:]])):
            with self.subTest(words):
                self.write("wrong.json", json.dumps({**right, "services": services}))
                for more in ((), ("--dry-run",)):
                    said = self.apply("wrong.json", *more, status=1)
                    self.assertIn("wrong.json: the plan is broken:\n", said)
                    self.assertIn(words, said)
        self.assertEqual(self.node(), ({}, {}))

    def test_services_and_profiles_judge_the_plan_as_verify_does(self):
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        inputs = ("--services", "services.yaml", "--profiles", "profiles.csv")
        self.apply("plan.json", "--dry-run", *inputs)
        self.apply("plan.json", "--dry-run", *inputs[:2], status=2)
        self.apply("plan.json", "--dry-run", *inputs[2:], status=2)
        self.write_services("name: chat, model: small, rate_rps: 120, slo_ms: 201",
                            "name: search, model: large, rate_rps: 30, slo_ms: 500")
        said = self.apply("plan.json", "--dry-run", *inputs, status=1)
        self.assertIn("the plan is broken:\n  plan: problem_digest (it was made for other ", said)
        self.apply("plan.json", "--dry-run")

    def test_no_driver_and_no_rollback_point(self):
        if not have_nvml():
            done = self.run_partita("apply", "one.json", "--state-dir", "state")
            self.assertEqual(done.returncode, 3, done.stderr.decode())
            self.assertIn("libnvidia-ml.so.1", done.stderr.decode())
        done = self.run_partita(*self.on_sim("rollback"))
        self.assertEqual(done.returncode, 1, done.stderr.decode())
        self.assertFalse(os.path.exists(self.path("state/journal")))

    def test_drain_takes_segments_off(self):
        self.ok(*self.on_sim("drain", "0"))  # a node on which nothing was ever applied
        self.apply("one.json")
        self.ok(*self.on_sim("drain", "0"))
        self.assertEqual(set(self.node()[1].values()), {None})
        self.assertIn("no GPU and no MIG device is called '7'",
                      self.run_partita(*self.on_sim("drain", "7")).stderr.decode())

    def test_an_interrupt_puts_back_and_says_one_sentence(self):
        self.apply("one.json")
        before, services = self.node()
        holder = self.holder(before[0, "1g.10gb", 4][1])
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            running = subprocess.Popen(
                [harness.PROGRAM, *self.on_sim("apply", "two.json", "--min-available", "0")],
                cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            said = ""
            while "waiting for pid" not in said:
                said += running.stderr.readline()
            running.send_signal(number)
            rest = running.communicate(timeout=20)[1]
            self.assertEqual(running.returncode, 3, rest)
            self.assertEqual(rest.splitlines()[-1],
                             "partita: interrupted; `partita apply` again goes on, "
                             "`partita apply --rollback` goes back")
            now, segments = self.node()
            for place in before.keys() & now.keys():
                self.assertEqual((now[place], segments[place]), (before[place], services[place]))
            unfinished = self.json(*self.on_sim("status"))["unfinished"]
            self.assertEqual(unfinished["kind"], "apply")
            self.assertIn("interrupted", unfinished["reason"])
        self.assertIn("unfinished: transaction 2 (apply): interrupted",
                      self.ok(*self.on_sim("status")))
        holder.kill()
        holder.wait()
        self.apply("two.json", "--min-available", "0")
        self.assertNotIn("unfinished", self.json(*self.on_sim("status")))

    def test_an_interrupt_before_anything_is_begun_ends_in_order(self):
        for sent in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            child = subprocess.Popen([harness.PROGRAM, *self.on_sim("apply", "-")],
                                     cwd=self.folder, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(child.kill)
            for _ in range(1000):  # until it has taken the lock, and waits for its plan
                if os.path.exists(self.path("node.state.node.lock")):
                    break
                time.sleep(0.01)
            time.sleep(0.05)
            child.send_signal(sent)
            out, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 3, err)
            self.assertEqual(err, b"partita: interrupted before anything was begun\n")
            os.remove(self.path("node.state.node.lock"))
        self.assertFalse(os.path.exists(self.path("state/journal")))

    def test_an_empty_journal_is_noticed(self):
        self.ok(*self.on_sim("apply", "one.json"))
        before = self.node()
        self.write("state/journal", "")
        for words in (("apply", "two.json"), ("apply", "two.json", "--dry-run")):
            done = self.run_partita(*self.on_sim(*words))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("state/journal:1: is empty, though the assignment names 3 instances",
                          done.stderr.decode())
        self.assertEqual(self.node(), before)
        os.remove(self.path("state/journal"))  # as it says
        self.ok(*self.on_sim("apply", "two.json"))

    def test_a_reader_that_goes_away_is_an_interrupt(self):
        self.write("machine.yaml", MACHINE.replace("speed: 0", "speed: 0.3"))
        running = subprocess.Popen([harness.PROGRAM, *self.on_sim("apply", "two.json")],
                                   cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        running.stderr.readline()
        running.stderr.close()
        self.assertEqual(running.wait(timeout=20), 3)
        for gpu in self.json(*self.on_sim("status"))["gpus"]:
            self.assertTrue(all(one["uuid"] for one in gpu["instances"]))
        self.assertIn("interrupted", self.json(*self.on_sim("status"))["unfinished"]["reason"])
        self.apply("two.json")

    def test_a_second_rollback_finds_nothing_to_do_and_says_where_it_goes(self):
        self.apply("one.json")
        before = self.node()
        self.apply("two.json")
        first = self.run_partita(*self.on_sim("rollback"))
        self.assertIn("back to what was before transaction 2: 3 instances on 2 GPUs",
                      first.stderr.decode())
        self.assertEqual(self.node()[1], before[1])
        second = self.run_partita(*self.on_sim("rollback"))
        self.assertEqual((first.returncode, second.returncode), (0, 0))
        self.assertIn("back to what transaction 3, a rollback, went back to",
                      second.stderr.decode())
        self.assertIn("nothing to do", second.stderr.decode())
        self.assertEqual(self.node()[1], before[1])

    def test_one_change_at_a_time_whatever_the_state_directory(self):
        self.apply("one.json")
        device = self.node()[0][0, "1g.10gb", 4][1]
        self.holder(device)
        running = subprocess.Popen([harness.PROGRAM, *self.on_sim("drain", device)],
                                   cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        self.assertIn("wait until", running.stderr.readline() + running.stderr.readline())
        other = ("apply", "two.json", "--driver", "sim", "--machine", "machine.yaml",
                 "--state-dir", "elsewhere")
        done = self.run_partita(*other)
        self.assertEqual(done.returncode, 3, done.stderr.decode())
        self.assertIn(") holds the lock since ", done.stderr.decode())
        running.send_signal(signal.SIGTERM)
        self.assertIn("`partita drain` again goes on", running.communicate(timeout=20)[1])
        self.assertEqual(running.returncode, 3)
        self.assertEqual(self.node()[1][0, "1g.10gb", 4], "search")

    def test_the_readme_word_for_word(self):
        text = harness.source_text("README.md")
        block = text.split("    export PARTITA_SIM")[1].split("\n\n")[0]
        self.as_in_a_clone()
        done = subprocess.run(["bash", "-ec", "export PARTITA_SIM" + block], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sim 1: 8 GPUs, 10 instances", done.stdout)
        self.assertEqual(self.json("status", "--driver", "sim", "--machine",
                                   "build/node.yaml")["gpus"][0]["instances"], [])


if __name__ == "__main__":
    unittest.main()
