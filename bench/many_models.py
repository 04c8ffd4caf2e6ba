#!/usr/bin/env python3
"""Two thousand ONNX models on one node, fifty of them hot: do the hot ones notice the others, and
do cold starts keep what the plan says?

    bench/many_models.py PROGRAM MODEL.onnx... [--seconds N] [--memory MIB] [--load-ms MS]

The models take and give the same; their files are linked under 2,000 names. `hot` holds the 50
that are asked for most, `rare` shares the other 1,950; both are planned with what `profile
measure` and the first loads say, played by Poisson arrivals (Zipf, exponent 1), first without
`rare` and then with it. Needs ONNX Runtime beside the program, and as many cores as workers.
"""
import argparse
import http.client
import json
import os
import queue
import random
import re
import subprocess
import tempfile
import threading
import time

HOT, MODELS = 50, 2000
PORT = 18090
HOT_RPS, RARE_RPS = 60.0, 6.0


def names(first, last):
    return [f"m{i:04d}" for i in range(first, last + 1)]


def weights(first, last):
    return [1 / i for i in range(first, last + 1)]


def services(rate, set_of):
    def one(name, first, last, rate, slo):
        listed = [{"name": n, "weight": w} for n, w in zip(names(first, last),
                                                           weights(first, last))]
        return {"name": name, "model": "m", "rate_rps": rate, "slo_ms": slo, "percentile": 99,
                "models": dict(set_of, list=listed)}
    return [one("hot", 1, HOT, HOT_RPS, 50),
            one("rare", HOT + 1, MODELS, rate, 400)]


def inputs_of(address, model):
    connection = http.client.HTTPConnection(*address)
    connection.request("GET", f"/v2/models/{model}")
    tensor = json.loads(connection.getresponse().read())["inputs"][0]
    shape = [max(1, size) for size in tensor["shape"]]
    count = 1
    for size in shape:
        count *= size
    return json.dumps({"inputs": [{"name": tensor["name"], "datatype": tensor["datatype"],
                                   "shape": shape, "data": [0.1] * count}]})


class Clients:
    """Asks at given times on connections that stay; latencies from when a request was due."""

    def __init__(self, address, body, threads=48):
        self.address, self.body = address, body
        self.jobs, self.seen = queue.Queue(), {}
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def work(self):
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        while (job := self.jobs.get()) is not None:
            due, service, model = job
            connection.request("POST", f"/v2/models/{model}/infer", self.body)
            answer = connection.getresponse()
            answer.read()
            took = (time.monotonic() - due) * 1e3
            self.seen.setdefault(service, []).append((took, answer.status))

    def play(self, loads, seconds, seed):
        rng = random.Random(seed)
        events = []
        for service, rate, first, last in loads:
            at = rng.expovariate(rate)
            models, weighted = names(first, last), weights(first, last)
            while at < seconds:
                events.append((at, service, rng.choices(models, weighted)[0]))
                at += rng.expovariate(rate)
        begin = time.monotonic()
        for at, service, model in sorted(events):
            if (wait := begin + at - time.monotonic()) > 0:
                time.sleep(wait)
            self.jobs.put((begin + at, service, model))
        while self.jobs.qsize():
            time.sleep(0.1)
        time.sleep(2)
        seen, self.seen = self.seen, {}
        return seen


def told(seen):
    for service, answers in sorted(seen.items()):
        times = sorted(took for took, _ in answers)
        failed = sum(status != 200 for _, status in answers)
        def at(percent):
            return times[min(len(times) - 1, int(len(times) * percent / 100))]
        print(f"  {service}: {len(times)} requests, {failed} failed, p50 {at(50):.1f}, "
              f"p99 {at(99):.1f}, most {times[-1]:.1f} ms")


def metrics(address):
    connection = http.client.HTTPConnection(*address)
    connection.request("GET", "/metrics")
    return connection.getresponse().read().decode()


def run(program, flags, folder):
    os.chdir(folder)
    os.makedirs("models", exist_ok=True)
    for i, name in enumerate(names(1, MODELS)):
        os.link(flags.models[i % len(flags.models)], f"models/{name}.onnx")
    subprocess.run([program, "profile", "measure", "--model", "models/m0001.onnx", "--instances",
                    "1", "--batches", "1", "--name", "m", "--quiet", "-o", "profile.csv"],
                   check=True)
    set_of = {"memory_mib": flags.memory, "reserve_mib": 200, "load_ms": flags.load_ms,
              "cold_ms": flags.cold_ms}
    with open("services.yaml", "w", encoding="utf-8") as file:
        json.dump({"services": services(RARE_RPS, set_of)}, file)
    subprocess.run([program, "plan", "--services", "services.yaml", "--profiles", "profile.csv",
                    "--gpu", "A100-80GB", "--format", "json", "-o", "plan.json"], check=True)
    subprocess.run([program, "verify", "plan.json", "--services", "services.yaml", "--profiles",
                    "profile.csv"], check=True)
    subprocess.run([program, "simulate", "plan.json", "--services", "services.yaml", "--profiles",
                    "profile.csv", "--duration", "6000"], check=True)
    with open("plan.json", encoding="utf-8") as file:
        plan = json.load(file)
    for row in plan["services"]:
        print(" ", row["name"], row["models_outlook"])
    instances = [instance for gpu in plan["gpus"] for instance in gpu["instances"]]
    segments = [{"device": f"d{at}", "gpu_uuid": "GPU-0", "profile": one["profile"], "start": at,
                 "service": one["service"], "batch": 1, "processes": 1, "held": one["held"]}
                for at, one in enumerate(instances)]
    keys = ("name", "model", "rate_rps", "slo_ms", "percentile", "models")
    os.makedirs("state", 0o700)
    with open("state/assignment.json", "w", encoding="utf-8") as file:
        json.dump({"api_version": "partita/v1", "kind": "Assignment", "revision": 1,
                   "segments": segments,
                   "services": [{key: row[key] for key in keys} for row in plan["services"]]},
                  file)
    command = f"{program} worker --model models --hold-models {{held}} --service {{service}}"
    log = open("served.log", "w", encoding="utf-8")
    children = [subprocess.Popen([program, *words, "--state-dir", "state"], stdout=log, stderr=log)
                for words in (["gateway", "--http", f"127.0.0.1:{PORT}"],
                              ["workers", "--command", command])]
    address = ("127.0.0.1", PORT)
    try:
        for _ in range(600):
            time.sleep(0.1)
            try:
                if len(re.findall(r'^partita_workers_ready{\S+ [1-9]', metrics(address),
                                  re.M)) == 2:
                    break
            except OSError:
                continue
        clients = Clients(address, inputs_of(address, "m0001"))
        hot, rare = ("hot", HOT_RPS, 1, HOT), ("rare", RARE_RPS, HOT + 1, MODELS)
        clients.play([hot, rare], 60, 1)  # fills
        for what, loads in (("hot alone", [hot]), ("hot and rare", [hot, rare]),
                            ("hot alone", [hot])):
            print(what)
            told(clients.play(loads, flags.seconds, 2))
        for line in metrics(address).splitlines():
            if line.startswith(("partita_set_", "partita_segment_models_held")):
                print(" ", line)
        for child in children:
            print(f"  RSS of {child.args[1]}:", end=" ")
            subprocess.run(["ps", "-o", "rss=", "-p", str(child.pid)], check=False)
        subprocess.run("ps -eo rss,args | grep '[w]orker --model models'", shell=True, check=False)
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--memory", type=float, default=20)
    parser.add_argument("--load-ms", type=float, default=60)
    parser.add_argument("--cold-ms", type=float, default=600)
    flags = parser.parse_args()
    flags.models = [os.path.abspath(model) for model in flags.models]
    program = os.path.abspath(flags.program)
    base = os.path.dirname(flags.models[0])  # files are linked: of the same file system
    with tempfile.TemporaryDirectory(dir=base) as folder:
        run(program, flags, folder)


if __name__ == "__main__":
    main()
