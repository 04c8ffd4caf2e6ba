#!/usr/bin/env python3
"""Is what the simulator says of a plan what the gateway does?

    bench/served.py [PROGRAM [SECONDS [SEED]]]

Three services on workers that take a fixed time are measured by `profile measure`, planned and
served at three loads; `partita load` prints both. Wants two idle cores, takes four minutes.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

# Microseconds per batch and per row, SLO in ms, requests per second.
SERVICES = {"fast": (1000, 400, 25, 1200), "mid": (3000, 1000, 60, 450),
            "slow": (8000, 2500, 150, 180)}
LOADS = (0.5, 0.75, 0.95)
ADDRESS = "127.0.0.1:18080"


def times(name):
    return ["--batch-us", str(SERVICES[name][0]), "--item-us", str(SERVICES[name][1])]


def measure(program):
    """One profile of all services, at the batch sizes up to 16."""
    rows = []
    for name in SERVICES:
        flags = [f"--worker-flag={flag}" for flag in times(name)]
        batches = ",".join(map(str, range(1, 17)))
        subprocess.run([program, "profile", "measure", "--null", *flags, "--instances", "1",
                        "--batches", batches, "--name", name, "--point-time", "2s", "--quiet",
                        "-o", name + ".csv"], check=True)
        with open(name + ".csv", encoding="utf-8") as file:
            lines = file.readlines()
        rows += lines if not rows else lines[1:]
    with open("profiles.csv", "w", encoding="utf-8") as file:
        file.writelines(rows)


def plan(program):
    """Plans one instance per service; returns the batch of each."""
    services = [{"name": name, "model": name, "rate_rps": rate, "slo_ms": slo}
                for name, (_, _, slo, rate) in SERVICES.items()]
    with open("services.yaml", "w", encoding="utf-8") as file:
        json.dump({"services": services}, file)
    subprocess.run([program, "plan", "--services", "services.yaml", "--profiles", "profiles.csv",
                    "--gpu", "cpu-4", "--format", "json", "-o", "plan.json", "--quiet"], check=True)
    with open("plan.json", encoding="utf-8") as file:
        instances = [instance for gpu in json.load(file)["gpus"] for instance in gpu["instances"]]
    if sorted(instance["service"] for instance in instances) != sorted(SERVICES):
        raise SystemExit("the plan gives a service several instances")
    return {instance["service"]: instance["batch"] for instance in instances}


def serve(program, batches):
    """Starts the gateway and a worker per service; returns the processes."""
    os.mkdir("state", 0o700)
    segments = [{"device": f"d{at}", "gpu_uuid": "GPU-0", "profile": "1g.10gb", "start": at,
                 "service": name, "batch": batch, "processes": 1}
                for at, (name, batch) in enumerate(batches.items())]
    services = [{"name": name, "model": name, "slo_ms": slo, "percentile": 99, "rate_rps": rate}
                for name, (_, _, slo, rate) in SERVICES.items()]
    with open("state/assignment.json", "w", encoding="utf-8") as file:
        json.dump({"api_version": "partita/v1", "kind": "Assignment", "revision": 1,
                   "segments": segments, "services": services}, file)
    commands = [["gateway", "--state-dir", "state", "--http", ADDRESS, "--no-shed"]]
    commands += [["worker", "--null", "--service", name, "--batch", str(batches[name]),
                  *times(name), "--state-dir", "state",
                  "--input", "x:FP32:16", "--output-tensor", "y:FP32:16"] for name in SERVICES]
    with open("served.log", "w", encoding="utf-8") as log:
        return [subprocess.Popen([program, *command], stdout=log, stderr=log)
                for command in commands]


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/partita")
    seconds, seed = (sys.argv[2:3] or ["30"])[0], (sys.argv[3:4] or ["1"])[0]
    with tempfile.TemporaryDirectory(prefix="partita-served-") as folder:
        os.chdir(folder)
        measure(program)
        children = serve(program, plan(program))
        try:
            time.sleep(3)
            for load in LOADS:
                print(f"\n{load} of the planned rate", flush=True)
                subprocess.run([program, "load", "--url", "http://" + ADDRESS,
                                "--services", "services.yaml", "--load", str(load),
                                "--duration", seconds + "s", "--seed", seed, "--plan", "plan.json",
                                "--profiles", "profiles.csv", "--quiet"], check=True)
        finally:
            for child in reversed(children):
                child.terminate()
            for child in children:
                child.wait()
        os.chdir("/")


main()
