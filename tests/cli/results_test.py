"""The pages of results and of profiles: their commands run as they stand in a clone, and give the
numbers of their tables."""

import json
import re
import unittest

import harness

PROFILES = "data/published/parvagpu/a100-80gb.csv"


def table(document, heading):
    """The first table below a heading, without its header: the cells of every row."""
    text = harness.source_text(document).split(f"\n## {heading}")[1]
    rows = re.search(r"\|[-| ]+\|\n((?:\|.*\n)+)", text)[1].splitlines()
    return [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in rows]


class Serving(harness.CliTest):
    def test_the_commands_run_as_they_stand(self):
        self.as_in_a_clone()
        commands = harness.documented("docs/results/serving.md", "plan ", "simulate ")
        self.assertEqual([one[0] for one in commands], ["plan", "plan", "simulate"])
        for arguments in commands:
            with self.subTest(" ".join(arguments)):
                self.ok(*arguments)

    def test_every_planner_needs_as_many_gpus_as_the_table_says(self):
        self.as_in_a_clone()
        rows = table("docs/results/serving.md", "Planning by execution latency")
        for rule, row in [("execution:0.45", row) for row in rows[:4]] + [
                ("queueing", table("docs/results/serving.md", "Planning by end-to-end")[0])]:
            planner = row[0].split(",")[0]
            for number, cell in enumerate(row[1:7], 1):
                plan = self.json("plan", "--services", f"data/scenarios/s{number}.yaml",
                                 "--profiles", PROFILES, "--gpu", "A100-80GB", "--slo-rule", rule,
                                 "--planner", planner, "--max-processes", "3")["objective"]
                with self.subTest(f"{planner} {rule} S{number}"):
                    self.assertEqual(f"{plan['gpus']}/{plan['gpcs']}", cell)
                    self.assertEqual(planner == "exact", bool(plan.get("optimal")))


class Kernels(harness.CliTest):
    def test_the_command_gives_its_row_of_the_table(self):
        self.as_in_a_clone()
        [command] = harness.documented("docs/results/kernels.md", "kernels ")
        found = self.json(*command)["policies"]
        text = harness.source_text("docs/results/kernels.md")
        rows = text.split("Throughput by model, N = 4")[1]
        names = re.search(r"^\| \| (.*) \|$", rows, re.MULTILINE)[1].split(" | ")
        row = re.search(r"^\| resnet \| (.*) \|$", rows, re.MULTILINE)[1].split(" | ")
        measured = {policy["policy"]: f"{policy['normalised']:.2f}" for policy in found}
        self.assertEqual({name: measured[name] for name in names}, dict(zip(names, row)))


class Profiles(harness.CliTest):
    def test_the_commands_run_as_they_stand_and_the_laws_fit_as_the_table_says(self):
        self.as_in_a_clone()
        commands = harness.documented("docs/profiles.md", "profile ")
        self.assertEqual([one[1] for one in commands],
                         ["show", "plot", "predict", "fit", "import"])
        for arguments in commands:
            done = self.run_partita(*arguments)
            report = re.sub(" {2,}", " | ", done.stderr.decode())
            self.assertEqual(done.returncode, 0, report)
            if arguments[1] == "fit":
                for row in table("docs/profiles.md", "How good it is"):
                    self.assertRegex(report, "(?m)^" + re.escape(" | ".join(row)))
        fitted = json.loads(self.read("laws.json"))["laws"]
        shipped = json.loads(harness.source_text("data/profiles/a100-80gb.json"))["laws"]
        self.assertEqual(fitted, shipped)


if __name__ == "__main__":
    unittest.main()
