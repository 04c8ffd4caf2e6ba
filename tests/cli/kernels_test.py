"""mask and kernels: the masks of Figure 3.8, plans that hold when they are recomputed, and clear
refusals."""

import csv
import json
import math
import os
import statistics
import unittest
import xml.etree.ElementTree

import harness

SVG = "{http://www.w3.org/2000/svg}"


def kernels(knees, counts=(15, 30, 45, 60), work=100):
    """A kernel per knee: it gets faster up to that many units."""
    rows = ["index,kernel,units,time_us"]
    for index, knee in enumerate(knees):
        rows += [f"{index},k{index},{n},{work / min(n, knee):.6f}" for n in counts]
    return "\n".join(rows) + "\n"


def elements(svg, kind):
    """The elements of a class in a picture, which must have a title and a description."""
    root = xml.etree.ElementTree.fromstring(svg)
    assert root.get("role") == "img" and root.find(SVG + "title").text
    assert root.find(SVG + "desc").text
    return [one for one in root.iter() if one.get("class") == kind]


def refused(test, arguments, words, status=2):
    done = test.run_partita(*arguments)
    test.assertEqual(done.returncode, status, (arguments, done.stderr))
    test.assertIn(words, done.stderr.decode())
    test.assertEqual(done.stdout, b"")


class MaskTest(harness.CliTest):
    def test_nineteen_units(self):
        for policy, shares in (("packed", [15, 4, 0, 0]), ("distributed", [5, 5, 5, 4]),
                               ("conserved", [10, 9, 0, 0])):
            mask = self.json("mask", "--gpu", "MI50", "--units", "19", "--policy", policy)
            self.assertEqual(mask["units_per_cluster"], shares)
            self.assertEqual(len(mask["unit_indices"]), 19)
            self.assertEqual(int(mask["mask_hex"], 16),
                             sum(1 << unit for unit in mask["unit_indices"]))
            self.assertEqual((mask["units_per_die"], mask["clusters"]), ([19], "known"))

    def test_every_die_has_an_equal_share(self):
        for policy in ("packed", "distributed", "conserved", "fair", "balanced", "krisp"):
            for units in (1, 7, 8, 19, 76, 303, 304):
                mask = self.json("mask", "--gpu", "MI300X", "--units", str(units), "--policy",
                                 policy)
                shares = mask["units_per_die"]
                self.assertEqual(len(shares), 8)
                self.assertEqual(shares, [sum(38 * die <= unit < 38 * die + 38
                                              for unit in mask["unit_indices"])
                                          for die in range(8)])
                self.assertGreaterEqual(min(shares), 1)
                self.assertLessEqual(max(shares) - min(shares), 1)
                wanted = max(8, units - units % 8 if policy == "balanced" else units)
                self.assertEqual((mask["granted"], sum(shares)), (wanted, wanted))
                self.assertEqual(mask["effective"], 8 * min(shares))
        self.assertIn("8 CUs for the 3 asked for, 0 of them shared, 8 effective; every XCD needs "
                      "one, because one without any runs unmasked",
                      self.ok("mask", "--gpu", "MI300X", "--units", "3"))
        # One die is full: nothing can be given without sharing.
        self.write("busy.json", json.dumps([[1] * 38] + [[0] * 38] * 7))
        busy = ("mask", "--gpu", "MI300X", "--units", "16", "--busy", "busy.json")
        done = self.run_partita(*busy)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"may give on some die runs a kernel", done.stderr)
        self.assertEqual(self.json(*busy, "--overlap-limit", "1")["units_per_die"],
                         [1, 2, 2, 2, 2, 2, 2, 2])

    def test_assumed_clusters_are_not_chosen(self):
        for gpu in ("A100", "H100", "H200"):
            for policy in ("packed", "distributed", "conserved", "balanced", "krisp"):
                refused(self, ("mask", "--gpu", gpu, "--units", "32", "--policy", policy),
                        f"--policy: {policy} chooses GPCs, and which SMs of a board of {gpu} lie "
                        "in which GPC is not known before it is probed; fair does not depend on it")
            self.assertEqual(self.json("mask", "--gpu", gpu, "--units", "32")["clusters"],
                             "assumed")

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

    def test_pictures(self):
        self.write("busy.yaml", str([1] * 10 + [0] * 122))
        svg = self.ok("mask", "--gpu", "H200", "--units", "19", "--busy", "busy.yaml", "--format",
                      "svg")
        paths = [path.get("d") for path in xml.etree.ElementTree.fromstring(svg).iter(SVG + "path")]
        squares = [path.count("z") for path in paths]  # granted, busy, idle
        self.assertEqual(squares, [24, 10, 132 - 34])

    def test_refusals(self):
        self.write("short.yaml", "\nbusy: [1, 2]")
        self.write("words.yaml", "busy:\n- 1\n- many\n")
        for args, words in ((("--units", "61"), "MI50 has 60 CUs"),
                            (("--units", "3", "--gpu", "MI51"), "no topology 'MI51'"),
                            (("--units", "3", "--busy", "short.yaml"), "short.yaml:2: 2 numbers"),
                            (("--units", "3", "--atom", "16"), "--atom: 16: no SE of MI50"),
                            (("--units", "0"), "--units"),
                            (("--units", "nan"), "--units"),
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

    def test_replicas_are_certified(self):
        for model, count in (("a", 8), ("a", 12), ("b", 64)):
            plan = self.json(*self.kernels("plan", "--workers", ",".join([model] * count)))
            self.assertTrue(plan["optimal"], (model, count))

    def test_lanes_have_equal_shares_of_every_die(self):
        rows = [f"{index},k{index},{units},{1000 / min(units, knee)}"
                for index, knee in enumerate((304, 40, 80, 304, 160))
                for units in (8, 40, 72, 80, 152, 160, 224, 304)]
        self.write("m.csv", "\n".join(["index,kernel,units,time_us", *rows]) + "\n")
        at = ("--profiles", ".", "--gpu", "MI300X")
        plan = self.json("kernels", "plan", "--workers", "m,m,m", *at)
        for worker in plan["workers"]:
            self.assertLessEqual(set(worker["units"]), {72, 152, 224, 304})
        plan = self.json("kernels", "plan", "--workers", "m,m,m", *at, "--configs", "9,70,101,304")
        for worker in plan["workers"]:
            for lane in worker["lanes"]:
                mask, shares = int(lane["mask_hex"], 16), lane["units_per_die"]
                self.assertEqual(shares, [bin(mask >> 38 * die & (1 << 38) - 1).count("1")
                                          for die in range(8)])
                self.assertGreaterEqual(min(shares), 1)
                self.assertLessEqual(max(shares) - min(shares), 1)
        refused(self, ("kernels", "plan", "--workers", "m", *at, "--configs", "7,304"),
                "7 CUs leave an XCD of MI300X without any, which then runs unmasked; 8 are the "
                "fewest")
        self.json("kernels", "simulate", "--workers", "m,m", *at, "--duration", "20ms",
                  "--policies", "static,model,krisp-o,krisp-i,isolated,critical,eclip")

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

    def test_pictures(self):
        svg = self.ok(*self.kernels("plan", "--workers", "a,b", "--switches", "2", "--format",
                                    "svg"))
        plan = self.json(*self.kernels("plan", "--workers", "a,b", "--switches", "2"))
        changes = sum(worker["switches"] for worker in plan["workers"])
        self.assertGreater(changes, 0)
        self.assertEqual(len(elements(svg, "switch")), changes)
        self.assertEqual(len(elements(svg, "curve")), 2)
        lanes = [lane for worker in plan["workers"] for lane in worker["lanes"]]
        self.assertEqual(len(elements(svg, "lane")), len(lanes))
        for lane in elements(svg, "lane"):
            self.assertIn(lane.find(SVG + "title").text.split()[-1],
                          [lane["mask_hex"] for lane in lanes])
        for command in ("profile", "rightsize"):
            svg = self.ok(*self.kernels(command, "--workers", "a,b", "--format", "svg"))
            self.assertEqual(len(elements(svg, "least")), 2)
            self.assertEqual(len(elements(svg, "given")), 0)
        svg = self.ok(*self.kernels("rightsize", "--workers", "a", "--method", "critical",
                                    "--format", "svg"))
        self.assertEqual(len(elements(svg, "given")), 1)
        text = self.ok(*self.kernels("plan", "--workers", "b"))
        self.assertIn("b   15  " + "█" * 15 + " " + " ".join(["·" * 15] * 3) + "\n", text)

    def test_lanes_are_what_the_kernels_use(self):
        plan = self.json(*self.kernels("plan", "--workers", "a,b", "--switches", "3"))
        for worker in plan["workers"]:
            uses = {units: worker["units"].count(units) for units in worker["units"]}
            self.assertEqual({lane["units"]: lane["kernels"] for lane in worker["lanes"]}, uses)
            for lane in worker["lanes"]:
                self.assertEqual(bin(int(lane["mask_hex"], 16)).count("1"), lane["units"])
                self.assertEqual(sum(lane["units_per_cluster"]), lane["units"])

    def test_whole_atoms_on_h200(self):
        self.write("h.csv", kernels([132, 20, 40, 132, 70], (8, 20, 32, 64, 96, 132), 9000))
        for atom, quarters in (("8", {32, 64, 96, 132}), ("2", {32, 66, 98, 132})):
            plan = self.json("kernels", "plan", "--profiles", ".", "--workers", "h,h,h", "--gpu",
                             "H200-141GB", "--atom", atom)
            self.assertEqual((plan["gpu"], plan["atom"]), ("H200", int(atom)))
            for worker in plan["workers"]:
                self.assertLessEqual(set(worker["units"]), quarters)
                for lane in worker["lanes"]:
                    self.check_atoms(int(lane["mask_hex"], 16), int(atom))
        self.write("plan.json", self.ok("kernels", "plan", "--profiles", ".", "--workers", "h",
                                        "--gpu", "H200", "--format", "json"))
        report = self.json("kernels", "simulate", "plan.json", "--profiles", ".", "--policies",
                           "eclip,krisp-i,static", "--duration", "50ms")
        self.assertEqual((report["gpu"], report["atom"]), ("H200", 8))
        sizes = self.json("kernels", "rightsize", "--profiles", ".", "--workers", "h", "--gpu",
                          "H200")["models"][0]["units"]
        self.assertEqual(sizes, [132, 24, 64, 132, 96])  # 20, 40 and 70: the next measured
        at = ("--profiles", ".", "--gpu", "H200")
        refused(self, ("kernels", "plan", "--workers", "h", *at, "--configs", "32,66,132"),
                "66 SMs of H200 are not whole atoms of 8 (--atom); 64 or 72")
        refused(self, ("kernels", "plan", "--workers", "a", *at), "a.csv: no time on all 132 units")
        refused(self, ("kernels", "simulate", "plan.json", *at, "--atom", "2"), "--atom")
        refused(self, ("kernels", "simulate", "plan.json", "--profiles", ".", "--gpu", "MI50"),
                "is a plan for H200")
        refused(self, ("kernels", "simulate", "plan.json", *at, "--sweep", "switches=0,4"),
                "plan.json fixes them")
        self.write("r.profile.json", "{}")
        refused(self, ("kernels", "plan", "--workers", "r", *at), "give ./r.csv")

    def check_atoms(self, mask, atom):
        """Of every GPC, from its first SM on, whole atoms; or all 132 SMs."""
        if mask == (1 << 132) - 1:
            return
        for size in (18, 18, 16, 16, 16, 16, 16, 16):
            for _ in range(size // atom):
                self.assertIn(mask & ((1 << atom) - 1), (0, (1 << atom) - 1))
                mask >>= atom
            self.assertEqual(mask & ((1 << size % atom) - 1), 0)
            mask >>= size % atom

    def test_switches_and_sweeps(self):
        self.write("a.csv", kernels([60, 60, 15, 15, 15, 60], work=3000))
        self.write("b.csv", kernels([15, 15, 15], work=3000))
        run = self.kernels("simulate", "--workers", "a,b", "--duration", "40ms")
        named = self.json(*run, "--policies", "eclip:0,eclip:3")["policies"]
        swept = self.json(*run, "--policies", "mps,eclip", "--sweep", "switches=0,3")["sweep"]
        self.assertEqual([point["value"] for point in swept["points"]], [0, 3])
        for one, point in zip(named, swept["points"]):
            eclip = point["policies"][1]
            self.assertEqual({**one, "policy": "eclip"}, eclip)
            self.assertEqual(point["policies"][0], swept["points"][0]["policies"][0])
        self.assertEqual(sum(worker["switches"] for worker in named[0]["workers"]), 0)
        one = self.json(*run, "--policies", "eclip", "--switches", "3")
        self.assertEqual(one["policies"][0]["log_hash"], named[1]["log_hash"])
        # More contention never helps two workers on the same units.
        points = self.json(*run, "--policies", "mps", "--sweep", "gamma=0,0.5,2",
                           "--kernel-spread", "0")["sweep"]["points"]
        rates = [point["policies"][0]["normalised"] for point in points]
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertGreater(rates[0], rates[2])
        text = self.ok(*run, "--policies", "eclip:3", "--sweep", "gamma=0,1")
        self.assertIn("eclip:3", text)
        self.assertIn("Apart from gamma: ", text)

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
                                        "--kernel-spread", "0", "--duration",
                                        "100ms"))["policies"][0]
        self.assertAlmostEqual(alone["normalised"], 1)
        self.assertAlmostEqual(alone["workers"][0]["p95_ms"], (3 * 100 / 60 + 3 * 100 / 15) / 1000)

    def test_one_queue_serves_who_comes_first(self):
        """Alone 25 and 20 us; in one queue every worker waits for the others' kernels."""
        report = self.json(*self.kernels("simulate", "--workers", "a,a,a", "--duration", "200ms",
                                         "--kernel-spread", "0", "--policies",
                                         "default-stream,mps"))
        queue, mps = report["policies"]
        self.assertAlmostEqual(queue["normalised"], 1, places=2)
        self.assertGreater(mps["normalised"], 1.5)
        self.assertGreater(queue["waits"], 0)
        alone = (3 * 100 / 60 + 3 * 100 / 15) / 1000
        for worker in queue["workers"]:
            self.assertAlmostEqual(worker["p95_ms"], 3 * alone, places=6)
            self.assertEqual(worker["switches"], 0)
        # Kernels take turns: a worker with twice the kernels is served half as often.
        report = self.json(*self.kernels("simulate", "--workers", "a,b", "--duration", "200ms",
                                         "--kernel-spread", "0", "--policies", "default-stream"))
        long, short = report["policies"][0]["workers"]
        self.assertAlmostEqual(short["requests"] / long["requests"], 2, places=2)

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

    def test_a_plan_judged(self):
        for more in ((), ("--overlap", "literal"), ("--switch-cost", "0.75", "--curve")):
            plan = self.json(*self.kernels("plan", "--workers", "a,b,b", "--switches", "3", *more))
            self.write("plan.json", json.dumps(plan))
            verify = ("kernels", "verify", "plan.json", "--profiles", ".")
            self.assertIn("ok: 3 workers", self.ok(*verify))
            self.assertEqual(self.json(*verify)["violations"], [])

        def words(change):
            wrong = json.loads(json.dumps(plan))
            change(wrong, wrong["workers"][0])
            self.write("plan.json", json.dumps(wrong))
            verdict = self.json(*verify, status=1)
            self.assertFalse(verdict["ok"])
            return {one["constraint"] for one in verdict["violations"]}

        def other_units(wrong, worker):
            worker["units"] = [60] * 6
            worker["groups"] = [{"first": 0, "kernels": 6, "units": 60}]

        for key, word in (("switches", "switches"), ("mean_units", "mean_units"),
                          ("alone_us", "time"), ("predicted_us", "predicted")):
            change = lambda wrong, worker: worker.update({key: worker[key] + 1})
            self.assertIn(word, words(change), key)
        for key, word in (("objective", "objective"), ("bound", "bound")):
            change = lambda wrong, worker: wrong.update({key: wrong[key] * 1.01})
            self.assertIn(word, words(change), key)
        self.assertIn("switches", words(lambda wrong, worker: wrong.update(max_switches=1)))
        self.assertIn("time", words(other_units))
        self.assertIn("time", words(lambda wrong, worker: wrong.pop("switch_cost_us")))
        self.assertEqual({"lane"}, words(lambda wrong, worker: worker["lanes"].pop()))
        self.assertEqual({"lane_units"}, words(
            lambda wrong, worker: worker["lanes"][0].update(mask_hex="0x1",
                                                            units_per_cluster=[1, 0, 0, 0],
                                                            units_per_die=[1])))
        self.write("b.csv", kernels([15, 15]))  # other profiles: a kernel less
        self.assertEqual({"kernels"}, words(lambda wrong, worker: None))

    def test_a_plan_that_contradicts_itself(self):
        plan = self.json(*self.kernels("plan", "--workers", "a,b", "--switches", "2"))
        for path, value, words in (
                (("total_units",), 61, "'total_units' is 61, MI50 has 60"),
                (("workers", 0, "groups", 0, "kernels"), 9, "'groups' are not those of 'units'"),
                (("workers", 0, "lanes", 0, "mask_hex"), "60", "'mask_hex' must be 0x"),
                (("workers", 1, "lanes", 0, "units_per_cluster"), [1], "not those of 'mask_hex'"),
                (("workers", 1, "lanes", 0, "units_per_die"), [61], "'units_per_die' are not"),
                (("workers", 1, "units", 0), 61, "a number of units from 1 to 60"),
                (("workers", 1, "name"), "", "'name' is empty"),
                (("overlap",), "some", "'overlap' is 'some', must be 'others' or 'literal'"),
                (("kind",), "Plan", "'kind' is 'Plan', must be 'KernelPlan'")):
            wrong = json.loads(json.dumps(plan))
            at = wrong
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            self.write("plan.json", json.dumps(wrong, indent=1))
            for command in ("verify", "simulate"):
                refused(self, ("kernels", command, "plan.json", "--profiles", "."), words)

    def test_refusals(self):
        header = "index,kernel,units,time_us\n"
        self.write("bad.csv", header + "0,k,61,5\n")
        self.write("zero.csv", header + "0,k,60,5\n1,k,60,0\n")
        self.write("twice.csv", "kernel,units,time_us\nk,60,5\nk,60,6\n")
        for args, words in ((("--workers", "c"), "no kernels of 'c'"),
                            (("--workers", "bad"), "./bad.csv:2"),
                            (("--workers", "zero"), "./zero.csv:3"),
                            (("--workers", "twice"), "./twice.csv:3"),
                            (("--workers", "a,"), "--workers: an empty name"),
                            (("--workers", "a,a#2"), "'a#2'"),
                            (("--workers", "a", "--configs", ""), "--configs"),
                            (("--workers", "a", "--configs", "30,15"), "--configs"),
                            (("--workers", "a", "--configs", "30,61"), "--configs"),
                            (("--workers", "a", "--switch", "3"), "did you mean '--switch-cost'")):
            refused(self, self.kernels("plan", *args), words)
        done = self.run_partita(*self.kernels("plan", "--workers", "a", "-o", "no/where"))
        self.assertEqual(done.returncode, 3)
        plan = '{"kind": "KernelPlan", "gpu": "H200",\n "workers": [%s]}'
        self.write("empty.json", plan % "")
        self.write("split.json", plan % '\n{"name": "a", "units": [33]}')
        for args, words in ((("empty.json",), "empty.json:2: 'workers' is empty"),
                            (("split.json",), "split.json:3"),
                            (("--workers", "a", "--policies", "eclip:x"), "'eclip:x'"),
                            (("--workers", "a", "--sweep", "gama=1"), "did you mean 'gamma'"),
                            (("--workers", "a", "--sweep", "gamma=1,nan"), "'nan'"),
                            (("--workers", "a", "--sweep", "streams=0"), "'0'")):
            refused(self, ("kernels", "simulate", *args, "--profiles", "."), words)


class DocumentsTest(harness.CliTest):
    def test_their_commands_run_as_they_stand(self):
        self.as_in_a_clone()
        for document in ("README.md", "docs/kernels.md"):
            commands = harness.documented(document, "kernels ", "mask ")
            self.assertGreaterEqual(len(commands), 4)
            for arguments in commands:
                programs = [one for one in arguments if one.startswith("build/release/remote/")]
                if not all(os.path.exists(self.path(one)) for one in programs):
                    continue  # sanitizers build none
                with self.subTest(" ".join(arguments)):
                    self.ok(*arguments)
                    if "-o" in arguments:
                        self.assertTrue(self.read(arguments[-1]))
        self.assertEqual(self.read("build/kernels.svg"),
                         harness.source_text("docs/pictures/kernel-plan.svg"))


def waves(groups, latency):
    """Microseconds on 1 .. 60 CUs: a second implementation of the wave model."""
    times = []
    for units in range(1, 61):
        full, rest = divmod(math.ceil(groups / units), len(latency))
        times.append(full * latency[-1] + (latency[rest - 1] if rest else 0))
    return times


class ReefTest(harness.CliTest):
    """REEF's own tables of nine models on an MI50."""

    # Median over kernels of the fewest CUs within 5 % of the time on 60, and of the fewest from
    # which on it stays so (times are quantised, and not monotonous); T(15) / T(60).
    PUBLISHED = {"alexnet": (43, 48, 3.63), "bert": (43, 43, 2.90), "densenet": (2, 2, 1.11),
                 "inception": (49, 49, 2.75), "mobilenet": (43, 43, 2.99), "resnet": (49, 49, 3.12),
                 "resnet152": (8, 8, 1.13), "resnet18": (33, 37, 2.75), "vgg": (11, 16, 1.29)}

    def test_the_wave_model(self):
        self.as_in_a_clone()
        at = ("--profiles", "data/published/reef", "--workers", ",".join(self.PUBLISHED),
              "--gpu", "MI50")
        profiles = self.json("kernels", "profile", *at)["models"]
        quarter = self.json("kernels", "plan", *at, "--configs", "15")["workers"]
        tables = {(row["model"], row["kernel"]): row for row in csv.DictReader(
            harness.source_text("data/published/reef/waves.csv").splitlines())}
        for model, worker in zip(profiles, quarter):
            name = model["name"]
            least, stays, ratios = [], [], []
            for kernel in model["kernels"]:
                table = tables[name, kernel["name"]]
                times = waves(int(table["work_groups"]), [*map(int, table["wave_us"].split())])
                within = [time <= times[-1] * 1.05 for time in times]
                least.append(within.index(True) + 1)
                stays.append(60 - (within[::-1] + [False]).index(False) + 1)
                ratios.append(times[-1] / int(table["measured_us"]))
                self.assertEqual((kernel["time_us"], kernel["least_units"]), (times[-1], least[-1]))
            slower = worker["alone_us"] / model["time_us"]
            found = (statistics.median(least), statistics.median(stays), round(slower, 2))
            self.assertEqual(found, self.PUBLISHED[name], name)
            # What the model says of all 60 CUs against what was measured there.
            self.assertTrue(0.94 <= statistics.median(ratios) <= 1, (name, ratios))


class KernelTraces(harness.CliTest):
    def test_the_request_that_rocprof_saw(self):
        rows = [f"{name},{at},{at + us * 1000}" for at, (name, us) in enumerate(
            [("setup", 50), *[("gemm", 4), ("relu", 1)] * 3])]
        self.write("trace.csv", "\n".join(["KernelName,BeginNs,EndNs", *rows]) + "\n")
        done = self.run_partita("kernels", "import", "trace.csv", "--from", "rocprof", "--units",
                                "60")
        self.assertEqual(done.stdout.decode(),
                         "index,kernel,units,time_us\n0,gemm,60,4.000\n1,relu,60,1.000\n")
        self.write("once.csv", "KernelName,BeginNs,EndNs\na,0,1\n")
        done = self.run_partita("kernels", "import", "once.csv", "--units", "60")
        self.assertEqual(done.returncode, 2)
        self.assertIn("repeat no request", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
