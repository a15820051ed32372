"""The form in which ``once dev`` starts a handler: requests on stdin, answers on stdout."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

from ._handler import MAX_REQUEST, log
from ._json import decode, encode, replace_surrogates

if TYPE_CHECKING:
    from ._handler import Handler

MAX_ERROR = 1000
"""How many characters of an error the answer has."""


def run(handler: Handler[Any]) -> None:
    """Answer each line of stdin with a line on stdout, until stdin ends."""
    requests, answers = take_streams()
    try:
        serve(handler, requests, answers)
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # once has ended, or ends


_streams: list[BinaryIO] = []


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return stdin and stdout for the requests and answers alone.

    From now on, the program and its children print to stderr in place of stdout, and read nothing.
    """
    if not _streams:
        _streams.extend((os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", 0)))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)  # and prints its buffer to stderr
    requests, answers = _streams
    return requests, answers


def take_streams_early() -> None:
    """Take the streams when the package is imported, if ``once dev`` has started this program."""
    if "ONCE_STREAM" in os.environ:
        take_streams()


def serve(handler: Handler[Any], requests: BinaryIO, answers: BinaryIO) -> None:
    while True:
        line = requests.readline(MAX_REQUEST + len(b"\n"))
        if not line.endswith(b"\n") and len(line) <= MAX_REQUEST:
            return  # the end; a line that is cut off has nobody who waits for its answer
        rest = memoryview(answer(handler, line, requests).encode() + b"\n")
        while rest:  # a write to a pipe may end in the middle
            rest = rest[answers.write(rest) :]


def answer(handler: Handler[Any], line: bytes, requests: BinaryIO) -> str:
    if len(line) > MAX_REQUEST and not line.endswith(b"\n"):
        while line and not line.endswith(b"\n"):
            line = requests.readline(1 << 20)
        return encode({"error": f"the request is longer than {MAX_REQUEST} bytes"})
    try:
        request = decode(line)
        result = handler.answer(request)
        if "attempt" in request:  # it shows which request this answers
            result["attempt"] = request["attempt"]
        return encode(result)
    except Exception as e:
        log.exception("the handler failed")
        text = f"{type(e).__name__}: {e}"[:MAX_ERROR]
        return encode({"error": replace_surrogates(text)})
