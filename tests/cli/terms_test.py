"""What a services file asks for is what the plan says, the node is given, the gateway serves and
the agent shows: through the commands alone, with nothing but the plan from one to the next."""

import json
import os

from gateway_harness import GatewayCase

MACHINE = "gpus: [{model: A100-80GB, count: 2, mig: true}]\nstate: node.state\nspeed: 0.02\n"
SERVICES = """services:
  - {name: chat, model: small, rate_rps: 120.125, slo_ms: 201.5, percentile: 99.9, headroom: 20%}
  - {name: search, model: large, rate_rps: 30, slo_ms: 500, percentile: 80, min_replicas: 2,
     anti_affinity: [search], arrivals: {cv: 1.5}, cache: {memory_mib: 8, ttl_s: 90},
     priority: -7}
"""
CHAT = {"name": "chat", "model": "small", "rate_rps": 120.125, "slo_ms": 201.5, "percentile": 99.9,
        "headroom": 0.2}
SEARCH = {"name": "search", "model": "large", "rate_rps": 30, "slo_ms": 500, "percentile": 80,
          "min_replicas": 2, "spread": True, "arrivals": {"law": "gamma", "cv": 1.5},
          "cache": {"memory_mib": 8, "ttl_s": 90}, "priority": -7}
OF_PLANS = ("planned_rps", "predicted_latency_ms", "predicted", "overload")


class TermsTest(GatewayCase):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)
        self.write("services.yaml", SERVICES)
        self.plan = self.json(*self.plan_args())
        self.write("plan.json", json.dumps(self.plan))

    def apply(self, *more):
        self.ok("apply", "plan.json", "--driver", "sim", "--machine", "machine.yaml", "--state-dir",
                self.state, *more)
        with open(os.path.join(self.state, "assignment.json")) as file:
            return json.load(file)["services"]

    def metrics(self, *names):
        """Of each service those that the gateway says, as text."""
        self.gateway()
        self.until(self.listens, "the gateway")
        self.until(lambda: 'service="search"' in self.get("/metrics")[1], "its services")
        lines = dict(line.rsplit(" ", 1) for line in self.get("/metrics")[1].splitlines()
                     if line[:1] != "#")
        return [[lines.get(f'{name}{{service="{service}"}}') for name in names]
                for service in ("chat", "search")]

    def test_a_plan_alone_carries_the_whole_promise(self):
        rows = [{key: value for key, value in row.items() if key not in OF_PLANS}
                for row in self.plan["services"]]
        self.assertEqual(rows, [CHAT, SEARCH])
        self.assertEqual(self.apply(), [CHAT, SEARCH])
        self.assertEqual(
            self.metrics("partita_slo_percentile", "partita_planned_rps", "partita_slo_seconds"),
            [["99.9", "120.125", "0.2015"], ["80", "30", "0.5"]])
        shown = self.json("agent", "--once", "--driver", "sim", "--machine", "machine.yaml",
                          "--state-dir", self.state, "--services", "services.yaml", "--profiles",
                          "profiles.csv")
        self.assertEqual(shown["assignment"]["services"], [CHAT, SEARCH])
        for service, asked in zip(shown["services"], (CHAT, SEARCH)):
            asked = {**asked, "wanted_rps": asked["rate_rps"]}
            del asked["rate_rps"]
            self.assertEqual({key: service.get(key) for key in asked}, asked)

    def test_the_judge_refuses_another_promise_and_names_the_term(self):
        for before, after, term in (
                ("percentile: 99.9", "percentile: 99.5", "percentile"),
                ("headroom: 20%", "headroom: 19%", "headroom"),
                ("model: small", "model: large", "model"),
                ("rate_rps: 30,", "rate_rps: 29.5,", "rate_rps"),
                ("slo_ms: 500", "slo_ms: 501", "slo_ms"),
                ("min_replicas: 2", "min_replicas: 1", "min_replicas"),
                ("anti_affinity: [search], ", "", "spread"),
                ("anti_affinity: [search]", "anti_affinity: [search, chat]", "avoid"),
                ("ttl_s: 90", "ttl_s: 91", "cache"),
                ("priority: -7", "priority: -8", "priority"),
                ("cv: 1.5", "cv: 1.25", "arrivals")):
            with self.subTest(term):
                self.assertIn(before, SERVICES)
                self.write("services.yaml", SERVICES.replace(before, after))
                done = self.run_partita(*self.on_plan("verify", "plan.json"))
                self.assertEqual(done.returncode, 1, done.stderr.decode())
                said = (done.stdout + done.stderr).decode()
                service = "chat" if SERVICES.index(before) < SERVICES.index("search") else "search"
                self.assertIn(f"service {service} {term}", said)

    def test_what_an_older_plan_leaves_out_is_not_known(self):
        for row in self.plan["services"]:
            for key in set(row) - {"name", "rate_rps", "slo_ms", *OF_PLANS}:
                del row[key]
        self.write("plan.json", json.dumps(self.plan))
        known = [{key: row[key] for key in ("name", "rate_rps", "slo_ms")}
                 for row in (CHAT, SEARCH)]
        self.assertEqual(self.apply(), known)
        self.assertEqual(self.metrics("partita_slo_percentile", "partita_planned_rps"),
                         [[None, "120.125"], [None, "30"]])
        # The services file says it, where it is given.
        self.assertEqual(
            self.apply("--services", "services.yaml", "--profiles", "profiles.csv"),
            [CHAT, SEARCH])


if __name__ == "__main__":
    import unittest
    unittest.main()
