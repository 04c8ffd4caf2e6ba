"""history, explain and diff: what apply, rollback, drain and workers leave behind, and what is told
of it. On simulated machines."""

import getpass
import json
import os
import signal
import sqlite3
import subprocess
import time
import unittest

import harness
from apply_test import MACHINE, ONE, TWO, plan


class PastTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)
        self.write("one.json", plan(ONE))
        self.write("two.json", plan(TWO))

    def on_sim(self, command, *more):
        return (command, "--driver", "sim", "--machine", "machine.yaml", "--state-dir", "state",
                *more)

    def history(self, *more):
        return self.json(*self.on_sim("history"), *more)["events"]


class HistoryTest(PastTest):
    def test_a_change_is_kept_with_who_why_and_how_it_ended(self):
        self.ok(*self.on_sim("apply", "one.json", "--why", "more chat"))
        events = self.history()
        self.assertEqual([event["id"] for event in events], list(range(len(events), 0, -1)))
        last, first = events[0], events[-1]
        self.assertEqual([first["kind"], last["kind"], last["outcome"]],
                         ["applying", "applied", "succeeded"])
        self.assertEqual({event["change"] for event in events}, {1})
        self.assertTrue(first["user"].startswith(getpass.getuser()), first)
        self.assertEqual(first["cause"], "more chat (partita apply one.json)")
        self.assertLess(abs(first["time_ms"] / 1000 - time.time()), 600)
        documents = {one["name"]: json.loads(one["text"]) for one in first["documents"]}
        self.assertEqual(documents["plan"]["services"], json.loads(plan(ONE))["services"])
        steps = documents["change"]["steps"]
        self.assertEqual(len(steps), len(events) - 2)
        self.assertTrue(all(event["kind"] == "step" and event["outcome"] == "succeeded"
                            for event in events[1:-1]))
        # Nothing to do: nothing is kept. Nor of a dry run.
        self.ok(*self.on_sim("apply", "one.json"))
        self.ok(*self.on_sim("apply", "two.json", "--dry-run"))
        self.assertEqual(len(self.history()), len(events))

    def test_what_is_asked_for_is_what_is_shown(self):
        self.ok(*self.on_sim("apply", "one.json"))
        self.ok(*self.on_sim("apply", "two.json"))
        self.ok(*self.on_sim("rollback"))
        ends = self.history("--kind", "applied")
        self.assertEqual([event["change"] for event in ends], [3, 2, 1])
        self.assertEqual(self.history("--most", "1")[0]["id"], ends[0]["id"])
        self.assertTrue(all(event["change"] == 2 for event in self.history("--change", "2")))
        self.assertEqual(len(self.history("--kind", "applied,applying")), 6)
        self.assertEqual(self.history("--user", "nobody-else"), [])
        for since in ("1d", "720h"):
            self.assertEqual(len(self.history("--since", since)), len(self.history()))
        time.sleep(0.2)
        self.assertEqual(self.history("--since", "100ms"), [])
        text = self.ok(*self.on_sim("history"))  # without the steps
        self.assertEqual(len(text.splitlines()), 1 + 6)
        self.assertEqual(len(self.ok(*self.on_sim("history", "--with-steps")).splitlines()),
                         1 + len(self.history()))
        self.assertIn("change 3 applied: ", text)
        self.assertIn(time.strftime("%Y-"), text)
        for flags, word in ((("--kind", "fire"), "proposed"), (("--since", "soon"), "--since"),
                            (("--most", "0"), "--most")):
            done = self.run_partita(*self.on_sim("history"), *flags)
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(word, done.stderr.decode())

    def test_failures_and_drains_are_kept(self):
        self.ok(*self.on_sim("apply", "one.json"))
        self.ok(*self.on_sim("drain", "0", "--why", "board is hot"))
        event = self.history("--most", "1")[0]
        self.assertEqual((event["kind"], event["outcome"]), ("applied", "succeeded"))
        self.assertIn("board is hot", event["cause"])
        self.assertIn("drained MIG-", event["detail"])
        faults = "".join(f"- {{method: create_instance, call: {n}, error: denied}}\n"
                         for n in range(1, 60))
        self.write("machine.yaml", MACHINE + "faults:\n" + faults)
        done = self.run_partita(*self.on_sim("apply", "two.json"))
        self.assertNotEqual(done.returncode, 0)
        event = self.history("--kind", "applied", "--most", "1")[0]
        self.assertEqual(event["outcome"], "failed")
        self.assertIn(event["detail"][:20], done.stderr.decode())

    def test_a_broken_history_stops_no_change(self):
        os.mkdir(self.path("state"))
        self.write("state/history.db", "this is no database" * 100)
        done = self.run_partita(*self.on_sim("apply", "one.json"))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(done.stderr.decode().count("not kept in the history"), 1)
        self.assertIn("mv state/history.db state/history.db.damaged", done.stderr.decode())
        done = self.run_partita(*self.on_sim("history"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("is damaged", done.stderr.decode())
        os.rename(self.path("state/history.db"), self.path("state/history.db.damaged"))
        self.assertEqual(self.run_partita(*self.on_sim("history")).returncode, 3)
        self.ok(*self.on_sim("rollback"))
        self.assertEqual(self.history()[0]["outcome"], "succeeded")

    def test_the_file_is_an_ordinary_database_of_which_others_may_read(self):
        self.ok(*self.on_sim("apply", "one.json"))
        self.assertEqual(os.stat(self.path("state/history.db")).st_mode & 0o777, 0o640)
        with sqlite3.connect(f"file:{self.path('state/history.db')}?mode=ro", uri=True) as file:
            self.assertEqual(file.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            self.assertEqual(file.execute("PRAGMA journal_mode").fetchone(), ("wal",))
            count = file.execute("SELECT count(*) FROM events").fetchone()[0]
        self.assertEqual(count, len(self.history()))
        self.assertEqual(self.json("history", "--file", "state/history.db")["events"],
                         self.history())
        self.ok("history", "--file", "nowhere.db", status=2)

    def test_follow_tells_what_happens_until_it_is_ended(self):
        self.ok(*self.on_sim("apply", "one.json"))
        known = len(self.history())
        with subprocess.Popen([harness.PROGRAM, *self.on_sim("history", "--follow", "--format",
                                                             "json")],
                              cwd=self.folder, stdout=subprocess.PIPE, text=True) as follower:
            lines = [json.loads(follower.stdout.readline()) for _ in range(known)]
            self.assertEqual([event["id"] for event in lines], list(range(1, known + 1)))
            self.ok(*self.on_sim("apply", "two.json"))
            while lines[-1]["kind"] != "applied" or lines[-1]["change"] != 2:
                lines.append(json.loads(follower.stdout.readline()))
            follower.send_signal(signal.SIGTERM)
            self.assertEqual(follower.wait(60), 0)
        self.assertEqual([event["id"] for event in lines],
                         list(range(1, len(self.history()) + 1)))

    def test_workers_that_are_given_up_are_kept(self):
        self.ok(*self.on_sim("apply", "one.json"))
        command = [harness.PROGRAM, "workers", "--assignment", "state/assignment.json", "--command",
                   "/bin/false"]

        def run_until(is_so):
            with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL) as workers:
                deadline = time.monotonic() + 100
                while not is_so() and time.monotonic() < deadline:
                    time.sleep(0.05)
                workers.kill()

        def failures():
            if not os.path.exists(self.path("state/workers.json")):
                return 0
            written = json.loads(self.read("state/workers.json"))
            return min((one["quick_failures"] for one in written["workers"]), default=0)

        run_until(failures)
        self.assertEqual(self.history("--kind", "health"), [])
        # As if they had failed for long, so that the test need not wait for it.
        state = self.read("state/workers.json")
        for n in (1, 2, 3):
            state = state.replace(f'"quick_failures": {n}', '"quick_failures": 4')
        self.write("state/workers.json", state)
        run_until(lambda: len(self.history("--kind", "health")) == 3)
        given_up = self.history("--kind", "health")
        self.assertEqual(len(given_up), 3)
        self.assertEqual(given_up[0]["outcome"], "failed")
        self.assertIn("is given up", given_up[0]["detail"])
        self.assertIn(given_up[0]["subject"], ("chat", "search"))


class ExplainTest(PastTest):
    def test_tells_why_what_and_what_came_after(self):
        self.ok(*self.on_sim("apply", "one.json", "--why", "chat grows"))
        self.ok(*self.on_sim("apply", "two.json"))
        text = self.ok(*self.on_sim("explain", "1"))
        at = 0
        for part in ("change 1: done", "chat grows (partita apply one.json)", "asked by  ",
                     "took ", "change: 0 instances kept, 3 created, 0 destroyed", "plan on 1 GPUs",
                     "search", "what happened", "change 1 begun", "change 1 applied",
                     "what came after", "change 2 begun"):
            self.assertIn(part, text[at:])
            at = text.index(part, at)
        self.assertIn("change 2: done", self.ok(*self.on_sim("explain")))
        story = self.json(*self.on_sim("explain", "1"))
        self.assertEqual(story["kind"], "History")
        self.assertEqual({event["change"] for event in story["events"]}, {1})
        done = self.run_partita(*self.on_sim("explain", "77"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("change 77", done.stderr.decode())


class DiffTest(PastTest):
    def test_changes_files_and_the_node_itself(self):
        self.ok(*self.on_sim("apply", "one.json"))
        self.ok(*self.on_sim("apply", "two.json"))
        self.assertIn("no difference", self.ok(*self.on_sim("diff", "2", "now")))
        self.assertIn("no difference", self.ok(*self.on_sim("diff", "1", "one.json")))
        found = self.json(*self.on_sim("diff", "1", "now"), status=1)
        self.assertEqual((found["kind"], found["a"], found["b"]), ("Difference", "change 1", "now"))
        places = {(one["gpu"], one["profile"], one["start"]): (one["before"], one["after"])
                  for one in found["instances"]}
        self.assertEqual(places, {(0, "1g.10gb", 4): ("search b4x1", ""),
                                  (0, "1g.10gb", 5): ("search b4x1", ""),
                                  (0, "2g.20gb", 4): ("", "search b4x1")})
        self.assertEqual(found["changes"], {"kept": 1, "restarted": 0, "moved": 1, "created": 0,
                                            "removed": 2})
        plans = self.json("diff", "one.json", "two.json", status=1)
        self.assertEqual(plans["services"], [{"service": "search", "what": "planned_rps",
                                              "before": "200", "after": "100"}])
        text = self.ok("diff", "one.json", "two.json", status=1)
        self.assertIn("2g.20gb", text)

    def test_services_are_compared_by_rate_and_objective(self):
        self.write("more.yaml", harness.SERVICES.replace("rate_rps: 120", "rate_rps: 121.5"))
        found = self.json("diff", "services.yaml", "more.yaml", status=1)
        self.assertEqual(found["services"], [{"service": "chat", "what": "rate_rps",
                                              "before": "120", "after": "121.5"}])
        self.ok("diff", "services.yaml", "services.yaml")

    def test_what_cannot_be_compared_is_refused(self):
        self.ok(*self.on_sim("apply", "one.json"))
        for a, b, word in (("services.yaml", "now", "in common"),
                           ("nowhere.json", "now", "nowhere"),
                           ("12", "now", "change 12"),
                           ("machine.yaml", "now", "machine.yaml:")):
            done = self.run_partita(*self.on_sim("diff", a, b))
            self.assertEqual((done.returncode, done.stdout), (2, b""), (a, b))
            self.assertIn(word, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
