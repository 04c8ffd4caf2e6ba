"""partita batch stream: files one after the other, arrivals, what it refuses; checked against
figures worked out here."""

import json
import unittest

from harness import CliTest

HEADER = "task,time_s_1g,time_s_2g,time_s_4g"
# A30: 4 slices, create 1g 0.11 s, 4g 0.13 s. One slice is best for these tasks.
ROW = "{},10,9,8"


def batch(names, extra=""):
    rows = [HEADER + (",release_s" if extra else "")] + [ROW.format(n) + extra for n in names]
    return "\n".join(rows) + "\n"


class Streams(CliTest):
    def stream(self, *args):
        return self.ok("batch", "stream", "--gpu", "A30", *args)

    def schedule(self, *args):
        return json.loads(self.stream(*args, "--format", "json"))

    def test_equal_names_are_told_apart_by_their_file(self):
        self.write("a.csv", batch(["x", "y"]))
        self.write("b.csv", batch(["x"]))
        names = [t["task"] for t in self.schedule("--tasks", "a.csv", "--tasks", "b.csv")["tasks"]]
        self.assertEqual(sorted(names), ["1/x", "1/y", "2/x"])

    def test_different_names_stay(self):
        self.write("a.csv", batch(["x", "y"]))
        self.write("b.csv", batch(["z"]))
        names = [t["task"] for t in self.schedule("--tasks", "a.csv", "--tasks", "b.csv")["tasks"]]
        self.assertEqual(sorted(names), ["x", "y", "z"])

    def test_trivial_begins_a_batch_after_all_before_and_best_does_not(self):
        self.write("a.csv", batch(["a1", "a2", "a3", "a4", "a5"]))
        self.write("b.csv", batch(["b1", "b2", "b3"]))
        files = ["--tasks", "a.csv", "--tasks", "b.csv"]
        trivial = self.schedule(*files, "--method", "trivial")
        ends = [t["end_s"] for t in trivial["tasks"] if t["task"][0] == "a"]
        begins = [t["begin_s"] for t in trivial["tasks"] if t["task"][0] == "b"]
        self.assertGreaterEqual(min(begins), max(ends))
        # Eight tasks on four slices: two rounds of 10 s and four creates of 0.11 s.
        best = self.schedule(*files)
        self.assertEqual(best["scheduler"], "stream:best")
        self.assertAlmostEqual(best["makespan_s"], 20.44, places=6)

    def test_online_begins_nothing_before_its_release(self):
        self.write("a.csv", HEADER + ",release_s\n" + "".join(
            ROW.format(f"t{i}") + f",{7 * i}\n" for i in range(6)))
        found = self.schedule("--tasks", "a.csv", "--online")
        begins = {t["task"]: t["begin_s"] for t in found["tasks"]}
        self.assertEqual(len(begins), 6)
        for i in range(6):
            self.assertGreaterEqual(begins[f"t{i}"], 7 * i)
        self.write("s.json", json.dumps(found))
        self.ok("batch", "verify", "s.json", "--tasks", "a.csv")

    def test_same_seed_same_schedule(self):
        self.write("a.csv", batch([f"t{i}" for i in range(12)]))
        runs = [self.schedule("--tasks", "a.csv", "--seed", "5")["tasks"] for _ in range(2)]
        self.assertEqual(*runs)

    def test_text_says_how_far_above_the_areas(self):
        self.write("a.csv", batch(["a", "b", "c", "d"]))
        # 10 s and four creates, of 10 s by area.
        self.assertIn("4.40 % above", self.stream("--tasks", "a.csv"))

    def test_refusals_name_the_reason(self):
        self.write("a.csv", batch(["a"]))
        self.write("late.csv", HEADER + ",release_s,after\na,1,1,1,0,b\nb,1,1,1,5,\n")
        self.write("broken.csv", batch(["a", "a"]))
        for args, words in (
            (["--tasks", "none.csv"], "none.csv"),
            (["--tasks", "broken.csv"], "broken.csv:3"),
            (["--tasks", "a.csv", "--method", "magic"], "magic"),
            (["--tasks", "late.csv", "--online"], "has not been submitted"),
        ):
            run = self.run_partita("batch", "stream", "--gpu", "A30", *args)
            self.assertEqual(run.returncode, 2, args)
            self.assertIn(words, run.stderr.decode())


if __name__ == "__main__":
    unittest.main()
