from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest
from typing import Any, NamedTuple
from unittest import mock
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

from contract import encode, request
from program import noisy

HERE = pathlib.Path(__file__).resolve().parent
KEY = b"a secret of twenty bytes"
SECRET = "whsec_" + base64.b64encode(KEY).decode()


def sign(body: bytes, key: bytes = KEY, at: float | None = None) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    mac = hmac.digest(key, f"a-1.{stamp}.".encode() + body, hashlib.sha256)
    signature = "v1," + base64.b64encode(mac).decode()
    return {"webhook-id": "a-1", "webhook-timestamp": stamp, "webhook-signature": signature}


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class TestWSGI(unittest.TestCase):
    def setUp(self) -> None:
        printed = mock.patch("sys.stdout", io.StringIO())
        printed.start()
        self.addCleanup(printed.stop)

    def call(self, body: bytes, headers: dict[str, str] | None = None, **options: Any) -> Got:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": options.pop("method", "POST"),
            "wsgi.input": io.BytesIO(body),
            "CONTENT_TYPE": "application/json",
            "QUERY_STRING": "",
        }
        environ["CONTENT_LENGTH"] = length = options.pop("length", str(len(body)))
        for name, value in (headers or {}).items():
            environ["HTTP_" + name.upper().replace("-", "_")] = value
        setup_testing_defaults(environ)
        got: list[Any] = []

        def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
            got.extend([int(status[:3]), dict(headers)])

        app = noisy.wsgi(**{"secrets": None, **options})
        if length.isdecimal() and len(length) < 20:
            app = validator(app)
        answer = app(environ, start_response)
        content = b"".join(answer)
        getattr(answer, "close", bool)()
        self.assertEqual(got[1]["Content-Length"], str(len(content)))
        return Got(got[0], got[1], json.loads(content))

    def problem(self, got: Got, status: int) -> str:
        self.assertEqual(got.status, status, got)
        self.assertEqual(got.headers["Content-Type"], "application/problem+json")
        self.assertEqual(got.body["status"], status)
        return str(got.body["detail"])

    def test_a_request_is_answered(self) -> None:
        got = self.call(encode(request(0)))
        self.assertEqual((got.status, got.body["state"]), (200, 1))
        self.assertEqual(got.headers["Content-Type"], "application/json")

    def test_a_rejected_message_is_an_answer(self) -> None:
        got = self.call(encode(request("reject")))
        self.assertEqual(got, Got(200, got.headers, {"messages": [{"id": "m-1", "reject": "no"}]}))

    def test_signatures(self) -> None:
        body = encode(request(0))
        for headers, status in (
            (sign(body), 200),
            ({}, 401),
            (sign(body + b" "), 401),
            (sign(body, b"another secret"), 401),
            (sign(body, at=time.time() - 900), 401),
            (sign(body, at=time.time() + 900), 401),
        ):
            got = self.call(body, headers, secrets=["whsec_AAAA", SECRET])
            self.assertEqual(got.status, status, headers)
        old = sign(body, at=time.time() - 900)
        self.assertEqual(self.call(body, old, secrets=SECRET, tolerance=1000).status, 200)

    def test_without_a_secret_there_is_no_application(self) -> None:
        for secrets in ("", [], "?"):
            with self.assertRaises(ValueError):
                noisy.wsgi(secrets=secrets)
        with self.assertRaises(TypeError):
            noisy.wsgi()  # type: ignore[call-arg]

    def test_a_failure_is_in_the_log_and_not_in_the_answer(self) -> None:
        body = encode(request("fail"))
        with self.assertLogs("once_handler", "ERROR") as logs:
            got = self.call(body)
        self.assertIn("an internal secret", logs.output[0])
        self.assertEqual("an exception; the log of the handler has it", self.problem(got, 500))
        with self.assertLogs("once_handler", "ERROR"):
            got = self.call(body, show_errors=True)
        self.assertIn("RuntimeError: an internal secret", self.problem(got, 500))

    def test_a_bad_request_is_refused(self) -> None:
        for body in (b"", b"{", b"\xff", b"[" * 100_000, b"NaN"):
            self.assertIn("not JSON", self.problem(self.call(body), 400))
        self.assertIn("at least one message", self.problem(self.call(encode(request())), 400))
        self.assertIn("cut off", self.problem(self.call(b"{}", length="3"), 400))
        for length in ("", "-1", "x", "9" * 5000):
            self.problem(self.call(b"{}", length=length), 411)
        self.assertIn("more than 9", self.problem(self.call(b"{}" * 5, max_request=9), 413))
        got = self.call(b"", method="GET")
        self.problem(got, 405)
        self.assertEqual(got.headers["Allow"], "POST")


class TestServer(unittest.TestCase):
    def serve(self, *arguments: str) -> http.client.HTTPConnection:
        process = subprocess.Popen(
            [sys.executable, "-m", "once_handler", "program:noisy", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            cwd=HERE,
            env={**os.environ, "TEST_SECRET": SECRET},
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        assert process.stdout
        self.addCleanup(process.stdout.close)
        line = process.stdout.readline().decode()
        found = re.fullmatch(r"program:noisy listens on http://127\.0\.0\.1:(\d+)\n", line)
        assert found, line
        return self.connect(int(found[1]))

    def connect(self, port: int) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.addCleanup(connection.close)
        return connection

    def post(self, c: http.client.HTTPConnection, body: bytes, **headers: str) -> Got:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        c.request("POST", "/any/path", body, named)
        r = c.getresponse()
        return Got(r.status, dict(r.getheaders()), json.loads(r.read()))

    def test_a_connection_is_kept_and_others_are_served_beside_it(self) -> None:
        first = self.serve()
        second = self.connect(first.port)
        for _ in range(3):
            for c in (first, second):
                got = self.post(c, encode(request(0)))
                self.assertEqual((got.status, got.body["state"]), (200, 1))
                self.assertIsNotNone(c.sock, "the server keeps the connection")

    def test_signatures_are_verified(self) -> None:
        c = self.serve("--secret", "env:TEST_SECRET")
        body = encode(request(0))
        self.assertEqual(self.post(c, body).status, 401)
        headers = {name.replace("-", "_"): value for name, value in sign(body).items()}
        self.assertEqual(self.post(c, body, **headers).status, 200)

    def test_mistakes_in_the_arguments_are_named(self) -> None:
        for secret, want in (
            ("env:NOT_SET", "no secret at env:NOT_SET"),
            ("file:nowhere", "no secret at file:nowhere"),
            ("whsec_AAAA", "env:NAME or file:PATH"),
            (f"file:{HERE / 'contract.py'}", "must be base64"),
        ):
            command = [sys.executable, "-m", "once_handler", "program:noisy", "--port", "0"]
            ended = subprocess.run(
                [*command, "--secret", secret],
                capture_output=True,
                timeout=120,
                cwd=HERE,
                check=False,
            )
            self.assertEqual(ended.returncode, 2)
            self.assertIn(want, ended.stderr.decode())


if __name__ == "__main__":
    unittest.main()
