"""tools/get_onnxruntime and get_llm_engine where npm, or node alone, is missing: Debian's npm is
asked for, then used. Where it cannot be had, or brings something else, a line says what is left
out, with status 0."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"
INSTALL = """#!/bin/sh
echo "$*" >>"$HERE/installed"
[ -n "$NO_NETWORK" ] && { echo "no network" >&2; exit 1; }
cp "$HERE/npm.new" "$HERE/bin/npm"; cp "$HERE/npm.new" "$HERE/bin/node"
"""
NPM = """#!/bin/sh
[ -e "$HERE/bin/node" ] || { echo "env: 'node': No such file or directory" >&2; exit 127; }
echo "$*" >>"$HERE/asked"
echo something else >onnxruntime-node.tgz
"""


def script(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class OnnxRuntimeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = Path(folder.name)
        (self.here / "bin").mkdir()
        for tool in ("sh", "cp"):
            (self.here / "bin" / tool).symlink_to(shutil.which(tool))
        for tool in ("get_onnxruntime", "get_llm_engine", "npm_package.py"):
            shutil.copy(TOOLS / tool, self.here)
        script(self.here / "install_packages", INSTALL)
        script(self.here / "npm.new", NPM)

    def get(self, tool="get_onnxruntime", what="ONNX Runtime", **variables):
        environment = {"PATH": str(self.here / "bin"), "HERE": str(self.here), **variables}
        done = subprocess.run([sys.executable, str(self.here / tool), "out"],
                              cwd=self.here, env=environment, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("\n"), 1, done.stdout)
        self.assertTrue(done.stdout.startswith(f"left out: {what}"), done.stdout)
        left = os.listdir(self.here / "out") if (self.here / "out").exists() else []
        self.assertEqual(left, [])
        return done.stdout

    def read(self, name):
        path = self.here / name
        return path.read_text() if path.exists() else None

    def test_npm_is_installed_where_there_is_none(self):
        self.assertIn("not the one that was expected", self.get())
        self.assertEqual(self.read("installed"), "npm\n")
        self.assertIn("onnxruntime-node@", self.read("asked"))

    def test_npm_without_node_is_as_good_as_none(self):
        script(self.here / "bin" / "npm", NPM)
        self.assertIn("not the one that was expected", self.get())
        self.assertEqual(self.read("installed"), "npm\n")

    def test_nothing_is_installed_where_both_are(self):
        for name in ("npm", "node"):
            script(self.here / "bin" / name, NPM)
        self.assertIn("not the one that was expected", self.get())
        self.assertIsNone(self.read("installed"))

    def test_the_engine_of_language_models_is_fetched_in_the_same_way(self):
        said = self.get("get_llm_engine", "llama.cpp")
        self.assertIn("not the one that was expected", said)
        self.assertIn("@node-llama-cpp/linux-", self.read("asked"))

    def test_without_a_network_it_says_so(self):
        self.assertIn("no network", self.get(NO_NETWORK="1"))
        self.assertIsNone(self.read("asked"))


if __name__ == "__main__":
    unittest.main()
