"""A stand-in for PyTorch that imports what PyTorch imports of NVIDIA's libraries, each name from
its library: it starts, all names bound at once."""
import csv
import os
import pathlib
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
IMPORTS = TOP / "data/published/pytorch/imports-2.13-cu130.csv"
LIBRARIES = pathlib.Path(os.environ["PARTITA"]).parent / "remote"


def stand_in(folder, library, names):
    """A program with the addresses of these names; it says how many it has."""
    source, program = folder / "a.c", folder / library
    source.write_text("#include <stdio.h>\n" +
                      "".join(f"extern void {one}(void);\n" for one in names) +
                      "static void (*const all[])(void) = {" + ", ".join(names) + "};\n"
                      "int main(void) {\n  int bound = 0;\n"
                      "  for (unsigned i = 0; i < sizeof all / sizeof *all; ++i)\n"
                      "    bound += all[i] != 0;\n"
                      '  printf("%d", bound);\n  return 0;\n}\n')
    return subprocess.run(["cc", str(source), "-o", str(program), f"-L{LIBRARIES}", f"-l:{library}",
                           "-Wl,-z,now"], capture_output=True, text=True), program


class PytorchImportsTest(unittest.TestCase):
    def test_each_name_resolves_in_its_library(self):
        of_library = {}
        with IMPORTS.open() as file:
            for row in csv.DictReader(file):
                of_library.setdefault(row["library"], []).append(row["name"])
        self.assertEqual(sum(map(len, of_library.values())), 487)
        with tempfile.TemporaryDirectory() as folder:
            for library, names in of_library.items():
                built, program = stand_in(pathlib.Path(folder), library, names)
                self.assertEqual(built.returncode, 0, built.stderr)
                ran = subprocess.run([str(program)], capture_output=True, text=True,
                                     env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)})
                self.assertEqual((ran.returncode, ran.stdout), (0, str(len(names))), ran.stderr)

    def test_a_name_that_no_library_has_does_not(self):
        with tempfile.TemporaryDirectory() as folder:
            built, _ = stand_in(pathlib.Path(folder), "libcudart.so.13", ["cudaNever"])
            self.assertNotEqual(built.returncode, 0)
            self.assertIn("cudaNever", built.stderr)


if __name__ == "__main__":
    unittest.main()
