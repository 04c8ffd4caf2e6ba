"""graph: the documented example word for word, order and bounds of what ran, the example's product,
and clear refusals."""

import os
import pathlib
import re
import resource
import struct
import unittest
import xml.etree.ElementTree

import harness
import ptx_test

AFTER = {"load": [], "prepare": [], "left": ["load"], "right": ["load", "prepare"],
         "more": ["left"], "join": ["more", "right"], "store": ["join"]}  # the documented graph


def block(language):
    return re.search(rf"```{language}\n(.*?)```", harness.source_text("docs/graphs.md"), re.S)[1]


class GraphTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("graph.yaml", block("yaml"))

    def in_order(self, run, after):
        """Every task ran, after those before it; kernels on the units they say."""
        tasks = {task["name"]: task for task in run["tasks"]}
        self.assertEqual(set(tasks), set(after))
        for name, before in after.items():
            for other in before:
                self.assertGreaterEqual(tasks[name]["begin_us"], tasks[other]["end_us"])
        for task in run["tasks"]:
            if task["kind"] == "lane":
                self.assertEqual(int(task["mask_hex"], 16).bit_count(), task["units"])
        self.assertEqual(sum(run["dependencies"].values()), sum(map(len, after.values())))
        self.assertAlmostEqual(sum(task["end_us"] - task["begin_us"] for task in run["tasks"]),
                               run["work_us"], places=3)
        self.assertLessEqual(run["critical_path_us"], run["time_us"] + 1e-6)
        return tasks

    def test_the_documented_example(self):
        command = harness.documented("docs/graphs.md", "graph run ")[0]
        self.assertEqual(self.ok(*command), block("text"))

    def test_lanes_on_dies_and_on_assumed_clusters(self):
        self.write("packed.yaml", """kind: TaskGraph
policy: packed
tasks:
  - {name: a, kind: lane, units: 3, groups: 10, work_us: 5}
  - {name: b, kind: lane, units: 100, groups: 999, work_us: 5}
""")
        at = ("graph", "run", "packed.yaml", "--lane-driver", "sim", "--topology")
        shares = {task["name"]: [(int(task["mask_hex"], 16) >> 38 * die & (1 << 38) - 1).bit_count()
                                 for die in range(8)]
                  for task in self.json(*at, "MI300X")["tasks"]}
        self.assertEqual(shares["a"], [1] * 8)
        self.assertEqual(sorted(shares["b"]), [12] * 4 + [13] * 4)
        done = self.run_partita(*at, "H200")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"packed.yaml: packed chooses GPCs", done.stderr)
        self.json(*at, "H200", "--policy", "fair")

    def test_simulated(self):
        run = self.json("graph", "run", "graph.yaml", "--lane-driver", "sim", "--compare")
        self.in_order(run, AFTER)
        # 400 kB at 10 GB/s; 120 work-groups on 30 units; 60 on 60; 200 kB.
        self.assertEqual(run["time_us"], 40 + 4 * 10 + 5 + 20)
        self.assertEqual(run["critical_path"], ["load", "right", "join", "store"])
        self.assertEqual(run["sequential_us"], 40 + 30 + 900 + 1200 + 150 + 300 + 20)
        self.assertEqual(run["dependencies"], {"skipped": 2, "on_device": 1, "on_host": 4})
        # Everything wants all units, and the second kernel nothing less than that.
        shared = self.json("graph", "run", "graph.yaml", "--lane-driver", "sim", "--topology",
                           "1x30", "--waits", "host")
        self.in_order(shared, AFTER)
        self.assertEqual(shared["dependencies"]["on_device"], 0)
        self.assertGreaterEqual(shared["time_us"], (900 + 1200 + 150 + 300) / 30)

    def test_on_threads(self):
        self.write("graph.yaml", re.sub("units: [0-9]+", "units: 1", block("yaml")))
        run = self.json("graph", "run", "graph.yaml", "--topology", "1x2", "--threads", "1")
        tasks = self.in_order(run, AFTER)
        self.assertEqual((run["driver"], run["total_units"]), ("cpu_mask", 2))
        self.assertLessEqual(tasks["join"]["units"], 2)
        picture = self.ok("graph", "run", "graph.yaml", "--topology", "1x2", "--format", "svg")
        titles = [element.text for element in xml.etree.ElementTree.fromstring(picture).iter()
                  if element.tag.endswith("title")]
        for name in AFTER:
            self.assertTrue(any(title.startswith(name + "\n") for title in titles))

    def test_strassen(self):
        self.write("s.json", self.ok("graph", "example", "strassen", "--size", "70"))
        graph = self.json("graph", "example", "strassen", "--size", "70")
        after = {task["name"]: task.get("after", []) for task in graph["tasks"]}
        self.assertEqual(sum(name.startswith("P") for name in after), 7)
        self.assertEqual(sum(name[0] in "STU" for name in after), 15)
        run = self.json("graph", "run", "--example", "strassen", "--size", "70", "--compare",
                        "--topology", "1x2")
        self.in_order(run, after)
        self.assertLessEqual(run["relative_error"], 1e-4)
        self.assertGreater(run["speed_up"], 0)
        simulated = self.json("graph", "run", "s.json", "--lane-driver", "sim", "--topology", "4x2")
        self.in_order(simulated, after)
        text = self.ok("graph", "run", "--example", "strassen", "--size", "33", "--levels", "2",
                       "--sequential")
        self.assertIn("one after another on one thread", text)
        self.assertRegex(text, "relative error .* against Eigen's product")

    def test_what_the_readme_shows(self):
        commands = harness.documented("README.md", "graph ")
        self.assertGreaterEqual(len(commands), 2)
        self.as_in_a_clone()
        for command in commands:
            self.ok(*command)

    def test_refusals(self):
        graph = block("yaml")
        self.write("cycle.yaml", graph.replace("bytes: 400000", "bytes: 400000, after: [store]"))
        self.write("units.yaml", graph.replace("groups: 90, units: 30", "units: 0"))
        self.write("copies.yaml", graph.replace("bytes: 200000", "bytes: 1e10"))
        self.write("long.yaml", graph.replace("work_us: 10, groups: 90, units",
                                              "work_us: 1e9, groups: 1000000, units"))
        run = ("graph", "run")
        for args, words in (
                ((*run, "cycle.yaml"),
                 "cycle.yaml:5: tasks wait for each other in a circle: load after store after join "
                 "after more after left after load"),
                (("graph", "check", "units.yaml"), "units.yaml:7: 'units' is 0"),
                (("graph", "check", "graph.yaml", "--topology", "2x2"),
                 "graph.yaml:7: task 'left' asks for 30 units, but 2x2 has 4"),
                ((*run, "copies.yaml", "--topology", "1x30"),
                 "copies.yaml:11: copies of more than"),
                ((*run, "long.yaml", "--lane-driver", "sim"), "the tasks take 1e+15 us one after"),
                ((*run, "none.yaml"), "none.yaml"),
                (run, "either FILE or --example"),
                ((*run, "--example", "strassen", "--units", "9", "--topology", "1x2"), "--units")):
            done = self.run_partita(*args)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr.decode())
        self.assertIn("ok: 7 tasks, 7 dependencies", self.ok("graph", "check", "graph.yaml"))

    def test_threads_or_memory_refused(self):
        """A sentence and exit status 3, not an abort, where the system has no more of them."""
        few = (300 << 20, 300 << 20)
        limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, few)}
        if self.run_partita("mask", "--units", "1", **limits).returncode != 0:
            self.skipTest("a sanitizer reserves more memory than that for itself")
        self.write("copy.yaml", "kind: TaskGraph\ntasks: [{name: a, kind: copy, bytes: 1e9}]\n")
        example = ("--example", "strassen")
        for args, words in ((("copy.yaml",), "memory"),
                            ((*example, "--size", "4096"), "memory"),
                            ((*example, "--size", "8", "--threads", "256"), "thread"),
                            ((*example, "--size", "8", "--topology", "64x8"), "thread")):
            done = self.run_partita("graph", "run", *args, **limits)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertRegex(done.stderr.decode(), f"^partita: .*{words}.*\n$")


REAL = """kind: TaskGraph
buffers:
  - {name: x, type: f32, count: 100, fill: ramp}
  - {name: y, type: f32, count: 100, fill: 7}
  - {name: z, type: f32, count: 100, save: z.bin}
tasks:
  - {name: first, kind: lane, ptx: kernels.ptx, kernel: scale, grid: 4, block: 32, units: 1,
     arguments: [x, y, f32:0.5, u32:100]}
  - {name: second, kind: lane, ptx: kernels.ptx, kernel: scale, grid: 4, block: 32, units: 2,
     arguments: [y, z, f32:-3, u32:100], after: [first]}
"""


class RealKernelsTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("graphs"))
        self.write("graphs/kernels.ptx", ptx_test.KERNELS)
        self.write("graphs/real.yaml", REAL)

    def words(self, name):
        return list(struct.unpack("<100f", pathlib.Path(self.path(name)).read_bytes()))

    def test_values(self):
        """Kernels in order on buffers that come from files and go to files."""
        at = ("graph", "run", "graphs/real.yaml", "--topology", "1x2")
        run = self.json(*at, "--compare")
        self.assertEqual([task["kind"] for task in run["tasks"]], ["lane"] * 2)
        self.assertEqual(self.words("graphs/z.bin"), [-1.5 * i for i in range(100)])
        given = [float(3 * i + 1) for i in range(100)]
        pathlib.Path(self.path("given.bin")).write_bytes(struct.pack("<100f", *given))
        self.ok(*at, "--fill", "x=given.bin", "--save", "y=y.bin", "--sequential")
        self.assertEqual(self.words("y.bin"), [value / 2 for value in given])
        self.assertEqual(self.words("graphs/z.bin"), [-1.5 * value for value in given])
        self.assertIn("ok: 2 tasks, 1 dependencies", self.ok("graph", "check", "graphs/real.yaml"))
        timed = REAL.replace("units: 1", "units: 1, work_us: 5").replace("units: 2", "work_us: 2")
        self.write("graphs/timed.yaml", timed)
        simulated = self.json("graph", "run", "graphs/timed.yaml", "--lane-driver", "sim",
                              "--topology", "1x2")
        self.assertEqual(simulated["time_us"], 4 * 5 + 2 * 2)

    def test_a_fault(self):
        """Its text, status 1, and nothing is saved."""
        self.write("graphs/fault.yaml", REAL.replace("f32:0.5, u32:100", "f32:0.5, u32:101"))
        done = self.run_partita("graph", "run", "graphs/fault.yaml", "--topology", "1x2")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertRegex(done.stderr.decode(), "(?s)^partita: task 'first': .*400-byte allocation")
        self.assertFalse(os.path.exists(self.path("graphs/z.bin")))

    def test_on_gpus(self):
        """Simulated ones, which run PTX: the values of threads; faults by the task's name."""
        sims = pathlib.Path(os.environ["PARTITA"]).parent / "sim/libgpu_sims.so"
        if not sims.exists():
            self.skipTest("the simulated GPUs are not built")
        both = REAL.replace("kernels.ptx", "kernels.ptx, hip: kernels.ptx")
        self.write("graphs/real.yaml", both)
        self.write("graphs/fault.yaml", both.replace("f32:0.5, u32:100", "f32:0.5, u32:101"))
        for driver, units in (("green_ctx", [8, 8]), ("hip_mask", [1, 2])):
            at = ("--lane-driver", driver, "--library", str(sims), "--waits", "host")
            pathlib.Path(self.path("graphs/z.bin")).write_bytes(b"")
            run = self.json("graph", "run", "graphs/real.yaml", *at, "--compare")
            self.assertEqual([task["units"] for task in run["tasks"]], units)
            self.assertGreaterEqual(run["tasks"][1]["begin_us"], run["tasks"][0]["end_us"])
            self.assertEqual(self.words("graphs/z.bin"), [-1.5 * i for i in range(100)])
            os.remove(self.path("graphs/z.bin"))
            done = self.run_partita("graph", "run", "graphs/fault.yaml", *at)
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            self.assertRegex(done.stderr.decode(), "^partita: first: .*700")
            self.assertFalse(os.path.exists(self.path("graphs/z.bin")))
            done = self.run_partita("graph", "run", "--example", "strassen", *at)
            self.assertEqual(done.returncode, 2)
        self.write("graphs/real.yaml", REAL)
        done = self.run_partita("graph", "run", "graphs/real.yaml", *at)
        self.assertEqual(done.returncode, 2)
        self.assertIn("graphs/real.yaml:7: task 'first' has no 'hip'", done.stderr.decode())

    def test_refusals(self):
        run, check = ("graph", "run"), ("graph", "check")
        library = os.environ["PARTITA"].replace("/partita", "/libpartita.so.0")
        self.write("graphs/library.yaml", f"""kind: TaskGraph
tasks: [{{name: a, kind: lane, library: {library}, kernel: no_such_function}}]
""")
        self.write("few.bin", "x")
        for old, new, command, words in (
                ("u32:100]}", "u32:100, y]}", check,
                 "graphs/changed.yaml:7: task 'first': scale takes 4 arguments; there are 5"),
                ("u32:100]}", "u64:100]}", check, "argument 4 of scale has 4 bytes; 'u64:100' has"),
                ("kernel: scale", "kernel: scala", check, "scala"),
                ("kernels.ptx", "none.ptx", check, "graphs/none.ptx"),
                ("fill: ramp", "fill: '@none.bin'", check, "'graphs/none.bin', which is not there"),
                ("fill: ramp", "fill: '@../few.bin'", run, "400 bytes, graphs/../few.bin has 1"),
                ("", "", (*run, "--lane-driver", "sim"),
                 "graphs/changed.yaml:7: --driver sim does not run kernel 'scale'"),
                ("", "", (*run, "--lane-driver", "green_ctx", "--topology", "1x2"),
                 "--topology: only --lane-driver cpu_mask can imitate another GPU"),
                ("", "", (*run, "--atom", "2"), "--atom: only --lane-driver green_ctx"),
                ("", "", (*run, "--fill", "w=few.bin"), "--fill: 'w=few.bin': expects BUFFER=FILE"),
                ("", "", (*run, "--save", "x"), "--save: 'x': expects BUFFER=FILE")):
            with self.subTest(words):
                self.write("graphs/changed.yaml", REAL.replace(old, new) if old else REAL)
                done = self.run_partita(*command, "graphs/changed.yaml")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr.decode())
        done = self.run_partita("graph", "run", "graphs/library.yaml")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("no function 'no_such_function' that is exported", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
