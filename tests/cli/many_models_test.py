"""Many models that share instances: from the services file over plan, verdict, assignment and
supervisor to requests, which say what the metrics say."""

import json
import os
import re
import signal
import threading
import time
import unittest

from gateway_harness import GatewayCase
from harness import PROGRAM

LOAD_S = 0.2
WORKER = (PROGRAM + " worker --null --service {service} --batch {batch} --hold-models {held}"
          f" --load-us {LOAD_S * 1e6:g} --input x:FP32:2 --output-tensor y:FP32:2")
SERVICES = """
services:
  - name: rare
    model: m
    rate_rps: 1
    slo_ms: 2000
    models:
      {list: [a, b, {name: c, weight: 0.5}, d, e, f], memory_mib: 3000, load_ms: 200, cold_ms: 2500}
"""
PROFILES = "model,gpcs,batch,processes,throughput_rps,latency_ms\nm,1,1,1,100,10\nm,2,1,1,150,6\n"


class ManyModelsTest(GatewayCase):
    def planned(self):
        self.write("services.yaml", SERVICES)
        self.write("profiles.csv", PROFILES)
        inputs = ["--services", self.path("services.yaml"), "--profiles",
                  self.path("profiles.csv")]
        self.ok("plan", *inputs, "--gpu", "A100-80GB", "--format", "json", "-o",
                self.path("plan.json"))
        self.ok("verify", self.path("plan.json"), *inputs)
        report = self.json("simulate", self.path("plan.json"), *inputs, "--duration", "2000")
        with open(self.path("plan.json")) as file:
            return json.load(file), report["services"][0]

    def test_is_planned_and_simulated(self):
        plan, seen = self.planned()
        [row] = plan["services"]
        [instance] = plan["gpus"][0]["instances"]
        outlook = row["models_outlook"]
        self.assertEqual(instance["held"], outlook["held"])
        self.assertGreaterEqual(instance["held"], 3)
        self.assertAlmostEqual(seen["models"]["cold"] / seen["offered"], outlook["cold_share"],
                               delta=0.06)
        self.assertGreaterEqual(seen["slo_attainment"], 0.99)
        self.assertGreaterEqual(seen["models"]["cold_in_time"], 0.99)

    def serve(self, held=3):
        plan, _ = self.planned()
        row = {key: plan["services"][0][key]
               for key in ("name", "model", "rate_rps", "slo_ms", "percentile", "models")}
        document = {"api_version": "partita/v1", "kind": "Assignment", "revision": 1,
                    "segments": [{"device": "d", "gpu_uuid": "GPU-0", "profile": "1g.10gb",
                                  "start": 0, "service": "rare", "batch": 1, "processes": 1,
                                  "held": held}],
                    "services": [row]}
        with open(os.path.join(self.state, "assignment.json"), "w") as file:
            json.dump(document, file)
        self.gateway()
        self.start("workers", "--command", WORKER)
        self.until_ready(("d", 0))

    def ask(self, model, value=1.0):
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32",
                                       "data": [value, value]}]})
        begin = time.monotonic()
        status, text = self.post(f"/v2/models/{model}/infer", body, {})
        return status, json.loads(text), time.monotonic() - begin

    def metric(self, name):
        return float(re.search(rf'^partita_set_{name}{{service="rare"}} (\S+)$',
                               self.get("/metrics")[1], re.M)[1])

    def test_loads_what_is_asked_for_and_says_so(self):
        self.serve()
        loads = self.metric("loads_total")
        for model, cold in (("a", True), ("a", False), ("b", True), ("c", True), ("a", False),
                            ("d", True), ("a", False), ("b", True)):
            before = self.metric("loads_total")
            status, answer, took = self.ask(model)
            self.assertEqual((status, answer["model_name"]), (200, model))
            self.assertEqual(answer["outputs"][0]["data"], [1, 1])
            self.assertEqual(self.metric("loads_total") - before, float(cold), model)
            self.assertEqual(took >= LOAD_S, cold, f"{model} took {took}")
        self.assertEqual(self.metric("loads_total") - loads, 5)
        self.assertEqual(self.metric("hits_total"), 3)
        self.assertEqual(self.metric("cold_start_seconds_count"), 5)
        self.assertEqual(self.metric("cold_in_time_total"), 5)
        self.assertGreaterEqual(self.metric("evictions_total"), 2)
        self.assertIn('partita_segment_models_held{service="rare",device="d"} 3',
                      self.get("/metrics")[1])
        for model, status in (("nobody", 404), ("rare", 400)):
            self.assertEqual(self.ask(model)[0], status)
        self.assertEqual(self.get("/v2/models/a/ready")[0], 200)
        self.assertEqual(self.get("/v2/models/nobody/ready")[0], 404)
        with open(os.path.join(self.state, "gateway.json")) as file:
            requests = json.load(file)["services"][0]["requests"]
        self.assertEqual(requests.get("missed", 0), 0)

    def test_all_cold_at_once_load_once_each(self):
        self.serve()
        before = self.metric("loads_total")
        statuses = []
        threads = [threading.Thread(target=lambda m=m: statuses.append(self.ask(m)[0]))
                   for m in "abc" for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [200] * 9)
        self.assertEqual(self.metric("loads_total") - before, 3)

    def test_a_killed_worker_costs_no_request(self):
        self.serve()
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.ask("e")))
        thread.start()
        time.sleep(LOAD_S / 2)
        os.kill(self.workers()[("d", 0)], signal.SIGKILL)
        thread.join()
        self.assertEqual(answers[0][0], 200, answers)
        self.assertEqual(self.ask("e")[0], 200)


if __name__ == "__main__":
    unittest.main()
