"""Baselines on the command line: their own SLO rules, and plans of shares that are no layouts."""

import unittest

import harness

PROFILES = "data/published/parvagpu/a100-80gb.csv"


class Baselines(harness.CliTest):
    def inputs(self, number):
        return ("--services", f"data/scenarios/s{number}.yaml", "--profiles", PROFILES, "--gpu",
                "A100-80GB")

    def setUp(self):
        super().setUp()
        self.as_in_a_clone()

    def test_planners_says_which_rule_each_plans_by(self):
        rules = {one["name"]: one["slo_rule"] for one in self.json("planners")["planners"]}
        self.assertEqual(rules["exact"], "any")
        self.assertEqual(rules["gpulet"], "execution:0.5")
        self.assertEqual(rules["mig-serving"], "execution:1")

    def test_without_a_rule_a_baseline_takes_its_own(self):
        plan = self.json("plan", *self.inputs(1), "--planner", "gpulet")
        self.assertEqual(plan["slo_rule"], "execution:0.5")
        shares = [sum(one["share_percent"] for one in gpu["instances"]) for gpu in plan["gpus"]]
        self.assertEqual(shares, [100] * len(shares))
        refused = self.run_partita("plan", *self.inputs(1), "--planner", "gpulet", "--slo-rule",
                                   "queueing")
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"--slo-rule execution:0.5 is its own rule", refused.stdout + refused.stderr)

    def test_compare_runs_all_of_them(self):
        names = "exact,parvagpu,mig-serving-greedy,paris-elsa,gpulet,igniter,gslice"
        found = self.json("compare", *self.inputs(2), "--planners", names, "--duration", "2s",
                          "--slo-rule", "execution:0.5")["planners"]
        self.assertEqual([one["planner"] for one in found], names.split(","))
        self.assertTrue(all(one["feasible"] for one in found), found)
        fewest = min(one["gpus"] for one in found)
        self.assertEqual(found[0]["gpus"], fewest)
        own = self.json("compare", *self.inputs(2), "--planners", "gslice,mig-serving-greedy",
                        "--duration", "1s")["planners"]
        self.assertEqual([one["slo_rule"] for one in own], ["execution:0.5", "execution:1"])

    def test_a_plan_of_shares_is_verified_and_simulated_but_never_applied(self):
        self.ok("plan", *self.inputs(1), "--planner", "igniter", "--format", "json", "-o",
                "plan.json")
        inputs = self.inputs(1)[:4]
        self.ok("verify", "plan.json", *inputs)
        report = self.json("simulate", "plan.json", *inputs, "--duration", "2s")
        self.assertEqual(len(report["services"]), 6)
        for command in (("apply", "plan.json", "--dry-run", "--driver", "sim"),
                        ("export", "plan.json", "--to", "mig-parted"),
                        ("plan", *self.inputs(1), "--current", "plan.json")):
            with self.subTest(command[0]):
                refused = self.run_partita(*command)
                self.assertEqual(refused.returncode, 2, refused.stderr)
                self.assertIn(b"planner 'igniter' shares whole GPUs under MPS", refused.stderr)


if __name__ == "__main__":
    unittest.main()
