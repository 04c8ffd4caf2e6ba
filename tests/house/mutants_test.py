#!/usr/bin/env python3
"""tools/mutants: a changed program is the program until a change is chosen, and then it shows."""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """#include <cstdio>
int twice(int a) {
  return a * 2;  // 3 < 4
}
int main(int argc, char**) {
  int sum = argc - argc, calls = 0;
  const char* text = "if (1 < 2)";
  for (int i = 1; i < 4; ++i) {
    if (i == 2 && argc > 0) continue;
    sum += twice(i);
    ++calls;
  }
  while (calls < 3) {
    calls += 2;
  }
  std::printf("%d %d %s %s\\n", sum, calls, text, sum >= 8 ? "large" : "small");
  return 0;
}
"""
SILENT = ["if (i == 2 && argc > 0) continue;", "while (calls < 3) {", "while (calls < 3) {",
          "++calls;"]


def load():
    loader = importlib.machinery.SourceFileLoader("mutants", str(ROOT / "tools/mutants"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def check_cage(mutants):
    """Whoever is in it finds no process but its own, and writes nothing outside of its folder."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        words = f'echo $PPID; touch inside /tmp/also; touch "{folder}.outside"; ls /proc'
        command = mutants.caged(folder, ("sh", "-c", words))
        seen = subprocess.run(command, capture_output=True, text=True).stdout.split()
        if not seen:
            return "no cage can be made here"
        assert seen[0] == "1", seen
        assert str(os.getpid()) not in seen, seen
        assert os.path.exists(folder + "/inside") and not os.path.exists(folder + ".outside")
        assert not os.path.exists("/tmp/also")
    return "the cage holds"


def main():
    mutants = load()
    print(check_cage(mutants))
    places = mutants.places(mutants.blanked(PROGRAM))
    changes = [(number, *place) for number, place in enumerate(places, 1)]
    kinds = {one[1] for one in changes}
    assert kinds == {"operator", "constant", "condition", "loop", "statement"}, kinds
    lines = PROGRAM.split("\n")
    for number, kind, begin, end, *_ in changes:
        words = PROGRAM[begin:end]
        assert "3 < 4" not in words and "1 < 2" not in words, (number, kind, words)
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "a.cc"), pathlib.Path(folder, "a")
        source.write_text(f'#include "{ROOT}/tools/mutant.h"\n' + mutants.changed(PROGRAM, changes))
        subprocess.run(["g++", "-std=c++20", source, "-o", program], check=True)

        def run(number):
            environment = dict(os.environ, PARTITA_MUTANT=str(number))
            try:
                done = subprocess.run([program], env=environment, capture_output=True, text=True,
                                      timeout=2)
            except subprocess.TimeoutExpired:
                return "hangs"
            return done.returncode, done.stdout

        right = run(0)
        assert right == (0, "8 4 if (1 < 2) large\n"), right
        silent = [lines[line - 1].strip() for number, *_, line in changes if run(number) == right]
        # argc is 1, so >= 0 is as good as > 0; and calls is 2 before its loop, or 0 without its ++.
        assert silent == SILENT, silent
        marks = pathlib.Path(folder, "marks")
        marks.write_bytes(bytes(len(changes) + 1))
        subprocess.run([program], env=dict(os.environ, PARTITA_MUTANTS_REACHED=str(marks)),
                       check=True, stdout=subprocess.DEVNULL)
        assert marks.read_bytes()[1:].count(1) == len(changes), marks.read_bytes()
    print(f"{len(changes)} changes, {len(silent)} of them silent")


if __name__ == "__main__":
    main()
