"""The pages of results and of profiles: their commands run as they stand in a clone, and give the
numbers of their tables."""

import json
import re
import unittest

import harness

PROFILES = "data/published/parvagpu/a100-80gb.csv"


def table(document, heading, title=""):
    """The first table below a heading, without its header: the cells of every row; with a title,
    below that as well."""
    text = harness.source_text(document).split(f"\n## {heading}")[1]
    text = text[text.index(title):] if title else text
    rows = re.search(r"\|[-| ]+\|\n((?:\|.*\n)+)", text)[1].splitlines()
    return [[cell.strip(" *") for cell in row.strip("|").split("|")] for row in rows]


class Serving(harness.CliTest):
    def test_the_commands_run_as_they_stand(self):
        self.as_in_a_clone()
        commands = harness.documented("docs/results/serving.md", "plan ", "simulate ", "compare ")
        self.assertEqual([one[0] for one in commands], ["plan", "plan", "plan", "simulate",
                                                            "compare"])
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

    def test_pools_and_their_bounds_are_those_of_the_table(self):
        self.as_in_a_clone()
        found, bounds = table("docs/results/serving.md", "Planning a service as one pool")[:2]
        for number in range(1, 7):
            plan = self.json("plan", "--services", f"data/scenarios/s{number}.yaml", "--profiles",
                             PROFILES, "--gpu", "A100-80GB")["objective"]
            with self.subTest(f"S{number}"):
                self.assertEqual(f"{plan['gpus']}/{plan['gpcs']}", found[number])
                bound = f"{plan['lower_bound_gpus']}/{plan['lower_bound_gpcs']}"
                self.assertEqual(bound, bounds[number])
                self.assertEqual(found[number] == bounds[number], bool(plan.get("optimal")))

    def test_services_that_are_dear_with_a_queue_per_instance_are_cheap_as_a_pool(self):
        self.as_in_a_clone()
        for name, queues, pool, bound, _ in table("docs/results/serving.md",
                                                  "Planning a service as one pool", "Cases where"):
            model, rate, slo = re.fullmatch(r"(\w+), (\d+)/s, ([\d.]+) ms", name).groups()
            self.write("one.yaml", "services: [{name: one, model: %s, rate_rps: %s, slo_ms: %s}]\n"
                       % (model, rate, slo))
            plans = {rule: self.json("plan", "--services", "one.yaml", "--profiles", PROFILES,
                                     "--gpu", "A100-80GB", "--slo-rule", rule)["objective"]
                     for rule in ("queueing", "pooled")}
            with self.subTest(name):
                self.assertEqual(str(plans["queueing"]["gpus"]), queues)
                pooled = plans["pooled"]
                self.assertEqual(f"{pooled['gpus']}/{pooled['gpcs']}", pool)
                self.assertEqual(f"{pooled['lower_bound_gpus']}/{pooled['lower_bound_gpcs']}",
                                 bound)


    def test_plans_with_spares_need_as_many_gpus_as_the_table_says(self):
        self.as_in_a_clone()
        rows = table("docs/results/serving.md", "Spares")
        for rule, planned, bound, most in [("execution:0.45", rows[0], rows[1], 6),
                                           ("pooled", rows[2], rows[3], 4)]:
            for number in range(1, most + 1):
                plan = self.json("plan", "--services", f"data/scenarios/s{number}.yaml",
                                 "--profiles", PROFILES, "--gpu", "A100-80GB", "--slo-rule", rule,
                                 "--survive", "1")["objective"]
                with self.subTest(f"{rule} S{number}"):
                    self.assertEqual(f"{plan['gpus']}/{plan['gpcs']}", planned[number])
                    self.assertEqual(f"{plan['lower_bound_gpus']}/{plan['lower_bound_gpcs']}",
                                     bound[number])

    def gpus(self, planner, services):
        """GPUs/GPCs of a baseline; "refused" where the answer is no."""
        done = self.run_partita("plan", "--services", services, "--profiles", PROFILES, "--gpu",
                                "A100-80GB", "--slo-rule", "execution:0.5", "--planner", planner,
                                "--format", "json")
        if done.returncode == 1:
            return "refused"
        self.assertEqual(done.returncode, 0, done.stderr)
        objective = json.loads(done.stdout)["objective"]
        return f"{objective['gpus']}/{objective['gpcs']}"

    def test_every_baseline_needs_as_many_gpus_as_the_tables_say(self):
        self.as_in_a_clone()
        heading = "Planners of other systems"
        counts = {}
        for planner, *cells in table("docs/results/serving.md", heading):
            counts[planner] = [self.gpus(planner, f"data/scenarios/s{n}.yaml")
                               for n in range(1, 7)]
            with self.subTest(planner):
                self.assertEqual(counts[planner], cells[:6])
                if cells[6]:
                    saved = [1 - int(ours.split("/")[0]) / int(theirs.split("/")[0]) for
                             ours, theirs in zip(counts["parvagpu"], counts[planner])
                             if theirs != "refused"]
                    self.assertEqual(f"{100 * sum(saved) / len(saved):.1f} %",
                                     cells[6].removesuffix(" (S1..S4)"))
        services = harness.source_text("data/scenarios/s5.yaml").split("services:\n")[1]
        for planner, *cells in table("docs/results/serving.md", heading, "S5 x k"):
            for k in (1, 2, 10):
                copies = [services.replace("{name: ", "{name: c%d-" % copy) for copy in range(k)]
                self.write("many.yaml", "services:\n" + "".join(copies))
                with self.subTest(f"{planner} S5 x {k}"):
                    found = self.gpus(planner, "many.yaml")
                    self.assertEqual(found.split("/")[0], cells[k - 1])


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
        commands = harness.documented("docs/profiles.md", "profile ", "show ")
        self.assertEqual([" ".join(one[:1 + (one[0] == "profile")]) for one in commands],
                         ["show", "show", "profile predict", "profile law", "profile import"])
        for arguments in commands:
            done = self.run_partita(*arguments)
            report = re.sub(" {2,}", " | ", done.stderr.decode())
            self.assertEqual(done.returncode, 0, report)
            if arguments[1] == "law":
                for row in table("docs/profiles.md", "Accuracy of the law"):
                    self.assertRegex(report, "(?m)^" + re.escape(" | ".join(row)))
        fitted = json.loads(self.read("laws.json"))["laws"]
        shipped = json.loads(harness.source_text("data/profiles/a100-80gb.json"))["laws"]
        self.assertEqual(fitted, shipped)


if __name__ == "__main__":
    unittest.main()
