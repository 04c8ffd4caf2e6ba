#!/usr/bin/env python3
"""Prints a services file of N random services of the eleven published models: 1 to 5,000
requests/s, SLOs of 50 to 450 ms (bert, which is slow: a fifth of the rate, 15 times the SLO).
The same N and SEED print the same file.

    bench/services.py N [SEED]
"""
import random
import sys

MODELS = """bert densenet121 densenet169 densenet201 inceptionv3 mobilenetv2 resnet101 resnet152
            resnet50 vgg16 vgg19""".split()


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = random.Random(seed)
    print("services:")
    for n in range(count):
        model = MODELS[int(rng.random() * len(MODELS))]
        slow = model == "bert"
        rate = 1 + 5000 * rng.random() / (5 if slow else 1)
        slo = (50 + 400 * rng.random()) * (15 if slow else 1)
        print(f"  - {{name: {model}-{n}, model: {model}, "
              f"rate_rps: {rate:.3f}, slo_ms: {slo:.3f}}}")


if __name__ == "__main__":
    main()
