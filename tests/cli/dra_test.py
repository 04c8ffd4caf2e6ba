"""partita dra: a kubelet and an API server of ours ask a real plugin with simulated GPUs."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import unittest

import harness
from claims_campaign import Campaign
from kubernetes_harness import DRIVER, ApiServer, call, field, fields

INFO = "/pluginregistration.Registration/GetInfo"
REGISTERED = "/pluginregistration.Registration/NotifyRegistrationStatus"
PREPARE = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
UNPREPARE = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources"
CLAIMS = int(os.environ.get("PARTITA_CLAIMS", "60"))
KILLS = int(os.environ.get("PARTITA_KILLS", "8"))
DRIVER_OF_CAMPAIGN = os.environ.get("PARTITA_DRIVER", "nvml")
SEED = int(os.environ.get("PARTITA_SEED", "1"))
NVML_SIM = os.path.join(os.path.dirname(harness.PROGRAM), "sim")


MPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "devices")


def share(**more):
    return {"apiVersion": "partita.gpu/v1", "kind": "PartitaShare", **more}


class DraTest(harness.CliTest):
    PREPARE, UNPREPARE, driver, interval = PREPARE, UNPREPARE, "sim", "5s"

    def setUp(self):
        super().setUp()
        self.write("machine.yaml", "gpus: [{model: A100-80GB, count: 2, mig: true}]\n"
                   "state: node.state\nspeed: 0\n")
        self.environment = {**os.environ, "PATH": f"{MPS}:{os.environ['PATH']}",
                            "PARTITA_SIM": self.path("machine.yaml"),
                            "PARTITA_STATE_DIR": self.path("state"), "XDG_RUNTIME_DIR": self.folder}
        self.api = ApiServer()
        self.addCleanup(self.api.server_close)
        self.addCleanup(self.api.shutdown)
        self.plugin = None
        self.addCleanup(self.kill)

    def start(self, *more):
        self.log = open(self.path("log"), "ab")
        self.addCleanup(self.log.close)
        self.plugin = subprocess.Popen(
            [harness.PROGRAM, "dra", "--driver", self.driver, "--node-name", "n1", "--interval",
             self.interval,
             "--api-server", f"http://127.0.0.1:{self.api.server_port}",
             "--plugin-dir", self.path("p"), "--registry-dir", self.path("r"),
             "--cdi-dir", self.path("cdi"), *more],
            env=self.environment, stdout=self.log, stderr=self.log)
        self.until(lambda: os.path.exists(self.path("r/partita.gpu-reg.sock")) and self.connects())

    def connects(self):
        try:
            return self.ask("r/partita.gpu-reg.sock", INFO, b"")
        except OSError:
            return None

    def kill(self):
        if self.plugin and self.plugin.poll() is None:
            self.plugin.kill()
        if self.plugin:
            self.plugin.wait()

    def until(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            self.assertIsNone(self.plugin.poll(), self.read("log"))
            time.sleep(0.02)
        self.fail("in vain; the plugin said: " + self.read("log"))

    def ask(self, where, method, message):
        return call(self.path(where), method, message)

    def claims(self, method, *claims):
        """{uid: ([CDI ids], error)}"""
        message = b"".join(field(1, field(1, b"ml") + field(2, uid.encode())
                                 + field(3, name.encode())) for name, uid in claims)
        out = {}
        for _, entry in fields(self.ask("p/dra.sock", method, message)):
            (_, uid), (_, said) = fields(entry)
            said = fields(said)
            if method == UNPREPARE:
                errors = [value.decode() for number, value in said if number == 1]
                out[uid.decode()] = ([], "".join(errors))
                continue
            out[uid.decode()] = (
                [value.decode() for number, device in said if number == 1
                 for key, value in fields(device) if key == 4],
                b"".join(value for number, value in said if number == 2).decode())
        return out

    def error(self, uid):
        return self.claims(PREPARE, ("c" + uid, uid))[uid][1]

    def generation(self):
        return max(one["spec"]["pool"]["generation"] for one in self.api.slices.values())

    def cdi(self, uid):
        with open(self.path(f"cdi/partita.gpu-claim-{uid}.json"), encoding="utf-8") as file:
            return json.load(file)

    def uuid_of(self, uid):
        env = self.cdi(uid)["devices"][0]["containerEdits"]["env"]
        return next(one.split("=")[1] for one in env if one.startswith("PARTITA_DEVICE_"))

    def instances(self):
        state = json.loads(subprocess.run(
            [harness.PROGRAM, "status", "--driver", "sim", "--format", "json"],
            env=self.environment, capture_output=True, check=True).stdout)
        return {one["uuid"]: (gpu["index"], one["profile"], one["start"])
                for gpu in state["gpus"] for one in gpu["instances"]}

    def allocate(self, profile):
        """As the scheduler: the first device of the profile whose counters are there."""
        devices, counters = self.until(self.api.pool)
        left = {name: dict(these) for name, these in counters.items()}
        by_name = {device["name"]: device for device in devices}

        def take(device, sign):
            for use in device["consumesCounters"]:
                for name, of in use["counters"].items():
                    left[use["counterSet"]][name] -= sign * int(of["value"])
            return all(value >= 0 for these in left.values() for value in these.values())

        for claim in self.api.claims.values():
            for one in claim["status"]["allocation"]["devices"]["results"]:
                self.assertTrue(take(by_name[one["device"]], 1), "given twice")
        for device in devices:
            if device["attributes"]["profile"]["string"] == profile:
                if take(device, 1):
                    return device["name"]
                take(device, -1)
        return None

    def claim(self, uid, profile):
        device = self.allocate(profile)
        self.assertIsNotNone(device)
        self.api.put_claim("c" + uid, uid, [("n1", device)])
        return device

    def test_a_claim_from_slice_to_container(self):
        self.start()
        info = dict(fields(self.connects()))
        self.assertEqual((info[1], info[2], info[3].decode()),
                         (b"DRAPlugin", DRIVER.encode(), self.path("p/dra.sock")))
        device = self.claim("a1", "3g.40gb")
        ids, error = self.claims(PREPARE, ("ca1", "a1"))["a1"]
        self.assertEqual(error, "")
        self.assertEqual(ids, [f"{DRIVER}/claim=a1-{device}"])
        place = self.instances()[self.uuid_of("a1")]
        self.assertEqual(place[1], "3g.40gb")
        self.assertTrue(device.endswith(f"-{place[2]}"))
        nodes = self.cdi("a1")["devices"][0]["containerEdits"]["deviceNodes"]
        self.assertIn("/dev/nvidia0", [one["path"] for one in nodes])
        # Once more is the same; another instance's claim does not disturb it.
        before = self.uuid_of("a1")
        self.assertEqual(self.claims(PREPARE, ("ca1", "a1"))["a1"], (ids, ""))
        self.assertEqual(self.uuid_of("a1"), before)
        self.assertEqual(self.claims(UNPREPARE, ("ca1", "a1")), {"a1": ([], "")})
        self.assertEqual(self.claims(UNPREPARE, ("ca1", "a1")), {"a1": ([], "")})
        self.assertEqual(self.instances(), {})
        self.assertFalse(os.path.exists(self.path("cdi/partita.gpu-claim-a1.json")))

    def test_small_ones_lie_together(self):
        """NVIDIA's order would put a 1g where a 4g begins; ours keeps both 7g and then 4g whole."""
        self.start()
        for number in range(4):
            self.claim(f"b{number}", "1g.10gb")
            self.assertEqual(self.error(f"b{number}"), "")
            self.until(lambda n=number: len(self.instances()) == n + 1 and self.settled())
        places = sorted(self.instances().values())
        self.assertEqual({place[0] for place in places}, {places[0][0]}, places)
        self.assertIsNotNone(self.allocate("7g.80gb"))
        self.assertIsNotNone(self.allocate("3g.40gb"))

    def settled(self):
        """Whether nothing is written any more."""
        before = self.api.version
        time.sleep(0.3)
        return before == self.api.version

    def test_faults_are_the_claims_own(self):
        self.start()
        self.claim("d1", "2g.20gb")
        device = self.allocate("1g.10gb")
        self.api.put_claim("cd2", "d2", [("n1", "gpu-7-mig-nothing")])
        self.api.put_claim("cd3", "d3", [("n2", "gpu-0-mig-1g10gb-19-0")])
        self.api.put_claim("cd4", "d4", [("n1", device)], [share(lanes=3)])
        said = self.claims(PREPARE, ("cd1", "d1"), ("cd2", "d2"), ("cd3", "d3"), ("cd4", "d4"),
                           ("nobody", "d5"), ("cd1", "d6"))
        self.assertEqual(said["d1"][1], "")
        for uid, part in (("d2", "no such device"), ("d3", "no device of this node"),
                          ("d4", "lanes"), ("d5", "404"), ("d6", "another one")):
            self.assertIn(part, said[uid][1])
        self.assertEqual(len(self.instances()), 1)
        self.assertIsNone(self.ask("p/dra.sock", PREPARE, b"\x0a\x03\x12\x05../"))
        self.assertIsNone(self.ask("p/dra.sock", "/nobody.Knows/This", b""))

    def limit(self, gpu=0):
        return self.node_state()["gpus"][gpu].get("power", {}).get("limit_w")

    def daemons(self):
        folder = self.path("p/mps")
        return sorted(uuid for uuid in (os.listdir(folder) if os.path.isdir(folder) else [])
                      if os.path.exists(f"{folder}/{uuid}/pipe/nvidia-cuda-mps-control.pid"))

    def again(self, *uids, method=PREPARE):
        """Killed at some moment of the call, and asked again."""
        for number in range(KILLS):
            killer = threading.Timer(0.003 * number, self.plugin.kill)
            killer.start()
            try:
                self.claims(method, *(("c" + uid, uid) for uid in uids))
            except (OSError, TypeError):
                pass
            killer.join()
            self.plugin.wait()
            self.start()
        return self.claims(method, *(("c" + uid, uid) for uid in uids))

    def test_shares_are_in_effect_and_undone(self):
        self.start()
        self.addCleanup(lambda: subprocess.run(  # whatever a failure leaves
            ["sh", "-c", f"kill $(cat {self.path('p/mps')}/*/pipe/*.pid) 2>&-"],
            check=False))
        before = self.limit()
        device = self.allocate("3g.40gb")
        gpu = int(device[4])
        half = share(mps={"threadPercentage": 50, "memoryMib": 9000})
        self.api.put_claim("ch1", "h1", [("n1", device)], [half, share(powerCapWatts=300)],
                           "FromClass")
        self.api.put_claim("ch2", "h2", [("n1", self.allocate("1g.10gb"))],
                           [share(powerCapWatts=260)], "FromClass")
        self.assertEqual(self.error("h1"), "")
        edits = self.cdi("h1")["devices"][0]["containerEdits"]
        env = dict(one.split("=", 1) for one in edits["env"])
        self.assertEqual(env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], "50")
        self.assertEqual(env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"], "0=9000M")
        self.assertEqual(env["CUDA_MPS_PIPE_DIRECTORY"], edits["mounts"][0]["hostPath"])
        self.assertEqual(self.daemons(), [self.uuid_of("h1")])
        self.assertEqual(self.limit(gpu), 300)
        uuid = self.uuid_of("h1")
        self.assertEqual({error for _, error in self.again("h1", "h2").values()}, {""})
        self.assertEqual((self.uuid_of("h1"), self.daemons()), (uuid, [uuid]))
        other = int(self.cdi("h2")["devices"][0]["name"].split("gpu-")[1][0])
        self.assertEqual(self.limit(other), 260)
        self.assertEqual(self.again("h2", method=UNPREPARE)["h2"][1], "")
        self.assertEqual(self.limit(gpu), 300)
        self.assertEqual(self.again("h1", method=UNPREPARE)["h1"][1], "")
        self.assertEqual((self.limit(0), self.limit(1)), (before, before))
        self.assertEqual((self.daemons(), self.instances()), ([], {}))

    def test_a_damaged_file_hurts_its_own_claim_only(self):
        self.start()
        self.addCleanup(lambda: subprocess.run(  # whatever a failure leaves
            ["sh", "-c", f"kill $(cat {self.path('p/mps')}/*/pipe/*.pid) 2>&-"],
            check=False))
        before = self.limit()
        for uid, shares in (("k1", [share(powerCapWatts=250)]),
                            ("k2", [share(mps={"threadPercentage": 50}),
                                    share(powerCapWatts=300)])):
            self.api.put_claim("c" + uid, uid, [("n1", self.allocate("7g.80gb"))], shares)
            self.assertEqual(self.error(uid), "")
        of = {uid: int(self.cdi(uid)["devices"][0]["name"].split("gpu-")[1][0])
              for uid in ("k1", "k2")}
        file = self.path("cdi/partita.gpu-claim-k2.json")
        whole = self.read("cdi/partita.gpu-claim-k2.json")
        for text in ("", "{}", whole[:len(whole) // 2], "\0" * 40):
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
            # The other claim goes and comes; a plugin that starts then says which file it is.
            self.assertEqual(self.claims(UNPREPARE, ("ck1", "k1"))["k1"][1], "")
            self.assertEqual(self.limit(of["k1"]), before)
            self.assertEqual(self.error("k1"), "")
            self.assertEqual(self.limit(of["k1"]), 250)
            self.kill()
            self.start()
            self.assertIn("claim-k2.json", self.read("log"))
            # Preparing the claim anew mends its file; with the file damaged again it goes, too.
            self.assertEqual(self.error("k2"), "")
            self.assertEqual((self.limit(of["k2"]), len(self.daemons())), (300, 1))
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
            self.assertEqual(self.claims(UNPREPARE, ("ck2", "k2"))["k2"][1], "")
            self.assertFalse(os.path.exists(file))
            self.assertEqual((self.limit(of["k2"]), self.daemons()), (before, []))
            self.assertEqual(len(self.instances()), 1)
            self.assertEqual(self.error("k2"), "")

    def test_shares_that_are_refused_leave_nothing(self):
        self.start()
        for number, (profile, of, part) in enumerate((
                ("1g.10gb", share(powerCapWatts=300), "others share"),
                ("7g.80gb", share(powerCapWatts=10), "not 10"),
                ("1g.10gb", share(mps={"threadPercentage": 120}), "threadPercentage"),
                ("1g.10gb", share(mps={"memoryMib": 20000}), "more than"))):
            uid = f"i{number}"
            self.api.put_claim("c" + uid, uid, [("n1", self.allocate(profile))], [of])
            self.assertIn(part, self.error(uid))
            self.assertEqual((self.instances(), self.daemons()), ({}, []))
            self.api.drop_claim(uid)
        self.api.put_claim("cj", "j", [("n1", self.allocate("7g.80gb"))],
                           [share(powerCapWatts=250)])
        self.assertEqual(self.error("j"), "")

    def test_what_others_have_is_not_for_claims(self):
        subprocess.run([harness.PROGRAM, "lease", "--driver", "sim", "--profile", "7g.80gb",
                        "--for", "somebody"], env=self.environment, check=True, capture_output=True)
        self.start()
        self.claim("e1", "7g.80gb")
        self.assertEqual(self.error("e1"), "")
        self.assertIsNone(self.allocate("1g.10gb"))

    def test_a_claim_that_is_gone_takes_its_place_along_until_it_is_given_back(self):
        """A kubelet that lost its state unprepares nothing: the place is not free for all that."""
        self.interval = "1s"
        self.start()
        self.claim("g1", "7g.80gb")
        self.assertEqual(self.error("g1"), "")
        self.claim("g2", "7g.80gb")
        self.assertEqual(self.error("g2"), "")
        self.api.drop_claim("g1")
        self.until(lambda: self.allocate("1g.10gb") is None)
        self.assertEqual(len(self.instances()), 2)
        self.assertEqual(self.claims(UNPREPARE, ("cg1", "g1"))["g1"][1], "")
        self.until(lambda: self.allocate("7g.80gb"))

    def test_conflicts_old_watches_and_slices_of_before(self):
        self.api.slices["old"] = {"metadata": {"name": "old", "resourceVersion": "7"},
                                  "spec": {"driver": DRIVER, "nodeName": "n1", "pool": {
                                      "name": "n1", "generation": 41, "resourceSliceCount": 1}}}
        self.api.conflicts, self.api.gone = 3, 2
        self.start()
        self.until(lambda: "old" not in self.api.slices and self.api.pool())
        generation = self.generation()
        self.assertGreater(generation, 41)
        # What the scheduler has given is known before it is prepared: a 7g is on the other GPU.
        first = self.claim("f1", "1g.10gb")
        self.until(lambda: self.allocate("7g.80gb") and
                   self.allocate("1g.10gb").startswith(first[:5]))
        # Somebody writes a slice of ours: it is written over.
        name = sorted(self.api.slices)[-1]
        with self.api.lock:
            self.api.slices[name]["metadata"]["resourceVersion"] = self.api.next()
        self.claim("f2", "2g.20gb")
        self.until(lambda: self.api.pool() and self.generation() > generation + 1)
        # All of that was allowed, and no more is.
        self.assertEqual(self.error("f2"), "")
        rules = harness.source_text("packaging/kubernetes/access.yaml")
        allowed = {(verb, resource) for resource, verbs in re.findall(
            r"resources: \[(\w+)\]\n    verbs: \[(.*)\]", rules) for verb in verbs.split(", ")}
        self.assertEqual(self.api.used, allowed)

    def test_slices_that_others_delete_are_written_again(self):
        """A kubelet that starts deletes all slices of its node, maybe after we have registered."""
        self.start()
        self.until(self.api.pool)
        for told in (True, False):
            generation = self.generation()
            with self.api.lock:
                self.api.slices.clear()
            if told:
                self.ask("r/partita.gpu-reg.sock", REGISTERED, b"\x08\x01")
                begun = time.monotonic()
            self.until(self.api.pool, 5 if told else 40)
            self.assertGreater(self.generation(), generation)
        self.assertGreater(time.monotonic() - begun, 5)
        version = self.api.version  # once is enough
        time.sleep(12)
        self.assertEqual(self.api.version, version)

    def test_slices_go_with_their_node(self):
        """Its owner's UID is what the garbage collector of Kubernetes looks for."""
        self.start()
        self.until(self.api.pool)

        def owners():
            with self.api.lock:
                return [one["metadata"].get("ownerReferences") for one in self.api.slices.values()]

        def owner(uid):
            return [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}]
        self.assertEqual(owners(), [owner("node-uid-1")] * len(owners()))
        # Another Node of its name: the collector removes what belonged to the one before.
        with self.api.lock:
            self.api.node_uid = "node-uid-2"
            self.api.slices.clear()
        self.until(lambda: self.api.pool() and owners()[0] == owner("node-uid-2"), 40)
        for status in (403, 404):  # an account of before may not see it
            with self.api.lock:
                self.api.node_status = status
                self.api.slices.clear()
            self.until(lambda: self.api.pool() and not any(owners()), 40)

    def test_a_node_that_comes_back_without_gpus_for_claims_has_no_slices(self):
        self.start()
        self.until(self.api.pool)
        self.kill()
        self.write("machine.yaml", "gpus: [{model: A100-80GB, count: 2, mig: false}]\n"
                   "state: other.state\nspeed: 0\n")
        self.start()
        self.until(lambda: not self.api.slices, 20)

    def test_a_cap_of_a_gpu_that_is_gone_is_no_other_claims_fault(self):
        """The node comes back with other GPUs; the journal of what was changed is still there."""
        self.start()
        self.api.put_claim("cm1", "m1", [("n1", self.allocate("7g.80gb"))],
                           [share(powerCapWatts=250)])
        self.assertEqual(self.error("m1"), "")
        self.kill()
        self.api.drop_claim("m1")
        shutil.rmtree(self.path("cdi"))  # it is in memory
        self.write("machine.yaml", "gpus: [{model: A100-80GB, count: 2, mig: true}]\n"
                   "state: other.state\nspeed: 0\n")
        generation = self.generation()
        self.start()
        self.until(lambda: self.generation() > generation and self.api.pool())
        self.api.put_claim("cm2", "m2", [("n1", self.allocate("7g.80gb"))],
                           [share(powerCapWatts=260)])
        self.assertEqual(self.error("m2"), "")
        self.assertEqual(self.claims(UNPREPARE, ("cm2", "m2"))["m2"][1], "")
        limits = [gpu.get("power", {}).get("limit_w") for gpu in
                  json.loads(self.read("other.state"))["gpus"]]
        self.assertNotIn(260, limits)

    def test_joules_of_claims_and_their_pods(self):
        """CPUs and memory take 100 J, of which the pod's part is by its CPU time; then it goes."""
        zone, pod = self.path("rapl/intel-rapl:0"), "5f-a"
        place = self.path("cg/kubepods.slice/kubepods-burstable.slice/"
                          "kubepods-burstable-pod5f_a.slice")
        for folder in (zone, place):
            os.makedirs(folder)

        def counters(joules, cpu_s):
            for file, value in ((f"{zone}/energy_uj", joules * 1e6),
                                (f"{place}/cpu.stat", cpu_s * 1e6)):
                text = f"usage_usec {value:.0f}\n" if file.endswith("stat") else f"{value:.0f}\n"
                with open(file + "~", "w") as out:
                    out.write(text)
                os.rename(file + "~", file)

        def metric(name):
            path = self.path("joules.prom")
            text = self.read("joules.prom") if os.path.exists(path) else ""
            found = re.search(rf"^{name}{{[^}}]*}} (\S+)$", text, re.M)
            return float(found[1]) if found else None

        for name, text in (("name", "package-0"), ("max_energy_range_uj", "262143328850")):
            self.write(f"rapl/intel-rapl:0/{name}", text + "\n")
        counters(1000, 5)
        self.interval = "100ms"
        self.start("--metrics", self.path("joules.prom"),
                   "--powercap", self.path("rapl"), "--cgroups", self.path("cg"))
        self.until(lambda: self.api.pool())
        device = self.allocate("3g.40gb")
        self.api.put_claim("ce1", "e1", [("n1", device)], pods=[("trainer", pod)])
        self.assertEqual(self.error("e1"), "")
        mine = "partita_pod_host_energy_joules_total"
        self.until(lambda: metric(mine) == 0)
        counters(1100, 5.001)  # a thousandth of a second of all that the machine works meanwhile
        self.until(lambda: metric(mine))
        self.assertEqual(metric("partita_node_energy_joules_total"), 100)
        self.assertLess(metric(mine), 100)
        self.assertLessEqual(metric("partita_pod_host_idle_joules_total"), metric(mine))
        self.assertIn('{namespace="ml",pod="trainer",uid="5f-a"}', self.read("joules.prom"))
        self.assertIsNotNone(metric("partita_claim_energy_joules_total"))
        taken = metric(mine)
        shutil.rmtree(place)  # the pod has ended before its claim
        self.assertEqual(self.claims(UNPREPARE, ("ce1", "e1")), {"e1": ([], "")})
        self.api.drop_claim("e1")
        self.until(lambda: "claim ml/ce1 took" in self.read("log"))
        self.assertIn(f"pod trainer took {taken:.0f} J of CPUs and memory", self.read("log"))
        self.until(lambda: metric("partita_claim_energy_joules_total") is None)

    def node_state(self):
        return json.loads(self.read("node.state"))

    def test_random_claims_and_kills(self):
        """The same claim has the same instance, no slice is used twice, nothing is left."""
        self.write("machine.yaml", "gpus: [{model: A100-40GB, count: 8, mig: true}]\n"
                   "state: node.state\nspeed: 0\n")
        if os.path.exists(NVML_SIM) and DRIVER_OF_CAMPAIGN == "nvml":
            self.driver = "nvml"
            self.environment["LD_LIBRARY_PATH"] = NVML_SIM
        self.start()
        campaign = Campaign(self, CLAIMS, KILLS, SEED)
        ours, theirs = campaign.run()
        print(f"{self.driver}: {CLAIMS} claims, {campaign.calls} calls, {campaign.killed} kills, "
              f"{campaign.outages} restarts of the server; mean wait {ours:.3f}, by start "
              f"{theirs:.3f}, ratio {ours / theirs:.2f}" if theirs else "nobody waited")

    def test_two_plugins_and_a_server_that_is_away(self):
        self.start()
        second = subprocess.run(
            [harness.PROGRAM, "dra", "--driver", "sim", "--node-name", "n1",
             "--api-server", "http://127.0.0.1:1", "--plugin-dir", self.path("p"),
             "--registry-dir", self.path("r"), "--cdi-dir", self.path("cdi")],
            env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(second.returncode, 3, second.stderr)
        self.assertIsNotNone(self.connects())  # the first one's sockets are as they were
        self.plugin.terminate()
        self.assertEqual(self.plugin.wait(30), 0)
        self.assertFalse(os.path.exists(self.path("p/dra.sock")))
        outside = subprocess.run([harness.PROGRAM, "dra", "--driver", "sim"], env={
            name: value for name, value in self.environment.items()
            if not name.startswith("KUBERNETES_")},
            capture_output=True, text=True, timeout=60)
        self.assertEqual(outside.returncode, 2)
        self.assertIn("--api-server", outside.stderr)


if __name__ == "__main__":
    unittest.main()
