"""The API of an agent (docs/api.md): how the operations of agent_documents.py are sent, waiting
for changes, and the stream of states."""

import http.client
import json
import os
import random
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from partita._library import PartitaError
from partita._reading import Input
from partita.agent_documents import AgentChange, AgentState, Lease, Operations

MOST_ANSWER = 256 << 20  # bytes, of an answer and of a line of the stream
SILENCE_S = 45.0         # the stream says something every 15 s
LEAST_WAIT_S, MOST_WAIT_S = 0.5, 15.0
ENDED = ("succeeded", "failed", "rejected")


class ApiError(PartitaError):
    """What the server refused: `status` of HTTP, `code`, `message`, `context` (FILE:LINE of what
    was sent, or a parameter)."""

    def __init__(self, status: int, code: str, message: str, context: str = "") -> None:
        super().__init__(code, message, context)
        self.status = status


class NoAnswer(PartitaError):
    """There was no answer: nobody listens there, TLS was refused, or it took too long. Whether the
    agent has heard the request is not known."""

    def __init__(self, message: str, context: str) -> None:
        super().__init__("no_answer", message, context)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """To the socket; closed again where nobody listens."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except OSError:
            self.close()
            raise


def _text(value: Input) -> bytes:
    """A file, a text, or a document."""
    if isinstance(value, os.PathLike):
        with open(value, "rb") as file:
            return file.read()
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (Mapping, list)):
        return json.dumps(value).encode()
    raise TypeError(f"a path, a text or a document is wanted, not {type(value).__name__}")


def _refused(status: int, body: bytes) -> ApiError:
    try:
        said = json.loads(body)
        return ApiError(status, str(said["code"]), str(said["message"]), str(said["where"]))
    except (ValueError, KeyError, TypeError):
        return ApiError(status, "unknown", f"the server answered with status {status}")


class Client(Operations):
    """Calls the API of an agent, from any thread: a connection a call.

    `server` is unix:/run/partita/api.sock, http://HOST:PORT or https://HOST:PORT. `token` goes with
    every call (without one: the variable PARTITA_TOKEN), never in the clear to another machine.
    `ca_file` are certificates to trust instead of the system's; `certificate` and `key` are shown
    to the server. Services and tasks are given as a path, a text, or a document.

    ApiError: the server refused. NoAnswer: there was no answer."""

    def __init__(self, server: str = "unix:/run/partita/api.sock", *, token: str | None = None,
                 ca_file: "str | os.PathLike[str] | None" = None,
                 certificate: "str | os.PathLike[str] | None" = None,
                 key: "str | os.PathLike[str] | None" = None, timeout_s: float = 150.0) -> None:
        self.server = server
        self._timeout_s = timeout_s
        self._token = os.environ.get("PARTITA_TOKEN", "") if token is None else token
        self._tls: ssl.SSLContext | None = None
        self._path = self._host = self._prefix = ""
        if any(not "!" <= character <= "~" for character in self._token):
            raise ValueError("a token is one word of visible ASCII characters")
        if server.startswith("unix:"):
            self._path = server.removeprefix("unix:")
            if not self._path.startswith("/"):
                raise ValueError(f"{server}: unix: is followed by a path that begins with /")
            return
        url = urllib.parse.urlsplit(server)
        odd = url.query or url.fragment or "@" in url.netloc
        if url.scheme not in ("http", "https") or not url.hostname or odd:
            raise ValueError(
                f"{server}: unix:/PATH, http://HOST:PORT or https://HOST:PORT is wanted")
        self._host, self._prefix = url.netloc, url.path.rstrip("/")
        if url.scheme == "https":
            self._tls = ssl.create_default_context(
                cafile=None if ca_file is None else os.fspath(ca_file))
            if certificate is not None:
                self._tls.load_cert_chain(certificate, key)
        elif self._token and not (url.hostname in ("localhost", "::1")
                                  or url.hostname.startswith("127.")):
            raise ValueError(
                f"{server}: a token is not sent over a network in the clear: use https://")

    # ---- leases ----

    def take_lease(self, owner: str, profile: str = "", *, gpu: int | None = None,
                   start: int | None = None, exact: bool = False, ttl_s: float | None = None,
                   while_pid: int | None = None, take_over: str = "") -> Lease:
        """An instance for `owner`; once more: the same. With `take_over` that of another owner, as
        it is. ApiError 409: no room, or the owner holds another shape: `partita lease`."""
        wanted = {"owner": owner, "profile": profile or None, "gpu": gpu, "start": start,
                  "exact": exact or None, "ttl_s": ttl_s, "while_pid": while_pid,
                  "from": take_over or None}
        body = {key: value for key, value in wanted.items() if value is not None}
        return cast(Lease, json.loads(self._send("POST", "/v1/leases", body)))

    # ---- changes ----

    def wait_for(self, number: int, *, timeout_s: float = 600.0) -> AgentChange:
        """The change once it has ended (succeeded, failed, rejected); TimeoutError: it has not.
        An agent that does not answer in between is asked again."""
        end = time.monotonic() + timeout_s
        wait = 0.1
        while True:
            try:
                change = self.change(number)
                if change["state"] in ENDED:
                    return change
            except NoAnswer:
                if time.monotonic() >= end:
                    raise
            if time.monotonic() >= end:
                raise TimeoutError(f"change {number} has not ended within {timeout_s:g} s")
            time.sleep(min(wait, max(0.0, end - time.monotonic())))
            wait = min(2.0, wait * 1.5)

    # ---- live state ----

    def events(self, *, reconnect: bool = True,
               on_lost: Callable[[PartitaError, float], None] | None = None
               ) -> Iterator[AgentState]:
        """The state, at once and then whenever it has changed; ends when the caller stops.

        A stream that breaks is opened again, after 0.5 s, 1 s ... 15 s; `on_lost` is told why and
        how long it waits. The state is not given twice. Who may not read it gets ApiError. Without
        `reconnect` the end of the stream is NoAnswer."""
        last, wait = "", LEAST_WAIT_S
        while True:
            try:
                for name, identity, data in self._stream(last):
                    wait = LEAST_WAIT_S
                    last = identity or last
                    if name == "state":
                        yield cast(AgentState, json.loads(data))
                lost: PartitaError = NoAnswer("the stream has ended", self.server)
            except NoAnswer as error:
                lost = error
            except ApiError as error:
                if error.status not in (429, 500, 503):
                    raise
                lost = error
            if not reconnect:
                raise lost
            pause = wait * random.uniform(0.75, 1.25)
            if on_lost is not None:
                on_lost(lost, pause)
            time.sleep(pause)
            wait = min(MOST_WAIT_S, wait * 2)

    # ---- how ----

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._path:
            return _UnixConnection(self._path, timeout_s)
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, timeout=timeout_s, context=self._tls)
        return http.client.HTTPConnection(self._host, timeout=timeout_s)

    def _open(self, connection: http.client.HTTPConnection, verb: str, path: str,
              body: bytes | None, headers: dict[str, str]) -> http.client.HTTPResponse:
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        connection.request(verb, self._prefix + path, body, headers)
        return connection.getresponse()

    def _call(self, verb: str, path: str, body: bytes | None = None, media: str = "") -> bytes:
        headers = {"Connection": "close"}
        if verb != "GET":
            body = body or b""
            headers["Content-Type"] = media or "application/json"
        connection = self._connection(self._timeout_s)
        try:
            response = self._open(connection, verb, path, body, headers)
            said = response.read(MOST_ANSWER + 1)
            if len(said) > MOST_ANSWER:
                raise NoAnswer(f"the answer is longer than {MOST_ANSWER} bytes", self.server)
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(str(error) or type(error).__name__, self.server) from error
        finally:
            connection.close()
        if 200 <= response.status < 300:
            return said
        raise _refused(response.status, said)

    def _send(self, verb: str, path: str, body: Input | None = None, media: str = "",
              **query: Any) -> bytes:
        words = {key: str(value).lower() if isinstance(value, bool) else value
                 for key, value in query.items() if value is not None}
        return self._call(verb, path + ("?" + urllib.parse.urlencode(words) if words else ""),
                          None if body is None else _text(body), media)

    def _stream(self, last: str) -> Iterator[tuple[str, str, str]]:
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last:
            headers["Last-Event-ID"] = last
        connection = self._connection(SILENCE_S)
        try:
            response = self._open(connection, "GET", "/v1/events", None, headers)
            if response.status != 200:
                raise _refused(response.status, response.read(1 << 20))
            yield from _events(response)
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(str(error) or type(error).__name__, self.server) from error
        finally:
            connection.close()


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, str, str]]:
    """Name, id and data of every event of a stream. One that is cut off is none."""
    name, identity, data = "message", "", list[str]()
    while line := response.readline(MOST_ANSWER):
        if not line.endswith(b"\n"):
            return
        text = line.decode().rstrip("\r\n")
        if not text:
            if data:
                yield name, identity, "\n".join(data)
            name, identity, data = "message", "", []
            continue
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "id":
            identity = value
