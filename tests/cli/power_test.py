"""partita power: tables, plans that the judge accepts, refusals, policies against arrivals; clocks
that are put back."""

import json
import unittest

import harness

SERVICES = """services:
  - {name: b, model: bert, rate_rps: 13.6, slo_ms: 14.71, percentile: 95}
  - {name: v, model: vgg, rate_rps: 19.1, slo_ms: 10.47, percentile: 95}
"""


class PowerTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.as_in_a_clone()
        self.ok("power", "table", "--models", "bert,vgg", "--profiles", "data/published/reef",
                "-o", "mi50.csv")
        self.write("services.yaml", SERVICES)
        self.inputs = ("--services", "services.yaml", "--table", "mi50.csv", "--gpus", "2")

    def test_plans_are_verified_and_no_policy_beats_the_bound(self):
        plan = self.json("power", "plan", *self.inputs)
        self.assertAlmostEqual(plan["power_w"], sum(gpu["power_w"] for gpu in plan["gpus"]) +
                               plan["unused_gpus"] * 15, delta=1e-6)  # an MI50 at rest: 15 W
        self.assertLessEqual(plan["bound_w"], plan["power_w"] * (1 + 1e-9))
        self.write("plan.json", json.dumps(plan))
        self.assertEqual(self.ok("power", "verify", "plan.json", *self.inputs)[-1], "\n")
        # One service on one GPU, by the old ways: no less than the bound.
        self.write("one.yaml", SERVICES.rsplit("  - ", 1)[0])
        one = ("--services", "one.yaml", "--table", "mi50.csv")
        best = self.json("power", "plan", *one, "--gating", "unit")
        for policy in ("baseline", "fs", "rs-cu", "cofris-cu"):
            other = self.json("power", "plan", *one, "--policy", policy)
            self.assertGreaterEqual(other["power_w"], best["bound_w"] * (1 - 1e-9), policy)

    def test_a_plan_that_was_changed_is_found_out(self):
        plan = self.json("power", "plan", *self.inputs)
        for change in ("power", "units", "clock"):
            wrong = json.loads(json.dumps(plan))
            if change == "power":
                wrong["gpus"][0]["power_w"] -= 5
                wrong["power_w"] -= 5
            elif change == "units":
                wrong["gpus"][0]["shares"][0]["units"] = 61
            else:
                wrong["gpus"][0]["clock_mhz"] = 926
            self.write("wrong.json", json.dumps(wrong))
            self.ok("power", "verify", "wrong.json", *self.inputs, status=1)

    def test_refusals(self):
        self.write("services.yaml", SERVICES.replace("13.6", "100000"))
        done = self.run_partita("power", "plan", *self.inputs)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"more than 2 GPUs", done.stderr)
        self.write("services.yaml", SERVICES.replace("14.71", "0.01"))
        self.assertEqual(self.run_partita("power", "plan", *self.inputs).returncode, 1)
        for wish, word in (("survive: gpu\n" + SERVICES, b"survive"),
                           (SERVICES + "arrivals: {cv: 4}\n", b"services.yaml:2: service b")):
            self.write("services.yaml", wish)  # what would be lost without a word
            done = self.run_partita("power", "plan", *self.inputs)
            self.assertEqual((done.returncode, word in done.stderr), (2, True), done.stderr)
        self.write("services.yaml", SERVICES + "arrivals: uniform\n")
        self.ok("power", "plan", *self.inputs)
        self.write("services.yaml", SERVICES)
        lines = self.read("mi50.csv").splitlines()
        header = next(i for i, line in enumerate(lines) if line.startswith("model,"))
        lines[header + 1] = lines[header + 1].rsplit(",", 1)[0] + ",-5"
        self.write("mi50.csv", "\n".join(lines) + "\n")
        done = self.run_partita("power", "plan", *self.inputs)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"mi50.csv:{header + 2}".encode(), done.stderr)

    def test_policies_against_arrivals(self):
        report = self.ok("power", "simulate", *self.inputs[:4], "--alone", "--at-most",
                         "--duration", "60s", "--trace", "data/published/swim/fb09-0.csv",
                         "--strict")
        rows = [line.split() for line in report.splitlines() if line.startswith(("b ", "v "))]
        watts = {(row[0], row[1]): float(row[2]) for row in rows}
        for service in ("b", "v"):
            self.assertLess(watts[service, "cofris-cu"], watts[service, "baseline"])
        self.assertNotIn("MISSED", report)

    def test_what_was_set_is_put_back(self):
        self.write("node.yaml", "gpus: [{model: A100-80GB, count: 1, mig: true}]\n"
                                "state: node.state\n")
        node = ("--driver", "sim", "--machine", "node.yaml", "--state-dir", "st")
        before = self.ok("observe", *node[:4], "--format", "json")
        self.ok("power", "set", *node, "--gpu-index", "0", "--power-limit", "250")
        during = self.ok("observe", *node[:4], "--format", "json")
        self.ok("power", "restore", *node)
        after = self.ok("observe", *node[:4], "--format", "json")

        def limit(text):
            return json.loads(text)["gpus"][0]["power_limit_w"]
        self.assertEqual([limit(before), limit(during), limit(after)], [400, 250, 400])


if __name__ == "__main__":
    unittest.main()
