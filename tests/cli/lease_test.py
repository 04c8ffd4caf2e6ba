"""partita lease, return, leases: who asks gets an instance and keeps it, whoever is killed when,
whoever else asks at the same time, with an agent or without."""

import json
import os
import random
import signal
import subprocess
import time
import unittest

import harness

MACHINE = """gpus: [{model: A100-80GB, count: 2, mig: true}]
state: node.state
speed: %s
"""
KILLS = int(os.environ.get("PARTITA_KILLS", "20"))


class LeaseTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.machine(0)
        for name, value in (("PARTITA_SIM", self.path("machine.yaml")),
                            ("PARTITA_STATE_DIR", self.path("state")),
                            ("XDG_RUNTIME_DIR", self.folder)):
            self.variable(name, value)

    def machine(self, speed):
        self.write("machine.yaml", MACHINE % speed)

    def words(self, command, owner, *more):
        return [command, "--driver", "sim", "--for", owner, *more]

    def lease(self, owner, profile, *more, status=0):
        return self.json(*self.words("lease", owner, "--profile", profile), *more, status=status)

    def give_back(self, owner, **how):
        return self.json(*self.words("return", owner), **how)["returned"]

    def instances(self):
        state = self.json("status", "--driver", "sim")
        return {one["uuid"]: (gpu["index"], one["profile"], one["start"])
                for gpu in state["gpus"] for one in gpu["instances"]}

    def leases(self, *more):
        return {one["owner"]: one["uuid"]
                for one in self.json("leases", "--driver", "sim", *more)["leases"]}

    def test_what_it_says(self):
        one = self.lease("slurm:42", "3g.40gb")
        self.assertEqual(one["kind"], "Lease")
        self.assertEqual((one["owner"], one["gpu"], one["profile"], one["start"]),
                         ("slurm:42", 0, "3g.40gb", 4))
        self.assertEqual(self.instances(), {one["uuid"]: (0, "3g.40gb", 4)})
        gi, ci = one["minors"]["gpu_instance"], one["minors"]["compute_instance"]
        self.assertEqual(gi, 3 + 9 * one["gi_id"])
        self.assertEqual(one["device_nodes"][2:], [
            "/dev/nvidia0", f"/dev/nvidia-caps/nvidia-cap{gi}", f"/dev/nvidia-caps/nvidia-cap{ci}"])
        self.assertEqual(self.lease("slurm:42", "3g.40gb"), one)
        lines = self.ok(*self.words("lease", "slurm:42", "--profile", "3g.40gb", "--format", "env"))
        shown = subprocess.run(
            ["bash", "-c", f'{lines}\necho "$CUDA_VISIBLE_DEVICES $PARTITA_LEASE_PROFILE"'],
            capture_output=True, text=True, check=True).stdout
        self.assertEqual(shown, f"{one['uuid']} 3g.40gb\n")
        self.assertIn(f"{one['uuid']} is 3g.40gb at 4 of GPU 0, held by slurm:42",
                      self.ok(*self.words("lease", "slurm:42", "--profile", "3g.40gb")))
        self.assertIn("lease slurm:42", self.ok("status", "--driver", "sim"))
        self.assertIn("slurm:42", self.ok("leases", "--driver", "sim"))
        self.assertEqual(self.give_back("slurm:42"), ["slurm:42"])
        self.assertIn("holds nothing", self.ok(*self.words("return", "slurm:42")))
        self.assertEqual((self.instances(), self.leases()), ({}, {}))

    def test_refusals(self):
        self.lease("a", "7g.80gb", "--gpu", "1")
        self.lease("b", "3g.40gb", "--gpu", "0", "--start", "4", "--exact")
        no = self.lease("c", "7g.80gb", status=1)
        self.assertEqual((no["kind"], no["reasons"][0]["constraint"]), ("Refusal", "room"))
        self.assertIn({"gpu": 0, "profile": "4g.40gb", "starts": [0]}, no["free"])
        other = self.lease("a", "1g.10gb", status=1)
        self.assertIn("a/2", other["reasons"][0]["detail"])
        self.lease("a/2", "1g.10gb")
        for words, flag in ((("--profile", "9g"), "--profile"),
                            (("--profile", "1g.10gb", "--gpu", "7"), "--gpu"),
                            (("--profile", "1g.10gb", "--exact"), "--exact"),
                            (("--profile", "1g.10gb", "--ttl", "x"), "--ttl"),
                            (("--profile", "1g.10gb", "--ttl", "1000000001"), "--ttl"),
                            (("--profile", "1g.10gb", "--while", "4000000"), "--while"),
                            ((), "--profile")):
            done = self.run_partita(*self.words("lease", "d", *words))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(flag, done.stderr.decode())
        done = self.run_partita(*self.words("lease", "two words", "--profile", "1g.10gb"))
        self.assertEqual((done.returncode, b"--for" in done.stderr), (2, True))
        self.assertEqual(set(self.leases()), {"a", "a/2", "b"})

    def test_ends_and_hand_over(self):
        one = self.lease("slurm:1", "2g.20gb")
        over = self.json(*self.words("lease", "slurm:2", "--take-from", "slurm:1"))
        self.assertEqual((over["owner"], over["uuid"]), ("slurm:2", one["uuid"]))
        with subprocess.Popen(["sleep", "60"]) as job:
            self.lease("job", "1g.10gb", "--while", str(job.pid))
            long = self.lease("long", "1g.10gb", "--ttl", "30d")
            self.assertAlmostEqual(long["until_ms"] - long["since_ms"], 30 * 86_400_000,
                                   delta=10_000)
            self.lease("timed", "1g.10gb", "--ttl", "200ms")  # nobody changes the node from now on
            job.kill()
        time.sleep(0.25)
        self.assertEqual(set(self.leases()), {"slurm:2", "job", "timed", "long"})
        self.assertEqual(set(self.leases("--end-expired")), {"slurm:2", "long"})
        self.assertEqual(len(self.instances()), 2)

    def test_apply_leaves_them_alone(self):
        mine = self.lease("slurm:42", "1g.10gb", "--gpu", "0", "--start", "0", "--exact")["uuid"]
        wanted = self.json("status", "--driver", "sim")
        wanted["gpus"][0]["instances"] = []
        self.write("empty.json", json.dumps(wanted))
        self.ok("apply", "empty.json", "--driver", "sim")
        self.assertEqual(set(self.instances()), {mine})
        wanted["gpus"][0]["instances"] = [{"profile": "7g.80gb", "start": 0, "size": 8}]
        self.write("whole.json", json.dumps(wanted))
        done = self.run_partita("apply", "whole.json", "--driver", "sim")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("lease slurm:42 on gpu 0 1g.10gb at 0", done.stderr.decode())
        dry = self.run_partita("apply", "whole.json", "--driver", "sim", "--dry-run")
        self.assertEqual(dry.returncode, 3, dry.stderr)
        self.assertIn("gpu 0 1g.10gb at 0  (lent: lease slurm:42)\n", dry.stdout.decode())
        self.assertIn("without --dry-run this ends with the same status", dry.stderr.decode())
        self.assertEqual(set(self.instances()), {mine})

    def test_a_rollback_brings_back_no_lease_that_was_returned(self):
        self.lease("slurm:42", "1g.10gb", "--gpu", "0", "--start", "0", "--exact")
        wanted = self.json("status", "--driver", "sim")
        wanted["gpus"][0]["instances"] = [{"profile": "3g.40gb", "start": 4, "size": 4}]
        self.write("more.json", json.dumps(wanted))
        self.ok("apply", "more.json", "--driver", "sim")
        self.give_back("slurm:42")
        self.ok("apply", "--rollback", "--driver", "sim")
        self.assertEqual(self.instances(), {})

    # At the same time and killed.

    def start(self, *words):
        return subprocess.Popen([harness.PROGRAM, *words], cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_many_at_once(self):
        self.machine(0.02)
        asked = {f"job:{n}": self.start(*self.words("lease", f"job:{n}", "--profile", "1g.10gb",
                                                    "--format", "json")) for n in range(8)}
        got = {}
        for owner, process in asked.items():
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
            got[owner] = json.loads(out)["uuid"]
        self.assertEqual(len(set(got.values())), 8)
        self.assertEqual(set(self.instances()), set(got.values()))
        self.assertEqual(self.leases(), got)

    def test_killed_at_any_moment(self):
        self.machine(0.05)
        dice = random.Random(42)
        for n in range(KILLS):
            owner = f"job:{n % 3}"
            process = self.start(*self.words("lease", owner, "--profile", "2g.20gb"))
            time.sleep(dice.uniform(0, 0.08))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            there = {uuid for uuid in self.instances() if uuid}  # none: half made
            others = set(self.leases().values())
            mine = self.lease(owner, "2g.20gb")["uuid"]
            if there - others:  # it was made, and nobody was told
                self.assertEqual(there - others, {mine})
            if dice.random() < 0.6:
                process = self.start(*self.words("return", owner))
                time.sleep(dice.uniform(0, 0.08))
                process.send_signal(signal.SIGKILL)
                process.communicate()
                self.give_back(owner)
            self.assertEqual(set(self.instances()), set(self.leases("--end-expired").values()))
        for n in range(3):
            self.give_back(f"job:{n}")
        self.assertEqual(self.instances(), {})

    def test_of_an_agent(self):
        with open(self.path("agent.log"), "w", encoding="utf-8") as log:
            agent = self.start_agent(log)
        end = time.monotonic() + 60
        while not os.path.exists(self.path("state/api.sock")):
            self.assertLess(time.monotonic(), end, self.read("agent.log"))
            time.sleep(0.05)
        one = self.lease("claim:1", "3g.40gb")
        self.assertEqual(self.lease("claim:1", "3g.40gb"), one)
        self.lease("claim:2", "7g.80gb")
        no = self.lease("claim:3", "7g.80gb", status=1)
        self.assertEqual(no["reasons"][0]["constraint"], "room")
        self.assertIn("4g.40gb", no["reasons"][0]["detail"])
        server = ("--server", "unix:" + self.path("state/api.sock"))
        listed = self.json(*server, "leases")["leases"]
        self.assertEqual([lease["owner"] for lease in listed], ["claim:1", "claim:2"])
        self.assertEqual(listed[0]["uuid"], one["uuid"])
        over = self.json(*server, "lease", "--for", "claim:4", "--take-from", "claim:1")
        self.assertEqual(over["uuid"], one["uuid"])
        self.json(*server, "lease", "--for", "brief", "--profile", "1g.10gb", "--ttl", "100ms")
        self.assertIn("claim:2", self.give_back("claim:2"))  # and what has expired
        while set(self.leases()) != {"claim:4"}:  # the agent ends what has expired
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(agent.wait(60), 0, self.read("agent.log"))
        self.assertEqual(self.give_back("claim:4"), ["claim:4"])
        self.assertEqual(self.instances(), {})

    def test_of_an_agent_whose_socket_is_where_its_settings_say(self):
        self.write("agent.yaml", f"server: {{socket: {self.path('own.sock')}, "
                                 'listen: "127.0.0.1:0"}\n')
        with open(self.path("agent.log"), "w", encoding="utf-8") as log:
            self.start_agent(log, "--settings", "agent.yaml")
        end = time.monotonic() + 60
        while not os.path.exists(self.path("own.sock")):
            self.assertLess(time.monotonic(), end, self.read("agent.log"))
            time.sleep(0.05)
        self.assertEqual(self.lease("claim:1", "3g.40gb")["profile"], "3g.40gb")

    def start_agent(self, log, *more):
        agent = subprocess.Popen(
            [harness.PROGRAM, "agent", "--driver", "sim", "--mode", "observe", *more],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(lambda: agent.poll() is None and agent.kill())
        return agent


if __name__ == "__main__":
    unittest.main()
