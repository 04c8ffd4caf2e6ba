"""Slurm with MIG instances that are made for each job: jobs of mixed shapes on eight node names of
this machine, with simulated GPUs behind them."""

import os
import random
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import slurm_cluster  # noqa: E402

PARTITA = os.environ.get("PARTITA", "")
MIX = ["1g.10gb"] * 4 + ["1g.20gb"] + ["2g.20gb"] * 3 + ["3g.40gb"] * 2 + ["4g.40gb", "7g.80gb"]
JOBS = int(os.environ.get("PARTITA_SLURM_JOBS", "30"))


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.Cluster(PARTITA)
        try:
            cls.cluster.start_all()
        except BaseException:
            cls.cluster.stop()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def all_gone(self, seconds=90):
        self.cluster.until(lambda: not self.cluster.jobs(), "all jobs end", seconds)
        self.assertEqual(self.cluster.node_states(),
                         {node: "idle" for node in self.cluster.nodes}, self.cluster.told())
        for node in self.cluster.nodes:
            self.assertEqual(self.cluster.instances(node), [], node)

    def test_jobs_of_mixed_shapes(self):
        self.cluster.start_placer()
        rng = random.Random(1)
        wanted = {}
        for _ in range(JOBS):
            shape = rng.choice(MIX)
            job = self.cluster.submit(f"--gres=gpu:{shape}:1",
                                      milliseconds=rng.randrange(300, 2000))
            wanted[job] = [shape]
        self.all_gone()
        self.assertEqual(self.cluster.judged(wanted), [])


if __name__ == "__main__":
    if why := slurm_cluster.why_not():
        print(why)
        sys.exit(77)
    unittest.main()
