"""Where the program meets files, terminals and signals: what is read and refused, which modes files
have, what reaches a terminal."""

import fcntl
import json
import os
import pty
import re
import signal
import stat
import struct
import subprocess
import termios
import time
import unittest

import apply_test
from apply_test import MACHINE, ONE, plan
from harness import PROGRAM, SERVICES, CliTest, profiles
from servers import all_of

EVIL = "\033]0;owned\007\u202e"
GIB = 1 << 30


def environment(**changed):
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    return {**kept, **changed}


class Inputs(CliTest):
    def fed(self, text, *args, status=0):
        """Standard output, or what was complained about, of a run with this standard input."""
        done = subprocess.run([PROGRAM, *args], input=text, capture_output=True, text=True,
                              cwd=self.folder, timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def refused(self, *args):
        done = self.run_partita(*args, timeout=20)
        self.assertEqual(done.returncode, 2, done.stderr.decode())
        return done.stderr.decode()

    def test_what_is_no_regular_file_is_refused_at_once(self):
        os.mkfifo(self.path("fifo"))
        files = ("--services", "services.yaml", "--profiles", "profiles.csv")
        for args in (("verify", "fifo", *files), ("simulate", "/dev/zero", *files),
                     ("plan", "--services", "fifo", "--profiles", "profiles.csv", "--gpu", "A30"),
                     ("plan", *files[:3], "fifo", "--gpu", "A30-24GB"),
                     ("plan", "--services", "services.yaml", "--fleet", "fifo"),
                     ("batch", "schedule", "--tasks", "fifo", "--gpu", "A30-24GB"),
                     ("import", "fifo"), ("export", "fifo", "--to", "dra"), ("replay", "fifo"),
                     ("status", "--driver", "sim", "--machine", "fifo"),
                     ("mask", "--gpu", "MI50", "--units", "4", "--busy", "fifo"),
                     ("graph", "check", "fifo"), ("profile", "import", "fifo")):
            with self.subTest(args=args):
                self.assertIn("is no regular file; `-` reads standard input", self.refused(*args))

    def test_a_file_of_a_gibibyte_is_refused_unread(self):
        with open(self.path("large"), "wb") as file:
            file.truncate(GIB)
        self.assertIn("more than 512 MiB are not read", self.refused("import", "large"))

    def test_a_dash_is_standard_input(self):
        rest = ("--profiles", "profiles.csv", "--gpu", "A100-80GB", "--format", "json")
        named = json.loads(self.ok(*self.plan_args("--format", "json")))
        for name in ("-", "/dev/stdin"):
            read = json.loads(self.fed(SERVICES, "plan", "--services", name, *rest))
            self.assertEqual(read["gpus"], named["gpus"])
        self.assertIn("ok", self.fed(json.dumps(named), *self.on_plan("verify", "-")))
        self.assertEqual(self.fed(profiles(), "profile", "import", "-"),
                         self.ok("profile", "import", "profiles.csv"))
        self.write("machine", MACHINE)
        on_sim = ("--driver", "sim", "--machine")
        self.assertEqual(self.fed(MACHINE, "status", *on_sim, "-"),
                         self.ok("status", *on_sim, "machine"))
        self.assertIn("-:2: unknown key 'rate'",
                      self.fed("services:\n- {rate: 3}\n", "plan", "--services", "-", *rest,
                               status=2))

    def test_profiles_may_be_standard_input(self):
        made = self.fed(self.read("profiles.csv"), "plan", "--services", "services.yaml",
                        "--profiles", "-", "--gpu", "A100-80GB")
        self.assertEqual(made.splitlines()[:3], self.ok(*self.plan_args()).splitlines()[:3])

    def test_either_side_of_a_comparison_may_be_standard_input(self):
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        for sides in (("-", "plan.json"), ("plan.json", "-")):
            self.assertIn("no difference", self.fed(self.read("plan.json"), "compare", *sides))

    def test_two_inputs_cannot_both_be_standard_input(self):
        said = self.fed(SERVICES, "plan", "--services", "-", "--profiles", "-", "--gpu",
                        "A100-80GB", status=2)
        self.assertIn("--profiles -: another input was read from standard input already", said)

    def test_pipes_of_the_shell_are_read(self):
        def shell(words):
            return subprocess.run(["bash", "-c", f'"$0" {words}', PROGRAM], cwd=self.folder,
                                  capture_output=True, check=True, timeout=60).stdout
        made = shell("plan --services <(cat services.yaml) --profiles <(cat profiles.csv) "
                     "--gpu A100-80GB --format json")
        self.assertEqual(json.loads(made)["kind"], "ServingPlan")
        self.write("plan.json", made)
        self.assertIn(b"chat", shell("show <(cat plan.json)"))  # its kind says which form it is
        self.assertIn(b"no violation", shell("verify <(cat plan.json) --services services.yaml "
                                             "--profiles profiles.csv"))

    def test_a_dash_is_standard_output(self):
        written = json.loads(self.ok(*self.plan_args("--format", "json", "-o", "-")))
        self.assertEqual(written["kind"], "ServingPlan")
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        self.assertIn("kind: ResourceClaimTemplate",
                      self.ok("export", "plan.json", "--to", "dra", "-o", "-"))
        self.assertNotIn("-", os.listdir(self.folder))

    def test_services_may_be_the_list_alone(self):
        self.ok(*self.plan_args("--format", "json", "-o", "named.json"))
        self.write("services.yaml", SERVICES.split("\n", 1)[1])
        self.ok(*self.plan_args("--format", "json", "-o", "bare.json"))
        self.assertEqual(json.loads(self.read("bare.json"))["gpus"],
                         json.loads(self.read("named.json"))["gpus"])
        self.write("services.yaml", "- {name: a, model: small, rate_rps: 1, slo_ms: 100, x: 1}\n")
        self.assertIn("services.yaml:1: unknown key 'x'", self.refused(*self.plan_args()))


class Terminals(CliTest):
    def on_terminal(self, *args, columns=80, **changed):
        """All that reaches a terminal so wide."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=slave,
                                   stderr=slave, cwd=self.folder,
                                   env=environment(**{"TERM": "xterm", **changed}))
        os.close(slave)
        output = all_of(master)
        process.wait(timeout=60)
        return output.decode().replace("\r\n", "\n")

    def screen(self, output, columns):
        """The rows that a terminal shows after the output, which it wraps at its width."""
        rows, row, column = {}, 0, 0
        for token in re.findall(r"\033\[[0-9;]*[A-Za-z]|.|\n", output):
            if token == "\n":
                row, column = row + 1, 0
            elif token == "\r":
                column = 0
            elif token == "\033[2K":
                rows[row] = {}
            elif not token.startswith("\033"):
                if column == columns:
                    row, column = row + 1, 0
                rows.setdefault(row, {})[column] = token
                column += 1
        return ["".join(cells[c] for c in sorted(cells)) for _, cells in sorted(rows.items())]

    def test_progress_leaves_nothing_behind(self):
        self.write("tasks.csv", "task,time_s_1g,time_s_2g,time_s_4g\n" + "".join(
            f"a-task-of-a-long-name-{i},{9 + i % 7}.5,{5 + i % 5}.25,{3 + i % 3}.125\n"
            for i in range(14)))
        args = ("batch", "schedule", "--tasks", "tasks.csv", "--gpu", "A30-24GB")
        for columns in (40, 80):
            shown = self.on_terminal(*args, columns=columns, NO_COLOR="1")
            self.assertIn("\033[2K", shown, "no progress was shown: this tests nothing")
            piped = subprocess.run([PROGRAM, *args], cwd=self.folder, check=True,
                                   env=environment(COLUMNS=str(columns)), capture_output=True)
            wanted = self.screen(piped.stdout.decode(), columns)
            # Where a line is broken depends on the digits of a time, which are as they are.
            self.assertEqual(*(re.sub(r"[\d.]+", "#", "".join(rows).replace(" ", ""))
                               for rows in (self.screen(shown, columns), wanted)))

    def test_a_dumb_terminal_gets_plain_text(self):
        self.assertIn("\033", self.on_terminal(*self.plan_args()))
        self.assertNotIn("\033", self.on_terminal(*self.plan_args(), TERM="dumb"))

    def widths(self, text):
        text = re.sub("\033\\[[0-9;]*[A-Za-z]", "", text)
        return max(map(len, text.replace("\r", "\n").splitlines()))

    def test_plan_and_status_keep_to_the_width_and_use_it(self):
        self.write("machine.yaml", MACHINE)
        self.write_services(*(f"name: service-{i}, model: {model}, rate_rps: 700, slo_ms: 400"
                              for i, model in enumerate(("small", "large", "small"))))
        self.write("plan.json", plan(ONE))
        self.ok("apply", "plan.json", "--driver", "sim", "--machine", "machine.yaml",
                "--state-dir", "state")
        status = ("status", "--driver", "sim", "--machine", "machine.yaml", "--state-dir", "state")
        for args in (self.plan_args("--explain"), status):
            for columns in (80, 200):
                with self.subTest(command=args[0], columns=columns):
                    found = [self.widths(self.on_terminal(*args, columns=columns)),
                             self.widths(self.on_terminal(*args, columns=50,
                                                          COLUMNS=str(columns)))]
                    for widest in found:
                        self.assertLessEqual(widest, columns)
                        self.assertGreater(widest, columns - 12)

    def test_no_escape_sequence_of_others_reaches_the_terminal(self):
        self.write(EVIL, "services: []\n")
        self.write("tasks.csv", "task,time_s_1g\na,1\n")
        self.ok(*self.plan_args("--format", "json", "-o", "plan.json"))
        written = json.loads(self.read("plan.json"))
        written["explanation"] = [EVIL]
        self.write("plan.json", json.dumps(written))
        for args in (self.plan_args(EVIL), (EVIL,), ("help", EVIL), ("plan", "--" + EVIL),
                     ("plan", "--services", EVIL, "--profiles", EVIL, "--gpu", "A100-80GB"),
                     self.plan_args("--format", EVIL), self.plan_args("--max-gpus", EVIL),
                     self.plan_args("--planner", EVIL), ("gpus", EVIL), ("layouts", EVIL),
                     self.plan_args("-o", f"/nowhere/{EVIL}/x"), ("import", EVIL),
                     ("batch", "schedule", "--tasks", "tasks.csv", "--gpu", EVIL),
                     ("drain", EVIL, "--driver", "sim"), ("status", "--driver", EVIL)):
            with self.subTest(args=args):
                done = self.run_partita(*args)
                said = (done.stdout + done.stderr).decode()
                self.assertNotIn(done.returncode, (0, -signal.SIGSEGV))
                self.assertNotRegex(said, "[\0-\x08\x0b-\x1f\x7f-\x9f\u202e]")
                self.assertIn("\\x1b]0;owned\\x07\\u202e", said)
                colours = self.on_terminal(*args)
                self.assertNotRegex(re.sub("\033\\[[0-9;]*[mK]", "", colours), "[\033\007\u202e]")


class Typos(CliTest):
    def test_misspelt_commands_get_a_hint(self):
        for words, meant in ((("help", "pln"), "plan"), (("batch", "shedule"), "schedule"),
                             (("help", "batch", "shedule"), "schedule"), (("pln",), "plan"),
                             (("help", "kernels", "simulat"), "simulate"),
                             (("help", "btach", "run"), "batch"), (("version",), "--version")):
            with self.subTest(words=words):
                done = self.run_partita(*words)
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"did you mean '{meant}'?", done.stderr.decode())
                self.assertNotIn("COMMAND", done.stderr.decode())

    def test_a_missing_command_is_told_which_there_are(self):
        done = self.run_partita("batch")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr.decode(), r"which of its commands\? .*\bschedule, .*\brun, ")


class State(CliTest):
    def setUp(self):
        super().setUp()
        self.write("machine.yaml", MACHINE)
        self.write("one.json", plan(ONE))

    on_sim = apply_test.ApplyTest.on_sim
    holder = apply_test.ApplyTest.holder
    node = apply_test.ApplyTest.node

    def test_no_state_is_writable_by_others_whatever_the_umask(self):
        for args in (("apply", "one.json"), ("drain", "0"),
                     ("workers", "--command", "true", "--once")):
            done = subprocess.run([PROGRAM, *self.on_sim(*args)], cwd=self.folder, timeout=60,
                                  capture_output=True, umask=0, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        found = {}
        for folder, _, names in os.walk(self.path("state")):
            for path in [folder, *(os.path.join(folder, name) for name in names)]:
                found[os.path.relpath(path, self.folder)] = stat.S_IMODE(os.stat(path).st_mode)
        for name in ("node.state", "node.state.lock"):
            found[name] = stat.S_IMODE(os.stat(self.path(name)).st_mode)
        self.assertLessEqual({"state", "state/journal", "state/assignment.json",
                              "state/workers.json"}, found.keys())
        self.assertEqual({name: oct(mode) for name, mode in found.items() if mode & 0o022}, {})

    def test_what_kills_left_is_cleared_away(self):
        self.ok(*self.on_sim("apply", "one.json"))
        left = ["assignment.json.partita-999999-0", "assignment.json.partita-999999-1"]
        for name in left:
            self.write(os.path.join("state", name), "half")
        self.write("state/assignment.json.backup", "mine")
        self.ok(*self.on_sim("drain", "0"))
        names = os.listdir(self.path("state"))
        self.assertEqual([name for name in left if name in names], [])
        self.assertIn("assignment.json.backup", names)

    def test_a_second_apply_is_told_who_holds_the_lock(self):
        self.ok(*self.on_sim("apply", "one.json"))
        uuid = self.node()[0][0, "3g.40gb", 0][1]
        self.holder(uuid)
        self.write("none.json", plan([("7g.80gb", 0, "chat")]))
        args = self.on_sim("apply", "none.json", "--drain-timeout", "20")
        first = subprocess.Popen([PROGRAM, *args], cwd=self.folder, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True)
        self.addCleanup(first.stderr.close)
        self.addCleanup(first.wait)
        self.addCleanup(first.kill)
        for line in first.stderr:
            if "waiting for" in line:
                break
        second = self.run_partita(*self.on_sim("apply", "one.json"))
        self.assertEqual(second.returncode, 3)
        self.assertRegex(second.stderr.decode(),
                         rf"\.lock: pid {first.pid} \(\S*partita apply [^)]*none\.json"
                         r"[^)]*\) holds the lock since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d")

    def test_drain_names_what_it_stops(self):
        self.ok(*self.on_sim("apply", "one.json"))
        said = self.run_partita(*self.on_sim("drain", "0")).stderr.decode()
        self.assertIn("stop chat on gpu 0 3g.40gb at 0", said)
        self.assertEqual(said.count("stop search on gpu 0"), 2)
        self.assertEqual(said.count("wait until nobody holds gpu 0"), 3)
        again = self.run_partita(*self.on_sim("drain", "0")).stderr.decode()
        self.assertNotIn("stop", again)
        self.assertEqual(again.count("wait until nobody holds gpu 0"), 3)


if __name__ == "__main__":
    unittest.main()
