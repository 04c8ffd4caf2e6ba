"""The objects that install `partita dra`: as the kustomize base lists them and as the chart
renders them, which is the same; strict in their form; flags, folders and names as the program
has them. No cluster."""

import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
from harness import PROGRAM, SOURCE  # noqa: E402
from kubernetes_schema import object_faults, reference_faults  # noqa: E402

try:
    import yaml
except ImportError:
    yaml = None
FOLDER = os.path.join(SOURCE, "packaging", "kubernetes")


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


def rendered(values, namespace):
    """As Helm does, of its language what the chart uses."""
    said = {".Release.Namespace": namespace, **{f".Values.{key}": value for key,
                                                value in values.items()}}

    def put(match):
        first, *steps = match.group(1).split(" | ")
        text = read(re.fullmatch(r'\.Files\.Get "(\S+)"', first).group(1))
        for step in steps:
            was, form, joined, value = re.fullmatch(
                r'replace "(.*)" \(printf "([^"]*)" (\(join ", " )?([^ )]+)\)+', step).groups()
            assert was in text, was
            value = said[value]
            text = text.replace(was, form % (", ".join(value) if joined else value))
        return text
    text = re.sub(r"\{\{- /\*.*?\*/ -\}\}\s*", "", read("templates/objects.yaml"), flags=re.DOTALL)
    return [*yaml.safe_load_all(re.sub(r"\{\{ (.*?) \}\}", put, text))]


@unittest.skipUnless(yaml, "no PyYAML")
class KubernetesTest(unittest.TestCase):
    maxDiff = None

    def base(self):
        return [one for name in yaml.safe_load(read("kustomization.yaml"))["resources"]
                for one in yaml.safe_load_all(read(name))]

    def test_objects_are_as_the_api_server_wants_them(self):
        objects = self.base()
        self.assertEqual([fault for one in objects for fault in object_faults(one)], [])
        self.assertEqual(reference_faults(objects), [])
        self.assertEqual([*yaml.safe_load_all(read("kustomization.yaml"))][0]["namespace"],
                         "partita")

    def test_the_chart_is_the_base(self):
        values = yaml.safe_load(read("values.yaml"))
        base = [one for one in self.base() if one["kind"] != "Namespace"]
        self.assertEqual(rendered(values, "partita"), base)
        other = rendered({**values, "image": "registry/p:2"}, "gpus")
        self.assertEqual([fault for one in other for fault in object_faults(one)], [])
        self.assertEqual(reference_faults(other), [])
        pod = next(one for one in other if one["kind"] == "DaemonSet")
        self.assertEqual(pod["metadata"]["namespace"], "gpus")
        self.assertEqual(pod["spec"]["template"]["spec"]["containers"][0]["image"], "registry/p:2")
        binding = next(one for one in other if one["kind"] == "ClusterRoleBinding")
        self.assertEqual(binding["subjects"][0]["namespace"], "gpus")

    def test_joules_are_told_where_they_are_asked_for(self):
        """The component, the chart with its flags, and the folders that both name."""
        whole, = yaml.safe_load_all(read("with-joules/kustomization.yaml"))
        self.assertEqual((whole["resources"], whole["components"]), ([".."], ["../joules"]))
        component, = yaml.safe_load_all(read("joules/kustomization.yaml"))
        self.assertEqual(component["kind"], "Component")
        patch, = component["patches"]
        change, = yaml.safe_load(patch["patch"])
        objects = self.base()
        plugin = next(one for one in objects if one["kind"] == patch["target"]["kind"]
                      and one["metadata"]["name"] == patch["target"]["name"])
        *folders, last = change["path"].strip("/").split("/")
        place = plugin
        for folder in folders:
            place = place[int(folder) if isinstance(place, list) else folder]
        self.assertEqual((change["op"], place[last]), ("replace", ["partita", "dra"]))
        place[last] = change["value"]
        self.assertEqual([fault for one in objects for fault in object_faults(one)], [])
        flags = dict(zip(change["value"][2::2], change["value"][3::2]))
        self.assertEqual(set(flags), {"--metrics", "--cgroups"})
        pod = plugin["spec"]["template"]["spec"]
        outside = {one["name"]: one["hostPath"] for one in pod["volumes"]}
        inside = {one["mountPath"]: one for one in pod["containers"][0]["volumeMounts"]}
        cgroups = inside[flags["--cgroups"]]
        self.assertTrue(cgroups["readOnly"])
        self.assertEqual(outside[cgroups["name"]], {"path": "/sys/fs/cgroup", "type": "Directory"})
        metrics = inside[os.path.dirname(flags["--metrics"])]
        self.assertFalse(metrics.get("readOnly", False))
        self.assertTrue(flags["--metrics"].endswith(".prom"))  # else the collector passes it over
        chart = rendered({"image": "partita:latest", "flags": change["value"][2:]}, "partita")
        self.assertEqual([one for one in chart if one["kind"] == "DaemonSet"], [plugin])
        told = subprocess.run([PROGRAM, "dra", "--help"], capture_output=True, text=True,
                              check=True).stdout
        for flag in flags:
            self.assertIn(flag, told)

    def test_folders_are_those_of_the_program(self):
        plugin = next(one for one in self.base() if one["kind"] == "DaemonSet")
        pod = plugin["spec"]["template"]["spec"]
        container, = pod["containers"]
        told = subprocess.run([PROGRAM, *container["command"][1:], "--help"], capture_output=True,
                              text=True, check=True).stdout
        mounted = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        for volume in pod["volumes"]:  # sockets and files have one path inside and outside
            if volume["name"] != "cgroups":
                self.assertEqual(volume["hostPath"]["path"], mounted[volume["name"]])
        for flag in ("--plugin-dir", "--registry-dir", "--cdi-dir"):
            folder = re.search(rf"{flag}\s+\S+\s+\[(\S+?)\]", told, re.DOTALL).group(1)
            self.assertTrue(any(f"{folder}/".startswith(f"{path}/") for path in mounted.values()),
                            folder)
        self.assertIn("NODE_NAME", told)
        self.assertIn("NODE_NAME", {one["name"] for one in container["env"]})


if __name__ == "__main__":
    unittest.main()
