"""Handlers, and the attempts that they get."""

from __future__ import annotations

import base64
import dataclasses
import inspect
import logging
import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional, TypeVar, Union, overload

from ._json import decode, encode, is_json, replace_surrogates
from ._message import Message, Reject, RequestError, read_message
from ._signature import TOLERANCE, Secrets
from ._typed import carry
from ._typed import load as load_typed

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

S = TypeVar("S")
After = Union[str, timedelta]
Headers = Optional[Mapping[str, str]]
Function = Callable[[S, Message, "Attempt[S]"], Optional[S]]

MAX_REQUEST = 32 << 20
"""The largest request in bytes. once sends more than 4 MiB only for one message and its state."""

log = logging.getLogger("once_handler")


class Attempt(Generic[S]):
    """One run of a handler for one message. Nothing that it collects is visible before the commit.

    When the handler has returned, its methods raise RuntimeError: a thread must end before.

    A body is text (str), bytes, or any other value that has a form in JSON, dataclasses included.
    Without ``content_type`` it is ``text/plain; charset=utf-8`` for str, ``application/json`` for
    other values, and none for bytes. With a content type of JSON, str and bytes must be JSON.
    """

    def __init__(self, state: S, *, id: str = "", version: int = 0) -> None:
        self.state = state
        """The state of the group. It counts if the handler returns None."""
        self.id = id
        self.version = version
        """The version of the group's record, which grows with each commit."""
        self.replied: dict[str, Any] | None = None
        """The reply so far, as the answer has it. This one and the next two are for tests."""
        self.effects: list[dict[str, Any]] = []
        self.appended: list[dict[str, Any]] = []
        self._ended = False

    def reply(
        self,
        status: int,
        body: Any = None,
        *,
        content_type: str | None = None,
        headers: Headers = None,
    ) -> None:
        """Set the answer for a waiting caller and for each duplicate. The last reply counts.

        The status is an HTTP status from 200 to 599.
        """
        self._check()
        if not isinstance(status, int) or not 200 <= status <= 599:
            raise ValueError("the status of a reply must be from 200 to 599")
        self.replied = {"status": int(status), **_content(body, content_type, headers)}

    def send(
        self,
        to: str,
        body: Any = None,
        *,
        group: str | None = None,
        after: After | None = None,
        content_type: str | None = None,
        headers: Headers = None,
    ) -> None:
        """Add an effect: a message to a destination of the stream, sent after the commit.

        It goes to the group of the handled message unless ``group`` names another one. ``after``
        delays it: a timedelta, or a text such as "30s", "15m", "7d".
        """
        self._check()
        effect: dict[str, Any] = {"to": _name("a destination", to)}
        if group is not None:
            effect["group"] = _name("a group", group)
        if after is not None:
            effect["after"] = _duration(after)
        self.effects.append({**effect, **_content(body, content_type, headers)})

    def append(
        self, body: Any, *, content_type: str | None = None, headers: Headers = None
    ) -> None:
        """Append an entry to the log of the group."""
        self._check()
        self.appended.append(_content(body, content_type, headers))

    def timer(
        self,
        name: str,
        after: After,
        body: Any = None,
        *,
        content_type: str | None = None,
        headers: Headers = None,
    ) -> None:
        """Set a timer: after this time the handler gets a message with ``message.timer == name``.

        A timer of the group with the same name is replaced.
        """
        self._check()
        timer = {"timer": _name("a timer", name), "after": _duration(after)}
        self.effects.append({**timer, **_content(body, content_type, headers)})

    def cancel(self, name: str) -> None:
        """Cancel the timer of the group with this name, if there is one."""
        self._check()
        self.effects.append({"cancel": _name("a timer", name)})

    def _check(self) -> None:
        if self._ended:
            raise RuntimeError("the attempt has ended: join threads before the handler returns")

    def _end(self) -> None:
        """Refuse further calls: what a thread adds later would be lost."""
        self._ended = True

    def _result(self, id: str) -> dict[str, Any]:
        result: dict[str, Any] = {"id": id}
        if self.replied is not None:
            result["reply"] = self.replied
        if self.effects:
            result["effects"] = self.effects
        if self.appended:
            result["append"] = self.appended
        return result


def _name(what: str, name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of {what} must be a text, and not empty")
    return name


def _duration(after: After) -> str:
    if isinstance(after, timedelta):
        milliseconds = math.ceil(after / timedelta(milliseconds=1))
        if milliseconds <= 0:
            raise ValueError("after must be positive")
        return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"
    if (
        not isinstance(after, str)
        or not after
        or not re.fullmatch(r"(\d+d)?(\d+(\.\d+)?(h|ms|m|s))*", after, re.ASCII)
    ):
        raise ValueError(f'after must be a timedelta or a text such as "15m", not {after!r}')
    return after


def _content(body: Any, content_type: str | None, headers: Headers) -> dict[str, Any]:
    """Return the fields of a body. They are copies: the handler may change the value afterwards."""
    fields: dict[str, Any] = {}
    if isinstance(body, (bytes, bytearray, memoryview)):
        fields["body_base64"] = base64.b64encode(body).decode()
    elif isinstance(body, str):
        content_type = "text/plain; charset=utf-8" if content_type is None else content_type
        encode(body)  # fails if it is not Unicode
        fields["body"] = decode(body) if is_json(content_type) else body
    elif body is not None:
        content_type = "application/json" if content_type is None else content_type
        if not is_json(content_type):
            raise TypeError(f"a body of type {content_type!r} must be str or bytes")
        fields["body"] = decode(encode(body))
    if content_type:
        fields["content_type"] = content_type
    if headers:
        for name, value in headers.items():
            if not isinstance(name, str) or not isinstance(value, str) or not name:
                raise TypeError("names and values of headers must be texts")
        fields["headers"] = dict(headers)
    return fields


class Handler(Generic[S]):
    """A function that processes messages, in the forms that once can call. See :func:`handler`."""

    def __init__(
        self,
        function: Function[S],
        load: Callable[[Any], S],
        dump: Callable[[S], Any],
        state: type[S] | None = None,
    ) -> None:
        for kind in (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        ):
            if kind(function):
                raise TypeError("a handler must be a plain function: not async, and without yield")
        self.function = function
        self._load = load
        self._dump = dump
        self._type = state
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "handler")

    def __call__(self, state: S, message: Message, attempt: Attempt[S]) -> S | None:
        """Call the function itself, as a test does."""
        return self.function(state, message, attempt)

    def answer(self, request: Any) -> dict[str, Any]:
        """Return the answer to a request of the handler contract.

        The function is called for each message. If it fails, the answer ends before that message;
        if that is the first one, the exception is raised. Raises RequestError for a bad request.
        """
        messages = _messages(request)
        first = text = self._stored(encode(request.get("state")))
        results: list[dict[str, Any]] = []
        for message in messages:
            try:
                attempt = Attempt(
                    self._state(text),
                    id=str(request.get("attempt", "")),
                    version=request.get("version", 0),
                )
                text = self._run(message, attempt, text)
                results.append(attempt._result(message.id))
            except Reject as e:
                reason = replace_surrogates(str(e)) or "rejected by the handler"
                results.append({"id": message.id, "reject": reason})
            except Exception:
                if not results:
                    raise
                log.exception("message %d of attempt %s failed", len(results) + 1, attempt.id)
                break
        if text == first:
            return {"messages": results}
        return {"state": decode(text), "messages": results}

    def _stored(self, text: str) -> str:
        """Return a stored state as it is encoded if the function does not change it."""
        try:
            return self._encode(self._state(text), text)
        except Exception as e:
            if text == "null":  # a new group: the handler is wrong
                raise
            raise StateError(f"{UNREADABLE}: the stored state does not fit the handler: {e}") from e

    def _run(self, message: Message, attempt: Attempt[S], before: str) -> str:
        """Call the function and return the new state as JSON."""
        try:
            returned = self.function(attempt.state, message, attempt)
        finally:
            attempt._end()
        return self._encode(attempt.state if returned is None else returned, before)

    def _state(self, text: str) -> S:
        return self._load(decode(text))

    def _encode(self, state: S, before: str) -> str:
        text = encode(self._dump(state))
        if self._type is None:
            return text
        return encode(carry(self._type, decode(before), decode(text)))

    def lambda_handler(self, event: Any, context: Any = None) -> dict[str, Any]:
        """Answer a request as a function of AWS Lambda."""
        return self.answer(event)

    def run(self) -> None:
        """Answer the requests on standard input, one in each line, until it ends.

        The answers go to standard output, one in each line. All else that the program prints goes
        to standard error from now on, or if once has started it, since it imported this package.
        """
        from ._exec import run  # noqa: PLC0415 - each front loads only what it needs

        run(self)

    def wsgi(
        self,
        *,
        secrets: Secrets | None,
        tolerance: float = TOLERANCE,
        max_request: int = MAX_REQUEST,
        show_errors: bool = False,
    ) -> WSGIApplication:
        """Return a WSGI application that answers requests by POST at any path.

        ``secrets`` are those of ``handlers:`` in once.yaml, as text or as several texts; a request
        that none of them has signed gets 401. None accepts requests without a signature.
        ``tolerance`` is how many seconds old a request may be, ``max_request`` its size in bytes.
        ``show_errors`` writes the text of an exception into the answer, not only into the log.
        """
        from ._http import Endpoint, application  # noqa: PLC0415

        return application(Endpoint(self, secrets, tolerance, max_request, show_errors))


UNREADABLE = "state-unreadable"
"""At the start of an error, with a colon: the message waits for a version that reads the state."""


class StateError(Exception):
    """The stored state does not fit the type of the handler's state."""


def _messages(request: Any) -> list[Message]:
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        raise RequestError("a request must be an object with messages")
    stream, group = request.get("stream", ""), request.get("group", "")
    if not isinstance(stream, str) or not isinstance(group, str):
        raise RequestError("stream and group must be texts")
    if not request["messages"]:
        raise RequestError("a request must have at least one message")
    return [read_message(stream, group, m) for m in request["messages"]]


def _same(value: Any) -> Any:
    return value


@overload
def handler(function: Function[Any], /) -> Handler[Any]: ...


@overload
def handler(*, state: type[S]) -> Callable[[Function[S]], Handler[S]]: ...


@overload
def handler(
    *, load: Callable[[Any], S], dump: Callable[[S], Any]
) -> Callable[[Function[S]], Handler[S]]: ...


def handler(
    function: Function[Any] | None = None,
    /,
    *,
    state: type[Any] | None = None,
    load: Callable[[Any], Any] | None = None,
    dump: Callable[[Any], Any] | None = None,
) -> Any:
    """Make a handler of a function ``(state, message, attempt)``.

    The function returns the new state; if it returns None, ``attempt.state`` is the new state,
    which is the given one unless the function has changed it. :class:`Reject` refuses the message;
    after any other exception it is retried.

    Without arguments, the state is a JSON value, and None for a new group. ``state`` names a
    dataclass for it; each of its fields needs a default, for a new group. A stored state that does
    not fit fails the attempt. Fields that the dataclass does not have are kept, except in items of
    lists: there they fail the attempt. ``load`` and ``dump`` are functions from and to a JSON
    value, for all other types, and must keep such fields themselves; ``load`` gets None for a new
    group.
    """
    if function is not None:
        return Handler(function, _same, _same)
    if state is not None:
        kind, read = state, _loader(state)
        return lambda function: Handler(function, read, _same, kind)
    if load is None or dump is None:
        raise TypeError("a handler needs state=, or load= and dump=")
    return lambda function: Handler(function, load, dump)


def _loader(kind: type[Any]) -> Callable[[Any], Any]:
    if not dataclasses.is_dataclass(kind):
        raise TypeError("state= must be a dataclass; other types need load= and dump=")
    try:
        new = kind()
    except TypeError:
        raise TypeError(f"each field of {kind.__name__} needs a default, for a new group") from None

    def load(value: Any) -> Any:
        return kind() if value is None else load_typed(kind, value, "state", strict=True)

    load(decode(encode(new)))  # fails for types of fields that can't be loaded
    return load
