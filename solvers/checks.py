"""Checks of what users set in a solver's Params: an InputError names the solver and the key."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from typing import Any, get_args

from costmodel.errors import InputError, did_you_mean
from costmodel.number_checks import is_number as is_number
from costmodel.number_checks import is_whole as is_whole


def check(where: str, key: str, right: bool, expected: str, found: object) -> None:
    """InputError unless ``right``."""
    if not right:
        raise InputError(where, expected, found, key=key)


def check_counts(where: str, params: object, least: ReadOnlyDict[str, int]) -> None:
    """InputError unless each field of ``params`` that ``least`` names is a whole number of at least that."""
    for key, smallest in least.items():
        value = getattr(params, key)
        check(where, key, is_whole(value, smallest), f"a whole number of at least {smallest}", value)


def check_switches(where: str, params: object, *keys: str) -> None:
    """InputError unless each of the fields ``keys`` is true or false."""
    for key in keys:
        value = getattr(params, key)
        check(where, key, isinstance(value, bool), "true or false", value)


def check_choices(where: str, params: object, choices: ReadOnlyDict[str, Any]) -> None:
    """InputError unless each field that ``choices`` names is a string of the ``Literal`` type given there."""
    for key, literal in choices.items():
        value = getattr(params, key)
        if value not in (names := get_args(literal)):
            raise InputError(where, f"one of {', '.join(names)}", value, did_you_mean(value, names), key=key)
