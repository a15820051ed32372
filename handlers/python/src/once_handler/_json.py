"""JSON as the handler contract has it: no NaN, no infinity, and UTF-8 only."""

from __future__ import annotations

import dataclasses
import json
from typing import Any


def encode(value: Any) -> str:
    """Return the value as compact JSON. Dataclasses are objects.

    Raises TypeError or ValueError if the value has no form in JSON or in UTF-8. A key that is no
    text has none: it would be another key when the value is read again.
    """
    _check_keys(value)
    text = json.dumps(
        value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    text.encode()  # fails on half of a surrogate pair
    return text


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        _check_keys(fields)
        return fields
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _check_keys(value: Any) -> None:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"keys must be texts, as in JSON: {key!r} is {type(key).__name__}")
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return
    for item in value:
        if isinstance(item, (dict, list, tuple)):
            _check_keys(item)


def decode(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError if it is not JSON in UTF-8."""
    if isinstance(text, bytes):
        text = text.decode()  # json.loads would guess UTF-16, too
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def replace_surrogates(text: str) -> str:
    """Return a text for people without halves of surrogate pairs, which UTF-8 does not have.

    A JSON text that a handler reads can contain them.
    """
    return text.encode("utf-8", "replace").decode()


def is_json(content_type: str) -> bool:
    """Report whether a media type is that of JSON."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")
