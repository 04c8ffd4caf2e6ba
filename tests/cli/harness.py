"""What the tests of the command line share: runs in an empty folder, and small valid inputs.

The program is named by the environment variable PARTITA (an absolute path)."""

import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest

PROGRAM = os.environ.get("PARTITA", "")
if not os.access(PROGRAM, os.X_OK):
    raise SystemExit(f"PARTITA must name the program: '{PROGRAM}' does not")

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def source_text(path):
    """A file of the checkout, by its path from the top."""
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def documented(document, *beginnings):
    """The arguments of partita's commands in a document, of those that begin with one of these."""
    text = source_text(document).replace("\\\n", " ")
    found = re.findall(r"^    (?:build/release/)?partita (.*)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in found if line.startswith(beginnings)]


SERVICES = """services:
  - name: chat
    model: small
    rate_rps: 120
    slo_ms: 200
  - {name: search, model: large, rate_rps: 30, slo_ms: 500}
"""


def profiles():
    """Two invented models: latency grows with the batch and shrinks with the size."""
    rows = ["model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib"]
    for model, work in (("small", 4.0), ("large", 20.0)):
        for gpcs in (1, 2, 3, 4, 7):
            for batch in (1, 2, 4, 8):
                for processes in (1, 2):
                    latency = (2 + work * batch * processes / gpcs) * 1.0
                    throughput = 1000 * batch * processes / latency
                    rows.append(f"{model},{gpcs},{batch},{processes},{throughput!r},{latency!r},")
    return "\n".join(rows) + "\n"


class CliTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("services.yaml", SERVICES)
        self.write("profiles.csv", profiles())

    def as_in_a_clone(self):
        """Turns the folder into one where the commands of documents run as they stand."""
        os.makedirs(self.path("build/release"))
        os.symlink(PROGRAM, self.path("build/release/partita"))
        beside = os.path.join(os.path.dirname(PROGRAM), "remote")
        if os.path.isdir(beside):
            os.symlink(beside, self.path("build/release/remote"))
        os.symlink(os.path.join(SOURCE, "data"), self.path("data"))

    def variable(self, name, value):
        """Of the environment of the test and what it runs."""
        before = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name) if before is None
                        else os.environ.__setitem__(name, before))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        if isinstance(content, str):
            content = content.encode()
        with open(self.path(name), "wb") as file:
            file.write(content)

    def write_secret(self, name, content):
        self.write(name, content)
        os.chmod(self.path(name), 0o600)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def run_partita(self, *args, **options):
        options.setdefault("cwd", self.folder)
        options.setdefault("timeout", 120)
        environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        return subprocess.run(
            [PROGRAM, *args],
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            env=environment,
            **options,
        )

    def ok(self, *args, status=0):
        """Standard output of a run that must end with `status`."""
        done = self.run_partita(*args)
        self.assertEqual(done.returncode, status, done.stderr.decode(errors="replace"))
        return done.stdout.decode()

    def json(self, *args, status=0):
        """The same, read as JSON."""
        return json.loads(self.ok(*args, "--format", "json", status=status))

    def write_services(self, *services):
        self.write("services.yaml", "services:\n" + "".join(f"- {{{one}}}\n" for one in services))

    def plan_args(self, *more):
        inputs = ("--services", "services.yaml", "--profiles", "profiles.csv")
        return ("plan", *inputs, "--gpu", "A100-80GB", *more)

    def on_plan(self, command, plan, *more):
        inputs = ("--services", "services.yaml", "--profiles", "profiles.csv")
        return (command, plan, *inputs, *more)

    def complete(self, *words):
        """What the bash completion offers for the last word."""
        script = ('source <("$0" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  'COMPREPLY=(); _partita; printf "%s\\n" "${COMPREPLY[@]}"')
        return subprocess.run(["bash", "-c", script, PROGRAM, "partita", *words],
                              capture_output=True, check=True, text=True).stdout.split()
