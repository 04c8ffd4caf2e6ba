"""plan --objective: least watts and least cost, judged by verify; what is not meant is refused."""

import json
import unittest

import harness

PROFILES = """model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib
m,1,1,1,20,50,
m,2,1,1,36,27,
m,7,1,1,70,10,
"""
SERVICES = """- {name: a, model: m, rate_rps: 30, slo_ms: 1000}
- {name: b, model: m, rate_rps: 55, slo_ms: 800}
"""


class Objective(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("p.csv", PROFILES)
        self.write("s.yaml", SERVICES)

    def plan(self, *more, gpu="A100-80GB"):
        return ["plan", "--services", "s.yaml", "--profiles", "p.csv", "--gpu", gpu, *more]

    def test_energy_is_judged_and_recounted(self):
        text = self.ok(*self.plan("--objective", "energy"))
        self.assertIn(" W expected at these rates, lower bound ", text)
        out = self.ok(*self.plan("--objective", "energy", "--format", "json"))
        self.write("plan.json", out)
        objective = json.loads(out)["objective"]
        self.assertEqual(objective["least"], "energy")
        self.assertLessEqual(objective["lower_bound_watts"], objective["watts"])
        on = ["verify", "plan.json", "--services", "s.yaml", "--profiles", "p.csv"]
        self.ok(*on)
        self.write("plan.json", out.replace('"watts": ', '"watts": 1'))
        self.assertIn("watts", self.ok(*on, status=1))
        # Other watts than it was planned with are another plan.
        self.write("plan.json", out)
        self.write("c.csv", "gpu,idle_w,busy_w,source\nA100-80GB,90,300,mine\n")
        self.assertIn("watts", self.ok(*on, "--gpu-costs", "c.csv", status=1))

    def test_cost(self):
        objective = json.loads(self.ok(*self.plan("--objective", "cost", "--format", "json")))
        objective = objective["objective"]
        self.assertAlmostEqual(objective["cost"], 5.12 * objective["gpus"])
        self.assertEqual(objective["least"], "cost")

    def test_fewest_gpus_of_one_model_at_its_price_pass_verify(self):
        self.write("f.yaml", "gpus:\n  - {gpu: A100-80GB, profiles: p.csv, price: 2}\n")
        fleet = ["--services", "s.yaml", "--fleet", "f.yaml"]
        out = self.ok("plan", *fleet, "--objective", "gpus", "--format", "json")
        self.write("plan.json", out)
        self.ok("verify", "plan.json", *fleet)
        objective = json.loads(out)["objective"]
        self.assertEqual(objective["cost"], 2 * objective["gpus"])

    def test_spares_and_services_that_keep_apart_pass_verify(self):
        self.write("apart.yaml", SERVICES.replace("800}", "800, anti_affinity: [a]}"))
        for file, more in (("apart.yaml", []), ("s.yaml", ["--survive", "1"])):
            with self.subTest(file):
                inputs = ["--services", file, "--profiles", "p.csv"]
                self.write("plan.json", self.ok("plan", *inputs, "--gpu", "A100-80GB",
                                                "--objective", "energy", *more,
                                                "--format", "json"))
                self.ok("verify", "plan.json", *inputs)

    def test_what_is_not_meant_is_refused(self):
        for args, message in (
                (self.plan("--objective", "watts"), "--objective"),
                (self.plan("--objective", "energy", "--planner", "parvagpu"), "'exact' only"),
                (self.plan("--objective", "energy", "--day"), "--day"),
                (self.plan("--objective", "energy", gpu="H100-94GB-NVL"), "no power of a"),
                (self.plan("--objective", "cost", gpu="H200-141GB"), "no price of a"),
                (self.plan("--gpu-costs", "p.csv"), "--gpu-costs")):
            with self.subTest(message):
                done = self.run_partita(*args)
                self.assertEqual(done.returncode, 2)
                self.assertIn(message, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
