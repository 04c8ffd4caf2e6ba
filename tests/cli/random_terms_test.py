"""Terms at random: what each of many services files asks for stands unchanged in the plan, the
assignment, the gateway's metrics, the agent's document and its API. PARTITA_TERMS says how many
files are tried instead of a few, PARTITA_TERMS_FROM with which seed they begin."""

import json
import os
import random
import re
import signal
import subprocess
import unittest

from gateway_harness import GatewayCase
from harness import PROGRAM

FILES = int(os.environ.get("PARTITA_TERMS", "6"))
FIRST = int(os.environ.get("PARTITA_TERMS_FROM", "1"))
MACHINE = "gpus: [{model: A100-80GB, count: 8, mig: true}]\nstate: %s\nspeed: 0\n"
OF_PLANS = ("planned_rps", "predicted_latency_ms", "predicted", "overload")
# Work of an instance for a request and what a batch waits for, see harness.profiles().
MODELS = {"small": (5, 2_000), "large": (25, 300)}
LAWS = ("uniform", "cv", "burst", "mmpp", "trace")


def number(rng, low, high):
    """Of one to five decimals, some of which no double holds exactly."""
    return round(rng.uniform(low, high), rng.randint(0, 5)) or 1


def percent(rng, high):
    """How a file writes a share, and the share: of decimals, not of doubles."""
    share = rng.choice((0, rng.randint(1, high), round(rng.uniform(0.1, high), 2)))
    if rng.random() < 0.5:
        return f"{share}%", float(f"{share}e-2")
    return float(f"{share}e-2"), float(f"{share}e-2")


def arrivals(rng):
    """How a file writes a law and how terms do."""
    law = rng.choice(LAWS)
    if law == "uniform":
        return {"arrivals": "uniform"}, {"law": "uniform"}
    if law == "cv":
        cv = round(rng.uniform(0.3, 2), 3)
        return {"arrivals": {"cv": cv}}, {"law": "gamma", "cv": cv}
    if law == "trace":
        return ({"trace": {"file": "trace.csv", "row": "news"}},
                {"law": "trace", "file": "trace.csv", "row": "news"})
    seconds = round(rng.uniform(0.2, 2), 2)
    on_off = {"peak": round(rng.uniform(1.05, 2), 2), "seconds": seconds,
              "every": round(seconds * rng.uniform(4, 9), 2)}
    return {"arrivals": {law: on_off}}, {"law": law, **on_off}


def rates(rng, rate):
    """Rates of a day: shares of the rate or requests/s, as a file and as terms write them."""
    minutes = sorted(rng.sample(range(1440), rng.randint(1, 4)))
    written, kept = [], []
    for minute in minutes:
        of = rng.randint(20, 100)
        share = rng.random() < 0.5
        value = round(rate * of / 100, 2) or 0.5
        written.append([f"{minute // 60:02}:{minute % 60:02}", f"{of}%" if share else value])
        kept.append({"minute": minute, "rate_rps": rate * (of / 100) if share else value})
    return written, kept


def service(rng, name, names):
    """A service as a file has it, and its terms."""
    model = rng.choice(sorted(MODELS))
    least, most = MODELS[model]
    asked = {"name": name, "model": model, "rate_rps": number(rng, 1, most),
             "slo_ms": number(rng, 4 * least, 100 * least)}
    terms = dict(asked, percentile=99)
    if rng.random() < 0.7:
        asked["percentile"] = terms["percentile"] = rng.choice(
            (50, 80, 99.5, 99.9, number(rng, 51, 99), round(rng.uniform(90, 99.9), 3)))
    if rng.random() < 0.3:
        asked["min_replicas"] = terms["min_replicas"] = rng.randint(2, 3)
    avoid = sorted(rng.sample([one for one in names if one != name], min(1, len(names) - 1)))
    how = rng.random()
    if how < 0.15:
        asked["anti_affinity"], terms["spread"] = True, True
    elif how < 0.4 and avoid:
        spread = rng.random() < 0.5
        asked["anti_affinity"] = avoid + ([name] if spread else [])
        terms.update({"spread": True} if spread else {}, avoid=avoid)
    if rng.random() < 0.4:
        asked["headroom"], share = percent(rng, 40)
        terms.update({"headroom": share} if share else {})
    if rng.random() < 0.4:
        written, terms["arrivals"] = arrivals(rng)
        asked.update(written)
    if rng.random() < 0.3:
        asked["rates"], terms["rates"] = rates(rng, asked["rate_rps"])
    if rng.random() < 0.3:
        cache = {"memory_mib": number(rng, 1, 64), **rng.choice(({}, {"ttl_s": 0.25}))}
        asked["cache"] = terms["cache"] = {**cache, **rng.choice(({}, {"shared": True}))}
    if rng.random() < 0.3:
        asked["priority"] = terms["priority"] = rng.choice((-1000, -1, 1, 1000))
    return asked, terms


def random_file(seed):
    """A services file and the terms of its services, by name."""
    rng = random.Random(seed)
    marks = ["", " of the shop", "-é", ' "a"', "/v1", "{b}", "\\n", ", c", "#1"]
    names = [f"s{seed}.{at}{rng.choice(marks)}" for at in range(rng.randint(1, 4))]
    services, terms = [], {}
    for name in names:
        asked, terms[name] = service(rng, name, names)
        services.append(asked)
    document = {"services": services}
    if rng.random() < 0.3:
        document["headroom"], share = percent(rng, 20)
        for one in services:
            if "headroom" not in one and share:
                terms[one["name"]]["headroom"] = share
    return document, terms


def label(name):
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class RandomTermsTest(GatewayCase):
    def setUp(self):
        super().setUp()
        self.write("trace.csv", "function,1,2,3\nnews,130,128,90\nmail,1,2,3\n")
        self.write("machine.yaml", MACHINE % "node.state")
        self.write("other.yaml", MACHINE % "other.state")
        self.write("agent.yaml", "node: {driver: sim, state_dir: other, machine: other.yaml}\n"
                   "services: services.json\nprofiles: profiles.csv\n"
                   "policy: {mode: automatic, look_s: 1}\n"
                   f"server: {{socket: {self.path('api.sock')}}}\n")
        self.live = False

    def files(self):
        return ("--services", "services.json", "--profiles", "profiles.csv")

    def same(self, rows, terms, where):
        """The terms in rows of a document, keyed and numbered as asked for."""
        found = {row["name"]: row for row in rows}
        self.assertEqual(sorted(found), sorted(terms), where)
        for name, asked in terms.items():
            row = {key: value for key, value in found[name].items()
                   if key in asked or key in ("min_replicas", "spread", "avoid", "headroom",
                                              "arrivals", "rates", "dispatch", "wanted_rps")}
            self.assertEqual(row, asked, where)

    def assigned(self, state):
        with open(self.path(state + "/assignment.json"), encoding="utf-8") as file:
            return json.load(file)["services"]

    def served(self, terms):
        """What the gateway's metrics say, once it serves these."""
        def shown(name, service):
            found = re.search(f'^{name}{{service="(?:{re.escape(label(service))})"}} (.*)$',
                              self.get("/metrics")[1], re.MULTILINE)
            return found and float(found[1])
        self.until(lambda: all(shown("partita_planned_rps", one) for one in terms),
                   "the gateway's services")
        for name, asked in terms.items():
            self.assertEqual(shown("partita_planned_rps", name), asked["rate_rps"])
            self.assertEqual(shown("partita_slo_percentile", name), asked["percentile"])
            self.assertAlmostEqual(shown("partita_slo_seconds", name) / asked["slo_ms"] * 1000, 1,
                                   places=12)

    def looked(self, terms, shown):
        """What an agent's document says: what is wanted is the file's rate."""
        self.same(shown["services"], {name: {("wanted_rps" if key == "rate_rps" else key): value
                                             for key, value in asked.items()}
                                      for name, asked in terms.items()}, "agent")

    def followed(self, terms):
        """What an agent that runs says by its API and assigns by itself."""
        if not self.live:
            os.makedirs(self.path("other"), exist_ok=True)
            with open(self.path("agent.log"), "w", encoding="utf-8") as log:
                self.agent = subprocess.Popen([PROGRAM, "agent", "--settings", "agent.yaml"],
                                              cwd=self.folder, stdout=log, stderr=log)
            self.children.append(self.agent)
            self.until(lambda: os.path.exists(self.path("api.sock")), "the API")
            self.live = True
        else:
            self.agent.send_signal(signal.SIGHUP)

        def shown():
            return self.json("--server", "unix:" + self.path("api.sock"), "agent")

        def arrived():
            try:
                there = {row["name"] for row in self.assigned("other")}
            except (FileNotFoundError, KeyError):
                return False
            return there == set(terms) == {row["name"] for row in shown()["services"]}
        self.until(arrived, "the agent's assignment")
        # An agent plans for the rate of the moment where there are several.
        now = {name: {key: value for key, value in asked.items()
                      if "rates" not in asked or key not in ("rates", "rate_rps")}
               for name, asked in terms.items()}
        self.same(self.assigned("other"), now, "the agent's assignment")
        self.looked(terms, shown())

    def test_every_term_arrives_unchanged(self):
        planned = 0
        for seed in range(FIRST, FIRST + FILES):
            document, terms = random_file(seed)
            with self.subTest(seed=seed):
                self.write("services.json", json.dumps(document))
                made = self.run_partita("plan", *self.files(), "--gpu", "A100-80GB", "--max-gpus",
                                        "8", "-o", "plan.json", "--format", "json")
                if made.returncode == 1:  # more than this node has
                    continue
                self.assertEqual(made.returncode, 0, made.stderr.decode())
                planned += 1
                rows = json.loads(self.read("plan.json"))["services"]
                self.same([{key: value for key, value in row.items() if key not in OF_PLANS}
                           for row in rows], terms, "plan")
                self.ok("verify", "plan.json", *self.files())
                self.ok("apply", "plan.json", "--driver", "sim", "--machine", "machine.yaml",
                        "--state-dir", self.state)
                self.same(self.assigned("s"), terms, "assignment")
                gateway = self.gateway()
                self.until(self.listens, "the gateway")
                self.served(terms)
                gateway.terminate()
                gateway.wait(60)
                if any("trace" in one for one in document["services"]):
                    continue  # an agent refuses it
                self.looked(terms, self.json(
                    "agent", "--once", "--driver", "sim", "--machine", "machine.yaml",
                    "--state-dir", self.state, *self.files()))
                self.followed(terms)
        self.assertGreater(planned, 0.5 * FILES)
        if "PARTITA_TERMS" in os.environ:
            print(f"{FILES} services files, {planned} of them planned and followed")


if __name__ == "__main__":
    unittest.main()
