"""partita --server URL: commands of a node as clients of an agent's API. The server here is
another implementation, which gives what the program itself writes on a simulated node."""

import json
import os
import socketserver
import stat
import threading
import unittest
import urllib.parse

import harness
from servers import Answers

MACHINE = """gpus:
  - {model: A100-80GB, count: 2, mig: true}
state: node.state
instances:
  - {gpu: 0, profile: 3g.40gb, start: 4}
"""
TOKEN = "a-token-of-the-test"


class Agent(Answers):
    """Answers with `documents` by path, keeps what came; asks for the token."""

    documents = {}
    seen = []

    def do_any(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length).decode()
        Agent.seen.append((self.command, self.path, body))
        error = {"api_version": "partita/v1", "kind": "ApiError", "where": ""}
        if self.headers.get("Authorization") != "Bearer " + TOKEN:
            error.update(code="unauthorized", message="a token is wanted")
            return self.answer(401, json.dumps(error))
        if "infeasible-" in body:
            error.update(code="infeasible", message="the judge refuses the plan")
            return self.answer(409, json.dumps(error))
        if "nonsense" in body:
            error.update(code="bad_input", message="a list is wanted", where="services:1")
            return self.answer(400, json.dumps(error))
        path, _, query = self.path.partition("?")
        asked = dict(urllib.parse.parse_qsl(query))
        if path == "/v1/history":  # whatever else is asked of it; nothing comes after it
            path += f"?change={asked['change']}" if "change" in asked else ""
            path = "/v1/history?before" if "before" in asked else path
        found = self.documents.get((self.command, path))
        if found is None:
            error.update(code="not_found", message="nothing there")
            return self.answer(404, json.dumps(error))
        return self.answer(202 if self.command != "GET" else 200, found)

    do_GET = do_PUT = do_POST = do_any

    def address_string(self):
        return "client"


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


RECEIPT = json.dumps({"api_version": "partita/v1", "kind": "Receipt", "change": 7,
                      "sentence": "the agent plans"})


class ServerTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)
        self.write("token", TOKEN + "\n")
        os.chmod(self.path("token"), stat.S_IRUSR | stat.S_IWUSR)
        self.sim = ("--driver", "sim", "--machine", "machine.yaml")
        self.node = self.ok("status", *self.sim, "--format", "json")
        self.write("plan.json", self.ok(*self.plan_args("--format", "json")))
        change = {"api_version": "partita/v1", "kind": "AgentChange", "number": 7,
                  "state": "proposed", "cause": "chat asks for more", "planned_ms": 1,
                  "ended_ms": 0, "steps_done": 0, "error": "", "explanation": ["a reason"],
                  "plan": json.loads(self.read("plan.json"))}
        history = {"api_version": "partita/v1", "kind": "History", "events": [
            {"id": 3, "time_ms": 1_700_000_000_000, "kind": "applied", "change": 7,
             "user": "agent", "cause": "", "subject": "", "outcome": "succeeded",
             "detail": "4 steps"}]}
        state = {"api_version": "partita/v1", "kind": "AgentState", "version": 1, "time_ms": 1,
                 "node": "n", "mode": "automatic", "converged": True, "doing": "",
                 "state": json.loads(self.node), "state_as_of": "2026-01-02T03:04:05.000Z",
                 "assignment": {"revision": 0, "segments": []}, "gpus": [], "services": [
                     {"name": "chat", "verdict": "down", "since": "2026-01-02T03:04:05.000Z",
                      "why": "no worker of chat is ready", "asked_rps": 3, "can_carry_rps": 0}],
                 "batch": {"waiting": 0, "running": 0, "done": 0, "failed": 0}, "notices": [],
                 "restarts": 0, "given_up_workers": 0, "drifts": 0, "changes": 0,
                 "failed_changes": 0}
        Agent.documents = {
            ("GET", "/v1/node"): self.node,
            ("GET", "/v1/state"): json.dumps(state),
            ("GET", "/v1/plan"): self.read("plan.json"),
            ("POST", "/v1/preview"): json.dumps(change),
            ("GET", "/v1/history"): json.dumps(history),
            ("GET", "/v1/history?change=7"): json.dumps(history),
            ("GET", "/v1/history?before"): json.dumps({**history, "events": []}),
            ("PUT", "/v1/services"): RECEIPT, ("POST", "/v1/rollback"): RECEIPT}
        uuid = json.loads(self.node)["gpus"][1]["uuid"]
        Agent.documents["POST", f"/v1/gpus/{uuid}/take-out"] = RECEIPT
        self.uuid = uuid
        Agent.seen = []
        server = UnixServer(self.path("api.sock"), Agent)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.there = ("--server", "unix:" + self.path("api.sock"), "--token-file", "token")

    def test_what_is_shown_is_what_is_shown_at_the_node(self):
        shown, local = self.ok(*self.there, "status"), self.ok("status", *self.sim)
        self.assertTrue(shown.startswith(local), (shown, local))
        self.assertIn("chat: no worker of chat is ready\n", shown)
        self.assertEqual(self.ok(*self.there, "status", "--format", "json"), self.node)
        self.assertEqual(self.ok(*self.there, "plan", "--format", "json"), self.read("plan.json"))
        shown, local = self.ok(*self.there, "plan"), self.ok(*self.plan_args())
        self.assertEqual(shown.splitlines()[:3], local.splitlines()[:3])

    def test_services_are_proposed_and_previewed(self):
        self.assertEqual(self.ok(*self.there, "apply", "services.yaml"),
                         "the agent plans (change 7)\n")
        self.assertEqual(Agent.seen[-1], ("PUT", "/v1/services", harness.SERVICES))
        text = self.ok(*self.there, "apply", "services.yaml", "--dry-run")
        self.assertIn("chat asks for more", text)
        self.assertEqual(Agent.seen[-1], ("POST", "/v1/preview", harness.SERVICES))
        self.ok(*self.there, "plan", "--services", "services.yaml")
        self.assertEqual(Agent.seen[-1], ("POST", "/v1/preview", harness.SERVICES))

    def test_plans_are_judged_there(self):
        Agent.documents["PUT", "/v1/plan"] = RECEIPT
        self.assertEqual(self.ok(*self.there, "apply", "plan.json"), "the agent plans (change 7)\n")
        self.assertEqual(Agent.seen[-1], ("PUT", "/v1/plan", self.read("plan.json")))
        self.assertIn("ok", self.ok(*self.there, "verify", "plan.json"))
        self.assertEqual(Agent.seen[-1], ("POST", "/v1/preview", self.read("plan.json")))
        self.assertTrue(self.json(*self.there, "verify", "plan.json")["ok"])
        wrong = self.read("plan.json").replace('"planner": "', '"planner": "infeasible-')
        self.write("wrong.json", wrong)
        verdict = self.json(*self.there, "verify", "wrong.json", status=1)
        self.assertFalse(verdict["ok"])
        self.assertEqual(verdict["violations"][0]["detail"], "the judge refuses the plan")
        refused = self.run_partita(*self.there, "apply", "wrong.json")
        self.assertEqual(refused.returncode, 1)
        for more in (("verify", "services.yaml"),
                     ("verify", "plan.json", "--services", "services.yaml"),
                     ("apply", "verdict.json")):
            self.write("verdict.json", json.dumps(verdict))
            seen = len(Agent.seen)
            self.assertEqual(self.run_partita(*self.there, *more).returncode, 2, more)
            self.assertEqual(len(Agent.seen), seen, more)

    def test_an_agent_is_told(self):
        for words, call in (
                (("--approve", "7"), ("POST", "/v1/changes/7/approve", "")),
                (("--approve", "7", "--why", "tested"),
                 ("POST", "/v1/changes/7/approve", '{"why": "tested"}')),
                (("--reject", "7", "--why", 'a "fan"'),
                 ("POST", "/v1/changes/7/reject", '{"why": "a \\"fan\\""}')),
                (("--replan-now",), ("POST", "/v1/replan", "")),
                (("--set-mode", "observe"), ("PUT", "/v1/mode", '{"mode": "observe"}')),
                (("--give-back", "1"), ("POST", f"/v1/gpus/{self.uuid}/give-back", ""))):
            Agent.documents[call[:2]] = RECEIPT
            self.assertEqual(self.ok(*self.there, "agent", *words), "the agent plans (change 7)\n")
            self.assertEqual(Agent.seen[-1], call)
            self.assertEqual(self.run_partita("agent", *words).returncode, 2)
        two = self.run_partita(*self.there, "agent", "--replan-now", "--approve", "7")
        self.assertEqual(two.returncode, 2)

    def test_tasks_are_handed_in(self):
        Agent.documents["POST", "/v1/batch/tasks"] = RECEIPT
        self.write("tasks.csv", "task\n")
        self.variable("PARTITA_STATE_DIR", "state")  # said for all commands, it is in no way
        self.assertEqual(self.ok(*self.there, "batch", "run", "--tasks", "tasks.csv"),
                         "the agent plans (change 7)\n")
        self.assertEqual(Agent.seen[-1], ("POST", "/v1/batch/tasks", "task\n"))
        for more in ((), ("schedule.json",), ("--tasks", "tasks.csv", "--retries", "2")):
            self.assertEqual(self.run_partita(*self.there, "batch", "run", *more).returncode, 2)

    def test_batches_are_shown_and_cancelled(self):
        tasks = [{"batch": 4, "name": "train", "state": "running", "gpu_uuid": "GPU-1",
                  "profile": "3g.40gb", "start": 4, "begin_ms": 1_700_000_000_000}]
        batch = {"number": 4, "state": "cancelling", "user": "root",
                 "received_ms": 1_700_000_000_000, "cancelled_by": "ops", "waiting": 2,
                 "running": 1, "done": 0, "failed": 0, "cancelled": 0, "gpus": ["GPU-1"],
                 "tasks": tasks}
        Agent.documents["GET", "/v1/batch"] = json.dumps(
            {"api_version": "partita/v1", "kind": "AgentBatches", "batches": [batch]})
        Agent.documents["GET", "/v1/batch/4"] = json.dumps(
            {"api_version": "partita/v1", "kind": "AgentBatch", **batch})
        Agent.documents["POST", "/v1/batch/4/cancel"] = RECEIPT
        shown = self.ok(*self.there, "batch", "list")
        self.assertRegex(shown, r"(?m)^ *4  cancelling +root .* 2 +1 +0 +0 +0 +cancelled by ops$")
        self.assertEqual(self.json(*self.there, "batch", "list")["batches"], [batch])
        self.assertRegex(self.ok(*self.there, "batch", "show", "4"),
                         r"(?m)^ *4 +train +running +GPU-1 +3g.40gb@4 ")
        self.assertEqual(self.json(*self.there, "batch", "show", "4")["tasks"], tasks)
        self.assertEqual(self.ok(*self.there, "batch", "cancel", "4", "--why", "no data"),
                         "the agent plans (change 7)\n")
        self.assertEqual(Agent.seen[-1], ("POST", "/v1/batch/4/cancel", '{"why": "no data"}'))
        for words in (("queue", "show", "batch:9"), ("queue", "cancel", "batch:9"),
                      ("agent", "--approve", "77"), ("apply", "nofile")):  # there is no such thing
            self.assertEqual(self.run_partita(*self.there, *words).returncode, 2, words)
        for words in (("list",), ("show", "4"), ("cancel", "4")):  # no agent is asked
            self.assertEqual(self.run_partita("batch", *words).returncode, 2)
        for words in (("show", "x"), ("cancel", "0"), ("cancel",)):
            seen = len(Agent.seen)
            self.assertEqual(self.run_partita(*self.there, "batch", *words).returncode, 2)
            self.assertEqual(len(Agent.seen), seen)
        Agent.documents["GET", "/v1/batch"] = json.dumps(
            {"api_version": "partita/v1", "kind": "AgentBatches", "batches": []})
        self.assertIn("no batch", self.ok(*self.there, "batch", "list"))

    def test_differences(self):
        self.assertIn("no difference", self.ok(*self.there, "diff", "now", "now"))
        Agent.documents["GET", "/v1/history?change=7"] = json.dumps(
            {"api_version": "partita/v1", "kind": "History", "events": [
                {"id": 3, "time_ms": 1_700_000_000_000, "kind": "proposed", "change": 7,
                 "user": "agent", "cause": "", "subject": "", "outcome": "none", "detail": "",
                 "documents": [{"name": "plan", "text": self.read("plan.json")}]}]})
        self.write("node.json", self.node)
        there = self.json(*self.there, "diff", "now", "7", status=1)
        here = self.json("diff", "node.json", "plan.json", status=1)
        for one in (there, here):
            one.pop("a"), one.pop("b")
        self.assertEqual(there, here)
        Agent.documents["GET", "/v1/history?change=99"] = json.dumps(
            {"api_version": "partita/v1", "kind": "History", "events": []})
        self.assertEqual(self.run_partita(*self.there, "diff", "now", "99").returncode, 2)

    def test_rollback_and_drain(self):
        self.ok(*self.there, "rollback")
        self.assertEqual(Agent.seen[-1], ("POST", "/v1/rollback", ""))
        self.ok(*self.there, "drain", "1")
        self.assertEqual(Agent.seen[-1][1], f"/v1/gpus/{self.uuid}/take-out")
        self.assertIn("partita drain", Agent.seen[-1][2])
        self.ok(*self.there, "drain", "1", "--why", "a loud fan")
        self.assertEqual(json.loads(Agent.seen[-1][2]), {"why": "a loud fan"})
        before = len(Agent.seen)
        for words in (("drain", "9"), ("drain", "1", "--wait", "5"),
                      ("apply", "plan.json", "--rollback"),
                      ("apply", "services.yaml", "--min-available", "0.5"),
                      ("apply", "services.yaml", "--why", "more to do")):
            self.assertEqual(self.run_partita(*self.there, *words).returncode, 2, words)
        self.assertEqual({method for method, _, _ in Agent.seen[before:]}, {"GET"})

    def test_the_past(self):
        self.assertIn("4 steps", self.ok(*self.there, "history"))
        document = self.json(*self.there, "history", "--most", "3")
        self.assertEqual(Agent.seen[-1][1], "/v1/history?documents=true&most=3")
        self.ok(*self.there, "history", "--kind", "applied", "--service", "a b", "--since", "1h")
        self.assertRegex(Agent.seen[-1][1], r"\?documents=false&most=50&kind=applied&subject=a%20b"
                                            r"&from_ms=\d+$")
        self.assertIn("4 steps", self.ok(*self.there, "history", "--kind", "applied,repair"))
        self.assertNotIn("4 steps", self.ok(*self.there, "history", "--kind", "repair,step"))
        self.assertEqual(document["events"][0]["change"], 7)
        for words in ((), ("7",)):
            self.assertIn("7", self.ok(*self.there, "explain", *words))
            self.assertIn("/v1/history?documents=true&most=1000&change=7",
                          [one[1] for one in Agent.seen[-3:]])
        self.assertEqual(self.run_partita(*self.there, "history", "--follow").returncode, 2)

    def test_refusals(self):
        self.write("wrong.yaml", "nonsense: 1\n")
        done = self.run_partita(*self.there, "apply", "wrong.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.decode(), "partita: services:1: a list is wanted\n")
        without = self.run_partita(*self.there[:2], "status")
        self.assertEqual(without.returncode, 3)
        self.assertIn("a token is wanted", without.stderr.decode())
        local = self.run_partita(*self.there, "gpus")
        self.assertEqual(local.returncode, 2)
        self.assertIn("'gpus' is done on this machine", local.stderr.decode())
        nobody = self.run_partita("--server", "unix:/nowhere/api.sock", "status")
        self.assertEqual(nobody.returncode, 3)
        wrong = self.run_partita("--server", "node1", "status")
        self.assertEqual(wrong.returncode, 2)

    def test_the_token_may_be_a_variable(self):
        os.environ["PARTITA_TOKEN"] = TOKEN
        self.addCleanup(os.environ.pop, "PARTITA_TOKEN")
        self.assertEqual(self.ok(*self.there[:2], "status", "--format", "json"), self.node)

    def test_without_a_server_commands_need_what_they_needed(self):
        self.assertEqual(self.run_partita("drain").returncode, 2)
        self.assertEqual(self.run_partita("plan").returncode, 2)


if __name__ == "__main__":
    unittest.main()
