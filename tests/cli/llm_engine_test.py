"""The real engine of tools/llm_engine, where tools/get_llm_engine has fetched llama.cpp: it
streams, batches, counts, lets go of what is left, and is served by the gateway."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import threading

from gateway_harness import GatewayCase
from harness import PROGRAM

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(PROGRAM)))
ADDON = os.environ.get("PARTITA_LLM_ENGINE", os.path.join(BUILD, "llm_engine"))
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "llm_engine")


def events_of(text):
    assert text.endswith("data: [DONE]\n\n"), text
    return [json.loads(event.removeprefix("data: ")) for event in text.split("\n\n")[:-2]]


class LlmEngineTest(GatewayCase):
    def setUp(self):
        super().setUp()
        model = self.path("tiny.gguf")
        subprocess.run(["node", os.path.join(TOOLS, "make_model.mjs"), model, "--layers", "2",
                        "--width", "128"], check=True)
        log = open(self.path("engine.log"), "w")
        self.children.append(subprocess.Popen(
            ["node", os.path.join(TOOLS, "server.mjs"), "--addon", ADDON, "--model", model,
             "--sequences", "4", "--context", "512", "--step-tokens", "64"], stdout=log,
            stderr=subprocess.STDOUT))
        log.close()
        self.until(lambda: "listening at" in self.read("engine.log"), "the engine")
        self.engine = int(self.read("engine.log").split(":")[-1])

    def ask(self, body, path="/v1/completions", port=None):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.engine, timeout=60)
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def running(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.engine, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return sum(float(line.split()[-1]) for line in text.splitlines())

    def test_words_are_tokens_and_all_are_counted(self):
        ask = {"prompt": "the of and to", "max_tokens": 7, "ignore_eos": True, "stream": True,
               "stream_options": {"include_usage": True}}
        status, text = self.ask(ask)
        self.assertEqual(status, 200)
        usage = events_of(text)[-1]["usage"]
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"]), (5, 7))
        again = events_of(self.ask(ask)[1])[-1]["usage"]  # of a prompt the last token is computed
        self.assertEqual(again["prompt_tokens_details"]["cached_tokens"], 4)
        chat = {"messages": [{"role": "user", "content": "what"}], "max_tokens": 3,
                "ignore_eos": True}
        whole = json.loads(self.ask(chat, "/v1/chat/completions")[1])
        self.assertEqual(whole["usage"]["completion_tokens"], 3)
        self.assertEqual(whole["choices"][0]["finish_reason"], "length")

    def test_what_cannot_be_is_refused(self):
        for body, path, status in (
                ({"prompt": "the " * 510, "max_tokens": 9}, "/v1/completions", 400),
                ({"prompt": "a", "max_tokens": 0}, "/v1/completions", 400),
                ({"max_tokens": 1}, "/v1/chat/completions", 400), ([], "/v1/completions", 400),
                ({}, "/v1/embeddings", 404)):
            got, text = self.ask(body, path)
            self.assertEqual((got, "error" in json.loads(text)), (status, True), text)

    def test_more_than_fit_wait_and_all_are_answered(self):
        answers = {}

        def one(i):
            answers[i] = self.ask({"prompt": "word " * (5 + 13 * i), "max_tokens": 5 + i,
                                   "ignore_eos": True, "stream": True,
                                   "stream_options": {"include_usage": True}})

        threads = [threading.Thread(target=one, args=(i,)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for i, (status, text) in answers.items():
            self.assertEqual(status, 200)
            self.assertEqual(events_of(text)[-1]["usage"]["completion_tokens"], 5 + i)
        self.assertEqual((len(answers), self.running()), (10, 0))

    def test_whoever_leaves_is_let_go(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.engine, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps(
            {"prompt": "the", "max_tokens": 500, "ignore_eos": True, "stream": True}))
        connection.getresponse().read(100)
        self.assertEqual(self.running(), 1)
        connection.sock.close()
        connection.close()
        self.until(lambda: self.running() == 0, "the end of its request")

    def test_it_is_measured_and_served(self):
        self.ok("profile", "measure", "--openai", f"http://127.0.0.1:{self.engine}", "--told",
                "system=CPU-2", "--told", "profile=1u", "--told", "step_tokens=64",
                "--token-shapes", "16/8,64/8,16/24", "--in-flight", "1,4", "-o", "points.csv")
        self.write("services.yaml", """
services: [{name: chat, kind: llm, model: tiny, rate_rps: 1, slo: {ttft_ms: 20000, tpot_ms: 5000},
            tokens: {in: 20, out: 8}}]
""")
        self.ok("plan", "--services", "services.yaml", "--profiles", "points.csv", "--gpu", "CPU-2",
                "--format", "json", "-o", "plan.json")
        self.gateway("--services", self.path("services.yaml"), "--engine",
                     f"chat=http://127.0.0.1:{self.engine}")
        self.until(lambda: self.listens() and self.get("/v2/health/ready")[0] == 200, "the engine")
        chat = self.json("load", "--openai", f"http://127.0.0.1:{self.port}", "--services",
                         "services.yaml", "--plan", "plan.json", "--profiles", "points.csv",
                         "--duration", "5s")["services"][0]
        self.assertEqual(chat["offered"], chat["completed"])
        self.assertEqual(chat["tokens_out"], 8 * chat["completed"])
        self.assertGreater(chat["predicted"]["ttft_ms"]["p50"], 0)


if __name__ == "__main__":
    if shutil.which("node") is None or not os.path.exists(os.path.join(ADDON, "llama-addon.node")):
        print("skipped: llama.cpp is not here (tools/get_llm_engine)")
        sys.exit(77)
    import unittest
    unittest.main()
