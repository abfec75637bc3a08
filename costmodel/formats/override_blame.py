"""Which replaced value it is because of which a sound file makes no hardware."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from costmodel.errors import InputError, OverrideError

Hardware = TypeVar("Hardware")


def built_with(
    build: Callable[[Mapping[str, Any]], Hardware], overrides: Mapping[str, Any], where: str
) -> Hardware:
    """What ``build`` makes of ``overrides``; an InputError that follows from one of them names that one."""
    try:
        return build(overrides)
    except OverrideError:
        raise
    except InputError as error:
        raise _because_of(error, overrides, where, build) from None


def _because_of(
    error: InputError, overrides: Mapping[str, Any], where: str, build: Callable[[Mapping[str, Any]], object]
) -> InputError:
    """``error``, which follows from ``overrides`` together with the file, as an error of an override.

    An area that is too large names the area, which nobody wrote; the reader looks for the size. ``build``
    makes the hardware of some of the overrides, and the first override without which it succeeds is named.
    The error stays as it is where the file alone is wrong, or where two overrides are wrong each for itself.
    """
    for key in overrides:
        rest = {other: value for other, value in overrides.items() if other != key}
        try:
            build(rest)
        except InputError:
            continue
        expected = f"{error.expected} for {error.key}" if error.key else error.expected
        return OverrideError(f"override of {where}", expected, error.found, error.remedy, key=key)
    return error
