"""`partita init`, and the commands that it and the README's first screen tell people to run."""

import os
import shlex
import subprocess
import unittest

import harness

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class InitTest(harness.CliTest):
    def init(self, *arguments):
        """The commands that init prints, as words."""
        lines = self.ok("init", *arguments).splitlines()
        return [shlex.split(line) for line in lines if line.startswith("    partita ")]

    def run_printed(self, commands):
        self.assertEqual([command[1] for command in commands], ["plan", "verify", "simulate"])
        outputs = [self.ok(*command[1:]) for command in commands]
        self.assertIn("ok: 2 services", outputs[1])
        self.assertIn("search", outputs[2])

    def test_what_it_prints_runs(self):
        self.run_printed(self.init("mine"))
        self.assertEqual(sorted(os.listdir(self.path("mine"))),
                         ["plan.json", "profiles.csv", "services.yaml"])

    def test_here_and_in_folders_with_odd_names(self):
        os.remove(self.path("services.yaml"))
        os.remove(self.path("profiles.csv"))
        self.run_printed(self.init())
        self.run_printed(self.init("deep/my services'/"))

    def test_the_services_file_explains_itself(self):
        self.init("mine")
        text = self.read("mine/services.yaml")
        for key in ("rate_rps", "slo_ms", "percentile", "min_replicas"):
            self.assertRegex(text, rf"{key}: \d+ +# ")
        for column in self.read("mine/profiles.csv").splitlines()[0].split(",")[1:]:
            self.assertRegex(text, rf"(?m)^#   {column} ")

    def test_it_overwrites_nothing(self):
        for file in ("services.yaml", "profiles.csv"):
            folder = f"with {file}"
            os.mkdir(self.path(folder))
            self.write(f"{folder}/{file}", "mine\n")
            done = self.run_partita("init", folder)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stdout, b"")
            self.assertIn(f"{folder}/{file}: the file exists", done.stderr.decode())
            self.assertEqual(os.listdir(self.path(folder)), [file])
            self.assertEqual(self.read(f"{folder}/{file}"), "mine\n")

    def test_a_file_is_no_folder(self):
        self.assertEqual(self.run_partita("init", "services.yaml").returncode, 3)

    def test_the_readmes_first_block_word_for_word(self):
        with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
            block = file.read().split("    build/release/partita init")[1].split("\n\n")[0]
        os.makedirs(self.path("build/release"))
        os.symlink(harness.PROGRAM, self.path("build/release/partita"))
        done = subprocess.run(["bash", "-ec", "build/release/partita init" + block],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ok: 2 services", done.stdout)
        # What init prints is what the README says.
        for line in done.stdout.splitlines():
            if line.startswith("    partita "):
                self.assertIn(line[4:], block)
        # And the files it shows begin as they do.
        for form, name in (("yaml", "services.yaml"), ("csv", "profiles.csv")):
            shown = harness.source_text("README.md").split(f"```{form}\n")[1].split("```")[0]
            self.assertGreater(len(shown.splitlines()), 2)
            self.assertIn(shown, self.read(f"mine/{name}"))


if __name__ == "__main__":
    unittest.main()
