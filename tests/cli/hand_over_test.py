"""Gateways of two nodes that hand requests over to each other: processes of their own, with TLS and
tokens, and a peers.json as an agent writes it."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import unittest

from gateway_harness import GatewayCase
from harness import PROGRAM

WORKER = (PROGRAM + " worker --null --service {service} --batch {batch} --input x:FP32:2"
          " --output-tensor y:FP32:2 --item-us 100")
TOKEN = "token-of-a-shop-with-limits"


class HandOverTest(GatewayCase):
    def setUp(self):
        super().setUp()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=partita", "-keyout",
                        "key.pem", "-out", "ca.pem"], cwd=self.folder, check=True,
                       capture_output=True)
        self.write_secret("tokens", f"{TOKEN} s at-once=4\n")
        self.write_secret("peers", "the-secret-of-the-gateways\n")
        os.chmod(self.path("key.pem"), 0o600)
        self.trust = ssl.create_default_context(cafile=self.path("ca.pem"))
        self.trust.check_hostname = False
        self.carries, self.entry = self.state, os.path.join(self.folder, "entry")
        os.mkdir(self.entry)

    def door(self, state):
        """A gateway on a port that the kernel chose: process and port."""
        self.state = state
        log = self.path(f"gateway-{os.path.basename(state)}.log")
        self.start("gateway", "--http", "127.0.0.1:0", "--tokens", self.path("tokens"),
                   "--tls-cert", self.path("ca.pem"), "--tls-key", self.path("key.pem"),
                   "--tls-ca", self.path("ca.pem"), "--peer-token", self.path("peers"))
        os.rename(self.path("gateway.log"), log)
        line = "listening at https://127.0.0.1:"

        def listens():
            with open(log, encoding="utf-8") as file:
                return line in file.read()
        self.until(listens, "a gateway")
        with open(log, encoding="utf-8") as file:
            port = int(file.read().split(line)[1].split(",")[0])
        return self.children[-1], port

    def tell(self, state, node, **ports):
        peers = [{"node": name, "http": f"127.0.0.1:{port}",
                  "carries": [{"service": "s", "share": 1}]} for name, port in ports.items()]
        path = os.path.join(state, "peers.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"api_version": "partita/v1", "kind": "GatewayPeers", "node": node,
                       "peers": peers, "wanted": ["s"]}, file)
        os.rename(path + ".new", path)

    def ask(self, port, number, service="s"):
        question = [float(number), 0.5]
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32",
                                       "data": question}]})
        client = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=self.trust)
        try:
            client.request("POST", f"/v2/models/{service}/infer", body,
                           {"Authorization": f"Bearer {TOKEN}"})
            answer = client.getresponse()
            text = answer.read()
        finally:
            client.close()
        if answer.status == 200:
            self.assertEqual(json.loads(text)["outputs"][0]["data"], question)
        return answer.status

    def uncarried(self):
        with open(os.path.join(self.entry, "gateway.json"), encoding="utf-8") as file:
            return {one["service"]: round(one["asked_rps"], 9)
                    for one in json.load(file).get("uncarried", [])}

    def test_a_node_without_the_service_answers_by_another_until_that_is_gone(self):
        self.assign(1, ("d", "s", 4, 1))
        carries, port = self.door(self.carries)
        self.start("workers", "--command", WORKER)
        self.until_ready(("d", 0))
        _, entry = self.door(self.entry)
        self.assertEqual(self.ask(entry, 1), 404)  # nobody told it of others
        self.tell(self.entry, "n1", n2=port)
        self.tell(self.carries, "n2", n1=entry)
        asked = []  # and answered by 200, or by 503 as nobody carries it
        def answered():
            asked.append(self.ask(entry, 2))
            return asked[-1] == 200
        self.until(answered, "the other's answer")
        for number in range(20):
            self.assertEqual(self.ask(entry, number), 200)
        self.assertEqual(self.ask(entry, 1, "other"), 403)
        os.kill(carries.pid, signal.SIGKILL)
        carries.wait()
        for number in (3, 4):  # the first may find the way still open, and be lost with the node
            asked.append(self.ask(entry, number))
        self.assertEqual(asked[-2:], [503, 503])
        # Its agent hears what was asked for in vain: of the 15 s that count.
        told = [{"s": round((vain + 1) / 15, 9)} for vain in range(asked.count(503))]
        self.until(lambda: self.uncarried() in told, "what nobody carries")
        _, port = self.door(self.carries)  # its worker finds the way back
        self.tell(self.entry, "n1", n2=port)
        self.until(lambda: self.ask(entry, 5) == 200, "the way back")

    def test_what_cannot_be_is_said(self):
        self.write_secret("short", "short\n")
        for words, why in ((("--peer-token", "short"), "short:1: a token has 16 to 512 characters"),
                           (("--peer-token", "nowhere"), "nowhere"),
                           (("--tls-ca", "ca.pem"), "--peer-token")):
            done = self.run_partita("gateway", "--state-dir", "s", "--http", "127.0.0.1:0", *words)
            self.assertEqual(done.returncode, 2, done.stderr.decode())
            self.assertIn(why, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
