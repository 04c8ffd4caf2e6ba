#!/usr/bin/env python3
"""Writes two modules of the Python package: documents.py, a TypedDict per document, from JSON
Schemas; agent_documents.py, types and operations, from the OpenAPI document of an agent.

usage: make_python_types.py DOCUMENTS.json FOLDER
DOCUMENTS.json: {"openapi": DOCUMENT, "schemas": {KIND: SCHEMA, ...}} (python/documents.cc)
"""
import json
import keyword
import pathlib
import sys
import textwrap

KINDS = ("BatchReport", "BatchSchedule", "Refusal", "ServingPlan", "ServingReport", "Verdict")
HEAD = '''"""The documents as types: what their JSON Schemas say. Written by
tools/make_python_types.py."""

from typing import Any, Literal, NotRequired, TypedDict

'''
API_HEAD = '''"""The documents and operations of an agent's API, as its OpenAPI document says.
Written by tools/make_python_types.py."""

import json
import urllib.parse
from typing import Any, Literal, NotRequired, TypedDict, cast

from partita._reading import Input
from partita.documents import ServingPlan

'''
OPERATIONS = '''

def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")


class Operations:
    """A method per operation; how they are sent is for `Client` to say."""

    def _send(self, verb: str, path: str, body: Input | None = None, media: str = "",
              **query: Any) -> bytes:
        raise NotImplementedError
'''
BODIES = {"application/yaml": "services", "text/csv": "tasks", "ServingPlan": "plan",
          "QueueSubmission": "submission"}
BY_HAND = ("events", "take_lease")  # a stream; a body of many words
REFERENCE = "#/components/schemas/"
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

    def __init__(self, known=()):
        self.classes = {}
        self.known = set(known)  # documents that are types elsewhere
        self.made = {}           # classes by what they say, where the same may be said twice

    def of(self, schema, name):
        """The type of a value; a class of that name where it is an object with known keys."""
        if "$ref" in schema:
            return schema["$ref"].removeprefix(REFERENCE)
        document = schema.get("properties", {}).get("kind", {}).get("const")
        if document in self.known:
            return document
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
            said = json.dumps({**schema, "description": ""}, sort_keys=True)
            if self.known and said in self.made:
                return self.made[said]
            self.made[said] = name
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
        if any(keyword.iskeyword(key) for key in schema["properties"]):
            lines = [line if line.startswith("    #") else
                     '    "' + line.lstrip().replace(": ", '": ', 1).replace("\n", ",\n")
                     for line in lines]
            self.classes[name] = (f'{name} = TypedDict("{name}", {{\n' + "".join(lines) + "})\n")
            return
        self.classes[name] = f"class {name}(TypedDict):\n" + "".join(lines)


def text(schemas):
    types = Types()
    for kind in KINDS:
        types.add(schemas[kind], kind)
    return HEAD + "".join(f"\n{one}\n" for one in types.classes.values()).rstrip("\n") + "\n"


def types_text(document):
    """The types of an OpenAPI document's schemas, those that others name first."""
    schemas = document["components"]["schemas"]
    types = Types(known=("ServingPlan",))

    def add(name):
        if name in types.classes or name in types.known:
            return
        for other in schemas:
            if other != name and f'"{REFERENCE}{other}"' in json.dumps(schemas[name]):
                add(other)
        types.add(schemas[name], name)

    for name in schemas:
        add(name)
    return API_HEAD + "".join(f"\n{one}\n" for one in types.classes.values()).rstrip("\n") + "\n"


def body_of(operation):
    """Parameter, argument and media type of a body; none: three times nothing."""
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"].get("$ref", "").removeprefix(REFERENCE) or media
        if schema == "Why":
            return 'why: str = ""', '{"why": why} if why else None', ""
        if schema == "ModeWanted":
            return 'mode: Literal["automatic", "approve", "observe"]', '{"mode": mode}', ""
        name = BODIES[schema]
        return f"{name}: Input", name, media if media != "application/json" else ""
    return "", "", ""


def takes_of(operation):
    """The parameters of a method: of the path, the body, what the query must have, the rest."""
    def word(one):
        schema = one["schema"]
        words = schema.get("enum")
        return "bool" if words == ["true", "false"] else "str" if words else WORDS[schema["type"]]
    at = {"path": [], "must": [], "may": []}
    for one in operation["parameters"]:
        if one["in"] == "path":
            at["path"].append(f"{one['name']}: {word(one)}")
        elif one["required"]:
            at["must"].append(f"{one['name']}: {word(one)}")
        else:
            at["may"].append(f"{one['name']}: {word(one)} | None = None")
    body = body_of(operation)[0]
    takes = ["self"] + at["path"] + at["must"] + ([body] if body else [])
    return takes + (["*"] + at["may"] if at["may"] else [])


def method(verb, path, operation):
    name = operation["operationId"]
    answer = next(content for code, content in operation["responses"].items()
                  if code.startswith("2"))["content"]
    media, content = next(iter(answer.items()))
    said = content["schema"].get("$ref", "").removeprefix(REFERENCE)
    result = said or ("dict[str, Any]" if media == "application/json" else "str")
    head = f"    def {name}("
    # A line may end within the parentheses only.
    lines = [textwrap.fill(", ".join(takes_of(operation)) + f")\u00a0->\u00a0{result}:", 100,
                           initial_indent=head, subsequent_indent=" " * len(head),
                           break_long_words=False, break_on_hyphens=False).replace("\u00a0", " ")]
    lines.append(textwrap.fill(f'"""{operation["summary"]}."""', 100, initial_indent=" " * 8,
                               subsequent_indent=" " * 8))
    where = path
    for one in operation["parameters"]:
        if one["in"] == "path":
            whole = one["schema"]["type"] == "integer"
            part = f"int({one['name']})" if whole else f"_quoted({one['name']})"
            where = where.replace("{" + one["name"] + "}", "{" + part + "}")
    words = [f'"{verb.upper()}"', ("f" if where != path else "") + f'"{where}"']
    _, body, media = body_of(operation)
    words += [body] * bool(body) + [f'"{media}"'] * bool(media)
    words += [f"{one['name']}={one['name']}" for one in operation["parameters"]
              if one["in"] == "query"]
    call = f"self._send({', '.join(words)})"
    call = f"{call}.decode()" if result == "str" else f"cast({result}, json.loads({call}))"
    lines.append(textwrap.fill(f"return {call}", 100, initial_indent=" " * 8,
                               subsequent_indent=" " * 12, break_long_words=False,
                               break_on_hyphens=False))
    return "\n" + "\n".join(lines) + "\n"


def api_text(document):
    """The types and a method per operation of an OpenAPI document."""
    return types_text(document) + OPERATIONS + "".join(
        method(verb, path, operation)
        for path, verbs in document["paths"].items() for verb, operation in verbs.items()
        if operation["operationId"] not in BY_HAND)


def main(given, folder):
    document = json.loads(pathlib.Path(given).read_text("utf-8"))
    for name, said in (("documents.py", text(document["schemas"])),
                       ("agent_documents.py", api_text(document["openapi"]))):
        pathlib.Path(folder, name).write_text(said, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
