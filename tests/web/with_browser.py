"""Runs a script of checks in Debian's Chromium; skipped, with the reason, where Chromium, node or
the network that brings playwright-core and axe-core is missing."""
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
LIMIT_S = 290


def run(script, *arguments):
    """The exit status of `node SCRIPT TOOLS CHROMIUM ARGUMENTS...`, or 77."""
    tools = os.path.join(SOURCE, "build", "browser")
    got = subprocess.run([os.path.join(SOURCE, "tools", "get_browser_tools"), tools], text=True,
                         capture_output=True)
    if got.returncode != 0:
        print(got.stdout, got.stderr)
        return got.returncode
    browser = got.stdout.strip().splitlines()[-1]
    command = ["node", os.path.join(HERE, script), os.path.join(tools, "node_modules"), browser]
    return subprocess.run([*command, *arguments], timeout=LIMIT_S).returncode
