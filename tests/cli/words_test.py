"""The words of the command line: help within 80 columns, one meaning per flag, few commands."""

import json
import pathlib
import re
import shlex
import unittest

from harness import SOURCE, CliTest

WIDTH = 80
MOST_COMMANDS = 49
OTHERS = ("lab", "mask", "kernels", "graph", "probe", "thermal", "floorplan", "remote", "ptx",
          "energy fit", "energy predict", "energy validate")

# Flags whose row explains several meanings, and why they keep their one name.
SEVERAL = {
    "--fleet": "plan --fleet FILE came first; agents say --fleet ENDPOINTS, as others' scripts do",
    "--openai": "the command lines of workers in people's settings say it without a value",
}
# Older names that are also names of other flags, and that scripts outside know.
OLDER = {"--gpu-index": "--gpu", "--topology": "--gpu", "--kernel-profiles": "--profiles",
         "--server-address": "--server", "--package": "--config", "--rehearse": "--simulate",
         "--check-kernels": "--check", "--kernel-plan": "--lanes"}
# Flags of other people's programs that texts of ours name.
FOREIGN = {"--gpu-reset", "--json", "--conf", "--type", "--addon", "--layers", "--width"}


def commands_of(command):
    """It and those below, forms of verbs by their older names."""
    yield command
    for form in command.get("forms", []):
        yield {**form, "path": ["partita", *form["was"].split()]}
    for child in command["children"]:
        yield from commands_of(child)


class WordsTest(CliTest):
    def setUp(self):
        super().setUp()
        self.commands = list(commands_of(json.loads(self.ok("docs"))["root"]))

    def test_the_other_programs_are_part_of_it(self):
        paths = {" ".join(one["path"]) for one in self.commands}
        self.assertLessEqual({"partita thermal steady", "partita remote run", "partita ptx run",
                              "partita energy fit", "partita kernels plan"}, paths)

    def test_help_fits_in_80_columns(self):
        wide = []
        for command in self.commands:
            text = self.ok("help", *command["path"][1:])
            wide += [f"{' '.join(command['path'])}: {line}" for line in text.splitlines()
                     if len(line) > WIDTH]
        self.assertEqual(wide, [])

    def test_a_flag_means_the_same_wherever_it_is(self):
        said = {}
        for command in self.commands:
            path = " ".join(command["path"][1:])
            for flag in command["flags"]:
                # Details may follow: which word means what, what it is for in one command.
                clause = re.split(r"\. |: |; ", flag["text"])[0].rstrip(".")
                one_of_words = "|" in flag["value"] or flag["value"].islower()
                meaning = ("" if one_of_words else flag["value"], clause)
                said.setdefault(flag["names"][-1], {}).setdefault(meaning, []).append(path)
        several = {name: [[*meaning, paths] for meaning, paths in meanings.items()]
                   for name, meanings in said.items() if len(meanings) > 1}
        self.assertEqual(several, {})

    def test_a_row_explains_one_meaning(self):
        # "Of a worker: ...", "FILE: ... ENDPOINTS: ...", "... Else ..." are meanings beside others.
        other = re.compile(r"(?:^|[.;,:] )[Oo]f (?:an? |the )?[`\w ]+: |[A-Z]{4,}: .*[A-Z]{4,}: |"
                           r"\. Else ")
        found = {flag["names"][-1] for command in self.commands for flag in command["flags"]
                 if other.search(flag["text"])}
        self.assertEqual(found, set(SEVERAL))

    def test_an_older_name_is_no_other_flags_name(self):
        now = {name for command in self.commands for flag in command["flags"]
               for name in flag["names"]}
        older = {(flag["names"][-1], name) for command in self.commands
                 for flag in command["flags"] for name in flag["older"] if name in now}
        self.assertEqual(older, set(OLDER.items()))

    def test_examples_have_flags_that_the_help_lists(self):
        flags = {}
        for command in self.commands:
            path = " ".join(command["path"][1:])
            for path in {path, command.get("was", path)}:
                flags.setdefault(path, set()).update(
                    name for flag in command["flags"] for name in flag["names"])
        for form in [form for command in self.commands for form in command.get("forms", [])]:
            flags[" ".join(form["path"][1:])].update(
                name for flag in form["flags"] for name in flag["names"])
        before = flags.pop("")
        looked_at, unknown = 0, []
        for command in self.commands:
            for example in "\n".join(command["examples"]).replace("\\\n", " ").splitlines():
                words = shlex.split(example.split(" -- ")[0], comments=True)
                while "partita" in words:
                    words = words[words.index("partita") + 1:]
                    at = next((n for n, word in enumerate(words)
                               if word in {path.split()[0] for path in flags}), None)
                    if at is None:
                        unknown.append(example)
                        break
                    path = max((path for path in flags if words[at:][:len(path.split())] ==
                                path.split()), key=len)
                    end = words.index("partita") if "partita" in words else len(words)
                    for n, word in enumerate(words[:end]):
                        if re.match(r"-{1,2}[a-z]", word):
                            looked_at += 1
                            if word.split("=")[0] not in (before if n < at else flags[path]):
                                unknown.append(f"{word}: {example}")
        self.assertEqual(unknown, [])
        self.assertGreater(looked_at, 200)

    def test_texts_name_flags_that_a_help_lists(self):
        listed = {name for command in self.commands for flag in command["flags"]
                  for name in flag["names"]} | FOREIGN
        for hidden in ("worker", "engine", "man", "power restore", "slurm meter"):
            listed.update(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", self.ok("help", *hidden.split()),
                                     re.MULTILINE))
        unknown, looked_at = [], 0
        for product in ("apps/partita", "apps/partita-lab", "apps/partita-remote", "node", "cuda",
                        "lab"):
            for path in sorted(pathlib.Path(SOURCE, product).rglob("*.cc")):
                if (path.name.endswith("_test.cc") or "testing" in path.parts or
                        path.name == "flag_words.cc"):
                    continue
                for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', path.read_text()):
                    for name in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", literal):
                        looked_at += 1
                        if name not in listed:
                            unknown.append(f"{path.relative_to(SOURCE)}: {name}")
        self.assertEqual(unknown, [])
        self.assertGreater(looked_at, 1000)

    def test_a_refusal_names_a_flag_that_its_program_takes(self):
        # A flag is taken behind a comma, flag(command, "--x", ...), and refused behind a bracket,
        # bad_input("--x", ...): the second may not be an older name that nothing takes by.
        for product in ("partita", "partita-lab", "partita-remote"):
            texts = {path: path.read_text() for path in
                     pathlib.Path(SOURCE, "apps", product).rglob("*.cc")
                     if path.name != "flag_words.cc"}
            taken = {name for text in texts.values()
                     for name in re.findall(r',\s*"(--[a-z-]+)"', text)} | {"--format", "--output"}
            by = re.compile(r'(?:bad_input|duration|or_zero|nanos|_of)\(\s*"(--[a-z-]+)"')
            refused = {(path.name, name) for path, text in texts.items()
                       for name in by.findall(text)}
            self.assertGreater(len(refused), 5)
            self.assertEqual({one for one in refused if one[1] not in taken}, set(), product)

    def test_a_node_has_few_commands(self):
        leaves = [path for one in self.commands
                  if not one["children"] and one["path"][1:] and "was" not in one
                  for path in [" ".join(one["path"][1:])] if not path.startswith(OTHERS)]
        self.assertLessEqual(len(leaves), MOST_COMMANDS, leaves)

    def test_every_command_is_explained_as_people_speak(self):
        odd = re.compile(r"\b(must know|may come in|told apart|where root)\b", re.IGNORECASE)
        for command in self.commands:
            for text in [command["summary"], *(flag["text"] for flag in command["flags"])]:
                self.assertNotRegex(text, odd)


if __name__ == "__main__":
    unittest.main()
