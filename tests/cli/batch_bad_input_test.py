"""What people can get wrong with batches: exit status 2, FILE:LINE or the flag, nothing written."""

import json
import os
import re
import unittest

from batch_harness import TASKS, BatchTest

HEADER = "task,time_s_1g,time_s_2g,time_s_4g"
ROW = "\na,40,20,10\n"

# name: (content of tasks.csv, what the message must match)
TASK_FILES = {
    "empty": ("", r"tasks\.csv:1"),
    "blank": ("\n\n \n", r"tasks\.csv:\d"),
    "header only": (HEADER + "\n", r"tasks\.csv"),
    "binary": (b"\x7fELF" + bytes(64), r"tasks\.csv:1"),
    "not UTF-8": (HEADER.encode() + b"\n\xff\xfe,1,1,1\n", r"tasks\.csv:2"),
    "zero byte": (HEADER + "\na\0,1,1,1\n", r"tasks\.csv:2"),
    "no task column": ("name,time_s_1g,time_s_2g,time_s_4g" + ROW, r"tasks\.csv:1.*(task|name)"),
    "no time column": ("task\na\n", r"tasks\.csv:1.*time_s_1g"),
    "unknown column": (HEADER + ",watts\na,40,20,10,9\n", r"tasks\.csv:1.*watts"),
    "misspelt column": (HEADER + ",dedline_s\na,40,20,10,9\n", r"tasks\.csv:1.*deadline_s"),
    "unknown size": (HEADER + ",time_s_9g\na,40,20,10,9\n", r"tasks\.csv:1.*time_s_9g"),
    "repeated column": (HEADER + ",time_s_1g\na,40,20,10,9\n", r"tasks\.csv:1.*time_s_1g"),
    "short row": (HEADER + "\na,1\n", r"tasks\.csv:2"),
    "long row": (HEADER + "\na,1,1,1,1\n", r"tasks\.csv:2"),
    "open quote": (HEADER + '\n"a,1,1,1\n', r"tasks\.csv:2"),
    "no name": (HEADER + "\n,1,1,1\n", r"tasks\.csv:2"),
    "duplicate name": (HEADER + ROW + "b,1,1,1\na,1,1,1\n", r"tasks\.csv:4.*a"),
    "zero": (HEADER + "\na,0,1,1\n", r"tasks\.csv:2.*time_s_1g"),
    "negative": (HEADER + "\na,1,-1,1\n", r"tasks\.csv:2.*time_s_2g"),
    "NaN": (HEADER + "\na,1,nan,1\n", r"tasks\.csv:2.*time_s_2g"),
    "infinite": (HEADER + "\na,1,inf,1\n", r"tasks\.csv:2.*time_s_2g"),
    "text": (HEADER + "\na,1,soon,1\n", r"tasks\.csv:2.*time_s_2g"),
    "unit": (HEADER + "\na,1,2s,1\n", r"tasks\.csv:2.*time_s_2g"),
    "huge": (HEADER + "\na,1,1e300,1\n", r"tasks\.csv:2.*time_s_2g"),
    "long": (HEADER + "\na,1,1e9,1\n", r"tasks\.csv:2.*time_s_2g"),
    "fits nowhere": (HEADER + "\na,,,\n", r"tasks\.csv:2.*a"),
    "negative release": (HEADER + ",release_s\na,1,1,1,-1\n", r"tasks\.csv:2.*release_s"),
    "deadline before release": (HEADER + ",release_s,deadline_s\na,1,1,1,5,4\n",
                                r"tasks\.csv:2.*deadline"),
    "priority 0": (HEADER + ",priority\na,1,1,1,0\n", r"tasks\.csv:2.*priority"),
    "after a stranger": (HEADER + ",after\na,1,1,1,b\n", r"tasks\.csv:2.*b"),
    "after itself": (HEADER + ",after\na,1,1,1,a\n", r"tasks\.csv:2.*a"),
    "cycle": (HEADER + ",after\na,1,1,1,c\nb,1,1,1,a\nc,1,1,1,b\n", r"tasks\.csv:\d.*a.*b.*c|"
              r"tasks\.csv:\d.*c.*a"),
}

# name: (arguments after --tasks, what the message must match)
FLAGS = {
    "no GPU": ([], r"--gpu"),
    "unknown GPU": (["--gpu", "A31"], r"--gpu.*A31.*A30-24GB"),
    "ambiguous GPU": (["--gpu", "A100"], r"--gpu.*A100-40GB, A100-80GB"),
    "no GPU between commas": (["--gpu", "A30,,A30"], r"--gpu"),
    "0 GPUs": (["--gpu", "A30:0"], r"--gpu.*0"),
    "half a GPU": (["--gpu", "A30:0.5"], r"--gpu.*0\.5"),
    "no number": (["--gpu", "A30:"], r"--gpu"),
    "many GPUs": (["--gpu", "A30:900,A30:900"], r"--gpu.*1000"),
    "count twice": (["--gpu", "A30:2", "--gpus", "3"], r"--gpus"),
    "--gpus 0": (["--gpu", "A30", "--gpus", "0"], r"--gpus"),
    "--gpus text": (["--gpu", "A30", "--gpus", "two"], r"--gpus"),
    "unknown scheduler": (["--gpu", "A30", "--scheduler", "besst"], r"--scheduler.*besst.*best"),
    "stray argument": (["--gpu", "A30", "--scheduler", "best:4g"], r"--scheduler.*best"),
    "unknown argument": (["--gpu", "A30", "--scheduler", "far:nonsense"],
                         r"--scheduler.*far.*nonsense"),
    "missing layout": (["--gpu", "A30", "--scheduler", "fixed"], r"--scheduler.*fixed.*layout"),
    "impossible layout": (["--gpu", "A30", "--scheduler", "fixed:9g"],
                          r"--scheduler.*A30-24GB.*9g.*2g\+2g"),
    "unknown format": (["--gpu", "A30", "--format", "png"], r"--format.*png"),
    "negative seed": (["--gpu", "A30", "--seed", "-1"], r"--seed"),
    "budget 0": (["--gpu", "A30", "--budget", "0"], r"--budget"),
    "spread -1": (["--gpu", "A30", "--spread", "-1"], r"--spread"),
    "spread nan": (["--gpu", "A30", "--spread", "nan"], r"--spread"),
    "no catalogue": (["--gpu", "A30", "--catalogue", "nowhere"], r"--catalogue nowhere"),
    "unknown flag": (["--gpu", "A30", "--schedular", "far"], r"--schedular.*--scheduler"),
    "stray word": (["--gpu", "A30", "stray"], r"stray"),
}

GENERATE = {
    "no count": (["--gpu", "A30"], r"--count"),
    "count 0": (["--gpu", "A30", "--count", "0"], r"--count"),
    "count 1e9": (["--gpu", "A30", "--count", "1000000000"], r"--count"),
    "no GPU": (["--count", "5"], r"--gpu"),
    "scaling": (["--gpu", "A30", "--count", "5", "--scaling", "bad"], r"--scaling.*bad"),
    "times": (["--gpu", "A30", "--count", "5", "--times", "long"], r"--times.*long"),
    "p-sup": (["--gpu", "A30", "--count", "5", "--p-sup", "1.5"], r"--p-sup"),
    "clip": (["--gpu", "A30", "--count", "5", "--clip", "never"], r"--clip"),
    "shares": (["--gpu", "A30", "--count", "5", "--shares", "1:0.5"], r"--shares"),
    "shares without share": (["--gpu", "A30", "--count", "5", "--shares", "1,2"], r"--shares.*1"),
    "shares of text": (["--gpu", "A30", "--count", "5", "--shares", "1:x"], r"--shares.*x"),
    "shares of halves": (["--gpu", "A30", "--count", "5", "--shares", "1.5:1"], r"--shares.*1\.5"),
    "shares that fall": (["--gpu", "A30", "--count", "5", "--shares", "2:0.5,1:0.5"], r"--shares"),
    "range": (["--gpu", "A30", "--count", "5", "--time-range", "5"], r"--time-range"),
    "range of text": (["--gpu", "A30", "--count", "5", "--time-range", "a,b"], r"--time-range"),
    "falling range": (["--gpu", "A30", "--count", "5", "--time-range", "9,5"], r"--time-range"),
    "range from 0": (["--gpu", "A30", "--count", "5", "--time-range", "0,5"], r"--time-range"),
    "range nan": (["--gpu", "A30", "--count", "5", "--time-range", "nan,5"], r"--time-range"),
    "releases": (["--gpu", "A30", "--count", "5", "--releases", "-5"], r"--releases"),
    "deadlines": (["--gpu", "A30", "--count", "5", "--deadlines", "0.5"], r"--deadlines"),
}


def scheduled(**changes):
    """A schedule with some keys changed, or removed where the value is None."""
    task = {"task": "mesh", "gpu": 0, "profile": "4g.24gb", "start": 0, "begin_s": 0.13,
            "end_s": 5.13}
    schedule = {"api_version": "partita/v1", "kind": "BatchSchedule", "gpu_model": "A30-24GB",
                "gpus": 1, "scheduler": "me", "makespan_s": 5.13, "lower_bound_s": 0,
                "tasks": [task], "reconfigurations": [], "stats": {"scheduling_ms": 0}}
    for key, value in changes.items():
        place = task if key in task else schedule
        place[key] = value
        if value is None:
            del place[key]
    return json.dumps(schedule)


SCHEDULES = {
    "empty": "",
    "binary": b"\x1f\x8b" + bytes(range(40)),
    "truncated": scheduled()[:-30],
    "trailing garbage": scheduled() + "}",
    "another version": scheduled(api_version="partita/v9"),
    "another kind": scheduled(kind="ServingPlan"),
    "no GPU model": scheduled(gpu_model=None),
    "unknown GPU model": scheduled(gpu_model="A1000"),
    "GPUs as text": scheduled(gpus="one"),
    "no GPUs": scheduled(gpus=0),
    "no tasks": scheduled(tasks=None),
    "tasks no list": scheduled(tasks={}),
    "task no object": scheduled(tasks=[1]),
    "no profile": scheduled(profile=None),
    "start as fraction": scheduled(start=0.5),
    "begin as text": scheduled(begin_s="0"),
    "NaN": scheduled(end_s=float("nan")),
    "infinite": scheduled(end_s=float("inf")),
    "operation": scheduled(reconfigurations=[{"gpu": 0, "op": "grow", "profile": "4g.24gb",
                                              "start": 0, "begin_s": 0, "end_s": 0.13}]),
    "deep": b"[" * 100_000,
}


class BadInput(BatchTest):
    def assert_refused(self, command, arguments, pattern):
        done = self.run_partita("batch", command, "-o", "out", *arguments)
        message = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, 2, message)
        self.assertRegex(message, re.compile(pattern, re.DOTALL))
        self.assertEqual(done.stdout, b"")
        self.assertFalse(os.path.exists(self.path("out")))

    def test_tasks(self):
        for name, (content, pattern) in TASK_FILES.items():
            for command in ("schedule", "compare"):
                with self.subTest(f"{command}: {name}"):
                    self.write("tasks.csv", content)
                    self.assert_refused(command, ["--tasks", "tasks.csv", "--gpu", "A30"], pattern)

    def test_flags(self):
        for name, (arguments, pattern) in FLAGS.items():
            with self.subTest(name):
                self.assert_refused("schedule", ["--tasks", "tasks.csv", *arguments], pattern)

    def test_generate(self):
        for name, (arguments, pattern) in GENERATE.items():
            with self.subTest(name):
                self.assert_refused("generate", arguments, pattern)

    def test_schedules(self):
        for name, content in SCHEDULES.items():
            for command in ("verify", "simulate"):
                with self.subTest(f"{command}: {name}"):
                    self.write("schedule.json", content)
                    self.assert_refused(command, ["schedule.json", "--tasks", "tasks.csv"],
                                        r"schedule\.json")

    def test_a_schedule_that_is_only_wrong_is_for_the_judge(self):
        self.write("schedule.json", scheduled())
        self.ok("batch", "verify", "schedule.json", "--tasks", "tasks.csv", status=1)
        self.ok("batch", "simulate", "schedule.json", "--tasks", "tasks.csv", status=1)

    def test_paths(self):
        for command, arguments, pattern in (
                ("schedule", ["--tasks", "nowhere", "--gpu", "A30"], r"--tasks nowhere"),
                ("schedule", ["--tasks", ".", "--gpu", "A30"], r"--tasks \."),
                ("compare", ["--tasks", "nowhere", "--gpu", "A30"], r"--tasks nowhere"),
                ("verify", ["nowhere", "--tasks", "tasks.csv"], r"SCHEDULE nowhere"),
                ("verify", ["--tasks", "tasks.csv"], r"SCHEDULE"),
                ("schedule", ["--gpu", "A30"], r"--tasks"),
                ("scedule", [], r"scedule.*schedule")):
            with self.subTest(f"{command} {arguments}"):
                self.assert_refused(command, arguments, pattern)

    def test_compare(self):
        for schedulers in ("", "best,", "best,nobody", "far,best:x", "best,fixed:9g"):
            with self.subTest(schedulers):
                self.assert_refused("compare", ["--tasks", "tasks.csv", "--gpu", "A30",
                                                "--schedulers", schedulers], "--schedulers")

    def test_simulate(self):
        self.ok("batch", "schedule", "--tasks", "tasks.csv", "--gpu", "A30", "--format", "json",
                "-o", "schedule.json")
        for arguments in (["--spread", "-0.1"], ["--spread", "x"], ["--runs", "0"],
                          ["--runs", "1e9"], ["--seed", "-1"]):
            with self.subTest(" ".join(arguments)):
                self.assert_refused("simulate", ["schedule.json", "--tasks", "tasks.csv",
                                                 *arguments], arguments[0])

    def test_the_old_file_stays(self):
        self.write("out.json", "old")
        self.ok("batch", "schedule", "--tasks", "tasks.csv", "--gpu", "A31", "-o", "out.json",
                status=2)
        self.assertEqual(self.read("out.json"), "old")
        self.assertEqual(self.read("tasks.csv"), TASKS)

    def test_no_subcommand(self):
        done = self.run_partita("batch")
        self.assertEqual(done.returncode, 2)
        self.assertTrue(done.stderr)

    def test_a_schedule_is_not_checked_as_a_plan_of_services(self):
        self.write("schedule.json", '{"kind": "BatchSchedule"}')
        for verb in ("verify", "simulate"):
            done = self.run_partita(verb, "schedule.json", "--services", "s.yaml")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--services: unknown flag; for a BatchSchedule `partita {verb}` takes "
                          "--tasks", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
