#!/usr/bin/env python3
"""What a request costs a gateway over HTTP/1.1 and over HTTP/2, in CPU time of its process.

    bench/http2_gateway.py [PROGRAM [BEFORE [ROUNDS]]]

h2load asks a gateway with one null worker for inferences in binary form, 1 KiB and 600 KiB each;
BEFORE is another build of the program, whose gateway takes its turn over HTTP/1.1. Medians of the
rounds. Exit status 1: an answer was missing, or was no 200.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request



def ways(connections):
    several = str(connections // 4)
    return ((f"HTTP/1.1, {connections} connections", ["--h1", "-c", str(connections)]),
            (f"HTTP/2, {connections} connections", ["-c", str(connections), "-m", "1"]),
            (f"HTTP/2, {several} connections of {several}", ["-c", several, "-m", several]))


class Gateway:
    """A gateway with a null worker, or one for each step of a pipeline; that is asked."""

    def __init__(self, program, folder, port, numbers, steps=1, output="y:FP32:250"):
        names = ["s"] + [f"s{at}" for at in range(1, steps)]
        self.url = f"http://127.0.0.1:{port}/v2/models/{'p' if steps > 1 else 's'}/infer"
        state = os.path.join(folder, f"state{port}")
        os.mkdir(state, 0o700)
        with open(os.path.join(state, "assignment.json"), "w", encoding="utf-8") as file:
            json.dump({"api_version": "partita/v1", "kind": "Assignment", "revision": 1,
                       "segments": [{"device": "d" + name, "gpu_uuid": "GPU-0", "start": at,
                                     "profile": "1g.10gb", "service": name, "batch": 32,
                                     "processes": 1}
                                    for at, name in enumerate(names)],
                       "services": [{"name": name, "model": name, "slo_ms": 10_000,
                                     "rate_rps": 100, "percentile": 99} for name in names] +
                       [{"name": "p", "slo_ms": 10_000, "rate_rps": 100, "percentile": 99,
                         "pipeline": {"steps": [
                             {"model_name": name, "input_map": {"x": f"t{at}" if at else "x"},
                              "output_map": {"y": f"t{at + 1}" if at + 1 < steps else "y"}}
                             for at, name in enumerate(names)]}}] * (steps > 1)}, file)
        self.children = [subprocess.Popen([program, *words, "--state-dir", state],
                                          stdout=subprocess.DEVNULL,
                                          stderr=subprocess.DEVNULL) for words in (
            ["gateway", "--http", f"127.0.0.1:{port}"],
            *(["worker", "--null", "--service", name, "--batch", "32", "--input",
               f"x:FP32:{numbers}", "--output-tensor", output] for name in names))]
        while True:
            try:
                urllib.request.urlopen(self.url.replace("/infer", "/ready"), timeout=5)
                return
            except urllib.error.URLError:
                time.sleep(0.05)

    def cpu_us(self, processes=1):
        return sum(int(open(f"/proc/{child.pid}/task/{task}/schedstat",
                            encoding="ascii").read().split()[0])
                   for child in self.children[:processes]
                   for task in os.listdir(f"/proc/{child.pid}/task")) / 1000

    def ask(self, way, count, ask, head):
        before = self.cpu_us()
        said = subprocess.run(["h2load", *way, "-n", str(count), "-d", ask, "-H",
                               f"inference-header-content-length: {head}", self.url],
                              capture_output=True, text=True, check=True).stdout
        if not re.search(rf"\b{count} succeeded, 0 failed.*\n.*\b{count} 2xx", said):
            sys.exit(said)
        return (self.cpu_us() - before) / count

    def end(self):
        for child in reversed(self.children):
            child.terminate()
            child.wait(60)


def measure(programs, folder, numbers, count, connections, rounds):
    head = json.dumps({"parameters": {"binary_data_output": True}, "inputs": [
        {"name": "x", "shape": [1, numbers], "datatype": "FP32",
         "parameters": {"binary_data_size": 4 * numbers}}]})
    ask = os.path.join(folder, "ask")
    with open(ask, "wb") as file:
        file.write(head.encode() + os.urandom(4 * numbers))
    gateways = [Gateway(program, folder, 18090 + at, numbers)
                for at, program in enumerate(programs)]
    costs = {}
    try:
        for _ in range(rounds):
            first = ways(connections)[0]
            turns = [(gateway, first[0] + ", before", first[1]) for gateway in gateways[1:]]
            for gateway, label, way in turns + [(gateways[0], *way) for way in ways(connections)]:
                costs.setdefault(label, []).append(gateway.ask(way, count, ask, len(head)))
    finally:
        for gateway in gateways:
            gateway.end()
    for label, all_of_it in costs.items():
        print(f"{4 * numbers} bytes, {label}: {statistics.median(all_of_it):.1f} us")


def main():
    programs = [os.path.abspath(name) for name in sys.argv[1:3] or ["build/release/partita"]]
    rounds = int((sys.argv[3:4] or ["15"])[0])
    for numbers, count, connections in ((256, 15_000, 32), (150_528, 800, 8)):
        with tempfile.TemporaryDirectory(prefix="partita-http2-") as folder:
            measure(programs, folder, numbers, count, connections, rounds)


if __name__ == "__main__":
    main()
