"""partita thermal: HotSpot's files in and out, what physics demands, refusals with FILE:LINE."""

import json
import math
import unittest

import harness

GPU = ("--flp", "data/thermal/gp107.flp", "--config", "data/thermal/gp107.config",
       "--power", "data/thermal/gp107.ptrace")
RECTANGLE = ("--flp", "data/thermal/rectangle.flp", "--power", "data/thermal/rectangle.ptrace")
STACK = ("--lcf", "data/thermal/stack.lcf", "--config", "data/thermal/stack.config",
         "--power", "data/thermal/stack.ptrace")


class ThermalTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.as_in_a_clone()

    def kelvin(self, name):
        lines = [line.split("\t") for line in self.read(name).splitlines()]
        return {line[0]: float(line[1]) for line in lines}

    def refused(self, *args):
        done = self.run_partita("thermal", *args)
        self.assertEqual(done.returncode, 2, done.stderr.decode())
        self.assertEqual(done.stdout, b"")
        return done.stderr.decode()

    def test_every_watt_leaves(self):
        for inputs in (GPU, RECTANGLE, STACK, (*GPU, "--set", "model_secondary=1")):
            found = self.json("thermal", "steady", *inputs)
            self.assertAlmostEqual(found["removed_w"] / found["power_w"], 1, delta=1e-9)
        self.assertLess(found["sink_w"], found["removed_w"])  # the board takes a part

    def test_hotspots_files(self):
        self.ok("thermal", "steady", *GPU, "--grid", "20,30", "--steady-file", "s",
                "--grid-steady-file", "g")
        steady = self.kelvin("s")
        self.assertEqual(len(steady), 4 * 65 + 12)
        self.assertIn("hsink_SM5_TEX", steady)
        self.assertTrue(all(len(line.split(".")[1]) >= 6 for line in self.read("s").splitlines()))
        grid = self.read("g").splitlines()
        self.assertEqual(len(grid), 4 * (600 + 1))
        self.assertEqual(grid[601], "Layer 1:")
        self.ok("thermal", "steady", *STACK, "--steady-file", "s")
        self.assertEqual(list(self.kelvin("s"))[:3],
                         ["layer_0_BANK_W", "layer_0_BANK_E", "layer_1_BANK_W"])

    def test_the_axes_of_hotspot(self):
        hot = {}
        for grid in ("32,64", "64,64"):
            for mode in ((), ("--hotspot-compat",)):
                found = self.json("thermal", "steady", *RECTANGLE, "--grid", grid, *mode)
                hot[grid, mode] = {block["name"]: block["temperature_k"]
                                   for block in found["blocks"]}
        self.assertEqual(hot["32,64", ()], hot["32,64", ("--hotspot-compat",)])  # square cells
        ours, theirs = hot["64,64", ()], hot["64,64", ("--hotspot-compat",)]
        self.assertGreater(max(abs(ours[name] - theirs[name]) for name in ours), 0.1)

    def test_transients_agree_and_end_steady(self):
        small = (*STACK, "--grid", "12,12")
        self.ok("thermal", "transient", *small, "--ttrace", "rom")
        self.ok("thermal", "transient", *small, "--method", "integrate", "--steps", "8",
                "--ttrace", "all")
        self.ok("thermal", "compare", "rom", "all", "--require-within", "0.0005")
        names = self.read("rom").splitlines()[0].split("\t")
        self.assertEqual(names[0], "BANK_W")
        self.write("long.ptrace", "\t".join(names) + "\n" + "3 5 22 9 4 12\n" * 40)
        power = ("--power", "long.ptrace")
        self.ok("thermal", "transient", *small[:4], *power, *small[6:], "--sample-interval", "50",
                "--ttrace", "t")
        last = [float(cell) for cell in self.read("t").splitlines()[-1].split("\t")]
        steady = self.json("thermal", "steady", *small[:4], *power, *small[6:])
        for kelvin, block in zip(last, steady["blocks"]):
            self.assertAlmostEqual(kelvin, block["temperature_k"], delta=1e-4)

    def test_a_steady_file_starts_a_transient(self):
        self.ok("thermal", "steady", *STACK, "--grid", "12,12", "--steady-file", "start.init")
        self.write("mean.ptrace", "BANK_W\tBANK_E\tCORE_SW\tCORE_SE\tCORE_NW\tCORE_NE\n"
                   "4\t4\t15\t14.5\t7.5\t9\n")
        inputs = (*STACK[:4], "--power", "mean.ptrace", "--grid", "12,12")
        steady = self.json("thermal", "steady", *inputs)
        found = self.json("thermal", "transient", *inputs, "--set", "init_file=start.init")
        for kelvin, block in zip(found["temperature_k"][0], steady["blocks"]):
            self.assertAlmostEqual(kelvin, block["temperature_k"], delta=0.5)

    def test_compare(self):
        rectangle = ("thermal", "steady", *RECTANGLE, "--grid", "32,32")
        self.ok(*rectangle, "--grid-steady-file", "a", "--steady-file", "sa")
        self.ok(*rectangle, "--hotspot-compat", "--grid-steady-file", "b")
        same = self.json("thermal", "compare", "a", "a")
        self.assertEqual(same["parts"][0]["worst_k"], 0)
        self.assertAlmostEqual(same["maps"][0]["ssim"], 1)
        other = self.json("thermal", "compare", "a", "b", "--flp", "data/thermal/rectangle.flp")
        self.assertGreater(other["parts"][0]["worst_k"], 0.05)
        self.ok("thermal", "compare", "a", "b", "--require-within", "0.01", status=1)
        self.write("other", "nothing\t300\n")
        self.assertIn("no name is in both", self.refused("compare", "sa", "other"))

    def test_pictures(self):
        self.assertIn("<svg", self.ok("thermal", "map", *GPU, "--grid", "30,40"))
        small = ("thermal", "transient", *STACK, "--grid", "8,8")
        self.assertIn("<svg", self.ok(*small, "--format", "svg"))
        self.ok("thermal", "map", *GPU, "--grid", "30,40", "--format", "png", "-o", "a.png")
        with open(self.path("a.png"), "rb") as file:
            self.assertTrue(file.read(8).startswith(b"\x89PNG"))

    def test_refusals(self):
        self.write("mm.flp", "A 4 2 0 0\n")
        self.write("a.flp", "# x\nA 4e-3 2e-3 0 0\nB 4e-3 2e-3 4e-3 0\n")
        self.write("lap.flp", "A 4e-3 2e-3 0 0\nB 4e-3 2e-3 3e-3 0\n")
        self.write("a.ptrace", "A B\n1 2\n")
        self.write("minus.ptrace", "A B\n1 2\n3 -4\n")
        self.write("other.ptrace", "A C\n1 2\n")
        self.write("bad.config", "-t_chip 0.0001\n-t_chipp 1\n")
        self.write("warm.config", "-ambient 45\n")
        for flp, power, message in (
                ("mm.flp", "a.ptrace", "mm.flp:1: width is 4"),
                ("lap.flp", "a.ptrace", "lap.flp:2: B overlaps A"),
                ("a.flp", "minus.ptrace", "minus.ptrace:3: B: watts is -4"),
                ("a.flp", "other.ptrace", "other.ptrace:1: no watts for block B"),
                ("a.flp", "nothing", "--power nothing")):
            self.assertIn(message, self.refused("steady", "--flp", flp, "--power", power))
        inputs = ("steady", "--flp", "a.flp", "--power", "a.ptrace")
        for flags, message in (
                (("--config", "bad.config"), "bad.config:2: unknown key 't_chipp'; did you mean"),
                (("--config", "warm.config"), "warm.config:1: ambient is 45"),
                (("--grid", "0,5"), "--grid: '0,5'"),
                (("--set", "s_spreader=0.005"), "a.flp: s_spreader is 0.005 m")):
            self.assertIn(message, self.refused(*inputs, *flags))

    def board(self, seconds):
        """A log of a board of two time constants whose power changes every 40 s."""
        lines, rise = [], [0.05 * 80, 0.12 * 80]
        for second in range(seconds):
            watts = 80 + 60 * (second // 40 * 3 % 4)
            if second:
                for i, (resistance, tau) in enumerate(((0.05, 4), (0.12, 60))):
                    end = resistance * watts
                    rise[i] = end + (rise[i] - end) * math.exp(-1 / tau)
            lines.append((second, watts, 30 + sum(rise)))
        return lines

    def log(self, name, lines):
        self.write(name, "".join(json.dumps({"at_s": at, "gpus": [{
            "index": 0, "power_w": watts, "temperature_c": celsius}]}) + "\n"
            for at, watts, celsius in lines))

    def test_forecast(self):
        self.log("board.jsonl", self.board(900))
        forecast = ("thermal", "forecast", "--telemetry", "board.jsonl")
        found = self.json(*forecast, "--limit", "83", "--watts", "400")
        self.assertAlmostEqual(found["sustainable_w"], (83 - 30) / 0.17, delta=6)
        self.assertAlmostEqual(found["settled_c"], 30 + 0.17 * 400, delta=1.5)
        self.assertTrue(0 < found["time_to_limit_s"] < 300)
        self.assertGreater(len(found["cannot_know"]), 1)
        cool = self.json(*forecast, "--watts", "150")
        self.assertIsNone(cool["time_to_limit_s"])
        self.assertIn("What this cannot know", self.ok(*forecast))
        self.assertIn("<svg", self.ok(*forecast, "--format", "svg"))
        self.log("flat.jsonl", [(second, 200, 60) for second in range(100)])
        self.assertIn("--air", self.refused("forecast", "--telemetry", "flat.jsonl"))
        self.assertIn("--gpu", self.refused("forecast", "--telemetry", "flat.jsonl", "--gpu", "3"))

    def test_flags_of_the_example_are_heard_or_refused(self):
        dtm = ("thermal", "dtm", "--workload", "stencil", "--work-s", "0.05", "--caps", "10")
        coarse = self.json(*dtm, "--grid", "12,12")
        fine = self.json(*dtm, "--grid", "24,24")
        self.assertEqual(coarse["blocks"], fine["blocks"])
        self.assertNotEqual(coarse["idle_c"], fine["idle_c"])
        self.assertAlmostEqual(coarse["idle_c"], fine["idle_c"], delta=1)
        self.assertIn("--power", self.refused("dtm", "--power", "data/thermal/gp107.ptrace"))

    def test_one_run_of_a_cap_is_a_picture(self):
        dtm = ("dtm", "--workload", "stencil", "--work-s", "0.05", "--grid", "12,12")
        svg = self.ok("thermal", *dtm, "--caps", "10", "--tenant", "a=SM0", "--format", "svg")
        self.assertTrue(svg.startswith("<svg") and svg.endswith("</svg>\n"))
        for part in ("stencil under a cap of", "MHz", "idle power and blocks of nobody", ">a: "):
            self.assertIn(part, svg)
        self.assertIn("shows one run", self.refused(*dtm, "--caps", "10,20", "--format", "svg"))


if __name__ == "__main__":
    unittest.main()
