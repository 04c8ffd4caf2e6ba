"""Inputs as people have them, and documents as files."""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Union

Input = Union[str, "os.PathLike[str]", Mapping[str, Any], list[Any]]


class Inputs:
    """The texts of a call, each under the name that its option gets."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.options: dict[str, Any] = {}

    def add(self, option: str, value: Input | None, suffix: str) -> None:
        """A path is read by the library, which also finds what it names beside it; a text or a
        document is given."""
        if value is None:
            return
        if isinstance(value, os.PathLike):
            self.options[option] = os.fspath(value)
            return
        name = f"<{option}>{suffix if isinstance(value, str) else '.json'}"
        text = value if isinstance(value, str) else json.dumps(value)
        self.files[name] = text.encode()
        self.options[option] = name

    def set(self, **options: Any) -> None:
        """Options that are no files; None leaves one out."""
        self.options.update({key: value for key, value in options.items() if value is not None})


def read(path: "str | os.PathLike[str]", kind: str | None = None) -> dict[str, Any]:
    """A JSON document from a file. With `kind` any other kind is refused (ValueError)."""
    document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    if not isinstance(document, dict) or document.get("api_version") != "partita/v1":
        raise ValueError(f"{path}: no document of partita/v1")
    if kind is not None and document.get("kind") != kind:
        raise ValueError(f"{path}: kind {document.get('kind')!r}, wanted {kind!r}")
    return document


def write(path: "str | os.PathLike[str]", document: Mapping[str, Any]) -> None:
    """A document as a file that commands of partita read: old or new content, never a mix."""
    target = pathlib.Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
