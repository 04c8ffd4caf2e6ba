"""Task graphs (docs/graphs.md), run by the program `partita`: a kernel that goes wrong ends that
one, not this process. Buffers go there and come back through files of a temporary folder."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, cast

from partita._library import BadInput, PartitaError
from partita._reading import Input
from partita.documents import GraphRun

PROGRAM = "PARTITA"


class KernelFault(PartitaError):
    """A kernel of a graph did what it must not; the message is the fault, with its task."""


def _refused(status: int, said: str) -> PartitaError:
    lines = said.strip().removeprefix("partita: ")
    if status < 0:
        lines = f"{lines}\nthe program ended by signal {-status}".strip()
    if status == 2:
        return BadInput("bad_input", lines)
    return KernelFault("fault", lines) if status == 1 else PartitaError("environment", lines)


def run_graph(graph: Input, *, buffers: Mapping[str, Any] | None = None, gpu: str | None = None,
              policy: str | None = None, overlap_limit: int | None = None,
              threads: int | None = None, waits: str | None = None, sequential: bool = False,
              compare: bool = False, lane_driver: str | None = None, device: str | None = None,
              library: "str | os.PathLike[str] | None" = None, atom: int | None = None,
              program: "str | os.PathLike[str] | None" = None) -> GraphRun:
    """Runs a graph on threads of this machine or, with a `lane_driver`, on a GPU; says what ran
    when on which units.

    `buffers` by name are bytes, array.array, numpy arrays or whatever else has the buffer protocol
    and holds as many bytes as the graph says, in one piece. They are what the graph's buffers hold
    at the begin; those that can be written hold afterwards what the kernels left there.
    Paths in a graph that is a text or a dict are relative to the current folder. `program` is
    `partita`, by default that of the environment variable PARTITA, else of the PATH."""
    command = [os.fspath(program or os.environ.get(PROGRAM) or "partita"), "graph", "run",
               "--format", "json"]
    path = os.fspath(graph) if isinstance(graph, os.PathLike) else "-"
    text = "" if path != "-" else graph if isinstance(graph, str) else json.dumps(graph)
    for name, value in {"gpu": gpu, "policy": policy, "overlap-limit": overlap_limit,
                        "threads": threads, "waits": waits, "lane-driver": lane_driver,
                        "device": device, "library": library, "atom": atom}.items():
        command += [] if value is None else [f"--{name}", str(value)]
    command += ["--sequential"] * sequential + ["--compare"] * compare
    views = {name: memoryview(value).cast("B") for name, value in (buffers or {}).items()}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: pathlib.Path(folder, str(i)) for i, name in enumerate(views)}
        for name, view in views.items():
            files[name].write_bytes(view)
            command += ["--fill", f"{name}={files[name]}"]
            command += [] if view.readonly else ["--save", f"{name}={files[name]}"]
        done = subprocess.run([*command, path], input=cast(str, text), capture_output=True,
                              check=False, text=True)
        if done.returncode != 0:
            raise _refused(done.returncode, done.stderr)
        sys.stderr.write(done.stderr)  # what kernels print
        for name, view in views.items():
            if not view.readonly:
                view[:] = files[name].read_bytes()
    return cast(GraphRun, json.loads(done.stdout))
