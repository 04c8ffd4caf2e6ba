#!/usr/bin/env python3
"""fleet_campaign.py [--kills N] [--seed N] [--survive none|node] [--door haproxy|gateways]
[--no-hand-over] [--partitions]: a fleet on network namespaces of its own, under traffic, while it
loses things.

Three etcd and four nodes, each in a namespace of its own: an agent on simulated GPUs, a gateway
(TLS and a token), which hands requests over to the others' unless --no-hand-over, workers that
echo. HAProxy in front of the gateways, whose file `partita export --watch` keeps. Clients ask
through it without a pause and compare every answer with its question; with --door gateways each
asks a gateway, whatever that node carries, and the next one where it gets no connection.
Then, drawn from the seed: a node, the leader's agent or a member of etcd is killed (-9), and
comes back once all is as it should be. --partitions instead: links of a node, of the leader and
of a member of etcd are down for half a minute each.

Judged: no wrong answer; a lost node's services are carried elsewhere within 15 s; services that
the lost node did not carry lose no request, and none loses any when it comes back. PARTITA is the
program; needs root, etcd, haproxy, openssl. Prints a line per loss and a summary; ends with 1
where something was wrong."""

import argparse
import collections
import http.client
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

PARTITA = os.path.abspath(os.environ.get("PARTITA", "build/release/partita"))
SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
NODES = ["n1", "n2", "n3", "n4"]
MEMBERS = ["e1", "e2", "e3"]
ADDRESS = {name: f"10.77.0.{10 + i}" for i, name in enumerate(NODES + MEMBERS)}
HUB = "10.77.0.1"
TOKEN = "token-of-the-campaign"
SERVICES = {"chat": 1800, "search": 1400, "embed": 1000, "rank": 600}  # 16 of 28 slices
WIDTH = {name: 2 + i for i, name in enumerate(SERVICES)}  # so that another's answer cannot fit
MACHINE = "gpus: [{model: A100-80GB, count: 1, mig: true}]\nstate: node.state\nspeed: 0.02\n"
PROFILES = os.path.join(SOURCE, "data/profiles/a100-80gb.json")
MODEL = "resnet50"
WITHIN_S = 15.0
SETTLED_S = 2.0  # until a balancer asks a node that is new to it
PATIENCE_S = 90.0


class Fleet:
    """What runs, and how it is killed."""

    def __init__(self, folder, flags):
        self.folder, self.survive = folder, flags.survive
        self.hands_over, self.direct = not flags.no_hand_over, flags.door == "gateways"
        self.running = {}  # by name, processes of its own sessions
        self.endpoints = ",".join(f"http://{ADDRESS[name]}:2379" for name in MEMBERS)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def start(self, name, words, space=None, cwd="."):
        log = open(self.path(f"{name}.log"), "a", encoding="utf-8")
        prefix = ["ip", "netns", "exec", space] if space else []
        self.running[name] = subprocess.Popen(prefix + words, cwd=self.path(cwd), stdout=log,
                                              stderr=log, start_new_session=True)
        log.close()

    def kill(self, name):
        process = self.running.pop(name, None)
        if process is None:
            return
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def link(self, name, up):
        subprocess.run(["ip", "link", "set", f"v{name}", "up" if up else "down"], check=True)

    def make_network(self):
        run = lambda text: subprocess.run(text.split(), check=True)  # noqa: E731
        os.makedirs("/run/netns", exist_ok=True)
        run("ip link set lo up")
        run("ip link add br0 type bridge")
        run(f"ip addr add {HUB}/24 dev br0")
        run("ip link set br0 up")
        for name in NODES + MEMBERS:
            run(f"ip netns add {name}")
            run(f"ip link add v{name} type veth peer name eth0 netns {name}")
            run(f"ip link set v{name} master br0 up")
            run(f"ip -n {name} link set lo up")
            run(f"ip -n {name} addr add {ADDRESS[name]}/24 dev eth0")
            run(f"ip -n {name} link set eth0 up")

    def begin(self):
        self.make_network()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=partita", "-keyout",
                        "key.pem", "-out", "ca.pem"], cwd=self.folder, check=True,
                       capture_output=True)
        os.chmod(self.path("key.pem"), 0o600)
        self.write("tokens", f"{TOKEN} *\n", 0o600)
        self.write("peer-token", f"{TOKEN}-of-gateways\n", 0o600)
        share = 0.6 if self.survive == "node" else 1  # what is lost has room
        self.write("services.yaml", "services:\n" + "".join(
            f"  - {{name: {name}, model: {MODEL}, rate_rps: {rate * share}, slo_ms: 400}}\n"
            for name, rate in SERVICES.items()))
        for name in MEMBERS:
            self.start_member(name)
        self.until(lambda: self.fleet("status").returncode == 0, "etcd")
        for name in NODES:
            self.start_node(name)
        self.until(lambda: sum(n["there"] for n in self.status()["nodes"]) == len(NODES), "nodes")
        self.start("export", [PARTITA, "export", "--fleet", self.endpoints, "--to", "haproxy",
                              "--http", f"{HUB}:8000", "--tls-ca", self.path("ca.pem"),
                              "--runtime", self.path("haproxy.sock"), "--watch", "-o",
                              "haproxy.cfg", "--reload", f"kill -USR2 $(cat {self.path('h.pid')})"])
        self.until(lambda: os.path.exists(self.path("haproxy.cfg")), "haproxy.cfg")
        self.start("haproxy", ["haproxy", "-W", "-p", self.path("h.pid"), "-f", "haproxy.cfg"])
        # A signal to reload that comes before it listens would end it.
        self.until(lambda: os.path.exists(self.path("haproxy.sock")), "HAProxy's socket")
        done = self.fleet("apply", "services.yaml", "--survive-domain", self.survive)
        assert done.returncode == 0, done.stderr
        self.until(self.is_well, "the first plan")
        self.until(self.answers, "HAProxy")

    def start_member(self, name):
        peers = ",".join(f"{one}=http://{ADDRESS[one]}:2380" for one in MEMBERS)
        state = "existing" if os.path.exists(self.path(name)) else "new"
        client, peer = f"http://{ADDRESS[name]}:2379", f"http://{ADDRESS[name]}:2380"
        self.start(name, ["etcd", "--name", name, "--data-dir", name, "--listen-client-urls",
                          client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                          "--initial-advertise-peer-urls", peer, "--initial-cluster", peers,
                          "--initial-cluster-state", state, "--unsafe-no-fsync"], name)

    def start_node(self, name):
        os.makedirs(self.path(name), exist_ok=True)
        self.write(f"{name}/machine.yaml", MACHINE)
        ends = ", ".join(f'"{one}"' for one in self.endpoints.split(","))
        self.write(f"{name}/agent.yaml", f"""
node: {{driver: sim, machine: machine.yaml, state_dir: state}}
profiles: {PROFILES}
policy: {{look_s: 1}}
server: {{on: false}}
fleet: {{endpoints: [{ends}], node: {name}, gateway: "{ADDRESS[name]}:8080"}}
""")
        os.makedirs(self.path(name, "state"), exist_ok=True)
        self.start_agent(name)
        self.start(f"gateway-{name}", [PARTITA, "gateway", "--state-dir", "state", "--http",
                                       f"{ADDRESS[name]}:8080", "--tls-cert", self.path("ca.pem"),
                                       "--tls-key", self.path("key.pem"), "--tokens",
                                       self.path("tokens"), *self.handing_over()], name, name)
        worker = os.path.join(SOURCE, "bench/fleet_echo.sh")
        self.start(f"workers-{name}", [PARTITA, "workers", "--state-dir", "state", "--command",
                                       f"{worker} {PARTITA} {{service}} {{batch}}"], name, name)

    def handing_over(self):
        return ["--peer-token", self.path("peer-token"), "--tls-ca",
                self.path("ca.pem")] if self.hands_over else []

    def connect(self, door, timeout):
        if not self.direct:
            return http.client.HTTPConnection(HUB, 8000, timeout=timeout)
        trust = ssl.create_default_context(cafile=self.path("ca.pem"))
        trust.check_hostname = False  # it is `partita`, wherever it runs
        return http.client.HTTPSConnection(ADDRESS[NODES[door]], 8080, timeout=timeout,
                                           context=trust)

    def start_agent(self, name):
        self.start(f"agent-{name}", [PARTITA, "agent", "--settings", "agent.yaml"], name, name)

    def kill_node(self, name):
        self.link(name, False)
        for part in ("agent", "gateway", "workers"):
            self.kill(f"{part}-{name}")
        inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True,
                                check=True).stdout.split()
        for pid in inside:  # workers have sessions of their own
            os.kill(int(pid), signal.SIGKILL)

    def fleet(self, *words):
        return subprocess.run([PARTITA, "fleet", *words, "--fleet", self.endpoints],
                              cwd=self.folder, capture_output=True, text=True, check=False)

    def status(self):
        done = self.fleet("status", "--format", "json")
        if done.returncode != 0:
            return {"nodes": [], "services": [], "converged": False, "leader": ""}
        return json.loads(done.stdout)

    def carried(self, status, without=""):
        """Services that nodes that are there, but for one, carry at their rates."""
        well = set()
        for one in status["services"]:
            rates = [p["carried_rps"] for p in one["on"] if p["node"] != without]
            if sum(rates) >= 0.999 * one["wanted_rps"]:
                well.add(one["service"])
        return well

    def is_well(self):
        status = self.status()
        return (status["converged"] and status.get("leader") and
                sum(n["there"] for n in status["nodes"]) == len(NODES) and
                self.carried(status) == set(SERVICES))

    def answers(self):
        """Every service is reached through HAProxy, or every gateway, five times."""
        clients = [Client(self, service, 0, 1) for service in SERVICES]
        doors = range(len(NODES)) if self.direct and self.hands_over else [0]
        try:
            return all(client.ask(self.connect(door, 2), [1.0] * WIDTH[client.service]) is None
                       for client in clients for door in doors for _ in range(5))
        except (OSError, http.client.HTTPException):
            return False

    def until(self, holds, what, seconds=PATIENCE_S):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise SystemExit(f"waited in vain for {what}\n{self.fleet('status').stdout}")
            time.sleep(0.1)


class Client(threading.Thread):
    """Asks one service without a pause, some times a second; remembers what failed, and when."""

    def __init__(self, fleet, service, number, rate):
        super().__init__(daemon=True)
        self.fleet, self.service, self.number, self.rate = fleet, service, number, rate
        self.door = number % len(NODES)
        self.asked = self.wrong = 0
        self.failed = []  # (since when its connection was there, when, why)
        self.wrong_answers = []
        self.ending = threading.Event()

    def ask(self, connection, question):
        body = json.dumps({"inputs": [{"name": "x", "shape": [1, len(question)],
                                       "datatype": "FP32", "data": question}]})
        connection.request("POST", f"/v2/models/{self.service}/infer", body,
                           {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            return f"{answer.status} {text[:80]}"
        if json.loads(text)["outputs"][0]["data"] != question:
            self.wrong_answers.append((question, text[:200]))
        return None

    def run(self):
        connection, born = self.fleet.connect(self.door, 5), 0
        while not self.ending.wait(1 / self.rate):
            self.asked += 1
            if connection.sock is None:
                born = time.monotonic()
            question = [float(self.number), float(self.asked)] + [0.5] * (WIDTH[self.service] - 2)
            try:
                why = self.ask(connection, question)
            except (OSError, http.client.HTTPException) as error:
                why = repr(error)
                connection.close()
                if self.fleet.direct:  # what was asked there is lost with that node
                    why = f"{NODES[self.door]}: {why}"
                    self.door = (self.door + 1) % len(NODES)
                    connection = self.fleet.connect(self.door, 5)
            if why:
                self.failed.append((born, time.monotonic(), why))


class Campaign:
    def __init__(self, fleet, seed, clients):
        self.fleet, self.rng = fleet, random.Random(seed)
        self.clients = [Client(fleet, service, i, 8) for i, service in enumerate(
            service for service in SERVICES for _ in range(clients))]
        self.bad, self.took, self.done = [], [], collections.Counter()
        self.lost_elsewhere = collections.Counter()
        self.dead = []  # (node, since when, until): clients' connections to it are dead, too

    def failures(self, since, services=None):
        return [(client.service, end, why, born) for client in self.clients
                if services is None or client.service in services
                for born, end, why in client.failed if end >= since]

    def on_the_dead(self, born, end, why):
        """Whether it failed on a client's connection from before its node was back from a loss."""
        return any(why.startswith(f"{name}: ") and born <= back and lost <= end
                   for name, lost, back in self.dead)

    def wrong(self, text):
        print("WRONG", text, flush=True)
        self.bad.append(text)

    def lose(self, kind):
        fleet = self.fleet
        status = fleet.status()
        begin = time.monotonic()
        name = (status["leader"] if kind == "leader" else
                self.rng.choice(NODES if kind == "node" else MEMBERS))
        on = {one["service"] for one in status["services"] for piece in one["on"]
              if piece["node"] == name and piece["carried_rps"] > 0} if kind == "node" else set()
        took = 0.0
        if kind == "node":
            self.dead.append((name, begin, float("inf")))
            fleet.kill_node(name)
            self.until_elsewhere(name)
            took = time.monotonic() - begin
            self.took.append(took)
            limit = WITHIN_S if os.getloadavg()[0] < 4 else 3 * WITHIN_S
            if on and took > limit:
                self.wrong(f"services of {name} were elsewhere after {took:.1f} s")
        elif kind == "leader":
            fleet.kill(f"agent-{name}")
            time.sleep(self.rng.uniform(0.5, 4))
        else:
            fleet.kill(name)
            time.sleep(self.rng.uniform(0.5, 4))
        elsewhere = time.monotonic()
        self.check(kind, name, begin, on)
        self.come_back(kind, name)
        self.dead = [(node, since, min(until, time.monotonic()))
                     for node, since, until in self.dead]
        self.check(kind + "'s return", name, begin, on)
        self.check("after", name, elsewhere + SETTLED_S, set())
        lost = len(self.failures(begin, on))
        print(f"{self.done.total() + 1}: {kind} {name}, {len(on)} services on it"
              f"{f', elsewhere after {took:.1f} s' if took else ''}; {lost} of their requests "
              f"failed, load {os.getloadavg()[0]:.1f}", flush=True)
        self.done[kind] += 1

    def until_elsewhere(self, name):
        self.fleet.until(lambda: self.fleet.carried(self.fleet.status(), name) == set(SERVICES),
                         f"services of {name} elsewhere")

    def come_back(self, kind, name):
        if kind == "node":
            self.fleet.link(name, True)
            self.fleet.start_node(name)
        elif kind == "leader":
            self.fleet.start_agent(name)
        else:
            self.fleet.start_member(name)
        self.fleet.until(self.fleet.is_well, f"the return of {name}")

    def check(self, kind, name, begin, on):
        others = set(SERVICES) - on
        for service, end, why, born in self.failures(begin, others):
            if (service, end) in self.lost_elsewhere or self.on_the_dead(born, end, why):
                continue
            self.lost_elsewhere[(service, end)] += 1
            self.wrong(f"{kind} {name}: a request of {service}, which is not on it, failed "
                       f"{end - begin:.1f} s later: {why}")

    def partition(self, names, what):
        """Links are down for half a minute; what happens, as a line of the table."""
        fleet = self.fleet
        status = fleet.status()
        on = {one["service"] for one in status["services"] for piece in one["on"]
              if piece["node"] in names and piece["carried_rps"] > 0}
        begin = time.monotonic()
        for name in names:
            fleet.link(name, False)
        elsewhere = leader = None
        while time.monotonic() < begin + 30:
            status = fleet.status()
            now = time.monotonic() - begin
            gone = [n["node"] for n in status["nodes"] if n["node"] in names and not n["there"]]
            if elsewhere is None and on and len(gone) == len(on and names) and \
                    fleet.carried(status, names[0]) == set(SERVICES):
                elsewhere = now
            if leader is None and status.get("leader") and status["leader"] not in names:
                leader = now
            time.sleep(0.1)
        runs = {name: fleet.running[f"agent-{name}"].poll() is None
                for name in names if name in NODES}
        for name in names:
            fleet.link(name, True)
        fleet.until(fleet.is_well, f"the return of {names}")
        print(f"{what} ({', '.join(names)}; {len(on)} services on it): elsewhere after "
              f"{elsewhere and round(elsewhere, 1)} s, another leads after "
              f"{leader and round(leader, 1)} s; failed: {len(self.failures(begin, on))} of its "
              f"services, {len(self.failures(begin, set(SERVICES) - on))} of others; its agent "
              f"runs: {runs}; all well {time.monotonic() - begin:.1f} s after", flush=True)
        for service, end, why, _ in self.failures(begin, set(SERVICES) - on):
            print("  ", service, f"{end - begin:.1f} s", why)

    def run(self, kills, partitions):
        for client in self.clients:
            client.start()
        time.sleep(2)
        if partitions:
            leader = self.fleet.status()["leader"]
            busy = [n["node"] for n in self.fleet.status()["nodes"]
                    if n["carries"] and n["node"] != leader]
            self.partition([busy[0]], "a node is cut off")
            self.partition([self.fleet.status()["leader"]], "the leader is cut off")
            self.partition(["e3"], "a member of etcd is cut off")
        for _ in range(kills):
            self.lose(self.rng.choice(["node", "leader", "etcd"]))
        for client in self.clients:
            client.ending.set()
        for client in self.clients:
            client.join()
        return self.summary()

    def summary(self):
        asked = sum(client.asked for client in self.clients)
        for client in self.clients:
            for one in client.wrong_answers:
                self.wrong(f"an answer of {client.service}: {one}")
        took = sorted(self.took) or [0]
        print(f"{dict(self.done)}; {asked} requests, {len(self.failures(0))} failed "
              f"({len(self.lost_elsewhere)} of services that the lost node did not carry); "
              f"elsewhere after {took[len(took) // 2]:.1f} s (median), {took[-1]:.1f} s at most; "
              f"{len(self.bad)} wrong", flush=True)
        whys = collections.Counter(why[:60] for _, _, why, _ in self.failures(0))
        for why, count in whys.most_common(8):
            print(f"  {count} times {why}")
        return 1 if self.bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--survive", choices=["none", "node"], default="none")
    parser.add_argument("--clients", type=int, default=2, help="of each service")
    parser.add_argument("--door", choices=["haproxy", "gateways"], default="haproxy")
    parser.add_argument("--no-hand-over", action="store_true")
    parser.add_argument("--partitions", action="store_true")
    parser.add_argument("--keep", help="a folder for everything, kept")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if not flags.inside:  # in namespaces that end with it, and all that runs in them
        os.execvp("unshare", ["unshare", "-nmpf", "--mount-proc", "--kill-child", sys.executable,
                              os.path.abspath(__file__), *sys.argv[1:], "--inside"])
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    with tempfile.TemporaryDirectory(prefix="fleet", ignore_cleanup_errors=True) as folder:
        if flags.keep:
            os.makedirs(flags.keep, exist_ok=True)
        fleet = Fleet(os.path.abspath(flags.keep or folder), flags)
        fleet.begin()
        return Campaign(fleet, flags.seed, flags.clients).run(
            0 if flags.partitions else flags.kills, flags.partitions)


if __name__ == "__main__":
    sys.exit(main())
