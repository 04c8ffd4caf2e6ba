"""probe lanes and kernels run: what they do on threads, and clear refusals."""

import unittest

import harness


class ProbeTest(harness.CliTest):
    def test_threads(self):
        probe = self.json("probe", "lanes", "--lane-driver", "cpu_mask", "--topology", "2x2",
                          "--rounds", "3")
        self.assertEqual((probe["driver"], probe["units"], probe["clusters"]), ("cpu_mask", 4, 2))
        self.assertEqual(probe["lanes"], 15)  # every mask of four units
        self.assertEqual((probe["groups"], probe["groups_outside"]), (64 * 32, 0))
        self.assertEqual([(p["masks"], p["units"]) for p in probe["scaling"]],
                         [(f, n) for f in ("packed", "distributed", "conserved")
                          for n in (1, 2, 3, 4)])
        self.assertGreater(min(p["us"] for p in probe["scaling"]), 0)
        self.assertIsNone(probe["bytes_per_lane"])

    def test_every_die_has_an_equal_share(self):
        probe = self.json("probe", "lanes", "--lane-driver", "cpu_mask", "--topology", "MI300X",
                          "--rounds", "1", "--lanes", "2")
        self.assertEqual(probe["units_per_die"], [38] * 8)
        self.assertEqual([(p["masks"], p["units"], p["units_per_die"]) for p in probe["scaling"]],
                         [("packed", 8 * n, [n] * 8) for n in range(1, 39)])
        self.assertEqual(probe["groups_outside"], 0)

    def test_text(self):
        text = self.ok("probe", "lanes", "--lane-driver", "cpu_mask", "--topology", "1x1",
                       "--rounds", "2")
        self.assertIn("cpu_mask: 1x1, 1 ", text)
        self.assertIn("0 of 64 work-groups ran outside", text)

    def test_refusals(self):
        for args, words in ((("--lane-driver", "cpu_msak"), "did you mean 'cpu_mask'"),
                            (("--lane-driver", "cpu_mask", "--topology", "MI51"),
                             "no topology 'MI51'"),
                            (("--lane-driver", "cpu_mask", "--atom", "2"), "--atom"),
                            (("--lane-driver", "green_ctx", "--topology", "2x2"), "--topology"),
                            (("--lane-driver", "hip_mask", "--device", "first"), "--device"),
                            (("--lane-driver", "cpu_mask", "--device", "1"), "--device"),
                            (("--rounds", "0"), "--rounds"), (("--lanes", "x"), "--lanes")):
            done = self.run_partita("probe", "lanes", *args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn(words, done.stderr.decode())

    def test_missing_drivers(self):
        for driver, library in (("green_ctx", "libcuda"), ("hip_mask", "libamdhip64")):
            done = self.run_partita("probe", "lanes", "--lane-driver", driver, "--library",
                                    "none.so")
            self.assertEqual(done.returncode, 3)
            self.assertIn("cannot be loaded", done.stderr.decode())


class RunTest(harness.CliTest):
    ARGS = ("kernels", "run", "--workers", "a,b", "--profiles", ".", "--topology", "2x2",
            "--lane-driver", "cpu_mask")

    def setUp(self):
        super().setUp()
        for name, knees in (("a", (1, 4, 1, 4)), ("b", (4, 2, 2))):
            rows = [f"{index},k{index},{units},{20 / min(units, knee)}"
                    for index, knee in enumerate(knees) for units in range(1, 5)]
            self.write(f"{name}.csv", "\n".join(["index,kernel,units,time_us", *rows]) + "\n")

    def test_policies(self):
        run = self.json(*self.ARGS, "--policies", "mps,static,eclip:2", "--requests", "5")
        mps, static, eclip = run["policies"]
        self.assertEqual((mps["policy"], mps["lanes"], mps["switches"]), ("mps", 2, 0))
        self.assertEqual((static["lanes"], static["switches"]), (2, 0))
        self.assertLessEqual(eclip["switches"], 2)
        for one in run["policies"]:
            self.assertEqual([worker["name"] for worker in one["workers"]], ["a", "b"])
            self.assertAlmostEqual(one["rps"], sum(worker["rps"] for worker in one["workers"]))
            self.assertGreater(min(worker["p95_ms"] for worker in one["workers"]), 0)

    def test_refusals(self):
        for args, words in ((("--policies", "mps,krisp-i"), "krisp-i"),
                            (("--policies", "eclip:x"), "eclip:x"), (("--scale", "0"), "--scale"),
                            (("--configs", "5"), "--configs"),
                            (("--requests", "0"), "--requests")):
            done = self.run_partita(*self.ARGS, *args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn(words, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
