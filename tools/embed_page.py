#!/usr/bin/env python3
"""Writes the files of web/ as one C++ source: compressed bytes, type and ETag of each.

usage: embed_page.py FOLDER OUTPUT
The same files give the same source, byte for byte. Refused: more than LIMIT bytes altogether,
kinds of files that the page does not have, and a reference to another host.
"""
import hashlib
import pathlib
import re
import sys
import zlib

LIMIT = 60 * 1024
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
NAMESPACES = {"http://www.w3.org/2000/svg"}  # names, nothing is fetched from there


def packed(data):
    """gzip without a time or a name, so that a build can be repeated."""
    engine = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = engine.compress(data) + engine.flush()
    return data[:9] + b"\xff" + data[10:]  # no operating system


def files(folder):
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if not path.is_file() or path.name == "README.md":
            continue
        if path.suffix not in TYPES:
            sys.exit(f"{path}: no kind of file that the page has")
        data = path.read_bytes()
        for address in re.findall(r"https?://[^\"'`\s)]+", data.decode("utf-8")):
            if address not in NAMESPACES:
                sys.exit(f"{path}: asks another host: {address}")
        name = "/" + path.relative_to(folder).as_posix()
        yield "/" if name == "/index.html" else name, TYPES[path.suffix], packed(data)


def literal(data):
    """A string literal in lines; every byte as an octal escape of three digits."""
    pieces = (data[begin:begin + 24] for begin in range(0, len(data), 24))
    return "\n".join('    "' + "".join(f"\\{byte:03o}" for byte in piece) + '"' for piece in pieces)


def source(rows):
    text = ["// Made by tools/embed_page.py.", '#include "api/page.h"', "", "#include <array>", "",
            "namespace partita::api {", "namespace {", "", "using namespace std::literals;", "",
            f"constexpr std::array<PageFile, {len(rows)}> kPageFiles{{{{"]
    for path, kind, data in rows:
        etag = hashlib.sha256(data).hexdigest()[:16]
        text += [f'    {{"{path}", "{kind}", "\\"{etag}\\"",', literal(data) + "sv},"]
    text += ["}};", "", "}  // namespace", "",
             "std::span<const PageFile> page_files() { return kPageFiles; }", "",
             "}  // namespace partita::api", ""]
    return "\n".join(text)


def main(folder, output):
    rows = sorted(files(folder))
    size = sum(len(data) for _, _, data in rows)
    if size > LIMIT:
        sys.exit(f"{folder}: {size} bytes compressed; {LIMIT} are the limit")
    if not rows or rows[0][0] != "/":
        sys.exit(f"{folder}: no index.html")
    pathlib.Path(output).write_text(source(rows))
    print(f"{len(rows)} files, {size} bytes compressed")


if __name__ == "__main__":
    main(*sys.argv[1:])
