"""The command line as its contract says: keys, exit statuses, output, determinism, help."""

import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
import unittest

from harness import PROGRAM, CliTest
from servers import all_of


class Plans(CliTest):
    def test_plan_has_the_contract_keys(self):
        plan = self.json(*self.plan_args())
        self.assertEqual((plan["api_version"], plan["kind"]), ("partita/v1", "ServingPlan"))
        self.assertEqual((plan["gpu_model"], plan["planner"], plan["slo_rule"], plan["dispatch"]),
                         ("A100-80GB", "exact", "pooled", "pooled"))
        self.assertLessEqual({"gpus", "gpcs", "lower_bound_gpus", "optimal"},
                             plan["objective"].keys())
        self.assertEqual(plan["objective"]["gpus"], len(plan["gpus"]))
        self.assertEqual([s["name"] for s in plan["services"]], ["chat", "search"])
        self.assertLessEqual({"profile", "start", "service", "batch", "processes", "throughput_rps",
                              "latency_ms"}, plan["gpus"][0]["instances"][0].keys())
        self.assertIn("planning_ms", plan["stats"])

    def test_dispatch_names_the_server_of_the_promise(self):
        for server, rule in (("pooled", "pooled"), ("paced", "queueing"),
                             ("shared-queue", "queueing"), ("per-process", "queueing")):
            choice = ("--dispatch", server)
            self.ok(*self.plan_args(*choice, "--format", "json", "-o", "p.json"))
            plan = json.loads(self.read("p.json"))
            self.assertEqual((plan["dispatch"], plan["slo_rule"]), (server, rule))
            # The file knows its server, also where the rule is named again.
            self.ok(*self.on_plan("verify", "p.json"))
            self.ok(*self.on_plan("verify", "p.json", "--slo-rule", rule))
            first = {"pooled": "a pooled server", "paced": "a paced server",
                     "shared-queue": "shared queues", "per-process": "a queue (port) per process"}
            self.assertIn(f"SLO rule {rule}\nmade for {first[server]}",
                          self.ok(*self.plan_args(*choice)))

    def test_rules_and_servers_that_do_not_fit(self):
        for rule, server in (("pooled", "paced"), ("pooled", "per-process"),
                             ("queueing", "pooled")):
            done = self.run_partita(*self.plan_args("--slo-rule", rule, "--dispatch", server))
            self.assertEqual((done.returncode, done.stderr.decode()),
                             (2, f"partita: --dispatch: the rule '{rule}' is not for a server that "
                                 f"is {server}\n"))
        self.ok(*self.plan_args("--slo-rule", "execution:0.5", "--dispatch", "per-process"))
        self.ok(*self.plan_args("--dispatch", "sideways"), status=2)
        self.ok(*self.plan_args("--format", "json", "-o", "p.json"))
        plan = json.loads(self.read("p.json"))
        plan["dispatch"] = "paced"
        self.write("p.json", json.dumps(plan, indent=1))
        done = self.run_partita(*self.on_plan("verify", "p.json"))
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr.decode(),
                         r"p.json:\d+: 'dispatch': the rule 'pooled' is not for a server that is "
                         "paced")

    def test_every_planner_makes_a_plan_that_the_judge_accepts(self):
        planners = self.json("planners")["planners"]
        self.assertEqual(planners[0]["name"], "exact")
        for planner in planners:
            with self.subTest(planner["name"]):
                choice = ("--planner", planner["name"])
                self.ok(*self.plan_args(*choice, "--format", "json", "-o", "p.json"))
                self.assertIn("ok", self.ok(*self.on_plan("verify", "p.json")))

    def test_verify_says_no(self):
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        plan = json.loads(self.read("plan.json"))
        plan["gpus"][0]["instances"][0]["start"] += 1
        self.write("broken.json", json.dumps(plan))
        verdict = self.json(*self.on_plan("verify", "broken.json"), status=1)
        self.assertEqual((verdict["kind"], verdict["ok"]), ("Verdict", False))
        self.assertTrue(verdict["violations"])
        self.ok(*self.on_plan("simulate", "broken.json"), status=1)

    def test_a_plan_for_other_services_is_refused_by_its_digest(self):
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        self.assertRegex(json.loads(self.read("plan.json"))["problem_digest"], "^[0-9a-f]{16}$")
        # The same services in another order, and as JSON, are the same problem.
        services = [{"name": "search", "model": "large", "rate_rps": 30.0, "slo_ms": 5e2},
                    {"name": "chat", "model": "small", "rate_rps": 120, "slo_ms": 200}]
        self.write("services.yaml", json.dumps({"services": services}))
        self.ok(*self.on_plan("verify", "plan.json"))
        # The digest says so, and the term is named.
        services[0]["percentile"] = 98
        self.write("services.yaml", json.dumps({"services": services}))
        verdict = self.json(*self.on_plan("verify", "plan.json"), status=1)
        self.assertEqual([one["constraint"] for one in verdict["violations"]],
                         ["problem_digest", "service_row"])
        self.assertEqual(verdict["violations"][1]["subject"], "service search percentile")
        said = self.run_partita(*self.on_plan("simulate", "plan.json"))
        self.assertEqual(said.returncode, 1)
        self.assertIn("problem_digest", said.stderr.decode())
        # A plan of an older version, without digest or terms, is judged by what it says.
        plan = json.loads(self.read("plan.json"))
        del plan["problem_digest"]
        for row in plan["services"]:
            del row["model"], row["percentile"]
        self.write("plan.json", json.dumps(plan))
        self.ok(*self.on_plan("verify", "plan.json"))

    def test_advice_holds_when_it_is_taken(self):
        def service(slo):
            self.write_services(f"name: a, model: large, rate_rps: 300, slo_ms: {slo}")

        service(7)  # 1.4 x the fastest batch: one on seven GPCs, 2 + 20 / 7 ms
        plan = self.json(*self.plan_args())
        [advice] = plan["advice"]
        self.assertEqual((advice["service"], advice["gpus"]), ("a", plan["objective"]["gpus"]))
        self.assertAlmostEqual(advice["fastest_batch_ms"], 2 + 20 / 7)
        text = " ".join(self.ok(*self.plan_args()).split())
        self.assertIn("a: the SLO is 1.4 x the fastest batch (4.857 ms); with ", text)
        for option in advice["options"]:
            self.assertLess(option["gpus"], advice["gpus"])
            service(option["slo_ms"])
            self.assertEqual(self.json(*self.plan_args())["objective"]["gpus"], option["gpus"])
        service(500)
        self.assertNotIn("advice", self.json(*self.plan_args()))

    def test_a_model_without_profile_is_refused_with_those_there_are(self):
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        self.write_services("name: chat, model: lrge, rate_rps: 120, slo_ms: 200")
        for args in (self.plan_args(), self.on_plan("verify", "plan.json"),
                     self.on_plan("simulate", "plan.json")):
            done = self.run_partita(*args)
            self.assertEqual(done.returncode, 2)
            self.assertIn("services.yaml:2: service 'chat': there is no profile of model 'lrge'; "
                          "did you mean 'large'? (there are large, small)", done.stderr.decode())

    def test_units_that_were_probably_not_meant_are_said(self):
        for wrong, said in (
                ("rate_rps: 1, slo_ms: 2", "in seconds? Then write slo_ms: 2000"),
                ("rate_rps: 1, slo_ms: 200000", "in microseconds? Then write slo_ms: 200"),
                ("rate_rps: 9e5, slo_ms: 200", "per minute? Then write rate_rps: 1.5e+04")):
            self.write_services(f"name: a, model: large, {wrong}")
            done = self.run_partita(*self.plan_args())
            self.assertIn("partita: warning: services.yaml:2: service 'a': ", done.stderr.decode())
            self.assertIn(said, done.stderr.decode())

    def test_infeasible_is_explained(self):
        self.write_services("name: a, model: large, rate_rps: 1, slo_ms: 1")
        done = self.run_partita(*self.plan_args("--format", "json", "-o", "plan.json"))
        self.assertEqual(done.returncode, 1)
        refusal = json.loads(done.stdout)
        self.assertEqual(refusal["kind"], "Refusal")
        self.assertIn("a", refusal["reasons"][0]["subject"])
        self.assertIn(b"service a", done.stderr)
        self.assertFalse(os.path.exists(self.path("plan.json")))

    def test_rates_from_hardly_any_to_impossible_ones(self):
        for rate in ("1e-9", "1e-7", "1e-3"):
            self.write_services(f"name: a, model: large, rate_rps: {rate}, slo_ms: 500")
            plan = self.json(*self.plan_args())
            self.assertEqual(plan["objective"]["gpus"], 1, rate)
        for rate in ("1e9", "1e12"):
            self.write_services(f"name: a, model: large, rate_rps: {rate}, slo_ms: 500")
            done = self.run_partita(*self.plan_args())
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.decode(), "fleet_count.*a plan has at most 20000 GPUs")

    def test_max_gpus_states_the_bound(self):
        self.write_services("name: a, model: large, rate_rps: 1500, slo_ms: 500")
        need = self.json(*self.plan_args())["objective"]["gpus"]
        self.assertGreater(need, 1)
        self.ok(*self.plan_args("--max-gpus", str(need)))
        done = self.run_partita(*self.plan_args("--max-gpus", str(need - 1)))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(),
                         f"fleet_count.*have {need - 1}, need {need}.*lower bound")

    def test_fleet(self):
        self.write("fleet.yaml",
                   "gpus:\n- {gpu: A100-80GB, profiles: profiles.csv, price: 3}\n"
                   "- {gpu: H100-80GB-SXM5, profiles: profiles.csv, price: 2, count: 4}\n")
        arguments = ("--services", "services.yaml", "--fleet", "fleet.yaml")
        self.ok("plan", *arguments, "--format", "json", "-o", "plan.json")
        self.ok("verify", "plan.json", *arguments)
        models = {gpu["model"] for gpu in json.loads(self.read("plan.json"))["gpus"]}
        self.assertEqual(models, {"H100-80GB-SXM5"})

    def test_svg(self):
        import xml.etree.ElementTree
        root = xml.etree.ElementTree.fromstring(self.ok(*self.plan_args("--format", "svg")))
        self.assertTrue(root.tag.endswith("svg"))

    def test_svg_of_many_gpus_in_pages(self):
        self.write_services("name: a, model: large, rate_rps: 60000, slo_ms: 500")
        gpus = self.json(*self.plan_args())["objective"]["gpus"]
        self.assertGreater(gpus, 150)
        self.ok(*self.plan_args("--format", "svg", "-o", "p.svg"))
        files = [name for name in os.listdir(self.folder) if name.endswith(".svg")]
        self.assertEqual(len(files), -(-gpus // 150))
        pages = [self.read("p.svg"), *(self.read(f"p-{n}.svg") for n in range(2, len(files) + 1))]
        for number, page in enumerate(pages):
            self.assertIn(f"page {number + 1} of {len(pages)}<", page)
            self.assertIn(f">GPU {150 * number}<", page)
        done = self.run_partita(*self.plan_args("--format", "svg"))
        self.assertEqual(done.stdout.decode(), pages[0])
        self.assertIn(f"page 1 of {len(pages)}; -o FILE.svg writes them all",
                      done.stderr.decode())

    def test_what_is_required_is_said_in_a_sentence(self):
        for args, words in (
                (("plan", "--services", "services.yaml", "--gpu", "A30"),
                 "partita: --profiles is required: a CSV or a directory of measured profiles\n"),
                (("plan", "--services", "services.yaml", "--profiles", "profiles.csv"),
                 "partita: --gpu is required: a GPU model such as A100-80GB (or give --fleet)\n")):
            done = self.run_partita(*args)
            self.assertEqual((done.returncode, done.stderr.decode()), (2, words))


class Simulations(CliTest):
    def setUp(self):
        super().setUp()
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))

    def report(self, *more):
        report = self.json(*self.on_plan("simulate", "plan.json", *more))
        self.assertEqual(report["kind"], "ServingReport")
        self.assertGreater(report.pop("events_per_second"), 0)  # measured: differs from run to run
        return report

    def test_same_seed_same_report(self):
        seven, again, eight = (self.report("--seed", seed) for seed in "778")
        self.assertEqual(seven, again)
        self.assertNotEqual(seven["log_hash"], eight["log_hash"])

    def test_text_is_the_same_bytes(self):
        arguments = self.on_plan("simulate", "plan.json", "--seed", "3")
        self.assertEqual(self.ok(*arguments), self.ok(*arguments))

    def test_durations(self):
        for text in ("10", "10s", "10000ms"):
            report = self.report("--duration", text, "--arrivals", "uniform")
            self.assertEqual([s["offered"] for s in report["services"]], [1200, 300], text)

    def test_require(self):
        self.ok(*self.on_plan("simulate", "plan.json", "--require", "0.5"))
        # A burst that nobody can serve in time.
        self.write("burst.csv", "time_s,service\n" + "1,chat\n" * 5000)
        strict = ("--require", "0.99", "--arrivals", "burst.csv")
        done = self.run_partita(*self.on_plan("simulate", "plan.json", *strict))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"service chat: slo_attainment", done.stderr)

    def test_other_traffic(self):
        same = ("--duration", "10s", "--arrivals", "uniform")
        report = self.report(*same, "--load", "1.5", "--what-if", "search=80")
        self.assertEqual(report["load"], 1.5)
        self.assertEqual([s["rate_rps"] for s in report["services"]], [180, 80])
        self.assertEqual([s["offered"] for s in report["services"]], [1800, 800])
        self.assertIn("load 1.5,", self.ok(*self.on_plan("simulate", "plan.json", "--load", "1.5")))
        # What the services file declares is what is played.
        self.write("services.yaml", "arrivals: {cv: 3}\n" + self.read("services.yaml"))
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        declared = self.report("--duration", "10s")
        self.assertEqual(declared, self.report("--duration", "10s", "--arrivals", "gamma:3"))
        self.assertNotEqual(declared, self.report("--duration", "10s", "--arrivals", "poisson"))
        self.write("counts.csv", "name,1,2\nchat,1,0\nsearch,60,0\n")
        busy = self.report("--duration", "30s", "--arrivals", "counts.csv")["services"]
        self.assertGreater(busy[0]["offered"], 1.8 * 120 * 30)  # all of it in the first minute

    def test_compare(self):
        arguments = ("compare", *self.plan_args()[1:], "--duration", "5s")
        comparison = self.json(*arguments, "--planners", "exact,parvagpu@execution:0.45")
        self.assertEqual(comparison["kind"], "Comparison")
        rows = comparison["planners"]
        self.assertEqual([(r["planner"], r["slo_rule"]) for r in rows],
                         [("exact", "pooled"), ("parvagpu", "execution:0.45")])
        self.assertIn("exact", self.ok(*arguments))

    def test_compare_finds_batches_that_cannot_be_filled(self):
        # 0.5 req/s and an SLO of 2 s: a batch of 8 takes 14 s to fill, yet executes quickly.
        self.write_services("name: rare, model: small, rate_rps: 0.5, slo_ms: 2000")
        planners = ("--planners", "exact,parvagpu@execution:0.45")
        exact, parvagpu = self.json("compare", *self.plan_args()[1:], *planners)["planners"]
        self.assertEqual(exact["unfillable"], [])
        self.assertGreaterEqual(exact["worst_paced"]["slo_attainment"], 0.99)
        (item,) = parvagpu["unfillable"]
        self.assertEqual(item["service"], "rare")
        self.assertAlmostEqual(item["fill_ms"], (item["batch"] - 1) / 0.5 * 1000)
        self.assertLess(parvagpu["worst_full"]["slo_attainment"], 0.5)


class Catalogue(CliTest):
    def test_names(self):
        names = {gpu["name"] for gpu in self.json("gpus")["gpus"]}
        self.assertLessEqual({"A30-24GB", "A100-40GB", "A100-80GB", "H100-80GB-SXM5",
                              "H100-80GB-PCIe", "H200-141GB", "B200-180GB", "RTX-PRO-6000-96GB"},
                             names)
        for name in names:
            self.assertIn(name, self.ok("gpus"))
            self.assertIn(name, self.ok("gpus", name))

    def test_a_catalogue_folder_replaces_the_built_in_one(self):
        os.mkdir(self.path("gpus"))
        self.write("gpus/one.json", self.ok("gpus", "A30-24GB", "--format", "json"))
        self.assertEqual(self.json("gpus", "A30-24GB"),
                         self.json("gpus", "A30-24GB", "--catalogue", "gpus"))
        self.ok("gpus", "A100-80GB", "--catalogue", "gpus", status=2)

    def test_layouts(self):
        for arguments, count in ((["A100-80GB"], 19),
                                 (["A100-80GB", "--with", "double-memory"], 78),
                                 (["A100-80GB", "--with", "double-memory,me"], 239),
                                 (["A30-24GB"], 5)):
            document = self.json("layouts", *arguments)
            self.assertEqual((document["kind"], document["count"]), ("Layouts", count))
            self.assertEqual(len(document["layouts"]), count)
            self.assertEqual(len(self.ok("layouts", *arguments).splitlines()), count + 1)


class Output(CliTest):
    def test_unwritable_places(self):
        for place in ("nowhere/plan.json", ".", "/proc/plan.json"):
            with self.subTest(place):
                done = self.run_partita(*self.plan_args("--format", "json", "-o", place))
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertEqual(done.stdout, b"")
        self.assertEqual(sorted(os.listdir(self.folder)), ["profiles.csv", "services.yaml"])

    def test_a_refused_run_keeps_the_old_file(self):
        self.write("plan.json", "old")
        self.ok(*self.plan_args("--planner", "nobody", "-o", "plan.json"), status=2)
        self.assertEqual(self.read("plan.json"), "old")
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        self.assertEqual(json.loads(self.read("plan.json"))["kind"], "ServingPlan")
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["plan.json", "profiles.csv", "services.yaml"])

    def test_full_device(self):
        for words in (("gpus",), ("--version",), ("plan", "--help"),
                      ("observe", "--driver", "sim", "--count", "1")):
            with open("/dev/full", "wb") as full:
                done = self.run_partita(*words, stdout=full)
            self.assertEqual((done.returncode, b"standard output" in done.stderr), (3, True), words)

    def test_a_closed_pipe_is_quiet(self):
        script = '"$0" layouts A100-80GB --with double-memory,me --format json | head -c 1'
        done = subprocess.run(["bash", "-c", script, PROGRAM], capture_output=True, check=True)
        self.assertEqual((done.stdout, done.stderr), (b"{", b""))

    def on_terminal(self, **environment):
        master, slave = pty.openpty()
        process = subprocess.Popen([PROGRAM, *self.plan_args()], stdout=slave, stderr=slave,
                                   cwd=self.folder, env={**os.environ, **environment})
        os.close(slave)
        output = all_of(master)
        self.assertEqual(process.wait(timeout=60), 0)
        return output

    def test_colour_only_on_terminals_and_not_against_the_user(self):
        self.assertIn(b"\033[", self.on_terminal(NO_COLOR=""))
        self.assertNotRegex(self.on_terminal(NO_COLOR="1").decode(), "\033\\[[0-9;]*m")
        self.assertNotIn("\033", self.ok(*self.plan_args()))


class Rows(CliTest):
    def rows(self, *args):
        return list(csv.DictReader(io.StringIO(self.ok(*args, "--format", "csv"))))

    def test_result_tables_are_csv_with_the_values_of_the_document(self):
        inputs = self.plan_args()[1:]
        said = self.json("compare", *inputs, "--planners", "exact,parvagpu")["planners"]
        rows = self.rows("compare", *inputs, "--planners", "exact,parvagpu")
        self.assertEqual([(row["planner"], int(row["gpus"])) for row in rows],
                         [(one["planner"], one["gpus"]) for one in said])
        self.assertEqual([float(row["worst_paced.slo_attainment"]) for row in rows],
                         [one["worst_paced"]["slo_attainment"] for one in said])
        self.write("plan.json", self.ok(*self.plan_args("--format", "json")))
        played = ("simulate", "plan.json", *inputs[:4], "--duration", "5")
        said = self.json(*played)["services"]
        self.assertEqual([(row["name"], float(row["p99_ms"])) for row in self.rows(*played)],
                         [(one["name"], one["p99_ms"]) for one in said])


class Help(CliTest):
    def commands(self):
        lines = self.ok("--help").split("Commands:\n")[1].split("\n\n")[0].splitlines()
        names = [line.split()[0] for line in lines if re.match("  [a-z]", line)]
        return [name for name in names if name != "lab"]  # a program of its own

    def flags(self, *command):
        lines = self.ok(*command, "--help").splitlines()
        return [word.strip(",") for line in lines if line.startswith("  -") for word in line.split()
                if word.startswith("-")]

    def test_help_is_the_same_from_both_sides(self):
        for command in self.commands():
            text = self.ok("help", command)
            self.assertEqual(text, self.ok(command, "--help"))
            self.assertTrue(all(len(line) <= 100 for line in text.splitlines()), command)

    def test_version(self):
        self.assertRegex(self.ok("--version"), r"^partita \d+\.\d+\.\d+(\+\d+\.g[0-9a-f]+)?\n$")

    def test_man_and_completions_know_every_flag(self):
        texts = {"man": self.ok("man").replace("\\-", "-")}
        texts.update({shell: self.ok("completion", shell) for shell in ("bash", "zsh", "fish")})
        for command in self.commands():
            for flag in self.flags(command):
                for name, text in texts.items():
                    spelling = flag
                    if name == "fish":
                        spelling = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                    if flag not in ("-h", "--help") or name != "man":
                        self.assertIn(spelling, text, f"{name}: {command} {flag}")

    def test_man_page_is_clean(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"],
                              input=self.ok("man").encode(), capture_output=True, check=True)
        self.assertEqual(done.stderr, b"")

    def test_bash_completion(self):
        self.assertEqual(self.complete("pla"), ["planners", "plan"])
        self.assertEqual(self.complete("plan", "--form"), ["--format"])
        self.assertEqual(self.complete("plan", "--format", ""), ["text", "json", "svg"])
        self.assertIn("H200-141GB", self.complete("plan", "--gpu", "H2"))
        self.assertEqual(self.complete("plan", "--planner", "exa"), ["exact"])
        self.assertEqual(self.complete("plan", "--services", "no-such-word"), [])

    def test_shells_can_read_their_scripts(self):
        for shell in ("bash", "zsh", "fish"):
            if shutil.which(shell) is None:
                continue
            done = subprocess.run([shell, "-n"], input=self.ok("completion", shell), text=True,
                                  capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), shell)


class Demo(CliTest):
    def test_the_demo_needs_nothing(self):
        text = self.ok("demo")
        self.assertTrue(os.path.exists(self.path("demo-plan.svg")))
        # As few GPUs as the bound says, so no plan has fewer.
        self.assertRegex(text, r"(?m)^(\d+) GPUs, \d+ GPCs; lower bound \1 GPUs, \d+ GPCs: ")
        self.assertIn("no violation (pooled)", text)
        os.mkdir(self.path("build"))
        self.assertIn("build/demo-plan.svg", self.ok("demo"))


if __name__ == "__main__":
    unittest.main()
