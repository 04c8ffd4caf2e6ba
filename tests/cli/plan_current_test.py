"""partita plan --current: what changes after other rates, its limits, and both forms of a state."""

import json
import unittest

from harness import CliTest

# The services of harness.py with other rates.
CHANGED = ("name: chat, model: small, rate_rps: {}, slo_ms: 200",
           "name: search, model: large, rate_rps: {}, slo_ms: 500")


class Replanning(CliTest):
    def setUp(self):
        super().setUp()
        self.rates(1500, 150)
        self.ok(*self.plan_args("--format", "json", "-o", "now.json"))

    def rates(self, chat, search):
        self.write_services(CHANGED[0].format(chat), CHANGED[1].format(search))

    def again(self, *more):
        return self.plan_args("--current", "now.json", *more)

    def instances(self, plan):
        return {(gpu["index"], i["profile"], i["start"], i["service"])
                for gpu in plan["gpus"] for i in gpu["instances"]}

    def test_counts_are_those_of_the_two_plans(self):
        self.rates(1900, 260)
        self.ok(*self.again("--format", "json", "-o", "next.json"))
        self.assertIn("ok", self.ok(*self.on_plan("verify", "next.json")))
        now, after = json.loads(self.read("now.json")), json.loads(self.read("next.json"))
        change = after["incremental"]
        old, new = self.instances(now), self.instances(after)
        self.assertEqual(change["kept"] + change["restarted"], len(old & new))
        self.assertEqual(change["moved"] + change["created"], len(new - old))
        self.assertEqual(change["removed"], len(old - new))
        self.assertEqual(change["curve"][0]["gpus"], after["objective"]["gpus"])
        self.assertEqual(change["curve"][0]["moves"], len(new - old))
        self.assertLessEqual({"gpus", "moves", "proven"}, change["curve"][0].keys())
        scratch = self.json(*self.plan_args())
        self.assertEqual(after["objective"]["gpus"], scratch["objective"]["gpus"])

    def test_nothing_changes_when_nothing_changed(self):
        change = self.json(*self.again())["incremental"]
        self.assertEqual((change["moved"], change["created"], change["restarted"]), (0, 0, 0))
        text = self.ok(*self.again())
        self.assertIn("0 moved, 0 created", text)
        self.assertRegex(text, "GPUS +TO CREATE +AT LEAST +PROVEN")

    def test_max_moves(self):
        self.rates(1900, 260)
        most = self.json(*self.again())["incremental"]["curve"][-1]["moves"]
        self.assertGreater(most, 0)
        plan = self.json(*self.again("--max-moves", str(most)))
        self.assertLessEqual(plan["incremental"]["moved"], most)
        refusal = self.json(*self.again("--max-moves", str(most - 1)), status=1)
        self.assertEqual(refusal["reasons"][0]["constraint"], "max_moves")
        self.assertEqual(refusal["reasons"][0]["need"], most)

    def test_a_plan_that_survives_is_there_again(self):
        """It is planned from nothing, so a limit of moves that it passes proves nothing."""
        survive = ("--survive", "1", "--format", "json")
        self.ok(*self.plan_args(*survive, "-o", "now.json"))
        again = self.json(*self.again("--survive", "1", "--max-moves", "0"))
        self.assertEqual(again["survive"], 1)
        self.assertEqual(again["incremental"]["created"] + again["incremental"]["moved"], 0)
        self.rates(3900, 460)
        refusal = self.json(*self.again("--survive", "1", "--max-moves", "0"), status=1)
        self.assertEqual(refusal["proof"], "none")
        self.assertEqual(refusal["reasons"][0]["constraint"], "not_found")

    def test_state_of_a_node_is_read_like_a_plan(self):
        gpus = json.loads(self.read("now.json"))["gpus"]
        known = ("profile", "start", "service", "batch", "processes")
        for gpu in gpus:
            gpu.update(uuid=f"GPU-{gpu['index']}", mig_enabled=True)
            gpu["instances"] = [{**{k: i[k] for k in known}, "gi_id": n, "busy": True,
                                 "uuid": f"MIG-{gpu['index']}-{n}"}
                                for n, i in enumerate(gpu["instances"])]
        state = {"api_version": "partita/v1", "kind": "NodeState", "gpus": gpus}
        self.rates(1900, 260)
        expected = self.json(*self.again("--explain"))
        self.write("now.json", json.dumps(state))
        found = self.json(*self.again("--explain"))
        for key in ("gpus", "incremental", "explanation"):
            self.assertEqual(found[key], expected[key])
        self.assertTrue(any(" moves to " in line or " is created " in line
                            for line in found["explanation"]))

    def test_apply_does_what_was_promised(self):
        """On GPUs that are not numbered as the first plan has them."""
        self.write("machine.yaml", "gpus: [{model: A100-80GB, count: 6, mig: true}]\n"
                                   "state: node.state\nspeed: 0\n")
        node = ("--driver", "sim", "--machine", "machine.yaml", "--state-dir", "state")
        plan = json.loads(self.read("now.json"))
        for gpu in plan["gpus"]:
            gpu["index"] = 5 - gpu["index"]
        self.write("now.json", json.dumps(plan))
        self.ok("apply", "now.json", *node)
        for chat, search in ((1900, 260), (700, 400), (2600, 40)):
            self.rates(chat, search)
            self.ok("status", *node, "--format", "json", "-o", "state.json")
            promised = self.json(*self.plan_args("--current", "state.json"))
            self.write("next.json", json.dumps(promised))
            change = self.json("apply", "next.json", *node, "--dry-run")
            self.assertEqual(change["changes"],
                             {key: promised["incremental"][key] for key in change["changes"]})
            self.assertEqual({one["gpu"] for one in change["keep"] + change["create"]},
                             {gpu["index"] for gpu in promised["gpus"]})
            self.assertIn("instances: {kept} kept, {restarted} restarted, {moved} moved, ".format(
                **change["changes"]), self.ok("apply", "next.json", *node, "--dry-run"))
            self.ok("apply", "next.json", *node)

    def test_bad_input(self):
        self.write("state.json", '{"kind": "NodeState",\n"gpus": 3}')
        for arguments, message in (
                (("--current", "state.json"), "state.json:"),
                (("--current", "no.json"), "--current no.json"),
                (("--max-moves", "3"), "--current"),
                (("--current", "now.json", "--planner", "parvagpu"), "--planner")):
            done = self.run_partita(*self.plan_args(*arguments))
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(message, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
