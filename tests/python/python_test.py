"""The Python package on libpartita, against the program: the same documents for the same inputs."""

import array
import ctypes
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import threading
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = pathlib.Path(os.environ["PARTITA"])
LIBRARY = PROGRAM.with_name("libpartita.so.0")
PACKAGES = PROGRAM.with_name("python")
if not LIBRARY.exists():
    print(f"{LIBRARY} is not built")
    sys.exit(77)
os.environ["PARTITA_LIBRARY"] = str(LIBRARY)
sys.path.insert(0, str(PACKAGES))

import partita  # noqa: E402 (it looks for the library that is named above)

sys.path.insert(0, str(SOURCE / "tests/cli"))
from harness import SERVICES, profiles  # noqa: E402
from ptx_test import KERNELS  # noqa: E402

PROFILES = profiles()
TASKS = "task,time_s_1g,time_s_2g,time_s_4g\na,8,5,3\nb,4,3,2\nc,9,5,3\n"
INPUTS = {"services": SERVICES, "profiles": PROFILES}


def same(plan):
    """Without what a clock measured."""
    return {key: value for key, value in plan.items() if key != "stats"}


GRAPH = {"kind": "TaskGraph", "buffers": [
    {"name": "x", "type": "f32", "count": 100}, {"name": "y", "type": "f32", "count": 100},
    {"name": "z", "type": "f32", "count": 100, "fill": 7}], "tasks": [
    {"name": "first", "kind": "lane", "ptx": "kernels.ptx", "kernel": "scale", "grid": 4,
     "block": 32, "arguments": ["x", "y", "f32:0.5", "u32:100"]},
    {"name": "second", "kind": "lane", "ptx": "kernels.ptx", "kernel": "scale", "grid": [2, 2],
     "block": 32, "arguments": ["y", "z", "f32:-3", "u32:64"], "after": ["first"]}]}


class PythonTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "services.yaml").write_text(SERVICES, encoding="utf-8")
        (self.folder / "profiles.csv").write_text(PROFILES, encoding="utf-8")
        (self.folder / "tasks.csv").write_text(TASKS, encoding="utf-8")

    def command(self, *args, status=0):
        done = subprocess.run([PROGRAM, *args, "--format", "json"], cwd=self.folder,
                              capture_output=True, check=False, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def inputs(self):
        return {"services": self.folder / "services.yaml", "profiles": self.folder / "profiles.csv"}

    def test_what_commands_print(self):
        plan = partita.plan(**INPUTS, gpu="A100-80GB")
        flags = ("--services", "services.yaml", "--profiles", "profiles.csv")
        said = self.command("plan", *flags, "--gpu", "A100-80GB")
        said.pop("advice", None)  # a command's, not the plan's
        self.assertEqual(same(plan), same(said))
        self.assertEqual(same(partita.plan(**self.inputs(), gpu="A100-80GB")), same(plan))
        partita.write(self.folder / "plan.json", plan)
        self.assertEqual(partita.verify(plan, **INPUTS),
                         self.command("verify", "plan.json", *flags))
        report = partita.simulate(plan, **INPUTS, duration_s=5, seed=3)
        played = self.command("simulate", "plan.json", *flags, "--duration", "5", "--seed", "3")
        report.pop("events_per_second", None)
        played.pop("events_per_second", None)
        self.assertEqual(report, played)

    def test_batches(self):
        schedule = partita.schedule(tasks=TASKS, gpu="A30-24GB")
        said = self.command("batch", "schedule", "--tasks", "tasks.csv", "--gpu", "A30-24GB")
        self.assertEqual(same(schedule), same(said))
        self.assertTrue(partita.verify_schedule(schedule, tasks=TASKS)["ok"])
        late = json.loads(json.dumps(schedule))
        late["tasks"][0]["end_s"] += 1
        self.assertFalse(partita.verify_schedule(late, tasks=TASKS)["ok"])

    def test_a_broken_plan_is_data(self):
        plan = partita.plan(**INPUTS, gpu="A100-80GB")
        plan["gpus"][0]["instances"].pop()
        verdict = partita.verify(plan, **INPUTS)
        self.assertFalse(verdict["ok"])
        self.assertTrue(verdict["violations"])
        with self.assertRaises(partita.Infeasible):
            partita.simulate(plan, **INPUTS)

    def test_errors_name_where(self):
        with self.assertRaises(partita.BadInput) as caught:
            partita.plan(services=SERVICES.replace("120", "-1"), profiles=PROFILES, gpu="A100-80GB")
        self.assertRegex(caught.exception.context, r"^<services>\.yaml:\d+$")
        with self.assertRaises(partita.BadInput) as caught:
            partita.plan(**INPUTS, gpu="A100-80GX")
        self.assertIn("A100-80GB", str(caught.exception))
        with self.assertRaises(partita.BadInput):
            partita.plan(**INPUTS, gpu="A100-80GB", planner="exakt")
        with self.assertRaises(partita.BadInput):
            partita.plan(services=pathlib.Path("none.yaml"), profiles=PROFILES, gpu="A100-80GB")
        with self.assertRaises(partita.Infeasible) as caught:
            partita.plan(services=SERVICES.replace("120", "90000"), profiles=PROFILES,
                         gpu="A100-80GB", max_gpus=1)
        self.assertTrue(caught.exception.reasons)

    def test_options_that_a_function_does_not_have(self):
        from partita import _library
        for options in ({"gpu": "A100-80GB"}, {"services": 3}, {"nonsense": 1}, []):
            with self.assertRaises(partita.BadInput):
                _library.call("plan", options, {})
        with self.assertRaises(partita.BadInput) as caught:
            _library.call("plann", {}, {})
        self.assertIn("plan", str(caught.exception))

    def test_the_c_interface_takes_null(self):
        from partita import _library
        library = _library._library()
        one = (_library._File * 1)(_library._File(b"a", None, 3))
        for arguments in ((None, b"{}", None, 0), (b"gpus", None, None, 0),
                          (b"gpus", b"{}", None, 1), (b"gpus", b"{}", one, 1)):
            pointer = library.partita_call(*arguments)
            self.assertTrue(pointer)
            said = json.loads(ctypes.string_at(pointer))
            library.partita_free(pointer)
            self.assertEqual(said["error"]["code"], "bad_input", arguments)
        library.partita_free(None)
        name = (_library._File * 1)(_library._File(b"s.yaml", b"", 0))
        pointer = library.partita_call(b"gpus", b"{}", name, 1)
        self.assertIn("answer", json.loads(ctypes.string_at(pointer)))
        library.partita_free(pointer)

    def test_documents_are_read_by_their_kind(self):
        path = self.folder / "document.json"
        plan = partita.plan(**INPUTS, gpu="A100-80GB")
        partita.write(path, plan)
        self.assertEqual(partita.read(path, "ServingPlan"), plan)
        with self.assertRaises(ValueError):
            partita.read(path, "BatchSchedule")
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["document.json", "profiles.csv", "services.yaml", "tasks.csv"])

    def test_threads_do_not_disturb_each_other(self):
        wanted = partita.plan(**INPUTS, gpu="A100-80GB")
        found = []

        def work():
            for _ in range(3):
                found.append(same(partita.plan(**INPUTS, gpu="A100-80GB")))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [same(wanted)] * 9)

    def test_types_are_those_of_the_schemas(self):
        tool = runpy.run_path(str(SOURCE / "tools/make_python_types.py"))
        wanted = tool["text"]({kind: partita.schema(kind) for kind in tool["KINDS"]})
        self.assertEqual((PACKAGES / "partita/documents.py").read_text("utf-8"), wanted)

    def test_every_key_of_a_document_has_a_type(self):
        plan = partita.plan(**INPUTS, gpu="A100-80GB")
        self.assertLessEqual(set(plan), set(partita.ServingPlan.__annotations__))
        schedule = partita.schedule(tasks=TASKS, gpu="A30-24GB")
        self.assertLessEqual(set(schedule), set(partita.BatchSchedule.__annotations__))

    def test_the_demo(self):
        environment = dict(os.environ, PYTHONPATH=str(PACKAGES))
        done = subprocess.run(
            [sys.executable, SOURCE / "python/examples/demo.py", SOURCE / "data",
             self.folder / "plan.json"], capture_output=True, check=False, text=True,
            env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lower bound", done.stdout)
        self.assertTrue((self.folder / "plan.json").exists())

    def test_strictly_typed(self):
        try:
            subprocess.run([sys.executable, "-m", "mypy", "--version"], check=True,
                           capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("mypy is not installed")
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", self.folder / "cache",
             PACKAGES / "partita", SOURCE / "python/examples/demo.py"],
            capture_output=True, check=False, text=True, cwd=PACKAGES)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_graphs_of_kernels(self):
        """On arrays of this process, against plain loops; a path, a text and a document."""
        kernels = self.folder / "kernels.ptx"
        kernels.write_text(KERNELS, encoding="utf-8")
        (self.folder / "graph.json").write_text(json.dumps(GRAPH), encoding="utf-8")
        absolute = json.dumps(GRAPH).replace("kernels.ptx", str(kernels))
        x = [float(i * i) for i in range(100)]
        for graph in (self.folder / "graph.json", absolute, json.loads(absolute)):
            y, z = array.array("f", [1] * 100), bytearray(400)
            run = partita.run_graph(graph, buffers={"x": bytes(array.array("f", x)), "y": y,
                                                    "z": memoryview(z)}, gpu="1x2")
            self.assertEqual((run["kind"], len(run["tasks"])), ("GraphRun", 2))
            self.assertEqual(list(y), [value / 2 for value in x])
            # blocks (0,0) .. (1,1): %ctaid.x is 0 or 1 alone
            wanted = [-1.5 * value for value in x[:64]] + [0] * 36
            self.assertEqual(list(array.array("f", bytes(z))), wanted)
        fault = absolute.replace("u32:100", "u32:101")
        with self.assertRaisesRegex(partita.KernelFault, "(?s)task 'first': .*400-byte"):
            partita.run_graph(fault, gpu="1x2")
        with self.assertRaisesRegex(partita.BadInput, "buffer 'x' has 400 bytes"):
            partita.run_graph(absolute, buffers={"x": b"abc"}, gpu="1x2")

    def test_graphs_on_gpus(self):
        """Simulated ones, which run PTX: the same results as on threads."""
        sims = pathlib.Path(os.environ["PARTITA"]).parent / "sim/libgpu_sims.so"
        if not sims.exists():
            self.skipTest("the simulated GPUs are not built")
        kernels = self.folder / "kernels.ptx"
        kernels.write_text(KERNELS, encoding="utf-8")
        text = json.dumps(GRAPH).replace('"ptx": "kernels.ptx"',
                                         f'"ptx": "{kernels}", "hip": "{kernels}"')
        x = array.array("f", [float(i * i) for i in range(100)])
        for driver, units in (("green_ctx", 132), ("hip_mask", 60)):
            where = {"lane_driver": driver, "library": sims}
            z = bytearray(400)
            run = partita.run_graph(text, buffers={"x": bytes(x), "z": z}, **where)
            self.assertEqual((run["driver"], run["total_units"]), (driver, units))
            self.assertEqual(list(array.array("f", bytes(z))),
                             [-1.5 * value for value in x[:64]] + [0] * 36)
            with self.assertRaisesRegex(partita.KernelFault, "^first.*700"):
                partita.run_graph(text.replace("u32:100", "u32:101"), **where)


if __name__ == "__main__":
    unittest.main()
