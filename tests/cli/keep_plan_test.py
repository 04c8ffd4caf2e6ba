"""partita export --to kubernetes --watch|--once: a plan's objects at an API server of ours, which
makes pods ready; kills, conflicts, errors, watches that are too old."""

import http.server
import json
import re
import subprocess
import threading
import time
import unittest
import urllib.parse

import harness
from interop_test import PLAN, instance
from servers import Answers

KINDS = {"deviceclasses", "services", "poddisruptionbudgets", "resourceclaimtemplates",
         "deployments"}
TYPES = {"application/apply-patch+yaml", "application/merge-patch+json"}


def merge(into, patch):
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Condition()
        self.objects, self.version, self.writes = {}, 100, 0  # objects: by path
        self.troubles = []  # what the next calls that write are answered
        self.gone = 0  # how many watches are too old
        self.tokens, self.used, self.fewest = set(), set(), 99
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A keeper that is killed breaks its connections."""

    def mark(self, thing):
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        if "replicas" in thing["spec"] and "foreign" not in thing["spec"]:  # ready at once
            thing["metadata"]["generation"] = self.version
            count = thing["spec"]["replicas"]
            assert isinstance(count, int), count
            thing["status"] = {"observedGeneration": self.version, "readyReplicas": count,
                               "updatedReplicas": count}
        self.lock.notify_all()

    def put(self, path, thing):
        with self.lock:
            thing["metadata"]["uid"] = f"uid-{self.version}"
            self.mark(thing)
            self.objects[path] = thing

    def names(self, plural):
        with self.lock:
            return sorted(path.rsplit("/", 1)[1] for path in self.objects
                          if path.rsplit("/", 2)[1] == plural)

    def ready(self, service):
        return sum(one["status"]["readyReplicas"] for path, one in self.objects.items()
                   if "/deployments/" in path and "status" in one
                   and one["spec"]["selector"]["matchLabels"]["partita.gpu/service"] == service)


class Handler(Answers):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server, url = self.server, urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        server.tokens.add(self.headers.get("Authorization"))
        server.used.add(("watch" if query else "list", url.path.rsplit("/", 1)[1]))
        if query:
            return self.watch(int(query["resourceVersion"]))
        with server.lock:
            items = [one for path, one in server.objects.items() if path.startswith(url.path + "/")]
            return self.answer(200, {"metadata": {"resourceVersion": str(server.version)},
                                     "items": items})

    def watch(self, version):
        server = self.server
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with server.lock:
            kind = "ADDED"
            if server.gone > 0:
                server.gone, kind = server.gone - 1, "ERROR"
            else:
                server.lock.wait_for(lambda: server.version > version, 2)
                if server.version == version:
                    kind = "BOOKMARK"
        line = json.dumps({"type": kind, "object": {"metadata": {}}}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(line), line))

    def write(self, verb):
        server, path = self.server, urllib.parse.urlsplit(self.path).path
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = path.rsplit("/", 1)[1]
        plural = name if name in KINDS else path.rsplit("/", 2)[1]
        with server.lock:
            server.used.add((verb, plural))
            server.writes += 1
            trouble = server.troubles.pop(0) if server.troubles else None
            if trouble and trouble != "lost":
                return self.answer(trouble, {"kind": "Status"})
            status = self.change(verb, path, body)
            server.fewest = min(server.fewest, server.ready("chat"))
        if trouble == "lost":
            self.close_connection = True
            return None
        return self.answer(status, {"kind": "Status"})

    def change(self, verb, path, body):
        server = self.server
        if verb == "create":
            path += "/" + body["metadata"]["name"]
            if path in server.objects:
                return 409
            server.put(path, body)
            return 201
        there = server.objects.get(path)
        if there is None:
            return 409 if verb == "patch" else 404
        said = body.get("preconditions", body.get("metadata"))
        if said["resourceVersion"] != there["metadata"]["resourceVersion"]:
            return 409
        if verb == "delete":
            del server.objects[path]
            server.version += 1
            server.lock.notify_all()
            return 200
        assert self.headers["Content-Type"] in TYPES and "fieldManager=partita" in self.path
        merge(there, body)
        server.mark(there)
        return 200

    def do_POST(self):
        self.write("create")

    def do_PATCH(self):
        self.write("patch")

    def do_DELETE(self):
        self.write("delete")


def other_plan():
    """Chat on two smaller instances, nothing of `a`."""
    plan = json.loads(json.dumps(PLAN))
    plan["gpus"][0]["instances"] = [instance("2g.20gb", 0, "chat", 1),
                                    instance("2g.20gb", 2, "chat", 1)]
    plan["services"] = [one for one in plan["services"] if one["name"] != "a"]
    return plan


class KeepPlan(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("plan.json", json.dumps(PLAN))
        self.api = Server()
        self.addCleanup(self.api.server_close)
        self.addCleanup(self.api.shutdown)
        self.write_secret("token", "first\n")
        self.args = ["export", "plan.json", "--to", "kubernetes", "--namespace", "ml",
                     "--api-server", f"http://127.0.0.1:{self.api.server_port}", "--token-file",
                     "token", "--interval", "50ms"]

    def keep(self):
        keeper = subprocess.Popen([harness.PROGRAM, *self.args, "--watch"], cwd=self.folder,
                                  stderr=subprocess.PIPE)
        self.addCleanup(keeper.stderr.close)
        self.addCleanup(keeper.wait)
        self.addCleanup(keeper.kill)
        return keeper

    def until(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, self.api.objects.keys())
            time.sleep(0.02)

    def test_once_applies_and_says_whether_it_is_so(self):
        self.api.troubles = [503, 409, "lost", 429]
        self.ok(*self.args, "--once")
        wanted = json.loads(self.ok(*self.args[:6]))["items"]
        self.assertEqual(sorted(one["metadata"]["name"] for one in wanted),
                         sorted(name for kind in KINDS for name in self.api.names(kind)))
        writes = self.api.writes
        self.ok(*self.args, "--once")
        self.assertEqual(self.api.writes, writes)
        self.assertEqual(self.api.tokens, {"Bearer first"})

    def test_once_fails_where_something_foreign_has_a_name(self):
        path = "/api/v1/namespaces/ml/services/chat"
        foreign = {"metadata": {"name": "chat", "labels": {}}, "spec": {"foreign": True}}
        self.api.put(path, foreign)
        before = json.dumps(foreign)
        done = self.run_partita(*self.args, "--once")
        self.assertEqual(done.returncode, 3)
        self.assertIn("Service chat is there and not of this plan", done.stderr.decode())
        self.assertEqual(json.dumps(self.api.objects[path]), before)

    def test_a_plan_is_kept_through_kills_and_its_change(self):
        self.api.put("/apis/apps/v1/namespaces/ml/deployments/other",
                     {"metadata": {"name": "other"}, "spec": {"replicas": 1, "foreign": True}})
        keeper = self.keep()
        self.until(lambda: len(self.api.names("deployments")) == 4)
        self.api.gone = 3
        # Somebody changes what the plan says: it is made as it was.
        path = next(one for one in self.api.objects if "/deployments/chat" in one)
        with self.api.lock:
            self.api.objects[path]["spec"]["template"]["spec"]["hostIPC"] = False
            self.api.mark(self.api.objects[path])
        self.until(lambda: self.api.objects[path]["spec"]["template"]["spec"]["hostIPC"])
        self.write_secret("token", "second\n")
        self.write("plan.json", "no plan")
        time.sleep(0.3)
        self.assertEqual(len(self.api.names("deployments")), 4)
        self.api.fewest = self.api.ready("chat")
        self.write("plan.json", json.dumps(other_plan()))
        for number in range(8):
            keeper.kill()
            keeper.wait()
            self.api.troubles = ["lost", 409, 500][number % 3:]
            keeper = self.keep()
            time.sleep(0.02 * number)
        self.until(lambda: self.api.names("services") == ["chat", "search"])
        self.until(lambda: len(self.api.names("resourceclaimtemplates")) == 2)
        self.assertEqual(len(self.api.names("deployments")), 3)
        self.assertIn("other", self.api.names("deployments"))
        self.assertEqual(self.api.ready("chat"), 2)
        self.assertGreaterEqual(self.api.fewest, 1)
        self.assertEqual(self.api.tokens, {"Bearer first", "Bearer second"})
        self.ok(*self.args, "--once")
        keeper.terminate()
        self.assertEqual(keeper.wait(), 0)

    def test_what_it_calls_is_allowed_and_no_more(self):
        self.ok(*self.args, "--once")
        with self.api.lock:  # every kind is changed by somebody
            for one in self.api.objects.values():
                one["spec"] = {key: value for key, value in one["spec"].items()
                               if key in ("replicas", "selector")}
                self.api.mark(one)
        self.ok(*self.args, "--once")
        self.write("plan.json", json.dumps(other_plan()))
        self.ok(*self.args, "--once")
        keeper = self.keep()
        self.until(lambda: ("watch", "deployments") in self.api.used)
        keeper.terminate()
        rules = harness.source_text("packaging/kubernetes/keeper.yaml")
        allowed = {(verb, resource) for resource, verbs in re.findall(
            r"resources: \[(\w+)\]\n    verbs: \[(.*)\]", rules) for verb in verbs.split(", ")}
        self.assertEqual(self.api.used, allowed)

    def test_flags_that_do_not_go_together(self):
        for more, part in ((("--once", "--watch"), "two things"),
                           (("--once", "-o", "x"), "written"),
                           (("--once", "--label", "A"), "lower-case")):
            done = self.run_partita(*self.args, *more)
            self.assertEqual(done.returncode, 2)
            self.assertIn(part, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
