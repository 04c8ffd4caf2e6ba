#!/usr/bin/env python3
"""The page in front of a real agent on a simulated machine: two changes approved by click while
requests arrive, kill -9, history (agent_checks.mjs)."""
import os
import sys
import tempfile

import with_browser

sys.path.insert(0, os.path.join(with_browser.SOURCE, "tests", "cli"))
import harness  # noqa: E402

MACHINE = """gpus: [{model: A100-80GB, count: 3, mig: true}]
state: node.state
speed: 0.05
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("machine.yaml", MACHINE), ("services.yaml", harness.SERVICES),
                           ("profiles.csv", harness.profiles())):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return with_browser.run("agent_checks.mjs", harness.PROGRAM, folder)


if __name__ == "__main__":
    sys.exit(main())
