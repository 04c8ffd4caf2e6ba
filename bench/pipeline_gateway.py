#!/usr/bin/env python3
"""What the steps of a pipeline cost a gateway and its workers, in CPU time.

    bench/pipeline_gateway.py [PROGRAM [BEFORE [ROUNDS]]]

Requests of 600 KiB in binary form to null workers, which copy them: one step, and pipelines of two
and three, by PROGRAM and by BEFORE, another build of it, in turns. Medians of the rounds and of
their ratios. Exit status 1: an answer was missing, or was no 200.
"""
import json
import os
import statistics
import sys
import tempfile

from http2_gateway import Gateway

NUMBERS, REQUESTS, CONNECTIONS = 150_000, 300, 4


def main():
    programs = [os.path.abspath(name) for name in sys.argv[1:3] or ["build/release/partita"]]
    rounds = int((sys.argv[3:4] or ["11"])[0])
    head = json.dumps({"parameters": {"binary_data_output": True}, "inputs": [
        {"name": "x", "shape": [1, NUMBERS], "datatype": "FP32",
         "parameters": {"binary_data_size": 4 * NUMBERS}}]})
    costs = {}
    with tempfile.TemporaryDirectory(prefix="partita-pipeline-") as folder:
        ask = os.path.join(folder, "ask")
        with open(ask, "wb") as file:
            file.write(head.encode() + os.urandom(4 * NUMBERS))
        ways = [(steps, at, Gateway(program, folder, 18190 + 4 * steps + at, NUMBERS, steps,
                                    f"y:FP32:{NUMBERS}"))
                for steps in (1, 2, 3) for at, program in enumerate(programs)]
        try:
            for number in range(rounds + 1):
                for steps, at, gateway in ways[::1 if number % 2 else -1]:
                    all_before = gateway.cpu_us(1 + steps)
                    alone = gateway.ask(["--h1", "-c", str(CONNECTIONS)], REQUESTS, ask, len(head))
                    every = (gateway.cpu_us(1 + steps) - all_before) / REQUESTS
                    if number > 0:  # the first one touches the slots' pages
                        costs.setdefault((steps, at), []).append((alone, every))
        finally:
            for _, _, gateway in ways:
                gateway.end()
    for (steps, at), seen in costs.items():
        alone, every = (statistics.median(column) for column in zip(*seen))
        print(f"{steps} steps{', before' if at else ''}: gateway {alone:.0f} us, "
              f"with workers {every:.0f} us")
    for steps in (1, 2, 3):
        if len(programs) > 1:
            pairs = list(zip(costs[steps, 0], costs[steps, 1]))
            print(f"{steps} steps, now / before: gateway "
                  f"{statistics.median(a[0] / b[0] for a, b in pairs):.2f}, with workers "
                  f"{statistics.median(a[1] / b[1] for a, b in pairs):.2f}")


if __name__ == "__main__":
    main()
