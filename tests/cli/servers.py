"""What tests of the command line run beside it: servers that answer, free ports, terminals."""

import http.server
import json
import os
import socket
import threading


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with bodies of a known length, and logs nothing."""

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", media="application/json", **headers):
        """`body`: bytes, a text, or what is sent as JSON. `headers`: a_b is A-B."""
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        data = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", media)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-").title(), str(value))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def started(handler, **state):
    """A server on a free port of this machine, with these attributes."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    for name, value in state.items():
        setattr(server, name, value)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def all_of(terminal):
    """What is written to a terminal's other end until it is closed."""
    output = b""
    try:
        while True:
            output += os.read(terminal, 4096)
    except OSError:
        return output
    finally:
        os.close(terminal)
