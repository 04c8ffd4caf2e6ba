#!/usr/bin/env python3
"""The page in front of a real agent on a simulated machine: two changes approved by click while
requests arrive, kill -9, history (agent_checks.mjs). Skipped, with the reason, where Chromium,
node or the network is missing."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cli"))
import harness  # noqa: E402

MACHINE = """gpus: [{model: A100-80GB, count: 3, mig: true}]
state: node.state
speed: 0.05
"""


def main():
    tools = os.path.join(SOURCE, "build", "browser")
    got = subprocess.run([os.path.join(SOURCE, "tools", "get_browser_tools"), tools], text=True,
                         capture_output=True)
    if got.returncode != 0:
        print(got.stdout, got.stderr)
        return got.returncode
    browser = got.stdout.strip().splitlines()[-1]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("machine.yaml", MACHINE), ("services.yaml", harness.SERVICES),
                           ("profiles.csv", harness.profiles())):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        command = ["node", os.path.join(HERE, "agent_checks.mjs"),
                   os.path.join(tools, "node_modules"), browser, harness.PROGRAM, folder]
        return subprocess.run(command, timeout=280).returncode


if __name__ == "__main__":
    sys.exit(main())
