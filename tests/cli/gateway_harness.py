"""A gateway and its workers in a state directory of their own, for tests of what goes
through them."""

import http.client
import json
import os
import socket
import subprocess
import time

from harness import PROGRAM, CliTest


def assignment(revision, *segments):
    """Segments are (device, service, batch, processes)."""
    names = sorted({segment[1] for segment in segments})
    return {"api_version": "partita/v1", "kind": "Assignment", "revision": revision,
            "segments": [{"device": device, "gpu_uuid": "GPU-0", "profile": "1g.10gb",
                          "start": ord(device[0]) % 8,
                          "service": service, "batch": batch, "processes": processes}
                         for device, service, batch, processes in sorted(segments)],
            "services": [{"name": name, "model": name, "slo_ms": 10_000, "percentile": 99,
                          "rate_rps": 100} for name in names]}


class GatewayCase(CliTest):
    """A gateway with a state directory of its own."""

    def setUp(self):
        super().setUp()
        self.state = os.path.join(self.folder, "s")
        os.mkdir(self.state)
        self.children = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def tearDown(self):
        for child in self.children:
            if child.poll() is None:
                child.terminate()
        for child in self.children:
            child.wait(60)
        super().tearDown()

    def start(self, *arguments):
        log = open(os.path.join(self.folder, arguments[0] + ".log"), "a")
        child = subprocess.Popen([PROGRAM, *arguments, "--state-dir", self.state], stdout=log,
                                 stderr=log)
        log.close()
        self.children.append(child)
        return child

    def gateway(self, *arguments):
        return self.start("gateway", "--http", f"127.0.0.1:{self.port}", *arguments)

    def assign(self, *what):
        path = os.path.join(self.state, "assignment.json")
        with open(path + ".new", "w") as file:
            json.dump(assignment(*what), file)
        os.rename(path + ".new", path)

    def workers(self):
        """(device, index) -> pid of those that are ready, as the gateway says."""
        try:
            with open(os.path.join(self.state, "gateway.json")) as file:
                state = json.load(file)
        except (FileNotFoundError, ValueError):
            return {}
        return {(worker["device"], worker["index"]): worker["pid"]
                for worker in state["workers"] if worker["state"] == "ready"}

    def until(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, "waited in vain for " + what)
            time.sleep(0.01)

    def until_ready(self, *places):
        self.until(lambda: set(self.workers()) == set(places), f"workers at {places}")

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        status, text = answer.status, answer.read().decode()
        connection.close()
        return status, text

    def post(self, path, body, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        status, text = answer.status, answer.read()
        connection.close()
        return status, text

    def listens(self):
        try:
            return self.get("/v2/health/live")[0] == 200
        except OSError:
            return False
