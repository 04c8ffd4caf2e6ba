"""partita gateway with real workers (the null engine, which echoes): a load of checked requests
while workers are killed, replaced and moved, while the gateway is killed and started again, and
when it is asked to stop. Every answer must be that of its own request."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

from gateway_harness import GatewayCase, assignment
from harness import PROGRAM, source_text

WORKER = (PROGRAM + " worker --null --service {service} --batch {batch} --input x:FP32:2"
          " --output-tensor y:FP32:2 --item-us 300")


class Client(threading.Thread):
    """Asks without a pause on one connection, and checks that the answer is its question's."""

    def __init__(self, port, number, service="s"):
        super().__init__(daemon=True)
        self.port, self.number, self.service = port, number, service
        self.statuses, self.refusals = {}, []
        self.resets, self.wrong, self.asked = 0, 0, 0
        self.longest = 0.0
        self.ending = threading.Event()

    def ask(self, connection):
        self.asked += 1
        question = [float(self.number), float(self.asked)]
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32",
                                       "data": question}]})
        begin = time.monotonic()
        connection.request("POST", f"/v2/models/{self.service}/infer", body)
        answer = connection.getresponse()
        text = answer.read()
        self.longest = max(self.longest, time.monotonic() - begin)
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        if answer.status == 200 and json.loads(text)["outputs"][0]["data"] != question:
            self.wrong += 1
        if answer.status != 200:
            self.refusals.append(text.decode())
            time.sleep(0.01)

    def run(self):
        connection = None
        while not self.ending.is_set():
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                self.ask(connection)
            except (OSError, http.client.HTTPException):
                self.resets += 1
                connection = None
                time.sleep(0.01)


class GatewayTest(GatewayCase):
    def clients(self, count):
        threads = [Client(self.port, number) for number in range(count)]
        for thread in threads:
            thread.start()
        return threads

    def finish(self, clients):
        for client in clients:
            client.ending.set()
        for client in clients:
            client.join(60)

    def test_ends_in_order_with_a_provider_and_a_collector(self):
        # Neither of which answers; their threads leave signals to who waits for them.
        self.write("keys.json", '{"keys":[{"kty":"EC","crv":"P-256",'
                   '"x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",'
                   '"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}')
        self.write("oidc.yaml", "issuer: https://id\naudience: a\njwks: keys.json\n"
                   "roles: {shop: s rps=10}\n")
        self.assign(1, ("d", "s", 4, 1))
        gateway = self.gateway("--oidc", self.path("oidc.yaml"), "--otlp", "http://127.0.0.1:1")
        self.until(lambda: self.status_of("/v2/health/live") == 200, "the gateway")
        self.assertEqual(self.status_of("/v2/models/s"), 401)
        gateway.send_signal(signal.SIGTERM)
        self.assertEqual(gateway.wait(60), 0)

    def test_a_cache_is_what_the_assignment_says_now(self):
        def serve(revision, **terms):
            one = assignment(revision, ("d", "s", 4, 1))
            one["services"][0].update(terms)
            self.write("s/assignment.json", json.dumps(one))

        def stats():
            return json.loads(self.get("/v2/models/s/stats")[1])["model_stats"][0]

        def hits_of(*values):
            before = stats()["inference_stats"]["cache_hit"]["count"]
            for value in values:
                status, text = self.post("/v2/models/s/infer", json.dumps({"inputs": [
                    {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [value, 1]}]}), {})
                self.assertEqual((status, json.loads(text)["outputs"][0]["data"]),
                                 (200, [value, 1]))
            return stats()["inference_stats"]["cache_hit"]["count"] - before

        def says(**wanted):
            self.until(lambda: wanted.items() <= stats().get("response_cache", {}).items(),
                       f"{wanted}, not {stats()}")

        serve(1)
        gateway = self.gateway()
        self.until(self.listens, "the gateway")
        self.start("workers", "--command", WORKER)
        self.until_ready(("d", 0))
        worker = self.workers()[("d", 0)]
        self.assertNotIn("response_cache", stats())
        self.assertEqual(hits_of(1, 1), 0)
        serve(2, cache={"memory_mib": 2})
        says(**{"from": "services", "memory_mib": 2, "ttl_s": 0, "shared": False, "answers": 0})
        self.assertEqual(hits_of(1, 1, 2, 1), 2)
        says(answers=2)
        serve(3, cache={"memory_mib": 2}, rate_rps=101)  # of another term nothing is forgotten
        self.until(lambda: 'partita_planned_rps{service="s"} 101\n' in self.get("/metrics")[1],
                   "the rate")
        self.assertEqual(hits_of(1, 2), 2)
        serve(4, cache={"memory_mib": 3.5, "ttl_s": 600, "shared": True})
        says(memory_mib=3.5, ttl_s=600, shared=True, answers=0)
        serve(5)
        self.until(lambda: "response_cache" not in stats(), "no cache")
        self.assertEqual(hits_of(1, 1), 0)
        self.assertEqual(self.workers()[("d", 0)], worker)
        serve(6, cache={"memory_mib": 2})
        gateway.terminate()
        gateway.wait(60)
        for flag, kept in (("s=5,1m", True), ("s=0", False)):
            gateway = self.gateway("--cache", flag)
            self.until(self.listens, "the gateway")
            self.until_ready(("d", 0))
            if kept:
                says(**{"from": "--cache", "memory_mib": 5, "ttl_s": 60})
            else:
                self.assertNotIn("response_cache", stats())
            self.assertEqual(hits_of(3, 3, 3), 2 if kept else 0)
            gateway.terminate()
            gateway.wait(60)

    def status_of(self, path):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return None

    def test_no_request_suffers_when_workers_die_or_move(self):
        self.assign(1, ("d", "s", 4, 2))
        self.gateway()
        self.start("workers", "--command", WORKER, "--grace", "30s")
        self.until_ready(("d", 0), ("d", 1))
        self.assertEqual(self.get("/v2/health/ready")[0], 200)
        clients = self.clients(4)
        for turn in range(3):
            time.sleep(0.2)
            old = self.workers()[("d", turn % 2)]
            os.kill(old, signal.SIGKILL)
            self.until(lambda: self.workers().get(("d", turn % 2), old) != old and
                       len(self.workers()) == 2, "another worker")
        time.sleep(0.2)
        # Moved: the new ones are there before the old ones go.
        self.assign(2, ("d", "s", 4, 2), ("e", "s", 8, 1))
        self.until_ready(("d", 0), ("d", 1), ("e", 0))
        self.assign(3, ("e", "s", 8, 1))
        self.until_ready(("e", 0))
        self.until(lambda: not self.workers_of("d"), "the old workers' end")
        time.sleep(0.2)
        self.finish(clients)
        for client in clients:
            self.assertEqual(set(client.statuses), {200}, client.refusals)
            self.assertEqual((client.wrong, client.resets), (0, 0))
        total = sum(client.statuses[200] for client in clients)
        metrics = self.get("/metrics")[1]
        self.assertIn(f'nv_inference_request_success{{model="s",version="1"}} {total}\n', metrics)
        # The board draws only what there is.
        for name in set(re.findall(r"\bpartita_[a-z_]+", source_text("packaging/grafana.json"))):
            self.assertIn(f"\n{name}{{", metrics)

    def workers_of(self, device):
        with open(os.path.join(self.state, "workers.json")) as file:
            return [w for w in json.load(file)["workers"] if w["device"] == device and w["pid"]]

    def test_a_killed_gateway_comes_back_without_its_workers_starting_again(self):
        self.assign(1, ("d", "s", 4, 1))
        gateway = self.gateway()
        self.start("workers", "--command", WORKER)
        self.until_ready(("d", 0))
        before = self.workers()
        clients = self.clients(2)
        time.sleep(0.3)
        gateway.kill()
        gateway.wait()
        gateway = self.gateway()
        self.until(lambda: self.workers() == before and self.answers(), "the same worker again")
        time.sleep(0.3)
        self.finish(clients)
        for client in clients:
            self.assertEqual(client.wrong, 0)
            self.assertLessEqual(set(client.statuses), {200, 503}, client.statuses)
            self.assertGreater(client.resets, 0)
        # Asked to stop, it answers what it has.
        clients = self.clients(2)
        time.sleep(0.2)
        gateway.terminate()
        self.assertEqual(gateway.wait(60), 0)
        self.finish(clients)
        for client in clients:
            self.assertLessEqual(set(client.statuses), {200, 503}, client.statuses)
            self.assertEqual(client.wrong, 0)
        self.assertFalse(os.path.exists(os.path.join(self.state, "gateway.json")))

    def answers(self):
        try:
            return self.get("/v2/models/s/ready")[0] == 200
        except OSError:
            return False  # it is not there yet

    def test_what_cannot_be_is_refused(self):
        self.assign(1, ("d", "s", 4, 1))
        self.gateway()
        self.until(self.listens, "the gateway")
        self.assertEqual(self.get("/v2/health/ready")[0], 503)  # no worker yet
        self.assertEqual(self.get("/v2/models/t")[0], 404)
        second = subprocess.run([PROGRAM, "gateway", "--state-dir", self.state, "--http",
                                 "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
        self.assertEqual(second.returncode, 3, second.stderr)
        open_to_all = subprocess.run([PROGRAM, "gateway", "--state-dir", self.folder, "--http",
                                      "0.0.0.0:0"], capture_output=True, text=True, timeout=60)
        self.assertEqual(open_to_all.returncode, 2, open_to_all.stderr)
        self.assertIn("tokens file", open_to_all.stderr)
        for origin in ("app.example.com", "https://app.example.com/", "https://App.example.com",
                       "null", "https://a.com/x", "https://*.a.com", "https://a.com:443"):
            done = subprocess.run([PROGRAM, "gateway", "--state-dir", self.folder, "--http",
                                   "127.0.0.1:0", "--allow-origin", origin], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("say SCHEME://HOST[:PORT] as browsers do, or '*'", done.stderr)


if __name__ == "__main__":
    unittest.main()
