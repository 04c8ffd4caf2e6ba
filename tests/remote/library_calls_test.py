"""The arguments of functions of NVIDIA's libraries, as the server's table has them, against
NVIDIA's headers where they are installed."""
import itertools
import os
import pathlib
import re
import unittest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
HEADERS = pathlib.Path(os.environ.get("CUDA_HEADERS", "/usr/local/cuda/include"))
LETTERS = {"?": "SDCZ", "#": "SD", "*": "CZ"}
# Of no header's form: what a function says in bytes of its own, or asks for no arguments.
OWN = re.compile("cudnnBackend|cudnnGetVersion")


def table():
    text = (TOP / "cuda/server/library_calls.cc").read_text()
    for name, kinds in re.findall(r'\{"(cu[^"]+)",\s*"([^"]+)"', text):
        sort = next((letter for letter in LETTERS if letter in name), None)
        for letter in LETTERS[sort] if sort else [""]:
            yield name.replace(sort, letter) if sort else name, kinds


def kind_of(parameter, name):
    """A parameter's letter, by its type and, of pointers, by NVIDIA's habit of naming them."""
    word = re.search(r"(\w+)(\[\])?$", parameter)
    word = word.group(1) if word else ""
    for part, letter in (("cusolverDnParams_t", "q"), ("gesvdjInfo_t", "g"), ("syevjInfo_t", "e"),
                         ("cudnnTensorDescriptor_t", "T" if "Params" in name else "t"),
                         ("cudnnActivationDescriptor_t", "v"), ("cudnnRNNDescriptor_t", "r"),
                         ("cudnnRNNDataDescriptor_t", "x"), ("cudnnDropoutDescriptor_t", "D"),
                         ("Handle_t", "h")):
        if part in parameter:
            return letter
    pointer = "*" in parameter or "[" in parameter
    if pointer and (word.lower() == "lwork" or
                    (word == "info" and re.search("(getrs|geqrf|gels)Batched", name))):
        return "o"
    if pointer and "size_t" in parameter or pointer and re.match("workspaceInBytes", word):
        return "O"
    if pointer and "**" in parameter.replace(" ", ""):
        return "A" if word.endswith("Addr") else "p"
    if pointer and word == "bufferOnHost":
        return "w"
    if pointer and re.match("alpha|beta", word):
        return "f"
    if pointer:
        return "p"
    if re.match("(const )?(int64_t|size_t|(unsigned )?long long)", parameter):
        return "l"
    return {"double": "d", "float": "F"}.get(parameter.split()[0], "i")


class LibraryCallsTest(unittest.TestCase):
    def test_arguments_are_those_of_nvidias_headers(self):
        files = [HEADERS / name for name in ("cusolverDn.h", "cudnn_ops.h", "cudnn_adv.h",
                                            "cublas_api.h")]
        if not all(file.exists() for file in files):
            self.skipTest(f"no headers of CUDA in {HEADERS}")
        text = "\n".join(file.read_text(errors="replace") for file in files)
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        declared = {name: [" ".join(one.split()) for one in parameters.split(",")]
                    for name, parameters in re.findall(r"\b(cu\w+)\s*\(([^;()]*)\)\s*;", text)}
        functions = [entry for entry in table() if not OWN.match(entry[0])]
        self.assertGreater(len(functions), 150)
        for name, kinds in functions:
            with self.subTest(name):
                self.assertIn(name, declared)
                self.assertEqual("".join(kind_of(one, name) for one in declared[name]), kinds)

    def test_no_function_stands_twice(self):
        names = sorted(name for name, _ in table())
        self.assertEqual([a for a, b in itertools.pairwise(names) if a == b], [])


if __name__ == "__main__":
    unittest.main()
