"""Engines of language models measured from outside: percentiles, open loops, what fits in the KV
cache; and plans that go by what was measured of it."""

import csv
import io
import json
import os
import subprocess

from gateway_harness import GatewayCase
from harness import PROGRAM
from llm_gateway_test import free_port, listens

HEADER = ("system,backend,version,model,precision,isl,osl,concurrency,tp,pp,attention_dp,moe_tp,"
          "moe_ep,ttft_ms,tpot_ms")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def points(model, profile="", columns="", cells=lambda ttft, tpot: "", weights=""):
    """Of an engine of 10 ms a step and 0.1 ms a token of a prompt, in loops of their own."""
    extra = f"{',profile' if profile else ''}{',weights_mib' if weights else ''}{columns}\n"
    text = HEADER + extra
    for tokens_in, tokens_out in ((256, 64), (1024, 64), (1024, 256)):
        for flight in (1, 4):
            ttft = 10 + 0.1 * tokens_in * (1 + 0.4 * (flight - 1))
            tpot = 10 + 0.1 * tokens_in * (flight - 1) / tokens_out + 0.2 * flight
            text += (f"H100-80GB-SXM5,vllm,1,{model},fp8,{tokens_in},{tokens_out},{flight},1,,,,,"
                     f"{ttft},{tpot}{',' + profile if profile else ''}"
                     f"{',' + weights if weights else ''}{cells(ttft, tpot)}\n")
    return text


class LlmMeasureTest(GatewayCase):
    def engine(self, *more):
        port = free_port()
        with open(self.path("engine.log"), "a") as log:
            self.children.append(subprocess.Popen(
                [PROGRAM, "engine", "--listen", f"127.0.0.1:{port}", "--model", "chat", *more],
                stdout=log, stderr=log))
        self.until(lambda: listens(port), "the engine's address")
        return f"http://127.0.0.1:{port}"

    def measure(self, url, *more):
        return self.ok("profile", "measure", "--openai", url, "--told", "system=CPU-2", "--told",
                       "step_tokens=256", "-o", "points.csv", *more)

    def test_runs_are_imported_for_a_gpu_that_there_is(self):
        self.write("run.json", "{}")
        done = self.run_partita("profile", "import", "run.json", "--form", "vllm", "--gpu", "H100")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr.decode(), "--gpu.*H100.*H100-80GB-SXM5")

    def test_of_a_folder_what_can_be_taken_is_imported(self):
        run = {"model_id": "m", "max_concurrency": 8, "completed": 80, "duration": 10,
               "total_input_tokens": 40000, "total_output_tokens": 8000, "mean_ttft_ms": 80,
               "mean_tpot_ms": 9.5}
        os.mkdir(self.path("runs"))
        for name, said in (("a", run), ("b", {**run, "mean_tpot_ms": None}),
                           ("c", {**run, "max_concurrency": 4})):
            self.write(f"runs/{name}.json", json.dumps(said))
        arguments = ("profile", "import", "runs", "--form", "vllm", "--gpu", "H100-80GB-SXM5",
                     "--told", "tp=1", "-o", "points.csv")
        done = self.run_partita(*arguments)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr.decode(), "left out: runs/b.json.*per token(.|\n)*1 of 3")
        self.assertEqual(len(rows_of(self.read("points.csv"))), 2)
        os.remove(self.path("runs/b.json"))
        self.assertEqual(self.run_partita(*arguments).returncode, 0)

    def services(self, model, slo="{ttft_ms: 600, tpot_ms: 30, percentile: 95}", rate=4):
        self.write("services.yaml", f"""
services:
  - {{name: chat, kind: llm, model: {model}, rate_rps: {rate}, slo: {slo},
     tokens: {{in: 512, out: 64}}}}
""")

    def plan(self):
        return self.run_partita("plan", "--services", "services.yaml", "--profiles", "points.csv",
                                "--gpu", "H100-80GB-SXM5", "--format", "json")

    def test_percentiles_and_open_loops(self):
        url = self.engine("--step-cost", "step=5,sequence=0.1,prompt_token=0.05", "--step-tokens",
                          "256")
        self.measure(url, "--token-shapes", "40/10,160/10,40/20", "--in-flight", "1,10")
        self.measure(url, "--token-shapes", "40/10", "--in-flight", "1,10", "--rates", "auto")
        rows = rows_of(self.read("points.csv"))
        closed = [row for row in rows if not row["rate_rps"]]
        opened = [row for row in rows if row["rate_rps"]]
        self.assertEqual(len(closed), 6)
        self.assertEqual(len(opened), 3)
        for row in rows:
            times = [float(row[f"tpot_p{p}_ms"]) for p in (50, 90)]
            self.assertGreater(times[0], 4.9)
            self.assertEqual(times, sorted(times))
            self.assertGreater(float(row["itl_ms"]), 4.5)
            # Nobody can say a p99 of ten requests.
            many = row["rate_rps"] or row["concurrency"] == "10"
            self.assertEqual(row["ttft_p99_ms"] != "", bool(many))
        for row in opened:
            self.assertGreaterEqual(float(row["concurrency"]), 1)
        again = self.measure(url, "--token-shapes", "40/10", "--in-flight", "1", "--rates",
                             opened[0]["rate_rps"])
        self.assertIn("0 of them new", again)
        text = self.ok("profile", "measure", "--openai", url, "--told", "system=CPU-2", "--told",
                       "step_tokens=256", "--token-shapes", "80/10", "--rates", "30", "--against",
                       "points.csv")
        self.assertRegex(text, r"80/10 +30/s .*%\)")

    def test_what_fits_is_read_where_the_engine_says_it(self):
        url = self.engine("--kv-tokens", "12800")
        self.measure(url, "--token-shapes", "40/4", "--in-flight", "1")
        self.assertIn("kv_tokens: 12800, as its metrics say", self.measure(url, "--kv-probe"))
        self.assertEqual([row["kv_tokens"] for row in rows_of(self.read("points.csv"))], ["12800"])

    def test_what_fits_is_found_where_it_does_not(self):
        url = self.engine("--kv-tokens", "12800", "--no-metrics", "--step-cost",
                          "step=2,sequence=0.01,prompt_token=0.002")
        said = self.measure(url, "--kv-probe")
        found = int(said.split("kv_tokens: ")[1].split(",")[0])
        self.assertLessEqual(found, 12800)
        self.assertGreaterEqual(found, 0.95 * 12800, said)
        self.assertIn("a little more was not", said)
        self.assertFalse(os.path.exists(self.path("points.csv")))

    def test_a_promise_gets_safer_by_percentiles(self):
        """The slower half of the requests was twice as slow as a simulation has it."""
        self.services("m")
        found = {}
        for name, columns, cells in (
                ("means", "", lambda ttft, tpot: ""),
                ("fast", ",ttft_p99_ms,tpot_p99_ms", lambda ttft, tpot: f",{ttft / 9},{tpot / 9}"),
                ("slow", ",ttft_p99_ms,tpot_p99_ms", lambda ttft, tpot: f",{9 * ttft},{2 * tpot}")):
            self.write("points.csv", points("m", columns=columns, cells=cells))
            done = self.plan()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.write("plan.json", done.stdout.decode())
            self.ok("verify", "plan.json", "--services", "services.yaml", "--profiles",
                    "points.csv")
            found[name] = json.loads(done.stdout)["objective"]["gpus"]
        self.assertEqual(found["fast"], found["means"])
        self.assertGreater(found["slow"], found["means"])
        # And a plan by means alone is none by percentiles.
        self.write("points.csv", points("m"))
        self.write("plan.json", self.plan().stdout.decode())
        self.write("points.csv", points("m", columns=",tpot_p99_ms",
                                        cells=lambda ttft, tpot: f",{4 * tpot}"))
        done = self.run_partita("verify", "plan.json", "--services", "services.yaml", "--profiles",
                                "points.csv")
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_errors_at_percentiles_are_shown(self):
        text = HEADER + ",ttft_p99_ms\n"
        for row in rows_of(points("m")):
            cells = list(row.values())
            text += ",".join(cells + [str(3 * float(row["ttft_ms"]))]) + "\n"
            for flight in ("2", "3"):
                cells[7] = flight
                text += ",".join(cells + [""]) + "\n"
        self.write("points.csv", text)
        report = self.ok("profile", "law", "points.csv", "--kind", "llm", "--format", "json")
        tails = json.loads(report)["by_configuration"][0]["tails"]
        self.assertEqual(tails["percentiles"], 6)
        self.assertLess(tails["ttft_lowest"], -0.3)
        self.write("law.json", report)
        self.assertIn("simulated percentiles", self.ok("show", "law.json"))

    def test_a_model_is_not_put_where_it_does_not_fit(self):
        self.services("org/llama-70b")
        self.write("points.csv", points("org/llama-70b", profile="1g.10gb"))
        done = self.plan()
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("an instance of 1g.10gb has", done.stderr.decode())
        self.write("points.csv", points("org/llama-70b", profile="1g.10gb", weights="9000"))
        done = self.plan()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("do not say kv_tokens", done.stderr.decode())
        self.write("points.csv", points("org/llama-70b", weights="140000"))
        self.assertIn("140000 MiB", self.plan().stderr.decode())
