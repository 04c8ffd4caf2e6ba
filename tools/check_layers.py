#!/usr/bin/env python3
"""Fails when a source file includes a module that its own module does not declare (nothing is
inherited), when a declared edge is used by nobody, when the layer graph has a cycle or leaves its
product, or when a source file belongs to no module.

usage: check_layers.py ROOT LAYERS_FILE
LAYERS_FILE: lines "module: dependency ... | dependency of its tests ...", written by CMake.
"""
import pathlib
import re
import sys

DIRECTIVE = re.compile(r"\s*(?:#|%:|\?\?=)\s*(?:include|import|embed)|\s*(?:export\s+)?import\b")
INCLUDE = re.compile(r'\s*#\s*include\s*["<]([^">]+)[">]\s*(?://.*)?$')
COMMENT = re.compile(r"/\*.*?\*/")
SOURCES = (".h", ".cc", ".cu")
PRODUCTS = ("node", "cuda", "lab")
# What stands in a module's folder for its tests alone.
FOR_TESTS = re.compile(r"_test\.cc$|/testing/")


def read_layers(path):
    """{module: [dependencies]}."""
    return {name: edges for name, (edges, _) in read_all_layers(path).items()}


def read_all_layers(path):
    """{module: ([dependencies], [further ones of its tests])}."""
    rows = [line.split(":") for line in open(path) if line.strip()]
    return {name: tuple(part.split() for part in (edges + "|").split("|")[:2])
            for name, edges in rows}


def product_of(root, name):
    found = [product for product in PRODUCTS if (root / product / name).is_dir()]
    return found[0] if len(found) == 1 else sys.exit(f"{name}: a folder in {found or 'no product'}")


def graph_errors(root, layers):
    """Cycles, edges to what is no module, and edges of node/ into the other products."""
    products = {name: product_of(root, name) for name in layers}

    def walk(name, trail):
        if name in trail:
            sys.exit(f"cycle: {' -> '.join([*trail, name])}")
        for dependency in layers[name][0]:
            if dependency not in layers:
                sys.exit(f"{name} depends on {dependency}, which is no module")
            walk(dependency, (*trail, name))

    for name, (edges, of_tests) in sorted(layers.items()):
        walk(name, ())
        for other in edges + of_tests:
            if products[other] not in ("node", products[name]):
                yield f"{name}: {products[name]}/ may not look into {products[other]}/ ({other})"


def module_of(path, layers):
    """The longest module name that is a folder of the path: drivers/sim before drivers."""
    parts = path.split("/")
    names = ("/".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
    return next((name for name in names if name in layers), None)


def included(line):
    """(the header, None), (None, what is wrong with how it is named), or (None, None): no include.
    A header of ours has one name, its path from its product's folder: another would go unseen."""
    line = COMMENT.sub(" ", line.rstrip("\n\\"))
    if not DIRECTIVE.match(line):
        return None, None
    match = INCLUDE.match(line)
    if not match:
        return None, "an include of another form than \"folder/header.h\" or <header>"
    parts = match[1].split("/")
    if "." in parts or ".." in parts or "" in parts or parts[0] in (*PRODUCTS, "apps"):
        return None, f"{match[1]} is to be named by its path from {', '.join(PRODUCTS)}"
    return match[1], None


def check(root, layers):
    """(number of includes between modules, list of complaints)."""
    folders = {name.split("/")[0] for name in layers}
    errors, count = list(graph_errors(root, layers)), 0
    used = {name: (set(), set()) for name in layers}
    paths = [path for product in PRODUCTS for path in sorted((root / product).rglob("*"))]
    for path in paths:
        if path.suffix not in SOURCES:
            continue
        owner = module_of(str(path.relative_to(root).relative_to(path.relative_to(root).parts[0])),
                          layers)
        if owner is None:
            errors.append(f"{path}: in no module; add its folder to CMakeLists.txt")
            continue
        edges, of_tests = layers[owner]
        tested = bool(FOR_TESTS.search(str(path)))
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            header, fault = included(line)
            if fault:
                errors.append(f"{path}:{number}: {fault}")
            if not header or "/" not in header or header.split("/")[0] not in folders:
                continue
            if "/testing/" in header and not tested:
                errors.append(f"{path}:{number}: {header} is for tests alone")
            target = module_of(header, layers)
            count += 1
            if target == owner:
                continue
            if target not in edges + (of_tests if tested else []):
                errors.append(f"{path}:{number}: {owner} may not include {target or header}")
            used[owner][tested].add(target)
    for name, (edges, of_tests) in sorted(layers.items()):
        errors += [f"{name}: declares {edge}, which it does not include"
                   for edge in edges if edge not in used[name][False]]
        errors += [f"{name}: its tests declare {edge}, which they do not include"
                   for edge in of_tests if edge not in used[name][True] or edge in edges]
    return count, errors


def main(root, layers_file):
    layers = read_all_layers(layers_file)
    count, errors = check(pathlib.Path(root), layers)
    for error in errors:
        print(error)
    edges = sum(len(edges) for edges, _ in layers.values())
    print(f"{len(layers)} modules, {edges} edges, {count} includes checked, {len(errors)} wrong")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
