"""The alert rules of the package: Prometheus' own checker takes them, and its simulator of series
says that they fire when they should and not otherwise. That they name metrics which the agent has
and sections which the runbook has is looked at in node/api/metrics_test.cc."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
if shutil.which("promtool") is None:
    print("skipped: no promtool (Debian package prometheus)")
    sys.exit(77)


def promtool(*words, folder):
    done = subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True,
                          check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


class AlertsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.rules = (SOURCE / "packaging/alerts.yaml").read_text("utf-8")
        shutil.copy(SOURCE / "packaging/alerts.yaml", self.folder)
        shutil.copy(SOURCE / "tests/packaging/alerts_cases.yaml", self.folder)

    def test_the_rules_are_right(self):
        status, said = promtool("check", "rules", "alerts.yaml", folder=self.folder)
        self.assertEqual(status, 0, said)
        self.assertIn(f"SUCCESS: {self.rules.count('- alert:')} rules found", said)

    def test_they_fire_when_they_should(self):
        status, said = promtool("test", "rules", "alerts_cases.yaml", folder=self.folder)
        self.assertEqual(status, 0, said)
        # And the simulator would have noticed.
        (self.folder / "alerts.yaml").write_text(self.rules.replace('"down"', '"serves"'), "utf-8")
        status, _ = promtool("test", "rules", "alerts_cases.yaml", folder=self.folder)
        self.assertNotEqual(status, 0)


if __name__ == "__main__":
    unittest.main()
