#!/usr/bin/env python3
"""Writes python/partita/documents.py: a TypedDict per document, from libpartita's JSON Schemas.

usage: PARTITA_LIBRARY=build/release/libpartita.so.0 tools/make_python_types.py [OUTPUT]
"""
import pathlib
import runpy
import sys
import textwrap

SOURCE = pathlib.Path(__file__).resolve().parent.parent
KINDS = ("BatchReport", "BatchSchedule", "Refusal", "ServingPlan", "ServingReport", "Verdict")
HEAD = '''"""The documents as types: what their JSON Schemas say. Written by
tools/make_python_types.py, and compared with the library by a test."""

from typing import Any, Literal, NotRequired, TypedDict

'''
WORDS = {"number": "float", "integer": "int", "string": "str", "boolean": "bool",
         "null": "None"}


def camel(key):
    return "".join(part.capitalize() for part in key.split("_"))


def wrapped(line):
    """A list of words in several lines, where it is long."""
    if len(line) <= 100 or "Literal[" not in line:
        return line
    head, words = line.split("Literal[", 1)
    body = textwrap.fill(words, 92, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return f"{head}Literal[\n{body}\n"


class Types:
    """Classes in the order in which they are needed."""

    def __init__(self):
        self.classes = {}

    def of(self, schema, name):
        """The type of a value; a class of that name where it is an object with known keys."""
        if "const" in schema:
            return f"Literal[{schema['const']!r}]".replace("'", '"')
        if "enum" in schema:
            words = ", ".join(repr(word).replace("'", '"') for word in schema["enum"])
            return f"Literal[{words}]"
        kind = schema.get("type")
        if isinstance(kind, list):
            return " | ".join(self.of({**schema, "type": one}, name) for one in kind)
        if kind == "array":
            return f"list[{self.of(schema.get('items', {}), name)}]"
        if kind == "object" and schema.get("properties"):
            self.add(schema, name)
            return name
        return WORDS.get(kind, "dict[str, Any]" if kind == "object" else "Any")

    def add(self, schema, name):
        required = set(schema.get("required", ()))
        lines = []
        for key, value in schema["properties"].items():
            said = self.of(value, name + camel(key))
            said = said if key in required else f"NotRequired[{said}]"
            about = value.get("description")
            lines += [f"    # {line}\n" for line in textwrap.wrap(about or "", 94)]
            lines.append(wrapped(f"    {key}: {said}\n"))
        self.classes[name] = f"class {name}(TypedDict):\n" + "".join(lines)


def text(schema_of):
    types = Types()
    for kind in KINDS:
        types.add(schema_of(kind), kind)
    return HEAD + "".join(f"\n{one}\n" for one in types.classes.values()).rstrip("\n") + "\n"


def main(output=SOURCE / "python/partita/documents.py"):
    library = runpy.run_path(str(SOURCE / "python/partita/_library.py"))
    said = text(lambda kind: library["call"]("schema", {"kind": kind}, {}))
    pathlib.Path(output).write_text(said, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
