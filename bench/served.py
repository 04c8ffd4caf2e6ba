#!/usr/bin/env python3
"""served.py [PROGRAM [SECONDS [SEED]]]: is what the simulator says of a plan what the gateway does? Three services on workers that take a
fixed time are measured with `profile measure`, planned, and served at three loads; `partita load` prints both. Wants two idle
cores; about four minutes."""

import json
import os
import subprocess
import sys
import tempfile
import time

# Microseconds per batch and per row, SLO in ms, requests per second.
SERVICES = {"fast": (1000, 400, 25, 1200), "mid": (3000, 1000, 60, 450), "slow": (8000, 2500, 150, 180)}
LOADS = (0.5, 0.75, 0.95)
URL = "127.0.0.1:18080"


def measure(program):
    """One profile of all services, at every batch size up to 16."""
    rows = []
    for name, (per_batch, per_row, _, _) in SERVICES.items():
        flags = ["--batch-us", str(per_batch), "--item-us", str(per_row)]
        subprocess.run([program, "profile", "measure", "--null", *(f"--worker-flag={flag}" for flag in flags), "--instances", "1",
                        "--batches", ",".join(map(str, range(1, 17))), "--name", name, "--point-time", "2s", "--quiet",
                        "-o", name + ".csv"], check=True)
        with open(name + ".csv", encoding="utf-8") as file:
            lines = file.readlines()
        rows += lines if not rows else lines[1:]
    with open("profiles.csv", "w", encoding="utf-8") as file:
        file.writelines(rows)


def plan(program):
    """Plans one instance per service; returns the batch of each."""
    with open("services.yaml", "w", encoding="utf-8") as file:
        json.dump({"services": [{"name": name, "model": name, "rate_rps": rate, "slo_ms": slo}
                                for name, (_, _, slo, rate) in SERVICES.items()]}, file)
    subprocess.run([program, "plan", "--services", "services.yaml", "--profiles", "profiles.csv", "--gpu", "cpu-4", "--format", "json",
                    "-o", "plan.json", "--quiet"], check=True)
    with open("plan.json", encoding="utf-8") as file:
        segments = [segment for gpu in json.load(file)["gpus"] for segment in gpu["instances"]]
    batches = {segment["service"]: segment["batch"] for segment in segments}
    if len(segments) != len(SERVICES) or len(batches) != len(SERVICES):
        raise SystemExit("the plan gives a service several instances")
    return batches


def serve(program, batches):
    """Starts the gateway and a worker per service; returns the processes."""
    os.mkdir("state", 0o700)
    value = {"api_version": "partita/v1", "kind": "Assignment", "revision": 1,
             "segments": [{"device": f"d{at}", "gpu_uuid": "GPU-0", "profile": "1g.10gb", "start": at, "service": name, "batch": batch,
                           "processes": 1} for at, (name, batch) in enumerate(batches.items())],
             "services": [{"name": name, "model": name, "slo_ms": slo, "percentile": 99, "rate_rps": rate}
                          for name, (_, _, slo, rate) in SERVICES.items()]}
    with open("state/assignment.json", "w", encoding="utf-8") as file:
        json.dump(value, file)
    commands = [["gateway", "--state-dir", "state", "--http", URL, "--no-shed"]]
    for name, (per_batch, per_row, _, _) in SERVICES.items():
        commands.append(["worker", "--null", "--service", name, "--batch", str(batches[name]), "--batch-us", str(per_batch), "--item-us",
                         str(per_row), "--state-dir", "state", "--input", "x:FP32:16", "--output", "y:FP32:16"])
    with open("served.log", "w", encoding="utf-8") as log:
        return [subprocess.Popen([program, *command], stdout=log, stderr=log) for command in commands]


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/partita")
    seconds, seed = (sys.argv[2:3] or ["30"])[0], (sys.argv[3:4] or ["1"])[0]
    with tempfile.TemporaryDirectory(prefix="partita-served-") as folder:
        os.chdir(folder)
        measure(program)
        children = serve(program, plan(program))
        time.sleep(3)
        try:
            for load in LOADS:
                print(f"\n{load} of the planned rate", flush=True)
                subprocess.run([program, "load", "--url", "http://" + URL, "--services", "services.yaml", "--load", str(load), "--duration",
                                seconds + "s", "--seed", seed, "--plan", "plan.json", "--profiles", "profiles.csv", "--quiet"], check=True)
        finally:
            for child in reversed(children):
                child.terminate()
            for child in children:
                child.wait()
        os.chdir("/")


main()
