"""partita.Client against a live agent on a simulated node: every operation of the API's OpenAPI
document, by socket, token and certificate; and against a server that breaks its streams."""

import hashlib
import http.server
import inspect
import json
import os
import pathlib
import re
import runpy
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = pathlib.Path(os.environ["PARTITA"])
PACKAGES = PROGRAM.with_name("python")
sys.path[:0] = [str(PACKAGES), str(SOURCE / "tests/cli")]

import partita  # noqa: E402
import partita.agent_documents as documents  # noqa: E402
from harness import SERVICES, profiles  # noqa: E402

MACHINE = """gpus: [{model: A100-80GB, count: 3, mig: true}]
state: node.state
speed: 0.02
"""
SETTINGS = """node: {driver: sim, machine: machine.yaml, state_dir: state}
services: services.yaml
profiles: profiles.csv
policy: {mode: approve, look_s: 0.2, batch: {gpus: [2]}}
server: {socket: %s/api.sock, %s}
"""
MORE = SERVICES + "  - {name: draw, model: large, rate_rps: 100, slo_ms: 500}\n"
TASKS = "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command\na,1,1,1,1,1,true\n"
HELPERS = {"wait_for"}  # public methods that are no operation
BODIES = {"services": "application/yaml", "plan": "ServingPlan", "tasks": "text/csv",
          "mode": "ModeWanted", "why": "Why", "submission": "QueueSubmission"}


class Agent:
    """A live agent in a folder of its own."""

    def __init__(self, test, server, **files):
        folder = tempfile.TemporaryDirectory()
        at_end = test.addClassCleanup if isinstance(test, type) else test.addCleanup
        at_end(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.process = None
        texts = {"machine.yaml": MACHINE, "services.yaml": SERVICES, "profiles.csv": profiles(),
                 "agent.yaml": SETTINGS % (self.folder, server), **files}
        for name, text in texts.items():
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o600)
        at_end(self.kill)

    def start(self):
        """Its addresses, once it has looked at the node."""
        with open(self.folder / "log", "ab") as log:
            begin = log.tell()
            self.process = subprocess.Popen([PROGRAM, "agent", "--settings", "agent.yaml"],
                                            cwd=self.folder, stdout=log, stderr=log)
        while True:
            said = (self.folder / "log").read_bytes()[begin:].decode()
            if " keeps " in said:
                socket = "unix:" + str(self.folder / "api.sock")
                while not partita.Client(socket).state()["node"]:
                    time.sleep(0.02)
                return [socket, *re.findall(r"https?://\S+", said)]
            if self.process.poll() is not None:
                raise AssertionError(said)
            time.sleep(0.02)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def command(self, *words):
        return subprocess.run([PROGRAM, *words], cwd=self.folder, capture_output=True, text=True,
                              check=True).stdout


def operations(openapi):
    """By operationId: path parameters, query parameters, and what the body is."""
    found = {}
    for path in openapi["paths"].values():
        for operation in path.values():
            query = {one["name"]: one["required"] for one in operation["parameters"]
                     if one["in"] == "query"}
            parts = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
            body = None
            for media, content in operation.get("requestBody", {}).get("content", {}).items():
                reference = content["schema"].get("$ref", "")
                body = reference.rsplit("/", 1)[-1] or media
            found[operation["operationId"]] = (parts, query, body)
    return found


class LiveTest(unittest.TestCase):
    """One agent by its socket; its tests change the node one after the other."""

    @classmethod
    def setUpClass(cls):
        cls.agent = Agent(cls, "listen: ''")
        cls.client = partita.Client(cls.agent.start()[0])

    def proposed(self, after=0):
        """The change for all of MORE that waits for approval, behind that number."""
        for state in self.client.events():
            change = state.get("current")
            if change is None or change["state"] != "proposed" or change["number"] <= after:
                continue
            if len(change["plan"]["services"]) == 3:
                return change["number"]

    def refused(self, status, code, call, *arguments, **named):
        with self.assertRaises(partita.ApiError) as caught:
            call(*arguments, **named)
        self.assertEqual((caught.exception.status, caught.exception.code), (status, code))
        return caught.exception

    def test_a_method_per_operation_and_the_reverse(self):
        openapi = self.client.openapi()
        wanted = operations(openapi)
        methods = {name for name, _ in inspect.getmembers(partita.Client, inspect.isfunction)
                   if not name.startswith("_")}
        self.assertEqual(methods - HELPERS, set(wanted))
        for name, (parts, query, body) in wanted.items():
            method = getattr(partita.Client, name)
            self.assertTrue(method.__doc__, name)
            takes = dict(inspect.signature(method).parameters)
            takes.pop("self")
            if name == "events":
                continue  # how to go on after a break is the client's
            if body == "LeaseWanted":  # its members are the method's
                schema = openapi["components"]["schemas"][body]["properties"]
                self.assertEqual({"from" if one == "take_over" else one for one in takes},
                                 set(schema), name)
                continue
            given = {one for one in takes if one in BODIES and one not in query}
            bodies = [BODIES[one] for one in takes if one in given]
            self.assertEqual(bodies, [] if body is None else [body], name)
            others = [one for one in takes if one not in given]
            self.assertEqual(others[:len(parts)], parts, name)
            self.assertEqual({one: takes[one].default is inspect.Parameter.empty
                              for one in others[len(parts):]}, query, name)

    def test_types_are_those_of_the_api(self):
        tool = runpy.run_path(str(SOURCE / "tools/make_python_types.py"))
        self.assertEqual((PACKAGES / "partita/agent_documents.py").read_text("utf-8"),
                         tool["api_text"](self.client.openapi()))

    def test_what_commands_say(self):
        server = ("--server", self.client.server)
        node = json.loads(self.agent.command(*server, "status", "--format", "json"))
        self.assertEqual(self.client.node(), node)
        story = json.loads(self.agent.command(*server, "history", "--most", "3", "--format",
                                              "json"))
        oldest = story["events"][-1]["id"]
        self.assertEqual(self.client.history_event(oldest)["events"], story["events"][-1:])
        self.assertEqual(self.client.history(most=3, before=story["events"][0]["id"] + 1), story)
        self.assertIn(self.client.services(), (SERVICES, MORE))
        self.assertIn(self.client.version()["program"], self.agent.command("--version"))
        self.assertIn("partita_agent_converged", self.client.metrics())
        self.assertEqual(self.client.health()["node"], self.client.state()["node"])
        for said, kind in ((self.client.state(), documents.AgentState), (node, documents.NodeState),
                           (story, documents.History), (self.client.latest(), documents.Latest),
                           (self.client.series("gpus"), documents.Series)):
            self.assertLessEqual(set(said), set(kind.__annotations__))
            self.assertLessEqual(kind.__required_keys__, set(said))

    def test_services_through_every_kind_of_change(self):
        client = self.client
        self.assertEqual(client.set_mode("approve")["kind"], "Receipt")
        wrong = self.refused(400, "bad_input", client.set_services, "services: [{name: a}]\n")
        self.assertRegex(wrong.context, r":\d+$")
        preview = client.preview(MORE)
        self.assertEqual((preview["number"], preview["state"]), (0, "proposed"))
        client.set_services(MORE)
        first = self.proposed()
        self.assertEqual(client.current_change()["number"], first)
        client.reject(first, "not now")
        self.assertEqual(client.wait_for(first, timeout_s=60)["state"], "rejected")
        client.replan()
        second = self.proposed(after=first)
        receipt = client.approve(second)
        self.assertEqual(receipt["change"], second)
        self.assertEqual(client.wait_for(second, timeout_s=60)["state"], "succeeded")
        self.assertEqual(client.plan()["kind"], "ServingPlan")
        planned = sum(len(gpu["instances"]) for gpu in client.plan()["gpus"])
        on_node = json.loads(self.agent.command(
            "status", "--driver", "sim", "--machine", "machine.yaml", "--state-dir", "state",
            "--format", "json"))
        self.assertEqual(sum(len(gpu["instances"]) for gpu in on_node["gpus"]), planned)
        story = client.history(change=second, documents=False)["events"]
        self.assertEqual({one["change"] for one in story}, {second})
        self.assertIn("approved", {one["kind"] for one in story})
        self.refused(404, "not_found", client.approve, 999999)
        self.refused(409, "infeasible", client.approve, second, "again")
        self.refused(404, "not_found", client.change, 999999)

    def test_a_plan_of_somebody_else(self):
        client = self.client
        (self.agent.folder / "wanted.yaml").write_text(client.services(), encoding="utf-8")
        plan = json.loads(self.agent.command(
            "plan", "--services", "wanted.yaml", "--profiles", "profiles.csv", "--gpu",
            "A100-80GB", "--format", "json"))
        preview = client.preview(plan)
        self.assertEqual(len(preview["plan"]["gpus"]), len(plan["gpus"]))
        number = client.set_plan(plan)["change"]
        client.approve(number)
        self.assertEqual(client.wait_for(number, timeout_s=60)["state"], "succeeded")
        self.assertEqual(sorted(one["profile"] for gpu in client.plan()["gpus"]
                                for one in gpu["instances"]),
                         sorted(one["profile"] for gpu in plan["gpus"]
                                for one in gpu["instances"]))
        other = self.agent.folder / "other.yaml"
        other.write_text(client.services().replace("rate_rps: 120", "rate_rps: 121"), "utf-8")
        stale = json.loads(self.agent.command(
            "plan", "--services", "other.yaml", "--profiles", "profiles.csv", "--gpu",
            "A100-80GB", "--format", "json"))
        said = self.refused(409, "infeasible", client.set_plan, stale)
        self.assertIn("problem_digest", str(said))
        self.refused(400, "bad_input", client.set_plan, {"kind": "ServingPlan"})

    def test_watching_by_the_command_line(self):
        server = ("--server", self.client.server)
        frames = self.agent.command(*server, "top", "--count", "1")
        self.assertIn("3 GPUs", frames)
        self.assertIn("CAN CARRY /s", frames)
        shown = self.agent.command(*server, "status", "--watch", "--count", "1", "--format", "json")
        self.assertEqual({gpu["uuid"] for gpu in json.loads(shown)["gpus"]},
                         {gpu["uuid"] for gpu in self.client.node()["gpus"]})

    def test_gpus_and_tasks(self):
        client = self.client
        uuid = client.node()["gpus"][1]["uuid"]
        client.take_out(uuid, "a new fan")
        gone = next(state for state in client.events()
                    if any(gpu["out"] and gpu["uuid"] == uuid for gpu in state["gpus"]))
        self.assertIn("a new fan", next(gpu["why"] for gpu in gone["gpus"] if gpu["uuid"] == uuid))
        client.give_back(uuid)
        next(state for state in client.events()
             if not any(gpu["out"] and gpu["uuid"] == uuid for gpu in state["gpus"]))
        self.refused(404, "not_found", client.take_out, "GPU-none")
        self.refused(400, "bad_input", client.submit_tasks, TASKS.replace(",true", ","))
        self.assertEqual(client.submit_tasks(TASKS)["kind"], "Receipt")
        number = client.batches()["batches"][0]["number"]
        self.assertEqual(client.batch(number)["number"], number)
        for _ in range(2):  # once more is once
            self.assertIn(f"batch {number} ", client.cancel_batch(number, "a mistake")["sentence"])
        self.refused(404, "not_found", client.cancel_batch, number + 1)
        self.refused(404, "not_found", client.batch, number + 1)
        self.refused(409, "infeasible", client.give_back, uuid)

    def test_a_rollback_without_a_past_or_with_one(self):
        try:
            number = self.client.rollback()["change"]
            self.assertIn(self.client.wait_for(number, timeout_s=60)["state"],
                          ("succeeded", "failed"))
        except partita.ApiError as error:
            self.assertEqual((error.status, error.code), (409, "infeasible"))

    def test_wait_for_ends(self):
        with self.assertRaises(partita.ApiError):
            self.client.wait_for(999999, timeout_s=5)
        number = self.client.state().get("current", {}).get("number")
        if number is not None and self.client.change(number)["state"] == "proposed":
            with self.assertRaises(TimeoutError):
                self.client.wait_for(number, timeout_s=0.2)

    def test_the_demo(self):
        library = PROGRAM.with_name("libpartita.so.0")
        if not library.exists():
            self.skipTest("libpartita is not built")
        done = subprocess.run(
            [sys.executable, SOURCE / "python/examples/demo.py", SOURCE / "data",
             self.agent.folder / "plan.json", self.client.server],
            capture_output=True, check=False, text=True, timeout=120,
            env=dict(os.environ, PYTHONPATH=str(PACKAGES), PARTITA_LIBRARY=str(library)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the agent of " + self.client.health()["node"], done.stdout)


class ReachTest(unittest.TestCase):
    """Tokens, certificates, an agent that goes and comes."""

    def test_roles_by_token(self):
        lines = [f"{role}:{role}:{hashlib.sha256(role.encode()).hexdigest()}\n"
                 for role in ("viewer", "operator", "admin")]
        agent = Agent(self, "listen: '127.0.0.1:0', tokens_file: tokens",
                      tokens="".join(lines))
        place = agent.start()[-1]
        self.assertTrue(place.startswith("http://127.0.0.1:"), place)
        may = {"viewer": 0, "operator": 1, "admin": 2}
        for role, allowed in may.items():
            client = partita.Client(place, token=role)
            self.assertEqual(client.node()["kind"], "NodeState")
            for needed, call in ((1, client.replan), (2, lambda: client.set_mode("approve"))):
                if allowed >= needed:
                    self.assertEqual(call()["kind"], "Receipt")
                    continue
                with self.assertRaises(partita.ApiError) as caught:
                    call()
                self.assertEqual((caught.exception.status, caught.exception.code),
                                 (403, "forbidden"))
        nobody = partita.Client(place, token="wrong")
        self.assertEqual(nobody.health()["kind"], "Health")
        for call in (nobody.node, lambda: next(nobody.events())):
            with self.assertRaises(partita.ApiError) as caught:
                call()
            self.assertEqual(caught.exception.status, 401)

    def test_certificates(self):
        if shutil.which("openssl") is None:
            self.skipTest("openssl is not installed")
        agent = Agent(self, "listen: '127.0.0.1:0', tls_certificate: server.pem, "
                      "tls_key: server.key, client_ca: ops.pem, client_roles: roles",
                      roles="ops:operator\n")
        for name, more in (("server", ("-addext", "subjectAltName=IP:127.0.0.1")), ("ops", ()),
                           ("other", ())):
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", f"/CN={name}",
                 "-keyout", agent.folder / f"{name}.key", "-out", agent.folder / f"{name}.pem",
                 *more], check=True, capture_output=True)
        place = agent.start()[-1]
        self.assertTrue(place.startswith("https://127.0.0.1:"), place)

        def client(name):
            return partita.Client(place, ca_file=agent.folder / "server.pem",
                                  certificate=agent.folder / f"{name}.pem",
                                  key=agent.folder / f"{name}.key")

        self.assertEqual(client("ops").replan()["kind"], "Receipt")
        with self.assertRaises(partita.ApiError) as caught:
            client("ops").set_mode("observe")
        self.assertEqual(caught.exception.status, 403)
        with self.assertRaises(partita.NoAnswer):
            client("other").node()
        with self.assertRaises(partita.NoAnswer):  # its authority is not trusted
            partita.Client(place).health()

    def test_the_stream_goes_on_when_the_agent_is_back(self):
        agent = Agent(self, "listen: ''")
        client = partita.Client(agent.start()[0])
        lost = []

        def on_lost(error, wait):
            self.assertGreater(wait, 0)
            if not lost:
                agent.start()
            lost.append(error)

        states = client.events(on_lost=on_lost)
        before = next(states)
        agent.kill()
        for after in states:
            if lost:
                break
        self.assertIsInstance(lost[0], partita.NoAnswer)
        self.assertEqual(after["node"], before["node"])
        self.assertGreaterEqual(after["time_ms"], before["time_ms"])
        states.close()
        agent.kill()
        with self.assertRaises(partita.NoAnswer):
            client.health()
        with self.assertRaises(partita.NoAnswer):
            next(client.events(reconnect=False))


class Breaking(http.server.BaseHTTPRequestHandler):
    """Answers the next of `script`: a status, or pieces of a stream that then ends."""

    script, seen = [], []

    def do_GET(self):
        Breaking.seen.append(self.headers.get("Last-Event-ID"))
        next_one = Breaking.script.pop(0)
        stream = isinstance(next_one, bytes)
        self.send_response(200 if stream else next_one)
        self.send_header("Content-Type", "text/event-stream" if stream else "text/plain")
        if not stream:
            self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(next_one if stream else b"no")

    def log_message(self, *args):
        pass

    def address_string(self):
        return "client"


class BrokenStreamTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = folder.name + "/api.sock"
        server = socketserver.UnixStreamServer(path, Breaking)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.client = partita.Client("unix:" + path)
        Breaking.seen = []

    def test_nothing_is_lost_twice_or_cut(self):
        Breaking.script = [
            b"retry: 2000\n\n:\n\nevent: state\nid: a-1\ndata: {\"version\":\ndata: 1}\n\n"
            b"event: other\ndata: {}\n\nevent: state\nid: a-2\ndata: {\"vers",
            503,
            b"event: state\r\nid: a-2\r\ndata: {\"version\": 2}\r\n\r\n",
            b"event: state\nid: a-3\ndata: {\"version\": 3}\n\n"]
        lost = []
        states = self.client.events(on_lost=lambda error, _: lost.append(error.code))
        self.assertEqual([next(states)["version"] for _ in range(3)], [1, 2, 3])
        states.close()
        self.assertEqual(Breaking.seen, [None, "a-1", "a-1", "a-2"])
        self.assertEqual(lost, ["no_answer", "unknown", "no_answer"])

    def test_who_may_not_is_told(self):
        for status in (401, 403, 404):
            Breaking.script = [status]
            with self.assertRaises(partita.ApiError) as caught:
                next(self.client.events())
            self.assertEqual(caught.exception.status, status)
        Breaking.script = [b"event: state\ndata: {\"version\": 1}\n\n"]
        states = self.client.events(reconnect=False)
        self.assertEqual(next(states)["version"], 1)
        with self.assertRaises(partita.NoAnswer):
            next(states)

    def test_places_and_tokens_that_are_none(self):
        for place in ("unix:api.sock", "node1", "ftp://node1", "http://", "http://a?b=c",
                      "https://me:pw@node1"):
            with self.assertRaises(ValueError, msg=place):
                partita.Client(place)
        with self.assertRaises(ValueError):
            partita.Client("http://node1:8123", token="secret")
        partita.Client("http://127.0.0.1:8123", token="secret")
        for token in ("two words", "a\r\nHost: b", "\u00e9"):
            with self.assertRaises(ValueError, msg=token):
                partita.Client("https://node1", token=token)
        with self.assertRaises(TypeError):
            self.client.set_services(3)


if __name__ == "__main__":
    unittest.main()
