"""A kubelet and an API server of Kubernetes, as little of them as `partita dra` needs: a caller of
its gRPC sockets, and objects with versions, conflicts, and watches that end and grow too old."""

import http.server
import json
import socket
import struct
import threading
import time
import urllib.parse

from servers import Answers

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
DRIVER = "partita.gpu"


# ---- protobuf and gRPC, as little as the kubelet needs of it

def field(number, value):
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def fields(data):
    """[(number, bytes or int)] of a message."""
    at, out = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            out.append((tag >> 3, number()))
            continue
        assert tag & 7 == 2, tag
        size = number()
        out.append((tag >> 3, data[at:at + size]))
        at += size
    return out


def call(path, method, message, timeout=30):
    """One unary call over HTTP/2 on a Unix socket; the answer's message, or None: it has none."""
    def frame(kind, flags, stream, payload=b""):
        return (struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
                + struct.pack(">I", stream) + payload)

    def header(name, value):
        name, value = name.encode(), value.encode()
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value  # below 127

    heads = b"".join(header(*one) for one in (
        (":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost"),
        ("content-type", "application/grpc"), ("te", "trailers")))
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(timeout)
        link.connect(path)
        link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(1, 4, 1, heads)
                     + frame(0, 1, 1, b"\x00" + struct.pack(">I", len(message)) + message))
        data, begun = b"", b""
        while True:
            while len(begun) < 9:
                begun += receive(link)
            size = int.from_bytes(begun[:3], "big")
            while len(begun) < 9 + size:
                begun += receive(link)
            kind, flags, payload = begun[3], begun[4], begun[9:9 + size]
            begun = begun[9 + size:]
            if kind == 0:
                data += payload
            if kind == 4 and not flags & 1:
                link.sendall(frame(4, 1, 0))
            if kind == 6 and not flags & 1:
                link.sendall(frame(6, 1, 0, payload))
            if kind in (3, 7) or (kind in (0, 1) and flags & 1):
                return data[5:] if len(data) >= 5 else None


def receive(link):
    data = link.recv(65536)
    if not data:
        raise ConnectionError("the plugin has closed the connection")
    return data


# ---- an API server: objects, versions, conflicts, watches that end and grow too old

class ApiServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Condition()
        self.version = 100
        self.published = 0  # changes of slices
        self.slices, self.claims, self.events = {}, {}, []
        self.conflicts = self.gone = 0  # how often to answer so
        self.down_until = self.restarts = 0
        self.node_status, self.node_uid = 200, "node-uid-1"  # of every node
        self.seen, self.used = [], set()  # used: (verb, resource), as rules of access name them
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A plugin that is killed breaks its connections."""

    def restart(self, seconds):
        """Connections break, and nobody answers for so long."""
        with self.lock:
            self.restarts += 1
            self.down_until = time.monotonic() + seconds
            self.lock.notify_all()

    def happened(self, kind, claim):
        """An event of watches; those from before the last thousand are too old."""
        self.events.append((self.version, kind, claim))
        del self.events[:-1000]
        self.lock.notify_all()

    def next(self):
        self.version += 1
        return str(self.version)

    def put_claim(self, name, uid, devices, parameters=(), source="FromClaim", pods=()):
        with self.lock:
            claim = {"metadata": {"namespace": "ml", "name": name, "uid": uid,
                                  "resourceVersion": self.next(),
                                  "annotations": {"kubectl": "{\"a\":\n1}"}},
                     "status": {"reservedFor": [{"resource": "pods", "name": pod, "uid": of}
                                                for pod, of in pods],
                                "allocation": {"devices": {
                         "results": [{"request": "mig", "driver": DRIVER, "pool": pool,
                                      "device": device} for pool, device in devices],
                         "config": [{"source": source,
                                     "opaque": {"driver": DRIVER, "parameters": one}}
                                    for one in parameters]}}}}
            new = uid not in self.claims
            self.claims[uid] = claim
            self.happened("ADDED" if new else "MODIFIED", claim)

    def drop_claim(self, uid):
        with self.lock:
            claim = self.claims.pop(uid)
            self.next()
            self.happened("DELETED", claim)

    def pool(self):
        """Devices in the scheduler's order, and counters, of the newest pool; None: incomplete."""
        with self.lock:
            slices = [self.slices[name]["spec"] for name in sorted(self.slices)]
        if not slices:
            return None
        newest = max(one["pool"]["generation"] for one in slices)
        slices = [one for one in slices if one["pool"]["generation"] == newest]
        if len(slices) != slices[0]["pool"]["resourceSliceCount"]:
            return None
        return ([device for one in slices for device in one.get("devices", [])],
                {these["name"]: {name: int(of["value"]) for name, of in these["counters"].items()}
                 for one in slices for these in one.get("sharedCounters", [])})


class Handler(Answers):
    protocol_version = "HTTP/1.1"

    def parse_request(self):
        return time.monotonic() >= self.server.down_until and super().parse_request()

    def do_GET(self):
        server, url = self.server, urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        name = url.path.rsplit("/", 1)[1]
        plural = name if name.startswith("resource") else url.path.rsplit("/", 2)[1]
        server.used.add(("watch" if "watch" in query else "list" if name == plural else "get",
                         plural))
        if plural == "nodes":
            meta = {"name": name, "uid": server.node_uid}
            return self.answer(server.node_status, {"metadata": meta} if server.node_status == 200
                               else {"kind": "Status"})
        if "watch" in query:
            return self.watch(int(query["resourceVersion"]))
        with server.lock:
            meta = {"resourceVersion": str(server.version)}
            if url.path == SLICES:
                return self.answer(200, {"metadata": meta, "items": [*server.slices.values()]})
            if url.path == CLAIMS:
                return self.answer(200, {"metadata": meta, "items": [*server.claims.values()]})
            for claim in server.claims.values():
                if url.path.endswith("/namespaces/ml/resourceclaims/" + claim["metadata"]["name"]):
                    return self.answer(200, claim)
        return self.answer(404, {"kind": "Status", "code": 404})

    def watch(self, version):
        server = self.server
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

        def line(kind, thing):
            data = json.dumps({"type": kind, "object": thing}).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        end, restarts = time.monotonic() + 3, server.restarts
        with server.lock:
            old = len(server.events) == 1000 and version < server.events[0][0] - 1
            if server.gone > 0 or old:
                server.gone = max(0, server.gone - 1)
                line("ERROR", {"kind": "Status", "code": 410})
                end = 0
        while time.monotonic() < end:
            with server.lock:
                for number, kind, claim in [one for one in server.events if one[0] > version]:
                    line(kind, claim)
                    version = number
                server.lock.wait(0.2)
            if server.restarts != restarts:
                self.close_connection = True
                return
            line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
        self.wfile.write(b"0\r\n\r\n")

    def change(self, name, body, wanted):
        server = self.server
        server.used.add(("create" if wanted == 201 else "update", "resourceslices"))
        name = name or body["metadata"]["name"]
        with server.lock:
            server.seen.append((self.command, body["metadata"]["name"]))
            there = server.slices.get(name)
            if server.conflicts > 0:
                server.conflicts -= 1
                return self.answer(409, {"kind": "Status", "code": 409})
            if (there is None) != (wanted == 201):
                return self.answer(404 if there is None else 409, {"kind": "Status"})
            meta = body["metadata"]
            if there and meta.get("resourceVersion") != there["metadata"]["resourceVersion"]:
                return self.answer(409, {"kind": "Status", "code": 409})
            meta["resourceVersion"] = server.next()
            server.slices[name] = body
            server.published += 1
        return self.answer(wanted, body)

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def do_POST(self):
        self.change(None, self.body(), 201)

    def do_PUT(self):
        self.change(self.path.rsplit("/", 1)[1], self.body(), 200)

    def do_DELETE(self):
        self.server.used.add(("delete", "resourceslices"))
        with self.server.lock:
            there = self.server.slices.pop(self.path.rsplit("/", 1)[1], None)
            self.server.published += 1
        return self.answer(200 if there else 404, {"kind": "Status"})
