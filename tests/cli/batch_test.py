"""The batch commands as their contract says; batch_harness.py judges every schedule as well."""

import csv
import io
import json
import os
import re
import unittest
import xml.etree.ElementTree

from batch_harness import TASKS, TIMED, BatchTest, nanos, tasks_of
from harness import documented, source_text

ARGUMENTS = {"fixed": ":4g"}  # of schedulers that need one, on an A30


def shipped(name):
    return source_text("data/batches/" + name)


def best_on_one_instance(tasks):
    """Makespan of an A30 that is one instance all the time."""
    return nanos("0.13") + sum(nanos(row["time_s_4g"]) for row in tasks_of(tasks).values())


class Schedules(BatchTest):
    def test_the_budget_of_a_time_finds_the_same_again(self):
        self.ok("batch", "generate", "--count", "20", "--scaling", "mixed", "--times", "wide",
                "--gpu", "A100-80GB", "--seed", "3", "-o", "many.csv")
        search = ("batch", "schedule", "--tasks", "many.csv", "--gpu", "A100-80GB",
                  "--format", "json")
        done = self.run_partita(*search, "--time", "0.3")
        self.assertEqual(done.returncode, 0)
        budget = re.search(r"--budget (\d+) makes this schedule", done.stderr.decode())[1]
        again = json.loads(self.ok(*search, "--budget", budget))
        first = json.loads(done.stdout)
        for key in ("tasks", "reconfigurations", "lower_bound_s"):
            self.assertEqual(again[key], first[key])

    def test_the_contract_keys(self):
        schedule = self.schedule()
        self.assertEqual((schedule["api_version"], schedule["kind"]),
                         ("partita/v1", "BatchSchedule"))
        self.assertEqual((schedule["gpu_model"], schedule["gpus"], schedule["scheduler"]),
                         ("A30-24GB", 1, "best"))
        self.assertLessEqual({"makespan_s", "lower_bound_s", "tasks", "reconfigurations"},
                             schedule.keys())
        self.assertIn("scheduling_ms", schedule["stats"])
        self.assertEqual(set(schedule["tasks"][0]),
                         {"task", "gpu", "profile", "start", "begin_s", "end_s"})
        self.assertLessEqual({"gpu", "op", "profile", "start", "begin_s", "end_s"},
                             schedule["reconfigurations"][0].keys())

    def test_every_scheduler_on_every_batch(self):
        names = [row["name"] for row in self.json("batch", "schedulers")["schedulers"]]
        self.assertEqual(names[0], "best")
        self.assertLessEqual({"far", "miso", "fixed", "fixed-best", "exact"}, set(names))
        self.write("timed.csv", TIMED)
        for file, text in (("tasks.csv", TASKS), ("timed.csv", TIMED)):
            for gpus in ("1", "2"):
                for name in names:
                    with self.subTest(f"{name} {file} {gpus}"):
                        choice = ("--scheduler", name + ARGUMENTS.get(name, ""), "--gpus", gpus)
                        schedule = self.schedule(*choice, tasks=file)
                        self.check_schedule(schedule, text)
                        self.assertEqual(schedule["gpus"], int(gpus))

    def test_never_worse_than_one_instance_or_far(self):
        best, far = self.schedule(), self.schedule("--scheduler", "far")
        one = self.schedule("--scheduler", "fixed:4g")
        self.assertEqual(nanos(one["makespan_s"]), best_on_one_instance(TASKS))
        self.assertLessEqual(nanos(best["makespan_s"]), nanos(far["makespan_s"]))
        self.assertLess(nanos(best["makespan_s"]), nanos(one["makespan_s"]))

    def test_one_task_takes_its_shortest_time(self):
        self.write("one.csv", "task,time_s_1g,time_s_2g,time_s_4g\na,40,20,10\n")
        for name in ("best", "exact"):
            schedule = self.schedule("--scheduler", name, tasks="one.csv")
            self.assertEqual(schedule["makespan_s"], 10.13)
            self.assertEqual((schedule["lower_bound_s"], schedule["optimal"]), (10.13, True))

    def test_the_rodinia_batch(self):
        self.write("rodinia.csv", shipped("rodinia-a30.csv"))
        best = self.schedule(tasks="rodinia.csv")
        self.check_schedule(best, shipped("rodinia-a30.csv"))
        self.assertLess(best["makespan_s"], 28.435)  # FAR: 29.49
        self.assertGreater(best["lower_bound_s"], 28.4)

    def test_the_nightly_batch(self):
        self.write("nightly.csv", shipped("nightly.csv"))
        for gpus in ("A100-80GB", "A100-80GB:2", "H100-80GB-SXM5,A100-80GB"):
            with self.subTest(gpus):
                schedule = self.schedule(tasks="nightly.csv", gpu=gpus)
                self.check_schedule(schedule, shipped("nightly.csv"))
        done = self.run_partita("batch", "schedule", "--tasks", "nightly.csv", "--gpu", "A100-80GB",
                                "--strict")
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_gpus_of_several_models(self):
        text = TASKS.replace("time_s_4g", "time_s_4g,time_s_3g,time_s_7g,time_s_2g@A100-40GB")
        text = "\n".join(line + (",9,4,1.5" if i else "") for i, line in
                         enumerate(text.splitlines())) + "\n"
        self.write("tasks.csv", text)
        schedule = self.schedule(gpu="A30:2,A100-40GB")
        self.assertEqual(schedule["gpu_models"], ["A30-24GB", "A30-24GB", "A100-40GB"])
        self.check_schedule(schedule, text)
        self.write("schedule.json", json.dumps(schedule))
        self.ok("batch", "verify", "schedule.json", "--tasks", "tasks.csv")
        alone = self.schedule(gpu="A30:1")
        self.assertEqual(alone, {**self.schedule(), "stats": alone["stats"]})

    def test_same_seed_same_bytes(self):
        def bytes_of(seed):
            text = self.ok("batch", "schedule", "--tasks", "tasks.csv", "--gpu", "A30", "--seed",
                           seed, "--budget", "5000", "--format", "json")
            document = json.loads(text)
            measured = document.pop("stats")["scheduling_ms"]
            self.assertGreaterEqual(measured, 0)
            return json.dumps(document)
        self.assertEqual(bytes_of("7"), bytes_of("7"))

    def test_output_forms(self):
        arguments = ("batch", "schedule", "--tasks", "tasks.csv", "--gpu", "A30")
        text = self.ok(*arguments, "--explain")
        for word in ("render", "solve", "A30-24GB", "best"):
            self.assertIn(word, text)
        self.assertNotIn("\033", text)
        root = xml.etree.ElementTree.fromstring(self.ok(*arguments, "--format", "svg"))
        self.assertTrue(root.tag.endswith("svg"))
        self.assertEqual(self.ok(*arguments, "--format", "json", "-o", "out.json"), "")
        self.check_schedule(json.loads(self.read("out.json")), TASKS)

    def test_an_output_that_cannot_be_written(self):
        done = self.run_partita("batch", "schedule", "--tasks", "tasks.csv", "--gpu", "A30", "-o",
                                "nowhere/out.json")
        self.assertEqual((done.returncode, done.stdout), (3, b""))

    def test_refusals_are_explained(self):
        done = self.run_partita("batch", "schedule", "--tasks", "tasks.csv", "--gpu", "A30",
                                "--scheduler", "fixed:1g+1g+1g+1g", "--format", "json", "-o",
                                "out.json")
        self.assertEqual(done.returncode, 1, done.stderr)
        refusal = json.loads(done.stdout)
        self.assertEqual(refusal["kind"], "Refusal")
        self.assertIn("solve", str(refusal["reasons"]) + done.stderr.decode())
        self.assertFalse(os.path.exists(self.path("out.json")))

    def test_late_tasks_are_named(self):
        self.write("late.csv", "task,time_s_1g,time_s_2g,time_s_4g,deadline_s\n"
                   "a,40,20,10,5\nb,4,4,4,100\n")
        arguments = ("batch", "schedule", "--tasks", "late.csv", "--gpu", "A30", "--format", "json")
        for more, status in (((), 0), (("--strict",), 1)):
            done = self.run_partita(*arguments, *more)
            self.assertEqual(done.returncode, status)
            schedule = json.loads(done.stdout)
            (end,) = [task["end_s"] for task in schedule["tasks"] if task["task"] == "a"]
            self.assertRegex(done.stderr.decode(),
                             rf"1 of 2 tasks misses its deadline:\n  task a: ends at {end:.3f} s, "
                             rf"{end - 5:.3f} s after")

    def test_odd_tasks_are_warned_about(self):
        self.write("odd.csv", "task,time_s_1g,time_s_2g,time_s_4g\nodd,5,6,9\n")
        done = self.run_partita("batch", "schedule", "--tasks", "odd.csv", "--gpu", "A30")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr.decode(), r"warning: odd\.csv: .*odd")
        self.assertEqual(self.run_partita("batch", "schedule", "--tasks", "tasks.csv", "--gpu",
                                          "A30").stderr, b"")


class Verdicts(BatchTest):
    def setUp(self):
        super().setUp()
        self.good = self.schedule()

    def verdict(self, schedule, status, *more):
        self.write("schedule.json", json.dumps(schedule))
        return self.json("batch", "verify", "schedule.json", "--tasks", "tasks.csv", *more,
                         status=status)

    def test_good_schedules(self):
        verdict = self.verdict(self.good, 0)
        self.assertEqual((verdict["kind"], verdict["ok"], verdict["violations"]),
                         ("Verdict", True, []))
        self.assertIn("ok: 4 tasks on 1 GPU, makespan",
                      self.ok("batch", "verify", "schedule.json", "--tasks", "tasks.csv"))
        self.verdict({**self.good, "gpu_model": "A30"}, 0)

    def test_broken_schedules(self):
        def without_task(s):
            s["tasks"].pop()

        def longer(s):
            s["tasks"][0]["end_s"] += 1

        def no_creation(s):
            s["reconfigurations"] = []

        def twice(s):
            s["tasks"].append(s["tasks"][0])

        def stranger(s):
            s["tasks"][0]["task"] = "stranger"

        def moved(s):
            s["tasks"][0]["start"] += 1

        def flattering(s):
            s["makespan_s"] /= 2

        for change, word in ((without_task, "missing_task"), (longer, "duration"),
                             (no_creation, "no_instance"), (twice, "duplicate_task"),
                             (stranger, "unknown_task"), (moved, None), (flattering, "makespan")):
            with self.subTest(change.__name__):
                broken = json.loads(json.dumps(self.good))
                change(broken)
                words = {v["constraint"] for v in self.verdict(broken, 1)["violations"]}
                self.assertTrue(words if word is None else word in words, words)
                text = self.ok("batch", "verify", "schedule.json", "--tasks", "tasks.csv", status=1)
                self.assertRegex(text, r"^schedule\.json: \d+ violations:")
                with self.assertRaises((AssertionError, KeyError)):
                    self.check_schedule(broken, TASKS)

    def test_a_hand_made_schedule(self):
        def task(name, profile, start, begin, end):
            return {"task": name, "gpu": 0, "profile": profile, "start": start, "begin_s": begin,
                    "end_s": end}

        def create(profile, start, begin, end):
            return {"gpu": 0, "op": "create", "profile": profile, "start": start,
                    "begin_s": begin, "end_s": end}
        hand_made = {
            "api_version": "partita/v1", "kind": "BatchSchedule", "gpu_model": "A30-24GB",
            "gpus": 1,
            "tasks": [task("solve", "2g.12gb", 0, 0.12, 30.12),
                      task("render", "2g.12gb", 2, 0.24, 20.24),
                      task("mesh", "2g.12gb", 2, 20.24, 27.24),
                      task("encode", "2g.12gb", 0, 30.12, 38.12)],
            "reconfigurations": [create("2g.12gb", 0, 0, 0.12), create("2g.12gb", 2, 0.12, 0.24)]}
        self.verdict(hand_made, 0)
        hand_made["reconfigurations"][1].update(begin_s=0.11, end_s=0.23)
        words = [v["constraint"] for v in self.verdict(hand_made, 1)["violations"]]
        self.assertEqual(words, ["reconfiguration_overlap"])

    def test_late_tasks_are_no_violation(self):
        self.write("tasks.csv", TASKS.replace("4g\n", "4g,deadline_s\n").replace("10\n", "10,1\n")
                   .replace("8\n", "8,\n").replace("16\n", "16,\n").replace("5\n", "5,\n"))
        done = self.run_partita("batch", "verify", self.saved(), "--tasks", "tasks.csv")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(b"task render: ends at", done.stderr)

    def saved(self):
        self.write("schedule.json", json.dumps(self.good))
        return "schedule.json"


class Simulations(BatchTest):
    def report(self, schedule, *more, tasks="tasks.csv"):
        self.write("schedule.json", json.dumps(schedule))
        report = self.json("batch", "simulate", "schedule.json", "--tasks", tasks, *more)
        self.assertEqual(report["kind"], "BatchReport")
        self.assertGreater(report.pop("events_per_second"), 0)  # measured: differs every time
        return report

    def test_without_spread_everything_happens_as_planned(self):
        schedule = self.schedule()
        report = self.report(schedule, "--spread", "0", "--runs", "5")
        self.assertEqual(set(report["makespan_s"].values()), {schedule["makespan_s"]})
        ends = {task["task"]: task["end_s"] for task in schedule["tasks"]}
        self.assertEqual({task["task"]: task["mean_end_s"] for task in report["tasks"]}, ends)

    def test_spread_of_one_task(self):
        self.write("one.csv", "task,time_s_1g,time_s_2g,time_s_4g\na,40,20,10\n")
        schedule = self.schedule(tasks="one.csv")
        spans = self.report(schedule, "--spread", "0.2", tasks="one.csv")["makespan_s"]
        self.assertEqual(spans["planned"], 10.13)
        # The mean of 1,000 lognormal times has a standard error of 0.063 s; their 95th percentile
        # is 10 exp(1.645 s - s^2/2) with s^2 = log(1.04).
        self.assertAlmostEqual(spans["mean"], 10.13, delta=0.25)
        self.assertAlmostEqual(spans["p95"], 0.13 + 13.55, delta=0.5)

    def test_seeds(self):
        seven, again, eight = (self.report(self.schedule(), "--seed", seed, "--runs", "50")
                               for seed in "778")
        self.assertEqual(seven, again)
        self.assertNotEqual(seven["log_hash"], eight["log_hash"])
        self.assertIn("50 runs", self.ok("batch", "simulate", "schedule.json", "--tasks",
                                         "tasks.csv", "--runs", "50"))

    def test_broken_schedules_are_not_run(self):
        broken = self.schedule()
        broken["tasks"][0]["start"] += 1
        self.write("schedule.json", json.dumps(broken))
        done = self.run_partita("batch", "simulate", "schedule.json", "--tasks", "tasks.csv")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"the schedule is broken", done.stderr)

    def test_schedules_for_a_spread(self):
        self.write("rodinia.csv", shipped("rodinia-a30.csv"))
        far = self.schedule("--scheduler", "far", tasks="rodinia.csv")
        robust = self.schedule("--spread", "0.3", "--seed", "4", tasks="rodinia.csv")
        self.check_schedule(robust, shipped("rodinia-a30.csv"))
        figures = robust["robustness"]
        self.assertEqual((figures["spread"], figures["seed"]), (0.3, 4))
        same = ("--spread", "0.3", "--seed", "4", "--runs", str(figures["runs"]))
        spans = self.report(robust, *same, tasks="rodinia.csv")["makespan_s"]
        self.assertEqual((figures["expected_makespan_s"], figures["p95_makespan_s"]),
                         (spans["mean"], spans["p95"]))
        self.assertLessEqual(spans["mean"],
                             self.report(far, *same, tasks="rodinia.csv")["makespan_s"]["mean"])
        text = self.ok("batch", "schedule", "--tasks", "rodinia.csv", "--gpu", "A30", "--spread",
                       "0.3")
        self.assertRegex(text, r"(?m)^\* best .*expected .*95 % within")
        self.assertNotIn("robustness", self.schedule("--spread", "0"))


class Comparisons(BatchTest):
    def test_rows(self):
        document = self.json("batch", "compare", "--tasks", "tasks.csv", "--gpu", "A30")
        self.assertEqual((document["api_version"], document["kind"]),
                         ("partita/v1", "BatchComparison"))
        rows = {row["scheduler"]: row for row in document["schedulers"]}
        self.assertEqual(list(rows), ["best", "far", "miso", "fixed-best", "exact"])
        for name, row in rows.items():
            with self.subTest(name):
                schedule = self.schedule("--scheduler", name)
                self.assertTrue(row["feasible"] and row["ok"])
                self.assertEqual(row["makespan_s"], schedule["makespan_s"])
                ops = [change["op"] for change in schedule["reconfigurations"]]
                self.assertEqual((row["creates"], row["destroys"]),
                                 (ops.count("create"), ops.count("destroy")))
                ends = [task["end_s"] for task in schedule["tasks"]]
                self.assertAlmostEqual(row["mean_end_s"], sum(ends) / len(ends))
                used = sum((task["end_s"] - task["begin_s"]) * int(task["profile"][0])
                           for task in schedule["tasks"])
                self.assertAlmostEqual(row["utilisation"], used / (4 * schedule["makespan_s"]))
                self.assertAlmostEqual(row["ratio_to_far"],
                                       row["makespan_s"] / rows["far"]["makespan_s"])
                self.assertAlmostEqual(row["ratio_to_bound"],
                                       row["makespan_s"] / document["lower_bound_s"])
        self.assertEqual(document["lower_bound_s"], max(row["lower_bound_s"]
                                                        for row in rows.values()))

    def test_text_and_picture(self):
        arguments = ("batch", "compare", "--tasks", "tasks.csv", "--gpu", "A30", "--schedulers",
                     "far,fixed:2g+2g,fixed:1g+1g+1g+1g")
        text = self.ok(*arguments)
        self.assertRegex(text, r"(?m)^far .*1\.0000 .*ok$")
        self.assertRegex(text, r"(?m)^fixed:2g\+2g ")
        self.assertRegex(text, r"(?m)^fixed:1g\+1g\+1g\+1g +none")
        self.assertIn("fixed:1g+1g+1g+1g has no schedule:\n", text)
        root = xml.etree.ElementTree.fromstring(self.ok(*arguments, "--format", "svg"))
        words = " ".join(root.itertext())
        self.assertIn("far", words)
        self.assertIn("fixed:2g+2g", words)
        self.ok("batch", "compare", "--tasks", "tasks.csv", "--gpu", "A30", "--schedulers",
                "fixed:1g+1g+1g+1g", status=1)


class Generated(BatchTest):
    def generate(self, *more, count="12", gpu="A100-80GB"):
        return self.ok("batch", "generate", "--count", count, "--gpu", gpu, *more)

    def rows(self, *more, **options):
        return list(csv.DictReader(io.StringIO(self.generate(*more, **options))))

    def test_columns_and_ranges(self):
        for scaling in ("poor", "mixed", "good"):
            for times, low in (("wide", 1), ("narrow", 90)):
                text = self.generate("--scaling", scaling, "--times", times, "--seed", "3")
                self.assertEqual(text.splitlines()[0],
                                 "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g")
                rows = tasks_of(text)
                self.assertEqual(len(rows), 12)
                for row in rows.values():
                    self.assertTrue(low <= float(row["time_s_1g"]) <= 100, row)
                    self.assertGreaterEqual(float(row["time_s_1g"]), float(row["time_s_7g"]))
        self.assertEqual(self.generate(gpu="A30").splitlines()[0],
                         "task,time_s_1g,time_s_2g,time_s_4g")

    def test_seeds(self):
        self.assertEqual(self.generate("--seed", "3"), self.generate("--seed", "3"))
        self.assertNotEqual(self.generate("--seed", "3"), self.generate("--seed", "4"))

    def test_options(self):
        for row in self.rows("--p-sup", "0", "--shares", "7:1", "--clip", "truncate"):
            # Near-linear up to 7 slices: (s + r) / (s + 1) with r from 0 to 0.2 in six steps.
            ratio = float(row["time_s_7g"]) / float(row["time_s_1g"])
            self.assertTrue(1 / 7 - 1e-9 <= ratio <= 0.25, row)
        for row in self.rows("--p-sup", "1", "--shares", "7:1", "--time-range", "5,6"):
            self.assertTrue(5 <= float(row["time_s_1g"]) <= 6)
            self.assertLessEqual(float(row["time_s_2g"]), float(row["time_s_1g"]) / 2 + 1e-9)
        self.assertEqual(len(self.rows("--leftovers", "smallest-class", "--order", "classes",
                                       "--transition", "1", "--after-transition", "none")), 12)

    def test_releases_and_deadlines(self):
        plain = self.rows("--seed", "5")
        rows = self.rows("--seed", "5", "--releases", "50", "--deadlines", "3")
        self.assertEqual([row["time_s_1g"] for row in rows], [row["time_s_1g"] for row in plain])
        releases = [nanos(row["release_s"] or 0) for row in rows]
        self.assertTrue(all(0 <= release < nanos(50) for release in releases))
        self.assertGreater(len(set(releases)), 6)
        for row, release in zip(rows, releases):
            shortest = min(nanos(row[f"time_s_{size}g"]) for size in (1, 2, 3, 4, 7))
            self.assertLessEqual(abs(nanos(row["deadline_s"]) - release - 3 * shortest), 2)

    def test_what_is_generated_can_be_scheduled(self):
        for gpu in ("A30", "A100-40GB", "B200"):
            self.ok("batch", "generate", "--count", "9", "--gpu", gpu, "--releases", "20",
                    "--deadlines", "4", "-o", "generated.csv")
            self.check_schedule(self.schedule(tasks="generated.csv", gpu=gpu),
                                self.read("generated.csv"))


class Readme(BatchTest):
    def test_the_commands_run_as_they_stand(self):
        commands = documented("README.md", "plan --tasks", "verify build/s", "simulate build/s",
                              "compare --tasks", "init --count")
        self.assertGreaterEqual(len(commands), 6)
        self.as_in_a_clone()
        for arguments in commands:
            with self.subTest(" ".join(arguments)):
                self.ok(*arguments)
                if "-o" in arguments:
                    self.assertTrue(self.read(arguments[-1]))


class Words(BatchTest):
    def test_schedulers(self):
        document = self.json("planners")
        self.assertEqual(document, self.json("batch", "schedulers"))
        text = self.ok("planners")
        for row in document["schedulers"]:
            self.assertTrue(row["summary"] and row["source"])
            self.assertIn(row["summary"], text)

    def test_man_and_completion_know_the_flags(self):
        man = self.ok("man").replace("\\-", "-")
        scripts = {shell: self.ok("completion", shell) for shell in ("bash", "zsh", "fish")}
        for command in ("generate", "schedule", "stream", "verify", "compare", "simulate", "run"):
            text = self.ok("batch", command, "--help")
            self.assertEqual(text, self.ok("help", "batch", command))
            self.assertIn(f"partita batch {command} is an older name of `partita ", text)
            flags = [word.strip(",") for line in text.splitlines() if line.startswith("  --")
                     for word in line.split() if word.startswith("--")]
            for flag in flags:
                self.assertIn(flag, man)
                self.assertIn(flag, scripts["bash"])
                self.assertIn(flag, scripts["zsh"])
                self.assertIn(f"-l {flag[2:]}", scripts["fish"])

    def test_completion(self):
        self.assertEqual(self.complete("plan", "--sched"), ["--scheduler"])
        self.assertEqual(self.complete("plan", "--scheduler", "mi"), ["miso"])
        self.assertIn("fixed-best", self.complete("compare", "--schedulers", "fix"))
        self.assertEqual(self.complete("init", "--scaling", "g"), ["good"])
        self.assertEqual(self.complete("queue", "list", "ba"), ["batches"])
        for verb in ("show", "cancel", "hold", "release"):
            self.assertEqual(self.complete("queue", verb, "ba"), ["batch:"])
        zsh, fish = self.ok("completion", "zsh"), self.ok("completion", "fish")
        self.assertIn("(batches)", zsh)
        self.assertEqual(zsh.count("(batch:)"), 4)
        self.assertEqual(fish.count("-a 'batch:'"), 4)


if __name__ == "__main__":
    unittest.main()
