"""partita workers with real small processes: it follows the assignment, restarts, stops in order,
adopts, and gives several processes of one device an MPS daemon (a scripted one)."""

import json
import os
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, CliTest

MPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "devices")
# Says who it is, and then sleeps.
WORKER = ("sh -c 'echo {service} {index} $CUDA_VISIBLE_DEVICES "
          "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; exec sleep 60'")


def segment(device, service, processes=1):
    return {"device": device, "gpu_uuid": "GPU-a", "profile": "1g.10gb", "start": 0,
            "service": service, "batch": 4, "processes": processes}


class Workers(CliTest):
    def setUp(self):
        super().setUp()
        self.revision = 0
        self.supervisors = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for supervisor in self.supervisors:
            if supervisor.poll() is None:
                supervisor.kill()
                supervisor.communicate()
        for pid in self.pids():
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
        environment = dict(os.environ, PATH=f"{MPS}:{os.environ['PATH']}")
        supervisor = subprocess.Popen(
            [PROGRAM, "workers", "--assignment", "assignment.json", "--command", command,
             "--grace", "2s", "--runtime-dir", "run", *args],
            cwd=self.folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.supervisors.append(supervisor)
        return supervisor

    def finish(self, supervisor, send=None, status=0):
        if send:
            supervisor.send_signal(send)
        out, err = supervisor.communicate(timeout=20)
        self.assertEqual(supervisor.returncode, status, out + err)
        return out, err

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
        for _ in range(1000):
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

    def test_follows_restarts_and_stops(self):
        supervisor = self.supervise()
        # Written at its first step, when there is no assignment yet.
        self.wait_for(lambda: os.path.exists(self.path("workers.json")))
        self.assign(segment("MIG-1", "a"), segment("MIG-2", "b"))
        self.wait_for(lambda: len(self.workers()) == 2)
        first = self.workers()
        self.wait_for(lambda: self.read("worker-logs/a.MIG-1.0.log") == "a 0 MIG-1\n")

        self.assign(segment("MIG-1", "a"), segment("MIG-3", "b"))
        self.wait_for(lambda: set(self.workers()) == {("MIG-1", "a", 0), ("MIG-3", "b", 0)})
        self.assertEqual(self.workers()["MIG-1", "a", 0], first["MIG-1", "a", 0])
        self.assertFalse(self.alive(first["MIG-2", "b", 0]))

        place = ("MIG-1", "a", 0)
        os.kill(first[place], signal.SIGKILL)
        self.wait_for(lambda: self.workers().get(place, first[place]) != first[place])
        self.write("assignment.json", "{")  # is complained about, and nothing changes
        time.sleep(1.2)
        last = self.workers()
        self.assertEqual(set(last), {("MIG-1", "a", 0), ("MIG-3", "b", 0)})
        shown = self.ok("workers", "--assignment", "assignment.json", "--show")
        self.assertRegex(shown, r"MIG-1 +1g.10gb +a +4 +0 +runs +\d+ +1 +137 ")

        out, err = self.finish(supervisor, signal.SIGTERM)
        self.assertIn("waiting for", err)
        self.assertIn("assignment.json:1", err)
        self.assertIn("a 0 on MIG-1: ended with status 137", out)
        self.assertFalse([pid for pid in last.values() if self.alive(pid)])
        shown = self.ok("workers", "--assignment", "assignment.json", "--show")
        self.assertEqual(shown, "no workers\n")

    def test_once_leaves_workers_that_the_next_adopts(self):
        self.assign(segment("MIG-1", "a"), segment("MIG-2", "b"))
        self.finish(self.supervise("--once"))
        before = self.workers()
        self.assertEqual([self.alive(pid) for pid in before.values()], [True, True])
        self.assign(segment("MIG-1", "a"))
        out, _ = self.finish(self.supervise("--once"))
        self.assertIn("adopted", out)
        self.assertEqual(self.workers(), {("MIG-1", "a", 0): before["MIG-1", "a", 0]})
        self.assertFalse(self.alive(before["MIG-2", "b", 0]))

        survivor = self.supervise()
        self.assertIn("adopted", survivor.stdout.readline())
        refused = self.finish(self.supervise("--once"), status=3)
        self.assertIn("another process holds the lock", refused[1])
        self.finish(survivor, signal.SIGINT)
        self.assertFalse(self.alive(before["MIG-1", "a", 0]))

    def test_several_processes_of_a_device_share_it_through_mps(self):
        self.assign(segment("MIG-1", "a", 2), segment("MIG-2", "b"))
        supervisor = self.supervise("--mps", "--mps-shares", "70,30")
        self.wait_for(lambda: len(self.workers()) == 3)
        for worker, said in (("a.MIG-1.0", "a 0 MIG-1 70\n"), ("a.MIG-1.1", "a 1 MIG-1 30\n"),
                             ("b.MIG-2.0", "b 0 MIG-2\n")):
            self.wait_for(lambda: self.read(f"worker-logs/{worker}.log") == said)
        daemon = int(self.read("run/MIG-1/pipe/nvidia-cuda-mps-control.pid"))
        self.assertTrue(self.alive(daemon))
        self.assertFalse(os.path.exists(self.path("run/MIG-2")))
        self.finish(supervisor, signal.SIGTERM)
        self.assertFalse(self.alive(daemon))

    def test_refuses(self):
        self.assign(segment("MIG-1", "a"))
        for args, message in ((("--command", "x {serivce}"), "unknown placeholder '{serivce}'"),
                              ((), "--command: is required"),
                              (("--command", "x", "--mps-shares", "70,40"), "110 % of the")):
            done = self.run_partita("workers", "--assignment", "assignment.json", *args)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr.decode())
        self.assertFalse(os.path.exists(self.path("workers.json")))


if __name__ == "__main__":
    unittest.main()
