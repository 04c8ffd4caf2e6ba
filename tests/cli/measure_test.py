"""`profile measure` with real worker processes that take a fixed time, a kill amid it, and a plan
on CPU units made from what was measured; on simulated GPUs, through the simulated libnvidia-ml,
what is borrowed and put back."""
import csv
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

from harness import PROGRAM, SOURCE, CliTest

NVML_SIM = os.path.join(os.path.dirname(PROGRAM), "sim")
MPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "devices")


def measure(output, *more):
    usual = {"--name": "m", "--batches": "1,2,4,8", "--point-time": "2s", "--precision": "20"}
    flags = [word for flag, value in usual.items() if flag not in more for word in (flag, value)]
    return [PROGRAM, "profile", "measure", "--null", "--instances", "1", *flags,
            "--worker-flag=--batch-us", "--worker-flag=4000", "-o", output, *more]


def rows(path):
    with open(path) as file:
        return list(csv.DictReader(file))


class MeasureTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.profile = os.path.join(self.folder, "profile.csv")

    def run_ok(self, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_measures_goes_on_after_a_kill_and_is_planned_with(self):
        first = subprocess.Popen(measure(self.profile), stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not os.path.exists(self.profile) and time.monotonic() < end:
            time.sleep(0.01)
        first.send_signal(signal.SIGTERM)
        first.wait(timeout=60)
        before = rows(self.profile)
        self.assertLess(len(before), 4)
        self.run_ok(measure(self.profile))
        after = rows(self.profile)
        self.assertEqual(after[:len(before)], before)
        self.assertEqual([int(row["batch"]) for row in after], [1, 2, 4, 8])
        for row in after:  # a batch takes 4 ms, whatever its size, and more on a busy machine
            self.assertGreaterEqual(float(row["latency_ms"]), 4)
            self.assertLessEqual(float(row["throughput_rps"]), 260 * int(row["batch"]))
            self.assertGreater(float(row["memory_mib"]), 0)
        again = self.run_ok(measure(self.profile))
        self.assertIn("all were there already", again.stdout)
        services = os.path.join(self.folder, "services.yaml")
        with open(services, "w") as file:
            file.write("services:\n  - {name: s, model: m, rate_rps: 5, slo_ms: 2000}\n")
        plan = os.path.join(self.folder, "plan.json")
        self.run_ok([PROGRAM, "plan", "--services", services, "--profiles", self.profile,
                     "--gpu", "CPU-1", "--format", "json", "-o", plan])
        self.run_ok([PROGRAM, "verify", plan, "--services", services, "--profiles", self.profile])

    def test_says_what_the_worker_said(self):
        done = subprocess.run([PROGRAM, "profile", "measure", "--model", "/nowhere/m.onnx",
                               "--instances", "1", "-o", self.profile],
                              capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PARTITA_ONNXRUNTIME": "/nowhere/lib.so"})
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("cannot load ONNX Runtime", done.stderr)
        self.assertFalse(os.path.exists(self.profile))

    def test_what_is_wrong_in_a_models_configuration_is_named_with_its_file(self):
        library = os.environ.get("PARTITA_ONNXRUNTIME", os.path.join(
            SOURCE, "build/onnxruntime/libonnxruntime.so.1"))
        if not os.path.exists(library):
            self.skipTest("no ONNX Runtime here: tools/get_onnxruntime gets it")
        self.run_ok([PROGRAM, "demo", "models", self.folder])
        os.makedirs(os.path.join(self.folder, "m", "1"))
        os.rename(os.path.join(self.folder, "mlp.onnx"),
                  os.path.join(self.folder, "m", "1", "model.onnx"))

        # Where it refuses a model the runtime itself loses some bytes.
        its_leaks = os.path.join(self.folder, "its_leaks")
        with open(its_leaks, "w") as file:
            file.write("leak:libonnxruntime\n")

        def fault(text, *flags):
            with open(os.path.join(self.folder, "m", "config.pbtxt"), "w") as file:
                file.write(text)
            done = subprocess.run([PROGRAM, "worker", "--model", "m", "--link", "none", *flags],
                                  cwd=self.folder, capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "PARTITA_ONNXRUNTIME": library,
                                       "LSAN_OPTIONS": "suppressions=" + its_leaks})
            self.assertEqual(done.returncode, 2, done.stderr)
            return done.stderr

        wrong = 'input [ { name: "z" data_type: TYPE_FP32 dims: [ 256 ] } ]\n'
        self.assertIn("m/config.pbtxt: the model has no input 'z'", fault(wrong))
        self.assertIn("--input-shape: the model has no input 'y'", fault("", "--input-shape",
                                                                         "y=4"))

    def test_points_of_another_shape_come_beside_the_old(self):
        self.run_ok(measure(self.profile, "--batches", "1", "--input-shape", "x=4"))
        before = rows(self.profile)
        self.assertEqual([row["shape"] for row in before], ["x=4"])
        for other in (["--input-shape", "x=1,4"], []):
            done = subprocess.run(measure(self.profile, *other), capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("measured with --input-shape 'x=4'", done.stderr)
            self.assertEqual(rows(self.profile), before)
        for shape in ("x=8", "x=2"):
            self.run_ok(measure(self.profile, "--batches", "1", "--input-shape", shape))
        self.assertEqual([(row["model"], row["shape"]) for row in rows(self.profile)],
                         [("m", shape) for shape in ("x=2", "x=4", "x=8")])
        done = self.run_ok(measure(self.profile, "--batches", "1", "--input-shape", "x=8"))
        self.assertIn("all were there already", done.stdout)
        self.assertEqual([row for row in rows(self.profile) if row["shape"] == "x=4"], before)

    def test_bad_flags(self):
        for flags in (["--instances", "0"], ["--batches", "1,x"], ["--processes", "3..1"],
                      ["--cpus", "3-1"], ["--model", "m.onnx"]):
            done = subprocess.run(measure(self.profile, *flags), capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 2, (flags, done.stderr))


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def plan(*instances):
    """A plan for one A100-80GB; instances are (profile, start)."""
    return json.dumps({
        "api_version": "partita/v1", "kind": "ServingPlan", "gpu_model": "A100-80GB",
        "planner": "hand", "slo_rule": "queueing",
        "gpus": [{"index": 0, "instances": [
            {"profile": profile, "start": start, "service": "s", "batch": 4, "processes": 1,
             "throughput_rps": 100, "latency_ms": 10} for profile, start in instances]}],
        "services": [{"name": "s", "rate_rps": 50, "planned_rps": 100 * len(instances),
                      "slo_ms": 100, "predicted_latency_ms": 10}]})


class GpuMeasureTest(CliTest):
    """One simulated GPU, through NVML as it is with a real one; MPS is scripted."""

    def setUp(self):
        super().setUp()
        self.environment = {**os.environ, "LD_LIBRARY_PATH": NVML_SIM,
                            "PARTITA_SIM": self.path("machine.yaml"),
                            "PATH": f"{MPS}:{os.environ['PATH']}"}

    def machine(self, mig="true"):
        self.write("machine.yaml", "gpus: [{model: A100-80GB, count: 1, mig: %s}]\n"
                   "state: node.state\nspeed: 0\n" % mig)

    def partita(self, *args, status=0):
        done = subprocess.run([PROGRAM, *args], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def command(self, sizes, *more, gpu="0", batches="1"):
        return ["profile", "measure", "--null", "--name", "m", "--gpu", gpu, "--instances", sizes,
                "--batches", batches, "--point-time", "1s", "--precision", "50",
                "--worker-flag=--batch-us", "--worker-flag=2000", "-o", "profile.csv", *more]

    def state(self):
        return json.loads(self.partita("status", "--format", "json").stdout)["gpus"][0]

    def sizes(self):
        return [(int(row["gpcs"]), int(row["processes"]))
                for row in rows(self.path("profile.csv"))]

    def started(self, *args):
        """A measurement that takes long enough to be looked at: itself, and its workers'
        environments once they are measured."""
        measuring = subprocess.Popen([PROGRAM, *self.command(*args, batches="1..300")],
                                     cwd=self.folder, env=self.environment,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(measuring.wait)
        self.addCleanup(measuring.kill)
        end = time.monotonic() + 60
        while not os.path.exists(self.path("profile.csv")):
            self.assertIsNone(measuring.poll())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        with open(f"/proc/{measuring.pid}/task/{measuring.pid}/children") as file:
            children = file.read().split()
        environments = []
        for child in children:
            with open(f"/proc/{child}/cmdline", "rb") as file:
                if b"worker" not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{child}/environ") as file:
                environments.append(dict(one.split("=", 1)
                                         for one in file.read().split("\0") if "=" in one))
        return measuring, environments

    def test_makes_instances_on_an_idle_gpu_and_takes_them_away(self):
        self.machine()
        before = self.state()
        self.partita(*self.command("1g,3g", "--processes", "1..2"))
        self.assertEqual(self.sizes(), [(1, 1), (1, 2), (3, 1), (3, 2)])
        self.assertEqual(self.state(), before)
        self.assertEqual(before["instances"], [])
        # The same command finds nothing left to do, on a GPU that is not there any more, too.
        self.assertIn("all were there already",
                      self.partita(*self.command("1g,3g", "--processes", "1..2")).stdout)

    def test_a_signal_in_the_middle_leaves_nothing_behind(self):
        self.machine()
        for stop in (signal.SIGINT, signal.SIGTERM):
            measuring, environments = self.started("2g", "--processes", "2")
            instance, = self.state()["instances"]
            self.assertEqual(instance["profile"], "2g.20gb")
            self.assertEqual(len(environments), 2)
            for environment in environments:
                self.assertEqual(environment["CUDA_VISIBLE_DEVICES"], instance["uuid"])
                self.assertEqual(environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], "50")
            pipe = environments[0]["CUDA_MPS_PIPE_DIRECTORY"]
            with open(os.path.join(pipe, "nvidia-cuda-mps-control.pid")) as file:
                daemon = int(file.read())
            measuring.send_signal(stop)
            self.assertEqual(measuring.wait(60), 1)
            self.assertEqual(self.state()["instances"], [])
            self.assertFalse(alive(daemon))
            self.assertFalse(os.path.exists(pipe))
            os.remove(self.path("profile.csv"))

    def test_after_a_kill_the_next_measurement_puts_back_what_was_made(self):
        self.machine()
        measuring, _ = self.started("2g")
        self.write("plan.json", plan(("3g.40gb", 0)))
        self.assertIn("a measurement", self.partita("apply", "plan.json", "--state-dir", "state",
                                                    status=3).stderr)
        measuring.kill()
        measuring.wait(60)
        left, = self.state()["instances"]
        os.remove(self.path("profile.csv"))
        measuring, environments = self.started("3g")
        made, = self.state()["instances"]
        self.assertEqual((left["profile"], made["profile"]), ("2g.20gb", "3g.40gb"))
        self.assertEqual(environments[0]["CUDA_VISIBLE_DEVICES"], made["uuid"])
        measuring.terminate()
        self.assertEqual(measuring.wait(60), 1)
        self.assertEqual(self.state()["instances"], [])

    def test_instances_of_others_stay_and_idle_ones_are_used(self):
        self.machine()
        self.write("plan.json", plan(("3g.40gb", 0), ("2g.20gb", 4)))
        self.partita("apply", "plan.json", "--state-dir", "state")
        before = self.state()
        uuids = {one["profile"]: one["uuid"] for one in before["instances"]}
        measuring, environments = self.started("3g")
        self.assertEqual(environments[0]["CUDA_VISIBLE_DEVICES"], uuids["3g.40gb"])
        self.assertNotIn("CUDA_MPS_PIPE_DIRECTORY", environments[0])
        measuring.terminate()
        measuring.wait(60)
        self.partita(*self.command("1g"))  # made beside them
        self.assertEqual(self.state(), before)
        no_room = self.partita(*self.command("4g"), status=3).stderr
        self.assertIn("no room for 4g.40gb beside the 2", no_room)
        # Somebody works on one: the others may be used, none may be made.
        holder = subprocess.Popen(["sleep", "60"],
                                  env={**os.environ, "CUDA_VISIBLE_DEVICES": uuids["3g.40gb"]})
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.partita(*self.command("2g"))
        for size in ("3g", "7g"):
            os.remove(self.path("profile.csv"))
            refused = self.partita(*self.command(size), status=3).stderr
            self.assertIn(f"GPU 0 is used by process {holder.pid}", refused)
            self.assertFalse(os.path.exists(self.path("profile.csv")))
            self.write("profile.csv", "model,gpcs,batch,processes,throughput_rps,latency_ms,"
                       "memory_mib\nother,1,1,1,1,1,\n")
        self.assertEqual({one["profile"]: one["uuid"] for one in self.state()["instances"]}, uuids)

    def test_a_whole_gpu_is_shared_out_through_mps(self):
        self.machine(mig="false")
        before = self.state()
        self.assertFalse(before["mig_enabled"])
        measuring, environments = self.started("2g", "--processes", "2")
        self.assertEqual([environment["CUDA_VISIBLE_DEVICES"] for environment in environments],
                         [before["uuid"]] * 2)
        for environment in environments:  # 2 of 7, in two
            share = float(environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"])
            self.assertAlmostEqual(share, 100 / 7, delta=0.5)
        self.assertEqual(self.state()["mig_enabled"], False)
        measuring.terminate()
        self.assertEqual(measuring.wait(60), 1)
        self.assertEqual(self.state(), before)
        holder = subprocess.Popen(["sleep", "60"],
                                  env={**os.environ, "CUDA_VISIBLE_DEVICES": before["uuid"]})
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.assertIn("a whole GPU is measured when nobody else uses it",
                      self.partita(*self.command("7g"), status=3).stderr)

    def test_bad_flags(self):
        self.machine()
        for command, status, word in (
                (self.command("5g"), 2, "1, 2, 3, 4, 7 compute slices"),
                (self.command("1g", gpu="4"), 3, "gpu 4"),
                (self.command("1g", "--cpus", "0"), 2, "--cpus"),
                (self.command("1g", "--driver", "amd"), 3, "AMD")):
            self.assertIn(word, self.partita(*command, status=status).stderr)
        self.assertFalse(os.path.exists(self.path("profile.csv")))


if __name__ == "__main__":
    unittest.main()
