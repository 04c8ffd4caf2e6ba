"""partita export: what Kubernetes is given is what it takes, by the classes of the npm package
kubernetes-models, by the rules for names, and by a YAML reader that is not ours.

Needs Node.js 20 and npm; installs the packages once, below build/npm of this checkout. Skipped when
one of these is not to be had."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import textwrap
import time
import unittest

import harness
from harness import CliTest
from kubernetes_harness import ApiServer

HERE = os.path.dirname(os.path.abspath(__file__))
NPM = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "npm")
PACKAGES = ("kubernetes-models@5.1.0", "yaml@2.9.0")
INSTALL_SECONDS = 20


def skip(why):
    print(f"skipped: {why}")
    raise SystemExit(77)


def packages():
    """The folder with the packages, installed when it is not there yet."""
    node, npm = shutil.which("node"), shutil.which("npm")
    version = node and subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    if not version or int(re.match(r"v(\d+)", version)[1]) < 20:
        skip("no Node.js of version 20 or later")
    folder = os.path.join(NPM, "_".join(PACKAGES))
    if os.path.isdir(folder):
        return folder
    if not npm:
        skip("no npm")
    try:
        os.makedirs(NPM, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=NPM) as fresh:
            with open(os.path.join(fresh, "package.json"), "w", encoding="utf-8") as file:
                file.write('{"private": true}')
            subprocess.run([npm, "install", "--no-audit", "--no-fund", "--no-package-lock",
                            "--ignore-scripts", "--prefer-offline", "--fetch-retries=0", *PACKAGES],
                           cwd=fresh, check=True, capture_output=True, timeout=INSTALL_SECONDS)
            try:
                os.rename(fresh, folder)  # whole or not at all
                os.mkdir(fresh)
            except OSError:
                if not os.path.isdir(folder):  # another test's installation was first
                    raise
    except (OSError, subprocess.SubprocessError) as error:
        skip(f"the packages cannot be installed: {error}")
    return folder


PACKAGE_FOLDER = packages()
MACHINE = """gpus:
  - {{model: A100-80GB, count: 2, mig: true}}{more}
state: {name}.state
instances: [{instances}]
"""
MIXED = "\n  - {model: H200-141GB, count: 1, mig: true}"
A100 = "{gpu: 0, profile: 3g.40gb, start: 4}, {gpu: 0, profile: 1g.10gb+me, start: 0}"
H200 = ", {gpu: 2, profile: 3g.71gb, start: 0}, {gpu: 2, profile: 1g.18gb, start: 4}"
SERVICES = ("chat", "Ünicode, \"quoted\": it's # fine", "-x.y_z-")


def plan():
    """Three services on two A100 and one H200, alone and sharing, one of them twice the same."""
    cut = {0: [("3g.40gb", 4, 0, 3), ("2g.20gb", 0, 1, 1)], 1: [("3g.40gb", 0, 0, 3)],
           2: [("3g.71gb", 0, 2, 2)]}
    gpus = [{"index": gpu, "model": "A100-80GB" if gpu < 2 else "H200-141GB", "instances": [
        {"profile": profile, "start": start, "service": SERVICES[service], "batch": 8,
         "processes": processes, "throughput_rps": 1, "latency_ms": 1}
        for profile, start, service, processes in instances]} for gpu, instances in cut.items()]
    services = [{"name": name, "rate_rps": 1, "planned_rps": 1, "slo_ms": 1,
                 "predicted_latency_ms": 1} for name in SERVICES]
    return {"api_version": "partita/v1", "kind": "ServingPlan", "gpu_model": "A100-80GB",
            "gpus": gpus, "services": services}


def config_map(text):
    """How the files of mig-parted and of the device plugin come to their pods."""
    return ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, namespace: gpu}\ndata:\n"
            "  config.yaml: |\n" + textwrap.indent(text, "    "))


SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

BROKEN = [  # what validators refuse, unknown fields, wrong types, and what is no YAML
    ("deviceClassName:", "deviceClass:", "deviceClassName"),
    ("- name: mig", "- title: mig", "name"),
    ("expression:", "expresion:", "expression"),
    ("driver: gpu", "drivers: gpu", "driver"),
    ("parameters:", "parameter:", "parameters"),
    ("spec:\n  spec:", "spec:\n  specs:", "spec"),
    ("selectors:", "selectorz:", "selectorz is unknown"),
    ("exactly:", "exactley:", "exactley is unknown"),
    ("annotations:", "anotations:", "anotations is unknown"),
    ('partita/replicas: "2"', "partita/replicas: 2", "must be string"),
    ("requests: [\"mig\"]", "requests: mig", "must be array"),
    ("kind: DeviceClass", "kind: DeviceKlass", "no kind 'DeviceKlass'"),
    ("resource.k8s.io/v1\n", "resource.k8s.io/v9\n", "no kind"),
    ("metadata:\n", "metadata:\n  name: twice\n", "unique"),
]


class Kubernetes(CliTest):
    def setUp(self):
        super().setUp()
        self.write("plan.json", json.dumps(plan()))
        for name, more, instances in (("a100", "", A100), ("mixed", MIXED, A100 + H200),
                                      ("empty", MIXED, "")):
            self.write("machine.yaml", MACHINE.format(more=more, name=name, instances=instances))
            self.ok("status", "--driver", "sim", "--machine", "machine.yaml", "--state-dir", "s",
                    "--format", "json", "-o", name)

    def check(self, *texts):
        """For each text its documents, as the validator reads them, and what is wrong with each."""
        with open(os.path.join(HERE, "kubernetes_models.mjs"), encoding="utf-8") as file:
            program = file.read()
        done = subprocess.run(["node", "--input-type=module", "--eval", program],
                              cwd=PACKAGE_FOLDER, input=json.dumps(texts), capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [([one["object"] for one in found], [one["faults"] for one in found])
                for found in json.loads(done.stdout)]

    def assert_names(self, objects):
        """What the API server asks of names, and that they name something that is there."""
        named = [(one["kind"], one["metadata"]["name"]) for one in objects]
        self.assertEqual(len(named), len(set(named)))
        for kind, name in named:
            self.assertLessEqual(len(name), 253)
            self.assertTrue(SUBDOMAIN.fullmatch(name), name)
        classes = {name for kind, name in named if kind == "DeviceClass"}
        for one in objects:
            if one["kind"] == "DeviceClass":
                continue
            claim = one["spec"].get("spec", one["spec"])["devices"]
            self.assertIn(claim["requests"][0]["exactly"]["deviceClassName"], classes)
            requests = {request["name"] for request in claim["requests"]}
            for config in claim.get("config", []):
                self.assertLessEqual(set(config["requests"]), requests)

    def test_claims_and_templates(self):
        cases = {("plan.json", "--namespace", "prod"): ["DeviceClass"] * 2
                 + ["ResourceClaimTemplate"] * 3,
                 ("plan.json", "--claims", "--node", "mixed"): ["DeviceClass"] * 2
                 + ["ResourceClaim"] * 4,
                 ("a100", "--claims"): ["DeviceClass"] + ["ResourceClaim"] * 2,
                 ("mixed", "--claims"): ["DeviceClass"] * 2 + ["ResourceClaim"] * 4}
        texts = [self.ok("export", *args, "--to", "dra") for args in cases]
        for (args, kinds), (objects, faults) in zip(cases.items(), self.check(*texts)):
            with self.subTest(args):
                self.assertEqual(faults, [[]] * len(kinds))
                self.assertEqual([one["kind"] for one in objects], kinds)
                self.assert_names(objects)

    def test_what_the_plugin_publishes(self):
        api = ApiServer()
        self.addCleanup(api.server_close)
        self.addCleanup(api.shutdown)
        self.write("big.yaml", "gpus: [{model: H200-141GB, count: 9, mig: true}]\n"
                   "state: big.state\n")
        plugin = subprocess.Popen(
            [harness.PROGRAM, "dra", "--driver", "sim", "--machine", self.path("big.yaml"),
             "--node-name", "node-1.example.org", "--api-server",
             f"http://127.0.0.1:{api.server_port}", "--plugin-dir", self.path("p"),
             "--registry-dir", self.path("r"), "--cdi-dir", self.path("c")],
            stdout=subprocess.DEVNULL)
        self.addCleanup(plugin.wait)
        self.addCleanup(plugin.kill)
        end = time.monotonic() + 60
        while not api.pool() and time.monotonic() < end:
            time.sleep(0.05)
        slices = [json.dumps(one) for one in api.slices.values()]
        self.assertGreater(len(slices), 4)
        for objects, faults in self.check(*slices):
            self.assertEqual(faults, [[]])
            self.assertTrue(SUBDOMAIN.fullmatch(objects[0]["metadata"]["name"]))

    def test_what_installs_the_plugin(self):
        names = ("namespace", "access", "keeper", "class", "plugin")
        texts = [harness.source_text(f"packaging/kubernetes/{name}.yaml") for name in names]
        kinds = set()
        for objects, faults in self.check(*texts):
            self.assertEqual(faults, [[]] * len(objects))
            kinds |= {one["kind"] for one in objects}
        self.assertEqual(kinds, {"Namespace", "ServiceAccount", "ClusterRole",
                                 "ClusterRoleBinding", "Role", "RoleBinding", "DeviceClass",
                                 "DaemonSet"})

    def test_a_template_says_what_the_plan_says(self):
        [(objects, _)] = self.check(self.ok("export", "plan.json", "--to", "dra"))
        found = {}
        for one in objects[2:]:
            notes, claim = one["metadata"]["annotations"], one["spec"]["spec"]["devices"]
            shared = claim.get("config", [{}])[0].get("opaque", {}).get("parameters", {})
            found[notes["partita/service"]] = (
                notes["partita/replicas"], notes["partita/batch"],
                re.findall(r"profile == '(.*)'", json.dumps(claim["requests"])),
                shared.get("sharing", {}).get("mpsConfig", {}).get("defaultActiveThreadPercentage"))
        self.assertEqual(found, dict(zip(SERVICES, [("2", "8", ["3g.40gb"], 33),
                                                    ("1", "8", ["2g.20gb"], None),
                                                    ("1", "8", ["3g.71gb"], 50)])))

    def test_files_that_come_in_a_config_map(self):
        cases = [("plan.json", "device-plugin"), ("mixed", "device-plugin"),
                 ("plan.json", "mig-parted"), ("mixed", "mig-parted"), ("empty", "mig-parted")]
        texts = [self.ok("export", name, "--to", form) for name, form in cases]
        checked = self.check(*map(config_map, texts))
        for case, text, (objects, faults) in zip(cases, texts, checked):
            with self.subTest(case):
                self.assertEqual((faults, objects[0]["data"]), ([[]], {"config.yaml": text}))
        # A file that is not quoted as a text is no ConfigMap; read alone it is what was meant.
        unquoted = [config_map(text).replace(": |", ":") for text in texts]
        found = []
        for [config], [faults] in self.check(*unquoted):
            self.assertRegex(str(faults), "must be string")
            found.append(config["data"]["config.yaml"])
        self.assertEqual({one["name"]: one["replicas"]
                          for one in found[0]["sharing"]["timeSlicing"]["resources"]},
                         {"nvidia.com/mig-3g.40gb": 3, "nvidia.com/mig-3g.71gb": 2})
        self.assertEqual([(one["devices"], one["mig-devices"])
                          for one in found[3]["mig-configs"]["partita"]],
                         [([0], {"3g.40gb": 1, "1g.10gb+me": 1}), ([1], {}),
                          ([2], {"3g.71gb": 1, "1g.18gb": 1})])

    def test_an_empty_node_has_nothing_to_claim_or_share(self):
        for args in (["dra"], ["dra", "--claims"], ["device-plugin"]):
            done = self.run_partita("export", "empty", "--to", *args, "-o", "never")
            self.assertEqual(done.returncode, 2)
            self.assertFalse(os.path.exists(self.path("never")))

    def test_the_validator_refuses_broken_copies(self):
        text = self.ok("export", "plan.json", "--to", "dra")
        for one, _, _ in BROKEN:
            self.assertIn(one, text)
        broken = self.check(*(text.replace(good, bad, 1) for good, bad, _ in BROKEN))
        for (good, bad, expected), (_, faults) in zip(BROKEN, broken):
            with self.subTest(bad):
                self.assertEqual(sum(bool(one) for one in faults), 1, faults)
                self.assertIn(expected, str(faults))


if __name__ == "__main__":
    unittest.main()
