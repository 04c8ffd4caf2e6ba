#!/usr/bin/env python3
"""Fails when a test, benchmark or fuzz target lies in the tree and no build registers it.

usage: check_registered.py ROOT TESTS_FILE
TESTS_FILE: one registered source per line, written by CMake.
"""
import pathlib
import sys

PATTERNS = (*(f"{folder}/**/*_test.cc" for folder in ("node", "cuda", "lab", "apps")),
            "tests/**/*_test.cc", "tests/**/*_test.py",
            "bench/**/*.cc", "fuzz/**/*_fuzz.cc")


def unregistered(root, registered):
    paths = (path for pattern in PATTERNS for path in pathlib.Path(root).glob(pattern))
    found = {str(path.relative_to(root)) for path in paths}
    return len(found), sorted(found - registered)


def main(root, tests_file):
    count, errors = unregistered(root, set(open(tests_file).read().split()))
    for path in errors:
        print(f"{path}: in the tree, but no build runs it")
    print(f"{count} test sources, {len(errors)} unregistered")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
