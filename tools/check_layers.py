#!/usr/bin/env python3
"""Fails when a source file includes a module that its own module does not declare, when the layer
graph has a cycle, or when a source file belongs to no module.

usage: check_layers.py SRC LAYERS_FILE
LAYERS_FILE: lines "module: dependency dependency", written by CMake.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\s*["<]([^">]+/[^">]+)[">]')
SOURCES = (".h", ".cc", ".cu")


def read_layers(path):
    lines = [line.split(":") for line in open(path) if line.strip()]
    return {name: dependencies.split() for name, dependencies in lines}


def reachable(layers, name, trail=()):
    """Every module that `name` may use: its dependencies and what those may use."""
    if name in trail:
        sys.exit(f"cycle: {' -> '.join([*trail, name])}")
    found = set(layers[name])
    for dependency in layers[name]:
        if dependency not in layers:
            sys.exit(f"{name} depends on {dependency}, which is no module")
        found |= reachable(layers, dependency, (*trail, name))
    return found


def module_of(path, layers):
    """The longest module name that is a folder of the path: drivers/sim before drivers."""
    parts = path.split("/")
    names = ("/".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
    return next((name for name in names if name in layers), None)


def check(src, layers):
    """(number of includes between modules, list of complaints)."""
    allowed = {name: reachable(layers, name) | {name} for name in layers}
    folders = {name.split("/")[0] for name in layers}
    errors, count = [], 0
    for path in sorted(pathlib.Path(src).rglob("*")):
        if path.suffix not in SOURCES:
            continue
        owner = module_of(str(path.relative_to(src)), layers)
        if owner is None:
            errors.append(f"{path}: in no module; add its folder to CMakeLists.txt")
            continue
        for number, line in enumerate(open(path), 1):
            match = INCLUDE.match(line)
            if not match or match[1].split("/")[0] not in folders:
                continue
            target = module_of(match[1], layers)
            count += 1
            if target not in allowed[owner]:
                errors.append(f"{path}:{number}: {owner} may not include {target or match[1]}")
    return count, errors


def main(src, layers_file):
    layers = read_layers(layers_file)
    count, errors = check(src, layers)
    for error in errors:
        print(error)
    print(f"{len(layers)} modules, {count} includes checked, {len(errors)} wrong")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
