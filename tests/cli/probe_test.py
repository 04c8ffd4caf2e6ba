"""probe lanes: what it says of threads, and clear refusals."""

import unittest

import harness


class ProbeTest(harness.CliTest):
    def test_threads(self):
        probe = self.json("probe", "lanes", "--driver", "cpu_mask", "--gpu", "2x2", "--rounds", "3")
        self.assertEqual((probe["driver"], probe["units"], probe["clusters"]), ("cpu_mask", 4, 2))
        self.assertEqual(probe["lanes"], 15)  # every mask of four units
        self.assertEqual((probe["groups"], probe["groups_outside"]), (64 * 32, 0))
        self.assertEqual([(p["masks"], p["units"]) for p in probe["scaling"]],
                         [(f, n) for f in ("packed", "distributed", "conserved")
                          for n in (1, 2, 3, 4)])
        self.assertGreater(min(p["us"] for p in probe["scaling"]), 0)
        self.assertIsNone(probe["bytes_per_lane"])

    def test_text(self):
        text = self.ok("probe", "lanes", "--driver", "cpu_mask", "--gpu", "1x1", "--rounds", "2")
        self.assertIn("cpu_mask: 1x1, 1 ", text)
        self.assertIn("0 of 64 work-groups ran outside", text)

    def test_refusals(self):
        for args, words in ((("--driver", "cpu_msak"), "did you mean 'cpu_mask'"),
                            (("--driver", "cpu_mask", "--gpu", "MI51"), "no topology 'MI51'"),
                            (("--driver", "cpu_mask", "--atom", "2"), "--atom"),
                            (("--driver", "cpu_mask", "--device", "1"), "--device"),
                            (("--rounds", "0"), "--rounds"), (("--lanes", "x"), "--lanes")):
            done = self.run_partita("probe", "lanes", *args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn(words, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
