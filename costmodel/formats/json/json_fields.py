"""Typed access to the fields of JSON objects; an InputError names one that is missing or of another type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.number_checks import is_whole

_KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false"}


def field(data: Any, key: str, kind: type, where: str) -> Any:
    """``data[key]``; InputError if it is missing or not of ``kind`` (dict, list, str or bool)."""
    if not isinstance(data, dict):
        raise InputError(where, f"an object with {key!r}", data)
    if key not in data:
        remedy = did_you_mean(key, [name for name in data if isinstance(name, str)])
        raise InputError(where, f"{key!r}", f"only {', '.join(map(str, data)) or 'nothing'}", remedy, key=key)
    if not isinstance(data[key], kind):
        raise InputError(where, _KINDS[kind], data[key], key=key)
    return data[key]


def whole_number(value: Any, where: str, key: str, least: int = 1) -> int:
    """The value, which must be a whole number of at least ``least``; else InputError."""
    if not is_whole(value, least):
        raise InputError(where, f"a whole number of at least {least}", value, key=key)
    return int(value)


def whole_numbers(data: Any, known: Iterable[str], where: str, key: str) -> dict[str, int]:
    """An object of whole numbers of at least 1 under names that are all in ``known``."""
    if not isinstance(data, dict):
        raise InputError(where, "an object of whole numbers", data, key=key)
    known_names(data, known, where, key)
    return {name: whole_number(value, where, f"{key}.{name}") for name, value in data.items()}


def known_names(names: Iterable[Any], known: Iterable[str], where: str, key: str) -> None:
    """Refuse names that are not in ``known``."""
    choices = list(dict.fromkeys(known))
    for name in names:
        if name not in choices:
            expected = f"names among {', '.join(choices)}" if choices else "no names"
            raise InputError(where, expected, name, did_you_mean(name, choices), key=key)
