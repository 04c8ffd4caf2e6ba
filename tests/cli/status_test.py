"""status, capture and replay: what is on a node, shown and recorded. On simulated machines."""

import ctypes
import json
import os
import unittest

import harness

MACHINE = """gpus:
  - {model: A100-80GB, count: 1, mig: true}
  - {model: H200-141GB, count: 1, mig: true}
state: node.state
instances:
  - {gpu: 0, profile: 3g.40gb, start: 4}
  - {gpu: 0, profile: 1g.10gb, start: 0, whole: false}
processes:
  - {gpu: 0, start: 4, pid: 4242, name: trainer}
"""


def have_nvml():
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
        return True
    except OSError:
        return False


class DevicesTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)

    def on_sim(self, command, *more):
        return (command, "--driver", "sim", "--machine", "machine.yaml", *more)

    def status(self, *more):
        return self.on_sim("status", "--state-dir", "state", *more)

    def refused(self, *args, status):
        done = self.run_partita(*args)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        self.assertEqual(done.stdout, b"")
        return done.stderr.decode()


class StatusTest(DevicesTest):
    def test_json_has_what_the_contract_names(self):
        node = self.json(*self.status())
        self.assertEqual((node["api_version"], node["kind"]), ("partita/v1", "NodeState"))
        self.assertEqual([gpu["index"] for gpu in node["gpus"]], [0, 1])
        first, second = node["gpus"]
        self.assertEqual((first["model"], second["model"]), ("A100-80GB", "H200-141GB"))
        self.assertTrue(first["mig_enabled"] and first["uuid"].startswith("GPU-"))
        self.assertEqual(second["instances"], [])
        partial, busy = first["instances"]
        self.assertEqual((partial["profile"], partial["start"]), ("1g.10gb", 0))
        self.assertEqual((partial["uuid"], partial["busy"]), (None, False))
        self.assertEqual((busy["profile"], busy["start"]), ("3g.40gb", 4))
        self.assertTrue(busy["uuid"].startswith("MIG-") and busy["busy"])
        self.assertEqual(busy["holders"], [{"pid": 4242, "name": "trainer"}])
        self.assertNotEqual(busy["gi_id"], partial["gi_id"])

    def test_services_come_from_the_assignment(self):
        node = self.json(*self.status())
        segment = {"device": node["gpus"][0]["instances"][1]["uuid"],
                   "gpu_uuid": node["gpus"][0]["uuid"], "profile": "3g.40gb", "start": 4,
                   "service": "chat", "batch": 8, "processes": 2}
        os.mkdir(self.path("state"))
        self.write("state/assignment.json",
                   json.dumps({"api_version": "partita/v1", "kind": "Assignment", "revision": 1,
                               "segments": [segment]}))
        served = self.json(*self.status())["gpus"][0]["instances"][1]
        self.assertEqual([served[key] for key in ("service", "batch", "processes")], ["chat", 8, 2])
        text = self.ok(*self.status())
        self.assertIn("│*chat b8×2 3g.40gb ", text)
        self.assertIn("trainer (4242)", text)
        self.assertIn("1g.10gb@0 (gi ", text)  # among what is wrong

        wanted = {"name": "chat", "model": "m", "rate_rps": 10, "slo_ms": 100, "percentile": 99}
        self.write("state/assignment.json",
                   json.dumps({"api_version": "partita/v1", "kind": "Assignment", "revision": 2,
                               "services": [wanted], "segments": [segment]}))
        # Since when, nobody knows.
        self.assertRegex(self.ok(*self.status()), r"(?m)^chat +unknown +- +- +- ")

        self.write("state/assignment.json", "{]")
        done = self.run_partita(*self.status())
        self.assertEqual(done.returncode, 0)
        self.assertIn("assignment.json:1", done.stderr.decode())
        self.assertNotIn("chat", done.stdout.decode())

    def test_the_machine_may_be_named_by_the_environment(self):
        os.environ["PARTITA_SIM"] = self.path("machine.yaml")
        self.addCleanup(os.environ.pop, "PARTITA_SIM")
        named = self.ok("status", "--driver", "sim", "--format", "json")
        self.assertEqual(named, self.ok(*self.status("--format", "json")))

    def test_refusals_say_what_to_do(self):
        self.assertIn("--machine: only --driver sim",
                      self.refused("status", "--machine", "machine.yaml", status=2))
        self.assertIn("--machine nowhere.yaml",
                      self.refused("status", "--driver", "sim", "--machine", "nowhere.yaml",
                                   status=2))
        self.write("machine.yaml", "gpus:\n  - {model: A100-81GB}\n")
        self.assertIn("machine.yaml:2", self.refused(*self.status(), status=2))
        if not have_nvml():
            error = self.refused("status", status=3)
            self.assertIn("libnvidia-ml.so.1", error)
            self.assertIn("--driver sim", error)


class CaptureTest(DevicesTest):
    def test_a_replay_shows_the_captured_node(self):
        node = self.json(*self.status())
        before = self.read("node.state")
        self.ok(*self.on_sim("capture", "-o", "node.json"))
        self.assertEqual(self.read("node.state"), before)
        again = self.json("replay", "node.json")
        boards = again.pop("boards")
        self.assertEqual(node.pop("services"), [])  # a board's recording knows of none
        self.assertEqual(again, node)
        self.assertEqual(boards, [{"gpu": 0, "model": "A100-80GB", "differences": []},
                                  {"gpu": 1, "model": "H200-141GB", "differences": []}])

    def test_a_replay_says_where_a_board_is_not_as_catalogued(self):
        recording = json.loads(self.ok(*self.on_sim("capture")))
        self.assertEqual(recording["kind"], "Recording")
        calls = {(call["call"], call.get("gpu")): call["answer"] for call in recording["calls"]}
        self.assertEqual(len(calls), 5)  # info, and read and profiles of both
        small = next(p for p in calls["profiles", 1] if p["name"] == "1g.18gb")
        small["sms"], small["starts"] = 18, [0, 1, 2, 3, 4, 5]
        calls["read", 0]["name"], calls["read", 0]["pci_device_id"] = "NVIDIA Z1", "0x123410DE"
        self.write("strange.json", json.dumps(recording))
        text = self.ok("replay", "strange.json")
        self.assertIn("GPU 0: not in the catalogue; --draft 0 prints", text)
        self.assertIn("1g.18gb: SMs 18 on the board, 16 in the catalogue\n", text)
        self.assertIn("1g.18gb: starts 0,1,2,3,4,5 on the board, 0,1,2,3,4,5,6 in", text)

        os.mkdir(self.path("boards"))
        draft = json.loads(self.ok("replay", "strange.json", "--draft", "0"))
        draft["reconfiguration"]["times"] = [
            {"gpcs": gpcs, "create_s": 0.2, "destroy_s": 0.2} for gpcs in (1, 2, 3, 4, 7)]
        self.write("boards/z1.json", json.dumps(draft))
        text = self.ok("replay", "strange.json", "--catalogue", "boards")
        self.assertIn("GPU 0: as NVIDIA Z1 of the catalogue\n", text)
        self.assertIn("GPU 1: not in the catalogue", text)

    def test_bad_recordings_are_refused(self):
        self.write("bad.json", '{"api_version": "partita/v1", "kind": "Recording",\n'
                               '"calls": [{"call": "raed"}]}')
        self.assertIn("bad.json:2: unknown call 'raed'",
                      self.refused("replay", "bad.json", status=2))


if __name__ == "__main__":
    unittest.main()
