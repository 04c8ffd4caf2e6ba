"""Pipelines: planned, judged and simulated as one, and served by a gateway with real workers (the
null engine, which echoes), one of which is killed."""

import json
import os
import signal
import threading
import unittest

from gateway_harness import GatewayCase, assignment
from harness import PROGRAM, CliTest

SERVICES = "data/scenarios/pipelines.yaml"
PROFILES = "data/published/parvagpu/a100-80gb.csv"
ABOUT = ("--services", SERVICES, "--profiles", PROFILES)
WORKER = (PROGRAM + " worker --null --service {service} --batch {batch} --input x:FP32:2"
          " --output-tensor y:FP32:2 --item-us 300")

ENSEMBLE = """platform: "ensemble"
input [ { name: "picture" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]
output [ { name: "sorts" data_type: TYPE_FP32 dims: [ 1000 ] } ]
ensemble_scheduling { step [ { model_name: "mobilenetv2" model_version: -1
  input_map { key: "image" value: "picture" } output_map { key: "features" value: "features" } },
  { model_name: "resnet50" model_version: -1
  input_map { key: "image" value: "features" } output_map { key: "scores" value: "sorts" } } ] }
"""


def step(model, source, to, **more):
    return {"model_name": model, "input_map": {"x": source}, "output_map": {"y": to}, **more}


class Planned(CliTest):
    def setUp(self):
        super().setUp()
        self.as_in_a_clone()

    def plan(self, *more):
        return self.json("plan", *ABOUT, "--gpu", "A100-80GB", *more)

    def test_the_promise_is_the_plans_and_holds(self):
        plan = self.plan()
        rows = {row["name"]: row for row in plan["services"]}
        signs = rows["read-signs"]
        self.assertEqual((signs["rate_rps"], signs["slo_ms"], signs["percentile"]), (150, 250, 99))
        self.assertLessEqual(signs["predicted_latency_ms"], 250)
        shares = {one["model_name"]: one["share_ms"] for one in signs["pipeline"]["steps"]}
        self.assertTrue(rows["inceptionv3"]["member"])
        self.assertEqual(rows["inceptionv3"]["slo_ms"], shares["inceptionv3"])
        # One pool for both pipelines and its own clients, whose promise stays.
        self.assertNotIn("member", rows["resnet50"])
        self.assertEqual((rows["resnet50"]["rate_rps"], rows["resnet50"]["slo_ms"]), (1100, 150))
        self.write("plan.json", json.dumps(plan))
        self.ok("verify", self.path("plan.json"), *ABOUT)
        report = self.json("simulate", self.path("plan.json"), *ABOUT, "--require", "0.99")
        offered = {row["name"]: row["offered"] for row in report["services"]}
        self.assertAlmostEqual(offered["read-signs"], 150 * 60, delta=500)
        self.assertAlmostEqual(offered["resnet50"], 300 * 60, delta=600)

    def test_the_judge_refuses_a_plan_for_less(self):
        text = self.read(SERVICES)
        self.write("plan.json", json.dumps(self.plan()))
        self.write("more.yaml", text.replace("slo_ms: 250", "slo_ms: 60"))
        self.ok("verify", self.path("plan.json"), "--services", self.path("more.yaml"),
                "--profiles", PROFILES, status=1)

    def test_plans_again_from_what_runs(self):
        self.write("plan.json", json.dumps(self.plan()))
        again = self.plan("--current", self.path("plan.json"))
        self.assertEqual(again["services"][0]["slo_ms"], 250)

    def test_pods_alone_are_no_pipeline(self):
        self.write("plan.json", json.dumps(self.plan()))
        done = self.run_partita("export", self.path("plan.json"), "--to", "kubernetes")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'read-signs' is a pipeline", done.stderr.decode())

    def test_tritons_ensemble_is_the_same_plan(self):
        text = self.read(SERVICES)
        begin = text.index("      steps:", text.index("- name: sort"))
        end = text.index("  - name: resnet50")
        self.write("own.yaml", text)
        self.write("tritons.yaml", text[:begin] + "      config: sort.pbtxt\n" + text[end:])
        self.write("sort.pbtxt", ENSEMBLE)
        plans = []
        for name in ("own.yaml", "tritons.yaml"):
            plan = self.json("plan", "--services", self.path(name), "--profiles", PROFILES,
                             "--gpu", "A100-80GB")
            plans.append((plan["services"], plan["gpus"]))
        self.assertEqual(*plans)
        self.write("sort.pbtxt", ENSEMBLE.replace("model_version: -1", "model_version: 3"))
        done = self.run_partita("plan", "--services", self.path("tritons.yaml"), "--profiles",
                                PROFILES, "--gpu", "A100-80GB")
        self.assertEqual(done.returncode, 2)
        self.assertIn("sort.pbtxt:4: 'model_version' is 3", done.stderr.decode())

    def test_says_what_is_wrong_with_steps(self):
        def refused(steps):
            self.write("s.json", json.dumps({"services": [
                {"name": "p", "rate_rps": 1, "slo_ms": 100, "pipeline": {"steps": steps}}]}))
            return self.run_partita("plan", "--services", self.path("s.json"), "--profiles",
                                    PROFILES, "--gpu", "A100-80GB").stderr.decode()

        self.assertIn("no profile of model 'resnet5'", refused([step("resnet5", "a", "b")]))
        self.assertIn("a cycle", refused([step("bert", "a", "b"), step("resnet50", "b", "a")]))


class Served(GatewayCase):
    def ask(self):
        body = json.dumps({"inputs": [{"name": "in", "shape": [1, 2], "datatype": "FP32",
                                       "data": [3, 4]}]})
        status, text = self.post("/v2/models/p/infer", body, {})
        return status, json.loads(text)

    def test_goes_through_its_steps_and_names_the_one_that_fails(self):
        one = assignment(1, ("a", "first", 4, 1), ("b", "second", 4, 1))
        one["services"].append({"name": "p", "rate_rps": 50, "slo_ms": 5000, "percentile": 99,
                                "pipeline": {"steps": [step("first", "in", "mid"),
                                                       step("second", "mid", "out")]}})
        self.write("s/assignment.json", json.dumps(one))
        self.gateway()
        self.until(self.listens, "the gateway")
        self.start("workers", "--command", WORKER)
        self.until_ready(("a", 0), ("b", 0))
        self.assertEqual(self.get("/v2/models/p/ready")[0], 200)
        status, answer = self.ask()
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["outputs"][0]["name"], "out")
        self.assertEqual(answer["outputs"][0]["data"], [3, 4])
        config = json.loads(self.get("/v2/models/p/config")[1])
        self.assertEqual(config["platform"], "ensemble")
        self.assertEqual([(one["model_name"], one["input_map"], one["output_map"])
                          for one in config["ensemble_scheduling"]["step"]],
                         [("first", {"x": "in"}, {"y": "mid"}),
                          ("second", {"x": "mid"}, {"y": "out"})])
        self.assertEqual([one["name"] for one in config["input"] + config["output"]],
                         ["in", "out"])
        metrics = self.get("/metrics")[1]
        for line in ('partita_requests_in_slo_total{service="p"} 1',
                     'partita_requests_offered_total{service="p"} 1',
                     'partita_requests_offered_total{service="second"} 1',
                     'partita_slo_seconds{service="p"} 5'):
            self.assertIn("\n" + line + "\n", metrics)
        # A worker that dies is started again; who asks meanwhile is answered, or told where.
        killed = self.workers()[("b", 0)]
        seen = []
        ending = threading.Event()

        def keep_asking():
            while not ending.is_set():
                seen.append(self.ask())

        client = threading.Thread(target=keep_asking)
        client.start()
        self.until(lambda: len(seen) > 10, "answers")
        os.kill(killed, signal.SIGKILL)
        self.until(lambda: self.workers().get(("b", 0), killed) != killed, "a worker in its place")
        before = len(seen)
        self.until(lambda: len(seen) > before + 10 and seen[-1][0] == 200, "answers again")
        ending.set()
        client.join()
        for status, answer in seen:
            if status == 200:
                self.assertEqual(answer["outputs"][0]["data"], [3, 4])
            else:
                self.assertIn("pipeline 'p', step 'second': ", answer["error"])
        # Without the second step's instance.
        one["revision"] = 2
        del one["segments"][1]
        self.write("s/assignment.json", json.dumps(one))
        self.until(lambda: self.ask()[0] == 503, "a refusal")
        self.assertIn("pipeline 'p', step 'second': no worker of 'second' is ready",
                      self.ask()[1]["error"])
        self.assertNotEqual(self.get("/v2/models/p/ready")[0], 200)


if __name__ == "__main__":
    unittest.main()
