"""plan --day: a plan per period that stands for itself, what it saves, and its limits."""

import json
import unittest

from harness import CliTest

SERVICES = """services:
- {name: chat, model: small, slo_ms: 200, rates: [[08:00, 3000], [12:30, 2000], [20:00, 500]]}
- {name: search, model: large, rate_rps: 300, slo_ms: 500, rates: [[07:00, 100%], [20:00, 20%]]}
"""


class Day(CliTest):
    def setUp(self):
        super().setUp()
        self.write("services.yaml", SERVICES)

    def day(self, *more):
        return self.json(*self.plan_args("--day", *more))

    def test_every_plan_is_that_of_its_time(self):
        day = self.day()
        self.assertEqual([p["from"] for p in day["periods"]], ["07:00", "08:00", "12:30", "20:00"])
        self.assertEqual([p["to"] for p in day["periods"]], ["08:00", "12:30", "20:00", "07:00"])
        self.assertEqual([p["rate_rps"] for p in day["periods"]], [800, 3300, 2300, 560])
        for period in day["periods"]:
            self.write("plan.json", json.dumps(period["plan"]))
            at = ("--at", period["from"])
            self.assertIn("ok", self.ok(*self.on_plan("verify", "plan.json", *at)))
            self.ok(*self.on_plan("simulate", "plan.json", *at, "--duration", "20s", "--require",
                                  "0.99"))
            scratch = self.json(*self.plan_args(*at))["objective"]["gpus"]
            self.assertEqual(period["plan"]["objective"]["gpus"], scratch)
        other = self.on_plan("verify", "plan.json", "--at", "12:30")
        self.assertEqual(self.run_partita(*other).returncode, 1)

    def test_hours_are_those_of_the_periods(self):
        day = self.day("--change-time", "1s")
        hours = [1, 4.5, 7.5, 11]
        gpus = [p["plan"]["objective"]["gpus"] for p in day["periods"]]
        around = zip(day["changes"], gpus[-1:] + gpus[:-1], gpus)
        changes = sum(2 * change["gpus"] - a - b for change, a, b in around) / 3600
        self.assertAlmostEqual(day["gpu_hours"],
                               sum(g * h for g, h in zip(gpus, hours)) + changes, places=3)
        self.assertEqual(day["peak_gpu_hours"], 24 * day["peak_gpus"])
        self.assertLess(day["gpu_hours"], day["peak_gpu_hours"])
        text = self.ok(*self.plan_args("--day"))
        self.assertRegex(text, r"GPU-hours a day, 0\.\d\d of the")
        self.assertRegex(text, "AT +KEPT +RESTARTED +MOVED")
        self.assertIn("<svg", self.ok(*self.plan_args("--day", "--format", "svg")))

    def test_the_whole_day_is_judged(self):
        self.write("day.json", json.dumps(self.day()))
        self.assertEqual(self.ok("show", "day.json"), self.ok(*self.plan_args("--day")))
        self.assertIn("<svg", self.ok("show", "day.json", "--format", "svg"))
        self.assertIn("4 periods", self.ok(*self.on_plan("verify", "day.json")))
        self.assertIn("ok", self.ok(*self.on_plan("verify", "day.json", "--at", "13:00")))
        self.ok(*self.on_plan("simulate", "day.json", "--at", "03:00", "--duration", "5s"))

    def test_a_simulated_day_is_that_of_its_plans(self):
        day = self.day()
        self.write("day.json", json.dumps(day))
        play = self.on_plan("simulate", "day.json", "--duration", "3s")
        periods = self.json(*play)["periods"]
        self.assertEqual([(p["from"], p["to"]) for p in periods],
                         [(p["from"], p["to"]) for p in day["periods"]])
        for period in periods:
            alone = self.json(*play, "--at", period["from"])
            for report in (alone, period["report"]):
                report.pop("events_per_second")
            self.assertEqual(period["report"], alone)
        self.assertRegex(self.ok(*play), r"12:30 +20:00 +\d+ +\d+ +\d+ +(chat|search) +\d")
        late = self.run_partita(*play, "--load", "3", "--require", "0.99")
        self.assertEqual(late.returncode, 1)
        self.assertIn("service chat from 08:00: slo_attainment: have", late.stderr.decode())
        self.assertEqual(self.run_partita(*play, "--format", "svg").returncode, 2)
        day["periods"][1]["plan"] = day["periods"][3]["plan"]
        self.write("day.json", json.dumps(day))
        self.assertEqual(self.run_partita(*play).returncode, 1)

    # Every number of it that is another, and every plan at another time, is a violation.
    def test_what_is_wrong_with_a_day_is_found(self):
        day = self.day()
        places = [("gpu_hours",), ("peak_gpu_hours",), ("periods", 1, "rate_rps"),
                  *(("changes", 2, key) for key in day["changes"][2] if key != "at")]
        for place in places:
            wrong = json.loads(json.dumps(day))
            *way, last = place
            inner = wrong
            for step in way:
                inner = inner[step]
            inner[last] += 1
            self.refused_day(wrong, place)
        for name, edit in (("later", lambda d: d["periods"][0].update(to="08:30")),
                           ("of another time",
                            lambda d: d["periods"][0].update(plan=day["periods"][1]["plan"])),
                           ("merged", lambda d: (d["periods"].pop(1), d["changes"].pop(1),
                                                 d["periods"][0].update(to="12:30"))),
                           ("unchanged", lambda d: d["changes"].pop())):
            wrong = json.loads(json.dumps(day))
            edit(wrong)
            self.refused_day(wrong, name)

    def refused_day(self, day, name):
        self.write("wrong.json", json.dumps(day))
        with self.subTest(name):
            self.assertEqual(self.run_partita(*self.on_plan("verify", "wrong.json")).returncode, 1)

    def test_limits(self):
        self.assertEqual(self.day("--max-gpus", "100")["kind"], "DayPlan")
        refusal = self.json(*self.plan_args("--day", "--max-gpus", "1"), status=1)
        self.assertEqual(refusal["reasons"][0]["constraint"], "fleet_count")
        for more, word in ((("--planner", "parvagpu"), "--planner"), (("--at", "08:00"), "--at"),
                           (("--change-time", "40m"), "from 07:00 to 08:00"),
                           (("--current", "x.json"), "--current")):
            done = self.run_partita(*self.plan_args("--day", *more))
            self.assertEqual(done.returncode, 2, more)
            self.assertIn(word, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
