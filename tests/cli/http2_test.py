"""The gateway over HTTP/2, by clients that others wrote: curl, h2load, TLS of Python's. Each that
is not installed is passed over; what our own client asks is in node/serve/front/http2_test.cc."""

import json
import os
import re
import shutil
import ssl
import socket
import subprocess
import unittest

from gateway_harness import GatewayCase
from harness import PROGRAM

WORKER = (PROGRAM + " worker --null --service {service} --batch {batch} --input x:FP32:2"
          " --output-tensor y:FP32:2")
ASK = json.dumps({"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32",
                              "data": [1.0, 2.5]}]})


class Http2Test(GatewayCase):
    def begin(self, *arguments):
        self.assign(1, ("d", "s", 16, 1))
        self.gateway(*arguments)
        self.start("workers", "--command", WORKER)
        self.until_ready(("d", 0))

    def url(self, scheme="http"):
        return f"{scheme}://127.0.0.1:{self.port}/v2/models/s/infer"

    def curl(self, *arguments):
        """The version of HTTP, the status, and the body."""
        done = subprocess.run(["curl", "-sS", "-w", "\n%{http_version} %{http_code}", *arguments],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        body, said = done.stdout.rsplit("\n", 1)
        return said, body

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl_hears_over_http_2_what_it_hears_over_http_1(self):
        self.begin()
        old = self.curl("--http1.1", "-d", ASK, self.url())
        new = self.curl("--http2-prior-knowledge", "-d", ASK, self.url())
        self.assertEqual((old[0], new[0]), ("1.1 200", "2 200"))
        self.assertEqual(old[1], new[1])
        self.assertEqual(json.loads(new[1])["outputs"][0]["data"], [1.0, 2.5])
        # A client that asks to change over while it speaks HTTP/1.1 is answered in that.
        self.assertEqual(self.curl("--http2", "-d", ASK, self.url())[0], "1.1 200")

    @unittest.skipUnless(shutil.which("h2load"), "h2load is not installed")
    def test_h2load_has_all_its_answers(self):
        self.begin()
        with open(self.path("ask.json"), "w") as file:
            file.write(ASK)
        done = subprocess.run(["h2load", "-n", "5000", "-c", "10", "-m", "10", "-d",
                               self.path("ask.json"), self.url()],
                              capture_output=True, text=True, timeout=120)
        self.assertRegex(done.stdout, r"5000 succeeded, 0 failed, 0 errored, 0 timeout")
        self.assertRegex(done.stdout, r"status codes: 5000 2xx")
        status, text = self.get("/metrics")
        self.assertEqual(status, 200)
        self.assertIn('nv_inference_request_success{model="s",version="1"} 5000\n', text)
        self.assertIn("\npartita_http2_floods_total 0\n", text)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_tls_offers_it(self):
        certificate, key = self.path("cert.pem"), self.path("key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=gateway", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate,
                        "-days", "1"], check=True, capture_output=True)
        os.chmod(key, 0o600)
        self.begin("--tls-cert", certificate, "--tls-key", key)
        for offered, chosen in ((["h2", "http/1.1"], "h2"), (["http/1.1", "h2"], "h2"),
                                (["http/1.1"], "http/1.1"), (["spdy/1"], None), ([], None)):
            trust = ssl.create_default_context(cafile=certificate)
            if offered:
                trust.set_alpn_protocols(offered)
            with socket.create_connection(("127.0.0.1", self.port), 30) as plain:
                with trust.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                    self.assertEqual(secure.selected_alpn_protocol(), chosen, offered)
        if shutil.which("curl"):
            said = self.curl("--cacert", certificate, "-d", ASK, self.url("https"))
            self.assertEqual(said[0], "2 200")
            self.write("large", "x" * 400_000)
            said = self.curl("--cacert", certificate, "-d", "@" + self.path("large"),
                             self.url("https"))
            self.assertEqual(said[0], "2 400")


if __name__ == "__main__":
    unittest.main()
