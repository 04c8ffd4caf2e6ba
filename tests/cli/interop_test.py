"""partita export and import: the forms of other tools, from plans and node states and back."""

import json
import re
import unittest

from harness import CliTest, source_text
from kubernetes_schema import object_faults, reference_faults


def instance(profile, start, service, processes):
    return {"profile": profile, "start": start, "service": service, "batch": 8,
            "processes": processes, "throughput_rps": 1, "latency_ms": 1}


PLAN = {"api_version": "partita/v1", "kind": "ServingPlan", "gpu_model": "A100-80GB", "gpus": [
    {"index": 0, "instances": [instance("4g.40gb", 0, "chat", 2), instance("2g.20gb", 4, "a", 1)]},
    {"index": 1, "instances": [instance("3g.40gb", 4, "search", 3)]}],
    "services": [{"name": name, "rate_rps": 1, "planned_rps": 1, "slo_ms": 1,
                  "predicted_latency_ms": 1} for name in ("chat", "a", "search")]}

NODE = {"api_version": "partita/v1", "kind": "NodeState", "gpus": [
    {"index": i, "uuid": f"GPU-{i}", "model": "A100-80GB", "instances": []} for i in range(3)]}
NODE["gpus"][1]["instances"] = [
    {"profile": "3g.40gb", "start": 4, "gi_id": 2, "uuid": "MIG-b1"}]
NODE["gpus"][2]["instances"] = [
    {"profile": "7g.80gb", "start": 0, "gi_id": 0, "uuid": "MIG-c0"}]


class Interop(CliTest):
    def setUp(self):
        super().setUp()
        self.write("plan.json", json.dumps(PLAN))
        self.write("node.json", json.dumps(NODE))

    def layout(self, *args):
        """GPU index -> [(profile, start)] of an import."""
        state = self.json("import", *args)
        self.assertEqual(state["kind"], "NodeState")
        return {gpu["index"]: [(i["profile"], i["start"]) for i in gpu["instances"]]
                for gpu in state["gpus"]}

    def test_counts_go_through_mig_parted_and_places_through_its_checkpoint(self):
        self.ok("export", "plan.json", "--to", "mig-parted", "--label", "mine", "-o", "c.yaml")
        self.assertEqual(self.layout("c.yaml", "--gpu", "A100-80GB"),
                         {0: [("4g.40gb", 0), ("2g.20gb", 4)], 1: [("3g.40gb", 4)]})
        self.ok("export", "plan.json", "--to", "checkpoint", "--node", "node.json", "-o", "c.json")
        devices = json.loads(self.read("c.json"))["MigState"]["Devices"]
        self.assertEqual([d["UUID"] for d in devices], ["GPU-0", "GPU-1", "GPU-2"])
        planned = {0: [("4g.40gb", 0), ("2g.20gb", 4)], 1: [("3g.40gb", 4)], 2: [("7g.80gb", 0)]}
        self.assertEqual(self.layout("c.json", "--node", "node.json"), planned)
        text = self.ok("import", "c.json", "--node", "node.json")
        self.assertRegex(text, r"GPU 2 +│7g\.80gb")

    def test_a_state_that_was_imported_is_exported_again(self):
        self.write("c.yaml", "version: v1\nmig-configs:\n  a: [{devices: all, mig-enabled: true, "
                             "mig-devices: {1g.10gb: 3, 3g.40gb: 1}}]\n")
        self.ok("import", "c.yaml", "--gpu", "H100-80GB-PCIe", "--gpus", "4", "--format", "json",
                "-o", "wanted.json")
        text = self.ok("export", "wanted.json", "--to", "mig-parted")
        self.assertIn("devices: [0, 1, 2, 3]", text)
        self.assertEqual(re.findall(r'"(\S+gb)": (\d)', text), [("1g.10gb", "3"), ("3g.40gb", "1")])

    def test_device_plugin_both_ways(self):
        self.ok("export", "plan.json", "--to", "device-plugin", "-o", "p.yaml")
        found = self.json("import", "p.yaml")
        self.assertEqual({r["name"]: r["replicas"] for r in found["resources"]},
                         {"nvidia.com/mig-3g.40gb": 3, "nvidia.com/mig-4g.40gb": 2})
        # NVIDIA's parser refuses one replica, and with it the whole file.
        self.assertNotIn("replicas: 1", self.read("p.yaml"))
        self.assertIn("# Not shared, one process each: nvidia.com/mig-2g.20gb", self.read("p.yaml"))
        self.write("p.yaml", self.read("p.yaml").replace("replicas: 2", "replicas: 1"))
        line = 1 + self.read("p.yaml")[:self.read("p.yaml").index("replicas: 1")].count("\n")
        self.assertIn(f"p.yaml:{line}: 'replicas' is 1: below 2",
                      self.run_partita("import", "p.yaml").stderr.decode())

    def test_dra_has_a_template_per_service_or_a_claim_per_instance(self):
        text = self.ok("export", "plan.json", "--to", "dra", "--namespace", "prod")
        self.assertEqual(text.count("kind: ResourceClaimTemplate\n"), 3)
        text = self.ok("export", "plan.json", "--to", "dra", "--claims", "--node", "node.json")
        self.assertEqual(text.count("kind: ResourceClaim\n"), 3)
        self.assertIn("uuid == 'MIG-b1'", text)

    def test_kubernetes_has_a_deployment_per_kind_of_instance(self):
        text = self.ok("export", "plan.json", "--to", "kubernetes", "--namespace", "prod",
                       "--image", "registry/worker:1")
        items = json.loads(text)["items"]
        self.assertEqual([one for item in items for one in object_faults(item)], [])
        self.assertEqual(reference_faults(items), [])
        planned = {}
        for gpu in json.loads(self.read("plan.json"))["gpus"]:
            for one in gpu["instances"]:
                key = one["service"], one["profile"], max(1, one.get("processes", 1))
                planned[key] = planned.get(key, 0) + 1
        found = {}
        templates = {one["metadata"]["name"]: one["spec"]["spec"]["devices"] for one in items
                     if one["kind"] == "ResourceClaimTemplate"}
        for one in items:
            if one["kind"] != "Deployment":
                continue
            self.assertEqual(one["metadata"]["namespace"], "prod")
            devices = templates[one["metadata"]["name"]]
            container, = one["spec"]["template"]["spec"]["containers"]
            env = {pair["name"]: pair["value"] for pair in container["env"]}
            processes = int(env["PARTITA_PROCESSES"])
            profile, = re.findall(r"'(\S+gb)'", devices["requests"][0]["exactly"]["selectors"][0]
                                  ["cel"]["expression"])
            key = env["PARTITA_SERVICE"], profile, processes
            found[key] = found.get(key, 0) + one["spec"]["replicas"]
            self.assertEqual(processes > 1, "config" in devices)
            if processes > 1:
                share = devices["config"][0]["opaque"]["parameters"]
                self.assertEqual(share["mps"]["threadPercentage"], 100 // processes)
        self.assertEqual(found, planned)

    def test_kubernetes_refuses_what_it_cannot_hold(self):
        for args, part in ((("node.json",), "no service"),
                           (("plan.json", "--namespace", "A"), "not a namespace"),
                           (("plan.json", "--fleet", "http://127.0.0.1:1"), "carry its plan"),
                           (("plan.json", "--claims"), "only --to dra has it")):
            done = self.run_partita("export", args[0], "--to", "kubernetes", *args[1:])
            self.assertEqual(done.returncode, 2)
            self.assertIn(part, done.stderr.decode())

    def changed(self, name, change):
        plan = json.loads(json.dumps(PLAN))
        change(plan)
        self.write(name, json.dumps(plan))
        return plan

    def test_kubernetes_is_warned_of_plans_for_a_queue_that_pods_do_not_share(self):
        self.write_services("name: chat, model: small, rate_rps: 900, slo_ms: 200")
        for dispatch, warned in (("pooled", True), ("shared-queue", False)):
            self.ok(*self.plan_args("--dispatch", dispatch, "--format", "json", "-o", "q.json"))
            done = self.run_partita("export", "q.json", "--to", "kubernetes")
            self.assertEqual((done.returncode, b"--dispatch shared-queue" in done.stderr),
                             (0, warned), done.stderr)

    def test_kubernetes_keeps_services_apart(self):
        def change(plan):
            plan["services"][0]["spread"] = True
            plan["services"][1]["avoid"] = ["search"]
        self.changed("apart.json", change)
        items = json.loads(self.ok("export", "apart.json", "--to", "kubernetes"))["items"]
        self.assertEqual([one for item in items for one in object_faults(item)], [])
        found = {}
        for one in items:
            if one["kind"] != "Deployment":
                continue
            pod = one["spec"]["template"]
            name = pod["metadata"]["labels"]["partita.gpu/service"]
            term, = pod["spec"]["affinity"]["podAntiAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"]
            self.assertEqual(term["topologyKey"], "kubernetes.io/hostname")
            found[name] = term["labelSelector"]["matchExpressions"][0]["values"]
        self.assertEqual(found, {"chat": ["chat"], "a": ["search"], "search": ["a"]})

    def test_what_pods_do_not_carry_is_refused_and_groups_are_whole_gpus(self):
        def grouped(plan):
            for gpu in plan["gpus"]:
                gpu["instances"] = [{**instance("7g.80gb", 0, "chat", 1), "group": 2}]
            plan["gpus"].append({"index": 2, "instances": [instance("3g.40gb", 0, "a", 1)]})

        def beside(plan):
            plan["gpus"][1]["instances"][0].update(prefill_units=20, decode_units=22)
        self.changed("group.json", grouped)
        self.changed("beside.json", beside)
        self.changed("spare.json", lambda plan: plan.update(survive=1))
        for plan, form, said in (("group.json", "kubernetes", "groups of 2 whole GPUs"),
                                 ("group.json", "dra", "groups of 2 whole GPUs"),
                                 ("beside.json", "kubernetes", "20 SMs beside 22"),
                                 ("beside.json", "dra", "20 SMs beside 22"),
                                 ("spare.json", "kubernetes", "survive")):
            done = self.run_partita("export", plan, "--to", form)
            self.assertEqual(done.returncode, 2, (plan, form))
            self.assertIn(said, done.stderr.decode())
        text = self.ok("export", "group.json", "--to", "mig-parted")
        self.assertIn("devices: [0, 1]\n      mig-enabled: false\n", text)
        self.assertEqual(re.findall(r'"(\S+gb)": (\d)', text), [("3g.40gb", "1")])

    def test_slurm_names_device_files_where_minors_are_known(self):
        self.write("minors", "gpu1/gi2/access 156\ngpu1/gi2/ci0/access 157\n"
                             "gpu2/gi0/access 273\ngpu2/gi0/ci0/access 274\n")
        text = self.ok("export", "node.json", "--to", "slurm", "--mig-minors", "minors",
                       "--part", "gres", "--node-name", "n")
        self.assertIn("NodeName=n Name=gpu Type=3g.40gb MultipleFiles=/dev/nvidia1,"
                      "/dev/nvidia-caps/nvidia-cap156,/dev/nvidia-caps/nvidia-cap157\n", text)
        self.assertIn("Gres=gpu:2g.20gb:1,gpu:4g.40gb:1,gpu:3g.40gb:1",
                      self.ok("export", "plan.json", "--to", "slurm"))

    def test_what_slurm_ran_is_scheduled(self):
        self.write("week.txt", source_text("fuzz/corpus/slurm_jobs/week.txt"))
        done = self.run_partita("import", "week.txt", "--from", "sacct", "--gpu", "A100-80GB",
                                "-o", "tasks.csv")
        self.assertEqual(done.returncode, 0)
        self.assertIn("left out (CANCELLED)", done.stderr.decode())
        tasks = self.read("tasks.csv")
        self.assertTrue(tasks.startswith("task,time_s_1g,"), tasks)
        schedule = self.json("batch", "schedule", "--tasks", "tasks.csv", "--gpu", "A100-80GB")
        self.assertEqual({one["task"] for one in schedule["tasks"]}, {"101", "102", "104_3", "107"})
        for args, sentence in (([], "--gpu"), (["--gpu", "A100-80GB", "--format", "json"], "CSV")):
            run = self.run_partita("import", "week.txt", "--from", "sacct", *args)
            self.assertEqual(run.returncode, 2, args)
            self.assertIn(sentence, run.stderr.decode())

    def test_a_job_script_becomes_a_submission(self):
        self.write("job.sh", source_text("fuzz/corpus/slurm_jobs/job.sh"))
        done = self.run_partita("import", "job.sh", "--from", "sbatch", "--gpu-memory", "20")
        self.assertEqual(done.returncode, 0)
        one = json.loads(done.stdout)
        keys = ("kind", "name", "count", "profiles", "memory_gib")
        self.assertEqual([one[key] for key in keys],
                         ["QueueSubmission", "train", 5, ["3g.40gb"], 20])
        self.assertIn(f"exec /bin/bash -l '{self.path('job.sh')}'", one["command"])
        self.assertIn("srun", done.stderr.decode())
        said = self.run_partita("import", "job.sh", "--from", "sbatch", "-o", "s.json")
        self.assertNotIn("--format json", said.stderr.decode(), "it is JSON")
        self.assertEqual(json.loads(self.read("s.json"))["kind"], "QueueSubmission")

    def test_refusals_name_what_is_wrong_and_write_nothing(self):
        self.write("two.yaml", "version: v1\nmig-configs:\n"
                               "  a: [{devices: all, mig-enabled: false}]\n"
                               "  b: [{devices: [7], mig-enabled: false}]\n")
        self.write("other.yaml", "a: 3\n")
        cases = [(("export", "plan.json", "--to", "checkpoint"), r"plan\.json: .*--node"),
                 (("export", "plan.json", "--to", "dra", "--label", "x"), "--label: only --to mig"),
                 (("export", "plan.json", "--to", "device-plugin", "--sharing", "mps"),
                  "MPS on whole GPUs only, and GPU 0 has 1 x 4g.40gb, 1 x 2g.20gb"),
                 (("export", "plan.json", "--to", "slurm", "--node", "plan.json"),
                  r"plan\.json:1: 'kind' must be NodeState"),
                 (("export", "services.yaml", "--to", "slurm"), r"services\.yaml:1: 'kind' must"),
                 (("import", "two.yaml", "--gpu", "A30"), "--label: .*a, b"),
                 (("import", "two.yaml", "--label", "a", "--gpu", "A30"),
                  "--gpus or --node is required"),
                 (("import", "two.yaml", "--label", "b"), "--gpu or --node is required"),
                 (("import", "two.yaml", "--label", "b", "--node", "node.json"),
                  r"two\.yaml:4: 'devices' names GPU 7"),
                 (("import", "other.yaml"), r"other\.yaml:1: neither")]
        for args, expected in cases:
            with self.subTest(args):
                done = self.run_partita(*args, "-o", "never")
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr.decode(), expected)
                with self.assertRaises(FileNotFoundError):
                    self.read("never")


if __name__ == "__main__":
    unittest.main()
