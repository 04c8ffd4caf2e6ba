"""Verbs look at what they are about: every form of one says the same as the command that has its
older name, with the same exit status, and both hear what settings say of them."""

import json
import os
import subprocess

import harness

TASKS = "task,time_s_1g,time_s_2g,time_s_4g\na,40,25,14\nb,30,16,9\nc,12,8,6\n"
TABLE = """model,clock_mhz,units,batch,p95_ms,max_rps,power_w
-,0,0,0,0,0,15
-,1000,0,0,0,0,45
-,1500,0,0,0,0,60
m,1000,30,1,20,60,80
m,1500,30,1,14,90,110
m,1000,60,1,12,100,110
m,1500,60,1,8,140,160
"""
LOAD = "services: [{name: s, model: m, rate_rps: 20, slo_ms: 100}]\n"
MACHINE = "gpus: [{model: A100-80GB, mig: true}]\nstate: node.state\n"
HERE = ("--driver", "sim", "--machine", "machine.yaml")
ETCD = ("--fleet", "http://127.0.0.1:9")


class VerbsTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        for name, text in (("tasks.csv", TASKS), ("table.csv", TABLE), ("load.yaml", LOAD),
                           ("machine.yaml", MACHINE)):
            self.write(name, text)

    def said(self, *args, environment=None):
        done = subprocess.run([harness.PROGRAM, *args], cwd=self.folder, capture_output=True,
                              check=False, text=True, timeout=60,
                              env={**os.environ, "PARTITA_STATE_DIR": self.path("state"),
                                   **(environment or {})})
        return done.returncode, done.stdout, done.stderr

    def same(self, now, was, status=0):
        """Of two command lines; times that the programs took are no part of it."""
        answers = []
        for words in (now, was):
            code, out, err = self.said(*words)
            self.assertEqual(code, status, (words, err))
            if out.startswith("{"):
                document = json.loads(out)
                for key in ("stats", "events_per_second"):
                    document.pop(key, None)
                out = json.dumps(document)
            answers.append((out, err.splitlines()[:1]))
        self.assertEqual(*answers)
        return answers[0][0]

    def make(self, name, *args):
        code, out, err = self.said(*args)
        self.assertEqual(code, 0, (args, err))
        self.write(name, out)

    def test_batches(self):
        gpu = ("--tasks", "tasks.csv", "--gpu", "A30-24GB")
        json_ = ("--format", "json")
        self.same(("init", "--count", "5", "--scaling", "good", "--times", "wide", *gpu[2:]),
                  ("batch", "generate", "--count", "5", "--scaling", "good", "--times", "wide",
                   *gpu[2:]))
        self.same(("plan", *gpu, *json_), ("batch", "schedule", *gpu, *json_))
        for more in (("--online",), gpu[:2], ("--tasks", "tasks.csv", "--method", "trivial")):
            self.same(("plan", *gpu, *more, *json_), ("batch", "stream", *gpu, *more, *json_))
        self.same(("planners",), ("batch", "schedulers"))
        self.make("s.json", "plan", *gpu, *json_)
        for place in (("s.json", *gpu[:2]), (*gpu[:2], "s.json")):
            self.same(("verify", *place), ("batch", "verify", *place))
            self.same(("simulate", *place, *json_), ("batch", "simulate", *place, *json_))
        self.same(("verify", "s.json"), ("batch", "verify", "s.json"), 2)  # its kind says it
        wrong = json.loads(self.read("s.json"))
        wrong["tasks"][0]["end_s"] += 1
        self.write("wrong.json", json.dumps(wrong))
        self.same(("verify", "wrong.json", *gpu[:2]), ("batch", "verify", "wrong.json", *gpu[:2]),
                  1)
        few = ("--schedulers", "far,fixed:4g")
        code, out, _ = self.said("compare", *gpu, *few, *json_)
        self.assertEqual((code, json.loads(out)["kind"]), (0, "BatchComparison"))
        carried = ("--tasks", "tasks.csv", *HERE, "--gpu", "0", "--rehearse")
        self.write("machine.yaml", MACHINE.replace("A100-80GB", "A30-24GB"))
        code, out, err = self.said("apply", "s.json", *carried)
        self.assertEqual(code, 0, err)
        self.assertEqual(self.said("batch", "run", "s.json", *carried)[0], 0)

    def test_power(self):
        power = ("--services", "load.yaml", "--table", "table.csv", "--topology", "4x15")
        json_ = ("--format", "json")
        self.same(("plan", *power), ("power", "plan", *power))
        self.make("p.json", "plan", *power, *json_)
        self.same(("verify", "p.json", *power), ("power", "verify", "p.json", *power))
        self.same(("verify", "p.json"), ("power", "verify", "p.json"), 2)
        play = (*power, "--duration", "20s", *json_)
        self.same(("simulate", *play), ("power", "simulate", *play))
        self.same(("power", "set", "--restore", *HERE), ("power", "restore", *HERE))

    def test_documents(self):
        json_ = ("--format", "json")
        self.same(("gpus", "A30-24GB", "--layouts"), ("layouts", "A30-24GB"))
        self.same(("gpus", "--layouts", *json_), ("layouts", *json_), 2)
        self.make("node.json", "capture", *HERE)
        self.same(("show", "node.json", *json_), ("replay", "node.json", *json_))
        self.same(("show", "node.json", "--draft", "0"), ("replay", "node.json", "--draft", "0"))
        self.same(("show", "profiles.csv"), ("profile", "show", "profiles.csv"))
        self.same(("show", "profiles.csv", "--model", "small"),
                  ("profile", "show", "profiles.csv", "--model", "small"))
        self.write("kernels.csv", "index,kernel,units,time_us\n0,stem,4,1304.0\n")
        for csv, row in (("tasks.csv", TASKS.split()[1]), ("kernels.csv", "0,stem,4,1304.0")):
            shown = self.said("show", csv)[1].splitlines()[1]  # any table, as it is
            self.assertEqual(shown.split(), row.replace(",", " ").split())
            self.assertEqual(self.said("show", csv, "--format", "csv")[1], self.read(csv))
            self.assertEqual(self.said("show", csv, *json_)[0], 2)
            with open(self.path(csv), "rb") as piped:
                done = self.run_partita("show", "-", stdin=piped)
            self.assertEqual(done.stdout.decode(), self.said("show", csv)[1])
        points = os.path.join(harness.SOURCE, "data/published/llm/measured.csv")
        self.assertIn("deepseek-ai", self.said("show", points)[1])  # models, and no profiles
        self.write("list.yaml", "- {name: chat, rate_rps: 5}\n- {name: mail}\n")
        self.assertEqual(self.said("show", "list.yaml")[1].split(),
                         ["name", "rate_rps", "chat", "5", "mail"])
        self.assertEqual(self.said("show", "list.yaml", "--format", "csv")[1],
                         "name,rate_rps\nchat,5\nmail,\n")
        self.write("words.txt", "hello\n")
        self.assertEqual(self.said("show", "words.txt")[0], 2)
        laws = ("profiles.csv", "--gpu", "A100-80GB")
        self.same(("profile", "law", *laws), ("profile", "fit", *laws))
        inputs = ("--services", "services.yaml", "--profiles", "profiles.csv")
        for gpu in ("A100-80GB", "A30-24GB"):
            self.make(f"{gpu}.json", "plan", *inputs, "--gpu", gpu, *json_)
        for two, status in ((("A100-80GB.json", "A30-24GB.json"), 1), (("A30-24GB.json",) * 2, 0)):
            self.same(("compare", *two), ("diff", *two), status)
            self.same(("compare", *json_, *two), ("diff", *json_, *two), status)
        self.assertIn("PLANNER", self.said("compare", *inputs, "--gpu", "A100-80GB")[1])

    def test_a_node(self):
        owner = ("--profile", "3g.40gb", "--for", "me")
        self.assertEqual(self.said("lease", *owner, *HERE)[0], 0)
        self.assertIn("3g.40gb", self.same(("lease", "--list", *HERE), ("leases", *HERE)))
        self.same(("lease", "--end-expired", *HERE), ("leases", "--end-expired", *HERE))
        code, out, _ = self.said("lease", "--return", "--for", "me", *HERE)
        self.assertEqual((code, out), (0, "returned what me held\n"))
        self.same(("lease", "--return", "--for", "me", *HERE), ("return", "--for", "me", *HERE))
        self.same(("apply", "--rollback", *HERE, "--dry-run"), ("rollback", *HERE, "--dry-run"), 1)

    def test_what_others_do(self):
        """The queue, an agent and a fleet are not there: the refusals are the same."""
        for verb, was, status in (
                (("queue", "show", "3", "--logs"), ("queue", "logs", "3"), 3),
                (("queue", "show", "3", "4", "--until-over"), ("queue", "wait", "3", "4"), 3),
                (("queue", "list", "batches"), ("batch", "list"), 2),
                (("queue", "show", "batch:3"), ("batch", "show", "3"), 2),
                (("queue", "cancel", "batch:3", "--why", "x"),
                 ("batch", "cancel", "3", "--why", "x"), 2),
                (("queue", "hold", "batch:3"), ("batch", "pause", "3"), 2),
                (("queue", "release", "batch:3"), ("batch", "resume", "3"), 2),
                (("approve", "--reject", "7"), ("reject", "7"), 2),
                (("approve", "7", "--reject"), ("reject", "7"), 2),
                (("status", *ETCD), ("fleet", "status", *ETCD), 3),
                (("plan", "services.yaml", *ETCD), ("fleet", "plan", "services.yaml", *ETCD), 3),
                (("apply", "services.yaml", *ETCD), ("fleet", "apply", "services.yaml", *ETCD), 3),
                (("drain", "n1", *ETCD), ("fleet", "drain", "n1", *ETCD), 3),
                (("approve", *ETCD), ("fleet", "approve", *ETCD), 3),
                (("explain", *ETCD), ("fleet", "explain", *ETCD), 3),
                (("history", *ETCD), ("fleet", "history", *ETCD), 3)):
            self.same(verb, was, status)
        # A FILE is a fleet to plan for.
        self.write("fleet.yaml", "gpus: [{gpu: A30-24GB, profiles: profiles.csv}]\n")
        code, out, _ = self.said("plan", "--services", "services.yaml", "--fleet", "fleet.yaml",
                                 "--format", "json")
        self.assertEqual((code, json.loads(out)["kind"]), (0, "ServingPlan"))
        # What stands before the verb, and behind --, is no part of it.
        place = ("--server", "unix:none.sock")
        self.assertEqual(self.said(*place, "approve", "--reject", "7"),
                         self.said(*place, "reject", "7"))
        self.assertIn("no queue serves here",
                      self.said("queue", "show", "3", "--", "--logs")[2]
                      + self.said("queue", "submit", "--", "echo", "batch:3")[2])

    def test_settings_of_both_names(self):
        words = ("--tasks", "tasks.csv", "--gpu", "A30-24GB")
        for now, was, name, other in (("plan", ("batch", "schedule"), "PARTITA_PLAN_FORMAT",
                                       "PARTITA_BATCH_SCHEDULE_FORMAT"),):
            loud = {name: "json"}
            self.assertIn("BatchSchedule", self.said(now, *words, environment=loud)[1])
            self.assertNotIn("BatchSchedule", self.said(*was, *words, environment=loud)[1])
            for spoken in ((now,), was):
                self.assertIn("BatchSchedule",
                              self.said(*spoken, *words, environment={other: "json"})[1])
        self.write("settings.yaml", "plan: {scheduler: far}\nbatch: {schedule: {format: json}}\n")
        config = ("--config", "settings.yaml")
        self.assertEqual(json.loads(self.said(*config, "plan", *words)[1])["scheduler"], "far")
        self.assertNotEqual(json.loads(self.said(*config, "batch", "schedule", *words)[1])
                            ["scheduler"], "far")

    def test_settings_say_what_a_verb_is_about(self):
        self.write("tasks.yaml", "plan: {tasks: tasks.csv}\nverify: {tasks: tasks.csv}\n")
        self.write("all.yaml", "all: {fleet: 'http://127.0.0.1:9', tasks: tasks.csv}\n")
        self.write("stream.yaml", "plan: {tasks: [tasks.csv, tasks.csv]}\n")
        gpu = ("--gpu", "A100-80GB", "--format", "json")
        inputs = ("--services", "services.yaml", "--profiles", "profiles.csv")
        self.make("plan.json", "plan", *inputs, *gpu)
        self.make("schedule.json", "plan", "--tasks", "tasks.csv", *gpu)
        for words, environment in (
                (("plan", *gpu), {"PARTITA_PLAN_TASKS": "tasks.csv"}),
                (("plan", *gpu), {"PARTITA_TASKS": "tasks.csv"}),
                (("plan", *gpu, "--config", "tasks.yaml"), {}),
                (("--config=tasks.yaml", "plan", *gpu), {}),
                (("plan", *gpu),
                 {"PARTITA_CONFIG": "all.yaml", "PARTITA_PLAN_FLEET": "fleet.yaml"})):
            code, out, err = self.said(*words, environment=environment)
            self.assertEqual(code, 0, (words, environment, err))
            self.assertEqual(json.loads(out)["kind"], "BatchSchedule", words)
        answers = [json.loads(self.said(*words, *gpu)[1])["tasks"] for words in
                   (("--config", "stream.yaml", "plan"),
                    ("plan", "--tasks", "tasks.csv", "--tasks", "tasks.csv"))]
        self.assertEqual(*answers)
        for environment in ({"PARTITA_FLEET": ETCD[1]}, {"PARTITA_CONFIG": "all.yaml"}):
            code, _, err = self.said("status", environment=environment)
            self.assertEqual(code, 3, err)
            self.assertIn("127.0.0.1:9", err)
            code, out, err = self.said("status", *HERE, environment=environment)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("A100-80GB", out)
        # What is said beside it, a document or a flag, is for something else.
        tasks = {"PARTITA_TASKS": "tasks.csv"}
        self.assertEqual(self.said("plan", *inputs, *gpu, environment=tasks)[0], 0)
        services = {**tasks, "PARTITA_SERVICES": inputs[1], "PARTITA_PROFILES": inputs[3]}
        self.assertEqual(self.said("verify", "plan.json", environment=services)[::2], (0, ""))
        self.assertEqual(self.said("verify", "schedule.json", environment=services)[::2], (0, ""))
        self.assertIn("--services", self.said("plan", "--help", environment=tasks)[1])

    def test_older_names_are_explained_and_not_listed(self):
        docs = json.loads(self.said("docs")[1])["root"]
        forms = []

        def look(command):
            forms.extend((" ".join(command["path"][1:]), form) for form in command.get("forms", []))
            for child in command["children"]:
                look(child)

        look(docs)
        self.assertGreater(len(forms), 30)
        for verb, form in forms:
            text = self.said("help", *form["was"].split())[1].replace("\n", " ")
            self.assertRegex(text, f"^partita {form['was']} is an older name of `partita {verb} ")
            self.assertIn(form["when"], self.said("help", *verb.split())[1].replace("\n", " "))
        for was, now in (("rollback", "apply --rollback"), ("watch", "show --watch"),
                         ("batch schedulers", "planners")):
            self.assertIn(f"partita {was} is an older name of `partita {now}`.",
                          self.said("help", *was.split())[1])
        listed = self.said("help")[1]
        for gone in ("fleet", "batch", "layouts", "rollback", "leases"):
            self.assertNotIn(f"\n  {gone} ", listed)
            self.assertEqual(self.said("help", gone)[0], 0)
        self.assertIn("partita fleet drain is an older name", self.said("help", "fleet")[1])

    def test_endpoints_without_a_scheme_are_said_to_be_that(self):
        for words in (("status",), ("history",), ("explain", "a"), ("drain", "n")):
            status, _, said = self.said(*words, "--fleet", "127.0.0.1:2379")
            self.assertEqual(status, 2, words)
            self.assertIn("'127.0.0.1:2379' is not http://HOST", said, words)


if __name__ == "__main__":
    harness.unittest.main()
