"""Options from a file and from the environment, --quiet, --verbose, and '-', for every command."""

import collections
import concurrent.futures
import json
import os
import re
import subprocess
import unittest

import harness

TAKEN = {"PARTITA_" + word for word in (
    "ATTEMPT CHANGE CONFIG LIBRARY ONNXRUNTIME PHASE PROFILE REMOTE REMOTE_CHECK REMOTE_FAULTS "
    "REMOTE_SHAPE REMOTE_STATS REMOTE_TIMEOUT_MS REMOTE_TOKEN ROUNDS RUN SIM TASK WORKER").split()}


def command_flags():
    """Of every command that can be run, its flags with the names of their values; forms of verbs
    by their older names. All as `partita docs` says, which is printed from what the parser
    accepts."""
    found = {}

    def look(command, path):
        if not command["children"] and path not in (["help"], ["lab"], []):
            found[tuple(path)] = {flag["names"][-1][2:]: flag["value"]
                                  for flag in command["flags"] if not flag["everywhere"]
                                  and flag["names"][-1] != "--help"}
        for form in command.get("forms", []):
            look(form, form["was"].split())
        for child in command["children"]:
            look(child, [*path, child["path"][-1]])

    done = subprocess.run([harness.PROGRAM, "docs"], check=True, capture_output=True)
    look(json.loads(done.stdout)["root"], [])
    return found


def variable(*words):
    return "_".join(("partita", *words)).upper().replace("-", "_")


def has_own_config(path):
    """Where --config is an older name of another flag: of HotSpot's --package."""
    return path[0] == "thermal"


class SettingsTest(harness.CliTest):
    commands = command_flags()

    def test_the_packaged_file_is_right_with_all_its_examples(self):
        packaged = harness.source_text("packaging/etc/partita.yaml")
        shown = re.sub(r"^#(?=\S|  )", "", packaged, flags=re.MULTILINE)
        self.assertIn("\nworkers: ", shown)
        for text in (packaged, shown):
            self.write("partita.yaml", text)
            self.run_with("gpus", "--config", self.path("partita.yaml"))

    def run_with(self, *args, environment=None, status=0, text=""):
        done = subprocess.run([harness.PROGRAM, *args], cwd=self.folder, capture_output=True,
                              check=False, text=True, input=text, timeout=60,
                              env={**os.environ, **(environment or {})})
        self.assertEqual(done.returncode, status, (args, done.stderr))
        return done

    def settings(self, text):
        self.write("settings.yaml", text)
        return ("--config", "settings.yaml")

    def test_the_list_of_commands_is_whole(self):
        self.assertGreater(len(self.commands), 60)
        self.assertIn("gpu", self.commands["plan",])
        self.assertEqual(self.commands["batch", "schedule"]["format"], "text|json|svg")

    def test_what_comes_first(self):
        def planned(*args, **environment):
            done = self.run_with("layouts", "A30-24GB", *args, environment=environment)
            return "text" if "{" not in done.stdout[:1] else "json"

        config = self.settings("all: {format: json}\n")
        self.assertEqual(planned(), "text")
        self.assertEqual(planned(*config), "json")
        self.assertEqual(planned(PARTITA_CONFIG="settings.yaml"), "json")
        self.settings("all: {format: json}\nlayouts: {format: text}\n")
        self.assertEqual(planned(*config), "text")
        self.assertEqual(planned(*config, PARTITA_FORMAT="json"), "json")
        both = {"PARTITA_FORMAT": "json", "PARTITA_LAYOUTS_FORMAT": "text"}
        self.assertEqual(planned(*config, **both), "text")
        self.assertEqual(planned(*config, "--format", "json", **both), "json")
        self.assertEqual(planned(PARTITA_FORMAT=""), "text")

    def test_settings_stand_for_required_options(self):
        self.settings("plan:\n  services: services.yaml\n  profiles: profiles.csv\n"
                      "  gpu: A100-80GB\n  format: json\n")
        plan = json.loads(self.run_with("plan", "--config", "settings.yaml").stdout)
        self.assertEqual(plan["kind"], "ServingPlan")
        self.run_with("plan", status=2)
        same = json.loads(self.run_with("--config", "settings.yaml", "plan").stdout)
        self.assertEqual(plan["gpus"], same["gpus"])
        # What the command line rules out is not taken.
        self.write("fleet.yaml", "gpus: [{gpu: A30-24GB, profiles: profiles.csv}]\n")
        fleet = self.run_with("plan", "--config", "settings.yaml", "--fleet", "fleet.yaml")
        self.assertEqual(json.loads(fleet.stdout)["gpu_model"], "A30-24GB")

    def test_lists_and_switches(self):
        self.write("machine.yaml", "gpus: [{model: A100-80GB, mig: true}]\n")
        self.settings("all: {driver: sim, machine: machine.yaml}\nstatus: {watch: true, count: 2, "
                      "interval: 10ms}\n")
        said = self.run_with("status", "--config", "settings.yaml").stdout
        self.assertEqual(said.count("1 GPU, 0 instances"), 2)
        self.settings("all: {driver: sim, machine: machine.yaml}\nstatus: {watch: false}\n")
        said = self.run_with("status", "--config", "settings.yaml").stdout
        self.assertEqual(said.count("1 GPU, 0 instances"), 1)

    def test_wrong_settings_name_their_line(self):
        for text, where, what in (
                ("plan:\n  gpuu: A30-24GB\n", 2, "no such option: 'gpuu'; did you mean 'gpu'?"),
                ("\nplna:\n  gpu: A30-24GB\n", 3, "no such command: 'plna'"),
                ("batch:\n  schedule:\n    gpu: A30-24GB\n    tusks: a.csv\n", 4, "did you mean"),
                ("all:\n  formt: json\n", 2, "no such option: 'formt'"),
                ("all: 3\n", 1, "options with their values are wanted"),
                ("layouts: [1]\n", 1, "options with their values are wanted"),
                ("layouts:\n  format: {a: 1}\n", 2, "a word, a number, true, false"),
                ("layouts:\n  format: jsn\n", 2, "--format: 'jsn' is not one of text, json"),
                ("plan: {gpu: a}\nplan: {gpu: b}\n", 2, "plan"),
                ("layouts:\n  config: a.yaml\n", 2, "no such option"),
                ("layouts: {\n", 2, "")):
            config = self.settings(text)
            said = self.run_with("layouts", "A30-24GB", *config, status=2).stderr
            self.assertRegex(said, rf"partita: settings\.yaml:{where}: ")
            self.assertIn(what, said)
        self.run_with("layouts", "A30-24GB", "--config", "none.yaml", status=2)
        self.run_with("layouts", "A30-24GB", *self.settings("# nothing\n\n"))
        self.run_with("layouts", "A30-24GB", *self.settings(""))
        # Help does not depend on them.
        self.run_with("layouts", "--help", *self.settings("nonsense: 1\n"))

    def test_variables_have_one_meaning(self):
        means = collections.defaultdict(set)
        for path, flags in self.commands.items():
            for flag in flags:
                means[variable(*path, flag)].add((path, flag))
                if variable(flag) not in TAKEN:
                    means[variable(flag)].add(((), flag))
        twice = {name: meant for name, meant in means.items() if len(meant) > 1}
        self.assertEqual(twice, {})
        self.assertEqual(set(means) & TAKEN, set())

    def test_every_closed_option_of_every_command_hears_its_variables(self):
        heard = 0
        for path, flags in self.commands.items():
            for flag, value in flags.items():
                if "|" not in value or value.upper() == value or path == ("man",):
                    continue
                words = value.split("|")
                if not all(word.islower() for word in words):
                    continue
                for name in (variable(*path, flag), variable(flag)):
                    done = self.run_with(*path, environment={name: "no-such"}, status=2)
                    if name not in done.stderr:  # a list that is not closed
                        said = self.run_with(*path, f"--{flag}=no-such", status=2).stderr
                        self.assertNotIn("is not one of", said)
                        continue
                    self.assertRegex(done.stderr, rf"{name}: .*no-such")
                    heard += 1
        self.assertGreater(heard, 120)

    def test_every_command_refuses_unknown_settings(self):
        for path, flags in self.commands.items():
            if has_own_config(path):
                continue
            text, indent = "", ""
            for word in path:
                text += f"{indent}{word}:\n"
                indent += "  "
            config = self.settings(text + f"{indent}no-such: 1\n")
            said = self.run_with(*path, *config, status=2).stderr
            self.assertIn(f"settings.yaml:{len(path) + 1}: no such option: 'no-such'", said)

    def test_every_command_explains_what_all_have(self):
        for path in self.commands:
            said = self.run_with(*path, "--help").stdout
            own = [] if has_own_config(path) else ["--config FILE"]
            for flag in ("--quiet", "--verbose", *own):
                self.assertIn(f"  {flag}\n", said, path)
            self.assertIn(variable(*path, "option"), said.replace("\n", " "))

    def test_quiet_and_verbose(self):
        flags = ("--services", "services.yaml", "--profiles", "profiles.csv")
        self.write("plan.json", self.ok(*self.plan_args("--format", "json")))
        loud = self.run_with("simulate", "plan.json", *flags, "--require", "1", "--load", "20",
                             "--duration", "2", status=1)
        self.assertIn("slo_attainment", loud.stderr)
        quiet = self.run_with("simulate", "plan.json", *flags, "--require", "1", "--load", "20",
                              "--duration", "2", "--quiet", status=1)
        self.assertEqual((quiet.stderr, quiet.stdout), ("", loud.stdout))
        self.assertIn("none.json", self.run_with("verify", "none.json", *flags, "--quiet",
                                                 status=2).stderr)
        verbose = self.run_with("--verbose", "verify", "plan.json", *flags,
                                environment={"PARTITA_FORMAT": "json"}).stderr
        for said in ("--format json (from PARTITA_FORMAT)", "read services.yaml, ",
                     "read profiles.csv, ", "exit status 0"):
            self.assertIn(said, verbose)
        self.run_with("gpus", "--quiet", "--verbose", status=2)

    def test_standard_input_and_output(self):
        plan = self.run_with(*self.plan_args("--format", "json", "-o", "-")).stdout
        flags = ("--services", "services.yaml", "--profiles", "profiles.csv")
        self.run_with("verify", "-", *flags, text=plan)
        self.write("plan.json", plan)
        self.run_with("verify", "plan.json", "--services", "-", *flags[2:], text=harness.SERVICES)
        wrong = self.run_with("verify", "plan.json", "--services", "-", *flags[2:], status=2,
                              text="services: [{name: a}]\n")
        self.assertRegex(wrong.stderr, r"partita: -:1: ")
        self.run_with("layouts", "A30-24GB", "--config", "-", text="layouts: {format: json}\n")
        schema = self.run_with("schema", "ServingPlan", "-o", "-").stdout
        self.assertIn("$schema", json.loads(schema))
        self.write("machine.yaml", "gpus: [{model: A100-80GB, mig: true}]\n")
        sample = self.run_with("observe", "--driver", "sim", "--machine", "machine.yaml",
                               "--record", "-", "--count", "2", "--interval", "10ms").stdout
        self.assertEqual(len(sample.splitlines()), 2)
        replayed = self.run_with("observe", "--replay", "-", "--format", "json", text=sample)
        self.assertEqual(replayed.stdout, sample)

    def test_no_output_is_a_file_named_dash(self):
        """Whatever else a command needs: what is written to '-' is no file of that name."""
        def run(words):
            try:
                subprocess.run([harness.PROGRAM, *words, "-"], cwd=self.folder, input=b"",
                               capture_output=True, check=False, timeout=5)
            except subprocess.TimeoutExpired:
                pass  # a server

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(run, [(*path, f"--{flag}") for path, flags in self.commands.items()
                                for flag, value in flags.items() if "FILE" in value]))
        self.assertNotIn("-", os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main()
