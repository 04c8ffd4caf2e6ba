"""What the tests of the batch commands share: small inputs, and a judge of schedules of their own.

The judge is written from the format's contract alone, in whole nanoseconds: every task once and for
its time, reconfigurations of a GPU one after the other with the catalogue's times, instances that
exist together on slices of their own, tasks inside the life of their instance."""

import csv
import io
from decimal import Decimal

from harness import CliTest

TASKS = """task,time_s_1g,time_s_2g,time_s_4g
render,40,20,10
encode,9,8,8
solve,,30,16
mesh,12.5,7,5
"""

TIMED = """task,time_s_1g,time_s_2g,time_s_4g,release_s,deadline_s,after
load,6,4,3,,,
train,50,26,14,5,40,load
report,2,2,2,,30,train
other,30,30,30,10.5,,
"""


def nanos(text):
    return int((Decimal(str(text)) * 10**9).to_integral_value())


def tasks_of(text):
    return {row["task"]: row for row in csv.DictReader(io.StringIO(text))}


def overlaps(spans):
    """Pairs of spans (begin, end, what) that share time."""
    spans = sorted(spans)
    return [(a, b) for a, b in zip(spans, spans[1:]) if b[0] < a[1]]


class BatchTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write("tasks.csv", TASKS)
        self.gpus = {}

    def gpu(self, name):
        if name not in self.gpus:
            self.gpus[name] = self.json("gpus", name)
        return self.gpus[name]

    def schedule(self, *more, tasks="tasks.csv", gpu="A30"):
        return self.json("batch", "schedule", "--tasks", tasks, "--gpu", gpu, *more)

    # ---- the judge ----

    def lives(self, changes):
        """(profile, start, begin, usable from, usable until, end) of every instance of one GPU."""
        lives, open_lives = [], {}
        for change in sorted(changes, key=lambda c: nanos(c["begin_s"])):
            key = (change["profile"], change["start"])
            begin, end = nanos(change["begin_s"]), nanos(change["end_s"])
            if change["op"] == "create":
                self.assertNotIn(key, open_lives)
                open_lives[key] = (begin, end)
            else:
                lives.append((*key, *open_lives.pop(key), begin, end))
        forever = 10**30
        return lives + [(*key, *life, forever, forever) for key, life in open_lives.items()]

    def check_gpu(self, gpu, changes, tasks):
        profiles = {profile["name"]: profile for profile in gpu["profiles"]}
        times = {row["gpcs"]: row for row in gpu["reconfiguration"]["times"]}
        for change in changes:
            profile = profiles[change["profile"]]
            self.assertIn(change["start"], profile["placements"]["starts"])
            seconds = times[profile["gpcs"]][change["op"] + "_s"]
            self.assertEqual(nanos(change["end_s"]) - nanos(change["begin_s"]), nanos(seconds))
        self.assertEqual(
            overlaps((nanos(c["begin_s"]), nanos(c["end_s"]), str(c)) for c in changes), [])
        lives = self.lives(changes)
        for slice_ in range(gpu["memory_slices"]):
            covering = [(begin, end, name) for name, start, begin, _, _, end in lives
                        if start <= slice_ < start + profiles[name]["placements"]["size"]]
            self.assertEqual(overlaps(covering), [])
        for moment in {life[2] for life in lives}:
            slices = sum(profiles[life[0]]["gpcs"] for life in lives if life[2] <= moment < life[5])
            self.assertLessEqual(slices, gpu["compute_slices"])
        for key in {(task["profile"], task["start"]) for task in tasks}:
            mine = [(nanos(t["begin_s"]), nanos(t["end_s"]), t["task"]) for t in tasks
                    if (t["profile"], t["start"]) == key]
            self.assertEqual(overlaps(mine), [])
            for begin, end, name in mine:
                inside = [life for life in lives
                          if life[:2] == key and life[3] <= begin and end <= life[4]]
                self.assertEqual(len(inside), 1, name)

    def check_tasks(self, schedule, models, tasks):
        self.assertEqual(sorted(t["task"] for t in schedule["tasks"]), sorted(tasks))
        ends = {t["task"]: nanos(t["end_s"]) for t in schedule["tasks"]}
        for task in schedule["tasks"]:
            row = tasks[task["task"]]
            model = models[task["gpu"]]
            (profile,) = [p for p in model["profiles"] if p["name"] == task["profile"]]
            column = f"time_s_{profile['gpcs']}g"
            time = row.get(f"{column}@{model['name']}") or row[column]
            begin = nanos(task["begin_s"])
            self.assertEqual(nanos(task["end_s"]) - begin, nanos(time), task["task"])
            self.assertGreaterEqual(begin, nanos(row.get("release_s") or 0))
            for before in (row.get("after") or "").split(";"):
                if before:
                    self.assertGreaterEqual(begin, ends[before])
        self.assertEqual(nanos(schedule["makespan_s"]), max(ends.values(), default=0))
        self.assertLessEqual(nanos(schedule["lower_bound_s"]), nanos(schedule["makespan_s"]))

    def check_schedule(self, schedule, tasks):
        """Nothing, or a failed assertion."""
        names = schedule.get("gpu_models") or [schedule["gpu_model"]] * schedule["gpus"]
        models = [self.gpu(name) for name in names]
        self.check_tasks(schedule, models, tasks_of(tasks))
        for index, model in enumerate(models):
            self.check_gpu(model,
                           [c for c in schedule["reconfigurations"] if c["gpu"] == index],
                           [t for t in schedule["tasks"] if t["gpu"] == index])
