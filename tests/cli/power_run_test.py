"""partita power run: a controller on a simulated node: what it sees is what it sets, and whatever
ends it, the node is as before."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

import harness

NODE = "gpus: [{model: H100-80GB-SXM5, count: 1}]\nstate: node.state\n"
ONE = """services:
  - {name: b, model: bert, rate_rps: 60, slo_ms: 29, percentile: 95}
"""
TWO = """services:
  - {name: b, model: bert, rate_rps: 8, slo_ms: 60, percentile: 95}
  - {name: v, model: vgg, rate_rps: 8, slo_ms: 60, percentile: 95}
"""


class PowerRunTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.as_in_a_clone()
        self.ok("power", "table", "--models", "bert,vgg", "--profiles", "data/published/reef",
                "-o", "mi50.csv")
        self.write("node.yaml", NODE)
        self.write("one.yaml", ONE)
        self.write("two.yaml", TWO)
        self.node = ("--driver", "sim", "--machine", "node.yaml", "--state-dir", "st")
        self.ok("power", "set", *self.node, "--power-limit", "600")  # not what the board comes with
        self.ok("observe", *self.node[:4])
        os.remove(self.path("st/power.journal"))
        self.before = self.settings()
        self.assertEqual(self.before, {"limit_w": 600})

    def settings(self):
        """Limit and clocks as the node has them."""
        power = json.loads(self.read("node.state"))["gpus"][0].get("power", {})
        return {key: power[key] for key in ("limit_w", "low_mhz", "high_mhz") if key in power}

    def clock(self):
        return self.settings().get("high_mhz")

    def seen(self, **rates):
        """Replaces what the loop sees, whole and at once."""
        services = [{"name": name, "rate_rps": rate} for name, rate in rates.items()]
        self.write("seen.new", json.dumps({"services": services}))
        os.replace(self.path("seen.new"), self.path("seen.json"))

    def command(self, services, *more):
        return ("power", "run", *self.node, "--services", services, "--table", "mi50.csv",
                "--poll", "50ms", *more)

    def start(self, services, *more):
        child = subprocess.Popen([harness.PROGRAM, *self.command(services, *more)],
                                 cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(child.kill)
        return child

    def wait_for(self, what, told):
        for _ in range(600):
            try:
                if what():
                    return
            except (OSError, ValueError, KeyError):
                pass  # not there yet
            time.sleep(0.05)
        self.fail(f"never: {told}; {self.settings()}")

    def wait_until_back(self):
        self.wait_for(lambda: self.settings() == self.before, "the node as before")

    def test_follows_what_it_sees_and_puts_back_at_every_signal(self):
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.seen(b=1)
            child = self.start("one.yaml", "--seen", "seen.json")
            self.wait_for(self.clock, "a clock that is locked")
            # Nothing to do: the lowest clock of the table that the board has one at or above.
            self.wait_for(lambda: self.clock() <= 1000, "a low clock at 1 req/s")
            low = self.clock()
            self.seen(b=60)
            self.wait_for(lambda: self.clock() > low, "a higher clock at 60 req/s")
            self.seen(b=1)
            self.wait_for(lambda: self.clock() == low, "the low clock again")
            os.remove(self.path("seen.json"))  # blind: what carries the most
            self.wait_for(lambda: self.clock() >= 1725, "the highest clock of the table")
            child.send_signal(sent)
            out, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 0, err)
            self.assertRegex(out.decode(), r"restored: \d+ polls, \d+ changes, [1-9]\d* without")
            self.assertEqual(self.settings(), self.before)

    def test_killed_it_is_put_back_by_the_second_process(self):
        self.seen(b=1)
        for _ in range(3):
            child = self.start("one.yaml", "--seen", "seen.json")
            self.wait_for(self.clock, "a clock that is locked")
            child.kill()
            child.communicate(timeout=60)
            self.wait_until_back()
        self.assertEqual(self.ok("power", "restore", *self.node), "nothing is changed\n")

    def test_both_killed_restore_puts_back(self):
        self.seen(b=1)
        child = self.start("one.yaml", "--seen", "seen.json")
        self.wait_for(self.clock, "a clock that is locked")
        children = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text()
        for keeper in children.split():
            os.kill(int(keeper), signal.SIGKILL)
        self.assertTrue(children)
        child.kill()
        child.communicate(timeout=60)
        self.assertNotEqual(self.settings(), self.before)
        self.ok("power", "restore", *self.node)
        self.assertEqual(self.settings(), self.before)

    def other(self, *words):
        """The same command with a state directory of its own."""
        return [word if word != "st" else "st2" for word in words]

    def test_one_process_at_a_time_changes_a_gpu_whatever_its_state_directory(self):
        self.seen(b=1)
        child = self.start("one.yaml", "--seen", "seen.json")
        self.wait_for(lambda: self.clock() and self.clock() <= 1000, "a low clock")
        plan = ("batch", "run", "--tasks", "tasks.csv", "--command", "true")
        self.write("tasks.csv", "task,time_s_1g,time_s_7g\nt,1,1\n")
        self.write("wanted.json", self.ok("status", *self.node[:4], "--format", "json"))
        for words in (self.command("one.yaml", "--seen", "seen.json"),
                      ("power", "set", *self.node, "--power-limit", "500"),
                      ("power", "restore", *self.node), ("apply", "wanted.json", *self.node),
                      ("drain", "0", *self.node), (*plan, *self.node)):
            done = self.run_partita(*self.other(*words))
            self.assertEqual(done.returncode, 3, (words, done.stdout, done.stderr))
            self.assertRegex(done.stderr.decode(),
                             rf"pid {child.pid} \(\S*partita power run .*\) holds the lock since")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0)
        self.assertEqual(self.settings(), self.before)

    def test_restore_knows_what_others_have_changed(self):
        self.ok("power", "set", *self.node, "--power-limit", "400")
        self.ok(*self.other("power", "set", *self.node, "--clocks", "1200"))
        self.assertEqual(self.settings()["limit_w"], 400)
        self.ok(*self.other("power", "restore", *self.node))
        self.assertEqual(self.settings(), self.before, "not what the first one had set")
        self.ok("power", "set", *self.node, "--power-limit", "400")
        self.assertIn("600 W", self.ok(*self.other("power", "restore", *self.node)))
        self.assertEqual(self.settings(), self.before)

    def test_old_sight_is_no_sight(self):
        self.seen(b=1)
        hour = time.time() - 3600
        os.utime(self.path("seen.json"), (hour, hour))
        child = self.start("one.yaml", "--seen", "seen.json")
        self.wait_for(self.clock, "a clock that is locked")
        time.sleep(0.5)  # polls
        self.assertGreaterEqual(self.clock(), 1725, "the highest clock of the table")
        self.seen(b=1)
        self.wait_for(lambda: self.clock() <= 1000, "a low clock once it is written again")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
        self.assertRegex(err.decode(), r"seen.json: was written 1 h 0 min ago, .*full clock")
        self.assertEqual(err.decode().count("full clock"), 1, err)
        self.assertEqual(self.settings(), self.before)

    def test_a_rehearsal_ends_by_itself(self):
        trace = ("--trace", os.path.join(harness.SOURCE, "data/published/swim/fb09-0.csv"),
                 "--duration", "1s")
        dry = self.ok(*self.command("one.yaml", *trace, "--dry-run"))
        self.assertRegex(dry, r"dry run: \d+ polls")
        self.assertEqual(self.settings(), self.before)
        real = self.ok(*self.command("one.yaml", *trace))
        self.assertRegex(real, r"restored: \d+ polls, [1-9]\d* changes, 0 without sight")
        self.assertEqual(self.settings(), self.before)

    def test_without_rights_it_is_a_dry_run(self):
        self.write("node.yaml", NODE + "power_rights: nobody\n")
        trace = ("--trace", os.path.join(harness.SOURCE, "data/published/swim/fb09-0.csv"),
                 "--duration", "300ms")
        done = self.run_partita(*self.command("one.yaml", *trace))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"no rights", done.stderr)
        self.assertIn(b"dry run: ", done.stdout)
        self.assertEqual(self.settings(), self.before)

    def test_shares_go_to_who_holds_the_masks(self):
        self.seen(b=8, v=8)
        refused = self.run_partita(*self.command("two.yaml", "--seen", "seen.json"))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--shares-file FILE tells whoever does", refused.stderr.decode())
        self.assertEqual(self.settings(), self.before)
        os.remove(self.path("seen.json"))  # blind: what carries the most, however late we look
        child = self.start("two.yaml", "--seen", "seen.json", "--shares-file", "shares.json")

        def shares():
            return {one["name"]: one for one in json.loads(self.read("shares.json"))["services"]}
        self.wait_for(lambda: set(shares()) == {"b", "v"}, "shares of both")
        start = shares()
        self.seen(b=0.1, v=8)
        self.wait_for(lambda: shares() != start, "other shares")
        now = shares()
        self.assertLessEqual(now["b"]["units"] + now["v"]["units"], 60)  # an MI50 has 60 CUs
        for one in now.values():
            self.assertGreaterEqual(one["percent"] * 60, one["units"] * 100)
            self.assertGreater(one["batch"], 0)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0)
        self.assertEqual(self.settings(), self.before)
        self.assertEqual(shares(), start, "what carries the most, since nobody adjusts them now")

    def test_refusals(self):
        for words, told in (((), "--seen or --trace"),
                            (("--seen", "seen.json", "--poll", "1ms"), "--poll"),
                            (("--seen", "s", "--policy", "none"), "--policy")):
            done = self.run_partita(*self.command("one.yaml", *words))
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(told, done.stderr.decode())
        self.assertEqual(self.settings(), self.before)


if __name__ == "__main__":
    unittest.main()
