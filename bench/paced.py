#!/usr/bin/env python3
"""How late does a gateway dispatch what it paces?

    bench/paced.py [PROGRAM [SECONDS]]

One service on two workers that take 3 ms and 1 ms a row for a batch of up to 8, at 40 and at 80 %
of what they carry; within which bounds half and 99 % of the paced dispatches were, from /metrics.
The pace of full batches is 5.5 ms. Wants two idle cores.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

ADDRESS = "127.0.0.1:18081"
CARRIED = 2 * 8 / 0.011  # requests per second


def buckets():
    with urllib.request.urlopen(f"http://{ADDRESS}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return re.findall(r'pace_lateness_seconds_bucket{service="s",le="([^"]+)"} (\S+)', text)


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/partita")
    seconds = (sys.argv[2:3] or ["20"])[0]
    with tempfile.TemporaryDirectory(prefix="partita-paced-") as folder:
        os.chdir(folder)
        os.mkdir("state", 0o700)
        service = {"name": "s", "model": "s", "slo_ms": 100}
        with open("state/assignment.json", "w", encoding="utf-8") as file:
            segments = [{"device": f"d{at}", "gpu_uuid": "GPU-0", "profile": "1g.10gb", "start": at,
                         "service": "s", "batch": 8, "processes": 1} for at in range(2)]
            json.dump({"api_version": "partita/v1", "kind": "Assignment", "revision": 1,
                       "segments": segments,
                       "services": [dict(service, percentile=99, rate_rps=CARRIED)]}, file)
        worker = ["worker", "--null", "--service", "s", "--batch", "8", "--batch-us", "3000",
                  "--item-us", "1000", "--state-dir", "state", "--input", "x:FP32:16",
                  "--output-tensor", "y:FP32:16"]
        gateway = ["gateway", "--state-dir", "state", "--http", ADDRESS, "--no-shed"]
        commands = [gateway, worker, worker]
        with open("log", "w", encoding="utf-8") as log:
            children = [subprocess.Popen([program, *words], stdout=log, stderr=log)
                        for words in commands]
        try:
            time.sleep(2)
            before = [("", 0)] * 100
            for share in (0.4, 0.8):
                with open("services.yaml", "w", encoding="utf-8") as file:
                    json.dump({"services": [dict(service, rate_rps=share * CARRIED)]}, file)
                subprocess.run([program, "load", "--url", "http://" + ADDRESS, "--services",
                                "services.yaml", "--duration", seconds + "s", "--quiet"],
                               check=True, stdout=subprocess.DEVNULL)
                after = buckets()
                within = [(bound, float(count) - float(old))
                          for (bound, count), (_, old) in zip(after, before)]
                total = within[-1][1]
                half, most = (next(bound for bound, count in within if count >= part * total)
                              for part in (0.5, 0.99))
                print(f"{share:.0%} of what they carry: of {total:.0f} paced dispatches half "
                      f"at most {half} s late, 99 % at most {most} s")
                before = after
        finally:
            for child in reversed(children):
                child.terminate()
            for child in children:
                child.wait()
        os.chdir("/")


main()
