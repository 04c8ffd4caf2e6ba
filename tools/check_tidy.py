#!/usr/bin/env python3
"""Fails when a file breaks a house rule that a machine can see; each message says what to do.

usage: check_tidy.py ROOT
"""
import pathlib
import re
import shutil
import subprocess
import sys

COLUMNS, FUNCTION_LINES, FILE_LINES, README_LINES = 100, 70, 1000, 30
CLASS_FUNCTIONS = 30
SKIPPED = re.compile(r"^(build|\.git|\.cache)(/|$)")
PRODUCTS = ("node", "cuda", "lab")
CODE = {".cc", ".h", ".cu", ".py"}
CPP = {".cc", ".h", ".cu"}
TEXT = CODE | {".md", ".cmake", ".txt", ".json", ".yaml", ".yml", ".sh", ".csv", ""}
DECISION_MODULES = re.compile(r"^node/(hw|profile|model|plan|planners|verify|sim)/")
VENDOR_FOLDERS = re.compile(r"^(node/drivers|cuda|tests/remote)/")

# (pattern, where it applies, what to do instead). Split words are not found in this file itself.
BANNED = [
    (r"std::endl", CPP, "write '\\n'"),
    (r"\busing namespace\b(?! \w*_?literals| std::\w*_?literals)", CPP, "name what you use"),
    (r"\b(std::)?s?rand\(", CPP, "take a base/rng.h stream from the caller"),
    (r"\bTO" r"DO\b|\bFIX" r"ME\b", CODE, "do it, or write the limit into the header comment"),
    (r"(?<![\w.}])/wo" r"rk/", TEXT, "no path of one machine in the repository"),
]
VENDOR = re.compile(r'#\s*include\s*[<"](nvml|cuda\w*|hip/.*|cupti|rocm_smi/.*)(\.h)?[>"]')
# What compiles a library's templates anew in every source (docs/decisions/0011-builds.md), where it
# may stand nevertheless, and what to write instead.
COSTLY = [
    (re.compile(r"\bfmt::join\(|\bformat_to\(std"), "node/base/append.",
     "base/append.h has joined and append"),
    (re.compile(r"#include <Eigen/(?!Core>)"), "node/base/numeric/", "numeric/dense.h decomposes"),
]
COSTLY_ELSEWHERE = re.compile(r"^(node|cuda|lab|apps)/(?!.*(_test\.cc$|/testing/))")
UNORDERED = re.compile(r"\bunordered_(?:multi)?(?:map|set)<[^;{}()]*>[&\s]+(\w+)")


def files(root):
    for path in sorted(pathlib.Path(root).rglob("*")):
        name = str(path.relative_to(root))
        if not SKIPPED.match(name) and path.is_file() and path.suffix in TEXT:
            yield name, path


def lines_of(path):
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []  # a binary: the corpus of a fuzz target may hold one


def check_lines(name, path, lines):
    for number, line in enumerate(lines, 1):
        if path.suffix in CODE and len(line) > COLUMNS:
            yield f"{name}:{number}: {len(line)} columns; {COLUMNS} are the limit"
        for pattern, suffixes, advice in BANNED:
            match = path.suffix in suffixes and re.search(pattern, line)
            if match:
                yield f"{name}:{number}: {match[0]}: {advice}"
        for pattern, place, advice in COSTLY:
            if COSTLY_ELSEWHERE.match(name) and not name.startswith(place):
                match = pattern.search(line)
                if match:
                    yield f"{name}:{number}: {match[0]}: {advice}"
        if path.suffix in CPP and VENDOR.search(line) and not VENDOR_FOLDERS.match(name):
            yield f"{name}:{number}: vendor header; only drivers and remote may include one"
    if path.suffix in CODE and len(lines) > FILE_LINES:
        yield f"{name}: {len(lines)} lines; {FILE_LINES} are the limit"


def check_unordered(name, path, lines):
    """Iterating over a hash table gives an order that no seed fixes."""
    if path.suffix not in CPP or not DECISION_MODULES.match(name):
        return
    header = path.with_suffix(".h")
    declarations = "\n".join(lines + (lines_of(header) if header.exists() else []))
    for variable in sorted(set(UNORDERED.findall(declarations))):
        loop = re.compile(rf"for\s*\([^;]*:\s*[\w.>()-]*\b{variable}\s*\)|"
                          rf"\b{variable}(\.|->)c?begin\(")
        for number, line in enumerate(lines, 1):
            if loop.search(line):
                yield f"{name}:{number}: iterates over the unordered {variable}; use std::map"


def check_own_header(name, path, lines):
    """A source includes its header first: so compiling it shows that the header compiles alone."""
    header = path.with_suffix(".h")
    product, _, within = name.partition("/")
    if path.suffix != ".cc" or product not in PRODUCTS or not header.exists():
        return
    own = str(pathlib.PurePath(within).with_suffix(".h"))
    first = next((line for line in lines if line.startswith("#include")), "")
    if first != f'#include "{own}"':
        yield f'{name}: its first #include is to be "{own}", which shows that it compiles alone'


def ctags(root, names, kinds, *fields):
    """What universal-ctags sees in these files: a list of fields for each tag."""
    if not shutil.which("ctags"):
        sys.exit("check_tidy needs universal-ctags")
    command = ["ctags", "-x", "--languages=C++", "--langmap=C++:+.h.cu", f"--kinds-C++={kinds}",
               "--fields=+e", "--_xformat=" + "\t".join(fields), "-L", "-"]
    listing = subprocess.run(command, input="\n".join(names), cwd=root, check=True,
                             capture_output=True, text=True)
    return [row.split("\t") for row in listing.stdout.splitlines()]


def check_functions(root, names):
    """Functions longer than the limit."""
    for begin, end, function, name in ctags(root, names, "f", "%n", "%e", "%N", "%F"):
        length = int(end or begin) - int(begin) + 1
        if length > FUNCTION_LINES:
            yield f"{name}:{begin}: {function} has {length} lines; {FUNCTION_LINES} are the limit"


def check_classes(root, names):
    """Classes with more functions than the limit, wherever these are defined."""
    bodies, members = {}, {}  # by file and full name: lines; how many functions
    rows = ctags(root, names, "csufp", "%K", "%n", "%e", "%{scope}", "%N", "%F")
    for kind, begin, end, scope, tag, name in rows:
        if kind in ("class", "struct", "union"):
            bodies[name, f"{scope}::{tag}" if scope else tag] = int(begin), int(end or begin)
    for kind, begin, _, scope, _, name in rows:
        first, last = bodies.get((name, scope), (1, 0))
        if kind in ("function", "prototype") and first <= int(begin) <= last:
            members[name, scope] = members.get((name, scope), 0) + 1
    for (name, scope), count in sorted(members.items()):
        if count > CLASS_FUNCTIONS:
            yield (f"{name}:{bodies[name, scope][0]}: {scope} has {count} functions; "
                   f"{CLASS_FUNCTIONS} are the limit: part it by what its parts know")


def check_types(root, names):
    """Two types of one name in one namespace: the linker takes one's functions for the other's."""
    places = {}
    for type_name, name in ctags(root, names, "csgu", "%{scope}::%N", "%F"):
        if "__anon" not in type_name:
            places.setdefault(type_name, set()).add(name)
    for type_name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"{sorted(where)[1]}: {type_name} is also defined in {sorted(where)[0]}"


def check_readmes(root):
    folders = [pathlib.Path(root, product) for product in PRODUCTS]
    for cmake in sorted(path for folder in folders for path in folder.rglob("CMakeLists.txt")):
        readme = cmake.with_name("README.md")
        name = readme.relative_to(root)
        if not readme.exists():
            yield f"{name}: missing; every module says in a few lines what it is"
        elif len(lines_of(readme)) > README_LINES:
            yield f"{name}: more than {README_LINES} lines; the headers are the place for details"


def main(root):
    errors, names = [], []
    for name, path in files(root):
        lines = lines_of(path)
        names.append(name)
        errors += check_lines(name, path, lines)
        errors += check_unordered(name, path, lines)
        errors += check_own_header(name, path, lines)
    code = [name for name in names if pathlib.Path(name).suffix in CPP]
    errors += check_functions(root, code)
    errors += check_classes(root, code)
    sources = [name for name in names if re.match(r"(node|cuda|lab|apps)/.*\.(cc|h)$", name)]
    errors += check_types(root, [name for name in sources if not name.endswith("_test.cc")])
    errors += check_readmes(root)
    for error in errors:
        print(error)
    print(f"{len(names)} files checked, {len(errors)} complaints")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
