"""All that people can get wrong: exit status 2, FILE:LINE or the flag named, nothing written."""

import json
import os
import re
import unittest

from harness import SERVICES, CliTest, profiles

SERVICE = "- {name: a, model: small, rate_rps: 1, slo_ms: 100%s}\n"
HEADER = "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n"
PARVAGPU = "Mig instance,Batch size,Workload Number,Throughput,Latency\n"

# name: (content of services.yaml, what the message must match)
SERVICES_FILES = {
    "empty": (b"", r"services\.yaml:1"),
    "blank": (b"\n\n  \n", r"services\.yaml:\d"),
    "binary": (bytes(range(256)), r"services\.yaml:1"),
    "zero bytes": (b"services:\n- name: a\0b\n", r"services\.yaml:2"),
    "not UTF-8": (b"services:\n- {name: \xff\xfe, model: small, rate_rps: 1, slo_ms: 1}\n",
                  r"services\.yaml:2"),
    "a scalar": (b"hello\n", r"services\.yaml:1"),
    "a list at the top": (b"- a\n- b\n", r"services\.yaml:1"),
    "no list": (b"services: 3\n", r"services\.yaml:1.*services"),
    "no services": (b"services: []\n", r"services\.yaml:1"),
    "entry is no object": (b"services:\n- 3\n", r"services\.yaml:2"),
    "missing rate": (b"services:\n- {name: a, model: small, slo_ms: 1}\n",
                     r"services\.yaml:2.*rate_rps"),
    "missing name": (b"services:\n- {model: small, rate_rps: 1, slo_ms: 1}\n",
                     r"services\.yaml:2.*name"),
    "unknown key": (b"services:\n" + (SERVICE % ", slo_msec: 4").encode(),
                    r"services\.yaml:2.*slo_msec"),
    "duplicated key": (b"services:\n" + (SERVICE % ", rate_rps: 2").encode(),
                       r"services\.yaml:2.*rate_rps"),
    "duplicated name": (b"services:\n" + 2 * (SERVICE % "").encode(), r"services\.yaml:3.*a"),
    "negative rate": (b"services:\n- {name: a, model: small, rate_rps: -1, slo_ms: 1}\n",
                      r"services\.yaml:2.*rate_rps"),
    "rate zero": (b"services:\n- {name: a, model: small, rate_rps: 0, slo_ms: 1}\n",
                  r"services\.yaml:2.*rate_rps"),
    "NaN": (b"services:\n- {name: a, model: small, rate_rps: .nan, slo_ms: 1}\n",
            r"services\.yaml:2"),
    "infinite": (b"services:\n- {name: a, model: small, rate_rps: 1, slo_ms: .inf}\n",
                 r"services\.yaml:2"),
    "huge number": (b"services:\n- {name: a, model: small, rate_rps: 1e999, slo_ms: 1}\n",
                    r"services\.yaml:2"),
    "large rate": (b"services:\n- {name: a, model: small, rate_rps: 1e300, slo_ms: 1}\n",
                   r"services\.yaml:2.*rate_rps"),
    "rate is text": (b"services:\n- {name: a, model: small, rate_rps: many, slo_ms: 1}\n",
                     r"services\.yaml:2.*rate_rps"),
    "rate is a list": (b"services:\n- {name: a, model: small, rate_rps: [1], slo_ms: 1}\n",
                       r"services\.yaml:2.*rate_rps"),
    "percentile 100": (b"services:\n" + (SERVICE % ", percentile: 100").encode(),
                       r"services\.yaml:2.*percentile"),
    "percentile 0": (b"services:\n" + (SERVICE % ", percentile: 0").encode(),
                     r"services\.yaml:2.*percentile"),
    "min_replicas 0": (b"services:\n" + (SERVICE % ", min_replicas: 0").encode(),
                       r"services\.yaml:2.*min_replicas"),
    "min_replicas 1.5": (b"services:\n" + (SERVICE % ", min_replicas: 1.5").encode(),
                         r"services\.yaml:2.*min_replicas"),
    "avoids nobody known": (b"services:\n" + (SERVICE % ", anti_affinity: [b]").encode(),
                            r"services\.yaml:2.*b"),
    "unknown model": (b"services:\n- {name: a, model: smal, rate_rps: 1, slo_ms: 1}\n",
                      r"services\.yaml:2.*smal.*small"),
    "SLO in seconds": (b"services:\n- {name: a, model: small, rate_rps: 1, slo_ms: 0.02}\n",
                       r"services\.yaml:2.*in seconds\? Then write slo_ms: 20"),
    "empty name": (b"services:\n- {name: '', model: small, rate_rps: 1, slo_ms: 1}\n",
                   r"services\.yaml:2.*name"),
    "bad YAML": (b"services:\n  - name: [a\n", r"services\.yaml:\d"),
    "tabs": (b"services:\n\t- name: a\n", r"services\.yaml:\d"),
    "deep YAML": (b"services: " + b"[" * 100_000, r"services\.yaml:1"),
    "alias bomb": (b"a: &a [x,x,x,x,x,x,x,x,x]\n"
                   + b"".join(b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9))
                              for c in range(ord("b"), ord("k")))
                   + b"services: *j\n", r"services\.yaml:\d"),
    "an alias to itself": (b"services: &a [*a]\n", r"services\.yaml:1"),
    "two documents": (SERVICES.encode() + b"---\n" + SERVICES.encode(), r"services\.yaml:\d"),
    "trailing garbage": (b'{"services": []} x', r"services\.yaml:1"),
    "truncated JSON": (b'{"services": [{"name": "a",', r"services\.yaml:1"),
    "another kind": (b"kind: ServingPlan\n" + SERVICES.encode(), r"services\.yaml:1.*kind"),
}

# name: (content of profiles.csv, what the message must match)
PROFILE_FILES = {
    "empty": (b"", r"profiles\.csv:1"),
    "header only": (HEADER.encode(), r"profiles\.csv"),
    "binary": (b"\x7fELF" + bytes(64), r"profiles\.csv:1"),
    "missing column": (b"model,gpcs,batch,processes,latency_ms\nsmall,1,1,1,100\n",
                       r"profiles\.csv:1.*throughput_rps"),
    "unknown column": (b"model,gpcs,batch,processes,throughput_rps,latency_ms,watts\n"
                       b"small,1,1,1,10,100,9\n",
                       r"profiles\.csv:1.*watts"),
    "repeated column": (b"model,gpcs,gpcs,batch,processes,throughput_rps,latency_ms\n",
                        r"profiles\.csv:1.*gpcs"),
    "short row": ((HEADER + "small,1,1\n").encode(), r"profiles\.csv:2"),
    "long row": ((HEADER + "small,1,1,1,10,100,,9,9\n").encode(), r"profiles\.csv:2"),
    "negative throughput": ((HEADER + "small,1,1,1,-10,100,\n").encode(), r"profiles\.csv:2"),
    "NaN": ((HEADER + "small,1,1,1,nan,100,\n").encode(), r"profiles\.csv:2"),
    "infinite": ((HEADER + "small,1,1,1,10,inf,\n").encode(), r"profiles\.csv:2"),
    "text": ((HEADER + "small,one,1,1,10,100,\n").encode(), r"profiles\.csv:2.*gpcs"),
    "fraction": ((HEADER + "small,1.5,1,1,10,100,\n").encode(), r"profiles\.csv:2.*gpcs"),
    "batch zero": ((HEADER + "small,1,0,1,10,100,\n").encode(), r"profiles\.csv:2.*batch"),
    "huge batch": ((HEADER + "small,1,99999999999999999999,1,10,100,\n").encode(),
                   r"profiles\.csv:2.*batch"),
    "many processes": ((HEADER + "small,1,1,1000,10,100,\n").encode(),
                       r"profiles\.csv:2.*processes"),
    "duplicate row": ((HEADER + 2 * "small,1,1,1,10,100,\n").encode(), r"profiles\.csv:3"),
    "negative memory": ((HEADER + "small,1,1,1,10,100,-5\n").encode(), r"profiles\.csv:2"),
    "open quote": ((HEADER + '"small,1,1,1,10,100,\n').encode(), r"profiles\.csv:2"),
    "no model": ((HEADER + ",1,1,1,10,100,\n").encode(), r"profiles\.csv:2"),
    "seconds": ((HEADER + "small,1,1,1,10,0.1,\n").encode(),
                r"profiles\.csv:2.*in seconds \(latency_ms 100 would agree\)"),
    "throughput of each process": ((HEADER + "small,1,1,1,10,100,\n"
                                    + "small,1,4,5,1.6,2500,\n").encode(),
                                   r"profiles\.csv:3.*of each process.*throughput_rps 8"),
    "unknown source": ((HEADER.replace("\n", ",source\n") + "small,1,1,1,10,100,,mine\n").encode(),
                       r"profiles\.csv:2.*source"),
    "half laws": (b'{"kind": "PerformanceLaws"', r"profiles\.csv:1"),
    "other JSON": (b'{"kind": "ServingPlan"}', r"profiles\.csv:1"),
}

# name: (arguments after the common ones, what the message must match)
FLAGS = {
    "flag of the program": (["--server", "unix:s"], r"--server: goes before the command"),
    "unknown flag": (["--sloo-rule", "queueing"], r"--sloo-rule.*--slo-rule"),
    "flag without value": (["--planner"], r"--planner"),
    "repeated flag": (["--planner", "exact", "--planner", "exact"], r"--planner"),
    "stray word": (["stray"], r"stray"),
    "unknown planner": (["--planner", "exacty"], r"--planner.*exacty.*exact"),
    "unknown rule": (["--slo-rule", "queuing"], r"--slo-rule"),
    "rule without fraction": (["--slo-rule", "execution:"], r"--slo-rule"),
    "rule fraction 0": (["--slo-rule", "execution:0"], r"--slo-rule"),
    "rule fraction 1.5": (["--slo-rule", "execution:1.5"], r"--slo-rule"),
    "rule fraction nan": (["--slo-rule", "execution:nan"], r"--slo-rule"),
    "rule with garbage": (["--slo-rule", "execution:0.5x"], r"--slo-rule"),
    "max-processes 0": (["--max-processes", "0"], r"--max-processes"),
    "max-processes text": (["--max-processes", "three"], r"--max-processes"),
    "max-processes huge": (["--max-processes", "99999999999999999999"], r"--max-processes"),
    "max-gpus 0": (["--max-gpus", "0"], r"--max-gpus"),
    "max-gpus negative": (["--max-gpus", "-1"], r"--max-gpus"),
    "node-budget 0": (["--node-budget", "0"], r"--node-budget"),
    "unknown format": (["--format", "xml"], r"--format.*xml"),
    "missing catalogue": (["--catalogue", "nowhere"], r"--catalogue nowhere"),
    "fleet and profiles": (["--fleet", "fleet.yaml"], r"--fleet"),
    "empty output": (["-o", ""], r"--output"),
}

# name: (content of fleet.yaml, what the message must match)
FLEETS = {
    "empty": (b"", r"fleet\.yaml:1"),
    "no gpus": (b"gpus: []\n", r"fleet\.yaml:1.*gpus"),
    "unknown key": (b"gpus:\n- {gpu: A100-80GB, profiles: profiles.csv, cost: 3}\n",
                    r"fleet\.yaml:2.*cost"),
    "no profiles": (b"gpus:\n- {gpu: A100-80GB}\n", r"fleet\.yaml:2.*profiles"),
    "count 0": (b"gpus:\n- {gpu: A100-80GB, profiles: profiles.csv, count: 0}\n",
                r"fleet\.yaml:2.*count"),
    "price -1": (b"gpus:\n- {gpu: A100-80GB, profiles: profiles.csv, price: -1}\n",
                 r"fleet\.yaml:2.*price"),
    "twice": (b"gpus:\n- {gpu: A30-24GB, profiles: profiles.csv}\n" * 1
              + b"- {gpu: A30-24GB, profiles: profiles.csv}\n", r"fleet\.yaml:3.*A30"),
    "unknown GPU": (b"gpus:\n- {gpu: A100-81GB, profiles: profiles.csv}\n",
                    r"fleet\.yaml:2.*A100-81GB"),
    "missing profiles": (b"gpus:\n- {gpu: A30-24GB, profiles: nowhere.csv}\n", r"nowhere\.csv"),
}


def planned(**changes):
    """A plan by hand with one instance, each named value replaced."""
    instance = {"profile": "7g.80gb", "start": 0, "service": "chat", "batch": 1, "processes": 1,
                "throughput_rps": 10, "latency_ms": 10}
    plan = {"api_version": "partita/v1", "kind": "ServingPlan", "gpu_model": "A100-80GB",
            "planner": "hand", "slo_rule": "queueing",
            "gpus": [{"index": 0, "instances": [instance]}],
            "services": [{"name": "chat", "rate_rps": 1, "planned_rps": 10, "slo_ms": 1,
                          "predicted_latency_ms": 1}]}
    for key, value in changes.items():
        (instance if key in instance else plan)[key] = value
    return json.dumps(plan, indent=1).encode()


PLANS = {
    "empty": b"",
    "binary": b"\x1f\x8b" + bytes(range(40)),
    "truncated": planned()[:-40],
    "trailing garbage": planned() + b"}",
    "another kind": planned(kind="ServingReport"),
    "no GPU model": planned(gpu_model=None),
    "unknown GPU model": planned(gpu_model="A1000"),
    "gpus is no list": planned(gpus={}),
    "GPU is no object": planned(gpus=[1]),
    "no instances": planned(gpus=[{"index": 0}]),
    "unknown rule": planned(slo_rule="sometimes"),
    "negative start": planned(start=-1),
    "start is a fraction": planned(start=0.5),
    "start is text": planned(start="0"),
    "batch 0": planned(batch=0),
    "processes huge": planned(processes=10**30),
    "negative throughput": planned(throughput_rps=-1),
    "NaN": planned(latency_ms=float("nan")),
    "infinite": planned(latency_ms=float("inf")),
    "profile is a number": planned(profile=7),
    "deep": b"[" * 100_000,
}


class BadInput(CliTest):
    def assert_refused(self, arguments, pattern):
        command, *rest = arguments
        done = self.run_partita(command, *([] if "-o" in rest else ["-o", "out"]), *rest)
        message = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, 2, message)
        self.assertRegex(message, re.compile(pattern, re.DOTALL))
        self.assertEqual(done.stdout, b"")
        with self.assertRaises(FileNotFoundError):
            self.read("out")

    def test_services(self):
        for name, (content, pattern) in SERVICES_FILES.items():
            with self.subTest(name):
                self.write("services.yaml", content)
                self.assert_refused(self.plan_args(), pattern)

    def test_profiles(self):
        for name, (content, pattern) in PROFILE_FILES.items():
            with self.subTest(name):
                self.write("profiles.csv", content)
                self.assert_refused(self.plan_args(), pattern)

    def test_flags(self):
        for name, (arguments, pattern) in FLAGS.items():
            with self.subTest(name):
                self.assert_refused(self.plan_args(*arguments), pattern)

    def test_fleets(self):
        for name, (content, pattern) in FLEETS.items():
            with self.subTest(name):
                self.write("fleet.yaml", content)
                arguments = ("plan", "--services", "services.yaml", "--fleet", "fleet.yaml")
                self.assert_refused(arguments, pattern)

    def test_plans(self):
        for name, content in PLANS.items():
            for command in ("verify", "simulate"):
                with self.subTest(f"{command}: {name}"):
                    self.write("plan.json", content)
                    self.assert_refused(self.on_plan(command, "plan.json"), r"plan\.json")

    def test_missing_flags(self):
        inputs = {"--services": "services.yaml", "--profiles": "profiles.csv", "--gpu": "A100-80GB"}
        for missing in inputs:
            with self.subTest(missing):
                rest = [word for flag in inputs if flag != missing for word in (flag, inputs[flag])]
                self.assert_refused(["plan", *rest], missing)

    def test_paths(self):
        os.mkdir(self.path("empty"))
        for flag, value in (("--services", "nowhere"), ("--services", "."),
                            ("--profiles", "nowhere"),
                            ("--profiles", "empty"), ("--gpu", "A100")):
            with self.subTest(f"{flag} {value}"):
                arguments = list(self.plan_args())
                arguments[arguments.index(flag) + 1] = value
                self.assert_refused(arguments, flag)

    def test_parvagpu_folder(self):
        os.mkdir(self.path("parvagpu"))
        arguments = list(self.plan_args())
        arguments[arguments.index("--profiles") + 1] = "parvagpu"
        for name, content, pattern in (
                ("header", "Mig instance,Batch size,Throughput,Latency\n", r"small\.csv:1"),
                ("row", PARVAGPU + "1,1,1,ten,0.1\n", r"small\.csv:2"),
                ("sign", PARVAGPU + "1,1,1,-10,0.1\n", r"small\.csv:2")):
            with self.subTest(name):
                self.write("parvagpu/small.csv", content)
                self.assert_refused(arguments, pattern)

    def test_simulation_flags(self):
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        for arguments, pattern in (
                (["--duration", "0s"], "--duration"), (["--duration", "-5s"], "--duration"),
                (["--duration", "1d"], "--duration"), (["--duration", "nan"], "--duration"),
                (["--duration", "1e9s"], "--duration"), (["--seed", "-1"], "--seed"),
                (["--seed", "x"], "--seed"), (["--require", "1.5"], "--require"),
                (["--require", "nan"], "--require"), (["--batching", "half"], "--batching"),
                (["--arrivals", "nowhere"], "--arrivals"),
                (["--arrivals", "gamma:0"], "--arrivals"), (["--load", "0"], "--load"),
                (["--load", "x"], "--load"), (["--at", "25:00"], "--at"),
                (["--what-if", "chat"], "--what-if.*SERVICE=RATE"),
                (["--what-if", "chat=-1"], "--what-if"),
                (["--what-if", "cat=1"], "--what-if.*chat"),
                (["--arrivals", "services.yaml"], r"services\.yaml:\d")):
            with self.subTest(" ".join(arguments)):
                self.assert_refused(self.on_plan("simulate", "plan.json", *arguments), pattern)

    def test_traces(self):
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        for name, content, pattern in (
                ("header", "when,service\n", r"trace\.csv:1"),
                ("negative", "time_s,service\n-1,chat\n", r"trace\.csv:2"),
                ("descending", "time_s,service\n2,chat\n1,chat\n", r"trace\.csv:3"),
                ("text", "time_s,service\nsoon,chat\n", r"trace\.csv:2"),
                ("stranger", "time_s,service\n1,cat\n", r"--arrivals.*cat.*chat")):
            with self.subTest(name):
                self.write("trace.csv", content)
                trace = ("--arrivals", "trace.csv")
                self.assert_refused(self.on_plan("simulate", "plan.json", *trace), pattern)

    def test_comparison_flags(self):
        arguments = ("compare", *self.plan_args()[1:])
        for planners in ("", "exact,", "exact,nobody", "exact@", "exact@sometimes"):
            with self.subTest(planners):
                self.assert_refused((*arguments, "--planners", planners), "--planners")

    def test_commands(self):
        for arguments, pattern in (([], "Usage"), (["plna"], "plna.*plan"),
                                   (["--wrong"], "--wrong"),
                                   (["gpus", "A100"], "NAME.*A100"),
                                   (["layouts"], "NAME"),
                                   (["layouts", "A30-24GB", "--with", "x"], "--with"),
                                   (["help", "plna"], "plna.*plan"), (["completion", "csh"], "csh"),
                                   (["completion"], "SHELL"), (["verify"], "PLAN|--services")):
            with self.subTest(" ".join(arguments)):
                done = self.run_partita(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stdout, b"")
                self.assertRegex(done.stderr.decode(), re.compile(pattern, re.DOTALL))

    def test_catalogues(self):
        os.mkdir(self.path("gpus"))
        arguments = ["gpus", "--catalogue", "gpus"]
        self.assert_refused(arguments, "--catalogue gpus")  # no file in it
        for name, content in (("empty", b""), ("kind", b'{"kind": "X"}'), ("cut", b'{"name": '),
                              ("list", b"[]"), ("deep", b"[" * 100_000)):
            with self.subTest(name):
                self.write("gpus/a.json", content)
                self.assert_refused(arguments, r"gpus/a\.json:1")


if __name__ == "__main__":
    unittest.main()
