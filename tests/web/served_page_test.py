#!/usr/bin/env python3
"""The page of a real agent on a simulated machine, as Chromium has drawn it: its views are there,
what they show is what the API says, no script failed. With chromium alone; what a person does
there is for checks.mjs, which needs node and the npm registry besides."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness  # noqa: E402

CHROMIUM = shutil.which("chromium")
MACHINE = "gpus: [{model: A100-80GB, count: 2, mig: true}]\nstate: node.state\nspeed: 0.02\n"
DRAWN_S = 60


class Browser:
    """Chromium by its protocol for tools, over two pipes; what scripts threw is in `faults`."""

    def __init__(self, folder):
        asks, self.asks = os.pipe()
        self.answers, answers = os.pipe()
        words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
                 "--remote-debugging-pipe", f"--user-data-dir={folder}"]
        # Chromium reads from descriptor 3 and writes to 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec 3<&{asks} 4>&{answers}; exec "$@"', "sh", *words],
            pass_fds=(asks, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(asks)
        os.close(answers)
        self.number, self.rest, self.faults, self.session = 0, b"", [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target,
                                flatten=True)["sessionId"]
        self.ask("Runtime.enable")

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.asks, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.take()
            if answer.get("method") == "Runtime.exceptionThrown":
                told = answer["params"]["exceptionDetails"]
                self.faults.append(told.get("exception", {}).get("description", told["text"]))
            if answer.get("id") == self.number:
                return answer["result"]

    def take(self):
        while b"\0" not in self.rest:
            piece = os.read(self.answers, 65536)
            if not piece:
                raise AssertionError("chromium has ended")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def go(self, address):
        self.ask("Page.navigate", url=address)

    def text(self, element):
        """What is read in an element; None: there is none, the page is not."""
        script = f"document.getElementById('{element}')?.innerText ?? null"
        return self.ask("Runtime.evaluate", expression=script)["result"].get("value")

    def end(self):
        """With its children, which would go on writing into its folder."""
        end = time.monotonic() + DRAWN_S
        try:
            while time.monotonic() < end:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
                time.sleep(0.02)
        except ProcessLookupError:
            pass  # all are gone
        os.close(self.asks)
        os.close(self.answers)


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

    def test_every_view_is_drawn(self):
        browser = Browser(self.path("browser"))
        self.addCleanup(browser.end)
        for view, wanted in (("now", ["chat", "search", "GPU 0", "GPU 1", "planned "]),
                             ("change", ["chat"]), ("batch", ["No batch has been handed in"]),
                             ("history", ["started"]), ("fleet", ["one of no fleet"])):
            end = time.monotonic() + DRAWN_S
            text = None
            while not all(one in (text or "") for one in wanted) and time.monotonic() < end:
                if text is None:  # not there yet, or the agent is not
                    browser.go(f"http://127.0.0.1:{self.port}/#{view}")
                time.sleep(0.5)
                text = browser.text(f"view-{view}")
                self.assertEqual(browser.faults, [], view)
            for one in wanted:
                self.assertIn(one, text, view)


if __name__ == "__main__":
    if not CHROMIUM:
        print("skipped: chromium is not installed")
        sys.exit(77)
    unittest.main()
