"""The API of an agent (docs/api.md): a method per operation of its OpenAPI document."""

import http.client
import json
import os
import random
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, cast

from partita._library import PartitaError
from partita._reading import Input
from partita.agent_documents import (AgentBatch, AgentBatches, AgentChange, AgentState, Health,
                                     History, Latest, Lease, Leases, NodeState, Receipt, Series,
                                     Version)
from partita.documents import ServingPlan

Mode = Literal["automatic", "approve", "observe"]

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


def _text(value: Input, what: str) -> bytes:
    """A file, a text, or a document."""
    if isinstance(value, os.PathLike):
        with open(value, "rb") as file:
            return file.read()
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (Mapping, list)):
        return json.dumps(value).encode()
    raise TypeError(f"{what}: a path, a text or a document is wanted, not {type(value).__name__}")


def _refused(status: int, body: bytes) -> ApiError:
    try:
        said = json.loads(body)
        return ApiError(status, str(said["code"]), str(said["message"]), str(said["where"]))
    except (ValueError, KeyError, TypeError):
        return ApiError(status, "unknown", f"the server answered with status {status}")


class Client:
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

    # ---- what the agent knows ----

    def health(self) -> Health:
        """Whether the agent answers, and whether the node is as planned."""
        return cast(Health, self._json("GET", "/v1/health"))

    def version(self) -> Version:
        """Which program this is."""
        return cast(Version, self._json("GET", "/v1/version"))

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI 3.1 document of the API."""
        return cast(dict[str, Any], self._json("GET", "/v1/openapi.json"))

    def metrics(self) -> str:
        """Numbers for Prometheus, as text."""
        return self._call("GET", "/metrics").decode()

    def state(self, *, whole: bool | None = None) -> AgentState:
        """What the agent knows and is doing: `partita agent`. Of a large node without the parts
        named in `left_out`, which node(), plan() and change() give; all of them with `whole`."""
        return cast(AgentState, self._json("GET", "/v1/state", whole=whole))

    def node(self) -> NodeState:
        """The GPUs and instances as read last: `partita status`."""
        return cast(NodeState, self._json("GET", "/v1/node"))

    def plan(self) -> ServingPlan:
        """The plan in force; ApiError 404: none."""
        return cast(ServingPlan, self._json("GET", "/v1/plan"))

    def services(self) -> str:
        """The services file that is wanted, as text."""
        return self._call("GET", "/v1/services").decode()

    def history(self, *, most: int | None = None, before: int | None = None,
                after: int | None = None, change: int | None = None, subject: str | None = None,
                user: str | None = None, kind: str | None = None, from_ms: int | None = None,
                to_ms: int | None = None, documents: bool | None = None) -> History:
        """What happened, newest first; with `change` the story of one, as `partita explain` tells
        it."""
        return cast(History, self._json("GET", "/v1/history", most=most, before=before, after=after,
                                        change=change, subject=subject, user=user, kind=kind,
                                        from_ms=from_ms, to_ms=to_ms, documents=documents))

    def history_event(self, id: int) -> History:
        """One event."""
        return cast(History, self._json("GET", f"/v1/history/{int(id)}"))

    def series(self, metric: str, *, subject: str | None = None, from_ms: int | None = None,
               to_ms: int | None = None, most: int | None = None) -> Series:
        """One metric over time: rate_rps, planned_rps, p99_ms, attainment, watts ..."""
        return cast(Series, self._json("GET", "/v1/series", metric=metric, subject=subject,
                                       from_ms=from_ms, to_ms=to_ms, most=most))

    def latest(self) -> Latest:
        """The newest value of every metric."""
        return cast(Latest, self._json("GET", "/v1/latest"))

    # ---- what is asked of it ----

    def set_services(self, services: Input) -> Receipt:
        """Replaces the services that are wanted: `partita apply`."""
        return self._ask("PUT", "/v1/services", _text(services, "services"), "application/yaml")

    def set_plan(self, plan: Input) -> Receipt:
        """Makes this plan, once the judge lets it pass for the services that are wanted; else
        ApiError 409 says why. The agent plans again when rates, services or GPUs change."""
        return self._ask("PUT", "/v1/plan", _text(plan, "plan"))

    def preview(self, services: Input) -> AgentChange:
        """The change that these services, or this plan, would lead to; nothing is changed."""
        return cast(AgentChange, json.loads(self._call(
            "POST", "/v1/preview", _text(services, "services"), "application/yaml")))

    def rollback(self) -> Receipt:
        """Back to what was before the last change; from then on changes wait for approval."""
        return self._ask("POST", "/v1/rollback")

    def replan(self) -> Receipt:
        """Looks and plans now."""
        return self._ask("POST", "/v1/replan")

    def set_mode(self, mode: Mode) -> Receipt:
        """How changes come about: automatic, approve or observe."""
        return self._ask("PUT", "/v1/mode", json.dumps({"mode": mode}).encode())

    def take_out(self, uuid: str, why: str = "") -> Receipt:
        """Moves the services of a GPU elsewhere and leaves it empty: `partita drain`."""
        return self._ask("POST", f"/v1/gpus/{_part(uuid)}/take-out", _why(why))

    def give_back(self, uuid: str) -> Receipt:
        """Uses a GPU again that was taken out."""
        return self._ask("POST", f"/v1/gpus/{_part(uuid)}/give-back")

    def submit_tasks(self, tasks: Input) -> Receipt:
        """A batch of tasks for the GPUs that are the batch's."""
        return self._ask("POST", "/v1/batch/tasks", _text(tasks, "tasks"), "text/csv")

    # ---- batches ----

    def batches(self) -> AgentBatches:
        """The batches that are not over, and the newest others; at most 500 of their tasks."""
        return cast(AgentBatches, self._json("GET", "/v1/batch"))

    def batch(self, number: int) -> AgentBatch:
        """A batch with its tasks; ApiError 404: not known, or not any more."""
        return cast(AgentBatch, self._json("GET", f"/v1/batch/{int(number)}"))

    def cancel_batch(self, number: int, why: str = "") -> Receipt:
        """Stops what runs of a batch; the rest of it never begins. Again: nothing more."""
        return self._ask("POST", f"/v1/batch/{int(number)}/cancel", _why(why))

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
        return cast(Lease, json.loads(self._call("POST", "/v1/leases", json.dumps(body).encode())))

    def return_lease(self, owner: str) -> Leases:
        """Gives back what `owner` and its parts hold; nothing is no error. ApiError 409: in use."""
        return cast(Leases, json.loads(self._call(
            "DELETE", "/v1/leases?" + urllib.parse.urlencode({"owner": owner}))))

    def leases(self) -> Leases:
        """What is lent, and to whom."""
        return cast(Leases, self._json("GET", "/v1/leases"))

    # ---- changes ----

    def current_change(self) -> AgentChange:
        """The change that is proposed or under way; ApiError 404: none."""
        return cast(AgentChange, self._json("GET", "/v1/changes/current"))

    def change(self, number: int) -> AgentChange:
        """A change, however old."""
        return cast(AgentChange, self._json("GET", f"/v1/changes/{int(number)}"))

    def approve(self, number: int, why: str = "") -> Receipt:
        """Lets a proposed change happen."""
        return self._ask("POST", f"/v1/changes/{int(number)}/approve", _why(why))

    def reject(self, number: int, why: str = "") -> Receipt:
        """Keeps a proposed change from happening."""
        return self._ask("POST", f"/v1/changes/{int(number)}/reject", _why(why))

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

    def _json(self, verb: str, path: str, **query: Any) -> Any:
        words = {key: str(value).lower() if isinstance(value, bool) else value
                 for key, value in query.items() if value is not None}
        return json.loads(self._call(
            verb, path + ("?" + urllib.parse.urlencode(words) if words else "")))

    def _ask(self, verb: str, path: str, body: bytes = b"", media: str = "") -> Receipt:
        return cast(Receipt, json.loads(self._call(verb, path, body, media)))

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


def _part(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _why(why: str) -> bytes:
    return json.dumps({"why": why}).encode() if why else b""


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
