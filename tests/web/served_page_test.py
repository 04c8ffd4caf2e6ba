#!/usr/bin/env python3
"""The page of a real agent on a simulated machine, as Chromium has drawn it: its views are there,
what they show is what the API says, no script failed. With chromium alone; what a person does
there is for checks.mjs, which needs node and the npm registry besides."""
import html
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness  # noqa: E402

CHROMIUM = shutil.which("chromium")
MACHINE = "gpus: [{model: A100-80GB, count: 2, mig: true}]\nstate: node.state\nspeed: 0.02\n"
FAULT = re.compile(r'CONSOLE.*"(Uncaught .*)", source')
DRAWN_S = 20


class ServedPageTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.write("machine.yaml", MACHINE)
        self.write("services.yaml", harness.SERVICES)
        self.write("profiles.csv", harness.profiles())
        agent = subprocess.Popen(
            [harness.PROGRAM, "agent", "--driver", "sim", "--machine", "machine.yaml",
             "--state-dir", "state", "--services", "services.yaml", "--profiles", "profiles.csv",
             "--listen", f"127.0.0.1:{self.port}"], cwd=self.folder, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)

    def drawn(self, view):
        """The document as Chromium has it after a while, and what its scripts complained of."""
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
             f"--user-data-dir={self.path('browser')}", f"--timeout={DRAWN_S * 1000}",
             "--dump-dom", f"http://127.0.0.1:{self.port}/#{view}"], capture_output=True, text=True,
            timeout=200, check=True, cwd=self.folder)
        return html.unescape(done.stdout), FAULT.findall(done.stderr)

    def until_drawn(self, view, wanted):
        end = time.monotonic() + 100
        while True:
            text, faults = self.drawn(view)
            self.assertEqual(faults, [])
            if wanted in text or time.monotonic() > end:
                return text

    def test_every_view_is_drawn(self):
        text = self.until_drawn("now", ">search<")
        for one in (">chat<", ">search<", "GPU 0", "GPU 1", "planned "):
            self.assertIn(one, text)
        for view, wanted in (("change", 'id="view-change"'), ("batch", "No batch has been handed in"),
                             ("history", 'class="events"'), ("fleet", "one of no fleet")):
            text = self.until_drawn(view, wanted)
            self.assertIn(wanted, text, view)


if __name__ == "__main__":
    if not CHROMIUM:
        print("skipped: chromium is not installed")
        sys.exit(77)
    unittest.main()
