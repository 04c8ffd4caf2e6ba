#!/usr/bin/env python3
"""The page in headless Chromium: tests/web/checks.mjs. Skipped, with the reason, where Chromium,
node or the network that brings playwright-core and axe-core is missing."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))


def main():
    tools = os.path.join(SOURCE, "build", "browser")
    got = subprocess.run([os.path.join(SOURCE, "tools", "get_browser_tools"), tools], text=True,
                         capture_output=True)
    if got.returncode != 0:
        print(got.stdout, got.stderr)
        return got.returncode
    browser = got.stdout.strip().splitlines()[-1]
    command = ["node", os.path.join(HERE, "checks.mjs"), os.path.join(tools, "node_modules"),
               browser]
    return subprocess.run(command, timeout=280).returncode


if __name__ == "__main__":
    sys.exit(main())
