#!/usr/bin/env python3
"""Prints "N passed, N failed, N skipped" for the JUnit files that ctest wrote; exit status 1 when
any test failed. A build folder without a file did not build, which counts as one failure.

usage: count_tests.py BUILD_FOLDER...
"""
import pathlib
import sys
import xml.etree.ElementTree as xml


def count(folder):
    """(passed, failed, skipped) of one build."""
    path = pathlib.Path(folder, "junit.xml")
    if not path.exists():
        print(f"{folder}: did not build")
        return 0, 1, 0
    suite = xml.parse(path).getroot()
    total, failed = int(suite.get("tests")), int(suite.get("failures"))
    skipped = int(suite.get("skipped")) + int(suite.get("disabled"))
    if total == 0:
        print(f"{folder}: no tests")
        return 0, 1, 0
    return total - failed - skipped, failed, skipped


def main(*folders):
    passed, failed, skipped = (sum(column) for column in zip(*map(count, folders)))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
