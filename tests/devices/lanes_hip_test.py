"""Programs of HIP under libpartita_lanes_hip.so, on the simulated libamdhip64: random programs do
what they do without it, and every kernel runs on the mask that the plan gives it."""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import harness

BUILD = pathlib.Path(os.environ["PARTITA"]).parent
PROGRAM, LIBRARY = BUILD / "apps/lanes_hip/hip_program", BUILD / "libpartita_lanes_hip.so"
ROUNDS = int(os.environ.get("PARTITA_ROUNDS", "40"))
# Two that the program's kernels have, and another.
SHAPES = (" 6x1x1 1x1x1", " 6x1x1 2x1x1", " 7x1x1 1x1x1")
if not PROGRAM.exists() or not LIBRARY.exists():
    print("skipped: not built")
    sys.exit(77)


def profile(kernels):
    rows = ["index,kernel,units,time_us"]
    for index, (name, knee) in enumerate(kernels):
        rows += [f"{index},{name},{units},{200 / min(units, knee)}" for units in range(1, 61)]
    return "\n".join(rows) + "\n"


def words(mask):
    """HIP's on an MI50: bit 0 is unit 0 of the first engine, bit 1 that of the second."""
    bits = sum(1 << unit % 15 * 4 + unit // 15 for unit in range(60) if mask >> unit & 1)
    return [f"{bits & 0xFFFFFFFF:x}", f"{bits >> 32:x}"]


def preloaded():
    """The library, behind the runtime of the sanitizer that it may be built with."""
    needed = subprocess.run(["ldd", str(LIBRARY)], capture_output=True, text=True, check=True)
    runtimes = re.findall(r"lib[at]san\S* => (\S+)", needed.stdout)
    return ":".join([*runtimes, str(LIBRARY)])


class Cursor:
    """The plan's kernels in order, for each stream: its next one of the name in this request that
    no stream has had, else none."""

    def __init__(self, worker, kernels):
        masks = {lane["units"]: words(int(lane["mask_hex"], 16))
                 for lane in worker["lanes"] if lane["units"] < 60}
        self.steps = [(*name.split(" ", 1), masks.get(units, ["0", "0"]))
                      for (name, _), units in zip(kernels, worker["units"])]
        self.planned = 0
        self.wait()

    def wait(self):
        self.next, self.had = {}, set()

    def mask_of(self, stream, block, kernel):
        for at in range(self.next.get(stream, 0), len(self.steps)):
            name, *shape, mask = self.steps[at]
            if at not in self.had and name == kernel and shape in ([], [f"6x1x1 {block}x1x1"]):
                self.had.add(at)
                self.next[stream], self.planned = at + 1, self.planned + 1
                return mask
        return ["0", "0"]


class LanesHipTest(harness.CliTest):
    def plan(self, kernels):
        for name in "ab":
            self.write(name + ".csv", profile(kernels))
        text = self.ok("kernels", "plan", "--workers", "a,b", "--kernel-profiles", ".",
                       "--topology", "MI50", "--switches", "9", "--format", "json")
        self.write("plan.json", text)
        return json.loads(text)

    def run_program(self, seed, worker=None, **more):
        variables = dict(os.environ, **more)
        if worker is not None:
            variables |= {"LD_PRELOAD": preloaded(), "PARTITA_KERNEL_WORKER": worker,
                          "PARTITA_KERNEL_PLAN": self.path("plan.json"),
                          "PARTITA_KERNEL_PROFILES": self.folder}
        return subprocess.run([str(PROGRAM), str(seed), "80"], capture_output=True, text=True,
                              env=variables, timeout=120, check=False)

    def check(self, seed, worker, kernels, plan):
        """The lines of a run, with the masks that they had and are to have."""
        done = self.run_program(seed, worker)
        self.assertEqual(done.stdout.splitlines()[-2:], ["right", "violations: "], seed)
        cursor = Cursor(plan["workers"]["ab".index(worker)], kernels)
        said, count = [], 0
        for line in done.stdout.splitlines()[:-2]:
            what, *rest = line.split()
            if what == "waits":
                cursor.wait()
            elif what == "launch":
                self.assertEqual(rest[3:], cursor.mask_of(*rest[:3]), (seed, line))
                count += 1
            else:
                self.assertEqual(rest[3:], ["0", "0"], (seed, line))
            said.append([what, *rest[:3]])
        self.assertIn(f" {cursor.planned} as planned;", done.stderr)
        return said, cursor.planned, count

    def test_random_programs(self):
        planned = launched = 0
        for seed in range(1, ROUNDS + 1):
            rng = random.Random(seed)
            kernels = [(rng.choice(("first", "second")) + rng.choice(("", "", *SHAPES)),
                        rng.choice((10, 15, 30, 45, 60))) for _ in range(8)]
            plan = self.plan(kernels)
            without = self.run_program(seed)
            self.assertEqual(without.stdout.splitlines()[-2:], ["right", "violations: "])
            said, followed, count = self.check(seed, rng.choice("ab"), kernels, plan)
            self.assertEqual([line.split()[:4] for line in without.stdout.splitlines()[:-2]], said)
            planned, launched = planned + followed, launched + count
        self.assertGreater(planned, launched / 5)

    def test_what_it_says(self):
        self.plan([("first", 15), ("second", 30)])
        done = self.run_program(1, "a", PARTITA_KERNEL_STATS=self.path("stats"))
        self.assertEqual(done.stderr, "")
        self.assertRegex(self.read("stats"),
                         r"^partita lanes: a: \d+ kernels, \d+ as planned; \d+ lane changes, "
                         r"\d+ events; on all units: \d+ not of the plan")

    def test_refusals(self):
        self.plan([("first", 15), ("second", 30)])
        self.assertIn("'c' is no worker of", self.run_program(1, "c").stderr)
        self.write("a.csv", profile([("first", 15)]))
        self.assertIn("2 kernels of a, whose profile has 1", self.run_program(1, "a").stderr)
        self.plan([("first", 15), ("second", 30)])
        done = self.run_program(1, "a", HSA_CU_MASK="0:0-3")
        self.assertEqual(done.returncode, 3)
        self.assertIn("HSA_CU_MASK is set", done.stderr)


if __name__ == "__main__":
    unittest.main()
