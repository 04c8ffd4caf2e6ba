"""energy: fit, predict and validate on files of counters; who took the joules of a log whose truth
is known."""

import json
import os
import unittest

import harness

SOURCE = harness.SOURCE
IDLE_W, FULL_W = 60, 280


def instance(gi, slices, busy):
    return {"gi_id": gi, "uuid": f"MIG-{gi}", "profile": f"{slices}g.{10 * slices}gb",
            "compute_slices": slices, "memory_slices": slices, "activity": {"sm": busy}}


def log(seconds=60):
    """A GPU with a 4g and a 2g, a slice free: its lines, and the joules above idle of each."""
    lines, truth, energy = [], {1: 0, 2: 0}, 5000.0
    for t in range(seconds + 1):
        there = [instance(1, 4, 0 if t < 10 else 0.5), instance(2, 2, 1 if t % 2 and t > 10 else 0)]
        watts = IDLE_W
        for one in there:
            own = FULL_W * one["activity"]["sm"] * one["compute_slices"] / 7
            watts += own
            truth[one["gi_id"]] += own if t else 0
        energy += watts
        lines.append({"at_s": 1000 + t, "gpus": [
            {"index": 0, "uuid": "GPU-0", "model": "H100-80GB-SXM5", "compute_slices": 7,
             "power_w": watts, "energy_j": energy, "instances": there}]})
    return "".join(json.dumps(line) + "\n" for line in lines), truth


ASSIGNMENT = {"api_version": "partita/v1", "kind": "Assignment", "revision": 1, "segments": [
    {"device": f"MIG-{gi}", "gpu_uuid": "GPU-0", "profile": "1g.10gb", "start": gi,
     "service": name, "batch": 1, "processes": 1} for gi, name in ((1, "chat"), (2, "search"))]}


class Attribute(harness.CliTest):
    def setUp(self):
        super().setUp()
        text, self.truth = log()
        self.write("log.jsonl", text)
        self.write("assignment.json", json.dumps(ASSIGNMENT))
        self.inputs = ("energy", "attribute", "--telemetry", "log.jsonl", "--plan",
                       "assignment.json")

    def test_each_tenant_gets_its_joules_and_all_add_up(self):
        for idle in ("slice", "equal", "unassigned"):
            found = self.json(*self.inputs, "--idle", idle)
            self.assertEqual(found["kind"], "EnergyReport")
            parts = [tenant["energy_j"] for tenant in found["tenants"]] + [found["idle_j"]]
            micro = [round(1e6 * part) for part in parts]
            self.assertEqual(sum(micro), round(1e6 * found["measured_j"]))
            self.assertAlmostEqual(found["measured_j"], 60 * IDLE_W + sum(self.truth.values()), 2)
            self.assertAlmostEqual(found["gpus"][0]["idle_w"], IDLE_W, 3)
        found = {tenant["name"]: tenant for tenant in found["tenants"]}
        self.assertAlmostEqual(found["chat"]["energy_j"], self.truth[1], 2)
        self.assertAlmostEqual(found["search"]["energy_j"], self.truth[2], 2)
        self.assertGreater(found["chat"]["uncertainty_j"], 0)

    def test_a_log_without_power_is_refused(self):
        lines = [json.loads(line) for line in self.read("log.jsonl").splitlines()]
        for line in lines:
            del line["gpus"][0]["power_w"], line["gpus"][0]["energy_j"]
        self.write("log.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        done = self.run_partita(*self.inputs)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertEqual(done.stdout, b"")
        self.assertIn(b"no board tells its power or its energy", done.stderr)

    def test_a_model_that_asks_for_more_than_the_log_tells_is_not_the_rule(self):
        """Half of the truth is tensor work that one tenant does not tell."""
        lines, truth, energy = [], {1: 0, 2: 0}, 0.0
        for t in range(61):
            busy = {1: t % 3 / 2, 2: (t + 1) % 4 / 3}
            there = [instance(gi, 3, busy[gi]) for gi in (1, 2)]
            there[0]["activity"]["tensor"] = busy[1] * 0.5
            watts = IDLE_W
            for gi in (1, 2):
                own = (200 * busy[gi] + 200 * busy[gi] * 0.5) * 3 / 7
                watts += own
                truth[gi] += own if t else 0
            energy += watts
            lines.append({"at_s": t, "gpus": [
                {"index": 0, "uuid": "GPU-0", "model": "H100-80GB-SXM5", "compute_slices": 7,
                 "power_w": watts, "energy_j": energy, "instances": there}]})
        self.write("log.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        self.write("model.json", json.dumps(
            {"api_version": "partita/v1", "kind": "EnergyModel", "loss": "squares", "watts": True,
             "rows": 60, "residual_scale": 0.01, "condition": 2, "r2": 0.99, "mape": 0.01,
             "components": [{"name": name, "joules_per_access": joules, "standard_error": 1}
                            for name, joules in (("idle", 60), ("sm", 200), ("tensor", 200))]}))
        off = {}
        for rule in ((), ("--rule", "model"), ("--rule", "activity")):
            done = self.run_partita(*self.inputs, "--idle", "unassigned", "--model", "model.json",
                                    "--format", "json", *rule)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(done.stdout)
            got = {tenant["name"]: tenant["energy_j"] for tenant in found["tenants"]}
            off[rule] = abs(got["search"] / truth[2] - 1)
            notes = " ".join(found["notes"])
            self.assertEqual("search does not tell tensor" in notes, rule[1:] != ("activity",),
                             notes)
        self.assertGreater(off["--rule", "model"], 0.1)
        self.assertLess(off["--rule", "activity"], 0.01)
        self.assertEqual(off[()], off["--rule", "activity"])

    def test_the_digits_of_the_text_add_up(self):
        lines = self.ok(*self.inputs, "--compare", "--carbon", "380", "--price", "0.3").splitlines()
        rows = {line.split("  ")[0].strip(): line.split() for line in lines if "  " in line}
        shown = [float(rows[name][1]) for name in ("chat", "search", "(nobody)")]
        self.assertAlmostEqual(sum(shown), float(rows["measured"][1]), 9)
        self.assertTrue(any("kepler" in line for line in lines))

    def test_tenants_of_services_and_requests(self):
        self.write("before.prom", 'nv_inference_request_success{model="chat",version="1"} 100\n')
        self.write("after.prom", 'nv_inference_request_success{model="chat",version="1"} 600\n')
        found = self.json(*self.inputs, "--request-counts", "before.prom", "after.prom", "--tenant",
                          "lab=chat,search")
        [tenant] = found["tenants"]
        self.assertEqual((tenant["name"], tenant["services"]), ("lab", ["chat", "search"]))
        chat = next(one for one in found["services"] if one["name"] == "chat")
        self.assertEqual(chat["requests"], 500)
        self.assertAlmostEqual(chat["joules_per_request"], chat["energy_j"] / 500, 9)
        self.assertAlmostEqual(tenant["energy_j"] + found["idle_j"], found["measured_j"], 6)

    def test_a_plan_or_a_schedule_says_who_is_where(self):
        head = {"api_version": "partita/v1", "gpu_model": "H100-80GB-SXM5"}
        places = (("4g.40gb", 0, "chat"), ("2g.20gb", 4, "search"))
        self.write("plan.json", json.dumps({
            **head, "kind": "ServingPlan", "slo_rule": "queueing",
            "gpus": [{"index": 0, "model": "H100-80GB-SXM5", "instances": [
                {"profile": profile, "start": start, "service": name, "batch": 1, "processes": 1,
                 "throughput_rps": 10, "latency_ms": 5} for profile, start, name in places]}],
            "services": [{"name": name, "rate_rps": 5, "planned_rps": 10, "slo_ms": 50,
                          "predicted_latency_ms": 20} for _, _, name in places]}))
        attribute = (*self.inputs[:4], "--idle", "unassigned", "--plan")
        found = {one["name"]: one for one in self.json(*attribute, "plan.json")["tenants"]}
        self.assertAlmostEqual(found["chat"]["energy_j"], self.truth[1], 2)
        self.assertAlmostEqual(found["search"]["energy_j"], self.truth[2], 2)
        tasks = [{"task": name, "gpu": 0, "profile": profile, "start": start, "begin_s": begin,
                  "end_s": end} for name, profile, start, begin, end in (
                      ("early", "4g.40gb", 0, 0, 35), ("late", "4g.40gb", 0, 35, 60),
                      ("other", "2g.20gb", 4, 0, 60))]
        self.write("schedule.json", json.dumps({
            **head, "kind": "BatchSchedule", "gpus": 1, "scheduler": "far", "makespan_s": 60,
            "tasks": tasks, "reconfigurations": []}))
        found = {one["name"]: one for one in self.json(*attribute, "schedule.json")["tenants"]}
        own = FULL_W * 0.5 * 4 / 7  # while it worked, from second 9 to 35 and from there to 60
        self.assertAlmostEqual(found["early"]["energy_j"], 26 * own, 2)
        self.assertAlmostEqual(found["late"]["energy_j"], 25 * own, 2)
        self.assertAlmostEqual(found["other"]["energy_j"], self.truth[2], 2)

    def test_prometheus_has_the_labels_of_dcgm(self):
        text = self.ok(*self.inputs, "--format", "prometheus")
        [line] = [line for line in text.splitlines()
                  if line.startswith('partita_instance_energy_joules_total{') and "MIG" not in line
                  and 'service="chat"' in line]
        for label in ('gpu="0"', 'UUID="GPU-0"', 'GPU_I_ID="1"', 'GPU_I_PROFILE="4g.40gb"'):
            self.assertIn(label, line)

    def test_by_a_model_of_the_log_itself(self):
        self.ok("energy", "fit", "--telemetry", "log.jsonl", "--window", "1s", "--format", "json",
                "-o", "model.json")
        model = {one["name"]: one["joules_per_access"]
                 for one in json.loads(self.read("model.json"))["components"]}
        self.assertAlmostEqual(model["idle"], IDLE_W, 2)
        self.assertAlmostEqual(model["sm"], FULL_W, 2)
        found = self.json(*self.inputs, "--model", "model.json", "--idle", "unassigned")
        self.assertEqual(found["rule"], "model")
        self.assertAlmostEqual(found["tenants"][0]["energy_j"], max(self.truth.values()), 1)

    def test_bad_input_is_refused_with_its_line(self):
        good = self.read("log.jsonl").splitlines()
        self.write("bad.jsonl", good[0] + "\n" + good[1].replace('"sm": 0', '"sm": 7') + "\n")
        self.write("short.jsonl", good[0] + "\n")
        self.write("plan.json", '{"api_version": "partita/v1",\n "kind": "Change"}')
        self.write("model.json", '{"api_version": "partita/v1", "kind": "EnergyModel", "loss": '
                   '"huber", "watts": true, "rows": 3, "residual_scale": 0, "condition": 1, "r2": '
                   '1, "mape": 0,\n"components": [{"name": "FP", "joules_per_access": 1}]}')
        attribute = self.inputs[:3]
        for arguments, said in (
                ((*attribute, "bad.jsonl"), "bad.jsonl:2: "),
                ((*attribute, "short.jsonl"), "short.jsonl: energy is between samples"),
                ((*attribute, "log.jsonl", "--plan", "plan.json"), "plan.json:2: kind must be"),
                ((*attribute, "log.jsonl", "--model", "model.json"), "no component 'FP'"),
                ((*self.inputs, "--tenant", "lab"), "--tenant: 'lab' is not"),
                ((*self.inputs, "--idle-w", "-5"), "--idle-w"),
                ((*self.inputs, "--rule", "model"), "--rule: model needs --model")):
            done = self.run_partita(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(said, done.stderr.decode())


class Model(harness.CliTest):
    def test_the_documented_validation_gives_the_documented_error(self):
        self.as_in_a_clone()
        [command] = harness.documented("docs/results/energy.md", "energy validate")
        found = self.json(*command)
        self.assertLess(found["mape"], 0.08)
        self.assertEqual(f"{100 * found['mape']:.2f}", "7.11")
        self.assertEqual(len(found["rows"]), 26)

    def test_fit_predict_and_energy_per_instruction(self):
        rows = ["name,INT,DRAM,power_w,time_s,instructions"]
        for run in range(1, 9):
            work = (run * 1e9, (9 - run) * 1e8)
            rows.append(f"r{run},{work[0]},{work[1]},{(2e-9 * work[0] + 3e-8 * work[1]) / 2},2,1e9")
        self.write("runs.csv", "\n".join(rows) + "\n")
        self.ok("energy", "fit", "runs.csv", "--format", "json", "-o", "model.json")
        [first, *_] = self.json("energy", "predict", "model.json", "runs.csv")["rows"]
        joules = 2e-9 * 1e9 + 3e-8 * 8e8
        self.assertAlmostEqual(first["predicted"], joules, 6)
        self.assertAlmostEqual(first["measured_epi_j"], joules / 1e9, 12)
        found = self.json("energy", "validate", "runs.csv")
        self.assertLess(found["worst"], 1e-6)
        self.write("same.csv", "name,INT,MOV,energy_j\na,1,2,1\nb,2,4,2\nc,3,6,3\n")
        done = self.run_partita("energy", "fit", "same.csv")
        self.assertEqual(done.returncode, 2)
        self.assertIn("component 'MOV' cannot be told from 'INT'", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
