"""Tests of Thrust and CUB for foreign_programs (a checkout of github.com/NVIDIA/cccl): which, and
how they are built.

A program is what their CMake files make of a source: one for each combination of its %PARAM%
lines. By name every so many are taken, of all together. Left out: sources that are not to compile
(_fail), and CUB's launches by kernels (lid_1), which take twice as long to compile. Each program
checks itself and says what it found.
"""
import dataclasses
import itertools
import re
from pathlib import Path

PARAMETER = re.compile(r"//[ ]+%PARAM%[ ]+([^ ]+)[ ]+([^ ]+)[ ]+([^\n]*)")
SAY_RIGHT = [
    re.compile(r"Totals: 0 failures, \d+ known failures, 0 errors,? and [1-9]\d* passes"),
    re.compile(r"All tests passed \([1-9]\d* assertion"),
    re.compile(r"test cases: +\d+ \| +[1-9]\d* passed \| +\d+ skipped$", re.M)]
# CUB's numbers come from Thrust's generators where there is no cuRAND. The host's side is not
# optimised: it takes most of the time to compile and little of the time to run.
WORDS = ["-std=c++17", "-cudart", "shared", "--extended-lambda", "-DCCCL_ENABLE_ASSERTIONS",
         "-DC2H_HAS_CURAND=0", "-DCATCH_AMALGAMATED_CUSTOM_MAIN", "-Xcompiler", "-O0"]
HEADERS = ("thrust", "cub", "libcudacxx/include", "c2h/include", "thrust/testing", "cub/test")


@dataclasses.dataclass(eq=False)
class Test:
    name: str
    source: Path
    words: list
    parts: list  # sources that are built once, for all tests of a kind
    needs_catch2: bool = False
    is_silent: bool = False  # it says nothing where all is right: its status does


def thrust_tests(testing):
    parts = [testing / "unittest/testframework.cu", testing / "unittest/cuda/testframework.cu"]
    for source in sorted(testing.glob("*.cu")) + sorted((testing / "cuda").glob("*.cu")):
        words = ["-DTHRUST_TEST_DEVICE_SIDE"]
        if source.stem == "stream_per_thread":
            words.append("--default-stream=per-thread")
        name = ".".join(("thrust", *source.relative_to(testing).with_suffix("").parts))
        yield Test(name, source, words, parts)


def cub_tests(cub, helper):
    runner = [helper / name for name in ("catch2_runner.cpp", "catch2_runner_helper.cu")]
    for source in sorted(cub.rglob("*test_*.cu")):
        is_catch2 = source.name.startswith("catch2_")
        parts = [helper / "generators.cu", *(runner if is_catch2 else [])]
        parameters = PARAMETER.findall(source.read_text())
        choices = itertools.product(*(one[2].split(":") for one in parameters))
        for index, values in enumerate(choices):
            labels = [f"{one[1]}_{value}" for one, value in zip(parameters, values)]
            if "lid_1" in labels or "_fail" in source.name:
                continue
            words = [f"-D{one[0]}={value}" for one, value in zip(parameters, values)]
            words += [f"-DVAR_IDX={index}"] if words else []
            name = ".".join(("cub", re.sub("^(catch2_)?test_", "", source.stem), *labels))
            yield Test(name, source, words, parts, is_catch2, not is_catch2)


def chosen(folder, every):
    """Every second of them first: a run that is cut short has tried some of all kinds."""
    found = [*thrust_tests(folder / "thrust/testing"),
             *cub_tests(folder / "cub/test", folder / "c2h")][::every]
    return found[::2] + found[1::2]


def catch2_headers(checkout, to):
    """Each of Catch2's headers as the one that has them all, which needs no configuration."""
    for header in (checkout / "src").rglob("catch2/**/*.hpp"):
        here = to / header.relative_to(checkout / "src")
        here.parent.mkdir(parents=True, exist_ok=True)
        here.write_text(f'#include "{checkout}/extras/catch_amalgamated.hpp"\n')


class Builder:
    """nvcc(folder, *words) -> what is wrong, or None. The checkout's headers come before those
    of the toolkit."""

    def __init__(self, folder, build, catch2, nvcc):
        self.build, self.nvcc, self.objects = build, nvcc, {}
        self.words = [*WORDS, *(f"-I{folder / part}" for part in HEADERS)]
        self.catch2 = catch2 / "extras/catch_amalgamated.cpp" if catch2 else None
        if catch2:
            catch2_headers(catch2, build / "catch2")
            self.words.append(f"-I{build / 'catch2'}")

    def parts_of(self, test):
        return [*test.parts, *([self.catch2] if test.needs_catch2 and self.catch2 else [])]

    def make_parts(self, tests):
        """Before the tests, of which several may be built at once."""
        self.build.mkdir(parents=True, exist_ok=True)
        for part in sorted({part for test in tests for part in self.parts_of(test)}):
            made = self.objects[part] = self.build / f"{part.parent.name}-{part.stem}.o"
            if made.exists():
                continue
            if problem := self.nvcc(self.build, *self.words, "-c", "-o", made, part):
                print(f"{part.name} is not built: {problem}")

    def make(self, test, folder):
        if test.needs_catch2 and not self.catch2:
            return "needs Catch2 (--catch2)"
        objects = [self.objects[part] for part in self.parts_of(test)]
        return self.nvcc(folder, *self.words, *test.words, "-o", "program", test.source, *objects,
                         "-lcuda", "-lnvrtc", "-L/usr/local/cuda/lib64/stubs")


def is_right(test, text):
    return test.is_silent or any(one.search(text) for one in SAY_RIGHT)
