"""partita queue: tasks run once whoever is killed when, wait for each other, and are kept."""

import json
import os
import signal
import subprocess
import time
import unittest

import harness

MACHINE = """gpus: [{model: A100-80GB, count: 1, mig: true}]
state: node.state
speed: 0
"""
KILLS = int(os.environ.get("PARTITA_KILLS", "6"))


class QueueTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)
        for name, value in (("PARTITA_SIM", self.path("machine.yaml")),
                            ("PARTITA_STATE_DIR", self.path("state"))):
            self.variable(name, value)
        self.server = None
        self.addCleanup(self.kill)

    def serve(self, *args, command=("queue", "serve")):
        self.server = subprocess.Popen(
            [harness.PROGRAM, *command, "--driver", "sim", *args], cwd=self.folder,
            stderr=subprocess.DEVNULL)
        for _ in range(600):  # until it listens
            if self.run_partita("queue", "list", "--driver", "sim").returncode == 0:
                return
            time.sleep(0.05)
        self.fail("no queue serves")

    def kill(self, how=signal.SIGKILL):
        if self.server is None:
            return
        self.server.send_signal(how)
        self.server.wait()
        self.server = None

    def ask(self, command, *args, **how):
        return self.json("queue", command, "--driver", "sim", *args, **how)

    def submit(self, *args):
        return [one["task"] for one in self.ask("submit", *args)["tasks"]]

    def wait(self, *tasks):
        return self.run_partita("queue", "wait", "--driver", "sim",
                                *[str(task) for task in tasks]).returncode

    def test_a_task_runs_and_its_output_is_kept(self):
        self.serve()
        (task,) = self.submit("echo hello $CUDA_VISIBLE_DEVICES", "--takes", "1s")
        self.assertEqual(self.wait(task), 0)
        one = self.ask("show", str(task))
        self.assertEqual((one["kind"], one["state"], one["status"]), ("QueueTask", "done", 0))
        self.assertEqual([run["outcome"] for run in one["runs"]], ["done"])
        log = self.ok("queue", "logs", str(task), "--driver", "sim")
        self.assertIn("hello MIG-", log)

    def test_a_program_and_its_arguments_are_what_is_run(self):
        self.serve()
        one, = self.submit("--profile", "1g.10gb", "echo a  b", "--takes", "1s")
        two = int(self.ok("queue", "submit", "--driver", "sim", "--takes", "1s", "--", "sh", "-c",
                          'echo "$0|$1" --held', "a  b'c", ""))
        self.assertEqual(self.wait(one, two), 0)
        logs = [self.run_partita("queue", "logs", "--driver", "sim", str(task)).stdout
                for task in (one, two)]
        self.assertEqual(logs, [b"a b\n", b"a  b'c| --held\n"])

    def test_a_submission_comes_as_a_file_or_in_flags(self):
        self.serve()
        self.write("task.json", json.dumps({
            "api_version": "partita/v1", "kind": "QueueSubmission", "command": "true",
            "priority": 3, "held": True}))
        said = ("queue", "submit", "--driver", "sim", "--submission")
        with open(self.path("task.json"), "rb") as piped:
            self.assertEqual(self.run_partita(*said, "-", stdin=piped).stdout, b"1\n")
        self.assertEqual(self.ok(*said, "task.json"), "2\n")
        for more in (("--priority", "5"), ("--held",), ("false",)):  # they were passed over
            done = self.run_partita(*said, "task.json", *more)
            self.assertEqual((done.returncode, b"--submission" in done.stderr), (2, True), more)
        tasks = self.ask("list")["tasks"]
        self.assertEqual([(one["task"], one["state"]) for one in tasks],
                         [(1, "held"), (2, "held")])

    def test_a_deadline_is_held_against_what_came(self):
        self.serve()
        late = self.run_partita("queue", "submit", "--driver", "sim", "--deadline", "100ms",
                                "--takes", "1s", "sleep 0.3")
        self.assertEqual(late.returncode, 0)
        self.assertIn(b"its deadline comes before it can be done: it takes 1.0 s", late.stderr)
        for words in (("--", "sh", "-c", "exit 0"), ("false",)):
            done = self.run_partita("queue", "submit", "--driver", "sim", "--deadline", "20d",
                                    *words)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.wait(1, 2), 0)
        self.assertEqual(self.wait(3), 1)
        tasks = {one["task"]: one for one in self.ask("list", "--all")["tasks"]}
        self.assertEqual([tasks[n]["deadline"]["promise"] for n in (1, 2, 3)],
                         ["missed", "met", "missed"])
        ended = (tasks[1]["ended_ms"] - tasks[1]["submitted_ms"]) / 1e3
        self.assertAlmostEqual(tasks[1]["deadline"]["late_s"], ended - 0.1, 2)
        self.assertNotIn("late_s", tasks[3]["deadline"])  # it never was done
        said = self.run_partita("queue", "show", "1", "--driver", "sim").stdout.decode()
        self.assertIn("  deadline  missed by ", said)
        listed = self.run_partita("queue", "list", "--all", "--driver", "sim").stdout.decode()
        self.assertIn("deadline missed by ", listed)
        self.assertIn(" sh -c 'exit 0' ", listed)

    def test_several_instances_are_one_tasks_from_its_beginning_to_its_end(self):
        self.write("machine.yaml", MACHINE.replace("count: 1", "count: 2"))
        self.serve()
        log = self.path("log")
        say = f"echo b $CUDA_VISIBLE_DEVICES >> {log}; sleep 0.2; echo e >> {log}"
        whole, = self.submit(say, "--gpus", "2", "--takes", "1s")
        slices, = self.submit(say, "--gpus", "5", "--profile", "1g.20gb", "--takes", "1s")
        media, = self.submit(say, "--gpus", "2", "--profile", "1g.10gb+me", "--takes", "1s")
        self.assertEqual(self.wait(whole, slices, media), 0)
        for task, profile, count in ((whole, "7g.80gb", 2), (slices, "1g.20gb", 5),
                                     (media, "1g.10gb+me", 2)):
            places = self.ask("show", str(task))["places"]
            self.assertEqual({place["profile"] for place in places}, {profile})
            self.assertEqual(len({place["device"] for place in places}), count)
        with open(log, encoding="utf-8") as lines:
            begun = [line.split()[1].split(",") for line in lines if line.startswith("b")]
        self.assertEqual(sorted(len(set(devices)) for devices in begun), [2, 2, 5])
        run = self.run_partita("queue", "submit", "--driver", "sim", "true", "--gpus", "3")
        self.assertIn("at most 2 of its instances", run.stderr.decode())

    def test_what_fails_and_what_waits_for_it(self):
        self.serve()
        bad, = self.submit("exit 3", "--retries", "1")
        never, = self.submit("true", "--after", str(bad))
        then, = self.submit("true", "--after", f"not_ok:{bad}")
        self.assertEqual(self.wait(bad, never), 1)
        self.assertEqual(self.wait(then), 0)
        states = {one["task"]: one["state"] for one in self.ask("list", "--all")["tasks"]}
        self.assertEqual(states, {bad: "failed", never: "skipped", then: "done"})
        self.assertEqual(len(self.ask("show", str(bad))["runs"]), 2)

    def test_refusals_say_what_is_wrong(self):
        run = self.run_partita("queue", "list", "--driver", "sim")
        self.assertEqual(run.returncode, 3)
        self.serve()
        for args, words in ((["true", "--profile", "9g"], "profile"),
                            (["true", "--after", "77"], "no task 77"),
                            (["true", "--takes", "9g=1s"], "no GPU has an instance of 9 slices"),
                            (["true", "--gpu-memory", "500"], "memory")):
            run = self.run_partita("queue", "submit", "--driver", "sim", *args)
            self.assertNotEqual(run.returncode, 0, args)
            self.assertIn(words, run.stderr.decode())

    def test_a_number_that_no_task_has_is_bad_input(self):
        self.serve()
        for command in ("show", "logs", "hold", "release", "cancel", "wait"):
            run = self.run_partita("queue", command, "999", "--driver", "sim")
            self.assertEqual((run.returncode, run.stdout), (2, b""), command)
            self.assertIn("no task 999", run.stderr.decode())

    def test_a_node_has_one_queue(self):
        """Of another state directory, too: it would put its tasks on the other one's instances."""
        self.serve()
        for folder in ("state", "other"):
            run = self.run_partita("queue", "serve", "--driver", "sim", "--state-dir",
                                   self.path(folder))
            self.assertEqual(run.returncode, 3, run.stderr)
            self.assertIn("holds the lock", run.stderr.decode())
        self.kill()
        self.serve("--state-dir", self.path("state"))

    def test_whoever_waits_goes_on_over_a_restart(self):
        self.serve()
        task, = self.submit("sleep 2", "--takes", "2s")
        while self.ask("show", str(task))["state"] != "running":
            time.sleep(0.02)
        waits = subprocess.Popen([harness.PROGRAM, "queue", "wait", str(task), "--driver", "sim"],
                                 cwd=self.folder, stderr=subprocess.PIPE)
        time.sleep(0.5)
        self.kill()
        run = self.run_partita("queue", "list", "--driver", "sim")
        self.assertEqual(run.returncode, 3)
        self.assertIn("no queue serves here now", run.stderr.decode())
        time.sleep(2.5)
        self.serve()
        self.assertIn(b"waiting for the queue", waits.communicate(timeout=60)[1])
        self.assertEqual(waits.returncode, 0)
        run, = self.ask("show", str(task))["runs"]
        self.assertLess(run["ended_ms"] - run["began_ms"], 2900, "it ended before it was seen")

    def test_what_a_task_leaves_behind_is_ended(self):
        """In a session of its own, too: the next task has the instance."""
        self.serve()
        mark = self.path("left")
        task, = self.submit(f"setsid sh -c 'while sleep 0.1; do echo x >> {mark}; done' & "
                            f"until [ -e {mark} ]; do sleep 0.05; done", "--takes", "1s")
        self.assertEqual(self.wait(task), 0)
        time.sleep(0.3)
        before = os.path.getsize(mark)
        time.sleep(0.5)
        self.assertEqual(os.path.getsize(mark), before)

    def test_a_checkpoint_of_a_killed_queue_is_begun_anew(self):
        self.serve("--urgent-after", "500ms")
        out = self.path("out")
        low, = self.submit("sleep 60", "--preemptible", "--takes", "60s", "--profile", "7g",
                           "--checkpoint", f"echo $$ >> {out}; sleep 500")
        while self.ask("show", str(low))["state"] != "running":
            time.sleep(0.02)
        high, = self.submit("true", "--priority", "5", "--takes", "1s", "--profile", "7g")
        lines = lambda: self.read("out").split() if os.path.exists(out) else []
        self.until(lambda: len(lines()) == 1)
        self.kill()
        self.serve("--urgent-after", "500ms")
        self.until(lambda: len(lines()) == 2)
        self.until(lambda: not self.lives(lines()[0]))
        self.assertTrue(self.lives(lines()[1]))
        self.ask("cancel", str(low))
        self.assertEqual(self.wait(high), 0)
        self.until(lambda: not self.lives(lines()[1]))

    def lives(self, pid):
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                return "State:\tZ" not in file.read()
        except OSError:
            return False

    def until(self, holds):
        end = time.monotonic() + 60
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_many_tasks_are_cancelled_held_and_released_at_once(self):
        self.serve()
        tasks = self.submit("true", "--array", "20", "--held")
        few = self.ask("release", f"{tasks[0]}-{tasks[2]}", str(tasks[4]))
        self.assertEqual(few["kind"], "QueueTasks")
        released = [*tasks[:3], tasks[4]]
        self.assertEqual([one["task"] for one in few["tasks"]], released)
        self.assertEqual(self.wait(*released), 0)
        # Those that are over by now are no matter.
        gone = self.ask("cancel", f"{tasks[0]}-{tasks[-1]}")["tasks"]
        self.assertEqual([one["task"] for one in gone],
                         [task for task in tasks if task not in released])
        self.assertEqual(self.ask("list")["tasks"], [])
        for bad, words in (("x", "'x' is neither"), ("5-2", "'5-2' is neither"),
                           ("1-900", "no task 21"), ("-1", "neither")):
            run = self.run_partita("queue", "cancel", bad, "--driver", "sim")
            self.assertEqual(run.returncode, 2, bad)
            self.assertIn(words, run.stderr.decode())

    def test_many_tasks_are_listed_in_pages_each_once(self):
        self.serve()
        listed = lambda *more: self.run_partita("queue", "list", "--driver", "sim",
                                                *more).stdout.decode()
        self.assertIn("no tasks", listed())
        tasks = self.submit("true", "--array", "4000", "--held")  # two whole pages
        self.assertEqual([task["task"] for task in self.ask("list")["tasks"]], tasks)
        self.ask("cancel", str(tasks[0]))
        lines = listed("--all").split("\n")
        self.assertEqual([int(line.split()[0]) for line in lines[1:-1]], tasks)

    def test_no_more_of_a_user_run_at_once_than_their_quota(self):
        self.serve("--quota", "anna=1", "--quota", "*=7")
        tasks = self.submit("sleep 0.1", "--for-user", "anna", "--array", "3", "--takes", "1s")
        others = self.submit("sleep 0.1", "--for-user", "bob", "--takes", "1s")
        self.assertEqual(self.wait(*tasks, *others), 0)
        runs = sorted((run["began_ms"], run["ended_ms"]) for task in tasks
                      for run in self.ask("show", str(task))["runs"])
        self.assertEqual(len(runs), 3)
        for (_, ended), (began, _) in zip(runs, runs[1:]):
            self.assertLessEqual(ended, began)
        self.kill()
        for bad in ("anna", "=3", "anna=-1", "anna=many"):
            for name in ("--quota", "--most-tasks"):
                run = self.run_partita("queue", "serve", "--driver", "sim", name, bad)
                self.assertEqual(run.returncode, 2, bad)

    def test_a_user_has_a_part_of_its_places(self):
        self.serve("--most-tasks", "anna=2", "--most-tasks", "*=1")
        tasks = self.submit("true", "--held", "--for-user", "anna", "--array", "2")
        self.assertEqual(len(tasks), 2)
        for user, more in (("anna", "1"), ("bob", "2")):
            done = self.run_partita("queue", "submit", "--driver", "sim", "true", "--for-user",
                                    user, "--array", more)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{user} may have", done.stderr.decode())

    def test_an_agent_hosts_it_and_lends_its_instances(self):
        agent = {"command": ("agent", "--host-queue")}
        self.serve(**agent)
        there = ("--server", f"unix:{self.path('state')}/api.sock")
        out = self.path("out")
        one = self.json(*there, "queue", "submit", f"echo one >> {out}; sleep 0.5")["tasks"]
        self.assertEqual([task["task"] for task in one], [1])
        while self.ask("show", "1")["state"] != "running":
            time.sleep(0.02)
        owners = [lease["owner"] for lease in self.json(*there, "leases")["leases"]]
        self.assertTrue(owners and all(owner.startswith("queue/") for owner in owners), owners)
        self.kill()
        self.serve(**agent)
        self.assertEqual(self.wait(1, *self.submit(f"echo two >> {out}")), 0)
        with open(out, encoding="utf-8") as lines:
            self.assertEqual(sorted(lines.read().split()), ["one", "two"])
        run = self.run_partita(*there, "queue", "cancel", "7")
        self.assertIn("there is no task 7", run.stderr.decode())
        self.assertNotEqual(run.returncode, 0)

    def test_a_run_says_what_its_instance_took(self):
        self.serve()
        task, = self.submit("sleep 3", "--takes", "3s")
        self.assertEqual(self.wait(task), 0)
        run, = self.ask("show", str(task))["runs"]
        # An A100 takes 40 to 400 W, of which an instance bears a part.
        self.assertGreater(run["energy_j"], 1)
        self.assertLess(run["energy_j"], 400 * (run["ended_ms"] - run["began_ms"] + 2000) / 1000)

    def small_disk(self, kib):
        """A file system of its own for the queue's state; a test without root is skipped."""
        where = self.path("state")
        os.makedirs(where, exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", where],
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", where], check=True)

    def test_a_full_disk_refuses_new_tasks_and_loses_none(self):
        self.small_disk(2048)
        self.serve()
        out = self.path("out")
        held = self.submit(f"echo held >> {out}", "--held", "--takes", "1s")
        runs = self.submit(f"sleep 2; echo runs >> {out}", "--takes", "2s")
        while self.ask("show", str(runs[0]))["state"] != "running":
            time.sleep(0.02)
        filler = self.path("state/filler")
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        taken = []
        for _ in range(300):  # what room SQLite's files have themselves is used up
            run = self.run_partita("queue", "submit", "--driver", "sim",
                                   f"echo late >> {out} # " + "y" * 2000, "--takes", "1s")
            if run.returncode != 0:
                break
            taken.append(int(run.stdout))
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(run.stderr.decode(), "no room|full")
        refused = self.run_partita("queue", "release", "--driver", "sim", str(held[0]))
        self.assertNotEqual(refused.returncode, 0)
        self.kill()  # in the midst of it
        time.sleep(2)
        os.remove(filler)
        self.serve()
        self.assertEqual(self.ask("show", str(held[0]))["state"], "held")
        self.ok("queue", "release", "--driver", "sim", str(held[0]))
        later = self.submit(f"echo later >> {out}", "--takes", "1s")
        self.assertEqual(self.wait(*held, *runs, *taken, *later), 0)
        with open(out, encoding="utf-8") as lines:
            self.assertEqual(sorted(lines.read().split()),
                             sorted(["held", "runs", "later"] + ["late"] * len(taken)))

    def test_after_a_reboot_what_ran_is_lost_and_tried_again(self):
        """Queue, tasks and instances are gone at once, as a machine that loses its power."""
        self.serve()
        out = self.path("out")
        again, = self.submit(f"echo again.$PARTITA_ATTEMPT >> {out}; [ $PARTITA_ATTEMPT = 2 ] || "
                             "sleep 60", "--retries", "1", "--profile", "3g", "--takes", "1m")
        never, = self.submit(f"echo never >> {out}; sleep 60", "--profile", "3g", "--takes", "1m")
        waits, = self.submit(f"echo waits >> {out}", "--after", f"any:{never}", "--takes", "1s")
        while not os.path.exists(out) or len(self.read("out").split()) < 2:
            time.sleep(0.02)
        self.kill()
        while self.end_tasks() > 0:
            time.sleep(0.1)
        os.remove(self.path("node.state"))
        self.serve()
        self.assertEqual(self.wait(again), 0)
        self.assertEqual(self.wait(never), 1)
        self.assertEqual(self.wait(waits), 0)
        self.assertEqual([run["outcome"] for run in self.ask("show", str(again))["runs"]],
                         ["lost", "done"])
        self.assertIn("went down", self.ask("show", str(never))["reason"])
        with open(out, encoding="utf-8") as lines:
            self.assertEqual(sorted(lines.read().split()),
                             ["again.1", "again.2", "never", "waits"])

    def end_tasks(self):
        """kill -9 of all processes of tasks of this test's queue; how many there were."""
        ended = 0
        mark = f"PARTITA_QUEUE_ATTEMPT={self.path('state')}".encode()
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if any(one.startswith(mark) for one in file.read().split(b"\0")):
                        os.kill(int(entry), signal.SIGKILL)
                        ended += 1
            except OSError:
                continue
        return ended

    def test_killed_again_and_again_nothing_is_lost_or_runs_twice(self):
        out = self.path("out")
        tasks = []
        for i in range(KILLS):
            self.serve()
            tasks += self.submit(f"echo {i}.$PARTITA_ARRAY_INDEX >> {out}; sleep 0.0{i % 5}",
                                 "--array", "5", "--takes", "1s")
            time.sleep(0.05 * (i % 4))
            self.kill()
        self.serve()
        self.wait(*tasks)
        other = [one for one in self.ask("list", "--all")["tasks"] if one["state"] != "done"]
        self.assertEqual(other, [])
        with open(out, encoding="utf-8") as lines:
            ran = sorted(lines.read().split())
        self.assertEqual(ran, sorted(f"{i}.{k}" for i in range(KILLS) for k in range(5)))


if __name__ == "__main__":
    unittest.main()
