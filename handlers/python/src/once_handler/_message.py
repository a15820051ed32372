"""The message that a handler gets."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, overload

from ._json import decode, encode, is_json
from ._typed import load

T = TypeVar("T")


class Reject(Exception):
    """Refuses a message for good: ``raise Reject("why")``.

    The message becomes a dead letter with this text, and is not retried. The text is for people
    and must not contain secrets.
    """


class RequestError(ValueError):
    """The request is not one of once's handler contract."""


class BodyError(Reject, ValueError):
    """The body of the message is not what the handler reads it as. The message is refused."""


@dataclass(frozen=True)
class Message:
    """One message. It may be delivered many times, always with the same id."""

    id: str
    """The sender's name for the message."""
    stream: str = ""
    group: str = ""
    body: Any = None
    """A JSON value if the content type is JSON, otherwise text (str) or bytes; None if empty."""
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    epoch: int = 0
    sequence: int = 0
    timer: str = ""
    """The name of the timer whose message this is, or an empty string."""
    try_: int = 1
    """1 for the first try of the message."""
    accepted: datetime | None = None
    """When the message was accepted."""

    @property
    def text(self) -> str:
        """The body as text; JSON is encoded.

        If it is not UTF-8, the message is refused, unless the handler catches the ValueError.
        """
        if isinstance(self.body, bytes):
            try:
                return self.body.decode()
            except ValueError:
                raise BodyError("the body is not text in UTF-8") from None
        if is_json(self.content_type) and self.body is not None:
            return encode(self.body)
        return self.body or ""

    @overload
    def json(self) -> Any: ...

    @overload
    def json(self, kind: type[T]) -> T: ...

    def json(self, kind: Any = Any) -> Any:
        """Return the body as a JSON value, whatever the content type.

        ``kind`` is a dataclass, for a value of its type; fields that it does not have are ignored.
        If the body is not JSON, or does not fit, the message is refused, unless the handler catches
        the ValueError.
        """
        value = self.body
        if isinstance(value, bytes) or not is_json(self.content_type):
            try:
                value = decode(self.text)
            except ValueError as e:
                raise BodyError("the body is not JSON") from e
        try:
            return load(kind, value, "body", strict=False)
        except ValueError as e:
            raise BodyError(str(e)) from e


def read_message(stream: str, group: str, document: Any) -> Message:
    """Return the message of an entry of the request's ``messages``."""
    if not isinstance(document, dict):
        raise RequestError("a message must be an object")
    body = document.get("body")
    if "body_base64" in document:
        try:
            body = base64.b64decode(_get(document, "body_base64", str, ""), validate=True)
        except ValueError:
            raise RequestError("body_base64 of a message is not base64") from None
    if not document.get("id"):
        raise RequestError("a message must have an id")
    return Message(
        id=_get(document, "id", str, ""),
        stream=stream,
        group=group,
        body=body,
        content_type=_get(document, "content_type", str, ""),
        headers=_get(document, "headers", dict, {}),
        source=_get(document, "source", str, ""),
        epoch=_get(document, "epoch", int, 0),
        sequence=_get(document, "sequence", int, 0),
        timer=_get(document, "timer", str, ""),
        try_=_get(document, "try", int, 1),
        accepted=_time(_get(document, "accepted", str, "")),
    )


def _get(document: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = document.get(name, default)
    if not isinstance(value, kind):
        raise RequestError(f"{name} of a message must be {kind.__name__}")
    return value


def _time(text: str) -> datetime | None:
    """Return an RFC 3339 time. Digits after the microseconds are dropped."""
    if not text:
        return None
    parts = re.fullmatch(r"([\dT:-]+?)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", text)
    try:
        if not parts:
            raise ValueError
        seconds, fraction, zone = parts.groups()
        zone = "+00:00" if zone in "Zz" else zone
        return datetime.fromisoformat(f"{seconds}.{(fraction or '')[:6]:0<6}{zone}")
    except ValueError:
        raise RequestError("accepted of a message must be an RFC 3339 time") from None
