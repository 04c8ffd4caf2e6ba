"""libpartita through ctypes: finds it, calls it, turns its errors into exceptions."""

import ctypes
import functools
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

NAME = "libpartita.so.0"
VARIABLE = "PARTITA_LIBRARY"


class PartitaError(Exception):
    """What the library refused. `code` is its word for it, `context` FILE:LINE or an option."""

    def __init__(self, code: str, message: str, context: str = "") -> None:
        super().__init__(f"{context}: {message}" if context else message)
        self.code = code
        self.message = message
        self.context = context


class BadInput(PartitaError):
    """An input or an option is wrong."""


class Infeasible(PartitaError):
    """There is no such plan or schedule. `reasons` are those of the document Refusal."""

    def __init__(self, reasons: list[Any]) -> None:
        said = "; ".join(
            f"{one['subject']}: {one['constraint']}: have {one['have']}, need {one['need']}"
            + (f" ({one['detail']})" if one["detail"] else "") for one in reasons)
        super().__init__("infeasible", said or "infeasible")
        self.reasons = reasons


class _File(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("text", ctypes.c_char_p), ("size", ctypes.c_size_t)]


@functools.cache
def _library() -> ctypes.CDLL:
    beside = pathlib.Path(__file__).with_name(NAME)
    said = os.environ.get(VARIABLE)
    library = ctypes.CDLL(said or (str(beside) if beside.exists() else NAME))
    library.partita_version.restype = ctypes.c_char_p
    library.partita_call.restype = ctypes.c_void_p
    library.partita_call.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_File),
                                     ctypes.c_size_t]
    library.partita_free.argtypes = [ctypes.c_void_p]
    return library


def version() -> str:
    """The version of the library."""
    said: bytes = _library().partita_version()
    return said.decode()


def call(function: str, options: Mapping[str, Any], files: Mapping[str, bytes]) -> Any:
    """The document that a function answers."""
    library = _library()
    given = (_File * len(files))(*(_File(name.encode(), text, len(text))
                                   for name, text in files.items()))
    text = json.dumps(dict(options)).encode()
    pointer = library.partita_call(function.encode(), text, given, len(files))
    if not pointer:
        raise MemoryError("libpartita ran out of memory")
    try:
        answer = json.loads(ctypes.string_at(pointer))
    finally:
        library.partita_free(pointer)
    if "error" not in answer:
        return answer["answer"]
    error = answer["error"]
    kind = BadInput if error["code"] == "bad_input" else PartitaError
    raise kind(error["code"], error["message"], error["context"])
