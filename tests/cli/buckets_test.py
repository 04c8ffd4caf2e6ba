"""Services whose requests differ in length: buckets are planned, judged and simulated as they are,
and cost less than padding everything to the longest."""

import unittest

import harness

PROFILE = """model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib,shape
bert,1,1,1,200,5,,ids=64
bert,1,8,1,800,10,,ids=64
bert,1,1,1,100,10,,ids=256
bert,1,8,1,250,32,,ids=256
bert,1,1,1,50,20,,ids=512
bert,1,8,1,120,66.7,,ids=512
"""
# 50 % up to 64, 45 % up to 256, 5 % up to 512.
LENGTHS = "length,count\n30,300\n60,200\n100,250\n200,200\n400,50\n"


class Buckets(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("profiles.csv", PROFILE)
        self.write("lengths.csv", LENGTHS)

    def services(self, buckets, lengths="lengths.csv"):
        self.write_services("name: bert, model: bert, rate_rps: 900, slo_ms: 150, "
                            f"lengths: {lengths}, buckets: {buckets}")
        return ("--services", "services.yaml", "--profiles", "profiles.csv")

    def test_each_bucket_is_planned_with_its_part(self):
        inputs = self.services("[64, 256, 512]")
        self.ok("plan", *inputs, "--gpu", "CPU-4", "--format", "json", "-o", "plan.json")
        plan = self.json("plan", *inputs, "--gpu", "CPU-4")
        self.assertEqual({row["name"]: round(row["rate_rps"]) for row in plan["services"]},
                         {"bert~64": 450, "bert~256": 405, "bert~512": 45})
        self.assertEqual(plan["objective"]["gpus"], 1)
        self.ok("verify", "plan.json", *inputs)
        report = self.json("simulate", "plan.json", *inputs, "--duration", "20s",
                           "--require", "0.99")
        self.assertEqual(len(report["services"]), 3)
        # The judge counts again: with longer requests the same plan carries too little.
        longer = self.services("[64, 256, 512]", "[30, 200, 400]")
        self.ok("verify", "plan.json", *longer, status=1)
        # All padded to the longest it takes twice as many GPUs.
        padded = self.json("plan", *self.services("[512]"), "--gpu", "CPU-4")
        self.assertEqual(padded["objective"]["gpus"], 2)

    def test_mistakes_are_told(self):
        done = self.run_partita("plan", *self.services("[128, 512]"), "--gpu", "CPU-4")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"`profile measure --input-shape` with 128 as the greatest size", done.stderr)
        done = self.run_partita("plan", *self.services("[256]"), "--gpu", "CPU-4")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"'lengths' go up to 400, and the last bucket is 256", done.stderr)
        done = self.run_partita("plan", *self.services("[512]", "nowhere.csv"), "--gpu", "CPU-4")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"services.yaml:2: 'lengths':", done.stderr)
        done = self.run_partita("plan", *self.services("[64, 512]"), "--gpu", "CPU-4")
        self.assertEqual(done.stderr.count(b"of the compute of its buckets is padding"), 1)


if __name__ == "__main__":
    unittest.main()
