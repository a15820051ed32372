"""Runs a handler: ``python -m once_handler MODULE:HANDLER [--port PORT]``.

Without --port it answers requests on standard input, as ``exec:`` in once.yaml needs it. With
--port it is a server for development; use wsgi() with a server of your choice in production.
"""

from __future__ import annotations

import argparse
import importlib
import ipaddress
import os
from typing import Any

from ._exec import serve, take_streams
from ._handler import MAX_REQUEST, Handler
from ._http import Endpoint, server
from ._signature import TOLERANCE


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m once_handler", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument("handler", metavar="MODULE:HANDLER", help='such as "stock:stock"')
    parser.add_argument("--port", type=int, help="serve HTTP at this port; 0 takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument(
        "--secret",
        help="env:NAME or file:PATH, as in once.yaml; without it signatures are not checked, "
        "and other machines must not reach the host",
    )
    parser.add_argument(
        "--insecure", action="store_true", help="let other machines call without --secret"
    )
    parser.add_argument(
        "--show-errors", action="store_true", help="write the text of exceptions into answers"
    )
    options = parser.parse_args(arguments)
    try:
        if options.port is None:
            _run(options.handler)
        else:
            _serve(options)
    except UsageError as e:
        parser.error(str(e))
    except KeyboardInterrupt:
        pass


class UsageError(Exception):
    """The arguments name something that is not there."""


def _run(name: str) -> None:
    requests, answers = take_streams()  # before the module can print
    try:
        serve(load(name), requests, answers)
    except BrokenPipeError:
        pass  # once has ended


def _serve(options: argparse.Namespace) -> None:
    secret = None if options.secret is None else read_secret(options.secret)
    try:
        endpoint = Endpoint(
            load(options.handler), secret, TOLERANCE, MAX_REQUEST, options.show_errors
        )
    except ValueError as e:
        raise UsageError(f"--secret {options.secret}: {e}") from None
    with server(endpoint, options.host, options.port) as s:
        host, port = s.server_address[:2]
        local = ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
        if secret is None and not local and not options.insecure:
            raise UsageError(
                f"other machines reach {host!s}: give --secret or --insecure, or leave out --host"
            )
        print(f"{options.handler} listens on http://{host!s}:{port}", flush=True)
        s.serve_forever()


def load(name: str) -> Handler[Any]:
    """Return the handler that a name such as ``stock:stock`` means."""
    module, colon, attribute = name.partition(":")
    if not module or not colon or not attribute:
        raise UsageError(f"{name!r} must be MODULE:HANDLER")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as e:
        if e.name != module:
            raise  # the module is there, and imports another one that is not
        raise UsageError(f"there is no module {module!r} here or in PYTHONPATH") from None
    if not isinstance(found, Handler):
        raise UsageError(f"{module} has no handler {attribute!r}: is it decorated with @handler?")
    return found


def read_secret(place: str) -> str:
    """Return the secret at ``env:NAME`` or ``file:PATH``."""
    kind, _, name = place.partition(":")
    try:
        if kind == "env":
            return os.environ[name]
        if kind == "file":
            with open(name, encoding="utf-8") as file:
                return file.read()
    except (KeyError, OSError):
        raise UsageError(f"there is no secret at {place}") from None
    raise UsageError("a secret is at env:NAME or file:PATH")


if __name__ == "__main__":
    main()
