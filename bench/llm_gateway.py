#!/usr/bin/env python3
"""What the gateway costs a streamed token, and what it adds to the time to the first one.

    bench/llm_gateway.py [PROGRAM [SECONDS]]

An engine that computes nothing (`partita engine`), a gateway and `partita load` on this machine.
CPU: of the gateway's process, over the tokens that passed, with about 64 streams at a time. TTFT:
of the same requests sent to the engine itself and through the gateway, in turn, a few times each.
Wants idle cores.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ENGINE, GATEWAY = 18091, 18092
SERVICE = """services:
  - {{name: chat, kind: llm, model: chat, rate_rps: {}, slo: {{ttft_ms: 5000}},
     tokens: {{in: 64, out: {}}}}}
"""


def up(port, path):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing at port {port}")


def cpu_ns(pid):
    """Of all threads of a process, as the scheduler counts."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


def tokens_passed():
    with urllib.request.urlopen(f"http://127.0.0.1:{GATEWAY}/metrics", timeout=5) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith('vllm:inter_token_latency_seconds_count{model_name="chat"}'):
                return float(line.split()[-1])
    return 0.0


def load(program, port, services, seconds):
    command = [program, "load", "--openai", f"http://127.0.0.1:{port}", "--services", services,
               "--duration", f"{seconds}s", "--format", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)["services"][0]


def per_token(program, gateway, seconds):
    runs = []
    command = [program, "load", "--openai", f"http://127.0.0.1:{GATEWAY}", "--services",
               "streams.yaml", "--duration", f"{seconds + 10}s"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(9)  # until as many have begun as end
    for _ in range(5):
        before, passed = cpu_ns(gateway.pid), tokens_passed()
        time.sleep(seconds / 5)
        runs.append((cpu_ns(gateway.pid) - before) / (tokens_passed() - passed) / 1e3)
    running.wait()
    return runs


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/partita")
    seconds = float((sys.argv[2:3] or ["15"])[0])
    with tempfile.TemporaryDirectory(prefix="partita-llm-") as folder:
        os.chdir(folder)
        os.mkdir("state", 0o700)
        for name, text in (("streams.yaml", SERVICE.format(8, 400)),
                           ("short.yaml", SERVICE.format(50, 2))):
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
        children = []
        try:
            engine = [program, "engine", "--listen", f"127.0.0.1:{ENGINE}", "--model", "chat",
                      "--step-cost"]
            for command in (engine + ["step=20"],
                            [program, "gateway", "--http", f"127.0.0.1:{GATEWAY}", "--state-dir",
                             "state", "--engine", f"chat=http://127.0.0.1:{ENGINE}"]):
                children.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            up(GATEWAY, "/v2/health/ready")
            runs = per_token(program, children[1], seconds)
            print("CPU per token event: median {:.2f} us, {} runs {}".format(
                statistics.median(runs), len(runs), " ".join(f"{run:.2f}" for run in runs)))
            children[0].terminate()
            children[0].wait()
            children[0] = subprocess.Popen(engine + ["step=1"], stderr=subprocess.DEVNULL)
            up(GATEWAY, "/v2/health/ready")
            added = {"p50": [], "p99": []}
            for _ in range(5):
                direct = load(program, ENGINE, "short.yaml", seconds / 3)
                through = load(program, GATEWAY, "short.yaml", seconds / 3)
                for at, list_of in added.items():
                    list_of.append(through["ttft_ms"][at] - direct["ttft_ms"][at])
            for at, list_of in added.items():
                print("added TTFT, {}: median {:.3f} ms, {}".format(
                    at, statistics.median(list_of), " ".join(f"{one:.3f}" for one in list_of)))
        finally:
            for child in children:
                child.terminate()
                child.wait()


if __name__ == "__main__":
    main()
