"""The words of the command line: help within 80 columns, one meaning per flag, few commands."""

import json
import re
import unittest

from harness import CliTest

WIDTH = 80
MOST_COMMANDS = 49
OTHERS = ("lab", "mask", "kernels", "graph", "probe", "thermal", "floorplan", "remote", "ptx",
          "energy fit", "energy predict", "energy validate")

# Flags that mean something else in one place, and why they keep their name there.
EXCEPTIONS = {}


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
        several = {name: meanings for name, meanings in said.items()
                   if len(meanings) > 1 and name not in EXCEPTIONS}
        self.assertEqual(several, {}, json.dumps({name: [[*meaning, paths] for meaning, paths
                                                         in meanings.items()]
                                                  for name, meanings in several.items()}, indent=1))
        for name, reason in EXCEPTIONS.items():
            self.assertGreater(len(said[name]), 1, name)  # else it is no exception any more
            self.assertTrue(reason.strip(), name)

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
