"""partita export --to haproxy, nginx and envoy: what they say of a fleet's status, and what
Debian's HAProxy and nginx think of it. Envoy is not in Debian: its fields are checked by name, as
envoy.config.endpoint.v3.ClusterLoadAssignment has them."""

import http.client
import ipaddress
import json
import shutil
import subprocess
import time
import unittest

from harness import CliTest
from servers import Answers, free_port, started


def node(name, number, **more):
    return {"node": name, "gateway": f"10.0.0.{number}:8080", "grpc": f"10.0.0.{number}:8081",
            "there": True, "drained": False, "gpus": 1, "usable_gpus": 1, "revision": 1,
            "taken": 1, "ready": 1, "carries": [], **more}


def piece(name, share):
    return {"node": name, "planned_rps": 1, "carried_rps": 1, "share": share}


def service(name, *on):
    return {"service": name, "wanted_rps": 1, "arrived_rps": 0, "planned_rps": 1, "carried_rps": 1,
            "on": list(on)}


STATUS = {"api_version": "partita/v1", "kind": "FleetStatus", "fleet": "f", "revision": 1,
          "converged": True, "survive": "none", "approval": "automatic",
          "nodes": [node("n1", 1), node("n2", 2), node("n3", 3), node("n4", 4, there=False)],
          "services": [service("chat", piece("n1", 0.75), piece("n2", 0.25), piece("n3", 0),
                               piece("n4", 0)),
                       service("search.v2", piece("n2", 1)), service("nowhere")]}


class Gateway(Answers):
    """Carries the service or does not, and does not say so to who checks until `tells`."""

    def do_GET(self):
        ready = self.server.carries and self.server.tells
        self.answer(200 if ready else 404)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200 if self.server.carries else 404)


def gateway(carries):
    return started(Gateway, carries=carries, tells=True)


class BalancerTest(CliTest):
    def setUp(self):
        super().setUp()
        self.write("status.json", json.dumps(STATUS))

    def export(self, form, *more):
        return self.ok("export", "status.json", "--to", form, *more)

    def check(self, *words):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def test_haproxy(self):
        text = self.export("haproxy", "--http", "127.0.0.1:8000", "--grpc", "127.0.0.1:8001",
                           "--runtime", self.path("h.sock"), "-o", "h.cfg")
        text = self.read("h.cfg")
        pool = text.split("backend s_chat\n")[1].split("\nbackend")[0]
        self.assertIn("server n1 10.0.0.1:8080 weight 256 check", pool)
        self.assertIn("server n2 10.0.0.2:8080 weight 85 check", pool)
        self.assertIn("server n3 10.0.0.3:8080 weight 0 check", pool)
        self.assertNotIn("n4", pool)
        self.assertIn("server n2 10.0.0.2:8081 weight 256 check proto h2 addr 10.0.0.2 port 8080 "
                      "check-proto h1", text)
        if shutil.which("haproxy"):
            self.check("haproxy", "-c", "-f", "h.cfg")

    def asked(self, port, path="/v2/models/chat/infer", headers=None):
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            client.request("POST", path, b"x", headers or {})
            return client.getresponse().status
        except OSError:
            return None
        finally:
            client.close()

    @unittest.skipUnless(shutil.which("haproxy"), "haproxy is not installed")
    def test_a_move_that_no_check_has_seen_loses_nothing(self):
        nodes = [gateway(carries) for carries in (True, False, False, False)]
        said = json.loads(json.dumps(STATUS))
        said["nodes"] = [node(f"n{i}", i, gateway=f"127.0.0.1:{one.server_port}")
                         for i, one in enumerate(nodes)]
        said["services"] = [service("chat", piece("n0", 1), piece("n1", 0), piece("n2", 0),
                                    piece("n3", 0))]
        self.write("status.json", json.dumps(said))
        port = free_port()
        self.export("haproxy", "--http", f"127.0.0.1:{port}", "-o", "h.cfg")
        haproxy = subprocess.Popen(["haproxy", "-f", self.path("h.cfg")],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 20
            while self.asked(port) != 200 and time.monotonic() < until:
                time.sleep(0.05)
            was = 0
            for at in (1, 3, 2, 0, 2):  # the weights stay as they were, and checks find nobody
                for one in nodes:
                    one.tells = False
                nodes[at].carries = True
                for i in range(25):
                    nodes[was].carries = i < 15 and nodes[was].carries
                    self.assertEqual(self.asked(port), 200, f"n{was} to n{at}, {i}")
                    time.sleep(0.1)
                was = at
        finally:
            haproxy.kill()
            haproxy.wait()
            for one in nodes:
                one.shutdown()
                one.server_close()

    def test_haproxy_and_nginx_over_tls(self):
        if not shutil.which("openssl"):
            self.skipTest("openssl is not installed")
        self.check("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                   "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=partita", "-keyout", "k.pem",
                   "-out", "ca.pem")
        named = json.loads(json.dumps(STATUS))
        named["nodes"][1].update(gateway="n2.lan:8080", grpc="n2.lan:8081")
        self.write("status.json", json.dumps(named))
        ca = self.path("ca.pem")
        text = self.export("haproxy", "--grpc", "127.0.0.1:8001", "--tls-ca", ca)
        self.assertIn("server n1 10.0.0.1:8080 weight 256 check ssl verify required ca-file "
                      f"{ca}\n", text)
        self.assertIn("sni str(n2.lan) verifyhost n2.lan check-sni n2.lan alpn h2", text)
        self.write("h.cfg", text)  # nobody knows that name
        if shutil.which("haproxy"):
            self.check("haproxy", "-c", "-f", "h.cfg")
        text = self.export("nginx", "--http", "127.0.0.1:8000", "--grpc", "127.0.0.1:8001",
                           "--tls-ca", ca)
        self.assertIn("proxy_pass https://s_chat;", text)
        self.check_nginx(text)

    def test_a_name_that_nobody_knows_hurts_its_own_node_only(self):
        named = json.loads(json.dumps(STATUS))
        named["nodes"][0].update(gateway="localhost:8080", grpc="localhost:8081")
        named["nodes"][1].update(gateway="n2.invalid:8080", grpc="n2.invalid:8081")
        named["nodes"][2].update(gateway="n3.invalid:8080", grpc="10.0.0.3:8081")
        self.write("status.json", json.dumps(named))
        doors = ("--http", "127.0.0.1:8000", "--grpc", "127.0.0.1:8001")
        text = self.export("haproxy", *doors)
        self.write("h.cfg", text)
        if shutil.which("haproxy"):
            self.check("haproxy", "-c", "-f", "h.cfg")
        self.assertIn("server n2 n2.invalid:8081 weight 85 check proto h2\n",
                      text.split("\nbackend g_chat\n")[1].split("\nbackend")[0])
        self.assertIn("server n2 n2.invalid:8081 weight 256 check proto h2 port 8080 "
                      "check-proto h1\n", text)
        done = self.run_partita("export", "status.json", "--to", "nginx", *doors)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("n2.invalid", "n3.invalid"):
            self.assertIn(f"nobody knows a host '{name}' here; it is left out",
                          done.stderr.decode())
        text = done.stdout.decode()
        self.check_nginx(text)
        pool = text.split("upstream s_chat {")[1].split("}")[0]
        self.assertIn("  server 127.0.0.1:8080 weight=256 max_fails=1 fail_timeout=1s;"
                      "  # n1, localhost\n", pool)
        self.assertIn("  # n2, n2.invalid: nobody knows that name\n", pool)
        self.assertNotRegex(pool, "server [^;]*invalid")
        self.assertIn("  server 127.0.0.1:9 down;\n",
                      text.split("upstream s_search.v2 {")[1].split("}")[0])

    def check_nginx(self, text):
        self.write("pools.conf", text)
        self.write("nginx.conf", f"pid {self.path('n.pid')};\nerror_log stderr;\nevents {{}}\n"
                                 "http { include pools.conf; }\n")
        if shutil.which("nginx"):
            self.check("nginx", "-t", "-q", "-p", self.folder, "-c", "nginx.conf")

    def test_nginx(self):
        text = self.export("nginx", "--http", "127.0.0.1:8000", "--grpc", "127.0.0.1:8001")
        pool = text.split("upstream s_chat {")[1].split("}")[0]
        self.assertIn("server 10.0.0.2:8080 weight=85 ", pool)
        self.assertIn("server 10.0.0.3:8080 down;", pool)
        self.check_nginx(text)

    def test_what_is_not_known_now_is_said(self):
        self.write("stale.json", json.dumps({**STATUS, "fault": "etcd is silent", "as_of_ms": 5}))
        for form in ("haproxy", "nginx", "envoy"):
            done = self.run_partita("export", "stale.json", "--to", form)
            self.assertIn("etcd is silent", done.stderr.decode())
            self.assertNotIn("not heard", self.run_partita("export", "status.json", "--to",
                                                           form).stderr.decode())

    def test_timeouts_follow_from_what_is_promised(self):
        """Four times as long, a minute at least; and nothing that was sent is sent again for it."""
        said = json.loads(json.dumps(STATUS))
        said["services"][0]["answer_ms"] = 45_100
        self.write("status.json", json.dumps(said))
        text = self.export("haproxy", "--grpc", "127.0.0.1:8001")
        for pool, limit in (("s_chat", 181), ("any_g_chat", 181), ("s_search.v2", 60)):
            self.assertIn(f"  timeout server {limit}s\n",
                          text.split(f"\nbackend {pool}\n")[1].split("\nbackend")[0])
        self.assertIn("  timeout client 181s\n", text.split("\nfrontend")[0])
        text = self.export("nginx", "--grpc", "127.0.0.1:8001")
        self.assertEqual(text.count("_read_timeout 181s;"), 3)  # two doors, and chat's own path
        self.assertIn("location /v2/models/search.v2/ { proxy_read_timeout 60s;", text)
        self.assertNotRegex(text, "next_upstream [^;]*timeout")
        done = self.run_partita("export", "status.json", "--to", "envoy")
        self.assertIn("chat 181s, search.v2 60s", done.stderr.decode())

    def test_envoy(self):
        clusters = {one["cluster_name"]: one for one in
                    json.loads(self.export("envoy"))["resources"]}
        self.assertEqual(sorted(clusters), ["g_chat", "g_nowhere", "g_search.v2", "s_chat",
                                            "s_nowhere", "s_search.v2"])
        for one in clusters.values():
            self.assertEqual(set(one), {"@type", "cluster_name", "endpoints"})
            self.assertEqual(one["@type"], "type.googleapis.com/"
                                           "envoy.config.endpoint.v3.ClusterLoadAssignment")
        first, _, idle = clusters["g_chat"]["endpoints"][0]["lb_endpoints"]
        self.assertEqual(first, {
            "endpoint": {"address": {"socket_address": {"address": "10.0.0.1",
                                                        "port_value": 8081}}, "hostname": "n1"},
            "load_balancing_weight": 256, "health_status": "UNKNOWN"})
        self.assertEqual((idle["load_balancing_weight"], idle["health_status"]), (1, "DRAINING"))

    def test_a_service_may_be_called_as_a_word_of_nginx(self):
        said = json.loads(json.dumps(STATUS))
        said["services"] += [service(name, piece("n1", 1)) for name in ("default", "hostnames")]
        self.write("status.json", json.dumps(said))
        self.check_nginx(self.export("nginx", "--http", "127.0.0.1:8000", "--grpc",
                                     "127.0.0.1:8001"))

    def test_a_long_name_is_no_harm_to_others(self):
        """nginx refuses a whole file whose map has a name of 47 letters."""
        names = ["a" * length for length in (40, 41, 47, 128)]
        names += ["llama-3.1-" * 9, "llama-3x1-" * 9]
        said = json.loads(json.dumps(STATUS))
        port, gateways = free_port(), [gateway(True), gateway(False)]
        for one in gateways:
            self.addCleanup(one.server_close)
            self.addCleanup(one.shutdown)
        said["nodes"] = [node(f"n{i}", i, gateway=f"127.0.0.1:{one.server_port}")
                         for i, one in enumerate(gateways)]
        said["services"] = [service(name, piece("n1" if "3x1" in name else "n0", 1))
                            for name in names]
        self.write("status.json", json.dumps(said))
        self.check_nginx(self.export("nginx", "--http", f"127.0.0.1:{port}"))
        if not shutil.which("nginx"):
            return
        nginx = subprocess.Popen(["nginx", "-p", self.folder, "-c", "nginx.conf", "-g",
                                  "daemon off;"], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (nginx.terminate(), nginx.wait()))
        until = time.monotonic() + 20
        while self.asked(port) is None and time.monotonic() < until:
            time.sleep(0.05)
        for name in names:  # by the header, as OpenAI's paths are
            self.assertEqual(self.asked(port, "/v1/completions", {"partita-service": name}),
                             404 if "3x1" in name else 200, name)
        self.assertEqual(self.asked(port, "/v1/completions", {"partita-service": "a" * 46}), 404)

    def test_envoy_is_told_addresses_of_the_internet_protocol(self):
        """In endpoints of EDS an address is no name, and one of IPv6 has no brackets."""
        said = json.loads(json.dumps(STATUS))
        said["nodes"][0].update(gateway="[fd00::17]:8080", grpc="[fd00::17]:8081")
        self.write("status.json", json.dumps(said))
        hosts = [one["endpoint"]["address"]["socket_address"]["address"]
                 for cluster in json.loads(self.export("envoy"))["resources"]
                 for one in cluster["endpoints"][0]["lb_endpoints"]]
        self.assertIn("fd00::17", hosts)
        for host in hosts:
            ipaddress.ip_address(host)
        said["nodes"][1].update(gateway="n2.lan:8080")
        self.write("named.json", json.dumps(said))
        done = self.run_partita("export", "named.json", "--to", "envoy")
        self.assertEqual(done.returncode, 2)
        self.assertIn("gateway of n2 is 'n2.lan:8080', and Envoy's endpoints are IP addresses",
                      done.stderr.decode())
        self.ok("export", "named.json", "--to", "haproxy")

    def test_what_is_wrong_is_said(self):
        bad = json.loads(json.dumps(STATUS))
        bad["nodes"][0]["gateway"] = "10.0.0.1"
        self.write("bad.json", json.dumps(bad))
        bad["services"][0]["service"] = "a b"
        self.write("worse.json", json.dumps(bad))
        self.write("empty.json", json.dumps({**STATUS, "services": []}))
        for words, said in (((), "PLAN"), (("bad.json",), "no HOST:PORT"),
                            (("worse.json",), "'a b'"), (("empty.json",), "nothing is written"),
                            (("status.json", "--http", "a ; b:80"), "--http is 'a ; b:80', no"),
                            (("status.json", "--grpc", "*:99999"), "--grpc is '*:99999', no"),
                            (("status.json", "--label", "x"), "--to mig-parted"),
                            (("--fleet", "http://127.0.0.1:1", "--watch"), "-o FILE")):
            done = self.run_partita("export", "--to", "haproxy", *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
