"""partita workers with real small processes: it follows the assignment, restarts, stops in order,
adopts, gives several processes of one device an MPS daemon (a scripted one), and lets go of devices
that apply takes away (on a simulated machine)."""

import glob
import json
import os
import re
import signal
import subprocess
import threading
import time
import unittest

from harness import PROGRAM, CliTest

MPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "devices")
# Says who it is, and then sleeps.
WORKER = ("sh -c 'echo {service} {index} $CUDA_VISIBLE_DEVICES "
          "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT; exec sleep 60'")


def segment(device, service, processes=1):
    return {"device": device, "gpu_uuid": "GPU-a", "profile": "1g.10gb", "start": 0,
            "service": service, "batch": 4, "processes": processes}


def plan(*instances):
    """A plan for one A100-80GB; instances are (profile, start, service, processes)."""
    services = sorted({instance[2] for instance in instances})
    return json.dumps({
        "api_version": "partita/v1", "kind": "ServingPlan", "gpu_model": "A100-80GB",
        "planner": "hand", "slo_rule": "queueing",
        "gpus": [{"index": 0, "instances": [
            {"profile": profile, "start": start, "service": service, "batch": 4,
             "processes": processes, "throughput_rps": 100, "latency_ms": 10}
            for profile, start, service, processes in instances]}],
        "services": [{"name": name, "rate_rps": 50, "planned_rps": 100, "slo_ms": 100,
                      "predicted_latency_ms": 10} for name in services]})


class WorkersTest(CliTest):
    def setUp(self):
        super().setUp()
        self.revision = 0
        self.supervisors = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for supervisor in self.supervisors:
            if supervisor.poll() is None:
                supervisor.kill()
                supervisor.wait()
        daemons = glob.glob(self.path("run/*/pipe/*.pid"))
        for pid in self.pids() + [int(self.read(file)) for file in daemons]:
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def assign(self, *segments):
        self.revision += 1
        document = {"api_version": "partita/v1", "kind": "Assignment",
                    "revision": self.revision, "segments": segments}
        self.write("new.json", json.dumps(document))
        os.rename(self.path("new.json"), self.path("assignment.json"))

    def supervise(self, *args, command=WORKER):
        """A supervisor; what it says goes to files, see said()."""
        number = len(self.supervisors)
        environment = dict(os.environ, PATH=f"{MPS}:{os.environ['PATH']}")
        with open(self.path(f"out{number}"), "wb") as out, \
                open(self.path(f"err{number}"), "wb") as err:
            supervisor = subprocess.Popen(
                [PROGRAM, "workers", "--state-dir", ".", "--command", command,
                 "--grace", "2s", "--runtime-dir", "run", *args],
                cwd=self.folder, env=environment, stdout=out, stderr=err)
        self.supervisors.append(supervisor)
        return supervisor

    def said(self, supervisor):
        number = self.supervisors.index(supervisor)
        return self.read(f"out{number}") + self.read(f"err{number}")

    def wait_to_hear(self, supervisor, text):
        self.wait_for(lambda: text in self.said(supervisor))

    def finish(self, supervisor, send=None, status=0):
        if send:
            supervisor.send_signal(send)
        supervisor.wait(timeout=60)
        self.assertEqual(supervisor.returncode, status, self.said(supervisor))
        return self.said(supervisor)

    def workers(self):
        """(device, service, index) to pid, as the state file has it."""
        try:
            state = json.loads(self.read("workers.json"))
        except FileNotFoundError:
            return {}
        return {(w["device"], w["service"], w["index"]): w["pid"]
                for w in state["workers"] if w["pid"]}

    def pids(self):
        return list(self.workers().values())

    def wait_for(self, condition):
        for _ in range(3000):
            if condition():
                return
            time.sleep(0.01)
        self.fail(f"did not come true; {self.workers()}")

    @staticmethod
    def alive(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def say_as_gateway(self, revision, workers, services=()):
        """gateway.json, as if this test were the gateway; workers are (place, pid, state)."""
        with open(f"/proc/{os.getpid()}/stat", encoding="utf-8") as file:
            start = file.read().rsplit(")", 1)[1].split()[19]
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            identity = f"{start}@{file.read().strip()}"
        self.write("gateway.new", json.dumps({
            "api_version": "partita/v1", "kind": "GatewayState", "revision": revision,
            "pid": os.getpid(), "identity": identity, "written_s": time.monotonic(),
            "services": services, "workers": [
                {"device": device, "index": index, "service": service, "pid": pid, "state": state,
                 "last_beat_s": 1} for (device, service, index), pid, state in workers]}))
        os.rename(self.path("gateway.new"), self.path("gateway.json"))
        return True

    def show(self):
        return self.ok("workers", "--state-dir", ".", "--show")


class SupervisorTest(WorkersTest):
    def test_follows_restarts_rotates_logs_and_stops(self):
        supervisor = self.supervise("--log-limit", "1")
        self.wait_to_hear(supervisor, "waiting for " + self.path("assignment.json"))
        self.assign(segment("MIG-1", "a"), segment("MIG-2", "b"))
        self.wait_for(lambda: len(self.workers()) == 2)
        first = self.workers()
        self.wait_for(lambda: self.read("worker-logs/a.MIG-1.0.log") == "a 0 MIG-1\n")

        self.assign(segment("MIG-1", "a"), segment("MIG-3", "b"))
        self.wait_for(lambda: set(self.workers()) == {("MIG-1", "a", 0), ("MIG-3", "b", 0)})
        self.wait_for(lambda: self.read("worker-logs/b.MIG-3.0.log") == "b 0 MIG-3\n")
        self.assertEqual(self.workers()["MIG-1", "a", 0], first["MIG-1", "a", 0])
        self.assertFalse(self.alive(first["MIG-2", "b", 0]))

        place = ("MIG-1", "a", 0)
        os.kill(first[place], signal.SIGKILL)
        log = self.path("worker-logs/b.MIG-3.0.log")
        with open(log, "ab") as file:  # as its worker does
            file.write(bytes(1_100_000))
        self.wait_for(lambda: os.path.exists(log + ".1") and os.path.getsize(log) == 0)
        self.assertEqual(self.read("worker-logs/b.MIG-3.0.log.1"), "b 0 MIG-3\n" + "\0" * 1_100_000)
        self.wait_for(lambda: self.workers().get(place, first[place]) != first[place])
        self.write("assignment.json", "{")  # is complained about, and nothing changes
        self.wait_to_hear(supervisor, "assignment.json:1")
        last = self.workers()
        self.assertEqual(set(last), {("MIG-1", "a", 0), ("MIG-3", "b", 0)})
        shown = self.show()
        self.assertIn(f"supervisor: process {supervisor.pid}, follows assignment 2\n", shown)
        self.assertRegex(shown, r"MIG-1 +1g.10gb +a +4 +0 +runs +- +\d+ +1 +137 ")

        said = self.finish(supervisor, signal.SIGTERM)
        self.assertIn("a 0 on MIG-1: ended with status 137", said)
        self.assertFalse([pid for pid in last.values() if self.alive(pid)])
        self.assertEqual(self.show(), "no supervisor runs\nno workers\n")

    def test_replaces_who_does_not_answer_and_ends_what_it_leaves_behind(self):
        # Answers as long as its file grows younger; its helper has a session of its own.
        worker = ("sh -c 'setsid sh -c \"echo \\$\\$ > helper.$$; exec sleep 60\" & "
                  "while :; do touch alive; sleep 0.05; done'")
        self.assign(segment("MIG-1", "a"))
        supervisor = self.supervise("--probe", "sh -c 'test -n \"$(find alive -newermt -0.5sec)\"'",
                                    "--probe-period", "100ms", "--startup", "30s",
                                    command=worker)
        place = ("MIG-1", "a", 0)
        self.wait_for(lambda: re.search(r"runs +ready", self.show()))
        first = self.workers()[place]
        helper = int(self.read(f"helper.{first}"))
        os.kill(first, signal.SIGSTOP)
        self.wait_for(lambda: self.workers().get(place, first) != first)
        self.assertFalse(self.alive(first))
        self.assertFalse(self.alive(helper))
        self.wait_for(lambda: re.search(r"runs +ready", self.show()))
        said = self.said(supervisor)
        self.assertIn("a 0 on MIG-1: does not answer, 3 probes failed; replacing it", said)
        self.assertIn("did not end within 2.0 s; killed it", said)
        second = self.workers()[place]
        helper = int(self.read(f"helper.{second}"))
        self.finish(supervisor, signal.SIGTERM)
        self.assertFalse(self.alive(second) or self.alive(helper))

    def test_the_gateway_says_who_is_ready(self):
        self.assign(segment("MIG-1", "a"), segment("MIG-2", "b"))
        supervisor = self.supervise()
        self.wait_for(lambda: len(self.workers()) == 2)
        silent, well = self.workers()["MIG-1", "a", 0], self.workers()["MIG-2", "b", 0]
        def gateway(state):
            return self.say_as_gateway(1, [(("MIG-1", "a", 0), silent, state),
                                           (("MIG-2", "b", 0), well, "ready")])

        self.wait_for(lambda: gateway("ready") and self.show().count(" ready ") == 2)
        self.wait_for(lambda: gateway("silent") and self.alive(silent) is False)
        self.assertIn("a 0 on MIG-1: does not answer, the gateway has heard nothing",
                      self.said(supervisor))
        self.assertTrue(self.alive(well))

    def test_workers_outlive_a_killed_supervisor_and_are_adopted(self):
        self.assign(segment("MIG-1", "a"), segment("MIG-2", "b"))
        supervisor = self.supervise()
        self.wait_for(lambda: len(self.workers()) == 2)
        before = self.workers()
        supervisor.kill()
        supervisor.wait()
        self.assertTrue(all(self.alive(pid) for pid in before.values()))
        shown = self.json("workers", "--state-dir", ".", "--show")
        self.assertNotIn("supervisor", shown)
        self.assertEqual([worker["pid"] for worker in shown["workers"]], list(before.values()))

        self.assign(segment("MIG-1", "a"))
        said = self.finish(self.supervise("--once"))
        self.assertIn(f"a 0 on MIG-1: adopted, process {before['MIG-1', 'a', 0]}", said)
        self.assertEqual(self.workers(), {("MIG-1", "a", 0): before["MIG-1", "a", 0]})
        self.assertFalse(self.alive(before["MIG-2", "b", 0]))

        survivor = self.supervise()
        self.wait_to_hear(survivor, "adopted")
        self.assertIn(") holds the lock since ",
                      self.finish(self.supervise("--once"), status=3))
        self.finish(survivor, signal.SIGINT)
        self.assertFalse(self.alive(before["MIG-1", "a", 0]))

    def test_several_processes_of_a_device_share_it_through_mps(self):
        self.assign(segment("MIG-1", "a", 2), segment("MIG-2", "b"), segment("MIG-3", "c", 2))
        supervisor = self.supervise("--mps", "--mps-shares", "70:4000,30:5000",
                                    "--mps-shares", "c=equal")
        self.wait_for(lambda: len(self.workers()) == 5)
        for worker, said in (("a.MIG-1.0", "a 0 MIG-1 70 0=4000M\n"),
                             ("a.MIG-1.1", "a 1 MIG-1 30 0=5000M\n"),
                             ("b.MIG-2.0", "b 0 MIG-2\n"), ("c.MIG-3.1", "c 1 MIG-3 50\n")):
            self.wait_for(lambda: self.read(f"worker-logs/{worker}.log") == said)
        pid_file = "run/MIG-1/pipe/nvidia-cuda-mps-control.pid"
        daemon = int(self.read(pid_file))
        self.assertTrue(self.alive(daemon))
        self.assertFalse(os.path.exists(self.path("run/MIG-2")))

        # Daemon and worker die: the worker comes back only once there is a daemon again.
        worker = self.workers()["MIG-1", "a", 0]
        os.kill(daemon, signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)
        self.wait_for(lambda: self.workers().get(("MIG-1", "a", 0), worker) != worker)
        successor = int(self.read(pid_file))
        self.assertNotEqual(successor, daemon)
        self.finish(supervisor, signal.SIGTERM)
        self.assertFalse(self.alive(successor))

    def test_refuses(self):
        self.assign(segment("MIG-1", "a"))
        self.write("file", "")
        for args, status, message in (
                (("--command", "x {serivce}"), 2, "unknown placeholder '{serivce}'"),
                ((), 2, "--command is required"),
                (("--command", "x", "--mps-shares", "70,40"), 2, "110 % of the"),
                (("--command", "x", "--mps-shares", "a=70:x"), 2, "'x' is not a number of MiB"),
                (("--command", "x", "--log-dir", "file"), 3, "file: ")):
            done = self.run_partita("workers", "--state-dir", ".", *args)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(message, done.stderr.decode())
        self.write("workers.json", "{\n\"kind\"")
        done = self.run_partita("workers", "--state-dir", ".", "--show")
        self.assertEqual(done.returncode, 2)
        self.assertIn(self.path("workers.json") + ":2", done.stderr.decode())
        os.remove(self.path("workers.json"))

    def test_a_damaged_state_ends_nothing(self):
        self.assign(segment("MIG-1", "a"))
        supervisor = self.supervise()
        self.wait_for(self.pids)
        pids = self.pids()
        self.wait_for(lambda: self.read("workers.json.copy") == self.read("workers.json"))
        supervisor.kill()
        supervisor.wait()
        self.write("workers.json", "{\n\"kind\"")
        supervisor = self.supervise()
        self.wait_to_hear(supervisor, "its copy says which workers run")
        self.wait_to_hear(supervisor, "assignment 1")
        self.assertEqual(self.pids(), pids)
        self.assertEqual(self.read("workers.json.damaged-1"), "{\n\"kind\"")
        self.finish(supervisor, signal.SIGTERM)


class ApplyTest(WorkersTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", "gpus: [{model: A100-80GB, count: 1, mig: true}]\n"
                                   "state: node.state\nspeed: 0\n")
        self.write("before.json", plan(("3g.40gb", 0, "kept", 2), ("2g.20gb", 4, "moved", 1),
                                       ("1g.10gb", 6, "old", 1)))
        self.write("after.json", plan(("3g.40gb", 0, "kept", 2), ("1g.10gb", 4, "moved", 1),
                                      ("1g.10gb", 6, "new", 1)))

    def apply(self, file, *more, least="0"):
        return self.run_partita("apply", file, "--driver", "sim", "--machine", "machine.yaml",
                                "--state-dir", ".", "--min-available", least, *more)

    def services(self):
        """(service, index) to (pid, device)."""
        return {(service, index): (pid, device)
                for (device, service, index), pid in self.workers().items()}

    def devices(self):
        node = self.json("status", "--driver", "sim", "--machine", "machine.yaml",
                         "--state-dir", ".")
        return {instance["uuid"] for instance in node["gpus"][0]["instances"]}

    def test_apply_drains_what_goes_and_keeps_what_stays(self):
        supervisor = self.supervise("--mps")  # before anything was ever applied
        self.assertEqual(self.apply("before.json").returncode, 0)
        self.wait_for(lambda: len(self.services()) == 4)
        before = self.services()
        self.assertEqual({device for _, device in before.values()}, self.devices())

        # A supervisor that does not react: nothing is destroyed under its workers.
        supervisor.send_signal(signal.SIGSTOP)
        done = self.apply("after.json", "--drain-timeout", "0.2")
        supervisor.send_signal(signal.SIGCONT)
        self.assertEqual(done.returncode, 3)
        self.assertEqual({device for _, device in before.values()}, self.devices())

        self.assertEqual(self.apply("after.json").returncode, 0)
        self.wait_for(lambda: set(self.services()) == {("kept", 0), ("kept", 1), ("moved", 0),
                                                       ("new", 0)})
        after = self.services()
        for worker in (("kept", 0), ("kept", 1)):
            self.assertEqual(after[worker], before[worker])
        for worker in (("moved", 0), ("old", 0)):
            self.assertFalse(self.alive(before[worker][0]))
        self.assertEqual({device for _, device in after.values()}, self.devices())
        self.assertNotIn(before["moved", 0][1], self.devices())

        # Without a supervisor its workers still count.
        supervisor.kill()
        supervisor.wait()
        done = self.apply("before.json", "--drain-timeout", "0.2")
        self.assertEqual(done.returncode, 3)
        self.assertTrue(self.alive(after["new", 0][0]))
        self.assertEqual({device for _, device in after.values()}, self.devices())
        successor = self.supervise("--mps")
        self.wait_to_hear(successor, "adopted")
        self.finish(successor, signal.SIGTERM)

    def test_apply_stops_nothing_before_the_gateway_has_its_successor_ready(self):
        self.write("before.json", plan(("2g.20gb", 0, "moved", 1)))
        self.write("after.json", plan(("1g.10gb", 4, "moved", 1), ("1g.10gb", 5, "new", 2)))
        self.supervise("--mps")
        self.assertEqual(self.apply("before.json").returncode, 0)
        self.wait_for(lambda: len(self.services()) == 1)
        old = self.services()["moved", 0][1]
        seen, ready, left = {}, set(), []  # devices since when, services' places, what had it left

        def look():
            assignment = json.loads(self.read("assignment.json"))
            now = time.monotonic()
            places = [(one["device"], one["service"], index)
                      for one in assignment["segments"] for index in range(one["processes"])]
            for place in places:
                if now - seen.setdefault(place, now) >= 0.5:
                    ready.add(place)
            if old not in {place[0] for place in places} and not left:
                left.append(any(place[1] == "moved" and place[0] != old for place in ready))
            self.say_as_gateway(assignment["revision"],
                                [(place, 4711, "ready") for place in places if place in ready])

        over = threading.Event()

        def gateway():
            while not over.wait(0.01):
                look()

        look()
        thread = threading.Thread(target=gateway)
        thread.start()
        done = self.apply("after.json", least="1")
        over.set()
        thread.join()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(left, [True])
        self.assertIn(b"waiting for the workers of", done.stderr)
        look()
        self.assertEqual(len([one for one in ready if one[1] == "moved" and one[0] != old]), 1)


if __name__ == "__main__":
    unittest.main()
