"""Handlers over HTTP: an application for WSGI servers, and a server for development."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from ._handler import UNREADABLE, StateError, log
from ._json import decode, encode, replace_surrogates
from ._message import RequestError
from ._signature import Secrets, keys_of, verify_keys

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from ._handler import Handler


class Response(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes

    def headers(self) -> list[tuple[str, str]]:
        list = [("Content-Type", self.content_type), ("Content-Length", str(len(self.body)))]
        if self.status == HTTPStatus.METHOD_NOT_ALLOWED:
            list.append(("Allow", "POST"))
        return list


def problem(status: HTTPStatus, detail: str) -> Response:
    """Return a problem of RFC 9457."""
    document = {"type": "about:blank", "title": status.phrase, "status": int(status)}
    text = encode({**document, "detail": replace_surrogates(detail)})
    return Response(status, "application/problem+json", text.encode())


class Endpoint:
    """Answers HTTP requests with a handler."""

    def __init__(
        self,
        handler: Handler[Any],
        secrets: Secrets | None,
        tolerance: float,
        max_request: int,
        show_errors: bool,
    ) -> None:
        self._handler = handler
        self._keys = None if secrets is None else keys_of(secrets)
        self._tolerance = tolerance
        self._max_request = max_request
        self._show_errors = show_errors

    def respond(
        self, method: str, headers: Mapping[str, str], length: str, read: Callable[[int], bytes]
    ) -> Response:
        """Return the response to a request. ``read`` returns so many bytes of its body."""
        if method != "POST":
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, "requests are made by POST")
        if not (length.isascii() and length.isdigit() and len(length) < len(str(sys.maxsize))):
            return problem(HTTPStatus.LENGTH_REQUIRED, "the request needs a Content-Length")
        if int(length) > self._max_request:
            return problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the request has more than {self._max_request} bytes",
            )
        body = read(int(length))
        if len(body) < int(length):
            return problem(HTTPStatus.BAD_REQUEST, "the request is cut off")
        if self._keys is not None and not verify_keys(
            self._keys, headers, body, self._tolerance, time.time()
        ):
            return problem(HTTPStatus.UNAUTHORIZED, "the signature is wrong, or too old")
        return self._answer(body)

    def _answer(self, body: bytes) -> Response:
        try:
            request = decode(body)
        except ValueError:
            return problem(HTTPStatus.BAD_REQUEST, "the request is not JSON")
        try:
            text = encode(self._handler.answer(request))
        except RequestError as e:
            return problem(HTTPStatus.BAD_REQUEST, str(e))
        except Exception as e:
            log.exception("the handler failed")
            # once puts "the handler failed: " before the detail
            detail = (
                f"{type(e).__name__}: {e}"
                if self._show_errors
                else "an exception; the log of the handler has it"
            )
            if isinstance(e, StateError) and not self._show_errors:
                detail = f"{UNREADABLE}: {detail}"
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail)
        return Response(HTTPStatus.OK, "application/json", text.encode())


def application(endpoint: Endpoint) -> WSGIApplication:
    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        headers = {
            name[len("HTTP_") :].replace("_", "-"): str(value)
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        response = endpoint.respond(
            environ["REQUEST_METHOD"],
            headers,
            environ.get("CONTENT_LENGTH") or "",
            environ["wsgi.input"].read,
        )
        status = f"{int(response.status)} {response.status.phrase}"
        start_response(status, response.headers())
        return [response.body]

    return app


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120  # of an idle connection: longer than once keeps one
    wbufsize = -1  # one packet for head and body
    endpoint: Endpoint

    def _respond(self) -> None:
        response = self.endpoint.respond(
            self.command,
            dict(self.headers.items()),
            self.headers.get("Content-Length", ""),
            self.rfile.read,
        )
        # A refused request may have a body that was not read.
        self.close_connection |= response.status != HTTPStatus.OK
        self.send_response(response.status)
        for name, value in response.headers():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(response.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _respond

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: once logs each failed request."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


def server(endpoint: Endpoint, host: str, port: int) -> ThreadingHTTPServer:
    """Return a server for development, which listens. Each connection has a thread."""
    return _Server((host, port), type("Connection", (_Connection,), {"endpoint": endpoint}))
