"""`partita batch run`: real processes on a simulated machine, and all that may come in between.

A task's command appends "begin TASK" and "end TASK" to `log` and keeps the state of the machine as
it is while the task runs, which says on which instance it is."""

import json
import os
import signal
import subprocess
import time

from batch_harness import BatchTest
from harness import PROGRAM
from status_test import have_nvml

TASKS = """task,time_s_1g,time_s_2g,time_s_4g,after
big,,,0.3,
a,0.9,0.6,0.6,
b,0.5,0.4,0.4,
c,0.4,0.3,0.3,
d,0.6,0.35,0.35,b
e,0.5,0.45,0.45,
"""
WORK = ("echo begin $PARTITA_TASK $CUDA_VISIBLE_DEVICES >> log; "
        "cat node.state > seen.$PARTITA_TASK; sleep 0.03; {more}; echo end $PARTITA_TASK >> log")
LOSE = """import json
with open("node.state") as file:
    state = json.load(file)
gpu = state["gpus"][0]
gpu["free_gi_ids"] += [instance["gi_id"] for instance in gpu["instances"]]
gpu.update(lost=True, instances=[], processes=[])
with open("new.state", "w") as file:
    json.dump(state, file)
import os
os.rename("new.state", "node.state")
"""
MACHINE = "gpus:\n  - {{model: {model}}}\nstate: node.state\nspeed: {speed}\n{more}"


class BatchRunTest(BatchTest):
    def setUp(self):
        super().setUp()
        self.write("tasks.csv", TASKS)
        self.machine()
        self.write("schedule.json", self.schedule_text())

    made = None

    def schedule_text(self):
        """The same for all tests, so made once."""
        if BatchRunTest.made is None:
            BatchRunTest.made = self.ok("batch", "schedule", "--tasks", "tasks.csv", "--gpu", "A30",
                                        "--scheduler", "far", "--format", "json")
        return BatchRunTest.made

    def machine(self, model="A30-24GB", speed=0.02, more=""):
        self.write("machine.yaml", MACHINE.format(model=model, speed=speed, more=more))

    def arguments(self, *more, command=WORK.format(more=":"), schedule="schedule.json",
                  form="json", driver=("sim", "--machine", "machine.yaml")):
        given = ("--command", command) if command else ()
        return ("batch", "run", *([schedule] if schedule else []), "--tasks", "tasks.csv",
                "--driver", *driver, "--state-dir", "state", "--format", form, *given, *more)

    def run_batch(self, *more, status=0, **options):
        return json.loads(self.ok(*self.arguments(*more, **options), status=status))

    def start(self, *more, **options):
        runner = subprocess.Popen([PROGRAM, *self.arguments(*more, **options)], cwd=self.folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(runner.communicate)
        self.addCleanup(runner.kill)
        return runner

    def refused(self, *more, status, **options):
        done = self.run_partita(*self.arguments(*more, **options))
        self.assertEqual((done.returncode, done.stdout), (status, b""), done.stderr.decode())
        return done.stderr.decode()

    def processes(self):
        """Those that are at work in this test's folder."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/cwd") == self.folder:
                    found.append(int(pid))
            except OSError:
                pass
        return found

    # ---- what happened ----

    def log(self):
        try:
            return [line.split() for line in self.read("log").splitlines()]
        except FileNotFoundError:
            return []

    def wait_for(self, *line):
        for _ in range(2000):
            if any(entry[:len(line)] == list(line) for entry in self.log()):
                return
            time.sleep(0.005)
        self.fail(f"no {line} in {self.log()}")

    def instances(self, state="node.state"):
        """MIG device to (profile, start) of those that are there."""
        return {compute["uuid"]: (instance["profile"], instance["start"])
                for gpu in json.loads(self.read(state))["gpus"] for instance in gpu["instances"]
                for compute in instance["compute"]}

    def check_each_ran_once_in_its_place(self):
        """Against the schedule file: places, one at a time on each, order there, predecessors."""
        planned = json.loads(self.read("schedule.json"))["tasks"]
        log = self.log()
        self.assertEqual(sorted(entry[1] for entry in log if entry[0] == "begin"),
                         sorted(task["task"] for task in planned))
        moment = {tuple(entry[:2]): index for index, entry in enumerate(log)}
        devices = {entry[1]: entry[2] for entry in log if entry[0] == "begin"}
        for task in planned:
            name = task["task"]
            self.assertEqual(self.instances(f"seen.{name}")[devices[name]],
                             (task["profile"], task["start"]))
        for one, next_one in zip(planned, planned[1:]):
            for other in planned[planned.index(next_one):]:
                if (one["profile"], one["start"]) == (other["profile"], other["start"]):
                    self.assertLess(moment["end", one["task"]], moment["begin", other["task"]])
        self.assertLess(moment["end", "b"], moment["begin", "d"])
        self.assertEqual(self.instances(), {})

    def statuses(self, report):
        return {task["task"]: task["status"] for task in report["tasks"]}

    def check_all_finished(self, report):
        self.assertEqual(set(self.statuses(report).values()), {"finished"})
        self.assertEqual((report["refusals"], report["left"]), ([], []))

    # ---- tests ----

    def test_carries_out_a_schedule(self):
        self.assertEqual(self.ok(*self.arguments("-o", "report.json")), "")
        report = json.loads(self.read("report.json"))
        self.assertEqual((report["api_version"], report["kind"]), ("partita/v1", "BatchRun"))
        self.assertEqual((report["driver"], report["scheduler"], report["interrupted"]),
                         ("sim", "far", False))
        self.check_all_finished(report)
        self.check_each_ran_once_in_its_place()
        planned = {task["task"]: task for task in json.loads(self.read("schedule.json"))["tasks"]}
        for task in report["tasks"]:
            self.assertAlmostEqual(task["planned_end_s"], planned[task["task"]]["end_s"], places=6)
            self.assertGreater(task["end_s"], task["begin_s"] + 0.03)
            self.assertEqual(task["attempts"], 1)
            self.assertAlmostEqual(
                task["deviation_percent"],
                100 * (task["end_s"] / task["planned_end_s"] - 1), places=6)
        self.assertEqual(report["makespan_s"], max(task["end_s"] for task in report["tasks"]))
        changes = [c for c in report["reconfigurations"] if c["status"] == "done"]
        self.assertEqual(len([c for c in changes if c["op"] == "create"]),
                         len([c for c in changes if c["op"] == "destroy"]))

    def test_the_history_keeps_a_run(self):
        self.run_batch("--why", "nightly")
        kept = self.json("history", "--driver", "sim", "--machine", "machine.yaml", "--state-dir",
                         "state")["events"]
        self.assertEqual([(one["kind"], one["change"]) for one in kept],
                         [("applied", 1), ("applying", 1)])
        self.assertEqual(kept[0]["outcome"], "succeeded")
        self.assertEqual(kept[0]["detail"], "6 of 6 tasks finished")
        self.assertEqual(kept[0]["cause"], "nightly (partita apply)")
        story = self.ok("explain", "--driver", "sim", "--machine", "machine.yaml", "--state-dir",
                        "state")
        self.assertIn("nightly", story)
        # A task that fails is told; a rehearsal is none.
        self.run_batch("--simulate", command=None)
        self.run_batch(command="exit 3", status=1)
        kept = self.json("history", "--driver", "sim", "--machine", "machine.yaml", "--state-dir",
                         "state", "--kind", "applied")["events"]
        self.assertEqual([(one["change"], one["outcome"]) for one in kept],
                         [(2, "failed"), (1, "succeeded")])
        self.assertIn("0 of 6 tasks finished", kept[0]["detail"])

    def test_killed_and_run_again(self):
        command = WORK.format(
            more="[ $PARTITA_TASK = big ] || while [ ! -e go ]; do sleep 0.02; done")
        runner = self.start(command=command)
        self.wait_for("begin", "b")
        self.assertIn(") holds the lock since ", self.refused(status=3, command=command))
        other = list(self.arguments(command=command))
        other[other.index("state")] = "elsewhere"  # the node is the same
        done = self.run_partita(*other)
        self.assertEqual(done.returncode, 3)
        self.assertIn(") holds the lock since ", done.stderr.decode())
        runner.kill()
        runner.wait()
        self.assertEqual([entry for entry in self.log() if entry[0] == "end"], [["end", "big"]])
        # Tasks go on meanwhile, and are neither started again nor lost.
        self.write("go", "")
        report = self.run_batch(command=command)
        self.check_all_finished(report)
        self.assertGreaterEqual(report["finished_earlier"], 1)
        self.check_each_ran_once_in_its_place()

    def test_killed_between_an_effect_and_its_answer(self):
        self.machine(more="faults:\n  - {method: create_instance, call: 2, dies: true, "
                          "after_effect: true}\n  - {method: create_compute, call: 4, "
                          "error: timeout, after_effect: true}\n"
                          "  - {method: destroy_compute, call: 2, error: in_use}\n")
        done = self.run_partita(*self.arguments())
        self.assertEqual(done.returncode, 137)
        self.check_all_finished(self.run_batch())
        self.check_each_ran_once_in_its_place()

    def test_interrupted_ends_in_order_and_goes_on(self):
        command = WORK.format(more="[ -e quick ] || sleep 5")
        runner = self.start(command=command)
        self.wait_for("begin", "big")
        runner.send_signal(signal.SIGINT)
        out, err = runner.communicate(timeout=10)
        self.assertEqual(runner.returncode, 3, err)
        self.assertIn("interrupted; run the same command again to continue", err)
        self.assertTrue(json.loads(out)["interrupted"])
        self.assertLessEqual(set(self.statuses(json.loads(out)).values()), {"not_run", "skipped"})
        self.assertEqual(self.instances(), {})
        self.assertEqual(self.processes(), [])
        self.assertIn("belongs to a run of another batch", self.refused(status=2))
        os.remove(self.path("log"))
        self.write("quick", "")
        self.check_all_finished(self.run_batch(command=command))
        self.check_each_ran_once_in_its_place()

    def test_tasks_that_fail(self):
        fails = ("echo begin $PARTITA_TASK >> log; case $PARTITA_TASK in b) [ -e mended ];; "
                 "c) [ -e mended ] || sleep 5;; esac")
        done = self.run_partita(*self.arguments("--retries", "1", "--timeout", "0.7s",
                                                command=fails))
        self.assertEqual(done.returncode, 1, done.stderr.decode())
        report = json.loads(done.stdout)
        self.assertEqual(self.statuses(report), {
            "big": "finished", "a": "finished", "b": "failed", "c": "timed_out", "d": "skipped",
            "e": "finished"})
        runs = {task["task"]: task for task in report["tasks"]}
        self.assertEqual([runs[name]["attempts"] for name in "abcd"], [1, 2, 2, 0])
        self.assertIn("exit status 1", runs["b"]["reason"])
        # How late a task was that did not what was planned says nothing.
        self.assertEqual({n for n in runs if "deviation_percent" in runs[n]}, {"big", "a", "e"})
        self.assertNotIn("deviation_percent", report)
        for line in ("task b: attempt 2", "task c: timed out, took too long",
                     "task d: skipped, b did not finish"):
            self.assertIn(line, done.stderr.decode())
        self.assertEqual(self.instances(), {})
        text = self.run_partita(*self.arguments("--resume", "--timeout", "0.2s", form="text",
                                                command=fails)).stdout.decode()
        self.assertRegex(text, r"(?m)^b .* \d\.\d+ +- +failed$")
        self.assertRegex(text, r"(?m)^end of the last task: .* real$")
        # What failed may be tried again, and nothing else is.
        self.write("mended", "")
        os.remove(self.path("log"))
        self.check_all_finished(self.run_batch("--resume", command=fails))
        self.assertEqual(sorted(name for _, name in self.log()), ["b", "c", "d"])

    def test_a_gpu_is_lost(self):
        self.write("lose.py", LOSE)
        lose = "[ $PARTITA_TASK != big ] || python3 lose.py"
        report = self.run_batch(status=3, command=lose)
        statuses = self.statuses(report)
        self.assertEqual(statuses.pop("big"), "finished")
        self.assertLessEqual(set(statuses.values()), {"not_run", "skipped"})
        self.assertIn("fell off the bus", report["refusals"][0])

    def test_a_rehearsal_changes_nothing(self):
        report = self.run_batch("--simulate", command="")
        self.check_all_finished(report)
        self.assertTrue(report["simulated_clock"])
        self.assertLess(abs(report["deviation_percent"]), 1)
        self.assertEqual(self.instances(), {})
        self.assertFalse({"state", "log"} & set(os.listdir(self.folder)))

    def test_makes_its_own_schedule(self):
        command = "echo {task} {profile} {gpu} {start} {seconds} '{{x}}' ${PARTITA_TASK} >> log"
        text = self.ok(*self.arguments("--gpu", "0", "--scheduler", "fixed:4g", schedule=None,
                                       form="text", command=command))
        self.assertIn("d 4g.24gb 0 0 0.350000000 {x} d".split(), self.log())
        self.assertRegex(text, r"(?m)^big +4g.24gb@0 +0.430 +0.\d+ +[-+][\d.]+ +finished$")
        self.assertIn("6 of 6 tasks finished", text)

    def test_wrong_input_changes_nothing(self):
        no_command = self.refused(command="", status=2)
        self.assertIn("task big: has no command", no_command)
        self.assertIn("unknown placeholder '{tsak}'; did you mean 'task'?",
                      self.refused(command="run {tsak}", status=2))
        self.assertIn("--gpu-index: '1' is not the index", self.refused("--gpu", "1", status=2))
        broken = json.loads(self.read("schedule.json"))
        broken["tasks"][-1]["end_s"] += 1
        self.write("broken.json", json.dumps(broken))
        self.assertIn("the schedule is broken", self.refused(schedule="broken.json", status=1))
        if not have_nvml():
            self.assertIn("--driver sim works without a GPU",
                          self.refused(driver=["nvml"], status=3))
        self.machine(model="A100-80GB")
        os.remove(self.path("node.state"))
        self.assertIn("is of model A30-24GB, and this node has no such GPU left: GPU 0 A100-80GB",
                      self.refused(status=2))
        os.remove(self.path("node.state"))
        self.assertNotIn("state", os.listdir(self.folder))
        self.machine(more="instances:\n  - {gpu: 0, profile: 1g.6gb, start: 1}\n"
                          "processes:\n  - {gpu: 0, start: 1, pid: 4242, name: trainer}\n")
        self.assertRegex(self.refused(status=3),
                         r"in its way:\n  GPU 0: 1g.6gb@1 \(gi \d+, held by 4242 trainer\)")
        self.assertEqual(list(self.instances().values()), [("1g.6gb", 1)])
        self.assertNotIn("batch.journal", os.listdir(self.path("state")))
        self.write("state/batch.journal", "01234567 {}\n{}\n")
        self.assertIn("batch.journal:1: the checksum is wrong", self.refused(status=2))
        self.assertEqual(self.log(), [])


if __name__ == "__main__":
    import unittest
    unittest.main()
