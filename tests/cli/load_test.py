"""partita load against a small server: what is sent, what is counted, and what the simulator
expects of the same requests."""

import json
import shutil
import signal
import subprocess
import time
import unittest

import harness
from harness import CliTest
from oip_server import serving


class LoadTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write_services("name: chat, model: small, rate_rps: 60, slo_ms: 2000",
                            "name: search, model: large, rate_rps: 25, slo_ms: 3000, "
                            "arrivals: {mmpp: {peak: 3, seconds: 0.2, every: 1}}")

    def load(self, url, *more, status=0):
        return self.json("load", "--url", url, "--services", "services.yaml", "--duration", "2s",
                         *more, status=status)

    def test_sends_what_the_simulator_plays_and_compares(self):
        self.write("plan.json", self.ok(*self.plan_args("--format", "json")))
        for seed in ("1", "5"):
            simulated = self.json(*self.on_plan("simulate", "plan.json", "--duration", "2s",
                                                "--seed", seed))["services"]
            with serving() as (url, requests):
                report = self.load(url, "--plan", "plan.json", "--profiles", "profiles.csv",
                                   "--seed", seed, "--require", "0.9")
            self.assertEqual([one["offered"] for one in report["services"]],
                             [one["offered"] for one in simulated])
            self.assertEqual([one["predicted_p99_ms"] for one in report["services"]],
                             [one["p99_ms"] for one in simulated])
            self.assertEqual(len(requests), sum(one["offered"] for one in simulated))
            for one in report["services"]:
                self.assertEqual(one["completed"], one["offered"])
                self.assertGreaterEqual(one["p50_ms"], 2)
                path = f"/v2/models/{one['name']}/infer"
                self.assertEqual(sum(path == sent for sent, _, _ in requests), one["offered"])

    def test_a_request_is_in_the_binary_form(self):
        self.write_secret("token", "secret\n")
        with serving() as (url, requests):
            self.load(url + "/", "--token-file", "token")
        for _, headers, body in requests:
            self.assertEqual(headers["Authorization"], "Bearer secret")
            length = int(headers["Inference-Header-Content-Length"])
            [tensor] = json.loads(body[:length])["inputs"]
            self.assertEqual(tensor, {"name": "x", "datatype": "FP32", "shape": [1, 2, 2],
                                      "parameters": {"binary_data_size": 16}})
            self.assertEqual(len(body) - length, 16)

    def test_nothing_asked_and_broken_off_keep_no_requirement(self):
        self.write_services("name: chat, model: small, rate_rps: 0.001, slo_ms: 2000")
        with serving() as (url, _):
            for form in ("json", "text"):
                done = self.run_partita("load", "--url", url, "--services", "services.yaml",
                                        "--duration", "100ms", "--require", "0.99", "--format",
                                        form)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("nothing was asked", done.stderr.decode())
                self.assertNotIn("100.00 %", done.stdout.decode())
            self.load(url)
            self.write_services("name: chat, model: small, rate_rps: 60, slo_ms: 2000")
            for more, status in (((), 0), (("--require", "0.5"), 1)):
                load = subprocess.Popen(
                    [harness.PROGRAM, "load", "--url", url, "--services", "services.yaml",
                     "--duration", "60s", "--format", "json", *more], cwd=self.folder,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                time.sleep(1.5)
                load.send_signal(signal.SIGINT)
                out, _ = load.communicate(timeout=30)
                self.assertEqual(load.returncode, status)
                self.assertTrue(json.loads(out)["stopped"])

    def test_a_simulation_of_nothing_keeps_no_requirement(self):
        self.write("plan.json", self.ok(*self.plan_args("--format", "json")))
        none = self.on_plan("simulate", "plan.json", "--duration", "1s", "--load", "0.000001")
        done = self.run_partita(*none, "--require", "0.99")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing is asked", done.stderr.decode())
        self.ok(*none)

    def test_what_nobody_answers_is_no_measurement(self):
        with serving(lambda number: (401, 0)) as (url, requests):
            done = self.run_partita("load", "--url", url, "--services", "services.yaml",
                                    "--duration", "300ms")
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr.decode(),
                         r"service chat: all \d+ requests failed, the first: status 401")
        self.assertRegex(done.stdout.decode(), r"(?m)^chat .* - +- +-$")
        self.write("llm.yaml", "services: [{name: chat, kind: llm, model: m, rate_rps: 50, "
                   "slo: {ttft_ms: 800}, tokens: {in: 10, out: 10}}]")
        done = self.run_partita("load", "--openai", "http://127.0.0.1:1", "--services",
                                "llm.yaml", "--duration", "300ms")
        self.assertEqual(done.returncode, 3)
        self.assertIn("the connection was refused, or broke", done.stderr.decode())

    def test_refusals_and_failures_are_told_and_required_shares_are_kept(self):
        with serving(lambda number: ((200, 503, 429, 500)[number % 4], 0)) as (url, requests):
            report = self.load(url, "--load", "0.5")
            done = self.run_partita("load", "--url", url, "--services", "services.yaml",
                                    "--duration", "500ms", "--require", "0.9")
        services = report["services"]
        total = {key: sum(one[key] for one in services)
                 for key in ("offered", "completed", "refused", "failed", "reset")}
        self.assertEqual(total["completed"] + total["refused"] + total["failed"], total["offered"])
        self.assertAlmostEqual(total["refused"], total["offered"] / 2, delta=1)
        self.assertEqual(total["reset"], 0)
        self.assertIsNone(services[0]["predicted_p99_ms"])
        self.assertEqual({one.get("first_failure") for one in services}, {"status 500"})
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"service chat: slo_attainment: have", done.stderr)
        self.assertIn(b"SERVICE", done.stdout)

    def test_the_server_scenario_is_valid_or_not(self):
        scenario = ("--scenario", "server", "--model", "m", "--target-qps", "100",
                    "--duration", "1s", "--min-requests", "120", "--format", "json")
        with serving() as (url, _):
            valid = self.ok("load", "--url", url, *scenario, "--latency-bound", "3s")
            late = self.ok("load", "--url", url, *scenario, "--latency-bound", "1ms", status=1)
        report = json.loads(valid)
        self.assertTrue(report["server"]["valid"])
        self.assertGreaterEqual(report["services"][0]["offered"], 120)
        self.assertGreaterEqual(report["server"]["p99_ms"], 2)
        self.assertFalse(json.loads(late)["server"]["valid"])
        self.assertIn("the bound is 1 ms", json.loads(late)["server"]["reasons"][0])

    def test_speaks_tls_to_whom_it_trusts(self):
        if shutil.which("openssl") is None:
            self.skipTest("the program openssl, which makes certificates, is missing")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", "key.pem", "-out", "cert.pem"],
                       cwd=self.folder, check=True, capture_output=True)
        self.write("both.pem", self.read("key.pem") + self.read("cert.pem"))
        with serving(certificate=self.path("both.pem")) as (url, requests):
            report = self.load(url, "--tls-ca", "cert.pem", "--load", "0.3")
            self.assertEqual(len(requests), sum(one["completed"] for one in report["services"]))
            self.assertGreater(len(requests), 20)
            self.load(url, "--insecure", "--load", "0.1")
            done = self.run_partita("load", "--url", url, "--services", "services.yaml")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(b"its certificate: self", done.stderr)

    def test_refuses(self):
        self.write_secret("token", "two words")
        base = ("load", "--url", "http://127.0.0.1:1", "--services", "services.yaml")
        for args, status, words in (
                (base, 3, "127.0.0.1:1/v2/models/chat: "),
                (("load", "--url", "127.0.0.1:1", "--services", "services.yaml"), 2, "--url: "),
                (("load", "--url", "http://127.0.0.1:1"), 2, "--services: is required"),
                ((*base, "--plan", "plan.json"), 2, "needs both --plan and --profiles"),
                ((*base, "--duration", "0s"), 2, "--duration: "),
                ((*base, "--token-file", "token"), 2, "its first line is not a token"),
                ((*base, "--what-if", "chta=3"), 2, "did you mean 'chat'"),
                ((*base, "--scenario", "server"), 2, "--model: is needed")):
            done = self.run_partita(*args)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(words, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
