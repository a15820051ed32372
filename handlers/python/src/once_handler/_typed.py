"""JSON values as dataclasses."""

from __future__ import annotations

import dataclasses
import sys
import typing
from typing import Any

_UNIONS: list[Any] = [typing.Union]
if sys.version_info >= (3, 10):
    import types

    _UNIONS.append(types.UnionType)


def load(kind: Any, value: Any, path: str, *, strict: bool) -> Any:
    """Return a JSON value as a dataclass, or as another type that a field of one may have.

    Raises ValueError if the value does not fit, and if ``strict``, if an item of a list has a field
    that the dataclass does not have: :func:`carry` can't keep it. Raises TypeError for a type that
    can't be loaded.
    """
    return _Loader(strict).load(kind, value, path)


def carry(kind: Any, old: Any, new: Any) -> Any:
    """Return a JSON value with those fields of an older one that the dataclasses do not have.

    They are kept in objects that are at the same path in both values, but not in items of lists.
    """
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in _UNIONS:
        others = [a for a in arguments if a is not type(None)]
        return carry(others[0], old, new) if len(others) == 1 else new
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    if origin is dict and arguments:
        return {k: carry(arguments[1], old[k], v) if k in old else v for k, v in new.items()}
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        return new
    hints = typing.get_type_hints(kind)
    known = {f.name for f in dataclasses.fields(kind)}
    kept = {k: v for k, v in old.items() if k not in known}
    return {
        **{k: carry(hints[k], old[k], v) if k in old else v for k, v in new.items()},
        **kept,
    }


class _Loader:
    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.lists = 0

    def load(self, kind: Any, value: Any, path: str) -> Any:
        if kind is Any:
            return value
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            return self._dataclass(kind, value, path)
        origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
        if origin in _UNIONS:
            return self._optional(kind, arguments, value, path)
        if origin is list:
            item = arguments[0] if arguments else Any
            _check(list, value, path)
            self.lists += 1
            items = [self.load(item, v, f"{path}[{i}]") for i, v in enumerate(value)]
            self.lists -= 1
            return items
        if origin is dict:
            item = arguments[1] if arguments else Any
            _check(dict, value, path)
            return {k: self.load(item, v, f"{path}.{k}") for k, v in value.items()}
        return _scalar(kind, value, path)

    def _dataclass(self, kind: type, value: Any, path: str) -> Any:
        _check(dict, value, path)
        hints = typing.get_type_hints(kind)
        fields = {f.name: f for f in dataclasses.fields(kind) if f.init}
        for name in value:
            if self.strict and self.lists and name not in fields:
                raise ValueError(f"{path} has the field {name!r}, {kind.__name__} does not")
        for name, f in fields.items():
            required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
            if required and name not in value:
                raise ValueError(f"{path} must have the field {name!r}")
        known = {name: v for name, v in value.items() if name in fields}
        return kind(**{n: self.load(hints[n], v, f"{path}.{n}") for n, v in known.items()})

    def _optional(self, kind: Any, arguments: tuple[Any, ...], value: Any, path: str) -> Any:
        others = [a for a in arguments if a is not type(None)]
        if value is None and len(others) < len(arguments):
            return None
        if len(others) != 1:
            raise TypeError(f"{path}: values of {kind} can't be loaded")
        return self.load(others[0], value, path)


def _scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind not in (str, int, float, bool):
        raise TypeError(f"{path}: values of {kind} can't be loaded")
    _check(kind, value, path)
    return value


_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


def _check(kind: type, value: Any, path: str) -> None:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{path} must be {_NAMES[kind]}")
