#!/usr/bin/env python3
"""Prints a services file of N random services of the eleven published models: 1 to 5,000
requests/s, SLOs of 50 to 450 ms (bert, which is slow: a fifth of the rate, 15 times the SLO).
With --llm they are language models: three of those that were measured on H200, lognormal
lengths, promises that some engine keeps; 500 of them take about 2,000 GPUs. The same N and SEED
print the same file.

    bench/services.py N [SEED] [--llm]
"""
import random
import sys

MODELS = """bert densenet121 densenet169 densenet201 inceptionv3 mobilenetv2 resnet101 resnet152
            resnet50 vgg16 vgg19""".split()

# Requests/s, and the shortest TTFT and TPOT in ms.
LANGUAGE_MODELS = {"meta-llama/Llama-3.1-8B-Instruct": (47, 450, 20),
                   "meta-llama/Llama-3.1-70B": (6.2, 1500, 40),
                   "openai/gpt-oss-120b": (20, 600, 15)}


def language_model(n: int, rng: random.Random) -> str:
    model = list(LANGUAGE_MODELS)[int(rng.random() * len(LANGUAGE_MODELS))]
    rate, ttft, tpot = LANGUAGE_MODELS[model]
    rate, ttft, tpot = (rate * (0.2 + 1.8 * rng.random()), ttft * (1 + 4 * rng.random()),
                        tpot * (1 + 2 * rng.random()))
    tokens_in, spread_in = 300 + 1700 * rng.random(), 0.3 + rng.random()
    tokens_out, spread_out = 100 + 500 * rng.random(), 0.3 + 0.7 * rng.random()
    return (f"  - {{name: llm-{n}, kind: llm, model: {model}, rate_rps: {rate:.3f}, "
            f"slo: {{ttft_ms: {ttft:.0f}, tpot_ms: {tpot:.1f}}}, "
            f"tokens: {{in: {{mean: {tokens_in:.0f}, cv: {spread_in:.2f}}}, "
            f"out: {{mean: {tokens_out:.0f}, cv: {spread_out:.2f}}}}}}}")


def main() -> None:
    language = "--llm" in sys.argv
    numbers = [int(one) for one in sys.argv[1:] if one != "--llm"]
    count, seed = numbers[0], numbers[1] if len(numbers) > 1 else 1
    rng = random.Random(seed)
    print("services:")
    for n in range(count):
        if language:
            print(language_model(n, rng))
            continue
        model = MODELS[int(rng.random() * len(MODELS))]
        slow = model == "bert"
        rate = 1 + 5000 * rng.random() / (5 if slow else 1)
        slo = (50 + 400 * rng.random()) * (15 if slow else 1)
        print(f"  - {{name: {model}-{n}, model: {model}, "
              f"rate_rps: {rate:.3f}, slo_ms: {slo:.3f}}}")


if __name__ == "__main__":
    main()
