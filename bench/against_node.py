#!/usr/bin/env python3
"""Requests per second of CPU, all processes counted: gateway and worker against node's http server
with onnxruntime-node, the same MLP (1 KiB in), 32 connections.

    bench/against_node.py [PROGRAM [SECONDS [ROUNDS]]]

Wants npm, wrk, ONNX Runtime (tools/get_onnxruntime) and two idle cores. Rounds alternate.
"""
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
VALUES = [round(0.001 * n, 3) for n in range(256)]
RAW = struct.pack("<256f", *VALUES)
TICK = os.sysconf("SC_CLK_TCK")


def head(binary):
    tensor = {"name": "x", "shape": [1, 256], "datatype": "FP32"}
    if not binary:
        return json.dumps({"inputs": [dict(tensor, data=VALUES)]}).encode()
    return json.dumps({"inputs": [dict(tensor, parameters={"binary_data_size": len(RAW)})],
                       "parameters": {"binary_data_output": True}}).encode()


def lua(name, body, headers):
    """A script for wrk that posts `body`."""
    with open(name, "w", encoding="latin-1") as file:
        file.write('wrk.method = "POST"\n')
        file.write('wrk.body = "' + "".join(f"\\{byte:03d}" for byte in body) + '"\n')
        for key, value in headers.items():
            file.write(f'wrk.headers["{key}"] = "{value}"\n')
        file.write('done = function(summary) io.stderr:write(string.format("%d %d\\n", '
                   'summary.requests, summary.errors.status + summary.errors.read + '
                   'summary.errors.timeout)) end\n')


def cpu(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            total += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
    return total / TICK


def measure(pids, port, script, seconds):
    before = cpu(pids)
    done = subprocess.run(["wrk", "-t1", "-c32", f"-d{seconds}s", "-s", script,
                           f"http://127.0.0.1:{port}/v2/models/m/infer"],
                          capture_output=True, text=True, check=True)
    requests, failures = map(int, done.stderr.split()[-2:])
    if failures:
        raise SystemExit(f"{failures} of {requests} requests to port {port} failed")
    return requests / (cpu(pids) - before), requests / seconds


def answers(port, script_body, headers):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/m/infer",
                                           script_body, headers)
            with urllib.request.urlopen(asked, timeout=5) as answer:
                return json.load(answer)["outputs"][0]["data"]
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"nobody answers at port {port}")


def start_gateway(program, port):
    os.mkdir("state", 0o700)
    with open("state/assignment.json", "w", encoding="utf-8") as file:
        json.dump({"api_version": "partita/v1", "kind": "Assignment", "revision": 1,
                   "segments": [{"device": "d0", "gpu_uuid": "GPU-0", "profile": "1g.10gb",
                                 "start": 0, "service": "m", "batch": 32, "processes": 1}],
                   "services": [{"name": "m", "model": "m", "slo_ms": 100, "percentile": 99,
                                 "rate_rps": 10000}]}, file)
    return [["gateway", "--state-dir", "state", "--http", f"127.0.0.1:{port}", "--no-shed"],
            ["worker", "--model", "models/mlp.onnx", "--service", "m", "--batch", "32",
             "--state-dir", "state"]]


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/partita")
    seconds, rounds = int((sys.argv[2:3] or ["5"])[0]), int((sys.argv[3:4] or ["3"])[0])
    with tempfile.TemporaryDirectory(prefix="partita-node-") as folder:
        os.chdir(folder)
        subprocess.run([program, "demo", "models", "models"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["npm", "install", "--ignore-scripts", "--loglevel=error",
                        "onnxruntime-node@1.30.0"], check=True, stdout=subprocess.DEVNULL)
        json_headers = {"Content-Type": "application/json"}
        lua("json.lua", head(False), json_headers)
        lua("raw.lua", RAW, {"Content-Type": "application/octet-stream"})
        lua("oip.lua", head(True) + RAW, {"Content-Type": "application/octet-stream",
                                          "Inference-Header-Content-Length": len(head(True))})
        node = ["node", os.path.join(HERE, "node_server.mjs"), "models/mlp.onnx"]
        commands = {18091: [node + ["18091", "0"]], 18092: [node + ["18092", "1"]],
                    18093: [[program, *words] for words in start_gateway(program, 18093)]}
        with open("log", "w", encoding="utf-8") as log:
            children = {port: [subprocess.Popen(words, stdout=log, stderr=log) for words in several]
                        for port, several in commands.items()}
        try:
            said = [answers(port, head(False), json_headers) for port in commands]
            for one in said:  # the same model, the same answer
                if max(abs(a - b) for a, b in zip(one, said[0], strict=True)) > 1e-4:
                    raise SystemExit("the servers disagree")
            results = {}
            for _ in range(rounds):
                for name, port, script in (("node, as it comes, JSON", 18091, "json.lua"),
                                           ("node, one thread, JSON", 18092, "json.lua"),
                                           ("node, one thread, raw", 18092, "raw.lua"),
                                           ("gateway, JSON", 18093, "json.lua"),
                                           ("gateway, binary", 18093, "oip.lua")):
                    pids = [child.pid for child in children[port]]
                    results.setdefault(name, []).append(measure(pids, port, script, seconds))
        finally:
            for several in children.values():
                for child in several:
                    child.terminate()
                    child.wait()
        for name, runs in results.items():
            per_cpu, per_second = (statistics.median(column) for column in zip(*runs))
            print(f"{name:26} {per_cpu:9.0f} requests per second of CPU, "
                  f"{1e6 / per_cpu:6.0f} us each, {per_second:7.0f} per second")
        os.chdir("/")


main()
