"""A small server of the Open Inference Protocol for tests of what sends requests: every model takes
four numbers, and `answer` says what becomes of a request."""

import contextlib
import http.server
import ssl
import threading
import time

from servers import Answers


class Handler(Answers):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        name = self.path.rsplit("/", 1)[1]
        shape = [-1, 2, 2]
        self.answer(200, {
            "name": name, "inputs": [{"name": "x", "datatype": "FP32", "shape": shape}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": shape}]})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.requests.append((self.path, dict(self.headers), body))
            number = len(self.server.requests)
        status, seconds = self.server.answer(number)
        time.sleep(seconds)
        self.answer(status, {})


@contextlib.contextmanager
def serving(answer=lambda number: (200, 0.002), certificate=None):
    """A server on a free port: its URL and the requests that it got."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.request_queue_size = True, 128
    server.lock, server.requests, server.answer = threading.Lock(), [], answer
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        scheme = "https" if certificate else "http"
        yield f"{scheme}://localhost:{server.server_port}", server.requests
    finally:
        server.shutdown()
        server.server_close()
