"""What reaches the server behind a forwarding worker, through the gateway, over the link and out
again: the trace context of a request, and tensors of text."""

import json
import os
import struct
import threading
import unittest

from gateway_harness import GatewayCase
from servers import Answers, started

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Echo(Answers):
    """A model whose outputs are its inputs, in the binary form; and a chat."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def send(self, head, binary=b""):
        text = json.dumps(head).encode()
        self.answer(200, text + binary, inference_header_content_length=len(text))

    def do_GET(self):
        kind = "BYTES" if self.path.endswith("/text") else "FP32"
        tensors = [{"name": "x", "datatype": kind, "shape": [-1, 2]}]
        self.send({"name": "m", "inputs": tensors,
                   "outputs": [dict(tensor, name="y") for tensor in tensors]})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.headers.append(dict(self.headers))
        if "/v1/" in self.path:
            return self.send({"choices": []})
        size = int(self.headers["Inference-Header-Content-Length"])
        asked = json.loads(body[:size])
        outputs = [{"name": "y", "datatype": tensor["datatype"], "shape": tensor["shape"],
                    "parameters": tensor["parameters"]} for tensor in asked["inputs"]]
        return self.send({"outputs": outputs}, body[size:])


class ForwardTest(GatewayCase):
    def setUp(self):
        super().setUp()
        self.server = started(Echo, lock=threading.Lock(), headers=[])
        self.log = os.path.join(self.folder, "access.log")

    def tearDown(self):
        super().tearDown()
        self.server.shutdown()
        self.server.server_close()

    def forward(self, service, *more):
        url = f"http://127.0.0.1:{self.server.server_port}"
        self.start("worker", "--forward", url, "--service", service, "--batch", "4", *more)
        self.until(lambda: self.get(f"/v2/models/{service}/ready")[0] == 200, "the worker")

    def logged(self):
        try:
            with open(self.log) as file:
                lines = [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [line for line in lines if line["method"] == "POST"]

    def traced(self, *flags):
        """Two requests with a trace and two without, to both kinds of workers: what the server saw
        of them in their order, and their lines of the access log."""
        self.assign(1, ("d", "m", 4, 1), ("e", "chat", 4, 1))
        self.gateway("--access-log", self.log, *flags)
        self.until(self.listens, "the gateway")
        self.forward("m")
        self.forward("chat", "--openai")
        self.server.headers.clear()  # of the warm-up
        infer = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32",
                                        "data": [1, 2]}]})
        chat = json.dumps({"model": "chat", "messages": []})
        for headers in ({"traceparent": PARENT, "tracestate": "a=1,b=2"}, {}):
            for path, body in (("/v2/models/m/infer", infer), ("/v1/chat/completions", chat)):
                self.assertEqual(self.post(path, body, headers)[0], 200)
        self.until(lambda: len(self.logged()) == 4, "the access log")
        self.assertEqual(len(self.server.headers), 4)
        return self.server.headers, self.logged()

    def test_a_trace_is_passed_on_and_none_is_invented(self):
        seen, lines = self.traced()
        for headers, line in zip(seen[:2], lines[:2]):
            self.assertEqual(headers["traceparent"], PARENT)
            self.assertEqual(headers["tracestate"], "a=1,b=2")
            self.assertEqual(line["traceparent"], PARENT)
            self.assertEqual(line["trace_id"], PARENT[3:35])
        for headers, line in zip(seen[2:], lines[2:]):
            self.assertFalse({"traceparent", "tracestate"} & set(headers), headers)
            self.assertFalse({"traceparent", "trace_id"} & set(line), line)

    def test_new_traces_where_they_are_asked_for(self):
        seen, lines = self.traced("--new-traces")
        self.assertEqual([headers["traceparent"] for headers in seen[:2]], [PARENT, PARENT])
        for headers, line in zip(seen[2:], lines[2:]):
            self.assertRegex(headers["traceparent"], "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$")
            self.assertEqual(line["traceparent"], headers["traceparent"])
            self.assertNotIn("tracestate", headers)
        self.assertEqual(len({line["trace_id"] for line in lines}), 3)

    def test_text_in_both_forms_through_a_server_and_without_one(self):
        self.assign(1, ("d", "text", 4, 1), ("e", "null", 4, 1))
        self.gateway()
        self.until(self.listens, "the gateway")
        self.forward("text", "--text-bytes", "16")
        self.start("worker", "--null", "--service", "null", "--input", "x:BYTES:2",
                   "--output-tensor", "y:BYTES:2", "--text-bytes", "16", "--batch", "4")
        self.until(lambda: self.get("/v2/models/null/ready")[0] == 200, "the worker")
        words = ["a", "\u00e4\n\"", "", "sixteen bytes ok"]
        elements = b"".join(struct.pack("<I", len(word.encode())) + word.encode()
                            for word in words)
        tensor = {"name": "x", "shape": [2, 2], "datatype": "BYTES"}
        for service in ("text", "null"):
            path = f"/v2/models/{service}/infer"
            status, text = self.post(path, json.dumps({"inputs": [dict(tensor, data=words)]}), {})
            self.assertEqual(status, 200, text)
            self.assertEqual(json.loads(text)["outputs"][0]["data"], words)
            head = json.dumps({"inputs": [dict(tensor, parameters={
                "binary_data_size": len(elements)})], "parameters": {"binary_data_output": True}})
            status, text = self.post(path, head.encode() + elements,
                                     {"Inference-Header-Content-Length": str(len(head))})
            self.assertEqual(status, 200, text)
            self.assertTrue(text.endswith(b"]}" + elements), text)
            status, text = self.post(path, json.dumps(
                {"inputs": [dict(tensor, data=words[:3] + ["seventeen bytes !"])]}), {})
            self.assertEqual(status, 400, text)
            self.assertIn("a row with more than 16 bytes of text", json.loads(text)["error"])
        self.write("s.yaml", "services:\n  - {name: text, model: text, rate_rps: 20, "
                   "slo_ms: 10000}\n")
        report = self.json("load", "--url", f"http://127.0.0.1:{self.port}", "--services", "s.yaml",
                           "--duration", "1s")
        asked = report["services"][0]
        self.assertGreater(asked["offered"], 0)
        self.assertEqual(asked["completed"], asked["offered"], asked)


if __name__ == "__main__":
    unittest.main()
