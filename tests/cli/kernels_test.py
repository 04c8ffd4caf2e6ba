"""mask and kernels: the masks of Figure 3.8, plans that hold when they are recomputed, and clear
refusals."""

import unittest

import harness


def kernels(knees):
    """A kernel per knee: it gets faster up to that many units."""
    rows = ["index,kernel,units,time_us"]
    for index, knee in enumerate(knees):
        rows += [f"{index},k{index},{n},{100 / min(n, knee):.6f}" for n in (15, 30, 45, 60)]
    return "\n".join(rows) + "\n"


class MaskTest(harness.CliTest):
    def test_nineteen_units(self):
        for policy, shares in (("packed", [15, 4, 0, 0]), ("distributed", [5, 5, 5, 4]),
                               ("conserved", [10, 9, 0, 0])):
            mask = self.json("mask", "--gpu", "MI50", "--units", "19", "--policy", policy)
            self.assertEqual(mask["units_per_cluster"], shares)
            self.assertEqual(len(mask["unit_indices"]), 19)
            self.assertEqual(int(mask["mask_hex"], 16),
                             sum(1 << unit for unit in mask["unit_indices"]))

    def test_busy_units(self):
        busy = [[1] * 15, [0] * 3 + [2] * 12, [1] * 15, [0] + [1] * 14]
        self.write("busy.yaml", "busy: " + str(busy))
        mask = self.json("mask", "--units", "8", "--busy", "busy.yaml")
        self.assertEqual(mask["unit_indices"], [15, 16, 17, 45])
        self.assertEqual((mask["granted"], mask["overlapped"]), (4, 0))
        mask = self.json("mask", "--units", "8", "--busy", "busy.yaml", "--overlap-limit", "2")
        self.assertEqual((mask["granted"], mask["overlapped"]), (6, 2))
        self.write("full.yaml", str([1] * 60))
        done = self.run_partita("mask", "--units", "8", "--busy", "full.yaml")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"nothing granted", done.stderr)

    def test_atoms(self):
        mask = self.json("mask", "--gpu", "H200-141GB", "--units", "19")
        self.assertEqual((mask["atom"], mask["granted"]), (8, 24))
        mask = self.json("mask", "--gpu", "H200", "--units", "19", "--atom", "2")
        self.assertEqual(mask["granted"], 20)

    def test_refusals(self):
        self.write("short.yaml", "busy: [1, 2]")
        self.write("words.yaml", "busy:\n- 1\n- many\n")
        for args, words in ((("--units", "61"), "MI50 has 60 CUs"),
                            (("--units", "3", "--gpu", "MI51"), "no topology 'MI51'"),
                            (("--units", "3", "--busy", "short.yaml"), "2 numbers"),
                            (("--units", "3", "--busy", "words.yaml"), "words.yaml:3"),
                            (("--units", "3", "--policy", "pakced"), "did you mean 'packed'")):
            done = self.run_partita("mask", *args)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr.decode())


class KernelsTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("a.csv", kernels([60, 60, 15, 15, 15, 60]))
        self.write("b.csv", kernels([15, 15, 15]))

    def kernels(self, command, *more):
        return ("kernels", command, "--profiles", ".", "--gpu", "MI50", *more)

    def test_a_plan_is_what_its_units_come_to(self):
        plan = self.json(*self.kernels("plan", "--workers", "a,b,b", "--switches", "2", "--curve"))
        self.assertTrue(plan["optimal"])
        self.assertEqual([one["name"] for one in plan["workers"]], ["a", "b", "b#2"])
        means = [sum(one["units"]) / len(one["units"]) for one in plan["workers"]]
        total = 0
        for one, mean, knees in zip(plan["workers"], means, ([60, 60, 15, 15, 15, 60], [15] * 3,
                                                             [15] * 3)):
            alone = sum(100 / min(n, knee) for n, knee in zip(one["units"], knees))
            switches = sum(a != b for a, b in zip(one["units"], one["units"][1:]))
            self.assertAlmostEqual(one["alone_us"], alone, places=3)
            self.assertEqual(one["switches"], switches)
            self.assertLessEqual(switches, 2)
            predicted = alone * (1 + (sum(means) - mean) / 60)
            self.assertAlmostEqual(one["predicted_us"], predicted, places=3)
            total += predicted
        self.assertAlmostEqual(plan["objective"], total, places=3)
        curve = [point["objective"] for point in plan["curve"]]
        self.assertEqual(curve, sorted(curve, reverse=True))
        self.assertAlmostEqual(curve[-1], plan["objective"])

    def test_right_sizes(self):
        sizes = self.json(*self.kernels("rightsize", "--workers", "a", "--tolerance", "0.05"))
        self.assertEqual(sizes["models"][0]["units"], [60, 60, 15, 15, 15, 60])
        exact = self.json(*self.kernels("rightsize", "--workers", "a", "--method", "critical"))
        self.assertTrue(exact["models"][0]["optimal"])
        greedy = self.json(*self.kernels("rightsize", "--workers", "a", "--method",
                                         "critical-greedy"))
        self.assertLessEqual(exact["models"][0]["unit_us"], greedy["models"][0]["unit_us"])
        profiles = self.json(*self.kernels("profile", "--workers", "a,b"))
        self.assertEqual([model["knee"] for model in profiles["models"]], [60, 15])

    def test_simulated_policies(self):
        run = self.kernels("simulate", "--workers", "a,b,b", "--duration", "100ms")
        report = self.json(*run, "--policies", "mps,static,krisp-i,eclip")
        self.assertEqual([one["policy"] for one in report["policies"]],
                         ["mps", "static", "krisp-i", "eclip"])
        for one in report["policies"]:
            self.assertEqual([worker["name"] for worker in one["workers"]], ["a", "b", "b#2"])
            requests = sum(worker["requests"] for worker in one["workers"])
            self.assertAlmostEqual(one["rps"], requests / 0.1, places=6)
            self.assertAlmostEqual(one["joules_each"], one["energy_j"] / requests, places=9)
            self.assertLessEqual(one["busy_units"], 60)
            self.assertTrue(1 < one["normalised"] <= 3)
        again = self.json(*run, "--policies", "mps,static,krisp-i,eclip")
        self.assertEqual(report, again)
        # Alone on everything a request of `a` takes what its profile says.
        alone = self.json(*self.kernels("simulate", "--workers", "a", "--policies", "mps",
                                        "--spread", "0", "--duration", "100ms"))["policies"][0]
        self.assertAlmostEqual(alone["normalised"], 1)
        self.assertAlmostEqual(alone["workers"][0]["p95_ms"], (3 * 100 / 60 + 3 * 100 / 15) / 1000)

    def test_a_plan_simulated(self):
        plan = self.run_partita(*self.kernels("plan", "--workers", "a,b", "--format", "json"))
        self.write("plan.json", plan.stdout.decode())
        common = ("--policies", "eclip", "--duration", "50ms")
        self.assertEqual(self.json(*self.kernels("simulate", "plan.json", *common)),
                         self.json(*self.kernels("simulate", "--workers", "a,b", *common)))
        for args, words in ((("plan.json", "--workers", "a"), "plans 2 workers, --workers names 1"),
                            (("plan.json", "--workers", "b,a"), "plans 6 kernels of b, which"),
                            (("--policies", "mps"), "--workers"),
                            (("--workers", "a", "--policies", "mps,eclipse"), "'eclipse'"),
                            (("--workers", "a", "--duration", "1us"), "--duration")):
            done = self.run_partita(*self.kernels("simulate", *args))
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr.decode())

    def test_refusals(self):
        self.write("bad.csv", "index,kernel,units,time_us\n0,k,61,5\n")
        for args, words in ((("--workers", "c"), "no kernels of 'c'"),
                            (("--workers", "bad"), "./bad.csv:2"),
                            (("--workers", "a", "--configs", "30,15"), "--configs"),
                            (("--workers", "a", "--configs", "30,61"), "--configs")):
            done = self.run_partita(*self.kernels("plan", *args))
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
