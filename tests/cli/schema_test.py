"""schema: what the program writes fits the JSON Schema of its kind, and what does not fit is told
apart."""

import copy
import json
import os
import subprocess
import time
import unittest

import energy_test
import harness
from oip_server import serving

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, word):
    if word in ("number", "integer"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (word == "number" or value == int(value))
    return isinstance(value, TYPES[word])


def faults(value, schema, path=""):
    """Where a value does not fit: JSON Schema, draft 2020-12, as far as our schemas use it."""
    known = {"$schema", "title", "description", "type", "const", "enum", "minimum", "maximum",
             "exclusiveMinimum", "exclusiveMaximum", "minLength", "minItems", "maxItems", "items",
             "properties", "required", "additionalProperties"}
    assert set(schema) <= known, set(schema) - known
    words = schema.get("type", [])
    words = [words] if isinstance(words, str) else words
    if words and not any(is_type(value, word) for word in words):
        return [f"{path}: {value!r} is no {words}"]
    found = []
    if "const" in schema and value != schema["const"] or value not in schema.get("enum", [value]):
        found.append(f"{path}: {value!r} is another word")
    if is_type(value, "number"):
        inside = (schema.get("minimum", value) <= value <= schema.get("maximum", value)
                  and not value <= schema.get("exclusiveMinimum", value - 1)
                  and not value >= schema.get("exclusiveMaximum", value + 1))
        if not inside:
            found.append(f"{path}: {value} is out of range")
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        found.append(f"{path}: too short")
    if isinstance(value, list) and "items" in schema:
        if not schema.get("minItems", 0) <= len(value) <= schema["maxItems"]:
            found.append(f"{path}: {len(value)} items")
        for index, item in enumerate(value):
            found += faults(item, schema["items"], f"{path}/{index}")
    if isinstance(value, dict) and "properties" in schema:
        found += [f"{path}: no {key}" for key in schema.get("required", []) if key not in value]
        for key, member in value.items():
            others = schema.get("additionalProperties", True)
            if key in schema["properties"]:
                found += faults(member, schema["properties"][key], f"{path}/{key}")
            elif isinstance(others, dict):
                found += faults(member, others, f"{path}/{key}")
            elif not others:
                found.append(f"{path}: unknown {key}")
    return found


def undescribed(value, schema, path=""):
    """Members of a document of which its schema says nothing."""
    if isinstance(value, list):
        return [one for item in value for one in undescribed(item, schema["items"], path + "/*")]
    if not isinstance(value, dict):
        return []
    if isinstance(schema.get("additionalProperties"), dict):
        return []
    found = [f"{path}/{key}" for key in value if key not in schema["properties"]]
    for key, member in value.items():
        if key in schema["properties"]:
            found += undescribed(member, schema["properties"][key], f"{path}/{key}")
    return found


def mutations(value, path=()):
    """The members of a document, of lists the first ones, with their paths."""
    members = (value.items() if isinstance(value, dict)
               else enumerate(value[:2]) if isinstance(value, list) else ())
    for key, member in members:
        yield path + (key,)
        yield from mutations(member, path + (key,))


class SchemaTest(harness.CliTest):
    def kinds(self):
        lines = self.ok("schema").splitlines()
        self.assertEqual(lines[0].split()[0], "KIND")
        return [line.split()[0] for line in lines[1:]]

    def energy_documents(self):
        text, _ = energy_test.log(20)
        self.write("log.jsonl", text)
        self.write("assignment.json", json.dumps(energy_test.ASSIGNMENT))
        self.write("requests.csv", "service,requests\nchat,10\n")
        self.write("runs.csv", "name,A,B,energy_j,instructions\na,1,2,5,9\nb,2,1,4,9\nc,3,5,13,9\n")
        self.write("model.json", self.ok("energy", "fit", "runs.csv", "--format", "json"))
        attribute = ("energy", "attribute", "--telemetry", "log.jsonl")
        return {
            "EnergyModel": [json.loads(self.read("model.json"))],
            "EnergyPrediction": [self.json("energy", "predict", "model.json", "runs.csv")],
            "EnergyValidation": [self.json("energy", "validate", "runs.csv", "--prior", "1")],
            "EnergyReport": [self.json(*attribute),
                             self.json(*attribute, "--plan", "assignment.json", "--compare",
                                       "--request-counts", "requests.csv", "--carbon", "1",
                                       "--price", "1")]}

    def heat_documents(self):
        self.ok("floorplan", "simulate", "--dir", "ir", "--pixel-um", "100", "--frames", "60")
        dtm = ("thermal", "dtm", "--grid", "8,8", "--workload", "stencil", "--work-s", "0.2")
        return {
            "InfraredSession": [json.loads(self.read("ir/session.json"))],
            "FloorplanRecovery": [self.json("floorplan", "recover", "--session", "ir/session.json",
                                            "--truth", "ir/truth.flp")],
            "DtmReport": [self.json(*dtm, "--caps", "10"),
                          self.json(*dtm, "--caps", "10", "--governor", "all", "--tenant",
                                    "all=SM")]}

    def power_documents(self):
        profiles = os.path.join(SOURCE, "data/published/reef")
        self.ok("power", "table", "--models", "bert,vgg", "--profiles", profiles, "-o", "mi50.csv")
        self.write("power.yaml", "services:\n"
                   "  - {name: b, model: bert, rate_rps: 13.6, slo_ms: 14.71, percentile: 95}\n"
                   "  - {name: v, model: vgg, rate_rps: 19.1, slo_ms: 10.47, percentile: 95}\n")
        return {"PowerPlan": [self.json("power", "plan", "--services", "power.yaml", "--table",
                                        "mi50.csv", "--gpus", "2")]}

    def agent_documents(self):
        """What an agent says and keeps; its memory and settings as the fuzzers begin with them."""
        self.write("machine.yaml", "gpus: [{model: A100-80GB, count: 2, mig: true}]\n")
        agent = ("agent", "--driver", "sim", "--machine", "machine.yaml", "--services",
                 "services.yaml", "--profiles", "profiles.csv", "--state-dir", "agent")
        corpus = os.path.join(SOURCE, "fuzz/corpus")
        with open(os.path.join(corpus, "agent_memory/small.json"), encoding="utf-8") as file:
            memory = json.load(file)
        return {"AgentState": [self.json(*agent, "--once")],
                "AgentSimulation": [self.json(*agent, "--simulate", "1")],
                "AgentMemory": [memory],
                "AgentSettings": [{"api_version": "partita/v1", "kind": "AgentSettings", "policy":
                                   {"mode": "automatic", "priorities":
                                    [{"service": "a", "priority": 2}], "batch": {"gpus": [1]}}}]}

    def lease_documents(self):
        self.write("lent.yaml", "gpus: [{model: A100-80GB, mig: true}]\nstate: lent\nspeed: 0\n")
        sim = ("--driver", "sim", "--machine", "lent.yaml")
        wanted = ("--for", "a", "--profile", "1g.10gb", "--ttl", "1h")
        return {"Lease": [self.json("lease", *wanted, *sim)],
                "Leases": [self.json("leases", *sim), self.json("return", "--for", "a", *sim)]}

    def queue_documents(self):
        """Of a queue that serves a simulated node, and what is handed in to it."""
        self.write("queue.yaml", "gpus: [{model: A100-80GB, mig: true}]\nstate: queued\n")
        sim = ("--driver", "sim", "--machine", "queue.yaml", "--state-dir", "queue")
        server = subprocess.Popen([harness.PROGRAM, "queue", "serve", *sim], cwd=self.folder,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        for _ in range(600):  # until it listens
            if self.run_partita("queue", "list", *sim).returncode == 0:
                break
            time.sleep(0.05)
        submitted = self.json("queue", "submit", *sim, "true", "--retries", "1")
        task = str(submitted["tasks"][0]["task"])
        return {"QueueSubmission": [{"api_version": "partita/v1", "kind": "QueueSubmission",
                                     "command": "true", "retries": 1}],
                "QueueTask": [self.json("queue", "show", *sim, task)],
                "QueueTasks": [submitted, self.json("queue", "list", *sim, "--all")],
                "SlurmSite": [{"api_version": "partita/v1", "kind": "SlurmSite",
                               "nodes": [{"names": "g[0-7]", "gpu": "A100-80GB"}]}]}

    def fleet_documents(self):
        """What a fleet keeps in etcd, which need not be there."""
        plan = json.loads(self.read("plan.json"))
        carries = [{"service": "a", "rate_rps": 12.5}]
        piece = {"node": "n1", "planned_rps": 12.5, "carried_rps": 12.5, "share": 1}
        there = {"profile": "3g.40gb", "start": 0, "service": "a", "batch": 8, "processes": 1}
        node = {"node": "n1", "agent": "b-1-2",
                "gpus": [{"index": 0, "uuid": "GPU-1", "model": "A100-80GB"}],
                "taken": 2, "ready": 2, "carries": carries,
                "runs": [{"index": 0, "model": "A100-80GB", "instances": [there]}]}
        status = {"node": "n1", "there": True, "drained": False, "gpus": 1, "usable_gpus": 1,
                  "revision": 2, "taken": 2, "ready": 2, "carries": carries}
        all_of = {
            "FleetNode": node,
            "FleetPart": {"node": "n1", "revision": 2, "by": "n2", "cause": "new",
                          "waits_for": [{"node": "n2", "revision": 2}], "elsewhere": carries,
                          "services": "services: []", "plan": plan},
            "FleetWanted": {"services": "services: []", "survive": "node", "approval": "approve",
                            "drained": ["n3"], "approved": "d1", "by": "ops"},
            "FleetProposal": {"digest": "d1", "changes": ["n1: a 12.5/s"]},
            "FleetLeader": {"node": "n2"},
            "FleetRates": {"rates": carries},
            "FleetPower": {"sharing": "fair", "react_s": 30, "failed": ["A"], "by": "ops", "tree": [
                {"name": "A", "rating_w": 900, "curve": [{"load": 1.2, "seconds": 60}]},
                {"name": "r1", "under": "A", "rating_w": 700}],
                "nodes": [{"node": "n1", "inlets": ["r1"], "other_w": 50, "least_w": 200,
                           "most_w": 500, "worth": [{"to_w": 500, "per_w": 2}]}]},
            "FleetBudgets": {"revision": 3, "by": "n2", "failed": ["A"], "unsafe": ["A"],
                             "over": "r1", "value": 12, "nodes": [
                                 {"node": "n1", "watts": 400, "alone_w": 300, "may_w": 400,
                                  "may_alone_w": 300, "since": 2, "limited_by": "r1"}]},
            "FleetEvent": {"time_ms": 5, "revision": 2, "by": "n2", "what": "n2 leads"},
            "FleetHistory": {"events": [{"time_ms": 5, "revision": 0, "by": "n2",
                                         "what": "n2 leads"}]},
            "FleetDecision": {"digest": "d1", "changes": ["n1: a 12.5/s"], "services": [
                {"service": "a", "need_rps": 12.5, "planned_rps": 12.5, "carried_rps": 0,
                 "on": [{"node": "n1", "rate_rps": 12.5}]}]},
            "FleetStatus": {"fleet": "default", "leader": "n2", "revision": 2, "converged": True,
                            "survive": "none", "approval": "automatic", "nodes": [status],
                            "services": [{"service": "a", "wanted_rps": 12.5, "arrived_rps": 1,
                                          "planned_rps": 12.5, "carried_rps": 12.5,
                                          "on": [piece]}]}}
        head = {"api_version": "partita/v1"}
        return {kind: [{**head, "kind": kind, **one}] for kind, one in all_of.items()}

    def documents(self):
        """A few documents of each kind, as the commands write them."""
        self.write("plan.json", self.ok(*self.plan_args("--format", "json")))
        tasks = os.path.join(SOURCE, "data/batches/nightly.csv")
        batch = ("--tasks", tasks, "--gpu", "A30-24GB")
        self.write("schedule.json", self.ok("batch", "schedule", *batch, "--format", "json"))
        kernels = ("--profiles", os.path.join(SOURCE, "data/kernels"), "--workers",
                   "encoder,convnet,encoder", "--gpu", "MI50")
        self.write("wrong.json", self.read("plan.json").replace('"batch": ', '"batch": 1'))
        self.write("graph.json", self.ok("graph", "example", "strassen"))
        run = ("graph", "run", "graph.json", "--lane-driver", "sim")
        self.write("day.json", self.ok(*self.plan_args("--day", "--format", "json")))
        self.write("day.yaml", "rates: [[08:00, 100%], [20:00, 30%]]\n" + harness.SERVICES)
        documents = {
            "ServingPlan": [json.loads(self.read("plan.json")),
                            self.json(*self.plan_args("--current", "plan.json")),
                            self.json(*self.plan_args("--objective", "energy")),
                            self.json(*self.plan_args("--objective", "cost"))],
            "Verdict": [self.json(*self.on_plan("verify", "plan.json")),
                        self.json(*self.on_plan("verify", "wrong.json"), status=1)],
            "ServingReport": [self.json(*self.on_plan("simulate", "plan.json", "--duration",
                                                      "2s"))],
            "DayReport": [self.json(*self.on_plan("simulate", "day.json", "--duration", "1s"))],
            "Comparison": [self.json("compare", *self.plan_args()[1:], "--duration", "1s",
                                     "--planners", "exact,parvagpu@execution:0.01")],
            "BatchComparison": [self.json("batch", "compare", *batch)],
            "BatchSchedule": [json.loads(self.read("schedule.json")),
                              self.json("batch", "schedule", *batch, "--spread", "0.2")],
            "BatchReport": [self.json("batch", "simulate", "schedule.json", "--tasks", tasks)],
            "KernelPlan": [self.json("kernels", "plan", *kernels),
                           self.json("kernels", "plan", *kernels, "--switches", "2", "--curve",
                                     "--switch-cost", "1.5")],
            "DayPlan": [self.json(*self.plan_args("--day")),
                        self.json("plan", "--services", "day.yaml", *self.plan_args()[3:],
                                  "--day")],
            "GraphRun": [self.json(*run), self.json(*run, "--compare")],
        }
        documents.update(self.energy_documents())
        documents.update(self.heat_documents())
        documents.update(self.power_documents())
        documents.update(self.agent_documents())
        documents.update(self.lease_documents())
        documents.update(self.queue_documents())
        documents.update(self.fleet_documents())
        head, *points = harness.source_text("data/published/llm/measured.csv").splitlines()
        one = [point for point in points if point.startswith("h200_sxm,trtllm,")][:400]
        self.write("points.csv", "\n".join([head, *one]) + "\n")
        law = ("profile", "law", "points.csv", "--kind", "llm")
        documents["LawReport"] = [self.json(*law), self.json(*law, "--leave-out", "shape")]
        with serving() as (url, _):
            load = ("load", "--url", url, "--duration", "300ms")
            documents["LoadReport"] = [
                self.json(*load, "--services", "services.yaml"),
                self.json(*load, "--scenario", "server", "--model", "m", "--target-qps", "50",
                          "--latency-bound", "1ms", "--min-requests", "5", status=1)]
        # What only gateways and supervisors write, as the manual shows it.
        for kind, title in (("GatewayState", "Gateway state"), ("GatewayPeers", "Gateway peers"),
                            ("GatewayChoices", "Gateway choices"), ("Workers", "Workers")):
            text = harness.source_text("docs/formats.md").split(f"\n## {title}\n", 1)[1]
            documents[kind] = [json.loads(text.split("```json\n", 1)[1].split("```", 1)[0])]
        # What is given by the agent's API and told to webhooks, as the manual shows it.
        for kind in ("History", "Series", "Notice", "AgentBatches"):
            text = harness.source_text("docs/formats.md").split(f"\n## {kind}\n", 1)[1]
            documents[kind] = [json.loads(text.split("```json\n", 1)[1].split("```", 1)[0])]
        documents["AgentBatch"] = [{"api_version": "partita/v1", "kind": "AgentBatch", **one}
                                   for one in documents["AgentBatches"][0]["batches"]]
        self.write("other.yaml", harness.SERVICES.replace("120", "121"))
        documents["Difference"] = [self.json("diff", "services.yaml", "other.yaml", status=1)]
        self.write_services("name: a, model: large, rate_rps: 9000, slo_ms: 500")
        documents["Refusal"] = [self.json(*self.plan_args("--max-gpus", "1"), status=1)]
        return documents

    def test_documents_fit_their_schemas(self):
        written = self.documents()
        self.assertEqual(sorted(written), self.kinds())
        for kind, documents in written.items():
            schema = json.loads(self.ok("schema", kind))
            for document in documents:
                self.assertEqual(document["kind"], kind)
                self.assertEqual(faults(document, schema), [], kind)
                self.assertEqual(undescribed(document, schema), [], kind)
                for path in mutations(document):
                    changed = copy.deepcopy(document)
                    at = changed
                    for key in path[:-1]:
                        at = at[key]
                    at[path[-1]] = [{"mutated": True}]
                    self.assertNotEqual(faults(changed, schema), [], (kind, path))
                for key in schema["required"]:
                    less = {k: v for k, v in document.items() if k != key}
                    self.assertNotEqual(faults(less, schema), [], (kind, key))

    def test_unknown_kinds(self):
        done = self.run_partita("schema", "ServingPlans")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean 'ServingPlan'", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
