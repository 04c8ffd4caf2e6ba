#!/usr/bin/env python3
"""Fails when the module table of ARCHITECTURE.md differs from the one CMake wrote.

A row is "| module[, module] | may include | ...". Rows stand between <!-- modules --> and
<!-- /modules -->.

usage: check_table.py ARCHITECTURE_MD LAYERS_FILE
"""
import re
import sys

from check_layers import read_layers


def read_table(text, name):
    """{module: [dependencies]} of the table between the two markers."""
    section = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    if not section:
        sys.exit(f"no <!-- {name} --> ... <!-- /{name} --> section")
    rows = [line.split("|")[1:3] for line in section[1].splitlines() if line.startswith("|")]
    return {module.strip(): [] if edges.strip() == "-" else edges.strip().split(", ")
            for modules, edges in rows[2:]  # after the heading and its rule
            for module in modules.split(",")}


def differences(written, declared):
    for name in sorted(written.keys() | declared.keys()):
        if name not in written:
            yield f"{name}: a module without a row in the table"
        elif name not in declared:
            yield f"{name}: a row in the table without a module"
        elif sorted(written[name]) != sorted(declared[name]):
            yield f"{name}: the table says {written[name]}, CMake says {declared[name]}"


def main(document, layers_file):
    text = open(document).read()
    written, declared = read_table(text, "modules"), read_layers(layers_file)
    errors = list(differences(written, declared))
    for error in errors:
        print(error)
    print(f"{len(written)} rows, {len(declared)} modules, {len(errors)} differences")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
